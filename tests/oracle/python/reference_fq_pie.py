"""FQ-PIE as Linux has it (`net/sched/sch_fq_pie.c`): the lists of FQ-CoDel, and a PIE in each queue, so that all is
decided at arrivals.

Written from that code by a reader who had seen neither the code that is compared nor another reference.

Chosen where it leaves room:
- The queues' law is that of RFC 8033, `reference_pie.py`, by time stamps; Linux calculates it in 56 bits.
- The updates of all queues are at T_UPDATE, 2 T_UPDATE and so on, before whatever else happens at that instant
  (Linux: in jiffies, after half a second first, at most 2048 queues in one go).
- All queues share the random numbers, in the order of the arrivals that need one. The hash is the flow's number
  modulo the queues.

By design not as in Linux: a packet that would exceed `memory_limit` is dropped. Linux counts it (`overmemory`) and
lets it in.
"""

from flow_lists import Lists
from reference_pie import Law
from reference_world import drop as lose


class FqPie(Lists):
    def __init__(self, c, draws):
        self.c = c
        super().__init__(c["quantum"], (Law(c, draws, "timestamps") for _ in range(c["queues"])))
        self.next_update = c["t_update"]

    def catch_up(self, now):
        while self.next_update <= now:
            for queue in self.queues:
                queue.law.calculate_drop_prob(queue.bytes)
            self.next_update += self.c["t_update"]

    def arrive(self, packet, now):
        self.catch_up(now)
        queue = self.queues[packet.flow % len(self.queues)]
        law = queue.law
        if law.is_quiet():
            law.burst_allowance = self.c["max_burst"]
        if self.packets >= self.c["limit"] or self.bytes + packet.size > self.c["memory_limit"]:
            law.accu_prob = 0.0
            lose(packet, "overflow", now)
            return
        verdict = law.decide(packet, queue.bytes)
        if verdict == "drop":
            lose(packet, "early", now)
            return
        if verdict == "mark":
            packet.mark = "early"
        self.join(queue, packet, now)

    def next(self, now):
        self.catch_up(now)
        while self.new or self.old:
            line = self.new if self.new else self.old
            queue = line[0]
            if queue.deficit <= 0:
                queue.deficit += self.c["quantum"]
                self.old.append(line.popleft())
                continue
            if not queue.fifo:
                line.popleft()
                if line is self.new and self.old:
                    self.old.append(queue)
                else:
                    queue.listed = False
                continue
            packet, came = queue.fifo.popleft()
            queue.deficit -= packet.size
            queue.bytes -= packet.size
            self.packets -= 1
            self.bytes -= packet.size
            queue.law.departed(packet, now - came, queue.bytes, now)
            return packet
        return None

    def idle(self, now):
        self.catch_up(now)

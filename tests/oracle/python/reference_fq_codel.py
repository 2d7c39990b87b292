"""FQ-CoDel: RFC 8290, section 4, and for what it leaves open Linux (`net/sched/sch_fq_codel.c`).

Queues with packets stand in one of two lists, new before old, and are served by deficit round robin in bytes, each
with a CoDel of its own. A full buffer takes packets from the head of the queue with most bytes.

Written from those by a reader who had seen neither the code that is compared nor another reference.

Chosen where they leave room:
- A new queue that is found empty goes to the end of the old ones if there are any (Linux; the RFC: always).
- The packet that arrives is first appended, then the limits are looked at: it may be among those that are taken. Of
  queues with equally many bytes the first loses. Memory is counted in the bytes of packets.
- The hash is the flow's number modulo the number of queues. `backlog` says which bytes must be more than
  `maxpacket` for CoDel to act: those of the queue, or those of all (Linux).

By design not as in Linux, which takes one batch for each arrival: batches follow until the limits hold.

Beyond it: sets of `ways` queues as in CAKE (`cake_hash`, `sch_cake.c`); from the hashed queue on, the one that the
flow had last, else one that is in no list, else the hashed one.
"""

from flow_lists import Lists
from reference_codel import Law
from reference_codel_linux import LinuxLaw
from reference_world import drop as lose


class FqCodel(Lists):
    def __init__(self, c):
        law_of = LinuxLaw if c["variant"] == "linux" else Law
        self.c = c
        super().__init__(c["quantum"], (law_of(c) for _ in range(c["queues"])))

    def find(self, flow):
        hashed, ways = flow % len(self.queues), self.c["ways"]
        inner, outer = hashed % ways, hashed - hashed % ways
        in_turn = [self.queues[outer + (inner + i) % ways] for i in range(ways)]
        for queue in in_turn:
            if queue.tag == flow:
                return queue
        for queue in in_turn:
            if not queue.listed:
                break
        else:
            queue = in_turn[0]
        queue.tag = flow
        return queue

    def arrive(self, packet, now):
        queue = self.find(packet.flow)
        self.join(queue, packet, now)
        while self.packets > self.c["limit"] or self.bytes > self.c["memory_limit"]:
            self.drop_batch(now)

    def drop_batch(self, now):
        fattest = max(self.queues, key=lambda queue: queue.bytes)
        threshold = fattest.bytes // 2
        taken = length = 0
        while True:
            packet, _ = self.pop(fattest)
            lose(packet, "overflow", now)
            taken += 1
            length += packet.size
            if taken >= self.c["drop_batch"] or length >= threshold:
                break
        fattest.law.punish(taken)

    def pop(self, queue):
        if not queue.fifo:
            return None
        head = queue.fifo.popleft()
        queue.bytes -= head[0].size
        self.bytes -= head[0].size
        self.packets -= 1
        return head

    def next(self, now):
        while self.new or self.old:
            line = self.new if self.new else self.old
            queue = line[0]
            if queue.deficit <= 0:
                queue.deficit += self.c["quantum"]
                self.old.append(line.popleft())
                continue
            counted = self if self.c["backlog"] == "all" else queue
            packet = queue.law.dequeue(
                now,
                lambda queue=queue: self.pop(queue),
                lambda counted=counted: counted.bytes,
                lambda lost: lose(lost, "early", now),
            )
            if packet is None:
                line.popleft()
                if line is self.new and self.old:
                    self.old.append(queue)
                else:
                    queue.listed = False
                continue
            queue.deficit -= packet.size
            return packet
        return None

    def idle(self, now):
        pass

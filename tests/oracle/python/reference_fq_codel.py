"""FQ-CoDel as published: RFC 8290, section 4, with two lists of queues and a list of packets for each queue.

Settled: a queue whose credits are used up, at zero, has its quantum and goes to the end of the old queues (section 4.2: "it has
already dequeued at least a quantum of bytes"). When more waits than may, the queue with the most bytes (of several the first)
loses packets from its head until half of its bytes are gone, or `drop_batch` packets; their number is added to the count of its
CoDel (Linux, `fq_codel_drop`); so again while it is still too much. The hash is the flow's number modulo the number of queues.
With `ways` above one, the queue is looked for as CAKE does it (`cake_hash`): in the set of so many queues that the hash is in, from
the hashed one on, first the one that the flow had last, then one in neither list; if there is none, it is the hashed one.
Above `ce_threshold` every packet that can carry a mark leaves with one (Linux).
`backlog` says which bytes must be more than `maxpacket` for CoDel to act: those of the queue, or as in Linux those of all.
"""

from reference_codel import Codel
from reference_codel_linux import LinuxCodel
from reference_world import drop


class Queue:
    """One queue: its packets and its CoDel, its credits and the flow that had it last."""

    def __init__(self, fq):
        kind = LinuxCodel if fq.c["variant"] == "linux" else Codel
        self.codel = kind(fq.c)
        own = self.codel.bytes
        self.bytes = own
        if fq.c["backlog"] == "all":
            self.codel.bytes = lambda: sum(queue.bytes() for queue in fq.queues)
        self.credits = 0
        self.tag = None


class FqCodel:
    def __init__(self, c):
        self.c = c
        self.queues = []
        self.queues.extend(Queue(self) for _ in range(c["queues"]))
        self.new, self.old = [], []

    def classify(self, flow):
        direct = flow % self.c["queues"]
        ways = self.c["ways"]
        first = direct - direct % ways
        order = [first + (direct + i) % ways for i in range(ways)]
        had = [i for i in order if self.queues[i].tag == flow]
        free = [i for i in order if i not in self.new and i not in self.old]
        chosen = (had + free + [direct])[0]
        self.queues[chosen].tag = flow
        return chosen

    def is_too_much(self):
        packets = sum(len(queue.codel.queue) for queue in self.queues)
        return packets > self.c["limit"] or sum(queue.bytes() for queue in self.queues) > self.c["memory_limit"]

    def arrive(self, packet, now):
        chosen = self.classify(packet.flow)
        queue = self.queues[chosen]
        packet.came = now
        queue.codel.queue.append((packet, now))
        if chosen not in self.new and chosen not in self.old:
            self.new.append(chosen)
            queue.credits = self.c["quantum"]
        while self.is_too_much():
            self.drop_from_fattest(now)

    def drop_from_fattest(self, now):
        fattest = max(self.queues, key=lambda queue: queue.bytes())
        before, dropped = fattest.bytes(), 0
        while True:
            packet, _ = fattest.codel.queue.pop(0)
            drop(packet, "overflow", now)
            dropped += 1
            if dropped >= self.c["drop_batch"] or before - fattest.bytes() >= before // 2:
                break
        fattest.codel.count += dropped

    def next(self, now):
        while self.new or self.old:
            of = self.new if self.new else self.old
            queue = self.queues[of[0]]
            if queue.credits <= 0:
                queue.credits += self.c["quantum"]
                self.old.append(of.pop(0))
                continue
            packet = queue.codel.next(now)
            if packet is None:
                emptied = of.pop(0)
                # An empty new queue waits for a turn of the old ones, so that it cannot starve them.
                if of is self.new and self.old:
                    self.old.append(emptied)
                continue
            queue.credits -= packet.size
            if packet.ect and self.is_late(packet, now):
                packet.mark = "early"
            return packet
        return None

    def is_late(self, packet, now):
        threshold = self.c["ce_threshold"]
        if threshold is None:
            return False
        if self.c["variant"] == "linux":
            return (now >> 10) - (packet.came >> 10) > threshold >> 10
        return now - packet.came > threshold

    def idle(self, now):
        pass

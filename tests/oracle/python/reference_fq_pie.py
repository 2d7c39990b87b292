"""FQ-PIE as in Linux (`sch_fq_pie.c`): the lists of flow queueing of RFC 8290, section 4, and PIE (RFC 8033) in each queue.

Settled, beside what `reference_pie.py` and `reference_fq_codel.py` settle: all queues share the random numbers, in the order of the
arrivals that need one; updates of every queue are at multiples of t_update; a packet that would exceed a limit of all queues
together is dropped, as by a queue that is full.
"""

from reference_pie import Pie


class Queue(Pie):
    """One queue: PIE, with credits; it is never full by itself."""

    def __init__(self, c, draws, is_full):
        super().__init__(c | {"on_demand": False, "estimator": "timestamps"}, draws)
        self.is_full = is_full
        self.credits = 0
        self.tag = None


class FqPie:
    def __init__(self, c, draws):
        self.c = c
        self.queues = []
        self.queues.extend(Queue(c, draws, self.is_too_much) for _ in range(c["queues"]))
        self.new, self.old = [], []

    def is_too_much(self, packet):
        packets = 1 + sum(len(queue.queue) for queue in self.queues)
        waiting = packet.size + sum(queue.byte_length() for queue in self.queues)
        return packets > self.c["limit"] or waiting > self.c["memory_limit"]

    def arrive(self, packet, now):
        chosen = packet.flow % self.c["queues"]
        queue = self.queues[chosen]
        before = len(queue.queue)
        queue.arrive(packet, now)
        if len(queue.queue) > before and chosen not in self.new and chosen not in self.old:
            self.new.append(chosen)
            queue.credits = self.c["quantum"]

    def next(self, now):
        while self.new or self.old:
            of = self.new if self.new else self.old
            queue = self.queues[of[0]]
            if queue.credits <= 0:
                queue.credits += self.c["quantum"]
                self.old.append(of.pop(0))
                continue
            packet = queue.next(now)
            if packet is None:
                emptied = of.pop(0)
                if of is self.new and self.old:
                    self.old.append(emptied)
                continue
            queue.credits -= packet.size
            return packet
        return None

    def idle(self, now):
        pass

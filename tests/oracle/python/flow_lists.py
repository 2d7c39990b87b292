"""Queues with a law each that stand in one of two lists, new before old: what FQ-CoDel and FQ-PIE have in common
(RFC 8290, section 4)."""

from collections import deque


class Queue:
    def __init__(self, law):
        self.law = law
        self.fifo = deque()
        self.bytes = 0
        self.deficit = 0
        self.listed = False
        self.tag = None


class Lists:
    def __init__(self, quantum, laws):
        self.quantum = quantum
        self.queues = [Queue(law) for law in laws]
        self.new, self.old = deque(), deque()
        self.packets = self.bytes = 0

    def join(self, queue, packet, now):
        queue.fifo.append((packet, now))
        queue.bytes += packet.size
        self.packets += 1
        self.bytes += packet.size
        if not queue.listed:
            queue.listed = True
            queue.deficit = self.quantum
            self.new.append(queue)

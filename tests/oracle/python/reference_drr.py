"""DRR as published: Shreedhar & Varghese, SIGCOMM 1995, section 3 (Enqueuing and Dequeuing modules; names as there).

Settled: the victim of a full buffer is the packet at the head of the longest queue (of several the lowest number), after
the arriving packet has joined, as in ns-2.
"""

from reference_world import drop


class Drr:
    def __init__(self, c):
        self.c = c
        self.queues, self.dc, self.active_list = {}, {}, []
        self.visited = False  # whether the head of the active list has its quantum of this round

    def size(self, i):
        if self.c["limit"][0] == "packets":
            return len(self.queues[i])
        return sum(p.size for p in self.queues[i])

    def arrive(self, packet, now):
        i = packet.flow
        self.queues.setdefault(i, []).append(packet)
        if i not in self.active_list:
            self.active_list.append(i)
            self.dc[i] = 0
        while sum(self.size(k) for k in self.queues) > self.c["limit"][1]:
            longest = max(self.active_list, key=lambda k: (self.size(k), -k))
            drop(self.queues[longest].pop(0), "overflow", now)
            if not self.queues[longest]:
                self.leave(longest)

    def leave(self, i):
        if self.active_list[0] == i:
            self.visited = False
        self.active_list.remove(i)
        self.dc[i] = 0

    def next(self, now):
        while self.active_list:
            i = self.active_list[0]
            if not self.visited:
                self.dc[i] += self.c["quantum"]
                self.visited = True
            if self.queues[i][0].size <= self.dc[i]:
                packet = self.queues[i].pop(0)
                self.dc[i] -= packet.size
                if not self.queues[i]:
                    self.leave(i)
                return packet
            self.active_list.append(self.active_list.pop(0))
            self.visited = False
        return None

    def idle(self, now):
        pass

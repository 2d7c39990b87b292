"""SFQ as ns-2 has it: bins in turns of one packet; a bin takes at most half of what is left of the buffer.

Settled: the bin is the flow's number, modulo the number of bins. Each time that the hash moves, a flow moves by one bin, and by
one more for each time that the numbers have gone round before its own (`perturb` nanoseconds apart; packets that wait stay where they are, thesis of Feng, section 4.5.4). With `bin_limit` each bin is a queue
of so many bytes for itself, and there is no common limit.
"""

from reference_world import drop


class Sfq:
    def __init__(self, c):
        self.c = c
        self.bins = [[] for _ in range(c["buckets"])]
        self.round = []

    def admits(self, b, packet):
        if "bin_limit" in self.c:
            return sum(p.size for p in self.bins[b]) + packet.size <= self.c["bin_limit"]
        used = len(self.bins[b])
        left = self.c["limit"] - sum(len(other) for other in self.bins)
        half = used >= left // 2
        unfair = left < self.c["buckets"] and used > self.c["limit"] // self.c["buckets"]
        return not (half or unfair or left <= 0)

    def arrive(self, packet, now):
        moves = now // self.c["perturb"] if self.c.get("perturb") else 0
        buckets = self.c["buckets"]
        b = (packet.flow + moves * (1 + packet.flow // buckets)) % buckets
        if not self.admits(b, packet):
            drop(packet, "overflow", now)
            return
        self.bins[b].append(packet)
        if b not in self.round:
            self.round.append(b)

    def next(self, now):
        if not self.round:
            return None
        b = self.round.pop(0)
        packet = self.bins[b].pop(0)
        if self.bins[b]:
            self.round.append(b)
        return packet

    def idle(self, now):
        pass

"""The PI controller: Hollot, Misra, Towsley and Gong 2001, section IV, equation p(kT) = a dq(kT) - b dq((k-1)T) + p((k-1)T).

Settled: a sample at the instant of an arrival or a departure comes first, and does not count the packet in transmission; the
probability is kept in [0, 1]; overflow comes before the random decision; in bytes the queue is counted in mean packets, and the
probability of a packet is p size / mean packet (ns-2).
"""

from reference_world import drop


class Pi:
    def __init__(self, c, draws):
        self.c, self.draws = c, draws
        self.queue = []
        self.k = 0
        self.p = 0.0
        self.q_old = 0.0

    def length(self):
        if self.c["mode"] == "bytes":
            return sum(packet.size for packet in self.queue) / self.c["mean_packet"]
        return float(len(self.queue))

    def samples_until(self, now):
        while (self.k + 1) * self.c["period"] <= now:
            self.k += 1
            q, q_ref = self.length(), self.c["q_ref"]
            p = self.c["a"] * (q - q_ref) - self.c["b"] * (self.q_old - q_ref) + self.p
            self.p = min(1.0, max(0.0, p))
            self.q_old = q

    def arrive(self, packet, now):
        self.samples_until(now)
        kind, most = self.c["limit"]
        held = len(self.queue) + 1 if kind == "packets" else sum(p.size for p in self.queue) + packet.size
        if held > most:
            drop(packet, "overflow", now)
            return
        p = self.p
        if self.c["mode"] == "bytes":
            p = p * packet.size / self.c["mean_packet"]
        if self.draws.chance(p):
            if not (self.c["ecn"] and packet.ect):
                drop(packet, "early", now)
                return
            packet.mark = "early"
        self.queue.append(packet)

    def next(self, now):
        self.samples_until(now)
        return self.queue.pop(0) if self.queue else None

    def idle(self, now):
        self.samples_until(now)

"""The adaptive virtual queue: Kunniyur and Srikant 2001, section 2 (the listing "At each packet arrival epoch").

Settled: in bytes and seconds; the virtual capacity begins at `start` times that of the link, with the first packet; a packet that is
dropped because the virtual queue is full does not adapt the capacity, and the time since the last adaptation goes on (ns-2); one
that is dropped by the real queue has arrived for both. While packets are dropped and the virtual capacity is zero, the virtual queue is
emptied with what the capacity has gained since its last adaptation, for nothing else would open it again.
"""

from reference_world import drop


class Avq:
    def __init__(self, c, draws):
        self.c = c
        self.queue = []
        self.C = 1e9 / c["nanos_per_byte"]
        self.C_virtual = c["start"] * self.C
        self.VQ = 0.0
        self.last_arrival = None
        self.last_adaptation = None

    def arrive(self, packet, now):
        c, b = self.c, packet.size
        if self.last_arrival is None:
            self.last_arrival = self.last_adaptation = now
        capacity = self.C_virtual
        if capacity <= 0.0 and self.last_arrival > self.last_adaptation:
            t = (now - self.last_adaptation) / 1e9
            capacity = min(c["alpha"] * c["gamma"] * self.C * t, self.C)
        self.VQ = max(self.VQ - capacity * ((now - self.last_arrival) / 1e9), 0.0)
        self.last_arrival = now
        is_over = self.VQ + b > c["virtual_bytes"]
        if not is_over:
            self.VQ += b
        elif not (c["ecn"] and packet.ect):
            drop(packet, "early", now)
            return
        t = (now - self.last_adaptation) / 1e9
        self.last_adaptation = now
        grown = min(self.C_virtual + c["alpha"] * c["gamma"] * self.C * t, self.C)
        self.C_virtual = max(grown - c["alpha"] * b, 0.0)
        kind, most = c["limit"]
        held = len(self.queue) + 1 if kind == "packets" else sum(p.size for p in self.queue) + b
        if held > most:
            drop(packet, "overflow", now)
            return
        if is_over:
            packet.mark = "early"
        self.queue.append(packet)

    def next(self, now):
        return self.queue.pop(0) if self.queue else None

    def idle(self, now):
        pass

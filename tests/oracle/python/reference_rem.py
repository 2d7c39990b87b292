"""Random exponential marking: Athuraliya, Li, Low and Yin 2001, section 2, with ns-2's units and filter.

Price: p(t+1) = [p(t) + gamma (alpha (b(t) - b*) + x(t) - c)]+, with x and c in packets for each update; a packet is notified with
probability 1 - phi^-p. Settled: an update at the instant of an arrival or a departure comes first; all arrivals count for x,
which is filtered with weight w; overflow comes before the random decision, which is made at the arrival; in bytes, queue and
input are counted in mean packets, and the probability of a packet is scaled by its size (ns-2).
"""

from reference_world import drop


class Rem:
    def __init__(self, c, draws):
        self.c, self.draws = c, draws
        self.queue = []
        self.t = 0
        self.came = 0
        self.x = 0.0
        self.price = 0.0

    def amount(self, packets):
        if self.c["mode"] == "bytes":
            return sum(packet.size for packet in packets) / self.c["mean_packet"]
        return float(len(packets))

    def updates_until(self, now):
        c = self.c
        while (self.t + 1) * c["period"] <= now:
            self.t += 1
            came = self.came / c["mean_packet"] if c["mode"] == "bytes" else float(self.came)
            self.x = (1.0 - c["w"]) * self.x + c["w"] * came
            capacity = c["period"] / (c["nanos_per_byte"] * c["mean_packet"])
            excess = c["alpha"] * (self.amount(self.queue) - c["b_ref"]) + self.x - capacity
            self.price = max(0.0, self.price + c["gamma"] * excess)
            self.came = 0

    def arrive(self, packet, now):
        self.updates_until(now)
        self.came += packet.size if self.c["mode"] == "bytes" else 1
        kind, most = self.c["limit"]
        held = len(self.queue) + 1 if kind == "packets" else sum(p.size for p in self.queue) + packet.size
        if held > most:
            drop(packet, "overflow", now)
            return
        probability = 1.0 - self.c["phi"] ** -self.price
        if self.c["mode"] == "bytes":
            probability = probability * packet.size / self.c["mean_packet"]
        if self.draws.chance(probability):
            if not (self.c["ecn"] and packet.ect):
                drop(packet, "early", now)
                return
            packet.mark = "early"
        self.queue.append(packet)

    def next(self, now):
        self.updates_until(now)
        return self.queue.pop(0) if self.queue else None

    def idle(self, now):
        self.updates_until(now)

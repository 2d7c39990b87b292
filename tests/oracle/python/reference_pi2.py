"""PI2 with one queue: De Schepper, Bondarenko, Tsang & Briscoe, CoNEXT 2016, in the terms of its code (`sch_pi2.c`): what is kept is
the probability of scalable packets, at most one, and a classic packet is hit where two draws below a k-th part of it both say so.

Settled: the delay is how long the last packet that left had waited, and zero where it left nothing behind; an update that is due at the
instant of an arrival or a departure comes first; updates are at multiples of T_UPDATE from zero; no 2 % are taken off while idle; no
packet is hit while less than two MTU wait, the arrival not counted; a mark on a packet that has one counts again. Gains are those of
the base probability, so that here they are multiplied by k.
"""

from reference_dualpi2 import CE, ECT0, ECT1, NOT_ECT
from reference_world import drop

SCALABLE = {"ect1": (ECT1, CE), "ect": (ECT0, ECT1, CE), "none": ()}


class Pi2:
    def __init__(self, c, draws):
        self.c, self.draws = c, draws
        self.queue = []  # (packet, when it came)
        self.prob = 0.0
        self.qdelay = self.qdelay_old = 0
        self.updates = 0

    def backlog(self):
        return sum(packet.size for packet, _ in self.queue)

    def timer_until(self, now):
        c = self.c
        for _ in range(self.updates, now // c["t_update"]):
            far = (self.qdelay - c["target"]) / 1e9
            grown = (self.qdelay - self.qdelay_old) / 1e9
            self.prob += c["k"] * (c["alpha"] * far + c["beta"] * grown)
            self.prob = min(max(self.prob, 0.0), min(1.0, c["k"]))
            self.qdelay_old = self.qdelay
        self.updates = now // c["t_update"]

    def is_hit(self, packet):
        if self.backlog() < 2 * self.c["mtu"]:
            return False
        if self.c["ecn"] and packet.ecn in SCALABLE[self.c["scalable"]]:
            return self.draws.chance(self.prob)
        classic = self.prob / self.c["k"]
        first = self.draws.chance(classic)
        return first and self.draws.chance(classic)  # think twice

    def arrive(self, packet, now):
        self.timer_until(now)
        kind, most = self.c["limit"]
        if (len(self.queue) + 1 if kind == "packets" else self.backlog() + packet.size) > most:
            drop(packet, "overflow", now)
            return
        if self.is_hit(packet):
            if packet.ecn == NOT_ECT or not self.c["ecn"]:
                drop(packet, "early", now)
                return
            packet.mark = "early"
        self.queue.append((packet, now))

    def next(self, now):
        self.timer_until(now)
        if not self.queue:
            return None
        packet, came = self.queue.pop(0)
        self.qdelay = now - came if self.queue else 0
        return packet

    def idle(self, now):
        self.timer_until(now)

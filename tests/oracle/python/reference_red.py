"""RED as published: Floyd & Jacobson, IEEE/ACM ToN 1(4), 1993, Fig. 2 (names as there), and as ns-2 has it.

Settled: the link's idle time counts from the end of the last transmission; a refused packet does not end it; overflow
drops and comes after the decision of the average.
"""

import math

from reference_world import drop


class Red:
    def __init__(self, c, rate_bps, draws):
        self.c, self.draws = c, draws
        self.s = c["packet_bytes"] * 8 / rate_bps  # transmission time of a typical packet
        self.avg, self.count, self.count_bytes, self.old = 0.0, -1, 0, False
        self.q_time = 0  # start of the idle time, None while busy
        self.queue = []
        self.ns = c["flavor"] == "ns"

    # -- the queue in the unit of the thresholds
    def q(self):
        if self.c["unit"] == "bytes":
            return sum(p.size for p in self.queue) / self.c["packet_bytes"]
        return len(self.queue)

    def update_average(self, now):
        w, q = self.c["w"], self.q()
        if self.q_time is None:
            self.avg = (1 - w) * self.avg + w * q
        else:
            m = (now - self.q_time) / 1e9 / self.s
            if self.ns:
                self.avg = (1 - w) ** (math.floor(m) + 1) * self.avg + w * q
            else:
                self.avg = (1 - w) ** m * self.avg
            self.q_time = now

    def p_b(self):
        lo, hi, max_p = self.c["min_th"], self.c["max_th"], self.c["max_p"]
        if self.avg < hi:
            return max_p * (self.avg - lo) / (hi - lo)
        return max_p + (1 - max_p) * (self.avg - hi) / hi

    def p_a(self, size):
        p, count, scale = self.p_b(), self.count, size / self.c["packet_bytes"]
        in_bytes = self.c["unit"] == "bytes"
        if in_bytes and self.ns:
            count = self.count_bytes // self.c["packet_bytes"]
        elif in_bytes:
            p = min(1.0, p * scale)
        if self.c["gap_law"] == "paper":
            p = 1.0 if count * p >= 1 else min(1.0, p / (1 - count * p))
        elif count * p < 1:
            p = 0.0
        elif count * p < 2:
            p = min(1.0, p / (2 - count * p))
        else:
            p = 1.0
        return min(1.0, p * scale) if in_bytes and self.ns and p < 1 else p

    def decide(self, packet):
        """None, "early" or "forced"."""
        forced_from = 2 * self.c["max_th"] if self.c["gentle"] else self.c["max_th"]
        in_bytes = self.c["unit"] == "bytes"
        waiting = sum(p.size for p in self.queue) if in_bytes else len(self.queue)
        if self.avg < self.c["min_th"] or (self.ns and waiting <= 1):
            self.count, self.count_bytes, self.old = -1, 0, False
            return None
        if self.avg >= forced_from:
            self.count, self.count_bytes = 0, 0
            return "forced"
        if self.ns and not self.old:
            self.count, self.count_bytes, self.old = 1, packet.size, True  # first above min_th: never marked
            return None
        self.count += 1
        self.count_bytes += packet.size
        if self.draws.chance(self.p_a(packet.size)):
            self.count, self.count_bytes = 0, 0
            return "early"
        return None

    def full(self, packet):
        kind, limit = self.c["limit"]
        if kind == "packets":
            return len(self.queue) >= limit
        return sum(p.size for p in self.queue) + packet.size > limit

    def arrive(self, packet, now):
        self.update_average(now)
        why = self.decide(packet)
        random_victim = self.c["victim"] == "random"
        if self.full(packet):
            why = "overflow"
            if self.ns:
                self.count, self.count_bytes = 0, 0
            random_victim = random_victim and self.c["limit"][0] == "packets"
        marks = self.c["ecn"] and packet.ect
        if why is None:
            self.queue.append(packet)
        elif marks and (why == "early" or (why == "forced" and self.c["ecn_when_forced"])):
            packet.mark = why
            self.queue.append(packet)
        elif why == "early" or not random_victim:
            drop(packet, why, now)
            return
        else:
            self.queue.append(packet)
            victim = self.queue.pop(self.draws.below(len(self.queue)))
            drop(victim, why, now)
            if victim is packet:
                return
        self.q_time = None

    def next(self, now):
        return self.queue.pop(0) if self.queue else None

    def idle(self, now):
        if self.q_time is None:
            self.q_time = now

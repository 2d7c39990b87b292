"""CSFQ as published: Stoica, Shenker & Zhang, SIGCOMM 1998, Fig. 3 (names as there).

Settled: alpha = 0 is "no restriction"; it ends when an arrival finds the queue at the threshold, with the largest label
seen since it began, or C/2 without labels, and until then congestion is not looked at; an uncongested window that ends
with a shorter queue brings it back; packets at one instant count as one; overflow lowers alpha by 1 % but not below 75 % of its value at the start of the window.
"""

import math

from reference_world import drop


class Estimate:
    """Section 3.1."""

    def __init__(self, k, first_counts):
        self.k, self.rate, self.last, self.sum = k, 0.0, None, 0
        self.first_counts = first_counts

    def add(self, length, now):
        """Whether the estimate changed."""
        if self.last is None:
            self.last = now
            if self.first_counts:
                self.rate = length / self.k  # the limit of (1 - e^(-T/K)) l/T for T to 0
            else:
                self.sum = length
            return False
        self.sum += length
        if now == self.last:
            return False
        t = (now - self.last) / 1e9
        keep = math.exp(-t / self.k)
        self.rate = (1 - keep) * self.sum / t + keep * self.rate
        self.last, self.sum = now, 0
        return True


class Edge:
    """Labels packets with the rate of their flow in whole bytes per second, at least one."""

    def __init__(self, k):
        self.k, self.flows = k, {}

    def label(self, packet, now):
        estimate = self.flows.setdefault(packet.flow, Estimate(self.k, True))
        estimate.add(packet.size, now)
        packet.label = max(1, int(estimate.rate))


class Csfq:
    def __init__(self, c, rate_bps, draws):
        self.c, self.draws, self.C = c, draws, rate_bps / 8
        self.alpha, self.tmp_alpha = 0.0, 0.0
        self.congested, self.start_time = False, 0
        self.A, self.F = Estimate(c["k_alpha"], False), Estimate(c["k_alpha"], False)
        self.queue = []
        self.cut_time, self.cut_from = 0, 0.0

    def set_alpha(self, alpha, now):
        self.alpha, self.start_time = alpha, now
        self.cut_time, self.cut_from = now, alpha

    def estimate_alpha(self, packet, dropped, now):
        changed = self.A.add(packet.size, now)
        self.F.add(0 if dropped else packet.size, now)
        if not changed:
            return
        long = len(self.queue) >= self.c["threshold_packets"]
        if self.alpha == 0 and not long:
            self.tmp_alpha = max(self.tmp_alpha, packet.label)
            return
        if self.alpha == 0:
            self.set_alpha(float(self.tmp_alpha) or self.C / 2, now)
            self.tmp_alpha = 0
        over = now >= self.start_time + self.c["k_c"] * 1e9
        if self.A.rate >= self.C:
            if not self.congested:
                self.congested, self.start_time = True, now
            elif over:
                self.set_alpha(min(self.C, self.alpha * self.C / self.F.rate if self.F.rate else self.C), now)
        elif self.congested:
            self.congested, self.start_time, self.tmp_alpha = False, now, 0
        elif not over:
            self.tmp_alpha = max(self.tmp_alpha, packet.label)
        else:
            self.set_alpha(float(self.tmp_alpha) if long else 0.0, now)
            self.tmp_alpha = 0

    def arrive(self, packet, now):
        prob = 0.0
        if packet.label and self.alpha > 0:
            prob = max(0.0, 1 - self.alpha / packet.label)
        dropped = self.draws.chance(prob)
        self.estimate_alpha(packet, dropped, now)
        if dropped:
            drop(packet, "fair_share", now)
            return
        if prob > 0 and self.alpha > 0:
            packet.label = max(1, int(self.alpha))
        if len(self.queue) < self.c["limit"][1]:
            self.queue.append(packet)
            return
        if now > self.cut_time + self.c["k_c"] * 1e9:
            self.cut_time, self.cut_from = now, self.alpha
        if self.alpha * 0.99 >= self.cut_from * 0.75:
            self.alpha *= 0.99
        drop(packet, "overflow", now)

    def next(self, now):
        return self.queue.pop(0) if self.queue else None

    def idle(self, now):
        pass

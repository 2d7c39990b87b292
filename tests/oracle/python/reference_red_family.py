"""What is made of RED: Adaptive RED (Feng, thesis, Fig. 3.6, non-linear above max_p = 1), a low-pass filter on the
probability (4.3.3), max_p from the number of active flows (3.5, eq. 3.2), and the penalty box (4.5.1; Floyd & Fall 1999,
sections 3.1 and 3.3). Settled points: the `Deviations:` of the mechanisms.
"""

import math

from reference_red import Red
from reference_world import drop


class AdaptiveRed(Red):
    def __init__(self, c, rate_bps, draws):
        super().__init__(dict(c), rate_bps, draws)
        self.status = "between"

    def update_average(self, now):
        super().update_average(now)
        c, avg = self.c, self.avg
        if c["min_th"] < avg < c["max_th"]:
            self.status = "between"
        if avg < c["min_th"] and self.status != "below":
            self.status = "below"
            c["max_p"] = max(c["max_p"] / c["alpha"], c["floor"])
        if avg > c["max_th"] and self.status != "above":
            self.status = "above"
            c["max_p"] = min(c["max_p"] * c["beta"], c["ceiling"])

    def p_b(self):
        if self.c["max_p"] <= 1:
            return super().p_b()
        x = (self.avg - self.c["min_th"]) / (self.c["max_th"] - self.c["min_th"])
        return 1.0 if x >= 1 else 1.0 - (1.0 - x) ** self.c["max_p"]


class SmoothedRed(AdaptiveRed):
    """The filtered probability alone decides. Also adaptive where `alpha` is given."""

    def __init__(self, c, rate_bps, draws):
        super().__init__(c, rate_bps, draws)
        self.p, self.last, self.now = 0.0, 0, 0

    def update_average(self, now):
        self.now = now
        if "alpha" in self.c:
            super().update_average(now)
        else:
            Red.update_average(self, now)

    def p_b(self):
        return self.p

    def calculated(self):
        waiting = sum(p.size for p in self.queue) if self.c["unit"] == "bytes" else len(self.queue)
        if self.avg < self.c["min_th"] or (self.ns and waiting <= 1):
            return 0.0
        if self.avg >= (2 if self.c["gentle"] else 1) * self.c["max_th"]:
            return 1.0
        return AdaptiveRed.p_b(self)

    def decide(self, packet):
        keep = math.exp(-(self.now - self.last) / 1e9 / self.c["smoothing"])
        self.p = keep * self.p + (1 - keep) * self.calculated()
        self.last = self.now
        if self.p <= 0:
            self.count, self.count_bytes = -1, 0
            return None
        self.count += 1
        self.count_bytes += packet.size
        if self.draws.chance(self.p_a(packet.size)):
            self.count, self.count_bytes = 0, 0
            return "early"
        return None


class CountingRed(Red):
    """max_p from the flows seen in the present window or in the one before."""

    def __init__(self, c, rate_bps, draws):
        super().__init__(dict(c), rate_bps, draws)
        self.windows = {}
        self.in_flight = rate_bps / 8 * c["flows_rtt"] / c["packet_bytes"]

    def arrive(self, packet, now):
        window = now // int(self.c["flows_window"] * 1e9)
        self.windows.setdefault(window, set()).add(packet.flow)
        flows = max(len(self.windows[window]), len(self.windows.get(window - 1, ())))
        per_gap = {"paper": 1, "wait": 3}[self.c["gap_law"]]
        self.c["max_p"] = min(1.0, per_gap * 1.5 * (flows / self.in_flight) ** 2)
        super().arrive(packet, now)


class PenaltyBox:
    def __init__(self, c, rate_bps, draws):
        self.c, self.red = c, Red(c, rate_bps, draws)
        self.log, self.boxed = [], {}  # boxed: flow -> [since, packets, bytes, notified]
        self.since, self.packets, self.bytes, self.notified = 0, 0, 0, 0
        # Tokens in bits times 10^9, exact.
        self.token_rate = round(c["share"] * rate_bps)
        self.depth = 2 * 1500 * 8 * 10**9
        self.tokens, self.tokens_at = self.depth, 0

    def friendly(self, factor, p):
        if p == 0:
            return math.inf
        return factor * self.c["packet_bytes"] / (self.c["rtt"] * math.sqrt(p))

    def arrive(self, packet, now):
        self.release(now)
        if packet.flow in self.boxed:
            box = self.boxed[packet.flow]
            box[1] += 1
            box[2] += packet.size
            self.tokens = min(self.depth, self.tokens + self.token_rate * (now - self.tokens_at))
            self.tokens_at = now
            need = packet.size * 8 * 10**9
            if need > self.tokens:
                drop(packet, "unresponsive", now)
            else:
                self.tokens -= need
                self.red.arrive(packet, now)
            box[3] += bool(packet.mark or packet.fate)
            return
        self.packets += 1
        self.bytes += packet.size
        self.red.arrive(packet, now)
        if packet.mark or packet.fate in ("d-early", "d-forced"):
            self.notified += 1
            weight = packet.size if self.c["unit"] == "packets" else 1
            self.log = (self.log + [(packet.flow, weight)])[-self.c["log"] :]
            if len(self.log) == self.c["log"] and now - self.since >= self.c["period"] * 1e9:
                self.search(now)

    def search(self, now):
        weights = {}
        for flow, weight in self.log:
            weights[flow] = weights.get(flow, 0) + weight
        n, p = len(weights), self.notified / self.packets
        rate = self.bytes / ((now - self.since) / 1e9)
        for flow, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
            share = weight / sum(weights.values())
            unfriendly = share * rate > self.friendly(1.45, p)
            too_much = share > math.log(3 * n) / n and share * rate > self.c["high"] / math.sqrt(p)
            if share > 1 / n and (unfriendly or too_much) and len(self.boxed) < self.c["flows_max"]:
                self.boxed[flow] = [now, 0, 0, 0]
        self.log, self.since = [], now
        self.packets = self.bytes = self.notified = 0

    def release(self, now):
        for flow, (since, packets, size, notified) in list(self.boxed.items()):
            if now - since < self.c["period"] * 1e9:
                continue
            p = notified / packets if packets else 0
            if size / ((now - since) / 1e9) < self.friendly(1.22, p):
                del self.boxed[flow]
            else:
                self.boxed[flow] = [now, 0, 0, 0]

    def next(self, now):
        return self.red.next(now)

    def idle(self, now):
        self.red.idle(now)

"""Stochastic Fair BLUE as published: Feng, thesis, Fig. 4.14 and section 4.4.4 (names as there), with its secrets.

Settled: all bins are updated before a packet is dropped once; p_m not below 0, and not above the ceiling, if there is one; a
bin may step when its freeze time has passed, exactly then included; the limiter is a bucket of one packet of the largest
size; the queue's own limit drops and changes no bin; hash functions change before anything else at their instant, and
packets stay accounted where they were; in the set that is warmed up a refused packet counts as a full bin. Even hash
functions, and bins that begin at the mean of those below 1, are Tidegate's own: stated here once more, not published.
"""

from fractions import Fraction

from reference_world import drop
from siphash import siphash_1_3


class Set:
    """L x N bins with their hash functions."""

    def __init__(self, c, draws):
        self.c = c
        if c["hash"] == "even":
            self.points = []
            for _ in range(c["levels"]):
                point = draws.below(c["bins"])
                while point in self.points:
                    point = (point + 1) % c["bins"]
                self.points.append(point)
        else:
            self.key = (next(draws.bits), next(draws.bits))
        red = c["law"] == "adaptive_red"
        self.bins = [
            [
                {"qlen": 0, "p_m": c["max_p"] if red else 0.0, "avg": 0.0, "status": "between", "last": None}
                for _ in range(c["bins"])
            ]
            for _ in range(c["levels"])
        ]

    def of(self, flow):
        if self.c["hash"] == "even":
            n, rest, digits = self.c["bins"], flow // 2, []
            while rest:
                rest, digit = divmod(rest, n)
                digits.append(digit)
            values = (sum(d * point**k for k, d in enumerate(digits)) % n for point in self.points)
            return [bins[value] for bins, value in zip(self.bins, values)]
        found = []
        for level, bins in enumerate(self.bins):
            number = flow | (level // 2) << 32
            bits = siphash_1_3(*self.key, number.to_bytes(8, "little")) >> (32 * (level % 2)) & 0xFFFFFFFF
            found.append(bins[bits * len(bins) >> 32])
        return found

    def update(self, b, qlen, now):
        c = self.c
        if c["law"] == "blue":
            step = c["increment"] if qlen > c["bin_size"] else -c["decrement"] if qlen == 0 else 0
            if step and (b["last"] is None or c["freeze"] is None or now - b["last"] >= c["freeze"]):
                b["p_m"] = max(0.0, b["p_m"] + step)
                if c["ceiling"] is not None:
                    b["p_m"] = min(c["ceiling"], b["p_m"])
                b["last"] = now
            return
        b["avg"] += c["w"] * (qlen - b["avg"])
        status = "below" if b["avg"] < c["min_th"] else "above" if b["avg"] > c["max_th"] else "between"
        if status != b["status"] and status == "above":
            b["p_m"] = min(1.0, b["p_m"] * c["beta"])
        if status != b["status"] and status == "below":
            b["p_m"] /= c["alpha"]
        b["status"] = status

    def notify(self, b):
        c = self.c
        if c["law"] == "blue":
            return min(1.0, b["p_m"])
        if b["avg"] < c["min_th"]:
            return 0.0
        if b["avg"] >= c["max_th"]:
            return 1.0
        return b["p_m"] * (b["avg"] - c["min_th"]) / (c["max_th"] - c["min_th"])


class Sfb:
    def __init__(self, c, draws):
        self.c, self.draws = c, draws
        self.active = Set(c, draws)
        self.next_set = Set(c, draws) if c["rehash"] and c["double_buffered"] else None
        self.switched = 0
        self.queue = []
        self.accounted = {}  # packet number: the bins that count it
        self.tokens, self.filled = Fraction(c["burst_bytes"]), 0
        self.p_min = 0.0

    def rehash(self, now):
        every = self.c["rehash"]
        turns = (now - self.switched) // every if every else 0
        if not turns:
            return
        self.switched += turns * every
        clean = [b["p_m"] for level in self.active.bins for b in level if b["p_m"] < 1]
        self.change_sets(turns)
        if self.c["bins_begin"] == "mean" and clean:
            for level in self.active.bins:
                for b in level:
                    b["p_m"] = max(b["p_m"], sum(clean) / len(clean))

    def change_sets(self, turns):
        if self.next_set:
            warmed = self.next_set
            # The old active set gets new hash functions before anything else draws.
            self.next_set = Set(self.c, self.draws)
            self.active = warmed if turns == 1 else Set(self.c, self.draws)
        else:
            self.active = Set(self.c, self.draws)

    def ratelimit(self, packet, now):
        earned = Fraction(self.c["nonresponsive_bps"] * (now - self.filled), 8 * 10**9)
        self.tokens, self.filled = min(Fraction(self.c["burst_bytes"]), self.tokens + earned), now
        if self.tokens < packet.size:
            return False
        self.tokens -= packet.size
        return True

    def arrive(self, packet, now):
        self.rehash(now)
        c = self.c
        bins = self.active.of(packet.flow)
        is_full = False
        for b in bins:
            if b["qlen"] > c["bin_size"]:
                is_full = True
            self.active.update(b, b["qlen"], now)
        self.p_min = min(self.active.notify(b) for b in bins)
        nonresponsive = min(b["p_m"] for b in bins) >= 1
        why, mark = None, None
        kind, most = c["limit"]
        waiting = len(self.queue) + 1 if kind == "packets" else sum(p.size for p in self.queue) + packet.size
        if is_full:
            why = "unresponsive" if nonresponsive else "fair_share"
        elif waiting > most:
            why = "overflow"
        elif nonresponsive:
            if not self.ratelimit(packet, now):
                why = "unresponsive"
        elif self.draws.chance(self.p_min):
            if packet.ect:
                mark = "early"
            else:
                why = "early"
        counted = [] if why else bins
        if self.next_set and nonresponsive:
            warm = self.next_set.of(packet.flow)
            for b in warm:
                self.next_set.update(b, c["bin_size"] + 1 if why else b["qlen"], now)
            counted = [] if why else bins + warm
        if why:
            drop(packet, why, now)
            return
        packet.mark = mark
        for b in counted:
            b["qlen"] += 1
        self.accounted[packet.number] = counted
        self.queue.append(packet)

    def next(self, now):
        if not self.queue:
            return None
        packet = self.queue.pop(0)
        self.rehash(now)
        for b in self.accounted.pop(packet.number):
            b["qlen"] -= 1
        return packet

    def idle(self, now):
        pass

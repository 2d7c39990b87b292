"""Enhanced RED as published: Feng, thesis, section 5.2.2 (names as there), and fair ERED, section 6.5.2.

Settled: packets of odd flows are marked; a full buffer comes before everything; a marked packet is a sample of the average
(of what `counted` says) but neither tested nor counted as a gap; unmarked ones are RED's (Floyd & Jacobson 1993, Fig. 2) or
FRED's, whose flows hold the packets that `counted` says; the bounds of the unmarked packets come before the tests.
"""

from reference_world import drop


def is_marked(packet):
    return packet.flow % 2 == 1


class Ered:
    def __init__(self, c, rate_bps, draws):
        self.c, self.draws = c, draws
        self.s = c["packet_bytes"] * 8 / rate_bps
        self.avg, self.count, self.q_time = 0.0, -1, 0
        self.queue = []
        self.strike, self.avgcq = {}, 1.0

    def unmarked(self):
        return [p for p in self.queue if not is_marked(p)]

    def counted(self):
        return len(self.unmarked() if self.c["counted"] == "unmarked" else self.queue)

    def accounted(self):
        return self.unmarked() if self.c["counted"] == "unmarked" else self.queue

    def nactive(self):
        return len({p.flow for p in self.accounted()})

    def sample(self, now):
        """The average, on an arrival."""
        if self.q_time is None:
            self.avg += self.c["w"] * (self.counted() - self.avg)
        else:
            self.avg *= (1 - self.c["w"]) ** ((now - self.q_time) / 1e9 / self.s)
            self.q_time = now

    def share(self, nactive):
        self.avgcq = max(1.0, self.avg / max(1, nactive))

    def is_early(self):
        lo, hi = self.c["min_th"], self.c["max_th"]
        p_b = self.c["max_p"] * (self.avg - lo) / (hi - lo)
        rest = 1 - self.count * p_b
        return self.draws.chance(min(1.0, p_b / rest) if rest > 0 else 1.0)

    def red(self):
        """Why an unmarked packet is dropped."""
        if self.avg < self.c["min_th"]:
            self.count = -1
            return None
        if self.avg >= self.c["max_th"]:
            self.count = 0
            return "forced"
        self.count += 1
        if self.is_early():
            self.count = 0
            return "early"
        return None

    def fred(self, flow):
        lo, hi = self.c["min_th"], self.c["max_th"]
        qlen = sum(p.flow == flow for p in self.accounted())
        strikes = self.strike.get(flow, 0)
        if qlen >= lo or (self.avg >= hi and qlen > 2 * self.avgcq) or (qlen >= self.avgcq and strikes > 1):
            if qlen > 0:
                self.strike[flow] = strikes + 1
            return "fair_share"
        if self.avg < lo:
            self.count = -1
        elif self.avg >= hi:
            self.count = 0
            return "forced"
        else:
            self.count += 1
            if qlen >= max(self.c["min_q"], self.avgcq) and self.is_early():
                self.count = 0
                return "early"
        return None

    def arrive(self, packet, now):
        fair = self.c["fair"]
        if not fair:
            self.sample(now)
        if len(self.queue) >= self.c["limit"][1]:
            drop(packet, "overflow", now)
            return
        if is_marked(packet):
            if fair:
                self.sample(now)
        else:
            if self.c["unmarked_limit"] is not None and len(self.unmarked()) >= self.c["unmarked_limit"]:
                drop(packet, "overflow", now)
                return
            if self.c["absolute"] and self.counted() >= self.c["max_th"]:
                drop(packet, "forced", now)
                return
            finds_nothing = self.counted() == 0
            if fair and finds_nothing:
                # FRED's average is zero-based here: it samples what it found.
                self.sample(now)
                self.share(self.nactive())
            why = self.fred(packet.flow) if fair else self.red()
            if why is not None:
                drop(packet, why, now)
                return
            if fair and not finds_nothing:
                self.sample(now)
        self.queue.append(packet)
        self.q_time = None
        if fair:
            self.share(self.nactive())

    def next(self, now):
        if not self.queue:
            return None
        active = self.nactive()
        leaving = self.queue.pop(0)
        if self.c["fair"]:
            self.avg += self.c["w"] * (self.counted() - self.avg)
            # The flow that leaves still counts here.
            self.share(active)
            if not any(p.flow == leaving.flow for p in self.accounted()):
                self.strike.pop(leaving.flow, None)
        return leaving

    def idle(self, now):
        if self.q_time is None:
            self.q_time = now

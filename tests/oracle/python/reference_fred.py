"""FRED as published: Lin & Morris, SIGCOMM 1997, section 4 (names as there).

Settled (catalogue, section 8): [A] and [C] exclude each other, so "basic" has [B] and [C] and "many_flows" [A] and [B]; the
average is taken once per packet that is accepted or finds nothing waiting, and once per departure, over what waits then;
the link's idle time counts from the end of its last transmission, and a refused packet does not end it; the buffer's
limit comes after the other decisions.
"""

from reference_world import drop


class Fred:
    def __init__(self, c, rate_bps, draws):
        self.c, self.draws = c, draws
        self.s = c["packet_bytes"] * 8 / rate_bps  # transmission time of a typical packet
        self.avg, self.avgcq, self.count = 0.0, 1.0, -1
        self.q_time = 0  # start of the idle time, None while busy
        self.queue = []
        self.strike = {}  # of the flows with packets waiting

    def qlen(self, flow):
        return sum(p.flow == flow for p in self.queue)

    def nactive(self):
        return len({p.flow for p in self.queue})

    def calculate_average(self, now, departing=False):
        if self.q_time is None or departing:
            self.avg = (1 - self.c["w"]) * self.avg + self.c["w"] * len(self.queue)
        else:
            self.avg *= (1 - self.c["w"]) ** ((now - self.q_time) / 1e9 / self.s)
            self.q_time = now

    def share(self, nactive):
        self.avgcq = max(1.0, self.avg / nactive if nactive else self.avg)

    def p_a(self):
        lo, hi = self.c["min_th"], self.c["max_th"]
        p_b = self.c["max_p"] * (self.avg - lo) / (hi - lo)
        rest = 1 - self.count * p_b
        return min(1.0, p_b / rest) if rest > 0 else 1.0

    def arrive(self, packet, now):
        lo, hi, i = self.c["min_th"], self.c["max_th"], packet.flow
        many = self.c["variant"] == "many_flows"
        was_empty = not self.queue
        if was_empty:
            self.calculate_average(now)
            self.share(0)
        qlen = self.qlen(i)
        maxq = 2 if many and self.avg >= hi else lo  # [A]
        if (
            qlen >= maxq
            or (self.avg >= hi and qlen > 2 * self.avgcq)  # [B]
            or (qlen >= self.avgcq and self.strike.get(i, 0) > 1)
        ):
            self.strike[i] = self.strike.get(i, 0) + 1
            drop(packet, "fair_share", now)
            return
        if lo <= self.avg < hi:
            self.count += 1
            if qlen >= max(self.c["min_q"], self.avgcq) and self.draws.chance(self.p_a()):
                self.count = 0
                if not (self.c["ecn"] and packet.ect):
                    drop(packet, "early", now)
                    return
                packet.mark = "early"
        elif self.avg < lo:
            self.count = -1
        else:
            self.count = 0
            if not many:
                drop(packet, "forced", now)  # [C]
                return
        if len(self.queue) >= self.c["limit"][1]:
            packet.mark = None
            drop(packet, "overflow", now)
            return
        if not was_empty:
            self.calculate_average(now)
        self.queue.append(packet)
        self.q_time = None
        self.share(self.nactive())

    def next(self, now):
        if not self.queue:
            return None
        leaving = self.queue.pop(0)
        self.calculate_average(now, departing=True)
        # The flow that leaves still counts here.
        self.share(len({p.flow for p in self.queue} | {leaving.flow}))
        if self.qlen(leaving.flow) == 0:
            self.strike.pop(leaving.flow, None)
        return leaving

    def idle(self, now):
        if self.q_time is None:
            self.q_time = now

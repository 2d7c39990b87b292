"""Windows of Vegas, Westwood+, Scalable TCP, LEDBAT++ and Copa, and of Reno with ABE and HyStart++, straight from their documents.

Each control hears the same few events and has a window `cwnd` in segments. Times are whole nanoseconds. Where the documents are silent the
settled points of the mechanism's header (`Deviations:`) hold.
"""

from math import ceil, inf

SECOND = 10**9


class Control:
    """RFC 5681 with counted bytes: at most two segments per acknowledgment in slow start, one in that behind a time-out."""

    initial = 10.0

    def __init__(self):
        self.cwnd, self.ssthresh, self.behind_timeout = self.initial, inf, False

    def reno(self, acked, flight):
        if self.cwnd < self.ssthresh:
            if 2 * flight >= self.cwnd:
                self.cwnd += min(acked, 1 if self.behind_timeout else 2)
            return
        self.behind_timeout = False
        if flight + 1 > self.cwnd:
            self.cwnd += acked / self.cwnd

    def ack(self, e):
        if e["opens"]:
            self.opened(e["acked"], e["flight"])

    def reduced(self, flight):
        """The threshold after congestion that found `flight` segments of the window under way."""
        return flight / 2

    def congestion(self, kind, flight, srtt, now):
        if kind == "idle":
            self.cwnd, self.behind_timeout = min(self.cwnd, self.initial), False
            return
        self.ssthresh = max(self.reduced(min(flight, self.cwnd)), 2.0)
        self.behind_timeout = kind == "timeout"
        self.cwnd = 1.0 if kind == "timeout" else min(self.cwnd, self.ssthresh)

    def recovered(self, flight):
        """RFC 6582, section 3.2, step 3; a window below that stays."""
        self.cwnd = max(min(self.cwnd, self.ssthresh, max(flight, 1) + 1), 1.0)


class Scalable(Control):
    """Kelly 2003, section 4.1."""

    a, b, lwnd = 0.01, 0.125, 16

    def opened(self, acked, flight):
        if self.cwnd < self.ssthresh or self.cwnd <= self.lwnd:
            self.reno(acked, flight)
        elif flight + 1 > self.cwnd:
            self.cwnd += self.a * acked

    def reduced(self, flight):
        return flight - (self.b * flight if flight > self.lwnd else flight / 2)


class Westwood(Control):
    """Grieco & Mascolo 2004, section 2."""

    def __init__(self):
        super().__init__()
        self.bwe, self.rtt_min, self.rtt = None, None, 0
        self.count, self.since = 0, None

    def ack(self, e):
        if e["rtt"]:
            self.rtt = e["rtt"]
            self.rtt_min = min(self.rtt_min or inf, e["rtt"])
        if self.since is None:
            self.since = e["now"]
        else:
            self.count += e["delivered"]
            delta = e["now"] - self.since
            if delta >= max(self.rtt, SECOND // 20):
                b = self.count / (delta / SECOND)
                self.bwe = b if self.bwe is None else 7 / 8 * self.bwe + 1 / 8 * b
                self.count, self.since = 0, e["now"]
        if e["opens"]:
            self.reno(e["acked"], e["flight"])

    def reduced(self, flight):
        if self.bwe is None or self.rtt_min is None:
            return flight / 2
        return self.bwe * (self.rtt_min / SECOND)


class Vegas(Control):
    """Brakmo & Peterson 1995, III.B and III.C, and Linux's form of it."""

    alpha, beta, gamma = 2, 4, 1

    def __init__(self, linux):
        super().__init__()
        self.linux, self.base = linux, inf
        self.end, self.rtts, self.grows, self.repairs = 0, [], True, False

    def begin(self, e):
        self.end, self.rtts = e["sent"], []
        self.grows = True if self.linux else not self.grows

    def congestion(self, kind, flight, srtt, now):
        if kind == "idle":
            self.base = inf
        super().congestion(kind, flight, srtt, now)

    def ack(self, e):
        if e["rtt"]:
            self.base = min(self.base, e["rtt"])
            self.rtts.append(e["rtt"])
        if e["repairs"]:
            self.repairs = True
            if e["opens"]:
                self.reno(e["acked"], e["flight"])
        elif self.repairs:
            self.repairs = False
            self.begin(e)
        elif e["opens"]:
            if e["number"] > self.end:
                self.end_of_round(e)
                self.begin(e)
            elif self.cwnd < self.ssthresh and self.grows:
                self.reno(e["acked"], e["flight"])

    def end_of_round(self, e):
        if not self.rtts or self.base == inf:
            return
        if len(self.rtts) <= 2:
            self.reno(e["acked"], e["flight"])
            return
        rtt = min(self.rtts)
        expected, actual = self.cwnd / self.base, self.cwnd / rtt
        diff = (expected - actual) * self.base
        if self.linux:
            diff = (expected - actual) * rtt
        if self.cwnd < self.ssthresh:
            if diff > self.gamma:
                self.cwnd = min(self.cwnd, actual * self.base + 1)
                self.ssthresh = self.cwnd
            elif self.grows:
                self.reno(e["acked"], e["flight"])
        elif diff > self.beta:
            self.cwnd -= 1
            self.ssthresh = min(self.ssthresh, self.cwnd)
        elif diff < self.alpha and e["flight"] + 1 > self.cwnd:
            self.cwnd += 1
        self.cwnd = max(self.cwnd, 2.0)


class Ledbat(Control):
    """RFC 6817, section 2.4.2, with draft-irtf-iccrg-ledbat-plus-plus, section 4."""

    initial_cwnd, target, minute = 2.0, SECOND * 60 // 1000, 60 * SECOND

    def __init__(self):
        super().__init__()
        self.cwnd = self.initial_cwnd
        self.history, self.current = {}, []
        self.is_first, self.slowdown, self.frozen_until, self.next = True, None, None, inf

    def delay(self):
        base = min(self.history.values())
        return min(self.current) - base, base

    def ack(self, e):
        now = e["now"]
        if e["rtt"]:
            key = now // self.minute
            self.history = {k: v for k, v in self.history.items() if k > key - 10}
            self.history[key] = min(self.history.get(key, inf), e["rtt"])
            self.current = [*self.current, e["rtt"]][-4:]
        if e["opens"] and self.current:
            self.open(e)
        if self.frozen_until is not None:
            if now >= self.frozen_until:
                self.frozen_until = None
        elif self.slowdown is not None:
            if self.cwnd >= self.ssthresh:
                self.next = now + 9 * (now - self.slowdown)
                self.slowdown = None
        elif not self.is_first and now >= self.next and not e["repairs"] and self.cwnd >= self.ssthresh:
            self.ssthresh, self.cwnd, self.behind_timeout = self.cwnd, 2.0, False
            self.slowdown, self.frozen_until = now, now + 2 * e["srtt"]

    def open(self, e):
        delay, base = self.delay()
        gain = 1 / min(16, ceil(2 * self.target / base))
        if self.is_first and delay > self.target * 3 / 4:
            self.ssthresh = self.cwnd
        used = 2 * e["flight"] >= self.cwnd if self.cwnd < self.ssthresh else e["flight"] + 1 > self.cwnd
        if self.cwnd < self.ssthresh:
            if used and self.frozen_until is None:
                self.cwnd += gain * min(e["acked"], 1 if self.behind_timeout else 2)
            return
        if self.is_first:
            self.is_first, self.next = False, e["now"] + 2 * e["srtt"]
            return
        w = self.cwnd
        if delay <= self.target:
            if used:
                self.cwnd += gain * e["acked"] / w
        else:
            per_round_trip = max(gain - w * (delay / self.target - 1), -w / 2)
            if per_round_trip < 0 or used:
                self.cwnd = max(w + per_round_trip * e["acked"] / w, 2.0)
        self.ssthresh = min(self.ssthresh, self.cwnd)

    def reduced(self, flight):
        """In a slowdown, half of the window that it left."""
        return flight / 2 if self.frozen_until is None else self.ssthresh / 2

    def congestion(self, kind, flight, srtt, now):
        super().congestion(kind, flight, srtt, now)
        if kind != "timeout":
            self.cwnd = max(self.cwnd, 2.0)
        if kind == "idle":
            return
        if self.is_first:
            self.is_first, self.next = False, now + 2 * srtt
        self.frozen_until = None


class Minmax:
    """The least of a window of time by three samples: Linux's lib/win_minmax.c."""

    def __init__(self):
        self.s = None

    def running_min(self, window, t, value):
        new = (t, value)
        if self.s is None or value <= self.s[0][1] or t - self.s[2][0] > window:
            self.s = [new, new, new]
            return
        if value <= self.s[1][1]:
            self.s[1] = self.s[2] = new
        elif value <= self.s[2][1]:
            self.s[2] = new
        dt = t - self.s[0][0]
        if dt > window:
            self.s = [self.s[1], self.s[2], new]
            if t - self.s[0][0] > window:
                self.s = [self.s[1], self.s[2], new]
        elif self.s[1][0] == self.s[0][0] and dt > window // 4:
            self.s[1] = self.s[2] = new
        elif self.s[2][0] == self.s[1][0] and dt > window // 2:
            self.s[2] = new

    def get(self):
        return self.s[0][1]


class Copa(Control):
    """Arun & Balakrishnan 2018, sections 2.1 and 2.2."""

    def __init__(self, competitive):
        super().__init__()
        self.competitive, self.delta = competitive, 0.5
        self.standing, self.least = Minmax(), Minmax()
        self.rounds, self.round_at = [0], 0
        self.empty_at, self.slow = None, True
        self.v, self.up, self.same = 1.0, True, 0
        self.old_cwnd, self.end, self.lost, self.competes = 0.0, 0, False, False

    def congestion(self, kind, flight, srtt, now):
        if kind == "idle":
            self.cwnd = min(self.cwnd, self.initial)
            return
        self.lost = True
        if kind == "timeout":
            self.cwnd, self.slow, self.v = 2.0, True, 1.0

    def recovered(self, flight):
        pass

    def restart(self, up):
        self.up, self.same, self.v = up, 0, 1.0

    def ack(self, e):
        now, srtt = e["now"], e["srtt"]
        if e["rtt"]:
            self.least.running_min(10 * SECOND, now, e["rtt"])
            self.standing.running_min(srtt // 2, now, e["rtt"])
            self.rounds[-1] = max(self.rounds[-1], e["rtt"])
        if self.least.s is None:
            return
        rtt_min, standing = self.least.get(), self.standing.get()
        dq = max(standing - rtt_min, 0)
        round_over = e["number"] > self.end
        if round_over:
            self.end = e["sent"]
            if not self.slow:
                self.velocity()
        self.mode(dq, rtt_min, srtt, round_over, now)
        if now - self.round_at >= srtt:
            self.round_at = now
            self.rounds = [*self.rounds, 0][-4:]
        rate = self.cwnd / standing
        below = dq == 0 or rate <= 1 / (self.delta * dq)
        self.move(below, e["delivered"], e["flight"])

    def velocity(self):
        up = self.cwnd > self.old_cwnd
        if up == self.up:
            self.same += 1
            if self.same >= 3:
                self.v *= 2
        else:
            self.restart(up)
        self.old_cwnd = self.cwnd

    def mode(self, dq, rtt_min, srtt, round_over, now):
        if self.empty_at is None:
            self.empty_at = now
        if dq <= 0.1 * (max(self.rounds) - rtt_min):
            self.empty_at, self.competes = now, False
        elif now - self.empty_at > 5 * srtt:
            self.competes = self.competitive
        if not self.competes:
            self.delta = 0.5
        elif self.lost:
            self.delta = min(0.5, 2 * self.delta)
        elif round_over:
            self.delta = min(0.5, 1 / (1 / self.delta + 1))
        self.lost = False

    def move(self, below, acked, flight):
        used = 2 * flight >= self.cwnd
        if self.slow:
            if below:
                self.cwnd += acked if used else 0
                return
            self.slow, self.old_cwnd = False, self.cwnd
            self.restart(False)
        if below != self.up and self.v > 1:
            self.restart(below)
        self.v = min(self.v, max(self.delta * self.cwnd, 1.0))
        change = self.v / (self.delta * self.cwnd) * acked
        if not below:
            self.cwnd = max(self.cwnd - change, 2.0)
        elif used:
            self.cwnd += change


class Reno(Control):
    """RFC 5681 in whole bytes, with RFC 8511 and RFC 9406."""

    mss = 1000

    def __init__(self, beta_ecn=None, hystart=False):
        super().__init__()
        self.bytes, self.threshold, self.counted = 10 * self.mss, inf, 0
        self.beta_ecn, self.hystart = beta_ecn, hystart
        self.window_end, self.last_min, self.current_min, self.samples = 0, inf, inf, 0
        self.css, self.css_rounds = None, 0
        self.sync()

    def sync(self):
        self.cwnd = self.bytes / self.mss

    def slow_start_divisor(self, e):
        """RFC 9406, section 4.2."""
        if not self.hystart:
            return 1
        if e["number"] >= self.window_end:
            self.last_min, self.current_min = self.current_min, inf
            self.samples, self.window_end = 0, e["sent"]
            if self.css is not None:
                self.css_rounds += 1
                if self.css_rounds >= 5:
                    self.threshold, self.hystart = self.bytes, False
                    return 4
        if e["rtt"]:
            self.current_min = min(self.current_min, e["rtt"])
            self.samples += 1
        if self.samples >= 8 and self.current_min != inf:
            if self.css is None and self.last_min != inf:
                thresh = max(4_000_000, min(self.last_min // 8, 16_000_000))
                if self.current_min >= self.last_min + thresh:
                    self.css, self.css_rounds = self.current_min, 0
            elif self.css is not None and self.current_min < self.css:
                self.css = None
        return 1 if self.css is None else 4

    def ack(self, e):
        if not e["opens"]:
            return
        acked, flight = e["acked"] * self.mss, int(e["flight"] * self.mss)
        if self.bytes < self.threshold:
            divisor = self.slow_start_divisor(e)
            if 2 * flight >= self.bytes:
                self.bytes += min(acked, (1 if self.behind_timeout else 2) * self.mss) // divisor
            self.sync()
            return
        self.behind_timeout = False
        if flight + self.mss > self.bytes:
            self.counted += acked
            if self.counted >= self.bytes:
                self.counted -= self.bytes
                self.bytes += self.mss
            self.counted = min(self.counted, self.bytes)
        self.sync()

    def congestion(self, kind, flight, srtt, now):
        self.counted = 0
        if kind == "idle":
            self.bytes, self.behind_timeout = min(self.bytes, 10 * self.mss), False
            self.sync()
            return
        self.hystart = False
        under_way = min(int(flight * self.mss), self.bytes)
        # RFC 8511, section 3.1: "in the congestion avoidance phase".
        avoids = self.bytes >= self.threshold
        part = self.beta_ecn if kind == "echo" and avoids and self.beta_ecn else 0.5
        self.threshold = max(int(under_way * part), 2 * self.mss)
        self.behind_timeout = kind == "timeout"
        self.bytes = self.mss if kind == "timeout" else self.threshold
        self.sync()

    def recovered(self, flight):
        under_way = int(flight * self.mss)
        self.bytes = min(self.threshold, max(under_way, self.mss) + self.mss)
        self.sync()


CONTROLS = {
    "scalable": Scalable,
    "westwood": Westwood,
    "vegas_paper": lambda: Vegas(False),
    "vegas_linux": lambda: Vegas(True),
    "ledbat": Ledbat,
    "copa": lambda: Copa(True),
    "copa_quiet": lambda: Copa(False),
    "reno_abe": lambda: Reno(beta_ecn=0.8),
    "reno_hystart": lambda: Reno(hystart=True),
}

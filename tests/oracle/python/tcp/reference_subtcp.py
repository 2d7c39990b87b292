"""SUBTCP's three forms and ECN time-outs, straight from the figures: Feng, Figs 3.17, 3.21 and 3.22, section 4.3.4.

A world of one sender without a network: events come at given times, and between them the sender sends what it
may. The sender never has more than its window under way; an acknowledgment or a loss takes what is under way
away. Times are whole nanoseconds. Plain TCP is ns's: cwnd += 1 below ssthresh, += 1/cwnd above, whole halves.
"""

TICK = 10_000_000
SCALE_MAX = 64.0


class Tcp:
    """ns's window in segments, and ECN time-outs if asked for."""

    def __init__(self, ssthresh):
        self.cwnd, self.ssthresh = 1.0, ssthresh

    def opencwnd(self):
        self.cwnd += 1.0 if self.cwnd < self.ssthresh else 1.0 / self.cwnd

    def closewnd(self, timeout):
        half = int(self.cwnd) // 2
        self.ssthresh = max(half, 2)
        self.cwnd = 1.0 if timeout else float(max(half, 1))


class SubTcp(Tcp):
    """Windows below one segment: CWND = 1 and scale > 1."""

    def __init__(self, ssthresh, form, parameter):
        super().__init__(ssthresh)
        self.form, self.parameter = form, parameter
        self.scale, self.free_at = 1.0, 0

    def set_counter(self, now, rtt):
        self.free_at = now + (int(self.scale * rtt / TICK) + 1) * TICK

    def on_close(self, timeout, now, rtt):
        if self.cwnd == 1:
            self.scale = min(self.scale * 2, SCALE_MAX)
            self.set_counter(now, rtt)
        else:
            self.closewnd(timeout)

    def on_open(self):
        if self.form == "bandwidth":
            e_cwnd = self.cwnd / self.scale
            wnd = min(e_cwnd * (1 + self.parameter / self.cwnd), e_cwnd + 1 / self.cwnd)
            if wnd < 1:
                self.cwnd, self.scale = 1.0, 1 / wnd
            else:
                self.cwnd, self.scale = wnd, 1.0
        elif self.cwnd == 1 and self.scale > 1:
            smaller = self.scale / 2 if self.form == "halving" else self.scale - self.parameter
            self.scale = max(1.0, smaller)
        else:
            self.opencwnd()


def run_subtcp(form, parameter, ssthresh, events):
    """After each event: when the next segment may go (0: at once), whole and effective window, scale."""
    control, rows = SubTcp(ssthresh, form, parameter), []
    now = 0
    for gap, kind, rtt in events:
        now += gap
        if kind == "ack":
            control.on_open()
        elif kind != "send":
            control.on_close(kind == "timeout", now, rtt)
        elif control.cwnd == 1 and now < control.free_at:
            pass
        elif control.cwnd == 1:
            control.set_counter(now, control_rtt(rows, events))
        free_at = control.free_at if control.cwnd == 1 and control.free_at > now else 0
        rows.append([free_at, int(control.cwnd), control.cwnd / control.scale, control.scale])
    return rows


def control_rtt(rows, events):
    """The round-trip time of the last event that had one."""
    known = [rtt for _, kind, rtt in events[: len(rows)] if kind != "send"]
    return known[-1] if known else 0


def run_ecn_timeouts(rto, rto_max, echoes):
    """How long each of these acknowledgments stops a sender; True is an echo. One segment is under way at a time."""
    pauses, doublings, cwnd, ssthresh = [], 0, 1.0, 1.0
    for echo in echoes:
        pause = 0
        if echo:
            if int(cwnd) == 1:
                pause = min(rto * 2 ** min(doublings, 6), rto_max)
                doublings += 1
            cwnd, ssthresh = 1.0, 2.0
        else:
            doublings = 0
            cwnd += 1.0 if cwnd < ssthresh else 1.0 / cwnd
        pauses.append(pause)
    return pauses

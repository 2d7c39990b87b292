"""Many TCP connections over one queue as differential equations with delay, integrated by the method of Runge and Kutta.

Written from docs/fluid.md and the papers that it names, and not from the engine: densities on the same grid of windows, but derivatives
of everything at once, of fourth order, with steps of a fraction of the engine's, delays interpolated, and the average of RED as an
equation of its own. PI moves at its samples. Nothing here is fast.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Tcp:
    """The connections; the names are those of the scenario's keys, times in seconds."""

    count: int
    rtt: float
    packet_bytes: float = 1500.0
    window: int = 2872
    initial_window: float = 10.0
    minimum_window: float = 2.0
    increase: float = 1.0
    limited_transmit: bool = True
    rto_min: float = 0.2
    delayed_ack: float = 0.04


@dataclass
class Red:
    """RED that drops, with the gaps of the paper and the gentle line; lengths in packets."""

    min_th: float
    max_th: float
    max_p: float
    weight: float

    def probability(self, average: float) -> float:
        """What is dropped of all packets at this average."""
        if average < self.min_th:
            return 0.0
        if average >= 2.0 * self.max_th:
            return 1.0
        if average < self.max_th:
            p_b = self.max_p * (average - self.min_th) / (self.max_th - self.min_th)
        else:
            p_b = self.max_p + (1.0 - self.max_p) * (average - self.max_th) / self.max_th
        return 2.0 * p_b / (1.0 + p_b)


@dataclass
class Pi:
    """PI that drops; its reference in packets, its period in seconds."""

    q_ref: float
    a: float
    b: float
    period: float = 0.00625
    p: float = 0.0
    q_old: float = 0.0
    samples: int = 0


@dataclass
class Trace:
    """What comes of it: times in seconds, the queue in packets, what is sent in packets per second, the mean window in segments."""

    times: list[float] = field(default_factory=list)
    queue: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    window: list[float] = field(default_factory=list)

    def mean(self, values: list[float], since: float) -> float:
        """The mean from a time on."""
        return float(np.mean([value for at, value in zip(self.times, values, strict=True) if at >= since]))


class Windows:
    """The grid, and the derivatives of the densities on it."""

    def __init__(self, tcp: Tcp) -> None:
        windows = [1.0]
        while windows[-1] < tcp.window:
            windows.append(
                min(windows[-1] + (0.25 if windows[-1] < 8.0 else 0.03 * windows[-1]), float(tcp.window))
            )
        self.tcp = tcp
        self.w: Array = np.array(windows)
        self.n: Array = np.floor(self.w)
        self.up: Array = np.append(np.diff(self.w), np.inf)
        target = np.clip(self.w / 2.0, tcp.minimum_window, tcp.window)
        self.below = np.searchsorted(self.w, target, side="right") - 1
        span = np.append(np.diff(self.w), 1.0)[self.below]
        self.part: Array = (target - self.w[self.below]) / span
        self.size = len(self.w)

    def start(self) -> Array:
        """Densities in avoidance and recovery, seven waits, and slow start as a mass and its window."""
        state = np.zeros(2 * self.size + 9)
        state[-2], state[-1] = 1.0, self.tcp.initial_window
        return state

    def sent(self, rtt: float) -> Array:
        """Packets per second of each window."""
        pairs = 2.0 * np.floor(self.n / 2.0)
        many = pairs / rtt + (self.n - pairs) / (rtt + min(self.tcp.delayed_ack, rtt))
        return np.where(self.n < 2, self.n / (rtt + self.tcp.delayed_ack), many)

    def rate(self, state: Array, rtt: float) -> float:
        """Packets per second of all."""
        m = self.size
        each = self.sent(rtt) @ (state[:m] + state[m : 2 * m]) + state[-2] * state[-1] / rtt
        timers = (rtt + self.tcp.rto_min) * 2.0 ** np.arange(7)
        return self.tcp.count * float(each + (state[2 * m : 2 * m + 7] / timers).sum())

    def window(self, state: Array) -> float:
        """The mean window of those that do not wait."""
        m = self.size
        both = state[:m] + state[m : 2 * m]
        return float((self.w @ both + state[-2] * state[-1]) / (both.sum() + state[-2]))

    def late(self, segments: Array, p: float) -> Array:
        """The probability that a loss makes a time-out."""
        released = 2.0 * ((segments >= 2.0) & self.tcp.limited_transmit)
        others = np.floor(segments - 1.0 + released)
        few: Array = np.zeros_like(others)
        for k, ways in ((0, np.ones_like(others)), (1, others), (2, others * (others - 1.0) / 2.0)):
            exact = ways * (1.0 - p) ** k * p ** np.maximum(others - k, 0.0)
            few = few + np.where(others >= k, exact, 0.0)
        few = np.minimum(few, 1.0)
        return few + (1.0 - few) * p

    def slope(self, state: Array, p: float, rtt: float) -> Array:
        """Derivatives of everything while a part p of what was sent a round trip ago was lost."""
        m, tcp = self.size, self.tcp
        avoiding, recovering, waiting = state[:m], state[m : 2 * m], state[2 * m : 2 * m + 7]
        mass, window = state[-2], state[-1]
        out = np.zeros_like(state)
        rounds = np.where(self.n < 2, rtt + tcp.delayed_ack, rtt)
        resumed = recovering / rounds
        out[:m] += resumed
        out[m : 2 * m] -= resumed
        grown = avoiding * self.sent(rtt) * np.where(self.n < 2, 1.0, tcp.increase) / self.w / self.up
        out[:m] -= grown
        out[1:m] += grown[:-1]
        lossy = avoiding / rounds * (1.0 - (1.0 - p) ** self.n)
        late = lossy * self.late(self.n, p)
        out[:m] -= lossy
        np.add.at(out, m + self.below, (lossy - late) * (1.0 - self.part))
        np.add.at(out, m + np.minimum(self.below + 1, m - 1), (lossy - late) * self.part)
        timed_out = late.sum()
        if mass > 0.0:
            whole = np.array([np.floor(window)])
            from_start = mass / rtt * (1.0 - (1.0 - p) ** whole[0])
            late_start = from_start * float(self.late(np.array([window]), p)[0])
            at = int(np.searchsorted(self.w, window, side="right")) - 1
            out[m + self.below[at]] += from_start - late_start
            out[-2] -= from_start
            out[-1] = window * np.log(1.0 + tcp.increase) / rtt if window < tcp.window else 0.0
            timed_out += late_start
        over = waiting / ((rtt + tcp.rto_min) * 2.0 ** np.arange(7))
        again = over * p
        out[m] += (over - again).sum()
        out[2 * m : 2 * m + 7] -= over
        out[2 * m] += timed_out
        out[2 * m + 1 : 2 * m + 7] += again[:-1]
        out[2 * m + 6] += again[-1]
        return out


def integrate(
    tcp: Tcp, law: Red | Pi, capacity: float, forward_s: float, until: float, steps: int = 25
) -> Trace:
    """The queue of a link of so many packets per second, which lies so long after the sender, for a time."""
    grid = Windows(tcp)
    h = tcp.rtt / steps
    state = np.append(grid.start(), [0.0, 0.0])  # ..., the queue as unfinished work, the average
    trace = Trace()
    arrivals: list[float] = []
    notices: list[float] = []

    def past(values: list[float], ago: float) -> float:
        at = len(values) - ago / h
        if at <= 0.0 or not values:
            return 0.0
        low = min(int(at), len(values) - 1)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * min(at - low, 1.0)

    def slope(x: Array, later: float) -> Array:
        queue, average = max(x[-2], 0.0), x[-1]
        rtt = tcp.rtt + queue / capacity
        heard = past(notices, rtt - forward_s - later)
        out = np.zeros_like(x)
        out[:-2] = grid.slope(x[:-2], heard, rtt)
        came = past(arrivals, forward_s - later)
        p = law.probability(average) if isinstance(law, Red) else law.p
        flow = came * (1.0 - p) - capacity
        out[-2] = flow if x[-2] > 0.0 or flow > 0.0 else 0.0
        if isinstance(law, Red):
            samples = came if x[-2] > 0.0 else max(came, capacity)
            out[-1] = np.log1p(-law.weight) * samples * (average - max(queue - 0.5, 0.0))
        return out

    for step in range(int(until / h)):
        now = step * h
        if isinstance(law, Pi):
            while (law.samples + 1) * law.period <= now:
                q = max(state[-2] - 0.5, 0.0)
                law.p = float(
                    np.clip(law.a * (q - law.q_ref) - law.b * (law.q_old - law.q_ref) + law.p, 0.0, 1.0)
                )
                law.q_old = q
                law.samples += 1
        p = law.probability(state[-1]) if isinstance(law, Red) else law.p
        rtt = tcp.rtt + max(state[-2], 0.0) / capacity
        arrivals.append(grid.rate(state[:-2], rtt))
        notices.append(p)
        trace.times.append(now)
        trace.queue.append(float(max(state[-2], 0.0)))
        trace.rate.append(arrivals[-1])
        trace.window.append(grid.window(state[:-2]))
        a = slope(state, 0.0)
        b = slope(state + a * h / 2.0, h / 2.0)
        c = slope(state + b * h / 2.0, h / 2.0)
        d = slope(state + c * h, h)
        state = state + (a + 2.0 * b + 2.0 * c + d) * h / 6.0
        state[:-3] = np.maximum(state[:-3], 0.0)
        state[-2] = max(state[-2], 0.0)
    return trace

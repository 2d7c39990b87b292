"""DualPI2 (RFC 9332, appendix A): A.1 the coupled PI, A.2 with protection from overload. Times in ns; probabilities as floats.

Chosen where the source leaves room:
- The base probability is calculated at Tupdate, 2 Tupdate and so on, before whatever else happens then, and kept in [0, 1].
- `recur` is the source's accumulator, one counter for each queue; with `draws`, a random number instead (section 2.5.1 allows both).
- Scheduler: `"wrr"` as in Linux (sch_dualpi2.c: a credit whose sign chooses, moved by bytes times the other queue's weight, only
  while both queues hold packets, back to its start when both are empty; a dropped packet moves nothing), or `"tsf"`, the time-shifted FIFO
  (the L queue goes first unless the classic head has waited longer by more than the shift).
- The native L4S AQM is a ramp from `min_th` over `range_`; a range of 0 is the step. It is off while the L queue, with the packet
  just taken from it, holds no more than `th_len` packets. Its delay is that of the packet just taken.
- Overload (`overload=True`, A.2): the L queue is dropped from with p_C once p_CL reaches p_Lmax (1), and the classic queue drops
  whatever can be marked once p_C reaches p_Cmax (1 / k squared, at most 1). The delay that counts is the larger of both queues'.
- A packet is L4S if `is_l4s` says so (in the RFC: ECT(1) or CE); whatever else has `ect` is ECT(0).
- The limit is in bytes of both queues together, for the packet that arrives (`mtu=None`) or for one MTU more (the pseudocode).
"""

from collections import deque

from reference_world import drop as lose

MS = 1_000_000
SECOND = 1_000_000_000


class DualPi2:
    def __init__(
        self, is_l4s, limit_bytes, target=15 * MS, rtt_max=100 * MS, tupdate=None, alpha=None, beta=None, k=2,
        min_th=800_000, range_=400_000, th_len=1, overload=True, scheduler="wrr", classic_percent=10, mtu=None, shift=50 * MS,
        mtu_of_credit=1500, draws=None,
    ):
        self.is_l4s, self.limit_bytes, self.target, self.k = is_l4s, limit_bytes, target, k
        self.tupdate = tupdate if tupdate is not None else min(target, rtt_max // 3)
        self.alpha = alpha if alpha is not None else 0.1 * (self.tupdate / SECOND) / (rtt_max / SECOND) ** 2
        self.beta = beta if beta is not None else 0.3 / (rtt_max / SECOND)
        self.min_th, self.range, self.th_len = min_th, range_, th_len
        self.overload, self.scheduler, self.shift, self.mtu, self.draws = overload, scheduler, shift, mtu, draws
        self.weight_c, self.weight_l = classic_percent, 100 - classic_percent
        self.first_credit = self.credit = mtu_of_credit * (self.weight_c - self.weight_l)
        self.p_cmax = min(1 / k**2, 1)
        self.p_lmax = 1
        self.l, self.c = deque(), deque()
        self.bytes = 0
        self.count = {"l": 0.0, "c": 0.0}
        self.p = self.p_c = self.p_cl = 0.0
        self.prevq = 0
        self.next_update = self.tupdate

    def catch_up(self, now):
        while self.next_update <= now:
            self.update(self.next_update)
            self.next_update += self.tupdate

    def update(self, now):
        curq = now - self.c[0][0] if self.c else 0
        if self.overload and self.l:
            curq = max(curq, now - self.l[0][0])
        self.p += self.alpha * ((curq - self.target) / SECOND) + self.beta * ((curq - self.prevq) / SECOND)
        self.p = min(1.0, max(0.0, self.p))
        self.p_cl = self.k * self.p
        self.p_c = self.p**2
        self.prevq = curq

    def recur(self, queue, likelihood):
        if self.draws is not None:
            return self.draws.chance(likelihood)
        self.count[queue] += likelihood
        if self.count[queue] > 1:
            self.count[queue] -= 1
            return True
        return False

    def laqm(self, delay):
        if delay > self.min_th + self.range or (self.range and delay == self.min_th + self.range):
            return 1.0
        if delay > self.min_th:
            return (delay - self.min_th) / self.range
        return 0.0

    def arrive(self, packet, now):
        self.catch_up(now)
        if self.bytes + (self.mtu or packet.size) > self.limit_bytes:
            lose(packet, "overflow", now)
            return
        (self.l if self.is_l4s(packet) else self.c).append((now, packet))
        self.bytes += packet.size

    def choose(self, now):
        """The queue to serve, and how the credit moves if the packet leaves."""
        if not self.c or not self.l:
            return ("l" if self.l else "c"), 0
        if self.scheduler == "tsf":
            return ("l" if now - self.l[0][0] + self.shift >= now - self.c[0][0] else "c"), 0
        if self.credit <= 0:
            return "l", self.weight_c * self.l[0][1].size
        return "c", -self.weight_l * self.c[0][1].size

    def next(self, now):
        self.catch_up(now)
        while self.l or self.c:
            queue, change = self.choose(now)
            arrived, packet = (self.l if queue == "l" else self.c).popleft()
            self.bytes -= packet.size
            if not (self.send_l4s(packet, now - arrived) if queue == "l" else self.send_classic(packet)):
                lose(packet, "dualpi2", now)
                continue
            self.credit += change
            return packet
        self.credit = self.first_credit
        return None

    def send_l4s(self, packet, delay):
        native = self.laqm(delay) if len(self.l) + 1 > self.th_len else 0.0
        if not self.overload or self.p_cl < self.p_lmax:
            if self.recur("l", max(native, self.p_cl)):
                packet.mark = "dualpi2"
            return True
        if self.recur("l", self.p_c):
            return False
        if self.recur("l", self.p_cl):
            packet.mark = "dualpi2"
        return True

    def send_classic(self, packet):
        if self.recur("c", self.p_c):
            if not packet.ect or (self.overload and self.p_c >= self.p_cmax):
                return False
            packet.mark = "dualpi2"
        return True

    def idle(self, now):
        self.catch_up(now)
        self.credit = self.first_credit

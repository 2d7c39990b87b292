"""DualPI2: RFC 9332, appendix A, the coupled PI of A.1 with the protection from overload of A.2. Times in ns;
probabilities as floats.

Written from the RFC by a reader who had seen neither the code that is compared nor another reference.

Chosen where the RFC leaves room:
- The base probability is calculated at Tupdate, 2 Tupdate and so on, before whatever else happens then, and kept in
  [0, 1]; so is what `recur` adds for one packet. In the listing its counter would grow without bound while k p' is
  above one.
- In the listing of a departure, `lq.len()` is what is left once the packet was taken from the queue, and
  `lq.time()` how long that packet has waited. In that of the update `time()` is how long the first packet has
  waited; the larger of both queues' counts.
- Scheduler: "wrr" is Linux' (`sch_dualpi2.c`): a credit whose sign chooses, moved by bytes times the other queue's
  weight, only while both queues hold packets and only by packets that are sent, and back at its start when both are
  found empty. "tsf" is the FIFO with a time shift: the L queue goes first unless the classic head has waited longer
  by more than the shift.
- `law` "recur" is the listing's counter, one for each queue; "random" a random number below the likelihood (section
  2.5.1).
- The limit is for the packet that arrives, in bytes or packets of both queues; the listing counts an MTU for it.

Of drops, "early" is for a sender that knows no marks, and "forced" for what overload takes; of marks, "step" is
where the native AQM of the L queue says more than the coupled probability.
"""

import random
from collections import deque
from dataclasses import dataclass

from reference_world import Packet
from reference_world import drop as lose

NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3
SECOND = 1e9


@dataclass
class EcnPacket(Packet):
    ecn: int = NOT_ECT


class DualPi2:
    def __init__(self, c):
        self.c = c
        self.target, self.k = c["target"], c["k"]
        rtt_max = c["rtt_max"] / SECOND
        self.tupdate = c["tupdate"] or min(c["target"], c["rtt_max"] // 3)
        self.alpha = 0.1 * (self.tupdate / SECOND) / rtt_max**2
        self.beta = 0.3 / rtt_max
        self.max_th = c["min_th"] + c["range"]
        self.p_cmax = min(1 / self.k**2, 1)
        self.p_lmax = 1
        self.weight_c, self.weight_l = c["classic_percent"], 100 - c["classic_percent"]
        self.first_credit = self.credit = c["mtu"] * (self.weight_c - self.weight_l)
        self.lq, self.cq = deque(), deque()  # (packet, when it came)
        self.bytes = 0
        self.count = {"l": 0.0, "c": 0.0}
        self.draws = random.Random(c["draws"]) if c["law"] == "random" else None
        self.p = self.p_c = self.p_cl = 0.0
        self.prevq = 0
        self.next_update = self.tupdate

    def catch_up(self, now):
        while self.next_update <= now:
            self.update(self.next_update)
            self.next_update += self.tupdate

    def update(self, now):
        curq = max(now - queue[0][1] if queue else 0 for queue in (self.lq, self.cq))
        far, grown = curq - self.target, curq - self.prevq
        self.p += self.alpha * (far / SECOND) + self.beta * (grown / SECOND)
        self.p = min(1.0, max(0.0, self.p))
        self.p_cl = self.k * self.p
        self.p_c = self.p**2
        self.prevq = curq

    def recur(self, queue, likelihood):
        if self.draws:
            return self.draws.random() < likelihood
        self.count[queue] += min(1.0, likelihood)
        if self.count[queue] > 1:
            self.count[queue] -= 1
            return True
        return False

    def laqm(self, delay):
        if delay >= self.max_th:
            return 1.0
        if delay > self.c["min_th"]:
            return (delay - self.c["min_th"]) / self.c["range"]
        return 0.0

    def arrive(self, packet, now):
        self.catch_up(now)
        unit, most = self.c["limit"]
        held = len(self.lq) + len(self.cq) + 1 if unit == "packets" else self.bytes + packet.size
        if held > most:
            lose(packet, "overflow", now)
            return
        (self.lq if packet.ecn % 2 == 1 else self.cq).append((packet, now))
        self.bytes += packet.size

    def choose(self, now):
        """The queue to serve, and by how much the credit moves if its packet is sent."""
        if not self.cq or not self.lq:
            return ("l" if self.lq else "c"), 0
        (l_head, l_came), (c_head, c_came) = self.lq[0], self.cq[0]
        if self.c["scheduler"] == "tsf":
            return ("l" if now - l_came + self.c["tshift"] >= now - c_came else "c"), 0
        if self.credit <= 0:
            return "l", self.weight_c * l_head.size
        return "c", -self.weight_l * c_head.size

    def next(self, now):
        self.catch_up(now)
        while self.lq or self.cq:
            queue, change = self.choose(now)
            packet, came = (self.lq if queue == "l" else self.cq).popleft()
            self.bytes -= packet.size
            why = self.judge_l4s(packet, now - came) if queue == "l" else self.judge_classic(packet)
            if why:
                lose(packet, why, now)
                continue
            self.credit += change
            return packet
        self.credit = self.first_credit
        return None

    def judge_l4s(self, packet, delay):
        """Why the packet is dropped, or None; it may be marked."""
        if self.p_cl < self.p_lmax:
            native = self.laqm(delay) if len(self.lq) > self.c["th_len"] else 0.0
            if self.recur("l", max(native, self.p_cl)):
                packet.mark = "step" if native > self.p_cl else "early"
            return None
        if self.recur("l", self.p_c):
            return "forced"
        if self.recur("l", self.p_cl):
            packet.mark = "early"
        return None

    def judge_classic(self, packet):
        if not self.recur("c", self.p_c):
            return None
        if packet.ecn == NOT_ECT:
            return "early"
        if self.p_c >= self.p_cmax:
            return "forced"
        packet.mark = "early"
        return None

    def idle(self, now):
        self.catch_up(now)

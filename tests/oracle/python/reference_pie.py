"""PIE: RFC 8033, appendix A, with what appendix B and section 5 add. Times in ns; probabilities as floats, delays
in seconds there.

Written from the RFC by a reader who had seen neither the code that is compared nor another reference.

Chosen where the RFC leaves room:
- The probability is calculated at T_UPDATE, 2 T_UPDATE and so on, before whatever else happens at the same instant;
  with `on_demand` from the arrival on that made PIE active (appendix B sets `last_timestamp_` there).
- Delay by time stamps: the last departure's, and none once it left nothing behind (Linux; taken literally, appendix
  A would hold on to it through an idle time). By rate: the length times the average time of `dq_threshold` bytes,
  in whole nanoseconds.
- MEAN_PKTSIZE is the MTU.
- The allowance for bursts is looked at before `drop_early` (appendix A and section 4.4); appendix B writes the two
  the other way round.
- The probability decays where the delay was nothing twice (appendix A); one step is 2 % at most from 10 % on
  (section 5.5).
- With `on_demand` PIE sleeps again at an update with no probability and two delays below half the target (section
  5.3); appendix B asks for delays of nothing, at an arrival.
- A mark, too, begins the sum of probabilities anew. The listings do so for drops, and for what is drawn; a mark for
  a sum above 8.5 would be followed by one for every packet.

Beyond the RFC: `high`, above which delay 2 % are added at each update (Linux, RFC 8034, at 250 ms); `by_size` is
Linux' `bytemode`.
"""

from collections import Counter, deque

from reference_world import drop as lose

SECOND = 1e9
# Below which probability a step is divided by how much (section 4.2).
TUNING = ((0.000001, 2048), (0.00001, 512), (0.0001, 128), (0.001, 32), (0.01, 8), (0.1, 2))


class Law:
    """PIE of one queue, which says how many bytes wait."""

    def __init__(self, c, draws, estimator):
        self.c, self.draws, self.by_rate = c, draws, estimator == "departure-rate"
        self.drop_prob = 0.0
        self.accu_prob = 0.0
        self.burst_allowance = 0 if c.get("on_demand") else c["max_burst"]
        self.qdelay = self.qdelay_old = 0
        self.in_measurement = False
        self.dq_count = 0
        self.measurement_start = 0
        self.avg_dq_time = 0
        self.seen = Counter(cap=0, high=0, decay=0, sure=0, updates=0, on=0, off=0)

    def low(self, delay):
        return 2 * delay < self.c["target"]

    def is_quiet(self):
        return self.drop_prob == 0 and self.low(self.qdelay) and self.low(self.qdelay_old)

    def decide(self, packet, backlog):
        """ "drop", "mark" or "enqueue" for an arrival that finds `backlog` bytes waiting."""
        if self.burst_allowance > 0 or not self.drop_early(packet, backlog):
            return "enqueue"
        self.accu_prob = 0.0
        if self.c["ecn"] and packet.ect and self.drop_prob < self.c["mark_ecnth"]:
            return "mark"
        return "drop"

    def drop_early(self, packet, backlog):
        mtu = self.c["mtu"]
        if (self.low(self.qdelay_old) and self.drop_prob < 0.2) or backlog <= 2 * mtu:
            return False
        probability = self.drop_prob
        if self.c["by_size"]:
            probability *= min(1, packet.size / mtu)
        if not self.c["derandomize"]:
            return self.draws.chance(probability)
        if self.drop_prob == 0:
            self.accu_prob = 0.0
        self.accu_prob += probability
        if self.accu_prob < 0.85:
            return False
        if self.accu_prob >= 8.5:
            self.seen["sure"] += 1
            return True
        return self.draws.chance(probability)

    def departed(self, packet, waited, backlog, now, active=True):
        """A packet left after `waited` ns, and `backlog` bytes stay behind."""
        if not self.by_rate:
            self.qdelay = waited if backlog else 0
            return
        threshold = self.c["dq_threshold"]
        if self.in_measurement:
            self.dq_count += packet.size
            if self.dq_count >= threshold:
                dq_time = now - self.measurement_start
                if self.avg_dq_time == 0:
                    self.avg_dq_time = dq_time
                else:
                    # The weight is DQ_THRESHOLD / 2^16.
                    self.avg_dq_time = (dq_time * threshold + self.avg_dq_time * (2**16 - threshold)) >> 16
                self.in_measurement = False
        if active and backlog >= threshold and not self.in_measurement:
            self.begin_measurement(now)

    def begin_measurement(self, now):
        self.in_measurement = True
        self.measurement_start = now
        self.dq_count = 0

    def scale(self):
        for bound, divisor in TUNING:
            if self.drop_prob < bound:
                return divisor
        return 1

    def calculate_drop_prob(self, backlog):
        """The update; whether PIE could sleep now."""
        c = self.c
        self.seen["updates"] += 1
        if self.by_rate:
            self.qdelay = backlog * self.avg_dq_time // c["dq_threshold"]
        far, grown = self.qdelay - c["target"], self.qdelay - self.qdelay_old
        p = c["alpha"] * (far / SECOND) + c["beta"] * (grown / SECOND)
        p /= self.scale()
        if self.drop_prob >= 0.1 and p > 0.02:
            p = 0.02
            self.seen["cap"] += 1
        if self.qdelay > c["high"]:
            p += 0.02
            self.seen["high"] += 1
        self.drop_prob += p
        if self.qdelay == 0 and self.qdelay_old == 0:
            self.seen["decay"] += self.drop_prob > 0
            self.drop_prob *= 0.98
        self.drop_prob = min(1.0, max(0.0, self.drop_prob))
        is_quiet = self.is_quiet()
        self.qdelay_old = self.qdelay
        self.burst_allowance = max(0, self.burst_allowance - c["t_update"])
        return is_quiet

    def wake(self, now):
        """Appendix B: what making PIE active sets."""
        self.qdelay_old = 0
        self.drop_prob = 0.0
        self.avg_dq_time = 0
        self.begin_measurement(now)
        self.burst_allowance = self.c["max_burst"]
        self.accu_prob = 0.0


class Pie:
    """A FIFO of so many packets or bytes at most, under the law."""

    def __init__(self, c, draws):
        self.law = Law(c, draws, c["estimator"])
        self.unit, self.most = c["limit"]
        self.t_update, self.on_demand = c["t_update"], c["on_demand"]
        self.active = not self.on_demand
        self.next_update = self.t_update if self.active else None
        self.fifo = deque()
        self.bytes = 0

    @property
    def drop_prob(self):
        return self.law.drop_prob

    @property
    def seen(self):
        return self.law.seen

    def waiting(self):
        return len(self.fifo) if self.unit == "packets" else self.bytes

    def catch_up(self, now):
        while self.next_update is not None and self.next_update <= now:
            self.next_update += self.t_update
            if self.law.calculate_drop_prob(self.bytes) and self.on_demand:
                self.active = False
                self.next_update = None
                self.law.in_measurement = False
                self.law.seen["off"] += 1

    def arrive(self, packet, now):
        self.catch_up(now)
        law = self.law
        if not self.on_demand and law.is_quiet():
            law.burst_allowance = law.c["max_burst"]
        if self.waiting() + (1 if self.unit == "packets" else packet.size) > self.most:
            lose(packet, "overflow", now)
            law.accu_prob = 0.0
        else:
            verdict = law.decide(packet, self.bytes) if self.active else "enqueue"
            if verdict == "drop":
                lose(packet, "early", now)
            else:
                if verdict == "mark":
                    packet.mark = "early"
                self.fifo.append((packet, now))
                self.bytes += packet.size
        if not self.active and 3 * self.waiting() >= self.most:
            self.active = True
            law.wake(now)
            law.seen["on"] += 1
            self.next_update = now + self.t_update

    def next(self, now):
        self.catch_up(now)
        if not self.fifo:
            return None
        packet, came = self.fifo.popleft()
        self.bytes -= packet.size
        self.law.departed(packet, now - came, self.bytes, now, self.active)
        return packet

    def idle(self, now):
        self.catch_up(now)

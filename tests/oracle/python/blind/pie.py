"""PIE (RFC 8033): appendix A, with what appendix B adds as options. Times in ns; probabilities as floats.

Chosen where the source leaves room:
- The probability is calculated at T_UPDATE, 2 T_UPDATE and so on, before whatever else happens at the same instant.
- Delay by time stamp (`delay="stamp"`): the last departure's delay, and none once the queue is empty (Linux; taken literally, the
  RFC would hold on to the last packet's delay through an idle time). By rate (`delay="rate"`): length times the average time of
  DQ_THRESHOLD bytes, taken when the probability is calculated.
- The burst allowance is looked at before `drop_early` (appendix A and section 4.4); appendix B writes the two the other way round.
- `decay`: appendix A shrinks the probability when the delay was nothing twice, appendix B when it was below half the target twice.
- `step_cap`: at most 2 % more in one step once the probability is 10 % (appendix B, section 5.5).
- `byte_mode`: section 5.1's hint, with packets smaller than the mean scaled down.
"""

from collections import deque

from reference_world import drop as lose

MS = 1_000_000
SECOND = 1_000_000_000


class PieLaw:
    def __init__(
        self, draws, target=15 * MS, tupdate=15 * MS, alpha=0.125, beta=1.25, max_burst=150 * MS, mean_packet=1024,
        ecn_max=0.1, derandomise=True, decay="zero", step_cap=True, delay="stamp", dq_threshold=1 << 14,
        byte_mode=False,
    ):
        self.draws, self.target, self.tupdate = draws, target, tupdate
        self.alpha, self.beta, self.max_burst = alpha, beta, max_burst
        self.mean_packet, self.ecn_max, self.derandomise = mean_packet, ecn_max, derandomise
        self.decay, self.step_cap, self.by_rate = decay, step_cap, delay == "rate"
        self.dq_threshold, self.byte_mode = dq_threshold, byte_mode
        self.drop_prob = 0.0
        self.accu_prob = 0.0
        self.burst_allowance = max_burst
        self.qdelay = self.qdelay_old = 0
        self.in_measurement = False
        self.dq_count = 0
        self.measurement_start = 0
        self.avg_dq_time = 0

    def low(self, delay):
        return 2 * delay < self.target

    def decide(self, packet, backlog, ecn):
        """"drop", "mark" or "enqueue" for an arrival that finds `backlog` bytes waiting."""
        if self.drop_prob == 0 and self.low(self.qdelay) and self.low(self.qdelay_old):
            self.burst_allowance = self.max_burst
        if self.burst_allowance > 0 or not self.drop_early(packet, backlog):
            return "enqueue"
        if ecn and packet.ect and self.drop_prob < self.ecn_max:
            return "mark"
        self.accu_prob = 0.0
        return "drop"

    def drop_early(self, packet, backlog):
        if (self.low(self.qdelay_old) and self.drop_prob < 0.2) or backlog <= 2 * self.mean_packet:
            return False
        probability = self.drop_prob
        if self.byte_mode:
            probability *= min(1, packet.size / self.mean_packet)
        if not self.derandomise:
            return self.draws.chance(probability)
        if self.drop_prob == 0:
            self.accu_prob = 0.0
        self.accu_prob += probability
        if self.accu_prob < 0.85:
            return False
        if self.accu_prob >= 8.5:
            return True
        if self.draws.chance(probability):
            self.accu_prob = 0.0
            return True
        return False

    def departed(self, packet, waited, backlog, now):
        """A packet left after `waited` ns, and `backlog` bytes stay behind."""
        if not self.by_rate:
            self.qdelay = waited if backlog else 0
            return
        if self.in_measurement:
            self.dq_count += packet.size
            if self.dq_count >= self.dq_threshold:
                dq_time = now - self.measurement_start
                weight = self.dq_threshold / 2**16
                if self.avg_dq_time == 0:
                    self.avg_dq_time = dq_time
                else:
                    self.avg_dq_time = dq_time * weight + self.avg_dq_time * (1 - weight)
                self.in_measurement = False
        if backlog >= self.dq_threshold and not self.in_measurement:
            self.in_measurement = True
            self.measurement_start = now
            self.dq_count = 0

    def scale(self):
        for bound, divisor in (
            (0.000001, 2048), (0.00001, 512), (0.0001, 128), (0.001, 32), (0.01, 8), (0.1, 2),
        ):
            if self.drop_prob < bound:
                return divisor
        return 1

    def calculate_drop_prob(self, backlog):
        if self.by_rate:
            self.qdelay = backlog * self.avg_dq_time / self.dq_threshold
        p = self.alpha * (self.qdelay - self.target) / SECOND + self.beta * (self.qdelay - self.qdelay_old) / SECOND
        p /= self.scale()
        if self.step_cap and self.drop_prob >= 0.1 and p > 0.02:
            p = 0.02
        self.drop_prob += p
        if self.decay == "zero":
            gone = self.qdelay == 0 and self.qdelay_old == 0
        else:
            gone = self.low(self.qdelay) and self.low(self.qdelay_old)
        if gone:
            self.drop_prob *= 0.98
        self.drop_prob = min(1.0, max(0.0, self.drop_prob))
        self.qdelay_old = self.qdelay
        self.burst_allowance = max(0, self.burst_allowance - self.tupdate)

    def restart(self):
        """Appendix B: what turning PIE on sets."""
        self.qdelay_old = 0
        self.drop_prob = 0.0
        self.in_measurement = True
        self.dq_count = 0
        self.avg_dq_time = 0
        self.burst_allowance = self.max_burst
        self.accu_prob = 0.0


class Pie:
    """One FIFO of at most `limit_bytes` (TAIL_DROP) or `limit_packets` with PIE.

    With `on_off` (appendix B), PIE sleeps until a third of `limit_bytes` is used, and again once probability and delays are nothing.
    """

    def __init__(self, law, limit_bytes=None, limit_packets=None, ecn=False, on_off=False):
        self.law, self.limit_bytes, self.limit_packets, self.ecn = law, limit_bytes, limit_packets, ecn
        self.on_off, self.active = on_off, not on_off
        self.fifo = deque()
        self.bytes = 0
        self.next_update = law.tupdate

    def catch_up(self, now):
        while self.next_update <= now:
            if self.active:
                self.law.calculate_drop_prob(self.bytes)
            self.next_update += self.law.tupdate

    def arrive(self, packet, now):
        self.catch_up(now)
        law = self.law
        over_packets = self.limit_packets is not None and len(self.fifo) >= self.limit_packets
        if over_packets or (self.limit_bytes is not None and self.bytes + packet.size > self.limit_bytes):
            lose(packet, "overflow", now)
            law.accu_prob = 0.0
        else:
            verdict = law.decide(packet, self.bytes, self.ecn) if self.active else "enqueue"
            if verdict == "drop":
                lose(packet, "pie", now)
            else:
                if verdict == "mark":
                    packet.mark = "pie"
                self.fifo.append((now, packet))
                self.bytes += packet.size
        if self.on_off:
            if not self.active and 3 * self.bytes >= self.limit_bytes:
                self.active = True
                law.restart()
                law.measurement_start = now
            if law.drop_prob == 0 and law.qdelay == 0 and law.qdelay_old == 0 and 3 * self.bytes < self.limit_bytes:
                self.active = False
                law.in_measurement = False

    def next(self, now):
        self.catch_up(now)
        if not self.fifo:
            return None
        arrived, packet = self.fifo.popleft()
        self.bytes -= packet.size
        self.law.departed(packet, now - arrived, self.bytes, now)
        return packet

    def idle(self, now):
        self.catch_up(now)

"""PIE as published: RFC 8033, appendices A and B, with their names.

Settled: a packet that leaves nothing behind shows a delay of zero (Linux); MEAN_PKTSIZE is the MTU (Linux); an update that is due
at the instant of an arrival or a departure comes first; updates are at multiples of T_UPDATE, or from activation on; the
averaged time of DQ_THRESHOLD is in whole nanoseconds; every early notification, also a mark, sets accu_prob to zero; accu_prob does
not grow while there is an allowance for bursts; with packet sizes, the probability of a packet is prob size / MTU, as in Linux, and 2 %
are added for a delay above a bound (Linux, RFC 8034); PIE becomes inactive at an update with no probability and with two
delays below half the target.
"""

from reference_world import drop


class Pie:
    def __init__(self, c, draws):
        self.c, self.draws = c, draws
        self.queue = []  # (packet, when it came)
        self.active = not c["on_demand"]
        self.next_update = c["t_update"] if self.active else None
        self.burst_allowance = 0
        self.drop_prob = 0.0
        self.accu_prob = 0.0
        self.current_qdelay = 0
        self.qdelay_old = 0
        self.in_measurement = False
        self.measurement_start = 0
        self.dq_count = 0
        self.avg_dq_time = 0
        self.seen = {"cap": 0, "high": 0, "decay": 0, "sure": 0, "updates": 0, "on": 0, "off": 0}

    def byte_length(self):
        return sum(packet.size for packet, _ in self.queue)

    def updates_until(self, now):
        while self.next_update is not None and self.next_update <= now:
            at = self.next_update
            self.next_update = at + self.c["t_update"]
            self.calculate_drop_prob()

    def calculate_drop_prob(self):
        c = self.c
        self.seen["updates"] += 1
        if c["estimator"] == "departure-rate":
            self.current_qdelay = self.byte_length() * self.avg_dq_time // c["dq_threshold"]
        current, old = self.current_qdelay, self.qdelay_old
        p = c["alpha"] * ((current - c["target"]) / 1e9) + c["beta"] * ((current - old) / 1e9)
        if self.drop_prob < 0.000001:
            p /= 2048
        elif self.drop_prob < 0.00001:
            p /= 512
        elif self.drop_prob < 0.0001:
            p /= 128
        elif self.drop_prob < 0.001:
            p /= 32
        elif self.drop_prob < 0.01:
            p /= 8
        elif self.drop_prob < 0.1:
            p /= 2
        if self.drop_prob >= 0.1 and p > 0.02:
            p = 0.02
            self.seen["cap"] += 1
        if current > c["high"]:
            p += 0.02
            self.seen["high"] += 1
        self.drop_prob += p
        if current == 0 and old == 0:
            self.seen["decay"] += self.drop_prob > 0
            self.drop_prob *= 0.98
        self.drop_prob = min(1.0, max(0.0, self.drop_prob))
        self.qdelay_old = current
        self.burst_allowance = max(0, self.burst_allowance - c["t_update"])
        if c["on_demand"] and self.drop_prob == 0 and 2 * current < c["target"] and 2 * old < c["target"]:
            self.active = False
            self.next_update = None
            self.in_measurement = False
            self.seen["off"] += 1

    def is_full(self, packet):
        kind, most = self.c["limit"]
        return (len(self.queue) + 1 if kind == "packets" else self.byte_length() + packet.size) > most

    def is_a_third(self):
        kind, most = self.c["limit"]
        return 3 * (len(self.queue) if kind == "packets" else self.byte_length()) >= most

    def drop_early(self, packet):
        c = self.c
        if 2 * self.qdelay_old < c["target"] and self.drop_prob < 0.2:
            return False
        if self.byte_length() <= 2 * c["mtu"]:
            return False
        prob = self.drop_prob
        if c["by_size"] and packet.size <= c["mtu"]:
            prob = prob * packet.size / c["mtu"]
        if c["derandomize"]:
            if self.drop_prob == 0:
                self.accu_prob = 0.0
            self.accu_prob += prob
            if self.accu_prob < 0.85:
                return False
            if self.accu_prob >= 8.5:
                self.seen["sure"] += 1
                return True
        return self.draws.chance(prob)

    def arrive(self, packet, now):
        self.updates_until(now)
        c = self.c
        half = c["target"]
        if (
            not c["on_demand"]
            and self.drop_prob == 0
            and 2 * self.current_qdelay < half
            and 2 * self.qdelay_old < half
        ):
            self.burst_allowance = c["max_burst"]
        if self.is_full(packet):
            drop(packet, "overflow", now)
            self.accu_prob = 0.0
        elif self.active and self.burst_allowance == 0 and self.drop_early(packet):
            self.accu_prob = 0.0
            if c["ecn"] and packet.ect and self.drop_prob < c["mark_ecnth"]:
                packet.mark = "early"
                self.queue.append((packet, now))
            else:
                drop(packet, "early", now)
        else:
            self.queue.append((packet, now))
        if not self.active and self.is_a_third():
            self.active = True
            self.seen["on"] += 1
            self.qdelay_old = 0
            self.drop_prob = 0.0
            self.in_measurement = True
            self.measurement_start = now
            self.dq_count = 0
            self.avg_dq_time = 0
            self.next_update = now + c["t_update"]
            self.burst_allowance = c["max_burst"]
            self.accu_prob = 0.0

    def next(self, now):
        self.updates_until(now)
        if not self.queue:
            return None
        packet, came = self.queue.pop(0)
        if self.c["estimator"] == "timestamps":
            self.current_qdelay = now - came if self.queue else 0
            return packet
        threshold = self.c["dq_threshold"]
        if self.in_measurement:
            self.dq_count += packet.size
            if self.dq_count >= threshold:
                dq_time = now - self.measurement_start
                if self.avg_dq_time == 0:
                    self.avg_dq_time = dq_time
                else:
                    self.avg_dq_time = (dq_time * threshold + self.avg_dq_time * (2**16 - threshold)) // 2**16
                self.in_measurement = False
        if self.active and self.byte_length() >= threshold and not self.in_measurement:
            self.in_measurement = True
            self.measurement_start = now
            self.dq_count = 0
        return packet

    def idle(self, now):
        self.updates_until(now)

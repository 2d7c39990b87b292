"""SCReAM, version 2: the pseudocode of draft-johansson-ccwg-rfc8298bis-screamv2-07, sections 4.2 to 4.5, listing by listing.

Names are those of the draft. Times are in seconds; `last_...` begin long ago. Where the draft leaves the order of listings open it is that of
the catalogue (the mechanism's `Deviations:`), and so are the two numbers that it does not have: 50 ms between calls of
`adjust_qdelay_target`, and 1/50 in `loss_event_rate`.
"""

from math import inf, sqrt

QDELAY_TARGET_LO = 0.06
QDELAY_TARGET_HI = 0.4
MIN_REF_WND = 3000
BYTES_IN_FLIGHT_HEAD_ROOM = 1.5
BETA_LOSS = 0.7
BETA_ECN = 0.8
MSS = 1000
POST_CONGESTION_DELAY_RTTS = 100
MUL_INCREASE_FACTOR = 0.02
VIRTUAL_RTT = 0.025
MIN_QUEUE_DELAY_DEV_SCALE = 0.1
L4S_AVG_G_UP = 1 / 8
L4S_AVG_G_DOWN = 1 / 128
QDELAY_AVG_G = 1 / 4
QDELAY_DEV_AVG_G = 1 / 64
QDELAY_DEV_NORM = 0.025
QDELAY_DEV_NORM_TH = 1.0
QDELAY_MIN_AVG_ALPHA = 1 / 256
REF_WND_OVERHEAD_MIN = 1.5
REF_WND_OVERHEAD_MAX = 3.0
RATE_PACE_MIN = 50000
PACKET_PACING_HEADROOM = 1.5
MAX_RELAXED_PACING_FACTOR = 4.0
RELAXED_PACING_LIMIT_LOW = 0.8
PACKET_OVERHEAD = 20
RATE_ADJUST_GAIN = 1 / 16
FRAME_SIZE_DEV_ALPHA = 1 / 64


class Scream:
    def __init__(self, is_l4s, competing, reduce_jitter, target_bitrate_min, target_bitrate_max):
        self.is_l4s, self.competing, self.REDUCE_JITTER = is_l4s, competing, reduce_jitter
        self.TARGET_BITRATE_MIN, self.TARGET_BITRATE_MAX = target_bitrate_min, target_bitrate_max
        self.now = 0.0
        self.s_rtt = None
        self.ref_wnd = MIN_REF_WND
        self.ref_wnd_i = 1
        self.max_bytes_in_flight = self.max_bytes_in_flight_prev = 0
        self.l4s_alpha = 0.0
        self.data_units_delivered_this_rtt = self.data_units_marked_this_rtt = 0
        self.qdelay = self.qdelay_avg = self.qdelay_dev_norm = 0.0
        self.qdelay_target = QDELAY_TARGET_LO
        self.qdelay_norm_history = []
        self.loss_event_rate = 0.0
        self.rtt_had_loss = False
        self.qdelay_min, self.qdelay_min_avg = inf, 0.0
        self.halved_until = -inf
        self.loss_detected = self.data_units_marked = False
        self.target_bitrate = target_bitrate_min
        self.rate_adjust_factor = self.frame_size_dev = 0.0
        self.last_update_l4s_alpha_time = self.last_update_qdelay_avg_time = -inf
        self.last_adjust_time = self.last_rtt_time = -inf
        self.last_congestion_detected_time = self.last_reaction_to_congestion_time = -inf
        self.last_ref_wnd_i_update_time = -inf
        self.drifts = 0

    def ref_wnd_ratio(self):
        return min(1.0, MSS / self.ref_wnd)

    def feedback(self, now, rtt, qdelay, units, units_ce, newly_acked, newly_acked_ce, lost, in_flight):
        """One report; `rtt` and `qdelay` are None where it tells of no newer data unit."""
        self.now = now
        self.loss_detected |= lost
        self.rtt_had_loss |= lost
        self.data_units_marked |= units_ce > 0
        self.data_units_delivered_this_rtt += units
        self.data_units_marked_this_rtt += units_ce
        self.max_bytes_in_flight = max(self.max_bytes_in_flight, in_flight)
        if rtt is not None:
            # RFC 6298, section 2.
            self.s_rtt = rtt if self.s_rtt is None else (1 - 1 / 8) * self.s_rtt + 1 / 8 * rtt
        if self.s_rtt is None:
            return
        if qdelay is not None:
            self.qdelay = qdelay
            self.qdelay_min = min(self.qdelay_min, qdelay)
        self.update_qdelay_avg()
        self.update_l4s_alpha()
        self.each_rtt()
        if self.competing and now - self.last_adjust_time >= 0.05:
            self.last_adjust_time = now
            self.adjust_qdelay_target(self.qdelay)
        scl_t = self.reduction()
        self.increase(newly_acked, newly_acked_ce, scl_t)
        self.rate()

    def update_qdelay_avg(self):  # 4.2.1.4
        if self.now - self.last_update_qdelay_avg_time >= min(VIRTUAL_RTT, self.s_rtt):
            if self.qdelay < self.qdelay_avg:
                self.qdelay_avg = self.qdelay
            else:
                self.qdelay_avg = QDELAY_AVG_G * self.qdelay + (1.0 - QDELAY_AVG_G) * self.qdelay_avg
            if self.REDUCE_JITTER:
                self.calculate_qdelay_norm()
            self.last_update_qdelay_avg_time = self.now

    def calculate_qdelay_norm(self):
        tmp = max(0, min(QDELAY_DEV_NORM_TH * 1.5, (self.qdelay - QDELAY_DEV_NORM / 4) / QDELAY_DEV_NORM))
        self.qdelay_dev_norm = (1.0 - QDELAY_DEV_AVG_G) * self.qdelay_dev_norm + QDELAY_DEV_AVG_G * tmp

    def update_l4s_alpha(self):  # 4.2.1.3
        if self.data_units_delivered_this_rtt == 0:
            return
        if self.now - self.last_update_l4s_alpha_time >= min(0.01, self.s_rtt):
            fraction_marked_t = self.data_units_marked_this_rtt / self.data_units_delivered_this_rtt
            if fraction_marked_t >= self.l4s_alpha:
                self.l4s_alpha = L4S_AVG_G_UP * fraction_marked_t + (1.0 - L4S_AVG_G_UP) * self.l4s_alpha
            else:
                self.l4s_alpha = (1.0 - L4S_AVG_G_DOWN) * self.l4s_alpha
            self.last_update_l4s_alpha_time = self.now
            self.data_units_delivered_this_rtt = self.data_units_marked_this_rtt = 0

    def each_rtt(self):
        if self.now - self.last_rtt_time < self.s_rtt:
            return
        self.last_rtt_time = self.now
        self.max_bytes_in_flight_prev, self.max_bytes_in_flight = self.max_bytes_in_flight, 0
        self.loss_event_rate += ((1 if self.rtt_had_loss else 0) - self.loss_event_rate) / 50
        self.rtt_had_loss = False
        # 4.5
        if self.qdelay_min < inf:
            self.qdelay_min_avg += (self.qdelay_min - self.qdelay_min_avg) * QDELAY_MIN_AVG_ALPHA
        self.qdelay_min = inf
        if self.qdelay_min_avg > self.qdelay_target / 4:
            self.qdelay_min_avg = 0
            self.drifts += 1
            self.halved_until = self.now + max(5 * self.s_rtt, 0.2)

    def adjust_qdelay_target(self, qdelay):  # 4.2.1.4.1
        self.qdelay_norm_history = (self.qdelay_norm_history + [qdelay / QDELAY_TARGET_LO])[-200:]
        history, recent = self.qdelay_norm_history, self.qdelay_norm_history[-50:]
        mean = sum(history) / len(history)
        qdelay_norm_var_t = sum((norm - mean) ** 2 for norm in history) / len(history)
        qdelay_norm_avg_t = sum(recent) / len(recent)
        new_target_t = (qdelay_norm_avg_t + sqrt(qdelay_norm_var_t)) * QDELAY_TARGET_LO
        if self.loss_event_rate > 0.002:
            self.qdelay_target = 1.5 * new_target_t
        elif qdelay_norm_var_t < 0.2:
            self.qdelay_target = new_target_t
        elif new_target_t < QDELAY_TARGET_LO:
            self.qdelay_target = max(self.qdelay_target * 0.5, new_target_t)
        else:
            self.qdelay_target *= 0.9
        self.qdelay_target = min(QDELAY_TARGET_HI, self.qdelay_target)
        self.qdelay_target = max(QDELAY_TARGET_LO, self.qdelay_target)

    def reduction(self):  # 4.2.2.1
        now, s_rtt = self.now, self.s_rtt
        scl_t = (self.ref_wnd - self.ref_wnd_i) / self.ref_wnd_i
        scl_t *= 8
        scl_t = scl_t * scl_t
        scl_t = max(0.1, min(1.0, scl_t))
        if self.loss_detected or self.data_units_marked:
            self.last_congestion_detected_time = now
        is_loss_t = is_ce_t = is_virtual_ce_t = False
        l4s_alpha_v_t = 0.0
        if now - self.last_reaction_to_congestion_time >= min(VIRTUAL_RTT, s_rtt):
            if self.loss_detected:
                is_loss_t = True
            elif self.data_units_marked:
                is_ce_t = True
            elif self.qdelay_avg > self.qdelay_target / 2:
                half = self.qdelay_target / 2
                l4s_alpha_v_t = min(1.0, max(0.0, (self.qdelay_avg - half) / half))
                is_virtual_ce_t = True
        if (is_loss_t or is_ce_t or is_virtual_ce_t) and now - self.last_ref_wnd_i_update_time > 10 * s_rtt:
            self.last_ref_wnd_i_update_time = now
            self.ref_wnd_i = self.ref_wnd
        if is_loss_t:
            self.ref_wnd = self.ref_wnd * BETA_LOSS
        if is_ce_t:
            if self.is_l4s:
                backoff_t = self.l4s_alpha / 2
                backoff_t /= max(1.0, s_rtt / VIRTUAL_RTT)
                if self.qdelay < self.qdelay_target * 0.25:
                    backoff_t *= max(0.25, scl_t)
                    th = QDELAY_DEV_NORM_TH
                    backoff_t *= max(MIN_QUEUE_DELAY_DEV_SCALE, (th - self.qdelay_dev_norm) / th)
                if now - self.last_reaction_to_congestion_time > 100 * max(VIRTUAL_RTT, s_rtt):
                    self.ref_wnd = min(self.ref_wnd, self.max_bytes_in_flight_prev)
                self.ref_wnd = (1.0 - backoff_t) * self.ref_wnd
            else:
                self.ref_wnd = self.ref_wnd * BETA_ECN
        if is_virtual_ce_t:
            backoff_t = l4s_alpha_v_t / 2
            backoff_t /= max(1.0, s_rtt / VIRTUAL_RTT)
            self.ref_wnd = (1.0 - backoff_t) * self.ref_wnd
        self.ref_wnd = max(MIN_REF_WND, self.ref_wnd)
        if is_loss_t or is_ce_t or is_virtual_ce_t:
            self.last_reaction_to_congestion_time = now
            self.loss_detected = self.data_units_marked = False
        return scl_t

    def increase(self, bytes_newly_acked, bytes_newly_acked_ce, scl_t):  # 4.2.2.2
        since = self.now - self.last_congestion_detected_time
        rtts = POST_CONGESTION_DELAY_RTTS * max(VIRTUAL_RTT, self.s_rtt)
        post_congestion_scale_t = max(0.0, min(1.0, since / rtts))
        ref_wnd_scale_factor_t = 1.0 + (MUL_INCREASE_FACTOR * self.ref_wnd) / MSS
        increment_t = (bytes_newly_acked - bytes_newly_acked_ce) * self.ref_wnd_ratio()
        increment_t *= min(1.0, self.s_rtt / VIRTUAL_RTT)
        increment_t *= max(0.25, scl_t)
        th = QDELAY_DEV_NORM_TH
        increment_t *= max(MIN_QUEUE_DELAY_DEV_SCALE, (th - self.qdelay_dev_norm) / th)
        tmp_t = ref_wnd_scale_factor_t
        if tmp_t > 1.0:
            tmp_t = 1.0 + (tmp_t - 1.0) * post_congestion_scale_t * scl_t
        increment_t *= tmp_t
        flight = max(self.max_bytes_in_flight, self.max_bytes_in_flight_prev)
        max_allowed_t = MSS + flight * BYTES_IN_FLIGHT_HEAD_ROOM
        ref_wnd_t = self.ref_wnd + increment_t
        if ref_wnd_t <= max_allowed_t and self.target_bitrate < self.TARGET_BITRATE_MAX:
            self.ref_wnd = ref_wnd_t

    def frame(self, media_qdelay, frame_size, frame_period):  # 4.4
        error = (media_qdelay - frame_period / 4) / frame_period
        self.rate_adjust_factor += error * RATE_ADJUST_GAIN
        self.rate_adjust_factor = min(0.5, max(0.0, self.rate_adjust_factor))
        frame_size_nom = self.target_bitrate * frame_period / 8
        deviation = max(0.0, (frame_size - frame_size_nom) / frame_size_nom)
        kept = (1 - FRAME_SIZE_DEV_ALPHA) * self.frame_size_dev
        self.frame_size_dev = min(0.2, kept + FRAME_SIZE_DEV_ALPHA * deviation)

    def rate(self):  # 4.4
        tmp_t = 1.0
        tmp_t *= 1.0 - min(0.2, max(0.0, self.ref_wnd_ratio() - 0.1))
        tmp_t *= MSS / (MSS + PACKET_OVERHEAD)
        tmp_t /= 1.2 + self.rate_adjust_factor + self.frame_size_dev
        target_bitrate = tmp_t * 8 * self.ref_wnd / self.s_rtt
        if self.now < self.halved_until:
            target_bitrate *= 0.5
        self.target_bitrate = min(self.TARGET_BITRATE_MAX, max(self.TARGET_BITRATE_MIN, target_bitrate))

    def send_limit(self):  # 4.3.1
        th = QDELAY_DEV_NORM_TH
        room = REF_WND_OVERHEAD_MAX - REF_WND_OVERHEAD_MIN
        return self.ref_wnd * (REF_WND_OVERHEAD_MIN + room * max(0.0, (th - self.qdelay_dev_norm) / th))

    def t_pace(self, data_unit_size):  # 4.3.2
        pace_bitrate = max(RATE_PACE_MIN, self.target_bitrate) * PACKET_PACING_HEADROOM
        nominal_rate_t = self.target_bitrate / self.TARGET_BITRATE_MAX
        scale = min(1.0, (nominal_rate_t - RELAXED_PACING_LIMIT_LOW) / (1.0 - RELAXED_PACING_LIMIT_LOW))
        pace_bitrate /= min(1.0, max(1.0 / MAX_RELAXED_PACING_FACTOR, 1.0 - scale))
        return data_unit_size * 8 / pace_bitrate

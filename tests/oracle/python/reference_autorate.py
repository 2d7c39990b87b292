"""The auto-rate shaper: one direction of cake-autorate 3.3.0-PRERELEASE, after its main loop, with the names of the script.

Rates are kbit/s, times us, factors parts per 1000 and weights parts per 10^6. The shell cuts off where it divides: `cut`.
"""

DEFAULTS = {
    "min_shaper_rate_kbps": 5000,
    "base_shaper_rate_kbps": 20000,
    "max_shaper_rate_kbps": 35000,
    "max_wire_packet_size_bits": 12000,
    "no_pingers": 6,
    "reflector_ping_interval_us": 300000,
    "avg_owd_delta_max_adjust_up_thr_us": 10000,
    "owd_delta_delay_thr_us": 30000,
    "avg_owd_delta_max_adjust_down_thr_us": 60000,
    "connection_active_thr_kbps": 2000,
    "enable_sleep_function": 1,
    "sustained_idle_sleep_thr_us": 60000000,
    "min_shaper_rates_enforcement": 0,
    "bufferbloat_detection_window": 6,
    "bufferbloat_detection_thr": 3,
    "alpha_baseline_increase": 1000,
    "alpha_baseline_decrease": 900000,
    "shaper_rate_min_adjust_down_bufferbloat": 990,
    "shaper_rate_max_adjust_down_bufferbloat": 750,
    "shaper_rate_min_adjust_up_load_high": 1000,
    "shaper_rate_max_adjust_up_load_high": 1040,
    "shaper_rate_adjust_down_load_low": 990,
    "shaper_rate_adjust_up_load_low": 1010,
    "high_load_thr_percent": 75,
    "bufferbloat_refractory_period_us": 300000,
    "decay_refractory_period_us": 1000000,
    "stall_detection_thr": 5,
    "connection_stall_thr_kbps": 10,
    "global_ping_response_timeout_us": 10000000,
    "owd": 0,  # 1: one-way delays of `tsping`, where clocks may be set
}
START_BASELINE = 100000
IDLE, LOW, HIGH = "idle", "low", "high"


def cut(number, by):
    """Division as the shell has it: towards zero."""
    quotient = abs(number) // abs(by)
    return quotient if (number < 0) == (by < 0) else -quotient


class Autorate:
    """The variables of the main process."""

    def __init__(self, now, **given):
        self.__dict__.update(DEFAULTS)
        self.__dict__.update(given)
        self.main_state = "RUNNING"
        self.shaper_rate = self.base_shaper_rate_kbps
        self.set_shaper_rate()
        self.achieved_rate, self.achieved_rate_updated = 0, False
        self.load_percent, self.load_state = 0, IDLE
        window = self.bufferbloat_detection_window
        self.delays, self.owd_deltas = [0] * window, [0] * window
        self.delays_idx = self.avg_owd_delta = 0
        self.bufferbloat_detected = False
        self.owd_baselines = [START_BASELINE] * self.no_pingers
        self.t_last_bufferbloat = self.t_last_decay = now
        self.reflectors_last_timestamp = self.t_last_start_pingers = now
        self.sustained_connection_idle, self.t_sustained_connection_idle = False, 0
        self.t_last_connection_idle = now
        self.global_ping_response_timeout = False
        ping_response_interval = self.reflector_ping_interval_us // self.no_pingers
        self.stall_detection_timeout = self.stall_detection_thr * ping_response_interval
        self.pingers = []

    def set_shaper_rate(self):
        """`set_shaper_rates`: thresholds grow by the time of a packet."""
        compensation = cut(1000 * self.max_wire_packet_size_bits, self.shaper_rate)
        self.up_thr = self.avg_owd_delta_max_adjust_up_thr_us + compensation
        self.delay_thr = self.owd_delta_delay_thr_us + compensation
        self.down_thr = self.avg_owd_delta_max_adjust_down_thr_us + compensation

    def set_min_shaper_rate(self):
        if self.min_shaper_rates_enforcement:
            self.shaper_rate = self.min_shaper_rate_kbps
            self.set_shaper_rate()

    def handle_global_ping_response_timeout(self, now):
        if not now - self.reflectors_last_timestamp >= self.global_ping_response_timeout_us:
            return
        if not self.global_ping_response_timeout:
            self.global_ping_response_timeout = True
            self.set_min_shaper_rate()
        if now - self.t_last_start_pingers >= self.global_ping_response_timeout_us:
            self.start_pingers(now)

    def start_pingers(self, now):
        self.pingers.append("start")
        self.t_last_start_pingers = now

    def sars(self, achieved_rate, now):
        """The achieved rate, as measured."""
        self.achieved_rate, self.achieved_rate_updated = achieved_rate, True
        self.load_percent = cut(100 * achieved_rate, self.shaper_rate)
        if self.load_percent > self.high_load_thr_percent:
            self.load_state = HIGH
        elif achieved_rate > self.connection_active_thr_kbps:
            self.load_state = LOW
        else:
            self.load_state = IDLE
        self.turn(None, None, now)

    def response(self, pinger, owd, now):
        """A response, with its one-way delay, or half a round trip."""
        self.turn(pinger, owd, now)

    def turn(self, pinger, owd, now):
        """One turn of the main loop."""
        is_response = pinger is not None
        if self.main_state == "RUNNING":
            if is_response:
                self.running(pinger, owd, now)
            elif now - self.reflectors_last_timestamp > self.stall_detection_timeout:
                self.handle_global_ping_response_timeout(now)
                if not self.achieved_rate > self.connection_stall_thr_kbps:
                    self.main_state = "STALL"
        elif self.main_state == "IDLE":
            if self.achieved_rate > self.connection_active_thr_kbps:
                self.main_state = "RUNNING"
                self.start_pingers(now)
                self.t_sustained_connection_idle = 0
                self.reflectors_last_timestamp = now + 2 * self.reflector_ping_interval_us
        else:
            if is_response:
                self.reflectors_last_timestamp = now
            if is_response or self.achieved_rate > self.connection_stall_thr_kbps:
                self.main_state = "RUNNING"
            self.handle_global_ping_response_timeout(now)

    def running(self, pinger, owd, now):
        baseline = self.owd_baselines[pinger]
        if self.owd and abs(owd - baseline) >= 3000000000:
            self.owd_baselines[pinger] = owd
        else:
            alpha = self.alpha_baseline_increase if owd >= baseline else self.alpha_baseline_decrease
            self.owd_baselines[pinger] = cut(alpha * owd + (1000000 - alpha) * baseline, 1000000)
        owd_delta = owd - self.owd_baselines[pinger]
        self.reflectors_last_timestamp = now
        self.global_ping_response_timeout = False

        self.delays[self.delays_idx] = 1 if owd_delta > self.delay_thr else 0
        self.owd_deltas[self.delays_idx] = owd_delta
        self.delays_idx = (self.delays_idx + 1) % self.bufferbloat_detection_window
        self.avg_owd_delta = cut(sum(self.owd_deltas), self.bufferbloat_detection_window)
        self.bufferbloat_detected = sum(self.delays) >= self.bufferbloat_detection_thr

        if self.bufferbloat_detected:
            if now > self.t_last_bufferbloat + self.bufferbloat_refractory_period_us:
                self.on_bufferbloat(now)
        elif self.load_state == HIGH:
            is_after = now > self.t_last_bufferbloat + self.bufferbloat_refractory_period_us
            if self.achieved_rate_updated and is_after:
                self.on_high_load(now)
        elif now > self.t_last_decay + self.decay_refractory_period_us:
            self.on_decay(now)
        self.shaper_rate = min(max(self.shaper_rate, self.min_shaper_rate_kbps), self.max_shaper_rate_kbps)
        self.set_shaper_rate()
        if self.enable_sleep_function:
            self.maybe_sleep(now)

    def on_bufferbloat(self, now):
        if self.down_thr <= self.delay_thr:
            factor = 1000
        elif self.avg_owd_delta - self.delay_thr > 0:
            factor = cut(1000 * (self.avg_owd_delta - self.delay_thr), self.down_thr - self.delay_thr)
            factor = min(factor, 1000)
        else:
            factor = 0
        least = self.shaper_rate_min_adjust_down_bufferbloat
        most = self.shaper_rate_max_adjust_down_bufferbloat
        self.shaper_rate = cut(self.shaper_rate * (1000 * least - factor * (least - most)), 1000000)
        self.t_last_bufferbloat = self.t_last_decay = now

    def on_high_load(self, now):
        if self.delay_thr <= self.up_thr:
            factor = 1000
        elif self.delay_thr - self.avg_owd_delta > 0:
            factor = cut(1000 * (self.delay_thr - self.avg_owd_delta), self.delay_thr - self.up_thr)
            factor = min(factor, 1000)
        else:
            factor = 0
        least, most = self.shaper_rate_min_adjust_up_load_high, self.shaper_rate_max_adjust_up_load_high
        self.shaper_rate = cut(self.shaper_rate * (1000 * least - factor * (least - most)), 1000000)
        self.achieved_rate_updated = False
        self.t_last_decay = now

    def on_decay(self, now):
        base = self.base_shaper_rate_kbps
        if self.shaper_rate > base:
            self.shaper_rate = max(cut(self.shaper_rate * self.shaper_rate_adjust_down_load_low, 1000), base)
        elif self.shaper_rate < base:
            self.shaper_rate = min(cut(self.shaper_rate * self.shaper_rate_adjust_up_load_low, 1000), base)
        self.t_last_decay = now

    def maybe_sleep(self, now):
        if self.load_state != IDLE:
            self.t_sustained_connection_idle, self.sustained_connection_idle = 0, False
            return
        if self.sustained_connection_idle:
            self.t_sustained_connection_idle += now - self.t_last_connection_idle
        self.sustained_connection_idle, self.t_last_connection_idle = True, now
        if self.t_sustained_connection_idle > self.sustained_idle_sleep_thr_us:
            self.main_state = "IDLE"
            self.set_min_shaper_rate()
            self.pingers.append("stop")
            self.t_sustained_connection_idle, self.sustained_connection_idle = 0, False

//! The rule: from achieved rates and delays of pings to the rate of the shaper. Rates are kbit/s, times microseconds, factors parts
//! per thousand, weights parts per million; all are whole numbers and division cuts off, as in the shell script.
//!
//! Source: `cake-autorate.sh` 3.3.0-PRERELEASE, its main loop.
//! Deviations: those of [`super`].

use alloc::vec;
use alloc::vec::Vec;

/// Delays that jump by more are those of a clock that was set, microseconds.
const CLOCK_STEP: i64 = 3_000_000_000;
/// No rate is greater, kbit/s: what is measured beyond it counts as this.
const KBPS_MAX: i64 = 1_000_000_000_000;

/// The numbers of the rule.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "those of `AutorateConfig`, in the units of the module")]
pub struct Rule {
    pub pingers: usize,
    pub is_one_way: bool,
    pub rate_min: i64,
    pub rate_base: i64,
    pub rate_max: i64,
    pub packet_bits: i64,
    pub window: u32,
    /// So many late samples in the window are bufferbloat.
    pub late: i64,
    pub delay_thr: i64,
    pub max_adjust_up_thr: i64,
    pub max_adjust_down_thr: i64,
    pub baseline_initial: i64,
    pub alpha_baseline_increase: i64,
    pub alpha_baseline_decrease: i64,
    pub min_adjust_down: i64,
    pub max_adjust_down: i64,
    pub min_adjust_up: i64,
    pub max_adjust_up: i64,
    pub adjust_down_load_low: i64,
    pub adjust_up_load_low: i64,
    pub high_load_percent: i64,
    pub bufferbloat_refractory: i64,
    pub decay_refractory: i64,
    pub connection_active: i64,
    pub sleeps: bool,
    pub sleep_after: i64,
    pub stall_after: i64,
    pub connection_stall: i64,
    pub response_timeout: i64,
    pub ping_interval: i64,
    pub enforces_min: bool,
}

/// How much of the shaper's rate is achieved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Less than makes a connection active.
    Idle,
    /// Not most of it.
    Low,
    /// Most of it.
    High,
}

/// What pingers are to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Pingers {
    /// What they did.
    GoOn,
    /// Begin, or begin anew: what is under way is forgotten.
    Start,
    /// End: what is under way is forgotten.
    Stop,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    Idle,
    Stall,
}

/// One sample of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    delta: i64,
    is_late: bool,
}

/// The state of the rule.
#[derive(Clone, Debug)]
pub struct Autorate {
    rule: Rule,
    state: State,
    rate: i64,
    achieved: i64,
    /// Whether the achieved rate was measured since the rate last rose.
    is_updated: bool,
    load: Load,
    /// By pinger.
    baselines: Vec<i64>,
    samples: Vec<Sample>,
    next_sample: usize,
    deltas: i64,
    late: i64,
    average_delta: i64,
    last_bufferbloat: i64,
    last_decay: i64,
    last_response: i64,
    last_start: i64,
    /// Since when all is idle, and for how long that is.
    idle_since: Option<i64>,
    idle_for: i64,
    is_timed_out: bool,
}

impl Autorate {
    /// At `now`, when pingers start.
    pub fn new(rule: Rule, now: i64) -> Self {
        Self {
            state: State::Running,
            rate: rule.rate_base,
            achieved: 0,
            is_updated: false,
            load: Load::Idle,
            baselines: vec![rule.baseline_initial; rule.pingers],
            samples: vec![Sample::default(); rule.window as usize],
            next_sample: 0,
            deltas: 0,
            late: 0,
            average_delta: 0,
            last_bufferbloat: now,
            last_decay: now,
            last_response: now,
            last_start: now,
            idle_since: None,
            idle_for: 0,
            is_timed_out: false,
            rule,
        }
    }

    /// The rate of the shaper, kbit/s.
    pub const fn rate(&self) -> i64 {
        self.rate
    }

    /// The rate that was achieved, as last measured, kbit/s.
    pub const fn achieved(&self) -> i64 {
        self.achieved
    }

    /// What that is beside the shaper's rate at that time.
    pub const fn load(&self) -> Load {
        self.load
    }

    /// Whether there is bufferbloat in the window.
    pub const fn is_bloated(&self) -> bool {
        self.late >= self.rule.late
    }

    /// The mean excess of the delays in the window over the baseline, microseconds.
    pub const fn average_delta(&self) -> i64 {
        self.average_delta
    }

    /// The baseline of `pinger`, microseconds.
    pub fn baseline(&self, pinger: usize) -> i64 {
        self.baselines[pinger]
    }

    /// `pinger` has another reflector.
    pub fn forget(&mut self, pinger: usize) {
        self.baselines[pinger] = self.rule.baseline_initial;
    }

    /// `achieved` kbit/s left the shaper.
    pub fn on_load(&mut self, achieved: i64, now: i64) -> Pingers {
        self.achieved = achieved.clamp(0, KBPS_MAX);
        self.is_updated = true;
        self.load = if 100 * self.achieved / self.rate > self.rule.high_load_percent {
            Load::High
        } else if self.achieved > self.rule.connection_active {
            Load::Low
        } else {
            Load::Idle
        };
        match self.state {
            State::Running => {
                if now - self.last_response <= self.rule.stall_after {
                    return Pingers::GoOn;
                }
                let pingers = self.on_timeout(now);
                if self.achieved <= self.rule.connection_stall {
                    self.state = State::Stall;
                }
                pingers
            }
            State::Idle if self.achieved > self.rule.connection_active => {
                self.state = State::Running;
                (self.idle_since, self.idle_for) = (None, 0);
                self.last_start = now;
                // Time for the pingers to get going.
                self.last_response = now + 2 * self.rule.ping_interval;
                Pingers::Start
            }
            State::Idle => Pingers::GoOn,
            State::Stall => {
                if self.achieved > self.rule.connection_stall {
                    self.state = State::Running;
                }
                self.on_timeout(now)
            }
        }
    }

    /// `pinger` has a response with this delay: one way, or half of both ways.
    pub fn on_response(&mut self, pinger: usize, delay: i64, now: i64) -> Pingers {
        match self.state {
            // The response that ends a stall has no other use.
            State::Stall => {
                self.last_response = now;
                self.state = State::Running;
                return Pingers::GoOn;
            }
            State::Idle => return Pingers::GoOn,
            State::Running => {}
        }
        let delta = self.delta_of(pinger, delay);
        self.last_response = now;
        self.is_timed_out = false;
        self.put(delta);
        self.adjust(now);
        self.rest(now)
    }

    /// Nothing was heard for the whole of the timeout.
    fn on_timeout(&mut self, now: i64) -> Pingers {
        if now - self.last_response < self.rule.response_timeout {
            return Pingers::GoOn;
        }
        if !self.is_timed_out {
            self.is_timed_out = true;
            if self.rule.enforces_min {
                self.rate = self.rule.rate_min;
            }
        }
        if now - self.last_start < self.rule.response_timeout {
            return Pingers::GoOn;
        }
        self.last_start = now;
        Pingers::Start
    }

    /// The baseline of `pinger` follows `delay`, up slowly and down fast; by how much the delay exceeds it then.
    fn delta_of(&mut self, pinger: usize, delay: i64) -> i64 {
        let baseline = &mut self.baselines[pinger];
        if self.rule.is_one_way && delay.abs_diff(*baseline) >= CLOCK_STEP as u64 {
            *baseline = delay;
            return 0;
        }
        let alpha = if delay >= *baseline {
            self.rule.alpha_baseline_increase
        } else {
            self.rule.alpha_baseline_decrease
        };
        // A clock may be years ahead, so that the products need more than 64 bits.
        let sum =
            i128::from(alpha) * i128::from(delay) + i128::from(1_000_000 - alpha) * i128::from(*baseline);
        *baseline = (sum / 1_000_000) as i64;
        delay - *baseline
    }

    /// The oldest sample leaves the window, for this one.
    fn put(&mut self, delta: i64) {
        let sample = Sample { delta, is_late: delta > self.rule.delay_thr + self.compensation() };
        let old = core::mem::replace(&mut self.samples[self.next_sample], sample);
        self.next_sample = (self.next_sample + 1) % self.samples.len();
        self.late += i64::from(sample.is_late) - i64::from(old.is_late);
        self.deltas += sample.delta - old.delta;
        self.average_delta = self.deltas / i64::from(self.rule.window);
    }

    /// The time of the largest packet at the shaper's rate.
    const fn compensation(&self) -> i64 {
        1000 * self.rule.packet_bits / self.rate
    }

    fn adjust(&mut self, now: i64) {
        let is_free = now > self.last_bufferbloat + self.rule.bufferbloat_refractory;
        if self.is_bloated() {
            if is_free {
                self.rate = self.rate * self.factor_down() / 1_000_000;
                (self.last_bufferbloat, self.last_decay) = (now, now);
            }
        } else if self.load == Load::High {
            if is_free && self.is_updated {
                self.rate = self.rate * self.factor_up() / 1_000_000;
                self.is_updated = false;
                self.last_decay = now;
            }
        } else if now > self.last_decay + self.rule.decay_refractory {
            let base = self.rule.rate_base;
            if self.rate > base {
                self.rate = (self.rate * self.rule.adjust_down_load_low / 1000).max(base);
            } else if self.rate < base {
                self.rate = (self.rate * self.rule.adjust_up_load_low / 1000).min(base);
            }
            self.last_decay = now;
        }
        self.rate = self.rate.clamp(self.rule.rate_min, self.rule.rate_max);
    }

    /// Parts per million: from the least adjustment at the threshold to the most at the one for it.
    fn factor_down(&self) -> i64 {
        let rule = &self.rule;
        let from = rule.delay_thr + self.compensation();
        let to = rule.max_adjust_down_thr + self.compensation();
        let part = part_of(self.average_delta - from, to - from);
        1000 * rule.min_adjust_down - part * (rule.min_adjust_down - rule.max_adjust_down)
    }

    /// Parts per million: from the most adjustment at the threshold for it to the least at that of bufferbloat.
    fn factor_up(&self) -> i64 {
        let rule = &self.rule;
        let from = rule.delay_thr + self.compensation();
        let to = rule.max_adjust_up_thr + self.compensation();
        let part = part_of(from - self.average_delta, from - to);
        1000 * rule.min_adjust_up - part * (rule.min_adjust_up - rule.max_adjust_up)
    }

    /// Whether pingers go to sleep after a response, for the connection has been idle.
    fn rest(&mut self, now: i64) -> Pingers {
        if !self.rule.sleeps {
            return Pingers::GoOn;
        }
        if self.load != Load::Idle {
            (self.idle_since, self.idle_for) = (None, 0);
            return Pingers::GoOn;
        }
        if let Some(since) = self.idle_since {
            self.idle_for += now - since;
        }
        self.idle_since = Some(now);
        if self.idle_for <= self.rule.sleep_after {
            return Pingers::GoOn;
        }
        self.state = State::Idle;
        if self.rule.enforces_min {
            self.rate = self.rule.rate_min;
        }
        (self.idle_since, self.idle_for) = (None, 0);
        Pingers::Stop
    }
}

/// Which part of `whole` `some` is, per thousand, at most all of it; all of nothing.
fn part_of(some: i64, whole: i64) -> i64 {
    if whole <= 0 { 1000 } else { (1000 * some.max(0) / whole).min(1000) }
}

//! The auto-rate shaper that operators put at the edge of a site today: one shaper for all that leaves it, whose rate follows the
//! delay of pings. It knows nothing of the path: where pings are late it goes down, where the shaper is used and they are not it goes up,
//! and between a least and a greatest rate that somebody chose it returns to a base.
//!
//! Source: cake-autorate (`github.com/lynxthecat/cake-autorate`), `cake-autorate.sh` that calls itself 3.3.0-PRERELEASE, and
//! its `defaults.sh` (commit 07039794). Versions before 3 took the achieved rate times a factor on bufferbloat; this one takes
//! the shaper's rate, and a factor that the average delay scales.
//! Deviations:
//!
//! - An instance has one direction, that which enters the domain; the far edge has the other. What the script asks of both loads (asleep
//!   when both are idle, stalled when either is) is asked of this one.
//! - Reflectors are the far edges to which packets went, in that order, and not hosts from a list. The pingers are dealt to them in
//!   turn, so that there are as many samples per second as by default, however few edges there are. No reflector is
//!   replaced; the average of deltas (`alpha_delta_ewma`) and the offences serve only for that, and are left out.
//! - It begins with the first packet, since no far edge is known before.
//! - Pings go out beside the shaper. In the script they pass CAKE, which lets such sparse flows go ahead; the time of one packet at the
//!   shaper's rate is added to the thresholds as there. They are no part of the achieved rate.
//! - One-way delays start their baseline anew when the delay of this way steps by 3000 s; the script adds the steps of both ways.
//! - `fping` prints three digits of a round trip; here it has whole microseconds.
//! - Lost are: responses older than 500 ms when they are read, which no world here has; the compensation for satellites, which the
//!   script has lost as well.

mod law;
mod pinger;
mod reflector;
#[cfg(test)]
mod tests;
pub mod wire;

pub use law::{Autorate, Load, Pingers, Rule};
pub use pinger::AutoratePinger;
pub use reflector::AutorateReflector;

use alloc::string::String;
use alloc::vec::Vec;

use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span};

use super::BorderSite;
use crate::Context;
use crate::shape::ShaperConfig;

words! {
    /// Which delays tell of a queue.
    pub enum PingDelays {
        /// Half of the time there and back (`fping`): congestion on the way back counts as well.
        RoundTrip = "round-trip",
        /// From edge to edge, by both clocks (`tsping`, `irtt`).
        OneWay = "one-way",
    }
}

/// Faster than this nobody pings, and nobody reads counters.
const INTERVAL: Bound<Span> = Bound::between(Span::from_millis(1), bound::DELAY_MAX);
/// A factor that makes a rate greater.
const GROWTH: Bound<f64> = Bound::between(1.0, 10.0).saying("", " is no factor of growth");
/// How many samples there are.
const SAMPLES: Bound<u32> = Bound::between(1, 1000).saying("", " is no number of samples");

parameters! {
    /// # Auto-rate shaper
    ///
    /// One shaper for all that enters at an edge. Its rate falls when pings to the far edges are late, rises while it is used and they
    /// are not, and returns to a base when it is not used.
    ///
    /// Source: cake-autorate 3.3.0-PRERELEASE, with its defaults.
    pub struct AutorateConfig {
        /// The least rate. Source: `min_ul_shaper_rate_kbps`.
        rate_min: BitRate = BitRate::from_mbps(5) => bound::RATE;
        /// The rate of the beginning, to which it returns without load. Source: `base_ul_shaper_rate_kbps`.
        rate_base: BitRate = BitRate::from_mbps(20) => bound::RATE;
        /// The greatest rate. Source: `max_ul_shaper_rate_kbps`.
        rate_max: BitRate = BitRate::from_mbps(35) => bound::RATE;
        /// Which delays are looked at. Source: `pinger_method=fping`.
        delays: PingDelays = PingDelays::RoundTrip;
        /// How many pingers there are, which are dealt to the far edges. Source: `no_pingers`.
        pingers: u32 = 6 => Bound::between(1, 64).saying("", " is no number of pingers");
        /// How often each of them pings. Source: `reflector_ping_interval_s`.
        ping_interval: Span = Span::from_millis(300) => INTERVAL;
        /// How often the achieved rate is measured. Source: `monitor_achieved_rates_interval_ms`.
        load_interval: Span = Span::from_millis(200) => INTERVAL;
        /// The largest packet: its time at the shaper's rate is added to the three thresholds. Source: the script asks the interface, of
        /// which the MTU is 1500 bytes.
        packet: Bytes = Bytes::new(1500) => bound::PACKET;
        /// Samples in which bufferbloat is looked for. Source: `bufferbloat_detection_window`.
        bufferbloat_window: u32 = 6 => SAMPLES;
        /// So many late samples among them are bufferbloat. Source: `bufferbloat_detection_thr`.
        bufferbloat_thr: u32 = 3 => SAMPLES;
        /// A sample that is later than the baseline by more is late. Source: `ul_owd_delta_delay_thr_ms`.
        delay_thr: Span = Span::from_millis(30) => bound::DELAY;
        /// Up to this average excess the rate rises by the most, and from there on by less. Source:
        /// `ul_avg_owd_delta_max_adjust_up_thr_ms`.
        max_adjust_up_thr: Span = Span::from_millis(10) => bound::DELAY;
        /// From this average excess on the rate falls by the most, and before by less. Source:
        /// `ul_avg_owd_delta_max_adjust_down_thr_ms`.
        max_adjust_down_thr: Span = Span::from_millis(60) => bound::DELAY;
        /// The baseline of the delay before the first sample. Source: `cake-autorate.sh` (100000 us).
        baseline_initial: Span = Span::from_millis(100) => bound::DELAY;
        /// The weight of a sample above the baseline in it. Source: the same name.
        alpha_baseline_increase: f64 = 0.001 => bound::GAIN;
        /// The weight of a sample below it. Source: the same name.
        alpha_baseline_decrease: f64 = 0.9 => bound::GAIN;
        /// On bufferbloat the rate becomes at most this part of itself. Source: `shaper_rate_min_adjust_down_bufferbloat`.
        min_adjust_down: f64 = 0.99 => bound::SHARE;
        /// And at least this one. Source: `shaper_rate_max_adjust_down_bufferbloat`.
        max_adjust_down: f64 = 0.75 => bound::SHARE;
        /// Under high load the rate becomes at least this multiple. Source: `shaper_rate_min_adjust_up_load_high`.
        min_adjust_up: f64 = 1.0 => GROWTH;
        /// And at most this one. Source: `shaper_rate_max_adjust_up_load_high`.
        max_adjust_up: f64 = 1.04 => GROWTH;
        /// Without high load a rate above the base becomes this part. Source: `shaper_rate_adjust_down_load_low`.
        adjust_down_load_low: f64 = 0.99 => bound::SHARE;
        /// And one below the base this multiple. Source: `shaper_rate_adjust_up_load_low`.
        adjust_up_load_low: f64 = 1.01 => GROWTH;
        /// The load is high if more than this part of the shaper's rate was achieved. Source: the same name.
        high_load_thr: f64 = 0.75 => bound::SHARE;
        /// How long the rate neither falls again nor rises after it fell. Source: `bufferbloat_refractory_period_ms`.
        bufferbloat_refractory: Span = Span::from_millis(300) => bound::DELAY;
        /// How long it takes no step to the base after it changed. Source: `decay_refractory_period_ms`.
        decay_refractory: Span = Span::from_secs(1) => bound::DELAY;
        /// Below this achieved rate the connection is idle; at most `rate_min`. Source: `connection_active_thr_kbps`.
        connection_active: BitRate = BitRate::from_mbps(2) => bound::RATE;
        /// Whether pingers sleep while the connection is idle. Source: `enable_sleep_function`.
        sleep: bool = true;
        /// How long it is idle before. Source: `sustained_idle_sleep_thr_s`.
        sleep_after: Span = Span::from_secs(60) => bound::DURATION;
        /// After so many times that a response could have come it is asked whether the connection has stalled. Source: `stall_detection_thr`.
        stall_thr: u32 = 5 => bound::COUNT;
        /// It has if no more than this was achieved. Source: `connection_stall_thr_kbps`.
        connection_stall: BitRate = BitRate::from_bps(10_000) => bound::RATE;
        /// Without any response for so long pingers start anew. Source: `global_ping_response_timeout_s`.
        response_timeout: Span = Span::from_secs(10) => bound::DURATION;
        /// Whether the rate is the least one then, and while pingers sleep. Source: `min_shaper_rates_enforcement`.
        enforce_min: bool = false;
        /// Control only packets of this class; others pass. Default: all.
        class: Option<u8> = None;
        /// The shaper.
        shaper: ShaperConfig = ShaperConfig::default() => bound::INSIDE;
        /// Edges at which what enters is not shaped. Default: none.
        unpoliced: Vec<String> = Vec::new();
    }
    check |config, report| {
        if config.rate_min < BitRate::from_bps(1000) {
            report.say("rate_min", "rates are whole kbit/s", "at least 1kbit");
        }
        if config.rate_base < config.rate_min {
            report.say("rate_base", "it is below `rate_min`", "at least `rate_min`");
        }
        if config.rate_max < config.rate_base {
            report.say("rate_max", "it is below `rate_base`", "at least `rate_base`");
        }
        if config.connection_active > config.rate_min {
            report.say("connection_active", "it is above `rate_min`", "at most `rate_min`");
        }
        if config.bufferbloat_thr > config.bufferbloat_window {
            report.say("bufferbloat_thr", "it is above `bufferbloat_window`", "at most `bufferbloat_window`");
        }
    };
}

/// Bytes around a message on the wire: IPv4 (20) and ICMP (8) headers.
pub const PING_HEADER_BYTES: u32 = 28;

impl AutorateConfig {
    /// The two halves of a border.
    pub fn build(&self, _site: BorderSite, context: &Context) -> (AutoratePinger, AutorateReflector) {
        (AutoratePinger::new(self.clone(), context.seed), AutorateReflector)
    }

    /// The time between two pings of all pingers together, whole microseconds.
    pub fn response_interval(&self) -> Span {
        Span::from_micros((self.ping_interval.as_nanos() / 1000 / u64::from(self.pingers)).max(1))
    }

    /// The time between two measurements of the achieved rate: ten of the largest packets in both directions at the base rate, if that is
    /// longer. The other direction is taken to be like this one.
    pub fn compensated_load_interval(&self) -> Span {
        let packet_micros = 1000 * 8 * self.packet.get() / (self.rate_base.as_bps() / 1000).max(1);
        let micros = self.load_interval.as_nanos() / 1000;
        Span::from_micros(micros.max(10 * 2 * packet_micros))
    }

    /// The numbers of the rule in the units that the script calculates with.
    pub fn rule(&self) -> Rule {
        let kbps = |rate: BitRate| (rate.as_bps() / 1000).max(1).cast_signed();
        let micros = |span: Span| (span.as_nanos() / 1000).cast_signed();
        let scaled = |number: f64, by: f64| libm::rint(number * by) as i64;
        Rule {
            pingers: self.pingers as usize,
            is_one_way: self.delays == PingDelays::OneWay,
            rate_min: kbps(self.rate_min),
            rate_base: kbps(self.rate_base),
            rate_max: kbps(self.rate_max),
            packet_bits: 8 * self.packet.get().cast_signed(),
            window: self.bufferbloat_window,
            late: i64::from(self.bufferbloat_thr),
            delay_thr: micros(self.delay_thr),
            max_adjust_up_thr: micros(self.max_adjust_up_thr),
            max_adjust_down_thr: micros(self.max_adjust_down_thr),
            baseline_initial: micros(self.baseline_initial),
            alpha_baseline_increase: scaled(self.alpha_baseline_increase, 1e6),
            alpha_baseline_decrease: scaled(self.alpha_baseline_decrease, 1e6),
            min_adjust_down: scaled(self.min_adjust_down, 1e3),
            max_adjust_down: scaled(self.max_adjust_down, 1e3),
            min_adjust_up: scaled(self.min_adjust_up, 1e3),
            max_adjust_up: scaled(self.max_adjust_up, 1e3),
            adjust_down_load_low: scaled(self.adjust_down_load_low, 1e3),
            adjust_up_load_low: scaled(self.adjust_up_load_low, 1e3),
            high_load_percent: scaled(self.high_load_thr, 1e2),
            bufferbloat_refractory: micros(self.bufferbloat_refractory),
            decay_refractory: micros(self.decay_refractory),
            connection_active: kbps(self.connection_active),
            sleeps: self.sleep,
            sleep_after: micros(self.sleep_after),
            stall_after: i64::from(self.stall_thr) * micros(self.response_interval()),
            connection_stall: kbps(self.connection_stall),
            response_timeout: micros(self.response_timeout),
            ping_interval: micros(self.ping_interval),
            enforces_min: self.enforce_min,
        }
    }
}

//! Who decides the window.
//!
//! Loss recovery (`tcp/recovery`) says *what* to send and when something is lost; a [`CongestionControl`] says how
//! much may be under way, and may say when: a window below one segment, a reservation and pacing all answer
//! [`Permission::At`]. It also names the DSCP of each segment, because sources that mark their own packets choose the
//! mark with the window.
//!
//! What an acknowledgment says beyond the bytes that it covers is a [`Sample`]: measured only for a control that asks for it by
//! [`CongestionControl::sampling`], so that it costs the others nothing. A control that sends at a rate has a [`Pacer`].
//!
//! A control that must know which of its marks were lost or acknowledged keeps them itself: it sees the sequence number
//! of every segment, of every acknowledgment and of every loss.

mod bbr;
mod bbr3;
mod classic_aqm;
mod copa;
mod cubic;
mod dctcp;
mod fixed;
mod hystart;
mod ledbat;
mod marking;
pub mod own;
mod pacer;
mod prague;
mod real_window;
mod reno;
mod reserved;
mod scalable;
mod sent_marks;
mod subtcp;
mod unresponsive;
mod vegas;
mod westwood;
mod windowed;

pub use bbr::{Bbr, BbrConfig, BbrState};
pub use bbr3::{Bbr3, Bbr3Config, Bbr3State};
pub use copa::{Copa, CopaConfig};
pub use cubic::{Cubic, CubicConfig};
pub use dctcp::{Dctcp, DctcpConfig};
pub use fixed::{Fixed, FixedConfig};
pub use ledbat::{Ledbat, LedbatConfig};
pub use marking::{MarkingSource, MarkingSourceConfig, MarkingSurplus};
pub use pacer::Pacer;
pub use prague::{Prague, PragueConfig};
pub use reno::{Reno, RenoConfig};
pub use reserved::{Reserved, ReservedConfig, ReservedWindow};
pub use scalable::{Scalable, ScalableConfig};
pub use subtcp::{SubTcp, SubTcpConfig, SubTcpForm};
pub use unresponsive::{Unresponsive, UnresponsiveConfig};
pub use vegas::{Vegas, VegasConfig, VegasForm};
pub use westwood::{Westwood, WestwoodConfig};

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::{Variable, distinct};
use tidegate_packet::Dscp;
use tidegate_parameters::bound::Scalar;
#[cfg(feature = "text")]
use tidegate_parameters::own::Registered as _;
use tidegate_parameters::{Bound, Own, family};
use tidegate_units::{Span, Time};

use self::own::{MakeControl, OwnControl};
use super::config::TcpConfig;

/// What a control wants to be told of acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sampling {
    /// Those that open a window: of new data, outside fast recovery and without an ECN echo. Without [`Ack::sample`].
    OpeningAcks,
    /// Every one, in recovery too, with [`Ack::sample`], but for what needs a record of each segment sent.
    Acks,
    /// Every one, with all of [`Ack::sample`].
    Rates,
}

/// An acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The next byte that the receiver expects.
    pub acknowledgment: u64,
    /// Bytes that this acknowledgment newly covers.
    pub acked_bytes: u64,
    /// Bytes that were under way before it.
    pub flight_bytes: u64,
    /// The smoothed round-trip time, this acknowledgment's sample included; zero before the first one.
    pub srtt: Span,
    /// What else it says; `None` for a control that hears of [`Sampling::OpeningAcks`] only.
    pub sample: Option<Sample>,
}

/// What one acknowledgment says of the path, cumulative and selective part together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// It opens the window of a control that counts acknowledgments: new data, no fast recovery, no echo.
    pub opens_window: bool,
    /// Losses are being repaired, of a fast retransmit or of a time-out; with the acknowledgment that ends it no more.
    pub is_in_recovery: bool,
    /// Bytes newly known to have arrived. Without SACK a duplicate counts as one segment.
    pub delivered_bytes: u64,
    /// The same since the start.
    pub delivered_total_bytes: u64,
    /// Bytes newly known to be lost, a time-out since the last acknowledgment included.
    pub lost_bytes: u64,
    /// Bytes that arrived with a congestion mark: those that [`EcnFeedback::Accurate`](crate::tcp::EcnFeedback) counts, otherwise
    /// all that an acknowledgment with an echo newly covers.
    pub marked_bytes: u64,
    /// Bytes that recovery believed to be in the network before this acknowledgment.
    pub in_flight_before_bytes: u64,
    /// The same after it.
    pub in_flight_bytes: u64,
    /// One past the last byte sent since the last restart (`SND.NXT`).
    pub sent_until: u64,
    /// The round trip of the segment sent last of those that it newly acknowledges, if that was sent once only. With
    /// [`Sampling::Rates`].
    pub rtt: Option<Span>,
    /// How fast data arrives. With [`Sampling::Rates`], if this acknowledgment tells.
    pub rate: Option<RateSample>,
}

/// A delivery rate, over the time from one acknowledgment to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateSample {
    /// Bytes delivered in `interval`.
    pub delivered_bytes: u64,
    /// The longer one of the times in which they were sent and in which they were acknowledged; not zero.
    pub interval: Span,
    /// Bytes delivered before it, since the start: what was when the newest segment now acknowledged was sent.
    pub prior_delivered_bytes: u64,
    /// When that segment was sent.
    pub sent_at: Time,
    /// What was under way when that segment was sent, itself included.
    pub sent_in_flight_bytes: u64,
    /// What was found lost since then.
    pub lost_bytes: u64,
    /// The application had nothing to send in that time, so that the path could have carried more.
    pub is_app_limited: bool,
}

impl RateSample {
    /// The rate, in bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.delivered_bytes as f64 / self.interval.as_secs_f64()
    }
}

/// What tells of congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Duplicates or SACK blocks show a loss; fast recovery begins.
    Loss,
    /// Duplicates show a loss; the sender begins again from one segment (Tahoe).
    LossRestart,
    /// The retransmission timer expired.
    Timeout,
    /// The timer expired with nothing under way (ns), or nothing was sent for as long as that (RFC 5681, section 4.1).
    Idle,
    /// The receiver echoes a congestion mark. At most one for each window of data.
    EcnEcho,
}

/// A signal of congestion and the state in which it found the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Congestion {
    /// What happened.
    pub signal: Signal,
    /// First byte not acknowledged: the start of what was lost, if it was a loss.
    pub sequence: u64,
    /// Of an echo that begins with an acknowledgment of one new segment or two: the start of the last of them. That one was
    /// marked, or with delayed acknowledgments perhaps the one before. Other echoes do not tell.
    pub echoed: Option<u64>,
    /// The window in force, bounded by the receiver's, in bytes.
    pub window_bytes: u64,
    /// Bytes sent and not acknowledged (`FlightSize` of RFC 5681).
    pub flight_bytes: u64,
    /// The timer expired for this very segment before.
    pub repeated: bool,
    /// The smoothed round-trip time; zero before the first sample.
    pub srtt: Span,
    /// The retransmission time-out now in force.
    pub rto: Span,
}

#[cfg(test)]
impl Congestion {
    /// `signal` while `bytes` are the window and under way, of a connection whose round trip nothing measured yet.
    pub(crate) const fn for_tests(signal: Signal, bytes: u64) -> Self {
        Self {
            signal,
            sequence: 0,
            echoed: None,
            window_bytes: bytes,
            flight_bytes: bytes,
            repeated: false,
            srtt: Span::ZERO,
            rto: Span::ZERO,
        }
    }

    /// `signal` about the segment `number` of [`Segment::for_tests`], which the receiver speaks of.
    pub(crate) const fn of_segment_for_tests(signal: Signal, number: u64) -> Self {
        let sequence = Segment::for_tests(number).sequence;
        Self { sequence, echoed: Some(sequence), ..Self::for_tests(signal, 0) }
    }
}

#[cfg(test)]
impl Sample {
    /// One that says nothing.
    pub(crate) const fn for_tests() -> Self {
        Self {
            opens_window: false,
            is_in_recovery: false,
            delivered_bytes: 0,
            delivered_total_bytes: 0,
            lost_bytes: 0,
            marked_bytes: 0,
            in_flight_before_bytes: 0,
            in_flight_bytes: 0,
            sent_until: 0,
            rtt: None,
            rate: None,
        }
    }
}

#[cfg(test)]
impl Segment {
    /// The segment `number` of 1000 bytes each, sent for the first time.
    pub(crate) const fn for_tests(number: u64) -> Self {
        Self { sequence: number * 1000, payload_bytes: 1000, wire_bytes: 1000, retransmission: false }
    }
}

/// A segment that goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First payload byte.
    pub sequence: u64,
    /// Payload bytes.
    pub payload_bytes: u32,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// Whether some of it was sent before.
    pub retransmission: bool,
}

/// Whether a segment may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// It may.
    Now,
    /// Not before this time, and perhaps earlier if an acknowledgment comes; later than the `now` of the question.
    At(Time),
    /// Not before the next event.
    No,
}

/// A congestion control. It sees events in this order: what an acknowledgment signals, then what it acknowledges, then
/// the segments that it releases.
pub trait CongestionControl {
    /// What [`variable`](Self::variable) answers to beside `cwnd_segments`, as far as it may be recorded.
    fn variables() -> &'static [Variable]
    where
        Self: Sized,
    {
        &[]
    }

    /// Of which acknowledgments [`on_ack`](Self::on_ack) is told, and how much. Asked once, when the connection is made.
    fn sampling(&self) -> Sampling {
        Sampling::OpeningAcks
    }

    /// An acknowledgment, after what it signals.
    fn on_ack(&mut self, ack: &Ack, now: Time);

    /// The network is congested.
    fn on_congestion(&mut self, event: &Congestion, now: Time);

    /// Fast recovery ends with `flight_bytes` still under way.
    fn on_recovered(&mut self, flight_bytes: u64, now: Time) {
        let _ = (flight_bytes, now);
    }

    /// Data goes out again with nothing under way, as the application had no more; `srtt` is the smoothed round-trip time. Perhaps more than
    /// once before it does.
    fn on_resume(&mut self, srtt: Span, now: Time) {
        let _ = (srtt, now);
    }

    /// Whether `payload_bytes` may join the `in_flight_bytes` that recovery believes to be in the network.
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission;

    /// `segment` goes out; the answer is the codepoint that it carries.
    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        let _ = (segment, now);
        Dscp::BEST_EFFORT
    }

    /// Whether it hears of segments that go out. Asked once, when the connection is made: [`Self::on_send`] of one that says no is never
    /// called, and its segments are best effort.
    fn hears_sends(&self) -> bool {
        true
    }

    /// The congestion window in bytes: what may be in flight.
    fn cwnd_bytes(&self) -> u64;

    /// The slow start threshold in bytes.
    fn ssthresh_bytes(&self) -> u64;

    /// Whether the retransmission timer doubles when it expires. Not where the control slows down below one segment per
    /// round trip by itself (SUBTCP; catalogue, section 5, SUB-3).
    fn backs_off_timer(&self) -> bool {
        true
    }

    /// Whether a loss is for it something else than an echo, so that it hears of one in a window of data for which it has heard of the
    /// other; not where an echo is answered as a loss is (RFC 3168, section 6.1.2).
    fn tells_losses_from_echoes(&self) -> bool {
        false
    }

    /// Whether it spreads its segments itself ([`Permission::At`]).
    fn is_paced(&self) -> bool {
        false
    }

    /// An inner variable by name, for `record`. `None` for names it has not.
    fn variable(&self, name: &str) -> Option<f64> {
        let _ = name;
        None
    }
}

/// Declares [`AnyCongestionControl`] and [`CongestionControlConfig`] over the controls that there are.
macro_rules! controls {
    ($($(#[doc = $doc:literal])* $variant:ident($config:ident => $of:ident, $control:ty) = $kind:literal,)*) => {
        family! {
            /// Who decides the window of TCP.
            pub enum CongestionControlConfig { $($(#[doc = $doc])* $variant($config) = $kind,)* } and {
                /// One's own.
                Own(Own<dyn MakeControl>),
            }
        }

        /// Calls the same of any control.
        macro_rules! each {
            ($any:ident, $c:ident => $call:expr) => {
                match $any { $(Self::$variant($c) => $call,)* Self::Own($c) => $call }
            };
        }

        impl CongestionControlConfig {
            /// What may be recorded of it.
            pub fn variables(&self) -> &'static [Variable] {
                match self {
                    $(Self::$variant(_) => <$of as CongestionControl>::variables(),)*
                    Self::Own(own) => own.values().variables(),
                }
            }

            /// What may be recorded of any of them.
            pub fn all_variables() -> Vec<Variable> {
                #[allow(unused_mut, reason = "without text nothing is registered")]
                let mut lists = Vec::from([$(<$of as CongestionControl>::variables(),)*]);
                #[cfg(feature = "text")]
                lists.extend(<dyn MakeControl>::registry().abouts().map(|(_, variables)| variables));
                distinct(&lists)
            }

            /// The control for a connection with the parameters `tcp`.
            pub fn build(&self, tcp: &TcpConfig) -> AnyCongestionControl {
                match self {
                    $(Self::$variant(config) => AnyCongestionControl::$variant(config.build(tcp).into()),)*
                    Self::Own(own) => AnyCongestionControl::Own(own.values().make(tcp)),
                }
            }
        }

        /// Any congestion control, dispatched by an enumeration.
        #[derive(Debug)]
        pub enum AnyCongestionControl {
            $($(#[doc = $doc])* $variant($control),)*
            /// One's own.
            Own(OwnControl),
        }

        impl CongestionControl for AnyCongestionControl {
            fn sampling(&self) -> Sampling {
                each!(self, c => c.sampling())
            }
            #[inline]
            fn on_ack(&mut self, ack: &Ack, now: Time) {
                each!(self, c => c.on_ack(ack, now))
            }
            #[inline]
            fn on_congestion(&mut self, event: &Congestion, now: Time) {
                each!(self, c => c.on_congestion(event, now))
            }
            fn on_recovered(&mut self, flight_bytes: u64, now: Time) {
                each!(self, c => c.on_recovered(flight_bytes, now))
            }
            fn on_resume(&mut self, srtt: Span, now: Time) {
                each!(self, c => c.on_resume(srtt, now))
            }
            #[inline]
            fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
                each!(self, c => c.may_send(in_flight_bytes, payload_bytes, now))
            }
            #[inline]
            fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
                each!(self, c => c.on_send(segment, now))
            }
            #[inline]
            fn cwnd_bytes(&self) -> u64 {
                each!(self, c => c.cwnd_bytes())
            }
            fn ssthresh_bytes(&self) -> u64 {
                each!(self, c => c.ssthresh_bytes())
            }
            fn hears_sends(&self) -> bool {
                each!(self, c => c.hears_sends())
            }
            fn backs_off_timer(&self) -> bool {
                each!(self, c => c.backs_off_timer())
            }
            fn tells_losses_from_echoes(&self) -> bool {
                each!(self, c => c.tells_losses_from_echoes())
            }
            fn is_paced(&self) -> bool {
                each!(self, c => c.is_paced())
            }
            fn variable(&self, name: &str) -> Option<f64> {
                each!(self, c => c.variable(name))
            }
        }
    };
}

controls! {
    /// Additive increase, multiplicative decrease.
    Reno(RenoConfig => Reno, Reno) = "reno",
    /// Growth with time.
    Cubic(CubicConfig => Cubic, Box<Cubic>) = "cubic",
    /// In proportion to how much was marked.
    Dctcp(DctcpConfig => Dctcp, Box<Dctcp>) = "dctcp",
    /// The same, for paths with others on them.
    Prague(PragueConfig => Prague, Box<Prague>) = "prague",
    /// By a model of the path.
    Bbr(BbrConfig => Bbr, Box<Bbr>) = "bbr",
    /// By a model of the path, with bounds from losses.
    Bbr3(Bbr3Config => Bbr3, Box<Bbr3>) = "bbr3",
    /// By how many packets wait.
    Vegas(VegasConfig => Vegas, Box<Vegas>) = "vegas",
    /// After a loss, what the path holds.
    Westwood(WestwoodConfig => Westwood, Box<Westwood>) = "westwood",
    /// By parts of itself.
    Scalable(ScalableConfig => Scalable, Box<Scalable>) = "scalable",
    /// Gives way to all others.
    Ledbat(LedbatConfig => Ledbat, Box<Ledbat>) = "ledbat",
    /// At a rate that the wait sets.
    Copa(CopaConfig => Copa, Box<Copa>) = "copa",
    /// Windows below one segment.
    SubTcp(SubTcpConfig => SubTcp, Box<SubTcp>) = "subtcp",
    /// With a reservation.
    Reserved(ReservedConfig => Reserved, Box<Reserved>) = "reserved",
    /// With a packet marking engine.
    Marking(MarkingSourceConfig => MarkingSource, Box<MarkingSource>) = "marking",
    /// Never changes.
    Fixed(FixedConfig => Fixed, Fixed) = "fixed",
    /// Ignores losses.
    Unresponsive(UnresponsiveConfig => Unresponsive, Unresponsive) = "unresponsive",
}

impl CongestionControlConfig {
    /// Reno.
    pub const RENO: Self = Self::Reno(RenoConfig { ecn_beta: None, hystart: false });
}

impl Default for CongestionControlConfig {
    fn default() -> Self {
        Self::RENO
    }
}

/// A range with a message that says all of it, and why it is that.
const fn telling<T: Scalar>(range: Bound<T>, message: &'static str, why: &'static str) -> Bound<T> {
    range.saying("", message).helping(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use tidegate_parameters::{Parameters, Report};
    use tidegate_units::BitRate;

    fn complaints(config: &CongestionControlConfig) -> Vec<String> {
        let mut found = Vec::new();
        let mut sink = |path: &[&str], message: String, help: &str| {
            found.push(format!("{}: {message}; {help}", path.join(".")));
        };
        config.check(&mut Report::new(&mut sink));
        found
    }

    #[test]
    fn what_is_out_of_bounds_is_said_once() {
        let rate = BitRate::from_mbps(4);
        let cubic = CubicConfig { c: f64::NAN, beta: 1.0, ..CubicConfig::default() };
        let dctcp = DctcpConfig { g: 0.0, initial_alpha: 2.0 };
        let bbr =
            BbrConfig { high_gain: 1.0, pacing_margin: 1.0, extra_segments: 1001, ..BbrConfig::default() };
        let subtcp =
            SubTcpConfig { increase: -1.0, scale_max: 0.5, tick: Span::ZERO, ..SubTcpConfig::default() };
        let reserved = ReservedConfig {
            depth: Span::from_secs(3_600),
            burst: Some(0),
            marked: 64,
            ..ReservedConfig::with(rate)
        };
        let marking = MarkingSourceConfig {
            weight: 2.0,
            factor: f64::INFINITY,
            pause: Span::from_secs(70),
            ..MarkingSourceConfig::with(rate)
        };
        let cases: [(CongestionControlConfig, &[&str]); 6] = [
            (
                CongestionControlConfig::Cubic(cubic),
                &[
                    "c: NaN must be above 0 and at most 1000000; at 0 the window never grows",
                    "beta: 1 must be between 0 and 1; congestion leaves a part of the window",
                ],
            ),
            (
                CongestionControlConfig::Dctcp(dctcp),
                &[
                    "g: 0 must be above 0 and at most 1; a weight in an average: at 0 no round trip counts",
                    "initial_alpha: 2 is no probability; from 0 to 1",
                ],
            ),
            (
                CongestionControlConfig::Bbr(bbr),
                &[
                    "high_gain: 1 must be above 1 and at most 100; at 1 it never finds a higher rate",
                    "pacing_margin: 1 must be at least 0 and below 1; at 1 nothing is sent",
                    "extra_segments: 1001 is above 1000; at most 1000: room for acknowledgments, no second window",
                ],
            ),
            (
                CongestionControlConfig::SubTcp(subtcp),
                &[
                    "increase: -1 must be above 0 and at most 1000; at 0 a success changes nothing",
                    "tick: this time cannot be zero; above 0s: waiting and averaging take time",
                    "scale_max: 0.5 must be from 1 to 1000000; so many round trips between segments: one at least",
                ],
            ),
            (
                CongestionControlConfig::Reserved(reserved),
                &[
                    "burst: zero leaves nothing; at least 1",
                    "marked: 64 is no codepoint; from 0 to 63",
                    "depth: no bucket holds 1.8GB; at most 500MB",
                ],
            ),
            (
                CongestionControlConfig::Marking(marking),
                &[
                    "weight: 2 is no probability; from 0 to 1",
                    "factor: inf is no factor; above 0",
                    "pause_max: pause_max (64s) is below pause (70s); ",
                ],
            ),
        ];
        for (config, expected) in cases {
            assert_eq!(complaints(&config), expected, "{}", config.kind());
        }
        assert!(complaints(&CongestionControlConfig::default()).is_empty());
    }
}

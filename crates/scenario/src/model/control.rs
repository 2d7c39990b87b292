//! Congestion controls of TCP: how the window moves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Span};

use super::engine::{self, EngineMeter, af11, engine_family};
use super::kinds;
use crate::text::{self, Text};

kinds! {
    /// Who decides the window of TCP.
    Control {
        Reno(RenoControl) = "reno",
        Cubic(CubicControl) = "cubic",
        Dctcp(DctcpControl) = "dctcp",
        Bbr(BbrControl) = "bbr",
        SubTcp(SubTcp) = "subtcp",
        Reserved(Reserved) = "reserved",
        Marking(Box<Marking>) = "marking",
        Unresponsive(UnresponsiveControl) = "unresponsive",
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::Reno(RenoControl {})
    }
}

/// # Reno's window
///
/// Slow start, additive increase, multiplicative decrease; never below `minimum_window`.
///
/// Source: RFC 5681; ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenoControl {}

/// # A TCP that ignores losses
///
/// Opens its window as Reno does and never closes it, whatever is lost; what was lost it sends again. A host that was changed
/// to take more than its share.
///
/// Source: Harrison and Kalyanaraman 2000, section IV ("hacked TCP implementations").
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnresponsiveControl {}

/// # CUBIC's window
///
/// Grows with the time since the last congestion: quickly to where that was, slowly there, and on beyond. Where Reno would
/// be faster it is as fast as Reno. What hosts use by default today.
///
/// Source: RFC 9438.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CubicControl {
    /// How fast the window grows (C), in segments per cubic second. Source: RFC 9438, section 5.1.
    pub c: f64,
    /// What congestion leaves of the window. Source: RFC 9438, section 4.6.
    pub beta: f64,
    /// Whether a flow that meets congestion earlier than the last time gives way to others. Source: RFC 9438, section 4.7.
    pub fast_convergence: bool,
    /// Whether the window of Reno that is followed on short paths rises by a whole segment per round trip once it is above
    /// the window before the congestion. Linux does not. Source: RFC 9438, section 4.3.
    pub full_increase: bool,
    /// Whether congestion leaves whole segments, rounded down, as in Linux: small windows fall further than to `beta`.
    /// Source: Linux.
    pub whole_segments: bool,
}

impl Default for CubicControl {
    fn default() -> Self {
        Self { c: 0.4, beta: 0.7, fast_convergence: true, full_increase: true, whole_segments: false }
    }
}

/// # DCTCP's window
///
/// Closes in proportion to how much of the data was marked: with a queue that marks everything above a threshold it keeps the link
/// busy with a short queue. It turns `ecn` on, and `ecn_feedback` to `dctcp`.
///
/// Source: RFC 8257.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DctcpControl {
    /// The weight of the last round trip in `alpha`. Source: RFC 8257, section 4.2.
    pub g: f64,
    /// `alpha` before the first round trip. Source: RFC 8257, section 4.2.
    pub initial_alpha: f64,
}

impl Default for DctcpControl {
    fn default() -> Self {
        Self { g: 1.0 / 16.0, initial_alpha: 1.0 }
    }
}

/// # BBR, version 1
///
/// Sends at the largest rate at which data arrived lately, and keeps about two products of that rate and the least round trip under
/// way, whatever is lost or marked.
///
/// Source: draft-cardwell-iccrg-bbr-congestion-control-00.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BbrControl {
    /// By which the rate grows in each round trip of the start. Default: 2 / ln 2. Source: section 4.2.1.
    pub high_gain: f64,
    /// How many products of rate and round trip the window holds. Source: section 4.2.3.2.
    pub cwnd_gain: f64,
    /// How long the least round trip is believed. Source: section 4.1.2.3.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub rtprop_window: Span,
    /// How long next to nothing is under way to measure it anew. Source: section 4.3.5.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub probe_rtt: Span,
    /// By which part the rate stays below what the model says. Source: version 1 has none; Linux has 0.01.
    pub pacing_margin: f64,
    /// Segments that the window holds beyond the model. Source: version 1 has none; what Linux adds for acknowledgments of every
    /// second segment is 2.
    pub extra_segments: u32,
    /// Segments more that are to be under way where it probes for more rate. Source: version 1 has none; Linux has 2.
    pub probe_segments: u32,
}

impl Default for BbrControl {
    fn default() -> Self {
        Self {
            high_gain: 2.0 / std::f64::consts::LN_2,
            cwnd_gain: 2.0,
            rtprop_window: Span::from_secs(10),
            probe_rtt: Span::from_millis(200),
            pacing_margin: 0.0,
            extra_segments: 0,
            probe_segments: 0,
        }
    }
}

/// How SUBTCP's window grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubTcpForm {
    /// Below one segment a success halves `scale`.
    #[default]
    Halving,
    /// Below one segment a success takes `scale_factor` from `scale`.
    Scaled,
    /// The rate rises by at most `increase` of itself per round trip.
    Bandwidth,
}

/// # SUBTCP: windows below one segment
///
/// Sends one segment every `scale` round trips where a window of one segment is too much. Congestion doubles `scale`, a
/// success takes some of it back; from one segment on it is TCP, but for the form `bandwidth`.
///
/// Source: thesis of Feng, section 3.3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubTcp {
    /// How the window grows. Source: thesis of Feng, Fig. 3.17, Fig. 3.21, Fig. 3.22.
    pub form: SubTcpForm,
    /// What a success takes from `scale`, in the form `scaled`. Source: thesis of Feng, section 3.3.2.
    pub scale_factor: f64,
    /// By which part of itself the rate may rise per round trip, in the form `bandwidth` (X). Source: thesis of Feng,
    /// section 3.3.2 (1 %).
    pub increase: f64,
    /// The tick in which waits between segments are counted. Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub tick: Span,
    /// The largest `scale`. Source: assumed, ns's largest back-off, which `scale` replaces.
    pub scale_max: f64,
}

impl Default for SubTcp {
    fn default() -> Self {
        Self {
            form: SubTcpForm::Halving,
            scale_factor: 0.25,
            increase: 0.01,
            tick: Span::from_millis(10),
            scale_max: 64.0,
        }
    }
}

/// Which round-trip time makes the window of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservedWindow {
    /// None: the window is plain TCP's.
    None,
    /// The least one observed.
    Best,
    /// The smoothed one.
    Average,
}

/// # TCP with a reservation
///
/// Marks the segments that a token bucket covers. With a timer it sends on tokens even where the window would make it
/// wait; with a window of its own, losses reduce only what it sends beyond the reservation.
///
/// Source: thesis of Feng, sections 5.3 and 5.4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// The reserved rate on the wire. An event can change it.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate: BitRate,
    /// Depth of the token bucket: the time in which the rate fills it. Source: thesis of Feng, section 5.3.1.
    #[serde(with = "text", default = "fifty_millis")]
    #[schemars(with = "Text<Span>")]
    pub depth: Span,
    /// Interval of timed transmissions, which send on tokens whatever the window says. Default: none. Source: thesis of
    /// Feng, section 5.4.1 (20 ms).
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<Span>>")]
    pub timer: Option<Span>,
    /// The round-trip time from which the reserved part of the window follows. Source: thesis of Feng, section 5.4.2 (it
    /// tried both).
    #[serde(default = "no_window")]
    pub window: ReservedWindow,
    /// The most that a segment without tokens waits for some. Default: none. Source: thesis of Feng, section 5.4.1.
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<Span>>")]
    pub delayed: Option<Span>,
    /// How many segments without tokens may go at one instant. Default: any number. Source: the thesis of Feng has no bound;
    /// RFC 2582, section 3, suggests 4 (ns's `maxburst`).
    #[serde(default)]
    pub burst: Option<u32>,
    /// Whether growth is scaled by the variable part of the window in congestion avoidance too. Source: thesis of Feng,
    /// section 5.4.2 has it so; off, because then the variable part loses against best effort (catalogue, RAW-1).
    #[serde(default)]
    pub literal_growth: bool,
    /// Whether timer and window are turned off, for good, when a marked segment is lost or echoed as congested. Source:
    /// thesis of Feng, section 5.4.2 (proposed).
    #[serde(default)]
    pub safeguard: bool,
    /// Codepoint of segments with tokens, 0 to 63. Source: RFC 2597 (AF11).
    #[serde(default = "af11")]
    pub marked: u8,
    /// Codepoint of the others, 0 to 63. Source: best effort.
    #[serde(default)]
    pub unmarked: u8,
}

/// What becomes of marked segments that the target does not need any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarkingSurplus {
    /// They are given up.
    GivenUp,
    /// They become best-effort segments.
    Replaced,
}

engine_family! {
    /// # TCP with a packet marking engine
    ///
    /// A window of marked and one of best-effort segments: the connection competes for best effort like any other and marks
    /// only what its target lacks. It stops marking where marks are not honoured.
    ///
    /// Source: thesis of Feng, sections 6.4 and 6.5.3.
    Marking {
        target:
            /// The rate that it shall have, on the wire.
        before: {}
        after: {
            /// What becomes of marks above the target. Source: thesis of Feng, Fig. 6.9 as printed.
            #[serde(default = "given_up")]
            surplus: MarkingSurplus,
            /// Whether missing differentiation is noticed. Source: thesis of Feng, section 6.5.3.
            #[serde(default = "yes")]
            detection: bool,
            /// So many times more segments must go between two losses of marked segments than between two of others. Source:
            /// assumed ("substantially greater").
            #[serde(default = "two")]
            factor: f64,
            /// How long marking pauses at first where that is not so; then twice as long each time. Source: assumed.
            #[serde(with = "text", default = "five_seconds")]
            #[schemars(with = "Text<Span>")]
            pause: Span,
            /// The longest pause. Source: assumed.
            #[serde(with = "text", default = "longest_pause")]
            #[schemars(with = "Text<Span>")]
            pause_max: Span,
        }
    }
}

const fn fifty_millis() -> Span {
    Span::from_millis(50)
}
const fn five_seconds() -> Span {
    Span::from_secs(5)
}
const fn longest_pause() -> Span {
    Span::from_secs(64)
}
const fn no_window() -> ReservedWindow {
    ReservedWindow::None
}
const fn given_up() -> MarkingSurplus {
    MarkingSurplus::GivenUp
}
const fn yes() -> bool {
    true
}
const fn two() -> f64 {
    2.0
}

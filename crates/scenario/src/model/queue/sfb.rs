//! Stochastic Fair BLUE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Limit, Span};

use crate::text::{self, Text};

/// What moves the marking probability of a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SfbLaw {
    /// A step up when an arrival finds the bin above its size, a step down when it finds it empty.
    Blue,
    /// RED on the bin's average occupancy, with a largest probability that moves as Adaptive RED's.
    AdaptiveRed,
}

/// How flows are spread over the bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SfbHash {
    /// By a hash with a secret, which depends on the seed.
    Keyed,
    /// Evenly, by arithmetic on the flow's number. Whoever numbers the flows can aim at bins: for reproductions only.
    Even,
}

/// Where bins begin when the hash functions change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SfbBinsBegin {
    /// At nothing, but for what warmed them up.
    Fresh,
    /// Not below the mean of the bins that were in use until then, without those that have reached 1.
    Mean,
}

/// What limits flows that do not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SfbLimiting {
    /// `nonresponsive_rate` for all of them together.
    Fixed,
    /// A fair share of the link for each, by estimates of their number and of the number of all flows.
    FairShare,
}

/// # Stochastic Fair BLUE
///
/// Accounts each flow in one bin per level, with hash functions that nobody outside knows. A flow that does not respond
/// drives the marking probability of all its bins to 1 and is then limited in rate; any other is marked with the least
/// probability of its bins. Memory does not depend on the number of flows.
///
/// Source: thesis of Feng, sections 4.4 and 4.6.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sfb {
    /// How much may wait. Source: thesis of Feng, section 4.4.2.
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub limit: Limit,
    /// Levels of bins, 1 to 8. Source: thesis of Feng, section 4.4.2.
    pub levels: u32,
    /// Bins per level. `tidegate design sfb` finds levels and bins for a given memory. Source: thesis of Feng, section
    /// 4.4.2.
    pub bins: u32,
    /// How flows are spread over the bins. Source: assumed; thesis of Feng, section 4.4.1, has "independent hash functions".
    pub hash: SfbHash,
    /// Size of a bin in packets: a bin that holds more refuses and moves its probability up. Source: thesis of Feng,
    /// section 4.4.2 (half more than a bin's part of the buffer).
    #[serde(with = "text")]
    #[schemars(with = "Text<Limit>")]
    pub bin_size: Limit,
    /// What moves the probability of a bin. Source: thesis of Feng, Fig. 4.14; section 4.4.1 for `adaptive-red`.
    pub law: SfbLaw,
    /// Step up of a bin's probability (`blue`). Source: thesis of Feng, section 4.3.2; assumed for SFB.
    pub increment: f64,
    /// Step down of a bin's probability (`blue`). Source: thesis of Feng, section 4.3.2; assumed for SFB.
    pub decrement: f64,
    /// The least time between two steps of one bin (`blue`). Default: none. Source: thesis of Feng, Fig. 4.14.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub freeze: Option<Span>,
    /// How far the account of a bin's probability may rise, 1 or more: what is above 1 is a reserve against parole (`blue`).
    /// Default: no bound. Source: thesis of Feng, Fig. 4.14.
    pub ceiling: Option<f64>,
    /// Average occupancy of a bin below which nothing is notified, as a part of `bin_size` (`adaptive-red`). Source: thesis
    /// of Feng, section 4.3.2, of the queue; of a bin assumed.
    pub min: f64,
    /// Average occupancy of a bin from which everything is notified, as a part of `bin_size` (`adaptive-red`). Source:
    /// thesis of Feng, section 4.3.2, of the queue; of a bin assumed.
    pub max: f64,
    /// Weight of a sample in the average (`adaptive-red`). Source: Floyd and Jacobson 1993, section VII.
    pub weight: f64,
    /// The largest probability at the start (`adaptive-red`). Source: Floyd and Jacobson 1993, section VII.
    pub max_p: f64,
    /// Divides the largest probability when the average falls below `min` (`adaptive-red`). Source: thesis of Feng, section
    /// 3.2.3.
    pub alpha: f64,
    /// Multiplies it when the average rises above `max` (`adaptive-red`). Source: thesis of Feng, section 3.2.3.
    pub beta: f64,
    /// What limits flows that do not respond. Source: thesis of Feng, section 4.4.2; section 4.6 for `fair-share`.
    pub limiting: SfbLimiting,
    /// What they may send together (`fixed`). Source: thesis of Feng, section 4.4.2.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub nonresponsive_rate: BitRate,
    /// How much they may save up for a burst. Default: the largest packet of the link. Source: assumed.
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub nonresponsive_burst: Option<Bytes>,
    /// Bits of the map in which all flows are counted (`fair-share`). Source: assumed; within 2 % up to 4000 flows.
    pub census_bits: u32,
    /// How long flows are counted (`fair-share`). Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub census_window: Span,
    /// How often the hash functions change. Default: never. Source: thesis of Feng, section 4.4.4 (2 s where they move).
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub rehash: Option<Span>,
    /// Whether the bins of the next hash functions are warmed up meanwhile (with `rehash`). Source: thesis of Feng, section
    /// 4.4.4.
    pub double_buffered: bool,
    /// Where the probabilities of the bins begin when the hash functions change. Source: thesis of Feng, section 4.4.4; `mean`
    /// is assumed, from its Table 4.2.
    pub bins_begin: SfbBinsBegin,
    /// Whether packets of transports with ECN are marked instead of dropped. Source: thesis of Feng, section 4.4.2.
    pub ecn: bool,
}

impl Default for Sfb {
    fn default() -> Self {
        Self {
            limit: Limit::Bytes(Bytes::new(200_000)),
            levels: 2,
            bins: 23,
            hash: SfbHash::Keyed,
            bin_size: Limit::Packets(13),
            law: SfbLaw::Blue,
            increment: 0.01,
            decrement: 0.01,
            freeze: None,
            ceiling: None,
            min: 0.3,
            max: 0.9,
            weight: 0.002,
            max_p: 0.02,
            alpha: 3.0,
            beta: 2.0,
            limiting: SfbLimiting::Fixed,
            nonresponsive_rate: BitRate::from_bps(160_000),
            nonresponsive_burst: None,
            census_bits: 4096,
            census_window: Span::from_secs(1),
            rehash: None,
            double_buffered: true,
            bins_begin: SfbBinsBegin::Fresh,
            ecn: true,
        }
    }
}

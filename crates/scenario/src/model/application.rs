//! Applications: when there is something to send.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Span};

use super::kinds;
use crate::text::{self, Text};

kinds! {
    /// What gives a transport something to send.
    Application {
        Bulk(Bulk) = "bulk",
        Transfer(Transfer) = "transfer",
        Cbr(Cbr) = "cbr",
        Poisson(Poisson) = "poisson",
        OnOff(OnOff) = "on-off",
        Adaptive(Adaptive) = "adaptive",
    }
}

/// # Bulk transfer
///
/// Always has something to send, until the flow stops. For TCP.
///
/// Source: the "greedy" and FTP sources of all five documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bulk {}

/// # One transfer
///
/// Sends so much, then nothing. For TCP.
///
/// Source: ns (FTP `produce`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The bytes of payload.
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub size: Bytes,
}

/// # Constant bit rate
///
/// One packet after another at a constant rate. For UDP.
///
/// Source: ns (CBR).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cbr {
    /// The rate on the wire, headers included.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate: BitRate,
    /// A packet on the wire. Default: the transport's `packet`.
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub packet: Option<Bytes>,
    /// Each gap is longer or shorter by up to this part of itself, uniformly; 0 to 1. Source: ns (`random_` off).
    #[serde(default)]
    pub jitter: f64,
}

/// # Poisson process
///
/// Packets at random with exponential gaps. For UDP.
///
/// Source: queueing theory; the oracle of M/D/1 and M/M/1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// The mean rate on the wire, headers included.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate: BitRate,
    /// A packet on the wire. Default: the transport's `packet`.
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub packet: Option<Bytes>,
}

/// How the lengths of on and off times are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnOffDistribution {
    /// Always the mean.
    Constant,
    /// Exponential.
    Exponential,
    /// Pareto with `shape`: heavy-tailed, self-similar in sum.
    Pareto,
}

/// # Adaptive audio or video
///
/// Packets at a constant rate, one of several. Where a router advises that a part is discarded, it takes the highest rate
/// that gets through; after a time without advice it tries the next higher one. For UDP. It needs a domain with `nbq` and
/// `advice`.
///
/// Source: Tamura, Tobe and Tokuda 2000, section 8.1: sources choose a coding scheme by the discard ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// The rates on the wire, headers included, ascending. It starts with the last one.
    #[serde(with = "text::list")]
    #[schemars(with = "Vec<Text<BitRate>>")]
    pub rates: Vec<BitRate>,
    /// A packet on the wire. Default: the transport's `packet`.
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub packet: Option<Bytes>,
    /// How long without advice before it tries the next higher rate. Source: assumed, several times `interval` of `nbq`.
    #[serde(with = "text", default = "patience")]
    #[schemars(with = "Text<Span>")]
    pub patience: Span,
    /// How long after a change it ignores advice, which is about the rate before. Source: assumed, as long as two
    /// intervals of `nbq`.
    #[serde(with = "text", default = "settle")]
    #[schemars(with = "Text<Span>")]
    pub settle: Span,
}

fn patience() -> Span {
    Span::from_secs(2)
}

fn settle() -> Span {
    Span::from_millis(200)
}

/// # On and off
///
/// Sends during on times and is silent during off times. Over UDP with `rate` while on; over TCP as much as TCP lets it.
///
/// Source: ns (`Application/Traffic/Pareto`, `Exponential`); thesis of Feng, chapter 4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// The distribution of on and off times. Source: ns.
    #[serde(default = "exponential")]
    pub distribution: OnOffDistribution,
    /// The mean on time.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub on: Span,
    /// The mean off time.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub off: Span,
    /// The shape of the Pareto distribution, above 1. Source: ns.
    #[serde(default = "pareto_shape")]
    pub shape: f64,
    /// The rate while on; for UDP, where it is required.
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<BitRate>>")]
    pub rate: Option<BitRate>,
    /// A packet on the wire; for UDP. Default: the transport's `packet`.
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<Bytes>>")]
    pub packet: Option<Bytes>,
}

fn exponential() -> OnOffDistribution {
    OnOffDistribution::Exponential
}

fn pareto_shape() -> f64 {
    1.5
}

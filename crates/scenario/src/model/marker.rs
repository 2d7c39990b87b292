//! Markers: which promise packets carry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Limit, Span};

use super::engine::{self, EngineMeter, af11, engine_family, hundred_millis};
use super::kinds;
use crate::text::{self, Text};

kinds! {
    /// What writes codepoints on packets.
    Marker {
        Profile(Profile) = "profile",
        SingleRate(SingleRate) = "srtcm",
        TwoRates(TwoRates) = "trtcm",
        Engine(Engine) = "pme",
        Account(Account) = "account",
    }
}

/// What happens to packets beyond a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// They get the codepoint `unmarked`.
    Unmark,
    /// They are dropped: a policer.
    Drop,
}

/// # Token-bucket profile
///
/// Marks what stays within a token bucket; what exceeds it goes on unmarked, or is dropped.
///
/// Source: thesis of Feng, section 5.3; RFC 2475, section 2.3.3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// How fast tokens come.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub rate: BitRate,
    /// What the bucket holds, as a size, or as the time in which the rate fills it. Source: thesis of Feng, section 5.3.1.
    #[serde(with = "text", default = "fifty_millis")]
    #[schemars(with = "Text<Limit>")]
    pub depth: Limit,
    /// The rate of bursts. Default: no bound but the link's. Source: thesis of Feng, section 5.3 (the speed of the link).
    #[serde(with = "text::optional", default)]
    #[schemars(with = "Option<Text<BitRate>>")]
    pub peak: Option<BitRate>,
    /// What happens to packets for which there are no tokens. Source: thesis of Feng, section 5.3.
    #[serde(default = "unmark")]
    pub beyond: Beyond,
    /// Codepoint of packets with tokens, 0 to 63. Source: RFC 2597 (AF11).
    #[serde(default = "af11")]
    pub marked: u8,
    /// Codepoint of the others, 0 to 63. Source: best effort.
    #[serde(default)]
    pub unmarked: u8,
    /// Whether a packet must arrive marked to stay so, as at the border between two networks. Source: RFC 2475.
    #[serde(default)]
    pub aware: bool,
}

/// # Single rate three colour marker
///
/// Green within a committed rate and burst, yellow within an excess burst, red beyond.
///
/// Source: RFC 2697; RFC 2597.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SingleRate {
    /// The committed rate (CIR).
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub committed_rate: BitRate,
    /// The committed burst (CBS).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub committed_burst: Bytes,
    /// The excess burst (EBS).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub excess_burst: Bytes,
    /// The class of assured forwarding whose codepoints are written, 1 to 4. Source: RFC 2597.
    #[serde(default = "one")]
    pub class: u8,
    /// Whether a packet never leaves better than it came. Source: RFC 2697, colour-aware mode.
    #[serde(default = "yes")]
    pub aware: bool,
    /// Whether red packets are dropped. Source: RFC 2697 leaves it open.
    #[serde(default)]
    pub drop_red: bool,
}

/// # Two rate three colour marker
///
/// Green within a committed rate, yellow within a peak rate, red beyond.
///
/// Source: RFC 2698; RFC 2597.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwoRates {
    /// The committed rate (CIR).
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub committed_rate: BitRate,
    /// The committed burst (CBS).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub committed_burst: Bytes,
    /// The peak rate (PIR), at least the committed rate.
    #[serde(with = "text")]
    #[schemars(with = "Text<BitRate>")]
    pub peak_rate: BitRate,
    /// The peak burst (PBS).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub peak_burst: Bytes,
    /// The class of assured forwarding whose codepoints are written, 1 to 4. Source: RFC 2597.
    #[serde(default = "one")]
    pub class: u8,
    /// Whether a packet never leaves better than it came. Source: RFC 2698, colour-aware mode.
    #[serde(default = "yes")]
    pub aware: bool,
    /// Whether red packets are dropped. Source: RFC 2698 leaves it open.
    #[serde(default)]
    pub drop_red: bool,
}

/// How a marking engine's probability follows the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineLaw {
    /// At most one marked packet more, or less, per round trip.
    TcpFriendly,
    /// In steps of up to `step` at every update.
    TcpIndependent,
}

engine_family! {
    /// # Packet marking engine
    ///
    /// Watches the rate that passes and marks just so many packets that the target is met. It stands outside of the hosts;
    /// for the one inside TCP see the transport's `control`.
    ///
    /// Source: thesis of Feng, section 6.3, Figs 6.2 and 6.6.
    Engine {
        target:
            /// The rate that its flows shall have together.
        before: {
            /// How the marking probability follows. Source: thesis of Feng, Fig. 6.6.
            #[serde(default = "tcp_friendly")]
            law: EngineLaw,
            /// The largest change of the probability per update, for `tcp-independent`. Source: thesis of Feng, Fig. 6.4 (0.01, 1).
            #[serde(default = "one_hundredth")]
            step: f64,
            /// The round-trip time, for `tcp-friendly`. Source: thesis of Feng, Fig. 6.3 (five links of 10 ms, both ways).
            #[serde(with = "text", default = "hundred_millis")]
            #[schemars(with = "Text<Span>")]
            rtt: Span,
            /// A typical packet, for `tcp-friendly`. Source: thesis of Feng, section 5.3.1 (1 KB).
            #[serde(with = "text", default = "kilobyte")]
            #[schemars(with = "Text<Bytes>")]
            packet: Bytes,
        }
        after: {}
    }
}

/// # Account of marked traffic
///
/// Charges for what passes, more for what is marked (green), and changes nothing. With prices of 0 and 1 the charge is the marked
/// volume in megabytes; beside m connections that mark nothing, these lost m / (m + 1) of it.
///
/// Source: thesis of Feng, sections 6.1 and 6.4; MacKie-Mason and Varian 1995.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Account {
    /// What a megabyte costs that is not marked. Source: assumed.
    pub price: f64,
    /// What a megabyte costs that is marked. Source: assumed; thesis of Feng, section 6.1 (higher).
    pub marked_price: f64,
    /// Over how long utilization is measured, for `charge_per_s`. Source: assumed; thesis of Feng, section 6.1 (fixed intervals).
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub interval: Span,
}

impl Default for Account {
    fn default() -> Self {
        Self { price: 0.0, marked_price: 1.0, interval: Span::from_secs(1) }
    }
}

const fn fifty_millis() -> Limit {
    Limit::Time(Span::from_millis(50))
}
const fn kilobyte() -> Bytes {
    Bytes::new(1000)
}
const fn unmark() -> Beyond {
    Beyond::Unmark
}
const fn tcp_friendly() -> EngineLaw {
    EngineLaw::TcpFriendly
}
const fn yes() -> bool {
    true
}
const fn one() -> u8 {
    1
}
const fn one_hundredth() -> f64 {
    0.01
}

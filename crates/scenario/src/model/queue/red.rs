//! Random Early Detection and what is made of it: the keys of RED are keys of each of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Limit, Span};

use crate::text::{self, Text};

/// What RED counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedMode {
    /// The average queue in packets; all packets are equal.
    Packets,
    /// The average queue in bytes; a packet's probability is in proportion to its size.
    Bytes,
}

/// How the gaps between two random notifications are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedGap {
    /// Uniform on 1 to 1/p packets, as the RED paper has it.
    Paper,
    /// Uniform on 1/p to 2/p packets, as ns has it with `wait` set: a third as many notifications.
    Ns,
}

/// Whose small differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedFlavor {
    /// Of Floyd and Jacobson's paper.
    Paper,
    /// Of ns: no notification with fewer than two packets waiting, none for the first packet above `min`.
    Ns,
}

/// Who leaves when the queue overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RedVictim {
    /// The arriving packet.
    Tail,
    /// A waiting packet, each with the same probability.
    Random,
}

/// Declares a kind of queue that drops early as RED does: the keys that it shares with all such kinds, each with its default and
/// the source of that, and keys of its own.
///
/// A flattened structure would do the same, were it not that serde reads such a table without positions and without the types
/// that braces need.
macro_rules! early_dropping {
    (
        $(#[$outer:meta])*
        $type:ident {
            limit: $limit:expr, $limit_source:tt;
            min: $min:expr, $min_source:tt;
            max: $max:expr, $max_source:tt;
            max_p: $max_p:expr, $max_p_source:tt;
            weight: $weight:expr, $weight_source:tt;
            mode: $mode:expr, $mode_source:tt;
            mean_packet: $mean_packet:expr, $mean_packet_source:tt;
            gap: $gap:expr, $gap_source:tt;
            ecn: $ecn:expr, $ecn_source:tt;
            $($(#[$doc:meta])* $key:ident: $of:ty = $default:expr,)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $type {
            /// How much may wait.
            #[doc = $limit_source]
            #[serde(with = "text")]
            #[schemars(with = "Text<Limit>")]
            pub limit: Limit,
            /// Average queue at which random notification begins, in packets or bytes.
            #[doc = $min_source]
            #[serde(with = "text")]
            #[schemars(with = "Text<Limit>")]
            pub min: Limit,
            /// Average queue from which on every packet is notified.
            #[doc = $max_source]
            #[serde(with = "text")]
            #[schemars(with = "Text<Limit>")]
            pub max: Limit,
            /// Probability of a notification as the average reaches `max`.
            #[doc = $max_p_source]
            pub max_p: f64,
            /// Weight of the present queue in its average, above 0 and at most 1.
            #[doc = $weight_source]
            pub weight: f64,
            /// What the average counts.
            #[doc = $mode_source]
            pub mode: RedMode,
            /// Size of a typical packet.
            #[doc = $mean_packet_source]
            #[serde(with = "text")]
            #[schemars(with = "Text<Bytes>")]
            pub mean_packet: Bytes,
            /// The distribution of the gaps between notifications.
            #[doc = $gap_source]
            pub gap: RedGap,
            /// Whether packets of transports with ECN are marked as congested instead of dropped.
            #[doc = $ecn_source]
            pub ecn: bool,
            $($(#[$doc])* pub $key: $of,)*
        }

        impl $type {
            /// `min` and `max` in packets, where bytes count as packets of `mean_packet`; none where they are given in time.
            pub fn thresholds(&self) -> Option<(f64, f64)> {
                let packets = |limit: Limit| match limit {
                    Limit::Packets(packets) => Some(f64::from(packets)),
                    Limit::Bytes(bytes) => Some(bytes.as_f64() / self.mean_packet.as_f64()),
                    Limit::Time(_) => None,
                };
                Some((packets(self.min)?, packets(self.max)?))
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self {
                    limit: $limit,
                    min: $min,
                    max: $max,
                    max_p: $max_p,
                    weight: $weight,
                    mode: $mode,
                    mean_packet: $mean_packet,
                    gap: $gap,
                    ecn: $ecn,
                    $($key: $default,)*
                }
            }
        }
    };
}
pub(super) use early_dropping;

/// Declares RED, or a kind of queue that has RED inside.
macro_rules! red_family {
    (
        $(#[$outer:meta])*
        $type:ident { $($(#[$doc:meta])* $key:ident: $of:ty = $default:expr,)* }
    ) => {
        early_dropping! {
            $(#[$outer])*
            $type {
                limit: Limit::Packets(100), " Source: NBP, Table 1.";
                min: Limit::Packets(5), " As `mode` says. Source: Floyd and Jacobson 1993, section VII; ns (`thresh_`).";
                max: Limit::Packets(15), " At least twice `min` is advised. Source: Floyd and Jacobson 1993, section VI; ns (`maxthresh_`).";
                max_p: 0.02, " Source: Floyd and Jacobson 1993, section VII; ns has 0.1 (`linterm_`).";
                weight: 0.002, " Source: Floyd and Jacobson 1993, section VII.";
                mode: RedMode::Packets, " Source: ns until October 2004.";
                mean_packet: Bytes::new(1000), " Idle time is counted in these. Source: Floyd and Jacobson 1993; ns has 500B.";
                gap: RedGap::Paper, " Source: Floyd and Jacobson 1993.";
                ecn: true, " Source: Floyd and Jacobson 1993; in ns off (`setbit_`).";
                /// Whose small differences: how idle time counts, and what happens as the average crosses `min`. Source: Floyd and
                /// Jacobson 1993, Fig. 2.
                flavor: RedFlavor = RedFlavor::Paper,
                /// Whether the probability rises from `max_p` to one between `max` and twice `max` instead of jumping. Source: ns
                /// before June 1999 (off).
                gentle: bool = false,
                /// Whether packets with ECN are marked also above `max`. Source: Floyd and Jacobson 1993; thesis of Feng, chapter 3;
                /// in ns off.
                mark_forced: bool = true,
                /// Who leaves when the queue overflows. Source: ns since October 1997.
                victim: RedVictim = RedVictim::Tail,
                /// Time constant of a low-pass filter on the probability; it then decides alone, without a jump above `max`. Default:
                /// no filter. Source: thesis of Feng, section 4.3.3.
                #[serde(with = "text::optional")]
                #[schemars(with = "Option<Text<Span>>")]
                smoothing: Option<Span> = None,
                $($(#[$doc])* $key: $of = $default,)*
            }
        }
    };
}

red_family! {
    /// # Random Early Detection
    ///
    /// Keeps an average of the queue and notifies arriving packets at random, the more the higher the average.
    ///
    /// Source: Floyd and Jacobson 1993; ns of 1997 to 1999.
    Red {
        /// Round-trip time of the flows, queueing included. With it `max_p` follows the number of active flows. Default:
        /// `max_p` is fixed. Source: thesis of Feng, section 3.5 and equation 3.2.
        #[serde(with = "text::optional")]
        #[schemars(with = "Option<Text<Span>>")]
        flows_rtt: Option<Span> = None,
        /// How long a flow counts as active after a packet; with `flows_rtt`. Source: assumed, several round-trip times.
        #[serde(with = "text")]
        #[schemars(with = "Text<Span>")]
        flows_window: Span = Span::from_secs(1),
    }
}

red_family! {
    /// # Adaptive RED
    ///
    /// RED that finds its own `max_p`: divides it when the average falls below `min`, multiplies it when the average rises
    /// above `max`. The `max_p` given is where it starts.
    ///
    /// Source: thesis of Feng, section 3.2.3 and Fig. 3.6; ns (`feng_adaptive_`).
    AdaptiveRed {
        /// Divides `max_p` when the average falls below `min`. Source: thesis of Feng, section 3.2.3.
        alpha: f64 = 3.0,
        /// Multiplies `max_p` when the average rises above `max`. Source: thesis of Feng, section 3.2.3.
        beta: f64 = 2.0,
        /// The smallest `max_p`. Source: assumed.
        floor: f64 = 0.001,
        /// The largest `max_p`; above 1 the probability is no straight line but `1 - (1 - x)^max_p`. Source: thesis of
        /// Feng, section 3.5; for values above 1 its Fig. 3.27.
        ceiling: f64 = 1.0,
    }
}

red_family! {
    /// # RED with a penalty box
    ///
    /// Finds flows that do not slow down in the log of RED's notifications, and puts them together under a restricted rate
    /// until they back off.
    ///
    /// Source: thesis of Feng, section 4.5.1; Floyd and Fall 1999.
    RedPenaltyBox {
        /// How many notifications are remembered, and needed for a search. Source: assumed.
        log: u32 = 100,
        /// The least time between two searches, and over which a flow in the box is watched. Source: assumed.
        #[serde(with = "text")]
        #[schemars(with = "Text<Span>")]
        period: Span = Span::from_secs(1),
        /// No flow has a smaller round-trip time: what is friendly follows from it. Source: assumed.
        #[serde(with = "text")]
        #[schemars(with = "Text<Span>")]
        rtt: Span = Span::from_millis(20),
        /// A flow with a disproportionate share is put into the box above this rate over the root of the share of packets
        /// notified. Source: Floyd and Fall 1999, section 3.3.
        #[serde(with = "text")]
        #[schemars(with = "Text<BitRate>")]
        high: BitRate = BitRate::from_bps(96_000),
        /// What all flows in the box get together, as a share of the link. Source: assumed.
        share: f64 = 0.05,
        /// How many flows fit into the box. Source: assumed.
        flows_max: u32 = 64,
    }
}

/// The RED inside of another kind.
macro_rules! red_inside {
    ($($type:ident)*) => {
        $(
            impl $type {
                /// Its RED.
                pub fn red(&self) -> Red {
                    Red {
                        limit: self.limit,
                        min: self.min,
                        max: self.max,
                        max_p: self.max_p,
                        weight: self.weight,
                        mode: self.mode,
                        mean_packet: self.mean_packet,
                        gap: self.gap,
                        flavor: self.flavor,
                        gentle: self.gentle,
                        ecn: self.ecn,
                        mark_forced: self.mark_forced,
                        victim: self.victim,
                        smoothing: self.smoothing,
                        ..Red::default()
                    }
                }
            }
        )*
    };
}
red_inside!(AdaptiveRed RedPenaltyBox);

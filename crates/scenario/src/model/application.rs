//! Applications: when there is something to send.

use super::clients::{self, Pages, Video};
use super::transfers::{self, Transfers};
use tidegate_parameters::bound::Each;
use tidegate_parameters::{Bound, bound, family, parameters, words};

use tidegate_units::{BitRate, Bytes, Span};

family! {
    /// What gives a transport something to send.
    pub enum Application {
        /// As much as can be.
        Bulk(Bulk) = "bulk",
        /// So much, once.
        Transfer(Transfer) = "transfer",
        /// A constant rate.
        Cbr(Cbr) = "cbr",
        /// So much each time, over connections that come and go.
        Transfers(Transfers) = "transfers",
        /// Pages of a client who asks.
        Pages(Pages) = "pages",
        /// A film of a client who asks.
        Video(Video) = "video",
        /// At random.
        Poisson(Poisson) = "poisson",
        /// In turns with silence.
        OnOff(OnOff) = "on-off",
        /// One of several rates.
        Adaptive(Adaptive) = "adaptive",
    }
}

impl Application {
    /// How many connections it has at once at most, where they come and go; `None` for an application of one connection.
    pub const fn places(&self) -> Option<u32> {
        match self {
            Self::Transfers(transfers) => Some(transfers.places),
            Self::Pages(pages) => Some(pages.connections),
            Self::Video(_) => Some(1),
            _ => None,
        }
    }

    /// Whether a client at the receiver asks for what comes.
    pub const fn asks(&self) -> bool {
        matches!(self, Self::Pages(_) | Self::Video(_))
    }

    /// What can be recorded of it over time, by name.
    pub(crate) const fn variables(&self) -> &'static [&'static str] {
        match self {
            Self::Transfers(_) => &transfers::VARIABLES,
            Self::Pages(_) => &clients::PAGE_VARIABLES,
            Self::Video(_) => &clients::VIDEO_VARIABLES,
            _ => &[],
        }
    }
}

parameters! {
    /// # Bulk transfer
    ///
    /// Always has something to send, until the flow stops. For TCP.
    ///
    /// Source: the "greedy" and FTP sources of all five documents.
    pub struct Bulk {
    }
}

parameters! {
    /// # One transfer
    ///
    /// Sends so much, then nothing. For TCP.
    ///
    /// Source: ns (FTP `produce`).
    pub struct Transfer {
        /// The bytes of payload.
        size: Bytes => Bound::at_least(Bytes::new(1)).low("a transfer of nothing", "");
    }
}

parameters! {
    /// # Constant bit rate
    ///
    /// One packet after another at a constant rate. For UDP.
    ///
    /// Source: ns (CBR).
    pub struct Cbr {
        /// The rate on the wire, headers included.
        rate: BitRate => bound::RATE;
        /// A packet on the wire. Default: the transport's `packet`.
        packet: Option<Bytes> = None;
        /// Each gap is longer or shorter by up to this part of itself, uniformly; 0 to 1. Source: ns (`random_` off).
        jitter: f64 = 0.0 => Bound::between(0.0, 1.0).saying("", " is no part of a gap");
    }
}

parameters! {
    /// # Poisson process
    ///
    /// Packets at random with exponential gaps. For UDP.
    ///
    /// Source: queueing theory; the oracle of M/D/1 and M/M/1.
    pub struct Poisson {
        /// The mean rate on the wire, headers included.
        rate: BitRate => bound::RATE;
        /// A packet on the wire. Default: the transport's `packet`.
        packet: Option<Bytes> = None;
    }
}

words! {
    /// How the lengths of on and off times are distributed.
    pub enum OnOffDistribution {
        /// Always the mean.
        Constant = "constant",
        /// Exponential.
        Exponential = "exponential",
        /// Pareto with `shape`: heavy-tailed, self-similar in sum.
        Pareto = "pareto",
    }
}

parameters! {
    /// # Adaptive audio or video
    ///
    /// Packets at a constant rate, one of several. Where a router advises that a part is discarded, it takes the highest rate
    /// that gets through; after a time without advice it tries the next higher one. For UDP. It needs a domain with `nbq` and
    /// `advice`.
    ///
    /// Source: Tamura, Tobe and Tokuda 2000, section 8.1: sources choose a coding scheme by the discard ratio.
    pub struct Adaptive {
        /// The rates on the wire, headers included, ascending. It starts with the last one.
        rates: Vec<BitRate> => Each(bound::RATE);
        /// A packet on the wire. Default: the transport's `packet`.
        packet: Option<Bytes> = None;
        /// How long without advice before it tries the next higher rate. Source: assumed, several times `interval` of `nbq`.
        patience: Span = Span::from_secs(2) => bound::DURATION;
        /// How long after a change it ignores advice, which is about the rate before. Source: assumed, as long as two
        /// intervals of `nbq`.
        settle: Span = Span::from_millis(200) => bound::DELAY;
    }
    check |config, report| {
        if config.rates.is_empty() {
            report.say("rates", "an adaptive source needs rates", "at least one");
        }
        if !config.rates.is_sorted_by(|a, b| a < b) {
            report.say("rates", "the rates do not ascend", "the lowest first");
        }
    };
}

/// On times are gone through one by one, also those in which nothing is sent: of a nanosecond each no run would end.
const ON: Bound<Span> = Bound::at_least(Span::from_micros(1))
    .and_at_most(bound::DELAY_MAX)
    .low("this mean time is below a microsecond", "1us or more: each on time is an event of its own")
    .high("", " is above an hour", "at most 1h");

/// Of a Pareto distribution: heavy-tailed, with a mean and without a variance.
const SHAPE: f64 = 1.5;

parameters! {
    /// # On and off
    ///
    /// Sends during on times and is silent during off times. Over UDP with `rate` while on; over TCP as much as TCP lets it.
    ///
    /// Source: ns (`Application/Traffic/Pareto`, `Exponential`); thesis of Feng, chapter 4.
    pub struct OnOff {
        /// The distribution of on and off times. Source: ns.
        distribution: OnOffDistribution = OnOffDistribution::Exponential;
        /// The mean on time, a microsecond at least.
        on: Span => ON;
        /// The mean off time.
        off: Span => bound::DELAY;
        /// The shape of the Pareto distribution, above 1. Source: ns.
        shape: f64 = SHAPE => Bound::above(1.0).saying("a Pareto distribution of shape ", " has no mean");
        /// The rate while on; for UDP, where it is required.
        rate: Option<BitRate> = None => bound::RATE;
        /// A packet on the wire; for UDP. Default: the transport's `packet`.
        packet: Option<Bytes> = None;
    }
    check |config, report| {
        if config.distribution != OnOffDistribution::Pareto {
            let is_given = (config.shape - SHAPE).abs() > 0.0;
            report.idle("shape", is_given, "distribution = \"pareto\"");
        }
    };
}

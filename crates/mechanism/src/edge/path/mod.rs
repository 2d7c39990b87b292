//! Path control: virtual links between edges over paths that nobody owns, with jitter, losses that mean nothing, routes and clocks that
//! change, edges that restart, and other people's traffic in the same queue.
//!
//! Source: after Harrison and Kalyanaraman, "An Overlay Congestion Control Architecture for the Internet", whose virtual links,
//! explicit output rates and edges it keeps; Bundler (Cangialosi and others, 2021) for edges of sites that compete.
//! Deviations: what IEC counts on a clean network of its own is replaced where real paths break it, part by part:
//!
//! - [`wire`]: lives are named by random numbers, probes by nonces. [`receiver`] only counts and answers; [`sender`] believes what it can
//!   check, and thinks.
//! - [`view`]: what the path shows: rates over a round trip, a delay against a least that ages, jitter, losses apart from
//!   reordering, clocks that step.
//! - [`law`]: the rate that holds a short queue. [`virtual_flows`]: the rate among ordinary TCP. [`rivals`]: who fills the queue.
//!   [`control`]: which of the laws holds, slow start, and silence.

mod control;
mod law;
mod proof;
mod receiver;
mod rivals;
mod sender;
#[cfg(test)]
mod tests;
mod view;
mod virtual_flows;
pub mod wire;

pub use receiver::PathReceiver;
pub use sender::PathSender;

use alloc::string::String;
use alloc::vec::Vec;

use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span, Time};

use self::control::Terms;
use self::law::Law;
use super::{BorderSite, PeerId};
use crate::random::{KeyedHash, Seed};
use crate::shape::ShaperConfig;
use crate::{Context, ROUNDS};

words! {
    /// Which delays tell of a queue.
    pub enum PathDelays {
        /// From edge to edge: congestion on the way back does not count. The far edge's clock is believed, until it is doubted.
        OneWay = "one-way",
        /// There and back, by the own clock: the far edge can make it longer, and never shorter.
        RoundTrip = "round-trip",
    }
}

parameters! {
    /// # Path control
    ///
    /// Each pair of edges is a virtual link whose rate keeps the queue of a path short that it does not own: with jitter, random
    /// losses, clocks and routes that change, edges that restart. Where ordinary TCP fills the queue, it takes what so many flows
    /// of CUBIC would.
    ///
    /// Source: after Harrison and Kalyanaraman 2000, and Cangialosi and others 2021 (Bundler); the laws are ours (`docs/mechanisms/path.md`).
    pub struct PathConfig {
        /// How long the queue of the path may become on the average. Source: assumed; CoDel's target, RFC 8289, section 4.2.
        target: Span = Span::from_millis(5) => bound::DURATION;
        /// The part of what is too much in the queue that goes per round trip. Source: derived: above 1 it overshoots.
        gain: f64 = 0.5 => bound::GAIN;
        /// The most by which the rate grows per round trip, as a part of it. Source: assumed; the queue overshoots by twice this
        /// part of a round trip.
        growth: f64 = 0.1 => bound::GAIN;
        /// What the rate grows by besides, per round trip: it makes virtual links alike. Source: Harrison and Kalyanaraman, section
        /// II.B (`sigma`).
        sigma: Bytes = Bytes::new(1500) => bound::PACKET;
        /// The most that jitter adds to the target. Source: assumed; LTE and Wi-Fi have some 20 ms.
        jitter_max: Span = Span::from_millis(50) => bound::DELAY;
        /// Beyond this part of packets lost the rate does not grow; losses below say nothing, for delays tell of congestion. Source: BBR
        /// version 3 has 0.02.
        loss_max: f64 = 0.02 => bound::PROBABILITY;
        /// The least rate: what is assured. Source: assumed.
        rate_min: BitRate = BitRate::from_bps(100_000) => bound::RATE;
        /// The greatest rate. Default: none.
        rate_max: Option<BitRate> = None => bound::RATE;
        /// The rate of a new virtual link. Default: `sigma` per `initial_interval`. Source: assumed.
        initial_rate: Option<BitRate> = None => bound::RATE;
        /// The round-trip time until one was measured. Source: assumed.
        initial_interval: Span = Span::from_millis(50) => ROUNDS;
        /// The least time between two probes, whatever the round-trip time. Source: derived: a queue that is steered to `target`
        /// needs none more often; on a path of 3 ms whose capacity falls to a fifth, delays are the same with 1 and 5 ms.
        interval_min: Span = Span::from_millis(5) => ROUNDS;
        /// The most that probes and reports may take of the rate. Source: assumed.
        control_share: f64 = 0.01 => Bound::between(1e-6, 1.0).saying("", " is no share of a rate").helping("from 0.000001 to 1");
        /// How often the queue is emptied, to see the path. Source: assumed.
        drain_every: Span = Span::from_millis(500) => bound::DURATION;
        /// A least delay is forgotten after this time, at the latest. Source: BBR.
        base_window: Span = Span::from_secs(10) => bound::DURATION;
        /// Whether to compete with others who fill the queue.
        compete: bool = true;
        /// For how many round trips the queue may stay at its peak though the rate has fallen, before it competes. Source: assumed.
        patience: f64 = 6.0 => bound::ABOVE_ZERO;
        /// How often it is tried whether they are gone. Source: assumed.
        test_every: Span = Span::from_secs(15) => bound::DURATION;
        /// As how many flows it competes, at most; as many as are busy, otherwise. Source: assumed.
        flows_max: u32 = 8 => Bound::between(1, 64).saying("", " is no number of flows to compete as");
        /// Which delays are looked at.
        delays: PathDelays = PathDelays::OneWay;
        /// How long a virtual link may be silent before its state is dropped. Source: assumed.
        idle_timeout: Span = Span::from_secs(10) => bound::DURATION;
        /// Control only packets of this class; others pass. Default: all.
        class: Option<u8> = None;
        /// The shaper of each virtual link.
        shaper: ShaperConfig = ShaperConfig::default() => bound::INSIDE;
        /// Edges at which what enters is not shaped. Default: none.
        unpoliced: Vec<String> = Vec::new();
    }
    check |config, report| {
        if config.rate_max.is_some_and(|most| most < config.rate_min) {
            report.say("rate_max", "it is below `rate_min`", "at least `rate_min`");
        }
    };
}

/// Bytes around a message on the wire: IPv4 (20) and UDP (8) headers.
pub const CONTROL_HEADER_BYTES: u32 = 28;

impl From<PathDelays> for view::Delays {
    fn from(delays: PathDelays) -> Self {
        match delays {
            PathDelays::OneWay => Self::OneWay,
            PathDelays::RoundTrip => Self::RoundTrip,
        }
    }
}

/// Names lives of virtual links by what nobody outside can guess. A name depends on the far edge and on when the life begins, and not on what
/// else began before: no edge touches what is said to another.
#[derive(Debug)]
struct Lives(KeyedHash);

impl Lives {
    fn new(seed: Seed) -> Self {
        Self(KeyedHash::new(seed))
    }

    /// That of a life with `peer` that begins `now`.
    fn name(&self, peer: PeerId, now: Time) -> u64 {
        self.0.of(self.0.of(u64::from(peer.0)) ^ now.as_nanos())
    }
}

impl PathConfig {
    /// The two halves of the border at `site`.
    pub fn build(&self, site: BorderSite, context: &Context) -> (PathSender, PathReceiver) {
        let far = Seed::for_component(context.seed.0, "receiver");
        (PathSender::new(self.clone(), site, context.seed), PathReceiver::new(self, site, far))
    }

    fn terms(&self) -> Terms {
        Terms {
            law: Law {
                target: self.target.as_secs_f64(),
                gain: self.gain,
                growth: self.growth,
                jitter_max: self.jitter_max.as_secs_f64(),
            },
            rate_min: self.rate_min.as_bytes_per_second_f64(),
            rate_max: self.rate_max.map_or(f64::INFINITY, BitRate::as_bytes_per_second_f64),
            loss_max: self.loss_max,
            sigma: self.sigma.as_f64(),
            competes: self.compete,
            drain_every: self.drain_every,
            patience: self.patience,
            test_every: self.test_every,
        }
    }
}

//! What an ingress knows of the flows that enter there, of the borders by which each of them leaves, and of these.
//!
//! Source: NBP, section II.A (Fig. 4), IV.5 (multicast) and IV.6 (multi-path); see [`super::NbpIngress`] for what is done with it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_units::{Span, Time};

use super::{ClassKey, FlowRate, PathDelay, since_stamp};
use crate::edge::deadlines::Slot;
use crate::edge::{AggregateId, PeerId};
use crate::meter::TswMeter;

/// So many forward packets to an egress are remembered: how many base round trips a round trip may be long.
const ASKED_MAX: usize = 1024;

/// One border by which a flow leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    pub peer: PeerId,
    /// Bytes per second, as last reported.
    pub egress_rate: f64,
    /// That of the way there, once feedback of this flow has come.
    pub base_rtt: Option<Span>,
    /// The shortest round trip of this flow's data; only with [`super::RoundTrip::Data`].
    pub data_base_rtt: Option<Span>,
    /// Whether the last normal feedback showed congestion.
    pub is_congested: bool,
    /// The least time stamp whose answer counts.
    pub next_answer: Time,
    /// When a packet last went that way.
    pub last_used: Time,
}

impl Exit {
    /// That by `peer`, of which nothing is known but that it is used from `now` on.
    pub const fn new(peer: PeerId, now: Time) -> Self {
        Self {
            peer,
            egress_rate: 0.0,
            base_rtt: None,
            data_base_rtt: None,
            is_congested: false,
            next_answer: now,
            last_used: now,
        }
    }

    /// Puts the round trip of the flow's data into `path`, if `echo` tells it.
    pub fn measure(&mut self, echo: u32, now: Time, path: &mut PathDelay) -> bool {
        let Some(rtt) = since_stamp(echo, now) else { return false };
        let base = self.data_base_rtt.map_or(rtt, |base| base.min(rtt));
        self.data_base_rtt = Some(base);
        path.current_rtt = rtt.as_secs_f64();
        path.base_rtt = base.as_secs_f64();
        true
    }
}

/// A flow that enters here.
#[derive(Debug)]
pub(super) struct Flow {
    pub key: ClassKey,
    pub rate: FlowRate,
    /// Ascending by peer.
    pub exits: Vec<Exit>,
    /// Whether a packet has ever left by several borders.
    pub is_multicast: bool,
    /// How fast its packets arrive; only with `arrival_headroom`.
    pub arrival: Option<TswMeter>,
}

impl Flow {
    /// Where its exit by `peer` stands. Multicast may have as many as there are borders.
    pub fn place_of(&self, peer: PeerId) -> Result<usize, usize> {
        self.exits.binary_search_by_key(&peer, |exit| exit.peer)
    }

    /// How fast it leaves by all its paths together (section IV.6), bytes per second.
    pub fn sum_of_paths(&self) -> f64 {
        self.exits.iter().map(|exit| exit.egress_rate).sum()
    }

    /// How fast multicast comes to those who get least of it (section IV.5), bytes per second. It is told and steers nothing: see
    /// `ingress.rs`.
    pub fn slowest_branch(&self) -> f64 {
        self.exits.iter().map(|exit| exit.egress_rate).fold(f64::INFINITY, f64::min)
    }

    /// Whether feedback from `peer` raises its rate, so that it grows once per round trip.
    pub fn is_raised_by(&self, peer: PeerId) -> bool {
        if !self.is_multicast {
            return self.exits[0].peer == peer;
        }
        // A branch that has not answered yet is the farthest.
        let distance = |exit: &Exit| exit.base_rtt.unwrap_or(Span::MAX);
        let farthest = self.exits.iter().rev().max_by_key(|exit| distance(exit));
        farthest.is_some_and(|exit| exit.peer == peer) && self.exits.iter().all(|exit| !exit.is_congested)
    }
}

/// An egress to which flows go.
#[derive(Debug)]
pub(super) struct Egress {
    /// The flows that leave there, in order of appearance.
    pub flows: Vec<AggregateId>,
    /// `e.baseRTT`, once measured.
    pub base_rtt: Option<Span>,
    /// When the first answer came, and the time stamp that it answered.
    pub first_answer: Option<(Time, Time)>,
    pub current_rtt: Span,
    pub hop_count: u8,
    /// When the next forward packet is due.
    pub deadline: Slot,
    /// The time stamps of the last forward packets, ascending.
    asked: VecDeque<Time>,
    /// The least time stamp that none has answered yet, for any flow.
    pub next_answer: Time,
    /// When an answer came last, or the first flow.
    last_heard: Time,
}

impl Egress {
    /// One of which nothing is known but when it is asked next.
    pub fn new(deadline: Slot, now: Time) -> Self {
        Self {
            flows: Vec::new(),
            base_rtt: None,
            first_answer: None,
            current_rtt: Span::ZERO,
            hop_count: 1,
            deadline,
            asked: VecDeque::with_capacity(ASKED_MAX),
            next_answer: now,
            last_heard: now,
        }
    }

    /// So far apart must forward packets be that those remembered reach back twice as far as it is silent.
    pub fn interval_least(&self, now: Time) -> Span {
        Span::from_nanos(now.since(self.last_heard).as_nanos() / (ASKED_MAX as u64 / 2))
    }

    /// A forward packet leaves.
    pub fn ask(&mut self, now: Time) {
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(now);
    }

    /// Whether a forward packet left at `timestamp`, as far as that is remembered.
    pub fn was_asked(&self, timestamp: Time) -> bool {
        self.asked.binary_search(&timestamp).is_ok()
    }

    /// The forward packet that left at `timestamp` is answered.
    pub fn on_answer(&mut self, timestamp: Time, now: Time) {
        self.next_answer = self.next_answer.max(after(timestamp));
        self.last_heard = now;
        self.current_rtt = now.since(timestamp).max(Span::from_nanos(1));
        self.base_rtt = Some(self.base_rtt.map_or(self.current_rtt, |base| base.min(self.current_rtt)));
    }
}

/// The next instant.
pub(super) const fn after(time: Time) -> Time {
    time.saturating_add(Span::from_nanos(1))
}

//! The half where virtual links end: counts what leaves, and answers each probe with the counts and its clock. It judges nothing,
//! so that it has nothing to lose but its counts, and one sender can touch no other's.
//!
//! Source: Bundler, section 4 (the receive box); outer and inner ECN: RFC 6040, section 4.2.
//! Deviations: an outer mark over an inner field that knows no marks is no reason to drop (RFC 6040 would): the sender sets outer
//! fields that can be marked only over inner ones that can, and what breaks that is not the packet.

use alloc::collections::BTreeMap;

use tidegate_packet::{Headers, Packet};
use tidegate_units::{Span, Time};

use super::wire::{self, Message, Report};
use super::{Lives, PathConfig};
use crate::edge::{Admission, BorderSite, EdgeHalf, EdgeOut, PeerId, tunnel};
use crate::random::Seed;

/// What comes sooner after an answer than this, or than half of the least interval, is not answered.
const ANSWERS_APART: Span = Span::from_micros(500);

/// Of one sender.
#[derive(Clone, Debug)]
struct Incoming {
    /// Names this life of the counts.
    incarnation: u64,
    received_bytes: u64,
    received_packets: u64,
    /// When something came last, and when a probe was answered last.
    heard: Time,
    answered: Option<Time>,
}

/// See the module.
#[derive(Debug)]
pub struct PathReceiver {
    site: BorderSite,
    interval_min: Span,
    idle_timeout: Span,
    lives: Lives,
    incoming: BTreeMap<PeerId, Incoming>,
}

impl PathReceiver {
    pub(super) fn new(config: &PathConfig, site: BorderSite, seed: Seed) -> Self {
        Self {
            site,
            interval_min: config.interval_min,
            idle_timeout: config.idle_timeout,
            lives: Lives::new(seed),
            incoming: BTreeMap::new(),
        }
    }

    fn incoming(&mut self, from: PeerId, now: Time) -> &mut Incoming {
        let lives = &self.lives;
        let incoming = self.incoming.entry(from).or_insert_with(|| Incoming {
            incarnation: lives.name(from, now),
            received_bytes: 0,
            received_packets: 0,
            heard: now,
            answered: None,
        });
        // After a long silence counts begin anew, as after a restart: the sender then takes nothing that it knew for granted.
        if now.since(incoming.heard) > self.idle_timeout {
            incoming.incarnation = lives.name(from, now);
        }
        incoming.heard = now;
        incoming
    }
}

impl EdgeHalf for PathReceiver {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        _headers: &Headers,
        peers: &[PeerId],
        now: Time,
        _out: &mut impl EdgeOut,
    ) -> Admission {
        let &[from] = peers else { return Admission::Pass };
        if !tunnel::leave(packet, self.site.level) {
            return Admission::Pass;
        }
        let incoming = self.incoming(from, now);
        incoming.received_bytes += u64::from(packet.wire_bytes);
        incoming.received_packets += 1;
        Admission::Pass
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], _ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let Ok(Message::Probe(probe)) = wire::decode(message) else { return };
        // A peer that asks more often than this gets fewer answers, and costs no more. Jitter brings probes together.
        let half = Span::from_nanos(self.interval_min.as_nanos() / 2).min(ANSWERS_APART);
        let incoming = self.incoming(from, now);
        if incoming.answered.is_some_and(|at| now.since(at) < half) {
            return;
        }
        incoming.answered = Some(now);
        let report = Report {
            incarnation: probe.incarnation,
            sequence: probe.sequence,
            nonce: probe.nonce,
            receiver: incoming.incarnation,
            arrived: now.as_nanos(),
            received_bytes: incoming.received_bytes,
            received_packets: incoming.received_packets,
        };
        out.send(from, &report.encode());
    }

    /// Silent senders are few, one for each other edge of the domain, and their counts are kept.
    fn timer_at(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _now: Time, _out: &mut impl EdgeOut) {}
}

//! The half where virtual links begin: one shaper for each other edge, a probe now and then ahead of a packet, and a rate from
//! what comes back.
//!
//! Source: the shape of the half is that of [`crate::edge::iec`]; what is believed of a report: see [`on_message`](PathSender).
//! Deviations:
//! - A report counts if it is on a probe of this life that was sent, is still remembered, and has not been answered: who did
//!   not see the probe cannot know its nonce. What was received is believed up to what was sent.
//! - There is a probe per half round trip, and less often if control would take more than its share of the rate.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use tidegate_packet::{Headers, Packet};
use tidegate_units::{BitRate, Span, Time};

use super::control::{Control, Terms};
use super::view::{PathView, Sent};
use super::wire::{self, Message, PROBE_BYTES, Probe, REPORT_BYTES, Report};
use super::{CONTROL_HEADER_BYTES, Lives, PathConfig};
use crate::edge::deadlines::{Deadlines, Slot};
use crate::edge::{
    Admission, AggregateId, BorderSite, EdgeHalf, EdgeOut, EdgeReport, PacketStore, PeerId, tunnel,
};
use crate::meter::{ActiveFlows, ActiveFlowsConfig};
use crate::random::Seed;

/// Probes that may be under way; an answer to an older one does not count.
const OUTSTANDING: usize = 64;
/// A flow is busy if it sent within this time.
const BUSY: Span = Span::from_millis(500);
/// The rate is used if at least this part of it was sent; and if packets wait, this: no rate grows far beyond what enters.
const USED: f64 = 0.8;
const USED_WAITING: f64 = 0.25;
/// So many probes are not counted against the share of control.
const FREE_PROBES: u32 = 32;
/// Silence begins after so many round trips, and this time, without a report though data left.
const SILENT_ROUNDS: u64 = 4;
const SILENT_LEAST: Span = Span::from_millis(500);

/// A virtual link that begins here.
#[derive(Debug)]
struct Outgoing {
    aggregate: AggregateId,
    incarnation: u64,
    sequence: u32,
    /// By sequence number, ascending.
    outstanding: VecDeque<(u32, Sent)>,
    sent_bytes: u64,
    sent_packets: u64,
    last_probe: Time,
    /// When a report last came, or silence was last judged.
    last_heard: Time,
    last_used: Time,
    /// Whether a probe went since then.
    has_asked: bool,
    view: PathView,
    control: Control,
    busy: ActiveFlows,
    /// When silence begins.
    deadline: Slot,
    /// The output rate and the excess as last reported, for records.
    output: f64,
    excess: f64,
}

/// See the module.
#[derive(Debug)]
pub struct PathSender {
    config: PathConfig,
    terms: Terms,
    site: BorderSite,
    lives: Lives,
    links: BTreeMap<PeerId, Outgoing>,
    /// By aggregate: the far edge.
    by_aggregate: Vec<Option<PeerId>>,
    /// When silence begins on each virtual link, or before that: a probe may put it off.
    silence: Deadlines,
    timer: Option<Time>,
    /// Empty; keeps its room between calls.
    due: Vec<PeerId>,
}

impl Outgoing {
    /// The round-trip time, or what stands for it until one is known.
    fn t(&self, config: &PathConfig) -> Span {
        self.view.rtt().map_or(config.initial_interval, Span::from_secs_f64)
    }

    /// The least time between two probes.
    fn probe_interval(&self, config: &PathConfig) -> Span {
        let bytes = PROBE_BYTES + REPORT_BYTES + 2 * CONTROL_HEADER_BYTES as usize;
        // A life that begins has nothing yet of which that would be a share.
        let share = if self.sequence < FREE_PROBES { 1.0 } else { config.control_share };
        let affordable = bytes as f64 / (share * self.control.rate());
        let half = Span::from_nanos(self.t(config).as_nanos() / 2);
        half.max(config.interval_min).max(Span::from_secs_f64(affordable))
    }

    fn send_probe(&mut self, to: PeerId, now: Time, out: &mut impl EdgeOut) {
        self.sequence = self.sequence.wrapping_add(1);
        self.last_probe = now;
        self.has_asked = true;
        let sent = Sent { at: now, bytes: self.sent_bytes, packets: self.sent_packets };
        if self.outstanding.len() == OUTSTANDING {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back((self.sequence, sent));
        let probe = Probe { incarnation: self.incarnation, sequence: self.sequence, nonce: now.as_nanos() };
        out.send(to, &probe.encode());
    }

    /// The probe that `report` answers, if it is one; it and all before it are answered.
    fn take_probe(&mut self, report: &Report) -> Option<Sent> {
        if report.incarnation != self.incarnation {
            return None;
        }
        let fits =
            |(number, sent): &(u32, Sent)| *number == report.sequence && sent.at.as_nanos() == report.nonce;
        let position = self.outstanding.iter().position(fits)?;
        let (_, sent) = self.outstanding.drain(..=position).next_back()?;
        Some(sent)
    }

    fn silence_at(&self, config: &PathConfig) -> Time {
        // Where control may not take more there are fewer than two probes per round trip; some get lost.
        let rounds = self.t(config).max(self.probe_interval(config) * 2) * SILENT_ROUNDS;
        self.last_heard + rounds.max(SILENT_LEAST)
    }
}

impl PathSender {
    pub(super) fn new(config: PathConfig, site: BorderSite, seed: Seed) -> Self {
        Self {
            terms: config.terms(),
            config,
            site,
            lives: Lives::new(seed),
            links: BTreeMap::new(),
            by_aggregate: Vec::new(),
            silence: Deadlines::default(),
            timer: None,
            due: Vec::new(),
        }
    }

    /// What is known of the virtual link to `far`.
    pub fn report(&self, far: PeerId) -> Option<EdgeReport> {
        self.links.get(&far).map(|link| EdgeReport {
            aggregate: link.aggregate,
            ingress_rate: link.control.rate(),
            egress_rate: link.output,
            rtt: link.view.rtt().map(Span::from_secs_f64),
            accumulation: Some(link.excess * link.output),
            in_epoch: Some(link.control.is_competing()),
        })
    }

    fn open(&mut self, to: PeerId, now: Time, out: &mut impl EdgeOut) -> AggregateId {
        let slot = self.by_aggregate.iter().position(Option::is_none).unwrap_or_else(|| {
            self.by_aggregate.push(None);
            self.by_aggregate.len() - 1
        });
        self.by_aggregate[slot] = Some(to);
        let aggregate = AggregateId(slot as u32);
        let config = &self.config;
        let initial = config.initial_rate.map_or_else(
            || config.sigma.as_f64() / config.initial_interval.as_secs_f64(),
            BitRate::as_bytes_per_second_f64,
        );
        let control = Control::new(initial, &self.terms, now);
        out.open(aggregate, BitRate::from_bytes_per_second_f64(control.rate()));
        let mut link = Outgoing {
            aggregate,
            incarnation: self.lives.name(to, now),
            sequence: 0,
            outstanding: VecDeque::with_capacity(OUTSTANDING),
            sent_bytes: 0,
            sent_packets: 0,
            last_probe: now,
            last_heard: now,
            last_used: now,
            has_asked: false,
            view: PathView::new(config.delays.into(), config.base_window, config.target, now),
            control,
            busy: ActiveFlowsConfig { window: BUSY, flows_max: config.flows_max }.build(),
            deadline: self.silence.open(),
            output: 0.0,
            excess: 0.0,
        };
        link.send_probe(to, now, out);
        self.silence.set(&link.deadline, to, link.silence_at(config));
        self.links.insert(to, link);
        self.find_timer();
        aggregate
    }

    fn find_timer(&mut self) {
        let (links, config) = (&self.links, &self.config);
        self.timer = self.silence.settled_first(|peer| links[&peer].silence_at(config));
    }
}

impl EdgeHalf for PathSender {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        _headers: &Headers,
        peers: &[PeerId],
        now: Time,
        out: &mut impl EdgeOut,
    ) -> Admission {
        let &[to] = peers else { return Admission::Pass };
        if self.config.class.is_some_and(|class| class != packet.class) {
            return Admission::Pass;
        }
        if let Some(link) = self.links.get_mut(&to) {
            link.last_used = now;
            return Admission::Shape(link.aggregate);
        }
        Admission::Shape(self.open(to, now, out))
    }

    fn on_release(
        &mut self,
        aggregate: AggregateId,
        packet: &mut Packet,
        _store: &mut impl PacketStore,
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        let Some(to) = self.by_aggregate.get(aggregate.0 as usize).copied().flatten() else { return };
        let Some(link) = self.links.get_mut(&to) else { return };
        if now.since(link.last_probe) >= link.probe_interval(&self.config) {
            link.send_probe(to, now, out);
        }
        tunnel::enter(packet, self.site.level);
        link.sent_bytes += u64::from(packet.wire_bytes);
        link.sent_packets += 1;
        link.busy.on_arrival(packet.flow, now);
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], _ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let Ok(Message::Report(report)) = wire::decode(message) else { return };
        let Some(link) = self.links.get_mut(&from) else { return };
        let Some(sent) = link.take_probe(&report) else { return };
        (link.last_heard, link.has_asked) = (now, !link.outstanding.is_empty());
        let seen = link.view.on_report(sent, link.sent_packets, &report, link.control.aging(), now);
        (link.output, link.excess) = (seen.output.unwrap_or(link.output), seen.excess);
        let used = if out.backlog(link.aggregate).is_empty() { USED } else { USED_WAITING };
        let is_used = seen.input >= used * link.control.rate();
        let busy = link.busy.count().clamp(1, self.config.flows_max);
        link.control.on_seen(&seen, (is_used, busy), &mut link.view, &self.terms, now);
        out.set_rate(link.aggregate, BitRate::from_bytes_per_second_f64(link.control.rate()));
        self.silence.set(&link.deadline, from, link.silence_at(&self.config));
        self.find_timer();
    }

    fn timer_at(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        let mut due = core::mem::take(&mut self.due);
        self.silence.take_due(now, &mut due);
        for peer in due.drain(..) {
            let link = self.links.get_mut(&peer).expect("it has a deadline");
            let begins = link.silence_at(&self.config);
            if begins > now {
                self.silence.set(&link.deadline, peer, begins);
                continue;
            }
            // A timer that comes much too late says that this machine stood still, or that its clock was set.
            let is_late = now.since(begins) >= SILENT_LEAST;
            let is_idle = now.since(link.last_used) > self.config.idle_timeout;
            if is_idle && out.backlog(link.aggregate).is_empty() {
                self.by_aggregate[link.aggregate.0 as usize] = None;
                out.close(link.aggregate);
                if let Some(gone) = self.links.remove(&peer) {
                    self.silence.close(gone.deadline);
                }
                continue;
            }
            if link.has_asked && !is_late {
                link.control.on_silence(&self.terms, now);
                out.set_rate(link.aggregate, BitRate::from_bytes_per_second_f64(link.control.rate()));
                link.send_probe(peer, now, out);
            }
            link.last_heard = now;
            self.silence.set(&link.deadline, peer, link.silence_at(&self.config));
        }
        self.due = due;
        self.find_timer();
    }
}

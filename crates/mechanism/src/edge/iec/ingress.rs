//! The half where virtual links begin: classifies by egress, counts what its shapers release, sends control packets behind
//! it, and sets the rates from what comes back.
//!
//! Source: sections II.B and III.A.
//! Deviations:
//! - A control packet goes with a packet of data, half a round trip after the last one at the earliest: so there are two per
//!   round trip and never more than data. It goes ahead of that packet: behind it, it would wait for it at the bottleneck,
//!   and a virtual link alone would never see its least delay again (the wait, `sigma / mu`, is twice epsilon).
//! - `T` is the average of round-trip times with weight 1/2 (assumed); they come with feedback, and once per
//!   `answer_interval` with an answer that a control packet asks for, since one-way IEC is silent without congestion.
//! - The round-trip version detects epochs here (see [`super::egress`] for why), and backs off as often as the egress would
//!   tell it to.
//! - After negative feedback the rate does not grow for one and a half round trips: the next comes after one, if the epoch
//!   lasts.
//! - The rate grows only while it is used (see `use_min`), and while answers come: without them a virtual link whose
//!   feedback is cut off would grow for ever. The paper bounds neither its slow start nor its increase. Here use bounds
//!   both: what enters at no more than A bytes per second, the rate of the link to the ingress, uses no rate above
//!   `A / use_min`, and use is judged once per round trip, in which the slow start doubles. So no rate grows above
//!   `2 A / use_min`, four times the link with the default. (TCP's slow start, to which the paper likens it, is bounded by
//!   the window of the receiver.)
//! - Feedback is believed as far as the ingress can check it. Its time stamp must be that of one of the last control packets
//!   that were sent in this incarnation, and it is ordered by that before its own number, so that an egress that starts anew is
//!   heard at once. The output rate counts for no more than `2 / use_min` times the greatest rate at which this ingress sent
//!   between any two of its last control packets: as far as growth would go, so that no feedback raises a rate further. A
//!   queue that drains may let out more than was sent meanwhile, but the greatest of many intervals is near the capacity.
//! - No round-trip time counts as less than 100 us: it is the distance of timers and of control packets.
//! - Where no answer comes for longer than the rate waits for one, control packets go so far apart that those remembered
//!   reach back twice as far as the silence: the first answer of a path that became much longer is known again.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use tidegate_packet::{Ecn, Headers, Packet};
use tidegate_units::{BitRate, Span, Time};

use super::rate::SLOW_START_STEPS;
use super::wire::{self, Control, Feedback, Message};
use super::{Detection, Epoch, OverlayConfig, Phase, RateLimits, TunnelEcn, VirtualLinkRate, epsilon_nanos};
use crate::edge::deadlines::{Deadlines, Slot};
use crate::edge::tcp_rate::TcpRate;
use crate::edge::{
    Admission, AggregateId, BorderSite, EdgeHalf, EdgeOut, EdgeReport, PacketStore, PeerId, SegmentEditor,
};
use crate::random::{Seed, Substream};

/// Without an answer for so many intervals in which it was asked for, the rate does not grow.
const ANSWERS_MISSED_MAX: u64 = 4;

/// So many control packets are remembered, with what was sent before them: those of 128 round trips.
const SENT_MAX: usize = 256;
/// What was sent between so many of the last control packets bounds the output rate: of 32 round trips.
const RATE_INTERVALS: usize = 64;
/// No round-trip time is less; assumed, as NBP's `interval_min`.
const RTT_MIN: Span = Span::from_micros(100);

/// A virtual link that begins here.
#[derive(Debug)]
struct Outgoing {
    aggregate: AggregateId,
    rate: VirtualLinkRate,
    limits: RateLimits,
    incarnation: u64,
    sequence: u32,
    /// The time stamps of the last control packets, which never fall, and the bytes sent before each.
    sent: VecDeque<(Time, u64)>,
    sent_bytes: u64,
    sent_packets: u64,
    last_control: Time,
    /// `T`, once measured.
    rtt: Option<Span>,
    /// The least of all, for TCP rate control.
    rtt_least: Span,
    /// With one-way delays only the least round-trip time; the round-trip version detects with it.
    epoch: Epoch,
    /// Round-trip version: the sum of all growth of the accumulation, and when the rate was last decreased.
    grown: i64,
    last_decrease: Option<Time>,
    /// How far the last round-trip time was above the least.
    queueing: Option<Span>,
    last_heard: Time,
    /// The time stamp that the last feedback answers, and its number.
    last_feedback: Option<(Time, u32)>,
    output_rate: f64,
    /// How often a reported output rate was above what can be believed.
    doubted: u64,
    accumulation: f64,
    in_epoch: bool,
    /// When the rate may grow next.
    next_round: Time,
    deadline: Slot,
    round_began: Time,
    round_bytes: u64,
    /// Whether the rate was used in the last whole round trip.
    was_used: bool,
    last_used: Time,
}

/// See the module.
#[derive(Debug)]
pub struct IecIngress {
    config: OverlayConfig,
    site: BorderSite,
    links: BTreeMap<PeerId, Outgoing>,
    /// By aggregate: the egress.
    by_aggregate: Vec<Option<PeerId>>,
    tcp: Option<TcpRate>,
    /// Names incarnations.
    random: Substream,
    /// By egress: `next_round`.
    rounds: Deadlines,
    /// Empty; keeps its room between calls.
    due: Vec<PeerId>,
}

impl Outgoing {
    fn t(&self, config: &OverlayConfig) -> Span {
        self.rtt.unwrap_or_else(|| config.initial_interval.max(RTT_MIN))
    }

    fn send_control(&mut self, to: PeerId, config: &OverlayConfig, now: Time, out: &mut impl EdgeOut) {
        self.sequence = self.sequence.wrapping_add(1);
        self.last_control = now;
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((now, self.sent_bytes));
        let control = Control {
            incarnation: self.incarnation,
            sequence: self.sequence,
            timestamp: now,
            sent_bytes: self.sent_bytes,
            sent_packets: self.sent_packets,
            rtt: self.t(config),
            queueing: self.queueing,
            echo: self.queueing.and(self.last_feedback).map_or(0, |(_, sequence)| sequence),
            wants_answer: self.rtt.is_none() || now.since(self.last_heard) >= config.answer_interval,
        };
        out.send(to, &control.encode());
    }

    /// Whether the rate is used well enough to grow.
    fn is_used(&mut self, config: &OverlayConfig, now: Time, out: &impl EdgeOut) -> bool {
        let round = now.since(self.round_began);
        if round >= self.t(config) {
            self.was_used = self.round_bytes as f64 >= config.use_min * self.rate.r * round.as_secs_f64();
            self.begin_round(now);
        }
        self.was_used || !out.backlog(self.aggregate).is_empty()
    }

    const fn begin_round(&mut self, now: Time) {
        self.round_began = now;
        self.round_bytes = 0;
    }

    /// A round trip begins, or a step of the slow start.
    fn on_round(&mut self, to: PeerId, config: &OverlayConfig, now: Time, out: &mut impl EdgeOut) {
        let silence_max = config.answer_interval * ANSWERS_MISSED_MAX;
        let Some(t) = self.rtt else {
            self.send_control(to, config, now, out);
            self.begin_round(now);
            self.next_round = now + self.t(config);
            return;
        };
        // Without feedback for so long no epoch is on. What the first samples of several epochs have in common is the queue
        // that begins them, not the path.
        self.epoch.minimum.stop_watching();
        let is_used = self.is_used(config, now, out);
        if is_used && now.since(self.last_heard) <= silence_max {
            self.in_epoch = false;
            self.rate.on_round(t.as_secs_f64(), &self.limits);
            out.set_rate(self.aggregate, BitRate::from_bytes_per_second_f64(self.rate.r));
        }
        self.next_round = match self.rate.phase {
            Phase::SlowStart => now + Span::from_nanos(t.as_nanos().div_ceil(SLOW_START_STEPS)),
            Phase::AimdEr => now + t,
        };
    }

    /// How far from the last control packet the next one is.
    fn distance(&self, config: &OverlayConfig, now: Time) -> Span {
        let half = Span::from_nanos(self.t(config).as_nanos() / 2);
        let silence = now.since(self.last_heard);
        if silence <= config.answer_interval * ANSWERS_MISSED_MAX {
            return half;
        }
        half.max(Span::from_nanos(silence.as_nanos() / (SENT_MAX as u64 / 2)))
    }

    /// Whether `feedback` can be an answer to this virtual link, and is newer than all before.
    fn is_new(&self, feedback: &Feedback, now: Time) -> bool {
        feedback.incarnation == self.incarnation
            && self.sent.binary_search_by_key(&feedback.timestamp, |(at, _)| *at).is_ok()
            && feedback.held <= now.since(feedback.timestamp)
            && self.last_feedback.is_none_or(|(answered, last)| {
                feedback.timestamp > answered
                    || (feedback.timestamp == answered
                        && feedback.sequence.wrapping_sub(last).cast_signed() > 0)
            })
    }

    /// The greatest output rate that can be believed; none before there is anything to compare with.
    fn output_rate_max(&self, use_min: f64) -> Option<f64> {
        let newest = self.sent.iter().rev().take(RATE_INTERVALS + 1);
        let rates = newest.clone().zip(newest.skip(1)).filter_map(|((end, all), (begin, before))| {
            let tau = end.since(*begin);
            (!tau.is_zero()).then(|| (all - before) as f64 / tau.as_secs_f64())
        });
        rates.reduce(f64::max).map(|fastest| 2.0 / use_min * fastest)
    }

    fn on_feedback(
        &mut self,
        feedback: &Feedback,
        config: &OverlayConfig,
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        self.last_feedback = Some((feedback.timestamp, feedback.sequence));
        self.last_heard = now;
        let told = feedback.output_rate as f64;
        // Nothing is measured before there is an interval.
        self.output_rate = told.min(self.output_rate_max(config.use_min).unwrap_or(0.0));
        self.doubted += u64::from(self.output_rate < told);
        let sample = now.since(feedback.timestamp).saturating_sub(feedback.held).max(RTT_MIN);
        let average = |t: Span| Span::from_nanos(u64::midpoint(t.as_nanos(), sample.as_nanos()));
        self.rtt = Some(self.rtt.map_or(sample, average));
        self.rtt_least = self.rtt_least.min(sample);
        let delay = sample.as_nanos().cast_signed();
        let is_negative = if config.detection == Detection::RoundTrip {
            self.detect(feedback, delay, config, now) || feedback.is_negative
        } else {
            self.accumulation = feedback.accumulation as f64;
            self.in_epoch = feedback.in_epoch;
            self.watch(delay, config, now);
            feedback.is_negative
        };
        self.queueing = Some(Span::from_nanos(self.epoch.minimum.excess(delay, now)));
        if is_negative {
            self.last_decrease = Some(now);
            self.rate.on_congestion(self.output_rate, feedback.has_loss, &self.limits);
            out.set_rate(self.aggregate, BitRate::from_bytes_per_second_f64(self.rate.r));
            let t = self.t(config);
            self.next_round = now + Span::from_nanos(t.as_nanos() / 2 * 3);
            self.begin_round(now);
        }
    }

    /// With one-way delays: the least round-trip time may be stale, too.
    fn watch(&mut self, delay: i64, config: &OverlayConfig, now: Time) {
        if self.in_epoch {
            let epsilon = epsilon_nanos(self.limits.sigma, self.output_rate);
            self.epoch.minimum.watch(delay, epsilon, self.t(config), 1.0 - config.beta, now);
        } else {
            self.epoch.minimum.stop_watching();
        }
    }

    /// The round-trip version: whether an epoch is on and a decrease is due.
    fn detect(&mut self, feedback: &Feedback, delay: i64, config: &OverlayConfig, now: Time) -> bool {
        let growth = feedback.accumulation.wrapping_sub(self.grown);
        self.grown = feedback.accumulation;
        let (t, drain) = (self.t(config), 1.0 - config.beta);
        self.epoch.accumulation.add(growth as f64);
        self.epoch.detect(delay, self.limits.sigma, self.output_rate, t, drain, now);
        self.accumulation = self.epoch.accumulation.q;
        self.in_epoch = self.epoch.is_on;
        let distance = t.as_nanos() / 4 * 3;
        self.in_epoch && self.last_decrease.is_none_or(|at| now.since(at).as_nanos() >= distance)
    }
}

impl IecIngress {
    pub(super) fn new(config: OverlayConfig, site: BorderSite, seed: Seed) -> Self {
        let tcp = config.tcp_rate.as_ref().map(|tcp| TcpRate::new(tcp.clone(), seed));
        Self {
            config,
            site,
            links: BTreeMap::new(),
            by_aggregate: Vec::new(),
            tcp,
            random: Substream::new(Seed::for_component(seed.0, "incarnations")),
            rounds: Deadlines::default(),
            due: Vec::new(),
        }
    }

    /// What is known of the virtual link to `egress`.
    pub fn report(&self, egress: PeerId) -> Option<EdgeReport> {
        self.links.get(&egress).map(|link| EdgeReport {
            aggregate: link.aggregate,
            ingress_rate: link.rate.r,
            egress_rate: link.output_rate,
            rtt: link.rtt,
            accumulation: Some(link.accumulation),
            in_epoch: Some(link.in_epoch),
        })
    }

    /// How often the egress of the virtual link to `egress` reported a higher output rate than what was sent lets believe.
    pub fn doubted(&self, egress: PeerId) -> Option<u64> {
        self.links.get(&egress).map(|link| link.doubted)
    }

    /// How the rate of the virtual link to `egress` grows.
    pub fn phase(&self, egress: PeerId) -> Option<Phase> {
        self.links.get(&egress).map(|link| link.rate.phase)
    }

    fn open(&mut self, to: PeerId, now: Time, out: &mut impl EdgeOut) -> AggregateId {
        let slot = self.by_aggregate.iter().position(Option::is_none).unwrap_or_else(|| {
            self.by_aggregate.push(None);
            self.by_aggregate.len() - 1
        });
        self.by_aggregate[slot] = Some(to);
        let aggregate = AggregateId(slot as u32);
        let interval = self.config.initial_interval.max(RTT_MIN);
        let limits = self.config.limits_of(self.site.border, to);
        let sigma_per_interval = limits.sigma / interval.as_secs_f64();
        let initial = self.config.initial_rate.map_or(sigma_per_interval, BitRate::as_bytes_per_second_f64);
        let rate = VirtualLinkRate::new(initial.max(limits.rate_min));
        out.open(aggregate, BitRate::from_bytes_per_second_f64(rate.r));
        let mut link = Outgoing {
            aggregate,
            rate,
            limits,
            incarnation: self.random.bits(),
            sequence: 0,
            sent: VecDeque::with_capacity(SENT_MAX),
            sent_bytes: 0,
            sent_packets: 0,
            last_control: now,
            rtt: None,
            rtt_least: Span::MAX,
            epoch: Epoch::new(self.config.minimum().without_drift()),
            grown: 0,
            last_decrease: None,
            queueing: None,
            last_heard: now,
            last_feedback: None,
            output_rate: 0.0,
            doubted: 0,
            accumulation: 0.0,
            in_epoch: false,
            next_round: now + interval,
            deadline: self.rounds.open(),
            round_began: now,
            round_bytes: 0,
            was_used: true,
            last_used: now,
        };
        link.send_control(to, &self.config, now, out);
        self.rounds.set(&link.deadline, to, link.next_round);
        self.links.insert(to, link);
        aggregate
    }

    /// Tells TCP rate control what the virtual link to `peer` may carry.
    fn share_among_tcps(&mut self, peer: PeerId, now: Time) {
        if let (Some(tcp), Some(link)) = (&mut self.tcp, self.links.get(&peer)) {
            tcp.divide(link.aggregate, link.rate.r, link.rtt_least, now);
        }
    }
}

impl EdgeHalf for IecIngress {
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
        store: &mut impl PacketStore,
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        let Some(to) = self.by_aggregate.get(aggregate.0 as usize).copied().flatten() else { return };
        let Some(link) = self.links.get_mut(&to) else { return };
        if now.since(link.last_control) >= link.distance(&self.config, now) {
            link.send_control(to, &self.config, now, out);
        }
        // The tunnel: the network marks the outer header, which in the normal mode is a copy of the inner one.
        packet.inner_ecn.put(self.site.level, packet.ecn);
        if self.config.ecn == TunnelEcn::Limited {
            packet.ecn = Ecn::Ect0;
        }
        link.sent_bytes += u64::from(packet.wire_bytes);
        link.sent_packets += 1;
        link.round_bytes += u64::from(packet.wire_bytes);
        if let Some(tcp) = &mut self.tcp {
            let headers = store.headers(packet);
            if let Some(segment) = store.segment(*packet) {
                tcp.on_data(aggregate, &headers, &segment, packet, now);
            }
        }
    }

    fn on_reverse<S: SegmentEditor>(&mut self, headers: &Headers, segment: &mut S, now: Time) {
        if let Some(tcp) = &mut self.tcp {
            tcp.on_acknowledgment(headers, segment, now);
        }
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], _ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let Ok(Message::Feedback(feedback)) = wire::decode(message) else { return };
        let Some(link) = self.links.get_mut(&from) else { return };
        if !link.is_new(&feedback, now) {
            return;
        }
        link.on_feedback(&feedback, &self.config, now, out);
        self.rounds.set(&link.deadline, from, link.next_round);
        self.share_among_tcps(from, now);
    }

    fn timer_at(&self) -> Option<Time> {
        self.rounds.first()
    }

    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        let mut due = core::mem::take(&mut self.due);
        self.rounds.take_due(now, &mut due);
        for peer in due.drain(..) {
            let link = self.links.get_mut(&peer).expect("it was just listed");
            let is_idle = now.since(link.last_used) > self.config.idle_timeout;
            if is_idle && out.backlog(link.aggregate).is_empty() {
                let aggregate = link.aggregate;
                if let Some(gone) = self.links.remove(&peer) {
                    self.rounds.close(gone.deadline);
                }
                self.by_aggregate[aggregate.0 as usize] = None;
                out.close(aggregate);
                continue;
            }
            link.on_round(peer, &self.config, now, out);
            self.rounds.set(&link.deadline, peer, link.next_round);
            self.share_among_tcps(peer, now);
        }
        self.due = due;
    }
}

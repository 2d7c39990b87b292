//! The half where flows enter: names their class, announces them to their egress, and sets the rate of their shapers from
//! what comes back.
//!
//! Source: NBP, sections II.A (Fig. 4), II.B, II.C; IV.5 (multicast) and IV.6 (multi-path).
//! Deviations:
//! - The first packet of the first flow to an egress sends a forward packet at once, so that the base round-trip time is
//!   measured before the flow can fill a queue (NBP-7). The base round-trip time never ages, as published.
//! - Forward packets that left before the first answer came all speak of the first round trip: the first of their answers
//!   may raise rates, the others only cut them. Else a rate would double several times in the first round trip of a long
//!   path, and section II.C's factor of eight, three doublings in three round trips, would take that for congestion.
//! - Several egresses: the paper says whose rates to use, not how often to raise the rate. A flow with several paths
//!   adds up their egress rates, is cut by congestion on any of them, and is raised by the feedback of one of them only
//!   (the lowest-numbered), so that it grows once per round trip.
//! - Multicast: the paper runs the law on the path with the lowest egress rate, for "the most congested". Once the flow
//!   enters more slowly than that path leaves, the lowest rate is another path's, which would raise the flow while the
//!   queue of the congested one still stands. So congestion on any path cuts to what leaves there, and while there is
//!   none the path with the longest base round-trip time raises.
//! - [`RoundTrip::Data`], ours: the ingress writes the time on each packet that its shaper lets go, and feedback brings it back,
//!   older by as long as it was at the egress. What it makes with the present time is the round trip of the flow's own data
//!   there and of feedback back, with a base of its own, and takes the place of `e.currentRTT` for this flow. In a round trip of which no
//!   data came nothing shows that more would get through: the rate does not grow. The stamp is 4 bytes of an IP option, which are not
//!   counted on the wire; one packet per round trip would do.
//! - Normal feedback counts if its time stamp is that of one of the last forward packets, for each flow once, and never behind
//!   feedback that answers a later one: whatever else an egress sends, or somebody sends again, sets no round-trip time and
//!   raises no rate. Where no such answer comes for long, forward packets go so far apart that those remembered reach back
//!   twice as far as the silence.
//! - An egress that has carried nothing of a flow for the idle time-out no longer counts for it, unless it is the only one
//!   and packets still wait to enter.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hashbrown::HashMap;
use tidegate_packet::{DropReason, DscpSet, FlowId, Headers, Packet};
use tidegate_units::{BitRate, Time};

use super::classify::Hints;
use super::entered::{Egress, Exit, Flow, after};
use super::rate::is_congested;
use super::wire::{self, Encoder, Head, Listed};
use super::{ClassKey, FlowRate, Granularity, Limits, NbpConfig, PathDelay, RoundTrip, stamp_at};
use crate::edge::deadlines::Deadlines;
use crate::edge::{Admission, AggregateId, EdgeHalf, EdgeOut, EdgeReport, PacketStore, PeerId};
use crate::meter::RateMeter;
use crate::random::KeyedHash;

/// See the module.
#[derive(Debug)]
pub struct NbpIngress {
    config: NbpConfig,
    granularity: Granularity,
    exempt: DscpSet,
    limits: Limits,
    by_key: HashMap<ClassKey, AggregateId, KeyedHash>,
    hints: Hints,
    flows: Vec<Option<Flow>>,
    free: Vec<AggregateId>,
    egresses: BTreeMap<PeerId, Egress>,
    /// When the next forward packet to each egress is due.
    forward: Deadlines,
    encoder: Encoder,
    /// What the message at hand lists, and whose timers are due; kept for their memory.
    heard: Vec<Listed>,
    due: Vec<PeerId>,
}

impl NbpIngress {
    pub(super) fn new(config: NbpConfig, hash: KeyedHash) -> Self {
        let limits = Limits {
            mss: config.mss.as_f64(),
            mrc_factor: config.mrc_factor,
            rate_min: config.rate_min.as_bytes_per_second_f64(),
        };
        Self {
            granularity: config.granularity(),
            exempt: config.exempted(),
            config,
            limits,
            by_key: HashMap::with_hasher(hash),
            hints: Hints::default(),
            flows: Vec::new(),
            free: Vec::new(),
            egresses: BTreeMap::new(),
            forward: Deadlines::default(),
            encoder: Encoder::default(),
            heard: Vec::new(),
            due: Vec::new(),
        }
    }

    /// What is known of the flow with these headers.
    pub fn report(&self, headers: &Headers) -> Option<EdgeReport> {
        let aggregate = *self.by_key.get(&self.granularity.class_of(headers))?;
        let flow = self.flows[aggregate.0 as usize].as_ref()?;
        let egress = flow.exits.first().and_then(|exit| self.egresses.get(&exit.peer));
        Some(EdgeReport {
            aggregate,
            ingress_rate: flow.rate.ingress_rate,
            egress_rate: if flow.is_multicast { flow.slowest_branch() } else { flow.sum_of_paths() },
            rtt: egress.filter(|egress| egress.base_rtt.is_some()).map(|egress| egress.current_rtt),
            accumulation: None,
            in_epoch: None,
        })
    }

    /// How many flows are under control.
    pub fn flow_count(&self) -> usize {
        self.by_key.len()
    }

    fn initial_rate(&self) -> f64 {
        self.config.initial_rate.map_or_else(
            || self.config.mss.as_f64() / self.config.initial_interval.as_secs_f64(),
            BitRate::as_bytes_per_second_f64,
        )
    }

    fn admit_flow(&mut self, key: ClassKey, now: Time, out: &mut impl EdgeOut) -> AggregateId {
        let rate = FlowRate::new(self.initial_rate());
        let id = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            AggregateId(self.flows.len() as u32 - 1)
        });
        out.open(id, BitRate::from_bytes_per_second_f64(rate.ingress_rate));
        let arrival = self.config.arrival_headroom.map(|_| self.config.meter().build(now));
        self.flows[id.0 as usize] = Some(Flow { key, rate, exits: Vec::new(), is_multicast: false, arrival });
        self.by_key.insert(key, id);
        id
    }

    /// The aggregate of the class `key`; none if there is no room for it.
    #[inline]
    fn find_or_admit(
        &mut self,
        flow: FlowId,
        key: &ClassKey,
        now: Time,
        out: &mut impl EdgeOut,
    ) -> Option<AggregateId> {
        if let Some(place) = self.hints.get(flow)
            && let Some(Some(hinted)) = self.flows.get(place as usize)
            && hinted.key == *key
        {
            return Some(AggregateId(place));
        }
        let id = match self.by_key.get(key) {
            Some(&id) => id,
            None if self.by_key.len() >= self.config.flows_max as usize => return None,
            None => self.admit_flow(*key, now, out),
        };
        self.hints.set(flow, id.0);
        Some(id)
    }

    /// The flow goes to `peer` from now on (also), which comes at `at` among its exits.
    fn add_exit(&mut self, id: AggregateId, at: usize, peer: PeerId, now: Time) {
        let flow = self.flows[id.0 as usize].as_mut().expect("an admitted flow is known");
        flow.exits.insert(at, Exit::new(peer, now));
        let forward = &mut self.forward;
        let egress = self.egresses.entry(peer).or_insert_with(|| {
            let deadline = forward.open();
            forward.set(&deadline, peer, now);
            Egress::new(deadline, now)
        });
        egress.flows.push(id);
    }

    /// Forgets flows of `peer` that have been idle, and exits that flows no longer use.
    fn expire(&mut self, peer: PeerId, now: Time, out: &mut impl EdgeOut) {
        let timeout = self.config.idle_timeout;
        let egress = self.egresses.get_mut(&peer).expect("the timer named a known egress");
        let (flows, by_key, free) = (&mut self.flows, &mut self.by_key, &mut self.free);
        egress.flows.retain(|&id| {
            let place = &mut flows[id.0 as usize];
            let flow = place.as_mut().expect("an egress lists flows that exist");
            let used = flow.place_of(peer).map_or(Time::ZERO, |at| flow.exits[at].last_used);
            let still_waits = flow.exits.len() == 1 && !out.backlog(id).is_empty();
            if now.since(used) <= timeout || still_waits {
                return true;
            }
            flow.exits.retain(|exit| exit.peer != peer);
            if flow.exits.is_empty() {
                by_key.remove(&flow.key);
                *place = None;
                free.push(id);
                out.close(id);
            }
            false
        });
        if egress.flows.is_empty()
            && let Some(gone) = self.egresses.remove(&peer)
        {
            self.forward.close(gone.deadline);
        }
    }

    fn send_forward(&mut self, peer: PeerId, now: Time, out: &mut impl EdgeOut) {
        let bytes_max = self.config.feedback_bytes_max();
        let Some(egress) = self.egresses.get_mut(&peer) else { return };
        let round = egress.base_rtt.unwrap_or(self.config.initial_interval);
        let interval = round.max(self.config.interval_min).max(egress.interval_least(now));
        self.forward.set(&egress.deadline, peer, now + interval);
        egress.ask(now);
        self.encoder.forward(now);
        for &id in &egress.flows {
            let key = &self.flows[id.0 as usize].as_ref().expect("an egress lists flows that exist").key;
            if !self.encoder.has_room(key, 0, bytes_max) {
                out.send(peer, self.encoder.finish());
                self.encoder.forward(now);
            }
            self.encoder.push(key);
        }
        out.send(peer, self.encoder.finish());
    }

    /// Fig. 6: on arrival of a backward feedback packet from egress router `from`.
    fn on_backward(
        &mut self,
        from: PeerId,
        answers: Option<Time>,
        hop_count: u8,
        flows: &[Listed],
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        let Some(egress) = self.egresses.get_mut(&from) else { return };
        let mut is_new_round = true;
        if let Some(timestamp) = answers {
            if !egress.was_asked(timestamp) {
                return; // not ours, or too old
            }
            // A long report comes in several packets.
            let by_key = &self.by_key;
            let is_awaited = |listed: &Listed| {
                let flow = by_key.get(&listed.key).and_then(|id| self.flows[id.0 as usize].as_ref());
                let exit = flow.and_then(|flow| Some(&flow.exits[flow.place_of(from).ok()?]));
                exit.is_some_and(|exit| timestamp >= exit.next_answer)
            };
            if timestamp < egress.next_answer && !flows.iter().any(is_awaited) {
                return;
            }
            egress.on_answer(timestamp, now);
            // At least one router's worth of packets may be buffered, or a path without core routers could never grow.
            egress.hop_count = hop_count.max(1);
            let (came, answered) = *egress.first_answer.get_or_insert((now, timestamp));
            is_new_round = timestamp == answered || timestamp >= came;
        }
        // Without a base round-trip time there is nothing to compare with; normal feedback will come.
        let Some(base_rtt) = egress.base_rtt else { return };
        let path = PathDelay {
            current_rtt: egress.current_rtt.as_secs_f64(),
            base_rtt: base_rtt.as_secs_f64(),
            hop_count: f64::from(egress.hop_count),
        };
        for listed in flows {
            let Some(&id) = self.by_key.get(&listed.key) else { continue };
            let flow = self.flows[id.0 as usize].as_mut().expect("a key leads to a flow");
            let Ok(at) = flow.place_of(from) else { continue };
            let is_only = flow.exits.len() == 1;
            let exit = &mut flow.exits[at];
            if let Some(timestamp) = answers {
                if timestamp < exit.next_answer {
                    continue;
                }
                exit.next_answer = after(timestamp);
            }
            let rate = f64::from(listed.rate);
            // What nobody asked for carries no time stamp: sent again later it may not lift the sum of several paths.
            let is_dated = answers.is_some() || is_only || exit.base_rtt.is_none();
            exit.egress_rate = if is_dated { rate } else { rate.min(exit.egress_rate) };
            let mut path = path;
            let mut is_measured = true;
            if self.config.round_trip == RoundTrip::Data && answers.is_some() {
                is_measured = exit.measure(listed.echo, now, &mut path);
            }
            if answers.is_some() {
                exit.base_rtt = Some(base_rtt);
                exit.is_congested = is_congested(flow.rate.ingress_rate, &path, &self.limits);
            }
            let egress_rate = if flow.is_multicast { exit.egress_rate } else { flow.sum_of_paths() };
            if answers.is_some() {
                let may_increase = is_new_round && is_measured && flow.is_raised_by(from);
                flow.rate.on_normal(egress_rate, &path, &self.limits, may_increase);
            } else {
                flow.rate.on_asynchronous(egress_rate, &path, &self.limits);
            }
            if let (Some(headroom), Some(meter)) = (self.config.arrival_headroom, &flow.arrival) {
                // NBP-4: the rate of a flow that does not use it does not run away.
                let arriving = meter.bytes_per_second(now).max(self.limits.mss / path.base_rtt);
                let most = (headroom * arriving).max(self.limits.rate_min);
                flow.rate.ingress_rate = flow.rate.ingress_rate.min(most);
            }
            out.set_rate(id, BitRate::from_bytes_per_second_f64(flow.rate.ingress_rate));
        }
    }
}

impl EdgeHalf for NbpIngress {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        exits: &[PeerId],
        now: Time,
        out: &mut impl EdgeOut,
    ) -> Admission {
        // What leaves nowhere is of no flow.
        if self.exempt.contains(packet.dscp) || exits.is_empty() {
            return Admission::Pass;
        }
        let key = self.granularity.class_of(headers);
        let Some(id) = self.find_or_admit(packet.flow, &key, now, out) else {
            return Admission::Drop(DropReason::Policed);
        };
        let flow = self.flows[id.0 as usize].as_mut().expect("an admitted flow is known");
        // A class may hold both; its slowest branch then counts for all.
        flow.is_multicast |= exits.len() > 1;
        if let Some(meter) = &mut flow.arrival {
            meter.on_arrival(packet.wire_bytes, now);
        }
        for &peer in exits {
            let entered = self.flows[id.0 as usize].as_mut().expect("an admitted flow is known");
            match entered.place_of(peer) {
                Ok(at) => entered.exits[at].last_used = now,
                Err(at) => self.add_exit(id, at, peer, now),
            }
        }
        Admission::Shape(id)
    }

    #[inline]
    fn on_release(
        &mut self,
        _aggregate: AggregateId,
        packet: &mut Packet,
        store: &mut impl PacketStore,
        now: Time,
        _out: &mut impl EdgeOut,
    ) {
        if self.config.round_trip == RoundTrip::Data {
            store.stamp(packet, stamp_at(now));
        }
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], _ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let mut flows = core::mem::take(&mut self.heard);
        let head = wire::decode_into(message, &mut flows);
        if let Ok(Head::Backward { timestamp, asynchronous, hop_count }) = head {
            let answers = if asynchronous { None } else { Some(timestamp) };
            self.on_backward(from, answers, hop_count, &flows, now, out);
        }
        self.heard = flows;
    }

    fn timer_at(&self) -> Option<Time> {
        self.forward.first()
    }

    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        let mut due = core::mem::take(&mut self.due);
        self.forward.take_due(now, &mut due);
        for peer in due.drain(..) {
            self.expire(peer, now, out);
            self.send_forward(peer, now, out);
        }
        self.due = due;
    }
}

#[cfg(test)]
mod tests {
    use tidegate_units::Span;

    use super::*;
    use crate::Context;
    use crate::edge::nbp::aged;
    use crate::edge::testing::{HEADERS, Said};

    const EGRESS: PeerId = PeerId(1);

    /// One round: a packet enters at once and leaves after `there`, feedback takes 10 ms both ways together, and says that the flow
    /// leaves at 1 MB/s. The rate afterwards.
    fn round(ingress: &mut NbpIngress, begin: Time, there: Option<Span>) -> BitRate {
        let mut said = Said::default();
        let mut packet = Packet::new(0, FlowId(0), 1000);
        let id = ingress.on_packet(&mut packet, &HEADERS, &[EGRESS], begin, &mut said);
        let Admission::Shape(id) = id else { panic!("it is shaped") };
        let mut store = Said::default();
        ingress.on_release(id, &mut packet, &mut store, begin, &mut said);
        let answered = begin + Span::from_millis(505);
        ingress.on_timer(begin + Span::from_millis(495), &mut said);
        let kept = there.map(|there| Span::from_millis(500) - there);
        let echo = store.stamp.zip(kept).map_or(0, |(stamp, kept)| aged(stamp, kept));
        let mut encoder = Encoder::default();
        encoder.backward(begin + Span::from_millis(495), false, 2, true);
        encoder.push_with_rate(&Granularity::Flow.class_of(&HEADERS), 1_000_000);
        encoder.push_echo(echo);
        ingress.on_message(EGRESS, encoder.finish(), 250, answered, &mut said);
        said.rate.unwrap()
    }

    #[test]
    fn a_queue_that_only_data_sees_is_congestion_where_the_round_trip_is_that_of_data() {
        for (round_trip, is_cut) in [(RoundTrip::Feedback, false), (RoundTrip::Data, true)] {
            let config = NbpConfig {
                round_trip,
                initial_rate: Some(BitRate::from_mbps(10)),
                idle_timeout: Span::from_secs(9),
                ..NbpConfig::default()
            };
            let (mut ingress, _) = config.build(&Context::for_tests());
            let at = |seconds| Time::ZERO + Span::from_secs(seconds);
            assert_eq!(round(&mut ingress, at(1), Some(Span::from_millis(5))), BitRate::from_mbps(20));
            // 20 Mb/s for 5 ms are 12.5 kB in the network, more than two packets of 1500.
            let rate = round(&mut ingress, at(2), Some(Span::from_millis(10)));
            assert_eq!(rate < BitRate::from_mbps(8), is_cut, "{round_trip:?}: {rate}");
        }
    }

    #[test]
    fn where_no_data_came_through_no_rate_grows() {
        let config = NbpConfig { round_trip: RoundTrip::Data, ..NbpConfig::default() };
        let (mut ingress, _) = config.build(&Context::for_tests());
        let first = round(&mut ingress, Time::ZERO + Span::from_secs(1), None);
        assert_eq!(first, BitRate::from_bps(240_000), "as it began");
        let more = round(&mut ingress, Time::ZERO + Span::from_secs(2), Some(Span::from_millis(5)));
        assert_eq!(more, BitRate::from_bps(480_000));
    }
    /// What an egress answers to the forward packet of `timestamp`, 10 ms later: the rate afterwards.
    fn answered(ingress: &mut NbpIngress, timestamp: Time, keys: &[ClassKey], now: Time) -> Option<BitRate> {
        let (mut encoder, mut said) = (Encoder::default(), Said::default());
        encoder.backward(timestamp, false, 2, false);
        for key in keys {
            encoder.push_with_rate(key, 1_000_000);
        }
        ingress.on_message(EGRESS, encoder.finish(), 250, now, &mut said);
        said.rate
    }

    /// An ingress of one flow, which has asked at 1.00, 1.05, 1.10 and 1.15 s.
    fn that_asked() -> (NbpIngress, ClassKey, [Time; 4]) {
        let config = NbpConfig { initial_rate: Some(BitRate::from_mbps(1)), ..NbpConfig::default() };
        let (mut ingress, _) = config.build(&Context::for_tests());
        let stamps = [1000, 1050, 1100, 1150].map(|ms| Time::ZERO + Span::from_millis(ms));
        let mut said = Said::default();
        ingress.on_packet(&mut Packet::new(0, FlowId(0), 1000), &HEADERS, &[EGRESS], stamps[0], &mut said);
        for at in stamps {
            ingress.on_timer(at, &mut said);
        }
        (ingress, Granularity::Flow.class_of(&HEADERS), stamps)
    }

    #[test]
    fn an_answer_counts_once_and_only_if_it_was_asked_for() {
        let (mut ingress, key, stamps) = that_asked();
        let now = stamps[3] + Span::from_millis(20);
        let nano = Span::from_nanos(1);
        // Never sent: between, before and after what was; of the future; of no time.
        for forged in [
            stamps[2] + nano,
            stamps[0].saturating_sub(nano),
            stamps[3] + nano,
            now + Span::from_secs(1),
            Time::ZERO,
        ] {
            assert_eq!(answered(&mut ingress, forged, &[key], now), None, "{forged}");
        }
        assert!(ingress.report(&HEADERS).is_some_and(|report| report.rtt.is_none()), "nothing was measured");
        // A flow that is listed twice is raised once.
        assert_eq!(answered(&mut ingress, stamps[2], &[key, key], now), Some(BitRate::from_mbps(2)));
        let rtt = ingress.report(&HEADERS).and_then(|report| report.rtt);
        assert_eq!(rtt, Some(Span::from_millis(70)));
        // Again, and those before it, that come late.
        let later = now + Span::from_secs(1);
        for old in &stamps[..3] {
            assert_eq!(answered(&mut ingress, *old, &[key], later), None, "{old}");
        }
        assert_eq!(ingress.report(&HEADERS).and_then(|report| report.rtt), rtt);
        // It left before the first answer came: it may cut, and does not raise.
        assert_eq!(answered(&mut ingress, stamps[3], &[key], now), Some(BitRate::from_mbps(2)));
    }

    #[test]
    fn what_was_said_of_a_flow_before_it_came_back_says_nothing_of_it() {
        let (mut ingress, key, stamps) = that_asked();
        let mut said = Said::default();
        let other = Headers { source_port: 77, ..HEADERS };
        let second = stamps[3] + Span::from_millis(1);
        ingress.on_packet(&mut Packet::new(0, FlowId(1), 1000), &other, &[EGRESS], second, &mut said);
        let (now, both) = (second + Span::from_millis(9), [Granularity::Flow.class_of(&other), key]);
        assert_eq!(answered(&mut ingress, stamps[3], &both, now), Some(BitRate::from_mbps(2)));
        let rate = ingress.report(&other).map(|report| report.ingress_rate);
        assert_eq!(rate, Some(125_000.0), "it was not there when the egress was asked");
    }

    #[test]
    fn forward_feedback_never_hurries_and_is_remembered_for_as_long_as_no_answer_comes() {
        let (mut ingress, key, stamps) = that_asked();
        let (mut now, mut said) = (stamps[3], Said::default());
        // An answer within a nanosecond: an egress that knows the time stamp beforehand.
        now += Span::from_nanos(1);
        answered(&mut ingress, stamps[3], &[key], now);
        let mut asked = Vec::new();
        while now < stamps[3] + Span::from_secs(2) {
            now = ingress.timer_at().expect("it has a flow").max(now);
            ingress.on_packet(&mut Packet::new(0, FlowId(0), 1000), &HEADERS, &[EGRESS], now, &mut said);
            ingress.on_timer(now, &mut said);
            asked.push(now);
        }
        let least = asked.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(least >= Some(NbpConfig::default().interval_min), "{least:?}");
        assert!(asked.len() < 10_000, "{}", asked.len());
        // One of a second ago is known still.
        let old = asked[asked.partition_point(|at| now.since(*at) > Span::from_secs(1))];
        assert!(answered(&mut ingress, old, &[key], now).is_some());
    }
}

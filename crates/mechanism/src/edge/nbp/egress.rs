//! The half where flows leave: meters each flow, answers forward feedback at once, and speaks unasked when none comes.
//!
//! Source: NBP, section II.A (Fig. 3) and II.B.
//! Deviations: asynchronous feedback lists the flows of which packets have arrived, since the law would take a flow that
//! has not reached the egress yet for one that is congested; flows and ingresses that have been silent for the idle
//! time-out are forgotten (the paper does not say when). A flow is a class of one ingress: what one ingress announces or sends
//! takes no room from another, and changes nothing that is measured for it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use hashbrown::HashMap;
use tidegate_packet::{DscpSet, FlowId, Headers, Packet};
use tidegate_units::Time;

use super::classify::Hints;
use super::wire::{self, Encoder, Head, Listed};
use super::{ClassKey, Granularity, NbpConfig, RoundTrip, aged};
use crate::edge::border::earliest;
use crate::edge::deadlines::{Deadlines, Slot};
use crate::edge::{Admission, EdgeHalf, EdgeOut, PeerId};
use crate::meter::{RateMeter, TswMeter};
use crate::random::KeyedHash;

/// Flows of which nothing says by which one border they entered.
const NOBODY: PeerId = PeerId(u32::MAX);

/// So many flows may an ingress announce of which nothing has come; more only if as many have come.
const UNSEEN_MIN: usize = 1024;

/// What the egress knows of one flow.
#[derive(Debug)]
struct Metered {
    /// By which it entered.
    peer: PeerId,
    key: ClassKey,
    meter: TswMeter,
    /// When its last packet arrived, or when it was announced if none did.
    last_heard: Time,
    has_arrived: bool,
    /// The stamp of its last packet and when that left, until it is reported.
    stamped: Option<(NonZeroU32, Time)>,
}

/// The flows that one ingress has in the table.
#[derive(Debug)]
struct Share {
    /// Where they stand.
    places: Vec<u32>,
    /// Where those stand of which nothing has come, among others of which something has by now.
    unseen: Vec<u32>,
    /// Of how many something has come.
    seen: usize,
    /// When silent ones are looked for next.
    deadline: Slot,
}

/// What the egress knows of one ingress.
#[derive(Debug)]
struct Ingress {
    /// The flows that it announced, with the time of the last announcement.
    flows: BTreeMap<ClassKey, Time>,
    /// Routers between it and here, from the last forward packet.
    hop_count: u8,
    /// When asynchronous feedback is due.
    deadline: Slot,
}

/// See the module.
#[derive(Debug)]
pub struct NbpEgress {
    config: NbpConfig,
    granularity: Granularity,
    exempt: DscpSet,
    by_key: HashMap<(PeerId, ClassKey), u32, KeyedHash>,
    hints: Hints,
    flows: Vec<Option<Metered>>,
    free: Vec<u32>,
    shares: BTreeMap<PeerId, Share>,
    ingresses: BTreeMap<PeerId, Ingress>,
    /// The stamp of the packet that leaves now.
    stamp: Option<(FlowId, NonZeroU32)>,
    /// When silent flows of each ingress are looked for next.
    expiry: Deadlines,
    /// When asynchronous feedback to each ingress is due; some get no more until they ask.
    asynchronous: Deadlines,
    encoder: Encoder,
    /// What the message at hand lists, and whose timers are due; kept for their memory.
    heard: Vec<Listed>,
    due: Vec<PeerId>,
}

impl NbpEgress {
    pub(super) fn new(config: NbpConfig, hash: KeyedHash) -> Self {
        Self {
            granularity: config.granularity(),
            exempt: config.exempted(),
            config,
            by_key: HashMap::with_hasher(hash),
            hints: Hints::default(),
            flows: Vec::new(),
            free: Vec::new(),
            shares: BTreeMap::new(),
            ingresses: BTreeMap::new(),
            stamp: None,
            expiry: Deadlines::default(),
            asynchronous: Deadlines::default(),
            encoder: Encoder::default(),
            heard: Vec::new(),
            due: Vec::new(),
        }
    }

    /// The egress rate of a flow of `ingress` in bytes per second, as feedback would report it at `now`.
    pub fn egress_rate(&self, ingress: PeerId, key: &ClassKey, now: Time) -> Option<f64> {
        self.reported(ingress, key).map(|flow| flow.meter.bytes_per_second(now))
    }

    /// How many flows are metered.
    pub fn flow_count(&self) -> usize {
        self.by_key.len()
    }

    /// Where the flow of `key` stands that `ingress` is told of: its own, or one that nobody can tell whose it is.
    fn reported_place(&self, ingress: PeerId, key: &ClassKey) -> Option<usize> {
        let has_come =
            |place: &&u32| self.flows[**place as usize].as_ref().is_some_and(|flow| flow.has_arrived);
        let own = self.by_key.get(&(ingress, *key));
        let place = own.filter(has_come).or_else(|| self.by_key.get(&(NOBODY, *key))).or(own)?;
        Some(*place as usize)
    }

    fn reported(&self, ingress: PeerId, key: &ClassKey) -> Option<&Metered> {
        self.flows[self.reported_place(ingress, key)?].as_ref()
    }

    fn on_forward(
        &mut self,
        from: PeerId,
        timestamp: Time,
        listed: &[Listed],
        ttl: u8,
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        let hop_count = u8::MAX - ttl;
        let asynchronous = &mut self.asynchronous;
        let ingress = self.ingresses.entry(from).or_insert_with(|| Ingress {
            flows: BTreeMap::new(),
            hop_count,
            deadline: asynchronous.open(),
        });
        ingress.hop_count = hop_count;
        asynchronous.set(&ingress.deadline, from, now + self.config.asynch_interval);
        for Listed { key, .. } in listed {
            if self.find_or_add(from, key, false, now).is_some() {
                let announced = &mut self.ingresses.get_mut(&from).expect("it was made above").flows;
                announced.insert(*key, now);
            }
        }
        let mut encoder = core::mem::take(&mut self.encoder);
        let rates = listed.iter().filter_map(|flow| self.reported(from, &flow.key));
        send_backward(&mut encoder, &self.config, from, (timestamp, false, hop_count), rates, now, out);
        self.encoder = encoder;
        if self.config.round_trip == RoundTrip::Data {
            self.forget_stamps(from, listed);
        }
    }

    /// What was reported of these flows says nothing of the next round trip.
    fn forget_stamps(&mut self, ingress: PeerId, listed: &[Listed]) {
        for flow in listed {
            if let Some(place) = self.reported_place(ingress, &flow.key)
                && let Some(metered) = &mut self.flows[place]
            {
                metered.stamped = None;
            }
        }
    }

    fn send_asynchronous(&mut self, to: PeerId, now: Time, out: &mut impl EdgeOut) {
        let mut encoder = core::mem::take(&mut self.encoder);
        let ingress = &self.ingresses[&to];
        let announced = ingress.flows.keys().filter_map(|key| self.reported(to, key));
        let rates = announced.filter(|flow| flow.has_arrived);
        let header = (Time::ZERO, true, ingress.hop_count);
        send_backward(&mut encoder, &self.config, to, header, rates, now, out);
        self.encoder = encoder;
    }

    /// Forgets what has been silent of these ingresses, whose deadlines have come.
    fn expire(&mut self, due: impl Iterator<Item = PeerId>, now: Time) {
        let timeout = self.config.idle_timeout;
        for peer in due {
            let (flows, free, by_key) = (&mut self.flows, &mut self.free, &mut self.by_key);
            let Some(share) = self.shares.get_mut(&peer) else { continue };
            share.places.retain(|&place| {
                let flow = &mut flows[place as usize];
                if flow.as_ref().is_some_and(|heard| now.since(heard.last_heard) <= timeout) {
                    return true;
                }
                if let Some(silent) = flow.take() {
                    by_key.remove(&(peer, silent.key));
                    share.seen -= usize::from(silent.has_arrived);
                }
                free.push(place);
                false
            });
            share.unseen.retain(|&place| is_unseen(flows[place as usize].as_ref(), peer));
            self.expiry.set(&share.deadline, peer, now + timeout);
            if share.places.is_empty()
                && let Some(gone) = self.shares.remove(&peer)
            {
                self.expiry.close(gone.deadline);
            }
            if let Some(ingress) = self.ingresses.get_mut(&peer) {
                let is_kept = |key: &ClassKey| by_key.contains_key(&(peer, *key));
                ingress.flows.retain(|key, announced| now.since(*announced) <= timeout && is_kept(key));
                if ingress.flows.is_empty() {
                    self.forget_ingress(peer);
                }
            }
        }
    }

    fn forget_ingress(&mut self, peer: PeerId) {
        if let Some(gone) = self.ingresses.remove(&peer) {
            self.asynchronous.close(gone.deadline);
        }
    }

    /// Where the flow of `key` stands, which entered by `peer`, if there is room for it: a packet of it came `now`.
    #[inline]
    fn place(&mut self, number: FlowId, peer: PeerId, key: &ClassKey, now: Time) -> Option<usize> {
        if let Some(place) = self.hints.get(number)
            && let Some(Some(flow)) = self.flows.get_mut(place as usize)
            && flow.key == *key
            && flow.peer == peer
        {
            flow.last_heard = now;
            return Some(place as usize);
        }
        let place = self.find_or_add(peer, key, true, now)?;
        self.hints.set(number, place as u32);
        Some(place)
    }

    /// The same of a packet (`has_come`) or of an announcement.
    fn find_or_add(&mut self, peer: PeerId, key: &ClassKey, has_come: bool, now: Time) -> Option<usize> {
        if let Some(&place) = self.by_key.get(&(peer, *key)) {
            if let Some(flow) = &mut self.flows[place as usize] {
                flow.last_heard = now;
            }
            return Some(place as usize);
        }
        let place = self.room(peer, has_come, now)?;
        let meter = self.config.meter().build(now);
        let flow = Metered { peer, key: *key, meter, last_heard: now, has_arrived: false, stamped: None };
        self.flows[place as usize] = Some(flow);
        self.by_key.insert((peer, *key), place);
        Some(place as usize)
    }

    /// A place for one more flow of `peer`: a new one, or that of a flow of its own that was only announced. Where there is none
    /// the flow is not metered, and nothing is reported of it.
    fn room(&mut self, peer: PeerId, has_come: bool, now: Time) -> Option<u32> {
        let is_full = self.by_key.len() >= self.config.flows_max as usize;
        let (count, seen) = self.shares.get(&peer).map_or((0, 0), |share| (share.places.len(), share.seen));
        if !has_come && count - seen >= seen.max(UNSEEN_MIN) {
            return None;
        }
        if is_full || count >= self.config.share_max() {
            return if has_come { self.evict(peer) } else { None };
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        let (expiry, timeout) = (&mut self.expiry, self.config.idle_timeout);
        let share = self.shares.entry(peer).or_insert_with(|| {
            let deadline = expiry.open();
            expiry.set(&deadline, peer, now + timeout);
            Share { places: Vec::new(), unseen: Vec::new(), seen: 0, deadline }
        });
        share.places.push(place);
        share.unseen.push(place);
        Some(place)
    }

    /// The place of a flow of `peer` of which nothing has come; it is forgotten.
    #[cold]
    fn evict(&mut self, peer: PeerId) -> Option<u32> {
        let share = self.shares.get_mut(&peer)?;
        while let Some(place) = share.unseen.pop() {
            if is_unseen(self.flows[place as usize].as_ref(), peer)
                && let Some(flow) = self.flows[place as usize].take()
            {
                self.by_key.remove(&(peer, flow.key));
                if let Some(ingress) = self.ingresses.get_mut(&peer) {
                    ingress.flows.remove(&flow.key);
                }
                share.unseen.push(place);
                return Some(place);
            }
        }
        None
    }
}

/// Whether a flow of `peer` stands there of which nothing has come.
fn is_unseen(flow: Option<&Metered>, peer: PeerId) -> bool {
    flow.is_some_and(|flow| flow.peer == peer && !flow.has_arrived)
}

/// Sends backward feedback for `flows`, in as many packets as the MTU makes necessary; at least one if it answers.
fn send_backward<'a>(
    encoder: &mut Encoder,
    config: &NbpConfig,
    to: PeerId,
    (timestamp, asynchronous, hop_count): (Time, bool, u8),
    flows: impl Iterator<Item = &'a Metered>,
    now: Time,
    out: &mut impl EdgeOut,
) {
    let bytes_max = config.feedback_bytes_max();
    // Asynchronous feedback says nothing of delays.
    let with_echoes = config.round_trip == RoundTrip::Data && !asynchronous;
    let numbers = 1 + usize::from(with_echoes);
    encoder.backward(timestamp, asynchronous, hop_count, with_echoes);
    for flow in flows {
        if !encoder.has_room(&flow.key, numbers, bytes_max) {
            out.send(to, encoder.finish());
            encoder.backward(timestamp, asynchronous, hop_count, with_echoes);
        }
        encoder.push_with_rate(&flow.key, flow.meter.bytes_per_second(now) as u32);
        if with_echoes {
            encoder.push_echo(flow.stamped.map_or(0, |(stamp, left)| aged(stamp, now.since(left))));
        }
    }
    if encoder.count() > 0 || !asynchronous {
        out.send(to, encoder.finish());
    }
}

impl EdgeHalf for NbpEgress {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        entries: &[PeerId],
        now: Time,
        _out: &mut impl EdgeOut,
    ) -> Admission {
        let stamp = self.stamp.take().filter(|(flow, _)| *flow == packet.flow);
        if self.exempt.contains(packet.dscp) {
            return Admission::Pass;
        }
        let key = self.granularity.class_of(headers);
        let peer = if let &[peer] = entries { peer } else { NOBODY };
        let Some(place) = self.place(packet.flow, peer, &key, now) else { return Admission::Pass };
        let Some(flow) = &mut self.flows[place] else { return Admission::Pass };
        if !flow.has_arrived {
            // The gap since the announcement is no gap between packets.
            flow.meter.restart(now);
            flow.has_arrived = true;
            if let Some(share) = self.shares.get_mut(&peer) {
                share.seen += 1;
            }
        }
        if let Some((_, stamp)) = stamp {
            flow.stamped = Some((stamp, now));
        }
        flow.meter.on_arrival(packet.wire_bytes, now);
        Admission::Pass
    }

    /// The packet itself comes next, and says by which border it entered.
    #[inline]
    fn on_stamp(&mut self, flow: FlowId, _headers: &Headers, stamp: NonZeroU32, _now: Time) {
        self.stamp = Some((flow, stamp));
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let mut flows = core::mem::take(&mut self.heard);
        if let Ok(Head::Forward { timestamp }) = wire::decode_into(message, &mut flows) {
            self.on_forward(from, timestamp, &flows, ttl, now, out);
        }
        self.heard = flows;
    }

    fn timer_at(&self) -> Option<Time> {
        earliest(self.asynchronous.first(), self.expiry.first())
    }

    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        let mut due = core::mem::take(&mut self.due);
        self.expiry.take_due(now, &mut due);
        self.expire(due.drain(..), now);
        self.asynchronous.take_due(now, &mut due);
        for peer in due.drain(..) {
            // What announced flows that found no room, or none.
            if !self.shares.contains_key(&peer) {
                self.forget_ingress(peer);
                continue;
            }
            if self.config.asynch_repeats
                && let Some(ingress) = self.ingresses.get(&peer)
            {
                self.asynchronous.set(&ingress.deadline, peer, now + self.config.asynch_interval);
            }
            self.send_asynchronous(peer, now, out);
        }
        self.due = due;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::edge::testing::{HEADERS, Said};

    const ONE: PeerId = PeerId(1);
    const OTHER: PeerId = PeerId(2);

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn headers(port: u16) -> Headers {
        Headers { source_port: port, ..HEADERS }
    }

    fn egress(flows_max: u32) -> NbpEgress {
        NbpConfig { flows_max, borders: 3, ..NbpConfig::default() }.build(&Context::for_tests()).1
    }

    fn announce(egress: &mut NbpEgress, from: PeerId, ports: core::ops::Range<u16>, now: Time) {
        let mut encoder = Encoder::default();
        encoder.forward(now);
        ports.for_each(|port| encoder.push(&Granularity::Flow.class_of(&headers(port))));
        egress.on_message(from, encoder.finish(), 250, now, &mut Said::default());
    }

    fn data(egress: &mut NbpEgress, from: PeerId, port: u16, now: Time) {
        let mut packet = Packet::new(0, FlowId(u32::from(port)), 1000);
        egress.on_packet(&mut packet, &headers(port), &[from], now, &mut Said::default());
    }

    fn is_metered(egress: &NbpEgress, from: PeerId, port: u16) -> bool {
        egress.egress_rate(from, &Granularity::Flow.class_of(&headers(port)), at(0)).is_some()
    }

    #[test]
    fn an_ingress_fills_its_own_part_of_the_table_and_no_more() {
        let mut egress = egress(30);
        announce(&mut egress, ONE, 0..500, at(1));
        (0..500).for_each(|port| data(&mut egress, ONE, port, at(2)));
        assert_eq!(egress.flow_count(), 10);
        (0..10).for_each(|port| data(&mut egress, OTHER, port, at(3)));
        assert_eq!(egress.flow_count(), 20);
        assert!((0..10).all(|port| is_metered(&egress, OTHER, port)), "though others named the same");
    }

    #[test]
    fn flows_that_have_come_take_the_places_of_those_that_were_only_announced() {
        let mut egress = egress(30);
        announce(&mut egress, ONE, 100..110, at(1));
        (0..4).for_each(|port| data(&mut egress, ONE, port, at(2)));
        assert!((0..4).all(|port| is_metered(&egress, ONE, port)));
        assert_eq!(egress.flow_count(), 10);
        announce(&mut egress, ONE, 200..210, at(3));
        assert!((200..210).all(|port| !is_metered(&egress, ONE, port)), "what is there stays");
        (4..12).for_each(|port| data(&mut egress, ONE, port, at(4)));
        assert!((0..10).all(|port| is_metered(&egress, ONE, port)));
        assert!(!is_metered(&egress, ONE, 10), "flows that have come stay");
        // All are forgotten when they have been silent, and the places are free again.
        egress.on_timer(at(1001), &mut Said::default());
        egress.on_timer(at(2003), &mut Said::default());
        assert_eq!((egress.flow_count(), egress.timer_at()), (0, None));
        assert!(egress.ingresses.is_empty() && egress.shares.is_empty());
        announce(&mut egress, ONE, 0..10, at(3000));
        assert_eq!((egress.flow_count(), egress.flows.len()), (10, 10));
    }

    #[test]
    fn announcements_alone_make_few_entries_however_large_the_table_is() {
        let mut egress = egress(1_000_000);
        for batch in 0..100 {
            announce(&mut egress, ONE, batch * 100..(batch + 1) * 100, at(1));
        }
        assert_eq!(egress.flow_count(), UNSEEN_MIN);
        // What comes is metered all the same, and makes room for announcements.
        (5000..7000).for_each(|port| data(&mut egress, ONE, port, at(2)));
        assert_eq!(egress.flow_count(), UNSEEN_MIN + 2000);
        announce(&mut egress, ONE, 8000..10_000, at(3));
        assert_eq!(egress.flow_count(), 4000);
    }
}

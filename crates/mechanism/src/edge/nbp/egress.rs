//! The half where flows leave: meters each flow, answers forward feedback at once, and speaks unasked when none comes.
//!
//! Source: NBP, section II.A (Fig. 3) and II.B.
//! Deviations: asynchronous feedback lists the flows of which packets have arrived, since the law would take a flow that
//! has not reached the egress yet for one that is congested; flows and ingresses that have been silent for the idle
//! time-out are forgotten (the paper does not say when).

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
use crate::edge::{Admission, EdgeHalf, EdgeOut, PeerId};
use crate::meter::{RateMeter, TswMeter};
use crate::random::KeyedHash;

/// What the egress knows of one flow.
#[derive(Debug)]
struct Metered {
    key: ClassKey,
    meter: TswMeter,
    /// When its last packet arrived, or when it was announced if none did.
    last_heard: Time,
    has_arrived: bool,
    /// The stamp of its last packet and when that left, until it is reported.
    stamped: Option<(NonZeroU32, Time)>,
}

/// What the egress knows of one ingress.
#[derive(Debug, Default)]
struct Ingress {
    /// The flows that it announced, with the time of the last announcement.
    flows: BTreeMap<ClassKey, Time>,
    /// Routers between it and here, from the last forward packet.
    hop_count: u8,
    /// When asynchronous feedback is due.
    asynchronous_at: Time,
}

/// See the module.
#[derive(Debug)]
pub struct NbpEgress {
    config: NbpConfig,
    granularity: Granularity,
    exempt: DscpSet,
    by_key: HashMap<ClassKey, u32, KeyedHash>,
    hints: Hints,
    flows: Vec<Option<Metered>>,
    free: Vec<u32>,
    ingresses: BTreeMap<PeerId, Ingress>,
    /// When silent flows are looked for next.
    expire_at: Time,
    /// The earliest of `asynchronous_at` and `expire_at`; `None` while there is nothing to watch.
    timer: Option<Time>,
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
            ingresses: BTreeMap::new(),
            expire_at: Time::ZERO,
            timer: None,
            encoder: Encoder::default(),
            heard: Vec::new(),
            due: Vec::new(),
        }
    }

    /// The egress rate of a flow in bytes per second, as feedback would report it at `now`.
    pub fn egress_rate(&self, key: &ClassKey, now: Time) -> Option<f64> {
        self.metered(key).map(|flow| flow.meter.bytes_per_second(now))
    }

    /// How many flows are metered.
    pub fn flow_count(&self) -> usize {
        self.by_key.len()
    }

    fn metered(&self, key: &ClassKey) -> Option<&Metered> {
        self.flows[*self.by_key.get(key)? as usize].as_ref()
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
        let ingress = self.ingresses.entry(from).or_default();
        ingress.hop_count = hop_count;
        ingress.asynchronous_at = now + self.config.asynch_interval;
        for Listed { key, .. } in listed {
            if self.place(None, key, now).is_some() {
                let announced = &mut self.ingresses.get_mut(&from).expect("it was made above").flows;
                announced.insert(*key, now);
            }
        }
        let mut encoder = core::mem::take(&mut self.encoder);
        let rates = listed.iter().filter_map(|flow| self.metered(&flow.key));
        send_backward(&mut encoder, &self.config, from, (timestamp, false, hop_count), rates, now, out);
        self.encoder = encoder;
        if self.config.round_trip == RoundTrip::Data {
            self.forget_stamps(listed);
        }
        self.find_timer();
    }

    /// What was reported of these flows says nothing of the next round trip.
    fn forget_stamps(&mut self, listed: &[Listed]) {
        for flow in listed {
            if let Some(&place) = self.by_key.get(&flow.key)
                && let Some(metered) = &mut self.flows[place as usize]
            {
                metered.stamped = None;
            }
        }
    }

    fn send_asynchronous(&mut self, to: PeerId, now: Time, out: &mut impl EdgeOut) {
        let mut encoder = core::mem::take(&mut self.encoder);
        let ingress = &self.ingresses[&to];
        let rates = ingress.flows.keys().filter_map(|key| self.metered(key)).filter(|flow| flow.has_arrived);
        let header = (Time::ZERO, true, ingress.hop_count);
        send_backward(&mut encoder, &self.config, to, header, rates, now, out);
        self.encoder = encoder;
    }

    /// Forgets what has been silent.
    fn expire(&mut self, now: Time) {
        let timeout = self.config.idle_timeout;
        let (flows, free) = (&mut self.flows, &mut self.free);
        self.by_key.retain(|_, place| {
            let flow = &mut flows[*place as usize];
            let is_heard = flow.as_ref().is_some_and(|heard| now.since(heard.last_heard) <= timeout);
            if !is_heard {
                *flow = None;
                free.push(*place);
            }
            is_heard
        });
        let by_key = &self.by_key;
        self.ingresses.retain(|_, ingress| {
            ingress
                .flows
                .retain(|key, announced| now.since(*announced) <= timeout && by_key.contains_key(key));
            !ingress.flows.is_empty()
        });
        self.expire_at = now + timeout;
    }

    fn find_timer(&mut self) {
        let asynchronous =
            self.ingresses.values().map(|i| i.asynchronous_at).min().filter(|&at| at != Time::MAX);
        let expiry = if self.by_key.is_empty() { None } else { Some(self.expire_at) };
        self.timer = earliest(asynchronous, expiry);
    }

    /// Where the flow of `key` stands, if there is or may be one: something was heard of it `now`.
    #[inline]
    fn place(&mut self, number: Option<FlowId>, key: &ClassKey, now: Time) -> Option<usize> {
        if let Some(place) = number.and_then(|number| self.hints.get(number))
            && let Some(Some(flow)) = self.flows.get_mut(place as usize)
            && flow.key == *key
        {
            flow.last_heard = now;
            return Some(place as usize);
        }
        let place = self.find_or_add(key, now)?;
        if let Some(number) = number {
            self.hints.set(number, place as u32);
        }
        Some(place)
    }

    fn find_or_add(&mut self, key: &ClassKey, now: Time) -> Option<usize> {
        if self.by_key.is_empty() {
            self.expire_at = now + self.config.idle_timeout;
        }
        if let Some(&place) = self.by_key.get(key) {
            if let Some(flow) = &mut self.flows[place as usize] {
                flow.last_heard = now;
            }
            return Some(place as usize);
        }
        // A full table leaves further flows unmetered: their ingress has no room for them either.
        if self.by_key.len() >= self.config.flows_max as usize {
            return None;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        let meter = self.config.meter().build(now);
        let flow = Metered { key: *key, meter, last_heard: now, has_arrived: false, stamped: None };
        self.flows[place as usize] = Some(flow);
        self.by_key.insert(*key, place);
        Some(place as usize)
    }
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
        _exits: &[PeerId],
        now: Time,
        _out: &mut impl EdgeOut,
    ) -> Admission {
        if self.exempt.contains(packet.dscp) {
            return Admission::Pass;
        }
        let key = self.granularity.class_of(headers);
        let was_unwatched = self.by_key.is_empty();
        if let Some(place) = self.place(Some(packet.flow), &key, now)
            && let Some(flow) = &mut self.flows[place]
        {
            if !flow.has_arrived {
                // The gap since the announcement is no gap between packets.
                flow.meter.restart(now);
                flow.has_arrived = true;
            }
            flow.meter.on_arrival(packet.wire_bytes, now);
        }
        if was_unwatched {
            self.find_timer();
        }
        Admission::Pass
    }

    #[inline]
    fn on_stamp(&mut self, flow: FlowId, headers: &Headers, stamp: NonZeroU32, now: Time) {
        let key = self.granularity.class_of(headers);
        if let Some(place) = self.place(Some(flow), &key, now)
            && let Some(metered) = &mut self.flows[place]
        {
            metered.stamped = Some((stamp, now));
        }
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let mut flows = core::mem::take(&mut self.heard);
        if let Ok(Head::Forward { timestamp }) = wire::decode_into(message, &mut flows) {
            self.on_forward(from, timestamp, &flows, ttl, now, out);
        }
        self.heard = flows;
    }

    fn timer_at(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        if self.expire_at <= now {
            self.expire(now);
        }
        let again = if self.config.asynch_repeats { now + self.config.asynch_interval } else { Time::MAX };
        let mut due = core::mem::take(&mut self.due);
        for (peer, ingress) in self.ingresses.iter_mut().filter(|(_, ingress)| ingress.asynchronous_at <= now)
        {
            ingress.asynchronous_at = again;
            due.push(*peer);
        }
        for peer in due.drain(..) {
            self.send_asynchronous(peer, now, out);
        }
        self.due = due;
        self.find_timer();
    }
}

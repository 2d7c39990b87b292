//! The half where flows leave: meters each flow, answers forward feedback at once, and speaks unasked when none comes.
//!
//! Source: NBP, section II.A (Fig. 3) and II.B.
//! Deviations: asynchronous feedback lists the flows of which packets have arrived, since the law would take a flow that
//! has not reached the egress yet for one that is congested; flows and ingresses that have been silent for the idle
//! time-out are forgotten (the paper does not say when).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hashbrown::HashMap;
use tidegate_packet::{Dscp, Headers, Packet};
use tidegate_units::Time;

use super::wire::{self, Encoder, Feedback};
use super::{ClassKey, FEEDBACK_HEADER_BYTES, NbpConfig};
use crate::edge::{Admission, EdgeHalf, EdgeOut, PeerId};
use crate::meter::{RateMeter, TswMeter};
use crate::random::KeyedHash;

/// What the egress knows of one flow.
#[derive(Debug)]
struct Metered {
    meter: TswMeter,
    /// When its last packet arrived, or when it was announced if none did.
    last_heard: Time,
    has_arrived: bool,
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
    flows: HashMap<ClassKey, Metered, KeyedHash>,
    ingresses: BTreeMap<PeerId, Ingress>,
    /// When silent flows are looked for next.
    expire_at: Time,
    /// The earliest of `asynchronous_at` and `expire_at`; `None` while there is nothing to watch.
    timer: Option<Time>,
    encoder: Encoder,
}

impl NbpEgress {
    pub(super) fn new(config: NbpConfig, hash: KeyedHash) -> Self {
        Self {
            config,
            flows: HashMap::with_hasher(hash),
            ingresses: BTreeMap::new(),
            expire_at: Time::ZERO,
            timer: None,
            encoder: Encoder::default(),
        }
    }

    /// The egress rate of a flow in bytes per second, as feedback would report it at `now`.
    pub fn egress_rate(&self, key: &ClassKey, now: Time) -> Option<f64> {
        self.flows.get(key).map(|flow| flow.meter.bytes_per_second(now))
    }

    /// How many flows are metered.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    fn on_forward(
        &mut self,
        from: PeerId,
        timestamp: Time,
        keys: &[ClassKey],
        ttl: u8,
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        let hop_count = u8::MAX - ttl;
        let known: Vec<ClassKey> =
            keys.iter().copied().filter(|key| self.flow(*key, now).is_some()).collect();
        let ingress = self.ingresses.entry(from).or_default();
        ingress.hop_count = hop_count;
        ingress.asynchronous_at = now + self.config.asynch_interval;
        ingress.flows.extend(known.into_iter().map(|key| (key, now)));
        let rates = keys.iter().filter_map(|key| self.flows.get(key).map(|flow| (key, flow)));
        send_backward(&mut self.encoder, &self.config, from, (timestamp, false, hop_count), rates, now, out);
        self.find_timer();
    }

    fn send_asynchronous(&mut self, to: PeerId, now: Time, out: &mut impl EdgeOut) {
        let ingress = &self.ingresses[&to];
        let rates = ingress
            .flows
            .keys()
            .filter_map(|key| self.flows.get(key).map(|flow| (key, flow)))
            .filter(|(_, flow)| flow.has_arrived);
        let header = (Time::ZERO, true, ingress.hop_count);
        send_backward(&mut self.encoder, &self.config, to, header, rates, now, out);
    }

    /// Forgets what has been silent.
    fn expire(&mut self, now: Time) {
        let timeout = self.config.idle_timeout;
        let flows = &mut self.flows;
        flows.retain(|_, flow| now.since(flow.last_heard) <= timeout);
        self.ingresses.retain(|_, ingress| {
            ingress
                .flows
                .retain(|key, announced| now.since(*announced) <= timeout && flows.contains_key(key));
            !ingress.flows.is_empty()
        });
        self.expire_at = now + timeout;
    }

    fn find_timer(&mut self) {
        let asynchronous =
            self.ingresses.values().map(|i| i.asynchronous_at).min().filter(|&at| at != Time::MAX);
        let expiry = if self.flows.is_empty() { None } else { Some(self.expire_at) };
        self.timer = [asynchronous, expiry].into_iter().flatten().min();
    }

    /// The flow of `key`, if there is or may be one.
    fn flow(&mut self, key: ClassKey, now: Time) -> Option<&mut Metered> {
        if self.flows.is_empty() {
            self.expire_at = now + self.config.idle_timeout;
        }
        // A full table leaves further flows unmetered: their ingress has no room for them either.
        if self.flows.len() >= self.config.flows_max as usize && !self.flows.contains_key(&key) {
            return None;
        }
        let flow = self.flows.entry(key).or_insert_with(|| Metered {
            meter: self.config.meter.build(now),
            last_heard: now,
            has_arrived: false,
        });
        flow.last_heard = now;
        Some(flow)
    }
}

/// Sends backward feedback for `flows`, in as many packets as the MTU makes necessary; at least one if it answers.
fn send_backward<'a>(
    encoder: &mut Encoder,
    config: &NbpConfig,
    to: PeerId,
    (timestamp, asynchronous, hop_count): (Time, bool, u8),
    flows: impl Iterator<Item = (&'a ClassKey, &'a Metered)>,
    now: Time,
    out: &mut impl EdgeOut,
) {
    let bytes_max = (config.feedback_mtu_bytes - FEEDBACK_HEADER_BYTES) as usize;
    encoder.backward(timestamp, asynchronous, hop_count);
    for (key, flow) in flows {
        if !encoder.has_room(key, true, bytes_max) {
            out.send(to, encoder.finish());
            encoder.backward(timestamp, asynchronous, hop_count);
        }
        encoder.push_with_rate(key, flow.meter.bytes_per_second(now) as u32);
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
        if packet.dscp != Dscp::BEST_EFFORT {
            return Admission::Pass;
        }
        let key = self.config.granularity.class_of(headers);
        let was_unwatched = self.flows.is_empty();
        if let Some(flow) = self.flow(key, now) {
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

    fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut impl EdgeOut) {
        if let Ok(Feedback::Forward { timestamp, flows }) = wire::decode(message) {
            self.on_forward(from, timestamp, &flows, ttl, now, out);
        }
    }

    fn timer_at(&self) -> Option<Time> {
        self.timer
    }

    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        if self.expire_at <= now {
            self.expire(now);
        }
        let due: Vec<PeerId> = self
            .ingresses
            .iter_mut()
            .filter(|(_, ingress)| ingress.asynchronous_at <= now)
            .map(|(peer, ingress)| {
                let again = now + self.config.asynch_interval;
                ingress.asynchronous_at = if self.config.asynch_repeats { again } else { Time::MAX };
                *peer
            })
            .collect();
        for peer in due {
            self.send_asynchronous(peer, now, out);
        }
        self.find_timer();
    }
}

//! The half where packets enter: the shaper, the pingers, and the counter that says what was achieved.
//!
//! Source: `cake-autorate.sh` 3.3.0-PRERELEASE, `monitor_achieved_rates` and `start_pingers` with `fping`.
//! Deviations: those of [`super`]. A response counts if its ping was sent by this life to the edge from which it comes, is under way,
//! and has not been answered: who has not seen a ping cannot answer it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use tidegate_packet::{Headers, Packet};
use tidegate_units::{BitRate, Span, Time};

use super::law::{Autorate, Pingers};
use super::wire::{self, Message, Ping};
use super::{AutorateConfig, PingDelays};
use crate::edge::border::earliest;
use crate::edge::{Admission, AggregateId, EdgeHalf, EdgeOut, EdgeReport, PacketStore, PeerId};
use crate::random::{Seed, Substream};

/// The one shaper.
const ALL: AggregateId = AggregateId(0);
/// A ping is under way for so long; after that its response does not count (`fping --timeout 10000`).
const ANSWER_WAIT: Span = Span::from_secs(10);
/// And at most so many are.
const UNDER_WAY_MAX: u64 = 4096;

/// A ping that has no response yet.
#[derive(Debug)]
struct Sent {
    ping: Ping,
    at: Time,
    pinger: usize,
    to: PeerId,
}

/// What there is from the first packet on.
#[derive(Debug)]
struct Started {
    rule: Autorate,
    life: u64,
    sequence: u32,
    /// By sequence number, ascending.
    under_way: VecDeque<Sent>,
    /// None while pingers sleep.
    next_ping: Option<Time>,
    next_pinger: usize,
    next_load: Time,
    released_bytes: u64,
    /// That of the shaper.
    rate: BitRate,
    rtt: Option<Span>,
}

/// See the module.
#[derive(Debug)]
pub struct AutoratePinger {
    config: AutorateConfig,
    random: Substream,
    /// The reflectors: at most as many as there are pingers.
    edges: Vec<PeerId>,
    started: Option<Started>,
}

impl AutoratePinger {
    pub(super) fn new(config: AutorateConfig, seed: Seed) -> Self {
        let edges = Vec::with_capacity(config.pingers as usize);
        Self { config, random: Substream::new(seed), edges, started: None }
    }

    /// What is known of all that enters here.
    pub fn report(&self) -> Option<EdgeReport> {
        let Started { rule, rtt, .. } = self.started.as_ref()?;
        let bytes = |kbps: i64| kbps as f64 * 125.0;
        Some(EdgeReport {
            aggregate: ALL,
            ingress_rate: bytes(rule.rate()),
            egress_rate: bytes(rule.achieved()),
            rtt: *rtt,
            accumulation: None,
            in_epoch: Some(rule.is_bloated()),
        })
    }

    fn start(&mut self, now: Time, out: &mut impl EdgeOut) {
        let rule = Autorate::new(self.config.rule(), micros(now));
        let rate = rate_of(&self.config, &rule);
        out.open(ALL, rate);
        let waits = ANSWER_WAIT.as_nanos() / self.config.response_interval().as_nanos() + 1;
        self.started = Some(Started {
            rule,
            life: self.random.bits(),
            sequence: 0,
            under_way: VecDeque::with_capacity(waits.min(UNDER_WAY_MAX) as usize),
            next_ping: Some(now),
            next_pinger: 0,
            next_load: now + self.config.compensated_load_interval(),
            released_bytes: 0,
            rate,
            rtt: None,
        });
    }

    /// `edge` is pinged from now on, if a pinger is left for it.
    fn learn(&mut self, edge: PeerId) {
        let pingers = self.config.pingers as usize;
        if self.edges.contains(&edge) || self.edges.len() == pingers {
            return;
        }
        let before = self.edges.clone();
        self.edges.push(edge);
        let Some(started) = &mut self.started else { return };
        for pinger in 0..pingers {
            let is_moved = reflector(&before, pinger) != reflector(&self.edges, pinger);
            if is_moved && !before.is_empty() {
                started.rule.forget(pinger);
                started.under_way.retain(|sent| sent.pinger != pinger);
            }
        }
    }
}

/// The edge that `pinger` pings.
fn reflector(edges: &[PeerId], pinger: usize) -> Option<PeerId> {
    edges.get(pinger % edges.len().max(1)).copied()
}

/// The shaper's rate: whole kbit/s, within what was configured to the bit.
fn rate_of(config: &AutorateConfig, rule: &Autorate) -> BitRate {
    BitRate::from_bps(rule.rate().cast_unsigned() * 1000).clamp(config.rate_min, config.rate_max)
}

const fn micros(at: Time) -> i64 {
    (at.as_nanos() / 1000).cast_signed()
}

/// The first instant of the grid of `step` through `due` that is after `now`.
fn after(due: Time, step: Span, now: Time) -> Time {
    let steps = now.since(due).as_nanos() / step.as_nanos() + 1;
    due + Span::from_nanos(steps.saturating_mul(step.as_nanos()))
}

impl Started {
    fn obey(&mut self, pingers: Pingers, now: Time) {
        match pingers {
            Pingers::GoOn => return,
            Pingers::Stop => self.next_ping = None,
            Pingers::Start => self.next_ping = Some(now),
        }
        self.next_pinger = 0;
        self.under_way.clear();
    }

    fn set_rate(&mut self, config: &AutorateConfig, out: &mut impl EdgeOut) {
        let rate = rate_of(config, &self.rule);
        if rate != self.rate {
            self.rate = rate;
            out.set_rate(ALL, rate);
        }
    }

    fn ping(&mut self, edges: &[PeerId], now: Time, out: &mut impl EdgeOut) {
        let pinger = self.next_pinger;
        let Some(to) = reflector(edges, pinger) else { return };
        self.sequence = self.sequence.wrapping_add(1);
        let ping = Ping { life: self.life, sequence: self.sequence, sent: now.as_nanos() };
        while self.under_way.front().is_some_and(|oldest| {
            now.since(oldest.at) > ANSWER_WAIT || self.under_way.len() as u64 == UNDER_WAY_MAX
        }) {
            self.under_way.pop_front();
        }
        self.under_way.push_back(Sent { ping, at: now, pinger, to });
        out.send(to, &ping.encode());
    }
}

impl EdgeHalf for AutoratePinger {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        _headers: &Headers,
        peers: &[PeerId],
        now: Time,
        out: &mut impl EdgeOut,
    ) -> Admission {
        if self.config.class.is_some_and(|class| class != packet.class) {
            return Admission::Pass;
        }
        for &edge in peers {
            self.learn(edge);
        }
        if self.started.is_none() {
            self.start(now, out);
        }
        Admission::Shape(ALL)
    }

    fn on_release(
        &mut self,
        _aggregate: AggregateId,
        packet: &mut Packet,
        _store: &mut impl PacketStore,
        _now: Time,
        _out: &mut impl EdgeOut,
    ) {
        if let Some(started) = &mut self.started {
            started.released_bytes += u64::from(packet.wire_bytes);
        }
    }

    fn on_message(&mut self, from: PeerId, message: &[u8], _ttl: u8, now: Time, out: &mut impl EdgeOut) {
        let Ok(Message::Pong(pong)) = wire::decode(message) else { return };
        let Some(started) = &mut self.started else { return };
        let is_its = |sent: &Sent| sent.ping == pong.ping && sent.to == from;
        let Some(sent) =
            started.under_way.iter().position(is_its).and_then(|at| started.under_way.remove(at))
        else {
            return;
        };
        if now.since(sent.at) > ANSWER_WAIT {
            return;
        }
        let rtt = now.since(sent.at);
        started.rtt = Some(rtt);
        let delay = match self.config.delays {
            PingDelays::RoundTrip => (rtt.as_nanos() / 1000 / 2).cast_signed(),
            // What clocks differ by is in the baseline as well.
            PingDelays::OneWay => pong.arrived.wrapping_sub(pong.ping.sent).cast_signed() / 1000,
        };
        let pingers = started.rule.on_response(sent.pinger, delay, micros(now));
        started.obey(pingers, now);
        started.set_rate(&self.config, out);
    }

    fn timer_at(&self) -> Option<Time> {
        let started = self.started.as_ref()?;
        earliest(started.next_ping, Some(started.next_load))
    }

    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        let Some(started) = &mut self.started else { return };
        if started.next_load <= now {
            let interval = self.config.compensated_load_interval();
            let released = u128::from(core::mem::take(&mut started.released_bytes));
            // By the interval as it ought to be, as in the script.
            let kbps = 8_000_000 * released / u128::from(interval.as_nanos());
            started.next_load = after(started.next_load, interval, now);
            let pingers = started.rule.on_load(i64::try_from(kbps).unwrap_or(i64::MAX), micros(now));
            started.obey(pingers, now);
            started.set_rate(&self.config, out);
        }
        if let Some(due) = started.next_ping.filter(|due| *due <= now) {
            started.ping(&self.edges, now, out);
            started.next_pinger = (started.next_pinger + 1) % self.config.pingers as usize;
            started.next_ping = Some(after(due, self.config.response_interval(), now));
        }
    }
}

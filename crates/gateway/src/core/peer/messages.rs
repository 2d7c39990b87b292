//! What gateways say to each other: greetings, what mechanisms say, probes of the path, and goodbye.

use tidegate_mechanism::edge::PeerId;
use tidegate_units::{Span, Time};

use super::{HELLO_EVERY, HELLO_SELDOM, Peer, State, Why};
use crate::core::envelope::{ENVELOPE_BYTES, Envelope, HEADER_BYTES, Hello, Kind, VERSION};
use crate::core::store::Store;

/// Messages of one peer that are heard: in a burst, and per second. Path control says two per round trip, or per 5 ms where that is shorter;
/// NBP one per round trip for some 85 flows, so that of thousands of flows on a short path part is not heard, and said again.
pub(super) const MESSAGES_BURST: u32 = 256;
const MESSAGES_PER_SECOND: u32 = 2000;
/// Messages that wait for the tunnel, at most.
const SAID_MAX: usize = 32;

impl Peer {
    pub(super) fn hello(&self) -> [u8; 6] {
        let (version_least, links, mechanism, mtu) = (VERSION, self.links, self.mechanism(), self.mtu_most);
        Hello { version_least, links, mechanism, mtu }.encode()
    }

    /// The head of the next message.
    pub fn envelope(&mut self, kind: Kind, link: u8) -> Envelope {
        self.number_said = self.number_said.wrapping_add(1);
        Envelope { kind, link, incarnation: self.incarnation, number: self.number_said, echo: self.theirs }
    }

    pub fn say(&mut self, kind: Kind, link: u8, body: &[u8]) {
        if self.said.len() < SAID_MAX {
            self.said.push_back((kind, link, body.to_vec()));
        }
    }

    /// Nothing can be said now: what there was to say is old when it can be.
    pub fn hush(&mut self, message: &mut Vec<u8>) {
        self.said.clear();
        while self.border.poll_message(message).is_some() {}
    }

    /// Whether one more message may be heard.
    pub fn may_hear(&mut self, now: Time) -> bool {
        let whole = Span::from_secs(1).as_nanos() / u64::from(MESSAGES_PER_SECOND);
        let earned = now.since(self.budget.0).as_nanos() / whole;
        if earned > 0 {
            let tokens = (u64::from(self.budget.1) + earned).min(u64::from(MESSAGES_BURST)) as u32;
            let since =
                if tokens == MESSAGES_BURST { now } else { self.budget.0 + Span::from_nanos(earned * whole) };
            self.budget = (since, tokens);
        }
        let may = self.budget.1 > 0;
        if may {
            self.budget.1 -= 1;
        } else {
            self.counters.unheard_messages += 1;
        }
        may
    }

    /// A message of the other gateway; those of its neighbours and of others it passes on are not for here.
    pub fn on_message(&mut self, envelope: &Envelope, body: &[u8], store: &mut Store, now: Time) {
        self.counters.heard_messages += 1;
        (self.heard, self.unheard_since) = (now, None);
        let is_known = envelope.incarnation == self.theirs;
        let echoes = envelope.echo == self.incarnation;
        match envelope.kind {
            Kind::Hello | Kind::Answer => self.asks = None,
            Kind::Control => self.on_alive(now),
            _ => {}
        }
        match envelope.kind {
            Kind::Hello | Kind::Answer if self.is_greeted() && !self.is_leaving => {
                let Some(hello) = Hello::decode(body) else { return };
                if hello.version_least > VERSION {
                    return;
                }
                // Another life, or one that is back, so soon after the last beginning: it says that again.
                let begins = self.state != State::Controlled || !is_known;
                if begins && !self.may_begin(now) {
                    return;
                }
                self.theirs = envelope.incarnation;
                self.mtu.limit(hello.mtu);
                if envelope.kind == Kind::Hello {
                    let ours = self.hello();
                    self.say(Kind::Answer, 0, &ours);
                }
                if hello.mechanism != self.mechanism() {
                    if self.state != State::Fixed(Why::Differs) {
                        self.fix(Why::Differs, store, now);
                    }
                    return;
                }
                match self.state {
                    State::Controlled if is_known => {}
                    // It began anew, and so do we: what either knew of the other's counts is nothing now.
                    State::Controlled => {
                        let half = self.half();
                        self.control(half, store, now);
                    }
                    _ if echoes => self.control(None, store, now),
                    // It does not know us yet.
                    _ => self.greet_at = now,
                }
                if !echoes {
                    self.greet_at = self.greet_at.min(now);
                }
            }
            Kind::Control if is_known && echoes && self.state == State::Controlled => {
                let link = envelope.link.min(self.links - 1);
                self.border.handle_message(PeerId(u32::from(link)), body, 255, now);
            }
            // Whoever does not know us, or whom we do not know, is greeted.
            Kind::Control if self.is_greeted() && now >= self.greeting_since + HELLO_EVERY => {
                (self.greet_at, self.greeting_since) = (now, now);
            }
            Kind::Probe => self.say(Kind::Probed, 0, &(body.len() as u16).to_be_bytes()),
            Kind::Probed if echoes => {
                let Some(&[high, low]) = body.first_chunk() else { return };
                let body_bytes = usize::from(u16::from_be_bytes([high, low]));
                let size = body_bytes + HEADER_BYTES + ENVELOPE_BYTES;
                self.mtu.on_probed(u16::try_from(size).unwrap_or(u16::MAX), now);
            }
            Kind::Bye if is_known && self.state == State::Controlled => {
                self.fix(Why::Silent, store, now);
                self.greet_at = now + HELLO_SELDOM;
            }
            _ => {}
        }
    }
}

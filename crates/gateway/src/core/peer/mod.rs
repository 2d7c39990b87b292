//! One other site: the virtual links to it, what is said between the two gateways, and the state that they are in.
//!
//! ```text
//! Down --(session)--> Greeting --(answer)--> Controlled
//!  ^                      '--(no answer, 3 s)--> Fixed <--(silence, 30 s)--'
//!  '--(no session)-- from any; Fixed --(answer)--> Controlled
//! ```
//!
//! A site whose mechanism is none, or a fixed rate, is not greeted: any peer that speaks the tunnel's format may be there. What a
//! controlled peer does in shorter silences is its mechanism's: no rate rises then. `floor` and `max` hold in every state.

mod messages;
mod state;

use std::collections::VecDeque;
use std::net::SocketAddr;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::fixed::FixedConfig;
use tidegate_mechanism::edge::iec::IecDelays;
use tidegate_mechanism::edge::nbp::FEEDBACK_HEADER_BYTES;
use tidegate_mechanism::edge::{Border, BorderSite, EdgeConfig, EdgeReport, PeerId};
use tidegate_mechanism::mark::AnyMarker;
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_packet::{Address, Ecn, FlowId, Headers, Packet, Protocol, TcpHeader};
use tidegate_units::{BitRate, Bytes, Span, Time};

use self::messages::MESSAGES_BURST;
use super::config::{HELLO_PATIENCE, RateConfig, SiteConfig};
use super::ends::Home;
use super::envelope::{BODY_BYTES_MAX, Kind};
use super::mtu::PathMtu;
use super::store::Store;

pub use self::state::{Counters, State, Why};

/// A hello is said again after this time, and after this one where it stays without an answer.
const HELLO_EVERY: Span = Span::from_millis(500);
const HELLO_SELDOM: Span = Span::from_secs(10);
/// So long a controlled peer may be silent though something was sent to it.
const SILENCE: Span = Span::from_secs(30);
/// Where something came all the time and then nothing does for so long, it is asked whether the other end is still there, and again after
/// twice that: it may have moved, or we have, and who has nothing to send would not find out.
const QUIET: Span = Span::from_secs(1);
const QUIET_MOST: Span = Span::from_secs(16);
/// That something came is noted so often.
const NOTED_EVERY: Span = Span::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct Peer {
    pub site: SiteConfig,
    pub number: u32,
    pub endpoint: Option<SocketAddr>,
    pub home: Home,
    pub border: Border,
    pub state: State,
    pub mtu: PathMtu,
    pub counters: Counters,
    pub markers: Vec<Option<AnyMarker>>,
    /// It was told that we go: it is not greeted any more.
    pub is_leaving: bool,
    /// The entry in the agenda that counts.
    pub planned: Time,
    /// Messages of our own that wait to be sealed: kind, link, body.
    pub said: VecDeque<(Kind, u8, Vec<u8>)>,
    /// Packets that are not held, and wait for the tunnel.
    pub passing: VecDeque<Packet>,
    /// By class: its link.
    link_of_class: Box<[u8; 256]>,
    random: Substream,
    lives: u64,
    /// When its mechanism last began.
    began: Option<Time>,
    /// When it is to begin anew, for a reason that came sooner than that may happen again.
    begins_at: Time,
    seed: Seed,
    incarnation: u64,
    number_said: u32,
    theirs: u64,
    /// When to greet next, and since when there was no answer.
    greet_at: Time,
    greeting_since: Time,
    /// When the last message came, and when data was first sent after it.
    heard: Time,
    unheard_since: Option<Time>,
    /// When to ask whether the other end is there, and how long that was waited for.
    asks: Option<(Time, Span)>,
    budget: (Time, u32),
    links: u8,
    mtu_most: u16,
    mtu_bytes: u32,
}

impl Peer {
    /// Packets that are not held and wait all the same, at most.
    pub const PASSING_MAX: usize = 256;

    pub fn new(
        mut site: SiteConfig,
        number: u32,
        (links, mtu_most, flows_max): (u8, u16, u32),
        markers: Vec<Option<AnyMarker>>,
        link_of_class: Box<[u8; 256]>,
        seed: Seed,
        now: Time,
    ) -> Self {
        // What it reports of many flows is divided so that every path takes it.
        if let Some(EdgeConfig::Nbp(nbp)) = &mut site.control {
            let most = Bytes::new(BODY_BYTES_MAX as u64 + u64::from(FEEDBACK_HEADER_BYTES));
            nbp.feedback_mtu = nbp.feedback_mtu.min(most);
            nbp.flows_max = nbp.flows_max.min(flows_max);
        }
        let mut random = Substream::new(Seed::for_component(seed.0, "incarnations"));
        let incarnation = random.bits() | 1;
        let mtu_bytes = super::outer_bytes(usize::from(mtu_most));
        let state = State::Down;
        let context = Context { seed, link_rate: site.rate.max, mtu_bytes };
        let border = Border::new(&fixed(&site, site.rate.fallback), SITE, &context);
        let mtu = PathMtu::new(mtu_most, now);
        let endpoint = site.endpoint;
        let mut peer = Self {
            site,
            number,
            endpoint,
            home: Home::default(),
            border,
            state,
            mtu,
            counters: Counters::default(),
            markers,
            is_leaving: false,
            planned: Time::MAX,
            said: VecDeque::new(),
            passing: VecDeque::new(),
            link_of_class,
            random,
            lives: 0,
            began: None,
            begins_at: Time::MAX,
            seed,
            incarnation,
            number_said: 0,
            theirs: 0,
            greet_at: now,
            greeting_since: now,
            heard: now,
            unheard_since: None,
            asks: None,
            budget: (now, MESSAGES_BURST),
            links,
            mtu_most,
            mtu_bytes,
        };
        peer.border.set_bounds(peer.site.rate.floor, peer.site.rate.max, now);
        peer
    }

    /// Whether there is anything to agree upon with the other end.
    pub fn is_greeted(&self) -> bool {
        !matches!(self.site.control, None | Some(EdgeConfig::Fixed(_)))
    }

    /// Whether what enters is held here at all.
    pub const fn holds(&self) -> bool {
        self.site.control.is_some()
    }

    fn mechanism(&self) -> u16 {
        self.site.control.as_ref().map_or(0, mechanism_number)
    }

    /// From now on `config` controls the links. What waits goes with it.
    fn change_border(&mut self, config: &EdgeConfig, store: &mut Store, now: Time) {
        self.lives += 1;
        let name = format!("border.{}", self.lives);
        let seed = Seed::for_component(self.seed.0, &name);
        let context = Context { seed, link_rate: self.site.rate.max, mtu_bytes: self.mtu_bytes };
        let mut old = std::mem::replace(&mut self.border, Border::new(config, SITE, &context));
        self.border.set_bounds(self.site.rate.floor, self.site.rate.max, now);
        while let Some(packet) = old.evict(now) {
            let headers = tidegate_mechanism::edge::PacketStore::headers(store, &packet);
            let link = PeerId(u32::from(self.link_of_class[usize::from(packet.class)]));
            let passed = self.border.handle_packet(packet, &headers, &[link], now, store);
            self.passing.extend(passed);
        }
    }

    fn fix(&mut self, why: Why, store: &mut Store, now: Time) {
        let was = self.state;
        self.state = State::Fixed(why);
        if matches!(was, State::Fixed(_) | State::Greeting | State::Down) && why != Why::Chosen {
            return; // the rate is that already
        }
        let chosen = self.site.control.clone().filter(|_| why == Why::Chosen);
        let config = chosen.unwrap_or_else(|| fixed(&self.site, self.site.rate.fallback));
        self.change_border(&config, store, now);
    }

    /// The mechanism begins, or begins anew, at `rate`, or at its own first one.
    fn control(&mut self, rate: Option<BitRate>, store: &mut Store, now: Time) {
        let Some(mut config) = self.site.control.clone() else { return };
        if let Some(rate) = rate {
            begin_at(&mut config, rate);
        }
        self.change_border(&config, store, now);
        self.state = State::Controlled;
        (self.began, self.begins_at) = (Some(now), Time::MAX);
        self.counters.lives += 1;
    }

    /// What the first link does now.
    pub fn report(&self, link: u8) -> Option<EdgeReport> {
        let nobody = Address::V6([0; 16]);
        let headers = Headers::best_effort(Protocol::UDP, (nobody, 0), (nobody, 0));
        self.border.ingress().report(&headers, Some(PeerId(u32::from(link))))
    }

    /// The tunnel has a session, or has none any more.
    pub fn on_session(&mut self, is_up: bool, store: &mut Store, now: Time) {
        match (self.state, is_up) {
            (State::Down, true) if self.is_greeted() => {
                self.state = State::Greeting;
                (self.greet_at, self.greeting_since) = (now, now);
                self.mtu.restart(now);
            }
            (State::Down, true) => self.fix(Why::Chosen, store, now),
            (State::Down, false) | (_, true) => {}
            (_, false) => {
                let config = fixed(&self.site, self.site.rate.fallback);
                self.change_border(&config, store, now);
                self.state = State::Down;
                (self.began, self.begins_at) = (None, Time::MAX);
                self.theirs = 0;
                self.unheard_since = None;
                self.home.forget();
            }
        }
    }

    /// What comes from the other end comes from elsewhere: another path, of which nothing is known.
    pub fn on_moved(&mut self, to: SocketAddr, store: &mut Store, now: Time) {
        if self.endpoint.replace(to).is_none_or(|from| from == to) {
            return;
        }
        self.mtu.restart(now);
        if self.state == State::Controlled {
            if self.may_begin(now) {
                self.begin_on_another_path(store, now);
            } else {
                self.begins_at = self.began.map_or(now, |began| began + HELLO_EVERY);
            }
        }
    }

    /// What was known of the path is nothing now.
    fn begin_on_another_path(&mut self, store: &mut Store, now: Time) {
        let half = self.half();
        self.begin_life();
        self.control(half, store, now);
        (self.greet_at, self.greeting_since) = (now, now);
    }

    /// Whether a mechanism may begin: that takes along all that waits, and the other end may give reasons for it without end.
    fn may_begin(&self, now: Time) -> bool {
        self.began.is_none_or(|began| now.since(began) >= HELLO_EVERY)
    }

    /// Half of what is sent and arrives: where a path that was known ends, and another one begins.
    fn half(&self) -> Option<BitRate> {
        self.report(0).map(|report| {
            let leaves = if report.egress_rate > 0.0 { report.egress_rate } else { report.ingress_rate };
            BitRate::from_bytes_per_second_f64(report.ingress_rate.min(leaves) / 2.0)
        })
    }

    /// Another incarnation: what the other end knew of us is of the one before.
    fn begin_life(&mut self) {
        self.incarnation = self.random.bits() | 1;
    }

    /// Something for others came, which took `wire_bytes`: it counts as what leaves the link.
    pub fn count_arrival(&mut self, wire_bytes: u32, headers: &Headers, now: Time) {
        let mut packet = Packet::new(0, FlowId(0), wire_bytes);
        packet.inner_ecn.put(0, Ecn::NotEct);
        self.border.handle_leaving::<TcpHeader>(&mut packet, headers, &[PeerId(0)], None, now);
    }

    /// Data, or a message about them, came.
    pub fn on_alive(&mut self, now: Time) {
        let at = now + QUIET;
        if self.asks.is_none_or(|(due, _)| due < at.saturating_sub(NOTED_EVERY)) {
            self.asks = Some((at, QUIET));
        }
    }

    /// A packet of `bytes` left.
    pub fn on_sent(&mut self, bytes: u64, now: Time) {
        self.mtu.on_sent(bytes);
        self.unheard_since = self.unheard_since.or(Some(now));
        self.home.on_sent(now);
    }

    /// It is `now`.
    pub fn advance(&mut self, store: &mut Store, now: Time) {
        self.border.handle_timeout(now);
        if self.state == State::Down || !self.is_greeted() {
            return;
        }
        let is_silent = self.unheard_since.is_some_and(|at| now.since(at) >= SILENCE);
        if self.state == State::Controlled && is_silent {
            self.fix(Why::Silent, store, now);
            self.greet_at = now;
        }
        if self.state == State::Controlled && now >= self.begins_at {
            self.begin_on_another_path(store, now);
        }
        if self.state == State::Greeting && now.since(self.greeting_since) >= HELLO_PATIENCE {
            self.fix(Why::Unanswered, store, now);
        }
        if now >= self.greet_at && !self.is_leaving {
            let body = self.hello();
            self.say(Kind::Hello, 0, &body);
            self.greet_at = match self.state {
                State::Greeting => now + HELLO_EVERY,
                State::Controlled => Time::MAX,
                State::Down | State::Fixed(_) | State::Drained => now + HELLO_SELDOM,
            };
        }
        if self.state == State::Controlled
            && let Some((_, waited)) = self.asks.filter(|(at, _)| *at <= now)
        {
            let body = self.hello();
            self.say(Kind::Hello, 0, &body);
            if waited > QUIET {
                // Asked once from where it heard us, it did not answer.
                self.home.forget();
            }
            let next = Span::from_nanos(2 * waited.as_nanos());
            self.asks = (next <= QUIET_MOST).then(|| (now + next, next));
        }
        if matches!(self.state, State::Controlled)
            && let Some(size) = self.mtu.poll(now)
        {
            let body = usize::from(size) - super::envelope::HEADER_BYTES - super::envelope::ENVELOPE_BYTES;
            self.say(Kind::Probe, 0, &vec![0; body]);
        }
    }

    /// When to come back, as far as the peer itself knows.
    pub fn next_at(&self) -> Time {
        if self.state == State::Down {
            return self.border.timer_at().unwrap_or(Time::MAX);
        }
        if !self.said.is_empty() || !self.passing.is_empty() {
            return Time::ZERO;
        }
        let mut at = self.border.poll_timeout().unwrap_or(Time::MAX);
        if self.is_greeted() {
            at = at.min(if self.is_leaving { Time::MAX } else { self.greet_at });
            if self.state == State::Greeting {
                at = at.min(self.greeting_since + HELLO_PATIENCE);
            }
            if self.state == State::Controlled {
                at = at.min(self.begins_at);
                at = at.min(self.mtu.timeout());
                at = at.min(self.asks.map_or(Time::MAX, |(due, _)| due));
                at = at.min(self.unheard_since.map_or(Time::MAX, |since| since + SILENCE));
            }
        }
        at
    }

    /// The rate is no more than `rate` from now on, as a neighbour asks for, but what is assured.
    pub fn limit(&mut self, rate: BitRate, now: Time) {
        let RateConfig { floor, max, .. } = self.site.rate;
        self.border.set_bounds(floor, rate.min(max).max(floor), now);
    }
}

/// Where a border stands: each has one other end.
const SITE: BorderSite = BorderSite { border: PeerId(0), level: 0 };

/// A fixed `rate` with the queues that the site's mechanism has.
fn fixed(site: &SiteConfig, rate: BitRate) -> EdgeConfig {
    let shaper = site.control.as_ref().map(EdgeConfig::shaper).unwrap_or_default();
    EdgeConfig::Fixed(Box::new(FixedConfig { shaper, ..FixedConfig::with(rate) }))
}

/// The first rate of a mechanism that has one.
fn begin_at(config: &mut EdgeConfig, rate: BitRate) {
    match config {
        EdgeConfig::Path(path) => path.initial_rate = Some(rate),
        EdgeConfig::Nbp(_) | EdgeConfig::Autorate(_) | EdgeConfig::Fixed(_) | EdgeConfig::Own(_) => {}
        EdgeConfig::Iec(_) | EdgeConfig::Eec(_) => {
            if let Some(overlay) = config.overlay_mut() {
                overlay.initial_rate = Some(rate);
            }
        }
    }
}

/// What both ends must have alike.
fn mechanism_number(config: &EdgeConfig) -> u16 {
    match config {
        EdgeConfig::Nbp(_) => 1,
        // By one of them the ingress looks for congestion, by the other one the egress.
        EdgeConfig::Iec(iec) if iec.delays == IecDelays::RoundTrip => 6,
        EdgeConfig::Iec(_) => 2,
        EdgeConfig::Eec(_) => 3,
        EdgeConfig::Path(_) => 4,
        EdgeConfig::Fixed(_) => 0,
        EdgeConfig::Autorate(_) => 5,
        EdgeConfig::Own(_) => u16::MAX,
    }
}

//! Runs a case: the network between gateways, gateways by their own clocks, hosts behind them, and what goes wrong.

use std::net::{IpAddr, SocketAddr};

use tidegate_engine::Simulation;
use tidegate_gateway::core::config::{GatewayConfig, RateConfig, SiteConfig};
use tidegate_gateway::core::envelope::{ENVELOPE_BYTES, Envelope, HEADER_BYTES, Kind, LINK_ADDRESS};
use tidegate_gateway::core::store::BUFFER_BYTES;
use tidegate_gateway::core::{Gateway, Input, Output};
use tidegate_gateway::tunnel::plain::PlainTunnels;
use tidegate_gateway::tunnel::{Tunnel, Tunnels};
use tidegate_mechanism::edge::path::wire::{Message, REPORT_BYTES, decode};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_packet::{Arrival, Dscp, Ecn};
use tidegate_units::{BitRate, Span, Time};

use crate::case::{Case, FALLBACK, FLOOR, Fault, Load, MAX, Vice};
use crate::clock::Clock;
use crate::hosts::{Done, Entering, Flow, is_clear, owner};
use crate::network::{self, Port};

/// Around a datagram on the network.
const OUTER_HEADER_BYTES: u32 = 28;
/// How often invariants of gateways are looked at.
const LOOK_EVERY: Span = Span::from_millis(100);
/// Calls of gateways and hosts in one instant, beyond which it is said that time stands still.
const CALLS_MAX: u64 = 200_000;
/// An exhausting peer says so much per second.
const SHOUTS_PER_SECOND: u64 = 4000;

/// What was seen in a while: see [`World::take`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// By load.
    pub done: Vec<Done>,
    /// Bytes on the lines, away from the hub, by site.
    pub line_bytes: Vec<u64>,
    /// The mean queue of the hub towards each site, bytes.
    pub queue_bytes: Vec<f64>,
    /// The rate of the link to each other site, the last one.
    pub rates: Vec<BitRate>,
}

/// A peer that is no gateway, and says what it can.
struct Shouter {
    site: usize,
    tunnels: PlainTunnels,
    random: Substream,
    next: Time,
}

/// See the module.
pub struct World<'a> {
    case: &'a Case,
    now: Time,
    network: Simulation<Port>,
    gateways: Vec<Gateway<PlainTunnels>>,
    clocks: Vec<Clock>,
    /// By site: where it is seen, how often it started, and the greatest stamp of its handshakes.
    addresses: Vec<SocketAddr>,
    lives: Vec<u64>,
    shouter: Option<Shouter>,
    flows: Vec<Flow>,
    entering: Vec<Entering>,
    next_fault: usize,
    next_look: Time,
    /// By flow of the network, so that what happens to one has nothing to do with others.
    spoils: Vec<Substream>,
    datagram: Vec<u8>,
    room: Vec<u8>,
    /// What lines had carried and queued when that was last asked, and when that was.
    counted: Vec<(u64, u128)>,
    looked: Time,
    /// What did not hold, each once.
    pub broken: Vec<String>,
    calls: u64,
}

fn address(site: usize, move_number: u64) -> SocketAddr {
    SocketAddr::new(IpAddr::from([192, 0, 2 + move_number as u8, site as u8 + 1]), 51820)
}

fn secret(seed: u64, one: usize, other: usize) -> (u64, u64) {
    let mut stream =
        Substream::new(Seed::for_component(seed, &format!("secret.{}.{}", one.min(other), one.max(other))));
    (stream.bits(), stream.bits())
}

/// Whether site `one` has to do with `other`: all have with site 0, and nobody else.
fn are_peers(one: usize, other: usize) -> bool {
    one != other && (one == 0 || other == 0)
}

impl<'a> World<'a> {
    /// The beginning of `case`.
    ///
    /// # Panics
    /// If the network cannot be built, which is a fault of this crate.
    pub fn new(case: &'a Case) -> Self {
        let sites = case.lines.len();
        let network = network::build(case).build(case.seed, Port::default()).expect("the network is whole");
        let clocks: Vec<Clock> =
            case.clocks.iter().map(|&(offset, drift)| Clock::new(offset, drift)).collect();
        let addresses: Vec<SocketAddr> = (0..sites).map(|site| address(site, 0)).collect();
        let mut flows = Vec::new();
        for (load, to) in case.loads.iter().zip(1..) {
            let number = flows.len() as u16;
            match *load {
                Load::Datagrams(times) => {
                    let rate = BitRate::from_bps_f64(case.lines[to].rate.as_bps_f64() * times);
                    flows.push(Flow::datagrams(number, (0, to), rate, Time::ZERO + Span::from_millis(200)));
                }
                Load::Transfers(count) => {
                    flows.extend((0..count as u16).map(|which| Flow::transfer(number + which, (0, to))));
                }
            }
        }
        let mut world = Self {
            case,
            now: Time::ZERO,
            network,
            gateways: Vec::new(),
            clocks,
            addresses,
            lives: vec![0; sites],
            shouter: None,
            flows,
            entering: Vec::new(),
            next_fault: 0,
            next_look: Time::ZERO,
            spoils: (0..sites * (sites - 1))
                .map(|flow| Substream::new(Seed::for_component(case.seed, &format!("spoils.{flow}"))))
                .collect(),
            datagram: Vec::new(),
            room: vec![0; BUFFER_BYTES],
            counted: vec![(0, 0); sites],
            looked: Time::ZERO,
            broken: Vec::new(),
            calls: 0,
        };
        for site in 0..sites {
            let gateway = world.start(site);
            world.gateways.push(gateway);
        }
        if let Some((site, Vice::Exhausts)) = case.vice {
            let seed = Seed::for_component(case.seed, "shouter");
            let tunnels = PlainTunnels::new(&[secret(case.seed, 0, site)], None, 1, seed);
            let random = Substream::new(seed);
            world.shouter = Some(Shouter { site, tunnels, random, next: Time::ZERO });
        }
        world
    }

    /// A gateway at `site` that knows nothing but its configuration.
    fn start(&mut self, site: usize) -> Gateway<PlainTunnels> {
        let case = self.case;
        self.lives[site] += 1;
        let seed = Seed::for_component(case.seed, &format!("gateway.{site}.{}", self.lives[site]));
        let others: Vec<usize> = (0..case.lines.len()).filter(|&other| are_peers(site, other)).collect();
        let sites = others.iter().map(|&other| SiteConfig {
            name: format!("site{other}"),
            id: other as u64,
            endpoint: Some(self.addresses[other]),
            networks: vec![format!("10.{}.0.0/16", other + 1).parse().expect("it is a network")],
            control: case.control.clone(),
            rate: RateConfig { floor: FLOOR, max: MAX, fallback: FALLBACK },
            via: None,
        });
        let config = GatewayConfig {
            id: site as u64,
            address4: None,
            address6: None,
            sites: sites.collect(),
            classes: Vec::new(),
            buffers: case.buffers * others.len() as u32,
            mtu: 1420,
            flows: 1024,
            relay: None,
            seed: seed.0,
        };
        let secrets: Vec<_> = others.iter().map(|&other| secret(case.seed, site, other)).collect();
        let local = self.clocks[site].shows(self.now);
        // Stamps of handshakes rise from life to life, whatever the clock shows: the last one is kept on the disk.
        let stamp_base = self.lives[site] << 50;
        let mut tunnels = PlainTunnels::new(&secrets, None, stamp_base, seed);
        if let Some((_, vice)) = case.vice.filter(|(bad, _)| *bad == site) {
            tunnels.distort(match vice {
                Vice::LiesHigh => |message: &mut [u8]| lie(message, 3.0),
                Vice::LiesLow => |message: &mut [u8]| lie(message, 0.2),
                Vice::Silent => |message: &mut [u8]| report_in(message).is_none(),
                Vice::Exhausts => |_: &mut [u8]| true,
            });
        }
        Gateway::new(config, tunnels, local)
    }

    fn break_rule(&mut self, what: String) {
        if self.broken.len() < 8 && !self.broken.contains(&what) {
            self.broken.push(what);
        }
    }

    /// Everything up to `until`.
    pub fn run(&mut self, until: Time) {
        let mut instant = self.now;
        loop {
            self.settle();
            let at = self.next_at();
            if at > until {
                break;
            }
            if at > instant {
                (instant, self.calls) = (at, 0);
            } else if self.calls > CALLS_MAX {
                self.break_rule(format!("time stands still at {}", self.now));
                break;
            }
            self.now = self.now.max(at);
            self.happen();
        }
        self.now = self.now.max(until);
        self.network.step_until(until);
    }

    /// When something happens next.
    fn next_at(&self) -> Time {
        let mut at = self.next_look.min(self.network.next_event().unwrap_or(Time::MAX));
        for (gateway, clock) in self.gateways.iter().zip(&self.clocks) {
            at = at.min(gateway.poll_timeout().map_or(Time::MAX, |local| clock.when(local)));
        }
        for flow in &self.flows {
            at = at.min(flow.next_at());
        }
        if let Some((when, _)) = self.case.faults.get(self.next_fault) {
            at = at.min(*when);
        }
        if let Some(shouter) = &self.shouter {
            at = at.min(shouter.next);
        }
        at.max(self.now)
    }

    /// What is due now.
    fn happen(&mut self) {
        self.calls += 1;
        while let Some(&(_, fault)) = self.case.faults.get(self.next_fault).filter(|(at, _)| *at <= self.now)
        {
            self.next_fault += 1;
            self.fail(fault);
        }
        for index in 0..self.flows.len() {
            self.flows[index].advance(self.now, &mut self.entering);
        }
        while self.network.step(self.now).is_some() {}
        if self.shouter.as_ref().is_some_and(|shouter| shouter.next <= self.now) {
            self.shout();
        }
        if self.next_look <= self.now {
            self.next_look = self.now + LOOK_EVERY;
            self.look();
        }
    }

    /// Hands on what has come out of anything, until nothing does.
    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            // In the order in which hosts sent them: a burst that came backwards would look like losses to TCP.
            for (site, packet) in self.entering.drain(..) {
                is_quiet = false;
                let local = self.clocks[site].shows(self.now);
                self.gateways[site].handle(Input::Lan(&packet), local);
            }
            let mut datagram = std::mem::take(&mut self.datagram);
            while let Some((flow, traffic_class)) = self.network.observer_mut().take(&mut datagram) {
                is_quiet = false;
                self.arrive(flow, traffic_class, &mut datagram);
            }
            self.datagram = datagram;
            for site in 0..self.gateways.len() {
                let local = self.clocks[site].shows(self.now);
                if self.gateways[site].poll_timeout().is_none_or(|at| at > local) {
                    continue;
                }
                let mut room = std::mem::take(&mut self.room);
                while let Some(output) = self.gateways[site].poll_output(local, &mut room) {
                    is_quiet = false;
                    self.send(site, output, &room);
                }
                self.calls += 1;
                self.room = room;
            }
            if is_quiet || self.calls > CALLS_MAX {
                return;
            }
        }
    }

    /// A datagram came through the network.
    fn arrive(&mut self, flow: u32, traffic_class: u8, datagram: &mut [u8]) {
        self.calls += 1;
        let (from, to) = network::ends(self.case.lines.len(), flow);
        let spoils = &mut self.spoils[flow as usize];
        if self.case.spoils > 0.0 && spoils.chance(self.case.spoils) {
            let at = spoils.below(datagram.len() as u32) as usize;
            datagram[at] ^= 1 << spoils.below(8);
        }
        if let Some(shouter) = self.shouter.as_mut().filter(|shouter| shouter.site == to) {
            let mut inside = [0; BUFFER_BYTES];
            shouter.tunnels.tunnel(0).open(datagram, self.addresses[from], self.now, &mut inside);
            return;
        }
        let local = self.clocks[to].shows(self.now);
        let input = Input::Wan { from: self.addresses[from], traffic_class, datagram };
        self.gateways[to].handle(input, local);
    }

    /// The gateway at `site` sends what stands in `room`.
    fn send(&mut self, site: usize, output: Output, room: &[u8]) {
        self.calls += 1;
        match output {
            Output::Lan(bytes) => {
                let packet = &room[..bytes];
                let Some((number, which)) = owner(packet) else {
                    self.break_rule(format!("site {site} got a packet that nobody sent"));
                    return;
                };
                match self.flows.get_mut(usize::from(number)) {
                    Some(flow) => flow.arrive(site, packet, which, self.now, &mut self.entering),
                    None => self.break_rule(format!("site {site} got a packet of nobody")),
                }
            }
            Output::Wan { to, traffic_class, bytes } => {
                if is_clear(&room[..bytes]) {
                    self.break_rule(format!("site {site} sent a packet of a host that can be read"));
                }
                // To an address where nobody is any more it gets lost.
                if let Some(other) = self.addresses.iter().position(|known| *known == to) {
                    self.inject((site, other), traffic_class, &room[..bytes]);
                }
            }
        }
    }

    fn inject(&mut self, (from, to): (usize, usize), traffic_class: u8, datagram: &[u8]) {
        if self.shouter.as_ref().is_some_and(|shouter| shouter.site == from && traffic_class != SHOUTED) {
            return; // in its place somebody else speaks
        }
        let handle = self.network.observer_mut().put(datagram);
        let arrival = Arrival {
            flow: network::flow(self.case.lines.len(), from, to),
            handle,
            wire_bytes: datagram.len() as u32 + OUTER_HEADER_BYTES,
            ecn: Ecn::from_bits(traffic_class),
            dscp: Dscp::new(traffic_class >> 2),
            ttl: 64,
            tcp: None,
        };
        self.network.inject(&arrival, self.now);
    }

    fn fail(&mut self, fault: Fault) {
        match fault {
            Fault::Cut { .. } | Fault::Rate { .. } | Fault::Way { .. } => {}
            Fault::Restart { site, step } => {
                self.clocks[site].step(step);
                self.gateways[site] = self.start(site);
            }
            Fault::Step { site, step } => self.clocks[site].step(step),
            Fault::Move { site } => {
                let moves = u64::from(match self.addresses[site].ip() {
                    IpAddr::V4(ip) => ip.octets()[2] - 1,
                    IpAddr::V6(_) => 1,
                });
                self.addresses[site] = address(site, moves);
                // Whoever moves knows it, or sends anyway: the other end learns of it by what comes.
            }
        }
    }

    /// An exhausting peer says something.
    fn shout(&mut self) {
        let Some(mut shouter) = self.shouter.take() else { return };
        shouter.next = self.now + Span::from_nanos(1_000_000_000 / SHOUTS_PER_SECOND);
        let (site, now) = (shouter.site, self.now);
        let mut room = vec![0; BUFFER_BYTES];
        shouter.tunnels.tunnel(0).want(now);
        while let Some(bytes) = shouter.tunnels.tunnel(0).poll(now, &mut room) {
            self.inject((site, 0), SHOUTED, &room[..bytes]);
        }
        let mut inside = vec![0; 200];
        let random = &mut shouter.random;
        let kinds = [
            Kind::Hello,
            Kind::Answer,
            Kind::Control,
            Kind::Bye,
            Kind::Probe,
            Kind::Probed,
            Kind::Hop,
            Kind::Relay,
        ];
        let kind = kinds[random.below(kinds.len() as u32) as usize];
        let envelope = Envelope {
            kind,
            link: random.below(256) as u8,
            incarnation: random.bits(),
            number: random.bits() as u32,
            echo: random.bits(),
        };
        let body: Vec<u8> = (0..random.below(100)).map(|_| random.bits() as u8).collect();
        let length = if random.chance(0.7) {
            envelope.write(&body, &mut inside).unwrap_or(0)
        } else {
            inside.fill_with(|| random.bits() as u8);
            inside[0] = 0x45;
            inside.len()
        };
        if let Some(bytes) = shouter.tunnels.tunnel(0).seal(&inside[..length], now, &mut room) {
            self.inject((site, 0), SHOUTED, &room[..bytes]);
        }
        self.shouter = Some(shouter);
    }

    /// What must hold at any time.
    fn look(&mut self) {
        let mut found = Vec::new();
        for (site, gateway) in self.gateways.iter().enumerate() {
            let (mut came, mut went) = (0, 0);
            for status in gateway.status() {
                let counters = &status.counters;
                came += counters.entered_packets + counters.relayed_packets;
                went += counters.sent_packets + status.drops.total() + counters.too_large_packets;
                if status.buffers.0 > status.buffers.1 {
                    found.push(format!(
                        "{} holds {} of {} buffers of gateway {site}",
                        status.name, status.buffers.0, status.buffers.1
                    ));
                }
                for link in &status.links {
                    let is_within = link.rate >= FLOOR.min(FALLBACK) && link.rate <= MAX;
                    if !is_within {
                        found.push(format!(
                            "gateway {site} sends to {} at {}, not within {FLOOR} and {MAX}",
                            status.name, link.rate
                        ));
                    }
                }
            }
            let (shaped, other) = gateway.held();
            let held = (shaped + other) as u64;
            if came < went || came > went + held {
                found.push(format!("gateway {site}: {came} packets came, {went} went, and {held} are held"));
            }
        }
        for flow in &self.flows {
            // Not even where the network repeats datagrams: tunnels see that.
            if flow.done.wrong > 0 {
                found.push(format!(
                    "{} packets from site {} to {} came twice or changed",
                    flow.done.wrong, flow.ends.0, flow.ends.1
                ));
            }
        }
        for what in found {
            self.break_rule(what);
        }
    }

    /// What was done since the last time, and what lines and queues look like.
    pub fn take(&mut self) -> Seen {
        let sites = self.case.lines.len();
        let done = self.flows.iter_mut().map(|flow| std::mem::take(&mut flow.done)).collect();
        let rate = |other: usize| {
            let status = &self.gateways[0].status()[other - 1];
            status.links.first().map_or(BitRate::ZERO, |link| link.rate)
        };
        let rates = (1..sites).map(rate).collect();
        let statistics = self.network.statistics();
        let counted: Vec<(u64, u128)> = (0..sites)
            .map(|site| &statistics.links[2 * site + 1])
            .map(|link| (link.delivered_bytes, link.byte_nanos))
            .collect();
        let nanos = self.now.since(self.looked).as_nanos().max(1);
        let since =
            counted.iter().zip(&self.counted).map(|(now, before)| (now.0 - before.0, now.1 - before.1));
        let (line_bytes, queue_bytes) =
            since.map(|(bytes, byte_nanos)| (bytes, byte_nanos as f64 / nanos as f64)).unzip();
        (self.counted, self.looked) = (counted, self.now);
        Seen { done, line_bytes, queue_bytes, rates }
    }

    /// What it is at.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The gateways, to look at.
    pub fn gateways(&self) -> &[Gateway<PlainTunnels>] {
        &self.gateways
    }

    /// Datagrams under way.
    pub fn under_way(&mut self) -> usize {
        self.network.observer_mut().used()
    }
}

/// What an exhausting peer writes outside, by which its datagrams are known here.
const SHOUTED: u8 = 0x20;

/// Where in a packet between gateways a report of path control begins.
fn report_in(packet: &[u8]) -> Option<usize> {
    let at = HEADER_BYTES + ENVELOPE_BYTES;
    let is_control =
        packet.get(24..40)? == LINK_ADDRESS && *packet.get(HEADER_BYTES + 1)? == Kind::Control.number();
    let body = packet.get(at..at + REPORT_BYTES)?;
    (is_control && matches!(decode(body), Ok(Message::Report(_)))).then_some(at)
}

/// Reports say that `factor` times as much has arrived.
fn lie(packet: &mut [u8], factor: f64) -> bool {
    if let Some(at) = report_in(packet)
        && let Ok(Message::Report(mut report)) = decode(&packet[at..at + REPORT_BYTES])
    {
        report.received_bytes = (report.received_bytes as f64 * factor) as u64;
        report.received_packets = (report.received_packets as f64 * factor) as u64;
        packet[at..at + REPORT_BYTES].copy_from_slice(&report.encode());
    }
    true
}

//! Runs a case: the network between gateways, gateways by their own clocks, hosts behind them, and what goes wrong.

mod look;
mod vice;

use std::net::{IpAddr, SocketAddr};

use tidegate_engine::Simulation;
use tidegate_gateway::core::config::{GatewayConfig, RateConfig, SiteConfig};
use tidegate_gateway::core::store::BUFFER_BYTES;
use tidegate_gateway::core::{Gateway, Input, Output};
use tidegate_gateway::tunnel::plain::PlainTunnels;
use tidegate_gateway::tunnel::{Tunnel, Tunnels};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_packet::{Arrival, Dscp, Ecn};
use tidegate_units::{BitRate, Span, Time};

use self::vice::{SHOUTED, Shouter, lie, report_in};
use crate::case::{Case, FALLBACK, FLOOR, Fault, Load, MAX, Vice};
use crate::clock::Clock;
use crate::hosts::{Entering, Flow, is_clear, owner};
use crate::network::{self, Port};

pub use self::look::Seen;

/// Around a datagram on the network.
const OUTER_HEADER_BYTES: u32 = 28;
/// How often invariants of gateways are looked at.
const LOOK_EVERY: Span = Span::from_millis(100);
/// Calls of gateways and hosts in one instant, beyond which it is said that time stands still.
const CALLS_MAX: u64 = 200_000;

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
        let input = Input::Wan { from: self.addresses[from].into(), traffic_class, datagram };
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
                if let Some(other) = self.addresses.iter().position(|known| *known == to.far) {
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

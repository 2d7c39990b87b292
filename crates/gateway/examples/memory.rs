//! How much memory a gateway takes with 100 sites and 10 000 flows to each: `cargo run --release -p tidegate-gateway --features daemon
//! --example memory [SITES [FLOWS]]`.
//!
//! One process has the gateway, with WireGuard, path control and `fq-codel` with a queue for each flow, and the other ends of all
//! tunnels, which are gateways as small as can be. Every flow sends two packets of 1000 bytes. What is said is the
//! memory of the whole process, so that it is an upper bound.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;

use etherparse::PacketBuilder;
use tidegate_gateway::core::store::BUFFER_BYTES;
use tidegate_gateway::core::{Gateway, Input, Output};
use tidegate_gateway::daemon::config::{self, encode_key};
use tidegate_gateway::tunnel::wireguard::{PeerKeys, PrivateKey, WireguardTunnels};
use tidegate_units::{Span, Time};

const ROUNDS: u32 = 2;

fn key(number: usize) -> PrivateKey {
    // Not the first bytes, of which some count for nothing in such keys.
    let mut bytes = [1; 32];
    bytes[8..16].copy_from_slice(&(number as u64).to_le_bytes());
    PrivateKey::from(bytes)
}

fn address(number: usize) -> SocketAddr {
    // Each of its own: handshakes of one address are bounded.
    SocketAddr::from(([198, 18, (number / 256) as u8, (number % 256) as u8], 1000 + number as u16))
}

/// Gateway `number`, which has the others as sites: by a file, as an operator would write it.
fn gateway(number: usize, others: &[usize], buffers: usize, flows: usize) -> Gateway<WireguardTunnels> {
    let mut text = format!("[gateway]\nprivate_key_file = \"key\"\nbuffers = {buffers}\nflows = {flows}\n");
    for &other in others {
        let public = encode_key(&key(other).public());
        let (at, high, low) = (address(other), other / 200, other % 200);
        let _ = writeln!(
            text,
            "[sites.s{other:05}]\npublic_key = \"{public}\"\nendpoint = \"{at}\"\nnetworks = [\"10.{high}.{low}.0/24\"]\n\
             rate = {{ floor = \"1Mbit\", max = \"100Mbit\", fallback = \"8Mbit\" }}\nqueue = {{ kind = \"fq-codel\", queues = {flows} }}"
        );
    }
    let plan = config::read("memory.toml", &text).unwrap_or_else(|why| panic!("{}", why.render()));
    let peer = |&other: &usize| PeerKeys { public: key(other).public(), shared: None, keepalive: None };
    let peers: Vec<PeerKeys> = others.iter().map(peer).collect();
    let tunnels = WireguardTunnels::new(&key(number), &peers, Time::ZERO).expect("there is randomness");
    Gateway::new(plan.core(&key(number).public(), number as u64), tunnels, Time::ZERO)
}

fn megabytes(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("it is there");
    line.trim_matches([':', '\t', ' ', 'k', 'B']).trim().parse::<f64>().expect("it is a number") / 1024.0
}

/// Hands over what all say, until nobody says more by `now`.
fn settle(here: &mut Gateway<WireguardTunnels>, ends: &mut [Gateway<WireguardTunnels>], now: Time) -> u64 {
    let mut room = [0; BUFFER_BYTES];
    let mut delivered = 0;
    let mut under_way: VecDeque<(usize, Vec<u8>)> = VecDeque::new();
    loop {
        while let Some(output) = here.poll_output(now, &mut room) {
            if let Output::Wan { to, bytes, .. } = output {
                under_way.push_back((usize::from(to.far.port()) - 1000, room[..bytes].to_vec()));
            }
        }
        let mut is_over = under_way.is_empty();
        for (to, datagram) in under_way.drain(..) {
            let end = &mut ends[to - 1];
            end.handle(Input::Wan { from: address(0).into(), traffic_class: 0, datagram: &datagram }, now);
        }
        for (number, end) in (1..).zip(ends.iter_mut()) {
            while let Some(output) = end.poll_output(now, &mut room) {
                match output {
                    Output::Lan(_) => delivered += 1,
                    Output::Wan { bytes, .. } => {
                        is_over = false;
                        let datagram = &room[..bytes];
                        here.handle(
                            Input::Wan { from: address(number).into(), traffic_class: 0, datagram },
                            now,
                        );
                    }
                }
            }
        }
        if is_over {
            return delivered;
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let (sites, flows) = (arguments.next().unwrap_or(100), arguments.next().unwrap_or(10_000));
    let others: Vec<usize> = (1..=sites).collect();
    let mut ends: Vec<_> = others.iter().map(|&number| gateway(number, &[0], 64, 1)).collect();
    let alone = megabytes("VmRSS");
    let mut here = gateway(0, &others, 16_384, flows);
    let made = megabytes("VmRSS");
    let mut now = Time::ZERO;
    // The library repeats by its own clock what was refused in the rush.
    let are_all =
        |one: &Gateway<WireguardTunnels>| one.status().iter().all(|site| site.state.name() == "controlled");
    for _ in 0..20_000 {
        settle(&mut here, &mut ends, now);
        if are_all(&here) {
            break;
        }
        now += Span::from_millis(1);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let states: std::collections::BTreeSet<_> = here.status().iter().map(|site| site.state.name()).collect();
    let begun = megabytes("VmRSS");
    let mut delivered = 0;
    let payload = vec![7; 972];
    let mut packet = Vec::new();
    for round in 0..ROUNDS {
        for flow in 0..flows {
            for &site in &others {
                packet.clear();
                let (source, sink) =
                    ([10, 0, 0, 9], [10, (site / 200) as u8, (site % 200) as u8, (flow / 50_000) as u8]);
                PacketBuilder::ipv4(source, sink, 60)
                    .udp((flow % 50_000) as u16 + 1000, 7)
                    .write(&mut packet, &payload)
                    .expect("there is room");
                here.handle(Input::Lan(&packet), now);
            }
            // As fast as the first rate, so that queues are there and move.
            now += Span::from_millis(1);
            if flow % 8 == 0 || round + 1 == ROUNDS {
                delivered += settle(&mut here, &mut ends, now);
            }
        }
    }
    let status = here.status();
    let entered: u64 = status.iter().map(|site| site.counters.entered_packets).sum();
    let waiting = here.held().0;
    println!(
        "{sites} sites ({}), {flows} flows each: {entered} packets entered, {delivered} delivered, {waiting} wait",
        states.into_iter().collect::<Vec<_>>().join(", ")
    );
    println!(
        "memory: {alone:.0} MB with the other ends alone, {made:.0} with the gateway, {begun:.0} with sessions, {:.0} at the end, {:.0} at most",
        megabytes("VmRSS"),
        megabytes("VmHWM")
    );
}

//! What a packet costs on its way through two gateways, without kernels and networks: `cargo run --release -p tidegate-gateway
//! --features daemon --example way [none | fixed | path [PACKETS]]`.
//!
//! One process has both ends, with WireGuard. A read of the device with many packets of 1420 bytes of a TCP connection is split, goes
//! through the first gateway and, in one batch, to the second, and is joined again; an acknowledgement for each two packets comes
//! back. What is said is the processor's time for each packet, whole and by parts, beside that of sealing and opening alone, which no
//! gateway can do without. Run under callgrind, it counts instructions.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use etherparse::PacketBuilder;
use tidegate_gateway::core::store::BUFFER_BYTES;
use tidegate_gateway::core::{Gateway, Input, Output};
use tidegate_gateway::daemon::config::{self, encode_key};
use tidegate_gateway::daemon::io::clock;
use tidegate_gateway::tunnel::wireguard::{PeerKeys, PrivateKey, WireguardTunnels};
use tidegate_gateway::tunnel::{Tunnel as _, Tunnels as _};
use tidegate_units::{Span, Time};
use tidegate_wire::offload::{Inbound, Outbox, ROOM_BYTES};

/// What one read gives, and how far reads are apart: 500 Mbit/s.
const BURST: usize = 44;
const APART: Span = Span::from_micros(1000);
/// What is around a segment's data, inside.
const HEADER_BYTES: usize = 40;
/// Of the header that says how a read is made up (`struct virtio_net_hdr`).
const OFFLOAD_BYTES: usize = 10;

type Core = Gateway<WireguardTunnels>;

fn key(number: u8) -> PrivateKey {
    PrivateKey::from([number + 1; 32])
}

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, number], 51_820))
}

fn tunnels(number: u8) -> WireguardTunnels {
    let peer = PeerKeys { public: key(1 - number).public(), shared: None, keepalive: None };
    WireguardTunnels::new(&key(number), &[peer], Time::ZERO).expect("there is randomness")
}

/// Gateway `number` of two, by a file, as an operator would write it.
fn gateway(number: u8, control: &str) -> Core {
    let other = 1 - number;
    let mut text = String::from("[gateway]\nprivate_key_file = \"key\"\n");
    let public = encode_key(&key(other).public());
    let at = address(other);
    let _ = writeln!(
        text,
        "[sites.other]\npublic_key = \"{public}\"\nendpoint = \"{at}\"\nnetworks = [\"10.{other}.0.0/16\"]\n{control}"
    );
    let plan = config::read("way.toml", &text).unwrap_or_else(|why| panic!("{}", why.render()));
    Gateway::new(plan.core(&key(number).public(), u64::from(number)), tunnels(number), Time::ZERO)
}

/// Time by parts, of all packets.
#[derive(Default)]
struct Parts {
    entered: Span,
    sealed: Span,
    opened: Span,
    joined: Span,
}

/// What one gateway has sent, and its device was given.
struct End {
    core: Core,
    number: u8,
    outbox: Outbox,
    batch: Vec<u8>,
    lengths: Vec<usize>,
    delivered: u64,
}

impl End {
    fn new(number: u8, control: &str) -> Self {
        let core = gateway(number, control);
        Self {
            core,
            number,
            outbox: Outbox::default(),
            batch: vec![0; 1 << 20],
            lengths: Vec::new(),
            delivered: 0,
        }
    }

    /// Packets for hosts go to the device.
    fn deliver(&mut self, now: Time) {
        while let Some(packet) = self.core.poll_lan() {
            self.delivered += 1;
            if !self.outbox.add(packet, now) {
                let _ = std::hint::black_box(self.outbox.packet());
                self.outbox.clear();
                self.outbox.add(packet, now);
            }
        }
    }

    /// Everything that is due.
    fn collect(&mut self, now: Time, parts: &mut Parts) {
        let began = clock::now();
        self.deliver(now);
        if !self.outbox.is_empty() {
            let _ = std::hint::black_box(self.outbox.packet());
            self.outbox.clear();
        }
        let joined = clock::now();
        // As the daemon does: everything at its own instant, though it comes late.
        let mut used = self.lengths.iter().sum::<usize>();
        while let Some(due) = self.core.poll_timeout().filter(|&due| due <= now) {
            let due = due.max(Time::from_nanos(now.as_nanos() - APART.as_nanos()));
            while let Some(output) = self.core.poll_output(due, &mut self.batch[used..][..BUFFER_BYTES]) {
                match output {
                    Output::Wan { bytes, .. } => {
                        self.lengths.push(bytes);
                        used += bytes;
                    }
                    Output::Lan(_) => self.delivered += 1,
                }
            }
        }
        parts.joined += joined.since(began);
        parts.sealed += clock::now().since(joined);
    }

    fn hear(&mut self, other: &mut Self, now: Time, parts: &mut Parts) {
        let began = clock::now();
        let mut at = 0;
        for length in other.lengths.drain(..) {
            let datagram = &other.batch[at..at + length];
            self.core
                .handle(Input::Wan { from: address(other.number).into(), traffic_class: 0, datagram }, now);
            self.deliver(now);
            at += length;
        }
        parts.opened += clock::now().since(began);
    }
}

/// One read of the device: so many packets of a TCP connection as one, as `virtio_net_hdr` says.
fn read_of(sequence: u32, data_bytes: usize) -> Vec<u8> {
    let mut read = vec![0; OFFLOAD_BYTES];
    let payload = vec![7; BURST * data_bytes];
    PacketBuilder::ipv4([10, 0, 0, 9], [10, 1, 0, 9], 64)
        .tcp(40_000, 5001, sequence, 1000)
        .ack(77)
        .write(&mut read, &payload)
        .expect("there is room");
    // A checksum is to be completed, of segments of TCP over IPv4.
    read[..2].copy_from_slice(&[1, 1]);
    read[2..4].copy_from_slice(&40_u16.to_ne_bytes());
    read[4..6].copy_from_slice(&(data_bytes as u16).to_ne_bytes());
    read[6..8].copy_from_slice(&20_u16.to_ne_bytes());
    read[8..10].copy_from_slice(&16_u16.to_ne_bytes());
    read
}

fn acknowledgement(number: u32) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4([10, 1, 0, 9], [10, 0, 0, 9], 64)
        .tcp(5001, 40_000, 77, 1000)
        .ack(number)
        .write(&mut packet, &[])
        .expect("there is room");
    packet
}

/// Nanoseconds that sealing and opening one packet takes alone, with an acknowledgement for each two.
fn cryptography(packets: usize, data_bytes: usize) -> f64 {
    let (mut here, mut there) = (tunnels(0), tunnels(1));
    let (mut one, mut other) = ([0; BUFFER_BYTES], [0; BUFFER_BYTES]);
    here.tunnel(0).want(Time::ZERO);
    let mut scratch = vec![0; BUFFER_BYTES];
    for _ in 0..4 {
        while let Some(bytes) = here.tunnel(0).poll(Time::ZERO, &mut one) {
            there.addressed(&one[..bytes], address(0).into(), Time::ZERO, &mut scratch);
            there.tunnel(0).open(&one[..bytes], address(0), Time::ZERO, &mut other);
        }
        while let Some(bytes) = there.tunnel(0).poll(Time::ZERO, &mut one) {
            here.addressed(&one[..bytes], address(1).into(), Time::ZERO, &mut scratch);
            here.tunnel(0).open(&one[..bytes], address(1), Time::ZERO, &mut other);
        }
    }
    let packet = vec![7; data_bytes + HEADER_BYTES];
    let acknowledgement = acknowledgement(0);
    let began = clock::now();
    for number in 0..packets {
        let bytes = here.tunnel(0).seal(&packet, Time::ZERO, &mut one).expect("there is a session");
        std::hint::black_box(there.tunnel(0).open(&one[..bytes], address(0), Time::ZERO, &mut other));
        if number % 2 == 1 {
            let back =
                there.tunnel(0).seal(&acknowledgement, Time::ZERO, &mut one).expect("there is a session");
            std::hint::black_box(here.tunnel(0).open(&one[..back], address(1), Time::ZERO, &mut other));
        }
    }
    clock::now().since(began).as_nanos() as f64 / packets as f64
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let control = match arguments.next().as_deref() {
        Some("none") => "control = \"none\"",
        Some("fixed") => "control = { kind = \"fixed\", rate = \"625Mbit\" }",
        None | Some("path") => "rate = { floor = \"625Mbit\", max = \"625Mbit\", fallback = \"625Mbit\" }",
        Some(other) => panic!("`{other}` is none of none, fixed, path"),
    };
    let packets =
        arguments.next().map_or(200_000, |text| text.parse::<usize>().expect("a number of packets"));
    let (mut here, mut there) = (End::new(0, control), End::new(1, control));
    let mut now = Time::ZERO;
    let mut parts = Parts::default();
    let mut room = vec![0; ROOM_BYTES];
    let mut sequence = 1_u32;
    let bursts = packets / BURST;
    // Until both are up and rates are known.
    let warm = 2000;
    let mut spent = Span::ZERO;
    for burst in 0..warm + bursts {
        now += APART;
        if burst == warm {
            parts = Parts::default();
            (here.delivered, there.delivered, spent) = (0, 0, Span::ZERO);
        }
        // By then the largest packet is known.
        let sends = burst > 1000;
        let data_bytes = usize::from(here.core.status()[0].mtu) - HEADER_BYTES;
        let read = read_of(sequence, data_bytes);
        room[..read.len()].copy_from_slice(&read);
        let acknowledgements: Vec<Vec<u8>> = (1..=BURST as u32 / 2)
            .map(|pair| acknowledgement(sequence + pair * 2 * data_bytes as u32))
            .collect();
        let began = clock::now();
        // What was held goes before more comes.
        here.collect(now, &mut parts);
        there.collect(now, &mut parts);
        if sends {
            let reads = clock::now();
            let inbound = Inbound::new(&mut room[..read.len()]).expect("it is a packet");
            let core = &mut here.core;
            inbound.each(|packet| core.handle(Input::Lan(packet), now)).expect("it can be split");
            for packet in &acknowledgements {
                there.core.handle(Input::Lan(packet), now);
            }
            parts.entered += clock::now().since(reads);
        }
        here.collect(now, &mut parts);
        there.hear(&mut here, now, &mut parts);
        there.collect(now, &mut parts);
        here.hear(&mut there, now, &mut parts);
        here.collect(now, &mut parts);
        spent += clock::now().since(began);
        sequence = sequence.wrapping_add((BURST * data_bytes) as u32);
        if burst <= 20 {
            // The library's clock is the machine's.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let each = |part: Span| part.as_nanos() as f64 / (there.delivered as f64).max(1.0);
    let data_bytes = usize::from(here.core.status()[0].mtu) - HEADER_BYTES;
    let alone = cryptography(packets, data_bytes);
    println!(
        "{} packets of {} bytes delivered, {} acknowledgements; {:.0} ns each: split and entered {:.0}, sealed {:.0}, opened {:.0}, joined {:.0}; \
         sealing and opening alone {alone:.0}: {:.2} times that",
        there.delivered,
        data_bytes + HEADER_BYTES,
        here.delivered,
        each(spent),
        each(parts.entered),
        each(parts.sealed),
        each(parts.opened),
        each(parts.joined),
        each(spent) / alone,
    );
}

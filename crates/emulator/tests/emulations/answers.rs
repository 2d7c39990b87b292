//! Packets that cannot go on, and what their senders hear of it.

use etherparse::PacketBuilder;
use tidegate_emulator::{Emulation, Setup};
use tidegate_scenario::Document;
use tidegate_units::{Span, Time};

const CHAIN: &str = r#"
duration = "60s"
nodes = { hosts = ["A", "B"], routers = ["R", "Q"], real = ["A", "B"] }
defaults.link = { rate = "10Mbit", delay = "5ms" }
links.a = { between = ["A", "R"] }
links.middle = { between = ["R", "Q"] }
links.b = { between = ["Q", "B"] }
"#;
const MTU: usize = 1500;

fn emulation() -> Emulation<Vec<u8>> {
    let setup = Setup::new(Document::from_text("chain.toml", CHAIN).unwrap(), &[], None, 4).unwrap();
    Emulation::start(setup, 16, MTU, None).unwrap()
}

/// From A to B, must not be cut.
fn udp(ttl: u8, payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], ttl).udp(33434, 33435);
    builder.write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

fn send(emulation: &mut Emulation<Vec<u8>>, packet: &[u8]) {
    emulation.room().unwrap()[..packet.len()].copy_from_slice(packet);
    emulation.arrive(0, packet.len(), Time::ZERO);
}

fn received(emulation: &mut Emulation<Vec<u8>>) -> Vec<u8> {
    emulation.advance(Time::ZERO + Span::from_millis(1000));
    let departure = emulation.next_departure().expect("an answer");
    assert_eq!(departure.host, 0);
    emulation.packet(&departure).to_vec()
}

#[test]
fn a_router_tells_of_a_packet_as_it_got_there() {
    let mut emulation = emulation();
    send(&mut emulation, &udp(2, 100));
    let answer = received(&mut emulation);
    let (source, kind, quoted) = (&answer[12..16], answer[20], &answer[28..]);
    assert_eq!((source, kind), (&[10, 0, 0, 4][..], 11));
    assert_eq!(quoted[8], 1, "one hop was made, the second may not be");
    let header = etherparse::Ipv4HeaderSlice::from_slice(quoted).unwrap().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
}

#[test]
fn a_packet_that_is_less_than_it_says_is_stray_and_one_that_fills_the_room_is_too_large() {
    let mut emulation = emulation();
    send(&mut emulation, &udp(64, 1000)[..70]);
    assert_eq!((emulation.counts.oversized_packets, emulation.counts.stray_packets), (0, 1));
    send(&mut emulation, &udp(64, 2000)[..MTU]);
    assert_eq!((emulation.counts.oversized_packets, emulation.counts.stray_packets), (1, 1));
}

#[test]
fn of_several_in_one_that_are_too_large_all_are_counted_and_their_sender_hears_it() {
    let mut emulation = emulation();
    emulation.arrive_oversized(0, &udp(64, 20_000), 7, Time::ZERO);
    let answer = received(&mut emulation);
    assert_eq!(emulation.counts.oversized_packets, 7);
    let next_hop_mtu = u16::from_be_bytes([answer[26], answer[27]]);
    assert_eq!((answer[20], answer[21], usize::from(next_hop_mtu)), (3, 4, MTU));
}

//! A router with control between neighbours, under any packets and any messages of its neighbours: it says no more than there is to
//! say, and gives back what it held.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_mechanism::Context;
use tidegate_mechanism::hop::backpressure;
use tidegate_mechanism::hop::{Action, HopConfig, Neighbor, Passage, Port, PortId, Router};
use tidegate_packet::{
    Address, DropReason, Dscp, Ecn, FlowId, Headers, Packet, Protocol, TcpFlags, TcpHeader,
};
use tidegate_units::{BitRate, Time};

#[derive(Arbitrary, Debug)]
enum Call {
    Packet {
        flow: u8,
        wire_bytes: u16,
        acknowledges: u16,
        payload: u16,
        to: u8,
        class: u8,
    },
    Departure {
        flow: u8,
        wire_bytes: u16,
        from: u8,
    },
    Drop {
        flow: u8,
        wire_bytes: u16,
        at: u8,
        had_left: bool,
    },
    Bytes {
        port: u8,
        bytes: Vec<u8>,
    },
    /// What it said itself before, from a neighbour, with one byte changed or none.
    Echo {
        port: u8,
        which: u8,
        flip: Option<(u8, u8)>,
    },
    Rate {
        port: u8,
        kbps: u32,
    },
    Timeout,
    Clock(i32),
}

fn headers(flow: u8) -> Headers {
    Headers {
        source: Address::V4([10, 0, 0, flow]),
        destination: Address::V4([10, 0, 1, flow % 3]),
        flow_label: 0,
        protocol: Protocol::TCP,
        source_port: u16::from(flow),
        destination_port: 80,
        dscp: Dscp::BEST_EFFORT,
        ecn: Ecn::NotEct,
    }
}

fn packet(flow: u8, wire_bytes: u16) -> Packet {
    Packet::new(0, FlowId(u32::from(flow)), u32::from(wire_bytes))
}

fuzz_target!(|input: (u8, Vec<Call>)| {
    let (kind, mut calls) = input;
    calls.truncate(200);
    let config = match kind % 3 {
        0 => HopConfig::Nbq(Box::default()),
        1 => HopConfig::BackPressure(Box::default()),
        _ => HopConfig::BackPressure(Box::new(backpressure::BackPressureConfig {
            last_hop: backpressure::LastHopForm::Bucket,
            ..backpressure::BackPressureConfig::default()
        })),
    };
    let port = |neighbor| Port { rate: BitRate::from_mbps(2), neighbor, circuit: None };
    let ports = [port(Neighbor::Router), port(Neighbor::Host), port(Neighbor::Router)];
    let mut router = Router::new(&config, &ports, &Context::for_tests());
    let id = |port: u8| PortId(u16::from(port % 3));
    let (mut now, mut heard, mut message) =
        (Time::from_nanos(1_000_000_000), Vec::<Vec<u8>>::new(), Vec::new());
    let (mut held, mut released) = (0_usize, 0_usize);
    for call in calls {
        match call {
            Call::Packet { flow, wire_bytes, acknowledges, payload, to, class } => {
                let mut one = packet(flow, wire_bytes);
                (one.class, one.in_port) = (class, u16::from(class) % 3);
                let mut segment = TcpHeader {
                    acknowledgment: u64::from(acknowledges) * 100,
                    payload_bytes: u32::from(payload % 1460),
                    flags: TcpFlags::ACK,
                    ..TcpHeader::default()
                };
                match router.handle_segment(&one, &headers(flow), &mut segment, id(to), now) {
                    Passage::On => {}
                    Passage::Hold => {
                        router.hold(one, id(to), now);
                        held += 1;
                        continue;
                    }
                    Passage::Split(_) => {
                        router.hold(packet(flow, 40), id(to), now);
                        held += 1;
                    }
                }
                let _ = router.handle_packet(&mut one, &headers(flow), id(to), now);
            }
            Call::Departure { flow, wire_bytes, from } => {
                router.handle_departure(&packet(flow, wire_bytes), &headers(flow), id(from), now);
            }
            Call::Drop { flow, wire_bytes, at, had_left } => {
                let why = DropReason::Overflow;
                router.handle_drop(&packet(flow, wire_bytes), &headers(flow), id(at), why, had_left, now);
            }
            Call::Bytes { port, bytes } => router.handle_message(id(port), &bytes, now),
            Call::Echo { port, which, flip } => {
                let Some(mut bytes) = heard.iter().rev().nth(usize::from(which % 8)).cloned() else {
                    continue;
                };
                if let Some((at, mask)) = flip
                    && let Some(byte) = bytes.get_mut(usize::from(at))
                {
                    *byte ^= mask;
                }
                router.handle_message(id(port), &bytes, now);
            }
            Call::Rate { port, kbps } => {
                router.handle_link_rate(id(port), BitRate::from_bps(u64::from(kbps) * 1000 + 1000), now);
            }
            Call::Timeout => router.handle_timeout(now),
            Call::Clock(nanos) => {
                now = Time::from_nanos(now.as_nanos().saturating_add_signed(i64::from(nanos) * 16))
            }
        }
        for polls in 0.. {
            assert!(polls < 5000, "it says no more than there is to say");
            match router.poll_action(&mut message) {
                None => break,
                Some(Action::SetRate { rate, .. }) => assert!(rate.as_bps() > 0),
                Some(Action::Release { .. }) => released += 1,
                Some(Action::Message { .. }) => {
                    heard.push(message.clone());
                    if heard.len() > 64 {
                        heard.remove(0);
                    }
                }
            }
        }
        assert_eq!(held, released + router.held_packets(), "what waits goes on at some time");
    }
});

//! A recording of a gateway, whose records are any in any order, is replayed or refused: nothing breaks, and it ends. Its configuration is a
//! fixed one: others have their own target.
#![no_main]

use std::net::SocketAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::gateway::{self, control, site};
use tidegate_gateway::core::config::{GatewayConfig, SiteConfig};
use tidegate_gateway::core::envelope::{Envelope, Kind};
use tidegate_gateway::record::replay;
use tidegate_gateway::record::step::{Answer, Begin, FORMAT, Kept, Step, What};
use tidegate_gateway::tunnel::{Addressed, Opened};
use tidegate_units::Time;
use tidegate_wire::recording::frames::FrameWriter;

#[derive(Arbitrary, Debug)]
enum Said<'a> {
    Begin(u64),
    Lan(u16, &'a [u8]),
    /// A packet to a site, with so many bytes.
    Send(u8, u16),
    Wan(u8, u16),
    PollOutput,
    PollLan,
    Find(u32, u16),
    Drain,
    Close,
}

#[derive(Arbitrary, Debug)]
enum Told<'a> {
    Peer(u32),
    Reply(u32),
    Up(bool),
    Sealed(Option<u16>),
    Opened(u16, &'a [u8]),
    /// A message of another gateway.
    Message {
        kind: u8,
        link: u8,
        incarnation: u64,
        echo: u64,
        body: &'a [u8],
    },
    Handshake,
    Said(u16),
    Timeout(Option<u64>),
}

fn config(which: u8) -> GatewayConfig {
    let relayed = SiteConfig { via: Some(0), ..site(4, None) };
    gateway::config(vec![site(2, control(which)), site(3, control(which)), relayed])
}

fn kept(bytes: u16, beginning: &[u8]) -> Kept {
    let beginning = beginning[..beginning.len().min(1500)].to_vec();
    Kept { bytes: bytes.max(beginning.len() as u16), beginning }
}

fn what(said: Said<'_>) -> What {
    let address = |site: u8| SocketAddr::from(([192, 0, 2, site % 4], 1));
    match said {
        Said::Begin(seed) => {
            let endpoints = vec![Some(address(2)), None, None];
            What::Begin(Box::new(Begin { seed, endpoints, ..Begin::default() }))
        }
        Said::Lan(bytes, beginning) => What::Lan(kept(bytes, beginning)),
        Said::Send(site, bytes) => {
            let length = 20 + bytes % 1480;
            What::Lan(Kept { bytes: length, beginning: gateway::header(2 + site % 3, length).to_vec() })
        }
        Said::Wan(site, bytes) => What::Wan(address(site), site, bytes),
        Said::PollOutput => What::PollOutput,
        Said::PollLan => What::PollLan,
        Said::Find(site, port) => What::Find(site % 8, SocketAddr::from(([192, 0, 2, 9], port))),
        Said::Drain => What::Drain,
        Said::Close => What::Close,
    }
}

fn answer(told: Told<'_>) -> Answer {
    let packet = |kept: Kept| Answer::Opened(Opened::Packet(kept.bytes.into()), kept);
    match told {
        Told::Peer(peer) => Answer::Addressed(Addressed::Peer(peer % 8)),
        Told::Reply(bytes) => Answer::Addressed(Addressed::Reply(bytes as usize)),
        Told::Up(is_up) => Answer::Up(is_up),
        Told::Sealed(bytes) => Answer::Sealed(bytes),
        Told::Opened(bytes, beginning) => packet(kept(bytes, beginning)),
        Told::Message { kind, link, incarnation, echo, body } => {
            let envelope = Envelope { kind: Kind::Hello, link, incarnation, number: 1, echo };
            let mut room = [0; 1500];
            let length = envelope.write(&body[..body.len().min(1300)], &mut room).expect("there is room");
            room[49] = 1 + kind % 9;
            packet(Kept { bytes: length as u16, beginning: room[..length].to_vec() })
        }
        Told::Handshake => Answer::Opened(Opened::Handshake, Kept::default()),
        Told::Said(bytes) => Answer::Said(bytes),
        Told::Timeout(at) => Answer::Timeout(at.map(Time::from_nanos)),
    }
}

fuzz_target!(|input: (u8, bool, &[u8], Vec<(u32, Said<'_>, Vec<(u8, Told<'_>)>)>)| {
    let (control, begins, bytes, steps) = input;
    // Any bytes.
    let _ = replay(bytes, |_| Ok(config(control)));
    if let Ok(step) = Step::decode(bytes) {
        assert_eq!(Step::decode(&step.encode()).expect("it was one"), step);
    }
    // Any records.
    let mut frames = FrameWriter::new(Vec::new(), &FORMAT);
    let mut now = Time::from_nanos(1 << 40);
    let first = begins.then_some((0, Said::Begin(1), Vec::new()));
    for (wait, said, told) in first.into_iter().chain(steps).take(200) {
        now = Time::from_nanos(now.as_nanos() + u64::from(wait));
        let answers =
            told.into_iter().take(40).map(|(foretold, told)| (foretold.into(), answer(told))).collect();
        let step = Step { at: now, what: what(said), answers, verdicts: Vec::new() };
        let encoded = step.encode();
        assert_eq!(Step::decode(&encoded).expect("it is one"), step);
        frames.write(&encoded);
    }
    let end = Step { at: now, what: What::End, answers: Vec::new(), verdicts: Vec::new() };
    frames.write(&end.encode());
    let _ = replay(&frames.finish().expect("memory is not full")[..], |_| Ok(config(control)));
});

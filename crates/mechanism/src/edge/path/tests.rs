//! What a sender believes, and what a receiver answers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::{Ecn, FlowId, Packet};
use tidegate_units::{BitRate, Time};

use super::wire::{self, Message, Report};
use super::{PathConfig, PathReceiver, PathSender};
use crate::Context;
use crate::edge::testing::{HEADERS, Said};
use crate::edge::{Admission, BorderSite, EdgeHalf, PeerId};

const NEAR: PeerId = PeerId(0);
const FAR: PeerId = PeerId(1);
/// One way, ms.
const WAY: u64 = 10;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// A virtual link with a packet of 1000 bytes each millisecond, over a path without a queue.
struct World {
    sender: PathSender,
    receiver: PathReceiver,
    reports: Vec<Vec<u8>>,
    rate: Option<BitRate>,
    now: u64,
}

impl World {
    fn new(config: &PathConfig) -> Self {
        let half = |border| config.build(BorderSite { border, level: 0 }, &Context::for_tests());
        Self { sender: half(NEAR).0, receiver: half(FAR).1, reports: Vec::new(), rate: None, now: 1000 }
    }

    fn run(&mut self, millis: u64, answers: bool) {
        for _ in 0..millis {
            let (sent, arrives, answered) = (at(self.now), at(self.now + WAY), at(self.now + 2 * WAY));
            let mut out = Said { waiting: 5, ..Said::default() };
            let mut packet = Packet::new(0, FlowId(0), 1000);
            let admission = self.sender.on_packet(&mut packet, &HEADERS, &[FAR], sent, &mut out);
            let Admission::Shape(aggregate) = admission else { panic!("it is shaped") };
            self.sender.on_release(aggregate, &mut packet, &mut Said::default(), sent, &mut out);
            if self.sender.timer_at().is_some_and(|due| due <= sent) {
                self.sender.on_timer(sent, &mut out);
            }
            let mut back = Said::default();
            for message in &out.sent {
                self.receiver.on_message(NEAR, message, 255, arrives, &mut back);
            }
            self.receiver.on_packet(&mut packet, &HEADERS, &[NEAR], arrives, &mut back);
            let mut reaction = Said { waiting: 5, ..Said::default() };
            for message in back.sent {
                if answers {
                    self.sender.on_message(FAR, &message, 255, answered, &mut reaction);
                }
                self.reports.push(message);
            }
            self.rate = reaction.rate.or(out.rate).or(self.rate);
            self.now += 1;
        }
    }

    fn last_report(&self) -> Report {
        match self.reports.last().map(|message| wire::decode(message)) {
            Some(Ok(Message::Report(report))) => report,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self) -> String {
        format!("{:?} {:?}", self.sender, self.receiver)
    }

    /// Gives `message` to the sender: it must change nothing.
    fn ignores(&mut self, message: &[u8]) -> bool {
        let before = self.state();
        let mut out = Said::default();
        self.sender.on_message(FAR, message, 255, at(self.now + 2 * WAY), &mut out);
        self.state() == before && out.sent.is_empty() && out.rate.is_none()
    }
}

#[test]
fn reports_that_are_old_doubled_or_forged_change_nothing() {
    let mut world = World::new(&PathConfig::default());
    world.run(500, true);
    assert!(world.reports.len() > 20);
    for message in world.reports.clone() {
        assert!(world.ignores(&message), "{:?}", wire::decode(&message));
    }
    // A probe is under way whose report did not come.
    world.run(20, false);
    let report = world.last_report();
    for forged in [
        Report { incarnation: report.incarnation ^ 1, ..report },
        Report { nonce: report.nonce + 1, ..report },
        Report { nonce: report.nonce - 1_000_000_000, ..report },
        Report { sequence: report.sequence.wrapping_add(1), ..report },
        Report { sequence: report.sequence - 1, ..report },
    ] {
        assert!(world.ignores(&forged.encode()), "{forged:?}");
    }
    assert!(!world.ignores(&report.encode()), "the answer itself counts");
    assert!(world.ignores(&report.encode()), "once");
}

#[test]
fn without_reports_the_rate_falls_to_what_is_assured_and_probes_go_on() {
    let config = PathConfig { rate_min: BitRate::from_bps(400_000), ..PathConfig::default() };
    let mut world = World::new(&config);
    world.run(1000, true);
    let before = world.rate.expect("it was set");
    world.run(8000, false);
    assert!(before > BitRate::from_mbps(2), "{before}");
    assert_eq!(world.rate, Some(config.rate_min));
    let asked = world.reports.len();
    world.run(2000, false);
    assert!(world.reports.len() > asked, "who is silent is asked");
}

#[test]
fn no_rate_grows_far_beyond_what_enters() {
    let mut world = World::new(&PathConfig::default());
    let mut greatest = 0.0_f64;
    for _ in 0..10_000 {
        world.run(1, true);
        greatest = greatest.max(world.rate.map_or(0.0, BitRate::as_bytes_per_second_f64));
    }
    // What enters is 1 MB/s; of four times that a quarter is used, and it may double once more before that is seen.
    assert!((1e6..=8e6).contains(&greatest), "{greatest}");
}

#[test]
fn a_receiver_that_starts_anew_is_heard_at_once_and_nothing_counts_as_lost() {
    let mut world = World::new(&PathConfig::default());
    world.run(3000, true);
    let before = world.rate.expect("it was set").as_bps_f64();
    let other = Context { seed: crate::random::Seed(99), ..Context::for_tests() };
    world.receiver = PathConfig::default().build(BorderSite { border: FAR, level: 0 }, &other).1;
    world.run(1000, true);
    let after = world.rate.expect("it was set").as_bps_f64();
    assert!(after > 0.7 * before, "{before} {after}");
}

#[test]
fn control_takes_no_more_than_its_share() {
    // 8 kB/s, of which a hundredth are 80 bytes: a probe and its report are 130.
    let slow = BitRate::from_bps(64_000);
    let config = PathConfig { rate_min: slow, rate_max: Some(slow), ..PathConfig::default() };
    let mut world = World::new(&config);
    world.run(10_000, true);
    let before = world.reports.len();
    world.run(20_000, true);
    let probes = world.reports.len() - before;
    assert!((10..=14).contains(&probes), "{probes}");
}

#[test]
fn the_outer_field_can_be_marked_where_the_inner_one_can_and_marks_come_out() {
    let mut world = World::new(&PathConfig::default());
    for (ecn, outer, marked) in [
        (Ecn::NotEct, Ecn::NotEct, Ecn::NotEct),
        (Ecn::Ect0, Ecn::Ect0, Ecn::Ce),
        (Ecn::Ect1, Ecn::Ect1, Ecn::Ce),
        (Ecn::Ce, Ecn::Ect0, Ecn::Ce),
    ] {
        let (mut packet, mut out) = (Packet::new(0, FlowId(0), 1000), Said::default());
        packet.ecn = ecn;
        let admission = world.sender.on_packet(&mut packet, &HEADERS, &[FAR], at(1000), &mut out);
        let Admission::Shape(aggregate) = admission else { panic!("it is shaped") };
        world.sender.on_release(aggregate, &mut packet, &mut Said::default(), at(1000), &mut out);
        assert_eq!(packet.ecn, outer);
        if packet.ecn != Ecn::NotEct {
            packet.ecn = Ecn::Ce;
        }
        world.receiver.on_packet(&mut packet, &HEADERS, &[NEAR], at(1010), &mut out);
        assert_eq!(packet.ecn, marked);
    }
}

proptest! {
    #[test]
    fn whatever_comes_the_rate_keeps_its_bounds_and_nothing_panics(
        messages in prop::collection::vec((any::<u64>(), any::<u64>(), 0u64..1 << 40, 0u64..1 << 40, 0u64..60), 1..80),
    ) {
        let config = PathConfig {
            rate_min: BitRate::from_bps(100_000),
            rate_max: Some(BitRate::from_mbps(50)),
            ..PathConfig::default()
        };
        let mut world = World::new(&config);
        for (receiver, arrived, bytes, packets, millis) in messages {
            world.run(millis, false);
            let Some(Ok(Message::Report(report))) = world.reports.last().map(|message| wire::decode(message)) else {
                continue;
            };
            // The peer knows the nonce, and lies about all that is its own.
            let lie = Report { receiver, arrived, received_bytes: bytes, received_packets: packets, ..report };
            let mut out = Said { waiting: 5, ..Said::default() };
            world.sender.on_message(FAR, &lie.encode(), 255, at(world.now + 2 * WAY), &mut out);
            for rate in out.rate.into_iter().chain(world.rate) {
                prop_assert!((BitRate::from_bps(99_999)..=BitRate::from_mbps(50)).contains(&rate), "{}", rate);
            }
        }

    }

    /// What is kept of one peer, and said to it, is a function of what that peer sends.
    #[test]
    fn a_peer_that_exhausts_itself_touches_no_other(
        noise in prop::collection::vec((0u64..400, prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..200),
    ) {
        let config = PathConfig::default();
        let said_beside = |other: &[(u64, Vec<u8>, bool)]| {
            let mut receiver = config.build(BorderSite { border: FAR, level: 0 }, &Context::for_tests()).1;
            let mut said = Vec::new();
            let probes: Vec<u64> = (0..400).step_by(20).collect();
            for millis in 0..400 {
                for (_, bytes, as_probe) in other.iter().filter(|(when, ..)| *when == millis) {
                    let message = if *as_probe { probe(bytes.len() as u32) } else { bytes.clone() };
                    receiver.on_message(PeerId(7), &message, 255, at(millis), &mut Said::default());
                }
                if probes.contains(&millis) {
                    let mut out = Said::default();
                    receiver.on_message(NEAR, &probe(millis as u32 + 1), 255, at(millis), &mut out);
                    said.extend(out.sent);
                }
            }
            said
        };
        prop_assert_eq!(said_beside(&[]), said_beside(&noise));
    }
}

fn probe(sequence: u32) -> Vec<u8> {
    let probe = wire::Probe { incarnation: 1, sequence, nonce: 5 };
    probe.encode().to_vec()
}

//! What the two halves of a virtual link make of messages that are damaged, doubled, old, or lost.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::{FlowId, Packet};
use tidegate_units::{BitRate, Bytes, Span, Time};

use super::wire::{self, Control, Feedback, Message};
use super::{Detection, IecEgress, IecIngress, OverlayConfig};
use crate::Context;
use crate::edge::testing::{HEADERS, Said};
use crate::edge::{Admission, BorderSite, EdgeHalf, PeerId};

const INGRESS: PeerId = PeerId(0);
const EGRESS: PeerId = PeerId(1);
/// One way.
const DELAY: u64 = 10;
/// When the first packet comes, so that there are times before.
const BEGIN: u64 = 1000;
/// A packet of 1000 bytes in each millisecond, bytes per second.
const SOURCE: f64 = 1e6;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// A virtual link with a packet each millisecond, over a path without a queue.
struct World {
    ingress: IecIngress,
    egress: IecEgress,
    /// Every message to the egress and to the ingress, in order.
    controls: Vec<Vec<u8>>,
    feedbacks: Vec<Vec<u8>>,
    rate: Option<BitRate>,
    now: u64,
}

impl World {
    fn new(detection: Detection) -> Self {
        let config = OverlayConfig { detection, sigma: Bytes::new(1000), ..OverlayConfig::default() };
        let half = |border| config.build(BorderSite { border, level: 0 }, &Context::for_tests());
        let (ingress, egress) = (half(INGRESS).0, half(EGRESS).1);
        let (controls, feedbacks) = (Vec::new(), Vec::new());
        Self { ingress, egress, controls, feedbacks, rate: None, now: BEGIN }
    }

    /// Packets of a millisecond each; `keeps` says whether the n-th control packet arrives.
    fn run(&mut self, millis: u64, keeps: impl Fn(usize) -> bool) {
        for _ in 0..millis {
            let (sent, arrives, answered) = (at(self.now), at(self.now + DELAY), at(self.now + 2 * DELAY));
            // Only a rate below that of the source makes packets wait.
            let is_enough = self.rate.is_some_and(|rate| rate.as_bytes_per_second_f64() >= SOURCE);
            let mut out = Said { waiting: if is_enough { 0 } else { 5 }, ..Said::default() };
            let mut packet = Packet::new(0, FlowId(0), 1000);
            let admission = self.ingress.on_packet(&mut packet, &HEADERS, &[EGRESS], sent, &mut out);
            let Admission::Shape(aggregate) = admission else { panic!("it is shaped") };
            self.ingress.on_release(aggregate, &mut packet, &mut Said::default(), sent, &mut out);
            if self.ingress.timer_at().is_some_and(|due| due <= sent) {
                self.ingress.on_timer(sent, &mut out);
            }
            self.rate = out.rate.or(self.rate);
            let mut back = Said::default();
            for message in out.sent {
                let arrives_at_all = keeps(self.controls.len());
                self.controls.push(message.clone());
                if arrives_at_all {
                    self.egress.on_message(INGRESS, &message, 255, arrives, &mut back);
                }
            }
            self.egress.on_packet(&mut packet, &HEADERS, &[INGRESS], arrives, &mut back);
            let mut reaction = Said::default();
            for message in back.sent {
                self.feedbacks.push(message.clone());
                self.ingress.on_message(EGRESS, &message, 255, answered, &mut reaction);
            }
            self.rate = reaction.rate.or(self.rate);
            self.now += 1;
        }
    }

    fn last_control(&self) -> Control {
        match self.controls.last().map(|message| wire::decode(message)) {
            Some(Ok(Message::Control(control))) => control,
            other => panic!("{other:?}"),
        }
    }

    fn last_feedback(&self) -> Feedback {
        match self.feedbacks.last().map(|message| wire::decode(message)) {
            Some(Ok(Message::Feedback(feedback))) => feedback,
            other => panic!("{other:?}"),
        }
    }

    /// All that either half knows.
    fn state(&self) -> String {
        format!("{:?} {:?}", self.ingress, self.egress)
    }

    /// Gives `message` to both halves: it must change nothing, and nobody answers.
    fn ignores(&mut self, message: &[u8]) -> bool {
        let before = self.state();
        let mut out = Said::default();
        let later = at(self.now + 2 * DELAY);
        self.egress.on_message(INGRESS, message, 255, later, &mut out);
        self.ingress.on_message(EGRESS, message, 255, later, &mut out);
        self.state() == before && out.sent.is_empty() && out.rate.is_none()
    }
}

const ALL: [Detection; 3] = [Detection::OneWay, Detection::RoundTrip, Detection::Marks];

#[test]
fn doubled_and_old_messages_change_nothing() {
    for detection in ALL {
        let mut world = World::new(detection);
        world.run(300, |_| true);
        assert!(world.controls.len() >= 10 && !world.feedbacks.is_empty(), "{detection:?}");
        for message in [world.controls.clone(), world.feedbacks.clone()].concat() {
            assert!(world.ignores(&message), "{detection:?}: {:?}", wire::decode(&message));
        }
    }
}

/// A nanosecond before.
fn before(time: Time) -> Time {
    time.saturating_sub(Span::from_nanos(1))
}

#[test]
fn feedback_of_which_any_field_is_impossible_changes_nothing() {
    let mut world = World::new(Detection::OneWay);
    world.run(100, |_| true);
    let last = world.last_feedback();
    let newest = world.last_control().timestamp;
    let answer = Feedback {
        sequence: last.sequence + 1_000,
        timestamp: newest,
        held: Span::ZERO,
        output_rate: 1000,
        is_negative: true,
        in_epoch: true,
        has_loss: true,
        ..last
    };
    let second = Span::from_secs(1);
    for wrong in [
        Feedback { opened: last.opened + Span::from_nanos(1), ..answer }, // of a later virtual link
        Feedback { opened: before(last.opened), ..answer },               // of an earlier one
        Feedback { sequence: last.sequence, ..answer },                   // heard already
        Feedback { sequence: last.sequence.wrapping_sub(1), ..answer },   // overtaken
        Feedback { sequence: last.sequence.wrapping_add(1 << 31), ..answer }, // so far ahead that it may be old
        Feedback { timestamp: newest + Span::from_nanos(1), ..answer }, // of a control packet that was not sent
        Feedback { timestamp: newest + second, ..answer },              // of the future
        Feedback { timestamp: before(last.opened), ..answer },          // before there was one
        Feedback { held: second, ..answer }, // held for longer than it can have been
        Feedback { is_negative: false, ..answer }, // a loss without a decrease
    ] {
        assert!(world.ignores(&wrong.encode()), "{wrong:?}");
    }
    // Rate, accumulation and flags may have any value: who may send them is the carrier's to say.
    assert!(!world.ignores(&answer.encode()));
}

#[test]
fn control_packets_of_which_any_field_goes_back_change_nothing() {
    for detection in ALL {
        let mut world = World::new(detection);
        world.run(100, |_| true);
        let last = world.last_control();
        let next = Control {
            sequence: last.sequence + 1,
            timestamp: last.timestamp + Span::from_millis(10),
            sent_bytes: last.sent_bytes + 10_000,
            sent_packets: last.sent_packets + 10,
            ..last
        };
        for wrong in [
            Control { opened: before(last.opened), ..next },
            Control { opened: next.timestamp + Span::from_nanos(1), ..next }, // of a virtual link that is not yet
            Control { sequence: last.sequence, ..next },
            Control { sequence: last.sequence - 1, ..next },
            Control { sequence: last.sequence.wrapping_add(1 << 31), ..next },
            Control { timestamp: before(last.timestamp), ..next },
            Control { sent_bytes: last.sent_bytes - 1, ..next },
            Control { sent_packets: last.sent_packets - 1, ..next },
        ] {
            assert!(world.ignores(&wrong.encode()), "{detection:?}: {wrong:?}");
        }
        assert!(!world.ignores(&next.encode()), "{detection:?}: it is what comes next");
    }
}

#[test]
fn malformed_messages_of_either_kind_change_nothing() {
    let mut world = World::new(Detection::OneWay);
    world.run(60, |_| true);
    for message in [world.controls[1].clone(), world.feedbacks[0].clone()] {
        for length in 0..message.len() {
            assert!(world.ignores(&message[..length]), "cut to {length}");
        }
        assert!(world.ignores(&[&message[..], &[0][..]].concat()), "prolonged");
        for kind in (0..=u8::MAX).filter(|kind| *kind != message[0]) {
            let mut other = message.clone();
            other[0] = kind;
            assert!(world.ignores(&other), "kind {kind}");
        }
        for bit in 3..8 {
            let mut other = message.clone();
            other[1] |= 1 << bit;
            assert!(world.ignores(&other), "flag {bit}");
        }
    }
}

#[test]
fn no_rate_grows_beyond_four_times_what_enters() {
    for detection in ALL {
        let mut world = World::new(detection);
        let mut greatest = 0.0_f64;
        for _ in 0..20_000 {
            world.run(1, |_| true);
            greatest = greatest.max(world.rate.map_or(0.0, BitRate::as_bytes_per_second_f64));
        }
        // Twice what enters over `use_min`, and more than what enters, for nothing holds it.
        assert!((SOURCE..=4.0 * SOURCE).contains(&greatest), "{detection:?}: {greatest}");
    }
}

#[test]
fn lost_control_packets_show_neither_loss_nor_accumulation() {
    for detection in ALL {
        let mut world = World::new(detection);
        // Three of ten arrive.
        world.run(2000, |index| index % 10 < 3);
        let report = world.egress.report(INGRESS).expect("it came from there");
        assert!(!report.in_epoch && report.accumulation < 1.0, "{detection:?}: {report:?}");
        assert!((report.output_rate / 1e6 - 1.0).abs() < 0.01, "{detection:?}: {report:?}");
        for message in &world.feedbacks {
            let Ok(Message::Feedback(feedback)) = wire::decode(message) else { panic!("it is feedback") };
            assert!(!feedback.is_negative && !feedback.has_loss, "{detection:?}: {feedback:?}");
        }
    }
}

#[test]
fn a_packet_that_never_arrives_is_told_of_once_as_a_loss() {
    for detection in ALL {
        let mut world = World::new(detection);
        world.run(300, |_| true);
        let told = world.feedbacks.len();
        let (mut packet, mut out) = (Packet::new(0, FlowId(0), 1000), Said::default());
        let sent = at(world.now);
        let admission = world.ingress.on_packet(&mut packet, &HEADERS, &[EGRESS], sent, &mut out);
        let Admission::Shape(aggregate) = admission else { panic!("it is shaped") };
        world.ingress.on_release(aggregate, &mut packet, &mut Said::default(), sent, &mut out);
        world.run(300, |_| true);
        let is_loss = |message: &[u8]| match wire::decode(message) {
            Ok(Message::Feedback(feedback)) => feedback.is_negative && feedback.has_loss,
            _ => false,
        };
        let losses = world.feedbacks[told..].iter().filter(|message| is_loss(message)).count();
        assert_eq!(losses, 1, "{detection:?}");
    }
}

proptest! {
    #[test]
    fn noise_changes_nothing(noise in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assume!(wire::decode(&noise).is_err());
        let mut world = World::new(Detection::OneWay);
        world.run(60, |_| true);
        prop_assert!(world.ignores(&noise));
    }
}

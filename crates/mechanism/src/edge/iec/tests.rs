//! What the two halves of a virtual link make of messages that are damaged, doubled, old, or lost.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::{Address, Backlog, Dscp, Ecn, FlowId, Headers, Packet, Protocol, TcpHeader};
use tidegate_units::{BitRate, Bytes, Span, Time};

use super::wire::{self, Control, Feedback, Message};
use super::{Detection, IecConfig, IecEgress, IecIngress};
use crate::Context;
use crate::edge::{Admission, AggregateId, BorderSite, EdgeHalf, EdgeOut, PeerId};

const INGRESS: PeerId = PeerId(0);
const EGRESS: PeerId = PeerId(1);
/// One way.
const DELAY: u64 = 10;

/// Records what a half says and sets.
#[derive(Default)]
struct Out {
    sent: Vec<Vec<u8>>,
    rate: Option<BitRate>,
}

impl EdgeOut for Out {
    fn open(&mut self, _aggregate: AggregateId, rate: BitRate) {
        self.rate = Some(rate);
    }
    fn set_rate(&mut self, _aggregate: AggregateId, rate: BitRate) {
        self.rate = Some(rate);
    }
    fn close(&mut self, _aggregate: AggregateId) {}
    fn backlog(&self, _aggregate: AggregateId) -> Backlog {
        Backlog { packets: 5, bytes: 5000 }
    }
    fn send(&mut self, _to: PeerId, message: &[u8]) {
        self.sent.push(message.to_vec());
    }
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn headers() -> Headers {
    Headers {
        source: Address::V4([10, 0, 0, 1]),
        destination: Address::V4([10, 0, 0, 2]),
        flow_label: 0,
        protocol: Protocol::UDP,
        source_port: 1,
        destination_port: 2,
        dscp: Dscp::BEST_EFFORT,
        ecn: Ecn::NotEct,
    }
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
        let config = IecConfig { detection, sigma: Bytes::new(1000), ..IecConfig::default() };
        let half = |border| config.build(BorderSite { border, level: 0 }, &Context::for_tests());
        let (ingress, egress) = (half(INGRESS).0, half(EGRESS).1);
        let (controls, feedbacks) = (Vec::new(), Vec::new());
        Self { ingress, egress, controls, feedbacks, rate: None, now: 0 }
    }

    /// Packets of a millisecond each; `keeps` says whether the n-th control packet arrives.
    fn run(&mut self, millis: u64, keeps: impl Fn(usize) -> bool) {
        for _ in 0..millis {
            let (sent, arrives, answered) = (at(self.now), at(self.now + DELAY), at(self.now + 2 * DELAY));
            let mut out = Out::default();
            let mut packet = Packet::new(0, FlowId(0), 1000);
            let admission = self.ingress.on_packet(&mut packet, &headers(), &[EGRESS], sent, &mut out);
            let Admission::Shape(aggregate) = admission else { panic!("it is shaped") };
            let segment: Option<&mut TcpHeader> = None;
            self.ingress.on_release(aggregate, &mut packet, &headers(), segment, sent, &mut out);
            if self.ingress.timer_at().is_some_and(|due| due <= sent) {
                self.ingress.on_timer(sent, &mut out);
            }
            self.rate = out.rate.or(self.rate);
            let mut back = Out::default();
            for message in out.sent {
                let arrives_at_all = keeps(self.controls.len());
                self.controls.push(message.clone());
                if arrives_at_all {
                    self.egress.on_message(INGRESS, &message, 255, arrives, &mut back);
                }
            }
            self.egress.on_packet(&mut packet, &headers(), &[INGRESS], arrives, &mut back);
            let mut reaction = Out::default();
            for message in back.sent {
                self.feedbacks.push(message.clone());
                self.ingress.on_message(EGRESS, &message, 255, answered, &mut reaction);
            }
            self.rate = reaction.rate.or(self.rate);
            self.now += 1;
        }
    }

    /// All that either half knows.
    fn state(&self) -> String {
        format!("{:?} {:?}", self.ingress, self.egress)
    }

    /// Gives `message` to both halves: it must change nothing, and nobody answers.
    fn ignores(&mut self, message: &[u8]) -> bool {
        let before = self.state();
        let mut out = Out::default();
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

#[test]
fn feedback_that_answers_nothing_that_was_sent_changes_nothing() {
    let mut world = World::new(Detection::OneWay);
    world.run(100, |_| true);
    let opened = match wire::decode(&world.controls[0]) {
        Ok(Message::Control(control)) => control.opened,
        other => panic!("{other:?}"),
    };
    let feedback = Feedback {
        opened,
        sequence: 1_000_000,
        timestamp: at(50),
        held: Span::ZERO,
        output_rate: 1000,
        accumulation: 0,
        is_negative: true,
        in_epoch: true,
        has_loss: true,
    };
    for wrong in [
        Feedback { opened: opened + Span::from_nanos(1), ..feedback }, // of another virtual link
        Feedback { timestamp: at(5_000), ..feedback },                 // of a control packet of the future
        Feedback { held: Span::from_secs(10), ..feedback }, // held for longer than it can have been
    ] {
        assert!(world.ignores(&wrong.encode()), "{wrong:?}");
    }
    // What can be an answer is taken for one: who may send it is the carrier's to say.
    assert!(!world.ignores(&feedback.encode()));
}

#[test]
fn counts_that_fall_change_nothing() {
    let mut world = World::new(Detection::OneWay);
    world.run(100, |_| true);
    let last = match wire::decode(world.controls.last().expect("there are control packets")) {
        Ok(Message::Control(control)) => control,
        other => panic!("{other:?}"),
    };
    let next = Control { sequence: last.sequence + 1, ..last };
    for wrong in [
        Control { sent_bytes: last.sent_bytes - 1, ..next },
        Control { sent_packets: last.sent_packets - 1, ..next },
        Control { timestamp: last.timestamp.saturating_sub(Span::from_nanos(1)), ..next },
        Control { opened: Time::ZERO, sequence: last.sequence, ..next },
    ] {
        assert!(world.ignores(&wrong.encode()), "{wrong:?}");
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

proptest! {
    #[test]
    fn damaged_messages_change_nothing(
        noise in prop::collection::vec(any::<u8>(), 0..100), cut in 1usize..40, which in any::<prop::sample::Index>(),
    ) {
        let mut world = World::new(Detection::OneWay);
        world.run(60, |_| true);
        let mut message = which.get(&world.controls).clone();
        message.truncate(message.len() - cut);
        prop_assert!(world.ignores(&message));
        if wire::decode(&noise).is_err() {
            prop_assert!(world.ignores(&noise));
        }
    }
}

//! What the two halves of a virtual link make of messages that are damaged, doubled, old, or lost.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tidegate_packet::{Ecn, FlowId, Packet};
use tidegate_units::{BitRate, Bytes, Span, Time};

use super::wire::{self, Control, Feedback, Message};
use super::{Detection, IecConfig, IecEgress, IecIngress, OverlayConfig, TunnelEcn};
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
    world.run(1_500, |_| true);
    let last = world.last_feedback();
    let newest = world.last_control().timestamp;
    assert!(at(BEGIN) < last.timestamp && last.timestamp < newest);
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
    let again = Feedback { timestamp: last.timestamp, ..answer };
    for wrong in [
        Feedback { incarnation: last.incarnation ^ 1, ..answer }, // of another virtual link
        Feedback { sequence: last.sequence, ..again },            // heard already
        Feedback { sequence: last.sequence.wrapping_sub(1), ..again }, // overtaken
        Feedback { sequence: last.sequence.wrapping_add(1 << 31), ..again }, // so far ahead that it may be old
        Feedback { timestamp: at(BEGIN), ..answer }, // of a control packet before the one answered last
        Feedback { timestamp: newest + Span::from_nanos(1), ..answer }, // of one that was not sent
        Feedback { timestamp: before(newest), ..answer }, // of one that was not sent, in between
        Feedback { timestamp: newest + second, ..answer }, // of the future
        Feedback { held: second, ..answer },         // held for longer than it can have been
        Feedback { is_negative: false, ..answer },   // a loss without a decrease
    ] {
        assert!(world.ignores(&wrong.encode()), "{wrong:?}");
    }
    // Accumulation and flags may have any value: who may send them is the carrier's to say.
    assert!(!world.ignores(&answer.encode()));
}

#[test]
fn an_egress_that_starts_anew_is_heard_at_once() {
    for detection in ALL {
        let mut world = World::new(detection);
        world.run(3_000, |_| true);
        let heard = world.feedbacks.len();
        let old = world.last_feedback().sequence;
        world.egress = World::new(detection).egress;
        world.run(300, |_| true);
        let Ok(Message::Feedback(first)) = wire::decode(&world.feedbacks[heard]) else {
            panic!("it answers")
        };
        assert!(first.sequence == 1 && old > 2, "{detection:?}: {old}, then {}", first.sequence);
        // It says which feedback it heard last.
        let echo = world.last_control().echo;
        assert!(echo >= 1 && echo < old && echo <= world.last_feedback().sequence, "{detection:?}: {echo}");
    }
}

#[test]
fn no_output_rate_counts_for_more_than_growth_would_give() {
    for detection in ALL {
        let mut world = World::new(detection);
        world.run(300, |_| true);
        let last = world.last_feedback();
        let timestamp = world.last_control().timestamp;
        let lie = Feedback {
            sequence: last.sequence + 1,
            timestamp,
            held: Span::ZERO,
            output_rate: u64::MAX,
            is_negative: true,
            has_loss: false,
            ..last
        };
        let mut out = Said::default();
        world.ingress.on_message(EGRESS, &lie.encode(), 255, at(world.now), &mut out);
        let rate = out.rate.expect("it is told to back off").as_bytes_per_second_f64();
        // In slow start nothing is held back here, so that it sent as fast as the source at any time.
        assert!(rate <= 4.0 * SOURCE, "{detection:?}: {rate}");
        assert_eq!(world.ingress.doubted(EGRESS), Some(1));
    }
}

#[test]
fn no_round_trip_time_makes_timers_hurry() {
    let mut world = World::new(Detection::OneWay);
    world.run(300, |_| true);
    for round in 0..50 {
        world.run(50, |_| true);
        let last = world.last_feedback();
        let timestamp = world.last_control().timestamp;
        let now = at(world.now + 100);
        // It says that it kept the control packet for all the time.
        let held = now.since(timestamp);
        let lie = Feedback {
            sequence: last.sequence + 1,
            timestamp,
            held,
            is_negative: false,
            has_loss: false,
            ..last
        };
        let mut out = Said::default();
        world.ingress.on_message(EGRESS, &lie.encode(), 255, now, &mut out);
        world.ingress.on_timer(now, &mut out);
        let due = world.ingress.timer_at().expect("rounds go on");
        assert!(due.since(now) >= Span::from_micros(25), "round {round}: {:?}", due.since(now));
        world.now += 200;
    }
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
fn another_incarnation_begins_anew_and_those_that_were_replaced_change_nothing() {
    for detection in ALL {
        let mut world = World::new(detection);
        world.run(100, |_| true);
        let old = world.last_control();
        // Its clock shows less, and it has sent less.
        let anew = Control {
            incarnation: old.incarnation ^ 1,
            sequence: 1,
            timestamp: at(5),
            sent_bytes: 0,
            sent_packets: 0,
            ..old
        };
        let straggler = Control { sequence: old.sequence + 1, timestamp: at(world.now), ..old };
        assert!(!world.ignores(&anew.encode()), "{detection:?}");
        assert!(world.ignores(&straggler.encode()), "{detection:?}");
        // Eight are remembered, and not for ever: a number that speaks after so long is no straggler.
        for incarnation in 10..17 {
            assert!(!world.ignores(&Control { incarnation, ..anew }.encode()), "{detection:?}");
            assert!(world.ignores(&straggler.encode()), "{detection:?}");
        }
        world.now += 10_001;
        assert!(!world.ignores(&straggler.encode()), "{detection:?}");
        assert!(world.ignores(&Control { incarnation: 16, ..anew }.encode()), "{detection:?}");
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

#[test]
fn marks_of_the_network_reach_hosts_where_the_tunnel_is_in_the_normal_mode() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    // The inner field, and what the outer one says before and behind a queue that marks; what the hosts see.
    for (ecn, inner, outer, leaves) in [
        (TunnelEcn::Limited, NotEct, Ect0, NotEct),
        (TunnelEcn::Limited, Ect1, Ect0, Ect1),
        (TunnelEcn::Limited, Ce, Ect0, Ce),
        (TunnelEcn::Normal, NotEct, NotEct, NotEct),
        (TunnelEcn::Normal, Ect0, Ect0, Ce),
        (TunnelEcn::Normal, Ect1, Ect1, Ce),
        (TunnelEcn::Normal, Ce, Ce, Ce),
    ] {
        let config = IecConfig { ecn, ..IecConfig::default() };
        let half = |border| config.detecting().build(BorderSite { border, level: 0 }, &Context::for_tests());
        let (mut ingress, mut egress) = (half(INGRESS).0, half(EGRESS).1);
        let (mut packet, mut out) = (Packet::new(0, FlowId(0), 1000), Said::default());
        packet.ecn = inner;
        let admission = ingress.on_packet(&mut packet, &HEADERS, &[EGRESS], at(1), &mut out);
        let Admission::Shape(aggregate) = admission else { panic!("it is shaped") };
        ingress.on_release(aggregate, &mut packet, &mut Said::default(), at(1), &mut out);
        assert_eq!(packet.ecn, outer, "{ecn:?}, {inner:?}");
        packet.ecn = if packet.ecn.is_capable() { Ce } else { packet.ecn };
        egress.on_packet(&mut packet, &HEADERS, &[INGRESS], at(11), &mut out);
        assert_eq!(packet.ecn, leaves, "{ecn:?}, {inner:?}");
    }
}

/// What stands in the queue of [`honest`].
enum Load {
    Data(Packet),
    Control(Vec<u8>),
    Cross,
}

/// A virtual link alone in a FIFO, beside `cross` of its capacity that comes and goes: the capacity is multiplied now and then.
/// How often the ingress doubted what the egress reported, and packets that came through.
fn honest(detection: Detection, mut capacity: f64, changes: &[(u64, f64, f64)], one_way: u64) -> (u64, u64) {
    const TENTH_MS: u64 = 100_000;
    let config = OverlayConfig { detection, ..OverlayConfig::default() };
    let half = |border| config.build(BorderSite { border, level: 0 }, &Context::for_tests());
    let (mut ingress, mut egress) = (half(INGRESS).0, half(EGRESS).1);
    let mut aggregate = None;
    let (mut rate, mut credit, mut budget, mut other) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    let mut queue: VecDeque<(f64, Load)> = VecDeque::new();
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    let (mut cross, mut passed) = (0.0, 0);
    for tick in 0..60_000_u64 {
        let now = Time::from_nanos(1_000_000_000 + tick * TENTH_MS);
        for (_, factor, part) in changes.iter().filter(|(at, ..)| *at == tick) {
            (capacity, cross) = (capacity * factor, *part);
        }
        let mut out = Said { waiting: 5, ..Said::default() };
        credit = (credit + rate * 1e-4).min(1000.0);
        let mut packet = Packet::new(0, FlowId(0), 1000);
        if aggregate.is_none() || credit >= 1000.0 {
            credit -= 1000.0;
            let admission = ingress.on_packet(&mut packet, &HEADERS, &[EGRESS], now, &mut out);
            let Admission::Shape(shaped) = admission else { panic!("it is shaped") };
            aggregate = Some(shaped);
            ingress.on_release(shaped, &mut packet, &mut Said::default(), now, &mut out);
            packet.ecn = if detection == Detection::Marks && queue.len() > 8 { Ecn::Ce } else { packet.ecn };
            queue.extend(out.sent.drain(..).map(|message| (90.0, Load::Control(message))));
            if queue.len() < 100 {
                queue.push_back((1000.0, Load::Data(packet)));
            }
        }
        if ingress.timer_at().is_some_and(|due| due <= now) {
            ingress.on_timer(now, &mut out);
            queue.extend(out.sent.drain(..).map(|message| (90.0, Load::Control(message))));
        }
        other += cross * capacity * 1e-4;
        while other >= 1000.0 {
            other -= 1000.0;
            if queue.len() < 100 {
                queue.push_back((1000.0, Load::Cross));
            }
        }
        budget = if queue.is_empty() { 0.0 } else { budget + capacity * 1e-4 };
        while queue.front().is_some_and(|(bytes, _)| *bytes <= budget) {
            let (bytes, what) = queue.pop_front().expect("there is one");
            budget -= bytes;
            there.push_back((tick + one_way, what));
        }
        let mut said = Said::default();
        while there.front().is_some_and(|(at, _)| *at <= tick) {
            match there.pop_front().expect("there is one").1 {
                Load::Data(mut arrived) => {
                    passed += 1;
                    egress.on_packet(&mut arrived, &HEADERS, &[INGRESS], now, &mut said);
                }
                Load::Control(message) => egress.on_message(INGRESS, &message, 255, now, &mut said),
                Load::Cross => (),
            }
        }
        back.extend(said.sent.into_iter().map(|message| (tick + one_way, message)));
        while back.front().is_some_and(|(at, _)| *at <= tick) {
            let (_, message) = back.pop_front().expect("there is one");
            ingress.on_message(EGRESS, &message, 255, now, &mut out);
        }
        rate = out.rate.map_or(rate, BitRate::as_bytes_per_second_f64);
    }
    (ingress.doubted(EGRESS).expect("it is used"), passed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_honest_egress_is_never_doubted(
        which in 0usize..3, capacity in 3e5..4e6f64, one_way in 20u64..400,
        changes in prop::collection::vec((0u64..60_000, 0.5..2.0f64, 0.0..0.5f64), 0..6),
    ) {
        let (doubted, passed) = honest(ALL[which], capacity, &changes, one_way);
        prop_assert!(passed > 100, "{} packets", passed);
        prop_assert_eq!(doubted, 0);
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

#[test]
fn before_an_answer_came_control_packets_are_no_closer_than_the_least_round_trip_time() {
    let config = OverlayConfig { initial_interval: Span::from_nanos(1), ..OverlayConfig::default() };
    let mut ingress = config.build(BorderSite { border: INGRESS, level: 0 }, &Context::for_tests()).0;
    let (mut packet, mut out) = (Packet::new(0, FlowId(0), 1000), Said::default());
    ingress.on_packet(&mut packet, &HEADERS, &[EGRESS], at(BEGIN), &mut out);
    let end = at(BEGIN) + Span::from_millis(1);
    for _ in 0..1000 {
        let Some(due) = ingress.timer_at().filter(|due| *due <= end) else { break };
        ingress.on_timer(due, &mut out);
    }
    assert_eq!(out.sent.len(), 11, "one at once, and one each 100 us");
}

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::{Dscp, FlowId};
use tidegate_units::{Bytes, Limit, Span};

use super::tree::TreeClass;
use super::*;
use crate::Context;
use crate::queue::{BlueConfig, DropTailConfig, ManagerConfig, RedConfig};
use crate::schedule::Classification;
use crate::schedule::testing::{Arrival, Counted, arrivals, drive};

/// One byte per 8 ns, as in the tests' link.
const GIGABIT: BitRate = BitRate::from_mbps(1000);

fn context() -> Context {
    Context { link_rate: GIGABIT, ..Context::for_tests() }
}

impl Default for TreeClass {
    fn default() -> Self {
        Self {
            parent: None,
            share: 1.0,
            priority: 1,
            borrow: true,
            max_idle: None,
            min_idle: None,
            extra_delay: Span::ZERO,
            keys: Vec::new(),
            manager: ManagerConfig::default(),
        }
    }
}

/// A class of flow `key` below class 0.
fn leaf(share: f64, priority: u8, borrow: bool, key: u32) -> TreeClass {
    let manager = ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(20) });
    TreeClass { parent: Some(0), share, priority, borrow, keys: vec![key], manager, ..TreeClass::default() }
}

fn root(share: f64) -> TreeClass {
    TreeClass { share, priority: 8, ..TreeClass::default() }
}

fn flat(sharing: LinkSharing, root_share: f64, leaves: impl IntoIterator<Item = TreeClass>) -> Tree {
    let classes: Vec<_> = core::iter::once(root(root_share)).chain(leaves).collect();
    let max_packet = 1500;
    Tree { classify: Classification::Flow, classes, default: 1, sharing, max_packet, rate: None }
}

/// Bytes sent per flow until `end`, on a link of a byte per 8 ns, where each of `saturating` (flow, packet size) always has
/// packets waiting.
fn saturated(cbq: &mut Cbq, saturating: &[(u32, u32)], begin: Time, end: Time) -> Vec<u64> {
    let mut sent = vec![0; saturating.len()];
    let mut out = Counted::default();
    let mut now = begin;
    while now < end {
        for &(flow, size) in saturating {
            for _ in 0..2 {
                cbq.enqueue(Packet { arrived: now, ..Packet::new(0, FlowId(flow), size) }, now, &mut out);
            }
        }
        out.drops.clear();
        if let Some(packet) = cbq.dequeue(now, &mut out) {
            let which = saturating.iter().position(|(flow, _)| *flow == packet.flow.0);
            sent[which.expect("a flow of the test")] += u64::from(packet.wire_bytes);
            now += Span::from_nanos(u64::from(packet.wire_bytes) * 8);
        } else {
            let ready = cbq.ready_at(now).expect("packets wait");
            assert!(ready > now, "what is ready goes");
            now = ready;
        }
    }
    sent
}

fn second(n: u64) -> Time {
    Time::ZERO + Span::from_secs(n)
}

/// Sends all of `arrivals`, waiting wherever the discipline says so.
fn drive_held_back(cbq: &mut Cbq, arrivals: &[Arrival]) -> (usize, usize) {
    let mut out = Counted::default();
    let (mut now, mut free_at, mut sent) = (Time::ZERO, Time::ZERO, 0);
    let mut next = arrivals.iter().peekable();
    loop {
        let arrives = next.peek().map(|(gap, ..)| now + Span::from_nanos(*gap));
        let goes = cbq.ready_at(free_at);
        assert_eq!(goes.is_none(), cbq.backlog().is_empty());
        match (arrives, goes) {
            (Some(at), _) if goes.is_none_or(|goes| at < goes.max(now)) => {
                let &(_, flow, size) = next.next().expect("peeked");
                now = at;
                free_at = free_at.max(now);
                cbq.enqueue(Packet { arrived: now, ..Packet::new(0, FlowId(flow), size) }, now, &mut out);
                // The port asks at every arrival that finds it free.
                if let Some(packet) = cbq.dequeue(free_at, &mut out) {
                    sent += 1;
                    free_at += Span::from_nanos(u64::from(packet.wire_bytes) * 8);
                }
            }
            (_, Some(at)) => {
                let packet = cbq.dequeue(at, &mut out).expect("it said that a packet may go");
                sent += 1;
                now = now.max(at);
                free_at = at + Span::from_nanos(u64::from(packet.wire_bytes) * 8);
            }
            (_, None) => return (sent, out.drops.len()),
        }
    }
}

fn sharing() -> impl Strategy<Value = LinkSharing> {
    prop_oneof![Just(LinkSharing::AncestorOnly), Just(LinkSharing::TopLevel), Just(LinkSharing::Formal)]
}

proptest! {
    #[test]
    fn a_link_whose_classes_may_borrow_never_idles(
        vector in arrivals(4, 300), sharing in sharing(), priorities in prop::collection::vec(0u8..4, 3)
    ) {
        let shares = [0.1, 0.3, 0.6];
        let leaves = (0..3).map(|n| leaf(shares[n], priorities[n], true, n as u32));
        let mut cbq = flat(sharing, 1.0, leaves).build(&context());
        drive(&mut cbq, &vector, 8, |waiting| assert!(waiting.packets <= 60));
    }

    #[test]
    fn every_packet_is_sent_or_dropped_and_what_is_ready_goes(
        vector in arrivals(5, 300),
        sharing in sharing(),
        borrow in prop::collection::vec(any::<bool>(), 5),
        parents in prop::collection::vec(0usize..4, 5),
    ) {
        // A random tree of up to three levels below the root.
        let mut classes = vec![root(1.0)];
        for (n, (&borrows, &parent)) in borrow.iter().zip(&parents).enumerate() {
            let parent = Some(parent.min(n));
            classes.push(TreeClass { parent, ..leaf(0.2, n as u8 % 3, borrows, n as u32) });
        }
        for parent in parents.iter().zip(0..).map(|(&parent, n)| parent.min(n)) {
            classes[parent].keys.clear();
        }
        let default = classes.len() - 1;
        let config =
            Tree { classify: Classification::Flow, classes, default, sharing, rate: None, max_packet: 1500 };
        let (sent, dropped) = drive_held_back(&mut config.build(&context()), &vector);
        prop_assert_eq!(sent + dropped, vector.len());
    }
}

#[test]
fn a_class_that_may_not_borrow_sends_at_exactly_its_rate_on_an_idle_link() {
    let mut cbq = flat(LinkSharing::AncestorOnly, 1.0, [leaf(0.3, 1, false, 0)]).build(&context());
    // 300 Mbit/s are 37,500,000 bytes per second.
    assert_eq!(saturated(&mut cbq, &[(0, 1500)], Time::ZERO, second(1)), [37_500_000]);
}

#[test]
fn a_class_alone_takes_all_of_the_link_if_it_may_borrow() {
    for sharing in [LinkSharing::AncestorOnly, LinkSharing::TopLevel, LinkSharing::Formal] {
        let mut cbq = flat(sharing, 1.0, [leaf(0.2, 1, true, 0), leaf(0.8, 1, true, 1)]).build(&context());
        assert_eq!(saturated(&mut cbq, &[(0, 1000)], Time::ZERO, second(1)), [125_000_000]);
    }
}

#[test]
fn overloaded_classes_get_their_shares_to_one_percent_of_the_link() {
    // ns-2 gives 0.030694, 0.323093 and 0.646240 here (1.5 Mbit/s, three constant sources, 100 s): its estimator forgives a
    // class that is held back the debt of earlier bursts, so that small shares get a little more.
    for sharing in [LinkSharing::AncestorOnly, LinkSharing::TopLevel, LinkSharing::Formal] {
        let leaves = [leaf(0.03, 1, true, 0), leaf(0.32, 1, true, 1), leaf(0.65, 2, true, 2)];
        let mut cbq = flat(sharing, 0.98, leaves).build(&context());
        let sent = saturated(&mut cbq, &[(0, 190), (1, 500), (2, 1000)], Time::ZERO, second(10));
        for (bytes, (share, of_ns)) in
            sent.iter().zip([(0.03, 0.030_694), (0.32, 0.323_093), (0.65, 0.646_24)])
        {
            let part = *bytes as f64 / 1.25e9;
            assert!((part - share).abs() < 0.01, "{sharing:?}: {part} of {share}");
            assert!((part / of_ns - 1.0).abs() < 0.001, "{sharing:?}: {part}, ns-2 has {of_ns}");
        }
    }
}

#[test]
fn the_more_urgent_class_borrows_first() {
    let leaves = [leaf(0.2, 0, true, 0), leaf(0.2, 1, true, 1), leaf(0.6, 1, true, 2)];
    let mut cbq = flat(LinkSharing::Formal, 1.0, leaves).build(&context());
    // Class 2 is silent: its 60 % go to the urgent class, the other keeps its own.
    let sent = saturated(&mut cbq, &[(0, 1000), (1, 1000)], Time::ZERO, second(1));
    assert!((sent[1] as f64 / 25e6 - 1.0).abs() < 0.02, "{sent:?}");
    assert!((sent[0] as f64 / 100e6 - 1.0).abs() < 0.02, "{sent:?}");
}

#[test]
fn weights_of_one_priority_share_what_is_lent() {
    let leaves = [leaf(0.1, 1, true, 0), leaf(0.2, 1, true, 1), leaf(0.7, 1, true, 2)];
    let mut cbq = flat(LinkSharing::AncestorOnly, 1.0, leaves).build(&context());
    let sent = saturated(&mut cbq, &[(0, 100), (1, 100)], Time::ZERO, second(1));
    let ratio = sent[1] as f64 / sent[0] as f64;
    assert!((ratio - 2.0).abs() < 0.05, "{sent:?}");
}

#[test]
fn a_held_back_class_follows_the_rate_of_the_link_at_once() {
    let mut cbq = flat(LinkSharing::AncestorOnly, 1.0, [leaf(0.25, 1, false, 0)]).build(&context());
    let before = saturated(&mut cbq, &[(0, 1000)], Time::ZERO, second(1));
    assert_eq!(before, [31_250_000]);
    cbq.set_link_rate(BitRate::from_mbps(500), second(1));
    let half = saturated(&mut cbq, &[(0, 1000)], second(1), second(2));
    assert_eq!(half, [15_625_000]);
    cbq.set_link_rate(GIGABIT, second(2));
    assert_eq!(saturated(&mut cbq, &[(0, 1000)], second(2), second(3)), [31_250_000]);
}

#[test]
fn the_rate_that_is_shared_may_differ_from_the_links() {
    let mut config = flat(LinkSharing::AncestorOnly, 1.0, [leaf(0.25, 1, false, 0)]);
    config.rate = Some(BitRate::from_mbps(200));
    let mut cbq = config.build(&context());
    assert_eq!(saturated(&mut cbq, &[(0, 1000)], Time::ZERO, second(1)), [6_250_000]);
    cbq.set_link_rate(BitRate::from_mbps(2000), second(1));
    assert_eq!(saturated(&mut cbq, &[(0, 1000)], second(1), second(2)), [6_250_000]);
}

#[test]
fn an_agencys_idle_class_lends_to_its_own_agency_first() {
    // Floyd & Jacobson 1995, figure 1: two agencies of one link.
    for sharing in [LinkSharing::TopLevel, LinkSharing::Formal] {
        let agency = |share| TreeClass { parent: Some(0), share, priority: 8, ..TreeClass::default() };
        let of = |parent, config: TreeClass| TreeClass { parent: Some(parent), ..config };
        let classes = vec![
            root(1.0),
            agency(0.7),
            agency(0.3),
            of(1, leaf(0.3, 1, true, 0)),
            of(1, leaf(0.4, 1, true, 1)),
            of(2, leaf(0.3, 1, true, 2)),
        ];
        let config = Tree {
            classify: Classification::Flow,
            classes,
            default: 3,
            sharing,
            rate: None,
            max_packet: 1000,
        };
        let sent = saturated(&mut config.build(&context()), &[(0, 1000), (2, 1000)], Time::ZERO, second(2));
        let part = sent[0] as f64 / 250e6;
        assert!((part - 0.7).abs() < 0.02, "{sharing:?}: {part} of 0.7");
    }
}

#[test]
fn packets_find_their_class_by_key_and_the_rest_the_default() {
    let classes =
        vec![root(1.0), TreeClass { keys: vec![46, 10], ..leaf(0.5, 1, true, 0) }, leaf(0.5, 1, true, 7)];
    let config = Tree {
        classify: Classification::Dscp,
        classes,
        default: 2,
        ..flat(LinkSharing::AncestorOnly, 1.0, [])
    };
    let mut cbq = config.build(&context());
    for (dscp, in_port) in [(46, 0), (10, 3), (7, 1), (0, 1), (63, 1)] {
        let dscp = Dscp::new(dscp);
        let packet = Packet { dscp, in_port, ..Packet::new(0, FlowId(0), 100) };
        cbq.enqueue(packet, Time::ZERO, &mut Counted::default());
    }
    let value = |of: &Cbq, name| of.variable(name);
    assert_eq!(value(&cbq, "classes.1.queue_packets"), Some(2.0));
    assert_eq!(value(&cbq, "classes.2.queue_bytes"), Some(300.0));
    assert_eq!(value(&cbq, "classes.2.ports.1.arrived_packets"), Some(3.0));
    assert_eq!(value(&cbq, "classes.1.ports.3.arrived_bytes"), Some(100.0));
    assert_eq!(value(&cbq, "active_queues"), Some(2.0));
    for absent in
        ["classes.9.sent_bytes", "classes.1.ports.4.sent_bytes", "classes.x", "classes.1.sent_moles"]
    {
        assert_eq!(value(&cbq, absent), None);
    }
    cbq.restart_statistics();
    assert_eq!(value(&cbq, "classes.2.ports.1.arrived_packets"), Some(0.0));
}

#[test]
fn each_class_counts_what_became_of_its_packets() {
    let red = ManagerConfig::Red(RedConfig { limit: Limit::Bytes(Bytes::new(5000)), ..RedConfig::default() });
    let classes = [leaf(0.5, 1, true, 0), TreeClass { manager: red, ..leaf(0.5, 1, false, 1) }];
    let mut cbq = flat(LinkSharing::AncestorOnly, 1.0, classes).build(&context());
    let mut out = Counted::default();
    for slot in 0..60 {
        cbq.enqueue(Packet::new(slot, FlowId(slot % 2), 1000), Time::ZERO, &mut out);
    }
    let mut sent = 0;
    while cbq.dequeue(Time::ZERO, &mut out).is_some() {
        sent += 1;
    }
    let held = cbq.backlog().packets;
    assert!(held > 0, "a class that may not borrow is held back");
    cbq.purge(Time::ZERO, DropReason::LinkDown, &mut out);
    assert_eq!(cbq.backlog(), Backlog::EMPTY);
    let sum = |what| {
        (1..3)
            .map(|n| cbq.variable(&alloc::format!("classes.{n}.{what}_packets")))
            .map(Option::unwrap)
            .sum::<f64>()
    };
    assert_eq!(
        (sum("arrived"), sum("sent"), sum("dropped")),
        (60.0, f64::from(sent), 60.0 - f64::from(sent))
    );
    assert_eq!(out.drops.len(), 60 - sent as usize);
    assert!(cbq.variable("classes.2.average_queue_packets").is_some(), "a manager's variable");
}

#[test]
fn a_link_that_stands_still_keeps_what_is_owed() {
    let classes = [leaf(0.5, 1, false, 0), leaf(0.5, 1, false, 1)];
    let mut cbq = flat(LinkSharing::AncestorOnly, 1.0, classes).build(&context());
    let mut out = Counted::default();
    let mut now = Time::ZERO;
    for _ in 0..10 {
        cbq.enqueue(Packet { arrived: now, ..Packet::new(0, FlowId(0), 1000) }, now, &mut out);
    }
    while cbq.dequeue(now, &mut out).is_some() {}
    let owed_until = cbq.ready_at(now).unwrap();
    assert!(owed_until > now, "a class that may not borrow is held back");
    cbq.set_link_rate(BitRate::ZERO, now);
    assert!(cbq.ready_at(now).unwrap() > now + Span::from_secs(1000));
    assert!(cbq.dequeue(now, &mut out).is_none());
    now += Span::from_nanos(1);
    cbq.set_link_rate(GIGABIT, now);
    let shifted = cbq.ready_at(now).unwrap().since(owed_until);
    assert!(shifted <= Span::from_nanos(1), "the debt in bytes is the same: {shifted}");
}

#[test]
fn a_debt_beyond_the_end_of_time_is_never_due() {
    assert_eq!(time_not_before(-5), Time::ZERO);
    assert_eq!(time_not_before(NO_BOUND), Time::MAX);
}

#[test]
fn a_share_of_less_than_a_byte_in_a_round_has_its_turn() {
    for &sharing in LinkSharing::ALL {
        let leaves = [leaf(0.9, 1, true, 0), leaf(0.0001, 1, true, 1)];
        let mut cbq = flat(sharing, 1.0, leaves).build(&context());
        let sent = saturated(&mut cbq, &[(0, 1000), (1, 1000)], Time::ZERO, second(2));
        // 25 kB are its part of two seconds.
        assert!(sent[1] >= 12_000, "{sharing:?}: {sent:?}");
    }
}

#[test]
fn a_manager_that_was_emptied_from_outside_has_its_timer() {
    let manager = ManagerConfig::Blue(BlueConfig { limit: Limit::Packets(5), ..BlueConfig::default() });
    let mut cbq = flat(LinkSharing::AncestorOnly, 1.0, [TreeClass { manager, ..leaf(0.9, 1, true, 0) }])
        .build(&context());
    let mut out = Counted::default();
    for number in 0..200_u64 {
        let now = Time::ZERO + Span::from_millis(20 * number);
        cbq.enqueue(Packet { arrived: now, ..Packet::new(0, FlowId(0), 1000) }, now, &mut out);
    }
    let now = second(5);
    cbq.purge(now, DropReason::LinkDown, &mut out);
    assert!(cbq.timer_at().is_some_and(|at| at > now), "its probability falls while nothing waits");
}

use alloc::vec::Vec;

use proptest::prelude::*;
use tidegate_packet::{Ecn, SackBlock, SackBlocks, TcpFlags, TcpHeader};
use tidegate_units::{Span, Time};

use super::segments::{Segments, State};
use crate::tcp::config::{RtoConfig, TcpConfig, Variant};
use crate::tcp::congestion::{CongestionControlConfig, FixedConfig};
use crate::tcp::pacing::Pacing;
use crate::tcp::ranges::RangeSet;
use crate::tcp::sender::TcpSender;

const MSS: u64 = 1460;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// With a time-out of 1.1 s at a round trip of 100 ms, so that the probe is the first.
fn config() -> TcpConfig {
    let base = TcpConfig::modern(Variant::Sack);
    TcpConfig { rack: true, rto: RtoConfig { min: Span::from_secs(1), ..base.rto }, ..base }
}

/// A window of so many segments, whatever happens.
fn fixed(window: u32) -> TcpConfig {
    let control = FixedConfig { segments: window };
    TcpConfig { control: CongestionControlConfig::Fixed(control), ..config() }
}

/// An acknowledgment of all segments before `number`, with the segments `blocks` held.
fn ack(number: u64, blocks: &[(u64, u64)]) -> TcpHeader {
    let mut sack = SackBlocks::default();
    for (from, to) in blocks {
        sack.push(SackBlock { offset: ((from - number) * MSS) as u32, length: ((to - from) * MSS) as u32 });
    }
    TcpHeader {
        acknowledgment: number * MSS,
        window_bytes: 4 << 20,
        flags: TcpFlags::ACK,
        sack,
        ..TcpHeader::default()
    }
}

/// The numbers of the segments that go out now.
fn sent(sender: &mut TcpSender, now: Time) -> Vec<u64> {
    core::iter::from_fn(|| sender.poll_transmit(now)).map(|transmit| transmit.header.sequence / MSS).collect()
}

/// Ten segments are under way since zero, and the first has been acknowledged after 100 ms, which sent one more.
fn under_way() -> TcpSender {
    let mut sender = TcpSender::new(&fixed(10));
    sender.set_unlimited();
    assert_eq!(sent(&mut sender, at(0)), (0..10).collect::<Vec<_>>());
    sender.on_ack(&ack(1, &[]), at(100));
    assert_eq!(sent(&mut sender, at(100)), [10]);
    sender
}

#[test]
fn three_held_segments_show_the_loss_of_the_one_before_them_at_once() {
    let mut sender = under_way();
    sender.on_ack(&ack(1, &[(2, 3)]), at(101));
    sender.on_ack(&ack(1, &[(2, 4)]), at(102));
    assert_eq!(sent(&mut sender, at(102)), [11, 12], "only what the window allows");
    sender.on_ack(&ack(1, &[(2, 5)]), at(103));
    assert_eq!(sent(&mut sender, at(103)).first(), Some(&1));
    assert_eq!(sender.counters().fast_retransmits, 1);
}

#[test]
fn a_hole_behind_two_held_segments_is_lost_a_quarter_of_the_least_round_trip_after_its_round_trip() {
    let mut sender = under_way();
    sender.on_ack(&ack(1, &[(2, 4)]), at(104));
    assert_eq!(sent(&mut sender, at(104)), [11, 12]);
    // It was sent at zero; the segment that arrived last took 104 ms; the least round trip is 100 ms.
    assert_eq!(sender.timer_at(), Some(at(104 + 25)));
    sender.on_timer(at(129));
    assert_eq!(sent(&mut sender, at(129)).first(), Some(&1));
    assert_eq!((sender.counters().timeouts, sender.counters().fast_retransmits), (0, 1));
}

#[test]
fn where_reordering_was_seen_three_held_segments_are_no_loss_yet() {
    let mut sender = under_way();
    sender.on_ack(&ack(1, &[(2, 3)]), at(101));
    sender.on_ack(&ack(3, &[]), at(102));
    assert_eq!(sent(&mut sender, at(102)), [11, 12], "the first copy of 1 came late");
    sender.on_ack(&ack(3, &[(4, 7)]), at(103));
    assert_eq!(sent(&mut sender, at(103)), [13, 14, 15]);
    sender.on_ack(&ack(7, &[]), at(110));
    assert_eq!(sender.counters().retransmissions, 0);
    assert_eq!(sender.counters().fast_retransmits, 0);
}

#[test]
fn a_retransmission_that_is_lost_again_is_found_by_what_was_sent_after_it() {
    let mut sender = under_way();
    sender.on_ack(&ack(1, &[(2, 5)]), at(103));
    let repaired = sent(&mut sender, at(103));
    assert_eq!(repaired, [1, 11, 12, 13]);
    sender.on_ack(&ack(1, &[(2, 11)]), at(110));
    assert_eq!(sent(&mut sender, at(110)), (14..20).collect::<Vec<_>>());
    // 11 to 13 went out after the second copy of 1, and are here; it is not.
    sender.on_ack(&ack(1, &[(2, 14)]), at(203));
    assert_eq!(sent(&mut sender, at(203)).first(), Some(&1), "the third copy");
    assert_eq!((sender.counters().timeouts, sender.counters().fast_retransmits), (0, 2), "reduced once more");
}

/// What was sent in a recovery and is lost is a loss of another window (RFC 5681, section 4.3).
#[test]
fn what_a_recovery_leaves_lost_begins_the_next_one() {
    let mut sender = under_way();
    sender.on_ack(&ack(1, &[(2, 5)]), at(103));
    assert_eq!(sent(&mut sender, at(103)), [1, 11, 12, 13]);
    sender.on_ack(&ack(1, &[(2, 5), (6, 11)]), at(110));
    assert_eq!(sent(&mut sender, at(110)), [5, 14, 15, 16, 17, 18]);
    // 1 is repaired; 12 and 13 went out after 11 and are here.
    sender.on_ack(&ack(5, &[(6, 11), (12, 14)]), at(203));
    assert_eq!(sent(&mut sender, at(203)).first(), Some(&11));
    assert_eq!(sender.counters().fast_retransmits, 1);
    // What was under way when the recovery began is here.
    sender.on_ack(&ack(11, &[(12, 14)]), at(210));
    assert_eq!(sender.counters().fast_retransmits, 2);
    assert!(!sent(&mut sender, at(210)).contains(&11), "it has been sent again");
    sender.on_ack(&ack(19, &[]), at(303));
    assert_eq!(sender.counters().retransmissions, 3);
    assert_eq!((sender.counters().fast_retransmits, sender.counters().timeouts), (2, 0));
}

/// Segments of window and of threshold when a transfer of ten is over, of which the second was lost.
fn after_a_short_transfer(config: &TcpConfig) -> (f64, f64) {
    let mut sender = TcpSender::new(config);
    sender.on_app_data(10 * MSS);
    assert_eq!(sent(&mut sender, at(0)).len(), 10);
    // The first acknowledgment opens the window to eleven, and leaves nine under way.
    sender.on_ack(&ack(1, &[(2, 10)]), at(103));
    assert_eq!(sent(&mut sender, at(103)), [1]);
    sender.on_ack(&ack(10, &[]), at(203));
    let segments = |bytes: u64| bytes as f64 / MSS as f64;
    (segments(sender.cwnd_bytes()), segments(sender.ssthresh_bytes()))
}

#[test]
fn a_window_that_is_kept_is_there_for_the_next_transfer() {
    assert_eq!(after_a_short_transfer(&config()), (2.0, 4.5), "nothing is under way");
    assert_eq!(after_a_short_transfer(&TcpConfig { keep_window: true, ..config() }), (4.5, 4.5));
    let in_proportion = TcpConfig { keep_window: true, prr: true, ..config() };
    assert_eq!(after_a_short_transfer(&in_proportion), (4.5, 4.5));
}

#[test]
fn the_end_of_a_transfer_is_no_reason_to_reduce_further_where_the_window_is_reduced() {
    let of_window = TcpConfig { reduce_window: true, ..config() };
    assert_eq!(after_a_short_transfer(&of_window), (2.0, 5.5));
    assert_eq!(after_a_short_transfer(&TcpConfig { keep_window: true, ..of_window }), (5.5, 5.5));
}

#[test]
fn what_is_lost_again_reduces_once_more_or_not() {
    for reduce_once in [false, true] {
        let mut sender = TcpSender::new(&TcpConfig { reduce_once, ..config() });
        sender.set_unlimited();
        sent(&mut sender, at(0));
        sender.on_ack(&ack(1, &[(2, 5)]), at(103));
        assert_eq!(sent(&mut sender, at(103)), [1]);
        let reduced = sender.ssthresh_bytes();
        // Room for two more, which go out after the second copy of 1 and arrive; it does not.
        sender.on_ack(&ack(1, &[(2, 8)]), at(110));
        assert_eq!(sent(&mut sender, at(110)), [10]);
        sender.on_ack(&ack(1, &[(2, 11)]), at(210));
        assert_eq!(sent(&mut sender, at(210)).first(), Some(&1), "the third copy");
        let again = u64::from(!reduce_once);
        assert_eq!(sender.counters().fast_retransmits, 1 + again);
        assert_eq!(sender.ssthresh_bytes() < reduced, !reduce_once);
        // Nothing comes back.
        let before = sender.ssthresh_bytes();
        sender.on_timer(sender.timer_at().expect("the time-out"));
        assert_eq!(sender.counters().timeouts, 1);
        assert_eq!((sender.cwnd_bytes(), sender.ssthresh_bytes() < before), (MSS, !reduce_once));
        // Behind it, a second one without progress reduces no more in either case.
        let behind = sender.ssthresh_bytes();
        let next = sender.timer_at().expect("the next time-out");
        sent(&mut sender, next);
        sender.on_timer(next);
        assert_eq!((sender.counters().timeouts, sender.ssthresh_bytes()), (2, behind));
    }
}

#[test]
fn a_silent_tail_is_probed_after_two_round_trips_and_its_loss_reduces_the_window() {
    let mut sender = TcpSender::new(&config());
    sender.on_app_data(3 * MSS);
    sent(&mut sender, at(0));
    sender.on_ack(&ack(2, &[]), at(100));
    let window = sender.cwnd_bytes();
    // One segment is left, whose acknowledgment may wait for 200 ms.
    let probe_at = sender.timer_at().expect("a probe is planned");
    assert_eq!(probe_at, at(100 + 200 + 200));
    sender.on_timer(probe_at);
    assert_eq!(sent(&mut sender, probe_at), [2], "the last segment again");
    assert_eq!(sender.counters().timeouts, 0);
    sender.on_ack(&ack(3, &[]), at(600));
    assert_eq!(sender.counters().fast_retransmits, 0, "of one copy or the other");
    // No duplicate tells of a second copy: what follows shows that the first was lost.
    sender.on_app_data(2 * MSS);
    assert_eq!(sent(&mut sender, at(600)), [3, 4]);
    sender.on_ack(&ack(5, &[]), at(700));
    assert_eq!(sender.counters().fast_retransmits, 1);
    assert!(sender.cwnd_bytes() < window);
}

#[test]
fn a_probe_comes_in_the_place_of_an_earlier_time_out() {
    let mut sender = TcpSender::new(&TcpConfig { rto: TcpConfig::modern(Variant::Sack).rto, ..config() });
    sender.on_app_data(3 * MSS);
    sent(&mut sender, at(0));
    sender.on_ack(&ack(2, &[]), at(100));
    assert_eq!(sender.timer_at(), Some(at(100 + 300)));
    sender.on_timer(at(400));
    assert_eq!((sent(&mut sender, at(400)).as_slice(), sender.counters().timeouts), ([2].as_slice(), 0));
    assert_eq!(sender.timer_at(), Some(at(400 + 300)), "then the time-out");
    sender.on_timer(at(700));
    assert_eq!(sender.counters().timeouts, 1);
}

#[test]
fn a_probe_that_was_not_needed_reduces_nothing() {
    let mut sender = TcpSender::new(&config());
    sender.on_app_data(3 * MSS);
    sent(&mut sender, at(0));
    sender.on_ack(&ack(2, &[]), at(100));
    let probe_at = sender.timer_at().expect("a probe is planned");
    sender.on_timer(probe_at);
    sent(&mut sender, probe_at);
    sender.on_ack(&ack(3, &[]), at(510));
    sender.on_app_data(2 * MSS);
    sent(&mut sender, at(590));
    sender.on_ack(&ack(3, &[]), at(600));
    sender.on_ack(&ack(5, &[]), at(690));
    assert_eq!(sender.counters().fast_retransmits, 0);
}

#[test]
fn new_data_is_the_probe_where_there_is_some() {
    let mut sender = under_way();
    let probe_at = sender.timer_at().expect("a probe is planned");
    assert_eq!(probe_at, at(100 + 200));
    sender.on_timer(probe_at);
    assert_eq!(sent(&mut sender, probe_at), [11]);
}

#[test]
fn a_time_out_loses_the_first_segment_and_what_is_overdue_and_not_what_went_out_just_now() {
    let mut sender = TcpSender::new(&config());
    sender.on_app_data(2 * MSS);
    sent(&mut sender, at(0));
    sender.on_ack(&ack(1, &[]), at(100));
    let probe_at = sender.timer_at().expect("a probe is planned");
    sender.on_timer(probe_at);
    assert_eq!(sent(&mut sender, probe_at), [1], "there is nothing new");
    let rto_at = at(500 + 1100);
    assert_eq!(sender.timer_at(), Some(rto_at), "the time-out follows");
    sender.on_app_data(MSS);
    assert_eq!(sent(&mut sender, at(1599)), [2]);
    sender.on_timer(rto_at);
    assert_eq!(sent(&mut sender, rto_at), [1]);
    assert_eq!(sender.counters().timeouts, 1);
    assert_eq!(sender.in_flight_bytes(), 2 * MSS, "the third is still believed to be under way");
}

#[test]
fn what_the_receiver_threw_away_is_sent_again() {
    let mut sender = under_way();
    sender.on_ack(&ack(1, &[(2, 11)]), at(103));
    sent(&mut sender, at(103));
    // All of the hole arrives, and the receiver says no word of what it held.
    sender.on_ack(&ack(2, &[]), at(203));
    let mut now = at(203);
    for _ in 0..20 {
        now = sender.timer_at().expect("something is under way").max(now);
        sender.on_timer(now);
        if sent(&mut sender, now).contains(&2) {
            return;
        }
    }
    panic!("segment 2 is never sent again");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    New,
    Again(usize),
    Held(usize, usize),
    Acknowledged(usize),
    Lost(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::New),
        1 => (0usize..40).prop_map(Step::Again),
        2 => (0usize..40, 1usize..6).prop_map(|(from, many)| Step::Held(from, from + many)),
        1 => (0usize..40).prop_map(Step::Acknowledged),
        1 => (0usize..40).prop_map(Step::Lost),
    ]
}

/// The same, with one entry for each segment ever sent and no chain.
#[derive(Default)]
struct Model {
    /// State and how many had gone out when it last did.
    segments: Vec<(State, u64)>,
    gone: usize,
    sent: u64,
}

proptest! {
    #[test]
    fn segments_are_where_a_list_of_all_of_them_says(steps in prop::collection::vec(step(), 0..120)) {
        let mut segments = Segments::new(RangeSet::new(1000), 1000);
        let mut model = Model::default();
        let bytes = |number: usize| number as u64 * 100;
        for step in steps {
            let known = model.segments.len();
            match step {
                Step::New => {
                    model.segments.push((State::UnderWay, model.sent));
                    segments.on_sent(bytes(known), 100, at(model.sent));
                    model.sent += 1;
                }
                Step::Again(number) if number >= model.gone && number < known => {
                    if model.segments[number].0 != State::Held {
                        model.segments[number] = (State::UnderWay, model.sent);
                    }
                    segments.on_sent(bytes(number), 100, at(model.sent));
                    model.sent += 1;
                }
                Step::Held(from, to) if from > model.gone && to <= known => {
                    let mut news = Vec::new();
                    segments.hold(bytes(from) - 50, bytes(to), |segment| news.push(segment.start));
                    let expected: Vec<u64> =
                        (from..to).filter(|&s| model.segments[s].0 != State::Held).map(bytes).collect();
                    prop_assert_eq!(news, expected);
                    model.segments[from..to].iter_mut().for_each(|segment| segment.0 = State::Held);
                }
                Step::Acknowledged(number) if number > model.gone && number <= known => {
                    let mut news = Vec::new();
                    segments.acknowledge(bytes(number), |segment| news.push(segment.start));
                    let expected: Vec<u64> =
                        (model.gone..number).filter(|&s| model.segments[s].0 != State::Held).map(bytes).collect();
                    prop_assert_eq!(news, expected);
                    model.gone = number;
                }
                Step::Lost(number)
                    if (model.gone..known).contains(&number) && model.segments[number].0 == State::UnderWay =>
                {
                    model.segments[number].0 = State::Lost;
                    // Numbers are places: none is skipped here.
                    segments.lose(number as u64);
                }
                _ => {}
            }
            let of = |state| {
                let of_model = &model.segments;
                (model.gone..of_model.len()).filter(move |&s| of_model[s].0 == state)
            };
            prop_assert_eq!(segments.under_way_bytes(), 100 * of(State::UnderWay).count() as u64);
            prop_assert_eq!(segments.held_count() as usize, of(State::Held).count());
            prop_assert_eq!(segments.held_bytes(), 100 * of(State::Held).count() as u64);
            prop_assert_eq!(segments.has_lost(), of(State::Lost).next().is_some());
            prop_assert_eq!(segments.first_lost().map(|lost| lost.start), of(State::Lost).next().map(bytes));
            let mut chain: Vec<usize> = of(State::UnderWay).collect();
            chain.sort_by_key(|&s| model.segments[s].1);
            let mut next = segments.oldest().map(|(number, segment)| (number, segment.start));
            for s in chain {
                prop_assert_eq!(next, Some((s as u64, bytes(s))));
                next = segments.later_than(s as u64).map(|(number, segment)| (number, segment.start));
            }
            prop_assert_eq!(next, None);
        }
    }
}

#[test]
fn ect_of_what_is_sent_again_is_that_of_other_recoveries() {
    let mut sender = TcpSender::new(&TcpConfig { ecn: true, ..fixed(10) });
    sender.set_unlimited();
    sent(&mut sender, at(0));
    sender.on_ack(&ack(1, &[]), at(100));
    sent(&mut sender, at(100));
    sender.on_ack(&ack(1, &[(2, 5)]), at(103));
    let first = sender.poll_transmit(at(103)).expect("the lost one");
    assert_eq!((first.header.sequence, first.ecn, first.retransmission), (MSS, Ecn::NotEct, true));
}

/// The round trip of a handshake is a measurement "since the start of the connection" (RFC 8985, section 7.3), of whoever answered, too.
#[test]
fn a_first_flight_that_is_lost_altogether_is_probed_if_the_handshake_was_measured() {
    let mut sender = TcpSender::new(&config());
    sender.on_syn_answered(at(0));
    sender.on_answer_heard(at(100));
    sender.on_app_data(3 * MSS);
    assert_eq!(sent(&mut sender, at(100)), [0, 1, 2]);
    assert_eq!(sender.timer_at(), Some(at(100 + 200)));
    sender.on_timer(at(300));
    assert_eq!(sent(&mut sender, at(300)), [2], "the last one again");
    // Of an answer that was sent twice nobody knows which one was heard: nothing was measured, and nothing is probed.
    let mut unsure = TcpSender::new(&config());
    unsure.on_syn_answered(at(0));
    unsure.on_syn_answered(at(50));
    unsure.on_answer_heard(at(100));
    assert_eq!(unsure.srtt(), None);
    unsure.on_app_data(3 * MSS);
    sent(&mut unsure, at(100));
    assert_eq!(unsure.timer_at(), Some(at(1100)));
    unsure.on_timer(at(1100));
    assert_eq!(sent(&mut unsure, at(1100)), [] as [u64; 0]);
}

/// Ten segments are lost but for the first four; the probe, a short one, comes back sooner than any long one. That is no sooner than the
/// handshake, so what it tells counts: all before it are lost.
#[test]
fn a_short_probe_tells_of_losses_if_the_handshake_took_no_longer() {
    let lost = |handshake: bool| {
        let mut sender = TcpSender::new(&fixed(10));
        if handshake {
            sender.on_syn_answered(at(0));
            sender.on_answer_heard(at(90));
        }
        sender.on_app_data(9 * MSS + 100);
        assert_eq!(sent(&mut sender, at(100)).len(), 10);
        sender.on_ack(&ack(4, &[]), at(200));
        let probe_at = sender.timer_at().expect("a probe is planned");
        sender.on_timer(probe_at);
        assert_eq!(sent(&mut sender, probe_at), [9]);
        let block = SackBlock { offset: (5 * MSS) as u32, length: 100 };
        let mut held = ack(4, &[]);
        held.sack.push(block);
        let heard = probe_at + Span::from_millis(95);
        sender.on_ack(&held, heard);
        if sender.timer_at().is_some_and(|timer| timer < heard + Span::from_millis(100)) {
            sender.on_timer(heard + Span::from_millis(100));
        }
        sent(&mut sender, heard + Span::from_millis(100))
    };
    assert_eq!(lost(true), [4, 5, 6, 7, 8]);
    assert_eq!(lost(false), [] as [u64; 0], "it may have been the first copy");
}

/// RFC 8985, section 5.1: `Segment.xmit_ts` is when it was transmitted. What is handed over ahead of its time waits in the queue until then.
#[test]
fn what_waits_for_its_time_in_the_queue_of_the_host_counts_from_when_it_leaves() {
    let mut sender = TcpSender::new(&TcpConfig { pacing: Pacing::Departure, ..fixed(200) });
    sender.on_app_data(205 * MSS);
    assert_eq!(sent(&mut sender, at(0)).len(), 200);
    sender.on_ack(&ack(5, &[]), at(60));
    // 1.2 windows in a round trip: a quarter of a millisecond apart.
    assert_eq!(sent(&mut sender, at(60)), [200, 201, 202, 203, 204]);
    assert_eq!(sender.departs_at(), at(61));
    assert_eq!(sender.timer_at(), Some(at(61 + 120)), "a probe, two round trips after the last one");
    sender.on_ack(&ack(200, &[]), at(61));
    // The last one took 60 ms. The one before it left a quarter of a millisecond earlier, and is given a quarter of the least round trip.
    sender.on_ack(&ack(200, &[(204, 205)]), at(121));
    assert_eq!(sender.timer_at(), Some(Time::ZERO + Span::from_micros(60_750 + 60_000 + 15_000)));
}

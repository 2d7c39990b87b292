//! TCP in the situations that the RFCs describe, one exchange of segments at a time.

use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, DctcpConfig};
use tidegate_mechanism::tcp::{FastRetransmitGuard, TcpConfig, TcpReceiver, TcpSender, Transmit, Variant};
use tidegate_packet::{Ecn, SackBlock, TcpFlags, TcpHeader};
use tidegate_units::{Span, Time};

const MSS: u64 = 1460;
/// No segment goes out.
const NOTHING: [i64; 0] = [];

/// A sender whose peer is the test: acknowledgments are given in segments.
struct Talk {
    sender: TcpSender,
    now: Time,
    window_bytes: u32,
}

impl Talk {
    fn with(config: &TcpConfig) -> Self {
        let mut talk = Self {
            sender: TcpSender::new(config),
            now: Time::ZERO,
            window_bytes: config.receive_window_bytes,
        };
        talk.sender.set_unlimited();
        talk
    }

    fn modern(variant: Variant) -> Self {
        Self::with(&TcpConfig { limited_transmit: false, ..TcpConfig::modern(variant) })
    }

    /// The numbers of the segments that go out now; retransmissions are negative.
    fn sent(&mut self) -> Vec<i64> {
        self.transmits()
            .iter()
            .map(|t| {
                let number = i64::try_from(t.header.sequence / MSS).unwrap();
                if t.retransmission { -number } else { number }
            })
            .collect()
    }

    fn transmits(&mut self) -> Vec<Transmit> {
        std::iter::from_fn(|| self.sender.poll_transmit(self.now)).collect()
    }

    fn header(&self, segments: u64) -> TcpHeader {
        TcpHeader {
            acknowledgment: segments * MSS,
            window_bytes: self.window_bytes,
            flags: TcpFlags::ACK,
            ..TcpHeader::default()
        }
    }

    /// Everything below segment `segments` has arrived; 10 ms pass before.
    fn ack(&mut self, segments: u64) -> Vec<i64> {
        self.sack(segments, &[])
    }

    /// The same, with blocks of segments `from..to`.
    fn sack(&mut self, segments: u64, blocks: &[(u64, u64)]) -> Vec<i64> {
        self.now += Span::from_millis(10);
        let mut header = self.header(segments);
        for &(from, to) in blocks {
            header.sack.push(SackBlock {
                offset: u32::try_from((from - segments) * MSS).unwrap(),
                length: u32::try_from((to - from) * MSS).unwrap(),
            });
        }
        self.sender.on_ack(&header, self.now);
        self.sent()
    }

    fn ack_with_echo(&mut self, segments: u64) -> Vec<Transmit> {
        self.now += Span::from_millis(10);
        let mut header = self.header(segments);
        header.flags = header.flags.union(TcpFlags::ECE);
        self.sender.on_ack(&header, self.now);
        self.transmits()
    }

    fn expire(&mut self) -> Vec<i64> {
        self.now = self.sender.timer_at().expect("a timer runs");
        self.sender.on_timer(self.now);
        self.sent()
    }

    fn cwnd(&self) -> u64 {
        self.sender.cwnd_bytes() / MSS
    }
    fn ssthresh(&self) -> u64 {
        self.sender.ssthresh_bytes() / MSS
    }
}

#[test]
fn rfc_5681_the_third_duplicate_retransmits_and_halves_and_later_ones_release_new_data() {
    let mut talk = Talk::modern(Variant::Reno);
    assert_eq!(talk.sent(), (0..10).collect::<Vec<_>>());
    assert_eq!(talk.ack(1), [10, 11]);
    // Segment 1 is lost; 2 to 11 arrive.
    assert_eq!(talk.ack(1), NOTHING);
    assert_eq!(talk.ack(1), NOTHING);
    assert_eq!(talk.ack(1), [-1]);
    assert_eq!((talk.cwnd(), talk.ssthresh()), (5, 5), "half of the flight of 11");
    // 11 are in flight; three have left. The window of 5 opens when more than six have.
    assert_eq!(talk.ack(1), NOTHING);
    assert_eq!(talk.ack(1), NOTHING);
    assert_eq!(talk.ack(1), NOTHING);
    assert_eq!(talk.ack(1), [12]);
    assert_eq!(talk.ack(1), [13]);
    assert_eq!(talk.ack(1), [14]);
    assert_eq!(talk.ack(1), [15]);
    // The acknowledgment of new data deflates: four in flight, five allowed.
    assert_eq!(talk.ack(12), [16]);
    assert_eq!(talk.cwnd(), 5);
    assert_eq!(talk.sender.counters().fast_retransmits, 1);
}

#[test]
fn rfc_5681_two_duplicates_are_reordering_and_change_nothing() {
    let mut talk = Talk::modern(Variant::Reno);
    talk.sent();
    talk.ack(1);
    let cwnd = talk.cwnd();
    assert_eq!((talk.ack(1), talk.ack(1)), (vec![], vec![]));
    assert!(!talk.ack(4).is_empty());
    assert!(talk.cwnd() > cwnd);
    assert_eq!(talk.sender.counters().retransmissions, 0);
}

#[test]
fn rfc_3042_the_first_two_duplicates_release_a_new_segment_each() {
    for variant in [Variant::Tahoe, Variant::Reno, Variant::NewReno, Variant::Sack] {
        let mut talk = Talk::with(&TcpConfig::modern(variant));
        talk.sent();
        talk.ack(1);
        assert_eq!(talk.sack(1, &[(2, 3)]), [12], "{variant:?}");
        assert_eq!(talk.sack(1, &[(2, 4)]), [13]);
        assert_eq!(talk.sack(1, &[(2, 5)]), [-1]);
        assert_eq!(talk.ssthresh(), 5, "half of 11: what limited transmit sent is not counted");
    }
}

#[test]
fn tahoe_begins_again_from_one_segment() {
    let mut talk = Talk::modern(Variant::Tahoe);
    talk.sent();
    talk.ack(1);
    talk.ack(1);
    talk.ack(1);
    assert_eq!(talk.ack(1), [-1]);
    assert_eq!((talk.cwnd(), talk.ssthresh()), (1, 5));
    assert_eq!(talk.ack(1), NOTHING, "duplicates inflate nothing");
    assert_eq!(talk.ack(2), [-2, -3], "what followed the loss is sent again, in slow start");
    assert_eq!(talk.ack(12), [12, 13, 14, 15], "and what the receiver had is skipped");
}

#[test]
fn rfc_6582_a_partial_acknowledgment_retransmits_the_next_hole_and_stays_in_recovery() {
    let mut talk = Talk::modern(Variant::NewReno);
    talk.sent();
    talk.ack(1);
    // Lost: 1, 4 and 8. Eight segments arrive out of order.
    assert_eq!([talk.ack(1), talk.ack(1), talk.ack(1)].concat(), [-1]);
    let (cwnd, ssthresh) = (talk.cwnd(), talk.ssthresh());
    assert_eq!((cwnd, ssthresh), (5, 5));
    assert_eq!([talk.ack(1), talk.ack(1), talk.ack(1), talk.ack(1), talk.ack(1)].concat(), [12, 13]);
    assert_eq!(talk.ack(4), [-4, 14], "one hole each round trip, and one new segment for the inflation kept");
    assert_eq!(talk.ack(8)[0], -8);
    assert_eq!(talk.sender.counters().fast_retransmits, 1, "one recovery, one reduction");
    let flight_left = 15 - 12;
    let released = talk.ack(12);
    assert!(!released.is_empty());
    assert!(talk.cwnd() <= flight_left + 2, "no burst out of recovery");
    assert_eq!(talk.ssthresh(), 5);
    assert_eq!((talk.ack(12), talk.ack(12)), (vec![], vec![]));
}

#[test]
fn rfc_6582_only_the_first_partial_acknowledgment_restarts_the_timer() {
    let mut talk = Talk::modern(Variant::NewReno);
    talk.sent();
    talk.ack(1);
    for _ in 0..3 {
        talk.ack(1);
    }
    let entered = talk.sender.timer_at();
    talk.ack(4);
    let first = talk.sender.timer_at();
    talk.ack(8);
    assert!(first > entered);
    assert_eq!(talk.sender.timer_at(), first);
}

#[test]
fn rfc_6582_after_a_timeout_duplicates_of_old_data_start_no_recovery() {
    for variant in [Variant::Reno, Variant::NewReno, Variant::Tahoe] {
        let mut talk = Talk::modern(variant);
        talk.sent();
        talk.ack(1);
        assert_eq!(talk.expire(), [-1]);
        talk.ack(2);
        for _ in 0..6 {
            talk.ack(2);
        }
        assert_eq!(talk.sender.counters().fast_retransmits, 0, "{variant:?}");
        assert_eq!(talk.sender.counters().timeouts, 1);
    }
}

#[test]
fn rfc_6675_holes_go_first_then_new_data_as_the_pipe_drains() {
    let mut talk = Talk::modern(Variant::Sack);
    talk.sent();
    assert_eq!(talk.ack(1), [10, 11]);
    // Lost: 1, 3 and 5.
    assert_eq!(talk.sack(1, &[(2, 3)]), NOTHING);
    assert_eq!(talk.sack(1, &[(4, 5), (2, 3)]), NOTHING);
    // The third range above makes 1 lost; three is not yet (two ranges above it).
    assert_eq!(talk.sack(1, &[(6, 7), (4, 5), (2, 3)]), [-1]);
    assert_eq!((talk.cwnd(), talk.ssthresh()), (5, 5));
    // Two more: 3 is lost now. Pipe: 1 again, 5, and 8 to 11.
    assert_eq!(talk.sack(1, &[(6, 8), (4, 5), (2, 3)]), NOTHING);
    assert_eq!(talk.sack(1, &[(6, 9), (4, 5), (2, 3)]), [-3], "the pipe has room for one");
    assert_eq!(talk.sack(1, &[(6, 10), (4, 5), (2, 3)]), [-5]);
    assert_eq!(talk.sack(1, &[(6, 11), (4, 5), (2, 3)]), [12], "no hole left: new data");
    assert_eq!(talk.sack(1, &[(6, 12), (4, 5), (2, 3)]), [13]);
    assert_eq!(talk.sack(3, &[(6, 12), (4, 5)]), [14], "the first hole is filled");
    assert_eq!(talk.sack(5, &[(6, 12)]), [15]);
    assert_eq!(talk.ack(12), [16]);
    assert_eq!(talk.cwnd(), 5);
    assert_eq!(talk.sender.counters().fast_retransmits, 1);
    assert_eq!(talk.sender.counters().retransmissions, 3);
}

#[test]
fn rfc_6675_bytes_beyond_two_segments_show_a_loss_before_three_duplicates() {
    let mut talk = Talk::modern(Variant::Sack);
    talk.sent();
    talk.ack(1);
    assert_eq!(talk.sack(1, &[(2, 5)]), [-1], "three segments in one block, as after lost acknowledgments");
}

#[test]
fn rfc_6675_one_rescue_retransmission_spares_the_timer_for_a_lost_tail() {
    let config = TcpConfig { limited_transmit: false, ..TcpConfig::modern(Variant::Sack) };
    let mut talk = Talk::with(&config);
    talk.sender.pause(talk.now);
    talk.sender.on_app_data(10 * MSS);
    talk.sent();
    // Lost: 1, 8 and 9. There is no new data.
    assert_eq!(talk.ack(1), NOTHING);
    assert_eq!(talk.sack(1, &[(2, 4)]), NOTHING);
    assert_eq!(talk.sack(1, &[(2, 5)]), [-1]);
    let later = [talk.sack(1, &[(2, 6)]), talk.sack(1, &[(2, 7)]), talk.sack(1, &[(2, 8)])].concat();
    assert_eq!(later, NOTHING, "section 5, step (4.3): not before the retransmission has arrived");
    assert_eq!(talk.ack(8), [-9], "the highest outstanding segment, once");
    assert_eq!(talk.sack(8, &[(9, 10)]), [-8], "and what it shows to be missing");
    assert_eq!(talk.sender.counters().timeouts, 0);
}

#[test]
fn rfc_6675_the_rescue_retransmission_reaches_what_was_sent_in_recovery() {
    let mut talk = Talk::modern(Variant::Sack);
    talk.sender.pause(talk.now);
    talk.sender.on_app_data(14 * MSS);
    talk.sent();
    assert_eq!(talk.ack(1), [10, 11]);
    // Lost: 1, 11 and 13. The recovery begins with 11 as the highest segment sent.
    assert_eq!(talk.sack(1, &[(2, 5)]), [-1]);
    assert_eq!(talk.sack(1, &[(2, 9)]), [12]);
    assert_eq!(talk.sack(1, &[(2, 10)]), [13], "the last there is");
    assert_eq!(talk.sack(1, &[(2, 11)]), NOTHING);
    assert_eq!(talk.sack(1, &[(12, 13), (2, 11)]), [-11], "rule (3)");
    assert_eq!(talk.sack(11, &[(12, 13)]), [-13], "rule (4): the highest outstanding segment");
}

#[test]
fn rfc_6675_an_acknowledgment_that_also_sacks_new_data_is_the_first_duplicate() {
    let mut talk = Talk::modern(Variant::Sack);
    talk.sent();
    // Small pieces: their bytes do not show a loss before the third duplicate does.
    for length in [500, 1000, 1500] {
        assert_eq!(talk.sender.counters().fast_retransmits, 0);
        talk.now += Span::from_millis(10);
        let mut header = talk.header(1);
        header.sack.push(SackBlock { offset: u32::try_from(MSS).unwrap(), length });
        talk.sender.on_ack(&header, talk.now);
    }
    assert_eq!(talk.sender.counters().fast_retransmits, 1);
}

#[test]
fn rfc_6675_losses_of_the_next_window_begin_a_new_recovery_at_once() {
    let mut talk = Talk::modern(Variant::Sack);
    talk.sent();
    talk.ack(1);
    talk.sack(1, &[(2, 5)]);
    assert_eq!(talk.sack(1, &[(2, 11)])[0], 12);
    talk.sack(1, &[(2, 12)]);
    for last in [14, 15, 16, 17] {
        talk.sack(1, &[(13, last), (2, 12)]);
    }
    assert_eq!(talk.sender.counters().fast_retransmits, 1);
    // The retransmission of 1 arrives late; 12 is known to be lost: recovery ends and begins.
    talk.sack(12, &[(13, 17)]);
    assert_eq!(talk.sender.counters().fast_retransmits, 2);
}

#[test]
fn rfc_6298_each_expiry_doubles_the_wait_and_karn_ignores_retransmitted_segments() {
    let mut talk = Talk::modern(Variant::NewReno);
    talk.sent();
    talk.ack(1);
    let rto = talk.sender.rto();
    assert_eq!(rto, Span::from_millis(210), "srtt 10 ms, and what the bound adds");
    for doubled in [2, 4, 8] {
        assert_eq!(talk.expire(), [-1]);
        assert_eq!(talk.sender.rto(), rto * doubled);
    }
    let srtt = talk.sender.srtt();
    assert_eq!(talk.ack(2), [-2, -3]);
    assert_eq!((talk.sender.srtt(), talk.sender.rto()), (srtt, rto * 8), "no sample, so the backoff stays");
    talk.ack(12);
    assert_eq!(talk.sender.rto(), rto * 8);
    talk.ack(13);
    assert_eq!(talk.sender.rto(), rto, "a segment sent once ends it");
}

#[test]
fn rfc_6298_new_data_that_is_sacked_is_a_sample_and_ends_the_back_off() {
    let mut talk = Talk::modern(Variant::Sack);
    talk.sent();
    talk.ack(1);
    let rto = talk.sender.rto();
    (0..2).for_each(|_| assert_eq!(talk.expire(), [-1]));
    (2..=6).for_each(|n| drop(talk.ack(n)));
    let sent = talk.sack(9, &[(10, 12)]);
    assert!(sent.contains(&12), "new data goes behind the hole at 9, which is lost again: {sent:?}");
    assert_eq!(talk.sender.rto(), rto * 4, "no sample from what was sent before the time-out");
    talk.sack(9, &[(10, 13)]);
    assert_eq!(talk.sender.rto(), rto);
    assert!(talk.sender.timer_at().unwrap() <= talk.now + rto, "the hole waits no longer than it must");
}

#[test]
fn rfc_6298_the_timer_rests_when_everything_is_acknowledged() {
    let mut talk = Talk::with(&TcpConfig::modern(Variant::Reno));
    talk.sender.pause(talk.now);
    talk.sender.on_app_data(3 * MSS + 7);
    let sizes: Vec<u32> = talk.transmits().iter().map(|t| t.wire_bytes).collect();
    assert_eq!(sizes, [1500, 1500, 1500, 47]);
    talk.now += Span::from_millis(10);
    let header = TcpHeader { acknowledgment: 3 * MSS + 7, ..talk.header(0) };
    talk.sender.on_ack(&header, talk.now);
    assert_eq!((talk.sender.timer_at(), talk.sender.finished_at()), (None, Some(talk.now)));
}

#[test]
fn rfc_5681_an_idle_time_as_long_as_a_timeout_restarts_from_the_initial_window() {
    let mut talk = Talk::with(&TcpConfig::modern(Variant::Reno));
    talk.sender.pause(talk.now);
    talk.sender.on_app_data(100 * MSS);
    let mut sent = talk.sent().len() as u64;
    for segments in 1..=100 {
        sent += talk.ack(segments).len() as u64;
    }
    assert_eq!(sent, 100);
    assert!(talk.cwnd() > 20);
    talk.now += Span::from_secs(5);
    talk.sender.on_app_data(100 * MSS);
    assert_eq!(talk.sent().len(), 10);
}

#[test]
fn rfc_3168_one_reduction_for_each_window_and_the_next_new_segment_says_so() {
    let config = TcpConfig { ecn: true, ..TcpConfig::modern(Variant::NewReno) };
    let mut talk = Talk::with(&config);
    assert!(talk.transmits().iter().all(|t| t.ecn == Ecn::Ect0));
    talk.ack_with_echo(1);
    assert_eq!(talk.cwnd(), 5);
    // Echoes of the same window: 2 to 10 were under way when the window was reduced.
    for segments in 2..=10 {
        let with_cwr: Vec<bool> =
            talk.ack_with_echo(segments).iter().map(|t| t.header.flags.contains(TcpFlags::CWR)).collect();
        match segments {
            2..=5 => assert_eq!(with_cwr, [] as [bool; 0], "nine to five are in flight: nothing goes"),
            6 => assert_eq!(with_cwr, [true]),
            _ => assert_eq!(with_cwr, [false]),
        }
        assert_eq!(talk.cwnd(), 5);
    }
    talk.ack_with_echo(11);
    assert_eq!(talk.cwnd(), 2, "an echo of the next window counts again");
    assert_eq!(talk.sender.counters().ecn_reductions, 2);
    assert_eq!(talk.sender.counters().retransmissions, 0);
}

/// RFC 3168, section 6.1.5; RFC 9331, section 4.1; Linux with DCTCP.
#[test]
fn what_is_sent_again_can_be_marked_where_it_is_asked_for() {
    for (l4s, ecn_retransmissions, fresh, again) in [
        (false, false, Ecn::Ect0, Ecn::NotEct),
        (false, true, Ecn::Ect0, Ecn::Ect0),
        (true, false, Ecn::Ect1, Ecn::NotEct),
        (true, true, Ecn::Ect1, Ecn::Ect1),
    ] {
        let modern = TcpConfig::modern(Variant::NewReno);
        let mut talk = Talk::with(&TcpConfig { ecn: true, l4s, ecn_retransmissions, ..modern });
        assert!(talk.transmits().iter().all(|t| t.ecn == fresh));
        let header = talk.header(1);
        let mut sent = Vec::new();
        for _ in 0..4 {
            talk.sender.on_ack(&header, talk.now);
            sent.extend(talk.transmits());
        }
        let of = |retransmission| sent.iter().filter(move |t| t.retransmission == retransmission);
        assert!(of(true).count() > 0 && of(true).all(|t| t.ecn == again));
        assert!(of(false).count() > 0 && of(false).all(|t| t.ecn == fresh));
        // That the window is reduced is told by new data (section 6.1.2), never by what goes again.
        assert!(of(true).all(|t| !t.header.flags.contains(TcpFlags::CWR)));
    }
}

#[test]
fn rfc_3168_a_loss_in_a_window_already_reduced_is_repaired_without_a_second_reduction() {
    let config = TcpConfig { ecn: true, limited_transmit: false, ..TcpConfig::modern(Variant::NewReno) };
    let mut talk = Talk::with(&config);
    talk.sent();
    talk.ack_with_echo(1);
    assert_eq!([talk.ack(1), talk.ack(1), talk.ack(1)].concat(), [-1]);
    assert_eq!(talk.cwnd(), 5);
}

#[test]
fn rfc_8257_a_loss_in_a_window_that_marks_have_reduced_halves_it() {
    let control = DctcpConfig { initial_alpha: 0.1, ..DctcpConfig::default() };
    let base = TcpConfig { ecn: true, limited_transmit: false, ..TcpConfig::modern(Variant::NewReno) };
    let mut talk = Talk::with(&TcpConfig { control: CongestionControlConfig::Dctcp(control), ..base });
    talk.sent();
    talk.ack_with_echo(1);
    assert_eq!(talk.cwnd(), 9, "alpha / 2 of ten segments, in whole ones");
    assert_eq!([talk.ack(1), talk.ack(1), talk.ack(1)].concat(), [-1]);
    assert!((4..=5).contains(&talk.cwnd()), "{}", talk.cwnd());
}

#[test]
fn echoes_that_no_new_data_could_stop_do_not_hold_the_window_at_one_segment() {
    let mut talk = Talk::with(&TcpConfig { ecn: true, ..TcpConfig::modern(Variant::Sack) });
    talk.sent();
    assert_eq!(talk.expire(), [0], "the first window is lost, or its acknowledgments");
    // The receiver has seen a mark and says so until CWR comes; what is sent again carries none (RFC 3168, 6.1.5).
    for (segments, window) in [(1, 2), (3, 3)] {
        let again = talk.ack_with_echo(segments);
        assert_eq!(again.len(), window, "slow start goes on");
        assert!(again.iter().all(|t| t.retransmission && !t.header.flags.contains(TcpFlags::CWR)));
    }
    let rest = talk.ack_with_echo(10);
    let new = rest.iter().find(|t| !t.retransmission).expect("the window is open for new data");
    assert!(new.header.flags.contains(TcpFlags::CWR));
    let cwnd = talk.cwnd();
    talk.ack_with_echo(11);
    let reduced = talk.cwnd();
    assert!(reduced < cwnd, "an echo about new data is news");
    // No fast retransmit has come since, but the time-out is over.
    for segments in 12..=talk.sender.counters().sent_segments {
        if talk.ack_with_echo(segments).iter().any(|t| t.header.flags.contains(TcpFlags::CWR)) {
            break;
        }
        assert_eq!(talk.cwnd(), reduced, "until CWR goes out, echoes open nothing");
    }
}

#[test]
fn rfc_9937_an_echo_can_reduce_in_proportion_to_what_arrives() {
    let base = TcpConfig { ecn: true, ..TcpConfig::modern(Variant::Sack) };
    for gradual_reduction in [false, true] {
        let mut talk = Talk::with(&TcpConfig { gradual_reduction, ..base.clone() });
        assert_eq!(talk.sent().len(), 10);
        let released: Vec<usize> = (1..=10).map(|segments| talk.ack_with_echo(segments).len()).collect();
        let expected =
            if gradual_reduction { [1, 0, 1, 0, 1, 0, 1, 0, 1, 0] } else { [0, 0, 0, 0, 0, 1, 1, 1, 1, 1] };
        assert_eq!((released, talk.cwnd()), (expected.to_vec(), 5));
    }
}

#[test]
fn ns_an_echo_halves_once_for_each_window_and_opens_nothing() {
    let config = TcpConfig { ecn: true, ..TcpConfig::ns_1999(Variant::Reno) };
    let mut sender = TcpSender::new(&config);
    sender.set_unlimited();
    let mut now = Time::ZERO;
    let mut ack = |to: &mut TcpSender, packets: u64, flags: TcpFlags| {
        now += Span::from_millis(10);
        let header = TcpHeader {
            acknowledgment: packets * 1000,
            window_bytes: 20_000,
            flags: TcpFlags::ACK.union(flags),
            ..TcpHeader::default()
        };
        to.on_ack(&header, now);
        while to.poll_transmit(now).is_some() {}
        to.cwnd_bytes() / 1000
    };
    while sender.poll_transmit(Time::ZERO).is_some() {}
    let windows: Vec<u64> = (1..=8).map(|packets| ack(&mut sender, packets, TcpFlags::NONE)).collect();
    assert_eq!(windows, [2, 3, 4, 5, 6, 7, 8, 9]);
    // Packets 8 to 16 are out: `recover` becomes 16, and the echoes up to its acknowledgment are the same event.
    for packets in 9..=17 {
        assert_eq!(ack(&mut sender, packets, TcpFlags::ECE), 4);
    }
    assert_eq!(ack(&mut sender, 18, TcpFlags::ECE), 2);
    assert_eq!(sender.ssthresh_bytes(), 2000);
}

#[test]
fn the_guard_of_1998_lets_reno_halve_again_in_the_window_of_the_last_loss() {
    for (guard, recoveries) in [(FastRetransmitGuard::AfterTimeout, 2), (FastRetransmitGuard::PerWindow, 1)] {
        let config = TcpConfig { fast_retransmit_guard: guard, ..TcpConfig::ns_1999(Variant::Reno) };
        let mut sender = TcpSender::new(&config);
        sender.set_unlimited();
        let mut now = Time::ZERO;
        // Eight packets arrive; 8 and 10 are lost.
        for packets in (1..=8).chain([8; 6]).chain([10; 4]) {
            while sender.poll_transmit(now).is_some() {}
            now += Span::from_millis(10);
            let header = TcpHeader {
                acknowledgment: packets * 1000,
                window_bytes: 20_000,
                flags: TcpFlags::ACK,
                ..TcpHeader::default()
            };
            sender.on_ack(&header, now);
        }
        assert_eq!(sender.counters().fast_retransmits, recoveries, "{guard:?}");
    }
}

#[test]
fn a_guard_that_lets_recovery_begin_again_lets_it_halve_again_under_any_rules() {
    let halvings = [
        (FastRetransmitGuard::Off, 2),
        (FastRetransmitGuard::AfterTimeout, 2),
        (FastRetransmitGuard::PerWindow, 5),
    ];
    for (guard, cwnd) in halvings {
        let config = TcpConfig {
            limited_transmit: false,
            fast_retransmit_guard: guard,
            ..TcpConfig::modern(Variant::Reno)
        };
        let mut talk = Talk::with(&config);
        assert_eq!(talk.sent(), (0..10).collect::<Vec<_>>());
        // Segments 0 and 5 are lost: two recoveries for one window of data.
        (0..4).for_each(|_| drop(talk.ack(0)));
        assert_eq!(talk.cwnd(), 5);
        (0..4).for_each(|_| drop(talk.ack(5)));
        assert_eq!(talk.cwnd(), cwnd, "{guard:?}");
    }
}

#[test]
fn a_handshake_opens_the_connection_and_times_the_path() {
    let config = TcpConfig { handshake: true, ..TcpConfig::modern(Variant::NewReno) };
    let mut talk = Talk::with(&config);
    let mut receiver = TcpReceiver::new(&config);
    let syn = talk.transmits();
    assert_eq!((syn.len(), syn[0].header.flags, syn[0].wire_bytes), (1, TcpFlags::SYN, 40));
    // The first SYN is lost.
    talk.now = talk.sender.timer_at().unwrap();
    assert_eq!(talk.now, Time::ZERO + Span::from_secs(1));
    talk.sender.on_timer(talk.now);
    let again = talk.transmits();
    assert_eq!(again.len(), 1);
    let answer = receiver.on_segment(&again[0].header, Ecn::NotEct, talk.now).ack.unwrap();
    assert!(answer.header.flags.contains(TcpFlags::SYN.union(TcpFlags::ACK)));
    talk.now += Span::from_millis(30);
    talk.sender.on_ack(&answer.header, talk.now);
    assert_eq!(talk.sent().len(), 10);
    assert_eq!(talk.sender.srtt(), None, "a SYN sent twice is no sample");
}

fn segment(number: u64) -> TcpHeader {
    TcpHeader {
        sequence: number * MSS,
        payload_bytes: u32::try_from(MSS).unwrap(),
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    }
}

/// The segment up to which `ack` acknowledges.
fn number(ack: Option<Transmit>) -> Option<u64> {
    ack.map(|ack| ack.header.acknowledgment / MSS)
}

/// Linux since 6.6: pieces of 2.5 segments end in the third and in the fifth.
#[test]
fn the_end_of_a_write_is_acknowledged_at_once() {
    let push_bytes = u32::try_from(MSS * 5 / 2).unwrap();
    let mut receiver = TcpReceiver::new(&TcpConfig { push_bytes, ..TcpConfig::modern(Variant::Sack) });
    let acks = (0..7).map(|n| number(receiver.on_segment(&segment(n), Ecn::NotEct, Time::ZERO).ack));
    assert_eq!(acks.collect::<Vec<_>>(), [None, Some(2), Some(3), None, Some(5), None, Some(7)]);
}

#[test]
fn rfc_5681_acknowledgments_wait_for_a_second_segment_but_not_for_order() {
    let mut receiver = TcpReceiver::new(&TcpConfig::modern(Variant::NewReno));
    let now = Time::ZERO;
    let mut give = |n| {
        let received = receiver.on_segment(&segment(n), Ecn::NotEct, now);
        (received.delivered_bytes / MSS, number(received.ack))
    };
    assert_eq!(give(0), (1, None));
    assert_eq!(give(1), (1, Some(2)));
    assert_eq!(give(2), (1, None));
    assert_eq!(give(4), (0, Some(3)), "out of order: at once");
    assert_eq!(give(6), (0, Some(3)));
    assert_eq!(give(3), (2, Some(5)), "fills a hole: at once, although another is left");
    assert_eq!(give(5), (2, Some(7)));
    assert_eq!(give(5), (0, Some(7)), "a duplicate: at once");
    assert_eq!(give(7), (1, None));
    assert_eq!(receiver.timer_at(), Some(now + Span::from_millis(40)));
    let late = now + Span::from_millis(40);
    assert_eq!(number(receiver.on_timer(late)), Some(8));
    assert_eq!((receiver.timer_at(), receiver.on_timer(late)), (None, None));
    assert_eq!(receiver.counters().duplicate_segments, 1);
}

#[test]
fn rfc_2018_the_newest_block_comes_first_and_the_last_ones_are_repeated() {
    let mut receiver = TcpReceiver::new(&TcpConfig::modern(Variant::Sack));
    let mut give = |n| {
        let ack = receiver.on_segment(&segment(n), Ecn::NotEct, Time::ZERO).ack.unwrap();
        let blocks = ack.header.sack;
        let base = ack.header.acknowledgment;
        let blocks = blocks.as_slice().iter().map(|block| {
            let start = base + u64::from(block.offset);
            (start / MSS, (start + u64::from(block.length)) / MSS)
        });
        (ack.wire_bytes, blocks.collect::<Vec<_>>())
    };
    assert_eq!(give(2), (52, vec![(2, 3)]));
    assert_eq!(give(6), (60, vec![(6, 7), (2, 3)]));
    assert_eq!(give(4), (68, vec![(4, 5), (6, 7), (2, 3)]));
    assert_eq!(give(8), (68, vec![(8, 9), (4, 5), (6, 7)]), "three fit");
    assert_eq!(give(5), (60, vec![(4, 7), (8, 9)]), "a block that grew stands for its parts");
    assert_eq!(give(0), (60, vec![(4, 7), (8, 9)]), "in order: no new block");
    assert_eq!(give(1), (60, vec![(4, 7), (8, 9)]));
}

#[test]
fn rfc_3168_a_mark_is_echoed_until_the_sender_says_it_heard() {
    let config = TcpConfig { ecn: true, delayed_ack: None, ..TcpConfig::modern(Variant::NewReno) };
    let mut receiver = TcpReceiver::new(&config);
    let mut echoes = |n, ecn, flags: TcpFlags| {
        let header = TcpHeader { flags: TcpFlags::ACK.union(flags), ..segment(n) };
        let ack = receiver.on_segment(&header, ecn, Time::ZERO).ack.unwrap();
        ack.header.flags.contains(TcpFlags::ECE)
    };
    assert!(!echoes(0, Ecn::Ect0, TcpFlags::NONE));
    assert!(echoes(1, Ecn::Ce, TcpFlags::NONE));
    assert!(echoes(2, Ecn::Ect0, TcpFlags::NONE));
    assert!(!echoes(3, Ecn::Ect0, TcpFlags::CWR));
    assert!(echoes(4, Ecn::Ce, TcpFlags::CWR), "a new mark on the very packet that answers the old one");
}

#[test]
fn an_acknowledgment_that_waits_rides_on_data() {
    let config = TcpConfig::modern(Variant::Sack);
    let (mut receiver, mut talk) = (TcpReceiver::new(&config), Talk::with(&config));
    let data = talk.transmits();
    assert_eq!(receiver.on_segment(&data[0].header, Ecn::NotEct, Time::ZERO).ack, None);
    let mut out = data[1];
    receiver.ride_on(&mut out);
    assert_eq!((out.header.acknowledgment, out.header.sequence), (MSS, data[1].header.sequence));
    assert!(out.header.flags.contains(TcpFlags::ACK) && out.wire_bytes == data[1].wire_bytes);
    assert_eq!((receiver.timer_at(), receiver.counters().sent_acks), (None, 1), "it is not owed any more");
    // What is held out of order is told as well, and takes its room.
    assert!(receiver.on_segment(&data[2].header, Ecn::Ce, Time::ZERO).ack.is_some());
    receiver.ride_on(&mut out);
    assert_eq!(out.header.sack.as_slice(), [SackBlock { offset: MSS as u32, length: MSS as u32 }]);
    assert!(out.wire_bytes > data[1].wire_bytes && receiver.counters().sent_acks == 2);
}

#[test]
fn rfc_5681_a_number_that_rides_on_data_is_no_duplicate() {
    for config in [TcpConfig::modern(Variant::Reno), TcpConfig::ns_1999(Variant::Reno)] {
        let mut talk = Talk::with(&TcpConfig {
            initial_window_segments: 10,
            segment_bytes: MSS as u32,
            limited_transmit: false,
            ..config
        });
        assert_eq!(talk.transmits().len(), 10);
        talk.ack(4);
        let mut header = talk.header(4);
        header.payload_bytes = 100;
        for _ in 0..5 {
            talk.sender.on_ack(&header, talk.now);
        }
        assert_eq!((talk.transmits().len(), talk.sender.counters().fast_retransmits), (0, 0));
        header.payload_bytes = 0;
        for _ in 0..3 {
            talk.sender.on_ack(&header, talk.now);
        }
        assert_eq!(talk.sender.counters().fast_retransmits, 1);
    }
}

//! RACK-TLP against RFC 8985 written down a second time: one record for each segment, every rule a loop over all of them.
//!
//! The two meet behind a short drop-tail queue, under random loss and reordering, with an application that gives its data in portions.
//! After each event the second one says, from the window that the sender has, which segments go out in which order; it says to the
//! nanosecond when a reordering window ends and when a tail is probed. What it takes from the sender are the window, the smoothed
//! round-trip time and the time-out, and when the retransmission timer expires.

use crate::transfer;

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, FixedConfig};
use tidegate_mechanism::tcp::{TcpConfig, TcpSender, Variant};
use tidegate_packet::TcpHeader;
use tidegate_units::{Span, Time};

use transfer::{Copies, MSS, Path, Reading, random, transfer};

const DUP_THRESH: usize = 3;
/// No run is longer than the minimum of round-trip times is remembered, five minutes: the plain minimum will do.
const END: Time = Time::from_nanos(290_000_000_000);
const MAX_ACK_DELAY: Span = Span::from_millis(200);

/// Section 5.2. `Segment.end_seq` is one past its number.
#[derive(Clone, Default, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each a fact of its own")]
struct Segment {
    /// Of its last transmission. The RFC takes it away from a segment that is found to be lost, and does not say what becomes of the
    /// round-trip time when that one arrives late; here it counts, as after a time-out.
    xmit_ts: Time,
    is_retransmitted: bool,
    is_sacked: bool,
    /// And not sent again since.
    is_lost: bool,
    /// It was found to be lost, and has not arrived since, sent again or not.
    is_missing: bool,
}

/// What was seen.
#[derive(Default, Debug)]
struct Seen {
    compared: u64,
    reordered: u64,
    recoveries: u64,
    /// Retransmissions that were found to be lost, without a time-out.
    lost_again: u64,
    reordering_expiries: u64,
    timeouts: u64,
    probes_of_new_data: u64,
    probes_of_old_data: u64,
    /// Expiries without a round-trip time since the last probe (section 7.3).
    probes_skipped: u64,
    probes_needless: u64,
    probes_that_repaired: u64,
    /// Recoveries that began with the end of another.
    recoveries_in_a_row: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.compared += other.compared;
        self.reordered += other.reordered;
        self.recoveries += other.recoveries;
        self.lost_again += other.lost_again;
        self.reordering_expiries += other.reordering_expiries;
        self.timeouts += other.timeouts;
        self.probes_of_new_data += other.probes_of_new_data;
        self.probes_of_old_data += other.probes_of_old_data;
        self.probes_skipped += other.probes_skipped;
        self.probes_needless += other.probes_needless;
        self.probes_that_repaired += other.probes_that_repaired;
        self.recoveries_in_a_row += other.recoveries_in_a_row;
    }
}

/// The sender of RFC 8985, in segments.
#[derive(Default, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "state variables of the RFC")]
struct Rfc8985 {
    segments: Vec<Segment>,
    una: usize,
    /// `(RACK.xmit_ts, RACK.end_seq)`.
    rack: Option<(Time, usize)>,
    rtt: Span,
    min_rtt: Option<Span>,
    reo_wnd: Span,
    fack: usize,
    is_reordering_seen: bool,
    /// Fast or RTO recovery lasts until this is acknowledged.
    recovery_point: usize,
    /// When the window was reduced last.
    reduced_at: Time,
    /// The first lost segment goes whatever the window says.
    goes_at_once: bool,
    tlp_end: Option<usize>,
    is_tlp_retrans: bool,
    /// A round-trip time was taken since the last probe.
    has_rtt_sample: bool,
    probes: bool,
    /// New data is acknowledged, or new data that is no probe was sent: section 7.2.
    schedules: bool,
    reordering_at: Option<Time>,
    probe_at: Option<Time>,
    /// When the time-out would be; RFC 6298, section 5.
    timeout_at: Option<Time>,
    seen: Seen,
}

impl Rfc8985 {
    fn next(&self) -> usize {
        self.segments.len()
    }

    fn is_in_recovery(&self) -> bool {
        self.una < self.recovery_point
    }

    fn segs_sacked(&self) -> usize {
        self.segments[self.una..].iter().filter(|s| s.is_sacked).count()
    }

    fn pipe(&self) -> usize {
        self.segments[self.una..].iter().filter(|s| !s.is_sacked && !s.is_lost).count()
    }

    fn first_lost(&self) -> Option<usize> {
        (self.una..self.next()).find(|&s| self.segments[s].is_lost)
    }

    /// Section 6.2, step 4; no D-SACK, so that the multiplier is one.
    fn update_reo_wnd(&self, srtt: Option<Span>) -> Span {
        if !self.is_reordering_seen && (self.is_in_recovery() || self.segs_sacked() >= DUP_THRESH) {
            return Span::ZERO;
        }
        // Zero "if no round-trip time estimate is available" (section 3.3.2).
        (self.min_rtt.unwrap_or(Span::ZERO) / 4).min(srtt.unwrap_or(Span::ZERO))
    }

    /// Section 6.2, step 5, and what follows from a loss. RFC 5681, section 4.3: losses "in two successive windows of data" are two
    /// indications of congestion, so what was lost of the data sent in a recovery that ends begins the next one.
    fn detect_loss(&mut self, was_in_recovery: bool, srtt: Option<Span>, now: Time) {
        self.reordering_at = None;
        self.reo_wnd = self.update_reo_wnd(srtt);
        let (mut is_any_lost, mut is_lost_again) = (false, false);
        for s in self.una..self.next() {
            let segment = &mut self.segments[s];
            if segment.is_sacked || segment.is_lost || self.rack < Some((segment.xmit_ts, s + 1)) {
                continue;
            }
            let lost_at = segment.xmit_ts + self.rtt + self.reo_wnd;
            if lost_at <= now {
                segment.is_lost = true;
                segment.is_missing = true;
                is_any_lost = true;
                is_lost_again |= segment.is_retransmitted && segment.xmit_ts >= self.reduced_at;
                self.seen.lost_again += u64::from(segment.is_retransmitted);
            } else {
                self.reordering_at = self.reordering_at.max(Some(lost_at));
            }
        }
        let is_left = was_in_recovery && self.segments[self.una..].iter().any(|s| s.is_missing);
        let begins = if self.is_in_recovery() { is_lost_again } else { is_any_lost || is_left };
        if begins {
            self.seen.recoveries += 1;
            self.seen.recoveries_in_a_row += u64::from(was_in_recovery && !self.is_in_recovery());
            self.begin_recovery(now);
            self.goes_at_once = self.first_lost().is_some();
            self.end_probe();
        }
        if self.reordering_at.is_some() {
            self.probe_at = None; // Section 8.
        }
    }

    fn begin_recovery(&mut self, now: Time) {
        self.recovery_point = self.next();
        self.goes_at_once = true;
        self.reduced_at = now;
        self.probe_at = None;
    }

    /// Section 7.1.
    fn end_probe(&mut self) {
        self.tlp_end = None;
        self.is_tlp_retrans = false;
    }

    /// Section 7.4.2.
    fn process_probe(&mut self, number: usize, is_bare_duplicate: bool) {
        let Some(end) = self.tlp_end else { return };
        if number < end {
            return;
        }
        if self.is_tlp_retrans && number > end {
            self.seen.probes_that_repaired += 1;
        } else if self.is_tlp_retrans && is_bare_duplicate {
            self.seen.probes_needless += 1;
        } else if self.is_tlp_retrans {
            return;
        }
        self.tlp_end = None;
    }

    /// Section 6.1.
    fn transmit(&mut self, s: usize, rto: Span, now: Time) {
        if s == self.next() {
            self.segments.push(Segment::default());
        } else {
            self.segments[s].is_retransmitted = true;
        }
        self.segments[s].xmit_ts = now;
        self.segments[s].is_lost = false;
        self.timeout_at.get_or_insert(now + rto);
    }

    /// What goes out now.
    fn sends(&mut self, cwnd: usize, data_end: usize, rto: Span, now: Time) -> Vec<usize> {
        let mut sent = Vec::new();
        if std::mem::take(&mut self.probes) {
            // Section 7.3.
            self.has_rtt_sample = false;
            self.is_tlp_retrans = self.next() == data_end;
            let probe = self.next() - usize::from(self.is_tlp_retrans);
            self.transmit(probe, rto, now);
            self.tlp_end = Some(self.next());
            self.seen.probes_of_new_data += u64::from(!self.is_tlp_retrans);
            self.seen.probes_of_old_data += u64::from(self.is_tlp_retrans);
            sent.push(probe);
        }
        while std::mem::take(&mut self.goes_at_once) || self.pipe() < cwnd {
            let next = self.first_lost().unwrap_or(self.next());
            if next == data_end {
                break;
            }
            self.schedules |= next == self.next();
            self.transmit(next, rto, now);
            sent.push(next);
        }
        sent
    }

    /// Section 7.2.
    fn schedule_probe(&mut self, sender: &TcpSender, now: Time) {
        if self.is_in_recovery()
            || self.tlp_end.is_some()
            || self.segs_sacked() > 0
            || self.reordering_at.is_some()
            || self.una == self.next()
        {
            return;
        }
        let pto = sender.srtt().map_or(Span::from_secs(1), |srtt| {
            let is_single = self.next() - self.una == 1;
            srtt * 2 + if is_single { MAX_ACK_DELAY } else { Span::ZERO }
        });
        self.probe_at = Some((now + pto).min(self.timeout_at.unwrap()));
    }
}

impl Reading for Rfc8985 {
    /// Section 6.2.
    fn on_ack(&mut self, header: &TcpHeader, sender: &TcpSender, now: Time) {
        let number = usize::try_from(header.acknowledgment / MSS).unwrap();
        if number < self.una {
            return;
        }
        let advances = number > self.una;
        let mut acked: Vec<usize> = (self.una..number).collect();
        let mut blocks = header.sack.as_slice().to_vec();
        blocks.sort_by_key(|block| block.offset);
        for block in &blocks {
            let start = number + usize::try_from(u64::from(block.offset) / MSS).unwrap();
            acked.extend(start..start + usize::try_from(u64::from(block.length) / MSS).unwrap());
        }
        acked.retain(|&s| !self.segments[s].is_sacked);
        let was_in_recovery = self.is_in_recovery();
        self.una = number;
        for &s in &acked {
            let segment = &mut self.segments[s];
            segment.is_sacked = true;
            segment.is_missing = false;
            if !segment.is_retransmitted {
                let rtt = now - segment.xmit_ts;
                self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
                self.has_rtt_sample = true;
            }
        }
        for &s in &acked {
            let segment = &mut self.segments[s];
            segment.is_lost = false;
            let rtt = now - segment.xmit_ts;
            if !segment.is_retransmitted || self.min_rtt.is_some_and(|min| rtt >= min) {
                self.rtt = rtt;
                self.rack = self.rack.max(Some((segment.xmit_ts, s + 1)));
            }
            if s + 1 > self.fack {
                self.fack = s + 1;
            } else if s + 1 < self.fack && !segment.is_retransmitted {
                self.seen.reordered += u64::from(!self.is_reordering_seen);
                self.is_reordering_seen = true;
            }
        }
        self.process_probe(number, !advances && blocks.is_empty());
        self.detect_loss(was_in_recovery, sender.srtt(), now);
        if advances {
            self.probe_at = None;
            self.timeout_at = (number < self.next()).then(|| now + sender.rto());
            self.schedules = true;
        }
    }

    fn on_timer(&mut self, is_timeout: bool, _: &[Copies], sender: &TcpSender, now: Time) {
        assert_eq!(
            is_timeout,
            self.reordering_at != Some(now) && self.probe_at != Some(now),
            "at {now:?}: {self:?}"
        );
        self.timeout_at = Some(now + sender.rto());
        if is_timeout {
            // Section 6.3.
            self.seen.timeouts += 1;
            self.reordering_at = None;
            // Anew: another time-out meets a sender that is "already in [...] RTO recovery" (section 3.3.2).
            self.reo_wnd = self.update_reo_wnd(sender.srtt());
            for s in self.una..self.next() {
                let segment = &mut self.segments[s];
                segment.is_lost |=
                    !segment.is_sacked && (s == self.una || segment.xmit_ts + self.rtt + self.reo_wnd <= now);
                segment.is_missing |= segment.is_lost;
            }
            self.begin_recovery(now);
            self.end_probe();
        } else if self.reordering_at == Some(now) {
            self.seen.reordering_expiries += 1;
            self.detect_loss(false, sender.srtt(), now);
        } else {
            self.probe_at = None;
            self.probes = self.tlp_end.is_none() && self.has_rtt_sample;
            self.seen.probes_skipped += u64::from(!self.probes);
        }
    }

    fn on_output(&mut self, sent: &[usize], data_end: usize, sender: &TcpSender, now: Time) {
        let cwnd = usize::try_from(sender.cwnd_bytes() / MSS).unwrap();
        let expected = self.sends(cwnd, data_end, sender.rto(), now);
        assert_eq!(sent, expected, "at {now:?}: {self:?}");
        self.seen.compared += sent.len() as u64;
        if std::mem::take(&mut self.schedules) {
            self.schedule_probe(sender, now);
        }
        let timer_at = sender.timer_at();
        if let Some(deadline) = self.reordering_at {
            assert!(timer_at.is_some_and(|at| at <= deadline), "at {now:?}, {timer_at:?}: {self:?}");
        } else if self.probe_at.is_some() {
            assert_eq!(timer_at, self.probe_at, "at {now:?}: {self:?}");
        }
    }
}

/// A transfer to compare.
#[derive(Clone, Debug)]
struct Case {
    /// A fixed window, in segments; `None`: Reno.
    window: Option<u32>,
    has_delayed_acks: bool,
    /// Packets.
    queue: usize,
    /// In microseconds.
    transmission: u64,
    /// In milliseconds.
    delay: u64,
    /// So many milliseconds after the last the application gives so many segments.
    gifts: Vec<(u64, usize)>,
    /// One in so many is lost, of data segments and acknowledgments.
    lost: (u64, u64),
    /// One in so many is late, of data segments and acknowledgments, by up to so many microseconds.
    late: (u64, u64, u64),
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let seldom = || prop_oneof![Just(u64::MAX), 2u64..20];
    let gift = (0u64..1500, prop_oneof![1usize..4, 1usize..200]);
    let path = (2usize..60, 100u64..3000, 1u64..60);
    let late = (
        prop_oneof![Just(u64::MAX), 2u64..100],
        seldom(),
        prop_oneof![1u64..3_000, 1u64..100_000, 1u64..800_000],
    );
    let lost = (prop_oneof![1 => 3u64..30, 2 => 30u64..300, 2 => Just(u64::MAX)], seldom());
    let window = prop_oneof![Just(None), (1u32..60).prop_map(Some)];
    (window, any::<bool>(), path, proptest::collection::vec(gift, 1..8), lost, late, any::<u64>()).prop_map(
        |(window, has_delayed_acks, (queue, transmission, delay), gifts, lost, late, seed)| Case {
            window,
            has_delayed_acks,
            queue,
            transmission,
            delay,
            gifts,
            lost,
            late,
            seed,
        },
    )
}

fn run(case: &Case) -> Seen {
    let base = TcpConfig { rack: true, ..TcpConfig::modern(Variant::Sack) };
    let config = TcpConfig {
        delayed_ack: if case.has_delayed_acks { base.delayed_ack } else { None },
        control: case.window.map_or(CongestionControlConfig::RENO, |segments| {
            CongestionControlConfig::Fixed(FixedConfig { segments })
        }),
        ..base
    };
    let (lost, late) = (case.lost, case.late);
    let mut losses = random(case.seed);
    let mut delays = random(!case.seed);
    let path = Path {
        loses: Box::new(move |is_data| losses().is_multiple_of(if is_data { lost.0 } else { lost.1 })),
        extra: Box::new(move |is_data| {
            let is_late = delays().is_multiple_of(if is_data { late.0 } else { late.1 });
            if is_late { Span::from_micros(delays() % late.2) } else { Span::ZERO }
        }),
        ..Path::lossless(case.queue, case.transmission, case.delay)
    };
    let mut at = Time::ZERO;
    let gifts: Vec<_> = case
        .gifts
        .iter()
        .map(|&(millis, segments)| {
            at += Span::from_millis(millis);
            (at, segments)
        })
        .collect();
    let mut rfc = Rfc8985::default();
    transfer(&config, path, &gifts, END, &mut rfc);
    rfc.seen
}

#[test]
fn rack_and_its_probes_send_what_rfc_8985_says_under_random_loss_and_reordering() {
    let base = ProptestConfig::default();
    let config = ProptestConfig { cases: base.cases.max(1000), failure_persistence: None, ..base };
    let seen = RefCell::new(Seen::default());
    TestRunner::new(config)
        .run(&cases(), |case| {
            let one = run(&case);
            seen.borrow_mut().add(&one);
            Ok(())
        })
        .unwrap();
    let seen = seen.into_inner();
    // The comparison is worth nothing where nothing happens.
    for (what, count) in [
        ("segments", seen.compared),
        ("reordering", seen.reordered),
        ("recoveries", seen.recoveries),
        ("recoveries in a row", seen.recoveries_in_a_row),
        ("retransmissions lost again", seen.lost_again),
        ("ends of a reordering window", seen.reordering_expiries),
        ("time-outs", seen.timeouts),
        ("probes of new data", seen.probes_of_new_data),
        ("probes of old data", seen.probes_of_old_data),
        ("needless probes", seen.probes_needless),
        ("probes that repaired", seen.probes_that_repaired),
    ] {
        assert!(count > 0, "no {what}: {seen:?}");
    }
}

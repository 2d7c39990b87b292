//! SACK against RFC 6675 written down a second time: one flag for each segment, every rule a loop over all of them.
//!
//! The two meet behind a short drop-tail queue and under random loss. After each acknowledgment the second one says,
//! from the window that the sender has, which segments go out in which order; what follows a time-out is the sender's own
//! affair until everything that was outstanding is acknowledged (section 5.1).

use crate::transfer;

use proptest::prelude::*;
use tidegate_mechanism::tcp::{TcpConfig, TcpSender, Variant};
use tidegate_packet::TcpHeader;
use tidegate_units::Time;

use transfer::{Copies, MSS, Path, Reading, random, transfer};

const DUP_THRESH: usize = 3;

/// The sender of RFC 6675, in segments. Positions are one past what the RFC's variables name.
#[derive(Default)]
struct Rfc6675 {
    high_ack: usize,
    high_data: usize,
    high_rxt: usize,
    /// `None`: used up in this recovery.
    rescue_rxt: Option<usize>,
    recovery_point: usize,
    dup_acks: usize,
    in_recovery: bool,
    after_timeout: bool,
    is_sacked: Vec<bool>,
    /// Step (4.3) is due.
    retransmits_first: bool,
}

impl Rfc6675 {
    fn sacked(&self, segment: usize) -> bool {
        self.is_sacked.get(segment).copied().unwrap_or(false)
    }

    fn highest_sacked(&self) -> Option<usize> {
        (self.high_ack..self.high_data).rev().find(|&s| self.sacked(s))
    }

    /// `IsLost`.
    fn is_lost(&self, segment: usize) -> bool {
        let Some(top) = self.highest_sacked() else { return false };
        let above = (segment + 1..=top).filter(|&s| self.sacked(s));
        let sequences = above.clone().filter(|&s| !self.sacked(s - 1)).count();
        sequences >= DUP_THRESH || above.count() > DUP_THRESH - 1
    }

    /// `SetPipe`.
    fn pipe(&self) -> usize {
        (self.high_ack..self.high_data)
            .filter(|&s| !self.sacked(s))
            .map(|s| usize::from(!self.is_lost(s)) + usize::from(self.in_recovery && s < self.high_rxt))
            .sum()
    }

    /// `NextSeg`; whether it was rule (4).
    fn next_seg(&self, data_end: usize) -> Option<(usize, bool)> {
        let top = self.highest_sacked().unwrap_or(0);
        let hole = |s: &usize| !self.sacked(*s) && *s < top;
        let mut candidates = self.high_rxt.max(self.high_ack)..self.high_data;
        if let Some(lost) = candidates.clone().find(|s| hole(s) && self.is_lost(*s)) {
            return Some((lost, false)); // (1)
        }
        if self.high_data < data_end {
            return Some((self.high_data, false)); // (2)
        }
        if let Some(hole) = candidates.find(hole) {
            return Some((hole, false)); // (3)
        }
        let highest = (self.high_ack..self.high_data).rev().find(|&s| !self.sacked(s))?;
        let is_tail = highest >= self.high_rxt && highest >= top; // The one departure: no copy of a copy.
        let allowed = self.rescue_rxt.is_some_and(|rescue| self.high_ack > rescue);
        (is_tail && allowed).then_some((highest, true)) // (4)
    }

    fn on_ack(&mut self, header: &TcpHeader) {
        let number = usize::try_from(header.acknowledgment / MSS).unwrap();
        if number < self.high_ack {
            return;
        }
        if number > self.high_ack {
            self.dup_acks = 0;
        }
        self.high_ack = number;
        let mut is_duplicate = false;
        for block in header.sack.as_slice() {
            let start = number + usize::try_from(u64::from(block.offset) / MSS).unwrap();
            let end = start + usize::try_from(u64::from(block.length) / MSS).unwrap();
            self.is_sacked.resize(self.is_sacked.len().max(end), false);
            for s in start..end {
                is_duplicate |= !self.is_sacked[s];
                self.is_sacked[s] = true;
            }
        }
        if self.high_ack >= self.recovery_point {
            self.in_recovery = false; // (A)
            self.after_timeout = false;
        }
        if self.in_recovery || self.after_timeout {
            return;
        }
        self.dup_acks += usize::from(is_duplicate);
        let lost = self.high_ack < self.high_data && self.is_lost(self.high_ack);
        if (is_duplicate && self.dup_acks >= DUP_THRESH) || lost {
            self.in_recovery = true;
            self.recovery_point = self.high_data; // (4.1)
            self.retransmits_first = true; // (4.3)
            self.high_rxt = self.high_ack + 1;
            self.rescue_rxt = Some(self.high_rxt);
        }
    }

    fn on_timeout(&mut self) {
        self.is_sacked.clear();
        self.dup_acks = 0;
        self.in_recovery = false;
        self.after_timeout = true;
        self.recovery_point = self.high_data;
    }

    /// What goes out now: steps (3.3) and (C), or as the window opens.
    fn sends(&mut self, cwnd: usize, data_end: usize) -> Vec<usize> {
        let mut sent = Vec::new();
        if std::mem::take(&mut self.retransmits_first) {
            sent.push(self.high_ack);
        }
        let mut pipe = self.pipe();
        while cwnd > pipe {
            if !self.in_recovery {
                if self.high_data == data_end {
                    break;
                }
                sent.push(self.high_data);
                self.high_data += 1;
                pipe += 1;
                continue;
            }
            let Some((segment, is_rescue)) = self.next_seg(data_end) else { break };
            if is_rescue {
                self.rescue_rxt = None;
            } else if segment < self.high_data {
                self.high_rxt = segment + 1;
            } else {
                self.high_data = segment + 1;
            }
            sent.push(segment);
            pipe += 1;
        }
        sent
    }
}

/// What was seen of one connection.
#[derive(Default, Debug)]
struct Seen {
    /// For each time-out: whether it came in fast recovery, where a copy of the first missing segment had been lost again.
    timeouts: Vec<bool>,
    recoveries: u64,
    retransmissions: u64,
    compared: u64,
}

/// The reading, and what was seen.
#[derive(Default)]
struct Compared {
    rfc: Rfc6675,
    seen: Seen,
}

impl Reading for Compared {
    fn on_ack(&mut self, header: &TcpHeader, _: &TcpSender, _: Time) {
        self.rfc.on_ack(header);
    }

    fn on_timer(&mut self, is_timeout: bool, copies: &[Copies], _: &TcpSender, _: Time) {
        if is_timeout {
            let Copies { sent, is_last_lost } = copies[self.rfc.high_ack];
            self.seen.timeouts.push(self.rfc.in_recovery && sent > 1 && is_last_lost);
            self.rfc.on_timeout();
        }
    }

    fn on_output(&mut self, sent: &[usize], data_end: usize, sender: &TcpSender, now: Time) {
        if self.rfc.after_timeout {
            let end = sent.iter().max().map_or(0, |last| last + 1);
            self.rfc.high_data = self.rfc.high_data.max(end);
        } else {
            let cwnd = usize::try_from(sender.cwnd_bytes() / MSS).unwrap();
            let expected = self.rfc.sends(cwnd, data_end);
            assert_eq!(sent, expected, "at {now:?}, una {}, {:?}", self.rfc.high_ack, self.seen);
            self.seen.compared += sent.len() as u64;
        }
    }
}

/// One transfer over `path`, compared step by step.
fn run(config: &TcpConfig, path: Path, segments: usize) -> Seen {
    let mut compared = Compared::default();
    let sender = transfer(config, path, &[(Time::ZERO, segments)], Time::MAX, &mut compared);
    compared.seen.recoveries = sender.counters().fast_retransmits;
    compared.seen.retransmissions = sender.counters().retransmissions;
    compared.seen
}

#[test]
fn only_a_retransmission_that_is_lost_again_ends_the_overshoot_of_slow_start_in_a_timeout() {
    let config = TcpConfig::modern(Variant::Sack);
    let mut timeouts = 0;
    // Packets in the queue, transmission in us, delay in ms: queues from far below a round trip to well above one.
    for (queue, transmission, delay) in
        [(12, 120, 1), (40, 1200, 5), (20, 1200, 20), (25, 1200, 25), (5, 1200, 40), (100, 1200, 100)]
    {
        let seen = run(&config, Path::lossless(queue, transmission, delay), 1500);
        assert!(seen.recoveries > 0 && seen.compared > 1400, "{seen:?}");
        // RFC 6675 retransmits a segment once in a recovery (NextSeg, 1.a). A burst of retransmissions that meets a full
        // queue then waits for the timer; a timer that comes first, while the copy is on its way, would be ours.
        assert!(
            seen.timeouts.iter().all(|lost_again| *lost_again),
            "{queue} {transmission} {delay}: {seen:?}"
        );
        timeouts += seen.timeouts.len();
    }
    assert!(timeouts > 0, "some of these queues are too short for the burst");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sack_sends_what_rfc_6675_says_under_random_loss(
        queue in 2usize..60,
        transmission in 100u64..3000,
        delay in 1u64..60,
        segments in 5usize..400,
        one_in in 3u64..200,
        ack_one_in in prop_oneof![Just(u64::MAX), 2u64..20],
        state in any::<u64>(),
        delayed in any::<bool>(),
    ) {
        let base = TcpConfig::modern(Variant::Sack);
        let config = TcpConfig {
            delayed_ack: if delayed { base.delayed_ack } else { None },
            ..base
        };
        let mut random = random(state);
        let loses = move |is_data| random().is_multiple_of(if is_data { one_in } else { ack_one_in });
        let path = Path { loses: Box::new(loses), ..Path::lossless(queue, transmission, delay) };
        run(&config, path, segments);
    }
}

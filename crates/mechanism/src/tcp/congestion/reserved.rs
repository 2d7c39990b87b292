//! TCP with a reservation: a connection that holds a token bucket marks what the tokens cover, and uses them up even
//! where plain TCP would wait: timed transmissions send on tokens in spite of the congestion window, and rate adaptive
//! windowing keeps the window above what the reservation fills, so that only the rest competes.
//!
//! Source: Feng, sections 5.3 (marking), 5.4.1 (delayed and timed transmissions, Fig. 5.5), 5.4.2 (rate adaptive windowing,
//! Fig. 5.7, and turning both off when marked segments are lost).
//! Deviations:
//! - Figs 5.5 and 5.7 are lost; their text is followed (catalogue, section 20). At an expiry of the timer as many segments
//!   go as there are tokens for, else the stated interval would lose tokens.
//! - Growth is scaled by `(CWND - RWND) / CWND`. In congestion avoidance `1 / CWND` for each acknowledgment, scaled, grows
//!   the variable window by less than one segment per round trip, so that it loses against best effort; there the scaling is
//!   left out, unless [`ReservedConfig::literal_growth`] is set (catalogue, RAW-1).
//! - Round-trip times are measured here, one segment at a time (Karn's rule), because the clock of the time-out is coarse;
//!   section 5.4.2 suggests timestamps for it.
//! - A window of zero variable segments could never grow: `CWND` is at least `RWND + 1` (what a time-out leaves, by the text).
//! - A window that jumps with the reservation, or to `RWND + 1` after a time-out, lets go a burst of a whole window that no
//!   queue of the thesis holds beside others. [`ReservedConfig::burst`] bounds what goes at one instant without tokens, as
//!   `maxburst` in ns (RFC 2582, section 3, suggests four); the thesis does not mention it.
//! - A reservation that changes moves `CWND` and the threshold by as much as `RWND`: what competes for best effort
//!   stays, as far as the receiver's window has room (section 5.4.2 adds the variable window to `RWND`; section 5.6
//!   has throughput follow at once, up and down).
//! - An ECN echo turns timer and windowing off as the loss of a marked segment does, where it tells that one met congestion:
//!   the last segment of the acknowledgment with which it begins and the one before were both marked.
//! - Delayed transmissions hold a segment that has no tokens until they suffice, but no longer than a random time; the
//!   distribution is not given, uniform is taken, from the sequence number, so that it needs no state.

use tidegate_packet::Dscp;
use tidegate_parameters::{Check as _, bound, parameters, words};
use tidegate_units::{BitRate, Span, Time};

use super::sent_marks::SentMarks;
use super::{Ack, Congestion, CongestionControl, Permission, Segment, Signal};
use crate::Variable;
use crate::shape::{Tokens, work_of};
use crate::tcp::config::{Rules, TcpConfig};

words! {
    /// Which round-trip time makes the window of a reservation.
    pub enum ReservedWindow {
        /// None: the window is plain TCP's.
        None = "none",
        /// The least one observed.
        Best = "best",
        /// The smoothed one.
        Average = "average",
    }
}

parameters! {
    /// # TCP with a reservation
    ///
    /// Marks the segments that a token bucket covers. With a timer it sends on tokens even where the window would make it
    /// wait; with a window of its own, losses reduce only what it sends beyond the reservation.
    ///
    /// Source: thesis of Feng, sections 5.3 and 5.4.
    #[derive(Copy)]
    pub struct ReservedConfig {
        /// The reserved rate on the wire. An event can change it.
        rate: BitRate => bound::RATE;
        /// Depth of the token bucket: the time in which the rate fills it. Source: thesis of Feng, section 5.3.1.
        depth: Span = Span::from_millis(50) => bound::DURATION;
        /// Interval of timed transmissions, which send on tokens whatever the window says. Default: none. Source: thesis of
        /// Feng, section 5.4.1 (20 ms).
        timer: Option<Span> = None => bound::DURATION;
        /// The round-trip time from which the reserved part of the window follows. Source: thesis of Feng, section 5.4.2 (it
        /// tried both).
        window: ReservedWindow = ReservedWindow::None;
        /// The most that a segment without tokens waits for some. Default: none. Source: thesis of Feng, section 5.4.1.
        delayed: Option<Span> = None => bound::DURATION;
        /// How many segments without tokens may go at one instant. Default: any number. Source: the thesis of Feng has no bound;
        /// RFC 2582, section 3, suggests 4 (ns's `maxburst`).
        burst: Option<u32> = None => bound::COUNT;
        /// Whether growth is scaled by the variable part of the window in congestion avoidance too. Source: thesis of Feng,
        /// section 5.4.2 has it so; off, because then the variable part loses against best effort (catalogue, RAW-1).
        literal_growth: bool = false;
        /// Whether timer and window are turned off, for good, when a marked segment is lost or echoed as congested. Source:
        /// thesis of Feng, section 5.4.2 (proposed).
        safeguard: bool = false;
        /// Codepoint of segments with tokens, 0 to 63. Source: RFC 2597 (AF11).
        marked: u8 = Dscp::AF11.get() => bound::CODEPOINT;
        /// Codepoint of the others, 0 to 63. Source: best effort.
        unmarked: u8 = Dscp::BEST_EFFORT.get() => bound::CODEPOINT;
    }
    check |config, report| {
        bound::BUCKET.check("depth", &config.rate.bytes_in(config.depth), report);
    };
}

impl ReservedConfig {
    /// The control for a connection with the parameters `tcp`.
    pub fn build(&self, tcp: &TcpConfig) -> Reserved {
        let segment = f64::from(tcp.segment_bytes);
        let awnd = f64::from(tcp.receive_window_bytes) / segment;
        let initial = f64::from(tcp.initial_window_segments.max(tcp.minimum_window_segments));
        Reserved {
            cwnd: initial,
            ssthresh: tcp.initial_ssthresh_bytes.map_or(awnd, |bytes| bytes as f64 / segment),
            awnd,
            minimum: f64::from(tcp.minimum_window_segments),
            segment_bytes: tcp.segment_bytes,
            wire_bytes: tcp.segment_bytes + tcp.header_bytes,
            counts_acks: tcp.rules == Rules::Ns1999,
            tokens: Tokens::full(self.rate, depth_bytes(self.rate, self.depth)),
            filled: Time::ZERO,
            lost_tokens: 0,
            timed: None,
            best_rtt: f64::INFINITY,
            srtt: 0.0,
            timer_after: Time::ZERO,
            held: None,
            burst: (Time::ZERO, 0),
            marks: SentMarks::new(tcp),
            adapts: true,
            marked_bytes: 0,
            marked: Dscp::new(self.marked),
            unmarked: Dscp::new(self.unmarked),
            config: *self,
        }
    }
}

/// A bucket that the rate fills within `depth` (section 5.3: "measured in units of time").
fn depth_bytes(rate: BitRate, depth: Span) -> u64 {
    rate.bytes_in(depth).get()
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// Segments.
    cwnd: f64,
    ssthresh: f64,
    awnd: f64,
    minimum: f64,
    segment_bytes: u32,
    /// A full segment on the wire.
    wire_bytes: u32,
    /// ns: each acknowledgment counts one, whatever it covers.
    counts_acks: bool,
    tokens: Tokens,
    filled: Time,
    /// Work that found the bucket full.
    lost_tokens: i128,
    /// The segment being timed: one past its last byte, and when it went.
    timed: Option<(u64, Time)>,
    /// Seconds.
    best_rtt: f64,
    srtt: f64,
    /// The expiry of the timer that was used last; the next one is an interval later.
    timer_after: Time,
    /// Until when the next segment waits for tokens at most.
    held: Option<Time>,
    /// When a segment last went without tokens, and how many did at that instant.
    burst: (Time, u32),
    marks: SentMarks,
    /// Whether timer and windowing are on.
    adapts: bool,
    marked_bytes: u64,
    marked: Dscp,
    unmarked: Dscp,
    config: ReservedConfig,
}

impl Reserved {
    /// The reservation changes. The bucket keeps what it has, as far as it holds it.
    pub fn set_rate(&mut self, rate: BitRate, now: Time) {
        self.fill_until(now);
        let before = self.rwnd();
        self.config.rate = rate;
        self.tokens.rate = rate;
        self.tokens.depth = work_of(depth_bytes(rate, self.config.depth));
        self.tokens.level = self.tokens.level.min(self.tokens.depth);
        if rate.is_zero() {
            self.held = None;
        }
        let rwnd = self.rwnd();
        let moved = |window: f64| (window + rwnd - before).min(self.awnd).max(rwnd + 1.0).max(self.minimum);
        self.cwnd = moved(self.cwnd);
        // A threshold that no loss has set yet is none.
        if self.ssthresh < self.awnd {
            self.ssthresh = moved(self.ssthresh).max(2.0);
        }
    }

    fn fill_until(&mut self, now: Time) {
        self.lost_tokens += self.tokens.fill(now.since(self.filled), 0);
        self.filled = now;
    }

    /// `RWND` in segments: what the reserved rate keeps under way in a round trip (section 5.4.2).
    fn rwnd(&self) -> f64 {
        let rtt = match self.config.window {
            ReservedWindow::Best if self.adapts && self.best_rtt.is_finite() => self.best_rtt,
            ReservedWindow::Average if self.adapts => self.srtt,
            _ => return 0.0,
        };
        let window = self.config.rate.as_bytes_per_second_f64() * rtt / f64::from(self.wire_bytes);
        // AWND bounds what may be under way whatever was reserved.
        window.min(self.awnd - 1.0).max(0.0)
    }

    fn sample_rtt(&mut self, acknowledgment: u64, now: Time) {
        let Some((end, sent)) = self.timed else { return };
        if acknowledgment < end {
            return;
        }
        self.timed = None;
        let rtt = now.since(sent).as_secs_f64();
        self.best_rtt = self.best_rtt.min(rtt);
        self.srtt = if self.srtt == 0.0 { rtt } else { self.srtt + (rtt - self.srtt) / 8.0 };
    }

    /// Whether the timer expired and was not used yet.
    fn timer_is_due(&self, interval: Span, now: Time) -> bool {
        now >= self.timer_after.saturating_add(interval)
    }
}

impl CongestionControl for Reserved {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("reserved_window_segments", "What the reserved rate keeps under way."),
                Variable::new("lost_tokens_bytes", "Tokens that found the bucket full, since the start."),
            ]
        }
    }

    fn on_ack(&mut self, ack: &Ack, now: Time) {
        self.sample_rtt(ack.acknowledgment, now);
        let acked = ack.acked_bytes as f64 / f64::from(self.segment_bytes);
        let acked = if self.counts_acks { 1.0 } else { acked.min(2.0) };
        self.cwnd = opened(self.cwnd, self.ssthresh, self.rwnd(), acked, self.config.literal_growth);
    }

    fn on_congestion(&mut self, event: &Congestion, _now: Time) {
        self.timed = None;
        let hit = match event.signal {
            Signal::Loss | Signal::LossRestart | Signal::Timeout => self.marks.is_marked(event.sequence),
            Signal::EcnEcho => event.echoed.is_some_and(|last| {
                let previous = last.saturating_sub(u64::from(self.segment_bytes));
                self.marks.is_marked(last) && self.marks.is_marked(previous)
            }),
            Signal::Idle => false,
        };
        self.adapts &= !(self.config.safeguard && hit);
        let rwnd = self.rwnd();
        let half = self.halved(self.cwnd.min(self.awnd), rwnd);
        match event.signal {
            Signal::Loss | Signal::EcnEcho => {
                self.ssthresh = half.min(self.awnd).max(2.0);
                self.cwnd = half;
            }
            Signal::LossRestart | Signal::Timeout => {
                if !event.repeated {
                    self.ssthresh = half.min(self.awnd).max(2.0);
                }
                self.cwnd = rwnd + 1.0;
            }
            Signal::Idle => self.cwnd = rwnd + 1.0,
        }
        self.cwnd = self.cwnd.max(rwnd + 1.0).max(self.minimum);
    }

    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        let wire_bytes = u64::from(self.wire_bytes - self.segment_bytes + payload_bytes);
        let packet = work_of(wire_bytes);
        let conforms = packet <= self.tokens.after(now.since(self.filled));
        if in_flight_bytes + u64::from(payload_bytes) <= self.cwnd_bytes() {
            return match self.held {
                Some(until) if !conforms && now < until => {
                    Permission::At(until.min(self.conforming_at(packet)))
                }
                _ if conforms || !self.is_burst(now) => Permission::Now,
                _ => self.at_expiry(conforms, now),
            };
        }
        self.at_expiry(conforms, now)
    }

    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        self.fill_until(now);
        let marked = self.tokens.take(segment.wire_bytes);
        if !marked {
            self.burst = (now, if self.burst.0 == now { self.burst.1 + 1 } else { 1 });
        }
        self.marks.set(segment.sequence, marked);
        let end = segment.sequence + u64::from(segment.payload_bytes);
        if segment.retransmission {
            self.timed = None;
        } else if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        if let Some(interval) = self.config.timer {
            // With less than a segment left this expiry is used up.
            if self.timer_is_due(interval, now) && self.tokens.level < work_of(u64::from(self.wire_bytes)) {
                let past = now.since(self.timer_after).as_nanos() / interval.as_nanos();
                self.timer_after = self.timer_after.saturating_add(interval * past);
            }
        }
        // Without a reservation there are no tokens to wait for.
        if let Some(most) = self.config.delayed.filter(|_| !self.config.rate.is_zero()) {
            self.held = Some(now.saturating_add(spread(end, most)));
        }
        if marked {
            self.marked_bytes += u64::from(segment.wire_bytes);
        }
        if marked { self.marked } else { self.unmarked }
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn cwnd_bytes(&self) -> u64 {
        self.cwnd as u64 * u64::from(self.segment_bytes)
    }

    fn ssthresh_bytes(&self) -> u64 {
        (self.ssthresh * f64::from(self.segment_bytes)) as u64
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "cwnd_segments" => Some(self.cwnd),
            "reserved_window_segments" => Some(self.rwnd()),
            "lost_tokens_bytes" => Some(self.lost_tokens as f64 / 8e9),
            "marked_bytes" => Some(self.marked_bytes as f64),
            _ => None,
        }
    }
}

impl Reserved {
    /// `RWND + (CWND - RWND) / 2` (section 5.4.2). ns halves what is in force, which is whole segments, to whole segments; with
    /// the fractions kept, a connection without a reservation would not be plain TCP.
    fn halved(&self, cwnd: f64, rwnd: f64) -> f64 {
        let half = |window: f64| rwnd + (window - rwnd).max(0.0) / 2.0;
        if self.counts_acks { libm::floor(half(libm::floor(cwnd))) } else { half(cwnd) }
    }

    /// Whether as many segments went without tokens at this instant as may.
    fn is_burst(&self, now: Time) -> bool {
        self.config.burst.is_some_and(|most| self.burst.0 == now && self.burst.1 >= most)
    }

    /// What the timer says to a segment for which the window, or the burst, leaves no room.
    fn at_expiry(&self, conforms: bool, now: Time) -> Permission {
        match self.config.timer {
            Some(interval) if self.adapts && !self.config.rate.is_zero() => {
                if conforms && self.timer_is_due(interval, now) {
                    return Permission::Now;
                }
                // The next expiry on the grid of the timer.
                let past = now.since(self.timer_after).as_nanos() / interval.as_nanos();
                Permission::At(self.timer_after.saturating_add(interval * (past + 1)))
            }
            _ => Permission::No,
        }
    }

    /// When the bucket holds `packet`, if nothing else takes tokens.
    fn conforming_at(&self, packet: i64) -> Time {
        self.filled.saturating_add(self.tokens.wait_for(packet))
    }
}

/// The window after an acknowledgment worth `acked` segments (section 5.4.2; Fig. 5.7).
fn opened(cwnd: f64, ssthresh: f64, rwnd: f64, acked: f64, literal: bool) -> f64 {
    let cwnd = cwnd.max(rwnd + 1.0);
    let scale = (cwnd - rwnd) / cwnd;
    if cwnd < ssthresh {
        cwnd + acked * scale
    } else {
        cwnd + acked / cwnd * if literal { scale } else { 1.0 }
    }
}

/// A time up to `most` that looks random over the sequence numbers of segments.
const fn spread(sequence: u64, most: Span) -> Span {
    // SplitMix64's finalizer.
    let mut z = sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    Span::from_nanos(((z as u128 * most.as_nanos() as u128) >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Variant;
    use proptest::prelude::*;

    const RATE: BitRate = BitRate::from_mbps(4);

    fn tcp() -> TcpConfig {
        TcpConfig::ns_1999(Variant::NewReno).with_window_packets(200)
    }

    fn build(config: ReservedConfig) -> Reserved {
        config.build(&tcp())
    }

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Sends segment 0 and has it acknowledged `rtt_ms` later.
    fn with_round_trip(config: ReservedConfig, rtt_ms: u64) -> Reserved {
        let mut control = build(config);
        control.on_send(&Segment::for_tests(0), Time::ZERO);
        let ack = Ack {
            acknowledgment: 1000,
            acked_bytes: 1000,
            flight_bytes: 1000,
            srtt: Span::ZERO,
            sample: None,
        };
        control.on_ack(&ack, ms(rtt_ms));
        control
    }

    #[test]
    fn a_full_bucket_marks_its_depth_and_then_the_rate() {
        // 4 Mbit/s for 50 ms are 25 segments.
        let mut control = build(ReservedConfig::with(RATE));
        let marked = |sender: &mut Reserved, at| sender.on_send(&Segment::for_tests(0), at) == Dscp::AF11;
        assert!((0..25).all(|_| marked(&mut control, Time::ZERO)));
        assert!(!marked(&mut control, Time::ZERO));
        assert!(!marked(&mut control, ms(1)), "half a segment of tokens");
        assert!(marked(&mut control, ms(2)));
    }

    #[test]
    fn a_bounded_burst_goes_on_at_the_next_instant_and_never_holds_tokens_back() {
        let mut control = build(ReservedConfig { burst: Some(4), ..ReservedConfig::with(RATE) });
        control.cwnd = 100.0;
        let mut sent = 0;
        let mut send_all = |sender: &mut Reserved, at| {
            let before = sent;
            while sender.may_send(sent * 1000, 1000, at) == Permission::Now {
                sender.on_send(&Segment::for_tests(sent), at);
                sent += 1;
            }
            sent - before
        };
        assert_eq!(send_all(&mut control, Time::ZERO), 25 + 4);
        assert_eq!(send_all(&mut control, ms(1)), 4);
        assert_eq!(send_all(&mut control, ms(2)), 1 + 4);
    }

    #[test]
    fn the_timer_sends_on_tokens_whatever_the_window_says() {
        let config = ReservedConfig { timer: Some(Span::from_millis(20)), ..ReservedConfig::with(RATE) };
        let mut control = build(config);
        let full = 1_000_000;
        assert_eq!(control.may_send(full, 1000, ms(5)), Permission::At(ms(20)));
        // 25 segments were saved up; all of them go at the expiry, then the next one is awaited.
        let sent = (0..100).take_while(|&number| {
            let may = control.may_send(full, 1000, ms(20)) == Permission::Now;
            may && control.on_send(&Segment::for_tests(number), ms(20)) == Dscp::AF11
        });
        assert_eq!(sent.count(), 25);
        assert_eq!(control.may_send(full, 1000, ms(20)), Permission::At(ms(40)));
        assert_eq!(control.may_send(full, 1000, ms(40)), Permission::Now);
        assert_eq!(control.may_send(0, 1000, ms(21)), Permission::Now, "acknowledgments clock as ever");
    }

    #[test]
    fn a_loss_halves_only_what_is_above_the_reserved_window() {
        let window = ReservedWindow::Best;
        let mut control = with_round_trip(ReservedConfig { window, ..ReservedConfig::with(RATE) }, 100);
        assert_eq!(control.rwnd(), 50.0);
        control.cwnd = 80.0;
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, 1), ms(100));
        assert_eq!((control.cwnd, control.ssthresh), (65.0, 65.0));
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::Timeout, 1), ms(100));
        assert_eq!((control.cwnd, control.ssthresh), (51.0, 57.0));
    }

    #[test]
    fn without_windowing_it_is_reno() {
        let mut control = with_round_trip(ReservedConfig::with(RATE), 100);
        control.cwnd = 80.0;
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, 1), ms(100));
        assert_eq!((control.cwnd, control.ssthresh), (40.0, 40.0));
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::Timeout, 1), ms(100));
        assert_eq!((control.cwnd, control.ssthresh), (1.0, 20.0));
    }

    #[test]
    fn the_variable_window_grows_by_one_segment_per_round_trip() {
        let grown = |literal| (0..60).fold(60.0, |cwnd, _| opened(cwnd, 1.0, 50.0, 1.0, literal)) - 60.0;
        assert!((grown(false) - 1.0).abs() < 0.01, "{}", grown(false));
        assert!(grown(true) < 0.2, "literally a sixth of it: {}", grown(true));
    }

    #[test]
    fn the_safeguard_turns_both_off_when_a_marked_segment_is_lost() {
        let timer = Some(Span::from_millis(20));
        let window = ReservedWindow::Best;
        let config = ReservedConfig { timer, window, safeguard: true, ..ReservedConfig::with(RATE) };
        let mut control = with_round_trip(config, 100);
        (1..=30).for_each(|number| {
            control.on_send(&Segment::for_tests(number), Time::ZERO);
        });
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, 30), ms(100));
        assert!(control.rwnd() > 0.0, "the thirtieth segment had no tokens");
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::Loss, 1), ms(100));
        assert_eq!(control.rwnd(), 0.0);
        assert_eq!(control.may_send(1_000_000, 1000, ms(200)), Permission::No);
    }

    #[test]
    fn a_reservation_that_changes_leaves_the_variable_window_as_it_was() {
        let window = ReservedWindow::Best;
        let mut control = with_round_trip(ReservedConfig { window, ..ReservedConfig::with(RATE) }, 100);
        (control.cwnd, control.ssthresh) = (80.0, 60.0);
        control.set_rate(BitRate::from_mbps(8), ms(100));
        assert_eq!((control.rwnd(), control.cwnd, control.ssthresh), (100.0, 130.0, 110.0));
        control.set_rate(BitRate::from_bps(0), ms(100));
        assert_eq!((control.rwnd(), control.cwnd, control.ssthresh), (0.0, 30.0, 10.0));
    }

    #[test]
    fn without_a_reservation_nothing_waits_for_tokens() {
        let delayed = Some(Span::from_millis(100));
        let mut control = build(ReservedConfig { delayed, ..ReservedConfig::with(RATE) });
        (0..30).for_each(|number| {
            control.on_send(&Segment::for_tests(number), Time::ZERO);
        });
        assert!(matches!(control.may_send(0, 1000, Time::ZERO), Permission::At(_)));
        control.set_rate(BitRate::from_bps(0), Time::ZERO);
        assert_eq!(control.may_send(0, 1000, Time::ZERO), Permission::Now);
        control.on_send(&Segment::for_tests(30), Time::ZERO);
        assert_eq!(control.may_send(0, 1000, Time::ZERO), Permission::Now);
    }

    #[test]
    fn a_threshold_that_no_loss_has_set_stays_none() {
        let window = ReservedWindow::Best;
        let mut control = with_round_trip(ReservedConfig { window, ..ReservedConfig::with(RATE) }, 100);
        assert_eq!(control.ssthresh, control.awnd);
        control.set_rate(BitRate::from_mbps(1), ms(100));
        assert_eq!(control.ssthresh, control.awnd);
    }

    #[test]
    fn the_safeguard_heeds_the_echo_of_a_marked_segment() {
        let window = ReservedWindow::Best;
        let config = ReservedConfig { window, safeguard: true, ..ReservedConfig::with(RATE) };
        let mut control = with_round_trip(config, 100);
        (1..=30).for_each(|number| {
            control.on_send(&Segment::for_tests(number), Time::ZERO);
        });
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::EcnEcho, 30), ms(100));
        let later = Congestion { echoed: None, ..Congestion::of_segment_for_tests(Signal::EcnEcho, 2) };
        control.on_congestion(&later, ms(100));
        assert!(control.rwnd() > 0.0, "neither tells of a marked segment");
        control.on_congestion(&Congestion::of_segment_for_tests(Signal::EcnEcho, 2), ms(100));
        assert_eq!(control.rwnd(), 0.0);
    }

    #[test]
    fn a_delayed_transmission_waits_for_tokens_but_not_for_ever() {
        let config = ReservedConfig { delayed: Some(Span::from_millis(10)), ..ReservedConfig::with(RATE) };
        let mut control = build(config);
        (0..25).for_each(|number| {
            control.on_send(&Segment::for_tests(number), Time::ZERO);
        });
        let Permission::At(at) = control.may_send(0, 1000, Time::ZERO) else { panic!("it has no tokens") };
        assert!(at <= ms(2), "a segment of tokens takes 2 ms");
        assert_eq!(control.may_send(0, 1000, at), Permission::Now);
    }

    #[test]
    fn tokens_of_a_full_bucket_are_counted_as_lost() {
        let mut control = build(ReservedConfig::with(RATE));
        control.on_send(&Segment::for_tests(0), ms(100));
        assert_eq!(control.variable("lost_tokens_bytes"), Some(50_000.0));
    }

    proptest! {
        #[test]
        fn the_window_never_falls_below_one_segment_or_the_reserved_window(
            events in prop::collection::vec((0u8..7, 0u64..50), 1..200),
            rate in 0u64..100_000_000,
            other in 0u64..100_000_000,
        ) {
            let window = ReservedWindow::Average;
            let config = ReservedConfig { window, ..ReservedConfig::with(BitRate::from_bps(rate)) };
            let mut control = build(config);
            let mut now = Time::ZERO;
            for (sequence, (event, wait)) in (0u64..).zip(events) {
                now += Span::from_millis(wait);
                let signal = match event {
                    0 => Signal::Loss,
                    1 => Signal::Timeout,
                    2 => Signal::EcnEcho,
                    3 => Signal::Idle,
                    4 => {
                        control.set_rate(BitRate::from_bps(if sequence % 2 == 0 { other } else { rate }), now);
                        prop_assert!(control.cwnd >= 1.0 && control.cwnd >= control.rwnd());
                        prop_assert!(control.cwnd_bytes() >= 1000);
                        continue;
                    }
                    _ => {
                        control.on_send(&Segment::for_tests(sequence), now);
                        let acknowledgment = (sequence + 1) * 1000;
                        let srtt = Span::ZERO;
                        control.on_ack(&Ack { acknowledgment, acked_bytes: 1000, flight_bytes: 0, srtt, sample: None }, now);
                        continue;
                    }
                };
                control.on_congestion(&Congestion::of_segment_for_tests(signal, sequence), now);
                prop_assert!(control.cwnd >= 1.0 && control.cwnd >= control.rwnd());
                prop_assert!(control.cwnd_bytes() >= 1000);
            }
        }
    }
}

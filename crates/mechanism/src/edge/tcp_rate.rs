//! TCP rate control: holds TCP senders to the rate of a virtual link by the windows that their receivers advertise, so that
//! they send what the link can take, lose nothing and wait at home instead of at the edge.
//!
//! Source: Karandikar, Kalyanaraman, Bagal, Packer, "TCP rate control", CCR 30(1), 2000, as IEC uses it (section IV.B).
//! Deviations (the catalogue, section 17, settles what IEC leaves open):
//! - The rate of a virtual link is divided evenly among its active TCPs. Windows are whole segments that sum to the rate
//!   times the base round-trip time, by largest remainder; what a TCP did not get is owed to it in the next division, or the
//!   same TCPs would always be ahead. None gets less than one segment (the paper's limitation: beyond the bandwidth-delay
//!   product a queue stands).
//! - The base round-trip time is the sum of two least times: from the release of a segment until its acknowledgment
//!   passes, and from an acknowledgment that opens the window until the first byte that it allowed arrives. A TCP that does
//!   not fill its window gives no time of the second kind; then the first alone counts, and the window errs low.
//! - An offer is never taken back (RFC 9293, section 3.8.6: the right edge of the window does not move left), and windows are only
//!   lowered. So a lower rate takes one round trip to be reached.
//! - A TCP that was silent longer than `idle_timeout` is forgotten, and with it the window scale of its SYN: it is controlled
//!   again from its next connection on.
//! - Acknowledgments are not paced: the windows alone give the rate, and the shaper spaces the packets.

use alloc::vec::Vec;

use hashbrown::HashMap;
use tidegate_packet::{FlowKey, Headers, Packet};
use tidegate_parameters::{bound, parameters};
use tidegate_units::{Span, Time};

use super::{AggregateId, SegmentEditor};
use crate::random::{KeyedHash, Seed};

parameters! {
    /// TCP rate control at the ingress of a virtual link.
    pub struct TcpRateConfig {
        /// A TCP without data for so long has no share. Source: assumed.
        idle_timeout: Span = Span::from_secs(1) => bound::DURATION;
        /// The most TCPs of an edge; further ones are not controlled. Source: assumed; it bounds the memory.
        flows_max: u32 = 100_000 => bound::COUNT;
        /// Round each window up to whole segments, though the sum then exceeds what the virtual link takes, and a queue of half a
        /// segment for each TCP stands at the ingress. Source: assumed, one reading of the queue at the ingress in Harrison and
        /// Kalyanaraman, Fig. 8.
        round_up: bool = false;
    }
}

/// A TCP whose data enters here.
#[derive(Debug)]
struct Tcp {
    key: FlowKey,
    aggregate: AggregateId,
    last_data: Time,
    /// Largest payload seen, which stands for the segment size; zero until there was data.
    segment_bytes: u32,
    /// That segment on the wire.
    wire_bytes: u32,
    /// What the receiver announced; until its SYN was seen the window cannot be read.
    shift: Option<u8>,
    /// The byte after a segment that is timed, and when that was released.
    timed_segment: Option<(u32, Time)>,
    /// From the release until the acknowledgment.
    base_beyond: Option<Span>,
    /// The first byte that the last opening allowed, and when that was.
    timed_opening: Option<(u32, Time)>,
    /// From an opening until the data that it allowed.
    base_before: Option<Span>,
    /// The right edge of the window as offered to the sender.
    offered: Option<u32>,
    /// The window in segments; none until the first division.
    share: Option<u32>,
    /// What earlier divisions left over, in segments.
    owed: f64,
}

impl Tcp {
    const fn new(key: FlowKey, aggregate: AggregateId, now: Time) -> Self {
        Self {
            key,
            aggregate,
            last_data: now,
            segment_bytes: 0,
            wire_bytes: 0,
            shift: None,
            timed_segment: None,
            base_beyond: None,
            timed_opening: None,
            base_before: None,
            offered: None,
            share: None,
            owed: 0.0,
        }
    }

    /// The base round-trip time in seconds; `beyond` stands for the part behind the edge until that was measured.
    fn base_rtt(&self, beyond: Span) -> f64 {
        let before = self.base_before.unwrap_or(Span::from_nanos(0));
        self.base_beyond.unwrap_or(beyond).as_secs_f64() + before.as_secs_f64()
    }
}

/// The window of a TCP to which `quota` segments are due: never below one segment.
fn whole_segments(quota: f64) -> u32 {
    (libm::floor(quota) as u32).max(1)
}

/// See the module.
#[derive(Debug)]
pub struct TcpRate {
    config: TcpRateConfig,
    by_key: HashMap<FlowKey, u32, KeyedHash>,
    tcps: Vec<Tcp>,
    /// Working memory of a division: remainder and index.
    line: Vec<(f64, u32)>,
}

/// Whether `a` comes after `b` in the sequence space.
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

fn least(known: Option<Span>, sample: Span) -> Span {
    known.map_or(sample, |known| known.min(sample))
}

impl TcpRate {
    /// No TCP is known.
    pub fn new(config: TcpRateConfig, seed: Seed) -> Self {
        let by_key = HashMap::with_hasher(KeyedHash::new(seed));
        Self { config, by_key, tcps: Vec::new(), line: Vec::new() }
    }

    /// How many TCPs are known.
    pub const fn len(&self) -> usize {
        self.tcps.len()
    }

    /// Whether none is.
    pub const fn is_empty(&self) -> bool {
        self.tcps.is_empty()
    }

    /// The segment in `packet` was released into the virtual link `aggregate`; [`Packet::arrived`] says when it came here.
    pub fn on_data(
        &mut self,
        aggregate: AggregateId,
        headers: &Headers,
        segment: &impl SegmentEditor,
        packet: &Packet,
        now: Time,
    ) {
        let payload = segment.payload_bytes();
        if payload == 0 {
            return;
        }
        let Some(index) = self.find_or_add(headers.flow_key(), aggregate, now) else { return };
        let tcp = &mut self.tcps[index];
        tcp.aggregate = aggregate;
        tcp.last_data = now;
        if payload > tcp.segment_bytes {
            tcp.segment_bytes = payload;
            tcp.wire_bytes = packet.wire_bytes;
        }
        if let Some((first, since)) = tcp.timed_opening
            && !is_after(first, segment.sequence())
        {
            tcp.base_before = Some(least(tcp.base_before, packet.arrived.since(since)));
            tcp.timed_opening = None;
        }
        if tcp.timed_segment.is_none() {
            tcp.timed_segment = Some((segment.sequence().wrapping_add(payload), now));
        }
    }

    /// The place of a TCP; none if there are too many.
    fn find_or_add(&mut self, key: FlowKey, aggregate: AggregateId, now: Time) -> Option<usize> {
        if let Some(&index) = self.by_key.get(&key) {
            return Some(index as usize);
        }
        if self.tcps.len() >= self.config.flows_max as usize {
            return None;
        }
        self.by_key.insert(key, self.tcps.len() as u32);
        self.tcps.push(Tcp::new(key, aggregate, now));
        Some(self.tcps.len() - 1)
    }

    /// A segment with these headers leaves the domain towards a sender whose data enters here: its window is lowered.
    pub fn on_acknowledgment(&mut self, headers: &Headers, segment: &mut impl SegmentEditor, now: Time) {
        let key = headers.reversed().flow_key();
        let index = match self.by_key.get(&key) {
            Some(&index) => index as usize,
            // The window scale is told once, before there is data.
            None if segment.is_syn() => match self.find_or_add(key, AggregateId(0), now) {
                Some(index) => index,
                None => return,
            },
            None => return,
        };
        let tcp = &mut self.tcps[index];
        if let Some(shift) = segment.announced_shift() {
            tcp.shift = Some(shift);
        }
        let (Some(acknowledgment), Some(shift)) = (segment.acknowledgment(), tcp.shift) else { return };
        if let Some((end, since)) = tcp.timed_segment
            && !is_after(end, acknowledgment)
        {
            tcp.base_beyond = Some(least(tcp.base_beyond, now.since(since)));
            tcp.timed_segment = None;
        }
        let window = segment.window_bytes(shift);
        let mut lowered = window;
        if let Some(share) = tcp.share {
            lowered = lowered.min(share.saturating_mul(tcp.segment_bytes).max(tcp.segment_bytes));
            if let Some(offered) = tcp.offered {
                let standing = offered.wrapping_sub(acknowledgment).cast_signed();
                lowered = lowered.max(u32::try_from(standing).unwrap_or(0)).min(window);
            }
        }
        let edge = acknowledgment.wrapping_add(lowered);
        if tcp.offered.is_none_or(|offered| is_after(edge, offered)) {
            if tcp.timed_opening.is_none() {
                tcp.timed_opening = tcp.offered.map(|offered| (offered, now));
            }
            tcp.offered = Some(edge);
        }
        if lowered < window {
            segment.set_window_bytes(lowered, shift);
        }
    }

    /// Divides `rate` (bytes per second) of the virtual link `aggregate` among its active TCPs. `rtt` stands for the base
    /// round-trip time of those that have none yet.
    pub fn divide(&mut self, aggregate: AggregateId, rate: f64, rtt: Span, now: Time) {
        self.forget_idle(now);
        self.line.clear();
        let is_member = |tcp: &Tcp| tcp.aggregate == aggregate && tcp.segment_bytes > 0;
        let members = self.tcps.iter().filter(|tcp| is_member(tcp)).count();
        if rtt == Span::MAX {
            return;
        }
        let (mut exact, mut given) = (0.0, 0.0);
        for (index, tcp) in self.tcps.iter_mut().enumerate().filter(|(_, tcp)| is_member(tcp)) {
            let quota = rate / members as f64 * tcp.base_rtt(rtt) / f64::from(tcp.wire_bytes);
            if self.config.round_up {
                tcp.share = Some(whole_segments(libm::ceil(quota)));
                continue;
            }
            exact += quota;
            tcp.owed += quota;
            let share = whole_segments(tcp.owed);
            given += f64::from(share);
            tcp.share = Some(share);
            self.line.push((tcp.owed - f64::from(share), index as u32));
        }
        self.line.sort_unstable_by(|(a, i), (b, j)| b.total_cmp(a).then(i.cmp(j)));
        let spare = libm::round(exact) - given;
        for &(_, index) in self.line.iter().take(spare.max(0.0) as usize) {
            let share = &mut self.tcps[index as usize].share;
            *share = share.map(|share| share.saturating_add(1));
        }
        for &(_, index) in &self.line {
            let tcp = &mut self.tcps[index as usize];
            tcp.owed = (tcp.owed - f64::from(tcp.share.unwrap_or(0))).clamp(-1.0, 1.0);
        }
    }

    fn forget_idle(&mut self, now: Time) {
        let timeout = self.config.idle_timeout;
        let mut index = 0;
        while index < self.tcps.len() {
            if now.since(self.tcps[index].last_data) <= timeout {
                index += 1;
                continue;
            }
            let gone = self.tcps.swap_remove(index);
            self.by_key.remove(&gone.key);
            if let Some(moved) = self.tcps.get(index) {
                self.by_key.insert(moved.key, index as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_packet::{Address, FlowId, Protocol, TcpFlags, TcpHeader};

    const VL: AggregateId = AggregateId(0);

    fn headers(port: u16) -> Headers {
        Headers::best_effort(
            Protocol::TCP,
            (Address::V4([10, 0, 0, 1]), port),
            (Address::V4([10, 0, 0, 2]), 5001),
        )
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn data(control: &mut TcpRate, port: u16, sequence: u64, now: Time) {
        let segment = TcpHeader { sequence, payload_bytes: 1000, ..TcpHeader::default() };
        let mut packet = Packet::new(0, FlowId(0), 1000);
        packet.arrived = now;
        control.on_data(VL, &headers(port), &segment, &packet, now);
    }

    /// The window that the sender sees in an acknowledgment of `number`.
    fn window(control: &mut TcpRate, port: u16, number: u64, now: Time) -> u32 {
        let mut ack = TcpHeader {
            acknowledgment: number,
            window_bytes: 500_000,
            flags: TcpFlags::ACK,
            ..TcpHeader::default()
        };
        control.on_acknowledgment(&headers(port).reversed(), &mut ack, now);
        ack.window_bytes
    }

    fn control(tcps: u16) -> TcpRate {
        let mut control = TcpRate::new(TcpRateConfig::default(), Seed(1));
        for port in 0..tcps {
            data(&mut control, port, 0, at(0));
        }
        control
    }

    proptest! {
        #[test]
        fn windows_sum_to_the_rate_times_the_base_round_trip_time(
            tcps in 1u16..60, rate in 1e4f64..2e6, millis in 1u64..200,
        ) {
            let mut control = control(tcps);
            control.divide(VL, rate, Span::from_millis(millis), at(1));
            let sum: u32 = (0..tcps).map(|port| window(&mut control, port, 0, at(0)) / 1000).sum();
            let exact = rate * millis as f64 / 1e6;
            if exact >= f64::from(tcps) {
                prop_assert_eq!(f64::from(sum), libm::round(exact));
            } else {
                prop_assert_eq!(sum, u32::from(tcps), "never below one segment");
            }
        }
    }

    #[test]
    fn remainders_are_made_up_for_so_that_shares_are_even_in_the_long_run() {
        let mut control = control(7);
        let mut sums = [0; 7];
        for _ in 0..100 {
            control.divide(VL, 1e6, Span::from_millis(25), at(1));
            for (sum, tcp) in sums.iter_mut().zip(&control.tcps) {
                *sum += tcp.share.unwrap_or(0);
            }
        }
        // 25 segments among seven.
        assert_eq!(sums.iter().sum::<u32>(), 2500);
        assert!(sums.iter().all(|sum| (357..=358).contains(sum)), "{sums:?}");
    }

    #[test]
    fn an_offer_is_never_taken_back() {
        let mut control = control(1);
        control.divide(VL, 1e6, Span::from_millis(20), at(1));
        assert_eq!(window(&mut control, 0, 1000, at(20)), 20_000);
        control.divide(VL, 5e5, Span::from_millis(20), at(21));
        assert_eq!(window(&mut control, 0, 1000, at(22)), 20_000);
        assert_eq!(window(&mut control, 0, 6000, at(25)), 15_000);
        assert_eq!(window(&mut control, 0, 20_000, at(30)), 10_000);
    }

    #[test]
    fn the_base_round_trip_time_has_a_part_before_and_a_part_behind_the_edge() {
        let mut control = control(1);
        control.divide(VL, 1e6, Span::from_millis(4), at(1));
        assert_eq!(
            window(&mut control, 0, 1000, at(25)),
            4000,
            "the part behind is the virtual link's at first"
        );
        control.divide(VL, 1e6, Span::from_millis(4), at(25));
        // 25 ms behind; allows the byte 5000 and more.
        assert_eq!(window(&mut control, 0, 2000, at(30)), 25_000);
        data(&mut control, 0, 5000, at(38));
        control.divide(VL, 1e6, Span::from_millis(4), at(40));
        assert_eq!(control.tcps[0].share, Some(33));
    }

    #[test]
    fn the_scale_of_a_window_is_learnt_before_there_is_data() {
        let mut control = TcpRate::new(TcpRateConfig::default(), Seed(1));
        // From the header on: SYN and ACK, with a window scale of 7; then an acknowledgment with a window of 4000 << 7.
        let segment = |flags: u8, window: u16, options: &[u8]| {
            let mut bytes = alloc::vec![0; 20];
            (bytes[12], bytes[13]) = ((((20 + options.len()) / 4) << 4) as u8, flags);
            bytes[14..16].copy_from_slice(&window.to_be_bytes());
            bytes.extend_from_slice(options);
            bytes
        };
        let mut syn_ack = segment(0x12, 65_535, &[2, 4, 5, 180, 1, 3, 3, 7]);
        let mut syn_ack = super::super::RawSegment::parse(&mut syn_ack).expect("it is whole");
        control.on_acknowledgment(&headers(1).reversed(), &mut syn_ack, at(0));
        control.divide(VL, 1e6, Span::from_millis(20), at(0));
        data(&mut control, 1, 0, at(1));
        control.divide(VL, 1e6, Span::from_millis(20), at(1));
        // Beyond what the window of the SYN has offered: that is not taken back.
        let mut ack = segment(0x10, 4000, &[]);
        ack[8..12].copy_from_slice(&70_000_u32.to_be_bytes());
        let mut ack = super::super::RawSegment::parse(&mut ack).expect("it is whole");
        control.on_acknowledgment(&headers(1).reversed(), &mut ack, at(2));
        assert_eq!(ack.window_bytes(7), 20_096, "20 segments, rounded up to the scale");
    }

    #[test]
    fn silent_tcps_have_no_share() {
        let mut control = control(4);
        for millis in (0..3000).step_by(100) {
            data(&mut control, 2, millis, at(millis));
        }
        control.divide(VL, 1e6, Span::from_millis(20), at(3000));
        assert_eq!(control.len(), 1);
        assert_eq!(window(&mut control, 2, 0, at(3000)), 20_000);
        assert_eq!(window(&mut control, 1, 0, at(3000)), 500_000, "not controlled");
    }
}

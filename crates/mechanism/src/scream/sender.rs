//! The sending end: frames from the encoder, packets at even distances as far as the window allows, and what reports say of them.
//!
//! Source: the draft, sections 4.1 and 4.3.

use tidegate_units::{Span, Time};

use super::Data;
use super::config::ScreamConfig;
use super::control::{Control, Feedback};
use super::delay::BaseDelay;
use super::flight::Flight;
use super::media::Media;
use super::report::Report;
use crate::Variable;

/// What is under way counts as lost when nothing could be sent for so long (`ScreamV2Tx.cpp`).
const STALL: Span = Span::from_millis(500);

/// See the module.
#[derive(Clone, Debug)]
pub struct ScreamSender {
    control: Control,
    base: BaseDelay,
    flight: Flight,
    media: Media,
    /// When the last packet went, and from when on the next may.
    sent_at: Time,
    pace_at: Time,
    /// What was under way was given up since the last report.
    has_stalled: bool,
}

impl ScreamSender {
    /// It sends nothing before [`Self::start`].
    pub fn new(config: &ScreamConfig) -> Self {
        assert!(config.packet_bytes() > 0, "packets have a size");
        Self {
            control: Control::new(config),
            base: BaseDelay::new(),
            flight: Flight::new(config.reordering),
            media: Media::new(config),
            sent_at: Time::ZERO,
            pace_at: Time::ZERO,
            has_stalled: false,
        }
    }

    /// There is something to see from now on.
    pub fn start(&mut self, now: Time) {
        self.media.start(now);
    }

    /// There is nothing to see; what waits is still sent.
    pub const fn pause(&mut self) {
        self.media.pause();
    }

    /// The packet that is due now, if one is. To be asked again until there is none.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Data> {
        loop {
            let waited = self.media.waited(now);
            let Some(bytes) = self.media.make(self.control.bitrate_bps(), now) else { break };
            self.control.on_frame(waited, bytes, self.media.period());
        }
        self.media.discard(now);
        let bytes = self.media.next_bytes()?;
        if now < self.pace_at {
            return None;
        }
        if !self.may_send(bytes) {
            if now < self.stalls_at() {
                return None;
            }
            self.flight.give_up();
            self.has_stalled = true;
        }
        let piece = self.media.take()?;
        self.sent_at = now;
        // Whatever was reported, time goes on from packet to packet.
        self.pace_at = now.saturating_add(self.control.pace(piece.bytes).max(Span::from_nanos(1)));
        let sequence = self.flight.send(piece.bytes, now);
        Some(Data { sequence, bytes: piece.bytes, is_last: piece.is_last, made: piece.made })
    }

    /// Whether the window has room for a packet (section 4.3.1).
    fn may_send(&self, bytes: u32) -> bool {
        let in_flight = (self.flight.bytes() + u64::from(bytes)) as f64;
        self.flight.has_room() && in_flight <= self.control.in_flight_limit_bytes()
    }

    const fn stalls_at(&self) -> Time {
        self.sent_at.saturating_add(STALL)
    }

    /// When [`Self::poll_transmit`] wants to be called.
    pub fn timer_at(&self) -> Option<Time> {
        let packet = self.media.next_bytes().map(|bytes| {
            if self.may_send(bytes) { self.pace_at } else { self.stalls_at().max(self.pace_at) }
        });
        match (packet, self.media.next_frame()) {
            (Some(packet), Some(frame)) => Some(packet.min(frame)),
            (packet, frame) => packet.or(frame),
        }
    }

    /// A report came.
    pub fn on_report(&mut self, report: &Report, now: Time) {
        let in_flight_bytes = self.flight.bytes();
        let reordering_max = self.control.srtt().unwrap_or(Span::ZERO);
        let heard = self.flight.on_report(report, reordering_max, now);
        let feedback = Feedback {
            rtt: heard.newest.map(|(sent, _)| now.since(sent)),
            queue_delay: heard.newest.map(|(sent, came)| {
                let delay = came.as_nanos().wrapping_sub(sent.as_nanos()).cast_signed();
                self.base.waited(delay, now)
            }),
            units: heard.units,
            units_marked: heard.units_marked,
            acked_bytes: heard.acked_bytes,
            marked_bytes: heard.marked_bytes,
            is_loss: heard.lost > 0 || self.has_stalled,
            in_flight_bytes,
        };
        self.has_stalled = false;
        if self.control.on_feedback(&feedback, now) {
            self.base.reset();
        }
    }

    /// Packets sent so far.
    pub const fn sent_packets(&self) -> u64 {
        self.flight.sent_packets()
    }

    /// What may be recorded of it.
    pub const VARIABLES: &'static [Variable] = &[
        Variable::new("target_bps", "the rate that the encoder is told (target_bitrate)"),
        Variable::new("ref_wnd_bytes", "the reference window"),
        Variable::new("in_flight_bytes", "bytes above the highest packet that came"),
        Variable::new("queue_delay_ms", "how long the last packet waited in queues (qdelay)"),
        Variable::new("delay_target_ms", "the delay at which delay alone halves the window (qdelay_target)"),
        Variable::new("srtt_ms", "the smoothed round-trip time"),
        Variable::new("l4s_alpha", "the part of packets that are marked, smoothed"),
        Variable::new("rtp_queue_ms", "how long the oldest packet waits at the sender"),
        Variable::new("discarded_frames", "frames of which something waited too long, so far"),
    ];

    /// An inner variable by name, at `now`.
    pub fn variable(&self, name: &str, now: Time) -> Option<f64> {
        let control = &self.control;
        match name {
            "target_bps" => Some(control.bitrate_bps()),
            "ref_wnd_bytes" => Some(control.ref_wnd_bytes()),
            "in_flight_bytes" => Some(self.flight.bytes() as f64),
            "queue_delay_ms" => Some(control.queue_delay_secs() * 1e3),
            "delay_target_ms" => Some(control.delay_target_secs() * 1e3),
            "srtt_ms" => control.srtt().map(Span::as_millis_f64),
            "l4s_alpha" => Some(control.l4s_alpha()),
            "rtp_queue_ms" => Some(self.media.waited(now).as_millis_f64()),
            "discarded_frames" => Some(self.media.discarded() as f64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Metric, ScreamReceiver};
    use super::*;
    use proptest::prelude::*;
    use tidegate_packet::Ecn;

    fn ms(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn build(config: &ScreamConfig) -> ScreamSender {
        let mut sender = ScreamSender::new(config);
        sender.start(Time::ZERO);
        sender
    }

    /// Sends what is due until `until`; the instants.
    fn send(sender: &mut ScreamSender, until: Time) -> alloc::vec::Vec<(Time, Data)> {
        let mut sent = alloc::vec::Vec::new();
        while let Some(at) = sender.timer_at().filter(|&at| at < until) {
            while let Some(data) = sender.poll_transmit(at) {
                sent.push((at, data));
            }
            assert!(sender.timer_at().is_some_and(|next| next > at), "time goes on");
        }
        sent
    }

    #[test]
    fn without_reports_it_sends_its_window_and_then_what_a_stall_of_half_a_second_lets_through() {
        let mut sender = build(&ScreamConfig::default());
        // 150 kb/s: frames of 375 bytes. 3000 bytes and the overhead for so small a window and no queue, 3: 24 packets.
        let first = send(&mut sender, ms(900));
        assert_eq!(first.len(), 24);
        assert!(first.iter().all(|(_, data)| data.is_last && data.bytes == 375));
        assert_eq!(first.last().map(|(at, _)| *at), Some(ms(460)));
        let later = send(&mut sender, ms(1000));
        assert_eq!(later.first().map(|(at, _)| *at), Some(ms(960)), "half a second after the last one");
        assert!(sender.variable("discarded_frames", ms(1000)) == Some(0.0));
    }

    #[test]
    fn packets_of_a_frame_leave_at_one_and_a_half_times_the_rate() {
        let config =
            ScreamConfig { min_rate: tidegate_units::BitRate::from_mbps(1), ..ScreamConfig::default() };
        let mut sender = build(&config);
        let sent = send(&mut sender, ms(20));
        // 2500 bytes; 1000 bytes at 1.5 Mb/s are 5.33 ms.
        let at: alloc::vec::Vec<u64> = sent.iter().map(|(at, _)| at.as_nanos() / 1000).collect();
        assert_eq!(at, [0, 5333, 10666]);
        assert!(sent[2].1.is_last && !sent[1].1.is_last);
    }

    #[test]
    fn over_a_path_without_limits_the_rate_rises_to_its_highest() {
        let max_rate = Some(tidegate_units::BitRate::from_mbps(3));
        let config = ScreamConfig { max_rate, ..ScreamConfig::default() };
        let (mut sender, mut receiver) = (build(&config), ScreamReceiver::new(&config));
        let mut reports = alloc::collections::VecDeque::new();
        let mut under_way = alloc::collections::VecDeque::new();
        for tick in 0..200_000 {
            let now = Time::from_nanos(tick * 100_000);
            while let Some(data) = sender.poll_transmit(now) {
                under_way.push_back((now + Span::from_millis(20), data));
            }
            while let Some((_, data)) = under_way.pop_front_if(|(at, _)| *at <= now) {
                let report = receiver.on_data(&data, Ecn::NotEct, now);
                reports.extend(report.map(|report| (now + Span::from_millis(20), report)));
            }
            reports.extend(receiver.on_timer(now).map(|report| (now + Span::from_millis(20), report)));
            while let Some((_, report)) = reports.pop_front_if(|(at, _)| *at <= now) {
                sender.on_report(&report, now);
            }
        }
        let now = ms(20_000);
        assert_eq!(sender.variable("target_bps", now), Some(3e6));
        assert!(sender.variable("queue_delay_ms", now).is_some_and(|delay| delay < 1.0));
        assert!(sender.variable("srtt_ms", now).is_some_and(|rtt| (rtt - 40.0).abs() < 1.0));
        assert!(sender.variable("rtp_queue_ms", now).is_some_and(|wait| wait < 20.0));
    }

    proptest! {
        #[test]
        fn whatever_is_reported_no_packet_exceeds_the_window_and_time_goes_on(
            steps in prop::collection::vec(
                (any::<u8>(), prop::option::of(any::<u64>()), prop::collection::vec(any::<u16>(), 64), any::<u8>(), any::<u64>(), 0u64..700),
                1..100,
            ),
        ) {
            let mut sender = build(&ScreamConfig { ecn: crate::tcp::EcnUse::L4s, ..ScreamConfig::default() });
            let mut now = Time::ZERO;
            for (near, far, metrics, len, made, wait) in steps {
                now += Span::from_millis(wait);
                let begin = far.filter(|_| near == 0).unwrap_or_else(|| sender.sent_packets().saturating_sub(u64::from(near)));
                let metrics: alloc::vec::Vec<Metric> = metrics.into_iter().map(Metric).collect();
                let metrics = metrics.try_into().expect("64 of them");
                sender.on_report(&Report { begin, len, made: Time::from_nanos(made), metrics }, now);
                while let Some(data) = sender.poll_transmit(now) {
                    let limit = sender.control.in_flight_limit_bytes().max(f64::from(data.bytes));
                    prop_assert!(sender.flight.bytes() as f64 <= limit);
                }
                prop_assert!(sender.timer_at().is_some_and(|at| at > now));
                for variable in ScreamSender::VARIABLES {
                    let value = sender.variable(variable.name, now);
                    prop_assert!(variable.name == "srtt_ms" || value.is_some_and(f64::is_finite), "{} is {value:?}", variable.name);
                }
            }
        }
    }
}

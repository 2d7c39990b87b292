//! TCP through a network that loses, repeats, reorders and marks, and against peers that talk nonsense.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tidegate_mechanism::tcp::congestion::{
    BbrConfig, CongestionControl, CongestionControlConfig, CopaConfig, CubicConfig, DctcpConfig,
    LedbatConfig, RenoConfig, ScalableConfig, SubTcpConfig, SubTcpForm, VegasConfig, WestwoodConfig,
};
use tidegate_mechanism::tcp::{
    DelayedAck, EcnFeedback, FastRetransmitGuard, Received, Rules, TcpConfig, TcpReceiver, TcpSender,
    Transmit, Variant,
};
use tidegate_packet::{Ecn, SackBlock, SackBlocks, TcpFlags, TcpHeader};
use tidegate_units::{Span, Time};

/// What the network does to one packet.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Deliver,
    Lose,
    Duplicate,
    /// Arrives this many milliseconds late, so that others overtake it.
    Delay(u64),
    Mark,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Deliver),
        3 => Just(Fate::Lose),
        1 => Just(Fate::Duplicate),
        2 => (1u64..400).prop_map(Fate::Delay),
        1 => Just(Fate::Mark),
    ]
}

fn variant() -> impl Strategy<Value = Variant> {
    prop_oneof![Just(Variant::Tahoe), Just(Variant::Reno), Just(Variant::NewReno), Just(Variant::Sack)]
}

fn control() -> impl Strategy<Value = CongestionControlConfig> {
    let form = prop_oneof![
        Just(SubTcpConfig::default()),
        (0.01f64..3.0).prop_map(|scale_factor| SubTcpConfig {
            form: SubTcpForm::Scaled,
            scale_factor,
            ..SubTcpConfig::default()
        }),
        (0.001f64..1.0).prop_map(|increase| SubTcpConfig {
            form: SubTcpForm::Bandwidth,
            increase,
            ..SubTcpConfig::default()
        }),
    ];
    let subtcp = (form, 1u64..50).prop_map(|(config, tick)| {
        CongestionControlConfig::SubTcp(SubTcpConfig { tick: Span::from_millis(tick), ..config })
    });
    prop_oneof![
        2 => Just(CongestionControlConfig::RENO),
        1 => subtcp,
        1 => Just(CongestionControlConfig::Dctcp(DctcpConfig::default())),
        1 => Just(CongestionControlConfig::Bbr(BbrConfig::default())),
        1 => Just(CongestionControlConfig::Vegas(VegasConfig::default())),
        1 => Just(CongestionControlConfig::Westwood(WestwoodConfig::default())),
        1 => Just(CongestionControlConfig::Scalable(ScalableConfig::default())),
        1 => Just(CongestionControlConfig::Ledbat(LedbatConfig::default())),
        1 => Just(CongestionControlConfig::Copa(CopaConfig::default())),
        1 => Just(CongestionControlConfig::Reno(RenoConfig { ecn_beta: Some(0.8), hystart: true })),
        1 => Just(CongestionControlConfig::Cubic(CubicConfig { hystart: true, ..CubicConfig::default() })),
    ]
}

fn config() -> impl Strategy<Value = TcpConfig> {
    let switches = prop::array::uniform6(any::<bool>());
    let guard = prop_oneof![
        1 => Just(FastRetransmitGuard::Off),
        1 => Just(FastRetransmitGuard::AfterTimeout),
        3 => Just(FastRetransmitGuard::PerWindow),
    ];
    let feedback = prop_oneof![
        2 => Just(EcnFeedback::Classic),
        1 => Just(EcnFeedback::Dctcp),
        1 => Just(EcnFeedback::Accurate),
    ];
    (variant(), switches, guard, 4u32..64, 1u32..4, control(), feedback).prop_map(
        |(
            variant,
            [ns, delayed, ecn, ecn_timeout, handshake, limited_transmit],
            guard,
            window,
            minimum,
            control,
            ecn_feedback,
        )| {
            let base = if ns { TcpConfig::ns_1999(variant) } else { TcpConfig::modern(variant) };
            TcpConfig {
                delayed_ack: delayed.then_some(DelayedAck { segments: 2, timeout: Span::from_millis(40) }),
                ecn,
                ecn_feedback,
                ecn_timeout,
                gradual_reduction: ecn != ecn_timeout,
                prr: delayed != handshake,
                keep_window: delayed != ecn,
                reduce_window: handshake != ecn,
                reduce_once: limited_transmit,
                control,
                handshake,
                limited_transmit,
                fast_retransmit_guard: guard,
                minimum_window_segments: minimum,
                ..base
            }
            .with_window_packets(window)
        },
    )
}

/// With losses told by time, whatever else is drawn.
fn config_with_rack() -> impl Strategy<Value = TcpConfig> {
    let modern = |config| TcpConfig { rules: Rules::Modern, variant: Variant::Sack, rack: true, ..config };
    config().prop_map(modern)
}

enum Packet {
    Data(Transmit),
    Ack(Transmit),
}

/// A network with one fate for each packet in turn; kind after the last.
struct Network {
    now: Time,
    order: u64,
    flying: Vec<(Time, u64, Packet)>,
    fates: Vec<Fate>,
    used: usize,
}

impl Network {
    fn send(&mut self, transmit: Transmit, is_data: bool) {
        let fate = self.fates.get(self.used).copied().unwrap_or(Fate::Deliver);
        self.used += 1;
        let mut transmit = transmit;
        let (copies, late) = match fate {
            Fate::Deliver => (1, 0),
            Fate::Lose => (0, 0),
            Fate::Duplicate => (2, 0),
            Fate::Delay(late) => (1, late),
            Fate::Mark => {
                if transmit.ecn.is_capable() {
                    transmit.ecn = Ecn::Ce;
                }
                (1, 0)
            }
        };
        for _ in 0..copies {
            self.order += 1;
            let packet = if is_data { Packet::Data(transmit) } else { Packet::Ack(transmit) };
            self.flying.push((self.now + Span::from_millis(20 + late), self.order, packet));
        }
    }

    fn next_arrival(&self) -> Option<(Time, usize)> {
        let next = self.flying.iter().enumerate().min_by_key(|(_, (at, order, _))| (*at, *order))?;
        Some((next.1.0, next.0))
    }
}

struct Bed {
    config: TcpConfig,
    sender: TcpSender,
    receiver: TcpReceiver,
    network: Network,
    delivered_bytes: u64,
    sent_end: u64,
    /// What was under way when an echo began a gradual reduction, and the end of what was sent by then.
    reduced: Option<(u64, u64)>,
    /// The timer lets one segment go, whatever the window says.
    probes: bool,
}

impl Bed {
    fn new(config: &TcpConfig, fates: Vec<Fate>) -> Self {
        Self {
            config: config.clone(),
            sender: TcpSender::new(config),
            receiver: TcpReceiver::new(config),
            network: Network { now: Time::ZERO, order: 0, flying: Vec::new(), fates, used: 0 },
            delivered_bytes: 0,
            sent_end: 0,
            reduced: None,
            probes: false,
        }
    }

    /// An acknowledgment, and what it says of a gradual reduction.
    fn acknowledge(&mut self, header: &TcpHeader) {
        self.noting_reductions(|sender, now| sender.on_ack(header, now));
    }

    fn noting_reductions(&mut self, happens: impl FnOnce(&mut TcpSender, Time)) {
        let flight = self.sent_end - self.sender.acked_bytes();
        let counters = self.sender.counters();
        happens(&mut self.sender, self.network.now);
        let after = self.sender.counters();
        let by_echo = self.config.gradual_reduction && after.ecn_reductions > counters.ecn_reductions;
        let by_loss = self.config.prr && after.fast_retransmits > counters.fast_retransmits;
        if by_echo || by_loss {
            self.reduced = Some((flight, self.sent_end));
        }
        self.reduced = self.reduced.filter(|&(_, end)| self.sender.acked_bytes() < end);
    }

    fn drain(&mut self) {
        let minimum = u64::from(self.config.minimum_window_segments * self.config.segment_bytes);
        assert!(self.sender.cwnd_bytes() >= minimum, "the window fell below its minimum");
        let control = self.sender.congestion_control();
        assert!(control.variable("cwnd_segments").is_some_and(|segments| segments > 0.0));
        assert!(control.variable("scale").is_none_or(|scale| (1.0..=64.0).contains(&scale)));
        let mut polls = 0;
        while let Some(transmit) = self.sender.poll_transmit(self.network.now) {
            polls += 1;
            assert!(polls < 10_000, "a window is finite");
            let end = transmit.header.sequence + u64::from(transmit.header.payload_bytes);
            assert_eq!(transmit.retransmission, transmit.header.sequence < self.sent_end);
            assert!(end <= self.sender.acked_bytes() + self.sender.receive_window_bytes());
            let is_new = transmit.header.payload_bytes > 0 && !transmit.retransmission;
            if is_new {
                // Limited transmit may exceed the window by two segments, and so may nothing else but a probe of the tail.
                let limited = if self.config.limited_transmit { 2 } else { 0 };
                // A gradual reduction keeps to what was under way until a round trip has passed.
                let segment = u64::from(self.config.segment_bytes);
                let reducing = self.reduced.map_or(0, |(flight, _)| flight);
                // The pipe of ns counts packets: a short one, the last, is as good as a whole one.
                let is_ns = self.config.rules == Rules::Ns1999;
                let short = if is_ns { segment - u64::from(transmit.header.payload_bytes) } else { 0 };
                let window = (self.sender.cwnd_bytes() + limited * segment).max(reducing) + short;
                let is_probe = core::mem::take(&mut self.probes);
                assert!(self.sender.in_flight_bytes() <= window || is_probe, "in flight beyond the window");
            }
            self.sent_end = self.sent_end.max(end);
            self.network.send(transmit, true);
        }
        assert!(self.sender.poll_transmit(self.network.now).is_none(), "nothing more without an event");
    }

    fn take(&mut self, received: Received) {
        self.delivered_bytes += received.delivered_bytes;
        assert!(!(received.duplicate && received.delivered_bytes > 0));
        assert_eq!(self.delivered_bytes, self.receiver.delivered_bytes(), "each byte once");
        assert!(self.receiver.held_bytes() <= u64::from(self.config.receive_window_bytes));
        if let Some(ack) = received.ack {
            self.network.send(ack, false);
        }
    }

    /// Runs to the end of the transfer; whether it ended.
    fn run(&mut self, bytes: u64) -> bool {
        self.sender.on_app_data(bytes);
        self.drain();
        for _ in 0..200_000 {
            if self.sender.finished_at().is_some() {
                return true;
            }
            let arrival = self.network.next_arrival();
            let arrival_at = arrival.map_or(Time::MAX, |(at, _)| at);
            let sender_at = self.sender.timer_at().unwrap_or(Time::MAX);
            let receiver_at = self.receiver.timer_at().unwrap_or(Time::MAX);
            let next = arrival_at.min(sender_at).min(receiver_at);
            if next == Time::MAX {
                return false;
            }
            self.network.now = self.network.now.max(next);
            let now = self.network.now;
            if next == arrival_at {
                let (_, _, packet) = self.network.flying.swap_remove(arrival.unwrap().1);
                match packet {
                    Packet::Data(data) => {
                        let received = self.receiver.on_segment(&data.header, data.ecn, now);
                        self.take(received);
                    }
                    Packet::Ack(ack) => self.acknowledge(&ack.header),
                }
            } else if next == receiver_at {
                if let Some(ack) = self.receiver.on_timer(now) {
                    self.network.send(ack, false);
                }
            } else {
                self.noting_reductions(TcpSender::on_timer);
                self.probes = self.config.rack;
            }
            self.drain();
            self.probes = false;
        }
        false
    }
}

fn arbitrary_header() -> impl Strategy<Value = TcpHeader> {
    let number = prop_oneof![0u64..40_000, any::<u64>(), (0u64..40).prop_map(|n| n * 1000)];
    let blocks = prop::collection::vec((any::<u32>(), any::<u32>(), any::<bool>()), 0..4);
    let flags = prop::collection::vec(0usize..5, 0..4);
    (number.clone(), number, any::<u32>(), any::<u32>(), blocks, flags, any::<[u8; 3]>()).prop_map(
        |(sequence, acknowledgment, payload, window, blocks, flags, ce_bytes)| {
            let mut sack = SackBlocks::default();
            for (offset, length, small) in blocks {
                let shrink = |value: u32| if small { value % 20_000 } else { value };
                sack.push(SackBlock { offset: shrink(offset), length: shrink(length) });
            }
            let all = [TcpFlags::ECE, TcpFlags::CWR, TcpFlags::SYN, TcpFlags::FIN, TcpFlags::NONE];
            let flags = flags.into_iter().fold(TcpFlags::ACK, |set, index| set.union(all[index]));
            let payload_bytes = if payload % 3 == 0 { payload } else { payload % 3000 };
            let window_bytes = window;
            TcpHeader { sequence, acknowledgment, payload_bytes, window_bytes, sack, flags, ce_bytes }
        },
    )
}

/// A transfer of `bytes` ends, and each of them arrives once.
fn completes(config: &TcpConfig, bytes: u64, fates: Vec<Fate>) -> Result<(), TestCaseError> {
    let mut bed = Bed::new(config, fates);
    prop_assert!(bed.run(bytes), "stuck at {} of {bytes}: {:?}", bed.sender.acked_bytes(), bed.sender);
    prop_assert_eq!(bed.delivered_bytes, bytes);
    prop_assert_eq!(bed.sender.acked_bytes(), bytes);
    prop_assert_eq!(bed.sender.in_flight_bytes(), 0);
    Ok(())
}

/// All `bursts` arrive, with silence in between.
fn delivers_bursts(config: &TcpConfig, bursts: &[u64], fates: Vec<Fate>) -> Result<(), TestCaseError> {
    let mut bed = Bed::new(config, fates);
    for burst in bursts {
        prop_assert!(bed.run(*burst), "stuck: {:?}", bed.sender);
        bed.network.now += Span::from_secs(burst % 3);
    }
    prop_assert_eq!(bed.delivered_bytes, bursts.iter().sum::<u64>());
    Ok(())
}

proptest! {
    #[test]
    fn every_transfer_completes_and_delivers_each_byte_once_in_order(
        config in config(),
        bytes in 1u64..120_000,
        fates in prop::collection::vec(fate(), 0..300),
    ) {
        completes(&config, bytes, fates)?;
    }

    #[test]
    fn with_rack_every_transfer_completes_too(
        config in config_with_rack(),
        bytes in 1u64..120_000,
        fates in prop::collection::vec(fate(), 0..300),
    ) {
        completes(&config, bytes, fates)?;
    }

    #[test]
    fn with_rack_a_source_that_comes_and_goes_is_delivered_in_full_too(
        config in config_with_rack(),
        bursts in prop::collection::vec(1u64..20_000, 1..12),
        fates in prop::collection::vec(fate(), 0..200),
    ) {
        delivers_bursts(&config, &bursts, fates)?;
    }

    #[test]
    fn nonsense_from_the_peer_neither_panics_nor_moves_the_sender_beyond_what_it_sent(
        config in prop_oneof![3 => config().boxed(), 1 => config_with_rack().boxed()],
        headers in prop::collection::vec((arbitrary_header(), 0u64..500), 1..200),
    ) {
        let mut bed = Bed::new(&config, Vec::new());
        bed.sender.set_unlimited();
        bed.drain();
        for (header, wait) in headers {
            bed.network.now += Span::from_millis(wait);
            let now = bed.network.now;
            if bed.sender.timer_at().is_some_and(|at| at <= now) {
                bed.sender.on_timer(now);
            }
            bed.acknowledge(&header);
            let mut polls = 0;
            while let Some(transmit) = bed.sender.poll_transmit(now) {
                let end = transmit.header.sequence + u64::from(transmit.header.payload_bytes);
                bed.sent_end = bed.sent_end.max(end);
                polls += 1;
                prop_assert!(polls < 10_000);
            }
            prop_assert!(bed.sender.acked_bytes() <= bed.sent_end);
            prop_assert!(bed.sender.cwnd_bytes() >= u64::from(config.segment_bytes));
            let received = bed.receiver.on_segment(&header, Ecn::Ce, now);
            if let Some(ack) = received.ack {
                for block in ack.header.sack.as_slice() {
                    prop_assert!(block.offset > 0 && block.length > 0);
                }
            }
            bed.receiver.on_timer(now);
        }
    }

    #[test]
    fn a_source_that_comes_and_goes_is_delivered_in_full(
        config in config(),
        bursts in prop::collection::vec(1u64..20_000, 1..12),
        fates in prop::collection::vec(fate(), 0..200),
    ) {
        delivers_bursts(&config, &bursts, fates)?;
    }

    #[test]
    fn a_greedy_source_that_stops_has_delivered_what_it_sent(
        config in config(),
        events in 1usize..400,
        fates in prop::collection::vec(fate(), 0..200),
    ) {
        let mut bed = Bed::new(&config, fates);
        bed.sender.set_unlimited();
        bed.drain();
        for _ in 0..events {
            let Some((at, index)) = bed.network.next_arrival() else { break };
            bed.network.now = bed.network.now.max(at);
            let now = bed.network.now;
            match bed.network.flying.swap_remove(index).2 {
                Packet::Data(data) => {
                    let received = bed.receiver.on_segment(&data.header, data.ecn, now);
                    bed.take(received);
                }
                Packet::Ack(ack) => bed.acknowledge(&ack.header),
            }
            bed.drain();
        }
        bed.sender.stop(bed.network.now);
        prop_assert!(bed.run(0), "stuck: {:?}", bed.sender);
        prop_assert_eq!(bed.sender.acked_bytes(), bed.sent_end);
        bed.sender.on_app_data(1000);
        prop_assert!(bed.sender.poll_transmit(bed.network.now).is_none());
    }
}

#[test]
fn a_closed_receive_window_is_probed_until_it_opens() {
    for rules in [Rules::Ns1999, Rules::Modern] {
        let base = match rules {
            Rules::Ns1999 => TcpConfig::ns_1999(Variant::Reno),
            Rules::Modern => TcpConfig::modern(Variant::Reno),
        };
        let mut sender = TcpSender::new(&base);
        sender.on_app_data(100_000);
        let mut now = Time::ZERO;
        let mut sent = 0;
        while let Some(transmit) = sender.poll_transmit(now) {
            sent = transmit.header.sequence + u64::from(transmit.header.payload_bytes);
        }
        let shut = TcpHeader { acknowledgment: sent, flags: TcpFlags::ACK, ..TcpHeader::default() };
        sender.on_ack(&shut, now);
        assert!(sender.poll_transmit(now).is_none(), "the window is shut");
        let mut probes = 0;
        while probes < 3 {
            now = sender.timer_at().expect("a probe is planned");
            sender.on_timer(now);
            while sender.poll_transmit(now).is_some() {
                probes += 1;
            }
        }
        let open = TcpHeader { window_bytes: 50_000, ..shut };
        sender.on_ack(&open, now);
        sender.on_timer(sender.timer_at().unwrap());
        assert!(sender.poll_transmit(now + Span::from_secs(100)).is_some());
    }
}

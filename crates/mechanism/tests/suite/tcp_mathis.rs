//! TCP under random loss against the square-root law.
//!
//! Source: Mathis, Semke, Mahdavi and Ott, CCR 1997: a window of sqrt(3/2) / sqrt(p) segments per round trip without
//! delayed acknowledgments, for small p. Tahoe is not what the law describes; it stays below.

use std::collections::VecDeque;

use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::tcp::{SenderCounters, TcpConfig, TcpReceiver, TcpSender, Transmit, Variant};
use tidegate_units::{Span, Time};

/// One way; no link is a bottleneck.
const DELAY: Span = Span::from_millis(50);
const DURATION: Span = Span::from_secs(1000);
const LOSS: f64 = 0.001;

/// Segments per second that arrive in order, and what the sender did.
fn run(config: &TcpConfig) -> (f64, SenderCounters) {
    let mut sender = TcpSender::new(config);
    let mut receiver = TcpReceiver::new(config);
    let mut random = Substream::new(Seed::for_component(1, "loss"));
    let mut now = Time::ZERO;
    let mut data: VecDeque<(Time, Transmit)> = VecDeque::new();
    let mut acks: VecDeque<(Time, Transmit)> = VecDeque::new();
    sender.set_unlimited();
    while now < Time::ZERO + DURATION {
        while let Some(transmit) = sender.poll_transmit(now) {
            if !random.chance(LOSS) {
                data.push_back((now + DELAY, transmit));
            }
        }
        let data_at = data.front().map_or(Time::MAX, |(at, _)| *at);
        let ack_at = acks.front().map_or(Time::MAX, |(at, _)| *at);
        now = data_at.min(ack_at).min(sender.timer_at().unwrap_or(Time::MAX));
        if now == data_at {
            let (_, segment) = data.pop_front().unwrap();
            let received = receiver.on_segment(&segment.header, segment.ecn, now);
            acks.extend(received.ack.map(|ack| (now + DELAY, ack)));
        } else if now == ack_at {
            let (_, ack) = acks.pop_front().unwrap();
            sender.on_ack(&ack.header, now);
        } else {
            sender.on_timer(now);
        }
    }
    let segments = receiver.delivered_bytes() as f64 / f64::from(config.segment_bytes);
    (segments / DURATION.as_secs_f64(), sender.counters())
}

#[test]
fn throughput_under_random_loss_follows_the_square_root_law() {
    let law = (1.5 / LOSS).sqrt() / (2.0 * DELAY.as_secs_f64());
    for variant in [Variant::Tahoe, Variant::Reno, Variant::NewReno, Variant::Sack] {
        for base in [TcpConfig::ns_1999(variant), TcpConfig::modern(variant)] {
            let config = TcpConfig { delayed_ack: None, ..base }.with_window_packets(2000);
            let (rate, counters) = run(&config);
            let ratio = rate / law;
            let lowest = if variant == Variant::Tahoe { 0.8 } else { 0.93 };
            assert!((lowest..1.07).contains(&ratio), "{:?} {variant:?}: {ratio:.3} of the law", config.rules);
            if matches!(variant, Variant::NewReno | Variant::Sack) {
                assert!(counters.timeouts <= 3, "recovery repairs what is lost: {counters:?}");
            }
        }
    }
}

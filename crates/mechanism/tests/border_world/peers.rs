//! A border whose peers are X (1) and Y (2), and borders there that say what X and Y would: what does X see of it, with Y and without? For the
//! tests of borders and the fuzz target `peers`.

use std::num::NonZeroU32;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::nbp::Granularity;
use tidegate_mechanism::edge::nbp::wire::Encoder;
use tidegate_mechanism::edge::{AggregateId, Border, BorderSite, EdgeConfig, EdgeReport, PeerId, Transmit};
use tidegate_packet::{Ecn, FlowId, Packet};
use tidegate_units::{Span, Time};

use super::{Store, headers, segment};

/// One step of a world with a border whose peers are X (1) and Y (2).
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
#[derive(Clone, Debug)]
pub enum Step {
    /// A packet of a flow enters for X, or one of another flow comes from X.
    Enters {
        flow: u8,
    },
    Leaves {
        flow: u8,
        ecn: u8,
        stamp: u32,
    },
    /// X answers, or asks: a message that this border, or the border of X, said so many before the last; or what X forges of it.
    Hears {
        which: usize,
        of_x: bool,
        flip: Option<(usize, u8)>,
    },
    Waits {
        micros: u32,
    },
    /// From Y: packets of any flows, any bytes, and what anybody has said, damaged or not.
    YLeaves {
        flow: u8,
    },
    YBytes {
        bytes: Vec<u8>,
    },
    YEchoes {
        which: usize,
        of_x: bool,
        flip: Option<(usize, u8)>,
    },
    /// Packets enter for Y, of flows that are those of X as well.
    YEnters {
        flow: u8,
    },
    /// Y answers what was said to it so many before the last, damaged or not.
    YAnswers {
        which: usize,
        flip: Option<(usize, u8)>,
    },
    YAnnounces {
        first: u16,
        count: u16,
        millis: u16,
    },
}

/// A packet of `flow`, which entered by `entry`, leaves the domain through a tunnel.
fn leave(border: &mut Border, flow: u8, entry: u32, (ecn, stamp): (u8, u32), now: Time) {
    let mut packet = Packet::new(0, FlowId(u32::from(flow)), 1000);
    packet.ecn = Ecn::from_bits(ecn);
    packet.inner_ecn.put(0, Ecn::Ect0);
    if let Some(stamp) = NonZeroU32::new(stamp).filter(|_| border.stamps()) {
        border.handle_stamp(packet.flow, &headers(flow), stamp, now);
    }
    border.handle_leaving(&mut packet, &headers(flow), &[PeerId(entry)], segment(flow).as_mut(), now);
}

const X: PeerId = PeerId(1);
const Y: PeerId = PeerId(2);

/// Packets for Y have this slot, and those for X have none.
const OF_Y: u32 = 1;

/// `bytes`, changed as `flip` says.
fn flipped(bytes: &[u8], flip: Option<(usize, u8)>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some((at, mask)) = flip.filter(|(at, _)| *at < bytes.len()) {
        bytes[at] ^= mask;
    }
    bytes
}

/// What a border says to X, lets go to X and knows of X in the course of `steps`.
pub fn seen_of_x(config: &EdgeConfig, steps: &[Step], with_y: bool) -> Vec<String> {
    let build = |border| Border::new(config, BorderSite { border, level: 0 }, &Context::for_tests());
    // Those of X and Y are there to say what these would.
    let (mut border, mut at_x, mut at_y) = (build(PeerId(0)), build(X), build(Y));
    let (mut store, mut message, mut seen) = (Store::default(), Vec::new(), Vec::new());
    let (mut said, mut said_to_y, mut said_by_x) =
        (Vec::<Vec<u8>>::new(), Vec::<Vec<u8>>::new(), Vec::<Vec<u8>>::new());
    let mut now = Time::from_nanos(1_000_000_000);
    for step in steps {
        match step {
            Step::Enters { flow } => {
                for (entered, exit) in [(&mut border, X), (&mut at_x, PeerId(0))] {
                    let packet = Packet::new(0, FlowId(u32::from(*flow)), 1000);
                    entered.handle_packet(packet, &headers(*flow), &[exit], now, &mut store);
                }
            }
            Step::Leaves { flow, ecn, stamp } => {
                leave(&mut border, *flow, 1, (*ecn, *stamp), now);
                leave(&mut at_x, *flow, 0, (*ecn, *stamp), now);
            }
            Step::Hears { which, of_x: true, flip } => {
                let Some(bytes) = said_by_x.iter().rev().nth(*which) else { continue };
                border.handle_message(X, &flipped(bytes, *flip), 250, now);
            }
            Step::Hears { which, of_x: false, flip } => {
                let Some(bytes) = said.iter().rev().nth(*which) else { continue };
                at_x.handle_message(PeerId(0), &flipped(bytes, *flip), 250, now);
            }
            Step::Waits { micros } => {
                now += Span::from_micros(u64::from(*micros));
                border.handle_timeout(now);
                at_x.handle_timeout(now);
            }
            _ if !with_y => (),
            Step::YLeaves { flow } => leave(&mut border, *flow, 2, (3, 9), now),
            Step::YBytes { bytes } => border.handle_message(Y, bytes, 250, now),
            Step::YEchoes { which, of_x, flip } => {
                let of = if *of_x { &said_by_x } else { &said };
                let Some(bytes) = of.iter().rev().nth(*which) else { continue };
                border.handle_message(Y, &flipped(bytes, *flip), 250, now);
            }
            Step::YEnters { flow } => {
                let packet = Packet::new(OF_Y, FlowId(u32::from(*flow)), 1000);
                border.handle_packet(packet, &headers(*flow), &[Y], now, &mut store);
            }
            Step::YAnswers { which, flip } => {
                let Some(bytes) = said_to_y.iter().rev().nth(*which) else { continue };
                at_y.handle_message(PeerId(0), bytes, 250, now);
                while let Some(transmit) = at_y.poll_transmit(now, &mut store, &mut message) {
                    if let Transmit::Message { .. } = transmit {
                        border.handle_message(Y, &flipped(&message, *flip), 250, now);
                    }
                }
            }
            Step::YAnnounces { first, count, millis } => {
                let mut encoder = Encoder::default();
                encoder.forward(now.saturating_sub(Span::from_millis(u64::from(*millis))));
                for flow in *first..first.saturating_add(*count).min(200) {
                    encoder.push(&Granularity::Flow.class_of(&headers(flow as u8)));
                }
                border.handle_message(Y, encoder.finish(), 250, now);
            }
        }
        while let Some(transmit) = border.poll_transmit(now, &mut store, &mut message) {
            match transmit {
                Transmit::Message { to: X } => {
                    seen.push(format!("{now} {message:?}"));
                    said.push(message.clone());
                }
                Transmit::Message { .. } => said_to_y.push(message.clone()),
                Transmit::Packet(packet) if packet.slot == OF_Y => (),
                Transmit::Packet(packet) => seen.push(format!("{now} {packet:?}")),
            }
        }
        while let Some(transmit) = at_x.poll_transmit(now, &mut store, &mut message) {
            if let Transmit::Message { .. } = transmit {
                said_by_x.push(message.clone());
            }
        }
        if !matches!(
            step,
            Step::YLeaves { .. }
                | Step::YBytes { .. }
                | Step::YEchoes { .. }
                | Step::YEnters { .. }
                | Step::YAnswers { .. }
                | Step::YAnnounces { .. }
        ) {
            seen.push(format!("{:?}", border.egress().epoch_report(X)));
            seen.extend((0..6).map(|flow| {
                let report = border.ingress().report(&headers(flow), Some(X));
                // Which number its shaper has is seen by nobody.
                format!("{:?}", report.map(|known| EdgeReport { aggregate: AggregateId(0), ..known }))
            }));
        }
    }
    seen
}

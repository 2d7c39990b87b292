//! What the tests of controllers share: sources that answer to their signal at once, so that where a controller settles
//! follows from its law.
//!
//! Source: none; it serves tests only.

use alloc::vec::Vec;

use tidegate_packet::{Ecn, FlowId, Packet};
use tidegate_units::{Span, Time};

use super::{Fifo, QueueDiscipline, QueueManager};
use crate::schedule::testing::Counted;

/// What the second half of a run was on average.
#[derive(Debug)]
pub(super) struct Settled {
    /// Packets that waited.
    pub(super) queue: f64,
    /// The signal of the sources.
    pub(super) signal: f64,
    /// Packets sent, over what the link carries.
    pub(super) load: f64,
    /// Packets dropped in the whole run.
    pub(super) dropped: usize,
}

/// A link that sends a packet of 1000 bytes each millisecond (8 Mbit/s), and sources that offer `load(signal)` times that. The
/// signal is `variable` of the manager, or without one the share of marked packets, smoothed over 100 of them.
pub(super) fn settle<M: QueueManager>(
    fifo: &mut Fifo<M>,
    variable: Option<&str>,
    seconds: u64,
    load: impl Fn(f64) -> f64,
) -> Settled {
    const STEPS: u64 = 10;
    let steps = seconds * 1000 * STEPS;
    let (mut out, mut credit, mut marked, mut slot) = (Counted::default(), 0.0, 0.0, 0);
    let (mut queues, mut signals, mut sent) = (Vec::new(), Vec::new(), 0u32);
    let (mut free_at, mut idle) = (0, true);
    for step in 0..steps {
        let now = Time::ZERO + Span::from_micros(step * 1000 / STEPS);
        while let Some(at) = fifo.timer_at().filter(|&at| at <= now) {
            fifo.on_timer(at, &mut out);
        }
        let is_second_half = 2 * step >= steps;
        let signal = variable.map_or(marked, |name| fifo.variable(name).expect("it has the variable"));
        credit += load(signal) / STEPS as f64;
        while credit >= 1.0 {
            credit -= 1.0;
            let packet = Packet { ecn: Ecn::Ect0, arrived: now, ..Packet::new(slot, FlowId(slot % 7), 1000) };
            slot += 1;
            let before = out.marks.len();
            fifo.enqueue(packet, now, &mut out);
            marked += 0.01 * (f64::from(u8::from(out.marks.len() > before)) - marked);
        }
        if step >= free_at {
            if fifo.dequeue(now, &mut out).is_some() {
                free_at = step + STEPS;
                idle = false;
                sent += u32::from(is_second_half);
            } else if !idle {
                fifo.on_idle(now);
                idle = true;
            }
        }
        if is_second_half {
            queues.push(f64::from(fifo.backlog().packets));
            signals.push(signal);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Settled {
        queue: mean(&queues),
        signal: mean(&signals),
        load: f64::from(sent) / (seconds * 500) as f64,
        dropped: out.drops.len(),
    }
}

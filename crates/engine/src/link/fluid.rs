//! A port that packets share with a fluid: one FIFO of unfinished work, to which the fluid adds as a rate and each packet at once.
//!
//! A packet that joins leaves when the work that it found is done, and its own: its transmission is planned, as at the other ports. The
//! work between two instants follows from the rate of the fluid in closed form, so that packets see it as it is when they come. What is
//! dropped or marked of the fluid is dropped or marked of packets with the same probability ([`FluidLaw`]); what packets bring counts in
//! the queue and in the arrivals that the law sees. `fluid.rs` moves rates and probabilities on, by even steps.

use tidegate_mechanism::Context;
use tidegate_mechanism::fluid::{FluidLaw, Load, Notice};
use tidegate_mechanism::queue::ManagerConfig;
use tidegate_mechanism::random::Substream;
use tidegate_packet::{DropReason, Ecn, MarkReason, Packet, Sink};
use tidegate_units::{BitRate, Bytes, Span, Time};

use super::tally::Tally;
use super::transits::Transit;
use super::wire::Wire;
use crate::observer::Observer;
use crate::world::LinkSink;

/// Bytes that the fluid and packets offered and brought in a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brought {
    /// What packets offered.
    pub(crate) offered_bytes: f64,
    /// What of it joined.
    pub(crate) joined_bytes: f64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FluidPort {
    law: FluidLaw,
    limit_bytes: f64,
    /// What the law counts in.
    packet_bytes: f64,
    /// Bytes per second.
    capacity: f64,
    /// Unfinished work at `as_of`, in bytes.
    work: f64,
    as_of: Time,
    /// What joins of the fluid, in bytes per second.
    inflow: f64,
    notice: Notice,
    /// The part that a full queue drops of what the law lets pass.
    overflow: f64,
    /// What may be in the queue beyond its limit until the next step: what the link sends in one.
    slack_bytes: f64,
    brought: Brought,
    /// It went down since that was last asked.
    emptied: bool,
    random: Substream,
    /// Integrals that are no whole byte nanoseconds and nanoseconds yet.
    byte_nanos: f64,
    packet_nanos: f64,
    busy_nanos: f64,
    delivered_bytes: f64,
}

impl FluidPort {
    /// Under the law of `config`, for packets of `packet`; none if there is no such law.
    pub(super) fn new(config: &ManagerConfig, packet: Bytes, context: &Context) -> Option<Self> {
        let (law, limit_bytes) = FluidLaw::new(config, context.link_rate, packet)?;
        Some(Self {
            law,
            limit_bytes,
            packet_bytes: packet.as_f64(),
            capacity: context.link_rate.as_bytes_per_second_f64(),
            work: 0.0,
            as_of: Time::ZERO,
            inflow: 0.0,
            notice: Notice::default(),
            overflow: 0.0,
            slack_bytes: 0.0,
            brought: Brought::default(),
            emptied: false,
            random: Substream::new(context.seed),
            byte_nanos: 0.0,
            packet_nanos: 0.0,
            busy_nanos: 0.0,
            delivered_bytes: 0.0,
        })
    }

    pub(super) fn variable(&self, name: &str) -> Option<f64> {
        self.law.variable(name)
    }

    /// Unfinished work, as of the last look, in bytes.
    pub(crate) const fn work(&self) -> f64 {
        self.work
    }

    /// Bytes per second.
    pub(crate) const fn capacity(&self) -> f64 {
        self.capacity
    }

    /// The work and the integrals as they are at `now`.
    pub(crate) fn settle(&mut self, now: Time, tally: &mut Tally) {
        let elapsed = now.since(self.as_of).as_secs_f64();
        if elapsed <= 0.0 {
            return;
        }
        self.as_of = now;
        let slope = self.inflow - self.capacity;
        let end = self.work + slope * elapsed;
        let (area, busy) = if end >= 0.0 {
            (f64::midpoint(self.work, end) * elapsed, elapsed)
        } else {
            // It runs dry on the way; from then on what comes goes at once.
            let dry_after = self.work / -slope;
            let busy = dry_after + (elapsed - dry_after) * self.inflow / self.capacity;
            (self.work / 2.0 * dry_after, busy)
        };
        self.work = end.max(0.0);
        self.byte_nanos += area * 1e9;
        self.packet_nanos += area * 1e9 / self.packet_bytes;
        self.busy_nanos += busy * 1e9;
        tally.add_queue(take_whole(&mut self.packet_nanos), take_whole(&mut self.byte_nanos));
        tally.add_busy(Span::from_nanos(take_whole(&mut self.busy_nanos) as u64));
    }

    /// A packet is offered.
    pub(super) fn offer<O: Observer>(
        &mut self,
        mut packet: Packet,
        route: u32,
        wire: &mut Wire,
        sink: &mut LinkSink<'_, O>,
    ) {
        let now = packet.arrived;
        self.settle(now, sink.tally);
        let bytes = f64::from(packet.wire_bytes);
        self.brought.offered_bytes += bytes;
        let understands = packet.ecn.is_capable();
        if self.random.chance(self.notice.drop) {
            sink.on_drop(packet, DropReason::Early);
            return;
        }
        if self.random.chance(self.notice.mark / (1.0 - self.notice.drop).max(f64::MIN_POSITIVE)) {
            if !understands {
                sink.on_drop(packet, DropReason::Early);
                return;
            }
            packet.ecn = Ecn::Ce;
            sink.on_mark(&packet, MarkReason::Early);
        }
        if self.does_not_fit(bytes) {
            sink.on_drop(packet, DropReason::Overflow);
            return;
        }
        self.brought.joined_bytes += bytes;
        self.work += bytes;
        // Rounding must not let one packet overtake another.
        let ends = now.saturating_add(Span::from_secs_f64(self.work / self.capacity)).max(wire.busy_until);
        wire.busy_until = ends;
        wire.transits.push_back(Transit { packet, ends, route });
        self.note_length(sink.tally);
    }

    /// Whether a full queue drops a packet of so many bytes: with the part that it drops of the fluid. So both have the same chance, however
    /// packets are clumped: what they bring beyond the limit is charged to both in the next step.
    fn does_not_fit(&mut self, bytes: f64) -> bool {
        self.work + bytes > self.limit_bytes + self.slack_bytes || self.random.chance(self.overflow)
    }

    fn note_length(&self, tally: &mut Tally) {
        let (packets, bytes) = self.length();
        tally.on_length(packets, bytes);
    }

    /// Packets and bytes in the queue, as of the last look.
    pub(super) fn length(&self) -> (u32, u64) {
        ((self.work / self.packet_bytes) as u32, self.work as u64)
    }

    pub(super) fn set_rate(&mut self, now: Time, old: BitRate, wire: &mut Wire) {
        self.capacity = wire.clock.rate().as_bytes_per_second_f64();
        // All work takes as much longer or shorter.
        for position in 0..wire.transits.len() {
            if let Some(transit) = wire.transits.get_mut(position)
                && transit.ends > now
            {
                transit.ends = super::planned::rescale(now, transit.ends, old, wire.clock.rate());
            }
        }
        wire.busy_until = if wire.busy_until > now {
            super::planned::rescale(now, wire.busy_until, old, wire.clock.rate())
        } else {
            wire.busy_until
        };
    }

    pub(super) fn flush<O: Observer>(&mut self, now: Time, wire: &mut Wire, sink: &mut LinkSink<'_, O>) {
        self.settle(now, sink.tally);
        self.work = 0.0;
        self.inflow = 0.0;
        self.brought.joined_bytes = 0.0;
        self.emptied = true;
        for transit in wire.transits.drain() {
            sink.on_drop(transit.packet, DropReason::LinkDown);
        }
        wire.busy_until = wire.busy_until.min(now);
    }

    /// What packets brought since it was last asked.
    pub(crate) fn take_brought(&mut self) -> Brought {
        core::mem::take(&mut self.brought)
    }

    /// Whether the link went down since it was last asked.
    pub(crate) fn take_emptied(&mut self) -> bool {
        core::mem::take(&mut self.emptied)
    }

    /// The fluid's part of what left the queue.
    pub(crate) fn deliver(&mut self, bytes: f64, tally: &mut Tally) {
        self.delivered_bytes += bytes;
        tally.on_fluid_delivered(take_whole(&mut self.delivered_bytes) as u64);
    }

    /// The law moves on to `now`, with `offered` bytes per second of the fluid and of packets; what it says then. It holds for the next
    /// step.
    pub(crate) fn judge(&mut self, offered: f64, step: Span, now: Time) -> Notice {
        let load = Load {
            packets: self.work / self.packet_bytes,
            arrivals: offered / self.packet_bytes,
            capacity: self.capacity / self.packet_bytes,
        };
        self.notice = self.law.step(load, step, now);
        self.notice
    }

    /// `inflow` bytes per second of the fluid pass the law, and packets bring about `packets` more: which part of both does not fit into
    /// the queue in the next step. The rest joins.
    pub(crate) fn join(&mut self, inflow: f64, packets: f64, step: Span, tally: &mut Tally) -> f64 {
        let all = inflow + packets;
        let excess =
            self.work / step.as_secs_f64() + all - self.capacity - self.limit_bytes / step.as_secs_f64();
        self.overflow = if excess > 0.0 && all > 0.0 { (excess / all).min(1.0) } else { 0.0 };
        self.slack_bytes = self.capacity * step.as_secs_f64();
        self.inflow = inflow * (1.0 - self.overflow);
        self.note_length(tally);
        self.overflow
    }

    /// Nothing of the fluid joins: the link is down.
    pub(crate) fn close(&mut self) {
        self.inflow = 0.0;
        self.work = 0.0;
    }
}

/// The whole part of `value`, which keeps the rest.
fn take_whole(value: &mut f64) -> u128 {
    let whole = value.max(0.0) as u128;
    *value -= whole as f64;
    whole
}

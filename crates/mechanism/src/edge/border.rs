//! A border of a domain, whole: both halves of an edge mechanism, the shapers that it controls, and what it has to say.
//!
//! A world hands over what happens (`handle_...`), and asks what to send and when to come back (`poll_...`), as with other
//! protocols without input and output. Any order of calls is safe: one that is forgotten delays what would have come of it, and
//! breaks nothing. Time is that of the border's own clock.
//!
//! Source: the form is that of `quinn-proto` (`Connection`) and `boringtun` (`Tunn`).
//! Deviations: none.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use tidegate_packet::{Address, Backlog, DropReason, FlowId, Headers, MarkReason, Packet, Sink, TcpHeader};
use tidegate_parameters::bound;
use tidegate_units::{BitRate, Span, Time};

use super::{
    Admission, AggregateId, AnyEgress, AnyIngress, BorderSite, EdgeConfig, EdgeHalf, EdgeOut, PacketStore,
    PeerId, SegmentEditor,
};
use crate::Context;
use crate::outbox::Outbox;
use crate::shape::{LeakyBucket, LeakyBucketConfig, Shaper as _, ShaperBank};

/// So much of what all shapers may send together goes at once: worlds come in rounds.
const WHOLE_BUCKET: Span = Span::from_millis(1);

/// See the module.
#[derive(Debug)]
pub struct Border {
    ingress: AnyIngress,
    egress: AnyEgress,
    bank: ShaperBank,
    outbox: Outbox<PeerId>,
    /// Left its shaper; the messages ahead of it are not all sent yet.
    going: Option<Packet>,
    /// What the rate of every shaper keeps to, whatever the mechanism says.
    bounds: (BitRate, BitRate),
    /// What all shapers keep to together, where there is more than one.
    whole: Option<LeakyBucket>,
    /// It has a shaper for each flow.
    shapes_flows: bool,
    /// The latest instant that it was told: time never goes back.
    latest: Time,
    message_header_bytes: u32,
    message_class: u8,
    controls_messages: bool,
    stamps: bool,
}

/// What a border sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// The message in the buffer, to another border of the domain.
    Message {
        /// To whom.
        to: PeerId,
    },
    /// A packet that waited at a shaper goes on.
    Packet(Packet),
}

impl Border {
    /// The border at `site`.
    pub fn new(config: &EdgeConfig, site: BorderSite, context: &Context) -> Self {
        let (ingress, egress) = config.build(site, context);
        Self {
            ingress,
            egress,
            bank: ShaperBank::new(config.shaper(), config.bucket(), *context),
            outbox: Outbox::default(),
            going: None,
            bounds: (BitRate::ZERO, BitRate::MAX),
            whole: None,
            shapes_flows: matches!(config, EdgeConfig::Nbp(_)),
            latest: Time::ZERO,
            message_header_bytes: config.message_header_bytes(),
            message_class: config.message_class(),
            controls_messages: config.controls_messages(),
            stamps: config.stamps(),
        }
    }

    /// `packet` enters the domain, and will leave it by `exits`: one for unicast, several for multicast. It goes on if it is
    /// given back; otherwise it waits for [`poll_transmit`](Self::poll_transmit), or was dropped into `store`.
    pub fn handle_packet(
        &mut self,
        mut packet: Packet,
        headers: &Headers,
        exits: &[PeerId],
        now: Time,
        store: &mut impl PacketStore,
    ) -> Option<Packet> {
        let now = self.at(now);
        let mut port = EdgePort { bank: &mut self.bank, outbox: &mut self.outbox, bounds: self.bounds, now };
        match self.ingress.on_packet(&mut packet, headers, exits, now, &mut port) {
            Admission::Pass => Some(packet),
            Admission::Shape(aggregate) => {
                self.bank.enqueue(aggregate, packet, now, &mut ShaperSink(store));
                None
            }
            Admission::Drop(why) => {
                store.on_drop(packet, why);
                None
            }
        }
    }

    /// `packet`, which entered by `entry`, leaves the domain. `segment` is its TCP header, if it has one.
    pub fn handle_leaving<S: SegmentEditor>(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        entry: &[PeerId],
        segment: Option<&mut S>,
        now: Time,
    ) {
        let now = self.at(now);
        let mut port = EdgePort { bank: &mut self.bank, outbox: &mut self.outbox, bounds: self.bounds, now };
        self.egress.on_packet(packet, headers, entry, now, &mut port);
        if let Some(segment) = segment {
            self.ingress.on_reverse(headers, segment, now);
        }
    }

    /// A packet of `flow` leaves the domain, with `stamp` on it ([`PacketStore::stamp`]). To be asked for where [`Self::stamps`].
    pub fn handle_stamp(&mut self, flow: FlowId, headers: &Headers, stamp: NonZeroU32, now: Time) {
        let now = self.at(now);
        self.egress.on_stamp(flow, headers, stamp, now);
    }

    /// `message` from border `from` arrived in a packet that had `ttl` hops left. Bad messages change nothing.
    pub fn handle_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time) {
        let now = self.at(now);
        let mut port = EdgePort { bank: &mut self.bank, outbox: &mut self.outbox, bounds: self.bounds, now };
        self.ingress.on_message(from, message, ttl, now, &mut port);
        self.egress.on_message(from, message, ttl, now, &mut port);
    }

    /// It is `now`: what was to be done by then is done. Nothing happens if it is too early.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.at(now);
        let mut port = EdgePort { bank: &mut self.bank, outbox: &mut self.outbox, bounds: self.bounds, now };
        if self.ingress.timer_at().is_some_and(|at| at <= now) {
            self.ingress.on_timer(now, &mut port);
        }
        if self.egress.timer_at().is_some_and(|at| at <= now) {
            self.egress.on_timer(now, &mut port);
        }
    }

    /// When to come back with [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit). Any other call
    /// may change it.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.has_to_say() || self.going.is_some() {
            return Some(self.latest);
        }
        earliest(self.timer_at(), self.release_at())
    }

    /// What to send next; call it until it gives `None`. A message is written into `message`, in place of what was there.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        store: &mut impl PacketStore,
        message: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.has_to_say()
            && let Some(packet) = self.poll_packet(now, store)
        {
            if !self.has_to_say() {
                return Some(Transmit::Packet(packet));
            }
            // What it gives occasion to say goes ahead of it.
            self.going = Some(packet);
        }
        self.poll_message(message).map(|to| Transmit::Message { to })
    }

    /// One half of [`poll_transmit`](Self::poll_transmit), for worlds where the order of their own events counts: the next message.
    pub fn poll_message(&mut self, message: &mut Vec<u8>) -> Option<PeerId> {
        self.outbox.pop(message)
    }

    /// The other half: the next packet that its shaper lets go. The messages that there are after this call go ahead of it.
    pub fn poll_packet(&mut self, now: Time, store: &mut impl PacketStore) -> Option<Packet> {
        if let Some(packet) = self.going.take() {
            return Some(packet);
        }
        let now = self.at(now);
        if self.whole_at() > now {
            return None;
        }
        let (aggregate, mut packet) = self.bank.release(now, &mut ShaperSink(store))?;
        if let Some(whole) = &mut self.whole {
            whole.on_departure(packet.wire_bytes, now);
        }
        let mut port = EdgePort { bank: &mut self.bank, outbox: &mut self.outbox, bounds: self.bounds, now };
        self.ingress.on_release(aggregate, &mut packet, store, now, &mut port);
        Some(packet)
    }

    /// From now on every shaper keeps to `least` and `most`, of which the latter counts if they cross, whatever its mechanism says. All of
    /// them together keep to `most` as well, but for what goes in a millisecond at once. Where each flow has a shaper `least` holds for
    /// none: flows are as many as hosts open.
    pub fn set_bounds(&mut self, least: BitRate, most: BitRate, now: Time) {
        let now = self.at(now);
        self.bounds = (if self.shapes_flows { BitRate::ZERO } else { least }, most);
        let bucket = most.bytes_in(WHOLE_BUCKET).min(bound::BUCKET_BYTES_MAX);
        match &mut self.whole {
            Some(whole) => {
                whole.set_rate(most, now);
                whole.set_bucket(bucket);
            }
            None => self.whole = Some(LeakyBucketConfig { rate: most, bucket }.build(now)),
        }
        let open: Vec<AggregateId> = self.bank.open_aggregates().collect();
        let mut port = self.port(now);
        for aggregate in open {
            if let Some(rate) = port.bank.rate(aggregate) {
                port.set_rate(aggregate, rate);
            }
        }
    }

    /// The next packet that waits here, whether it is due or not, for who takes all of them to another border; until it gives `None`.
    pub fn evict(&mut self, now: Time) -> Option<Packet> {
        let now = self.at(now);
        self.going.take().or_else(|| self.bank.evict(now))
    }

    /// All that waits here is lost, and so are messages that nobody asked for: its machine goes down.
    pub fn purge(&mut self, why: DropReason, now: Time, store: &mut impl PacketStore) {
        let now = self.at(now);
        self.outbox = Outbox::default();
        if let Some(packet) = self.going.take() {
            store.on_drop(packet, why);
        }
        self.bank.purge(now, why, &mut ShaperSink(store));
    }

    /// The latest instant that it was told, which is the time it goes by even if a clock goes back.
    #[inline]
    pub const fn latest(&self) -> Time {
        self.latest
    }

    /// When the mechanism has something to do.
    #[inline]
    pub fn timer_at(&self) -> Option<Time> {
        earliest(self.ingress.timer_at(), self.egress.timer_at())
    }

    /// When a shaper has a packet to let go.
    #[inline]
    pub fn release_at(&self) -> Option<Time> {
        self.bank.release_at().map(|at| at.max(self.whole_at()))
    }

    /// When all shapers together may let go the next packet.
    #[inline]
    fn whole_at(&self) -> Time {
        let shared = self.whole.as_ref().filter(|_| self.bank.open_count() > 1);
        shared.map_or(Time::ZERO, |whole| whole.release_at(0, Time::ZERO))
    }

    /// Whether there are messages to send.
    #[inline]
    pub fn has_to_say(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The half where traffic enters.
    pub const fn ingress(&self) -> &AnyIngress {
        &self.ingress
    }

    /// The half where traffic leaves.
    pub const fn egress(&self) -> &AnyEgress {
        &self.egress
    }

    /// How many shapers there are.
    pub const fn open_count(&self) -> usize {
        self.bank.open_count()
    }

    /// What waits at the shaper of `aggregate`.
    pub fn backlog(&self, aggregate: AggregateId) -> Backlog {
        self.bank.backlog(aggregate)
    }

    /// Packets that wait here.
    pub fn held_packets(&self) -> usize {
        let waiting = |aggregate| self.bank.backlog(aggregate).packets as usize;
        self.bank.open_aggregates().map(waiting).sum::<usize>() + usize::from(self.going.is_some())
    }

    /// Bytes of headers around its messages on the wire.
    pub const fn message_header_bytes(&self) -> u32 {
        self.message_header_bytes
    }

    /// The class of its messages.
    pub const fn message_class(&self) -> u8 {
        self.message_class
    }

    /// Whether messages of other borders are traffic like any other to it; see [`EdgeConfig::controls_messages`].
    pub const fn controls_messages(&self) -> bool {
        self.controls_messages
    }

    /// Whether packets that leave carry a stamp for it.
    #[inline]
    pub const fn stamps(&self) -> bool {
        self.stamps
    }

    /// The rate of the shaper of `aggregate`.
    pub fn rate(&self, aggregate: AggregateId) -> Option<BitRate> {
        self.bank.rate(aggregate)
    }

    fn at(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    const fn port(&mut self, now: Time) -> EdgePort<'_> {
        EdgePort { bank: &mut self.bank, outbox: &mut self.outbox, bounds: self.bounds, now }
    }
}

/// The earlier of two instants. (An iterator over both costs hundreds of instructions.)
#[inline]
pub(crate) const fn earliest(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(a), Some(b)) => Some(if a.as_nanos() <= b.as_nanos() { a } else { b }),
        (Some(at), None) | (None, Some(at)) => Some(at),
        (None, None) => None,
    }
}

/// What a half asks for: shapers are set at once, messages are kept until they are asked for.
struct EdgePort<'a> {
    bank: &'a mut ShaperBank,
    outbox: &'a mut Outbox<PeerId>,
    bounds: (BitRate, BitRate),
    now: Time,
}

impl EdgePort<'_> {
    fn bounded(&self, rate: BitRate) -> BitRate {
        rate.max(self.bounds.0).min(self.bounds.1)
    }
}

impl EdgeOut for EdgePort<'_> {
    fn open(&mut self, aggregate: AggregateId, rate: BitRate) {
        self.bank.open(aggregate, self.bounded(rate), self.now);
    }
    fn set_rate(&mut self, aggregate: AggregateId, rate: BitRate) {
        self.bank.set_rate(aggregate, self.bounded(rate), self.now);
    }
    fn close(&mut self, aggregate: AggregateId) {
        self.bank.close(aggregate);
    }
    fn backlog(&self, aggregate: AggregateId) -> Backlog {
        self.bank.backlog(aggregate)
    }
    fn send(&mut self, to: PeerId, message: &[u8]) {
        self.outbox.push(to, message);
    }
}

/// The queue in front of a shaper tells the world.
struct ShaperSink<'a, S>(&'a mut S);

impl<S: PacketStore> Sink for ShaperSink<'_, S> {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        // A full queue in front of a shaper is the edge at work, not congestion of a link.
        self.0.on_drop(packet, if why == DropReason::Overflow { DropReason::Shaper } else { why });
    }
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        self.0.on_mark(packet, why);
    }
    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        self.0.hosts(packet)
    }
    fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        self.0.pure_ack(packet)
    }
}

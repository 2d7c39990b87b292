//! Edge mechanisms of one's own: what another crate brings. With the feature `text` [`register`] gives one a name in
//! configurations.
//!
//! Source: none; no mechanism of a document, but the door for others: the two halves are those of [`EdgeHalf`].
//! Deviations: none.

use alloc::boxed::Box;
use core::fmt;

use tidegate_packet::{Address, DropReason, Headers, MarkReason, Packet, Sink, TcpHeader};
use tidegate_parameters::own::Values;
use tidegate_units::Time;

use super::{
    Admission, AggregateId, BorderSite, EdgeHalf, EdgeOut, EdgeReport, PacketStore, PeerId, SegmentEditor,
};
use crate::Context;
use crate::shape::ShaperConfig;

/// The parameters of an edge mechanism of one's own. Declare them with [`parameters!`](tidegate_parameters::parameters).
pub trait EdgeParameters: Values {
    /// Where traffic enters.
    type Ingress: EdgeHalf + Send + Sync + 'static;
    /// Where traffic leaves.
    type Egress: EdgeHalf + Send + Sync + 'static;

    /// The two halves of the border at `site`.
    fn build(&self, site: BorderSite, context: &Context) -> (Self::Ingress, Self::Egress);

    /// What its shapers are.
    fn shaper(&self) -> ShaperConfig {
        ShaperConfig::default()
    }

    /// Bytes of headers around its messages on the wire: those of IP and UDP, if it says nothing.
    fn message_header_bytes(&self) -> u32 {
        28
    }

    /// What is known at `ingress` of the flow with these headers, which leaves by `egress` if only one border is possible.
    fn report(ingress: &Self::Ingress, headers: &Headers, egress: Option<PeerId>) -> Option<EdgeReport>
    where
        Self: Sized,
    {
        let _ = (ingress, headers, egress);
        None
    }
}

/// What makes the halves of an edge mechanism.
pub trait MakeEdge: Values {
    /// The two halves of the border at `site`.
    fn make(&self, site: BorderSite, context: &Context) -> (OwnHalf, OwnHalf);
    /// What its shapers are.
    fn shaper(&self) -> ShaperConfig;
    /// Bytes of headers around its messages on the wire.
    fn message_header_bytes(&self) -> u32;
}

impl<P: EdgeParameters> MakeEdge for P {
    fn make(&self, site: BorderSite, context: &Context) -> (OwnHalf, OwnHalf) {
        let (ingress, egress) = self.build(site, context);
        let ingress = Half { half: ingress, report: <P as EdgeParameters>::report };
        (OwnHalf(Box::new(ingress)), OwnHalf(Box::new(Half { half: egress, report: |_, _, _| None })))
    }
    fn shaper(&self) -> ShaperConfig {
        EdgeParameters::shaper(self)
    }
    fn message_header_bytes(&self) -> u32 {
        EdgeParameters::message_header_bytes(self)
    }
}

/// A half behind a pointer: what is generic in [`EdgeHalf`], with the world behind pointers.
trait Erased: Send + Sync {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        peers: &[PeerId],
        now: Time,
        out: &mut dyn EdgeOut,
    ) -> Admission;
    fn on_release(
        &mut self,
        aggregate: AggregateId,
        packet: &mut Packet,
        store: &mut dyn AnyStore,
        now: Time,
        out: &mut dyn EdgeOut,
    );
    fn on_reverse(&mut self, headers: &Headers, segment: &mut dyn SegmentEditor, now: Time);
    fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut dyn EdgeOut);
    fn timer_at(&self) -> Option<Time>;
    fn on_timer(&mut self, now: Time, out: &mut dyn EdgeOut);
    fn report(&self, headers: &Headers, egress: Option<PeerId>) -> Option<EdgeReport>;
}

struct Half<H> {
    half: H,
    report: fn(&H, &Headers, Option<PeerId>) -> Option<EdgeReport>,
}

impl<H: EdgeHalf + Send + Sync> Erased for Half<H> {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        peers: &[PeerId],
        now: Time,
        mut out: &mut dyn EdgeOut,
    ) -> Admission {
        self.half.on_packet(packet, headers, peers, now, &mut out)
    }
    fn on_release(
        &mut self,
        aggregate: AggregateId,
        packet: &mut Packet,
        store: &mut dyn AnyStore,
        now: Time,
        mut out: &mut dyn EdgeOut,
    ) {
        self.half.on_release(aggregate, packet, &mut Store(store), now, &mut out);
    }
    fn on_reverse(&mut self, headers: &Headers, mut segment: &mut dyn SegmentEditor, now: Time) {
        self.half.on_reverse(headers, &mut segment, now);
    }
    fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, mut out: &mut dyn EdgeOut) {
        self.half.on_message(from, message, ttl, now, &mut out);
    }
    fn timer_at(&self) -> Option<Time> {
        self.half.timer_at()
    }
    fn on_timer(&mut self, now: Time, mut out: &mut dyn EdgeOut) {
        self.half.on_timer(now, &mut out);
    }
    fn report(&self, headers: &Headers, egress: Option<PeerId>) -> Option<EdgeReport> {
        (self.report)(&self.half, headers, egress)
    }
}

/// The packets of a world, whatever its type.
trait AnyStore: Sink {
    fn headers(&self, packet: &Packet) -> Headers;
    fn segment(&mut self, packet: Packet) -> Option<Box<dyn SegmentEditor + '_>>;
}

impl<S: PacketStore> AnyStore for S {
    fn headers(&self, packet: &Packet) -> Headers {
        PacketStore::headers(self, packet)
    }
    fn segment(&mut self, packet: Packet) -> Option<Box<dyn SegmentEditor + '_>> {
        PacketStore::segment(self, packet).map(|segment| Box::new(segment) as Box<dyn SegmentEditor>)
    }
}

/// The same as a half knows it.
struct Store<'s>(&'s mut dyn AnyStore);

impl Sink for Store<'_> {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.0.on_drop(packet, why);
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

impl PacketStore for Store<'_> {
    fn headers(&self, packet: &Packet) -> Headers {
        self.0.headers(packet)
    }
    fn segment(&mut self, packet: Packet) -> Option<impl SegmentEditor> {
        self.0.segment(packet)
    }
}

/// One half of an edge mechanism, of any type.
pub struct OwnHalf(Box<dyn Erased>);

impl OwnHalf {
    /// What is known of the flow with these headers, which leaves by `egress` if only one border is possible.
    pub fn report(&self, headers: &Headers, egress: Option<PeerId>) -> Option<EdgeReport> {
        self.0.report(headers, egress)
    }
}

impl fmt::Debug for OwnHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnHalf")
    }
}

impl EdgeHalf for OwnHalf {
    fn on_packet(
        &mut self,
        packet: &mut Packet,
        headers: &Headers,
        peers: &[PeerId],
        now: Time,
        out: &mut impl EdgeOut,
    ) -> Admission {
        self.0.on_packet(packet, headers, peers, now, out)
    }
    fn on_release(
        &mut self,
        aggregate: AggregateId,
        packet: &mut Packet,
        store: &mut impl PacketStore,
        now: Time,
        out: &mut impl EdgeOut,
    ) {
        self.0.on_release(aggregate, packet, store, now, out);
    }
    fn on_reverse<S: SegmentEditor>(&mut self, headers: &Headers, segment: &mut S, now: Time) {
        self.0.on_reverse(headers, segment, now);
    }
    fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut impl EdgeOut) {
        self.0.on_message(from, message, ttl, now, out);
    }
    fn timer_at(&self) -> Option<Time> {
        self.0.timer_at()
    }
    fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
        self.0.on_timer(now, out);
    }
}

#[cfg(feature = "text")]
pub use registry::register;

#[cfg(feature = "text")]
mod registry {
    use alloc::sync::Arc;

    use tidegate_parameters::own::{Declared, Registered, Registry, RegistryError};

    use super::{EdgeParameters, MakeEdge};
    use crate::edge::EdgeConfig;
    use crate::hop::HopConfig;

    static REGISTRY: Registry<dyn MakeEdge> = Registry::new();

    impl Registered for dyn MakeEdge {
        type About = ();
        fn registry() -> &'static Registry<Self> {
            &REGISTRY
        }
    }

    /// Makes `kind` the name of the edge mechanism with the parameters `P`: `mechanism` of a domain.
    ///
    /// # Errors
    /// The name is taken or no name, or configurations were read already.
    pub fn register<P: EdgeParameters + Declared>(kind: &'static str) -> Result<(), RegistryError> {
        let taken = [EdgeConfig::KINDS, HopConfig::KINDS, &["none"]].concat();
        REGISTRY.add::<P>(kind, (), |values| Arc::new(values), &taken)
    }
}

//! Any edge mechanism, dispatched by an enumeration.

use alloc::boxed::Box;
use alloc::string::String;
use core::num::NonZeroU32;

use tidegate_packet::{FlowId, Headers, Packet};
use tidegate_parameters::{Own, family};
use tidegate_units::{Bytes, Time};

use super::autorate::{AutorateConfig, AutoratePinger, AutorateReflector, PING_HEADER_BYTES};
use super::fixed::{FixedConfig, FixedReceiver, FixedSender};
use super::iec::{
    CONTROL_HEADER_BYTES, Detection, EecConfig, EpochReport, IecConfig, IecDelays, IecEgress, IecIngress,
    OverlayConfig,
};
use super::nbp::{FEEDBACK_HEADER_BYTES, NbpConfig, NbpEgress, NbpIngress, RoundTrip};
use super::own::{MakeEdge, OwnHalf};
use super::path::{self, PathConfig, PathReceiver, PathSender};
use super::{
    Admission, AggregateId, BorderSite, EdgeHalf, EdgeOut, EdgeReport, PacketStore, PeerId, SegmentEditor,
};
use crate::Context;
use crate::shape::ShaperConfig;

family! {
    /// What the edges of a domain do.
    pub enum EdgeConfig {
        /// Network Border Patrol.
        Nbp(Box<NbpConfig>) = "nbp",
        /// Implicit edge control.
        Iec(Box<IecConfig>) = "iec",
        /// Explicit edge control.
        Eec(Box<EecConfig>) = "eec",
        /// Path control.
        Path(Box<PathConfig>) = "path",
        /// Fixed rates.
        Fixed(Box<FixedConfig>) = "fixed",
        /// The auto-rate shaper.
        Autorate(Box<AutorateConfig>) = "autorate",
    } and {
        /// One's own.
        Own(Own<dyn MakeEdge>),
    }
}

impl From<OverlayConfig> for EdgeConfig {
    /// The edge control that learns of congestion as `overlay` says.
    fn from(overlay: OverlayConfig) -> Self {
        match overlay.detection {
            Detection::OneWay => Self::Iec(Box::new(IecConfig::of(overlay, IecDelays::OneWay))),
            Detection::RoundTrip => Self::Iec(Box::new(IecConfig::of(overlay, IecDelays::RoundTrip))),
            Detection::Marks => Self::Eec(Box::new(EecConfig { overlay })),
        }
    }
}

impl EdgeConfig {
    /// The two halves of the border at `site`.
    pub fn build(&self, site: BorderSite, context: &Context) -> (AnyIngress, AnyEgress) {
        let overlay = match self {
            Self::Nbp(config) => {
                let (ingress, egress) = config.build(context);
                return (AnyIngress::Nbp(Box::new(ingress)), AnyEgress::Nbp(Box::new(egress)));
            }
            Self::Path(config) => {
                let (sender, receiver) = config.build(site, context);
                return (AnyIngress::Path(Box::new(sender)), AnyEgress::Path(Box::new(receiver)));
            }
            Self::Fixed(config) => {
                let (sender, receiver) = config.build(site);
                return (AnyIngress::Fixed(Box::new(sender)), AnyEgress::Fixed(Box::new(receiver)));
            }
            Self::Autorate(config) => {
                let (pinger, reflector) = config.build(site, context);
                return (AnyIngress::Autorate(Box::new(pinger)), AnyEgress::Autorate(Box::new(reflector)));
            }
            Self::Own(own) => {
                let (ingress, egress) = own.values().make(site, context);
                return (AnyIngress::Own(ingress), AnyEgress::Own(egress));
            }
            Self::Iec(config) => config.detecting(),
            Self::Eec(config) => config.detecting(),
        };
        let (ingress, egress) = overlay.build(site, context);
        (AnyIngress::Iec(Box::new(ingress)), AnyEgress::Iec(Box::new(egress)))
    }

    /// What explicit and implicit edge control have in common; none for others.
    pub fn overlay(&self) -> Option<&OverlayConfig> {
        match self {
            Self::Nbp(_) | Self::Path(_) | Self::Fixed(_) | Self::Autorate(_) | Self::Own(_) => None,
            Self::Iec(config) => Some(&config.overlay),
            Self::Eec(config) => Some(&config.overlay),
        }
    }

    /// The same, to be completed by the world.
    pub fn overlay_mut(&mut self) -> Option<&mut OverlayConfig> {
        match self {
            Self::Nbp(_) | Self::Path(_) | Self::Fixed(_) | Self::Autorate(_) | Self::Own(_) => None,
            Self::Iec(config) => Some(&mut config.overlay),
            Self::Eec(config) => Some(&mut config.overlay),
        }
    }

    /// Names of edges at which what enters is not shaped.
    pub fn unpoliced(&self) -> &[String] {
        match self {
            Self::Own(_) | Self::Fixed(_) => &[],
            Self::Nbp(config) => &config.unpoliced,
            Self::Path(config) => &config.unpoliced,
            Self::Autorate(config) => &config.unpoliced,
            Self::Iec(config) => &config.overlay.unpoliced,
            Self::Eec(config) => &config.overlay.unpoliced,
        }
    }

    /// Takes away what it says of single edges.
    pub fn forget_places(&mut self) {
        match self {
            Self::Nbp(config) => config.unpoliced.clear(),
            Self::Path(config) => config.unpoliced.clear(),
            Self::Autorate(config) => config.unpoliced.clear(),
            Self::Iec(_) | Self::Eec(_) | Self::Fixed(_) | Self::Own(_) => {}
        }
        if let Some(overlay) = self.overlay_mut() {
            overlay.unpoliced.clear();
            overlay.virtual_links.clear();
        }
    }

    /// What its shapers are.
    pub fn shaper(&self) -> ShaperConfig {
        match self {
            Self::Nbp(config) => config.shaper.clone(),
            Self::Iec(config) => config.overlay.shaper.clone(),
            Self::Eec(config) => config.overlay.shaper.clone(),
            Self::Path(config) => config.shaper.clone(),
            Self::Fixed(config) => config.shaper.clone(),
            Self::Autorate(config) => config.shaper.clone(),
            Self::Own(own) => own.values().shaper(),
        }
    }

    /// The same, to be completed by the world; none where it is made by code.
    pub fn shaper_mut(&mut self) -> Option<&mut ShaperConfig> {
        match self {
            Self::Nbp(config) => Some(&mut config.shaper),
            Self::Iec(config) => Some(&mut config.overlay.shaper),
            Self::Eec(config) => Some(&mut config.overlay.shaper),
            Self::Path(config) => Some(&mut config.shaper),
            Self::Fixed(config) => Some(&mut config.shaper),
            Self::Autorate(config) => Some(&mut config.shaper),
            Self::Own(_) => None,
        }
    }

    /// Bucket of a shaper that does not say: one packet, or one `sigma`.
    pub fn bucket(&self) -> Bytes {
        self.overlay().map_or(Bytes::ZERO, |overlay| overlay.sigma)
    }

    /// Bytes of headers around its messages on the wire.
    pub fn message_header_bytes(&self) -> u32 {
        match self {
            Self::Nbp(_) => FEEDBACK_HEADER_BYTES,
            Self::Iec(_) | Self::Eec(_) => CONTROL_HEADER_BYTES,
            Self::Path(_) | Self::Fixed(_) => path::CONTROL_HEADER_BYTES,
            Self::Autorate(_) => PING_HEADER_BYTES,
            Self::Own(own) => own.values().message_header_bytes(),
        }
    }

    /// Whether messages of other borders (those of a domain around this one) are traffic like any other to it. NBP lets them
    /// pass (section IV.7: other services are policed by mechanisms of their own); to IEC all between two edges is one
    /// virtual link, and to the auto-rate shaper all that passes the interface.
    pub const fn controls_messages(&self) -> bool {
        match self {
            Self::Nbp(_) | Self::Own(_) => false,
            Self::Iec(_) | Self::Eec(_) | Self::Path(_) | Self::Fixed(_) | Self::Autorate(_) => true,
        }
    }

    /// Whether it writes on packets where they enter what it reads where they leave.
    pub fn stamps(&self) -> bool {
        matches!(self, Self::Nbp(config) if config.round_trip == RoundTrip::Data)
    }

    /// The class of its messages: that of what it controls, for they must see the same queues.
    pub fn message_class(&self) -> u8 {
        let class = match self {
            Self::Path(config) => config.class,
            Self::Fixed(config) => config.class,
            Self::Autorate(config) => config.class,
            _ => self.overlay().and_then(|overlay| overlay.class),
        };
        class.unwrap_or(0)
    }
}

/// Declares one half over the mechanisms that there are.
macro_rules! half {
    ($(#[$doc:meta])* $any:ident { $($(#[$vdoc:meta])* $variant:ident($type:ident),)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $any {
            $($(#[$vdoc])* $variant(Box<$type>),)*
            /// One's own.
            Own(OwnHalf),
        }

        /// Calls the same of any half.
        macro_rules! each {
            ($self_:ident, $half:ident => $call:expr) => {
                match $self_ { $(Self::$variant($half) => $call,)* Self::Own($half) => $call }
            };
        }

        impl EdgeHalf for $any {
            fn on_packet(
                &mut self,
                packet: &mut Packet,
                headers: &Headers,
                peers: &[PeerId],
                now: Time,
                out: &mut impl EdgeOut,
            ) -> Admission {
                each!(self, half => half.on_packet(packet, headers, peers, now, out))
            }
            #[inline]
            fn on_release(
                &mut self,
                aggregate: AggregateId,
                packet: &mut Packet,
                store: &mut impl PacketStore,
                now: Time,
                out: &mut impl EdgeOut,
            ) {
                each!(self, half => half.on_release(aggregate, packet, store, now, out))
            }
            #[inline]
            fn on_stamp(&mut self, flow: FlowId, headers: &Headers, stamp: NonZeroU32, now: Time) {
                each!(self, half => half.on_stamp(flow, headers, stamp, now))
            }
            fn on_reverse<S: SegmentEditor>(&mut self, headers: &Headers, segment: &mut S, now: Time) {
                each!(self, half => half.on_reverse(headers, segment, now))
            }
            fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut impl EdgeOut) {
                each!(self, half => half.on_message(from, message, ttl, now, out))
            }
            #[inline]
            fn timer_at(&self) -> Option<Time> {
                each!(self, half => half.timer_at())
            }
            fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
                each!(self, half => half.on_timer(now, out))
            }
        }
    };
}

impl AnyIngress {
    /// What is known of the flow with these headers, which leaves by `egress` if only one border is possible.
    pub fn report(&self, headers: &Headers, egress: Option<PeerId>) -> Option<EdgeReport> {
        match self {
            Self::Nbp(ingress) => ingress.report(headers),
            Self::Iec(ingress) => egress.and_then(|peer| ingress.report(peer)),
            Self::Path(sender) => egress.and_then(|peer| sender.report(peer)),
            Self::Fixed(sender) => egress.and_then(|peer| sender.report(peer)),
            Self::Autorate(pinger) => pinger.report(),
            Self::Own(ingress) => ingress.report(headers, egress),
        }
    }
}

impl AnyEgress {
    /// What is known of the congestion of the virtual link from `ingress`.
    pub fn epoch_report(&self, ingress: PeerId) -> Option<EpochReport> {
        match self {
            Self::Nbp(_) | Self::Path(_) | Self::Fixed(_) | Self::Autorate(_) | Self::Own(_) => None,
            Self::Iec(egress) => egress.report(ingress),
        }
    }
}

half! {
    /// Where traffic enters, under any mechanism.
    AnyIngress {
        /// Network Border Patrol.
        Nbp(NbpIngress),
        /// Explicit or implicit edge control.
        Iec(IecIngress),
        /// Path control.
        Path(PathSender),
        /// Fixed rates.
        Fixed(FixedSender),
        /// The auto-rate shaper.
        Autorate(AutoratePinger),
    }
}
half! {
    /// Where traffic leaves, under any mechanism.
    AnyEgress {
        /// Network Border Patrol.
        Nbp(NbpEgress),
        /// Explicit or implicit edge control.
        Iec(IecEgress),
        /// Path control.
        Path(PathReceiver),
        /// Fixed rates.
        Fixed(FixedReceiver),
        /// The auto-rate shaper.
        Autorate(AutorateReflector),
    }
}

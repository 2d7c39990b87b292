//! Any edge mechanism, dispatched by an enumeration.

use alloc::boxed::Box;

use tidegate_packet::{Headers, Packet};
use tidegate_units::Time;

use super::nbp::{FEEDBACK_HEADER_BYTES, NbpConfig, NbpEgress, NbpIngress};
use super::{Admission, EdgeHalf, EdgeOut, EdgeReport, PeerId};
use crate::Context;
use crate::shape::ShaperConfig;

/// The parameters of any edge mechanism.
#[derive(Clone, Debug, PartialEq)]
pub enum EdgeConfig {
    /// Network Border Patrol.
    Nbp(Box<NbpConfig>),
}

impl EdgeConfig {
    /// The two halves of one border.
    pub fn build(&self, context: &Context) -> (AnyIngress, AnyEgress) {
        match self {
            Self::Nbp(config) => {
                let (ingress, egress) = config.build(context);
                (AnyIngress::Nbp(Box::new(ingress)), AnyEgress::Nbp(Box::new(egress)))
            }
        }
    }

    /// What its shapers are.
    pub fn shaper(&self) -> &ShaperConfig {
        match self {
            Self::Nbp(config) => &config.shaper,
        }
    }

    /// Bytes of headers around its messages on the wire.
    pub const fn message_header_bytes(&self) -> u32 {
        match self {
            Self::Nbp(_) => FEEDBACK_HEADER_BYTES,
        }
    }
}

/// Declares one half over the mechanisms that there are.
macro_rules! half {
    ($(#[$doc:meta])* $any:ident { $($(#[$vdoc:meta])* $variant:ident($type:ident),)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $any { $($(#[$vdoc])* $variant(Box<$type>),)* }

        impl EdgeHalf for $any {
            fn on_packet(
                &mut self,
                packet: &mut Packet,
                headers: &Headers,
                exits: &[PeerId],
                now: Time,
                out: &mut impl EdgeOut,
            ) -> Admission {
                match self { $(Self::$variant(half) => half.on_packet(packet, headers, exits, now, out),)* }
            }
            fn on_message(&mut self, from: PeerId, message: &[u8], ttl: u8, now: Time, out: &mut impl EdgeOut) {
                match self { $(Self::$variant(half) => half.on_message(from, message, ttl, now, out),)* }
            }
            fn timer_at(&self) -> Option<Time> {
                match self { $(Self::$variant(half) => half.timer_at(),)* }
            }
            fn on_timer(&mut self, now: Time, out: &mut impl EdgeOut) {
                match self { $(Self::$variant(half) => half.on_timer(now, out),)* }
            }
        }
    };
}

impl AnyIngress {
    /// What is known of the flow with these headers.
    pub fn report(&self, headers: &Headers) -> Option<EdgeReport> {
        match self {
            Self::Nbp(ingress) => ingress.report(headers),
        }
    }
}

half! {
    /// Where traffic enters, under any mechanism.
    AnyIngress {
        /// Network Border Patrol.
        Nbp(NbpIngress),
    }
}
half! {
    /// Where traffic leaves, under any mechanism.
    AnyEgress {
        /// Network Border Patrol.
        Nbp(NbpEgress),
    }
}

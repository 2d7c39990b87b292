//! Any hop mechanism, dispatched by an enumeration.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tidegate_packet::{DropReason, Headers, Packet};
use tidegate_parameters::family;
use tidegate_units::{BitRate, Time};

use super::backpressure::{BackPressure, BackPressureConfig};
use super::nbq::{Nbq, NbqConfig};
use super::{HopControl, HopOut, Passage, Port, PortId};
use crate::edge::SegmentEditor;
use crate::{Context, Variable, distinct};

/// Declares the mechanisms that there are.
macro_rules! hops {
    ($($(#[doc = $doc:literal])* $variant:ident($config:ident => $type:ident) = $kind:literal,)*) => {
        family! {
            /// What all routers of a domain do.
            pub enum HopConfig { $($(#[doc = $doc])* $variant(Box<$config>) = $kind,)* }
        }

        impl HopConfig {
            /// The mechanism of a router with these ports.
            pub fn build(&self, ports: &[Port], context: &Context) -> AnyHop {
                match self { $(Self::$variant(config) => AnyHop::$variant(Box::new(config.build(ports, context))),)* }
            }

            /// What may be recorded of it.
            pub fn variables(&self) -> &'static [Variable] {
                match self { $(Self::$variant(_) => <$type as HopControl>::variables(),)* }
            }

            /// What may be recorded of any of them.
            pub fn all_variables() -> Vec<Variable> {
                distinct(&[$(<$type as HopControl>::variables(),)*])
            }
        }

        /// Any mechanism of one router.
        #[derive(Debug)]
        pub enum AnyHop { $($(#[doc = $doc])* $variant(Box<$type>),)* }

        impl HopControl for AnyHop {
            fn limit_messages(&mut self, bytes: usize) {
                match self { $(Self::$variant(hop) => hop.limit_messages(bytes),)* }
            }
            fn on_segment<S: SegmentEditor>(
                &mut self,
                packet: &Packet,
                headers: &Headers,
                segment: &mut S,
                to: PortId,
                now: Time,
            ) -> Passage {
                match self { $(Self::$variant(hop) => hop.on_segment(packet, headers, segment, to, now),)* }
            }
            fn hold(&mut self, acknowledgment: Packet, to: PortId, now: Time) {
                match self { $(Self::$variant(hop) => hop.hold(acknowledgment, to, now),)* }
            }
            fn held_packets(&self) -> usize {
                match self { $(Self::$variant(hop) => hop.held_packets(),)* }
            }
            fn on_arrival(
                &mut self,
                packet: &mut Packet,
                headers: &Headers,
                to: PortId,
                now: Time,
            ) -> Result<(), DropReason> {
                match self { $(Self::$variant(hop) => hop.on_arrival(packet, headers, to, now),)* }
            }
            fn on_departure(&mut self, packet: &Packet, headers: &Headers, from: PortId, now: Time) {
                match self { $(Self::$variant(hop) => hop.on_departure(packet, headers, from, now),)* }
            }
            fn on_drop(&mut self, packet: &Packet, headers: &Headers, at: PortId, why: DropReason, now: Time) {
                match self { $(Self::$variant(hop) => hop.on_drop(packet, headers, at, why, now),)* }
            }
            fn on_loss(&mut self, packet: &Packet, headers: &Headers, at: PortId, why: DropReason, now: Time) {
                match self { $(Self::$variant(hop) => hop.on_loss(packet, headers, at, why, now),)* }
            }
            fn on_message(&mut self, port: PortId, message: &[u8], now: Time, out: &mut impl HopOut) {
                match self { $(Self::$variant(hop) => hop.on_message(port, message, now, out),)* }
            }
            fn set_link_rate(&mut self, port: PortId, rate: BitRate, now: Time) {
                match self { $(Self::$variant(hop) => hop.set_link_rate(port, rate, now),)* }
            }
            fn timer_at(&self) -> Option<Time> {
                match self { $(Self::$variant(hop) => hop.timer_at(),)* }
            }
            fn on_timer(&mut self, now: Time, out: &mut impl HopOut) {
                match self { $(Self::$variant(hop) => hop.on_timer(now, out),)* }
            }
            fn congested_at(&self, port: PortId) -> Option<Time> {
                match self { $(Self::$variant(hop) => hop.congested_at(port),)* }
            }
            fn variable(&self, port: PortId, name: &str) -> Option<f64> {
                match self { $(Self::$variant(hop) => hop.variable(port, name),)* }
            }
        }
    };
}

hops! {
    /// Neighbor-state Based Queuing.
    Nbq(NbqConfig => Nbq) = "nbq",
    /// Rate-based back-pressure.
    BackPressure(BackPressureConfig => BackPressure) = "backpressure",
}

//! Any marker, dispatched by an enumeration: one predictable branch on the packet path, no virtual call.

use tidegate_packet::Packet;
use tidegate_units::Time;

use super::{
    Account, AccountConfig, Conditioned, Marker, MarkingEngine, MarkingEngineConfig, ProfileConfig,
    ProfileMarker, ThreeColour, ThreeColourConfig,
};
use crate::Context;

/// The parameters of any marker.
#[derive(Clone, Debug, PartialEq)]
pub enum MarkerConfig {
    /// A token bucket.
    Profile(ProfileConfig),
    /// Three colours.
    ThreeColour(ThreeColourConfig),
    /// A packet marking engine.
    Engine(MarkingEngineConfig),
    /// Charges, and marks nothing.
    Account(AccountConfig),
}

impl MarkerConfig {
    /// The marker.
    pub fn build(&self, context: &Context, now: Time) -> AnyMarker {
        match self {
            Self::Profile(config) => AnyMarker::Profile(config.build(context, now)),
            Self::ThreeColour(config) => AnyMarker::ThreeColour(config.build(now)),
            Self::Engine(config) => AnyMarker::Engine(config.build(context, now)),
            Self::Account(config) => AnyMarker::Account(config.build(now)),
        }
    }
}

/// Any marker.
#[derive(Clone, Debug)]
pub enum AnyMarker {
    /// A token bucket.
    Profile(ProfileMarker),
    /// Three colours.
    ThreeColour(ThreeColour),
    /// A packet marking engine.
    Engine(MarkingEngine),
    /// Charges, and marks nothing.
    Account(Account),
}

impl Marker for AnyMarker {
    #[inline]
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned {
        match self {
            Self::Profile(marker) => marker.on_packet(packet, now),
            Self::ThreeColour(marker) => marker.on_packet(packet, now),
            Self::Engine(marker) => marker.on_packet(packet, now),
            Self::Account(marker) => marker.on_packet(packet, now),
        }
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match self {
            Self::Profile(marker) => marker.variable(name),
            Self::ThreeColour(marker) => marker.variable(name),
            Self::Engine(marker) => marker.variable(name),
            Self::Account(marker) => marker.variable(name),
        }
    }
}

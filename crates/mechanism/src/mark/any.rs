//! Any marker, dispatched by an enumeration: one predictable branch on the packet path, no virtual call.

use alloc::vec::Vec;

use tidegate_packet::Packet;
use tidegate_parameters::family;
use tidegate_units::Time;

use super::{
    Account, AccountConfig, Conditioned, Marker, MarkingEngine, MarkingEngineConfig, ProfileConfig,
    ProfileMarker, SingleRateConfig, ThreeColour, TwoRatesConfig,
};
use crate::{Context, Variable, distinct};

family! {
    /// What writes codepoints on packets.
    pub enum MarkerConfig {
        /// A token bucket.
        Profile(ProfileConfig) = "profile",
        /// Three colours by one rate and two bursts.
        SingleRate(SingleRateConfig) = "srtcm",
        /// Three colours by two rates.
        TwoRates(TwoRatesConfig) = "trtcm",
        /// A packet marking engine.
        Engine(MarkingEngineConfig) = "pme",
        /// Charges, and marks nothing.
        Account(AccountConfig) = "account",
    }
}

impl MarkerConfig {
    /// What may be recorded of it.
    pub fn variables(&self) -> &'static [Variable] {
        match self {
            Self::Profile(_) => ProfileMarker::variables(),
            Self::SingleRate(_) | Self::TwoRates(_) => ThreeColour::variables(),
            Self::Engine(_) => MarkingEngine::variables(),
            Self::Account(_) => Account::variables(),
        }
    }

    /// What may be recorded of any of them.
    pub fn all_variables() -> Vec<Variable> {
        distinct(&[
            MarkingEngine::variables(),
            ProfileMarker::variables(),
            ThreeColour::variables(),
            Account::variables(),
        ])
    }

    /// The marker.
    pub fn build(&self, context: &Context, now: Time) -> AnyMarker {
        match self {
            Self::Profile(config) => AnyMarker::Profile(config.build(context, now)),
            Self::SingleRate(config) => AnyMarker::ThreeColour(config.build(now)),
            Self::TwoRates(config) => AnyMarker::ThreeColour(config.build(now)),
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

//! Which promise does it carry?
//!
//! A marker stands where traffic enters a network, or passes from one to the next. It writes codepoints: within a
//! profile that was agreed ([`ProfileMarker`], [`ThreeColour`]), or as many as a target rate needs
//! ([`MarkingEngine`]). An [`Account`] writes nothing and charges for what passes. Several flows may share one marker; it then
//! serves their aggregate. A marker never delays.

mod account;
mod any;
mod engine;
mod ideal;
mod price;
mod profile;
mod three_colour;
mod throughput;

pub use account::{Account, AccountConfig};
pub use any::{AnyMarker, MarkerConfig};
pub use engine::{MarkingEngine, MarkingEngineConfig, MarkingLaw};
pub use ideal::{IdealMarking, Oversubscribed, ideal_marking};
pub use price::{congestion_costs, displaced};
pub use profile::{OutOfProfile, ProfileConfig, ProfileMarker};
pub use three_colour::{SingleRateConfig, ThreeColour, TwoRatesConfig};
pub(crate) use throughput::Throughput;
pub use throughput::{EngineMeter, ThroughputMeter};

use tidegate_packet::{DropReason, Packet};
use tidegate_units::Time;

use crate::Variable;

/// What a marker says of a packet, whose codepoint it may have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conditioned {
    /// It goes on.
    Pass,
    /// It is dropped.
    Drop(DropReason),
}

/// Writes codepoints on the packets of one aggregate.
pub trait Marker {
    /// What [`variable`](Self::variable) answers to.
    fn variables() -> &'static [Variable]
    where
        Self: Sized,
    {
        &[]
    }

    /// `packet` passes.
    fn on_packet(&mut self, packet: &mut Packet, now: Time) -> Conditioned;

    /// An inner variable by name, for `record`. `None` for names it has not.
    fn variable(&self, name: &str) -> Option<f64> {
        let _ = name;
        None
    }
}

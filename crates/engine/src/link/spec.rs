//! The description of one direction of a link.

use tidegate_mechanism::queue::DeviceConfig;
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_units::{BitRate, Span};

use super::CircuitSpec;
use super::impairment::{JitterModel, LossModel, ReorderModel};
use super::trace::LinkTrace;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct DirectionSpec {
    /// Rate, above zero. With a trace, what mechanisms take for the rate: its mean.
    pub rate: BitRate,
    /// When it may send, where that follows a trace. Not with a circuit, on a medium that both directions share, or at a
    /// router with a hop mechanism.
    pub trace: Option<LinkTrace>,
    /// Propagation delay.
    pub delay: Span,
    /// The queue in front of it.
    pub queue: DisciplineConfig,
    /// The card between them; none: the link takes its packets from the queue.
    pub device: Option<DeviceConfig>,
    /// Loss on the medium.
    pub loss: Option<LossModel>,
    /// Reordering on the medium.
    pub reorder: Option<ReorderModel>,
    /// The share of packets that arrive twice, from 0 to 1.
    pub duplicate: f64,
    /// How the propagation delay varies, in order.
    pub jitter: Option<JitterModel>,
    /// The virtual circuit that it is, if it is one.
    pub circuit: Option<CircuitSpec>,
}

//! The discrete-event simulator: event queue, links, routers, hosts, routing.
//!
//! A [`Network`] describes; [`Network::build`] makes a [`Simulation`] of it for one seed. The way of a packet:
//! its source ([`source`](self)) or TCP sender makes it, its flow's program ([`program`](self)) names the steps, each
//! link ([`link`](self)) queues, sends and delays it, borders ([`border`](self)) shape and meter it, and a sink counts it.

mod arena;
mod border;
mod build;
mod cores;
mod counters;
mod crowd;
mod error;
mod event;
mod external;
mod fluid;
mod foresight;
mod ids;
mod liar;
mod link;
mod marker;
mod nesting;
mod network;
mod observer;
mod outside;
mod planner;
mod probe;
mod program;
mod routing;
mod shared;
mod simulation;
mod source;
mod stream;
mod ties;
mod waste;
mod world;

pub use arena::Carried;
pub use cores::{Division, Undivided};
pub use counters::{ByReason, Delays, FlowCounters, LinkCounters, SinkCounters, Totals};
pub use crowd::{
    ActivitySpec, ArrivalsSpec, CrowdSpec, CrowdTally, IdleTimes, ObjectsSpec, PageTally, PagesSpec,
    SizeClass, SizesSpec, Times, TransferTally, VideoRule, VideoSpec, VideoTally,
};
pub use error::BuildError;
pub use event::{EventQueue, Token};
pub use fluid::{FluidCounters, FluidLinkCounters, FluidSpec, FluidState};
pub use ids::{FlowIds, LinkId, NodeId};
pub use liar::LieSpec;
pub use link::{
    CircuitSpec, DirectionSpec, JitterModel, LinkTrace, LossModel, Medium, OPPORTUNITY_BYTES, ReorderModel,
};
pub use marker::MarkerCounters;
pub use network::{
    ApplicationSpec, BorderChange, Change, ClockSpec, ClockStep, DomainSpec, EventOrder, FlowSpec,
    FollowState, HopSpec, LabelsSpec, LinkSpec, MarkerSpec, Multipath, Network, NodeKind, NodeSpec,
    OnOffDistribution, ReservationChange, ScriptedChange, StartSpec, Ties, TransportSpec,
};
pub use observer::Observer;
pub use probe::{BorderReport, FlowPath};
pub use routing::Path;
pub use simulation::{ConnectionCounters, Simulation, Statistics};
pub use tidegate_packet::{Arrival, OutsideTcp, Place};

//! Any queue discipline, dispatched by an enumeration: one predictable branch on the packet path, no virtual call.

use alloc::boxed::Box;

use tidegate_packet::{Backlog, Packet, Sink};
use tidegate_units::{BitRate, Time};

use super::{Drr, DrrConfig, Wfq, WfqConfig};
use crate::Context;
use crate::queue::{AnyManager, DropTailConfig, Fifo, ManagerConfig, QueueDiscipline};

/// Declares [`AnyDiscipline`] and [`DisciplineConfig`] over the disciplines that there are.
macro_rules! disciplines {
    ($($(#[$doc:meta])* $variant:ident($config:ty, $discipline:ty),)*) => {
        /// The parameters of any queue discipline.
        #[derive(Clone, Debug, PartialEq)]
        pub enum DisciplineConfig { $($(#[$doc])* $variant($config),)* }

        /// Any queue discipline.
        #[derive(Clone, Debug)]
        // One per link, never moved on the packet path: boxing would only add a miss.
        #[allow(clippy::large_enum_variant)]
        pub enum AnyDiscipline { $($(#[$doc])* $variant($discipline),)* }

        impl QueueDiscipline for AnyDiscipline {
            #[inline]
            fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
                match self { $(Self::$variant(d) => d.enqueue(packet, now, out),)* }
            }
            #[inline]
            fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
                match self { $(Self::$variant(d) => d.dequeue(now, out),)* }
            }
            #[inline]
            fn ready_at(&self, now: Time) -> Option<Time> {
                match self { $(Self::$variant(d) => d.ready_at(now),)* }
            }
            #[inline]
            fn backlog(&self) -> Backlog {
                match self { $(Self::$variant(d) => d.backlog(),)* }
            }
            #[inline]
            fn on_idle(&mut self, now: Time) {
                match self { $(Self::$variant(d) => d.on_idle(now),)* }
            }
            fn set_link_rate(&mut self, rate: BitRate, now: Time) {
                match self { $(Self::$variant(d) => d.set_link_rate(rate, now),)* }
            }
            #[inline]
            fn timer_at(&self) -> Option<Time> {
                match self { $(Self::$variant(d) => d.timer_at(),)* }
            }
            fn on_timer(&mut self, now: Time, out: &mut impl Sink) {
                match self { $(Self::$variant(d) => d.on_timer(now, out),)* }
            }
            fn variable(&self, name: &str) -> Option<f64> {
                match self { $(Self::$variant(d) => d.variable(name),)* }
            }
        }
    };
}

disciplines! {
    /// One FIFO under a manager.
    Fifo(ManagerConfig, Fifo<AnyManager>),
    /// Deficit round robin.
    Drr(DrrConfig, Drr),
    /// Weighted fair queueing.
    Wfq(WfqConfig, Wfq),
}

impl DisciplineConfig {
    /// The discipline.
    pub fn build(&self, context: &Context) -> AnyDiscipline {
        match self {
            Self::Fifo(manager) => AnyDiscipline::Fifo(Fifo::new(manager.build(context))),
            Self::Drr(config) => AnyDiscipline::Drr(config.build(context)),
            Self::Wfq(config) => AnyDiscipline::Wfq(config.build(context)),
        }
    }
}

impl Default for DisciplineConfig {
    /// A FIFO under drop-tail.
    fn default() -> Self {
        Self::Fifo(ManagerConfig::DropTail(DropTailConfig::default()))
    }
}

impl AnyDiscipline {
    /// The manager of a plain FIFO, for a world that keeps such packets itself. Nothing may wait.
    ///
    /// # Errors
    ///
    /// Any other discipline comes back.
    pub fn into_fifo_manager(self) -> Result<AnyManager, Box<Self>> {
        assert!(self.backlog().is_empty(), "packets that wait would be lost");
        match self {
            Self::Fifo(fifo) => Ok(fifo.into_manager()),
            other => Err(Box::new(other)),
        }
    }
}

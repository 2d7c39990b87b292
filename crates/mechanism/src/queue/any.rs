//! Any queue manager, dispatched by an enumeration: one predictable branch on the packet path, no virtual call. Large
//! managers are boxed, for most links have a small one.

use alloc::boxed::Box;

use tidegate_packet::{Backlog, Packet};
use tidegate_units::{BitRate, Time};

use super::{
    AdaptiveRed, AdaptiveRedConfig, Blue, BlueConfig, Csfq, CsfqConfig, DropTail, DropTailConfig, EecMarker,
    EecMarkerConfig, Ered, EredConfig, Fred, FredConfig, QueueManager, Red, RedConfig, RedPenaltyBox,
    RedPenaltyBoxConfig, Sfb, SfbConfig, TcpFriendly, TcpFriendlyConfig, Verdict,
};
use crate::Context;

/// Declares [`AnyManager`] and [`ManagerConfig`] over the managers that there are.
macro_rules! managers {
    ($($(#[$doc:meta])* $variant:ident($config:ident, $manager:ty),)*) => {
        /// The parameters of any queue manager.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ManagerConfig { $($(#[$doc])* $variant($config),)* }

        impl ManagerConfig {
            /// The manager.
            pub fn build(&self, context: &Context) -> AnyManager {
                match self { $(Self::$variant(config) => AnyManager::$variant(config.build(context).into()),)* }
            }
        }

        /// Any queue manager.
        #[derive(Clone, Debug)]
        pub enum AnyManager { $($(#[$doc])* $variant($manager),)* }

        impl QueueManager for AnyManager {
            #[inline]
            fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
                match self { $(Self::$variant(m) => m.on_arrival(packet, queue, now),)* }
            }
            #[inline]
            fn decides_at_head(&self) -> bool {
                match self { $(Self::$variant(m) => m.decides_at_head(),)* }
            }
            #[inline]
            fn at_head(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
                match self { $(Self::$variant(m) => m.at_head(packet, queue, now),)* }
            }
            #[inline]
            fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
                match self { $(Self::$variant(m) => m.on_departure(packet, queue, now),)* }
            }
            fn on_removed(&mut self, now: Time) {
                match self { $(Self::$variant(m) => m.on_removed(now),)* }
            }
            #[inline]
            fn on_idle(&mut self, now: Time) {
                match self { $(Self::$variant(m) => m.on_idle(now),)* }
            }
            fn set_link_rate(&mut self, rate: BitRate, now: Time) {
                match self { $(Self::$variant(m) => m.set_link_rate(rate, now),)* }
            }
            #[inline]
            fn timer_at(&self) -> Option<Time> {
                match self { $(Self::$variant(m) => m.timer_at(),)* }
            }
            fn on_timer(&mut self, now: Time) {
                match self { $(Self::$variant(m) => m.on_timer(now),)* }
            }
            fn variable(&self, name: &str) -> Option<f64> {
                match self { $(Self::$variant(m) => m.variable(name),)* }
            }
        }
    };
}

managers! {
    /// Drop-tail.
    DropTail(DropTailConfig, DropTail),
    /// Core-stateless fair queueing (the core router).
    Csfq(CsfqConfig, Box<Csfq>),
    /// Random early detection.
    Red(RedConfig, Box<Red>),
    /// Adaptive RED.
    AdaptiveRed(AdaptiveRedConfig, Box<AdaptiveRed>),
    /// RED with a penalty box.
    RedPenaltyBox(RedPenaltyBoxConfig, Box<RedPenaltyBox>),
    /// BLUE.
    Blue(BlueConfig, Box<Blue>),
    /// Flow random early detection.
    Fred(FredConfig, Box<Fred>),
    /// Stochastic Fair BLUE.
    Sfb(SfbConfig, Box<Sfb>),
    /// The bottleneck of explicit edge control.
    EecMarker(EecMarkerConfig, EecMarker),
    /// Enhanced RED.
    Ered(EredConfig, Box<Ered>),
    /// TCP-friendly dropping.
    TcpFriendly(TcpFriendlyConfig, Box<TcpFriendly>),
}

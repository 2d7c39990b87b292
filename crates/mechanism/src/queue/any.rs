//! Any queue manager, dispatched by an enumeration: one predictable branch on the packet path, no virtual call. Large
//! managers are boxed, for most links have a small one. Those of one's own ([`super::own`]) are called through a pointer.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tidegate_packet::{Backlog, Packet};
#[cfg(feature = "text")]
use tidegate_parameters::own::Registered as _;
use tidegate_parameters::{Own, family};
use tidegate_units::{BitRate, Time};

use super::own::{MakeManager, OwnManager};
use super::red::{WITH_FLOWS, WITH_SLOPE, WITHOUT_FLOWS};
use super::{
    AdaptiveRed, AdaptiveRedConfig, Avq, AvqConfig, Blue, BlueConfig, Choke, ChokeConfig, Cobalt,
    CobaltConfig, Codel, CodelConfig, Csfq, CsfqConfig, DropTail, DropTailConfig, EecMarker, EecMarkerConfig,
    Ered, EredConfig, Fred, FredConfig, Pi, Pi2, Pi2Config, PiConfig, Pie, PieConfig, QueueManager, Red,
    RedConfig, RedPenaltyBox, RedPenaltyBoxConfig, Rem, RemConfig, Sfb, SfbConfig, Step, StepConfig,
    TcpFriendly, TcpFriendlyConfig, Verdict,
};
use crate::{Context, Variable, distinct};

/// Declares [`AnyManager`] and [`ManagerConfig`] over the managers that there are.
macro_rules! managers {
    ($($(#[doc = $doc:literal])* $variant:ident($config:ident, $manager:ty) = $kind:literal,)*) => {
        family! {
            /// What manages one queue.
            pub enum ManagerConfig { $($(#[doc = $doc])* $variant($config) = $kind,)* } and {
                /// One's own.
                Own(Own<dyn MakeManager>),
            }
        }

        /// Calls the same of any manager.
        macro_rules! each {
            ($any:ident, $m:ident => $call:expr) => {
                match $any { $(Self::$variant($m) => $call,)* Self::Own($m) => $call }
            };
        }

        impl ManagerConfig {
            /// The manager.
            pub fn build(&self, context: &Context) -> AnyManager {
                match self {
$(Self::$variant(config) => AnyManager::$variant(config.build(context).into()),)*
                    Self::Own(own) => AnyManager::Own(own.values().make(context)),
                }
            }

            /// What may be recorded of it.
            pub fn variables(&self) -> &'static [Variable] {
                if let Self::Red(red) = self {
                    return match (red.slope_rtt, red.flows_rtt) {
                        (Some(_), _) => &WITH_SLOPE,
                        (None, Some(_)) => &WITH_FLOWS,
                        (None, None) => &WITHOUT_FLOWS,
                    };
                }
                match self {
                    $(Self::$variant(_) => <$variant as QueueManager>::variables(),)*
                    Self::Own(own) => own.values().variables(),
                }
            }

            /// What may be recorded of any manager.
            pub fn all_variables() -> Vec<Variable> {
                #[allow(unused_mut, reason = "without text nothing is registered")]
                let mut lists = Vec::from([$(<$variant as QueueManager>::variables(),)*]);
                #[cfg(feature = "text")]
                lists.extend(<dyn MakeManager>::registry().abouts().map(|(_, variables)| variables));
                distinct(&lists)
            }
        }

        /// Any queue manager.
        #[derive(Debug)]
        pub enum AnyManager {
            $($(#[doc = $doc])* $variant($manager),)*
            /// One's own.
            Own(OwnManager),
        }

        impl QueueManager for AnyManager {
            #[inline]
            fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
                each!(self, m => m.on_arrival(packet, queue, now))
            }
            #[inline]
            fn decides_at_head(&self) -> bool {
                each!(self, m => m.decides_at_head())
            }
            #[inline]
            fn at_head(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
                each!(self, m => m.at_head(packet, queue, now))
            }
            #[inline]
            fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
                each!(self, m => m.on_departure(packet, queue, now))
            }
            fn on_removed(&mut self, now: Time) {
                each!(self, m => m.on_removed(now))
            }
            #[inline]
            fn on_idle(&mut self, now: Time) {
                each!(self, m => m.on_idle(now))
            }
            fn set_link_rate(&mut self, rate: BitRate, now: Time) {
                each!(self, m => m.set_link_rate(rate, now))
            }
            #[inline]
            fn timer_at(&self) -> Option<Time> {
                each!(self, m => m.timer_at())
            }
            fn on_timer(&mut self, now: Time) {
                each!(self, m => m.on_timer(now))
            }
            fn variable(&self, name: &str) -> Option<f64> {
                each!(self, m => m.variable(name))
            }
        }
    };
}

managers! {
    /// Drop-tail.
    DropTail(DropTailConfig, DropTail) = "droptail",
    /// Core-stateless fair queueing (the core router).
    Csfq(CsfqConfig, Box<Csfq>) = "csfq",
    /// Random early detection.
    Red(RedConfig, Box<Red>) = "red",
    /// Adaptive RED.
    AdaptiveRed(AdaptiveRedConfig, Box<AdaptiveRed>) = "adaptive-red",
    /// CHOKe.
    Choke(ChokeConfig, Box<Choke>) = "choke",
    /// RED with a penalty box.
    RedPenaltyBox(RedPenaltyBoxConfig, Box<RedPenaltyBox>) = "red-penalty-box",
    /// BLUE.
    Blue(BlueConfig, Box<Blue>) = "blue",
    /// Controlled delay.
    Codel(CodelConfig, Box<Codel>) = "codel",
    /// `CoDel` and BLUE alternate.
    Cobalt(CobaltConfig, Box<Cobalt>) = "cobalt",
    /// PIE.
    Pie(PieConfig, Box<Pie>) = "pie",
    /// The PI controller.
    Pi(PiConfig, Box<Pi>) = "pi",
    /// PI2.
    Pi2(Pi2Config, Box<Pi2>) = "pi2",
    /// Random exponential marking.
    Rem(RemConfig, Box<Rem>) = "rem",
    /// The adaptive virtual queue.
    Avq(AvqConfig, Box<Avq>) = "avq",
    /// A step.
    Step(StepConfig, Box<Step>) = "step",
    /// Flow random early detection.
    Fred(FredConfig, Box<Fred>) = "fred",
    /// Stochastic Fair BLUE.
    Sfb(SfbConfig, Box<Sfb>) = "sfb",
    /// The bottleneck of explicit edge control.
    EecMarker(EecMarkerConfig, EecMarker) = "eec-marker",
    /// Enhanced RED.
    Ered(EredConfig, Box<Ered>) = "ered",
    /// TCP-friendly dropping.
    TcpFriendly(TcpFriendlyConfig, Box<TcpFriendly>) = "tcp-friendly",
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self::DropTail(DropTailConfig::default())
    }
}

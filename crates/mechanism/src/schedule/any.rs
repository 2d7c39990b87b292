//! Any queue discipline, dispatched by an enumeration: one predictable branch on the packet path, no virtual call.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
#[cfg(feature = "text")]
use tidegate_parameters::own::Registered as _;
use tidegate_parameters::{Own, family};
use tidegate_units::{BitRate, Time};

use super::own::{MakeDiscipline, OwnDiscipline};
use super::{
    Cake, CakeConfig, Cbq, CbqConfig, Classification, Drr, DrrConfig, DualPi2, DualPi2Config, Fq, FqCodel,
    FqCodelConfig, FqConfig, FqPie, FqPieConfig, Priority, PriorityConfig, Sfq, SfqConfig, Wfq, WfqConfig,
};
#[cfg(feature = "text")]
use crate::queue::own::MakeManager;
use crate::queue::{AnyManager, Fifo, ManagerConfig, QueueDiscipline};
use crate::{Context, Variable, distinct};

family! {
    /// What waits for a direction of a link, and in which order it goes.
    pub enum DisciplineConfig {
        /// Deficit round robin.
        Drr(DrrConfig) = "drr",
        /// Weighted fair queueing.
        Wfq(WfqConfig) = "wfq",
        /// Stochastic fairness queueing.
        Sfq(SfqConfig) = "sfq",
        /// Flow queueing with controlled delay.
        FqCodel(FqCodelConfig) = "fq-codel",
        /// Flow queueing with PIE.
        FqPie(FqPieConfig) = "fq-pie",
        /// A queue for each flow, in which packets wait for their time.
        Fq(FqConfig) = "fq",
        /// Common applications kept enhanced: a shaper, tins, and queues fair to hosts and flows.
        Cake(CakeConfig) = "cake",
        /// Class-based queueing.
        Cbq(CbqConfig) = "cbq",
        /// Strict priority.
        Priority(PriorityConfig) = "priority",
        /// A short queue for L4S, coupled to a classic one.
        DualPi2(DualPi2Config) = "dualpi2",
    } and {
        /// One FIFO under a manager.
        Fifo(ManagerConfig),
        /// One's own.
        Own(Own<dyn MakeDiscipline>),
    }
}

/// What may be recorded of every scheduler.
const SCHEDULED: &[Variable] = &[Variable::new("active_queues", "Queues with something waiting.")];

/// Declares [`AnyDiscipline`] over the disciplines that there are.
macro_rules! disciplines {
    ($($(#[$doc:meta])* $variant:ident($discipline:ty),)*) => {
        /// Any queue discipline.
        #[derive(Debug)]
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
            fn may_choose_late(&self) -> bool {
                match self { $(Self::$variant(d) => d.may_choose_late(),)* }
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
            fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
                match self { $(Self::$variant(d) => d.purge(now, why, out),)* }
            }
            fn restart_statistics(&mut self) {
                match self { $(Self::$variant(d) => d.restart_statistics(),)* }
            }
            fn variable(&self, name: &str) -> Option<f64> {
                match self { $(Self::$variant(d) => d.variable(name),)* }
            }
        }
    };
}

disciplines! {
    /// One FIFO under a manager.
    Fifo(Fifo<AnyManager>),
    /// Deficit round robin.
    Drr(Drr),
    /// Weighted fair queueing.
    Wfq(Wfq),
    /// Stochastic fairness queueing.
    Sfq(Sfq),
    /// Flow queueing with controlled delay.
    FqCodel(FqCodel),
    /// Flow queueing with PIE.
    FqPie(Box<FqPie>),
    /// A queue for each flow, in which packets wait for their time.
    Fq(Box<Fq>),
    /// A shaper, tins, and queues fair to hosts and flows.
    Cake(Box<Cake>),
    /// Class-based queueing.
    Cbq(Cbq),
    /// Strict priority.
    Priority(Priority),
    /// A short queue for L4S, coupled to a classic one.
    DualPi2(DualPi2),
    /// One's own.
    Own(OwnDiscipline),
}

impl DisciplineConfig {
    /// Whose weights its queues have: what they are numbers of. None where weights mean nothing.
    pub fn weighted(&self) -> Option<Classification> {
        match self {
            Self::Drr(config) => Some(config.classify),
            Self::Wfq(config) => Some(config.classify),
            Self::Sfq(_)
            | Self::FqCodel(_)
            | Self::FqPie(_)
            | Self::Fq(_)
            | Self::Cake(_)
            | Self::Cbq(_)
            | Self::Priority(_)
            | Self::DualPi2(_)
            | Self::Fifo(_)
            | Self::Own(_) => None,
        }
    }

    /// The same with weights other than 1, by number of flow, class or port; nothing where weights mean nothing.
    #[must_use]
    pub fn with_weights(mut self, weights: &[(u32, f64)]) -> Self {
        match &mut self {
            Self::Drr(config) => config.weight_of = weights.to_vec(),
            Self::Wfq(config) => config.weight_of = weights.to_vec(),
            Self::Sfq(_)
            | Self::FqCodel(_)
            | Self::FqPie(_)
            | Self::Fq(_)
            | Self::Cake(_)
            | Self::Cbq(_)
            | Self::Priority(_)
            | Self::DualPi2(_)
            | Self::Fifo(_)
            | Self::Own(_) => {}
        }
        self
    }

    /// What may be recorded of it.
    pub fn variables(&self) -> &'static [Variable] {
        match self {
            Self::Fifo(manager) => manager.variables(),
            Self::Own(own) => own.values().variables(),
            Self::FqCodel(_) | Self::FqPie(_) | Self::Fq(_) => super::flow_queueing::VARIABLES,
            Self::DualPi2(_) => DualPi2::VARIABLES,
            Self::Cake(_) => Cake::VARIABLES,
            Self::Drr(_) | Self::Wfq(_) | Self::Sfq(_) | Self::Cbq(_) | Self::Priority(_) => SCHEDULED,
        }
    }

    /// What may be recorded of any discipline.
    pub fn all_variables() -> Vec<Variable> {
        let mut all = ManagerConfig::all_variables();
        all.extend(distinct(&[
            SCHEDULED,
            super::flow_queueing::VARIABLES,
            DualPi2::VARIABLES,
            Cake::VARIABLES,
        ]));
        #[cfg(feature = "text")]
        all.extend(<dyn MakeDiscipline>::registry().abouts().flat_map(|(_, variables)| variables));
        all
    }

    /// The names that no mechanism of one's own may have here.
    #[cfg(feature = "text")]
    pub(crate) fn taken() -> Vec<&'static str> {
        let managers = <dyn MakeManager>::registry().names();
        let disciplines = <dyn MakeDiscipline>::registry().names();
        [Self::KINDS, ManagerConfig::KINDS, &managers, &disciplines].concat()
    }

    /// The discipline.
    pub fn build(&self, context: &Context) -> AnyDiscipline {
        match self {
            Self::Fifo(manager) => AnyDiscipline::Fifo(Fifo::new(manager.build(context))),
            Self::Drr(config) => AnyDiscipline::Drr(config.build(context)),
            Self::Wfq(config) => AnyDiscipline::Wfq(config.build(context)),
            Self::Sfq(config) => AnyDiscipline::Sfq(config.build(context)),
            Self::FqCodel(config) => AnyDiscipline::FqCodel(config.build(context)),
            Self::FqPie(config) => AnyDiscipline::FqPie(config.build(context).into()),
            Self::Fq(config) => AnyDiscipline::Fq(config.build(context).into()),
            Self::Cake(config) => AnyDiscipline::Cake(config.build(context).into()),
            Self::Cbq(config) => AnyDiscipline::Cbq(config.build(context)),
            Self::Priority(config) => AnyDiscipline::Priority(config.build(context)),
            Self::DualPi2(config) => AnyDiscipline::DualPi2(config.build(context)),
            Self::Own(own) => AnyDiscipline::Own(own.values().make(context)),
        }
    }
}

impl Default for DisciplineConfig {
    /// A FIFO under drop-tail.
    fn default() -> Self {
        Self::Fifo(ManagerConfig::default())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{CodelConfig, DropTailConfig, StepConfig};
    use crate::schedule::Classification;
    use crate::schedule::testing::Counted;
    use alloc::vec;
    use tidegate_packet::{Ecn, FlowId};
    use tidegate_units::Limit;

    #[test]
    fn a_plain_fifo_gives_its_manager_and_a_scheduler_comes_back() {
        let context = Context::for_tests();
        let fifo = DisciplineConfig::default().build(&context);
        assert!(matches!(fifo.into_fifo_manager(), Ok(AnyManager::DropTail(_))));
        let drr = DisciplineConfig::Drr(DrrConfig::default()).build(&context);
        assert!(drr.into_fifo_manager().is_err_and(|back| matches!(*back, AnyDiscipline::Drr(_))));
    }

    /// How many of three packets of flows 0, 1 and 2 each, in classes and from ports as `number` says, find room.
    fn accepted(classify: Classification, number: impl Fn(u32) -> (u8, u16)) -> u32 {
        let two = Limit::Packets(2);
        let queue = Some(ManagerConfig::DropTail(DropTailConfig { limit: two }));
        let drr = DrrConfig { classify, queue, ..DrrConfig::default() };
        let wfq = WfqConfig { classify, per_flow_limit: Some(two), ..WfqConfig::default() };
        let counts = [DisciplineConfig::Drr(drr), DisciplineConfig::Wfq(wfq)].map(|config| {
            let mut discipline = config.build(&Context::for_tests());
            for flow in [0, 1, 2].repeat(3) {
                let (class, in_port) = number(flow);
                let packet = Packet { class, in_port, ..Packet::new(0, FlowId(flow), 1000) };
                discipline.enqueue(packet, Time::ZERO, &mut Counted::default());
            }
            discipline.backlog().packets
        });
        assert_eq!(counts[0], counts[1]);
        counts[0]
    }

    /// Disciplines of every kind, those that mark and drop what has waited for long, and those that hold packets back, among them.
    fn of_all_kinds() -> Vec<DisciplineConfig> {
        let step =
            || ManagerConfig::Step(StepConfig { threshold: Limit::Packets(1), ..StepConfig::default() });
        let codel = || ManagerConfig::Codel(CodelConfig::default());
        let slow = Some(BitRate::from_bps(8000));
        vec![
            DisciplineConfig::default(),
            DisciplineConfig::Fifo(step()),
            DisciplineConfig::Fifo(codel()),
            DisciplineConfig::Drr(DrrConfig { queue: Some(step()), ..DrrConfig::default() }),
            DisciplineConfig::Wfq(WfqConfig { queue: Some(codel()), ..WfqConfig::default() }),
            DisciplineConfig::Sfq(SfqConfig { queue: Some(codel()), ..SfqConfig::default() }),
            DisciplineConfig::Priority(PriorityConfig { queue: Some(step()), ..PriorityConfig::default() }),
            DisciplineConfig::FqCodel(FqCodelConfig::default()),
            DisciplineConfig::FqPie(FqPieConfig::default()),
            DisciplineConfig::Fq(FqConfig { max_rate: slow, ..FqConfig::default() }),
            DisciplineConfig::Cake(CakeConfig { bandwidth: slow, ..CakeConfig::default() }),
            DisciplineConfig::DualPi2(DualPi2Config::default()),
        ]
    }

    #[test]
    fn on_a_link_that_is_gone_everything_is_lost_because_of_that_and_nothing_is_marked() {
        for config in of_all_kinds() {
            let mut discipline = config.build(&Context::for_tests());
            let mut out = Counted::default();
            let capable = |slot: u32, now| Packet {
                ecn: Ecn::from_bits(if slot.is_multiple_of(3) { 0 } else { 2 }),
                arrived: now,
                ..Packet::new(slot, FlowId(slot % 4), 1000)
            };
            for slot in 0..20 {
                discipline.enqueue(capable(slot, Time::ZERO), Time::ZERO, &mut out);
            }
            // What was sent before leaves a turn that was begun, and queues that are held.
            let sent = core::iter::from_fn(|| discipline.dequeue(Time::ZERO, &mut out)).take(3).count();
            let gone = Time::from_nanos(2_000_000_000);
            while let Some(at) = discipline.timer_at().filter(|&at| at <= gone) {
                discipline.on_timer(at, &mut out);
            }
            (out.drops, out.marks) = (Vec::new(), Vec::new());
            let waiting = discipline.backlog().packets as usize;
            assert!(waiting > 0 && waiting + sent <= 20, "{config:?}");
            discipline.purge(gone, DropReason::LinkDown, &mut out);
            assert_eq!(out.drops.len(), waiting, "{config:?}");
            assert!(out.drops.iter().all(|(_, why)| *why == DropReason::LinkDown), "{config:?}");
            assert!(out.marks.is_empty() && discipline.backlog().is_empty(), "{config:?}");
            assert_eq!(discipline.ready_at(gone), None, "{config:?}");
            assert_eq!(discipline.dequeue(gone, &mut out), None, "{config:?}");
            // The first packet after that does not wait for what is lost.
            let later = Time::from_nanos(9_000_000_000);
            discipline.enqueue(capable(30, later), later, &mut out);
            let first = discipline.dequeue(later, &mut out).map(|packet| packet.slot);
            assert_eq!(first, Some(30), "{config:?}");
            assert!(discipline.backlog().is_empty(), "{config:?}");
        }
    }

    #[test]
    fn packets_of_a_flow_a_class_or_a_port_share_a_queue_and_its_limit() {
        let number = |flow: u32| (u8::from(flow == 0), 7);
        assert_eq!(accepted(Classification::Flow, number), 6);
        assert_eq!(accepted(Classification::Class, number), 4);
        assert_eq!(accepted(Classification::InputPort, number), 2);
    }
}

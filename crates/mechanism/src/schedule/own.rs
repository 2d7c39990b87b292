//! Schedulers of one's own: what another crate brings. With the feature `text` [`register`] gives one a name in configurations.
//!
//! Source: none; no mechanism of a document, but the door for others: the calls are those of [`QueueDiscipline`].
//! Deviations: none.

use alloc::boxed::Box;
use core::fmt;

use tidegate_packet::{Backlog, DropReason, Packet, Sink};
use tidegate_parameters::own::Values;
use tidegate_units::{BitRate, Time};

use crate::queue::QueueDiscipline;
use crate::{Context, Variable};

/// The parameters of a scheduler of one's own. Declare them with [`parameters!`](tidegate_parameters::parameters).
pub trait DisciplineParameters: Values {
    /// What they are the parameters of.
    type Discipline: QueueDiscipline + Send + Sync + 'static;

    /// The scheduler.
    fn build(&self, context: &Context) -> Self::Discipline;

    /// What [`QueueDiscipline::variable`] answers to, as far as it may be recorded.
    fn variables() -> &'static [Variable]
    where
        Self: Sized,
    {
        &[]
    }
}

/// What makes a scheduler.
pub trait MakeDiscipline: Values {
    /// The scheduler.
    fn make(&self, context: &Context) -> OwnDiscipline;
    /// What may be recorded of it.
    fn variables(&self) -> &'static [Variable];
}

impl<P: DisciplineParameters> MakeDiscipline for P {
    fn make(&self, context: &Context) -> OwnDiscipline {
        OwnDiscipline(Box::new(self.build(context)))
    }
    fn variables(&self) -> &'static [Variable] {
        <P as DisciplineParameters>::variables()
    }
}

/// A discipline behind a pointer: what is generic in [`QueueDiscipline`], with a sink behind a pointer.
trait Erased: QueueDiscipline + Send + Sync {
    fn enqueue_into(&mut self, packet: Packet, now: Time, out: &mut dyn Sink);
    fn dequeue_into(&mut self, now: Time, out: &mut dyn Sink) -> Option<Packet>;
    fn on_timer_into(&mut self, now: Time, out: &mut dyn Sink);
    fn purge_into(&mut self, now: Time, why: DropReason, out: &mut dyn Sink);
}

impl<D: QueueDiscipline + Send + Sync> Erased for D {
    fn enqueue_into(&mut self, packet: Packet, now: Time, mut out: &mut dyn Sink) {
        self.enqueue(packet, now, &mut out);
    }
    fn dequeue_into(&mut self, now: Time, mut out: &mut dyn Sink) -> Option<Packet> {
        self.dequeue(now, &mut out)
    }
    fn on_timer_into(&mut self, now: Time, mut out: &mut dyn Sink) {
        self.on_timer(now, &mut out);
    }
    fn purge_into(&mut self, now: Time, why: DropReason, mut out: &mut dyn Sink) {
        self.purge(now, why, &mut out);
    }
}

/// A scheduler of any type.
pub struct OwnDiscipline(Box<dyn Erased>);

impl fmt::Debug for OwnDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnDiscipline")
    }
}

impl QueueDiscipline for OwnDiscipline {
    fn enqueue(&mut self, packet: Packet, now: Time, out: &mut impl Sink) {
        self.0.enqueue_into(packet, now, out);
    }
    fn dequeue(&mut self, now: Time, out: &mut impl Sink) -> Option<Packet> {
        self.0.dequeue_into(now, out)
    }
    fn ready_at(&self, now: Time) -> Option<Time> {
        self.0.ready_at(now)
    }
    fn may_choose_late(&self) -> bool {
        self.0.may_choose_late()
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
    fn on_idle(&mut self, now: Time) {
        self.0.on_idle(now);
    }
    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.0.set_link_rate(rate, now);
    }
    fn timer_at(&self) -> Option<Time> {
        self.0.timer_at()
    }
    fn on_timer(&mut self, now: Time, out: &mut impl Sink) {
        self.0.on_timer_into(now, out);
    }
    fn purge(&mut self, now: Time, why: DropReason, out: &mut impl Sink) {
        self.0.purge_into(now, why, out);
    }
    fn restart_statistics(&mut self) {
        self.0.restart_statistics();
    }
    fn variable(&self, name: &str) -> Option<f64> {
        self.0.variable(name)
    }
}

#[cfg(feature = "text")]
pub use registry::register;

#[cfg(feature = "text")]
mod registry {
    use alloc::sync::Arc;

    use tidegate_parameters::own::{Declared, Registered, Registry, RegistryError};

    use super::{DisciplineParameters, MakeDiscipline};
    use crate::Variable;
    use crate::schedule::DisciplineConfig;

    static REGISTRY: Registry<dyn MakeDiscipline> = Registry::new();

    impl Registered for dyn MakeDiscipline {
        type About = &'static [Variable];
        fn registry() -> &'static Registry<Self> {
            &REGISTRY
        }
    }

    /// Makes `kind` the name of the scheduler with the parameters `P`, wherever a queue is configured.
    ///
    /// # Errors
    /// The name is taken or no name, or configurations were read already.
    pub fn register<P: DisciplineParameters + Declared>(kind: &'static str) -> Result<(), RegistryError> {
        let variables = <P as DisciplineParameters>::variables();
        REGISTRY.add::<P>(kind, variables, |values| Arc::new(values), &DisciplineConfig::taken())
    }
}

//! Queue managers of one's own: what another crate, or another language, brings.
//!
//! They are called through a pointer, one call per decision, and otherwise stand where the others stand. With the feature `text`
//! [`register`] gives one a name in configurations.
//!
//! Source: none; no mechanism of a document, but the door for others: the calls are those of [`QueueManager`].
//! Deviations: none.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

use tidegate_parameters::own::Values;

use super::QueueManager;
use crate::{Context, Variable};

/// The parameters of a queue manager of one's own. Declare them with [`parameters!`](tidegate_parameters::parameters).
pub trait ManagerParameters: Values {
    /// What they are the parameters of.
    type Manager: QueueManager + Send + Sync + 'static;

    /// The manager.
    fn build(&self, context: &Context) -> Self::Manager;
}

/// What makes a queue manager.
pub trait MakeManager: Values {
    /// The manager.
    fn make(&self, context: &Context) -> OwnManager;
    /// What may be recorded of it.
    fn variables(&self) -> &'static [Variable];
}

impl<P: ManagerParameters> MakeManager for P {
    fn make(&self, context: &Context) -> OwnManager {
        OwnManager(Box::new(self.build(context)))
    }
    fn variables(&self) -> &'static [Variable] {
        P::Manager::variables()
    }
}

/// A queue manager of any type.
pub struct OwnManager(Box<dyn QueueManager + Send + Sync>);

impl fmt::Debug for OwnManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnManager")
    }
}

impl Deref for OwnManager {
    type Target = dyn QueueManager + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for OwnManager {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

#[cfg(feature = "text")]
pub use registry::register;

#[cfg(feature = "text")]
mod registry {
    use alloc::sync::Arc;

    use tidegate_parameters::own::{Declared, Registered, Registry, RegistryError};

    use super::{MakeManager, ManagerParameters};
    use crate::Variable;
    use crate::queue::QueueManager as _;
    use crate::schedule::DisciplineConfig;

    static REGISTRY: Registry<dyn MakeManager> = Registry::new();

    impl Registered for dyn MakeManager {
        type About = &'static [Variable];
        fn registry() -> &'static Registry<Self> {
            &REGISTRY
        }
    }

    /// Makes `kind` the name of the queue manager with the parameters `P`, wherever a queue is configured.
    ///
    /// # Errors
    /// The name is taken or no name, or configurations were read already.
    pub fn register<P: ManagerParameters + Declared>(kind: &'static str) -> Result<(), RegistryError> {
        REGISTRY.add::<P>(
            kind,
            P::Manager::variables(),
            |values| Arc::new(values),
            &DisciplineConfig::taken(),
        )
    }
}

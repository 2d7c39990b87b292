//! Congestion controls of one's own: what another crate, or another language, brings.
//!
//! They are called through a pointer, and otherwise stand where the others stand. With the feature `text` [`register`] gives one a
//! name in configurations.
//!
//! Source: none; no mechanism of a document, but the door for others: the calls are those of [`CongestionControl`].
//! Deviations: none.

use alloc::boxed::Box;
use core::fmt;
use core::ops::{Deref, DerefMut};

use tidegate_parameters::own::Values;

use super::CongestionControl;
use crate::Variable;
use crate::tcp::TcpConfig;

/// The parameters of a congestion control of one's own. Declare them with [`parameters!`](tidegate_parameters::parameters).
pub trait ControlParameters: Values {
    /// What they are the parameters of.
    type Control: CongestionControl + Send + Sync + 'static;

    /// The control of a connection with the parameters `tcp`.
    fn build(&self, tcp: &TcpConfig) -> Self::Control;
}

/// What makes a congestion control.
pub trait MakeControl: Values {
    /// The control of a connection with the parameters `tcp`.
    fn make(&self, tcp: &TcpConfig) -> OwnControl;
    /// What may be recorded of it.
    fn variables(&self) -> &'static [Variable];
}

impl<P: ControlParameters> MakeControl for P {
    fn make(&self, tcp: &TcpConfig) -> OwnControl {
        OwnControl(Box::new(self.build(tcp)))
    }
    fn variables(&self) -> &'static [Variable] {
        P::Control::variables()
    }
}

/// A congestion control of any type.
pub struct OwnControl(Box<dyn CongestionControl + Send + Sync>);

impl fmt::Debug for OwnControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnControl")
    }
}

impl Deref for OwnControl {
    type Target = dyn CongestionControl + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for OwnControl {
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

    use super::{ControlParameters, MakeControl};
    use crate::Variable;
    use crate::tcp::congestion::{CongestionControl as _, CongestionControlConfig};

    static REGISTRY: Registry<dyn MakeControl> = Registry::new();

    impl Registered for dyn MakeControl {
        type About = &'static [Variable];
        fn registry() -> &'static Registry<Self> {
            &REGISTRY
        }
    }

    /// Makes `kind` the name of the congestion control with the parameters `P`: `control` of a TCP flow.
    ///
    /// # Errors
    /// The name is taken or no name, or configurations were read already.
    pub fn register<P: ControlParameters + Declared>(kind: &'static str) -> Result<(), RegistryError> {
        REGISTRY.add::<P>(
            kind,
            P::Control::variables(),
            |values| Arc::new(values),
            CongestionControlConfig::KINDS,
        )
    }
}

//! What a mechanism of your own needs: one crate to depend on, outside of this repository.
//!
//! Declare its parameters with [`parameters!`](parameters::parameters), implement the trait of its family, register it under a
//! name, and make a Python module of it with [`module!`]. `examples/own-mechanism` is a complete crate to copy, and
//! `docs/own-mechanism.md` leads through it.
//!
//! | family | trait | parameters | registered by |
//! |---|---|---|---|
//! | queue manager | [`queue::QueueManager`] | [`queue::own::ManagerParameters`] | [`queue::own::register`] |
//! | scheduler | [`queue::QueueDiscipline`] | [`schedule::own::DisciplineParameters`] | [`schedule::own::register`] |
//! | congestion control | [`congestion::CongestionControl`] | [`congestion::own::ControlParameters`] | [`congestion::own::register`] |
//! | edge mechanism | [`edge::EdgeHalf`] | [`edge::own::EdgeParameters`] | [`edge::own::register`] |

pub use tidegate_mechanism::tcp::congestion;
pub use tidegate_mechanism::{self as mechanism, Context, Variable, edge, queue, random, schedule};
pub use tidegate_packet as packet;
pub use tidegate_parameters::own::RegistryError;
pub use tidegate_parameters::{self as parameters, bound, parameters};
pub use tidegate_units as units;
pub use {pyo3, tidegate_python};

/// Makes the Python module `$name` with all of Tidegate and what `$register`, a function that gives a
/// `Result<(), RegistryError>`, registers.
#[macro_export]
macro_rules! module {
    ($name:ident, $register:path) => {
        /// Tidegate with mechanisms of its own.
        #[$crate::pyo3::pymodule]
        #[pyo3(crate = "::tidegate_own::pyo3")]
        fn $name(
            module: &$crate::pyo3::Bound<'_, $crate::pyo3::types::PyModule>,
        ) -> $crate::pyo3::PyResult<()> {
            $register().map_err(|why| $crate::pyo3::exceptions::PyImportError::new_err(why.to_string()))?;
            $crate::tidegate_python::fill(module)
        }
    };
}

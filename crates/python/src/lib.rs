//! PyO3 bindings: the module `tidegate._core`. Only here is Python known; `python/tidegate/_core.pyi` has the types.

mod config;
mod run;

use pyo3::prelude::*;

/// The compiled part of Tidegate.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::config::{
        ConfigError, PyExperiment, PyPoint, PyScenario, explain, list_mechanisms, schema, validate,
    };
    #[pymodule_export]
    use crate::run::{PyRunResult, run};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

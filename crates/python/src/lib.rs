//! PyO3 bindings: what the module `tidegate._core` holds. Only here is Python known; `python/tidegate/_core.pyi` has the types.

mod agent;
mod config;
mod emulate;
mod own;
mod run;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

/// Simulations of many flows visit all of their memory in turn and wait for its page tables. This one asks the kernel for large
/// pages (transparent huge pages), unless `MIMALLOC_ALLOW_THP=0` is in the environment. Python itself keeps its own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Puts all of Tidegate into `module`.
///
/// # Errors
/// Those of Python.
pub fn fill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__engine__", env!("TIDEGATE_ENGINE"))?;
    module.add("ConfigError", py.get_type::<config::ConfigError>())?;
    module.add_class::<config::PyScenario>()?;
    module.add_class::<config::PyExperiment>()?;
    module.add_class::<config::PyPoint>()?;
    module.add_class::<run::PyRunResult>()?;
    module.add_class::<agent::PyAgentRun>()?;
    module.add_class::<own::PyPacket>()?;
    module.add_class::<own::PyBacklog>()?;
    module.add_class::<own::PyAck>()?;
    module.add_class::<own::PyCongestion>()?;
    module.add_function(wrap_pyfunction!(config::validate, module)?)?;
    module.add_function(wrap_pyfunction!(config::quantity, module)?)?;
    module.add_function(wrap_pyfunction!(config::schema, module)?)?;
    module.add_function(wrap_pyfunction!(config::explain, module)?)?;
    module.add_function(wrap_pyfunction!(config::list_keys, module)?)?;
    module.add_function(wrap_pyfunction!(config::list_mechanisms, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::replace_folder, module)?)?;
    module.add_function(wrap_pyfunction!(emulate::emulate, module)?)
}

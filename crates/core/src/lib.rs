//! The Python module `tidegate._core`. A crate with mechanisms of its own makes another one of the same bindings
//! (`examples/own-mechanism`).

use pyo3::prelude::*;

/// The compiled part of Tidegate.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__build__", concat!(env!("TIDEGATE_REVISION"), ", ", env!("TIDEGATE_PROFILE")))?;
    tidegate_python::fill(module)
}

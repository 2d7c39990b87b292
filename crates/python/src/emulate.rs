//! The second world: `tidegate emulate` and `tidegate replay`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs `arguments` as the command line of `tidegate emulate` or `tidegate replay`, the command first; the exit code. It uses
/// standard output and standard error itself, and takes the signals of the process: call it on the main thread, at the end of a
/// process that has no other.
#[pyfunction]
pub fn emulate(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let program = [OsString::from("tidegate")];
    py.detach(|| tidegate_emulator::program::run(program.into_iter().chain(arguments)))
}

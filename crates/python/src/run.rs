//! Running a scenario: without the interpreter's lock, stoppable by Ctrl-C.

use numpy::PyArray1;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_lab::{Outcome, Progress, Run};

use crate::config::PyScenario;

/// Events between two looks at pending signals: some tens of milliseconds.
const EVENTS_PER_STEP: u64 = 500_000;

/// What one run leaves behind.
#[pyclass(name = "RunResult", module = "tidegate._core", frozen)]
pub struct PyRunResult {
    outcome: Outcome,
}

/// Time and values of a series, as NumPy arrays.
type Arrays<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl PyRunResult {
    #[getter]
    fn summary_json(&self) -> String {
        self.outcome.summary.to_string()
    }

    #[getter]
    fn series_names(&self) -> Vec<&str> {
        self.outcome.series.iter().map(|series| series.name.as_str()).collect()
    }

    /// Times in seconds and values of one series.
    fn series<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Arrays<'py>> {
        let series = self.outcome.series.iter().find(|series| series.name == name);
        let series = series.ok_or_else(|| PyKeyError::new_err(format!("the run recorded no series `{name}`")))?;
        Ok((PyArray1::from_slice(py, &series.times_s), PyArray1::from_slice(py, &series.values)))
    }

    #[getter]
    fn timing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let timing = &self.outcome.timing;
        let dict = PyDict::new(py);
        dict.set_item("build_s", timing.build.as_secs_f64())?;
        dict.set_item("run_s", timing.run.as_secs_f64())?;
        dict.set_item("events", timing.events)?;
        dict.set_item("packet_hops", timing.packet_hops)?;
        dict.set_item("peak_rss_bytes", peak_rss_bytes())?;
        Ok(dict)
    }
}

/// The most memory that the process has had, in bytes; zero where the system does not say.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// Runs `scenario` with `seed`, or its own.
#[pyfunction]
#[pyo3(signature = (scenario, seed = None, trace = None))]
pub fn run(py: Python<'_>, scenario: &PyScenario, seed: Option<u64>, trace: Option<&str>) -> PyResult<PyRunResult> {
    if trace.is_some() {
        return Err(PyValueError::new_err("traces are not built in"));
    }
    let scenario = &scenario.scenario;
    let seed = seed.unwrap_or(scenario.seed);
    let mut run = py
        .detach(|| Run::start(scenario, seed, ()))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    while py.detach(|| run.advance(EVENTS_PER_STEP)) != Progress::Done {
        py.check_signals()?;
    }
    let (outcome, ()) = py.detach(|| run.finish());
    Ok(PyRunResult { outcome })
}

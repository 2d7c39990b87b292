//! Running a scenario: without the interpreter's lock, stoppable by Ctrl-C.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::exceptions::{PyKeyError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use pyo3_arrow::PyTable;
use tidegate_lab::{Capture, Observer, Outcome, Progress, Run, Undivided};
use tidegate_record::{PendingFile, to_record_batches, write_parquet};
use tidegate_scenario::Scenario;

use crate::config::{PyScenario, unbuildable};
use crate::own::{Failure, Places, with_own};

/// Events between two looks at pending signals: some tens of milliseconds.
const EVENTS_PER_STEP: u64 = 500_000;

/// The same where mechanisms are Python's: what one raises should end the run soon.
const EVENTS_PER_STEP_OF_PYTHON: u64 = 1_000;

/// What one run leaves behind.
#[pyclass(name = "RunResult", module = "tidegate._core", frozen)]
pub struct PyRunResult {
    outcome: Outcome,
    /// Why it was one core that simulated, where more were offered.
    undivided: Option<String>,
}

/// Time and values of a series, as NumPy arrays.
type Arrays<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl PyRunResult {
    #[getter]
    fn summary_json(&self) -> String {
        self.outcome.summary.to_json()
    }

    /// Why it was one core that simulated, where more were offered.
    #[getter]
    fn undivided(&self) -> Option<&str> {
        self.undivided.as_deref()
    }

    #[getter]
    fn series_names(&self) -> Vec<&str> {
        self.outcome.series.iter().map(|series| series.name.as_str()).collect()
    }

    /// Times in seconds and values of one series.
    fn series<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Arrays<'py>> {
        let series = self.outcome.series.iter().find(|series| series.name == name);
        let series =
            series.ok_or_else(|| PyKeyError::new_err(format!("the run recorded no series `{name}`")))?;
        Ok((PyArray1::from_slice(py, &series.times_s), PyArray1::from_slice(py, &series.values)))
    }

    /// All series as one long Arrow table: `time_s`, `name`, `value`.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (schema, batches) =
            to_record_batches(&self.outcome.series).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let table = Bound::new(py, PyTable::try_new(batches, schema)?)?;
        table.call_method1("__arrow_c_stream__", (requested_schema,))
    }

    /// Writes all series as one long table to a Parquet file.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| write_parquet(&path, &self.outcome.series)).map_err(|error| os_error(&error, &path))
    }

    #[getter]
    fn timing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let timing = &self.outcome.timing;
        let dict = PyDict::new(py);
        dict.set_item("build_s", timing.build.as_secs_f64())?;
        dict.set_item("run_s", timing.run.as_secs_f64())?;
        dict.set_item("events", timing.events)?;
        dict.set_item("packet_hops", timing.packet_hops)?;
        dict.set_item("cores", timing.cores)?;
        dict.set_item("peak_rss_bytes", peak_rss_bytes())?;
        Ok(dict)
    }
}

/// The exception for `error`, with its number where the system gave one (so that a full disk is an `OSError` with its
/// `errno`).
fn os_error(error: &io::Error, path: &Path) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), path.as_os_str().to_owned())),
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// Brings the folder `new` to the disk and puts it in the place of `target`, which is removed if it was there.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
pub fn replace_folder(py: Python<'_>, new: PathBuf, target: PathBuf) -> PyResult<()> {
    py.detach(|| tidegate_record::replace_folder(&new, &target)).map_err(|error| os_error(&error, &target))
}

/// The most memory that the process has had, in bytes; zero where the system does not say.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// Runs `scenario` with `seed`, or its own, on up to so many cores; `queues` and `controls` are mechanisms in Python in the place of those of the scenario. `watch` is called
/// many times a second with the share of the simulated time that is over.
#[pyfunction]
#[pyo3(signature = (scenario, seed = None, trace = None, trace_at = None, trace_drops = None, queues = Vec::new(), controls = Vec::new(), cores = 1, watch = None))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub fn run(
    py: Python<'_>,
    scenario: &PyScenario,
    seed: Option<u64>,
    trace: Option<PathBuf>,
    trace_at: Option<Vec<String>>,
    trace_drops: Option<PathBuf>,
    queues: Places,
    controls: Places,
    cores: usize,
    watch: Option<Py<PyAny>>,
) -> PyResult<PyRunResult> {
    let mut job = Job {
        scenario: Arc::clone(&scenario.scenario),
        seed: seed.unwrap_or(scenario.scenario.seed),
        own: None,
        cores,
        watch,
    };
    if !queues.is_empty() || !controls.is_empty() {
        let (changed, failure) = with_own(&job.scenario, queues, controls)?;
        job = Job { scenario: changed, own: Some(failure), ..job };
    }
    let places = trace_at.unwrap_or_else(|| vec!["hosts".to_owned()]);
    let capture = tidegate_lab::capture(&job.scenario, &places).map_err(PyValueError::new_err)?;
    let traces: Vec<(PathBuf, Capture)> = trace
        .map(|path| (path, capture))
        .into_iter()
        .chain(trace_drops.map(|path| (path, Capture::fates())))
        .collect();
    if traces.is_empty() { Ok(job.run(py, ())?.0) } else { job.trace_to(py, traces) }
}

/// A run that is asked for.
struct Job {
    scenario: Arc<Scenario>,
    seed: u64,
    /// Where mechanisms in Python keep what they raise, if there are such.
    own: Option<Failure>,
    /// On how many cores, at most.
    cores: usize,
    /// Who is told how far it is, if somebody is.
    watch: Option<Py<PyAny>>,
}

impl Job {
    /// Between two steps: what was pressed, and what is to be told.
    fn pause(&self, py: Python<'_>, share: f64) -> PyResult<()> {
        py.check_signals()?;
        self.watch.as_ref().map_or(Ok(()), |watch| watch.call1(py, (share,)).map(|_| ()))
    }

    /// Runs it with these traces. All of them are complete, or none is there.
    fn trace_to(&self, py: Python<'_>, wanted: Vec<(PathBuf, Capture)>) -> PyResult<PyRunResult> {
        let failed = |error: io::Error| PyOSError::new_err(error.to_string());
        let (mut files, mut traces, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for (path, capture) in wanted {
            let pending = PendingFile::create(&path).map_err(failed)?;
            let out = pending.writer().map_err(failed)?;
            traces.push(
                tidegate_lab::trace(&self.scenario, out, capture).map_err(|error| os_error(&error, &path))?,
            );
            files.push(pending);
            paths.push(path);
        }
        let (result, traces) = self.run(py, traces)?;
        for (trace, path) in traces.into_iter().zip(paths) {
            trace.finish().map_err(|error| os_error(&error, &path))?;
        }
        files.into_iter().try_for_each(PendingFile::keep).map_err(failed)?;
        Ok(result)
    }

    fn run<O: Observer + Send + Sync>(&self, py: Python<'_>, observer: O) -> PyResult<(PyRunResult, O)> {
        let scenario = &self.scenario;
        let start = |cores| Run::start_on(cores, scenario, self.seed, observer);
        let Some(failure) = &self.own else {
            let mut run = py.detach(|| start(self.cores)).map_err(|error| unbuildable(scenario, &error))?;
            let undivided = run.undivided().map(ToString::to_string);
            while let Progress::Running(share) = py.detach(|| run.advance(EVENTS_PER_STEP)) {
                self.pause(py, share)?;
            }
            let (outcome, watched) = py.detach(|| run.finish());
            return Ok((PyRunResult { outcome, undivided }, watched));
        };
        // The interpreter's lock is held: mechanisms need it for every packet.
        let mut run = start(1).map_err(|error| unbuildable(scenario, &error))?;
        let raised = || failure.take().map_or(Ok(()), Err);
        raised()?;
        while let Progress::Running(share) = run.advance(EVENTS_PER_STEP_OF_PYTHON) {
            raised()?;
            self.pause(py, share)?;
        }
        raised()?;
        let (outcome, watched) = run.finish();
        let undivided = (self.cores > 1).then(|| Undivided::Has("a mechanism in Python").to_string());
        Ok((PyRunResult { outcome, undivided }, watched))
    }
}

//! Scenarios and experiments: reading, checking, describing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_lab::{BuildError, Run};
use tidegate_scenario::{ConfigErrors, Document, Experiment, Point, Scenario};
use tidegate_units::{BitRate, Bytes, Limit, Span, UnitError};

pyo3::create_exception!(tidegate, ConfigError, PyValueError, "A file is not valid.");

/// The exception for `errors`: one line as its text, the place in attributes.
fn raise(errors: &ConfigErrors) -> PyErr {
    raise_all(errors.errors(), errors.render())
}

fn raise_all(errors: &[tidegate_scenario::ConfigError], rendered: String) -> PyErr {
    let first = errors.first();
    let more = errors.len().saturating_sub(1);
    let line = first.map_or_else(|| "not valid".to_owned(), ToString::to_string);
    let text = if more > 0 { format!("{line} (and {more} more)") } else { line };
    let error = ConfigError::new_err(text);
    Python::attach(|py| {
        let value = error.value(py);
        let file = first.map(|e| e.file.clone()).filter(|file| !file.is_empty());
        let number = |n: usize| if n == 0 { None } else { Some(n) };
        value.setattr("file", file)?;
        value.setattr("line", first.and_then(|e| number(e.line)))?;
        value.setattr("column", first.and_then(|e| number(e.column)))?;
        value.setattr("path", first.map(|e| e.path.clone()))?;
        value.setattr("rendered", rendered)
    })
    .map_or_else(|failure: PyErr| failure, |()| error)
}

/// The exception for a scenario that reads well and makes no network.
pub(crate) fn unbuildable(scenario: &Scenario, error: &BuildError) -> PyErr {
    let found = match error.fluid() {
        Some((fluid, key)) => scenario.at_fluid(fluid, key, error.to_string()),
        None => scenario.at_domain(error.domain().unwrap_or_default(), error.to_string()),
    };
    let rendered = found.render();
    raise_all(&[found], rendered)
}

/// The document at `path` under `overrides`; the files that it names lie in its folder or in one of those `allowed`.
fn open(path: &Path, overrides: &[(String, String)], allowed: &[PathBuf]) -> PyResult<Document> {
    let mut document = Document::open_within(path, allowed).map_err(|errors| raise(&errors))?;
    apply(&mut document, overrides)?;
    Ok(document)
}

fn apply(document: &mut Document, overrides: &[(String, String)]) -> PyResult<()> {
    for (key, value) in overrides {
        document.set(&format!("{key}={value}")).map_err(|errors| raise(&errors))?;
    }
    Ok(())
}

/// A validated network with its traffic.
#[pyclass(name = "Scenario", module = "tidegate._core", frozen)]
pub struct PyScenario {
    name: String,
    pub(crate) scenario: Arc<Scenario>,
    warnings: Vec<String>,
}

impl PyScenario {
    fn of(document: &Document, name: &str) -> PyResult<Self> {
        document.require_one_run().map_err(|errors| raise(&errors))?;
        let scenario = document.scenario().map_err(|errors| raise(&errors))?;
        let warnings = tidegate_lab::warnings(document, &scenario);
        let warnings = warnings.iter().map(tidegate_scenario::ConfigError::render_warning).collect();
        Ok(Self { name: name.to_owned(), scenario: Arc::new(scenario), warnings })
    }
}

#[pymethods]
impl PyScenario {
    /// Reads a file.
    #[staticmethod]
    #[pyo3(signature = (path, overrides = Vec::new(), allowed = Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn from_file(path: PathBuf, overrides: Vec<(String, String)>, allowed: Vec<PathBuf>) -> PyResult<Self> {
        Self::of(&open(&path, &overrides, &allowed)?, &path.to_string_lossy())
    }

    /// Reads a text.
    #[staticmethod]
    #[pyo3(signature = (text, name = "<text>", overrides = Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn from_text(text: &str, name: &str, overrides: Vec<(String, String)>) -> PyResult<Self> {
        let mut document = Document::from_text(name, text).map_err(|errors| raise(&errors))?;
        apply(&mut document, &overrides)?;
        Self::of(&document, name)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
    #[getter]
    fn title(&self) -> &str {
        &self.scenario.title
    }
    #[getter]
    fn duration_s(&self) -> f64 {
        self.scenario.duration.as_secs_f64()
    }
    #[getter]
    fn warmup_s(&self) -> f64 {
        self.scenario.warmup.as_secs_f64()
    }
    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.seed
    }
    /// Whether any of its hosts is real.
    #[getter]
    fn is_real(&self) -> bool {
        self.scenario.nodes.iter().any(|node| node.is_real)
    }

    /// What `validate` warns of, each with the place in the file; nothing for the points of an experiment.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Everything, with units in the names.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.scenario.to_json_text())
    }
}

/// One run of an experiment.
#[pyclass(name = "Point", module = "tidegate._core", frozen)]
pub struct PyPoint {
    point: Point,
}

#[pymethods]
impl PyPoint {
    #[getter]
    fn variant(&self) -> Option<&str> {
        self.point.variant.as_deref()
    }
    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let axes = PyDict::new(py);
        self.point.axes.iter().try_for_each(|(name, value)| axes.set_item(name, value))?;
        Ok(axes)
    }
    #[getter]
    fn seed(&self) -> u64 {
        self.point.seed
    }
    /// Paths and values of all that it sets, in order.
    #[getter]
    fn overrides(&self) -> Vec<(String, String)> {
        self.point.overrides.to_vec()
    }
}

/// A scenario with variants, swept axes, seeds and figures.
#[pyclass(name = "Experiment", module = "tidegate._core", frozen)]
pub struct PyExperiment {
    name: String,
    experiment: Experiment,
}

#[pymethods]
impl PyExperiment {
    /// Reads a file.
    #[staticmethod]
    #[pyo3(signature = (path, overrides = Vec::new(), allowed = Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn from_file(path: PathBuf, overrides: Vec<(String, String)>, allowed: Vec<PathBuf>) -> PyResult<Self> {
        let experiment = open(&path, &overrides, &allowed)?.experiment().map_err(|errors| raise(&errors))?;
        Ok(Self { name: path.to_string_lossy().into_owned(), experiment })
    }

    /// Everything but the points.
    fn to_json(&self) -> String {
        self.experiment.to_json().to_string()
    }

    /// What is odd about it, and no error.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.experiment.warnings().iter().map(tidegate_scenario::ConfigError::render_warning).collect()
    }

    /// The runs, in a stable order; in quick form fewer of them.
    fn points(&self, quick: bool) -> Vec<PyPoint> {
        self.experiment.points(quick).into_iter().map(|point| PyPoint { point }).collect()
    }

    /// The scenario of one run.
    fn scenario(&self, py: Python<'_>, point: &PyPoint) -> PyResult<PyScenario> {
        let read = py.detach(|| self.experiment.scenario(&point.point));
        let scenario = read.map_err(|errors| raise(&errors))?;
        Ok(PyScenario { name: self.name.clone(), scenario: Arc::new(scenario), warnings: Vec::new() })
    }
}

/// Checks a file as `run` and `reproduce` would; what it is.
#[pyfunction]
#[pyo3(signature = (path, overrides = Vec::new(), allowed = Vec::new()))]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
pub fn validate(path: PathBuf, overrides: Vec<(String, String)>, allowed: Vec<PathBuf>) -> PyResult<String> {
    let document = open(&path, &overrides, &allowed)?;
    let kind = if document.is_experiment() { "experiment" } else { "scenario" };
    document.check().map_err(|errors| raise(&errors))?;
    let scenario = document.scenario().map_err(|errors| raise(&errors))?;
    // What only shows when the network is made; between real hosts an emulation adds flows first.
    let scenario = Arc::new(scenario);
    if scenario.nodes.iter().all(|node| !node.is_real) {
        Run::start(&scenario, scenario.seed, ()).map_err(|error| unbuildable(&scenario, &error))?;
    }
    let mut odd = tidegate_lab::warnings(&document, &scenario);
    if document.is_experiment() {
        odd.extend(document.experiment().map_err(|errors| raise(&errors))?.warnings());
    }
    let warnings: Vec<_> = odd
        .iter()
        .map(|found| {
            serde_json::json!({
                "message": found.message, "help": found.help, "file": found.file, "line": found.line,
                "column": found.column, "path": found.path, "rendered": found.render_warning(),
            })
        })
        .collect();
    Ok(serde_json::json!({ "kind": kind, "file": path.to_string_lossy(), "warnings": warnings }).to_string())
}

/// A quantity as scenarios write it, in base units: of a `rate` bit/s, of a `time` seconds, of a `size` bytes; of a `limit` the
/// number and which of `packets`, `bytes` or `s` it counts.
#[pyfunction]
pub fn quantity(text: &str, kind: &str) -> PyResult<(f64, &'static str)> {
    let refused = |error: UnitError| PyValueError::new_err(error.to_string());
    let seconds = |span: Span| (span.as_secs_f64(), "s");
    let bytes = |size: Bytes| (size.as_f64(), "bytes");
    match kind {
        "rate" => text.parse().map(|rate: BitRate| (rate.as_bps_f64(), "bit/s")),
        "time" => text.parse().map(seconds),
        "size" => text.parse().map(bytes),
        "limit" => text.parse().map(|limit| match limit {
            Limit::Packets(packets) => (f64::from(packets), "packets"),
            Limit::Bytes(size) => bytes(size),
            Limit::Time(span) => seconds(span),
        }),
        _ => return Err(PyValueError::new_err(format!("no kind of quantity: {kind}"))),
    }
    .map_err(refused)
}

/// The JSON Schema of scenarios and experiments.
#[pyfunction]
pub fn schema() -> String {
    tidegate_scenario::schema().to_string()
}

/// What a mechanism is and which parameters it has.
#[pyfunction]
pub fn explain(kind: &str) -> PyResult<String> {
    let known =
        || tidegate_scenario::list_mechanisms().iter().map(|m| m.kind.clone()).collect::<Vec<_>>().join(", ");
    tidegate_scenario::explain(kind)
        .map(|doc| serde_json::to_string(&doc).expect("descriptions are plain data"))
        .ok_or_else(|| {
            PyValueError::new_err(format!("there is no mechanism `{kind}`; there are: {}", known()))
        })
}

/// All keys of a scenario or experiment.
#[pyfunction]
pub fn list_keys() -> String {
    serde_json::to_string(&tidegate_scenario::list_keys()).expect("descriptions are plain data")
}

/// All mechanisms.
#[pyfunction]
pub fn list_mechanisms() -> String {
    serde_json::to_string(&tidegate_scenario::list_mechanisms()).expect("descriptions are plain data")
}

//! A run that Python steers from sample to sample: what `tidegate.gym` stands on.

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate_lab::Progress;
use tidegate_lab::agent::{AgentError, AgentRun, Handle};
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{FlowIndex, LinkIndex, Way};

use crate::config::{PyScenario, unbuildable};

/// A run whose windows, rates or probabilities are set from outside.
#[pyclass(name = "AgentRun", module = "tidegate._core")]
pub struct PyAgentRun {
    run: AgentRun,
}

fn handle(scenario: &Scenario, kind: &str, place: &str) -> PyResult<Handle> {
    let flow = || {
        let position = scenario.flows.iter().position(|flow| flow.name == place);
        let position =
            position.ok_or_else(|| PyValueError::new_err(format!("there is no flow `{place}`")))?;
        Ok::<_, PyErr>(FlowIndex(position as u32))
    };
    match kind {
        "window" => Ok(Handle::Window(flow()?)),
        "rate" => Ok(Handle::Rate(flow()?)),
        "drop" => {
            let (name, way) = match place.strip_suffix(".reverse") {
                Some(name) => (name, Way::Reverse),
                None => (place, Way::Forward),
            };
            let position = scenario.links.iter().position(|link| link.name == name);
            let position =
                position.ok_or_else(|| PyValueError::new_err(format!("there is no link `{name}`")))?;
            Ok(Handle::Drop(LinkIndex(position as u32), way))
        }
        _ => Err(PyValueError::new_err(format!("`{kind}` is none of window, rate, drop"))),
    }
}

#[pymethods]
impl PyAgentRun {
    /// The run of `scenario` with `seed`, steered at `handles`: pairs of what is set and where.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn new(scenario: &PyScenario, handles: Vec<(String, String)>, seed: u64) -> PyResult<Self> {
        let of = &scenario.scenario;
        let handles =
            handles.iter().map(|(kind, place)| handle(of, kind, place)).collect::<PyResult<Vec<_>>>()?;
        let failed = |error| match error {
            AgentError::NoTcp(flow) => {
                let name = &of.flows[flow.index()].name;
                PyValueError::new_err(format!(
                    "the flow `{name}` is no TCP: it has no window and no rate to set"
                ))
            }
            AgentError::NoFifo(link, _) => {
                let name = &of.links[link.index()].name;
                PyValueError::new_err(format!(
                    "the link `{name}` has a scheduler: only one FIFO can be steered"
                ))
            }
            AgentError::NoSamples => PyValueError::new_err(
                "the scenario records nothing, or not how often: there would be no steps",
            ),
            AgentError::Build(error) => unbuildable(of, &error),
        };
        Ok(Self { run: AgentRun::start(of, &handles, seed, ()).map_err(failed)? })
    }

    /// Names of what is seen, in the order of `sample`.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.run.names()
    }

    /// Simulated time, in seconds.
    #[getter]
    fn now_s(&self) -> f64 {
        self.run.now_s()
    }

    /// Sets all handles, runs to the next sample and writes it into `sample`, NaN as 0. Whether the scenario is at its end.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over owned values")]
    fn step(
        &mut self,
        settings: PyReadonlyArray1<'_, f64>,
        sample: &Bound<'_, PyArray1<f32>>,
    ) -> PyResult<bool> {
        let progress = self.run.step(settings.as_slice()?);
        let mut out = sample.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))?;
        for (place, value) in out.as_slice_mut()?.iter_mut().zip(self.run.sample()) {
            *place = if value.is_nan() { 0.0 } else { value as f32 };
        }
        Ok(progress == Progress::Done)
    }
}

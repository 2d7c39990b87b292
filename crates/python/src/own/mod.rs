//! Queue managers and congestion controls that are written in Python: slow, for trying things.
//!
//! `python/tidegate/own.py` has their base classes, and gives for each instance the methods that it has (its hooks). What a method
//! raises is kept, nothing is asked any more, and the run ends with it.

mod control;
mod queue;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_parameters::text::serde::ser::{Serialize, SerializeMap, Serializer};
use tidegate_parameters::{Own, Parameters, Report};
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{Control, Manager, Queue, Transport};

pub use self::control::{PyAck, PyCongestion};
pub use self::queue::{PyBacklog, PyPacket};

/// The first exception of a run's own mechanisms, as each of them knows it.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    first: Arc<Mutex<Option<PyErr>>>,
    /// Whose this is, for people.
    whose: Arc<str>,
}

impl Failure {
    fn first(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it, if there is one.
    pub fn take(&self) -> Option<PyErr> {
        self.first().take()
    }

    /// The same, for one of them.
    fn of(&self, whose: &str) -> Self {
        Self { first: Arc::clone(&self.first), whose: whose.into() }
    }

    fn keep(&self, error: PyErr) {
        Python::attach(|py| {
            // What is raised may be an object that takes no notes.
            let _ = error.value(py).call_method1("add_note", (format!("raised by the {}", self.whose),));
        });
        self.first().get_or_insert(error);
    }

    /// What `call` gives; nothing if it raises, or something raised before.
    fn guard<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.first().is_some() {
            return None;
        }
        Python::attach(call).map_err(|error| self.keep(error)).ok()
    }
}

/// What makes an instance: a function that gets a dictionary about the place, and gives its hooks.
struct Factory {
    make: Py<PyAny>,
    place: String,
    failure: Failure,
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Python at {}, {:?}", self.place, self.make.as_ptr())
    }
}

impl Parameters for Factory {
    fn check(&self, _: &mut Report<'_>) {}
}

impl Serialize for Factory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_map(Some(0))?.end()
    }
}

/// A method of an instance, if it has it.
fn hook(hooks: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    Ok(hooks.get_item(name)?.map(Bound::unbind))
}

/// Own mechanisms for places of a scenario, by their names there: what makes each.
pub type Places = Vec<(String, Py<PyAny>)>;

/// `scenario` with own queue managers on links (`NAME`, or `NAME.reverse`) and own congestion controls of TCP flows.
pub fn with_own(scenario: &Scenario, queues: Places, controls: Places) -> PyResult<(Arc<Scenario>, Failure)> {
    let mut scenario = scenario.clone();
    let failure = Failure::default();
    let values = |make, what: &str, place: &str| {
        let failure = failure.of(&format!("{what} `{place}`"));
        Arc::new(Factory { make, place: place.to_owned(), failure })
    };
    for (place, make) in queues {
        let (name, is_reverse) = match place.strip_suffix(".reverse") {
            Some(name) => (name, true),
            None => (&*place, false),
        };
        let link = scenario.links.iter_mut().find(|link| link.name == name);
        let link = link.ok_or_else(|| PyValueError::new_err(format!("there is no link `{name}`")))?;
        let direction = Arc::make_mut(if is_reverse { &mut link.reverse } else { &mut link.forward });
        direction.queue = Queue::Fifo(Manager::Own(Own::new(
            "python",
            values(make, "queue manager of the link", &place) as Arc<_>,
        )));
    }
    for (place, make) in controls {
        let flow = scenario.flows.iter_mut().find(|flow| flow.name == place);
        let flow = flow.ok_or_else(|| PyValueError::new_err(format!("there is no flow `{place}`")))?;
        let Transport::Tcp(tcp) = &mut flow.transport else {
            return Err(PyValueError::new_err(format!(
                "the flow `{place}` is no TCP: it has no congestion control"
            )));
        };
        tcp.config.control = Control::Own(Own::new(
            "python",
            values(make, "congestion control of the flow", &place) as Arc<_>,
        ));
    }
    Ok((Arc::new(scenario), failure))
}

//! A queue manager whose methods are Python's.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::own::ManagerParameters;
use tidegate_mechanism::queue::{QueueManager, Verdict};
use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_units::Time;

use super::{Factory, Failure, hook};

/// A packet, as a Python mechanism sees it.
#[pyclass(name = "Packet", module = "tidegate._core", frozen, get_all)]
pub struct PyPacket {
    /// The position of its flow in the scenario; of control messages, beyond all flows.
    flow: u32,
    /// Whether it is an acknowledgment, or other traffic against the direction of its flow.
    is_reverse: bool,
    /// Bytes on the wire.
    bytes: u32,
    /// Its codepoint.
    dscp: u8,
    /// Its class in the scenario.
    traffic_class: u8,
    /// Whether it may be marked instead of dropped.
    can_mark: bool,
    /// When it joined the queue, in seconds.
    arrived: f64,
}

impl From<&Packet> for PyPacket {
    fn from(packet: &Packet) -> Self {
        Self {
            flow: packet.flow.0 / 2,
            is_reverse: packet.flow.0 % 2 == 1,
            bytes: packet.wire_bytes,
            dscp: packet.dscp.get(),
            traffic_class: packet.class,
            can_mark: packet.ecn.is_capable(),
            arrived: packet.arrived.as_secs_f64(),
        }
    }
}

/// What waits.
#[pyclass(name = "Backlog", module = "tidegate._core", frozen, get_all)]
pub struct PyBacklog {
    /// Packets, that in transmission not counted.
    packets: u32,
    /// Their bytes.
    bytes: u64,
}

impl From<Backlog> for PyBacklog {
    fn from(queue: Backlog) -> Self {
        Self { packets: queue.packets, bytes: queue.bytes }
    }
}

impl ManagerParameters for Factory {
    type Manager = PythonQueue;

    fn build(&self, context: &Context) -> PythonQueue {
        let made = self.failure.guard(|py| {
            let about = PyDict::new(py);
            about.set_item("place", &self.place)?;
            about.set_item("link_rate_bps", context.link_rate.as_bps())?;
            about.set_item("mtu_bytes", context.mtu_bytes)?;
            about.set_item("seed", context.seed.0)?;
            let hooks = self.make.bind(py).call1((about,))?.cast_into::<PyDict>()?;
            Ok(PythonQueue {
                failure: self.failure.clone(),
                limit_packets: hooks.as_any().get_item("limit_packets")?.extract()?,
                arrival: hook(&hooks, "on_arrival")?,
                departure: hook(&hooks, "on_departure")?,
                idle: hook(&hooks, "on_idle")?,
                head: hook(&hooks, "at_head")?,
                timer_at: hook(&hooks, "timer_at")?,
                timer: hook(&hooks, "on_timer")?,
                due: None,
            })
        });
        let mut queue =
            made.unwrap_or_else(|| PythonQueue { failure: self.failure.clone(), ..PythonQueue::idle() });
        queue.ask_timer(Time::ZERO);
        queue
    }
}

/// A queue manager whose methods are Python's.
pub struct PythonQueue {
    failure: Failure,
    limit_packets: u32,
    arrival: Option<Py<PyAny>>,
    departure: Option<Py<PyAny>>,
    idle: Option<Py<PyAny>>,
    head: Option<Py<PyAny>>,
    timer_at: Option<Py<PyAny>>,
    timer: Option<Py<PyAny>>,
    due: Option<Time>,
}

impl PythonQueue {
    /// One that has no methods: its run ends before it matters.
    fn idle() -> Self {
        Self {
            failure: Failure::default(),
            limit_packets: u32::MAX,
            arrival: None,
            departure: None,
            idle: None,
            head: None,
            timer_at: None,
            timer: None,
            due: None,
        }
    }

    /// What Python's verdict means for `packet`.
    fn verdict(answer: &Bound<'_, PyAny>, packet: &Packet) -> PyResult<Verdict> {
        if answer.is_none() {
            return Ok(Verdict::Accept);
        }
        match answer.extract::<&str>().unwrap_or_default() {
            "accept" => Ok(Verdict::Accept),
            "mark" if packet.ecn.is_capable() => Ok(Verdict::Mark(MarkReason::Early)),
            "mark" | "drop" => Ok(Verdict::Drop(DropReason::Early)),
            _ => {
                let message =
                    format!("a verdict is \"accept\", \"mark\" or \"drop\" (None accepts), not {answer:?}");
                Err(PyValueError::new_err(message))
            }
        }
    }

    fn ask(&self, method: Option<&Py<PyAny>>, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
        let Some(method) = method else { return Verdict::Accept };
        let answer = self.failure.guard(|py| {
            let arguments = (PyPacket::from(packet), PyBacklog::from(queue), now.as_secs_f64());
            Self::verdict(method.bind(py).call1(arguments)?.as_any(), packet)
        });
        answer.unwrap_or(Verdict::Accept)
    }

    /// Asks when its timer is due; before `now` is `now`.
    fn ask_timer(&mut self, now: Time) {
        let Some(method) = &self.timer_at else { return };
        let due = self.failure.guard(|py| {
            let at: Option<f64> = method.bind(py).call0()?.extract()?;
            at.map(seconds).transpose()
        });
        self.due = due.flatten().map(|at| at.max(now));
    }
}

/// An instant of Python.
fn seconds(at: f64) -> PyResult<Time> {
    if !(0.0..1e9).contains(&at) {
        return Err(PyValueError::new_err(format!("{at} is no instant in seconds")));
    }
    Ok(Time::ZERO + tidegate_units::Span::from_secs_f64(at))
}

impl QueueManager for PythonQueue {
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        if queue.packets >= self.limit_packets {
            return Verdict::Drop(DropReason::Overflow);
        }
        let verdict = self.ask(self.arrival.as_ref(), packet, queue, now);
        self.ask_timer(now);
        verdict
    }
    fn decides_at_head(&self) -> bool {
        self.head.is_some()
    }
    fn at_head(&mut self, packet: &Packet, queue: Backlog, now: Time) -> Verdict {
        self.ask(self.head.as_ref(), packet, queue, now)
    }
    fn on_departure(&mut self, packet: &Packet, queue: Backlog, now: Time) {
        let Some(method) = &self.departure else { return };
        self.failure.guard(|py| {
            method.bind(py).call1((PyPacket::from(packet), PyBacklog::from(queue), now.as_secs_f64()))?;
            Ok(())
        });
        self.ask_timer(now);
    }
    fn on_idle(&mut self, now: Time) {
        let Some(method) = &self.idle else { return };
        self.failure.guard(|py| method.bind(py).call1((now.as_secs_f64(),)).map(drop));
        self.ask_timer(now);
    }
    fn timer_at(&self) -> Option<Time> {
        self.due
    }
    fn on_timer(&mut self, now: Time) {
        let before = self.due.take();
        if let Some(method) = &self.timer {
            self.failure.guard(|py| method.bind(py).call1((now.as_secs_f64(),)).map(drop));
        }
        self.ask_timer(now);
        if self.due.is_some() && self.due == before {
            self.due = None;
            let message =
                "timer_at() gives the instant again at which on_timer() was just called: it would never end";
            self.failure.keep(PyValueError::new_err(message));
        }
    }
}

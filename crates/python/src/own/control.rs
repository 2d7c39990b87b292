//! A congestion control whose methods are Python's.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_mechanism::tcp::congestion::own::ControlParameters;
use tidegate_mechanism::tcp::congestion::{
    Ack, Congestion, CongestionControl, Pacer, Permission, Sampling, Segment, Signal,
};
use tidegate_packet::Dscp;
use tidegate_units::Time;

use super::{Factory, Failure, hook};

impl ControlParameters for Factory {
    type Control = PythonControl;

    fn build(&self, tcp: &TcpConfig) -> PythonControl {
        let segment_bytes = u64::from(tcp.segment_bytes);
        let mut control = PythonControl {
            failure: self.failure.clone(),
            object: None,
            ack: None,
            congestion: None,
            recovered: None,
            segment_bytes,
            cwnd_bytes: u64::from(tcp.initial_window_segments) * segment_bytes,
            receive_window_bytes: u64::from(tcp.receive_window_bytes),
            bytes_per_second: None,
            pacer: Pacer::default(),
        };
        self.failure.guard(|py| {
            let about = PyDict::new(py);
            about.set_item("place", &self.place)?;
            about.set_item("segment_bytes", tcp.segment_bytes)?;
            about.set_item("initial_window_segments", tcp.initial_window_segments)?;
            about.set_item("receive_window_bytes", tcp.receive_window_bytes)?;
            let hooks = self.make.bind(py).call1((about,))?.cast_into::<PyDict>()?;
            control.object = Some(hooks.as_any().get_item("object")?.unbind());
            control.ack = hook(&hooks, "on_ack")?;
            control.congestion = hook(&hooks, "on_congestion")?;
            control.recovered = hook(&hooks, "on_recovered")?;
            control.look(py)
        });
        control
    }
}

/// An acknowledgment, as a Python control sees it.
#[pyclass(name = "Ack", module = "tidegate._core", frozen, get_all)]
pub struct PyAck {
    /// Bytes that the acknowledgment number newly covers.
    acked_bytes: u64,
    /// Bytes newly known to have arrived.
    delivered_bytes: u64,
    /// Bytes newly known to be lost.
    lost_bytes: u64,
    /// Bytes that arrived with a congestion mark.
    marked_bytes: u64,
    /// Bytes in the network after it.
    in_flight_bytes: u64,
    /// New data, outside recovery, no mark: when controls that count acknowledgments open their window.
    opens_window: bool,
    /// Losses are being repaired.
    is_in_recovery: bool,
    /// The round-trip time that it tells, in seconds, if it does.
    rtt: Option<f64>,
    /// The smoothed round-trip time, in seconds; 0 before the first.
    srtt: f64,
    /// How fast data arrives, in payload bits per second, if it tells.
    delivery_rate_bps: Option<f64>,
    /// The sender had nothing to send meanwhile: the path could have carried more.
    is_app_limited: bool,
}

/// A signal of congestion, as a Python control sees it.
#[pyclass(name = "Congestion", module = "tidegate._core", frozen, get_all)]
pub struct PyCongestion {
    /// `loss`, `loss-restart` (Tahoe), `timeout`, `idle` or `ecn`.
    signal: &'static str,
    /// The window in force, in segments.
    window_segments: f64,
    /// Bytes sent and not acknowledged.
    flight_bytes: u64,
    /// The smoothed round-trip time, in seconds; 0 before the first.
    srtt: f64,
}

/// A congestion control whose methods are Python's. Its window and its rate are attributes, looked at after each call.
pub struct PythonControl {
    failure: Failure,
    object: Option<Py<PyAny>>,
    ack: Option<Py<PyAny>>,
    congestion: Option<Py<PyAny>>,
    recovered: Option<Py<PyAny>>,
    segment_bytes: u64,
    cwnd_bytes: u64,
    receive_window_bytes: u64,
    bytes_per_second: Option<f64>,
    pacer: Pacer,
}

impl PythonControl {
    /// Reads window and rate.
    fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(object) = &self.object else { return Ok(()) };
        let object = object.bind(py);
        let segments: f64 = object.getattr("cwnd_segments")?.extract()?;
        let rate: Option<f64> = object.getattr("pacing_bps")?.extract()?;
        if !segments.is_finite() {
            return Err(PyValueError::new_err(format!("cwnd_segments is {segments}")));
        }
        if let Some(rate) = rate
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(PyValueError::new_err(format!("pacing_bps is {rate}: it must be above 0, or None")));
        }
        // A window that lets nothing go would let nothing come back either.
        let bytes = (segments.max(1.0) * self.segment_bytes as f64) as u64;
        self.cwnd_bytes = bytes.min(self.receive_window_bytes.max(self.segment_bytes));
        self.bytes_per_second = rate.map(|rate| rate / 8.0);
        Ok(())
    }

    /// Calls a method, and looks at what it did.
    fn call(&mut self, what: impl FnOnce(&Self, Python<'_>) -> PyResult<()>) {
        let failure = self.failure.clone();
        failure.guard(|py| {
            what(self, py)?;
            self.look(py)
        });
    }
}

impl CongestionControl for PythonControl {
    fn sampling(&self) -> Sampling {
        Sampling::Rates
    }

    fn on_ack(&mut self, ack: &Ack, now: Time) {
        let Some(sample) = &ack.sample else { return };
        let seen = PyAck {
            acked_bytes: ack.acked_bytes,
            delivered_bytes: sample.delivered_bytes,
            lost_bytes: sample.lost_bytes,
            marked_bytes: sample.marked_bytes,
            in_flight_bytes: sample.in_flight_bytes,
            opens_window: sample.opens_window,
            is_in_recovery: sample.is_in_recovery,
            rtt: sample.rtt.map(tidegate_units::Span::as_secs_f64),
            srtt: ack.srtt.as_secs_f64(),
            delivery_rate_bps: sample.rate.map(|rate| rate.bytes_per_second() * 8.0),
            is_app_limited: sample.rate.is_some_and(|rate| rate.is_app_limited),
        };
        self.call(|control, py| match &control.ack {
            Some(method) => method.bind(py).call1((seen, now.as_secs_f64())).map(drop),
            None => Ok(()),
        });
    }

    fn on_congestion(&mut self, event: &Congestion, now: Time) {
        let seen = PyCongestion {
            signal: match event.signal {
                Signal::Loss => "loss",
                Signal::LossRestart => "loss-restart",
                Signal::Timeout => "timeout",
                Signal::Idle => "idle",
                Signal::EcnEcho => "ecn",
            },
            window_segments: event.window_bytes as f64 / self.segment_bytes as f64,
            flight_bytes: event.flight_bytes,
            srtt: event.srtt.as_secs_f64(),
        };
        self.call(|control, py| match &control.congestion {
            Some(method) => method.bind(py).call1((seen, now.as_secs_f64())).map(drop),
            None => Ok(()),
        });
    }

    fn on_recovered(&mut self, flight_bytes: u64, now: Time) {
        if self.recovered.is_some() {
            self.call(|control, py| match &control.recovered {
                Some(method) => method.bind(py).call1((flight_bytes, now.as_secs_f64())).map(drop),
                None => Ok(()),
            });
        }
    }

    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) > self.cwnd_bytes {
            Permission::No
        } else if self.bytes_per_second.is_some() {
            self.pacer.or_wait(Permission::Now, now)
        } else {
            Permission::Now
        }
    }

    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        if let Some(rate) = self.bytes_per_second {
            self.pacer.on_send(segment.payload_bytes, rate, now);
        }
        Dscp::BEST_EFFORT
    }

    fn cwnd_bytes(&self) -> u64 {
        self.cwnd_bytes
    }

    fn ssthresh_bytes(&self) -> u64 {
        u64::MAX
    }

    fn variable(&self, name: &str) -> Option<f64> {
        (name == "cwnd_segments").then(|| self.cwnd_bytes as f64 / self.segment_bytes as f64)
    }
}

//! A run that something outside steers: from one sample of what the scenario records to the next, an agent sets windows, rates and
//! probabilities, and sees the sample. `tidegate.gym` makes a learning environment of it.
//!
//! What is steered are mechanisms of their own ([`AgentControl`], [`AgentQueue`]) in the place of those that the scenario has.
//!
//! Source: none. Deviations: none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_engine::BuildError;
use tidegate_mechanism::Context;
use tidegate_mechanism::queue::own::ManagerParameters;
use tidegate_mechanism::queue::{QueueLimit, QueueManager, Verdict};
use tidegate_mechanism::random::Substream;
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_mechanism::tcp::congestion::own::ControlParameters;
use tidegate_mechanism::tcp::congestion::{
    Ack, Congestion, CongestionControl, Pacer, Permission, Sampling, Segment,
};
use tidegate_packet::{Backlog, DropReason, Dscp, MarkReason, Packet};
use tidegate_parameters::text::serde::ser::{Serialize, SerializeMap, Serializer};
use tidegate_parameters::{Own, Parameters, Report};
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{FlowIndex, LinkIndex, Manager, Queue, Transport, Way};
use tidegate_units::{Limit, Time};

use crate::{Observer, Outcome, Progress, Run};

/// What an agent may set. A number that both sides see.
#[derive(Clone, Debug, Default)]
pub struct Setting(Arc<AtomicU64>);

impl Setting {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// What an agent sets of one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// The congestion window of a TCP flow, in segments: at least one.
    Window(FlowIndex),
    /// The rate at which a TCP flow sends, in payload bits per second: above zero.
    Rate(FlowIndex),
    /// The probability with which a queue drops an arriving packet, or marks it where its transport knows ECN.
    Drop(LinkIndex, Way),
}

/// The parameters of [`AgentControl`] and [`AgentQueue`]: the setting of an agent.
#[derive(Clone, Debug)]
struct Steered {
    setting: Setting,
    is_rate: bool,
    limit: Limit,
}

impl Parameters for Steered {
    fn check(&self, _: &mut Report<'_>) {}
}

impl Serialize for Steered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_map(Some(0))?.end()
    }
}

impl ControlParameters for Steered {
    type Control = AgentControl;
    fn build(&self, tcp: &TcpConfig) -> AgentControl {
        AgentControl {
            setting: self.setting.clone(),
            is_rate: self.is_rate,
            segment_bytes: u64::from(tcp.segment_bytes),
            receive_window_bytes: u64::from(tcp.receive_window_bytes),
            pacer: Pacer::default(),
        }
    }
}

impl ManagerParameters for Steered {
    type Manager = AgentQueue;
    fn build(&self, context: &Context) -> AgentQueue {
        AgentQueue {
            setting: self.setting.clone(),
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
        }
    }
}

/// A congestion control whose window, or rate, an agent sets. It reacts to nothing by itself; what is lost is sent again.
#[derive(Debug)]
pub struct AgentControl {
    setting: Setting,
    is_rate: bool,
    segment_bytes: u64,
    receive_window_bytes: u64,
    pacer: Pacer,
}

impl CongestionControl for AgentControl {
    fn sampling(&self) -> Sampling {
        Sampling::OpeningAcks
    }
    fn on_ack(&mut self, _: &Ack, _: Time) {}
    fn on_congestion(&mut self, _: &Congestion, _: Time) {}
    fn may_send(&self, in_flight_bytes: u64, payload_bytes: u32, now: Time) -> Permission {
        if in_flight_bytes + u64::from(payload_bytes) > self.cwnd_bytes() {
            Permission::No
        } else if self.is_rate {
            self.pacer.or_wait(Permission::Now, now)
        } else {
            Permission::Now
        }
    }
    fn on_send(&mut self, segment: &Segment, now: Time) -> Dscp {
        if self.is_rate {
            self.pacer.on_send(segment.payload_bytes, self.setting.get() / 8.0, now);
        }
        Dscp::BEST_EFFORT
    }
    fn cwnd_bytes(&self) -> u64 {
        if self.is_rate {
            return self.receive_window_bytes;
        }
        // A window that lets nothing go would let nothing come back either.
        ((self.setting.get() * self.segment_bytes as f64) as u64).max(self.segment_bytes)
    }
    fn ssthresh_bytes(&self) -> u64 {
        u64::MAX
    }
    fn variable(&self, name: &str) -> Option<f64> {
        (name == "cwnd_segments").then(|| self.cwnd_bytes() as f64 / self.segment_bytes as f64)
    }
}

/// A queue manager that notifies with the probability that an agent sets.
#[derive(Debug)]
pub struct AgentQueue {
    setting: Setting,
    limit: QueueLimit,
    random: Substream,
}

impl QueueManager for AgentQueue {
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, _: Time) -> Verdict {
        if !self.limit.admits(queue, packet) {
            Verdict::Drop(DropReason::Overflow)
        } else if !self.random.chance(self.setting.get()) {
            Verdict::Accept
        } else if packet.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }
}

/// A run that an agent steers.
#[derive(Debug)]
pub struct AgentRun<O: Observer = ()> {
    run: Run<O>,
    handles: Vec<(Handle, Setting)>,
}

/// Why an agent cannot steer a scenario.
#[derive(Debug)]
pub enum AgentError {
    /// The flow is no TCP.
    NoTcp(FlowIndex),
    /// The queue is a scheduler, not one FIFO.
    NoFifo(LinkIndex, Way),
    /// The scenario records nothing, or does not say how often: there would be no steps.
    NoSamples,
    /// The network cannot be built.
    Build(BuildError),
}

/// `scenario` with what `handles` name under the agent's settings; those, in the same order.
///
/// # Errors
/// A handle that cannot be held.
fn steered(
    scenario: &Scenario,
    handles: &[Handle],
) -> Result<(Scenario, Vec<(Handle, Setting)>), AgentError> {
    let mut scenario = scenario.clone();
    let mut settings = Vec::new();
    for &handle in handles {
        let setting = Setting::default();
        let with = |is_rate, limit| Arc::new(Steered { setting: setting.clone(), is_rate, limit });
        match handle {
            Handle::Window(flow) | Handle::Rate(flow) => {
                let Transport::Tcp(tcp) = &mut scenario.flows[flow.index()].transport else {
                    return Err(AgentError::NoTcp(flow));
                };
                let is_rate = matches!(handle, Handle::Rate(_));
                setting.set(if is_rate { 1e6 } else { f64::from(tcp.config.initial_window_segments) });
                let control = Own::new("agent", with(is_rate, Limit::Packets(1)) as Arc<_>);
                tcp.config.control = tidegate_scenario::model::Control::Own(control);
            }
            Handle::Drop(link, way) => {
                let link_spec = &mut scenario.links[link.index()];
                let direction = Arc::make_mut(match way {
                    Way::Forward => &mut link_spec.forward,
                    Way::Reverse => &mut link_spec.reverse,
                });
                let Queue::Fifo(manager) = &direction.queue else {
                    return Err(AgentError::NoFifo(link, way));
                };
                // The room that the scenario's drop-tail gives; what others have is theirs.
                let limit =
                    if let Manager::DropTail(config) = manager { config.limit } else { Limit::Packets(100) };
                direction.queue = Queue::Fifo(Manager::Own(Own::new("agent", with(false, limit) as Arc<_>)));
            }
        }
        settings.push((handle, setting));
    }
    Ok((scenario, settings))
}

impl<O: Observer> AgentRun<O> {
    /// The run of `scenario` with `seed`, steered by `handles`. Settings begin with the initial window, 1 Mbit/s and zero.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn start(
        scenario: &Scenario,
        handles: &[Handle],
        seed: u64,
        observer: O,
    ) -> Result<Self, AgentError> {
        let (scenario, handles) = steered(scenario, handles)?;
        if scenario.record.every.is_none() || scenario.record.series.is_empty() {
            return Err(AgentError::NoSamples);
        }
        let run = Run::start(&Arc::new(scenario), seed, observer).map_err(AgentError::Build)?;
        Ok(Self { run, handles })
    }

    /// Sets what the handles hold, in their order, and runs to the next sample, or to the end. Values out of range are the
    /// nearest in range; one that is no number changes nothing.
    pub fn step(&mut self, settings: &[f64]) -> Progress {
        for ((handle, setting), &value) in self.handles.iter().zip(settings) {
            if value.is_nan() {
                continue;
            }
            setting.set(match handle {
                Handle::Window(_) | Handle::Rate(_) => value.max(1.0),
                Handle::Drop(..) => value.clamp(0.0, 1.0),
            });
        }
        self.run.advance_to_sample()
    }

    /// The names of what is seen, each with its unit at the end, as `record` names them.
    pub fn names(&self) -> Vec<&str> {
        self.run.series().map(|series| series.name.as_str()).collect()
    }

    /// The last sample: one value for each name; NaN for what did not exist then, and before the first sample.
    pub fn sample(&self) -> impl Iterator<Item = f64> {
        self.run.series().map(|series| series.values.last().copied().unwrap_or(f64::NAN))
    }

    /// Simulated time, in seconds.
    pub fn now_s(&self) -> f64 {
        self.run.now().as_secs_f64()
    }

    /// The results; before the end of the scenario they are those of the time until now.
    pub fn finish(self) -> (Outcome, O) {
        self.run.finish()
    }
}

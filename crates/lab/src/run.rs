//! One run of a scenario, in steps that a caller can interrupt.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{BuildError, LinkId, Observer, Simulation};
use tidegate_record::{PcapTrace, Series};
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{self, DelayOf, Way};
use tidegate_units::{Span, Time};

use crate::lower;
use crate::sample::Sampler;
use crate::summary::{self, Percentiles, Summary};

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Progress {
    /// Not there yet: this part of its simulated time has passed.
    Running(f64),
    /// At its end.
    Done,
}

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The summary: see `docs/results.md`.
    pub summary: Summary,
    /// The time series that the scenario records.
    pub series: Vec<Series>,
    /// How long it took; no part of the results.
    pub timing: Timing,
}

/// How long a run took and how much it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Building the network.
    pub build: Duration,
    /// Running.
    pub run: Duration,
    /// Events handled.
    pub events: u64,
    /// Packets whose last bit reached the next node.
    pub packet_hops: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Run<O: Observer = ()> {
    scenario: Arc<Scenario>,
    seed: u64,
    simulation: Simulation<O>,
    sampler: Sampler,
    next_sample: Time,
    warm: bool,
    timing: Timing,
}

/// Reads the clock: for [`Timing`] only, which is no result.
#[allow(
    clippy::disallowed_methods,
    reason = "how long a run takes is told beside its results, never in them"
)]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

impl<O: Observer> Run<O> {
    /// Builds the network of `scenario` for the run with `seed`.
    ///
    /// # Errors
    /// If some flow has no route, or crosses a domain's border where there is no edge.
    pub fn start(scenario: &Arc<Scenario>, seed: u64, observer: O) -> Result<Self, BuildError> {
        let started = clock();
        let network = lower::network(scenario);
        let domains = (0..scenario.domains.len())
            .map(|index| lower::domain_position(scenario, &network.domains, index))
            .collect();
        let sampler = Sampler::new(scenario, domains);
        let mut simulation = network.build(seed, observer)?;
        for wanted in &scenario.record.delays {
            match *wanted {
                DelayOf::Flow(flow) => simulation.watch_flow_delays(flow.index()),
                DelayOf::Link(link, way) => {
                    simulation.watch_link_delays(LinkId::of(link.0, way == Way::Reverse));
                }
            }
        }
        for wanted in &scenario.record.series {
            if let model::Series::LinkFlow(link, way, _) = *wanted {
                simulation.watch_link_flows(LinkId::of(link.0, way == Way::Reverse));
            }
        }
        let timing = Timing { build: started.elapsed(), ..Timing::default() };
        let next_sample = match scenario.record.every {
            Some(every) if !sampler.is_empty() => Time::ZERO + every,
            _ => Time::MAX,
        };
        let warm = scenario.warmup.is_zero();
        Ok(Self { scenario: Arc::clone(scenario), seed, simulation, sampler, next_sample, warm, timing })
    }

    /// Handles about `events_max` more events.
    pub fn advance(&mut self, events_max: u64) -> Progress {
        let started = clock();
        let end = Time::ZERO + self.scenario.duration;
        let warm_at = Time::ZERO + self.scenario.warmup;
        let stop_at = self.simulation.totals().events.saturating_add(events_max);
        let progress = loop {
            let left = stop_at.saturating_sub(self.simulation.totals().events);
            if left == 0 {
                break Progress::Running(self.simulation.now().as_secs_f64() / end.as_secs_f64());
            }
            let until = if self.warm { end } else { warm_at.min(end) }.min(self.next_sample);
            if !self.simulation.run_until(until, left) {
                continue;
            }
            if self.simulation.now() == self.next_sample {
                self.sampler.take(&mut self.simulation);
                let every = self.scenario.record.every.unwrap_or(Span::MAX);
                self.next_sample = self.next_sample.saturating_add(every);
            }
            if !self.warm && self.simulation.now() == warm_at {
                self.warm = true;
                self.simulation.restart_statistics();
                self.sampler.resume(&mut self.simulation);
            }
            if self.simulation.now() == end {
                break Progress::Done;
            }
        };
        self.timing.run += started.elapsed();
        progress
    }

    /// The results, and the observer.
    pub fn finish(mut self) -> (Outcome, O) {
        self.simulation.assert_conservation();
        let statistics = self.simulation.statistics();
        let rates: Vec<_> =
            (0..statistics.links.len()).map(|link| self.simulation.link_rate(LinkId(link as u32))).collect();
        let window = statistics.until.since(statistics.since);
        let mut classes = BTreeMap::new();
        for (index, link) in self.scenario.links.iter().enumerate() {
            for (direction, is_reverse) in [(&link.forward, false), (&link.reverse, true)] {
                let id = LinkId::of(index as u32, is_reverse);
                let read = |name: &str| self.simulation.queue_variable(id, name);
                if let Some(of_link) = summary::classes(&direction.queue, window, read) {
                    classes.insert(id.0 as usize, of_link);
                }
            }
        }
        let simulation = &self.simulation;
        let flow_percentiles = (0..self.scenario.flows.len())
            .filter_map(|flow| Some((flow, Percentiles::of(&simulation.flow_delays(flow)?))))
            .collect();
        let link_percentiles = (0..statistics.links.len())
            .filter_map(|link| Some((link, Percentiles::of(simulation.link_delays(LinkId(link as u32))?))))
            .collect();
        let totals = statistics.totals;
        let outcome = Outcome {
            summary: Summary {
                scenario: self.scenario,
                seed: self.seed,
                statistics: Arc::new(statistics),
                rates: rates.into(),
                flow_percentiles,
                link_percentiles,
                classes,
            },
            series: self.sampler.finish(),
            timing: Timing { events: totals.events, packet_hops: totals.packet_hops, ..self.timing },
        };
        (outcome, self.simulation.into_observer())
    }
}

/// A packet trace of a run of `scenario`, for [`Run::start`] and then [`PcapTrace::finish`].
///
/// # Errors
/// The first bytes cannot be written.
pub fn trace<W: Write>(scenario: &Scenario, writer: W) -> io::Result<PcapTrace<W>> {
    PcapTrace::new(writer, &lower::network(scenario))
}

/// Runs `scenario` to its end, without a pause.
///
/// # Errors
/// As [`Run::start`].
pub fn run(scenario: &Arc<Scenario>, seed: u64) -> Result<Outcome, BuildError> {
    let mut run = Run::start(scenario, seed, ())?;
    while run.advance(u64::MAX) != Progress::Done {}
    Ok(run.finish().0)
}

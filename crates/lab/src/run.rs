//! One run of a scenario, in steps that a caller can interrupt.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{Arrival, BuildError, LinkId, Network, NodeId, Observer, Simulation, Undivided};
use tidegate_packet::Headers;
use tidegate_record::{Capture, PcapTrace, Series};
use tidegate_scenario::model::{self, DelayOf, Way};
use tidegate_scenario::{Scenario, suggest};
use tidegate_units::{Span, Time};

use crate::compare::Comparison;
use crate::crowds;
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
    /// Cores that simulated it.
    pub cores: usize,
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
    /// Why it is one core that simulates, where more were offered.
    undivided: Option<Undivided>,
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
        Self::start_with(scenario, |_| (), seed, observer)
    }

    /// The same on up to `cores` cores, which changes nothing of what comes out, unless somebody watches packets. Where one has to do, or
    /// is as fast, it is one: see [`Self::undivided`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on(
        cores: usize,
        scenario: &Arc<Scenario>,
        seed: u64,
        observer: O,
    ) -> Result<Self, BuildError> {
        Self::start_as(cores, scenario, |_| (), seed, observer)
    }

    /// The same with what `alter` does to the network first. It may add flows after those of the scenario, and replace the
    /// transport of flows; all else must stay as it is.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        scenario: &Arc<Scenario>,
        alter: impl FnOnce(&mut Network),
        seed: u64,
        observer: O,
    ) -> Result<Self, BuildError> {
        Self::start_as(1, scenario, alter, seed, observer)
    }

    fn start_as(
        cores: usize,
        scenario: &Arc<Scenario>,
        alter: impl FnOnce(&mut Network),
        seed: u64,
        observer: O,
    ) -> Result<Self, BuildError> {
        let started = clock();
        let mut network = lower::network(scenario);
        alter(&mut network);
        let domains = (0..scenario.domains.len())
            .map(|index| lower::domain_position(scenario, &network.domains, index))
            .collect();
        let sampler = Sampler::new(scenario, domains);
        let idle_times = crowds::idle_times(scenario, &network, seed)?;
        let division = (cores > 1).then(|| {
            if O::WATCHES {
                Err(Undivided::Has("a packet trace"))
            } else if scenario.record.waste {
                Err(Undivided::Has("`record.waste`"))
            } else {
                network.divide(seed, Time::ZERO + scenario.duration, cores)
            }
        });
        let (used, undivided, mut simulation) = match division {
            Some(Ok(division)) => (division.parts(), None, network.build_divided(seed, observer, division)?),
            Some(Err(why)) => (1, Some(why), network.build(seed, observer)?),
            None => (1, None, network.build(seed, observer)?),
        };
        for (crowd, times) in idle_times.into_iter().enumerate() {
            simulation.set_idle_times(crowd, times);
        }
        for wanted in &scenario.record.delays {
            match *wanted {
                DelayOf::Flow(flow) => simulation.watch_flow_delays(flow.index()),
                DelayOf::Link(link, way) => {
                    simulation.watch_link_delays(LinkId::of(link.0, way == Way::Reverse));
                }
            }
        }
        if scenario.record.waste {
            simulation.watch_waste();
        }
        for wanted in &scenario.record.series {
            if let model::Series::LinkFlow(link, way, _) | model::Series::LinkClass(link, way, _) = *wanted {
                simulation.watch_link_flows(LinkId::of(link.0, way == Way::Reverse));
            }
        }
        let timing = Timing { build: started.elapsed(), cores: used, ..Timing::default() };
        let next_sample = match scenario.record.every {
            Some(every) if !sampler.is_empty() => Time::ZERO + every,
            _ => Time::MAX,
        };
        let warm = scenario.warmup.is_zero();
        Ok(Self {
            scenario: Arc::clone(scenario),
            seed,
            simulation,
            sampler,
            next_sample,
            warm,
            timing,
            undivided,
        })
    }

    /// Why it is one core that simulates, where more were offered.
    pub const fn undivided(&self) -> Option<&Undivided> {
        self.undivided.as_ref()
    }

    /// Handles about `events_max` more events.
    pub fn advance(&mut self, events_max: u64) -> Progress {
        let started = clock();
        let end = Time::ZERO + self.scenario.duration;
        let warm_at = Time::ZERO + self.scenario.warmup;
        let stop_at = self.simulation.totals().events.saturating_add(events_max);
        // A sample is work as well: without events between them, samples alone must come to a pause too.
        let mut sampled = 0;
        let progress = loop {
            let left = stop_at.saturating_sub(self.simulation.totals().events.saturating_add(sampled));
            if left == 0 {
                break Progress::Running(self.simulation.now().as_secs_f64() / end.as_secs_f64());
            }
            let until = if self.warm { end } else { warm_at.min(end) }.min(self.next_sample);
            if !self.simulation.run_until(until, left) {
                continue;
            }
            sampled = sampled.saturating_add(self.look());
            if self.simulation.now() == end {
                break Progress::Done;
            }
        };
        self.timing.run += started.elapsed();
        progress
    }

    /// Runs to the instant of the next sample, or to the end of the scenario if that is earlier.
    pub fn advance_to_sample(&mut self) -> Progress {
        let started = clock();
        let end = Time::ZERO + self.scenario.duration;
        let stop = self.next_sample.min(end);
        while self.simulation.now() < stop {
            let warm_at = if self.warm { stop } else { Time::ZERO + self.scenario.warmup };
            self.simulation.run_until(warm_at.min(stop), u64::MAX);
            self.look();
        }
        self.timing.run += started.elapsed();
        if stop == end { Progress::Done } else { Progress::Running(stop.as_secs_f64() / end.as_secs_f64()) }
    }

    /// What was recorded so far.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.sampler.series()
    }

    /// Takes the sample that is due now, and begins the statistics if it is time to; how many values it took.
    fn look(&mut self) -> u64 {
        let is_due = self.simulation.now() == self.next_sample;
        if is_due {
            self.sampler.take(&mut self.simulation);
            let every = self.scenario.record.every.unwrap_or(Span::MAX);
            self.next_sample = self.next_sample.saturating_add(every);
        }
        if !self.warm && self.simulation.now() == Time::ZERO + self.scenario.warmup {
            self.warm = true;
            self.sampler.restart(&mut self.simulation);
        }
        if is_due { self.sampler.series().count() as u64 } else { 0 }
    }

    /// The present instant.
    pub const fn now(&self) -> Time {
        self.simulation.now()
    }

    /// When the next event is due, if there is one: until then [`Self::advance_to`] has nothing to do.
    pub fn next_event(&self) -> Option<Time> {
        self.simulation.next_event()
    }

    /// Handles every event that is due at `until` or before, for worlds in real time; tells `on_event` of each when it was
    /// due. It does not stop at the end of the scenario.
    pub fn advance_to(&mut self, until: Time, mut on_event: impl FnMut(Time)) {
        loop {
            let warm_at = if self.warm { Time::MAX } else { Time::ZERO + self.scenario.warmup };
            let next_look = self.next_sample.min(warm_at);
            let stop = next_look.min(until);
            while let Some(due) = self.simulation.step(stop) {
                on_event(due);
            }
            self.simulation.step_until(stop);
            if next_look > until {
                return;
            }
            self.look();
        }
    }

    /// A packet comes in from outside at `at`; see [`Simulation::inject`].
    pub fn inject(&mut self, arrival: &Arrival, at: Time) {
        self.advance_to(at, |_| ());
        self.simulation.inject(arrival, at);
    }

    /// From now on classifiers see `headers` on the packets of a flow from outside.
    pub fn set_headers(&mut self, flow: u32, headers: Headers) {
        self.simulation.set_headers(flow, headers);
    }

    /// The observer, to change.
    pub const fn observer_mut(&mut self) -> &mut O {
        self.simulation.observer_mut()
    }

    /// The simulation, to look at.
    pub const fn simulation(&mut self) -> &mut Simulation<O> {
        &mut self.simulation
    }

    /// The results, and the observer.
    pub fn finish(mut self) -> (Outcome, O) {
        self.simulation.assert_conservation();
        let statistics = self.simulation.statistics();
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
        let comparison = Comparison::of(&self.scenario, simulation);
        let totals = statistics.totals;
        let outcome = Outcome {
            summary: Summary {
                scenario: self.scenario,
                seed: self.seed,
                statistics: Arc::new(statistics),
                flow_percentiles,
                link_percentiles,
                classes,
                comparison,
            },
            series: self.sampler.finish(),
            timing: Timing { events: totals.events, packet_hops: totals.packet_hops, ..self.timing },
        };
        (outcome, self.simulation.into_observer())
    }
}

/// A packet trace of a run of `scenario` with what `capture` takes, for [`Run::start`] and then [`PcapTrace::finish`].
///
/// # Errors
/// The first bytes cannot be written.
pub fn trace<W: Write>(scenario: &Scenario, writer: W, capture: Capture) -> io::Result<PcapTrace<W>> {
    PcapTrace::new(writer, &lower::network(scenario), capture)
}

/// Where frames are taken, as users say it: `hosts` (those that send data), `links`, or names of hosts and links, a link's with
/// `.reverse` for that direction alone and `.forward` for the other.
///
/// # Errors
/// The first name that is neither, with the names that there are.
pub fn capture(scenario: &Scenario, places: &[String]) -> Result<Capture, String> {
    match places {
        [only] if only == "hosts" => return Ok(Capture::at_senders()),
        [only] if only == "links" => return Ok(Capture::at_links()),
        _ => {}
    }
    let (mut hosts, mut links) = (Vec::new(), Vec::new());
    for place in places {
        let node =
            scenario.nodes.iter().position(|node| node.name == *place && node.kind == model::NodeKind::Host);
        if let Some(node) = node {
            hosts.push(NodeId(node as u32));
            continue;
        }
        let (name, ways) = match place.rsplit_once('.') {
            Some((name, "forward")) => (name, &[false][..]),
            Some((name, "reverse")) => (name, &[true][..]),
            _ => (place.as_str(), &[false, true][..]),
        };
        let Some(link) = scenario.links.iter().position(|link| link.name == name) else {
            let known: Vec<&str> = scenario
                .nodes
                .iter()
                .filter(|each| each.kind == model::NodeKind::Host)
                .map(|host| host.name.as_str())
                .chain(scenario.links.iter().map(|link| link.name.as_str()))
                .collect();
            return Err(format!("there is no host and no link `{place}`; {}", suggest::help(place, &known)));
        };
        links.extend(ways.iter().map(|&is_reverse| LinkId::of(link as u32, is_reverse)));
    }
    Ok(Capture::at(hosts, links))
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

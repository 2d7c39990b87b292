//! Transfers that come and go, from the scenario to the engine: places, distributions, and how long they would take alone.

use std::ops::Range;
use std::sync::Arc;

use tidegate_engine::{
    ActivitySpec, ArrivalsSpec, BuildError, CrowdSpec, FlowSpec, IdleTimes, Network, SizesSpec, StartSpec,
};
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{Application, Arrivals, Sizes, Transfers};
use tidegate_units::{Span, Time};

/// Sizes of which the time in an idle network is measured, bytes: each double the one before. Beyond the last, time goes on as between
/// the last two.
const PROBE_SIZES_MAX: u64 = 4 << 20;
/// Between two transfers of a probe: queues and edges forget the one before.
const PROBE_PAUSE: Span = Span::from_secs(2);
/// A probe ends then, whatever it has found.
const PROBE_TIME: Span = Span::from_secs(3_600);
/// A probe ends after so many events, whatever it has found.
const PROBE_EVENTS: u64 = 5_000_000;

/// How many flows the network of `scenario` has: those of the scenario, and the places of transfers beyond the first of each.
pub fn flow_count(scenario: &Scenario) -> usize {
    places(scenario).last().map_or(0, |range| range.end as usize).max(scenario.flows.len())
}

/// By flow of the scenario: the flows beside itself that are places of it.
pub(crate) fn places(scenario: &Scenario) -> Vec<Range<u32>> {
    let mut next = scenario.flows.len() as u32;
    let range = |flow: &tidegate_scenario::model::Flow| {
        let more = match &flow.application {
            Application::Transfers(transfers) => transfers.places - 1,
            _ => 0,
        };
        let start = next;
        next += more;
        start..next
    };
    scenario.flows.iter().map(range).collect()
}

/// Adds the places of transfers to the flows of `network`, and what fills them.
pub(crate) fn add(
    scenario: &Scenario,
    network: &mut Network,
    with_port: impl Fn(FlowSpec, usize) -> FlowSpec,
) {
    for (index, (flow, more)) in scenario.flows.iter().zip(places(scenario)).enumerate() {
        let Application::Transfers(transfers) = &flow.application else { continue };
        for (number, place) in more.clone().zip(2..) {
            let spec = &network.flows[index];
            let spec = FlowSpec { name: format!("{}#{place}", spec.name), ..spec.clone() };
            network.flows.push(with_port(spec, number as usize));
        }
        let places = core::iter::once(index as u32).chain(more).collect();
        network.crowds.push(CrowdSpec { places, activity: activity(transfers) });
    }
}

fn activity(transfers: &Transfers) -> ActivitySpec {
    let sizes = sizes(transfers);
    let arrivals = match &transfers.arrivals {
        Arrivals::Poisson(poisson) => {
            let by_rate = |rate: tidegate_units::BitRate| {
                Span::from_secs_f64(sizes.mean() / rate.as_bytes_per_second_f64())
            };
            let mean = poisson.every.or_else(|| poisson.rate.map(by_rate)).unwrap_or(Span::MAX);
            // At least a nanosecond, so that time moves on.
            ArrivalsSpec::Poisson { mean: mean.max(Span::from_nanos(1)) }
        }
        Arrivals::Even(even) => ArrivalsSpec::Even { every: even.every, burst: even.burst },
        Arrivals::List(list) => ArrivalsSpec::List(Arc::clone(&list.list)),
    };
    ActivitySpec::Transfers { arrivals, sizes }
}

/// The sizes of `transfers`; of a list, the largest of it.
fn sizes(transfers: &Transfers) -> SizesSpec {
    match &transfers.sizes {
        Some(Sizes::Fixed(fixed)) => SizesSpec::Fixed(fixed.size.get()),
        Some(Sizes::Exponential(exponential)) => SizesSpec::Exponential { mean: exponential.mean.as_f64() },
        Some(Sizes::Pareto(pareto)) => {
            SizesSpec::Pareto { mean: pareto.mean.as_f64(), shape: pareto.shape, most: pareto.most.get() }
        }
        Some(Sizes::Table(table)) => {
            // Nothing has no size: what a table has at 0 is a byte.
            let scaled = |bytes: f64| ((bytes * table.scale).round() as u64).max(1);
            SizesSpec::Table(table.points.iter().map(|&(bytes, part)| (scaled(bytes), part)).collect())
        }
        None => {
            let largest = match &transfers.arrivals {
                Arrivals::List(list) => list.list.iter().map(|&(_, bytes)| bytes).max(),
                _ => None,
            };
            SizesSpec::Fixed(largest.unwrap_or(1))
        }
    }
}

/// By crowd: how long its transfers take where nothing else is: the same network with them alone, one by one. `network` is that of
/// `scenario`, with what was altered.
///
/// # Errors
/// As of [`Network::build`].
pub(crate) fn idle_times(
    scenario: &Scenario,
    network: &Network,
    seed: u64,
) -> Result<Vec<IdleTimes>, BuildError> {
    let of =
        |(number, crowd): (usize, &CrowdSpec)| match &scenario.flows[crowd.places[0] as usize].application {
            Application::Transfers(transfers) if transfers.slowdown => {
                idle_times_of(network, number, transfers, seed)
            }
            _ => Ok(IdleTimes::default()),
        };
    network.crowds.iter().enumerate().map(of).collect()
}

fn idle_times_of(
    network: &Network,
    number: usize,
    transfers: &Transfers,
    seed: u64,
) -> Result<IdleTimes, BuildError> {
    let most = sizes(transfers).most();
    let mut probe = Vec::new();
    let mut bytes = 256;
    while bytes < most.min(PROBE_SIZES_MAX) {
        probe.push(bytes);
        bytes *= 2;
    }
    probe.push(most.min(PROBE_SIZES_MAX));
    let mut alone = network.clone();
    let places = alone.crowds[number].places.clone();
    for flow in &mut alone.flows {
        // What does not begin before the end sends nothing.
        flow.start = StartSpec::At(Time::MAX);
        flow.stop = None;
    }
    alone.flows[places[0] as usize].start = StartSpec::At(Time::ZERO);
    alone.crowds = vec![CrowdSpec {
        places,
        activity: ActivitySpec::Probe { sizes: probe.clone(), pause: PROBE_PAUSE },
    }];
    // What happens at given instants, and what the media lose, is no part of an idle network.
    alone.script.clear();
    alone.reservations.clear();
    for link in &mut alone.links {
        for direction in [&mut link.forward, &mut link.reverse] {
            direction.loss = None;
            direction.reorder = None;
            direction.duplicate = 0.0;
        }
    }
    let mut simulation = alone.build(seed, ())?;
    let mut events = 0;
    let mut until = Time::ZERO;
    while simulation.probed(0).len() < probe.len() && until < Time::ZERO + PROBE_TIME && events < PROBE_EVENTS
    {
        until = until + Span::from_secs(1);
        simulation.run_until(until, PROBE_EVENTS - events);
        events = simulation.totals().events;
    }
    let mut found = simulation.probed(0).to_vec();
    found.dedup_by_key(|&mut (bytes, _)| bytes);
    Ok(IdleTimes::new(found))
}

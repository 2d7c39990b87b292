//! Connections that come and go, from the scenario to the engine: places, distributions, and how long transfers would take alone.

use std::ops::Range;
use std::sync::Arc;

use tidegate_engine::{
    ActivitySpec, ArrivalsSpec, BuildError, CrowdSpec, FlowSpec, IdleTimes, Network, ObjectsSpec, PagesSpec,
    SizesSpec, StartSpec, VideoRule, VideoSpec,
};
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{self, Application, Arrivals, PageObjects, Pages, Sizes, Thinking, Transfers};
use tidegate_units::{BitRate, Bytes, Span, Time};

/// Bytes of an exchange before the first request, to the server and to the client: a hello, and one with a certificate.
const SETUP_BYTES: [u64; 2] = [400, 3_000];
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

/// By flow of the scenario: the flows beside itself that are its places, and then those of what its clients ask.
pub(crate) fn places(scenario: &Scenario) -> Vec<Range<u32>> {
    let mut next = scenario.flows.len() as u32;
    let range = |flow: &tidegate_scenario::model::Flow| {
        let places = flow.application.places().unwrap_or(1);
        let ways = if flow.application.asks() { 2 } else { 1 };
        let more = ways * places - 1;
        let start = next;
        next += more;
        start..next
    };
    scenario.flows.iter().map(range).collect()
}

/// Adds the places of connections that come and go to the flows of `network`, and what fills them.
pub(crate) fn add(scenario: &Scenario, network: &mut Network, source_port: impl Fn(usize) -> u16) {
    for (index, (flow, more)) in scenario.flows.iter().zip(places(scenario)).enumerate() {
        let Some(activity) = activity(&flow.application) else { continue };
        let count = flow.application.places().unwrap_or(1);
        let first = network.flows[index].clone();
        let mut taken = vec![index as u32];
        for (number, place) in more.clone().zip(2..=count) {
            let mut spec = FlowSpec { name: format!("{}#{place}", first.name), ..first.clone() };
            spec.headers.source_port = source_port(number as usize);
            network.flows.push(spec);
            taken.push(number);
        }
        let mut asking = Vec::new();
        if flow.application.asks() {
            for (&down, number) in taken.iter().zip(network.flows.len() as u32..) {
                let forth = &network.flows[down as usize];
                network.flows.push(FlowSpec {
                    name: format!("{}.asks", forth.name),
                    from: forth.to[0],
                    to: vec![forth.from],
                    headers: forth.headers.reversed(),
                    ..forth.clone()
                });
                network.pairs.push([down, number]);
                asking.push(number);
            }
        }
        network.crowds.push(CrowdSpec { places: taken, asking, activity });
    }
}

/// What `application` does with connections that come and go; `None` for one that has one connection.
fn activity(application: &Application) -> Option<ActivitySpec> {
    Some(match application {
        Application::Transfers(transfers) => {
            let sizes = sizes(transfers);
            ActivitySpec::Transfers { arrivals: arrivals(transfers, &sizes), sizes }
        }
        Application::Pages(pages) => ActivitySpec::Pages(pages_spec(pages)),
        Application::Video(video) => ActivitySpec::Video(VideoSpec {
            rates: video.rates.clone(),
            segment: video.segment,
            buffer: video.buffer,
            start: video.start.unwrap_or(video.segment),
            rule: match video.rule {
                model::VideoRule::Bola => VideoRule::Bola,
                model::VideoRule::Rate => VideoRule::Rate,
            },
            request: video.request.get(),
            segments: video.length.map(|length| length.as_nanos().div_ceil(video.segment.as_nanos())),
        }),
        _ => return None,
    })
}

fn pages_spec(pages: &Pages) -> PagesSpec {
    let group = |(group, after): (&PageObjects, Option<usize>)| ObjectsSpec {
        count: group.count,
        sizes: match (&group.sizes, group.size) {
            (Some(sizes), _) => distribution(sizes),
            (None, size) => SizesSpec::Fixed(size.map_or(1, Bytes::get)),
        },
        after,
        delay: group.delay,
    };
    PagesSpec {
        objects: pages.objects.iter().zip(pages.after()).map(group).collect(),
        request: pages.request.get(),
        work: pages.work,
        react: pages.react,
        early: pages.early,
        streams: pages.streams,
        setup: vec![SETUP_BYTES; pages.setup as usize],
        think: pages.think,
        is_even: pages.thinking == Thinking::Constant,
        keep: pages.keep,
    }
}

fn arrivals(transfers: &Transfers, sizes: &SizesSpec) -> ArrivalsSpec {
    match &transfers.arrivals {
        Arrivals::Poisson(poisson) => {
            let by_rate = |rate: BitRate| Span::from_secs_f64(sizes.mean() / rate.as_bytes_per_second_f64());
            let mean = poisson.every.or_else(|| poisson.rate.map(by_rate)).unwrap_or(Span::MAX);
            // At least a nanosecond, so that time moves on.
            ArrivalsSpec::Poisson { mean: mean.max(Span::from_nanos(1)) }
        }
        Arrivals::Even(even) => ArrivalsSpec::Even { every: even.every, burst: even.burst },
        Arrivals::List(list) => ArrivalsSpec::List(Arc::clone(&list.list)),
    }
}

/// The sizes of `transfers`; of a list, the largest of it.
fn sizes(transfers: &Transfers) -> SizesSpec {
    match (&transfers.sizes, &transfers.arrivals) {
        (Some(sizes), _) => distribution(sizes),
        (None, Arrivals::List(list)) => {
            SizesSpec::Fixed(list.list.iter().map(|&(_, bytes)| bytes).max().unwrap_or(1))
        }
        (None, _) => SizesSpec::Fixed(1),
    }
}

fn distribution(sizes: &Sizes) -> SizesSpec {
    match sizes {
        Sizes::Fixed(fixed) => SizesSpec::Fixed(fixed.size.get()),
        Sizes::Uniform(uniform) => {
            SizesSpec::Table([(uniform.least.get(), 0.0), (uniform.most.get(), 1.0)].into())
        }
        Sizes::Exponential(exponential) => SizesSpec::Exponential { mean: exponential.mean.as_f64() },
        Sizes::Pareto(pareto) => {
            SizesSpec::Pareto { mean: pareto.mean.as_f64(), shape: pareto.shape, most: pareto.most.get() }
        }
        Sizes::Measured(measured) => scaled(&measured.points(), measured.scale),
        Sizes::Table(table) => scaled(&table.points, table.scale),
    }
}

/// The distribution of `points`, with sizes so many times larger.
fn scaled(points: &[(f64, f64)], scale: f64) -> SizesSpec {
    // Nothing has no size: what a table has at 0 is a byte.
    let size = |bytes: f64| ((bytes * scale).round() as u64).max(1);
    SizesSpec::Table(points.iter().map(|&(bytes, part)| (size(bytes), part)).collect())
}

/// By crowd: how long its transfers take where nothing else is: the links and queues of the network with them alone, one by one. `network` is that of
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
        asking: Vec::new(),
        activity: ActivitySpec::Probe { sizes: probe.clone(), pause: PROBE_PAUSE },
    }];
    // Edges and routers that control would hold back what begins: slow-downs with and without them are to be compared.
    for domain in &mut alone.domains {
        domain.mechanism = None;
    }
    alone.hops.clear();
    alone.fluids.clear();
    alone.follows = None;
    // What happens at given instants, and what the media do to packets, is no part of an idle network.
    alone.script.clear();
    alone.reservations.clear();
    alone.border_changes.clear();
    for link in &mut alone.links {
        for direction in [&mut link.forward, &mut link.reverse] {
            direction.loss = None;
            direction.reorder = None;
            direction.duplicate = 0.0;
            direction.jitter = None;
        }
    }
    let mut simulation = alone.build(seed, ())?;
    let mut events = 0;
    let mut until = Time::ZERO;
    while simulation.probed(0).len() < probe.len() && until < Time::ZERO + PROBE_TIME && events < PROBE_EVENTS
    {
        until += Span::from_secs(1);
        simulation.run_until(until, PROBE_EVENTS - events);
        events = simulation.totals().events;
    }
    let mut found = simulation.probed(0).to_vec();
    found.dedup_by_key(|&mut (size, _)| size);
    Ok(IdleTimes::new(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_scenario::Document;

    /// How long transfers of `bytes` take alone beside `flows`.
    fn idle_s(flows: &str, bytes: u64) -> f64 {
        let text = format!(
            r#"
            duration = "10s"
            nodes = {{ hosts = ["a", "b"] }}
            links.l = {{ between = ["a", "b"], rate = "10Mbit", delay = "10ms", queue = {{ limit = "1000p" }} }}
            flows.t = {{ from = "a", to = "b", transport = "tcp", application = {{ kind = "transfers", arrivals = {{ kind = "even", every = "1s" }}, sizes = {{ kind = "fixed", size = "100kB" }} }} }}
            {flows}
            "#
        );
        let scenario = Document::from_text("test.toml", &text).unwrap().scenario().unwrap();
        idle_times(&scenario, &crate::lower::network(&scenario), 1).unwrap()[0].of(bytes).unwrap()
    }

    #[test]
    fn an_idle_network_has_no_fluids() {
        let alone = idle_s("", 50_000);
        assert!((0.06..0.5).contains(&alone), "{alone}");
        let fluid = r#"flows.many = { from = "a", to = "b", fluid = { count = 20 } }"#;
        assert!((idle_s(fluid, 50_000) - alone).abs() < 1e-9, "{} and {alone}", idle_s(fluid, 50_000));
    }
}

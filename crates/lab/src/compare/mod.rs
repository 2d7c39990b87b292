//! What comparisons between mechanisms need beyond counters, where a scenario asks for it: capacity that was wasted, the
//! distance from max-min fairness, what routers keep, and delays over several flows.

mod max_min;
mod state;

use serde::ser::{Serialize, SerializeMap, Serializer};
use tidegate_engine::{Delays, LinkId, Observer, Simulation};
use tidegate_mechanism::hop::cell;
use tidegate_scenario::Scenario;
use tidegate_scenario::model::{Application, DelayOf, Direction, Flow, NodeKind, Transport};

use crate::summary::Percentiles;
use max_min::Demand;
use state::Stream;

/// See the module. What was not asked for is not there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    /// By direction of a link: bytes of packets that were dropped later.
    pub(crate) wasted_bytes: Option<Vec<u64>>,
    /// By direction of a link: bytes that it carried, what its medium lost included.
    pub(crate) crossed_bytes: Vec<u64>,
    /// By flow, in bits per second. None where a flow has no path, or several.
    pub(crate) max_min_bps: Option<Vec<f64>>,
    /// Name of each router and how many entries it keeps, and whether a host is its neighbour.
    pub(crate) state: Option<Vec<(String, u64, bool)>>,
    /// Of all flows whose delays are recorded.
    pub(crate) delays: Option<Percentiles>,
}

impl Comparison {
    /// What `scenario` asks for.
    pub(crate) fn of<O: Observer>(scenario: &Scenario, simulation: &Simulation<O>) -> Self {
        let record = &scenario.record;
        let directions = || (0..2 * scenario.links.len() as u32).map(LinkId);
        Self {
            wasted_bytes: record
                .waste
                .then(|| directions().filter_map(|link| simulation.wasted_bytes(link)).collect()),
            crossed_bytes: directions().filter_map(|link| simulation.crossed_bytes(link)).collect(),
            max_min_bps: if record.max_min { max_min_bps(scenario, simulation) } else { None },
            state: if record.state { state(scenario, simulation) } else { None },
            delays: pooled(scenario, simulation).map(|delays| Percentiles::of(&delays)),
        }
    }

    /// The mean over flows of how far their rates are from the max-min fair ones, as a part of these.
    pub(crate) fn deviation(&self, throughputs_bps: impl Iterator<Item = f64>) -> Option<f64> {
        let ideal = self.max_min_bps.as_ref().filter(|ideal| !ideal.is_empty())?;
        let deviations = throughputs_bps.zip(ideal).map(|(rate, ideal)| (rate - ideal).abs() / ideal);
        Some(deviations.sum::<f64>() / ideal.len() as f64)
    }
}

/// Whether `link` leads from router to router.
pub(crate) fn is_between_routers(scenario: &Scenario, link: usize) -> bool {
    let link = &scenario.links[link];
    [link.a, link.b].iter().all(|node| scenario.nodes[node.index()].kind == NodeKind::Router)
}

fn pooled<O: Observer>(scenario: &Scenario, simulation: &Simulation<O>) -> Option<Delays> {
    let mut all: Option<Delays> = None;
    for wanted in &scenario.record.delays {
        let DelayOf::Flow(flow) = wanted else { continue };
        let Some(own) = simulation.flow_delays(flow.index()) else { continue };
        match &mut all {
            Some(all) => all.add(&own).expect("a distribution that grows takes any value"),
            None => all = Some(own),
        }
    }
    all.filter(|delays| !delays.is_empty())
}

fn max_min_bps<O: Observer>(scenario: &Scenario, simulation: &Simulation<O>) -> Option<Vec<f64>> {
    let directions = || scenario.links.iter().flat_map(|link| [&*link.forward, &*link.reverse]);
    let capacities: Vec<f64> = directions().map(capacity_bps).collect();
    let is_circuit: Vec<bool> = directions().map(|direction| direction.circuit.is_some()).collect();
    let demands: Option<Vec<Demand>> = (0..scenario.flows.len())
        .map(|index| {
            let flow = &scenario.flows[index];
            let (rate, packet_bytes) = demand(flow);
            let in_cells = f64::from(cell::aal5_bytes(packet_bytes)) / f64::from(packet_bytes.max(1));
            let links = simulation.flow_path(index, false)?.links.into_iter().map(|link| link.0 as usize);
            let hops = links.map(|link| (link, if is_circuit[link] { in_cells } else { 1.0 })).collect();
            Some(Demand { hops, rate, weight: flow.weight })
        })
        .collect();
    Some(max_min::rates(&capacities, &demands?))
}

/// What a direction can carry at the start, background aside.
fn capacity_bps(direction: &Direction) -> f64 {
    let background = direction.circuit.as_ref().map_or(0, |circuit| circuit.background.as_bps());
    direction.rate.as_bps().saturating_sub(background) as f64
}

/// What a flow wants while it is active, in bits per second, and the size of its packets.
fn demand(flow: &Flow) -> (f64, u32) {
    let own = match &flow.transport {
        Transport::Tcp(tcp) => tcp.config.packet(),
        Transport::Media(media) => media.packet(),
        Transport::Udp(udp) => udp.packet,
    };
    let size = |packet: Option<tidegate_units::Bytes>| packet.unwrap_or(own).get() as u32;
    let most = match &flow.transport {
        Transport::Media(media) => media.max_rate().map_or(f64::INFINITY, |rate| rate.as_bps() as f64),
        Transport::Tcp(_) | Transport::Udp(_) => f64::INFINITY,
    };
    match &flow.application {
        Application::Bulk(_)
        | Application::Transfer(_)
        | Application::Transfers(_)
        | Application::Pages(_)
        | Application::Video(_) => (most, size(None)),
        Application::Cbr(cbr) => (cbr.rate.as_bps() as f64, size(cbr.packet)),
        Application::Poisson(poisson) => (poisson.rate.as_bps() as f64, size(poisson.packet)),
        Application::Adaptive(adaptive) => {
            (adaptive.rates.last().map_or(0.0, |rate| rate.as_bps() as f64), size(adaptive.packet))
        }
        Application::OnOff(on_off) => {
            let (on, off) = (on_off.on.as_secs_f64(), on_off.off.as_secs_f64());
            let rate = on_off.rate.map_or(f64::INFINITY, |rate| rate.as_bps() as f64 * on / (on + off));
            (rate, size(on_off.packet))
        }
    }
}

fn state<O: Observer>(scenario: &Scenario, simulation: &Simulation<O>) -> Option<Vec<(String, u64, bool)>> {
    let mut streams = Vec::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        let ways: &[bool] =
            if matches!(flow.transport, Transport::Udp(_)) { &[false] } else { &[false, true] };
        for &is_back in ways {
            streams.push(Stream { flow, is_back, path: simulation.flow_path(index, is_back)? });
        }
    }
    let has_host = |node| {
        scenario.links.iter().any(|link| {
            (link.a == node && scenario.nodes[link.b.index()].kind == NodeKind::Host)
                || (link.b == node && scenario.nodes[link.a.index()].kind == NodeKind::Host)
        })
    };
    let entries = state::entries(scenario, &streams).into_iter();
    Some(
        entries
            .map(|(node, count)| (scenario.nodes[node.index()].name.clone(), count, has_host(node)))
            .collect(),
    )
}

/// The table `waste` of a summary.
pub(crate) struct Waste {
    pub(crate) wasted_bps: f64,
    pub(crate) ratio: f64,
}

impl Serialize for Waste {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("bps", &self.wasted_bps)?;
        map.serialize_entry("ratio", &self.ratio)?;
        map.end()
    }
}

/// The table `state` of a summary.
pub(crate) struct State<'a>(pub(crate) &'a [(String, u64, bool)]);

impl Serialize for State<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let most = |is_counted: &dyn Fn(bool) -> bool| {
            self.0.iter().filter(|(_, _, has_host)| is_counted(*has_host)).map(|(_, count, _)| *count).max()
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("entries_max", &most(&|_| true))?;
        map.serialize_entry("core_entries_max", &most(&|has_host| !has_host))?;
        let routers: std::collections::BTreeMap<_, _> =
            self.0.iter().map(|(name, count, _)| (name, serde_json::json!({ "entries": count }))).collect();
        map.serialize_entry("routers", &routers)?;
        map.end()
    }
}

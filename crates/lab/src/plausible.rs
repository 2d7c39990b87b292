//! What is valid and hardly meant, whatever is promised: ways that no packet survives, records that fill the memory.

use tidegate_packet::{FlowId, Packet};
use tidegate_scenario::model::{NodeKind, Scenario};
use tidegate_scenario::{ConfigError, Document};

use crate::lower;

/// What is to be said of the scenario of `document`.
pub(crate) fn warnings(document: &Document, scenario: &Scenario) -> Vec<ConfigError> {
    large_record(document, scenario).into_iter().chain(too_far(document, scenario)).collect()
}

/// Values of time series that need a gigabyte: two numbers of eight bytes each.
const SAMPLES_MANY: f64 = 6.25e7;

/// A record that takes much memory.
fn large_record(document: &Document, scenario: &Scenario) -> Option<ConfigError> {
    let every = scenario.record.every?;
    let samples = scenario.duration.as_secs_f64() / every.as_secs_f64() * scenario.record.series.len() as f64;
    (samples > SAMPLES_MANY).then(|| {
        let message = format!(
            "{samples:.2e} values of time series: they take {:.1} GB of memory",
            samples * 16.0 / 1e9
        );
        document.at("record", "", &["every"], &message, "a longer interval, or fewer series")
    })
}

/// The first flow whose way has more routers than packets have hops to live.
fn too_far(document: &Document, scenario: &Scenario) -> Option<ConfigError> {
    let hops = usize::from(Packet::new(0, FlowId(0), 0).ttl);
    let routers = scenario.nodes.iter().filter(|node| node.kind == NodeKind::Router).count();
    if routers < hops {
        // Ways are long to find in large networks, and here none can be too long.
        return None;
    }
    let ways = lower::network(scenario).ways();
    let far = |way: &Vec<_>| way.len() > hops;
    let (index, way) =
        ways.iter().enumerate().find_map(|(index, ways)| Some((index, ways.iter().find(|way| far(way))?)))?;
    let count = ways.iter().filter(|ways| ways.iter().any(far)).count();
    let others = if count > 1 { format!(" (so it is for {count} flows)") } else { String::new() };
    let message = format!(
        "{} routers lie on its way, and a packet passes {} at most (its TTL): nothing arrives{others}",
        way.len() - 1,
        hops - 1
    );
    Some(document.at("flows", &scenario.flows[index].name, &[], &message, "a shorter way"))
}

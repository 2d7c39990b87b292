//! What is valid and hardly meant, whatever is promised: ways that no packet survives, links and queues that let none through, hosts
//! at which none begins, records that fill the memory.

use std::sync::Arc;

use tidegate_packet::{FlowId, Packet};
use tidegate_scenario::model::{
    Direction, EventChange, Flow, Link, Loss, Manager, NodeKind, Queue, Scenario, Transport,
};
use tidegate_scenario::{ConfigError, Document};
use tidegate_units::{Bytes, Limit};

use crate::{admission, lower};

/// What is to be said of the scenario of `document`.
pub(crate) fn warnings(document: &Document, scenario: &Scenario) -> Vec<ConfigError> {
    large_record(document, scenario)
        .into_iter()
        .chain(too_far(document, scenario))
        .chain(too_small(document, scenario))
        .chain(losing_all(document, scenario))
        .chain(too_late(document, scenario))
        .chain(alone(document, scenario))
        .chain(without_labels(document, scenario))
        .collect()
}

/// The first direction of a link of which `is` is true, with its name.
fn direction(link: &Link, is: impl Fn(&Direction) -> bool) -> Option<(&'static str, &Direction)> {
    [("forward", &*link.forward), ("reverse", &*link.reverse)].into_iter().find(|(_, one)| is(one))
}

/// How many more there are than the first.
fn and_more(count: usize) -> String {
    if count > 1 { format!(" (and {} more like it)", count - 1) } else { String::new() }
}

/// The first queue that never holds a packet of a flow over it.
fn too_small(document: &Document, scenario: &Scenario) -> Option<ConfigError> {
    let largest = scenario.flows.iter().map(packet).max()?;
    let mut limits: Vec<Option<Bytes>> = Vec::with_capacity(2 * scenario.links.len());
    let mut before: Option<(&Arc<Direction>, Option<Bytes>)> = None;
    for direction in scenario.links.iter().flat_map(|link| [&link.forward, &link.reverse]) {
        // Links of a repeat have one direction in common.
        let limit = match before {
            Some((known, limit)) if Arc::ptr_eq(known, direction) => limit,
            _ => limit_bytes(&direction.queue),
        };
        before = Some((direction, limit));
        limits.push(limit.filter(|&limit| limit < largest));
    }
    if limits.iter().all(Option::is_none) {
        // Ways are long to find in large networks.
        return None;
    }
    let ways = lower::network(scenario).ways();
    let mut small = scenario.flows.iter().zip(&ways).flat_map(|(flow, ways)| {
        let crossed = ways.iter().flatten().map(|id| id.index() as usize * 2 + usize::from(id.0 % 2 == 1));
        let limits = &limits;
        crossed.filter_map(move |at| {
            limits[at].filter(|&limit| limit < packet(flow)).map(|limit| (at, flow, limit))
        })
    });
    let (at, flow, limit) = small.next()?;
    let link = &scenario.links[at / 2];
    let way = ["forward", "reverse"][at % 2];
    let keys: &[&str] =
        if link.forward.queue == link.reverse.queue { &["queue", "limit"] } else { &[way, "queue", "limit"] };
    let message = format!(
        "the queue holds {limit} at most, and a packet of the flow `{}` has {}: none of them gets through",
        flow.name,
        packet(flow)
    );
    let help = "a limit of several packets, like `100p`";
    Some(document.at("links", &link.name, keys, &message, help))
}

/// A full data packet of a flow on the wire.
fn packet(flow: &Flow) -> Bytes {
    let said = admission::packet(flow);
    let default = if let Transport::Udp(udp) = &flow.transport { udp.packet } else { Bytes::ZERO };
    said.unwrap_or(default)
}

/// The limit of a queue where that is bytes: whatever is larger never joins it.
fn limit_bytes(queue: &Queue) -> Option<Bytes> {
    // As it is written: kinds are many, and each has a field of its own for it.
    let written = serde_json::to_value(queue).ok()?;
    match written.get("limit")?.as_str()?.parse() {
        Ok(Limit::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// The first link that loses every packet.
fn losing_all(document: &Document, scenario: &Scenario) -> Option<ConfigError> {
    let is_total = |direction: &Direction| match &direction.loss {
        Some(Loss::Random(random)) => random.probability >= 1.0,
        Some(Loss::Burst(burst)) => burst.loss_good >= 1.0 && burst.loss_bad >= 1.0,
        _ => false,
    };
    let mut total = scenario.links.iter().filter_map(|link| Some((link, direction(link, is_total)?.0)));
    let (link, way) = total.next()?;
    let keys: &[&str] = if link.forward.loss == link.reverse.loss { &["loss"] } else { &[way, "loss"] };
    let message = format!("every packet is lost here{}", and_more(1 + total.count()));
    Some(document.at("links", &link.name, keys, &message, "a probability below 1"))
}

/// The first link over which nothing arrives within the run.
fn too_late(document: &Document, scenario: &Scenario) -> Option<ConfigError> {
    let changes = |index: usize| {
        scenario.events.iter().any(|event| {
            matches!(event.change, EventChange::Link { link, delay: Some(_), .. } if link.index() == index)
        })
    };
    let mut late = scenario.links.iter().enumerate().filter_map(|(index, link)| {
        let (way, found) = direction(link, |one| one.delay >= scenario.duration)?;
        (!changes(index)).then_some((link, way, found.delay))
    });
    let (link, way, delay) = late.next()?;
    let message = format!(
        "what is sent arrives {delay} later, and the run ends after {}: nothing arrives{}",
        scenario.duration,
        and_more(1 + late.count())
    );
    let keys: &[&str] = if link.forward.delay == link.reverse.delay { &["delay"] } else { &[way, "delay"] };
    Some(document.at("links", &link.name, keys, &message, "a shorter delay, or a longer `duration`"))
}

/// The first host without a link.
fn alone(document: &Document, scenario: &Scenario) -> Option<ConfigError> {
    let mut is_linked = vec![false; scenario.nodes.len()];
    for link in &scenario.links {
        is_linked[link.a.index()] = true;
        is_linked[link.b.index()] = true;
    }
    let nodes = scenario.nodes.iter().zip(&is_linked);
    let mut alone = nodes.filter(|(node, linked)| node.kind == NodeKind::Host && !**linked);
    let (first, _) = alone.next()?;
    let message = format!("no link leads to the host `{}`{}", first.name, and_more(1 + alone.count()));
    let help = "a link to it, or take it out of `hosts`";
    Some(document.at("nodes", "", &["hosts"], &message, help))
}

/// The first queue that drops by labels, where no edge writes any.
fn without_labels(document: &Document, scenario: &Scenario) -> Option<ConfigError> {
    if scenario.domains.iter().any(|domain| domain.labels.is_some()) {
        return None;
    }
    let reads_labels = |of: &Direction| matches!(of.queue, Queue::Fifo(Manager::Csfq(_)));
    let mut readers = scenario.links.iter().filter(|link| direction(link, reads_labels).is_some());
    let first = readers.next()?;
    let message = format!(
        "csfq drops by the labels of packets, and no domain writes any{}: it is a drop-tail queue",
        and_more(1 + readers.count())
    );
    let help = "a domain around it with `labels = { kind = \"csfq\" }`, or a queue that needs none";
    Some(document.at("links", &first.name, &["queue"], &message, help))
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
duration = "10s"
nodes = { hosts = ["a", "b"], routers = ["r"] }
[links]
a-r = { between = ["a", "r"], rate = "1Gbit", delay = "1ms" }
r-b = { between = ["r", "b"], rate = "1Gbit", delay = "1ms" }
[flows]
one = { from = "a", to = "b", transport = "tcp" }
two = { from = "b", to = "a", transport = "udp", application = { kind = "cbr", rate = "1Mbit", packet = "9kB" } }
"#;

    fn found(set: &[&str]) -> Vec<String> {
        let mut document = Document::from_text("odd.toml", TEXT).expect("it reads");
        for one in set {
            document.set(one).expect("it sets");
        }
        let scenario = document.scenario().unwrap_or_else(|errors| panic!("{errors}"));
        let found = warnings(&document, &scenario);
        found.iter().map(|one| format!("{}: {}", one.path, one.message)).collect()
    }

    #[test]
    fn what_lets_nothing_through_is_named_where_it_is() {
        assert!(found(&[]).is_empty());
        for (set, said) in [
            (
                "links.r-b.queue.limit=1B",
                "links.r-b.queue.limit: the queue holds 1B at most, and a packet of the flow `one` has 1.5kB",
            ),
            (
                "links.r-b.reverse.queue={ kind = 'red', limit = '8kB' }",
                "links.r-b.reverse.queue.limit: the queue holds 8kB at most, and a packet of the flow `two` has 9kB",
            ),
            ("links.a-r.queue={ kind = 'drr', limit = '1kB' }", "links.a-r.queue.limit: the queue holds 1kB"),
            (
                "links.a-r.loss={ kind = 'random', probability = 1 }",
                "links.a-r.loss: every packet is lost here",
            ),
            (
                "links.a-r.forward.loss={ kind = 'random', probability = 1 }",
                "links.a-r.forward.loss: every packet",
            ),
            (
                "links.a-r.loss={ kind = 'burst', good_to_bad = 0.1, bad_to_good = 0.1, loss_good = 1 }",
                "links.a-r.loss: every",
            ),
            (
                "links.a-r.delay=10s",
                "links.a-r.delay: what is sent arrives 10s later, and the run ends after 10s",
            ),
            ("links.a-r.reverse.delay=1min", "links.a-r.reverse.delay: what is sent arrives 60s later"),
            (
                "nodes.hosts=['a', 'b', 'c', 'd']",
                "nodes.hosts: no link leads to the host `c` (and 1 more like it)",
            ),
            (
                "links.r-b.queue=csfq",
                "links.r-b.queue: csfq drops by the labels of packets, and no domain writes any: it is",
            ),
        ] {
            let found = found(&[set]);
            assert!(found.len() == 1 && found[0].starts_with(said), "{set}: {found:?}");
        }
        let both = found(&["links.a-r.delay=11s", "links.r-b.delay=12s"]);
        assert!(both.len() == 1 && both[0].ends_with("nothing arrives (and 1 more like it)"), "{both:?}");
    }

    #[test]
    fn what_lets_something_through_is_no_matter() {
        for set in [
            // Only the flow whose packets fit goes this way.
            "links.a-r.forward.queue={ kind = 'droptail', limit = '1500B' }",
            // A limit in time holds one packet at least.
            "links.a-r.queue={ kind = 'droptail', limit = '1us' }",
            "links.a-r.loss={ kind = 'burst', good_to_bad = 0.1, bad_to_good = 0.1 }",
            "links.a-r.loss={ kind = 'random', probability = 0.999 }",
            "links.a-r.delay=9999ms",
        ] {
            assert!(found(&[set]).is_empty(), "{set}: {:?}", found(&[set]));
        }
        let set = ["links.a-r.delay=10s", "events=[{ at = '1s', link = 'a-r', delay = '1ms' }]"];
        assert!(found(&set).is_empty(), "the delay changes");
    }
}

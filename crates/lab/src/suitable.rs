//! Defaults of queues that do not suit their link: the thresholds of RED and the bins of SFB are so many packets, however many
//! packets a round-trip time of the link holds.

use std::collections::BTreeMap;

use tidegate_engine::LinkId;
use tidegate_mechanism::queue::{RedConfig, SfbConfig};
use tidegate_scenario::model::{Application, Control, Direction, Link, Manager, Queue, Scenario, Transport};
use tidegate_scenario::{ConfigError, Document};
use tidegate_units::{Limit, Span};

use crate::lower;

/// With a round-trip time that holds more than so many times the room of a queue, 1 to 64 flows over Reno used 21 to 88 % of links
/// of 10 to 300 Mbit/s, and with up to 1.5 times 92 % and more (RED's defaults, ours; neither source has a law for it).
const ROUND_TRIP_OVER_ROOM: f64 = 5.0;
/// Memory for the bins of SFB that the advice begins with: those of the default take half of it.
const SFB_MEMORY: &str = "3kB";

/// What greedy TCP flows find at one direction of a link that is the slowest on their way.
#[derive(Default)]
struct Bottleneck {
    flows: usize,
    /// Sums over the flows: of the round-trip times without queues in seconds, of the packet sizes in bytes.
    rtt_s: f64,
    packet_bytes: f64,
    unresponsive: usize,
}

impl Bottleneck {
    fn rtt_s(&self) -> f64 {
        self.rtt_s / self.flows as f64
    }

    fn packet_bytes(&self) -> f64 {
        self.packet_bytes / self.flows as f64
    }
}

/// A queue whose defaults leave part of its link unused.
struct Small<'a> {
    link: &'a Link,
    design: &'static str,
    message: String,
    help: String,
}

/// The first link of each kind of queue whose defaults are too small for what flows over it.
pub(crate) fn warnings(document: &Document, scenario: &Scenario) -> Vec<ConfigError> {
    let is_default =
        |link: &Link| [&link.forward, &link.reverse].iter().any(|of| of_packets(&of.queue).is_some());
    if !scenario.links.iter().any(is_default) {
        // Ways are long to find in large networks.
        return Vec::new();
    }
    let small: Vec<Small> = bottlenecks(scenario)
        .iter()
        .filter_map(|(&id, found)| {
            let link = &scenario.links[id.index() as usize];
            small(link, direction(scenario, id), found)
        })
        .collect();
    let mut told = Vec::new();
    for design in ["red", "sfb"] {
        let mut of_kind = small.iter().filter(|one| one.design == design);
        let Some(first) = of_kind.next() else { continue };
        let others = match of_kind.count() {
            0 => String::new(),
            more => format!(" (and {more} more like it)"),
        };
        let message = format!("{}{others}", first.message);
        told.push(document.at("links", &first.link.name, &["queue"], &message, &first.help));
    }
    told
}

/// One direction of a link.
fn direction(scenario: &Scenario, id: LinkId) -> &Direction {
    let link = &scenario.links[id.index() as usize];
    if id.0.is_multiple_of(2) { &link.forward } else { &link.reverse }
}

/// By direction of a link: what flows over it and is held up nowhere more.
fn bottlenecks(scenario: &Scenario) -> BTreeMap<LinkId, Bottleneck> {
    let mut found: BTreeMap<LinkId, Bottleneck> = BTreeMap::new();
    for (flow, ways) in scenario.flows.iter().zip(lower::network(scenario).ways()) {
        let Some(way) = ways.first() else { continue };
        let Transport::Tcp(tcp) = &flow.transport else {
            for &id in way {
                found.entry(id).or_default().unresponsive += 1;
            }
            continue;
        };
        let is_reno_like = matches!(tcp.config.control, Control::Reno(_) | Control::Cubic(_));
        let is_greedy = matches!(flow.application, Application::Bulk(_));
        let Some(slowest) = way.iter().map(|&id| direction(scenario, id).rate).min() else { continue };
        if !(is_reno_like && is_greedy) {
            continue;
        }
        let both_ways = way.iter().map(|&id| &scenario.links[id.index() as usize]);
        let rtt_s: f64 =
            both_ways.map(|link| link.forward.delay.as_secs_f64() + link.reverse.delay.as_secs_f64()).sum();
        for &id in way.iter().filter(|&&id| direction(scenario, id).rate == slowest) {
            let bottleneck = found.entry(id).or_default();
            bottleneck.flows += 1;
            bottleneck.rtt_s += rtt_s;
            bottleneck.packet_bytes += tcp.config.packet().as_f64();
        }
    }
    found
}

/// What the defaults of a queue allow all flows together and each of them, in packets, and what designs better ones; none where
/// they are not the defaults.
fn of_packets(queue: &Queue) -> Option<(Limit, &'static str)> {
    let red = |config: &RedConfig| {
        let RedConfig { min, max, mode, slope_rtt, .. } = RedConfig::default();
        let is_default =
            (config.min, config.max, config.mode, config.slope_rtt) == (min, max, mode, slope_rtt);
        is_default.then_some((max, "red"))
    };
    match queue {
        Queue::Fifo(Manager::Red(config)) => red(config),
        Queue::Fifo(Manager::AdaptiveRed(config)) => red(&config.red),
        Queue::Fifo(Manager::RedPenaltyBox(config)) => red(&config.red),
        Queue::Fifo(Manager::Sfb(config)) => {
            let bin_size = SfbConfig::default().bin_size;
            (config.bin_size == bin_size).then_some((bin_size, "sfb"))
        }
        _ => None,
    }
}

fn small<'a>(link: &'a Link, direction: &Direction, found: &Bottleneck) -> Option<Small<'a>> {
    let (Limit::Packets(packets), design) = of_packets(&direction.queue)? else { return None };
    if found.flows == 0 {
        return None;
    }
    let held_bytes = direction.rate.as_bps_f64() / 8.0 * found.rtt_s();
    let held = held_bytes / found.packet_bytes();
    let room = f64::from(packets) * if design == "sfb" { found.flows as f64 } else { 1.0 };
    if held <= ROUND_TRIP_OVER_ROOM * room {
        return None;
    }
    let rtt = Span::from_micros((found.rtt_s() * 1e4).round() as u64 * 100);
    let about = if design == "sfb" {
        format!("bins hold {packets} packets of each flow")
    } else {
        format!("thresholds of RED end at {packets} packets")
    };
    let message = format!(
        "{about} by default, and a round trip of {rtt} at {} holds {held:.0}: TCP leaves part of this link unused",
        direction.rate
    );
    let packet = found.packet_bytes().round();
    let (rate, flows) = (direction.rate, found.flows);
    let help = if design == "sfb" {
        let limit = (2.0 * held_bytes / 1000.0).ceil();
        let others = found.unresponsive.max(1);
        format!(
            "`tidegate design sfb --flows {flows} --nonresponsive {others} --memory {SFB_MEMORY} --limit {limit:.0}kB \
             --packet {packet:.0}B` finds bins that suit it"
        )
    } else {
        format!(
            "`tidegate design red --rate {rate} --rtt {rtt} --flows {flows} --packet {packet:.0}B` finds thresholds that suit it"
        )
    };
    Some(Small { link, design, message, help })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
duration = "10s"
nodes = { hosts = ["a", "b", "c"], routers = ["r", "s"] }
[defaults]
link = { rate = "1Gbit", delay = "1ms" }
[links]
a-r = { between = ["a", "r"], queue = "red" }
b-r = { between = ["b", "r"] }
s-c = { between = ["s", "c"] }
r-s = { between = ["r", "s"], rate = "50Mbit", delay = "20ms", queue = "red" }
[flows]
one = { from = "a", to = "c", transport = "tcp" }
two = { from = "b", to = "c", transport = "tcp" }
noise = { from = "b", to = "c", transport = "udp", application = { kind = "cbr", rate = "1Mbit" } }
"#;

    fn found(set: &[&str]) -> Vec<ConfigError> {
        let mut document = Document::from_text("fast.toml", TEXT).expect("it reads");
        for one in set {
            document.set(one).expect("it sets");
        }
        let scenario = document.scenario().expect("it is valid");
        warnings(&document, &scenario)
    }

    #[test]
    fn thresholds_of_red_that_are_small_for_the_link_are_named_with_the_command_that_finds_others() {
        for kind in ["red", "adaptive-red", "red-penalty-box"] {
            let found = found(&[&format!("links.r-s.queue={kind}")]);
            assert_eq!(found.len(), 1, "the access link is not where packets wait: {found:?}");
            assert_eq!(found[0].path, "links.r-s.queue");
            // 44 ms at 50 Mbit/s are 275 kB.
            assert!(found[0].message.contains("holds 183"), "{}", found[0].message);
            let command = "`tidegate design red --rate 50Mbit --rtt 44ms --flows 2 --packet 1500B`";
            assert!(found[0].help.contains(command), "{}", found[0].help);
        }
        let found = found(&[]);
        assert_eq!((found[0].file.as_str(), found[0].line), ("fast.toml", 10));
    }

    #[test]
    fn bins_of_sfb_count_by_flow() {
        let found =
            |more: &[&str]| found(&[&["links.r-s.queue=sfb", "links.a-r.queue=droptail"], more].concat());
        let named = found(&[]);
        assert_eq!(named.len(), 1, "{named:?}");
        let command =
            "`tidegate design sfb --flows 2 --nonresponsive 1 --memory 3kB --limit 550kB --packet 1500B`";
        assert!(named[0].help.contains(command), "{}", named[0].help);
        let third = "flows.three={ from = \"a\", to = \"c\", transport = \"tcp\" }";
        assert!(found(&[third]).is_empty(), "183 packets are less than 5 times 39");
    }

    #[test]
    fn defaults_that_suit_and_values_that_were_chosen_are_no_matter() {
        // 75 packets of a round trip are 5 times 15; 44 ms hold them at 20.5 Mbit/s.
        assert!(found(&["links.r-s.rate=20.4Mbit"]).is_empty());
        assert_eq!(found(&["links.r-s.rate=20.5Mbit"]).len(), 1);
        assert!(found(&["links.r-s.queue={ kind = \"red\", max = \"16p\" }"]).is_empty());
        assert!(found(&["links.r-s.queue={ kind = \"red\", slope_rtt = \"60ms\" }"]).is_empty());
        assert!(found(&["links.r-s.queue={ kind = \"sfb\", bin_size = \"40p\" }"]).is_empty());
    }

    #[test]
    fn flows_that_do_not_fill_links_are_no_matter() {
        let control = |kind: &str| {
            ["one", "two"]
                .map(|flow| format!("flows.{flow}.transport={{ kind = \"tcp\", control = \"{kind}\" }}"))
        };
        for (kind, count) in [("cubic", 1), ("bbr", 0)] {
            let [one, two] = control(kind);
            assert_eq!(found(&[&one, &two]).len(), count, "{kind}");
        }
        let short = ["one", "two"]
            .map(|flow| format!("flows.{flow}.application={{ kind = \"transfer\", size = \"1MB\" }}"));
        assert!(found(&[&short[0], &short[1]]).is_empty());
    }

    #[test]
    fn one_warning_stands_for_all_links_of_a_kind() {
        let found = found(&["links.a-r.rate=50Mbit", "links.r-s.rate=50Mbit"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("(and 1 more like it)"), "{}", found[0].message);
    }
}

//! Whether what is promised fits: the reservations into each link, the bursts of marked packets into its queue, and a packet
//! into each token bucket; and whether somebody polices what a domain does not control.
//!
//! Source: Feng, sections 5.2.2 and 5.3.2. Admission by rate is what those sections assume of the network; the condition on the
//! buffer is theirs.
//! Deviations: committed rates of three-colour markers are promises as those of profiles. What one marker marked, the next on
//! the way marks anew: behind it its own promise counts, if it is the lesser or does not ask what came. Peak rates are what the
//! links before the queue let through ("the peak rate is set to the link speed by default", section 5.3), or the `peak` of a
//! profile. Queues within schedulers are not looked at.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidegate_engine::{LinkId, Network, NodeId, Path};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::mark::OutOfProfile;
use tidegate_mechanism::queue::{EredConfig, admits};
use tidegate_mechanism::tcp::congestion::ReservedConfig;
use tidegate_packet::Colour;
use tidegate_scenario::model::{
    Application, Control, Direction, Domain, Event, EventChange, Flow, FlowIndex, LinkState, Manager, Marker,
    Mechanism, Queue, ResolvedTcp, Scenario, Transport,
};
use tidegate_scenario::{ConfigError, Document};
use tidegate_units::{BitRate, Bytes, Limit};

use crate::{lower, plausible, suitable};

/// Something that is promised: a rate to some flows together.
struct Promise {
    flows: Vec<usize>,
    rate: BitRate,
    peak: Option<BitRate>,
    /// The node where it begins; else the hosts of the flows.
    at: Option<NodeId>,
    /// Whether it keeps only what comes marked.
    aware: bool,
}

/// What is marked on the way into one direction of a link.
#[derive(Default)]
struct Load {
    /// Positions in the list of promises.
    promises: HashSet<usize>,
    /// The directions from which it comes.
    from: HashSet<LinkId>,
    /// Whether some of it begins here.
    is_source: bool,
}

/// So many warnings are enough; to find the place of each goes through the whole file.
const WARNINGS_MAX: usize = 20;

/// What is to be said of the scenario of `document`, at most 20 things: nothing, if all that it promises fits.
pub fn warnings(document: &Document, scenario: &Scenario) -> Vec<ConfigError> {
    let mut odd = plausible::warnings(document, scenario);
    odd.extend(suitable::warnings(document, scenario));
    let promises = promises(scenario);
    if promises.is_empty()
        && scenario.markers.is_empty()
        && scenario.domains.iter().all(|d| exempt(d).is_empty())
    {
        return odd;
    }
    let network = lower::network(scenario);
    let ways = network.ways();
    let mut found: Vec<ConfigError> = odd
        .into_iter()
        .chain(dry(document, scenario))
        .chain(aside(document, scenario, &network, &ways))
        .chain(all_red(document, scenario))
        .chain(unwatched(document, scenario, &network, &ways))
        .take(WARNINGS_MAX)
        .collect();
    let loads = Ways::new(&network, &ways, &promises).loads();
    let mut crossed: Vec<LinkId> = loads.keys().copied().collect();
    crossed.sort_unstable_by_key(|link| link.0);
    for link in crossed {
        if found.len() >= WARNINGS_MAX {
            break;
        }
        let spec = &scenario.links[link.index() as usize];
        let direction = if link.0.is_multiple_of(2) { &spec.forward } else { &spec.reverse };
        let load = &loads[&link];
        let sum = total(load.promises.iter().map(|&promise| promises[promise].rate));
        if sum > direction.rate {
            let message = format!(
                "{sum} are promised over this link, and it carries {}: not all promises can be kept",
                direction.rate
            );
            found.push(document.at(
                "links",
                &spec.name,
                &["rate"],
                &message,
                "promise less, or make it faster",
            ));
        }
        if let Queue::Fifo(Manager::Ered(queue)) = &direction.queue
            && let Some((message, help)) = burst(queue, direction, peak(link, &loads, &promises, scenario))
        {
            found.push(document.at("links", &spec.name, &["queue", "max"], &message, &help));
        }
    }
    found
}

/// Token buckets that never hold enough for one packet: nothing is ever marked, and a policer drops everything.
fn dry<'a>(document: &'a Document, scenario: &'a Scenario) -> impl Iterator<Item = ConfigError> + 'a {
    let warn = |section, name: &str, keys: &[&str], depth: Bytes, packet: Bytes| {
        (depth < packet).then(|| {
            let message = format!(
                "this bucket holds {depth} at most, and a packet has {packet}: there are never tokens for one"
            );
            document.at(section, name, keys, &message, "a deeper bucket: room for two packets or more")
        })
    };
    let flows = scenario.flows.iter().enumerate().filter_map(move |(index, flow)| {
        let (tcp, reserved) = reservation(flow)?;
        let depth = most(scenario, index, reserved).bytes_in(reserved.depth);
        warn("flows", &flow.name, &["transport", "control", "depth"], depth, tcp.config.packet())
    });
    let markers = scenario.markers.iter().filter_map(move |marker| {
        let (key, depth) = match &marker.mechanism {
            Marker::Profile(profile) => match profile.depth {
                Limit::Bytes(bytes) => ("depth", bytes),
                Limit::Time(span) => ("depth", profile.rate.bytes_in(span)),
                Limit::Packets(_) => return None,
            },
            Marker::SingleRate(config) => ("committed_burst", config.committed_burst),
            Marker::TwoRates(config) => ("committed_burst", config.committed_burst),
            Marker::Engine(_) | Marker::Account(_) => return None,
        };
        let largest = marker.flows.iter().filter_map(|flow| packet(&scenario.flows[flow.index()])).max()?;
        warn("markers", &marker.name, &["mechanism", key], depth, largest)
    });
    flows.chain(markers)
}

/// Markers at nodes that none of their flows passes. Where links go down, flows may come by yet.
fn aside<'a>(
    document: &'a Document,
    scenario: &'a Scenario,
    network: &'a Network,
    ways: &'a [Vec<Path>],
) -> impl Iterator<Item = ConfigError> + 'a {
    let is_reroute =
        |event: &Event| matches!(event.change, EventChange::Link { state: Some(LinkState::Down), .. });
    let fixed = !scenario.events.iter().any(is_reroute);
    scenario.markers.iter().filter(move |_| fixed).filter_map(move |marker| {
        let at = lower::node_id(marker.at?);
        let leaves_from = |path: &Path| path.iter().any(|&link| network.near_end(link) == at);
        if marker.flows.iter().any(|flow| ways[flow.index()].iter().any(leaves_from)) {
            return None;
        }
        let name = &network.nodes[at.0 as usize].name;
        let message = format!("none of its flows goes on from `{name}`: it marks nothing");
        let help = "a node on their way, or none for the hosts that they start from";
        Some(document.at("markers", &marker.name, &["at"], &message, help))
    })
}

/// Markers that heed colours where nothing gives any: all that they see is red.
fn all_red<'a>(document: &'a Document, scenario: &'a Scenario) -> impl Iterator<Item = ConfigError> + 'a {
    let is_colourless = |flow: FlowIndex| {
        let of = &scenario.flows[flow.index()];
        let marks_itself = matches!(
            &of.transport,
            Transport::Tcp(tcp) if matches!(tcp.config.control, Control::Reserved(_) | Control::Marking(_))
        );
        of.dscp.colour() == Colour::Red && !marks_itself
    };
    // How many markers each flow has.
    let mut times = vec![0_usize; scenario.flows.len()];
    for flow in scenario.markers.iter().flat_map(|marker| &marker.flows) {
        times[flow.index()] += 1;
    }
    scenario.markers.iter().filter_map(move |marker| {
        let aware = match &marker.mechanism {
            Marker::SingleRate(config) => config.aware,
            Marker::TwoRates(config) => config.aware,
            Marker::Profile(_) | Marker::Engine(_) | Marker::Account(_) => false,
        };
        let hears_strangers = marker.has_all && scenario.nodes.iter().any(|node| node.is_real);
        if !aware || hears_strangers || marker.flows.is_empty() {
            return None;
        }
        let sees_red = marker.flows.iter().all(|&flow| is_colourless(flow) && times[flow.index()] == 1);
        if !sees_red {
            return None;
        }
        let message =
            "nothing gives its packets a colour before it, so that all are red, and it makes none better";
        let help = "`aware = false`: colours are given here";
        Some(document.at("markers", &marker.name, &["mechanism"], message, help))
    })
}

/// Codepoints that a domain does not control.
fn exempt(domain: &Domain) -> &[u8] {
    match &domain.mechanism {
        Mechanism::Edge(EdgeConfig::Nbp(nbp)) => &nbp.exempt,
        _ => &[],
    }
}

/// Flows that a domain does not control and that nobody else holds to a profile before they enter it.
fn unwatched<'a>(
    document: &'a Document,
    scenario: &'a Scenario,
    network: &'a Network,
    ways: &'a [Vec<Path>],
) -> impl Iterator<Item = ConfigError> + 'a {
    let of_domain = move |domain: &'a Domain| {
        let edges: Vec<NodeId> = domain.edges.iter().map(|&edge| lower::node_id(edge)).collect();
        let enters = move |path: &Path| {
            // The hops before the first edge, if there is one.
            path.iter().position(|&link| edges.contains(&network.near_end(link)))
        };
        let is_policed = |flow: usize, path: &Path, hops: usize| {
            let stands_before = |at: Option<NodeId>| {
                at.is_none_or(|at| path[..=hops].iter().any(|&link| network.near_end(link) == at))
            };
            let mut markers = scenario.markers.iter().filter(|marker| {
                marker.flows.iter().any(|of| of.index() == flow)
                    && stands_before(marker.at.map(lower::node_id))
            });
            markers.any(|marker| match &marker.mechanism {
                Marker::Profile(profile) => {
                    profile.beyond == OutOfProfile::Drop || !exempt(domain).contains(&profile.unmarked)
                }
                // They write codepoints of their own, each within its rate.
                Marker::SingleRate(_) | Marker::TwoRates(_) => true,
                Marker::Engine(_) | Marker::Account(_) => false,
            })
        };
        let claims =
            scenario.flows.iter().enumerate().filter(|(_, flow)| exempt(domain).contains(&flow.dscp.get()));
        claims.filter_map(move |(index, flow)| {
            let is_loose = |path: &Path| enters(path).is_some_and(|hops| !is_policed(index, path, hops));
            ways[index].iter().any(is_loose).then(|| {
                let message = format!(
                    "`{}` passes the edges of `{}` without control, and nothing polices it",
                    flow.name, domain.name
                );
                let help = "a marker that drops what exceeds a profile, before it enters; or exempt nothing";
                document.at("domains", &domain.name, &["mechanism", "exempt"], &message, help)
            })
        })
    };
    scenario.domains.iter().filter(|domain| !exempt(domain).is_empty()).flat_map(of_domain)
}

/// The reservation of a flow, if it has one, and its transport.
fn reservation(flow: &Flow) -> Option<(&ResolvedTcp, &ReservedConfig)> {
    let Transport::Tcp(tcp) = &flow.transport else { return None };
    let Control::Reserved(reserved) = &tcp.config.control else { return None };
    Some((tcp, reserved))
}

/// The most that the flow at `index` ever has reserved.
fn most(scenario: &Scenario, index: usize, reserved: &ReservedConfig) -> BitRate {
    let changed = scenario.events.iter().filter_map(|event| match event.change {
        EventChange::Reservation { flow: of, rate } if of.index() == index => Some(rate),
        _ => None,
    });
    changed.fold(reserved.rate, BitRate::max)
}

/// A full data packet of a flow on the wire, where that is one size.
pub(crate) fn packet(flow: &Flow) -> Option<Bytes> {
    match (&flow.transport, &flow.application) {
        (Transport::Tcp(tcp), _) => Some(tcp.config.packet()),
        (Transport::Media(media), _) => Some(media.packet()),
        (Transport::Udp(_), Application::Cbr(cbr)) => cbr.packet,
        (Transport::Udp(_), Application::Poisson(poisson)) => poisson.packet,
        (Transport::Udp(_), _) => None,
    }
}

/// What reservations and markers promise; of a reservation that changes, the most.
fn promises(scenario: &Scenario) -> Vec<Promise> {
    let mut promises = Vec::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        if let Some((_, reserved)) = reservation(flow) {
            let rate = most(scenario, index, reserved);
            promises.push(Promise { flows: vec![index], rate, peak: None, at: None, aware: false });
        }
    }
    for marker in &scenario.markers {
        let (rate, peak, aware) = match &marker.mechanism {
            Marker::Profile(profile) => (profile.rate, profile.peak, profile.aware),
            Marker::SingleRate(config) => (config.committed_rate, None, config.aware),
            Marker::TwoRates(config) => (config.committed_rate, None, config.aware),
            Marker::Engine(_) | Marker::Account(_) => continue,
        };
        let flows = marker.flows.iter().map(|flow| flow.index()).collect();
        promises.push(Promise { flows, rate, peak, at: marker.at.map(lower::node_id), aware });
    }
    promises
}

/// The ways of flows, with the promises on them.
struct Ways<'a> {
    network: &'a Network,
    /// By flow: its ways.
    paths: &'a [Vec<Path>],
    promises: &'a [Promise],
    /// By flow: the promises to it, in the order of the file.
    of_flow: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Ways<'a> {
    fn new(network: &'a Network, paths: &'a [Vec<Path>], promises: &'a [Promise]) -> Self {
        let mut of_flow: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, promise) in promises.iter().enumerate() {
            promise.flows.iter().for_each(|&flow| of_flow.entry(flow).or_default().push(number));
        }
        Self { network, paths, promises, of_flow }
    }

    /// The promises to `flow` that begin at the start of hop `hop` of `path`, in the order of the file.
    fn at(&self, flow: usize, path: &'a Path, hop: usize) -> impl Iterator<Item = usize> + '_ {
        let node = self.network.near_end(path[hop]);
        let begins = move |number: &usize| self.promises[*number].at.map_or(hop == 0, |at| at == node);
        self.of_flow[&flow].iter().copied().filter(begins)
    }

    /// Whether an aware marker leaves less than comes to it marked. What comes is the promise before it on each of its ways.
    fn binds(&self, number: usize) -> bool {
        let promise = &self.promises[number];
        let mut before: Vec<usize> = Vec::new();
        for &flow in &promise.flows {
            for path in &self.paths[flow] {
                let order: Vec<usize> = (0..path.len()).flat_map(|hop| self.at(flow, path, hop)).collect();
                let place = order.iter().position(|&other| other == number);
                before.extend(place.and_then(|place| place.checked_sub(1)).map(|place| order[place]));
            }
        }
        before.sort_unstable();
        before.dedup();
        promise.rate < total(before.iter().map(|&other| self.promises[other].rate))
    }

    /// By direction of a link, what is marked into it.
    fn loads(&self) -> HashMap<LinkId, Load> {
        let binding: Vec<bool> = (0..self.promises.len())
            .map(|number| !self.promises[number].aware || self.binds(number))
            .collect();
        let mut loads: HashMap<LinkId, Load> = HashMap::new();
        for &flow in self.of_flow.keys() {
            for path in &self.paths[flow] {
                let mut valid = None;
                for (hop, &link) in path.iter().enumerate() {
                    for number in self.at(flow, path, hop) {
                        let is_kept = self.promises[number].aware && (valid.is_none() || !binding[number]);
                        valid = if is_kept { valid } else { Some(number) };
                    }
                    let Some(number) = valid else { continue };
                    let load = loads.entry(link).or_default();
                    load.promises.insert(number);
                    if hop == 0 {
                        load.is_source = true;
                    } else {
                        load.from.insert(path[hop - 1]);
                    }
                }
            }
        }
        loads
    }
}

/// How fast marked packets may come to `link` at most: `sum r_p`.
fn peak(link: LinkId, loads: &HashMap<LinkId, Load>, promises: &[Promise], scenario: &Scenario) -> BitRate {
    let rate_of = |of: LinkId| {
        let spec = &scenario.links[of.index() as usize];
        if of.0.is_multiple_of(2) { spec.forward.rate } else { spec.reverse.rate }
    };
    let load = &loads[&link];
    // A host sends as fast as its own link.
    let own = if load.is_source { rate_of(link) } else { BitRate::ZERO };
    let by_links = total(load.from.iter().map(|&before| rate_of(before)).chain([own]));
    let peaks: Option<Vec<BitRate>> = load.promises.iter().map(|&promise| promises[promise].peak).collect();
    peaks.map_or(by_links, |peaks| total(peaks).min(by_links))
}

fn total(rates: impl IntoIterator<Item = BitRate>) -> BitRate {
    BitRate::from_bps(rates.into_iter().fold(0, |sum, rate| u64::saturating_add(sum, rate.as_bps())))
}

/// What is wrong with a queue to which marked packets come at `peak`, if anything is, and what to do.
fn burst(queue: &EredConfig, direction: &Direction, peak: BitRate) -> Option<(String, String)> {
    let link = direction.rate;
    let bytes = |limit: Limit| match limit {
        Limit::Packets(packets) => u64::from(packets).saturating_mul(queue.mean_packet.get()),
        Limit::Bytes(bytes) => bytes.get(),
        Limit::Time(span) => link.bytes_in(span).get(),
    };
    let (max, limit) = (bytes(queue.max), bytes(queue.limit));
    // What is reserved for marked packets is theirs whatever the average says.
    let unmarked = queue.unmarked_limit.map_or(max, |own| bytes(own).min(max));
    if admits(&[peak], link, unmarked, limit) {
        return None;
    }
    let ratio = peak.as_bps_f64() / link.as_bps_f64();
    let needed = (unmarked as f64 * ratio).ceil() / queue.mean_packet.as_f64();
    let fits = (limit as f64 / ratio).floor() / queue.mean_packet.as_f64();
    let message = format!(
        "marked packets may come at {peak} to a link of {link} while up to {} unmarked ones drain, and some are lost then",
        queue.max
    );
    let help = format!(
        "`limit` of {:.0}p or more, or `max` of {:.0}p or less: (P - L) max / L must fit above `max` (`tidegate design ered`)",
        needed.ceil(),
        fits.floor()
    );
    Some((message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
duration = "10s"
nodes = { hosts = ["a", "b", "c"], routers = ["r", "s"] }
[defaults]
link = { rate = "20Mbit", delay = "1ms" }
[links]
a-r = { between = ["a", "r"] }
b-r = { between = ["b", "r"] }
s-c = { between = ["s", "c"] }
[links.r-s]
between = ["r", "s"]
rate = "10Mbit"
queue = { kind = "ered", limit = "LIMIT", min = "20p", max = "80p" }
[flows.one]
from = "a"
to = "c"
transport = { kind = "tcp", control = { kind = "reserved", rate = "RATE" } }
[flows.two]
from = "b"
to = "c"
transport = "tcp"
"#;

    fn found(limit: &str, rate: &str, set: &[&str]) -> Vec<ConfigError> {
        let text = TEXT.replace("LIMIT", limit).replace("RATE", rate);
        let mut document = Document::from_text("promise.toml", &text).expect("it reads");
        for one in set {
            document.set(one).expect("it sets");
        }
        let scenario = document.scenario().expect("it is valid");
        warnings(&document, &scenario)
    }

    #[test]
    fn a_buffer_that_does_not_hold_the_burst_is_named_with_its_place_and_a_remedy() {
        let found = found("100p", "4Mbit", &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        let warning = &found[0];
        assert_eq!((warning.file.as_str(), warning.line), ("promise.toml", 13));
        assert_eq!(warning.path, "links.r-s.queue.max");
        assert!(warning.message.contains("20Mbit to a link of 10Mbit"), "{}", warning.message);
        assert!(warning.help.contains("160p or more, or `max` of 50p or less"), "{}", warning.help);
    }

    #[test]
    fn a_bucket_that_never_holds_a_packet_is_named() {
        // 50 ms of 100 kbit/s are 625 bytes.
        let warnings = found("160p", "100kbit", &[]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].path, "flows.one.transport.control.depth");
        assert!(
            warnings[0].message.contains("625B at most, and a packet has 1.5kB"),
            "{}",
            warnings[0].message
        );
        assert_eq!(warnings[0].line, 17);
        let marker =
            "markers.m={ flows = [\"two\"], mechanism = { kind = \"profile\", rate = \"200kbit\" } }";
        let of_marker = found("400p", "4Mbit", &[marker]);
        assert_eq!(of_marker.len(), 1, "{of_marker:?}");
        assert_eq!(of_marker[0].path, "markers.m.mechanism.depth");
    }

    #[test]
    fn what_is_exempt_from_control_and_not_policed_is_named() {
        let domain = "domains.net={ edges = [\"r\", \"s\"], mechanism = { kind = \"nbp\", exempt = [46] } }";
        assert!(found("160p", "4Mbit", &[domain]).is_empty(), "no flow claims it");
        let loose = found("160p", "4Mbit", &[domain, "flows.two.dscp=46"]);
        assert_eq!(loose.len(), 1, "{loose:?}");
        assert_eq!(loose[0].path, "domains.net.mechanism.exempt");
        assert!(loose[0].message.contains("`two` passes the edges of `net`"), "{}", loose[0].message);
        let policer = "markers.m={ flows = [\"two\"], mechanism = { kind = \"profile\", rate = \"1Mbit\", depth = \"3kB\", beyond = \"drop\", marked = 46 } }";
        let policed = found("400p", "4Mbit", &[domain, "flows.two.dscp=46", policer]);
        assert!(policed.is_empty(), "{policed:?}");
    }

    #[test]
    fn what_the_thesis_calls_enough_is_enough() {
        // (20 - 10) 80 / 10 = 80 fit above 80.
        assert!(found("160p", "4Mbit", &[]).is_empty());
        assert_eq!(found("159p", "4Mbit", &[]).len(), 1);
        assert!(found("100p", "4Mbit", &["links.a-r.rate=12.5Mbit"]).is_empty());
    }

    #[test]
    fn more_promised_than_a_link_carries_is_said_of_each_link() {
        let found = found("160p", "12Mbit", &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "links.r-s.rate");
        assert!(found[0].message.contains("12Mbit are promised"), "{}", found[0].message);
    }

    #[test]
    fn both_access_links_count_where_both_promise() {
        let control =
            "flows.two.transport={ kind = \"tcp\", control = { kind = \"reserved\", rate = \"1Mbit\" } }";
        assert_eq!(found("160p", "4Mbit", &[control]).len(), 1);
        assert!(found("320p", "4Mbit", &[control]).is_empty());
    }

    #[test]
    fn a_profile_with_a_peak_bounds_the_burst() {
        let plain = "flows.one.transport=tcp";
        let profile = |peak: &str| {
            format!(
                "markers={{ m = {{ flows = [\"one\"], mechanism = {{ kind = \"profile\", rate = \"4Mbit\", peak = \"{peak}\" }} }} }}"
            )
        };
        assert!(found("100p", "4Mbit", &[plain, &profile("12Mbit")]).is_empty());
        assert_eq!(found("100p", "4Mbit", &[plain, &profile("15Mbit")]).len(), 1);
    }

    /// A marker `m` of flow `one` at `at`.
    fn marker(name: &str, at: &str, mechanism: &str) -> String {
        format!("markers.{name}={{ flows = [\"one\"], at = \"{at}\", mechanism = {{ {mechanism} }} }}")
    }

    #[test]
    fn what_is_marked_again_is_promised_once_and_from_there_on() {
        let again = marker("m", "r", "kind = \"profile\", rate = \"6Mbit\", aware = true");
        assert!(found("160p", "6Mbit", &[&again]).is_empty(), "not 12 Mbit/s of 10");
        let behind = marker("m", "s", "kind = \"profile\", rate = \"12Mbit\"");
        let plain = "flows.one.transport=tcp";
        assert!(found("160p", "4Mbit", &[plain, &behind]).is_empty(), "r-s lies before it");
        let before = marker("m", "r", "kind = \"profile\", rate = \"12Mbit\"");
        let warnings = found("160p", "4Mbit", &[plain, &before]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].path, "links.r-s.rate");
    }

    #[test]
    fn committed_rates_of_three_colour_markers_are_promises() {
        let plain = "flows.one.transport=tcp";
        let colours = |rate: &str, burst: &str, aware: bool| {
            let mechanism = format!(
                "kind = \"srtcm\", committed_rate = \"{rate}\", committed_burst = \"{burst}\", excess_burst = \"0B\", aware = {aware}"
            );
            found("160p", "4Mbit", &[plain, &marker("m", "r", &mechanism)])
        };
        assert!(colours("4Mbit", "20kB", false).is_empty());
        assert_eq!(colours("15Mbit", "20kB", false)[0].path, "links.r-s.rate");
        let aware: Vec<String> = colours("15Mbit", "20kB", true).into_iter().map(|told| told.path).collect();
        assert_eq!(aware, ["markers.m.mechanism"], "nothing comes green, so nothing is promised");
        assert_eq!(colours("4Mbit", "500B", false)[0].path, "markers.m.mechanism.committed_burst");
    }

    #[test]
    fn an_aware_marker_promises_no_more_than_comes_and_bounds_all_its_flows_together() {
        let two =
            "flows.two.transport={ kind = \"tcp\", control = { kind = \"reserved\", rate = \"6Mbit\" } }";
        let both = |rate: &str| {
            format!(
                "markers.m={{ flows = [\"one\", \"two\"], at = \"r\", mechanism = {{ kind = \"profile\", rate = \"{rate}\", aware = true }} }}"
            )
        };
        assert_eq!(found("400p", "6Mbit", &[two])[0].path, "links.r-s.rate");
        assert!(found("400p", "6Mbit", &[two, &both("8Mbit")]).is_empty());
        assert_eq!(found("400p", "6Mbit", &[two, &both("11Mbit")])[0].path, "links.r-s.rate");
        assert!(found("400p", "1Mbit", &[&both("15Mbit")]).is_empty(), "one comes, of 15 that may");
    }

    #[test]
    fn a_marker_that_heeds_colours_where_nothing_gives_any_is_named() {
        let bursts = "committed_rate = \"1Mbit\", committed_burst = \"20kB\", excess_burst = \"20kB\"";
        let plain = "flows.one.transport=tcp";
        let of = |aware: &str| marker("m", "a", &format!("kind = \"srtcm\", {bursts}{aware}"));
        let warnings = found("160p", "4Mbit", &[plain, &of("")]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].path, "markers.m.mechanism");
        assert!(found("160p", "4Mbit", &[plain, &of(", aware = false")]).is_empty());
        assert!(found("160p", "4Mbit", &[plain, &of(""), "flows.one.dscp=10"]).is_empty(), "AF11 is green");
        assert!(found("160p", "4Mbit", &[&of("")]).is_empty(), "the transport marks what it reserved");
        let before = marker("before", "a", "kind = \"profile\", rate = \"1Mbit\"");
        assert!(found("160p", "4Mbit", &[plain, &of(""), &before]).is_empty());
    }

    #[test]
    fn a_marker_beside_the_way_is_named() {
        let aside = marker("m", "b", "kind = \"profile\", rate = \"1Mbit\"");
        let warnings = found("160p", "4Mbit", &[&aside]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].path, "markers.m.at");
        let down = "events=[{ at = \"1s\", link = \"a-r\", state = \"down\" }]";
        assert!(found("160p", "4Mbit", &[&aside, down]).is_empty(), "it may lie on the way then");
    }

    #[test]
    fn without_promises_there_is_nothing_to_say() {
        assert!(found("100p", "4Mbit", &["flows.one.transport=tcp"]).is_empty());
    }
}

//! What is recorded: patterns become a list of quantities.

use std::collections::HashSet;

use tidegate_units::Span;

use super::Site;
use super::domains::Domains;
use super::elements::Names;
use super::flows::Flows;
use super::links::Links;
use super::markers::Markers;
use super::misplaced::{self, Thing};
use super::raw::RecordText;
use crate::error::Problems;
use crate::fault::shortened;
use tidegate_mechanism::Variable;
use tidegate_mechanism::edge::EdgeConfig;

use crate::model::Flow;
use crate::model::{
    DelayOf, DomainIndex, DomainQuantity, FlowCounter, FlowIndex, FlowQuantity, FluidIndex, FluidQuantity,
    Link, LinkIndex, LinkQuantity, Manager, Marker, MarkerIndex, MarkerQuantity, Mechanism, Queue, Record,
    Series, Transport, Way,
};
use crate::suggest;
use crate::template::Scope;
use crate::tree::Table;

/// The interval of time series that do not say.
const EVERY: Span = Span::from_millis(100);
/// Values that all series of a run may have together.
const VALUES_MAX: u64 = 1_000_000_000;
/// Patterns of one list.
const PATTERNS_MAX: usize = 1_000;
/// Names that all patterns may be compared with.
pub(crate) const COMPARISONS_MAX: u64 = 50_000_000;
/// Series, and delays, of a run.
const CHOSEN_MAX: usize = 4_000_000;

/// What patterns can name.
#[derive(Clone, Copy)]
pub(crate) struct Known<'k> {
    pub(crate) links: &'k Links,
    pub(crate) flows: &'k Flows,
    pub(crate) domains: &'k Domains,
    pub(crate) markers: &'k Markers,
    pub(crate) duration: Span,
}

/// What is wrong with a pattern, and help.
type Wrong = (String, String);

/// Reads `[record]`. Everything else was understood.
pub(crate) fn read(table: &Table, known: &Known<'_>, scope: &Scope<'_>, problems: &mut Problems) -> Record {
    let mut record = Record::default();
    let Some(tree) = table.get("record") else { return record };
    let site = Site { tree, section: "", name: "record" };
    let Some(text) = misplaced::read::<RecordText>(site, (Thing::File, &["record"]), scope, problems) else {
        return record;
    };
    let mut left = COMPARISONS_MAX;
    for (key, patterns) in [("series", &text.series), ("delays", &text.delays)] {
        if patterns.len() > PATTERNS_MAX {
            problems.push(site.problem(&[key], format!("more than {PATTERNS_MAX} patterns"), ""));
            return record;
        }
    }
    (record.waste, record.max_min, record.state) = (text.waste, text.max_min, text.state);
    let mut chosen = HashSet::new();
    for (position, pattern) in text.series.iter().enumerate() {
        match series(pattern, known, &mut left) {
            Ok(found) => record.series.extend(found.into_iter().filter(|one| chosen.insert(*one))),
            Err((message, help)) => {
                problems.push(site.problem(&["series", &position.to_string()], message, help));
            }
        }
        if record.series.len() > CHOSEN_MAX {
            let message = format!("more than {CHOSEN_MAX} time series");
            problems.push(site.problem(&["series"], message, "name fewer"));
            return Record::default();
        }
    }
    let mut chosen_delays = HashSet::new();
    for (position, pattern) in text.delays.iter().enumerate() {
        match delays(pattern, known, &mut left) {
            Ok(found) => record.delays.extend(found.into_iter().filter(|one| chosen_delays.insert(*one))),
            Err((message, help)) => {
                problems.push(site.problem(&["delays", &position.to_string()], message, help));
            }
        }
    }
    check_every(site, &text, known.duration, &mut record, problems);
    record
}

fn check_every(
    site: Site<'_>,
    text: &RecordText,
    duration: Span,
    record: &mut Record,
    problems: &mut Problems,
) {
    let every = text.every.unwrap_or(EVERY);
    if every.is_zero() {
        problems.push(site.problem(&["every"], "an interval of no length never ends", ""));
        return;
    }
    if record.series.is_empty() {
        return;
    }
    if every > duration && !duration.is_zero() {
        if text.every.is_some() {
            let message =
                format!("an interval of {every} is longer than the run of {duration}: no value is taken");
            problems.push(site.problem(&["every"], message, "a shorter interval"));
        }
        record.every = Some(duration);
        return;
    }
    let values = (duration.as_nanos() / every.as_nanos()).saturating_mul(record.series.len() as u64);
    if values > VALUES_MAX {
        let message =
            format!("{} series every {every} for {duration} are {values} values", record.series.len());
        let help = format!("at most {VALUES_MAX}: a longer interval or fewer series");
        problems.push(site.problem(&["every"], message, help));
    }
    record.every = Some(every);
}

/// The series that a pattern names: at least one.
fn series(pattern: &str, known: &Known<'_>, left: &mut u64) -> Result<Vec<Series>, Wrong> {
    let parts: Vec<&str> = pattern.split('.').collect();
    let found: Vec<Series> = match parts.as_slice() {
        ["flows", name, quantity] => {
            let quantities = choose(quantity, &FlowQuantity::all(), FlowQuantity::name)?;
            let flows = matching(&known.flows.names, name, "flow", left)?;
            let all = cross(&flows, &quantities);
            having(all, |(index, what)| has(&known.flows.list[index as usize], what))
                .map(|(index, what)| Series::Flow(FlowIndex(index), what))
                .collect()
        }
        ["fluids", name, quantity] => {
            let quantities = choose(quantity, FluidQuantity::ALL, FluidQuantity::name)?;
            let fluids = matching(&known.flows.fluid_names, name, "fluid", left)?;
            cross(&fluids, &quantities).map(|(index, what)| Series::Fluid(FluidIndex(index), what)).collect()
        }
        ["links", name, quantity] | ["links", name, "forward", quantity] => {
            link_series(name, Way::Forward, quantity, known, left)?
        }
        ["links", name, "bin", level, bin, "p_m"] | ["links", name, "forward", "bin", level, bin, "p_m"] => {
            bin_series(name, Way::Forward, [level, bin], known, left)?
        }
        ["links", name, "reverse", "bin", level, bin, "p_m"] => {
            bin_series(name, Way::Reverse, [level, bin], known, left)?
        }
        ["links", name, "reverse", quantity] => link_series(name, Way::Reverse, quantity, known, left)?,
        ["links", name, "flows", flow, "throughput_bps"]
        | ["links", name, "forward", "flows", flow, "throughput_bps"] => {
            link_flows(name, Way::Forward, flow, known, left)?
        }
        ["links", name, "reverse", "flows", flow, "throughput_bps"] => {
            link_flows(name, Way::Reverse, flow, known, left)?
        }
        ["links", name, "classes", class, "throughput_bps"] => {
            link_classes(name, Way::Forward, class, known, left)?
        }
        ["links", name, "reverse", "classes", class, "throughput_bps"] => {
            link_classes(name, Way::Reverse, class, known, left)?
        }
        ["domains", domain, flow, quantity] => {
            let quantities = choose(quantity, DomainQuantity::ALL, DomainQuantity::name)?;
            let domains = matching(&known.domains.names, domain, "domain", left)?;
            let flows = matching(&known.flows.names, flow, "flow", left)?;
            let all = domains
                .iter()
                .flat_map(|at| cross(&flows, &quantities).map(move |(index, what)| (*at, index, what)));
            having(all, |(at, _, what)| measures(&known.domains.list[at as usize].mechanism, what))
                .map(|(at, index, what)| Series::Domain(DomainIndex(at), FlowIndex(index), what))
                .collect()
        }
        ["markers", name, quantity] => {
            let quantities = choose(quantity, &MarkerQuantity::all(), MarkerQuantity::name)?;
            let markers = matching(&known.markers.names, name, "marker", left)?;
            let all = cross(&markers, &quantities);
            having(all, |(index, what)| marks(&known.markers.list[index as usize].mechanism, what))
                .map(|(index, what)| Series::Marker(MarkerIndex(index), what))
                .collect()
        }
        _ => {
            let message = format!("`{}` is no pattern of a time series", shortened(pattern));
            let help = "flows.NAME.QUANTITY, links.NAME.QUANTITY, links.NAME.reverse.QUANTITY, \
                        links.NAME.bin.LEVEL.BIN.p_m (SFB), links.NAME.flows.FLOW.throughput_bps, \
                        links.NAME.classes.CLASS.throughput_bps, \
                        domains.DOMAIN.FLOW.QUANTITY, markers.NAME.QUANTITY, fluids.NAME.QUANTITY";
            return Err((message, help.to_owned()));
        }
    };
    if found.is_empty() {
        let message = format!("`{}` matches nothing", shortened(pattern));
        let help = "bins are numbered from 0, and so are classes: those that a flow has";
        return Err((message, help.to_owned()));
    }
    Ok(found)
}

fn link_series(
    name: &str,
    way: Way,
    quantity: &str,
    known: &Known<'_>,
    left: &mut u64,
) -> Result<Vec<Series>, Wrong> {
    let quantities = choose(quantity, &LinkQuantity::all(), LinkQuantity::name)?;
    let links = matching(&known.links.names, name, "link", left)?;
    // The router that sends over the link may control what goes there.
    let is_controlled = |link: &Link, variable: &str| {
        let sender = if way == Way::Forward { link.a } else { link.b };
        known.domains.list.iter().any(|domain| {
            let has_it = domain.mechanism.hop().is_some_and(|hop| names(hop.variables(), variable));
            has_it && domain.edges.iter().chain(&domain.core).any(|node| *node == sender)
        })
    };
    let knows_it = |(link, what): (u32, LinkQuantity)| {
        let link = &known.links.list[link as usize];
        match what {
            LinkQuantity::Counted(_) => true,
            LinkQuantity::Queue(variable) => names(link.direction(way).queue.variables(), variable),
            LinkQuantity::Hop(variable) => is_controlled(link, variable),
        }
    };
    Ok(having(cross(&links, &quantities), knows_it)
        .map(|(link, what)| Series::Link(LinkIndex(link), way, what))
        .collect())
}

/// The bins of SFB whose numbers match the patterns of level and bin.
fn bin_series(
    name: &str,
    way: Way,
    [level_pattern, bin_pattern]: [&str; 2],
    known: &Known<'_>,
    left: &mut u64,
) -> Result<Vec<Series>, Wrong> {
    let mut found = Vec::new();
    for link in matching(&known.links.names, name, "link", left)? {
        let Queue::Fifo(Manager::Sfb(sfb)) = &known.links.list[link as usize].direction(way).queue else {
            // As in `having`: a bin that another variant has.
            if let (Ok(level), Ok(bin)) = (level_pattern.parse(), bin_pattern.parse()) {
                found.push(Series::Bin(LinkIndex(link), way, level, bin));
            }
            continue;
        };
        let numbers = |pattern: &str, count: u32, budget: &mut u64| -> Result<Vec<u32>, Wrong> {
            *budget = budget.checked_sub(u64::from(count)).ok_or_else(|| {
                (
                    "the patterns before this one already matched too many names".to_owned(),
                    "use fewer".to_owned(),
                )
            })?;
            Ok((0..count).filter(|number| glob(pattern, &number.to_string())).collect())
        };
        let bins = numbers(bin_pattern, sfb.bins, left)?;
        for level in numbers(level_pattern, sfb.levels, left)? {
            found.extend(bins.iter().map(|bin| Series::Bin(LinkIndex(link), way, level, *bin)));
        }
        if found.len() > CHOSEN_MAX {
            break;
        }
    }
    Ok(found)
}

fn link_flows(
    name: &str,
    way: Way,
    flow: &str,
    known: &Known<'_>,
    left: &mut u64,
) -> Result<Vec<Series>, Wrong> {
    let links = matching(&known.links.names, name, "link", left)?;
    let flows = matching(&known.flows.names, flow, "flow", left)?;
    Ok(cross(&links, &flows)
        .map(|(link, index)| Series::LinkFlow(LinkIndex(link), way, FlowIndex(index)))
        .take(CHOSEN_MAX + 1)
        .collect())
}

/// The classes of flows whose numbers match the pattern.
fn link_classes(
    name: &str,
    way: Way,
    pattern: &str,
    known: &Known<'_>,
    left: &mut u64,
) -> Result<Vec<Series>, Wrong> {
    let links = matching(&known.links.names, name, "link", left)?;
    let classes: std::collections::BTreeSet<u8> = known.flows.list.iter().map(|flow| flow.class).collect();
    let classes: Vec<u8> = classes.into_iter().filter(|class| glob(pattern, &class.to_string())).collect();
    Ok(cross(&links, &classes)
        .map(|(link, class)| Series::LinkClass(LinkIndex(link), way, class))
        .take(CHOSEN_MAX + 1)
        .collect())
}

/// Where delays are wanted: at least one place.
fn delays(pattern: &str, known: &Known<'_>, left: &mut u64) -> Result<Vec<DelayOf>, Wrong> {
    let parts: Vec<&str> = pattern.split('.').collect();
    let (name, way) = match parts.as_slice() {
        ["flows", name] => {
            let flows = matching(&known.flows.names, name, "flow", left)?;
            return Ok(flows.into_iter().map(|flow| DelayOf::Flow(FlowIndex(flow))).collect());
        }
        ["links", name] | ["links", name, "forward"] => (name, Way::Forward),
        ["links", name, "reverse"] => (name, Way::Reverse),
        _ => {
            let message = format!("`{}` is no pattern for delays", shortened(pattern));
            return Err((message, "flows.NAME, links.NAME, links.NAME.reverse".to_owned()));
        }
    };
    let links = matching(&known.links.names, name, "link", left)?;
    Ok(links.into_iter().map(|link| DelayOf::Link(LinkIndex(link), way)).collect())
}

/// Those of `all` that have a quantity. If none has it, all of them, as series of NaN: another variant of an experiment, with
/// another queue or mechanism, may have it, and figures and programs find the same series in each. No more than are refused.
fn having<T: Copy>(all: impl Iterator<Item = T> + Clone, has: impl Fn(T) -> bool) -> impl Iterator<Item = T> {
    let some_have = all.clone().any(&has);
    all.filter(move |one| !some_have || has(*one)).take(CHOSEN_MAX + 1)
}

fn cross<'c, Q: Copy>(
    elements: &'c [u32],
    quantities: &'c [Q],
) -> impl Iterator<Item = (u32, Q)> + Clone + 'c {
    elements.iter().flat_map(|element| quantities.iter().map(move |quantity| (*element, *quantity)))
}

/// Whether `name` is one of these.
fn names(variables: &[Variable], name: &str) -> bool {
    variables.iter().any(|variable| variable.name == name)
}

/// Whether `flow` has the quantity.
fn has(flow: &Flow, quantity: FlowQuantity) -> bool {
    let (inner, is_tcp) = match &flow.transport {
        // One connection after another has no window.
        Transport::Tcp(_) if flow.application.places().is_some() => {
            return match quantity {
                FlowQuantity::Inner(name) => flow.application.variables().contains(&name),
                FlowQuantity::Counted(counter) => !is_of_a_window(counter),
            };
        }
        Transport::Tcp(tcp) => (tcp.config.control.variables(), true),
        Transport::Media(media) => (media.variables(), false),
        Transport::Udp(_) => (&[][..], false),
    };
    let counter = match quantity {
        FlowQuantity::Inner(name) => return names(inner, name),
        FlowQuantity::Counted(counter) => counter,
    };
    !is_of_a_window(counter) || is_tcp || names(inner, counter.name())
}

/// Whether it is known of a sender that hears of what arrives.
const fn is_of_a_window(counter: FlowCounter) -> bool {
    matches!(
        counter,
        FlowCounter::Cwnd
            | FlowCounter::CwndSegments
            | FlowCounter::Ssthresh
            | FlowCounter::InFlight
            | FlowCounter::SmoothedRtt
            | FlowCounter::Rto
            | FlowCounter::Retransmissions
            | FlowCounter::Timeouts
    )
}

/// Whether the edges of a domain know the quantity.
const fn measures(mechanism: &Mechanism, quantity: DomainQuantity) -> bool {
    match (mechanism, quantity) {
        (Mechanism::None(_) | Mechanism::Hop(_), _) => false,
        (Mechanism::Edge(EdgeConfig::Iec(_) | EdgeConfig::Eec(_) | EdgeConfig::Path(_)), _) => true,
        (
            Mechanism::Edge(
                EdgeConfig::Nbp(_) | EdgeConfig::Autorate(_) | EdgeConfig::Fixed(_) | EdgeConfig::Own(_),
            ),
            quantity,
        ) => !matches!(quantity, DomainQuantity::Accumulation | DomainQuantity::Epoch),
    }
}

/// Whether a marker has the quantity.
fn marks(marker: &Marker, quantity: MarkerQuantity) -> bool {
    match quantity {
        MarkerQuantity::Counted(_) => true,
        MarkerQuantity::Inner(name) => names(marker.variables(), name),
    }
}

/// The quantities whose names match a pattern: at least one.
fn choose<Q: Copy>(pattern: &str, all: &[Q], name: impl Fn(Q) -> &'static str) -> Result<Vec<Q>, Wrong> {
    let found: Vec<Q> = all.iter().copied().filter(|one| glob(pattern, name(*one))).collect();
    if found.is_empty() {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        let message = format!("there is no quantity `{}`", shortened(pattern));
        return Err((message, suggest::help(pattern, &names)));
    }
    Ok(found)
}

/// The elements whose names match a pattern: at least one.
pub(crate) fn matching(names: &Names, pattern: &str, what: &str, left: &mut u64) -> Result<Vec<u32>, Wrong> {
    if !pattern.contains(['*', '?']) {
        return match names.get(pattern) {
            Some(index) => Ok(vec![index]),
            None => Err((format!("there is no {what} `{}`", shortened(pattern)), names.suggest(pattern))),
        };
    }
    // A comparison costs the product of the lengths at worst.
    let cost = (names.len() as u64).saturating_mul(1 + pattern.len() as u64 / 16);
    *left = left.checked_sub(cost).ok_or_else(|| {
        ("the patterns before this one already matched too many names".to_owned(), "use fewer".to_owned())
    })?;
    let found: Vec<u32> =
        names.iter().zip(0..).filter(|(name, _)| glob(pattern, name)).map(|(_, index)| index).collect();
    if found.is_empty() {
        return Err((format!("no {what} matches `{}`", shortened(pattern)), String::new()));
    }
    Ok(found)
}

/// Whether `name` matches `pattern`, where `*` is any run of characters and `?` any one character.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (&[u8], &[u8]) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                // The star takes one byte more, and the rest is tried again.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_runs_and_single_characters() {
        for (pattern, name, expected) in [
            ("*", "anything", true),
            ("*", "", true),
            ("u?", "u1", true),
            ("u?", "u12", false),
            ("core*_a", "core12_b_a", true),
            ("core*_a", "core12_ab", false),
            ("**a", "bca", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(glob(pattern, name), expected, "{pattern} against {name}");
        }
    }
}

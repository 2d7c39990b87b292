//! What changes during the run.

use tidegate_parameters::{Bound, Check as _, Report, bound};
use tidegate_units::{BitRate, Span, Time};

use super::Site;
use super::domains::Domains;
use super::elements::{repeat, without_repeat};
use super::flows::Flows;
use super::links::Links;
use super::nodes::Nodes;
use super::raw::EventText;
use super::values;
use crate::error::Problems;
use crate::fault::shortened;
use crate::model::{
    ClockStep, Control, DomainIndex, Event, EventChange, FlowIndex, Link, LinkIndex, NodeIndex, Transport,
    Way, Ways,
};
use crate::template::Scope;
use crate::tree::{Table, Value};

/// What may change.
type Things<'a> = (&'a Nodes, &'a Links, &'a Flows, &'a Domains);

/// Reads `[[events]]`, and sorts them by time.
pub(crate) fn read(
    table: &Table,
    things: Things<'_>,
    duration: Span,
    scope: &mut Scope<'_>,
    problems: &mut Problems,
) -> Vec<Event> {
    let mut events = Vec::new();
    let Some(tree) = table.get("events") else { return events };
    let Value::List(list) = &tree.value else {
        let site = Site { tree, section: "", name: "events" };
        let message = format!("expected a list of tables, found {}", tree.what());
        problems.push(site.problem(&[], message, "write [[events]]"));
        return events;
    };
    for (position, event) in list.iter().enumerate() {
        if problems.is_full() {
            break;
        }
        let name = position.to_string();
        let site = Site { tree: event, section: "events", name: &name };
        let Some((own, variables)) = without_repeat(site, problems) else { continue };
        let each = Site { tree: &own, ..site };
        let mut visit = |inner: &Scope<'_>, found: &mut Problems| -> bool {
            let before = found.len();
            let text = each.read::<EventText>(inner, found);
            events.extend(text.and_then(|text| check(each, &text, things, duration, found)));
            // What is wrong with one of a repeat is wrong with most of them.
            found.len() == before
        };
        if let Err(why) = repeat(&variables, scope, problems, &mut visit) {
            problems.push(site.problem(&["repeat"], why, ""));
        }
    }
    // Stable: events at one instant stay in the order of the file.
    events.sort_by_key(|event| event.at);
    events
}

fn check(
    site: Site<'_>,
    text: &EventText,
    (nodes, links, flows, domains): Things<'_>,
    duration: Span,
    problems: &mut Problems,
) -> Option<Event> {
    if text.at > Time::ZERO.saturating_add(duration) {
        let message = format!("the event at {} comes after the end of the run at {duration}", text.at);
        problems.push(site.problem(&["at"], message, ""));
    }
    if let (None, None, Some(name)) = (&text.link, &text.flow, &text.edge) {
        let change = edge(site, text, name, nodes, domains, problems)?;
        return Some(Event { at: text.at, change });
    }
    if of_edges(text) {
        let help = "`edge`, `domain`, `clock_ahead`, `clock_back` and `restart` belong together";
        let message = if text.edge.is_some() { "an event of several things" } else { "an event of no edge" };
        problems.push(site.problem(&[], message, help));
        return None;
    }
    if let (None, Some(flow)) = (&text.link, &text.flow) {
        let change = reservation(site, text, flow, flows, problems)?;
        return Some(Event { at: text.at, change });
    }
    if text.flow.is_some() || text.reservation.is_some() {
        let help = "give `link` with a change of it, or `flow` with `reservation`";
        problems.push(site.problem(&[], "an event of a link and of a flow", help));
    }
    if text.rate.is_none() && text.delay.is_none() && text.background.is_none() && text.state.is_none() {
        let help = "give a new `rate`, `delay`, `background` or `state`";
        problems.push(site.problem(&[], "an event that changes nothing", help));
    }
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    let mut report = Report::new(&mut sink);
    bound::RATE.check("rate", &text.rate, &mut report);
    bound::DELAY.check("delay", &text.delay, &mut report);
    let Some(name) = &text.link else {
        problems.push(site.problem(
            &[],
            "an event of nothing",
            "give `link`, `flow` with `reservation`, or `edge`",
        ));
        return None;
    };
    let Some(link) = links.names.get(name) else {
        let message = format!("there is no link `{}`", shortened(name));
        problems.push(site.problem(&["link"], message, links.names.suggest(name)));
        return None;
    };
    // One that was not understood has been reported; where there is such a one, places in the list are of others.
    let known = links.list.get(link as usize).filter(|known| known.name == *name);
    if let (Some(_), Some(known)) = (text.rate, known) {
        let follows = |way: &Way| known.direction(*way).trace.is_some();
        if ways(text.direction).iter().any(follows) {
            let message = format!("the rate of `{}` follows a trace", shortened(name));
            problems.push(site.problem(&["rate"], message, "give the link a constant `rate`"));
        }
    }
    if let (Some(background), Some(known)) = (text.background, known) {
        check_background(site, text, known, background, problems);
    }
    let change = EventChange::Link {
        link: LinkIndex(link),
        direction: text.direction,
        rate: text.rate,
        delay: text.delay,
        background: text.background,
        state: text.state,
    };
    Some(Event { at: text.at, change })
}

/// Whether it has a key of events of edges.
fn of_edges(text: &EventText) -> bool {
    let has_step = text.clock_ahead.is_some() || text.clock_back.is_some();
    text.edge.is_some() || text.domain.is_some() || has_step || text.restart
}

/// A change of an edge.
fn edge(
    site: Site<'_>,
    text: &EventText,
    name: &str,
    nodes: &Nodes,
    domains: &Domains,
    problems: &mut Problems,
) -> Option<EventChange> {
    let before = problems.len();
    let of_links = text.rate.is_some() || text.delay.is_some() || text.background.is_some();
    if of_links || text.state.is_some() || text.reservation.is_some() || text.direction != Ways::Both {
        let message = "an edge has a clock to step, and a machine to start anew";
        problems.push(site.problem(&["edge"], message, "give `clock_ahead`, `clock_back` or `restart`"));
    }
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    let mut report = Report::new(&mut sink);
    STEP.check("clock_ahead", &text.clock_ahead, &mut report);
    STEP.check("clock_back", &text.clock_back, &mut report);
    let step = match (text.clock_ahead, text.clock_back) {
        (Some(_), Some(_)) => {
            problems.push(site.problem(
                &["clock_back"],
                "a clock goes ahead and back at once",
                "give one of them",
            ));
            return None;
        }
        (Some(span), None) => Some(ClockStep::Ahead(span)),
        (None, Some(span)) => Some(ClockStep::Back(span)),
        (None, None) => None,
    };
    if step.is_none() && !text.restart {
        let help = "give `clock_ahead`, `clock_back` or `restart = true`";
        problems.push(site.problem(&[], "an event that changes nothing", help));
    }
    let node = match nodes.find(name, &site, &["edge"]) {
        Ok(node) => node,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let domain = domain_of(site, text, node, name, domains, problems)?;
    // One that was not understood has been reported.
    let known = domains.list.get(domain.index()).filter(|_| domains.list.len() == domains.names.len())?;
    if known.mechanism.edge().is_none() {
        let message = format!("the edges of `{}` have no mechanism", known.name);
        problems.push(site.problem(&["edge"], message, "give the domain a `mechanism` of its edges"));
    }
    (problems.len() == before).then_some(EventChange::Edge {
        domain,
        edge: node,
        step,
        restart: text.restart,
    })
}

/// The domain that an event says, or the only one with this edge.
fn domain_of(
    site: Site<'_>,
    text: &EventText,
    node: NodeIndex,
    name: &str,
    domains: &Domains,
    problems: &mut Problems,
) -> Option<DomainIndex> {
    let has =
        |index: u32| domains.list.get(index as usize).is_some_and(|domain| domain.edges.contains(&node));
    // If one was not understood, its edges are not known, nor the numbers of those behind it.
    if domains.list.len() < domains.names.len() {
        return None;
    }
    if let Some(domain) = &text.domain {
        let Some(index) = domains.names.get(domain) else {
            let message = format!("there is no domain `{}`", shortened(domain));
            problems.push(site.problem(&["domain"], message, domains.names.suggest(domain)));
            return None;
        };
        if !has(index) {
            let message = format!("`{}` is no edge of `{}`", shortened(name), shortened(domain));
            problems.push(site.problem(&["edge"], message, ""));
            return None;
        }
        return Some(DomainIndex(index));
    }
    let found: Vec<u32> = (0..domains.list.len() as u32).filter(|&index| has(index)).collect();
    match *found {
        [index] => Some(DomainIndex(index)),
        [] => {
            problems.push(site.problem(
                &["edge"],
                format!("`{}` is no edge of a domain", shortened(name)),
                "",
            ));
            None
        }
        _ => {
            let message = format!("`{}` is an edge of {} domains", shortened(name), found.len());
            problems.push(site.problem(&["edge"], message, "say which: `domain`"));
            None
        }
    }
}

/// A step of a clock.
const STEP: Bound<Span> = Bound::above(Span::ZERO).and_at_most(bound::DELAY_MAX).saying("a step of ", "");

/// A new reserved rate of a flow.
fn reservation(
    site: Site<'_>,
    text: &EventText,
    name: &str,
    flows: &Flows,
    problems: &mut Problems,
) -> Option<EventChange> {
    let of_links = text.rate.is_some() || text.delay.is_some() || text.background.is_some();
    if of_links || text.state.is_some() {
        let help = "`rate`, `delay`, `background` and `state` are of links";
        problems.push(site.problem(&["flow"], "a flow has a `reservation` to change", help));
    }
    let Some(rate) = text.reservation else {
        problems.push(site.problem(&[], "an event that changes nothing", "give a new `reservation`"));
        return None;
    };
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    if !rate.is_zero() {
        bound::RATE.check("reservation", &rate, &mut Report::new(&mut sink));
    }
    let Some(flow) = flows.names.get(name) else {
        let message = format!("there is no flow `{}`", shortened(name));
        problems.push(site.problem(&["flow"], message, flows.names.suggest(name)));
        return None;
    };
    let known = flows.list.get(flow as usize).filter(|known| known.name == *name);
    let reserves = known.is_none_or(|known| {
        matches!(&known.transport, Transport::Tcp(tcp) if matches!(tcp.config.control, Control::Reserved(_)))
    });
    if !reserves {
        let message = format!("the flow `{}` reserves nothing", shortened(name));
        let help = "its transport needs control = { kind = \"reserved\", rate = ... }";
        problems.push(site.problem(&["flow"], message, help));
    }
    Some(EventChange::Reservation { flow: FlowIndex(flow), rate })
}

const fn ways(direction: Ways) -> &'static [Way] {
    match direction {
        Ways::Both => &[Way::Forward, Way::Reverse],
        Ways::Forward => &[Way::Forward],
        Ways::Reverse => &[Way::Reverse],
    }
}

fn check_background(
    site: Site<'_>,
    text: &EventText,
    link: &Link,
    background: BitRate,
    problems: &mut Problems,
) {
    for direction in ways(text.direction).iter().map(|way| link.direction(*way)) {
        let Some(circuit) = &direction.circuit else {
            let message = format!("`{}` is no circuit", link.name);
            problems.push(site.problem(&["background"], message, "give the link a `circuit`"));
            return;
        };
        let before = problems.len();
        let mut sink = |keys: &[&str], message: String, help: &str| {
            problems.push(site.problem(keys, message, help));
        };
        values::background(circuit, background, direction.rate, &mut Report::new(&mut sink));
        if problems.len() > before {
            return;
        }
    }
}

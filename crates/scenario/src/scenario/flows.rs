//! Flows: their ends, transports and applications.

use tidegate_document::names::first_duplicate;
use tidegate_packet::Dscp;
use tidegate_parameters::bound::{self, INSIDE};
use tidegate_parameters::text::{Family as _, SchemaOf};
use tidegate_parameters::{Check as _, Report};
use tidegate_units::{Bytes, Span, Time};

use super::Site;
use super::elements::{Defaults, Names, Section, for_each};
use super::keys;
use super::misplaced::{self, Thing};
use super::nodes::Nodes;
use super::raw::{FlowText, StartText};
use super::reach::Reach;
use crate::error::{Problem, Problems};
use crate::merge::{kind_table, merged};
use crate::model::{
    Application, Bulk, Control, Flow, Fluid, NodeIndex, NodeKind, PLACES_MAX, Start, Transport,
    TransportText, Udp,
};
use crate::overrides::Late;
use crate::tables::Tables;
use crate::template::Scope;
use crate::tree::{Table, Tree};

/// The flows and their names.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    pub(crate) names: Names,
    pub(crate) list: Vec<Flow>,
    /// The fluids, whose names are others.
    pub(crate) fluid_names: Names,
    pub(crate) fluids: Vec<Fluid>,
    /// Where each fluid is written: at its head, at its receiver and at its round trip.
    pub(crate) fluid_sites: Vec<[Problem; 3]>,
}

/// What flows are read against.
#[derive(Clone, Copy)]
pub(crate) struct World<'w> {
    pub(crate) defaults: &'w Defaults,
    pub(crate) nodes: &'w Nodes,
    /// None where a link was not understood: its absence would be reported as well.
    pub(crate) reach: Option<&'w Reach>,
    pub(crate) duration: Span,
}

/// Reads `[flows]`.
pub(crate) fn read(
    table: &Table,
    world: &World<'_>,
    tables: &mut Tables<'_>,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
) -> Flows {
    let mut list = Vec::new();
    let mut places_left = PLACES_MAX;
    let complete = |tree: &Tree, at: &Scope<'_>| complete(tree, world.defaults, at);
    let section = Section { name: "flows", complete: &complete };
    let mut back = Vec::new();
    let (mut fluids, mut fluid_sites) = (Vec::new(), Vec::new());
    let before = problems.len();
    let names = for_each(table, &section, scope, late, problems, |site, scope, problems| {
        if site.tree.as_table().is_some_and(|flow| flow.contains("fluid")) {
            if let Some(fluid) = read_fluid(site, world, scope, problems) {
                fluids.push(fluid);
                let at = |keys: &[&str]| site.problem(keys, String::new(), "");
                fluid_sites.push([at(&["fluid"]), at(&["to"]), at(&["fluid", "rtt"])]);
            }
            return;
        }
        let flow = read_flow(site, world, tables, scope, problems);
        if let Some(places) = flow.as_ref().and_then(|(flow, _)| flow.application.places()) {
            if let Some(left) = places_left.checked_sub(places) {
                places_left = left;
            } else {
                let message = format!("all flows together have room for more than {PLACES_MAX} connections");
                let help = "fewer `places` or `connections` for each";
                problems.push(site.problem(&["application"], message, help));
            }
        }
        if let Some((_, Some(forth))) = &flow {
            // Which one that is will be known when all are read.
            let message = format!("this cannot be the other direction of `{forth}`");
            back.push((list.len(), forth.clone(), site.problem(&["back_of"], message, "")));
        }
        list.extend(flow.map(|(flow, _)| flow));
    });
    // Positions count flows of packets alone.
    let is_fluid = |name: &str| fluids.iter().any(|fluid: &Fluid| fluid.name == name);
    let mut fluid_names = Names::default();
    let names = if fluids.is_empty() {
        names
    } else {
        let mut others = Names::default();
        for name in names.iter() {
            if is_fluid(name) {
                fluid_names.insert(name)
            } else {
                others.insert(name)
            };
        }
        others
    };
    if problems.len() == before {
        let mut is_taken = vec![false; list.len()];
        for (index, forth, mut problem) in back {
            match pair(&names, &list, index, &forth, &mut is_taken) {
                Ok(forth) => list[index].back_of = Some(forth),
                Err(help) => {
                    problem.help = help;
                    problems.push(problem);
                }
            }
        }
    }
    Flows { names, list, fluid_names, fluids, fluid_sites }
}

/// A fluid.
fn read_fluid(
    site: Site<'_>,
    world: &World<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<Fluid> {
    let text: FlowText = misplaced::read(site, (Thing::Flow, &[]), scope, problems)?;
    let table = site.tree.as_table()?;
    for key in ["transport", "application", "dscp", "weight", "class", "back_of"] {
        if table.contains(key) {
            let help =
                "with `fluid`: from, to, start, stop, repeat; what its connections are stands in `fluid`";
            problems.push(site.problem(&[key], format!("a fluid has no `{key}`"), help));
            return None;
        }
    }
    let ends = read_ends(site, &text, world, problems);
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    INSIDE.check("fluid", &text.fluid, &mut Report::new(&mut sink));
    let start = start_of(text.start);
    check_times(site, start, text.stop, world.duration, problems);
    let (from, to) = ends?;
    let [to] = to[..] else {
        problems.push(site.problem(&["to"], "a fluid has one receiver", ""));
        return None;
    };
    Some(Fluid { name: site.name.to_owned(), from, to, config: text.fluid?, start, stop: text.stop })
}

fn start_of(start: Option<StartText>) -> Start {
    match start.unwrap_or(StartText::At(Time::ZERO)) {
        StartText::At(time) => Start::At(time),
        StartText::Uniform(from, to) => Start::Uniform(from, to),
    }
}

/// The position of `forth`, if the flow at `index` can be its other direction; else what would help.
fn pair(
    names: &Names,
    list: &[Flow],
    index: usize,
    forth: &str,
    is_taken: &mut [bool],
) -> Result<u32, String> {
    let position = names.get(forth).ok_or_else(|| names.suggest(forth))?;
    let (flow, other) = (&list[index], &list[position as usize]);
    if [flow, other].iter().any(|flow| flow.application.places().is_some()) {
        return Err("an application whose connections come and go has both directions of each".to_owned());
    }
    if !matches!((&flow.transport, &other.transport), (Transport::Tcp(_), Transport::Tcp(_))) {
        return Err("both are TCP".to_owned());
    }
    if flow.to[..] != [other.from] || other.to[..] != [flow.from] {
        return Err("it goes between the same hosts, the other way".to_owned());
    }
    for at in [index, position as usize] {
        if core::mem::replace(&mut is_taken[at], true) {
            return Err("a flow has one other direction, and one of the two names it".to_owned());
        }
    }
    Ok(position)
}

/// The flow laid over the defaults for flows, and its transport over the defaults for that transport.
///
/// This happens once for all flows of a repeat: the kind of a transport may be a parameter, not a loop variable.
fn complete(tree: &Tree, defaults: &Defaults, scope: &Scope<'_>) -> Tree {
    if tree.as_table().is_some_and(|flow| flow.contains("fluid")) {
        return tree.clone();
    }
    let mut flow = match &defaults.flow {
        Some(below) => merged(below, tree, "flow", &keys::FORMAT),
        None => tree.clone(),
    };
    let Some(transport) = flow.as_table_mut().and_then(|table| table.get_mut("transport")) else {
        return flow;
    };
    let kind = match transport.as_table() {
        Some(table) => table.get("kind").and_then(Tree::as_text),
        None => transport.as_text(),
    };
    let below = match kind.and_then(|kind| scope.expand(kind).ok()).as_deref() {
        Some("tcp") => &defaults.tcp,
        Some("udp") => &defaults.udp,
        _ => &None,
    };
    if let Some(below) = below {
        let own = if transport.as_text().is_some() { kind_table(transport) } else { transport.clone() };
        *transport = merged(below, &own, "transport", &keys::FORMAT);
    }
    flow
}

/// The control that stands where a transport belongs, as where TCP has one in other tools.
fn control_as_transport(flow: &Tree, scope: &Scope<'_>) -> Option<String> {
    let transport = flow.as_table()?.get("transport")?;
    let kind = match transport.as_table() {
        Some(table) => table.get("kind")?.as_text()?,
        None => transport.as_text()?,
    };
    let kind = scope.expand(kind).ok()?;
    let is = |family: Vec<(&'static str, SchemaOf)>| family.iter().any(|(known, _)| *known == kind);
    (is(Control::documents()) && !is(TransportText::documents())).then(|| kind.to_string())
}

/// A flow, and the one that it says it is the other direction of.
fn read_flow(
    site: Site<'_>,
    world: &World<'_>,
    tables: &mut Tables<'_>,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<(Flow, Option<String>)> {
    if let Some(control) = control_as_transport(site.tree, scope) {
        let message = format!("`{control}` is no transport but a control of TCP");
        let help = format!("transport = {{ kind = \"tcp\", control = \"{control}\" }}");
        problems.push(site.problem(&["transport"], message, help));
        return None;
    }
    let text: FlowText = misplaced::read(site, (Thing::Flow, &[]), scope, problems)?;
    let ends = read_ends(site, &text, world, problems);
    let transport = match text.transport {
        None => {
            problems.push(site.problem(
                &[],
                "missing key `transport`",
                "write \"tcp\", \"udp\", \"tfrc\" or \"scream\", or a table",
            ));
            None
        }
        Some(transport) => Some(transport),
    };
    let mut sink = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    let mut report = Report::new(&mut sink);
    INSIDE.check("transport", &transport, &mut report);
    INSIDE.check("application", &text.application, &mut report);
    let weight = text.weight.unwrap_or(1.0);
    bound::WEIGHT.check("weight", &weight, &mut report);
    let dscp = text.dscp.unwrap_or(0);
    bound::CODEPOINT.check("dscp", &dscp, &mut report);
    let transport = transport?.resolved();
    let mut application = fit(text.application, &transport, site, problems)?;
    if let Err((keys, why)) = tables.fill(&mut application) {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        problems.push(site.problem(&keys, why, ""));
        return None;
    }
    let start = start_of(text.start);
    check_times(site, start, text.stop, world.duration, problems);
    let (from, to) = ends?;
    let single = match &transport {
        Transport::Tcp(_) => Some("TCP"),
        Transport::Media(media) => Some(media.name()),
        Transport::Udp(_) => None,
    };
    if let Some(name) = single.filter(|_| to.len() > 1) {
        problems.push(site.problem(&["to"], format!("{name} has one receiver"), "multicast needs UDP"));
        return None;
    }
    let flow = Flow {
        name: site.name.to_owned(),
        from,
        to,
        transport,
        application,
        start,
        stop: text.stop,
        dscp: Dscp::new(dscp),
        weight,
        class: text.class.unwrap_or(0),
        back_of: None,
    };
    Some((flow, text.back_of))
}

/// The hosts at the ends of a flow.
fn read_ends(
    site: Site<'_>,
    text: &FlowText,
    world: &World<'_>,
    problems: &mut Problems,
) -> Option<(NodeIndex, Vec<NodeIndex>)> {
    let before = problems.len();
    let host = |name: &str, key: &str, found: &mut Problems| -> Option<NodeIndex> {
        match world.nodes.find(name, &site, &[key]) {
            Err(problem) => {
                found.push(problem);
                None
            }
            Ok(index) if world.nodes.node(index).kind == NodeKind::Host => Some(index),
            Ok(_) => {
                let message = format!("`{name}` is a router, and flows are between hosts");
                found.push(site.problem(&[key], message, "list it under `hosts`, or attach a host to it"));
                None
            }
        }
    };
    let (Some(from_name), Some(receivers)) = (&text.from, &text.to) else {
        let missing = if text.from.is_none() { "from" } else { "to" };
        problems.push(site.problem(&[], format!("missing key `{missing}`"), "the name of a host"));
        return None;
    };
    let from = host(from_name, "from", problems);
    if receivers.0.is_empty() {
        problems.push(site.problem(&["to"], "a flow needs a receiver", ""));
    }
    if let Some((_, name)) = first_duplicate(receivers.0.iter().map(String::as_str)) {
        problems.push(site.problem(&["to"], format!("`{name}` is there twice"), ""));
    }
    let mut to = Vec::with_capacity(receivers.0.len());
    for name in &receivers.0 {
        let Some(index) = host(name, "to", problems) else { continue };
        if let Some(from) = from {
            if from == index {
                problems.push(site.problem(&["to"], format!("a flow from `{name}` to itself"), ""));
            } else if world.reach.is_some_and(|reach| !reach.connects(from, index)) {
                let message = format!("no way from `{from_name}` to `{name}`");
                problems.push(site.problem(&["to"], message, "only routers forward; see `links`"));
            }
        }
        to.push(index);
    }
    if problems.len() > before {
        return None;
    }
    Some((from?, to))
}

/// The application, if it suits the transport; packet sizes that it leaves to UDP are filled in.
fn fit(
    application: Option<Application>,
    transport: &Transport,
    site: Site<'_>,
    problems: &mut Problems,
) -> Option<Application> {
    match transport {
        Transport::Tcp(_) => {
            let application = application.unwrap_or(Application::Bulk(Bulk {}));
            let wrong = match &application {
                Application::Cbr(_) | Application::Poisson(_) | Application::Adaptive(_) => Some((
                    "kind",
                    format!("`{}` sends at its own rate, and TCP does not", application.kind()),
                )),
                Application::OnOff(config) if config.rate.is_some() => {
                    Some(("rate", "over TCP an on time sends as much as TCP lets it".to_owned()))
                }
                Application::OnOff(config) if config.packet.is_some() => {
                    Some(("packet", "the size of packets is TCP's: see `transport`".to_owned()))
                }
                _ => None,
            };
            if let Some((key, message)) = wrong {
                problems.push(site.problem(
                    &["application", key],
                    message,
                    "over TCP: bulk, transfer, transfers, pages, video, on-off",
                ));
                return None;
            }
            Some(application)
        }
        Transport::Media(media) => {
            let application = application.unwrap_or(Application::Bulk(Bulk {}));
            let free = match &application {
                Application::Bulk(_) => true,
                Application::OnOff(config) => config.rate.is_none() && config.packet.is_none(),
                _ => false,
            };
            if !free {
                let message = format!("with {} the transport has the rate and the packets", media.name());
                problems.push(site.problem(&["application"], message, "bulk, or on-off without a rate"));
                return None;
            }
            Some(application)
        }
        Transport::Udp(udp) => {
            let Some(mut application) = application else {
                let help = "over UDP: cbr, poisson, on-off, adaptive";
                problems.push(site.problem(&[], "missing key `application`", help));
                return None;
            };
            let packet = match &mut application {
                Application::Bulk(_)
                | Application::Transfer(_)
                | Application::Transfers(_)
                | Application::Pages(_)
                | Application::Video(_) => {
                    let message = format!("`{}` needs a transport that finds its rate", application.kind());
                    let help = "over UDP: cbr, poisson, on-off, adaptive";
                    problems.push(site.problem(&["application", "kind"], message, help));
                    return None;
                }
                Application::Cbr(config) => &mut config.packet,
                Application::Poisson(config) => &mut config.packet,
                Application::Adaptive(config) => &mut config.packet,
                Application::OnOff(config) => {
                    if config.rate.is_none() {
                        let help = "the rate while on, which UDP needs";
                        problems.push(site.problem(&["application"], "missing key `rate`", help));
                        return None;
                    }
                    &mut config.packet
                }
            };
            let size = *packet.get_or_insert(udp.packet);
            check_packet(size, udp, site, problems);
            Some(application)
        }
    }
}

fn check_packet(size: Bytes, udp: &Udp, site: Site<'_>, problems: &mut Problems) {
    let mut sink = |keys: &[&str], message: String, help: &str| {
        let keys: Vec<&str> = std::iter::once("application").chain(keys.iter().copied()).collect();
        problems.push(site.problem(&keys, message, help));
    };
    let mut report = Report::new(&mut sink);
    bound::PACKET.check("packet", &size, &mut report);
    if size < udp.header && size.get() > 0 {
        let message = format!("a packet of {size} has no room for a header of {}", udp.header);
        report.say("packet", message, "");
    }
}

fn check_times(site: Site<'_>, start: Start, stop: Option<Time>, duration: Span, problems: &mut Problems) {
    let end = Time::ZERO.saturating_add(duration);
    let latest = match start {
        Start::At(time) => time,
        Start::Uniform(from, to) => {
            if from > to {
                let message = format!("the earliest start ({from}) is after the latest ({to})");
                problems.push(site.problem(&["start"], message, ""));
            }
            to
        }
    };
    if latest >= end {
        let message = format!("starts at {latest}, when the run of {duration} is over");
        problems.push(site.problem(&["start"], message, ""));
    }
    if let Some(stop) = stop
        && stop <= latest
    {
        let message = format!("stops at {stop}, not after its start at {latest}");
        problems.push(site.problem(&["stop"], message, ""));
    }
}

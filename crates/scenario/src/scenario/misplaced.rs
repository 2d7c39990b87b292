//! Where a key belongs that is unknown where it stands: many are keys of another table of the same link, flow or domain, and the
//! names of what is allowed here would not lead there.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_aux::serde_introspection::serde_introspect;
use tidegate_document::suggest;
use tidegate_parameters::text::{Family, SchemaOf, schema_of};

use super::raw::{DomainText, FlowText, LinkText, MarkerText, NodesText, RecordText, RoutingText};
use super::{Site, keys};
use crate::error::{Problem, Problems};
use crate::fault::{Fault, shortened};
use crate::model::{
    Application, Circuit, Control, Device, Jitter, Labels, Loss, Marker, Mechanism, Queue, Reorder, TcpKeys,
    TransportText, Udp,
};
use crate::reader;
use crate::template::Scope;
use crate::tree::{Table, Tree};

/// Values that are longer are not repeated in the advice.
const VALUE_BYTES_MAX: usize = 40;
/// Kinds that are named at most.
const KINDS_MAX: usize = 5;
/// What stands above all tables. Behind the head of a table, it falls into that.
const ABOVE: [&str; 7] = ["title", "description", "source", "duration", "warmup", "seed", "event_order"];

/// What consists of several tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    File,
    Defaults,
    Link,
    Flow,
    Domain,
    Marker,
}

impl Thing {
    const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Defaults => "defaults",
            Self::Link => "link",
            Self::Flow => "flow",
            Self::Domain => "domain",
            Self::Marker => "marker",
        }
    }

    /// Its tables, itself first.
    fn tables(self) -> Vec<Place> {
        let itself = |keys: &[&'static str]| Place {
            steps: Vec::new(),
            kinds: vec![("", keys.iter().map(|&key| key.to_owned()).collect())],
            default: "",
        };
        match self {
            Self::File => vec![
                itself(keys::file()),
                Place::table::<NodesText>(&["nodes"]),
                Place::table::<RecordText>(&["record"]),
                Place::table::<RoutingText>(&["routing"]),
                Place::table::<LinkText>(&["defaults", "link"]),
                Place::table::<FlowText>(&["defaults", "flow"]),
                Place::table::<TcpKeys>(&["defaults", "tcp"]),
            ],
            Self::Defaults => vec![
                itself(keys::defaults()),
                Place::table::<LinkText>(&["link"]),
                Place::table::<FlowText>(&["flow"]),
                Place::table::<TcpKeys>(&["tcp"]),
                Place::table::<Udp>(&["udp"]),
            ],
            Self::Link => vec![
                itself(keys::link()),
                Place::choice::<Queue>("queue", Queue::default().kind()),
                Place::choice::<Loss>("loss", ""),
                Place::choice::<Jitter>("jitter", ""),
                Place::table::<Reorder>(&["reorder"]),
                Place::table::<Device>(&["device"]),
                Place::table::<Circuit>(&["circuit"]),
            ],
            Self::Flow => vec![
                itself(serde_introspect::<FlowText>()),
                Place::choice::<TransportText>("transport", ""),
                Place::choice::<Application>("application", ""),
                Place {
                    steps: vec![("transport", "tcp"), ("control", "")],
                    ..Place::choice::<Control>("control", "")
                },
            ],
            Self::Domain => vec![
                itself(serde_introspect::<DomainText>()),
                Place::choice::<Mechanism>("mechanism", ""),
                Place::choice::<Labels>("labels", ""),
            ],
            Self::Marker => {
                vec![itself(serde_introspect::<MarkerText>()), Place::choice::<Marker>("mechanism", "")]
            }
        }
    }
}

/// One of the tables.
struct Place {
    /// The keys on the way to it, each with the kind of its table where that matters.
    steps: Vec<(&'static str, &'static str)>,
    /// Its keys by its `kind`, which is empty for a table that has none.
    kinds: Vec<(&'static str, Vec<String>)>,
    /// The kind of a table that says none, if there is a certain one.
    default: &'static str,
}

impl Place {
    fn table<T: JsonSchema>(path: &[&'static str]) -> Self {
        let steps = path.iter().map(|&key| (key, "")).collect();
        Self { steps, kinds: vec![("", keys_of(schema_of::<T>))], default: "" }
    }

    fn choice<F: Family>(key: &'static str, default: &'static str) -> Self {
        let kinds = F::documents().into_iter().map(|(kind, schema)| (kind, keys_of(schema))).collect();
        Self { steps: vec![(key, "")], kinds, default }
    }

    fn is_at(&self, path: &[&str]) -> bool {
        self.steps.iter().map(|(key, _)| *key).eq(path.iter().copied())
    }

    /// Whether it is a table in the one at `path`.
    fn is_inside(&self, path: &[&str]) -> bool {
        path.len() < self.steps.len() && self.steps.iter().zip(path).all(|((key, _), other)| key == other)
    }

    /// Whether the tables on the way to it, as far as they are in `whole`, have the kinds that have it.
    fn may_be_in(&self, whole: &Tree) -> bool {
        let mut here = Some(whole);
        self.steps.iter().all(|(key, kind)| {
            here = here.and_then(|here| here.as_table()?.get(key));
            kind.is_empty() || here.and_then(kind_of).is_none_or(|found| found == *kind)
        })
    }

    /// The kinds that have `key`.
    fn kinds_with(&self, key: &str) -> Vec<&'static str> {
        let has = |keys: &[String]| keys.iter().any(|known| known == key);
        self.kinds.iter().filter(|(_, keys)| has(keys)).map(|(kind, _)| *kind).collect()
    }

    /// The kind that this table has in `whole`.
    fn kind_in<'t>(&'t self, whole: &'t Tree) -> Option<&'t str> {
        let mut here = whole;
        for (key, kind) in &self.steps {
            if let Some(next) = here.as_table().and_then(|table| table.get(key)) {
                here = next;
            } else {
                return Some(self.default).filter(|default| !default.is_empty());
            }
            if !kind.is_empty() && kind_of(here) != Some(kind) {
                return None;
            }
        }
        kind_of(here)
    }

    /// `key` as it is written here, seen from the table at `from`.
    fn written(&self, kind: &str, key: &str, value: &str, from: &[&str]) -> String {
        let last = self.steps.len().saturating_sub(1);
        let mut text = format!("{key} = {value}");
        for (position, (step, outer)) in self.steps.iter().enumerate().skip(from.len()).rev() {
            let kind = if position == last { kind } else { outer };
            let kind = if kind.is_empty() { String::new() } else { format!("kind = \"{kind}\", ") };
            text = format!("{step} = {{ {kind}{text} }}");
        }
        text
    }
}

fn kind_of(tree: &Tree) -> Option<&str> {
    tree.as_table().map_or_else(|| tree.as_text(), |table| table.get("kind").and_then(Tree::as_text))
}

fn keys_of(schema: SchemaOf) -> Vec<String> {
    let schema = schema();
    let properties = schema.get("properties").and_then(serde_json::Value::as_object);
    properties.into_iter().flatten().map(|(key, _)| key.clone()).filter(|key| key != "kind").collect()
}

/// Reads all of `site`, which is a `thing` or, as `within` says, a table of one.
pub(super) fn read<T: DeserializeOwned>(
    site: Site<'_>,
    (thing, within): (Thing, &[&str]),
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<T> {
    match reader::read(site.tree, scope) {
        Ok(value) => Some(value),
        Err(fault) => {
            problems.push(explained(site, (thing, within), fault));
            None
        }
    }
}

/// `fault` as a problem that says where a key belongs that is unknown where it stands.
pub(super) fn explained(site: Site<'_>, (thing, within): (Thing, &[&str]), fault: Fault) -> Problem {
    let path = fault.unknown_key_path();
    let mut problem = site.fault(fault);
    let Some(path) = path else { return problem };
    let mut inner: Vec<&str> = path.iter().map(String::as_str).collect();
    let Some(key) = inner.pop() else { return problem };
    let table = inner.iter().try_fold(site.tree, |here, step| here.as_table()?.get(step));
    let table = table.and_then(Tree::as_table);
    if table.is_some_and(|table| table.kind_alone().is_some()) {
        // Only its kind was set, and that has been said.
        return problem;
    }
    let at: Vec<&str> = within.iter().copied().chain(inner).collect();
    // Of a table in it, the others are not at hand.
    let whole = Some(site.tree).filter(|_| within.is_empty());
    problem.help = help(thing, whole, (&at, key), table.and_then(|table| table.get(key)), problem.help);
    problem
}

/// The problem that `key` is unknown in `table`, which is at `at` in the `thing` at `site`; `known` are those that are not.
pub(super) fn unknown(
    site: Site<'_>,
    thing: Thing,
    (at, table): (&[&str], &Table),
    key: &str,
    known: &[&str],
) -> Problem {
    let keys: Vec<&str> = at.iter().copied().chain([key]).collect();
    let entry = table.entry(key);
    let value = entry.map(|entry| &entry.tree);
    let help = help(thing, Some(site.tree), (at, key), value, suggest::help(key, known));
    let mut problem = site.problem(&keys, format!("unknown key `{}`", shortened(key)), help);
    problem.place = entry.map_or(problem.place, |entry| entry.key_place);
    problem
}

/// Where the `key` belongs that is unknown at `at`; else `otherwise`.
fn help(
    thing: Thing,
    whole: Option<&Tree>,
    (at, key): (&[&str], &str),
    value: Option<&Tree>,
    otherwise: String,
) -> String {
    let value = value
        .filter(|value| value.as_text().is_none_or(|text| text.len() <= VALUE_BYTES_MAX))
        .and_then(|value| value.scalar_text().map(|_| value.inline()))
        .unwrap_or_else(|| "...".to_owned());
    let tables = thing.tables();
    let mut found: Vec<(&Place, Vec<&str>, Option<&str>)> = tables
        .iter()
        // Who writes `queue` inside of a link's `queue` is in the link already.
        .filter(|place| !(place.steps.is_empty() && at.first() == Some(&key)))
        .filter(|place| !place.is_at(at) && whole.is_none_or(|whole| place.may_be_in(whole)))
        .map(|place| (place, place.kinds_with(key), whole.and_then(|whole| place.kind_in(whole))))
        .filter(|(_, kinds, _)| !kinds.is_empty())
        .collect();
    let suits = |(_, kinds, current): &(&Place, Vec<&str>, Option<&str>)| {
        current.is_some_and(|current| kinds.contains(&current))
    };
    if found.iter().any(suits) {
        // What is there already and knows the key is what was meant.
        found.retain(suits);
    } else if !at.is_empty() {
        // In a table with keys of its own, one of a table that is not even there is more likely a slip. A flow has all of its.
        found.retain(|(place, ..)| place.steps.is_empty() || place.is_inside(at) || thing == Thing::Flow);
    }
    let told: Vec<String> = found
        .iter()
        .take(2)
        .map(|(place, kinds, current)| {
            let Some((table, _)) = place.steps.last() else {
                let beside = at.first().map(|first| format!(", beside `{first}`")).unwrap_or_default();
                return format!("`{key}` is a key of the {} itself{beside}", thing.name());
            };
            let kind = current.filter(|current| kinds.contains(current)).unwrap_or(kinds[0]);
            let of = if kinds.len() > 1 && *current != Some(kind) {
                let more = if kinds.len() > KINDS_MAX { ", ..." } else { "" };
                format!(" of kind {}{more}", kinds[..kinds.len().min(KINDS_MAX)].join(", "))
            } else {
                String::new()
            };
            let is_inside =
                at.len() < place.steps.len() && place.steps.iter().zip(at).all(|(a, b)| a.0 == *b);
            let written = place.written(kind, key, &value, if is_inside { at } else { &[] });
            let for_all = match (thing, *table, kind) {
                (Thing::Flow, "transport", "tcp" | "udp") => {
                    format!(", or in [defaults.{kind}] for all flows")
                }
                _ => String::new(),
            };
            format!("`{key}` is a key of `{table}`{of}: {written}{for_all}")
        })
        .collect();
    if !told.is_empty() {
        return told.join("; or ");
    }
    if ABOVE.contains(&key) {
        return format!("`{key}` stands above the first [table] of the file");
    }
    if key == "name" && at.is_empty() && !matches!(thing, Thing::File | Thing::Defaults) {
        return format!("the name of a {0} is that of its table: [{0}s.NAME]", thing.name());
    }
    // Another kind of the same table may have it.
    let others = tables.iter().find(|place| place.is_at(at)).map(|place| place.kinds_with(key));
    match others.filter(|kinds| kinds.first().is_some_and(|kind| !kind.is_empty())) {
        Some(kinds) => {
            let more = if kinds.len() > KINDS_MAX { ", ..." } else { "" };
            let kinds = kinds[..kinds.len().min(KINDS_MAX)].join(", ");
            format!("`{key}` is a key of kind {kinds}{more}; here {otherwise}")
        }
        None => otherwise,
    }
}

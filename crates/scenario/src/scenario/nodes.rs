//! Hosts and routers.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::Site;
use super::elements::{Names, check_element_name};
use super::misplaced::{self, Thing};
use super::raw::NodesText;
use crate::error::{Problem, Problems};
use crate::fault::shortened;
use crate::model::{Node, NodeIndex, NodeKind};
use crate::template::Scope;
use crate::tree::{Table, Tree, Value};

/// Nodes of a scenario at most.
const NODES_MAX: usize = 1_000_000;

/// The nodes and their names.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) names: Names,
    pub(crate) list: Vec<Node>,
}

impl Nodes {
    /// The node called `name`, or a problem at `keys` of `site`.
    pub(crate) fn find(&self, name: &str, site: &Site<'_>, keys: &[&str]) -> Result<NodeIndex, Problem> {
        self.names.get(name).map(NodeIndex).ok_or_else(|| {
            site.problem(keys, format!("there is no node `{}`", shortened(name)), self.names.suggest(name))
        })
    }

    /// Whether some host is real.
    pub(crate) fn has_real(&self) -> bool {
        self.list.iter().any(|node| node.is_real)
    }

    pub(crate) fn node(&self, index: NodeIndex) -> &Node {
        &self.list[index.index()]
    }
}

/// Reads `[nodes]`.
pub(crate) fn read(root: &Tree, table: &Table, scope: &Scope<'_>, problems: &mut Problems) -> Nodes {
    let mut nodes = Nodes::default();
    let Some(tree) = table.get("nodes") else {
        let site = Site { tree: root, section: "", name: "" };
        let help = "write [nodes] with `hosts` and `routers`";
        problems.push(site.problem(&[], "missing table `nodes`", help));
        return nodes;
    };
    let site = Site { tree, section: "", name: "nodes" };
    let Some(text) = misplaced::read::<NodesText>(site, (Thing::File, &["nodes"]), scope, problems) else {
        return nodes;
    };
    let count = text.hosts.len() + text.routers.len();
    if count > NODES_MAX {
        let help = format!("{NODES_MAX} are as many as there may be");
        problems.push(site.problem(&[], format!("{count} hosts and routers"), help));
        return nodes;
    }
    for (key, kind, names) in
        [("hosts", NodeKind::Host, text.hosts), ("routers", NodeKind::Router, text.routers)]
    {
        let entries = Entries::new(&site, key, scope);
        for name in names {
            if problems.is_full() {
                return nodes;
            }
            if let Err(why) = check_element_name(&name) {
                let message = format!("`{}`: {why}", shortened(&name));
                problems.push(entries.problem(&name, message));
            } else if nodes.names.insert(&name) {
                nodes.list.push(Node { name, kind, is_real: false });
            } else {
                let message = format!("the node `{name}` is there twice");
                problems.push(entries.problem(&name, message));
            }
        }
    }
    let entries = Entries::new(&site, "real", scope);
    for (position, name) in text.real.iter().enumerate() {
        let keys = ["real", &position.to_string()];
        match nodes.names.get(name).map(|index| &mut nodes.list[index as usize]) {
            Some(node) if node.kind == NodeKind::Host => node.is_real = true,
            Some(_) => {
                let message = format!("`{}` is a router; only hosts can be real", shortened(name));
                problems.push(entries.problem(name, message));
            }
            None => {
                let message = format!("there is no host `{}`", shortened(name));
                problems.push(site.problem(&keys, message, nodes.names.suggest(name)));
            }
        }
    }
    nodes
}

/// Which entry of a list gives a name.
struct Entries<'a> {
    site: &'a Site<'a>,
    key: &'a str,
    scope: &'a Scope<'a>,
    /// The last entry that gives each name: made when the first is asked for, for an entry may give thousands.
    positions: OnceCell<HashMap<String, usize>>,
}

impl<'a> Entries<'a> {
    fn new(site: &'a Site<'a>, key: &'a str, scope: &'a Scope<'a>) -> Self {
        Self { site, key, scope, positions: OnceCell::new() }
    }

    fn positions(&self) -> HashMap<String, usize> {
        let tree = self.site.tree.as_table().and_then(|table| table.get(self.key));
        let Some(Value::List(list)) = tree.map(|tree| &tree.value) else { return HashMap::new() };
        let names = list.iter().enumerate().flat_map(|(position, entry)| {
            let names = entry.as_text().and_then(|text| self.scope.expand_all(text).ok());
            names.unwrap_or_default().into_iter().map(move |name| (name, position))
        });
        names.collect()
    }

    /// A problem at the entry that gives `name`.
    fn problem(&self, name: &str, message: String) -> Problem {
        match self.positions.get_or_init(|| self.positions()).get(name) {
            Some(position) => self.site.problem(&[self.key, &position.to_string()], message, ""),
            None => self.site.problem(&[self.key], message, ""),
        }
    }
}

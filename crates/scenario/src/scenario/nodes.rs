//! Hosts and routers.

use super::Site;
use super::elements::{Names, check_element_name};
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
    let Some(text) = site.read::<NodesText>(scope, problems) else { return nodes };
    let count = text.hosts.len() + text.routers.len();
    if count > NODES_MAX {
        let help = format!("{NODES_MAX} are as many as there may be");
        problems.push(site.problem(&[], format!("{count} hosts and routers"), help));
        return nodes;
    }
    for (key, kind, names) in
        [("hosts", NodeKind::Host, text.hosts), ("routers", NodeKind::Router, text.routers)]
    {
        for name in names {
            if problems.is_full() {
                return nodes;
            }
            if let Err(why) = check_element_name(&name) {
                let message = format!("`{}`: {why}", shortened(&name));
                problems.push(at(&site, key, &name, scope, message));
            } else if nodes.names.insert(&name) {
                nodes.list.push(Node { name, kind, is_real: false });
            } else {
                let message = format!("the node `{name}` is there twice");
                problems.push(at(&site, key, &name, scope, message));
            }
        }
    }
    for (position, name) in text.real.iter().enumerate() {
        let keys = ["real", &position.to_string()];
        match nodes.names.get(name).map(|index| &mut nodes.list[index as usize]) {
            Some(node) if node.kind == NodeKind::Host => node.is_real = true,
            Some(_) => {
                let message = format!("`{}` is a router; only hosts can be real", shortened(name));
                problems.push(at(&site, "real", name, scope, message));
            }
            None => {
                let message = format!("there is no host `{}`", shortened(name));
                problems.push(site.problem(&keys, message, nodes.names.suggest(name)));
            }
        }
    }
    nodes
}

/// A problem at the last entry of the list `key` that gives `name`.
fn at(site: &Site<'_>, key: &str, name: &str, scope: &Scope<'_>, message: String) -> Problem {
    let list = match site.tree.as_table().and_then(|table| table.get(key)).map(|tree| &tree.value) {
        Some(Value::List(list)) => list.as_slice(),
        _ => &[],
    };
    let gives = |tree: &Tree| {
        tree.as_text()
            .is_some_and(|text| scope.expand_all(text).is_ok_and(|names| names.iter().any(|n| n == name)))
    };
    match list.iter().rposition(gives) {
        Some(position) => site.problem(&[key, &position.to_string()], message, ""),
        None => site.problem(&[key], message, ""),
    }
}

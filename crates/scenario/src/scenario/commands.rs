//! Commands of real hosts.

use super::Site;
use super::elements::{Section, for_each};
use super::nodes::Nodes;
use super::raw::CommandText;
use crate::error::Problems;
use crate::model::{Command, NodeKind};
use crate::overrides::Late;
use crate::template::Scope;
use crate::tree::{Table, Tree};

/// Reads `[commands]`. Those of hosts that are not real are left out: the same file may serve both worlds.
pub(crate) fn read(
    table: &Table,
    nodes: &Nodes,
    scope: &mut Scope<'_>,
    late: &mut Late<'_>,
    problems: &mut Problems,
) -> Vec<Command> {
    let mut list = Vec::new();
    let complete = |tree: &Tree, _: &Scope<'_>| tree.clone();
    let section = Section { name: "commands", complete: &complete };
    for_each(table, &section, scope, late, problems, |site, scope, problems| {
        if let Some(command) = read_command(site, nodes, scope, problems) {
            list.push(command);
        }
    });
    list.retain(|command: &Command| nodes.list[command.host.index()].is_real);
    list
}

fn read_command(
    site: Site<'_>,
    nodes: &Nodes,
    scope: &Scope<'_>,
    problems: &mut Problems,
) -> Option<Command> {
    let text: CommandText = site.read(scope, problems)?;
    let before = problems.len();
    let host = match nodes.find(&text.host, &site, &["host"]) {
        Ok(index) => Some(index),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    if host.is_some_and(|index| nodes.list[index.index()].kind == NodeKind::Router) {
        problems.push(site.problem(&["host"], "a router runs no commands", "name a host"));
    }
    if text.run.trim().is_empty() {
        problems.push(site.problem(&["run"], "there is nothing to run", "a line for the shell"));
    }
    if problems.len() > before {
        return None;
    }
    Some(Command { name: site.name.to_owned(), host: host?, run: text.run, needs: text.needs })
}

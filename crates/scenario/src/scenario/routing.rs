//! `[routing]`: how packets find their way.

use tidegate_mechanism::hop::HopConfig;
use tidegate_parameters::Check as _;
use tidegate_parameters::Report;
use tidegate_parameters::bound::INSIDE;

use super::Site;
use super::misplaced::{self, Thing};
use super::raw::RoutingText;
use crate::error::Problems;
use crate::model::{Domain, Follows, Routing};
use crate::template::Scope;
use crate::tree::Table;

/// Reads it. What it follows must be there.
pub(crate) fn read(table: &Table, domains: &[Domain], scope: &Scope<'_>, problems: &mut Problems) -> Routing {
    let Some(tree) = table.get("routing") else { return Routing::default() };
    let site = Site { tree, section: "", name: "routing" };
    let Some(RoutingText { multipath, follows }) =
        misplaced::read(site, (Thing::File, &["routing"]), scope, problems)
    else {
        return Routing::default();
    };
    let mut say = |keys: &[&str], message: String, help: &str| {
        problems.push(site.problem(keys, message, help));
    };
    let mut report = Report::new(&mut say);
    INSIDE.check("follows", &follows, &mut report);
    let speaks = |domain: &Domain| match follows {
        Some(Follows::Nbq(_)) => matches!(domain.mechanism.hop(), Some(HopConfig::Nbq(_))),
        None => true,
    };
    if follows.is_some() && !domains.iter().any(speaks) {
        let help = "give a domain `mechanism = \"nbq\"`, or leave it out";
        report.say("follows", "no router has what routes are to follow", help);
    }
    Routing { multipath, follows }
}

//! The configuration as a recording has it: only what decides about packets, so that no path, no key and no comment is in it.

use std::sync::Arc;

use ipnet::IpNet;
use tidegate_document::source::Place;
use tidegate_document::tree::{Table, Tree, Value};

use super::Plan;
use crate::core::config::GatewayConfig;
use crate::record::step::Begin;

const GATEWAY: &str = "gateway";
const SITES: &str = "sites";
const KEY_FILE: &str = "private_key_file";
/// What the core is told of, by table. Keys of other sites are no secrets, and gateways are told apart by them.
const OF_GATEWAY: &[&str] = &["address", "mtu", "buffers", "flows", "relay"];
const OF_SITE: &[&str] = &["public_key", "networks", "control", "rate", "queue", "via"];

/// What of a file is recorded.
#[derive(Clone, Debug)]
pub struct Recorded(Table);

impl Recorded {
    /// Of the file that `root` is all of.
    pub(super) fn new(root: &Tree) -> Self {
        let mut kept = Table::default();
        for (key, entry) in root.as_table().into_iter().flat_map(Table::iter) {
            let tree = match &**key {
                GATEWAY => {
                    let mut gateway = part(&entry.tree, OF_GATEWAY);
                    // A file without one is refused.
                    gateway.insert(KEY_FILE.into(), entry.key_place, Tree::text("", entry.key_place));
                    Tree::table(gateway, entry.tree.place)
                }
                SITES => {
                    let mut sites = Table::default();
                    for (name, site) in entry.tree.as_table().into_iter().flat_map(Table::iter) {
                        let own = Tree::table(part(&site.tree, OF_SITE), site.tree.place);
                        sites.insert(name.clone(), site.key_place, own);
                    }
                    Tree::table(sites, entry.tree.place)
                }
                "classes" => entry.tree.clone(),
                _ => continue,
            };
            kept.insert(key.clone(), entry.key_place, tree);
        }
        Self(kept)
    }

    /// As a file.
    pub fn whole(&self) -> String {
        self.0.to_toml()
    }

    /// The file of a gateway that has of these sites only those of `sites`, with these networks, and so many
    /// buffers.
    pub fn part(&self, sites: &[(&str, &[IpNet])], buffers: u32) -> String {
        let mut kept = self.0.clone();
        if let Some((gateway, place)) = kept.get_mut(GATEWAY).and_then(table_of) {
            let count = Tree { value: Value::Integer(buffers.into()), place };
            gateway.insert("buffers".into(), place, count);
        }
        if let Some((all, _)) = kept.get_mut(SITES).and_then(table_of) {
            let mut own = Table::default();
            for (name, networks) in sites {
                let Some(entry) = all.entry(name) else { continue };
                let mut site = entry.tree.clone();
                if let Some((table, place)) = table_of(&mut site) {
                    let list =
                        networks.iter().map(|network| Tree::text(&network.to_string(), place)).collect();
                    table.insert(
                        "networks".into(),
                        place,
                        Tree { value: Value::List(Arc::new(list)), place },
                    );
                }
                own.insert((*name).into(), entry.key_place, site);
            }
            *all = own;
        }
        kept.to_toml()
    }
}

fn table_of(tree: &mut Tree) -> Option<(&mut Table, Place)> {
    let place = tree.place;
    tree.as_table_mut().map(|table| (table, place))
}

/// Of the table `tree`, what stands at `keys`.
fn part(tree: &Tree, keys: &[&str]) -> Table {
    let mut part = Table::default();
    for (key, entry) in tree.as_table().into_iter().flat_map(Table::iter) {
        if keys.contains(&&**key) {
            part.insert(key.clone(), entry.key_place, entry.tree.clone());
        }
    }
    part
}

/// What the core of a recording is told.
///
/// # Errors
/// When its configuration is wrong, for people.
pub fn configure(begin: &Begin) -> Result<GatewayConfig, String> {
    let plan =
        super::understand("the recording's configuration", &begin.text, true).map_err(|why| why.render())?;
    let Plan { core, .. } = plan;
    Ok(core)
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use proptest::prelude::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn file(extra: &str) -> String {
        format!(
            "# a secret in a comment\n[gateway]\nprivate_key_file = \"/etc/tidegate/secret\"\nsocket = \"/run/secret\"\n\
             address = [\"10.9.0.1/24\"]\nbuffers = 100\nrelay = {{ kind = \"nbq\" }}\n[sites.b]\npublic_key = \"{KEY}\"\n\
             preshared_key_file = \"/etc/secret\"\nendpoint = \"192.0.2.2:51820\"\nnetworks = [\"10.2.0.0/24\"]\n\
             control = {{ kind = \"path\", target = \"7ms\" }}\nqueue = \"cake\"\nrate = {{ floor = \"1Mbit\", max = \"9Mbit\" }}\n\
             [classes.z]\npriority = 1\ndscp = [46]\nown_link = 46\n[classes.a]\npriority = 0\nports = [53]\n{extra}"
        )
    }

    #[test]
    fn it_says_the_same_to_the_core_and_no_secret() {
        let plan = read("gateway.toml", &file("")).unwrap();
        let text = plan.recorded.whole();
        assert!(!text.contains("secret") && !text.contains("192.0.2.2"), "{text}");
        let again = configure(&Begin { text: text.clone(), ..Begin::default() }).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", plan.core), "{text}");
        assert_eq!(again.classes[0].name, "z", "classes keep their order");
        let wrong = configure(&Begin { text: "[gateway]".to_owned(), ..Begin::default() }).unwrap_err();
        assert!(wrong.contains("the recording's configuration"), "{wrong}");
    }

    proptest! {
        #[test]
        fn any_names_survive(name in "[a-z\"\\\\\\x00-\\x1f\\x7f\u{e4}\u{202e}]{1,6}") {
            let quoted = serde_json::Value::from(&*name).to_string().replace('\u{7f}', "\\u007f");
            if let Ok(plan) = read("gateway.toml", &file(&format!("[classes.{quoted}]\npriority = 2\n"))) {
                let again = configure(&Begin { text: plan.recorded.whole(), ..Begin::default() });
                prop_assert_eq!(format!("{:?}", again.unwrap()), format!("{:?}", plan.core));
            } else {
                prop_assert!(name == "z" || name == "a", "{:?}", name);
            }
        }
    }
}

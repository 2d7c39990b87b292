//! The configuration as a recording has it: only what decides about packets, so that no path, no key and no comment is in it.

use tidegate_document::tree::{Table, Tree};

use super::Plan;
use crate::core::config::GatewayConfig;
use crate::record::step::Begin;

const KEY_FILE: &str = "private_key_file";
/// What the core is told of, by table. Keys of other sites are no secrets, and gateways are told apart by them.
const OF_GATEWAY: &[&str] = &["address", "mtu", "buffers", "flows", "relay"];
const OF_SITE: &[&str] = &["public_key", "networks", "control", "rate", "queue", "via"];

/// What of a file is recorded, as a file: `root` is all of it.
pub(super) fn text(root: &Tree) -> String {
    let mut kept = Table::default();
    for (key, entry) in root.as_table().into_iter().flat_map(Table::iter) {
        let tree = match &**key {
            "gateway" => {
                let mut gateway = part(&entry.tree, OF_GATEWAY);
                // A file without one is refused.
                gateway.insert(KEY_FILE.into(), entry.key_place, Tree::text("", entry.key_place));
                Tree::table(gateway, entry.tree.place)
            }
            "sites" => {
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
    kept.to_toml()
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
    let plan = super::read("the recording's configuration", &begin.text).map_err(|why| why.render())?;
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
        assert!(
            !plan.recorded.contains("secret") && !plan.recorded.contains("192.0.2.2"),
            "{}",
            plan.recorded
        );
        let again = configure(&Begin { text: plan.recorded.clone(), ..Begin::default() }).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", plan.core), "{}", plan.recorded);
        assert_eq!(again.classes[0].name, "z", "classes keep their order");
        let wrong = configure(&Begin { text: "[gateway]".to_owned(), ..Begin::default() }).unwrap_err();
        assert!(wrong.contains("the recording's configuration"), "{wrong}");
    }

    proptest! {
        #[test]
        fn any_names_survive(name in "[a-z\"\\\\\\x00-\\x1f\\x7f\u{e4}\u{202e}]{1,6}") {
            let quoted = serde_json::Value::from(&*name).to_string().replace('\u{7f}', "\\u007f");
            if let Ok(plan) = read("gateway.toml", &file(&format!("[classes.{quoted}]\npriority = 2\n"))) {
                let again = configure(&Begin { text: plan.recorded.clone(), ..Begin::default() });
                prop_assert_eq!(format!("{:?}", again.unwrap()), format!("{:?}", plan.core));
            } else {
                prop_assert!(name == "z" || name == "a", "{:?}", name);
            }
        }
    }
}

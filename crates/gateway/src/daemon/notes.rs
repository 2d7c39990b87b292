//! What is odd about a configuration that is right, as `check` tells it.

use std::net::SocketAddr;

use ipnet::IpNet;
use tidegate_mechanism::edge::EdgeConfig;

use super::config::Plan;
use super::routes;

/// What an operator may not have meant by `plan`, on this machine, a sentence each.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    let processors = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    if usize::from(plan.threads) > processors {
        notes.push(format!("{} threads are more than the {processors} processors here", plan.threads));
    }
    let networks = plan.networks();
    let sites = &plan.outline().sites;
    for ((number, site), peer) in (0..).zip(sites).zip(&plan.peers) {
        let name = &site.name;
        // Through a relay, or as one, it is of use without.
        let relays = plan.outline().relay.is_some() || sites.iter().any(|other| other.via == Some(number));
        if site.networks.is_empty() && !relays {
            notes.push(format!("sites.{name} has no `networks`: nothing goes there"));
        }
        let end = peer.endpoint.as_ref().map(|end| (end, end.parse::<SocketAddr>().ok()));
        match end {
            Some((_, Some(end))) => {
                if let Some(network) = networks.iter().find(|network| network.contains(&end.ip())) {
                    notes.push(format!(
                        "sites.{name}.endpoint is in {network}, which goes through the tunnel: `run` refuses that where it has no route of its \
                         own"
                    ));
                }
            }
            Some((end, None)) if networks.iter().any(|network| network.prefix_len() <= 1) => {
                notes.push(format!(
                    "sites.{name}.endpoint is a name, and all there is goes through the tunnel: what {end} leads to needs a route of its own, or \
                     `run` refuses it"
                ));
            }
            _ => {}
        }
        if let Some(EdgeConfig::Fixed(fixed)) = &site.control
            && (fixed.rate > site.rate.max || fixed.rate < site.rate.floor)
        {
            notes.push(format!(
                "sites.{name}.control has the rate {}, and is kept between `floor` ({}) and `max` ({}) of `rate`",
                fixed.rate, site.rate.floor, site.rate.max
            ));
        }
        notes.extend(site.networks.iter().filter_map(|network| own_part(network, &plan.device)).map(
            |(part, device)| {
                format!(
                    "sites.{name}.networks: {part} leaves by {device} here, in clear text; is it a network of this machine's own?"
                )
            },
        ));
    }
    notes
}

/// A part of `network` that leaves by another device than `device`, as routes are now. All there is has such parts wherever a machine has a
/// network, and that is meant.
fn own_part(network: &IpNet, device: &str) -> Option<(IpNet, String)> {
    if network.prefix_len() <= 1 {
        return None;
    }
    // Where routes cannot be asked for, on another machine, there is nothing to say. Of a route for the same network it depends on its
    // metric which goes first once ours is there, and the start tells it.
    routes::parts_past(network, device).ok()?.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::config::read;

    const TEXT: &str = r#"[gateway]
private_key_file = "/etc/tidegate/key"
device = "tidegate77"
[sites.b]
public_key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
endpoint = "192.0.2.2:51820"
networks = ["198.18.77.0/24"]
"#;

    fn of(from: &str, to: &str) -> Vec<String> {
        notes(&read("gateway.toml", &TEXT.replace(from, to)).expect("it is right"))
    }

    #[test]
    fn what_may_not_be_meant_is_told_and_nothing_else() {
        let none: Vec<String> = Vec::new();
        // The machine of who tests may have networks of its own there.
        if own_part(&"198.18.77.0/24".parse().expect("it is one"), "tidegate77").is_none() {
            assert_eq!(of("", ""), none);
        }
        assert_eq!(of("\"198.18.77.0/24\"", ""), ["sites.b has no `networks`: nothing goes there"]);
        let within = of("198.18.77.0/24", "192.0.2.0/24");
        assert!(within[0].starts_with("sites.b.endpoint is in 192.0.2.0/24"), "{within:?}");
        let named = TEXT.replace("192.0.2.2:", "b.example.net:").replace("198.18.77.0/24", "0.0.0.0/0");
        let named = notes(&read("gateway.toml", &named).expect("it is right"));
        assert!(named[0].starts_with("sites.b.endpoint is a name, and all there is goes"), "{named:?}");
        let fixed = format!(
            "{TEXT}rate = {{ max = \"5Mbit\" }}\ncontrol = {{ kind = \"fixed\", rate = \"8Mbit\" }}\n"
        );
        let fixed = notes(&read("gateway.toml", &fixed).expect("it is right"));
        assert!(
            fixed[0]
                .ends_with("the rate 8Mbit, and is kept between `floor` (1Mbit) and `max` (5Mbit) of `rate`"),
            "{fixed:?}"
        );
    }
}

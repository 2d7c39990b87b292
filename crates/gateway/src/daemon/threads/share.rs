//! What one thread has of a plan: a configuration of its own sites alone, which a core, a recording and a replay
//! take for a whole one.

use ipnet::IpNet;

use super::super::config::{Keys, Plan};
use super::groups::Division;
use crate::core::config::{GatewayConfig, SiteConfig};
use crate::tunnel::wireguard::PeerKeys;

/// No thread has fewer buffers: what a file may say at least.
const BUFFERS_LEAST: u32 = 64;

/// See the module.
#[derive(Clone, Debug)]
pub struct Share {
    /// What its core is told.
    pub config: GatewayConfig,
    /// The same as a recording has it.
    pub text: String,
    /// The numbers of its sites in the whole plan, in the order of `config`.
    pub numbers: Vec<u32>,
    /// The other ends of its tunnels, in the same order.
    pub peers: Vec<PeerKeys>,
}

impl Share {
    /// What `thread` has of `plan`, whose core would be told `whole`, by `division`.
    pub fn new(plan: &Plan, keys: &Keys, whole: &GatewayConfig, division: &Division, thread: u8) -> Self {
        let peers = keys.peers(plan);
        if division.threads() == 1 {
            let numbers = (0..peers.len() as u32).collect();
            return Self { config: whole.clone(), text: plan.recorded.whole(), numbers, peers };
        }
        let own = division.sites(thread);
        let config = part(whole, &own);
        let sites = config.sites.iter().map(|site| (site.name.as_str(), &site.networks[..]));
        Self {
            text: plan.recorded.part(&sites.collect::<Vec<_>>(), config.buffers),
            config,
            numbers: own.iter().map(|&site| site as u32).collect(),
            peers: own.iter().map(|&site| peers[site].clone()).collect(),
        }
    }
}

/// Of `whole` the sites with the numbers `own`, in ascending order, and their part of the buffers.
fn part(whole: &GatewayConfig, own: &[usize]) -> GatewayConfig {
    let all = u64::from(whole.buffers) * own.len() as u64 / whole.sites.len().max(1) as u64;
    let site = |&number: &usize| {
        let site = &whole.sites[number];
        let via = site.via.and_then(|via| own.binary_search(&(via as usize)).ok());
        SiteConfig { networks: seen_from(whole, own, number), via: via.map(|via| via as u32), ..site.clone() }
    };
    GatewayConfig {
        sites: own.iter().map(site).collect(),
        buffers: (all as u32).max(BUFFERS_LEAST),
        // Who has nobody to pass on to has no part in it.
        relay: whole.relay.clone().filter(|_| !own.is_empty()),
        classes: whole.classes.clone(),
        ..*whole
    }
}

/// The networks of site `number`, for a core that has the sites `own` alone. Of a network in which others are
/// that are elsewhere what is theirs is cut out, so that the longest prefix decides as in the whole: a site that
/// sends from addresses of another one is refused.
fn seen_from(whole: &GatewayConfig, own: &[usize], number: usize) -> Vec<IpNet> {
    let is_inside = |one: &IpNet, network: &IpNet| network.contains(one) && one != network;
    let mut seen = Vec::new();
    for network in &whole.sites[number].networks {
        let of =
            |site: &SiteConfig| site.networks.iter().copied().filter(|one| is_inside(one, network)).collect();
        let inside: Vec<Vec<IpNet>> = whole.sites.iter().map(of).collect();
        let is_cut =
            (0..).zip(&inside).any(|(site, nets)| !nets.is_empty() && own.binary_search(&site).is_err());
        if is_cut {
            cut(*network, &inside.concat(), &mut seen);
        } else {
            seen.push(*network);
        }
    }
    seen
}

/// What of `network` is not in any of `others`.
fn cut(network: IpNet, others: &[IpNet], rest: &mut Vec<IpNet>) {
    let inside: Vec<IpNet> = others.iter().copied().filter(|other| network.contains(other)).collect();
    if inside.is_empty() {
        rest.push(network);
    } else if !inside.contains(&network)
        && let Ok(halves) = network.subnets(network.prefix_len() + 1)
    {
        for half in halves {
            cut(half, &inside, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use ipnet::Ipv4Net;
    use proptest::prelude::*;

    use super::super::super::config::configure;
    use super::super::groups::tests::plan;
    use super::*;
    use crate::core::routes::Routes;
    use crate::record::step::Begin;

    /// The share that `thread` has; keys have no part in it.
    fn share(plan: &Plan, threads: u8, thread: u8) -> (GatewayConfig, String) {
        let whole = plan.core(&[9; 32], 5);
        let division = Division::new(&whole, threads, None);
        let config = part(&whole, &division.sites(thread));
        let sites: Vec<_> =
            config.sites.iter().map(|site| (site.name.as_str(), &site.networks[..])).collect();
        let text = plan.recorded.part(&sites, config.buffers);
        (config, text)
    }

    fn nets(text: &[&str]) -> Vec<String> {
        text.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn a_share_has_its_sites_alone_and_a_recording_of_it_says_the_same() {
        let all = [
            nets(&["10.0.0.0/8", "fd00::/8"]),
            nets(&["10.2.0.0/16"]),
            nets(&["10.1.0.0/16"]),
            nets(&["10.2.7.0/24"]),
        ];
        let plan =
            plan(&[(None, &all[0]), (None, &all[1]), (None, &all[2]), (Some(0), &all[3])], "buffers = 1000");
        let (one, text) = share(&plan, 2, 0);
        assert_eq!(one.sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>(), ["s0", "s3"]);
        assert_eq!((one.sites[1].via, one.buffers), (Some(0), 500));
        let (other, _) = share(&plan, 2, 1);
        assert_eq!(other.sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>(), ["s1", "s2"]);
        // Nobody else is in it, and what is theirs is not ours.
        let has = |config: &GatewayConfig, site: usize, net: &str| {
            config.sites[site].networks.contains(&net.parse().unwrap())
        };
        assert!(has(&one, 0, "fd00::/8") && !has(&one, 0, "10.0.0.0/8") && has(&one, 0, "10.128.0.0/9"));
        assert!(
            !has(&other, 0, "10.2.0.0/16")
                && has(&other, 0, "10.2.128.0/17")
                && has(&other, 1, "10.1.0.0/16")
        );
        let GatewayConfig { id, seed, .. } = one;
        let again = configure(&Begin { text: text.clone(), ..Begin::default() }).unwrap();
        assert_eq!(format!("{:?}", GatewayConfig { id, seed, ..again }), format!("{one:?}"), "{text}");
    }

    #[test]
    fn a_thread_without_sites_holds_the_least_and_passes_nothing_on() {
        let none: &[String] = &[];
        let plan = plan(&[(None, none), (None, none)], "buffers = 64\nrelay = \"nbq\"");
        let (config, _) = share(&plan, 2, 1);
        assert_eq!((config.sites.len(), config.buffers, config.relay.is_none()), (0, 64, true));
        assert!(share(&plan, 2, 0).0.relay.is_some());
    }

    proptest! {
        /// The longest prefix among all, which a thread finds where it has the site, and which it finds for
        /// nobody else.
        #[test]
        fn the_longest_prefix_decides_as_in_the_whole(
            networks in prop::collection::btree_map((any::<u8>(), 1u8..=16), 0usize..6, 1..20),
            threads in 2u8..5, ends in prop::collection::vec((any::<u8>(), any::<u8>()), 20),
        ) {
            let mut of_site = vec![std::collections::BTreeSet::new(); 6];
            let mut seen = std::collections::BTreeSet::new();
            for ((bits, length), site) in networks {
                let net = Ipv4Net::new(Ipv4Addr::new(bits, bits.rotate_left(3), 0, 0), length).unwrap().trunc();
                let is_nobodys = net.addr().is_loopback() || (net.addr().is_multicast() && length > 3);
                if !is_nobodys && seen.insert(net) {
                    of_site[site].insert(net.to_string());
                }
            }
            let texts: Vec<Vec<String>> = of_site.into_iter().map(|set| set.into_iter().collect()).collect();
            let sites: Vec<(Option<usize>, &[String])> = texts.iter().map(|one| (None, &one[..])).collect();
            let plan = plan(&sites, "");
            let whole = plan.core(&[9; 32], 5);
            let division = Division::new(&whole, threads, None);
            let routes = |config: &GatewayConfig| {
                let mut routes = Routes::default();
                for (number, site) in (0..).zip(&config.sites) {
                    for network in &site.networks {
                        routes.add(*network, number);
                    }
                }
                routes
            };
            let all = routes(&whole);
            for thread in 0..threads {
                let own = division.sites(thread);
                let (config, text) = share(&plan, threads, thread);
                let read = configure(&Begin { text, ..Begin::default() });
                prop_assert!(own.is_empty() || read.is_ok(), "{}", read.unwrap_err());
                let part = routes(&config);
                for &(high, low) in &ends {
                    let end = IpAddr::from([high, low, 1, 1]);
                    let expected = all.peer(end).and_then(|site| own.binary_search(&(site as usize)).ok());
                    prop_assert_eq!(part.peer(end), expected.map(|site| site as u32));
                }
            }
        }
    }
}

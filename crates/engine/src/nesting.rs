//! Which domains lie in which: a domain whose nodes all belong to a larger one is inside of it, and the virtual links of the
//! larger one are traffic to it.

use std::collections::HashMap;

use crate::network::Network;

/// By domain: the domains around it, ascending.
pub(crate) fn around(network: &Network) -> Vec<Vec<u32>> {
    let mut domains_of: Vec<Vec<u32>> = vec![Vec::new(); network.nodes.len()];
    let mut sizes = Vec::with_capacity(network.domains.len());
    for (index, domain) in network.domains.iter().enumerate() {
        sizes.push(domain.edges.len() + domain.core.len());
        for node in domain.edges.iter().chain(&domain.core) {
            domains_of[node.0 as usize].push(index as u32);
        }
    }
    // Nodes that two domains have in common.
    let mut common: HashMap<(u32, u32), usize> = HashMap::new();
    for domains in domains_of.iter().filter(|domains| domains.len() > 1) {
        for (&inner, &outer) in domains.iter().flat_map(|a| domains.iter().map(move |b| (a, b))) {
            *common.entry((inner, outer)).or_default() += 1;
        }
    }
    let mut around: Vec<Vec<u32>> = vec![Vec::new(); sizes.len()];
    for ((inner, outer), nodes) in common {
        let (inside, outside) = (sizes[inner as usize], sizes[outer as usize]);
        if nodes == inside && inside < outside {
            around[inner as usize].push(outer);
        }
    }
    for outer in &mut around {
        outer.sort_unstable();
    }
    around
}

//! Who is behind which addresses: the longest prefix decides, for what goes there and for what comes from there.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

/// See the module.
#[derive(Debug, Default)]
pub struct Routes {
    v4: PrefixMap<Ipv4Net, u32>,
    v6: PrefixMap<Ipv6Net, u32>,
}

impl Routes {
    /// `peer` is behind `network`; whoever was before is not any more.
    pub fn add(&mut self, network: IpNet, peer: u32) {
        match network {
            IpNet::V4(network) => self.v4.insert(network.trunc(), peer),
            IpNet::V6(network) => self.v6.insert(network.trunc(), peer),
        };
    }

    /// Who is behind `address`.
    pub fn peer(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.v4.get_lpm(&address.into()).map(|(_, peer)| *peer),
            IpAddr::V6(address) => self.v6.get_lpm(&address.into()).map(|(_, peer)| *peer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_prefix_decides() {
        let mut routes = Routes::default();
        for (peer, network) in
            ["10.0.0.0/8", "10.2.0.0/16", "fd00::/8", "fd00:2::/64"].into_iter().enumerate()
        {
            routes.add(network.parse().expect("it is a network"), peer as u32);
        }
        let peer = |address: &str| routes.peer(address.parse().expect("it is an address"));
        assert_eq!([peer("10.1.0.1"), peer("10.2.0.1"), peer("11.0.0.1")], [Some(0), Some(1), None]);
        assert_eq!([peer("fd00:3::1"), peer("fd00:2::1"), peer("::1")], [Some(2), Some(3), None]);
    }

    proptest! {
        /// Against a search of all networks.
        #[test]
        fn it_is_what_a_search_of_all_networks_finds(
            networks in prop::collection::vec((any::<u32>(), 0u8..=32), 0..40), address in any::<u32>(),
        ) {
            let mut routes = Routes::default();
            let net = |(bits, length): (u32, u8)| Ipv4Net::new(bits.into(), length).expect("it is short").trunc();
            for (peer, network) in networks.iter().enumerate() {
                routes.add(net(*network).into(), peer as u32);
            }
            let matching = networks.iter().enumerate().filter(|(_, one)| net(**one).contains(&std::net::Ipv4Addr::from(address)));
            // Of the same network, the last one counts.
            let longest = matching.max_by_key(|(peer, one)| (net(**one).prefix_len(), *peer));
            prop_assert_eq!(routes.peer(IpAddr::V4(address.into())), longest.map(|(peer, _)| peer as u32));
        }
    }
}

//! The addresses of real hosts: a node's number in 10.0.0.0/8, as in simulated packets, and in `fd00::/64`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate_packet::Address;

/// Length of the IPv4 network that all hosts share.
pub const IPV4_PREFIX_BITS: u8 = 8;
/// Length of the IPv6 network that all hosts share.
pub const IPV6_PREFIX_BITS: u8 = 64;

const IPV4_FIRST: u32 = 0x0a00_0001;
const IPV6_FIRST: u128 = (0xfd00 << 112) + 1;

/// The IPv4 address of node `node`.
pub fn ipv4(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(IPV4_FIRST.wrapping_add(node))
}

/// The IPv6 address of node `node`.
pub fn ipv6(node: u32) -> Ipv6Addr {
    Ipv6Addr::from(IPV6_FIRST + u128::from(node))
}

/// The node with `address`, if it is one of ours.
pub fn node_of(address: Address) -> Option<u32> {
    match address {
        Address::V4(octets) => {
            u32::from_be_bytes(octets).checked_sub(IPV4_FIRST).filter(|&node| node < 1 << 24)
        }
        Address::V6(octets) => {
            u128::from_be_bytes(octets).checked_sub(IPV6_FIRST).and_then(|node| u32::try_from(node).ok())
        }
    }
}

/// `address` as the standard library writes it.
pub fn to_ip(address: Address) -> IpAddr {
    match address {
        Address::V4(octets) => IpAddr::from(octets),
        Address::V6(octets) => IpAddr::from(octets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_node() {
        for node in [0, 1, 254, 255, 70_000] {
            assert_eq!(node_of(Address::V4(ipv4(node).octets())), Some(node));
            assert_eq!(node_of(Address::V6(ipv6(node).octets())), Some(node));
        }
        assert_eq!(ipv4(0).to_string(), "10.0.0.1");
        assert_eq!(ipv6(1).to_string(), "fd00::2");
    }

    #[test]
    fn what_is_not_ours_leads_nowhere() {
        for octets in [[10, 0, 0, 0], [9, 255, 255, 255], [192, 168, 0, 1], [224, 0, 0, 22]] {
            assert_eq!(node_of(Address::V4(octets)), None, "{octets:?}");
        }
        assert_eq!(node_of(Address::V6(Ipv6Addr::LOCALHOST.octets())), None);
        assert_eq!(node_of(Address::V6("ff02::2".parse::<Ipv6Addr>().unwrap().octets())), None);
    }
}

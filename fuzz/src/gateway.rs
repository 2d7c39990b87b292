//! The gateway at 10.1.0.1, the other sites that it knows, and what its hosts send to those.

use std::net::Ipv4Addr;

use tidegate_gateway::core::config::{GatewayConfig, RateConfig, SiteConfig};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_units::BitRate;

/// One of the mechanisms between gateways, or none.
pub fn control(which: u8) -> Option<EdgeConfig> {
    match which % 4 {
        0 => None,
        1 => Some(EdgeConfig::Iec(Box::default())),
        2 => Some(EdgeConfig::Nbp(Box::default())),
        _ => Some(EdgeConfig::Path(Box::default())),
    }
}

/// The site with the network 10.`number`.0.0/16, of which it is not known where it is.
pub fn site(number: u8, control: Option<EdgeConfig>) -> SiteConfig {
    SiteConfig {
        name: format!("site{number}"),
        id: u64::from(number),
        endpoint: None,
        networks: vec![format!("10.{number}.0.0/16").parse().expect("it is a network")],
        control,
        rate: RateConfig {
            floor: BitRate::from_bps(100_000),
            max: BitRate::from_mbps(100),
            fallback: BitRate::from_mbps(2),
        },
        via: None,
    }
}

/// The gateway of site 1, which is a relay, too.
pub fn config(sites: Vec<SiteConfig>) -> GatewayConfig {
    GatewayConfig {
        id: 1,
        address4: Some(Ipv4Addr::new(10, 1, 0, 1)),
        address6: None,
        sites,
        classes: Vec::new(),
        buffers: 64,
        mtu: 1420,
        flows: 16,
        relay: Some(HopConfig::Nbq(Box::default())),
        seed: 5,
    }
}

/// The header of a packet of `length` bytes from a host here to one of site `number`: IPv4, and UDP to come.
pub fn header(number: u8, length: u16) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[8..10].copy_from_slice(&[60, 17]);
    header[12..20].copy_from_slice(&[10, 1, 0, 9, 10, number, 0, 9]);
    header
}

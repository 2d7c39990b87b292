//! What a gateway is told when it is made. Everything is checked where it was read, and numbers stand for names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::mark::MarkerConfig;
use tidegate_packet::{Dscp, DscpSet};
use tidegate_units::{BitRate, Span};

/// The most virtual links to one site.
pub const LINKS_MAX: usize = 8;

/// What a gateway is.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// What other gateways call it: the same in their configuration.
    pub id: u64,
    /// Its own addresses inside, from which it answers to hosts.
    pub address4: Option<Ipv4Addr>,
    /// See `address4`.
    pub address6: Option<Ipv6Addr>,
    /// The other sites.
    pub sites: Vec<SiteConfig>,
    /// What traffic is divided into, in the order in which it is looked; what fits none is class 0.
    pub classes: Vec<ClassConfig>,
    /// Packets that it holds at most; each site may hold as many as its part of them.
    pub buffers: u32,
    /// The largest packet inside, if the path takes it.
    pub mtu: u16,
    /// Flows of one site that are told apart at most.
    pub flows: u32,
    /// What it tells and hears of its neighbours about what passes on through them; none: nothing passes on.
    pub relay: Option<HopConfig>,
    /// Of everything that is drawn: another one in each life, for incarnations are drawn from it.
    pub seed: u64,
}

/// Another site.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// What people call it.
    pub name: String,
    /// What gateways call it.
    pub id: u64,
    /// Where it is, if that is known before it has spoken.
    pub endpoint: Option<SocketAddr>,
    /// What is behind it.
    pub networks: Vec<IpNet>,
    /// What finds the rate; none: what goes there is not held here.
    pub control: Option<EdgeConfig>,
    /// What the rate keeps to.
    pub rate: RateConfig,
    /// The site that passes on what is for this one, by number.
    pub via: Option<u32>,
}

/// What rates keep to, whatever a mechanism, a path or the other end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateConfig {
    /// Never less.
    pub floor: BitRate,
    /// Never more.
    pub max: BitRate,
    /// The rate towards an end that does not answer.
    pub fallback: BitRate,
}

/// What some packets have in common.
#[derive(Clone, Debug)]
pub struct ClassConfig {
    /// What people call it.
    pub name: String,
    /// The codepoints that it has inside.
    pub dscp: DscpSet,
    /// The ports, of either end, that it has; empty: all.
    pub ports: Vec<u16>,
    /// Its number for schedulers; those with lower ones are more urgent.
    pub class: u8,
    /// It has a virtual link of its own, with this codepoint outside; otherwise it shares that of best effort.
    pub own_link: Option<Dscp>,
    /// What conditions it where it enters.
    pub marker: Option<MarkerConfig>,
}

impl GatewayConfig {
    /// The virtual links to each site: their codepoints outside.
    pub fn links(&self) -> Vec<Dscp> {
        let own = self.classes.iter().filter_map(|class| class.own_link);
        std::iter::once(Dscp::BEST_EFFORT).chain(own).take(LINKS_MAX).collect()
    }
}

/// The address of a packet's end.
pub(super) fn ip_of(address: tidegate_packet::Address) -> IpAddr {
    match address {
        tidegate_packet::Address::V4(octets) => Ipv4Addr::from(octets).into(),
        tidegate_packet::Address::V6(octets) => Ipv6Addr::from(octets).into(),
    }
}

/// How long a hello waits for an answer before the rate is that of an end without one, and how often it is said again then.
pub(super) const HELLO_PATIENCE: Span = Span::from_secs(3);

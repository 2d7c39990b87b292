//! What a gateway shows of itself, for people and programs.

use std::net::SocketAddr;

use tidegate_packet::Backlog;
use tidegate_units::{BitRate, Span};

use super::ends::Home;
use super::peer::{Counters, State};
use super::store::Drops;

/// Of one other site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteStatus {
    /// What people call it.
    pub name: String,
    /// What it is taken for.
    pub state: State,
    /// The site that passes on what is for it.
    pub via: Option<String>,
    /// From where it spoke last; none where another site passes it on.
    pub endpoint: Option<SocketAddr>,
    /// From where it is answered.
    pub home: Home,
    /// The largest packet that the path is known to take, and the largest that both ends do.
    pub mtu: u16,
    /// See `mtu`.
    pub mtu_most: u16,
    /// Whether the path takes what every path takes ([`super::mtu::BASE`]), as far as that is known.
    pub takes_base: Option<bool>,
    /// Of each virtual link that is open: see [`LinkStatus`].
    pub links: Vec<LinkStatus>,
    /// What has passed.
    pub counters: Counters,
    /// What was dropped here.
    pub drops: Drops,
    /// What own queues marked.
    pub marks: u64,
    /// Buffers in use, and those that it may have.
    pub buffers: (u32, u32),
}

/// Of one virtual link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkStatus {
    /// Which.
    pub link: u8,
    /// The rate at which packets may leave; on the wire, as all of these.
    pub rate: BitRate,
    /// The rate at which they arrive, as last reported; zero if it is not.
    pub output: BitRate,
    /// The round trip between the gateways, as last measured.
    pub rtt: Option<Span>,
    /// How long the queue of the path is above its least, as far as the mechanism knows.
    pub excess: Option<Span>,
    /// Whether the mechanism competes with others, or sees congestion.
    pub is_pressed: bool,
    /// What waits here.
    pub backlog: Backlog,
}

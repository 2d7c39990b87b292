//! The records: each is one call of the core, with what its tunnels answered meanwhile and what was decided.
//!
//! A record is an instant, what happened, and then answers and verdicts in the order in which they came. An answer that could be
//! foretold is not there: each that is says how many were foretold before it. So a packet in one direction takes some 90 bytes.

use std::fmt;
use std::net::SocketAddr;

use tidegate_packet::{DropReason, Dscp, Ecn, MarkReason};
use tidegate_units::Time;
use tidegate_wire::recording::frames::{Format, OF_GATEWAY};

use crate::core::store::{Fate, Way};
use crate::tunnel::{Addressed, Opened, Refusal};

/// Recordings of gateways.
pub const FORMAT: Format = Format {
    magic: OF_GATEWAY,
    version: 1,
    // A configuration has 1 MiB at most, and a call that decides about all buffers less.
    record_bytes_max: 16 << 20,
    made_by: "tidegatectl record",
};
/// Answers to one call that were not foretold, and verdicts of it, at most.
pub(super) const ANSWERS_MAX: u32 = 1 << 16;
pub(super) const VERDICTS_MAX: u32 = 1 << 19;
/// Sites of one gateway that a recording has, at most.
pub(super) const SITES_MAX: u32 = 1 << 16;
/// Numbers in [`Verdict::Passed`].
pub(super) const COUNTS: usize = 14 + Refusal::ALL.len();

/// A packet of which the beginning is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// How long it was.
    pub bytes: u16,
    /// Its beginning; the rest is zeros, or nobody's business.
    pub beginning: Vec<u8>,
}

/// What a core is made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Begin {
    /// Version of Tidegate.
    pub version: String,
    /// The configuration, without secrets, as the daemon reads it.
    pub text: String,
    /// What other gateways call this one.
    pub id: u64,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Where sites are looked for, in the order of the configuration.
    pub endpoints: Vec<Option<SocketAddr>>,
}

/// What happened to a gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A core begins, with the tunnels of the one before.
    Begin(Box<Begin>),
    /// A packet of a host came.
    Lan(Kept),
    /// A datagram came: from where, its traffic class, its length.
    Wan(SocketAddr, u8, u16),
    /// Somebody asked what to send.
    PollOutput,
    /// Somebody asked for a packet for hosts.
    PollLan,
    /// A site is to be found there.
    Find(u32, SocketAddr),
    /// It says goodbye.
    Drain,
    /// The core ends: what it counted are verdicts.
    Close,
    /// The recording ends.
    End,
}

/// What a tunnel said that could not be foretold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To `addressed`.
    Addressed(Addressed),
    /// To `is_up`.
    Up(bool),
    /// To `seal`: how many bytes.
    Sealed(Option<u16>),
    /// To `open`; the packet, if there is one.
    Opened(Opened, Kept),
    /// To `poll`: how many bytes.
    Said(u16),
    /// To `timeout`.
    Timeout(Option<Time>),
}

/// What was decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A packet went to hosts: its bytes, its traffic class, a digest of its headers.
    Lan(u16, u8, u32),
    /// A datagram went there, with this traffic class outside, and so many bytes.
    Wan(SocketAddr, u8, u16),
    /// A packet or a message was sealed for a site: bytes, traffic class, digest of headers or of the message.
    Sealed(u32, u16, u8, u32),
    /// A packet of a site was dropped, of so many bytes on the wire.
    Dropped(u32, u32, DropReason),
    /// The same, marked.
    Marked(u32, u32, MarkReason),
    /// There was no buffer for a packet to, or from, a site.
    Unheld(u32, Way),
    /// What came belongs to no site.
    Stray(Stray),
    /// What has passed to and from a site in the life of a core.
    Passed(u32, Box<[u64; COUNTS]>),
}

/// Why something that came belongs to no site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// It is no packet, or pretends to be a message.
    Bad,
    /// Nobody has its destination.
    Unrouted,
    /// The tunnels refuse it.
    Refused(Refusal),
    /// It is to be passed on, and may not be.
    Unrelayed,
}

impl From<Fate> for Verdict {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Dropped(site, bytes, why) => Self::Dropped(site, bytes, why),
            Fate::Marked(site, bytes, why) => Self::Marked(site, bytes, why),
            Fate::Unheld(site, way) => Self::Unheld(site, way),
        }
    }
}

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// When.
    pub at: Time,
    /// What happened.
    pub what: What,
    /// What tunnels answered, each behind so many that were foretold.
    pub answers: Vec<(u32, Answer)>,
    /// What was decided.
    pub verdicts: Vec<Verdict>,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(_) => f.write_str("a configuration"),
            Self::Lan(kept) => write!(f, "a packet of a host, {} bytes", kept.bytes),
            Self::Wan(from, traffic_class, bytes) => {
                write!(f, "a datagram from {from}, {bytes} bytes, {}", Class(*traffic_class))
            }
            Self::PollOutput => f.write_str("what is due"),
            Self::PollLan => f.write_str("what is for hosts"),
            Self::Find(site, endpoint) => write!(f, "site {site} is looked for at {endpoint}"),
            Self::Drain => f.write_str("the goodbye"),
            Self::Close | Self::End => f.write_str("the end"),
        }
    }
}

/// A traffic class, for people.
struct Class(u8);

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DSCP {}, {:?}", Dscp::new(self.0 >> 2).get(), Ecn::from_bits(self.0))
    }
}

impl Verdict {
    /// The site that it is about, by number in the configuration.
    pub const fn site(&self) -> Option<u32> {
        match self {
            Self::Sealed(site, ..)
            | Self::Dropped(site, ..)
            | Self::Marked(site, ..)
            | Self::Unheld(site, _)
            | Self::Passed(site, _) => Some(*site),
            Self::Lan(..) | Self::Wan(..) | Self::Stray(_) => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lan(bytes, class, digest) => {
                write!(f, "to hosts: {bytes} bytes, {}, headers {digest:08x}", Class(*class))
            }
            Self::Wan(to, class, bytes) => write!(f, "to {to}: {bytes} bytes, {}", Class(*class)),
            Self::Sealed(_, bytes, class, digest) => {
                write!(f, "sealed: {bytes} bytes, {}, headers or message {digest:08x}", Class(*class))
            }
            Self::Dropped(_, bytes, why) => write!(f, "dropped: {bytes} bytes on the wire, {}", why.name()),
            Self::Marked(_, bytes, why) => write!(f, "marked: {bytes} bytes on the wire, {}", why.name()),
            Self::Unheld(_, Way::Out) => f.write_str("dropped: no buffer to leave"),
            Self::Unheld(_, Way::In) => f.write_str("dropped: no buffer to come in"),
            Self::Stray(Stray::Bad) => f.write_str("dropped: no packet"),
            Self::Stray(Stray::Unrouted) => f.write_str("dropped: no site has its destination"),
            Self::Stray(Stray::Refused(why)) => write!(f, "refused: {}", why.name()),
            Self::Stray(Stray::Unrelayed) => f.write_str("dropped: may not be passed on"),
            Self::Passed(_, counts) => write!(f, "counted in all: {counts:?}"),
        }
    }
}

//! Transports: how a flow reacts to congestion.

use serde::Serialize;
use tidegate_mechanism::media::MediaConfig;
use tidegate_mechanism::tcp::{EcnUse, ResolvedTcp, TcpKeys};
use tidegate_parameters::{bound, family, parameters};
use tidegate_units::Bytes;

/// How a flow's packets are paced and repaired.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Transport {
    /// TCP, one state machine at each end; complete, with the defaults of its profile.
    Tcp(ResolvedTcp),
    /// UDP: what the application gives is sent at once.
    Udp(Udp),
    /// A media stream over UDP that follows the network.
    #[serde(untagged)]
    Media(MediaConfig),
}

family! {
    /// A transport as configurations write it.
    pub enum TransportText {
        /// TCP, as far as it is said.
        Tcp(Box<TcpKeys>) = "tcp",
        /// UDP.
        Udp(Udp) = "udp",
    }
    and {
        /// A media stream.
        Media(MediaConfig),
    }
}

impl TransportText {
    /// With the defaults of what is not said.
    pub fn resolved(&self) -> Transport {
        match self {
            Self::Tcp(keys) => Transport::Tcp(keys.resolved()),
            Self::Udp(udp) => Transport::Udp(*udp),
            Self::Media(media) => Transport::Media(media.clone()),
        }
    }
}

parameters! {
    /// # User Datagram Protocol
    ///
    /// Sends what the application gives, when it gives it, and never hears of congestion.
    ///
    /// Source: RFC 768.
    #[derive(Copy)]
    pub struct Udp {
        /// A packet on the wire, headers included, for applications that do not say. Source: NBP, Table 1.
        packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// The part of each packet that is headers. Source: IPv4 and UDP without options.
        header: Bytes = Bytes::new(28);
        /// Whether its packets claim to understand marks, and which, which it does not heed: `true` is `classic`. Source: RFC 768 (off).
        ecn: EcnUse = EcnUse::None;
    }
    check |config, report| {
        if config.header >= config.packet {
            let message =
                format!("a packet of {} has no room for a header of {}", config.packet, config.header);
            report.say("header", message, "");
        }
    };
}

//! What gateways say to each other, inside of their tunnels: who they are, what path they are on, and the messages of mechanisms.
//!
//! A message is a packet of IPv6 and UDP between link-local addresses, as whatever is in a tunnel must be one, with 24 bytes in front:
//!
//! | field | bytes |
//! |---|---|
//! | version | 1 |
//! | kind | 1 |
//! | link: which of the virtual links between the two it is about | 1 |
//! | reserved, zero | 1 |
//! | incarnation of the speaker: a random number for each life and each path | 8 |
//! | number: rises by one with each message of a life | 4 |
//! | incarnation of the hearer, as the speaker knows it; zero: not at all | 8 |
//!
//! All numbers are big-endian. Incarnations are the same or not, and never older or newer. Decoding is total.
//!
//! Source: the encoding is ours. Deviations: none.

use etherparse::PacketBuilder;
use tidegate_packet::{Address, Headers, Protocol};
use tidegate_wire::ip::Read;

use super::relay::HEAD_BYTES;

/// What gateways speak, and what of it is still understood.
pub const VERSION: u8 = 1;
/// Both ends of every message: no host has it, and nothing is sent on to it (RFC 4291, section 2.5.6).
pub const LINK_ADDRESS: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b't', b'g'];
/// Both ports.
pub const PORT: u16 = 5;
/// Bytes of the envelope, and of what is around it.
pub const ENVELOPE_BYTES: usize = 24;
/// IPv6 and UDP.
pub const HEADER_BYTES: usize = 48;
/// So long may what is said between two gateways be that every path takes it.
pub const BODY_BYTES_MAX: usize = super::mtu::BASE as usize - HEADER_BYTES - ENVELOPE_BYTES;

/// Declares the kinds with their numbers.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What a message is.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind { $($(#[$doc])* $name,)* }
        impl Kind {
            /// The number on the wire.
            pub const fn number(self) -> u8 {
                match self { $(Self::$name => $number,)* }
            }
            const fn of(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// The speaker begins a life, or tries whether the hearer understands.
    Hello = 1,
    /// To that.
    Answer = 2,
    /// A message of the mechanism that controls the link.
    Control = 3,
    /// The speaker goes.
    Bye = 4,
    /// As long as it is: does it arrive?
    Probe = 5,
    /// It did; its body is how long it was.
    Probed = 6,
    /// A message between neighbours.
    Hop = 7,
    /// A datagram for another site, which the hearer passes on: the ids of both ends, and the datagram.
    Relay = 8,
}

/// The head of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// What it is.
    pub kind: Kind,
    /// Which virtual link.
    pub link: u8,
    /// The speaker's.
    pub incarnation: u64,
    /// Rises with each.
    pub number: u32,
    /// The hearer's, as the speaker knows it.
    pub echo: u64,
}

/// What a hello and its answer say besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The oldest version that the speaker understands.
    pub version_least: u8,
    /// How many virtual links it has.
    pub links: u8,
    /// Which mechanism controls them; zero for none.
    pub mechanism: u16,
    /// The largest packet that it takes.
    pub mtu: u16,
}

impl Hello {
    /// The bytes of it.
    pub fn encode(self) -> [u8; 6] {
        let ([m0, m1], [t0, t1]) = (self.mechanism.to_be_bytes(), self.mtu.to_be_bytes());
        [self.version_least, self.links, m0, m1, t0, t1]
    }

    /// What `body` says; more bytes are from a later version.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let &[version_least, links, m0, m1, t0, t1, ..] = body else { return None };
        let (mechanism, mtu) = (u16::from_be_bytes([m0, m1]), u16::from_be_bytes([t0, t1]));
        Some(Self { version_least, links, mechanism, mtu })
    }
}

impl Envelope {
    /// Writes the packet with `body` into `room`: how many bytes; `None` if there is not so much room.
    pub fn write(&self, body: &[u8], room: &mut [u8]) -> Option<usize> {
        let length = HEADER_BYTES + ENVELOPE_BYTES + body.len();
        let room = room.get_mut(..length)?;
        let (headers, payload) = room.split_at_mut(HEADER_BYTES);
        payload[0] = VERSION;
        payload[1] = self.kind.number();
        payload[2] = self.link;
        payload[3] = 0;
        payload[4..12].copy_from_slice(&self.incarnation.to_be_bytes());
        payload[12..16].copy_from_slice(&self.number.to_be_bytes());
        payload[16..24].copy_from_slice(&self.echo.to_be_bytes());
        payload[ENVELOPE_BYTES..].copy_from_slice(body);
        let builder = PacketBuilder::ipv6(LINK_ADDRESS, LINK_ADDRESS, 1).udp(PORT, PORT);
        let mut whole = Vec::with_capacity(length);
        builder.write(&mut whole, payload).ok()?;
        headers.copy_from_slice(&whole[..HEADER_BYTES]);
        Some(length)
    }

    /// The head of the message in `packet`, which was `read` and [`is_message`], and its body.
    pub fn read<'a>(packet: &'a [u8], read: &Read) -> Option<(Self, &'a [u8])> {
        // The length of UDP's header, beyond which padding may stand.
        let udp = read.payload(packet);
        let length = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
        let message = udp.get(8..length)?;
        let (head, body) = message.split_first_chunk::<ENVELOPE_BYTES>()?;
        let eight = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("there are eight"));
        if head[0] != VERSION {
            return None;
        }
        let envelope = Self {
            kind: Kind::of(head[1])?,
            link: head[2],
            incarnation: eight(4),
            number: u32::from_be_bytes([head[12], head[13], head[14], head[15]]),
            echo: eight(16),
        };
        Some((envelope, body))
    }
}

/// Whether a packet with `headers` is, or pretends to be, a message between gateways.
pub fn is_message(headers: &Headers) -> bool {
    headers.destination == Address::V6(LINK_ADDRESS) || headers.source == Address::V6(LINK_ADDRESS)
}

/// How many bytes of `packet`, which was `read` and [`is_message`], any gateway looks at: all of it, but of what is passed on for
/// others; `None` where it is none after all.
pub(crate) fn looked_at(packet: &[u8], read: &Read) -> Option<usize> {
    if !is_proper(&read.headers) {
        return None;
    }
    let (envelope, body) = Envelope::read(packet, read)?;
    let at = body.as_ptr() as usize - packet.as_ptr() as usize;
    let looked_at = if envelope.kind == Kind::Relay { HEAD_BYTES.min(body.len()) } else { body.len() };
    Some(at + looked_at)
}

/// Whether it really is.
pub fn is_proper(headers: &Headers) -> bool {
    headers.destination == Address::V6(LINK_ADDRESS)
        && headers.source == Address::V6(LINK_ADDRESS)
        && headers.protocol == Protocol::UDP
        && headers.destination_port == PORT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_wire::ip;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind in 1u8..=8, link in 0u8..8, incarnation: u64, number: u32, echo: u64,
            body in prop::collection::vec(any::<u8>(), 0..1200), padding in 0usize..16,
        ) {
            let kind = Kind::of(kind).expect("it is one");
            let envelope = Envelope { kind, link, incarnation, number, echo };
            let mut room = [0; 1400];
            let length = envelope.write(&body, &mut room).expect("there is room");
            let packet = &room[..length + padding];
            let read = ip::read(packet).expect("it is a packet");
            prop_assert!(is_message(&read.headers) && is_proper(&read.headers));
            prop_assert_eq!(Envelope::read(packet, &read), Some((envelope, &body[..])));
        }

        #[test]
        fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200), spoilt in any::<[(u8, u8); 4]>()) {
            let envelope = Envelope { kind: Kind::Hop, link: 1, incarnation: 2, number: 3, echo: 4 };
            let mut room = [0; 400];
            let length = envelope.write(&bytes, &mut room).expect("there is room");
            for (at, value) in spoilt {
                room[usize::from(at) % length] ^= value;
            }
            for packet in [&bytes[..], &room[..length]] {
                if let Some(read) = ip::read(packet) {
                    let _ = Envelope::read(packet, &read);
                }
            }
            let _ = Hello::decode(&bytes);
        }
    }

    #[test]
    fn the_checksum_is_that_of_udp() {
        let envelope = Envelope { kind: Kind::Hello, link: 0, incarnation: 1, number: 2, echo: 3 };
        let mut room = [0; 100];
        let length = envelope.write(&[7, 8, 9], &mut room).expect("there is room");
        let packet = etherparse::SlicedPacket::from_ip(&room[..length]).expect("it is a packet");
        let (Some(etherparse::NetSlice::Ipv6(ip)), Some(etherparse::TransportSlice::Udp(udp))) =
            (packet.net, packet.transport)
        else {
            panic!("it is IPv6 and UDP");
        };
        let header = udp.to_header();
        let expected =
            header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).expect("it is short");
        assert_eq!(header.checksum, expected);
    }
}

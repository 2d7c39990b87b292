//! What of a packet is recorded: its headers, and messages of gateways. What hosts say to each other is not.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use tidegate_packet::Protocol;
use tidegate_wire::ip::{self, Read};

use crate::core::envelope;

/// Type and code of ICMP: what a gateway reads before it answers.
const ICMP_BYTES: usize = 2;
const UDP_BYTES: usize = 8;
/// TCP's header without options, and where its length stands (RFC 9293, section 3.1).
const TCP_BYTES: usize = 20;
const TCP_LENGTH_AT: usize = 12;
/// Where the checksum of UDP stands.
const UDP_CHECKSUM: std::ops::Range<usize> = 6..8;

/// From where a packet comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Hosts: whatever it is, only its headers are for gateways.
    Hosts,
    /// A tunnel, in which gateways talk.
    Tunnel,
}

/// The beginning of `packet` that is kept; behind it there may be zeros on replay.
pub(super) fn kept(packet: &[u8], side: Side) -> &[u8] {
    let Some(read) = ip::read(packet) else { return &[] };
    let message = match side {
        Side::Tunnel if envelope::is_message(&read.headers) => envelope::looked_at(packet, &read),
        Side::Tunnel | Side::Hosts => None,
    };
    let bytes = message.unwrap_or_else(|| header_bytes(packet, &read));
    without_zeros(&packet[..bytes.min(packet.len())])
}

fn header_bytes(packet: &[u8], read: &Read) -> usize {
    let rest = read.payload(packet);
    let transport = match read.headers.protocol {
        _ if read.fragment.is_some_and(|fragment| !fragment.is_first) => 0,
        Protocol::TCP => rest.get(TCP_LENGTH_AT).map_or(0, |byte| usize::from(byte >> 4) * 4).max(TCP_BYTES),
        Protocol::UDP => UDP_BYTES,
        Protocol::ICMP | Protocol::ICMPV6 => ICMP_BYTES,
        _ => 0,
    };
    packet.len() - rest.len() + transport
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..used]
}

/// Codepoint and ECN field of `packet`; zero if it is none.
pub(super) fn traffic_class(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        [_, second, ..] => *second,
        _ => 0,
    }
}

/// A number that is another one where the headers of `packet`, or the message in it, are others. Checksums over what is not kept count
/// for nothing: those of messages, which are made here.
pub(super) fn digest(packet: &[u8], side: Side) -> u32 {
    let kept = kept(packet, side);
    // Against accidents: the key is no secret.
    let mut hasher = SipHasher13::new_with_keys(0x7469_6465, 0x6761_7465);
    let message = match side {
        Side::Tunnel => ip::read(packet).filter(|read| envelope::is_message(&read.headers)),
        Side::Hosts => None,
    };
    match message.map(|read| packet.len() - read.payload(packet).len() + UDP_CHECKSUM.start) {
        Some(at) if at + UDP_CHECKSUM.len() <= kept.len() => {
            hasher.write(&kept[..at]);
            hasher.write(&kept[at + UDP_CHECKSUM.len()..]);
        }
        _ => hasher.write(kept),
    }
    hasher.finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::envelope::{Envelope, Kind};
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    const PAYLOAD: [u8; 40] = [0xaa; 40];

    fn packets() -> Vec<(&'static str, usize, Vec<u8>)> {
        let v4 = || PacketBuilder::ipv4([10, 1, 0, 1], [10, 2, 0, 1], 60);
        let v6 = || PacketBuilder::ipv6([0xfd; 16], [0xfc; 16], 60);
        let mut all = Vec::new();
        let mut add = |name, bytes, write: &dyn Fn(&mut Vec<u8>)| {
            let mut packet = Vec::new();
            write(&mut packet);
            all.push((name, bytes, packet));
        };
        add("UDP", 28, &|out| v4().udp(1, 2).write(out, &PAYLOAD).unwrap());
        add("TCP", 40, &|out| v4().tcp(1, 2, 3, 4).write(out, &PAYLOAD).unwrap());
        add("TCP over IPv6", 60, &|out| v6().tcp(1, 2, 3, 4).write(out, &PAYLOAD).unwrap());
        add("ICMP", 21, &|out| v4().icmpv4_echo_request(0xaaaa, 0xaaaa).write(out, &PAYLOAD).unwrap());
        add("another protocol", 20, &|out| v4().write(out, 132.into(), &PAYLOAD).unwrap());
        all
    }

    #[test]
    fn headers_are_kept_and_payload_is_not() {
        for (name, bytes, packet) in packets() {
            for side in [Side::Hosts, Side::Tunnel] {
                let kept = kept(&packet, side);
                // Zeros at the end are not kept: TCP's urgent pointer, and the code of an echo.
                assert!((bytes - 2..=bytes).contains(&kept.len()), "{name}: {}", kept.len());
                assert!(!kept.windows(4).any(|window| window == [0xaa; 4]), "{name}");
            }
        }
        assert!(kept(b"no packet at all", Side::Tunnel).is_empty());
        // Behind the first fragment there is nothing but payload.
        let mut fragment = packets()[1].2.clone();
        fragment[6..8].copy_from_slice(&[0, 9]);
        assert_eq!(kept(&fragment, Side::Hosts).len(), 20);
    }

    #[test]
    fn messages_are_kept_as_gateways_read_them_and_those_of_hosts_are_not() {
        for (kind, bytes) in [(Kind::Control, 48 + 24 + 40), (Kind::Relay, 48 + 24 + 17)] {
            let envelope = Envelope { kind, link: 0, incarnation: 1, number: 2, echo: 3 };
            let mut packet = [0; 200];
            let length = envelope.write(&PAYLOAD, &mut packet).unwrap();
            assert_eq!(kept(&packet[..length], Side::Tunnel).len(), bytes);
            assert_eq!(kept(&packet[..length], Side::Hosts).len(), 48);
            // What it carries for others, and the checksum over that, are no part of the digest.
            let before = digest(&packet[..length], Side::Tunnel);
            packet[length - 1] ^= 1;
            packet[46] ^= 1;
            assert_eq!(digest(&packet[..length], Side::Tunnel) == before, kind == Kind::Relay);
            packet[72] ^= 1;
            assert_ne!(digest(&packet[..length], Side::Tunnel), before);
        }
    }

    proptest! {
        /// What is not kept counts for nothing: with zeros there the core reads the same.
        #[test]
        fn zeros_behind_what_is_kept_are_read_alike(
            which in 0usize..5, cut in 0usize..120, spoilt in any::<[(u8, u8); 3]>(), is_host: bool,
        ) {
            let (_, _, mut packet) = packets().swap_remove(which);
            packet.truncate(cut);
            let side = if is_host { Side::Hosts } else { Side::Tunnel };
            for (at, value) in spoilt {
                if let Some(byte) = packet.get_mut(usize::from(at) % 64) {
                    *byte ^= value;
                }
            }
            let mut emptied = kept(&packet, side).to_vec();
            emptied.resize(packet.len(), 0);
            let (ours, theirs) = (ip::read(&packet), ip::read(&emptied));
            prop_assert_eq!(ours.map(|read| read.headers), theirs.map(|read| read.headers));
            prop_assert_eq!(ours.map(|read| (read.bytes, read.ttl, read.fragment)), theirs.map(|read| (read.bytes, read.ttl, read.fragment)));
            prop_assert_eq!(kept(&packet, side), kept(&emptied, side));
            prop_assert_eq!(digest(&packet, side), digest(&emptied, side));
            let segment = |bytes: &mut Vec<u8>| ip::read(bytes).and_then(|read| ip::read_tcp(bytes, &read));
            prop_assert_eq!(segment(&mut packet), segment(&mut emptied));
        }
    }
}

//! What a router answers to packets that it cannot send on (RFC 792, RFC 4443): without it neither traceroute nor the discovery
//! of the path's largest packet works.

use etherparse::icmpv4::{DestUnreachableHeader, TimeExceededCode as Exceeded4};
use etherparse::icmpv6::TimeExceededCode as Exceeded6;
use etherparse::{Icmpv4Type, Icmpv6Type, PacketBuilder};
use tidegate_packet::{Address, Protocol};

use crate::ip;

/// The answer has no more bytes: all hosts take packets of this size (RFC 1812, section 4.3.2.3; RFC 4443, section 2.4 c).
const ANSWER_BYTES_MAX_V4: usize = 576;
const ANSWER_BYTES_MAX_V6: usize = 1280;
/// IP and ICMP headers of the answer.
const HEADER_BYTES_V4: usize = 20 + 8;
const HEADER_BYTES_V6: usize = 40 + 8;
/// An answer begins with so many hops to go.
const HOPS: u8 = 64;
/// Types of ICMP (for IPv4) that are no errors, to which a router may answer: echo and its reply.
const NO_ERRORS_V4: [u8; 2] = [0, 8];
/// Types of `ICMPv6` below this are errors.
const FIRST_NO_ERROR_V6: u8 = 128;

/// Why a packet cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It has made all hops that it may.
    TimeExceeded,
    /// It has more bytes than this, and must not be cut.
    TooBig(u16),
}

/// The bytes of a router's answer to `packet`: from `router4` or `router6`, written into `out`; how many. `None` where none may be
/// sent: to errors, to fragments but the first, to packets that may be cut (RFC 1122, section 3.2.2; RFC 4443, section 2.4 e), and
/// where `out` is too short.
pub fn answer(
    packet: &[u8],
    trouble: Trouble,
    (router4, router6): ([u8; 4], [u8; 16]),
    out: &mut [u8],
) -> Option<usize> {
    let about = ip::read(packet)?;
    if about.fragment.is_some_and(|fragment| !fragment.is_first) {
        return None;
    }
    // Of a message of ICMP, its type.
    let first = about.payload(packet).first().copied();
    let room = out.len();
    let mut rest = out;
    match (about.headers.source, about.headers.destination) {
        (Address::V4(source), Address::V4(destination)) => {
            let is_error = about.headers.protocol == Protocol::ICMP
                && first.is_none_or(|kind| !NO_ERRORS_V4.contains(&kind));
            let is_for_one = |octets: [u8; 4]| (1..224).contains(&octets[0]);
            let may_be_cut = packet[6] & 0x40 == 0;
            if is_error || !is_for_one(source) || !is_for_one(destination) {
                return None;
            }
            let kind = match trouble {
                Trouble::TimeExceeded => Icmpv4Type::TimeExceeded(Exceeded4::TtlExceededInTransit),
                Trouble::TooBig(_) if may_be_cut => return None,
                Trouble::TooBig(next_hop_mtu) => {
                    Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded {
                        next_hop_mtu,
                    })
                }
            };
            let quoted = &packet[..packet.len().min(ANSWER_BYTES_MAX_V4 - HEADER_BYTES_V4)];
            PacketBuilder::ipv4(router4, source, HOPS).icmpv4(kind).write(&mut rest, quoted).ok()?;
        }
        (Address::V6(source), Address::V6(destination)) => {
            let is_error = about.headers.protocol == Protocol::ICMPV6
                && first.is_none_or(|kind| kind < FIRST_NO_ERROR_V6);
            // Multicast, and nobody yet. Of packets to many, only their size is told (RFC 4443, section 2.4 e.3).
            let is_told = destination[0] != 0xff || matches!(trouble, Trouble::TooBig(_));
            if is_error || !is_told || source[0] == 0xff || source == [0; 16] {
                return None;
            }
            let kind = match trouble {
                Trouble::TimeExceeded => Icmpv6Type::TimeExceeded(Exceeded6::HopLimitExceeded),
                Trouble::TooBig(mtu) => Icmpv6Type::PacketTooBig { mtu: mtu.into() },
            };
            let quoted = &packet[..packet.len().min(ANSWER_BYTES_MAX_V6 - HEADER_BYTES_V6)];
            PacketBuilder::ipv6(router6, source, HOPS).icmpv6(kind).write(&mut rest, quoted).ok()?;
        }
        _ => return None,
    }
    Some(room - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::checksum::Sum16BitWords;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    const ROUTER: ([u8; 4], [u8; 16]) = ([10, 0, 0, 9], [0xfd; 16]);

    fn udp4(payload: usize) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 1).udp(33434, 33435);
        builder.write(&mut packet, &vec![7; payload]).unwrap();
        packet
    }

    fn udp6(payload: usize) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6([0xfe; 16], [0xfc; 16], 1).udp(33434, 33435);
        builder.write(&mut packet, &vec![7; payload]).unwrap();
        packet
    }

    fn answered(packet: &[u8], trouble: Trouble) -> Option<Vec<u8>> {
        let mut out = vec![0; 1500];
        let bytes = answer(packet, trouble, ROUTER, &mut out)?;
        out.truncate(bytes);
        Some(out)
    }

    #[test]
    fn the_sender_of_a_packet_without_hops_hears_of_it_with_the_packets_beginning() {
        let packet = udp4(1000);
        let answer = answered(&packet, Trouble::TimeExceeded).unwrap();
        assert_eq!(answer.len(), ANSWER_BYTES_MAX_V4);
        let sliced = SlicedPacket::from_ip(&answer).unwrap();
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Icmpv4(icmp))) = (&sliced.net, &sliced.transport)
        else {
            panic!("{sliced:?}")
        };
        assert_eq!((ip.header().source(), ip.header().destination()), ([10, 0, 0, 9], [10, 0, 0, 1]));
        assert_eq!(icmp.icmp_type(), Icmpv4Type::TimeExceeded(Exceeded4::TtlExceededInTransit));
        assert_eq!(Sum16BitWords::new().add_slice(icmp.slice()).ones_complement(), 0);
        assert_eq!(icmp.payload(), &packet[..ANSWER_BYTES_MAX_V4 - HEADER_BYTES_V4]);
    }

    #[test]
    fn the_same_over_ipv6() {
        for (trouble, expected) in [
            (Trouble::TimeExceeded, Icmpv6Type::TimeExceeded(Exceeded6::HopLimitExceeded)),
            (Trouble::TooBig(1400), Icmpv6Type::PacketTooBig { mtu: 1400 }),
        ] {
            let answer = answered(&udp6(1300), trouble).unwrap();
            assert_eq!(answer.len(), ANSWER_BYTES_MAX_V6);
            let sliced = SlicedPacket::from_ip(&answer).unwrap();
            let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) =
                (&sliced.net, &sliced.transport)
            else {
                panic!("{sliced:?}")
            };
            assert_eq!((ip.header().source(), ip.header().destination()), ([0xfd; 16], [0xfe; 16]));
            assert_eq!(icmp.icmp_type(), expected);
            assert!(icmp.is_checksum_valid(ip.header().source(), ip.header().destination()));
        }
    }

    #[test]
    fn only_what_must_not_be_cut_is_too_big() {
        let mut packet = udp4(1000);
        packet[6] = 0x40;
        let answer = answered(&packet, Trouble::TooBig(600)).unwrap();
        assert_eq!((answer[20], answer[21], u16::from_be_bytes([answer[26], answer[27]])), (3, 4, 600));
        packet[6] = 0;
        assert_eq!(answered(&packet, Trouble::TooBig(600)), None);
    }

    #[test]
    fn errors_and_later_fragments_have_no_answer() {
        let once = answered(&udp4(8), Trouble::TimeExceeded).unwrap();
        assert_eq!(answered(&once, Trouble::TimeExceeded), None);
        let once_more = answered(&udp6(8), Trouble::TimeExceeded).unwrap();
        assert_eq!(answered(&once_more, Trouble::TimeExceeded), None);
        let mut later = udp4(1000);
        later[6..8].copy_from_slice(&[0x20, 0x10]);
        assert_eq!(answered(&later, Trouble::TimeExceeded), None);
        let mut ping = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 1).icmpv4_echo_request(1, 2);
        builder.write(&mut ping, &[]).unwrap();
        assert!(answered(&ping, Trouble::TimeExceeded).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..120), room in 0..100usize) {
            for trouble in [Trouble::TimeExceeded, Trouble::TooBig(1280)] {
                let _ = answer(&bytes, trouble, ROUTER, &mut vec![0; room]);
            }
        }
    }
}

//! The headers of real packets: what the network reads of them, and what it writes back.

use etherparse::{IpNumber, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use tidegate_mechanism::edge::{RawSegment, SegmentEditor};
use tidegate_packet::{Address, Dscp, Ecn, Headers, OutsideTcp, Protocol};

/// Of the fixed header of IPv6, which its length does not count (RFC 8200, section 3).
const IPV6_HEADER_BYTES: u16 = 40;

/// What the network needs to know of a real packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// For classifiers. Ports are zero where there are none: ICMP, fragments but the first.
    pub headers: Headers,
    /// Hops it may still make.
    pub ttl: u8,
    /// Which part of a larger packet it is, if it is one.
    pub fragment: Option<Fragment>,
    /// Its length, as its header has it; more than there are bytes if it was cut off.
    pub bytes: u32,
    /// Where what the IP headers precede begins.
    payload_at: u16,
    /// Whether that is a transport header that can be read.
    has_transport: bool,
}

impl Read {
    /// Of `packet`, of which this was read: what the IP headers precede.
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(usize::from(self.payload_at)..).unwrap_or_default()
    }

    /// Where its TCP header begins, if it has one that is whole.
    pub fn tcp_at(&self) -> Option<u16> {
        (self.headers.protocol == Protocol::TCP && self.has_transport).then_some(self.payload_at)
    }
}

/// A fragment (RFC 791, section 3.2; RFC 8200, section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The same in all fragments of a packet.
    pub identification: u32,
    /// Whether it begins with the transport header.
    pub is_first: bool,
}

/// Reads the headers of `packet`; `None` if it is no IP packet.
pub fn read(packet: &[u8]) -> Option<Read> {
    let sliced = LaxSlicedPacket::from_ip(packet).ok()?;
    let (source, destination, payload, traffic_class, ttl, flow_label, fragment, bytes) = match sliced.net? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            if usize::from(header.total_len()) < header.slice().len() {
                return None;
            }
            (
                Address::V4(header.source()),
                Address::V4(header.destination()),
                ip.payload().clone(),
                packet[1],
                header.ttl(),
                0,
                header.is_fragmenting_payload().then(|| Fragment {
                    identification: header.identification().into(),
                    is_first: header.fragments_offset().value() == 0,
                }),
                u32::from(header.total_len()),
            )
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            (
                Address::V6(header.source()),
                Address::V6(header.destination()),
                ip.payload().clone(),
                packet[0] << 4 | packet[1] >> 4,
                header.hop_limit(),
                header.flow_label().value(),
                ip.payload().fragmented.then(|| fragment_of_ipv6(packet)).flatten(),
                u32::from(IPV6_HEADER_BYTES) + u32::from(header.payload_length()),
            )
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let (source_port, destination_port) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        // The library looks into no fragment, but the first one has them: at the start in both protocols.
        _ if fragment.is_some_and(|fragment| fragment.is_first)
            && [IpNumber::TCP, IpNumber::UDP].contains(&payload.ip_number) =>
        {
            let word = |at: usize| {
                payload.payload.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
            };
            (word(0), word(2))
        }
        _ => (0, 0),
    };
    let headers = Headers {
        source,
        destination,
        flow_label,
        protocol: Protocol(payload.ip_number.0),
        source_port,
        destination_port,
        dscp: Dscp::new(traffic_class >> 2),
        ecn: Ecn::from_bits(traffic_class),
    };
    // Where a slice lies in the packet that it was cut from.
    let payload_at = payload.payload.as_ptr() as usize - packet.as_ptr() as usize;
    let payload_at = u16::try_from(payload_at).ok()?;
    Some(Read { headers, ttl, fragment, bytes, payload_at, has_transport: sliced.transport.is_some() })
}

/// What the fragment header of an IPv6 packet says. (The library's iterator over headers reads beyond the end of a packet that was cut
/// off.)
fn fragment_of_ipv6(packet: &[u8]) -> Option<Fragment> {
    let mut kind = IpNumber(*packet.get(6)?);
    let mut rest = packet.get(usize::from(IPV6_HEADER_BYTES)..)?;
    loop {
        let &[next, length, ..] = rest else { return None };
        let bytes = match kind {
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                let [_, _, high, low, identification @ ..] = *rest.first_chunk::<8>()?;
                let identification = u32::from_be_bytes(identification);
                // The lowest three bits are no part of the offset.
                return Some(Fragment {
                    identification,
                    is_first: u16::from_be_bytes([high, low]) >> 3 == 0,
                });
            }
            IpNumber::IPV6_HEADER_HOP_BY_HOP
            | IpNumber::IPV6_ROUTE_HEADER
            | IpNumber::IPV6_DESTINATION_OPTIONS
            | IpNumber::MOBILITY_HEADER
            | IpNumber::HIP
            | IpNumber::SHIM6 => (usize::from(length) + 1) * 8,
            IpNumber::AUTHENTICATION_HEADER => (usize::from(length) + 2) * 4,
            _ => return None,
        };
        kind = IpNumber(next);
        rest = rest.get(bytes..)?;
    }
}

/// Where the TCP header of `packet` begins, which [`read`] has understood as `about`, and what edges read of it.
pub fn read_tcp(packet: &mut [u8], about: &Read) -> Option<(u16, OutsideTcp)> {
    let at = about.tcp_at()?;
    let segment = RawSegment::parse(packet.get_mut(usize::from(at)..)?)?;
    let tcp = OutsideTcp {
        sequence: segment.sequence(),
        acknowledgment: segment.acknowledgment().unwrap_or(0),
        payload_bytes: u16::try_from(segment.payload_bytes()).ok()?,
        window: segment.window_bytes(0) as u16,
        has_ack: segment.acknowledgment().is_some(),
        ecn_echo: segment.has_ecn_echo(),
        announced_shift: segment.announced_shift(),
    };
    Some((at, tcp))
}

/// Where [`write_tcp`] has left a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Where it was.
    InPlace,
    /// An acknowledgment without the data that it came with: beside it.
    Bare,
}

/// Writes what the network made of it into the TCP header at `offset`, which [`read_tcp`] has given, and corrects the checksum. A
/// segment of which only the acknowledgment goes on is copied into `bare`, and stays as it is.
pub fn write_tcp(packet: &mut [u8], offset: u16, tcp: &OutsideTcp, bare: &mut Vec<u8>) -> Written {
    let at = usize::from(offset);
    let Some(mut segment) = packet.get_mut(at..).and_then(RawSegment::parse) else { return Written::InPlace };
    if tcp.payload_bytes == 0 && segment.payload_bytes() > 0 {
        let end = at + segment.header_bytes();
        bare.clear();
        bare.extend_from_slice(&packet[..end]);
        if let Some(mut alone) = RawSegment::parse(&mut bare[at..]) {
            alone.keep_acknowledgment_only();
            edit(&mut alone, tcp);
        }
        shorten(bare, at);
        return Written::Bare;
    }
    edit(&mut segment, tcp);
    Written::InPlace
}

fn edit(segment: &mut RawSegment<'_>, tcp: &OutsideTcp) {
    if segment.window_bytes(0) != u32::from(tcp.window) {
        segment.set_window_bytes(u32::from(tcp.window), 0);
    }
    if segment.sequence() != tcp.sequence {
        segment.set_sequence(tcp.sequence);
    }
    if segment.acknowledgment().is_some_and(|number| number != tcp.acknowledgment) {
        segment.set_acknowledgment(tcp.acknowledgment);
    }
    if tcp.ecn_echo && !segment.has_ecn_echo() {
        segment.set_ecn_echo();
    }
}

/// `packet`, whose TCP header begins at `offset`, has lost its payload: lengths and checksums follow.
fn shorten(packet: &mut [u8], offset: usize) {
    let length = packet.len() as u16;
    let sum_of = |bytes: &[u8]| -> u32 {
        let (words, odd) = bytes.as_chunks::<2>();
        let last = odd.first().map_or(0, |&byte| u32::from(byte) << 8);
        words.iter().map(|&word| u32::from(u16::from_be_bytes(word))).sum::<u32>() + last
    };
    // The pseudo-headers have the addresses, the protocol and the length of the segment (RFC 9293, section 3.1; RFC 8200, section 8.1).
    let addresses = if packet[0] >> 4 == 6 {
        packet[4..6].copy_from_slice(&(length - IPV6_HEADER_BYTES).to_be_bytes());
        sum_of(&packet[8..40])
    } else {
        change_word(packet, 2, length.to_be_bytes());
        sum_of(&packet[12..20])
    };
    let segment = &mut packet[offset..];
    segment[16..18].fill(0);
    let mut sum = addresses + u32::from(Protocol::TCP.0) + segment.len() as u32 + sum_of(segment);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    segment[16..18].copy_from_slice(&(!sum as u16).to_be_bytes());
}

/// Writes what the network may change into `packet`, which [`read`] has understood. The checksum of an IPv4 header
/// follows; no other covers these fields (RFC 9293, section 3.1, RFC 8200, section 8.1: the pseudo-headers are without
/// them).
pub fn write(packet: &mut [u8], ecn: Ecn, dscp: Dscp, ttl: u8) {
    let traffic_class = dscp.get() << 2 | ecn as u8;
    if packet[0] >> 4 == 6 {
        packet[0] = packet[0] & 0xf0 | traffic_class >> 4;
        packet[1] = packet[1] & 0x0f | traffic_class << 4;
        packet[7] = ttl;
    } else {
        change_word(packet, 0, [packet[0], traffic_class]);
        change_word(packet, 8, [ttl, packet[9]]);
    }
}

/// Replaces the 16 bits at `offset` of an IPv4 header and corrects the checksum: HC' = ~(~HC + ~m + m') (RFC 1624,
/// equation 3).
fn change_word(packet: &mut [u8], offset: usize, new: [u8; 2]) {
    let word = |at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let old = word(offset);
    let new_word = u32::from(u16::from_be_bytes(new));
    if old == new_word {
        return;
    }
    let sum = (!word(10) & 0xffff) + (!old & 0xffff) + new_word;
    // Three terms of 16 bits carry at most 2, and adding that carries at most once more.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[10..12].copy_from_slice(&(!folded as u16).to_be_bytes());
    packet[offset..offset + 2].copy_from_slice(&new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ipv4HeaderSlice, PacketBuilder};
    use proptest::prelude::*;

    fn tcp4(ttl: u8, tos: u8) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], ttl).tcp(4000, 5001, 1, 1000);
        builder.write(&mut packet, b"data").unwrap();
        packet[1] = tos;
        packet[10..12].fill(0);
        let checksum = Ipv4HeaderSlice::from_slice(&packet).unwrap().to_header().calc_header_checksum();
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    #[test]
    fn the_flow_of_a_tcp_packet_is_its_addresses_and_ports() {
        let read = read(&tcp4(64, 46 << 2 | 0b10)).unwrap();
        assert_eq!(read.headers.source, Address::V4([10, 0, 0, 1]));
        assert_eq!((read.headers.source_port, read.headers.destination_port), (4000, 5001));
        assert_eq!((read.headers.protocol, read.ttl), (Protocol::TCP, 64));
        assert_eq!((read.headers.dscp, read.headers.ecn), (Dscp::EF, Ecn::Ect0));
    }

    #[test]
    fn an_ipv6_packet_keeps_its_flow_label_when_it_is_marked() {
        let mut packet = Vec::new();
        let (from, to) = ([0xfd; 16], [0xfe; 16]);
        PacketBuilder::ipv6(from, to, 9).udp(53, 54).write(&mut packet, b"data").unwrap();
        packet[1] |= 0x0a;
        packet[3] = 0x77;
        let before = read(&packet).unwrap();
        write(&mut packet, Ecn::Ce, Dscp::AF13, 8);
        let after = read(&packet).unwrap();
        assert_eq!(before.headers.flow_label, 0xa_0077);
        let expected = Headers { ecn: Ecn::Ce, dscp: Dscp::AF13, ..before.headers };
        assert_eq!((after.headers, after.ttl), (expected, 8));
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut packet = tcp4(64, 0);
        packet[6..8].copy_from_slice(&[0x00, 0x10]);
        assert_eq!(read(&packet).unwrap().headers.source_port, 0);
    }

    #[test]
    fn the_parts_of_a_packet_are_told_over_both_versions_of_ip() {
        let part = |identification, is_first| Some(Fragment { identification, is_first });
        let mut packet = tcp4(64, 0);
        assert_eq!(read(&packet).unwrap().fragment, None);
        packet[4..8].copy_from_slice(&[0x12, 0x34, 0x20, 0]);
        let first = read(&packet).unwrap();
        assert_eq!((first.fragment, first.headers.source_port), (part(0x1234, true), 4000));
        packet[6..8].copy_from_slice(&[0, 9]);
        assert_eq!(read(&packet).unwrap().fragment, part(0x1234, false));

        let mut v6 = Vec::new();
        PacketBuilder::ipv6([0xfd; 16], [0xfe; 16], 9).udp(53, 54).write(&mut v6, b"data").unwrap();
        // Destination options, then the header of a fragment, in front of the datagram.
        let headers = [44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0xaa, 0xbb, 0xcc, 0xdd];
        v6.splice(40..40, headers);
        v6[6] = 60;
        v6[5] += headers.len() as u8;
        assert_eq!(read(&v6).unwrap().fragment, part(0xaabb_ccdd, true));
        assert_eq!(read(&v6).unwrap().headers.source_port, 53);
        v6[51] = 8 | 1;
        let later = read(&v6).unwrap();
        assert_eq!((later.fragment, later.headers.source_port), (part(0xaabb_ccdd, false), 0));
        for end in 0..v6.len() {
            let _ = read(&v6[..end]);
        }
    }

    #[test]
    fn a_lowered_window_is_in_the_header_and_in_its_checksum() {
        let mut packet = tcp4(64, 0);
        let about = read(&packet).unwrap();
        let (offset, tcp) = read_tcp(&mut packet, &about).unwrap();
        assert_eq!((offset, tcp.sequence, tcp.payload_bytes, tcp.window), (20, 1, 4, 1000));
        assert_eq!((tcp.has_ack, tcp.announced_shift), (false, None));
        let lowered = OutsideTcp { window: 77, ..tcp };
        assert_eq!(write_tcp(&mut packet, offset, &lowered, &mut Vec::new()), Written::InPlace);
        let ip = etherparse::Ipv4HeaderSlice::from_slice(&packet).unwrap();
        let segment = etherparse::TcpSlice::from_slice(&packet[20..]).unwrap();
        assert_eq!(segment.window_size(), 77);
        let right = segment.calc_checksum_ipv4(ip.source(), ip.destination()).unwrap();
        assert_eq!(segment.checksum(), right);
    }

    /// A segment with data, and what became of it as IP version, TCP header and payload bytes.
    fn written(
        builder: etherparse::PacketBuilderStep<etherparse::TcpHeader>,
        change: impl Fn(&mut OutsideTcp),
    ) -> Vec<u8> {
        let mut packet = Vec::new();
        builder.write(&mut packet, b"payload of odd size").unwrap();
        let about = read(&packet).unwrap();
        let (offset, mut tcp) = read_tcp(&mut packet, &about).unwrap();
        change(&mut tcp);
        let mut bare = Vec::new();
        let before = packet.clone();
        match write_tcp(&mut packet, offset, &tcp, &mut bare) {
            Written::InPlace => packet,
            Written::Bare => {
                assert_eq!(packet, before, "the data is untouched");
                bare
            }
        }
    }

    fn check(packet: &[u8]) -> etherparse::TcpHeader {
        let sliced = etherparse::SlicedPacket::from_ip(packet).expect("lengths are right");
        let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("no TCP") };
        let right = match sliced.net.as_ref().unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                tcp.calc_checksum_ipv4(header.source, header.destination)
            }
            etherparse::NetSlice::Ipv6(ip) => {
                tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
            }
            etherparse::NetSlice::Arp(_) => panic!("no IP"),
        };
        assert_eq!(tcp.checksum(), right.unwrap());
        tcp.to_header()
    }

    #[test]
    fn acknowledgment_and_echo_of_a_real_segment_change_with_its_checksum() {
        let builder =
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, 50, 1000).ack(7000).psh();
        let header = check(&written(builder, |tcp| (tcp.acknowledgment, tcp.ecn_echo) = (6000, true)));
        assert_eq!((header.acknowledgment_number, header.sequence_number), (6000, 50));
        assert!(header.ece && header.psh);
    }

    #[test]
    fn an_acknowledgment_goes_on_without_its_data_over_both_versions_of_ip() {
        let alone = |builder: etherparse::PacketBuilderStep<etherparse::TcpHeader>, bytes| {
            let builder = builder.ack(7000).psh().fin();
            let builder = builder.options(&[etherparse::TcpOptionElement::WindowScale(3)]).unwrap();
            let packet = written(builder, |tcp| (tcp.payload_bytes, tcp.sequence, tcp.window) = (0, 90, 900));
            assert_eq!(packet.len(), bytes);
            let header = check(&packet);
            assert_eq!((header.sequence_number, header.acknowledgment_number), (90, 7000));
            assert_eq!((header.window_size, header.ack), (900, true));
            assert!(!header.psh && !header.fin && !header.ece);
        };
        alone(PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1, 2, 50, 1000), 20 + 24);
        alone(PacketBuilder::ipv6([0xfd; 16], [0xfe; 16], 64).tcp(1, 2, 50, 1000), 40 + 24);
    }

    proptest! {
        #[test]
        fn the_checksum_is_right_after_every_change(
            before in any::<(u8, u8)>(), ecn in 0u8..4, dscp in 0u8..64, ttl in any::<u8>()
        ) {
            let mut packet = tcp4(before.0, before.1);
            write(&mut packet, Ecn::from_bits(ecn), Dscp::new(dscp), ttl);
            let header = Ipv4HeaderSlice::from_slice(&packet).unwrap().to_header();
            prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
            prop_assert_eq!((header.time_to_live, packet[1]), (ttl, dscp << 2 | ecn));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Some(about) = read(&bytes) {
                let mut bytes = bytes;
                write(&mut bytes, Ecn::Ce, Dscp::EF, 1);
                if let Some((offset, tcp)) = read_tcp(&mut bytes, &about) {
                    let mut bare = Vec::new();
                    for payload_bytes in [tcp.payload_bytes, 0] {
                        write_tcp(&mut bytes, offset, &OutsideTcp { window: 1, payload_bytes, ..tcp }, &mut bare);
                    }
                }
            }
        }
    }
}

//! What packets look like: IP, TCP, UDP and ICMP headers for packets that never had any.
//!
//! - Addresses, ports and flow label are those of the flow's classifier fields, exchanged for acknowledgments. DSCP, ECN
//!   and TTL are the packet's own.
//! - The original length of a packet is its bytes on the wire. Where a model counts fewer bytes than these headers and
//!   the payload need (ns counts no headers of data packets, and IPv4 headers stand for IPv6), it is what they need, for
//!   otherwise lengths and sequence numbers would contradict each other.
//! - TCP: sequence numbers are shown as if both sides began at zero and had exchanged SYNs, modulo 2^32: the first byte
//!   is number 1. The window is scaled by the least shift with which the configured receive window fits into 16 bits
//!   (as a SYN, where there is one, announces; zero for ns's 20,000 bytes, 7 for 4 MiB). The sending side receives no
//!   data and has no window in the models: 65535 stands there.
//! - Payload is not stored and taken as zeros, so that checksums hold.
//! - Control messages are ICMP (NBP, section II.B) of an experimental type with the message behind eight bytes of
//!   header. A dropped one has no message any more. Edges have addresses from the range for benchmarks (RFC 2544, RFC
//!   5180), by the number of their node. An observer is not told for which edge a message is: in a domain of two it is
//!   the other one, else the destination is a multicast address that stands for the domain's edges.

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpOptionElement, UdpHeader,
};
use tidegate_engine::{Carried, Network, TransportSpec};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::hop::MESSAGE_HEADER_BYTES;
use tidegate_mechanism::tcp::{EcnFeedback, TcpConfig, Variant};
use tidegate_packet::{Address, FlowId, Headers, Packet, Protocol, SackBlock, TcpFlags, TcpHeader};

/// ICMP type for experiments (RFC 4727, section 4).
const ICMP_EXPERIMENT: u8 = 253;
/// `ICMPv6` type for private experiments, an informational one (RFC 4443, section 2.1).
const ICMPV6_EXPERIMENT: u8 = 200;
/// The kind of the TCP option `AccECN1`.
const ACCECN1: u8 = 174;
/// The protocol number of `ICMPv6`.
const ICMPV6: Protocol = Protocol::ICMPV6;
/// The largest shift (RFC 7323, section 2.3).
const WINDOW_SHIFT_MAX: u8 = 14;

/// Both addresses of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Addresses {
    V4 { source: [u8; 4], destination: [u8; 4] },
    V6 { source: [u8; 16], destination: [u8; 16] },
}

impl Addresses {
    /// IPv6 if one of them is: the other is mapped (RFC 4291, section 2.5.5.2).
    fn new(source: Address, destination: Address) -> Self {
        let mapped = |address| match address {
            Address::V6(octets) => octets,
            Address::V4([a, b, c, d]) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d],
        };
        match (source, destination) {
            (Address::V4(source), Address::V4(destination)) => Self::V4 { source, destination },
            _ => Self::V6 { source: mapped(source), destination: mapped(destination) },
        }
    }

    const fn ip_header_bytes(&self) -> u32 {
        match self {
            Self::V4 { .. } => Ipv4Header::MIN_LEN as u32,
            Self::V6 { .. } => Ipv6Header::LEN as u32,
        }
    }

    /// The sum over the pseudo header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    fn pseudo_header(&self, protocol: Protocol, bytes: u16) -> Sum16BitWords {
        let sum = Sum16BitWords::new().add_2bytes([0, protocol.0]).add_2bytes(bytes.to_be_bytes());
        match self {
            Self::V4 { source, destination } => sum.add_slice(source).add_slice(destination),
            Self::V6 { source, destination } => sum.add_slice(source).add_slice(destination),
        }
    }
}

/// What follows the IP header.
#[derive(Clone, Copy, Debug)]
enum Above {
    Tcp(TcpLook),
    Udp,
    /// Some other protocol: nothing of it is known.
    Opaque,
    /// A control message that counts so many bytes of headers.
    Control {
        header_bytes: u32,
    },
}

/// What of a TCP connection is not in its segments.
#[derive(Clone, Copy, Debug)]
struct TcpLook {
    /// Maximum segment size, in bytes.
    mss_bytes: u16,
    window_shift: u8,
    sack_permitted: bool,
    /// Whether acknowledgments count marks: the flags ECE and CWR are then a part of ACE, and the option follows.
    counts_marks: bool,
    /// Whether these are segments of the side that sends no data.
    acknowledges: bool,
}

impl TcpLook {
    fn new(config: &TcpConfig, acknowledges: bool) -> Self {
        let fits = |shift: &u8| u16::try_from(config.receive_window_bytes >> shift).is_ok();
        Self {
            mss_bytes: saturated(config.segment_bytes),
            window_shift: (0..WINDOW_SHIFT_MAX).find(fits).unwrap_or(WINDOW_SHIFT_MAX),
            sack_permitted: config.variant == Variant::Sack,
            counts_marks: config.ecn && config.ecn_feedback == EcnFeedback::Accurate,
            acknowledges,
        }
    }
}

/// What all packets of one flow identity have in common.
#[derive(Clone, Debug)]
pub(super) struct Look {
    addresses: Addresses,
    flow_label: u32,
    protocol: Protocol,
    source_port: u16,
    destination_port: u16,
    above: Above,
}

impl Look {
    fn new(headers: &Headers, above: Above) -> Self {
        Self {
            addresses: Addresses::new(headers.source, headers.destination),
            flow_label: headers.flow_label,
            protocol: headers.protocol,
            source_port: headers.source_port,
            destination_port: headers.destination_port,
            above,
        }
    }
}

/// The looks of all flow identities of `network`; see [`look_of`].
pub(super) fn looks(network: &Network) -> Vec<Look> {
    let mut looks = Vec::new();
    for flow in &network.flows {
        let above = |acknowledges| match (&flow.transport, flow.headers.protocol) {
            (TransportSpec::Tcp(config), Protocol::TCP) => Above::Tcp(TcpLook::new(config, acknowledges)),
            (TransportSpec::Udp { header_bytes: 28 } | TransportSpec::Media(_), Protocol::UDP) => Above::Udp,
            // The scenario calls it something that it is not; no header is better than a wrong one.
            _ => Above::Opaque,
        };
        looks.push(Look::new(&flow.headers, above(false)));
        looks.push(Look::new(&flow.headers.reversed(), above(true)));
    }
    looks.extend(control_looks(network));
    looks.extend(hop_looks(network));
    looks
}

/// The position of `flow` among [`looks`]: these are in the order of [`tidegate_engine::FlowIds`].
pub(super) const fn look_of(flow: FlowId) -> usize {
    flow.0 as usize
}

/// The looks of control messages, edge by edge.
fn control_looks(network: &Network) -> impl Iterator<Item = Look> {
    let is_v6 = |headers: &Headers| matches!(headers.source, Address::V6(_));
    let v6 = !network.flows.is_empty() && network.flows.iter().all(|flow| is_v6(&flow.headers));
    network.domains.iter().enumerate().flat_map(move |(index, domain)| {
        domain.edges.iter().map(move |&node| {
            let addresses = match domain.edges[..] {
                [first, second] => {
                    let other = if node == first { second } else { first };
                    Addresses::new(node_address(node.0, v6), node_address(other.0, v6))
                }
                _ => Addresses::new(node_address(node.0, v6), domain_address(index as u32, v6)),
            };
            let header_bytes = domain.mechanism.as_ref().map_or(0, EdgeConfig::message_header_bytes);
            Look {
                addresses,
                flow_label: 0,
                protocol: if v6 { ICMPV6 } else { Protocol::ICMP },
                source_port: 0,
                destination_port: 0,
                above: Above::Control { header_bytes },
            }
        })
    })
}

/// The looks of messages between neighbours, router by router, to all routers on the link (RFC 1112, RFC 4291).
fn hop_looks(network: &Network) -> impl Iterator<Item = Look> {
    let is_v6 = |headers: &Headers| matches!(headers.source, Address::V6(_));
    let v6 = !network.flows.is_empty() && network.flows.iter().all(|flow| is_v6(&flow.headers));
    let all_routers =
        if v6 { Address::V6((0xff02_u128 << 112 | 2).to_be_bytes()) } else { Address::V4([224, 0, 0, 2]) };
    network.hops.iter().map(move |hop| Look {
        addresses: Addresses::new(node_address(hop.node.0, v6), all_routers),
        flow_label: 0,
        protocol: if v6 { ICMPV6 } else { Protocol::ICMP },
        source_port: 0,
        destination_port: 0,
        above: Above::Control { header_bytes: MESSAGE_HEADER_BYTES },
    })
}

/// 198.18.0.0/15 or `2001:2::/48`, where node zero is number one.
fn node_address(node: u32, v6: bool) -> Address {
    let number = node.wrapping_add(1) & 0x1_ffff;
    if v6 {
        Address::V6((0x2001_0002_u128 << 96 | u128::from(number)).to_be_bytes())
    } else {
        Address::V4((0xc612_0000 + number).to_be_bytes())
    }
}

/// An address for all edges of a domain: 239.255.0.0/16 or `ff05::/16`, of the scope of a site
/// (RFC 2365, RFC 4291).
fn domain_address(domain: u32, v6: bool) -> Address {
    let number = domain.wrapping_add(1) & 0xffff;
    if v6 {
        Address::V6((0xff05_u128 << 112 | u128::from(number)).to_be_bytes())
    } else {
        Address::V4((0xefff_0000 + number).to_be_bytes())
    }
}

/// Makes packets, in buffers that are reused.
#[derive(Debug, Default)]
pub(super) struct Synthesis {
    /// All from the IP header on.
    bytes: Vec<u8>,
    /// All behind the IP header, as far as it is stored.
    segment: Vec<u8>,
}

impl Synthesis {
    /// What is stored of `packet`, and how long it was.
    pub(super) fn packet(
        &mut self,
        look: &Look,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) -> (&[u8], u32) {
        let tcp = &carried.tcp;
        let ip_header_bytes = look.addresses.ip_header_bytes();
        let behind_ip_bytes = packet.wire_bytes.saturating_sub(ip_header_bytes);
        self.segment.clear();
        let segment_bytes = match look.above {
            Above::Tcp(connection) => {
                put_tcp(&mut self.segment, look, connection, tcp);
                self.segment.len() as u32 + tcp.payload_bytes
            }
            Above::Udp => {
                let udp_bytes = behind_ip_bytes.max(UdpHeader::LEN as u32);
                put_udp(&mut self.segment, look, udp_bytes);
                udp_bytes
            }
            Above::Opaque => behind_ip_bytes,
            Above::Control { header_bytes } => {
                put_icmp(&mut self.segment, look, message.unwrap_or_default());
                let missing =
                    if message.is_none() { packet.wire_bytes.saturating_sub(header_bytes) } else { 0 };
                self.segment.len() as u32 + missing
            }
        };
        self.fill_checksum(look, segment_bytes);
        self.bytes.clear();
        put_ip(&mut self.bytes, look, packet, identification(packet, carried), segment_bytes);
        self.bytes.extend_from_slice(&self.segment);
        (&self.bytes, packet.wire_bytes.max(ip_header_bytes + segment_bytes))
    }

    /// Puts the checksum into a segment of `segment_bytes`. What is not stored is zeros, which add nothing.
    fn fill_checksum(&mut self, look: &Look, segment_bytes: u32) {
        let pseudo_header = look.addresses.pseudo_header(look.protocol, saturated(segment_bytes));
        let (at, checksum) = match look.above {
            Above::Tcp(_) => (16, pseudo_header.add_slice(&self.segment).ones_complement()),
            // Zero would mean that there is none (RFC 768).
            Above::Udp => (6, pseudo_header.add_slice(&self.segment).to_ones_complement_with_no_zero()),
            Above::Control { .. } if look.protocol == ICMPV6 => {
                (2, pseudo_header.add_slice(&self.segment).ones_complement())
            }
            Above::Control { .. } => (2, Sum16BitWords::new().add_slice(&self.segment).ones_complement()),
            Above::Opaque => return,
        };
        // The sum is in the order of the memory it was read from.
        self.segment[at..at + 2].copy_from_slice(&checksum.to_ne_bytes());
    }
}

/// The same for a packet wherever it is seen, and for its copies: 16 bits of when it was made, of which flow, and of what in it.
const fn identification(packet: &Packet, carried: &Carried) -> u16 {
    let of = carried.created.as_nanos()
        ^ (packet.flow.0 as u64).rotate_left(40)
        ^ carried.tcp.sequence.rotate_left(20)
        ^ carried.tcp.acknowledgment.rotate_left(10);
    // Fibonacci hashing: the high bits depend on all.
    (of.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}

fn put_ip(out: &mut Vec<u8>, look: &Look, packet: &Packet, identification: u16, segment_bytes: u32) {
    let dscp = IpDscp::try_new(packet.dscp.get()).expect("six bits");
    let ecn = IpEcn::try_new(packet.ecn as u8).expect("two bits");
    match look.addresses {
        Addresses::V4 { source, destination } => {
            let mut header = Ipv4Header {
                dscp,
                ecn,
                total_len: saturated(segment_bytes.saturating_add(Ipv4Header::MIN_LEN as u32)),
                // It means nothing where nothing is fragmented (RFC 6864), but readers of traces know packets by it.
                identification,
                dont_fragment: true,
                time_to_live: packet.ttl,
                protocol: IpNumber(look.protocol.0),
                source,
                destination,
                ..Ipv4Header::default()
            };
            header.header_checksum = header.calc_header_checksum();
            out.extend_from_slice(&header.to_bytes());
        }
        Addresses::V6 { source, destination } => {
            let mut header = Ipv6Header {
                flow_label: Ipv6FlowLabel::try_new(look.flow_label & 0xf_ffff).expect("twenty bits"),
                payload_length: saturated(segment_bytes),
                next_header: IpNumber(look.protocol.0),
                hop_limit: packet.ttl,
                source,
                destination,
                ..Ipv6Header::default()
            };
            header.set_dscp(dscp);
            header.set_ecn(ecn);
            out.extend_from_slice(&header.to_bytes());
        }
    }
}

fn put_udp(out: &mut Vec<u8>, look: &Look, udp_bytes: u32) {
    let header = UdpHeader {
        source_port: look.source_port,
        destination_port: look.destination_port,
        length: saturated(udp_bytes),
        checksum: 0,
    };
    out.extend_from_slice(&header.to_bytes());
}

fn put_icmp(out: &mut Vec<u8>, look: &Look, message: &[u8]) {
    let kind = if look.protocol == ICMPV6 { ICMPV6_EXPERIMENT } else { ICMP_EXPERIMENT };
    out.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(message);
}

fn put_tcp(out: &mut Vec<u8>, look: &Look, connection: TcpLook, tcp: &TcpHeader) {
    let has = |flag| tcp.flags.contains(flag);
    let syn = has(TcpFlags::SYN);
    let sequence = if syn { 0 } else { wire_number(tcp.sequence) };
    let window = if !connection.acknowledges {
        u16::MAX
    } else if syn {
        // Never scaled (RFC 7323, section 2.2).
        saturated(tcp.window_bytes)
    } else {
        saturated(tcp.window_bytes >> connection.window_shift)
    };
    let mut header = etherparse::TcpHeader::new(look.source_port, look.destination_port, sequence, window);
    header.syn = syn;
    header.fin = has(TcpFlags::FIN);
    // ACE is zero where marks are not counted; its highest bit is AE (RFC 9768, section 3.2.1).
    let ace = tcp.flags.ace();
    header.ns = ace & 4 != 0;
    header.cwr = has(TcpFlags::CWR) || ace & 2 != 0;
    header.ece = has(TcpFlags::ECE) || ace & 1 != 0;
    header.ack = has(TcpFlags::ACK);
    if header.ack {
        header.acknowledgment_number = wire_number(tcp.acknowledgment);
    }
    let mut options = Vec::new();
    if syn {
        options.push(TcpOptionElement::MaximumSegmentSize(connection.mss_bytes));
        options.extend([TcpOptionElement::Noop, TcpOptionElement::WindowScale(connection.window_shift)]);
        if connection.sack_permitted {
            options.extend([
                TcpOptionElement::Noop,
                TcpOptionElement::Noop,
                TcpOptionElement::SelectiveAcknowledgementPermitted,
            ]);
        }
    } else if let [first, more @ ..] = tcp.sack.as_slice() {
        let edges = |block: &SackBlock| {
            let left = wire_number(tcp.acknowledgment + u64::from(block.offset));
            (left, left.wrapping_add(block.length))
        };
        let mut rest = [None; 3];
        rest.iter_mut().zip(more).for_each(|(slot, block)| *slot = Some(edges(block)));
        // Aligned as RFC 2018 recommends and as the model counts them.
        options.extend([
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::SelectiveAcknowledgement(edges(first), rest),
        ]);
    }
    header.set_options(&options).expect("a SYN's options or three SACK blocks fit into 40 bytes");
    if connection.counts_marks && connection.acknowledges && !syn {
        let mut with_counts = header.options.as_slice().to_vec();
        with_counts.extend_from_slice(&accecn_option(tcp.ce_bytes));
        header.set_options_raw(&with_counts).expect("three SACK blocks leave room for eight bytes");
    }
    out.extend_from_slice(&header.to_bytes());
}

/// `AccECN1` with EE1B, which is at its start for nothing is sent as ECT(1), and ECEB (RFC 9768, section 3.2.3).
const fn accecn_option(ce_bytes: [u8; 3]) -> [u8; 8] {
    let [high, middle, low] = ce_bytes;
    [ACCECN1, 8, 0, 0, 1, high, middle, low]
}

/// Byte `position` of the stream on the wire: behind a SYN of number zero, modulo 2^32.
const fn wire_number(position: u64) -> u32 {
    (position as u32).wrapping_add(1)
}

/// `value`, or the most that a field of 16 bits holds.
fn saturated(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use tidegate_packet::{Dscp, Ecn, SackBlocks};
    use tidegate_units::Time;

    fn carrying(tcp: &TcpHeader) -> Carried {
        Carried { created: Time::ZERO, route: 0, message: 0, tcp: *tcp }
    }

    fn headers(protocol: Protocol, v6: bool) -> Headers {
        let address = |last: u8| {
            let mut octets = [0; 16];
            (octets[0], octets[15]) = (0xfd, last);
            if v6 { Address::V6(octets) } else { Address::V4([10, 0, 0, last]) }
        };
        Headers {
            source: address(1),
            destination: address(2),
            flow_label: 0xabcde,
            protocol,
            source_port: 1000,
            destination_port: 80,
            dscp: Dscp::BEST_EFFORT,
            ecn: Ecn::NotEct,
        }
    }

    fn tcp_look(config: &TcpConfig, acknowledges: bool, v6: bool) -> Look {
        let forward = headers(Protocol::TCP, v6);
        let headers = if acknowledges { forward.reversed() } else { forward };
        Look::new(&headers, Above::Tcp(TcpLook::new(config, acknowledges)))
    }

    fn tcp_of(look: &Look, wire_bytes: u32, segment: &TcpHeader) -> (etherparse::TcpHeader, u32) {
        let mut synthesis = Synthesis::default();
        let (bytes, original_bytes) =
            synthesis.packet(look, &Packet::new(0, FlowId(0), wire_bytes), &carrying(segment), None);
        // The slice ends before the payload, which a strict reader would call too short.
        let ip_header_bytes = look.addresses.ip_header_bytes() as usize;
        let (header, rest) = etherparse::TcpHeader::from_slice(&bytes[ip_header_bytes..]).unwrap();
        assert!(rest.is_empty(), "payload is not stored");
        (header, original_bytes)
    }

    #[test]
    fn a_pure_acknowledgment_is_a_correct_packet() {
        let config = TcpConfig::modern(Variant::Sack);
        let mut packet = Packet::new(0, FlowId(1), 40);
        (packet.dscp, packet.ecn, packet.ttl) = (Dscp::EF, Ecn::Ect0, 61);
        let segment = TcpHeader {
            acknowledgment: 5000,
            window_bytes: 4 << 20,
            flags: TcpFlags::ACK.union(TcpFlags::ECE),
            ..TcpHeader::default()
        };
        let mut synthesis = Synthesis::default();
        let (bytes, original_bytes) =
            synthesis.packet(&tcp_look(&config, true, false), &packet, &carrying(&segment), None);
        assert_eq!((bytes.len(), original_bytes), (40, 40));
        let parsed = SlicedPacket::from_ip(bytes).unwrap();
        let Some(NetSlice::Ipv4(ip)) = parsed.net else { panic!("IPv4") };
        let ip = ip.header();
        assert_eq!((ip.dcp().value(), ip.ecn().value(), ip.ttl()), (46, 2, 61));
        assert_eq!((ip.source(), ip.destination()), ([10, 0, 0, 2], [10, 0, 0, 1]));
        assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
        let Some(TransportSlice::Tcp(tcp)) = parsed.transport else { panic!("TCP") };
        assert_eq!((tcp.source_port(), tcp.destination_port()), (80, 1000));
        assert_eq!((tcp.sequence_number(), tcp.acknowledgment_number()), (1, 5001));
        assert_eq!((tcp.ack(), tcp.ece(), tcp.cwr(), tcp.syn()), (true, true, false, false));
        assert_eq!(u32::from(tcp.window_size()) << 7, 4 << 20, "4 MiB are scaled by 7");
        let source = (ip.source(), ip.destination());
        assert_eq!(tcp.checksum(), tcp.to_header().calc_checksum_ipv4_raw(source.0, source.1, &[]).unwrap());
    }

    #[test]
    fn counters_of_marks_stand_in_the_flags_and_in_the_option() {
        let accurate =
            TcpConfig { ecn: true, ecn_feedback: EcnFeedback::Accurate, ..TcpConfig::modern(Variant::Sack) };
        let segment = TcpHeader {
            acknowledgment: 5000,
            flags: TcpFlags::ACK.with_ace(6),
            ce_bytes: TcpHeader::ce_bytes_of(1460),
            ..TcpHeader::default()
        };
        let (header, original_bytes) = tcp_of(&tcp_look(&accurate, true, false), 48, &segment);
        assert_eq!(original_bytes, 48, "the model counts the option as it is");
        assert_eq!((header.ns, header.cwr, header.ece), (true, true, false));
        assert_eq!(header.options.as_slice(), &[174, 8, 0, 0, 1, 0, 0x05, 0xb4]);
        let data = TcpHeader { flags: TcpFlags::ACK.with_ace(5), ..TcpHeader::default() };
        let (of_data, _) = tcp_of(&tcp_look(&accurate, false, false), 40, &data);
        assert_eq!((of_data.ns, of_data.cwr, of_data.ece, of_data.options.len()), (true, false, true, 0));
    }

    #[test]
    fn checksums_take_the_missing_payload_as_zeros() {
        let config = TcpConfig::modern(Variant::Reno);
        for (payload_bytes, v6) in [(1, false), (1459, false), (1460, false), (1, true), (1460, true)] {
            let segment = TcpHeader { payload_bytes, flags: TcpFlags::ACK, ..TcpHeader::default() };
            let look = tcp_look(&config, false, v6);
            let (header, _) = tcp_of(&look, 60 + payload_bytes, &segment);
            let payload = vec![0; payload_bytes as usize];
            let expected = match look.addresses {
                Addresses::V4 { source, destination } => {
                    header.calc_checksum_ipv4_raw(source, destination, &payload)
                }
                Addresses::V6 { source, destination } => {
                    header.calc_checksum_ipv6_raw(source, destination, &payload)
                }
            };
            assert_eq!(header.checksum, expected.unwrap(), "{payload_bytes} bytes, v6 {v6}");
        }
    }

    #[test]
    fn sequence_numbers_and_sack_blocks_wrap_at_two_to_the_32() {
        let config = TcpConfig::modern(Variant::Sack);
        let mut sack = SackBlocks::default();
        sack.push(SackBlock { offset: 10, length: 20 });
        sack.push(SackBlock { offset: 100, length: 5 });
        let acknowledgment = (3 << 32) - 12;
        let segment = TcpHeader { acknowledgment, sack, flags: TcpFlags::ACK, ..TcpHeader::default() };
        let (header, original_bytes) = tcp_of(&tcp_look(&config, true, false), 40 + 4 + 2 * 8, &segment);
        assert_eq!(original_bytes, 60, "the model counts the option as it is");
        assert_eq!(header.acknowledgment_number, u32::MAX - 10);
        let options: Vec<_> = header.options_iterator().map(Result::unwrap).collect();
        let blocks = TcpOptionElement::SelectiveAcknowledgement((u32::MAX, 19), [Some((89, 94)), None, None]);
        assert_eq!(options, [TcpOptionElement::Noop, TcpOptionElement::Noop, blocks]);
        let data = TcpHeader { sequence: u64::from(u32::MAX) + 7, payload_bytes: 1, ..TcpHeader::default() };
        assert_eq!(tcp_of(&tcp_look(&config, false, false), 41, &data).0.sequence_number, 7);
    }

    #[test]
    fn a_syn_announces_what_later_segments_do() {
        let config = TcpConfig::modern(Variant::Sack);
        let segment = TcpHeader { flags: TcpFlags::SYN, ..TcpHeader::default() };
        let (header, original_bytes) = tcp_of(&tcp_look(&config, false, false), 40, &segment);
        assert_eq!(
            (header.syn, header.ack, header.sequence_number, header.acknowledgment_number),
            (true, false, 0, 0)
        );
        let options: Vec<_> = header.options_iterator().map(Result::unwrap).collect();
        assert!(options.contains(&TcpOptionElement::MaximumSegmentSize(1460)));
        assert!(options.contains(&TcpOptionElement::WindowScale(7)));
        assert!(options.contains(&TcpOptionElement::SelectiveAcknowledgementPermitted));
        assert_eq!(original_bytes, 20 + header.header_len() as u32, "more than the 40 bytes of the model");
    }

    #[test]
    fn a_window_is_shifted_no_more_than_it_must_be() {
        let mut config = TcpConfig::ns_1999(Variant::Reno);
        for (window, shift) in
            [(20_000, 0), (65_535, 0), (65_536, 1), (4 << 20, 7), (1 << 30, 14), (u32::MAX, 14)]
        {
            config.receive_window_bytes = window;
            assert_eq!(TcpLook::new(&config, true).window_shift, shift, "{window}");
        }
        let segment = TcpHeader { window_bytes: u32::MAX, flags: TcpFlags::ACK, ..TcpHeader::default() };
        assert_eq!(tcp_of(&tcp_look(&config, true, false), 40, &segment).0.window_size, u16::MAX);
    }

    #[test]
    fn packets_whose_model_counts_no_headers_are_longer_by_them() {
        let config = TcpConfig::ns_1999(Variant::Reno);
        let segment = TcpHeader { payload_bytes: 1000, flags: TcpFlags::ACK, ..TcpHeader::default() };
        assert_eq!(tcp_of(&tcp_look(&config, false, false), 1000, &segment).1, 1040);
        assert_eq!(tcp_of(&tcp_look(&config, false, true), 1000, &segment).1, 1060);
        assert_eq!(tcp_of(&tcp_look(&config, false, false), 1100, &segment).1, 1100);
    }

    #[test]
    fn a_datagram_carries_its_length_ports_and_label() {
        let look = Look::new(&headers(Protocol::UDP, true), Above::Udp);
        let mut synthesis = Synthesis::default();
        for (wire_bytes, udp_bytes) in [(1000, 960), (49, 9), (48, 8), (10, 8), (1_000_000, 65_535)] {
            let packet = Packet::new(0, FlowId(0), wire_bytes);
            let (bytes, original_bytes) =
                synthesis.packet(&look, &packet, &carrying(&TcpHeader::default()), None);
            assert_eq!((bytes.len(), original_bytes), (48, wire_bytes.max(48)));
            let (ip, rest) = Ipv6Header::from_slice(bytes).unwrap();
            assert_eq!((ip.flow_label.value(), ip.payload_length), (0xabcde, udp_bytes));
            let (udp, _) = UdpHeader::from_slice(rest).unwrap();
            assert_eq!((udp.source_port, udp.destination_port, udp.length), (1000, 80, udp_bytes));
            if wire_bytes < 65_535 {
                let payload = vec![0; usize::from(udp_bytes) - 8];
                assert_eq!(
                    udp.checksum,
                    udp.calc_checksum_ipv6_raw(ip.source, ip.destination, &payload).unwrap()
                );
            }
        }
    }

    #[test]
    fn a_control_message_carries_its_bytes_unless_it_was_dropped() {
        let mut synthesis = Synthesis::default();
        let packet = Packet::new(0, FlowId(0), 28 + 11);
        for v6 in [false, true] {
            let mut look = Look::new(&headers(if v6 { ICMPV6 } else { Protocol::ICMP }, v6), Above::Opaque);
            look.above = Above::Control { header_bytes: 28 };
            let ip_header_bytes = look.addresses.ip_header_bytes();
            let message = Some(&b"eleven byte"[..]);
            let (bytes, original_bytes) =
                synthesis.packet(&look, &packet, &carrying(&TcpHeader::default()), message);
            assert_eq!((bytes.len() as u32, original_bytes), (ip_header_bytes + 19, ip_header_bytes + 19));
            assert!(bytes.ends_with(b"eleven byte"));
            match SlicedPacket::from_ip(bytes).unwrap() {
                SlicedPacket {
                    net: Some(NetSlice::Ipv6(ip)),
                    transport: Some(TransportSlice::Icmpv6(icmp)),
                    ..
                } => {
                    assert!(icmp.is_checksum_valid(ip.header().source(), ip.header().destination()));
                }
                SlicedPacket { transport: Some(TransportSlice::Icmpv4(icmp)), .. } => {
                    assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(b"eleven byte"));
                }
                other => panic!("{other:?}"),
            }
            let (dropped, whole_bytes) =
                synthesis.packet(&look, &packet, &carrying(&TcpHeader::default()), None);
            assert_eq!((dropped.len() as u32, whole_bytes), (ip_header_bytes + 8, original_bytes));
        }
    }

    #[test]
    fn addresses_of_two_families_become_ipv6() {
        let mixed = Addresses::new(Address::V4([192, 0, 2, 1]), Address::V6([1; 16]));
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(mixed, Addresses::V6 { source: mapped, destination: [1; 16] });
    }

    #[test]
    fn synthetic_addresses_stay_in_their_ranges() {
        let is_in = |address, first: &[u8]| match address {
            Address::V4(octets) => octets.starts_with(first),
            Address::V6(octets) => octets.starts_with(first),
        };
        for number in [0, 1, 0xffff, 0x1_fffe, 0x1_ffff, u32::MAX] {
            let node = node_address(number, false);
            assert!(is_in(node, &[198, 18]) || is_in(node, &[198, 19]), "{number}");
            assert!(is_in(node_address(number, true), &[0x20, 0x01, 0, 2, 0, 0]), "{number}");
            assert!(is_in(domain_address(number, false), &[239, 255]), "{number}");
            assert!(is_in(domain_address(number, true), &[0xff, 0x05, 0, 0]), "{number}");
        }
        assert_eq!(node_address(0, false), Address::V4([198, 18, 0, 1]));
        assert_eq!(domain_address(1, false), Address::V4([239, 255, 0, 2]));
    }
}

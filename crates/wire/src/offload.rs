//! Segmentation offload: the kernel hands over many packets of a TCP connection as one, and takes many as one.
//!
//! What comes in is split before it enters the network, so that mechanisms see packets of the device's size; all of them came
//! at the instant at which they were read. What leaves is joined again where packets of one connection leave one after
//! another: nothing waits for that. Both save the kernel most of its work per packet.
//!
//! Packets are joined as Linux' own GRO does (`net/ipv4/tcp_offload.c`, `tcp_gro_receive`): same headers but for lengths,
//! sequence number, PSH and checksum; all of one size, but the last, which may be shorter; the next begins where the one
//! before ended. Their checksums are verified before, for afterwards there is only one.

use std::io;

use etherparse::checksum::Sum16BitWords;
use tidegate_units::Time;
use tun_rs::{
    VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP_L4, VIRTIO_NET_HDR_LEN,
    VirtioNetHdr, checksum, checksum_no_fold,
};

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`, `VIRTIO_NET_HDR_GSO_NONE` and, added to a kind of TCP, `VIRTIO_NET_HDR_GSO_ECN` of
/// `linux/virtio_net.h`.
const NEEDS_CHECKSUM: u8 = 1;
const ONE_PACKET: u8 = 0;
const HAS_ECN: u8 = 0x80;

/// The largest IP packet, behind the header that says how it is made up.
pub const ROOM_BYTES: usize = VIRTIO_NET_HDR_LEN + 65_535;
/// More segments than this are no TCP that anybody uses: with 64 bytes each a full packet has as many.
const SEGMENTS_MAX: usize = 1024;

/// IP and transport headers with all their options take no more, but for long chains of IPv6.
const HEADERS_BYTES_MAX: usize = 256;

const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_HEADER_BYTES: usize = 20;
const UDP_HEADER_BYTES: usize = 8;
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;
const TCP_FLAGS_AT: usize = 13;
const FLAG_ACK: u8 = 0x10;
const FLAG_FIN: u8 = 0x01;
const FLAG_PSH: u8 = 0x08;
const FLAG_CWR: u8 = 0x80;
const FLAG_ECE: u8 = 0x40;
const IPV6_HEADER_BYTES: usize = 40;
const IPV4_HEADER_BYTES: usize = 20;

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What was read from a device: a packet, or several in one.
#[derive(Debug)]
pub struct Inbound<'a> {
    header: VirtioNetHdr,
    packet: &'a mut [u8],
    is_v6: bool,
}

impl<'a> Inbound<'a> {
    /// Understands `read`: the header and what follows.
    ///
    /// # Errors
    /// When it is no IP packet, or one that does not fit its header.
    pub fn new(read: &'a mut [u8]) -> io::Result<Self> {
        let mut header = VirtioNetHdr::decode(read)?;
        let packet = &mut read[VIRTIO_NET_HDR_LEN..];
        let is_v6 = match packet.first().map(|first| first >> 4) {
            Some(4) => false,
            Some(6) => true,
            _ => return Err(malformed("no IP packet")),
        };
        let transport = usize::from(header.csum_start);
        if header.flags & NEEDS_CHECKSUM != 0
            && transport + usize::from(header.csum_offset) + 2 > packet.len()
        {
            return Err(malformed("a checksum outside of the packet"));
        }
        if header.gso_type != ONE_PACKET {
            // The kernel does not promise that its own length of the headers is right.
            let length = if header.gso_type == VIRTIO_NET_HDR_GSO_UDP_L4 {
                8
            } else {
                u16::from(*packet.get(transport + 12).ok_or_else(|| malformed("no TCP header"))? >> 4) * 4
            };
            header.hdr_len = header.csum_start.saturating_add(length);
            if usize::from(header.hdr_len) > packet.len() || header.gso_size == 0 {
                return Err(malformed("no data in segments"));
            }
        }
        Ok(Self { header, packet, is_v6 })
    }

    /// Whether they are datagrams, which a device would have sent one after the other; TCP sends its own in bursts.
    pub const fn is_datagrams(&self) -> bool {
        self.header.gso_type == VIRTIO_NET_HDR_GSO_UDP_L4
    }

    /// How many packets it is.
    pub fn count(&self) -> usize {
        if self.header.gso_type == ONE_PACKET {
            return 1;
        }
        let data = self.packet.len() - usize::from(self.header.hdr_len);
        data.div_ceil(usize::from(self.header.gso_size)).min(SEGMENTS_MAX)
    }

    /// The bytes of the largest of them.
    pub fn largest_bytes(&self) -> usize {
        if self.header.gso_type == ONE_PACKET {
            return self.packet.len();
        }
        self.packet.len().min(usize::from(self.header.hdr_len) + usize::from(self.header.gso_size))
    }

    /// All of them, as they came.
    pub const fn bytes(&self) -> &[u8] {
        self.packet
    }

    /// Gives each packet, with its checksums, to `each`, in their order.
    ///
    /// Each is made where its data lies: its header is written in front of that, over the end of the packet before, which is gone
    /// by then. So nothing is copied but headers.
    ///
    /// # Errors
    /// When it cannot be split; no packet was given then.
    pub fn each(self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let Self { header, packet, .. } = self;
        if header.gso_type == ONE_PACKET {
            if header.flags & NEEDS_CHECKSUM != 0 {
                complete_checksum(packet, usize::from(header.csum_start), usize::from(header.csum_offset));
            }
            each(packet);
            return Ok(());
        }
        let cut = Cut::new(&self.header, packet, self.is_v6)?;
        let whole = packet.len();
        let mut data_at = cut.header_bytes;
        let mut number = 0;
        while data_at < whole {
            let end = whole.min(data_at + cut.data_bytes);
            let one = &mut packet[data_at - cut.header_bytes..end];
            cut.write(one, number, end == whole);
            each(one);
            (data_at, number) = (end, number + 1);
        }
        Ok(())
    }
}

/// How a packet of the kernel's is cut into those that go on a wire (`net/ipv4/tcp_offload.c`, `tcp_gso_segment`;
/// `net/ipv4/udp_offload.c`, `__udp_gso_segment`).
struct Cut {
    /// The headers of the whole.
    header: [u8; HEADERS_BYTES_MAX],
    header_bytes: usize,
    ip_bytes: usize,
    data_bytes: usize,
    is_v6: bool,
    is_tcp: bool,
    /// The sum over what of the pseudo-header is the same for all.
    pseudo: u64,
}

impl Cut {
    fn new(header: &VirtioNetHdr, packet: &[u8], is_v6: bool) -> io::Result<Self> {
        let kind = header.gso_type & !HAS_ECN;
        let has_ecn = header.gso_type != kind;
        let of_tcp = if is_v6 { VIRTIO_NET_HDR_GSO_TCPV6 } else { VIRTIO_NET_HDR_GSO_TCPV4 };
        let is_tcp = match kind {
            VIRTIO_NET_HDR_GSO_UDP_L4 if !has_ecn => false,
            kind if kind == of_tcp => true,
            _ => return Err(malformed("segments of another kind than the packet")),
        };
        let (header_bytes, ip_bytes) = (usize::from(header.hdr_len), usize::from(header.csum_start));
        let (least_ip_bytes, addresses) =
            if is_v6 { (IPV6_HEADER_BYTES, 8..40) } else { (IPV4_HEADER_BYTES, 12..20) };
        let (least_bytes, checksum_at) =
            if is_tcp { (TCP_HEADER_BYTES, TCP_CHECKSUM_AT) } else { (UDP_HEADER_BYTES, UDP_CHECKSUM_AT) };
        if ip_bytes < least_ip_bytes
            || header_bytes < ip_bytes + least_bytes
            || usize::from(header.csum_offset) != checksum_at
        {
            return Err(malformed("headers shorter than they can be"));
        }
        let data_bytes = usize::from(header.gso_size);
        let largest = packet.len().min(header_bytes + data_bytes);
        if header_bytes > HEADERS_BYTES_MAX || largest > usize::from(u16::MAX) {
            return Err(malformed("headers or segments longer than they can be"));
        }
        if (packet.len() - header_bytes).div_ceil(data_bytes) > SEGMENTS_MAX {
            return Err(malformed("more segments than anybody sends"));
        }
        let protocol = if is_tcp { TCP } else { UDP };
        let mut cut = Self {
            header: [0; HEADERS_BYTES_MAX],
            header_bytes,
            ip_bytes,
            data_bytes,
            is_v6,
            is_tcp,
            pseudo: checksum_no_fold(&packet[addresses], u64::from(protocol)),
        };
        let headers = &mut cut.header[..header_bytes];
        headers.copy_from_slice(&packet[..header_bytes]);
        headers[ip_bytes + checksum_at..][..2].fill(0);
        if !is_v6 {
            headers[10..12].fill(0);
        }
        Ok(cut)
    }

    /// Writes the headers of packet `number` in front of its data, which is there.
    fn write(&self, one: &mut [u8], number: u32, is_last: bool) {
        let bytes = one.len();
        one[..self.header_bytes].copy_from_slice(&self.header[..self.header_bytes]);
        let (ip, transport) = one.split_at_mut(self.ip_bytes);
        if self.is_v6 {
            ip[4..6].copy_from_slice(&((bytes - IPV6_HEADER_BYTES) as u16).to_be_bytes());
        } else {
            let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(number as u16);
            ip[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
            ip[4..6].copy_from_slice(&identification.to_be_bytes());
            let sum = !checksum(ip, 0);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let checksum_at = if self.is_tcp {
            let first = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            let sequence = first.wrapping_add(number.wrapping_mul(self.data_bytes as u32));
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            // A window that was reduced is told once (RFC 3168, section 6.1.2), the end and a push at the end.
            let told_first = if number > 0 { FLAG_CWR } else { 0 };
            let told_last = if is_last { 0 } else { FLAG_FIN | FLAG_PSH };
            transport[TCP_FLAGS_AT] &= !(told_first | told_last);
            TCP_CHECKSUM_AT
        } else {
            let length = (transport.len() as u16).to_be_bytes();
            transport[4..6].copy_from_slice(&length);
            UDP_CHECKSUM_AT
        };
        let sum = !checksum(transport, self.pseudo + transport.len() as u64);
        // None at all is what zero means for UDP (RFC 768).
        let sum = if sum == 0 && !self.is_tcp { u16::MAX } else { sum };
        transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

// Sums are in the order of the bytes that were summed, and are written as they are.

/// Completes the checksum at `offset` of what begins at `start`: there is the sum over the pseudo-header so far.
fn complete_checksum(packet: &mut [u8], start: usize, offset: usize) {
    let sum = Sum16BitWords::new().add_slice(&packet[start..]).to_ones_complement_with_no_zero();
    packet[start + offset..][..2].copy_from_slice(&sum.to_ne_bytes());
}

/// What can be joined: a TCP packet with data, its checksum right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Segment {
    ip_bytes: usize,
    header_bytes: usize,
    data_bytes: usize,
    sequence: u32,
    is_pushed: bool,
}

impl Segment {
    fn of(packet: &[u8]) -> Option<Self> {
        let ip_bytes = match packet.first()? {
            0x45 => IPV4_HEADER_BYTES,
            first if first >> 4 == 6 => IPV6_HEADER_BYTES,
            _ => return None,
        };
        let is_v6 = ip_bytes == IPV6_HEADER_BYTES;
        let tcp = packet.get(ip_bytes..)?;
        let (protocol, length) = if is_v6 {
            (packet[6], IPV6_HEADER_BYTES + usize::from(u16::from_be_bytes([packet[4], packet[5]])))
        } else {
            (packet[9], usize::from(u16::from_be_bytes([packet[2], packet[3]])))
        };
        // Fragments have more to come, or do not begin at zero.
        let is_fragment = !is_v6 && (packet[6] & 0x3f != 0 || packet[7] != 0);
        if protocol != TCP || length != packet.len() || is_fragment || tcp.len() < 20 {
            return None;
        }
        let tcp_bytes = usize::from(tcp[12] >> 4) * 4;
        let data_bytes = tcp.len().checked_sub(tcp_bytes).filter(|&bytes| bytes > 0 && tcp_bytes >= 20)?;
        let flags = tcp[TCP_FLAGS_AT];
        let is_plain = flags & FLAG_ACK != 0 && flags & !(FLAG_ACK | FLAG_PSH | FLAG_ECE) == 0;
        let is_right = || {
            let addresses = if is_v6 { &packet[8..40] } else { &packet[12..20] };
            let pseudo = checksum_no_fold(addresses, u64::from(TCP) + tcp.len() as u64);
            // With its own checksum the sum of a right one is all ones. (That of `tun-rs` takes 32 bytes at once, where the processor can.)
            checksum(tcp, pseudo) == u16::MAX
        };
        (is_plain && is_right()).then(|| Self {
            ip_bytes,
            header_bytes: ip_bytes + tcp_bytes,
            data_bytes,
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            is_pushed: flags & FLAG_PSH != 0,
        })
    }
}

/// The sum over the pseudo-header of a TCP segment of `tcp_bytes` (RFC 9293, section 3.1).
fn pseudo_sum(packet: &[u8], ip_bytes: usize, tcp_bytes: usize) -> Sum16BitWords {
    let addresses = if ip_bytes == IPV6_HEADER_BYTES { &packet[8..40] } else { &packet[12..20] };
    Sum16BitWords::new()
        .add_slice(addresses)
        .add_2bytes([0, TCP])
        .add_4bytes((tcp_bytes as u32).to_be_bytes())
}

/// Packets for one host that are handed over as one.
#[derive(Debug)]
pub struct Outbox {
    /// The header, then the packet.
    bytes: Vec<u8>,
    first: Option<Segment>,
    /// The last packet was shorter than the first, or pushed: none may follow.
    is_closed: bool,
    /// When each of them was due.
    pub dues: Vec<Time>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { bytes: Vec::with_capacity(ROOM_BYTES), first: None, is_closed: true, dues: Vec::new() }
    }
}

impl Outbox {
    /// Whether there is nothing to hand over.
    pub const fn is_empty(&self) -> bool {
        self.dues.is_empty()
    }

    /// Adds `packet`, due at `due`, if it continues what is there, or nothing is.
    pub fn add(&mut self, packet: &[u8], due: Time) -> bool {
        let segment = Segment::of(packet);
        if self.is_empty() {
            self.bytes.resize(VIRTIO_NET_HDR_LEN, 0);
            self.bytes.extend_from_slice(packet);
            self.first = segment;
            self.is_closed = segment.is_none_or(|segment| segment.is_pushed);
        } else {
            let Some(segment) = segment.filter(|segment| self.continues(packet, segment)) else {
                return false;
            };
            self.bytes.extend_from_slice(&packet[segment.header_bytes..]);
            self.is_closed =
                segment.is_pushed || self.first.is_none_or(|first| segment.data_bytes < first.data_bytes);
            if segment.is_pushed {
                self.bytes[VIRTIO_NET_HDR_LEN + segment.ip_bytes + TCP_FLAGS_AT] |= FLAG_PSH;
            }
        }
        self.dues.push(due);
        true
    }

    fn continues(&self, packet: &[u8], segment: &Segment) -> bool {
        let Some(first) = self.first.filter(|_| !self.is_closed) else { return false };
        let base = &self.bytes[VIRTIO_NET_HDR_LEN..];
        let (ip, headers) = (first.ip_bytes, first.header_bytes);
        let sent = (base.len() - headers) as u32;
        if (segment.ip_bytes, segment.header_bytes) != (ip, headers)
            || segment.data_bytes > first.data_bytes
            || segment.sequence != first.sequence.wrapping_add(sent)
            || base.len() + segment.data_bytes > usize::from(u16::MAX)
        {
            return false;
        }
        let same = |from: usize, to: usize| base[from..to] == packet[from..to];
        let same_ip = if ip == IPV6_HEADER_BYTES {
            same(0, 4) && same(6, ip)
        } else {
            // But for length, identification and checksum.
            same(0, 2) && same(6, 10) && same(12, ip)
        };
        same_ip
            && same(ip, ip + 4)
            && same(ip + 8, ip + TCP_FLAGS_AT)
            && (base[ip + TCP_FLAGS_AT] ^ packet[ip + TCP_FLAGS_AT]) & !FLAG_PSH == 0
            && same(ip + 14, ip + TCP_CHECKSUM_AT)
            && same(ip + 18, headers)
    }

    /// Nothing is there any more.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.dues.clear();
    }

    /// What is to be written to the device; then [`Self::clear`] makes room for more.
    pub fn packet(&mut self) -> &[u8] {
        if let (Some(first), true) = (self.first, self.dues.len() > 1) {
            self.join(&first);
        }
        self.first = None;
        self.is_closed = true;
        &self.bytes
    }

    /// Makes one packet of what was added.
    fn join(&mut self, first: &Segment) {
        let ip = first.ip_bytes;
        let is_v6 = ip == IPV6_HEADER_BYTES;
        let (header, packet) = self.bytes.split_at_mut(VIRTIO_NET_HDR_LEN);
        let length = packet.len();
        if is_v6 {
            packet[4..6].copy_from_slice(&((length - IPV6_HEADER_BYTES) as u16).to_be_bytes());
        } else {
            packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            packet[10..12].fill(0);
            let sum = Sum16BitWords::new().add_slice(&packet[..ip]).ones_complement();
            packet[10..12].copy_from_slice(&sum.to_ne_bytes());
        }
        // With this header the checksum covers the pseudo-header only, and is not complemented.
        let partial = !pseudo_sum(packet, ip, length - ip).ones_complement();
        let at = ip + TCP_CHECKSUM_AT;
        packet[at..at + 2].copy_from_slice(&partial.to_ne_bytes());
        let joined = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type: if is_v6 { VIRTIO_NET_HDR_GSO_TCPV6 } else { VIRTIO_NET_HDR_GSO_TCPV4 },
            hdr_len: first.header_bytes as u16,
            gso_size: first.data_bytes as u16,
            csum_start: ip as u16,
            csum_offset: TCP_CHECKSUM_AT as u16,
        };
        joined.encode(header).expect("there is room for the header");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{Ipv4HeaderSlice, PacketBuilder, TcpHeaderSlice};

    const DATA: usize = 1400;

    fn segment(is_v6: bool, sequence: u32, data: &[u8], push: bool) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = if is_v6 {
            PacketBuilder::ipv6([0xfd; 16], [0xfe; 16], 64).tcp(4000, 5001, sequence, 1000).ack(77)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(4000, 5001, sequence, 1000).ack(77)
        };
        let builder = if push { builder.psh() } else { builder };
        builder.write(&mut packet, data).unwrap();
        packet
    }

    fn packets_of(inbound: Inbound<'_>) -> io::Result<Vec<Vec<u8>>> {
        let mut packets = Vec::new();
        inbound.each(|packet| packets.push(packet.to_vec())).map(|()| packets)
    }

    fn data(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|position| (position * 7) as u8).collect()
    }

    fn joined(packets: &[Vec<u8>]) -> (Vec<u8>, usize) {
        let mut outbox = Outbox::default();
        let taken = packets.iter().take_while(|packet| outbox.add(packet, Time::ZERO)).count();
        (outbox.packet().to_vec(), taken)
    }

    #[test]
    fn what_is_joined_splits_into_the_same_packets() {
        for is_v6 in [false, true] {
            let all = data(3 * DATA + 99);
            let packets: Vec<Vec<u8>> = all
                .chunks(DATA)
                .zip(0_u32..)
                .map(|(data, number)| segment(is_v6, number * DATA as u32, data, number == 3))
                .collect();
            let (mut bytes, taken) = joined(&packets);
            assert_eq!(taken, 4);
            if !is_v6 {
                let header = Ipv4HeaderSlice::from_slice(&bytes[VIRTIO_NET_HDR_LEN..]).unwrap().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
            }
            let inbound = Inbound::new(&mut bytes).unwrap();
            assert_eq!((inbound.count(), inbound.largest_bytes()), (4, packets[0].len()));
            let splits = packets_of(inbound).unwrap();
            assert_eq!(splits.len(), packets.len());
            for (mut split, packet) in splits.into_iter().zip(&packets) {
                if !is_v6 {
                    // Splitting numbers IPv4 packets anew.
                    let header = Ipv4HeaderSlice::from_slice(&split).unwrap().to_header();
                    assert_eq!(header.header_checksum, header.calc_header_checksum());
                    split[4..6].copy_from_slice(&packet[4..6]);
                    split[10..12].copy_from_slice(&packet[10..12]);
                }
                assert_eq!(&split, packet);
            }
        }
    }

    #[test]
    fn what_does_not_continue_is_not_joined() {
        let payload = data(DATA);
        let first = segment(false, 0, &payload, false);
        let next = segment(false, DATA as u32, &payload, false);
        assert_eq!(joined(&[first.clone(), next.clone()]).1, 2);
        let mut marked = next.clone();
        crate::ip::write(&mut marked, tidegate_packet::Ecn::Ce, tidegate_packet::Dscp::BEST_EFFORT, 64);
        let mut damaged = next.clone();
        damaged[1000] ^= 1;
        let gap = segment(false, DATA as u32 + 1, &payload, false);
        let longer = segment(false, DATA as u32, &data(DATA + 4), false);
        let other = segment(true, DATA as u32, &payload, false);
        for (why, second) in
            [("mark", marked), ("checksum", damaged), ("gap", gap), ("length", longer), ("protocol", other)]
        {
            assert_eq!(joined(&[first.clone(), second]).1, 1, "{why}");
        }
        let pushed = segment(false, 0, &payload, true);
        assert_eq!(joined(&[pushed, next]).1, 1, "nothing follows a pushed one");
    }

    #[test]
    fn a_packet_alone_goes_as_it_came() {
        let packet = segment(false, 5, &data(10), false);
        let (bytes, _) = joined(std::slice::from_ref(&packet));
        assert_eq!((&bytes[..VIRTIO_NET_HDR_LEN], &bytes[VIRTIO_NET_HDR_LEN..]), (&[0; 10][..], &packet[..]));
    }

    #[test]
    fn a_checksum_that_the_kernel_left_to_us_is_completed() {
        let packet = segment(false, 5, &data(10), false);
        let mut read = vec![0; VIRTIO_NET_HDR_LEN];
        let header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            csum_start: 20,
            csum_offset: 16,
            ..VirtioNetHdr::default()
        };
        header.encode(&mut read).unwrap();
        read.extend_from_slice(&packet);
        let partial = !pseudo_sum(&packet, 20, packet.len() - 20).ones_complement();
        read[VIRTIO_NET_HDR_LEN + 36..][..2].copy_from_slice(&partial.to_ne_bytes());
        let all = packets_of(Inbound::new(&mut read).unwrap()).unwrap();
        assert_eq!(all, [packet]);
        assert_eq!(TcpHeaderSlice::from_slice(&all[0][20..]).unwrap().sequence_number(), 5);
    }

    #[test]
    fn any_bytes_are_split_or_refused() {
        use proptest::prelude::*;
        proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..200))| {
            let mut bytes = bytes;
            if let Ok(inbound) = Inbound::new(&mut bytes) {
                let (count, largest, mut given) = (inbound.count(), inbound.largest_bytes(), 0);
                let split = inbound.each(|packet| {
                    given += 1;
                    assert!(packet.len() <= largest);
                });
                prop_assert_eq!(given, if split.is_ok() { count } else { 0 });
            }
        });
    }

    /// Headers and data as the kernel gives them, of which some bytes may be others.
    fn read_of(
        (is_v6, is_tcp, ip_words, tcp_words): (bool, bool, usize, usize),
        (data_bytes, segment_bytes): (usize, u16),
        bytes: u8,
        changed: &[(usize, u8)],
    ) -> Vec<u8> {
        let ip_bytes = if is_v6 { 40 } else { 20 } + 4 * ip_words;
        let header_bytes = ip_bytes + if is_tcp { 20 + 4 * tcp_words } else { 8 };
        let kind = match (is_tcp, is_v6) {
            (false, _) => VIRTIO_NET_HDR_GSO_UDP_L4,
            (true, false) => VIRTIO_NET_HDR_GSO_TCPV4,
            (true, true) => VIRTIO_NET_HDR_GSO_TCPV6 | HAS_ECN,
        };
        let header = VirtioNetHdr {
            flags: NEEDS_CHECKSUM,
            gso_type: kind,
            hdr_len: header_bytes as u16,
            gso_size: segment_bytes,
            csum_start: ip_bytes as u16,
            csum_offset: if is_tcp { 16 } else { 6 },
        };
        let mut read = vec![0; VIRTIO_NET_HDR_LEN];
        header.encode(&mut read).unwrap();
        read.extend((0..header_bytes + data_bytes).map(|at| (at as u8).wrapping_mul(bytes)));
        let packet = &mut read[VIRTIO_NET_HDR_LEN..];
        packet[0] = if is_v6 { 0x60 } else { 0x45 + ip_words as u8 };
        if is_tcp {
            packet[ip_bytes + 12] = (5 + tcp_words as u8) << 4;
        }
        for &(at, byte) in changed {
            let at = at % read.len().min(100);
            read[at] = byte;
        }
        read
    }

    /// The same packets as the library for devices makes, which copies each of them.
    #[test]
    fn it_is_split_as_the_library_does() {
        use proptest::prelude::*;
        let kinds = (any::<bool>(), any::<bool>(), 0..10_usize, 0..10_usize);
        let none_or_some = prop_oneof![
            3 => Just(Vec::new()),
            1 => proptest::collection::vec((0..100_usize, any::<u8>()), 1..3),
        ];
        let splits = std::cell::Cell::new(0);
        let cases = (kinds, (0..4000_usize, 1..1500_u16), any::<u8>(), none_or_some);
        let mut runner = proptest::test_runner::TestRunner::default();
        let all = runner.run(&cases, |(kind, sizes, bytes, changed)| {
            let mut read = read_of(kind, sizes, bytes, &changed);
            let mut same = read.clone();
            let Ok(inbound) = Inbound::new(&mut read) else { return Ok(()) };
            if inbound.header.gso_type == ONE_PACKET
                || usize::from(inbound.header.hdr_len) > HEADERS_BYTES_MAX
                || inbound.count() == SEGMENTS_MAX
            {
                return Ok(());
            }
            let (header, count) = (inbound.header, inbound.count());
            let mut rooms = vec![vec![0; 5000]; count];
            let mut lengths = vec![0; count];
            let packet = &mut same[VIRTIO_NET_HDR_LEN..];
            let theirs = tun_rs::gso_split(packet, header, &mut rooms, &mut lengths, 0, inbound.is_v6);
            let ours = packets_of(inbound);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
            if let Ok(ours) = ours {
                rooms.iter_mut().zip(lengths).for_each(|(room, length)| room.truncate(length));
                prop_assert_eq!(ours, rooms);
                splits.set(splits.get() + count);
            }
            Ok(())
        });
        all.unwrap();
        assert!(splits.get() > 1000, "{} packets", splits.get());
    }
}

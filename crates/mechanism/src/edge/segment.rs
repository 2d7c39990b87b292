//! A TCP segment in passing, which an edge may read, and whose window, acknowledgment and congestion echo it may change:
//! the simulator's parsed header, or the bytes of a real one.
//!
//! Source: RFC 9293, section 3.1 (header), RFC 7323, section 2 (window scale), RFC 1624 (incremental checksum).
//! Deviations: none.

use alloc::boxed::Box;

use tidegate_packet::{TcpFlags, TcpHeader};

/// Reads a TCP header, and writes what edges change in it. Sequence numbers are those of the wire: 32 bits, wrapping.
pub trait SegmentEditor {
    /// First payload byte.
    fn sequence(&self) -> u32;
    /// Payload bytes.
    fn payload_bytes(&self) -> u32;
    /// The next byte expected, if the segment acknowledges.
    fn acknowledgment(&self) -> Option<u32>;
    /// Whether it opens a connection.
    fn is_syn(&self) -> bool;
    /// The window scale that the sender of this segment announces, in its SYN: `Some(0)` where a SYN has no such option.
    fn announced_shift(&self) -> Option<u8>;
    /// The advertised window in bytes, if its sender announced `shift`.
    fn window_bytes(&self, shift: u8) -> u32;
    /// Advertises at least `bytes`, as little above as the scale allows.
    fn set_window_bytes(&mut self, bytes: u32, shift: u8);
    /// Acknowledges `number` instead, which is not after what it acknowledged.
    fn set_acknowledgment(&mut self, number: u32);
    /// Sets the echo of a congestion mark (RFC 3168, section 6.1).
    fn set_ecn_echo(&mut self);
}

/// The same through a pointer.
macro_rules! through_pointer {
    ($pointer:ty) => {
        impl<S: SegmentEditor + ?Sized> SegmentEditor for $pointer {
            fn sequence(&self) -> u32 {
                (**self).sequence()
            }
            fn payload_bytes(&self) -> u32 {
                (**self).payload_bytes()
            }
            fn acknowledgment(&self) -> Option<u32> {
                (**self).acknowledgment()
            }
            fn is_syn(&self) -> bool {
                (**self).is_syn()
            }
            fn announced_shift(&self) -> Option<u8> {
                (**self).announced_shift()
            }
            fn window_bytes(&self, shift: u8) -> u32 {
                (**self).window_bytes(shift)
            }
            fn set_window_bytes(&mut self, bytes: u32, shift: u8) {
                (**self).set_window_bytes(bytes, shift);
            }
            fn set_acknowledgment(&mut self, number: u32) {
                (**self).set_acknowledgment(number);
            }
            fn set_ecn_echo(&mut self) {
                (**self).set_ecn_echo();
            }
        }
    };
}

through_pointer!(&mut S);
through_pointer!(Box<S>);

impl SegmentEditor for TcpHeader {
    fn sequence(&self) -> u32 {
        self.sequence as u32
    }
    fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }
    fn acknowledgment(&self) -> Option<u32> {
        self.flags.contains(TcpFlags::ACK).then_some(self.acknowledgment as u32)
    }
    fn is_syn(&self) -> bool {
        self.flags.contains(TcpFlags::SYN)
    }
    fn announced_shift(&self) -> Option<u8> {
        // The simulator's windows are in bytes whatever was announced, also where connections open without a SYN.
        Some(0)
    }
    fn window_bytes(&self, _shift: u8) -> u32 {
        self.window_bytes
    }
    fn set_window_bytes(&mut self, bytes: u32, _shift: u8) {
        self.window_bytes = bytes;
    }
    fn set_acknowledgment(&mut self, number: u32) {
        // The simulator's numbers do not wrap.
        self.acknowledgment -= u64::from((self.acknowledgment as u32).wrapping_sub(number));
    }
    fn set_ecn_echo(&mut self) {
        self.flags = self.flags.union(TcpFlags::ECE);
    }
}

const FLAG_SYN: u8 = 0x02;
const FLAG_ACK: u8 = 0x10;
const FLAG_ECE: u8 = 0x40;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_SEGMENT_SIZE: u8 = 2;
const OPTION_WINDOW_SCALE: u8 = 3;
/// The largest window scale that counts (RFC 7323, section 2.3).
const SHIFT_MAX: u8 = 14;
const HEADER_BYTES_MIN: usize = 20;

/// A real TCP segment, from its header on.
#[derive(Debug)]
pub struct RawSegment<'a> {
    header: &'a mut [u8],
    payload_bytes: u32,
}

impl<'a> RawSegment<'a> {
    /// The segment in `bytes`, which is what IP carries; `None` if that is too short for what it says of itself.
    pub fn parse(bytes: &'a mut [u8]) -> Option<Self> {
        if bytes.len() < HEADER_BYTES_MIN {
            return None;
        }
        let header_bytes = usize::from(bytes[12] >> 4) * 4;
        if header_bytes < HEADER_BYTES_MIN || header_bytes > bytes.len() {
            return None;
        }
        let payload_bytes = u32::try_from(bytes.len() - header_bytes).ok()?;
        Some(Self { header: &mut bytes[..header_bytes], payload_bytes })
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }
    fn u32_at(&self, at: usize) -> u32 {
        u32::from(self.u16_at(at)) << 16 | u32::from(self.u16_at(at + 2))
    }
    /// Writes a field and the checksum of the segment.
    fn set_u16_at(&mut self, at: usize, field: u16) {
        let checksum = updated_checksum(self.u16_at(16), self.u16_at(at), field);
        self.header[at..at + 2].copy_from_slice(&field.to_be_bytes());
        self.header[16..18].copy_from_slice(&checksum.to_be_bytes());
    }
    fn set_u32_at(&mut self, at: usize, field: u32) {
        self.set_u16_at(at, (field >> 16) as u16);
        self.set_u16_at(at + 2, field as u16);
    }
    fn has_flag(&self, flag: u8) -> bool {
        self.header[13] & flag != 0
    }

    /// Bytes of the header.
    pub const fn header_bytes(&self) -> usize {
        self.header.len()
    }
    /// Whether it has the echo of a congestion mark, or offers ECN in its SYN.
    pub fn has_ecn_echo(&self) -> bool {
        self.has_flag(FLAG_ECE)
    }
    /// Begins at `number` instead.
    pub fn set_sequence(&mut self, number: u32) {
        self.set_u32_at(4, number);
    }
    /// A segment that opens a connection allows segments of `most` bytes at most (RFC 9293, section 3.7.1), whatever it said.
    pub fn limit_segment_size(&mut self, most: u16) {
        if !self.has_flag(FLAG_SYN) {
            return;
        }
        let options = &self.header[HEADER_BYTES_MIN..];
        let Some(at) = option_at(options, OPTION_SEGMENT_SIZE, 4).map(|at| HEADER_BYTES_MIN + at + 2) else {
            return;
        };
        if self.u16_at(at) <= most {
            return;
        }
        let [high, low] = most.to_be_bytes();
        // The checksum is of aligned words, of which the field may be the halves of two.
        if at % 2 == 0 {
            self.set_u16_at(at, most);
        } else {
            self.set_u16_at(at - 1, u16::from_be_bytes([self.header[at - 1], high]));
            self.set_u16_at(at + 1, u16::from_be_bytes([low, self.header[at + 2]]));
        }
    }
    /// Says nothing but what it acknowledges: of the flags only that and the echo remain. The checksum is still that of the whole
    /// segment.
    pub fn keep_acknowledgment_only(&mut self) {
        let kept = u16::from(FLAG_ACK | FLAG_ECE) | 0xf000;
        self.set_u16_at(12, self.u16_at(12) & kept);
    }
}

impl SegmentEditor for RawSegment<'_> {
    fn sequence(&self) -> u32 {
        self.u32_at(4)
    }
    fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }
    fn acknowledgment(&self) -> Option<u32> {
        self.has_flag(FLAG_ACK).then(|| self.u32_at(8))
    }
    fn is_syn(&self) -> bool {
        self.has_flag(FLAG_SYN)
    }
    fn announced_shift(&self) -> Option<u8> {
        self.has_flag(FLAG_SYN).then(|| window_scale(&self.header[HEADER_BYTES_MIN..]).unwrap_or(0))
    }
    fn window_bytes(&self, shift: u8) -> u32 {
        // The window of a SYN is never scaled.
        let shift = if self.has_flag(FLAG_SYN) { 0 } else { shift.min(SHIFT_MAX) };
        u32::from(self.u16_at(14)) << shift
    }
    fn set_window_bytes(&mut self, bytes: u32, shift: u8) {
        let shift = if self.has_flag(FLAG_SYN) { 0 } else { shift.min(SHIFT_MAX) };
        let field = u16::try_from(bytes.div_ceil(1 << shift)).unwrap_or(u16::MAX);
        self.set_u16_at(14, field);
    }
    fn set_acknowledgment(&mut self, number: u32) {
        self.set_u32_at(8, number);
    }
    fn set_ecn_echo(&mut self) {
        self.set_u16_at(12, self.u16_at(12) | u16::from(FLAG_ECE));
    }
}

/// The window scale among TCP options; `None` if it is not there or they are malformed before it.
fn window_scale(options: &[u8]) -> Option<u8> {
    let at = option_at(options, OPTION_WINDOW_SCALE, 3)?;
    Some(options[at + 2].min(SHIFT_MAX))
}

/// Where among TCP options the one of this `kind` and `length` begins, all of which is there; `None` if they are malformed before it.
fn option_at(options: &[u8], kind: u8, length: usize) -> Option<usize> {
    let mut at = 0;
    loop {
        match *options.get(at..)? {
            [OPTION_NOP, ..] => at += 1,
            [OPTION_END, ..] | [] | [_] => return None,
            [this, says, ..] if this == kind && usize::from(says) == length => {
                return (options.len() - at >= length).then_some(at);
            }
            // A length below two would never get ahead.
            [_, says, ..] => at += usize::from(says).max(2),
        }
    }
}

/// The checksum when a 16-bit field changes from `old` to `new`: `HC' = ~(~HC + ~m + m')` (RFC 1624, equation 3).
const fn updated_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// The checksum field that makes a segment of even length correct, by summing all of it (RFC 1071).
    fn whole_checksum(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for (index, pair) in bytes.chunks(2).enumerate() {
            if index != 8 {
                sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
            }
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn segment(flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes[4..8].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
        bytes[8..12].copy_from_slice(&7_u32.to_be_bytes());
        bytes[12] = (((20 + options.len()) / 4) << 4) as u8;
        bytes[13] = flags;
        bytes[14..16].copy_from_slice(&0x1234_u16.to_be_bytes());
        bytes.extend_from_slice(options);
        bytes.resize(bytes.len() + payload, 0x5a);
        let checksum = whole_checksum(&bytes);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    #[test]
    fn the_window_scale_of_the_syn_is_found_and_respected() {
        let mut syn = segment(FLAG_SYN | FLAG_ACK, &[2, 4, 5, 180, 1, 3, 3, 7], 0);
        let syn = RawSegment::parse(&mut syn).expect("it is whole");
        assert_eq!((syn.announced_shift(), syn.window_bytes(7)), (Some(7), 0x1234));
        let mut plain = segment(FLAG_SYN, &[2, 4, 5, 180], 0);
        assert_eq!(RawSegment::parse(&mut plain).expect("it is whole").announced_shift(), Some(0));
        let mut ack = segment(FLAG_ACK, &[], 0);
        let mut ack = RawSegment::parse(&mut ack).expect("it is whole");
        assert_eq!((ack.announced_shift(), ack.window_bytes(7)), (None, 0x1234 << 7));
        ack.set_window_bytes(1001, 7);
        assert_eq!(ack.window_bytes(7), 1024);
    }

    proptest! {
        #[test]
        fn a_segment_size_is_lowered_where_it_stands_and_the_checksum_follows(
            most in any::<u16>(), said in any::<u16>(), shift in 0usize..4, is_syn in any::<bool>(),
        ) {
            let [high, low] = said.to_be_bytes();
            let mut options = vec![OPTION_NOP; shift];
            options.extend([OPTION_SEGMENT_SIZE, 4, high, low]);
            options.resize(8, OPTION_END);
            let mut bytes = segment(if is_syn { FLAG_SYN } else { FLAG_ACK }, &options, 10);
            let before = bytes.clone();
            RawSegment::parse(&mut bytes).expect("it is whole").limit_segment_size(most);
            let at = HEADER_BYTES_MIN + shift + 2;
            let now = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            prop_assert_eq!(now, if is_syn { said.min(most) } else { said });
            let (field, whole) = (u16::from_be_bytes([bytes[16], bytes[17]]), whole_checksum(&bytes));
            prop_assert!(field == whole || (field ^ whole) == 0xffff && (field == 0 || whole == 0));
            for other in (0..bytes.len()).filter(|&other| !(at..at + 2).contains(&other) && !(16..18).contains(&other)) {
                prop_assert_eq!(bytes[other], before[other]);
            }
        }

        #[test]
        fn the_checksum_stays_correct_and_nothing_else_changes(
            window in any::<u32>(), shift in 0u8..20, payload in (0usize..40).prop_map(|n| 2 * n), syn in any::<bool>(),
        ) {
            let mut bytes = segment(FLAG_ACK | (u8::from(syn) * FLAG_SYN), &[1, 3, 3, 4], payload);
            let before = bytes.clone();
            RawSegment::parse(&mut bytes).expect("it is whole").set_window_bytes(window, shift);
            let field = u16::from_be_bytes([bytes[16], bytes[17]]);
            // Zero has two forms in one's complement.
            let whole = whole_checksum(&bytes);
            prop_assert!(field == whole || (field ^ whole) == 0xffff && (field == 0 || whole == 0));
            for at in (0..bytes.len()).filter(|at| !(14..18).contains(at)) {
                prop_assert_eq!(bytes[at], before[at]);
            }
        }

        #[test]
        fn acknowledgment_and_echo_change_with_the_checksum_and_nothing_else_does(
            number in any::<u32>(), payload in (0usize..40).prop_map(|n| 2 * n),
        ) {
            let mut bytes = segment(FLAG_ACK, &[1, 3, 3, 4], payload);
            let before = bytes.clone();
            let mut ack = RawSegment::parse(&mut bytes).expect("it is whole");
            ack.set_acknowledgment(number);
            ack.set_ecn_echo();
            prop_assert_eq!(ack.acknowledgment(), Some(number));
            prop_assert!(ack.has_flag(FLAG_ECE) && ack.has_flag(FLAG_ACK) && !ack.has_flag(FLAG_SYN));
            let field = u16::from_be_bytes([bytes[16], bytes[17]]);
            let whole = whole_checksum(&bytes);
            prop_assert!(field == whole || (field ^ whole) == 0xffff && (field == 0 || whole == 0));
            for at in (0..bytes.len()).filter(|&at| !(8..12).contains(&at) && at != 13 && !(16..18).contains(&at)) {
                prop_assert_eq!(bytes[at], before[at]);
            }
        }

        #[test]
        fn any_bytes_are_a_segment_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..120), window in any::<u32>()) {
            if let Some(mut segment) = RawSegment::parse(&mut bytes) {
                let shift = segment.announced_shift().unwrap_or(3);
                prop_assert!(shift <= SHIFT_MAX);
                segment.set_window_bytes(window, shift);
                segment.limit_segment_size(window as u16);
                let _ = (segment.sequence(), segment.payload_bytes(), segment.acknowledgment());
            }
        }

        #[test]
        fn the_window_is_never_below_what_was_asked_for(bytes in 0u32..1_000_000, shift in 4u8..14) {
            let mut ack = segment(FLAG_ACK, &[], 0);
            let mut ack = RawSegment::parse(&mut ack).expect("it is whole");
            ack.set_window_bytes(bytes, shift);
            let got = ack.window_bytes(shift);
            prop_assert!(got >= bytes && got - bytes < 1 << shift);
        }
    }
}

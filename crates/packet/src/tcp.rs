//! The TCP header as the state machines exchange it: parsed, with 64-bit sequence numbers, so that comparisons never
//! wrap. A real-packet world converts at its border.

use core::fmt;

/// The flags that the state machines use, and in the three bits above them the counter ACE of accurate ECN feedback, which on
/// the wire stands in place of ECE and CWR (RFC 9768, section 3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(u8);

impl TcpFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The segment acknowledges (set on all but a first SYN).
    pub const ACK: Self = Self(1);
    /// ECN echo: the receiver saw a congestion mark (RFC 3168, section 6.1).
    pub const ECE: Self = Self(2);
    /// Congestion window reduced: the sender heard the echo.
    pub const CWR: Self = Self(4);
    /// Opens a connection.
    pub const SYN: Self = Self(8);
    /// The sender has finished.
    pub const FIN: Self = Self(16);

    /// Where ACE begins.
    const ACE_SHIFT: u32 = 5;

    /// ACE: how many packets arrived with a congestion mark, modulo 8 (RFC 9768, section 3.2.2). Zero without accurate feedback.
    pub const fn ace(self) -> u8 {
        self.0 >> Self::ACE_SHIFT
    }
    /// These flags with the lowest three bits of `count` as ACE.
    pub const fn with_ace(self, count: u8) -> Self {
        Self(self.0 & ((1 << Self::ACE_SHIFT) - 1) | count << Self::ACE_SHIFT)
    }
    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// These flags, with `other` if `condition`.
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.union(other) } else { self }
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut any = false;
        for (flag, name) in [
            (Self::ACK, "ACK"),
            (Self::ECE, "ECE"),
            (Self::CWR, "CWR"),
            (Self::SYN, "SYN"),
            (Self::FIN, "FIN"),
        ] {
            if self.contains(flag) {
                write!(f, "{}{name}", if any { "|" } else { "" })?;
                any = true;
            }
        }
        if self.ace() > 0 {
            write!(f, "{}ACE={}", if any { "|" } else { "" }, self.ace())?;
            any = true;
        }
        if any { Ok(()) } else { f.write_str("-") }
    }
}

/// A block of bytes beyond the cumulative acknowledgment that the receiver holds (RFC 2018), relative to that
/// acknowledgment so that it fits in eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SackBlock {
    /// First byte held, counted from the acknowledgment number.
    pub offset: u32,
    /// Bytes held from there.
    pub length: u32,
}

/// Up to three blocks: what fits beside a time stamp option, and what ns's Sack1 sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SackBlocks {
    count: u8,
    blocks: [SackBlock; Self::MAX],
}

impl SackBlocks {
    /// The most blocks that a header carries.
    pub const MAX: usize = 3;

    /// Adds a block; what does not fit any more is left out.
    pub const fn push(&mut self, block: SackBlock) {
        if (self.count as usize) < Self::MAX {
            self.blocks[self.count as usize] = block;
            self.count += 1;
        }
    }
    /// The blocks, most recent first.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..self.count as usize]
    }
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A TCP segment without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TcpHeader {
    /// First payload byte, counted from zero at the start of the connection.
    pub sequence: u64,
    /// The next byte that the sender of this segment expects.
    pub acknowledgment: u64,
    /// Payload bytes.
    pub payload_bytes: u32,
    /// Receive window in bytes, window scale applied.
    pub window_bytes: u32,
    /// What the receiver holds beyond the acknowledgment.
    pub sack: SackBlocks,
    /// Flags.
    pub flags: TcpFlags,
    /// The field ECEB of the option `AccECN` (RFC 9768, section 3.2.3), big-endian as there: payload bytes that arrived with a
    /// congestion mark, modulo 2^24. Three bytes, for which the padding of the header has just room.
    pub ce_bytes: [u8; 3],
}

impl TcpHeader {
    /// The lowest 24 bits of `bytes` as ECEB.
    pub const fn ce_bytes_of(bytes: u64) -> [u8; 3] {
        let [.., high, middle, low] = bytes.to_be_bytes();
        [high, middle, low]
    }

    /// How far ECEB is beyond that of `bytes` counted before; none if it is behind, as in an acknowledgment that was overtaken.
    pub const fn ce_bytes_since(&self, bytes: u64) -> u64 {
        let [high, middle, low] = self.ce_bytes;
        let told = u32::from_be_bytes([0, high, middle, low]);
        let ahead = told.wrapping_sub(bytes as u32) & 0x00ff_ffff;
        if ahead < 1 << 23 { ahead as u64 } else { 0 }
    }
}

/// Every packet of a simulation carries one.
const _: () = assert!(core::mem::size_of::<TcpHeader>() == 56);

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn the_ace_counter_and_the_flags_leave_each_other_alone() {
        let flags = TcpFlags::ACK.union(TcpFlags::ECE).with_ace(13);
        assert_eq!((flags.ace(), flags.with_ace(0)), (5, TcpFlags::ACK.union(TcpFlags::ECE)));
        assert!(flags.contains(TcpFlags::ECE) && !flags.contains(TcpFlags::CWR));
        assert_eq!(std::format!("{:?}", TcpFlags::ACK.with_ace(3)), "ACK|ACE=3");
    }

    #[test]
    fn the_byte_counter_wraps_and_what_was_overtaken_counts_nothing() {
        let counted = (1 << 24) * 3 - 100;
        let header = TcpHeader { ce_bytes: TcpHeader::ce_bytes_of(counted + 1460), ..TcpHeader::default() };
        assert_eq!(header.ce_bytes_since(counted), 1460);
        assert_eq!(header.ce_bytes_since(counted + 1460), 0);
        assert_eq!(header.ce_bytes_since(counted + 2000), 0);
    }
}

//! The TCP header as the state machines exchange it: parsed, with 64-bit sequence numbers, so that comparisons never
//! wrap. A real-packet world converts at its border.

use core::fmt;

/// The flags that the state machines use.
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
}

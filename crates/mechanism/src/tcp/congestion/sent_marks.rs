//! Which of the segments under way were sent with a promise: a bit for each that the receive window has room for.
//!
//! Source: none; what the thesis of Feng, section 6.3.2, needs to know and does not say how. Deviations: none.

use alloc::boxed::Box;
use alloc::vec;

use crate::tcp::config::TcpConfig;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct SentMarks {
    bits: Box<[u64]>,
    segment_bytes: u64,
}

impl SentMarks {
    /// None is marked.
    pub(super) fn new(tcp: &TcpConfig) -> Self {
        // Two more: the window may begin and end within a segment.
        let segments = tcp.receive_window_bytes / tcp.segment_bytes + 2;
        let words = segments.div_ceil(64) as usize;
        Self { bits: vec![0; words].into_boxed_slice(), segment_bytes: u64::from(tcp.segment_bytes) }
    }

    /// The segment that begins at `sequence` is sent.
    pub(super) fn set(&mut self, sequence: u64, marked: bool) {
        let (word, bit) = self.place(sequence);
        if marked {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
    }

    /// Whether the segment at `sequence` was last sent with a promise.
    pub(super) fn is_marked(&self, sequence: u64) -> bool {
        let (word, bit) = self.place(sequence);
        self.bits[word] & bit != 0
    }

    fn place(&self, sequence: u64) -> (usize, u64) {
        let position = sequence / self.segment_bytes % (self.bits.len() as u64 * 64);
        ((position / 64) as usize, 1 << (position % 64))
    }
}

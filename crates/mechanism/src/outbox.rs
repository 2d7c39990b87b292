//! Messages to send, one behind the other in a buffer that is reused.
//!
//! Source: none. Deviations: none.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// See the module; `K` says to whom.
#[derive(Debug)]
pub(crate) struct Outbox<K> {
    entries: VecDeque<(K, usize)>,
    bytes: Vec<u8>,
    /// Where the first one begins.
    first: usize,
}

impl<K> Default for Outbox<K> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), bytes: Vec::new(), first: 0 }
    }
}

impl<K> Outbox<K> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn push(&mut self, to: K, message: &[u8]) {
        self.entries.push_back((to, message.len()));
        self.bytes.extend_from_slice(message);
    }

    /// Writes the first one into `message`, in place of what was there.
    pub(crate) fn pop(&mut self, message: &mut Vec<u8>) -> Option<K> {
        let (to, length) = self.entries.pop_front()?;
        message.clear();
        message.extend_from_slice(&self.bytes[self.first..self.first + length]);
        self.first += length;
        if self.entries.is_empty() {
            self.bytes.clear();
            self.first = 0;
        }
        Some(to)
    }
}

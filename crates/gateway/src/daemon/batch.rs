//! Datagrams that go to one place with one call.

use super::io::udp::{BATCH_BYTES_MAX, SEGMENTS_MAX, Udp};
use crate::core::ends::Ends;
use crate::core::store::BUFFER_BYTES;

/// See the module.
pub struct Batch {
    bytes: Vec<u8>,
    used: usize,
    count: usize,
    to: Option<(Ends, u8)>,
    segment: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { bytes: vec![0; BATCH_BYTES_MAX + BUFFER_BYTES], used: 0, count: 0, to: None, segment: 0 }
    }
}

impl Batch {
    /// Room for one more, behind what is there, which goes if there is none.
    pub fn room(&mut self, sockets: &mut [Udp]) -> &mut [u8] {
        if self.count == SEGMENTS_MAX || self.used + BUFFER_BYTES > self.bytes.len() {
            self.flush(sockets);
        }
        &mut self.bytes[self.used..][..BUFFER_BYTES]
    }

    /// A datagram of `bytes` bytes stands in the room.
    pub fn add(&mut self, to: (Ends, u8), bytes: usize, sockets: &mut [Udp]) {
        let continues = self.to == Some(to) && bytes <= self.segment && self.used + bytes <= BATCH_BYTES_MAX;
        let is_closed = self.count > 0 && self.used < self.count * self.segment;
        if self.count > 0 && (!continues || is_closed) {
            let start = self.used;
            self.flush(sockets);
            self.bytes.copy_within(start..start + bytes, 0);
        }
        if self.count == 0 {
            (self.to, self.segment) = (Some(to), bytes);
        }
        self.used += bytes;
        self.count += 1;
    }

    /// What is there goes.
    pub fn flush(&mut self, sockets: &mut [Udp]) {
        if let Some((to, traffic_class)) = self.to.take() {
            if let Some(socket) = sockets.iter_mut().find(|socket| socket.reaches(&to.far)) {
                socket.send(to, traffic_class, &self.bytes[..self.used], self.segment);
            } else if let Some(socket) = sockets.first_mut() {
                socket.lack(to.far, self.count as u64);
            }
        }
        (self.used, self.count) = (0, 0);
    }
}

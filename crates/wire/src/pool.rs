//! Buffers of real packets: one block of memory, made once.

use std::fmt;

/// A buffer of a [`Pool`], by number. Whoever has it gives it back with [`Pool::release`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer(pub u32);

/// See the module. As text, it shows which buffers are free and the packets in the others: what is left behind a packet, or in a buffer that is
/// free, is never read.
pub struct Pool {
    memory: Box<[u8]>,
    lengths: Box<[u32]>,
    /// By buffer: how many have it besides the first.
    sharers: Box<[u32]>,
    bytes_each: usize,
    free: Vec<u32>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_free = vec![false; self.lengths.len()];
        for &buffer in &self.free {
            is_free[buffer as usize] = true;
        }
        let memory = self.memory.chunks_exact(self.bytes_each);
        let packets = memory.zip(&self.lengths).enumerate().filter(|(buffer, _)| !is_free[*buffer]);
        let packets: Vec<_> =
            packets.map(|(buffer, (room, &length))| (buffer, &room[..length as usize])).collect();
        f.debug_struct("Pool")
            .field("packets", &packets)
            .field("sharers", &self.sharers)
            .field("free", &self.free)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// `count` buffers of `bytes_each` bytes. The system gives the memory when it is first written to.
    pub fn new(count: u32, bytes_each: usize) -> Self {
        Self {
            memory: vec![0; count as usize * bytes_each].into(),
            lengths: vec![0; count as usize].into(),
            sharers: vec![0; count as usize].into(),
            bytes_each,
            // The first buffers first, so that those in use stay together.
            free: (0..count).rev().collect(),
        }
    }

    /// A free buffer.
    pub fn take(&mut self) -> Option<Buffer> {
        self.free.pop().map(Buffer)
    }

    /// One more has `buffer`, and gives it back.
    pub fn share(&mut self, buffer: Buffer) {
        self.sharers[buffer.0 as usize] += 1;
    }

    /// One that had `buffer` gives it back; it is free again after the last.
    pub fn release(&mut self, buffer: Buffer) {
        debug_assert!(self.used() > 0, "a buffer is released once");
        match &mut self.sharers[buffer.0 as usize] {
            0 => self.free.push(buffer.0),
            sharers => *sharers -= 1,
        }
    }

    /// Room for a packet.
    pub fn room(&mut self, buffer: Buffer) -> &mut [u8] {
        let start = buffer.0 as usize * self.bytes_each;
        &mut self.memory[start..start + self.bytes_each]
    }

    /// `buffer` holds a packet of so many bytes.
    pub fn set_length(&mut self, buffer: Buffer, bytes: usize) {
        self.lengths[buffer.0 as usize] = bytes.min(self.bytes_each) as u32;
    }

    /// The packet in `buffer`.
    pub fn packet(&mut self, buffer: Buffer) -> &mut [u8] {
        let length = self.lengths[buffer.0 as usize] as usize;
        &mut self.room(buffer)[..length]
    }

    /// How many are in use.
    pub const fn used(&self) -> usize {
        self.lengths.len() - self.free.len()
    }
}

//! Buffers of real packets: one block of memory, made once.

/// A buffer of a [`Pool`], by number. Whoever has it gives it back with [`Pool::release`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer(pub u32);

/// See the module.
#[derive(Debug)]
pub struct Pool {
    memory: Box<[u8]>,
    lengths: Box<[u32]>,
    /// By buffer: how many have it besides the first.
    sharers: Box<[u32]>,
    bytes_each: usize,
    free: Vec<u32>,
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

    /// Room for a packet in each of `buffers`, which are put into ascending order.
    pub fn rooms(&mut self, buffers: &mut [Buffer]) -> Vec<&mut [u8]> {
        buffers.sort_unstable_by_key(|buffer| buffer.0);
        let mut rest = &mut self.memory[..];
        let mut passed = 0;
        let mut room = |buffer: &Buffer| {
            let start = buffer.0 as usize * self.bytes_each;
            let (_, from) = std::mem::take(&mut rest).split_at_mut(start - passed);
            let (room, after) = from.split_at_mut(self.bytes_each);
            passed = start + self.bytes_each;
            rest = after;
            room
        };
        buffers.iter().map(&mut room).collect()
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

//! What the wire formats of all mechanisms have in common: the error that bytes are no message, and a reader that cannot pass
//! their end.
//!
//! Source: none; the papers give no encodings.

use tidegate_packet::Address;
use tidegate_units::Time;

/// The bytes are no message, or more than one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Reads big-endian fields from the front of a slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*front)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.take::<1>().map(|[byte]| byte)
    }
    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }
    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }
    pub(crate) fn time(&mut self) -> Result<Time, Malformed> {
        self.u64().map(Time::from_nanos)
    }
    pub(crate) fn address(&mut self, v6: bool) -> Result<Address, Malformed> {
        if v6 { self.take().map(Address::V6) } else { self.take().map(Address::V4) }
    }

    /// `message`, if nothing follows it.
    pub(crate) fn finish<T>(self, message: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(message) } else { Err(Malformed) }
    }
}

//! What the fields of records are read and written with.

use tidegate_packet::{Address, Dscp, Ecn};
use tidegate_units::Time;

use super::DecodeError;

/// Appends `bytes` behind their number.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// What is left of a record.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `count` bytes.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(DecodeError::Malformed("a record is shorter than its fields"))?;
        self.0 = rest;
        Ok(taken)
    }
    /// The next bytes, as many as the array has.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("so many bytes were taken"))
    }
    /// The next byte.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }
    /// A number of two bytes.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }
    /// A number of four bytes.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }
    /// A number of eight bytes.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }
    /// An instant.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn time(&mut self) -> Result<Time, DecodeError> {
        self.u64().map(Time::from_nanos)
    }
    /// Bytes behind their number.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.u32()?;
        self.take(count as usize)
    }
    /// Text behind the number of its bytes.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn text(&mut self) -> Result<String, DecodeError> {
        let text = core::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| DecodeError::Malformed("a text is not UTF-8"))
    }
    /// An address, by its length of either version.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn address(&mut self) -> Result<Address, DecodeError> {
        let bytes = self.bytes()?;
        if let Ok(octets) = bytes.try_into() {
            return Ok(Address::V4(octets));
        }
        bytes.try_into().map(Address::V6).map_err(|_| DecodeError::Malformed("an address has an odd length"))
    }
    /// An ECN field.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn ecn(&mut self) -> Result<Ecn, DecodeError> {
        match self.byte()? {
            bits @ 0..=3 => Ok(Ecn::from_bits(bits)),
            _ => Err(DecodeError::Malformed("an ECN field has more than two bits")),
        }
    }
    /// A codepoint.
    ///
    /// # Errors
    /// When there is less, or it is none.
    pub fn dscp(&mut self) -> Result<Dscp, DecodeError> {
        match self.byte()? {
            bits @ 0..=63 => Ok(Dscp::new(bits)),
            _ => Err(DecodeError::Malformed("a DSCP has more than six bits")),
        }
    }

    /// One of `all`, by its number.
    ///
    /// # Errors
    /// When there is none with this number.
    pub fn reason<T: Copy>(&mut self, all: &[T]) -> Result<T, DecodeError> {
        let index = usize::from(self.byte()?);
        all.get(index).copied().ok_or(DecodeError::Malformed("a reason is unknown"))
    }

    /// That nothing is left.
    ///
    /// # Errors
    /// When something is.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Malformed("a record is longer than its fields"))
        }
    }
}

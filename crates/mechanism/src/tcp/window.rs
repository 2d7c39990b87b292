//! A window as configurations write it.
//!
//! Source: none. Deviations: none.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use tidegate_units::{Bytes, Limit};

/// A window of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// In full packets.
    Packets(u32),
    /// In bytes of payload.
    Bytes(Bytes),
}

impl Window {
    /// The window in bytes, for packets with `segment` bytes of payload.
    pub const fn bytes(self, segment: Bytes) -> Bytes {
        match self {
            Self::Packets(packets) => Bytes::new((packets as u64).saturating_mul(segment.get())),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The window in packets with `segment` bytes of payload, above zero; what is begun counts.
    pub fn packets(self, segment: Bytes) -> u32 {
        match self {
            Self::Packets(packets) => packets,
            Self::Bytes(bytes) => u32::try_from(bytes.get().div_ceil(segment.get())).unwrap_or(u32::MAX),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl FromStr for Window {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<Limit>() {
            Ok(Limit::Packets(packets)) => Ok(Self::Packets(packets)),
            Ok(Limit::Bytes(bytes)) => Ok(Self::Bytes(bytes)),
            _ => Err(format!("`{text}` is no window: write packets (`20p`) or a size (`100kB`)")),
        }
    }
}

#[cfg(feature = "text")]
impl tidegate_units::Quantity for Window {
    const WHAT: &'static str = "a window in packets or bytes";
    const NAME: &'static str = "Window";
    const EXAMPLE: &'static str = "20p";
    const PATTERN: &'static str = r"^\+?[0-9_]*\.?[0-9_]+ *(p|packet|packets|B|kB|MB|GB|KiB|MiB|GiB)$";
}

#[cfg(feature = "text")]
tidegate_units::quantities! { Window }

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_window_reads_back_as_it_is_written() {
        for (text, window) in [("20p", Window::Packets(20)), ("100kB", Window::Bytes(Bytes::new(100_000)))] {
            assert_eq!((text.parse(), window.to_string()), (Ok(window), text.to_string()));
        }
        let message = "`3s` is no window: write packets (`20p`) or a size (`100kB`)";
        assert_eq!("3s".parse::<Window>(), Err(message.to_string()));
    }

    #[test]
    fn packets_and_bytes_convert_by_the_payload() {
        let segment = Bytes::new(1460);
        assert_eq!(Window::Packets(2).bytes(segment), Bytes::new(2920));
        assert_eq!(Window::Bytes(Bytes::new(1461)).packets(segment), 2);
        assert_eq!(Window::Bytes(Bytes::new(0)).packets(segment), 0);
    }
}

//! Text with units, as `tc` writes them: `1.5Mbit`, `10ms`, `100kB`, `100p`.
//!
//! A bare number where a unit is needed is an error, and so is a value that is not a whole number of the base unit
//! (nanoseconds, bits per second, bytes). Two unit names of `tc` are refused because they mislead: `bps` (there bytes
//! per second) and `kb` (there 1024 bytes).

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use crate::{BitRate, Bytes, Span, Time};

/// Why a text is no quantity: a whole sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError(String);

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl core::error::Error for UnitError {}

/// The limit of a queue: in packets, bytes, or the time that its link needs to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many packets.
    Packets(u32),
    /// At most so many bytes on the wire.
    Bytes(Bytes),
    /// At most what the link sends in so much time.
    Time(Span),
}

impl Limit {
    /// Whether it is no less than `other`, where both are counted alike; else no.
    pub fn is_at_least(self, other: Self) -> bool {
        match (self, other) {
            (Self::Packets(own), Self::Packets(other)) => own >= other,
            (Self::Bytes(own), Self::Bytes(other)) => own >= other,
            (Self::Time(own), Self::Time(other)) => own >= other,
            _ => false,
        }
    }
}

/// The description of a kind of quantity: what the user may write.
struct Kind {
    what: &'static str,
    example: &'static str,
    /// Name and size in base units; the first is suggested.
    units: &'static [(&'static str, u64)],
    /// Units that look right and are not, with what to write instead.
    traps: &'static [(&'static str, &'static str)],
}

const SPAN: Kind = Kind {
    what: "a time",
    example: "10ms",
    units: &[("ms", 1_000_000), ("s", 1_000_000_000), ("us", 1_000), ("ns", 1), ("min", 60_000_000_000)],
    traps: &[("sec", "s"), ("msec", "ms"), ("usec", "us"), ("m", "min (minutes) or ms (milliseconds)")],
};
const RATE: Kind = Kind {
    what: "a rate",
    example: "1.5Mbit",
    units: &[
        ("Mbit", 1_000_000),
        ("kbit", 1_000),
        ("Gbit", 1_000_000_000),
        ("bit", 1),
        ("Tbit", 1_000_000_000_000),
    ],
    traps: &[
        ("bps", "bit (in tc, bps means bytes per second)"),
        ("kbps", "kbit (in tc, kbps means kilobytes per second)"),
        ("Mbps", "Mbit (in tc, mbps means megabytes per second)"),
        ("mbit", "Mbit"),
        ("gbit", "Gbit"),
        ("Kbit", "kbit"),
    ],
};
const SIZE: Kind = Kind {
    what: "a size",
    example: "100kB",
    units: &[
        ("kB", 1_000),
        ("B", 1),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    traps: &[
        ("KB", "kB (1000 bytes) or KiB (1024 bytes)"),
        ("kb", "kB (bytes) or divide by eight for bits"),
        ("b", "B (bytes)"),
        ("p", "bytes here: this value is not counted in packets"),
    ],
};

/// The number and the unit of `text`, which are separated by nothing or by spaces.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn parse(text: &str, kind: &Kind) -> Result<u64, UnitError> {
    let (number, unit) = split(text);
    let names = || kind.units.iter().map(|(name, _)| *name).collect::<alloc::vec::Vec<_>>().join(", ");
    let what = kind.what;
    let error = |why: String| Err(UnitError(why));
    if number.is_empty() {
        return error(format!("`{text}` is not {what}: write a number and a unit, like `{}`", kind.example));
    }
    if number.starts_with('-') {
        return error(format!("`{text}` is negative: {what} is zero or more"));
    }
    if unit.is_empty() && number.parse::<u64>() != Ok(0) {
        return error(format!(
            "`{text}` has no unit: write {what} like `{}` (units: {})",
            kind.example,
            names()
        ));
    }
    let scale = match kind.units.iter().find(|(name, _)| *name == unit) {
        Some(&(_, scale)) => scale,
        None if unit.is_empty() => 1,
        None => {
            if let Some((_, instead)) = kind.traps.iter().find(|(name, _)| *name == unit) {
                return error(format!("`{text}`: for {what} write {instead} instead of `{unit}`"));
            }
            return error(format!("`{text}`: `{unit}` is no unit for {what} (units: {})", names()));
        }
    };
    exact_multiple(number, scale).ok_or_else(|| {
        UnitError(format!("`{text}` is out of range or finer than a whole number of {}", base_name(kind)))
    })
}

fn base_name(kind: &Kind) -> &'static str {
    kind.units.iter().find(|(_, size)| *size == 1).map_or("base units", |(name, _)| name)
}

/// The decimal `number` times `scale`, if that is a whole `u64`. As in TOML, an underscore stands between two digits.
fn exact_multiple(number: &str, scale: u64) -> Option<u64> {
    let number = number.strip_prefix('+').unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_loose = |digits: &str| digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if (whole.is_empty() && fraction.is_empty()) || is_loose(whole) || is_loose(fraction) {
        return None;
    }
    let mut value: u128 = 0;
    let mut denominator: u128 = 1;
    for (digit, after_point) in whole.bytes().map(|b| (b, false)).chain(fraction.bytes().map(|b| (b, true))) {
        if digit == b'_' {
            continue;
        }
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u128::from(digit - b'0'))?;
        if after_point {
            denominator = denominator.checked_mul(10)?;
        }
    }
    let scaled = value.checked_mul(u128::from(scale))?;
    if scaled % denominator != 0 {
        return None;
    }
    u64::try_from(scaled / denominator).ok()
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &SPAN).map(Self::from_nanos)
    }
}
impl FromStr for Time {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &SPAN).map(Self::from_nanos)
    }
}
impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &RATE).map(Self::from_bps)
    }
}
impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &SIZE).map(Self::new)
    }
}

impl FromStr for Limit {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text);
        if matches!(unit, "p" | "packet" | "packets") {
            let packets = exact_multiple(number, 1).and_then(|n| u32::try_from(n).ok());
            return packets.map(Self::Packets).ok_or_else(|| {
                UnitError(format!("`{text}`: packets come in whole numbers, zero or more, below 2^32"))
            });
        }
        if SPAN.units.iter().any(|(name, _)| *name == unit) {
            return text.parse().map(Self::Time);
        }
        if SIZE.units.iter().any(|(name, _)| *name == unit) {
            return text.parse().map(Self::Bytes);
        }
        Err(UnitError(format!(
            "`{text}` is no limit of a queue: write packets (`100p`), a size (`32kB`) or a time (`20ms`)"
        )))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => fmt::Display::fmt(bytes, f),
            Self::Time(span) => fmt::Display::fmt(span, f),
        }
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> Self {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_units_of_tc() {
        assert_eq!("1.5Mbit".parse(), Ok(BitRate::from_bps(1_500_000)));
        assert_eq!("128kbit".parse(), Ok(BitRate::from_bps(128_000)));
        assert_eq!("100us".parse(), Ok(Span::from_micros(100)));
        assert_eq!("0".parse(), Ok(Span::ZERO));
        assert_eq!("2 min".parse(), Ok(Span::from_secs(120)));
        assert_eq!("64KiB".parse(), Ok(Bytes::new(65_536)));
        assert_eq!("100p".parse(), Ok(Limit::Packets(100)));
        assert_eq!("20ms".parse(), Ok(Limit::Time(Span::from_millis(20))));
        assert_eq!("32kB".parse(), Ok(Limit::Bytes(Bytes::new(32_000))));
    }

    #[test]
    fn refuses_what_misleads_and_says_what_to_write() {
        let message = |text: &str| text.parse::<BitRate>().unwrap_err().to_string();
        assert!(message("1500000").contains("has no unit"));
        assert!(message("3Mbps").contains("write Mbit"));
        assert!(message("-3Mbit").contains("negative"));
        assert!(message("fast").contains("1.5Mbit"));
        assert!(message("0.5bit").contains("whole number of bit"));
        assert!("99999999999999999999Gbit".parse::<BitRate>().is_err());
        assert!("1.2.3s".parse::<Span>().is_err());
        assert!(".s".parse::<Span>().is_err());
        assert!("1.5p".parse::<Limit>().is_err());
        assert!("".parse::<Limit>().is_err());
    }

    #[test]
    fn an_underscore_stands_between_digits_and_is_no_digit() {
        assert_eq!("1_500_000bit".parse(), Ok(BitRate::from_bps(1_500_000)));
        assert_eq!("0.000_001s".parse(), Ok(Span::from_micros(1)));
        for loose in ["_ms", "_._ms", "_1ms", "1_ms", "1__0ms", "1_.5ms", "1._5ms", "+_ms"] {
            assert!(loose.parse::<Span>().is_err(), "{loose}");
        }
        assert!("_p".parse::<Limit>().is_err());
    }

    #[test]
    fn what_is_written_reads_back() {
        for nanos in [0, 1, 999, 1_000, 1_500, 123_456_789, 60_000_000_000, u64::MAX] {
            let span = Span::from_nanos(nanos);
            assert_eq!(span.to_string().parse(), Ok(span));
            let rate = BitRate::from_bps(nanos);
            assert_eq!(rate.to_string().parse(), Ok(rate));
            let bytes = Bytes::new(nanos);
            assert_eq!(bytes.to_string().parse(), Ok(bytes));
        }
    }
}

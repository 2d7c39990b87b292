//! What a value may be: bounds that check it, say so in words, and stand in the schema.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use crate::{Parameters, Report};

/// Checks the value of one key.
pub trait Check<T: ?Sized> {
    /// Tells `report` if `value`, written at `key`, may not be.
    fn check(&self, key: &str, value: &T, report: &mut Report<'_>);

    /// What may be, in words: "from 0 to 1". Empty if there is nothing to say.
    fn allowed(&self) -> Cow<'static, str> {
        Cow::Borrowed("")
    }

    /// What is to be written, where that is one number: "a whole number from 1 to 64". Empty if it is something else.
    fn number(&self) -> Cow<'static, str> {
        Cow::Borrowed("")
    }

    /// Adds what the schema can say of it.
    #[cfg(feature = "text")]
    fn describe(&self, schema: &mut schemars::Schema) {
        let _ = schema;
    }
}

/// A value that may be absent is checked where it is given.
impl<T, B: Check<T>> Check<Option<T>> for B {
    fn check(&self, key: &str, value: &Option<T>, report: &mut Report<'_>) {
        if let Some(value) = value {
            self.check(key, value, report);
        }
    }
    fn allowed(&self) -> Cow<'static, str> {
        self.allowed()
    }
    fn number(&self) -> Cow<'static, str> {
        self.number()
    }
    #[cfg(feature = "text")]
    fn describe(&self, schema: &mut schemars::Schema) {
        self.describe(schema);
    }
}

/// A number or a quantity that bounds compare.
pub trait Scalar: Copy + PartialOrd + Display + 'static {
    /// What a number of this kind is called; empty where a text is written.
    const WHAT: &'static str = "";

    /// The number in a schema; none where a text is written.
    fn as_number(self) -> Option<f64> {
        None
    }
}

macro_rules! numbers {
    ($what:literal $($type:ty)*) => {$(
        impl Scalar for $type {
            const WHAT: &'static str = $what;
            fn as_number(self) -> Option<f64> {
                #[allow(clippy::cast_lossless, clippy::cast_precision_loss, reason = "bounds are small numbers")]
                Some(self as f64)
            }
        }
    )*};
}
numbers! { "a number" f64 }
numbers! { "a whole number" u8 u16 u32 u64 usize i64 }
impl Scalar for Span {}
impl Scalar for Time {}
impl Scalar for BitRate {}
impl Scalar for Bytes {}

/// One end of a range.
#[derive(Clone, Copy, Debug)]
enum End<T> {
    /// There is none.
    Open,
    /// The value itself may be.
    With(T),
    /// The value itself may not be.
    Without(T),
}

/// What is said of a value: before it, after it, and what to do.
#[derive(Clone, Copy, Debug)]
struct Saying {
    before: &'static str,
    after: &'static str,
    /// Empty: the range in words.
    help: &'static str,
    /// Whether the value itself is left out.
    is_plain: bool,
}

/// A range of values, with what is said of those outside.
#[derive(Clone, Copy, Debug)]
pub struct Bound<T> {
    from: End<T>,
    to: End<T>,
    saying: Saying,
    low: Option<Saying>,
    high: Option<Saying>,
}

impl<T: Scalar> Bound<T> {
    const fn new(from: End<T>, to: End<T>) -> Self {
        let saying = Saying { before: "", after: " is out of range", help: "", is_plain: false };
        Self { from, to, saying, low: None, high: None }
    }

    /// From `least` to `most`, both included.
    pub const fn between(least: T, most: T) -> Self {
        Self::new(End::With(least), End::With(most))
    }

    /// At least `least`.
    pub const fn at_least(least: T) -> Self {
        Self::new(End::With(least), End::Open)
    }

    /// At most `most`.
    pub const fn at_most(most: T) -> Self {
        Self::new(End::Open, End::With(most))
    }

    /// Above `least`.
    pub const fn above(least: T) -> Self {
        Self::new(End::Without(least), End::Open)
    }

    /// Also at most `most`.
    pub const fn and_at_most(self, most: T) -> Self {
        Self { to: End::With(most), ..self }
    }

    /// Also below `most`.
    pub const fn and_below(self, most: T) -> Self {
        Self { to: End::Without(most), ..self }
    }

    /// What is said of a value outside: `before`, the value, `after`. The help is the range in words.
    pub const fn saying(self, before: &'static str, after: &'static str) -> Self {
        Self { saying: Saying { before, after, help: self.saying.help, is_plain: false }, ..self }
    }

    /// What is advised, in place of the range in words.
    pub const fn helping(self, help: &'static str) -> Self {
        Self { saying: Saying { help, ..self.saying }, ..self }
    }

    /// What is said of a value that is too low: a whole message, and what to do about it.
    pub const fn low(self, message: &'static str, help: &'static str) -> Self {
        Self { low: Some(Saying { before: message, after: "", help, is_plain: true }), ..self }
    }

    /// What is said of a value that is too high: `before`, the value, `after`, and what to do about it.
    pub const fn high(self, before: &'static str, after: &'static str, help: &'static str) -> Self {
        Self { high: Some(Saying { before, after, help, is_plain: false }), ..self }
    }

    /// The range in words.
    fn words(&self) -> String {
        // An end that no number reaches is none.
        let to = match self.to {
            End::Without(to) if to.as_number().is_some_and(f64::is_infinite) => End::Open,
            to => to,
        };
        match (self.from, to) {
            (End::With(from), End::With(to)) => format!("from {from} to {to}"),
            (End::Without(from), End::With(to)) => format!("above {from}, at most {to}"),
            (End::With(from), End::Without(to)) => format!("from {from} to below {to}"),
            (End::Without(from), End::Without(to)) => format!("between {from} and {to}"),
            (End::With(from), End::Open) => format!("at least {from}"),
            (End::Without(from), End::Open) => format!("above {from}"),
            (End::Open, End::With(to)) => format!("at most {to}"),
            (End::Open, End::Without(to)) => format!("below {to}"),
            (End::Open, End::Open) => String::new(),
        }
    }
}

impl<T: Scalar> Check<T> for Bound<T> {
    fn check(&self, key: &str, value: &T, report: &mut Report<'_>) {
        // What compares with nothing (not a number) is neither.
        let is_high_enough = match self.from {
            End::Open => true,
            End::With(least) => *value >= least,
            End::Without(least) => *value > least,
        };
        let is_low_enough = match self.to {
            End::Open => value.partial_cmp(value).is_some(),
            End::With(most) => *value <= most,
            End::Without(most) => *value < most,
        };
        let saying = match (is_high_enough, is_low_enough) {
            (true, true) => return,
            (false, _) => self.low.unwrap_or(self.saying),
            (true, false) => self.high.unwrap_or(self.saying),
        };
        let message = if saying.is_plain {
            saying.before.to_string()
        } else {
            format!("{}{value}{}", saying.before, saying.after)
        };
        let is_general = self.low.is_none() && self.high.is_none();
        if saying.help.is_empty() && is_general {
            report.say(key, message, &self.words());
        } else {
            report.say(key, message, saying.help);
        }
    }

    fn allowed(&self) -> Cow<'static, str> {
        Cow::Owned(self.words())
    }

    fn number(&self) -> Cow<'static, str> {
        let (what, words) = (T::WHAT, self.words());
        match words.as_str() {
            _ if what.is_empty() => Cow::Borrowed(""),
            "" => Cow::Borrowed(what),
            end if end.starts_with("at ") => Cow::Owned(format!("{what}, {end}")),
            range => Cow::Owned(format!("{what} {range}")),
        }
    }

    #[cfg(feature = "text")]
    fn describe(&self, schema: &mut schemars::Schema) {
        let mut put = |with: &str, without: &str, end: End<T>| {
            let (key, value) = match end {
                End::Open => return,
                End::With(value) => (with, value),
                End::Without(value) => (without, value),
            };
            if let Some(number) = value.as_number().filter(|number| number.is_finite()) {
                schema.insert(key.to_string(), number.into());
            }
        };
        put("minimum", "exclusiveMinimum", self.from);
        put("maximum", "exclusiveMaximum", self.to);
    }
}

/// Checks each element of a list.
#[derive(Clone, Copy, Debug)]
pub struct Each<B>(pub B);

impl<T, B: Check<T>> Check<Vec<T>> for Each<B> {
    fn check(&self, key: &str, list: &Vec<T>, report: &mut Report<'_>) {
        for value in list {
            self.0.check(key, value, report);
        }
    }
    fn allowed(&self) -> Cow<'static, str> {
        self.0.allowed()
    }
}

/// A table inside, or a list of tables: its own parameters are checked.
#[derive(Clone, Copy, Debug)]
pub struct Inside;

impl<T: Parameters> Check<T> for Inside {
    fn check(&self, key: &str, value: &T, report: &mut Report<'_>) {
        report.below(key, |report| value.check(report));
    }
}

impl<T: Parameters> Check<Vec<T>> for Inside {
    fn check(&self, key: &str, list: &Vec<T>, report: &mut Report<'_>) {
        for (position, value) in list.iter().enumerate() {
            report.below(key, |report| report.below(&position.to_string(), |report| value.check(report)));
        }
    }
}

/// A table inside; see [`Inside`].
pub const INSIDE: Inside = Inside;

/// No link is faster: 10 Tbit/s.
pub const RATE_MAX: BitRate = BitRate::from_bps(10_000_000_000_000);
/// No link is longer, and no time constant either.
pub const DELAY_MAX: Span = Span::from_secs(3_600);
/// No queue holds more packets.
const QUEUE_PACKETS_MAX: u32 = 1_000_000_000;
/// No queue holds more bytes.
const QUEUE_BYTES_MAX: u64 = 1_000_000_000_000;

/// What is advised where a time is longer than [`DELAY_MAX`].
const AN_HOUR: &str = "at most 3600s: no link is longer, and no time constant";

/// A rate at which something moves.
pub const RATE: Bound<BitRate> = Bound::above(BitRate::ZERO)
    .and_at_most(RATE_MAX)
    .low("a rate of zero moves nothing", "to cut a link, use an event with state = \"down\"")
    .high("", " is above 10000Gbit", "at most 10000Gbit: no link is faster");
/// A time that may be zero.
pub const DELAY: Bound<Span> = Bound::at_most(DELAY_MAX).high("", " is above an hour", AN_HOUR);
/// A time that may not be zero.
pub const DURATION: Bound<Span> = Bound::above(Span::ZERO)
    .and_at_most(DELAY_MAX)
    .low("this time cannot be zero", "above 0s: waiting and averaging take time")
    .high("", " is above an hour", AN_HOUR);
/// A packet on the wire.
pub const PACKET: Bound<Bytes> = Bound::between(Bytes::new(1), Bytes::new(65_535))
    .low("a packet has at least one byte", "")
    .high("", " is no size of a packet", "IP counts the bytes of a packet in 16 bits: at most 65535B");
/// A probability, or a part of something.
pub const PROBABILITY: Bound<f64> = Bound::between(0.0, 1.0).saying("", " is no probability");
/// The weight of a sample in an average.
pub const GAIN: Bound<f64> = Bound::above(0.0)
    .and_at_most(1.0)
    .saying("", " is no weight")
    .helping("above 0, at most 1: at 0 nothing new counts");
/// A number above zero.
pub const ABOVE_ZERO: Bound<f64> = Bound::above(0.0).saying("", " is not above 0");
/// A share of something, of which there is some.
pub const SHARE: Bound<f64> = Bound::above(0.0).and_at_most(1.0).saying("", " is no share");
/// How many there are of something of which there is one at least.
pub const COUNT: Bound<u32> = Bound::at_least(1).low("zero leaves nothing", "at least 1");
/// A codepoint of differentiated services.
pub const CODEPOINT: Bound<u8> = Bound::between(0, 63).saying("", " is no codepoint");
/// A class of assured forwarding.
pub const ASSURED_CLASS: Bound<u8> = Bound::between(1, 4).saying("", " is no class of assured forwarding");
/// A weight in schedulers, which add them up as real numbers, and walk through the rounds of a light queue.
pub const WEIGHT: Bound<f64> =
    Bound::between(1e-6, 1e6).saying("", " is no weight").helping("from 0.000001 to 1000000");
/// See [`BUCKET`].
pub const BUCKET_BYTES_MAX: Bytes = Bytes::new(500_000_000);
/// The depth of a token bucket or a leaky one: up to half a gigabyte its level is exact.
pub const BUCKET: Bound<Bytes> = Bound::at_most(BUCKET_BYTES_MAX).saying("no bucket holds ", "");
/// The depth of a bucket that something must fit into.
pub const BUCKET_OF_SOME: Bound<Bytes> = Bound::between(Bytes::new(1), BUCKET_BYTES_MAX)
    .low("an empty bucket lets nothing pass", "")
    .high("no bucket holds ", "", "at most 500MB");

/// How much may leave at once, as a size, or as the time in which a rate brings it.
#[derive(Clone, Copy, Debug)]
pub struct BucketOfSome;

impl Check<Limit> for BucketOfSome {
    fn check(&self, key: &str, bucket: &Limit, report: &mut Report<'_>) {
        match bucket {
            Limit::Bytes(bytes) => BUCKET_OF_SOME.check(key, bytes, report),
            Limit::Time(span) if span.is_zero() => {
                report.say(key, "an empty bucket lets nothing pass", "above 0s");
            }
            Limit::Time(span) if *span > BUCKET_TIME_MAX => {
                report.say(key, format!("no bucket holds {span}"), "at most 1s");
            }
            Limit::Time(_) => {}
            Limit::Packets(_) => {
                report.say(key, "a bucket holds bytes", "a size (`10kB`), or a time (`1ms`) at the rate");
            }
        }
    }
}

/// Of a bucket that is a time.
const BUCKET_TIME_MAX: Span = Span::from_secs(1);

/// How much may wait, in packets, bytes or time.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// What is wrong with none, and what to do about it.
    zero: (&'static str, &'static str),
}

/// How much may wait, in packets, bytes or time.
pub const QUEUE: Queue =
    Queue { zero: ("a queue that holds nothing drops everything", "above zero, in packets, bytes or time") };

/// How much of what waits a mechanism steers to, or acts above; `zero` says why it cannot be none.
pub const fn level(zero: &'static str) -> Queue {
    Queue { zero: (zero, "above zero, like `20p`") }
}

impl Check<Limit> for Queue {
    fn check(&self, key: &str, limit: &Limit, report: &mut Report<'_>) {
        let (is_zero, is_too_large) = match *limit {
            Limit::Packets(packets) => (packets == 0, packets > QUEUE_PACKETS_MAX),
            Limit::Bytes(bytes) => (bytes.get() == 0, bytes.get() > QUEUE_BYTES_MAX),
            Limit::Time(span) => (span.is_zero(), span > DELAY_MAX),
        };
        if is_zero {
            report.say(key, self.zero.0, self.zero.1);
        } else if is_too_large {
            report.say(key, format!("no queue holds {limit}"), "at most 1000000000p, 1000GB or one hour");
        }
    }
}

/// How much may wait, in packets, as the field says.
#[derive(Clone, Copy, Debug)]
pub struct InPackets {
    /// How one is written.
    example: &'static str,
}

/// How much may wait, in packets only; `example` shows how that is written.
pub const fn in_packets(example: &'static str) -> InPackets {
    InPackets { example }
}

impl Check<Limit> for InPackets {
    fn check(&self, key: &str, limit: &Limit, report: &mut Report<'_>) {
        if matches!(limit, Limit::Packets(_)) {
            QUEUE.check(key, limit, report);
        } else {
            report.say(
                key,
                format!("{limit} is not in packets"),
                &format!("write one like `{}`", self.example),
            );
        }
    }

    fn allowed(&self) -> Cow<'static, str> {
        Cow::Borrowed("in packets")
    }
}

//! Checks of single values: zero where nothing would move, and values that nobody can mean.

mod domain;
mod marker;
mod media;
mod queue;
mod transport;

pub(crate) use domain::{background, circuit, clock, labels, mechanism};
pub(crate) use marker::marker;
pub(crate) use media::{loss, reorder};
pub(crate) use queue::queue;
pub(crate) use transport::{application, tcp, tfrc, udp};

use serde::{Deserialize, Deserializer};
use tidegate_units::{BitRate, Bytes, Limit, Span};

use crate::text;

/// No link is faster: 10 Tbit/s.
const RATE_MAX: BitRate = BitRate::from_bps(10_000_000_000_000);
/// No link is longer, and no time constant either.
const DELAY_MAX: Span = Span::from_secs(3_600);
/// No queue holds more packets, bytes or time.
const QUEUE_PACKETS_MAX: u32 = 1_000_000_000;
const QUEUE_BYTES_MAX: u64 = 1_000_000_000_000;
/// Weights are not further apart: schedulers add them up as real numbers, and walk through the rounds of a light queue.
const WEIGHT_MIN: f64 = 1e-6;
const WEIGHT_MAX: f64 = 1e6;
/// No bucket is deeper: up to half a gigabyte its level is exact.
const BUCKET_BYTES_MAX: u64 = 500_000_000;
/// No packet is larger.
const PACKET_BYTES_MAX: u64 = 65_535;

/// A time that stands alone.
pub(crate) struct SpanText(pub(crate) Span);

impl<'de> Deserialize<'de> for SpanText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::deserialize(deserializer).map(Self)
    }
}

/// Takes what is wrong: the keys below the checked table, the message, the help.
pub(crate) struct Report<'r> {
    pub(crate) sink: &'r mut dyn FnMut(&[&str], String, &str),
}

impl Report<'_> {
    fn say(&mut self, keys: &[&str], message: impl Into<String>, help: &str) {
        (self.sink)(keys, message.into(), help);
    }

    /// Something that no value alone shows.
    pub(crate) fn at(&mut self, keys: &[&str], message: String) {
        self.say(keys, message, "");
    }

    /// The same for a table inside.
    pub(crate) fn below(&mut self, key: &str, check: impl FnOnce(&mut Report<'_>)) {
        let sink = &mut *self.sink;
        let mut inner = |keys: &[&str], message: String, help: &str| {
            let whole: Vec<&str> = std::iter::once(key).chain(keys.iter().copied()).collect();
            sink(&whole, message, help);
        };
        check(&mut Report { sink: &mut inner });
    }

    pub(crate) fn rate(&mut self, key: &str, rate: BitRate) {
        if rate.is_zero() {
            self.say(
                &[key],
                "a rate of zero moves nothing",
                "to cut a link, use an event with state = \"down\"",
            );
        } else if rate > RATE_MAX {
            self.say(&[key], format!("{rate} is above {RATE_MAX}"), "");
        }
    }

    pub(crate) fn delay(&mut self, key: &str, delay: Span) {
        if delay > DELAY_MAX {
            self.say(&[key], format!("{delay} is above an hour"), "");
        }
    }

    fn positive_span(&mut self, key: &str, span: Span) {
        if span.is_zero() {
            self.say(&[key], "this time cannot be zero", "");
        } else {
            self.delay(key, span);
        }
    }

    pub(crate) fn packet(&mut self, key: &str, bytes: Bytes) {
        if bytes.get() == 0 {
            self.say(&[key], "a packet has at least one byte", "");
        } else if bytes.get() > PACKET_BYTES_MAX {
            self.say(
                &[key],
                format!("{bytes} is no size of a packet"),
                "IP counts the bytes of a packet in 16 bits: at most 65535B",
            );
        }
    }

    pub(crate) fn probability(&mut self, key: &str, value: f64) {
        if !(0.0..=1.0).contains(&value) {
            self.say(&[key], format!("{value} is no probability"), "from 0 to 1");
        }
    }

    fn codepoint(&mut self, key: &str, value: u8) {
        if value > 63 {
            self.say(&[key], format!("{value} is no codepoint"), "from 0 to 63");
        }
    }

    fn assured_class(&mut self, key: &str, value: u8) {
        if !(1..=4).contains(&value) {
            self.say(&[key], format!("{value} is no class of assured forwarding"), "from 1 to 4");
        }
    }

    fn above_zero(&mut self, key: &str, value: f64) {
        if value.is_nan() || value <= 0.0 {
            self.say(&[key], format!("{value} is not above 0"), "");
        }
    }

    pub(crate) fn weight(&mut self, key: &str, value: f64) {
        if !(WEIGHT_MIN..=WEIGHT_MAX).contains(&value) {
            self.say(&[key], format!("{value} is no weight"), "from 0.000001 to 1000000");
        }
    }

    /// The depth of a token bucket or a leaky one.
    fn bucket(&mut self, key: &str, depth: Bytes) {
        if depth.get() > BUCKET_BYTES_MAX {
            self.say(&[key], format!("no bucket holds {depth}"), "at most 500MB");
        }
    }

    fn count(&mut self, key: &str, value: u32) {
        if value == 0 {
            self.say(&[key], "zero leaves nothing", "");
        }
    }

    fn limit(&mut self, key: &str, limit: Limit) {
        let (zero, too_large) = match limit {
            Limit::Packets(packets) => (packets == 0, packets > QUEUE_PACKETS_MAX),
            Limit::Bytes(bytes) => (bytes.get() == 0, bytes.get() > QUEUE_BYTES_MAX),
            Limit::Time(span) => (span.is_zero(), span > DELAY_MAX),
        };
        if zero {
            self.say(&[key], "a queue that holds nothing drops everything", "");
        } else if too_large {
            let help = "at most 1000000000p, 1000GB or one hour";
            self.say(&[key], format!("no queue holds {limit}"), help);
        }
    }
}

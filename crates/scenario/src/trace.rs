//! Traces of delivery opportunities, in the format of Mahimahi: one whole number of milliseconds per line.

use std::collections::HashMap;
use std::path::Path;

use tidegate_document::source::Sources;
use tidegate_units::BitRate;

use crate::fault::shortened;
use crate::model::Trace;

/// Bits that one opportunity carries.
const OPPORTUNITY_BITS: u64 = 1500 * 8;
/// No trace is longer: 1,000,000 s.
const LENGTH_MS_MAX: u64 = 1_000_000_000;
/// Opportunities in all traces of a scenario.
const OPPORTUNITIES_MAX: usize = 4_000_000;

impl Trace {
    /// Reads the text of `file`.
    ///
    /// # Errors
    /// What is wrong, with the number of the line.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, String> {
        let mut stamps = Vec::new();
        let mut last = 0;
        for (line, number) in text.lines().zip(1_u32..) {
            let wrong = |what: String| Err(format!("{file}, line {number}: {what}"));
            let line = line.trim_ascii();
            let is_number = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
            let Some(stamp) = line.parse::<u64>().ok().filter(|_| is_number) else {
                return wrong(format!(
                    "expected a whole number of milliseconds, found `{}`",
                    shortened(line)
                ));
            };
            if stamp < last {
                return wrong(format!("{stamp} comes after {last}; instants do not descend"));
            }
            if stamp > LENGTH_MS_MAX {
                return wrong(format!("{stamp} is above {LENGTH_MS_MAX}"));
            }
            if stamps.len() == OPPORTUNITIES_MAX {
                return wrong(format!("more than {OPPORTUNITIES_MAX} opportunities"));
            }
            stamps.push(stamp);
            last = stamp;
        }
        if stamps.is_empty() {
            return Err(format!("{file} is empty: a trace has at least one line"));
        }
        if last == 0 {
            return Err(format!("{file} lasts no time: the last instant is above zero"));
        }
        Ok(Self { file: file.to_owned(), stamps_ms: stamps.into() })
    }

    /// The text that reads back as the same trace.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for stamp in self.stamps_ms.iter() {
            text.push_str(&stamp.to_string());
            text.push('\n');
        }
        text
    }

    /// What it carries on average.
    pub fn mean_rate(&self) -> BitRate {
        let length_ms = self.stamps_ms.last().copied().unwrap_or(1);
        let bits = OPPORTUNITY_BITS * self.stamps_ms.len() as u64;
        BitRate::from_bps(bits * 1000 / length_ms)
    }
}

/// The text of `file`, which a scenario names as `what`.
pub(crate) fn text_of(sources: &Sources, file: &str, what: &str) -> Result<String, String> {
    match sources.attached(file) {
        Some(text) => Ok(text.to_owned()),
        None if file.is_empty() || Path::new(file).is_absolute() => {
            Err(format!("{what} is a file relative to the scenario"))
        }
        None => sources.read_file(&sources.find(file)).map_err(|why| format!("{file}: {why}")),
    }
}

/// The traces of one scenario: each file is read once.
pub(crate) struct Traces<'a> {
    sources: &'a Sources,
    read: HashMap<String, Result<Trace, String>>,
    opportunities: usize,
}

impl<'a> Traces<'a> {
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Self { sources, read: HashMap::new(), opportunities: 0 }
    }

    /// The trace in `file`, or what is wrong with it.
    pub(crate) fn get(&mut self, file: &str) -> Result<Trace, String> {
        if let Some(known) = self.read.get(file) {
            return known.clone();
        }
        let text = text_of(self.sources, file, "a trace");
        let trace = text.and_then(|text| Trace::parse(file, &text)).and_then(|trace| {
            self.opportunities += trace.stamps_ms.len();
            if self.opportunities > OPPORTUNITIES_MAX {
                return Err(format!(
                    "with {file} all traces have more than {OPPORTUNITIES_MAX} opportunities"
                ));
            }
            Ok(trace)
        });
        self.read.insert(file.to_owned(), trace.clone());
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_of_one_line_repeats_it() {
        let trace = Trace::parse("t", "3\r\n").unwrap();
        assert_eq!((&*trace.stamps_ms, trace.mean_rate()), (&[3][..], BitRate::from_mbps(4)));
        assert_eq!(Trace::parse("t", &trace.to_text()).unwrap(), trace);
    }

    #[test]
    fn what_mahimahi_refuses_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "t is empty"),
            ("0\n0\n", "lasts no time"),
            ("1\n\n2\n", "line 2: expected a whole number"),
            ("1\n5\n4\n", "line 3: 4 comes after 5"),
            ("1.5\n", "line 1: expected"),
            ("-1\n", "line 1: expected"),
            ("+1\n", "line 1: expected"),
            ("1\n99999999999999999999\n", "line 2: expected"),
            ("1\n1000000001\n", "line 2: 1000000001 is above"),
        ] {
            let why = Trace::parse("t", text).unwrap_err();
            assert!(why.contains(expected), "{text:?}: {why}");
        }
    }
}

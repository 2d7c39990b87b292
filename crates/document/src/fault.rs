//! What goes wrong while reading typed values, in words for people and with the place where it is known.

use std::fmt::Display;

use serde::de;

use crate::error::Problem;
use crate::source::Place;
use crate::suggest;

/// What went wrong while reading, before its place is certain.
#[derive(Debug)]
pub struct Fault(Box<Inner>);

#[derive(Debug, Default)]
struct Inner {
    message: String,
    help: String,
    place: Option<Place>,
    /// From the innermost key outwards.
    path: Vec<String>,
    /// The unknown key, where that is the fault.
    unknown_key: Option<String>,
    /// Whether that is the fault, told or not.
    is_unknown_key: bool,
}

/// Between message and help, where a fault is one text.
const HELP: &str = "\n  = help: ";

impl Fault {
    /// A fault of which neither place nor path is known.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self(Box::new(Inner { message: message.into(), help: help.into(), ..Inner::default() }))
    }

    /// At `place`, unless its place is already known.
    pub fn at(mut self, place: Place) -> Self {
        self.0.place.get_or_insert(place);
        self
    }
    /// Inside what `key` names.
    pub fn inside(mut self, key: &str) -> Self {
        self.0.path.push(key.to_owned());
        self
    }

    /// The key at fault, where a key of the innermost table is unknown. It is only told once.
    pub fn take_unknown_key(&mut self) -> Option<String> {
        // A deeper key is unknown to something inside.
        if self.0.path.len() != 1 {
            return None;
        }
        self.0.unknown_key.take()
    }

    /// The keys on the way to the unknown key, and that, where a key is unknown.
    pub fn unknown_key_path(&self) -> Option<Vec<String>> {
        self.0.is_unknown_key.then(|| self.0.path.iter().rev().cloned().collect())
    }

    /// Other words for the same fault.
    pub fn reworded(mut self, message: String, help: Option<String>) -> Self {
        self.0.message = message;
        if let Some(help) = help {
            self.0.help = help;
        }
        self
    }

    /// The outermost key of its path.
    pub fn first_key(&self) -> Option<&str> {
        self.0.path.last().map(String::as_str)
    }

    /// A number, as it was `written`, that no number of 64 bits is, where `expected` was.
    pub fn beyond(written: &str, expected: &dyn de::Expected) -> Self {
        Self::new(format!("expected {}, found {}", plain(expected), shortened(written)), why_beyond(written))
    }

    /// The fault as a problem below the key `prefix`, at `fallback` if its place is not known.
    pub fn into_problem(self, prefix: &str, fallback: Place) -> Problem {
        let Inner { message, help, place, path, .. } = *self.0;
        let mut whole = prefix.to_owned();
        for key in path.iter().rev() {
            if !whole.is_empty() {
                whole.push('.');
            }
            whole.push_str(key);
        }
        Problem { place: place.unwrap_or(fallback), path: whole, message, help }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.message)?;
        if !self.0.help.is_empty() {
            write!(f, "{HELP}{}", self.0.help)?;
        }
        Ok(())
    }
}
impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        // A fault that passed through an erased deserializer comes back as its text.
        let text = message.to_string();
        let (what, help) = text.split_once(HELP).unwrap_or((&text, ""));
        Self::new(what, help)
    }
    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            de::Unexpected::Str(text) => format!("the string \"{}\"", shortened(text)),
            de::Unexpected::Signed(number) => format!("the bare number {number}"),
            de::Unexpected::Unsigned(number) => format!("the bare number {number}"),
            de::Unexpected::Float(number) => format!("the bare number {number}"),
            de::Unexpected::Bool(boolean) => format!("{boolean}"),
            de::Unexpected::Seq => "a list".to_owned(),
            de::Unexpected::Map => "a table".to_owned(),
            other => other.to_string(),
        };
        Self::new(format!("expected {}, found {found}", plain(expected)), "")
    }
    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            de::Unexpected::Signed(number) => number.to_string(),
            de::Unexpected::Unsigned(number) => number.to_string(),
            other => other.to_string(),
        };
        Self::new(format!("{found} is out of range: expected {}", plain(expected)), "")
    }
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("`{}` is not known here", shortened(variant)), one_of(variant, expected))
    }
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let help =
            if expected.is_empty() { "no keys here".to_owned() } else { suggest::help(field, expected) };
        let mut fault = Self::new(format!("unknown key `{}`", shortened(field)), help);
        fault.0.unknown_key = Some(field.to_owned());
        fault.0.is_unknown_key = true;
        fault
    }
    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("missing key `{field}`"), "")
    }
}

/// What is expected, without the names of Rust's types.
fn plain(expected: &dyn de::Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, zero or more",
        "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list, such as [\"a\", \"b\"]",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
    .to_owned()
}

/// Why a number, as it was `written`, is none of those that can be held.
pub fn why_beyond(written: &str) -> &'static str {
    let is = |name: &str| written.trim_start_matches(['+', '-']).eq_ignore_ascii_case(name);
    if is("nan") || is("inf") {
        "a finite number: nothing can be reckoned with `nan` and `inf`"
    } else if written.contains(['.', 'e', 'E']) && !written.starts_with("0x") {
        "numbers with a point or an exponent end at 1.8e308"
    } else {
        "whole numbers have 64 bits: from -9223372036854775808 to 9223372036854775807"
    }
}

/// "did you mean", or all that is allowed.
fn one_of(given: &str, allowed: &[&str]) -> String {
    let all = suggest::list("allowed", allowed);
    match suggest::nearest(given, allowed.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? {all}"),
        None => all,
    }
}

/// `text`, cut where it is long.
pub fn shortened(text: &str) -> String {
    cut(text, 60)
}

/// `text`, cut after so many characters.
pub fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

//! What is wrong with parameters, told to whoever knows where they were written.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Takes what is wrong: the keys below the checked table, the message, the help.
pub struct Report<'r> {
    sink: &'r mut dyn FnMut(&[&str], String, &str),
}

impl core::fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Report")
    }
}

impl<'r> Report<'r> {
    /// A report whose complaints `sink` gets: the path of keys, what is wrong, and what to do about it (may be empty).
    pub fn new(sink: &'r mut dyn FnMut(&[&str], String, &str)) -> Self {
        Self { sink }
    }

    /// The value of `key` is wrong.
    pub fn say(&mut self, key: &str, message: impl Into<String>, help: &str) {
        (self.sink)(&[key], message.into(), help);
    }

    /// The value at a path of `keys` is wrong.
    pub fn at(&mut self, keys: &[&str], message: impl Into<String>, help: &str) {
        (self.sink)(keys, message.into(), help);
    }

    /// Where `is_given`: the value of `key` is for something that is not there, so that it has no effect. `needs` is what it takes, as a part
    /// of a file.
    pub fn idle(&mut self, key: &str, is_given: bool, needs: &str) {
        if is_given {
            let message = format!("without `{needs}` it has no effect");
            self.say(key, message, "set both, or leave it out");
        }
    }

    /// Lets `check` look at the table `key`.
    pub fn below(&mut self, key: &str, check: impl FnOnce(&mut Report<'_>)) {
        let sink = &mut *self.sink;
        let mut inner = |keys: &[&str], message: String, help: &str| {
            let whole: Vec<&str> = core::iter::once(key).chain(keys.iter().copied()).collect();
            sink(&whole, message, help);
        };
        check(&mut Report { sink: &mut inner });
    }
}

//! What is wrong with a configuration, where, and what to do about it.

use std::fmt;

use crate::fault::cut;
use crate::source::{Place, Sources};

/// Characters that are shown: of what is wrong, of what to do, of a path of keys, of the circumstances.
const MESSAGE_CHARS: usize = 1000;
const HELP_CHARS: usize = 4000;
const PATH_CHARS: usize = 500;
const CONTEXT_CHARS: usize = 1000;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, or `--set PATH=VALUE` for an override on the command line. Empty if no text is to blame.
    pub file: String,
    /// The line, from 1; 0 if no line is to blame.
    pub line: usize,
    /// The column in characters, from 1; 0 if no line is to blame.
    pub column: usize,
    /// The path of the key, like `listen.port`; may be empty.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What is allowed, or what was probably meant; may be empty.
    pub help: String,
    /// Under which circumstances, like `variant nbp, load = 2Mbit`; may be empty.
    pub context: String,
    /// Whether an override on the command line is to blame.
    is_override: bool,
    snippet: Option<Snippet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Snippet {
    excerpt: String,
    before: usize,
    width: usize,
}

impl ConfigError {
    /// An error that no line is to blame for.
    pub fn without_place(file: String, message: String, help: String) -> Self {
        Self {
            file,
            line: 0,
            column: 0,
            path: String::new(),
            message,
            help,
            context: String::new(),
            is_override: false,
            snippet: None,
        }
    }

    /// At the same place, `message`.
    pub fn saying(&self, message: String) -> Self {
        Self { message, ..self.clone() }
    }

    /// The same, with what is allowed.
    #[must_use]
    pub fn helped(self, help: String) -> Self {
        Self { help, ..self }
    }

    /// The same error, under the circumstances `context`.
    #[must_use]
    pub fn in_context(self, context: &str) -> Self {
        Self { context: cut(context, CONTEXT_CHARS), ..self }
    }

    /// Several lines: the message, the place, the offending line with a mark below it, the help.
    pub fn render(&self) -> String {
        self.rendered("error")
    }

    /// The same, of something that may run as it is.
    pub fn render_warning(&self) -> String {
        self.rendered("warning")
    }

    fn rendered(&self, severity: &str) -> String {
        let mut lines = Vec::new();
        let path = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        lines.push(format!("{severity}: {path}{}", self.message));
        if let Some(snippet) = &self.snippet {
            let number = if self.is_override { String::new() } else { self.line.to_string() };
            let margin = " ".repeat(number.len());
            lines.push(format!("{margin}--> {}", self.location()));
            lines.push(format!("{margin} |"));
            lines.push(format!("{number} | {}", snippet.excerpt.trim_end()));
            lines.push(format!("{margin} | {}{}", " ".repeat(snippet.before), "^".repeat(snippet.width)));
        } else if !self.file.is_empty() {
            lines.push(format!("--> {}", self.location()));
        }
        if !self.help.is_empty() {
            lines.push(format!("  = help: {}", self.help));
        }
        if !self.context.is_empty() {
            lines.push(format!("  = in: {}", self.context));
        }
        // A name, or a line of the file, may hold what ends a line or speaks to a terminal.
        lines.iter().map(|line| visible(line) + "\n").collect()
    }

    fn location(&self) -> String {
        if self.line == 0 || self.is_override {
            self.file.clone()
        } else {
            format!("{}:{}:{}", self.file, self.line, self.column)
        }
    }
}

/// `text` in one line, without what a terminal would obey or write backwards.
fn visible(text: &str) -> String {
    let hides = |one: char| {
        (one.is_control() && one != '\t')
            || matches!(one, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|one| if hides(one) { '\u{fffd}' } else { one }).collect()
}

impl fmt::Display for ConfigError {
    /// One line: `file:line:column: path: message (help)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.location(), &self.path] {
            if !part.is_empty() {
                write!(f, "{}: ", visible(part))?;
            }
        }
        f.write_str(&visible(&self.message))?;
        if !self.help.is_empty() {
            write!(f, " ({})", self.help)?;
        }
        if !self.context.is_empty() {
            write!(f, " [{}]", visible(&self.context))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Everything found wrong, in the order in which it was found: at least one error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// All of `errors`, of which there is at least one.
    pub fn new(errors: Vec<ConfigError>) -> Self {
        debug_assert!(!errors.is_empty(), "errors without an error");
        Self { errors }
    }

    /// The errors.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// All errors with their lines, ready to print.
    pub fn render(&self) -> String {
        self.errors.iter().map(ConfigError::render).collect::<Vec<_>>().join("\n")
    }

    /// The errors themselves.
    pub fn into_vec(self) -> Vec<ConfigError> {
        self.errors
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self::new(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.errors.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// An error before its place became a line.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The path of the key; may be empty.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What is allowed, or what was probably meant; may be empty.
    pub help: String,
}

impl Problem {
    /// The error with its line, as `sources` have it. Whatever it repeats of the configuration may be megabytes, and is cut.
    pub fn resolve(self, sources: &Sources) -> ConfigError {
        let message = cut(&self.message, MESSAGE_CHARS);
        let mut error = ConfigError::without_place(String::new(), message, cut(&self.help, HELP_CHARS));
        error.path = cut(&self.path, PATH_CHARS);
        error.is_override = sources.is_override(self.place);
        if let Some(location) = sources.locate(self.place) {
            error.file = location.file;
            error.line = location.line;
            error.column = location.column;
            error.snippet =
                Some(Snippet { excerpt: location.excerpt, before: location.before, width: location.width });
        }
        error
    }
}

/// How many errors are reported at once.
pub const ERRORS_MAX: usize = 20;

/// Collects problems, up to [`ERRORS_MAX`].
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    /// Adds a problem, unless there are enough or it is known.
    pub fn push(&mut self, problem: Problem) {
        // What is wrong in a template, or in what several elements share, is said once.
        let is_known = |known: &Problem| known.place == problem.place && known.message == problem.message;
        if !self.is_full() && !self.list.iter().any(is_known) {
            self.list.push(problem);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether looking for more is of no use.
    pub fn is_full(&self) -> bool {
        self.list.len() >= ERRORS_MAX
    }

    /// `value`, unless there were problems.
    ///
    /// # Errors
    /// The problems, if there were any, or that the value is missing.
    pub fn finish<T>(self, value: Option<T>, sources: &Sources) -> Result<T, ConfigErrors> {
        match value {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => {
                let mut errors: Vec<ConfigError> =
                    self.list.into_iter().map(|problem| problem.resolve(sources)).collect();
                if errors.is_empty() {
                    errors.push(ConfigError::without_place(
                        String::new(),
                        "the configuration is incomplete".into(),
                        String::new(),
                    ));
                }
                Err(ConfigErrors::new(errors))
            }
        }
    }
}

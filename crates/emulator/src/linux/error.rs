//! What the system refused.

use std::fmt;
use std::io::{self, Write as _};

/// Of what kind, for the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The system refused something.
    System,
    /// What was asked for makes no sense.
    Usage,
    /// The scenario is wrong.
    Scenario,
}

/// One sentence for people.
#[derive(Debug)]
pub struct Failure {
    /// See [`Kind`].
    pub kind: Kind,
    /// The sentence.
    pub message: String,
}

impl Failure {
    /// The system refused `what`, because of `why`.
    pub fn system(what: impl fmt::Display, why: impl Into<io::Error>) -> Self {
        Self { kind: Kind::System, message: format!("{what}: {}", why.into()) }
    }

    /// The system refused `what`, because of `why`; it needs the rights of root.
    pub fn of_root(what: impl fmt::Display, why: impl Into<io::Error>) -> Self {
        let why = why.into();
        if why.kind() != io::ErrorKind::PermissionDenied {
            return Self::system(what, why);
        }
        let needs = "this needs the rights of root (CAP_SYS_ADMIN and CAP_NET_ADMIN); run it with sudo";
        Self { kind: Kind::System, message: format!("{what}: {needs}") }
    }

    /// What was asked for makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Failure {}

/// Says what went wrong at the end, where nobody is left to hand it to.
pub fn complain(what: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "tidegate: {what}");
}

//! Parts of a document that are read and checked on their own.

use serde::de::DeserializeOwned;

use crate::error::{Problem, Problems};
use crate::fault::Fault;
use crate::reader;
use crate::template::Scope;
use crate::tree::Tree;

/// A part of the tree with its path: what checks report against.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The part.
    pub tree: &'a Tree,
    /// The section that it stands in; may be empty.
    pub section: &'a str,
    /// Its name in that section; may be empty.
    pub name: &'a str,
}

impl Site<'_> {
    /// A problem at the key `keys` below this site.
    pub fn problem(&self, keys: &[&str], message: impl Into<String>, help: impl Into<String>) -> Problem {
        let mut path = self.path();
        for key in keys {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
        }
        Problem { place: self.tree.place_of(keys), path, message: message.into(), help: help.into() }
    }

    /// The path of the site.
    pub fn path(&self) -> String {
        match (self.section.is_empty(), self.name.is_empty()) {
            (true, _) => self.name.to_owned(),
            (false, true) => self.section.to_owned(),
            (false, false) => format!("{}.{}", self.section, self.name),
        }
    }

    /// Reads the whole site.
    pub fn read<T: DeserializeOwned>(&self, scope: &Scope<'_>, problems: &mut Problems) -> Option<T> {
        match reader::read(self.tree, scope) {
            Ok(value) => Some(value),
            Err(fault) => {
                problems.push(self.fault(fault));
                None
            }
        }
    }

    /// A fault met while reading the site, as a problem.
    pub fn fault(&self, fault: Fault) -> Problem {
        fault.into_problem(&self.path(), self.tree.place)
    }
}

//! The texts that a configuration came from, and places in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::trace::Traces;

/// A stretch of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    source: u32,
    start: u32,
    end: u32,
}

impl Place {
    /// The stretch from byte `start` to byte `end` of text number `source`. Texts are far shorter than 4 GiB.
    pub(crate) fn new(source: u32, start: usize, end: usize) -> Self {
        Self { source, start: start as u32, end: end.max(start) as u32 }
    }

    /// The same stretch, `bytes` further on.
    pub(crate) fn shifted(self, bytes: usize) -> Self {
        let by = bytes as u32;
        Self { start: self.start.saturating_add(by), end: self.end.saturating_add(by), ..self }
    }

    /// Which text.
    pub(crate) const fn source(self) -> u32 {
        self.source
    }

    /// The first byte.
    pub(crate) const fn start(self) -> u32 {
        self.start
    }
}

/// Where a text came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file, or a text that stands for one.
    File,
    /// An override on the command line.
    Override,
}

/// One text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
    pub(crate) origin: Origin,
}

/// All texts of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    list: Vec<Source>,
    /// Where the file is that everything began with.
    directory: PathBuf,
    /// Texts that stand for files that the configuration names.
    attached: BTreeMap<String, Arc<str>>,
}

/// A place for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// The line, or the part around the place where it is long.
    pub(crate) excerpt: String,
    /// Characters of the excerpt before the place.
    pub(crate) before: usize,
    /// Characters of the place on this line, at least 1.
    pub(crate) width: usize,
}

/// Characters of a line that are shown at most.
const EXCERPT_CHARS: usize = 120;

impl Sources {
    /// Adds a text and gives its number.
    pub(crate) fn add(&mut self, name: String, text: Arc<str>, origin: Origin) -> u32 {
        self.list.push(Source { name, text, origin });
        (self.list.len() - 1) as u32
    }

    /// What names of files in the configuration are relative to.
    pub(crate) fn set_directory(&mut self, directory: &Path) {
        directory.clone_into(&mut self.directory);
    }

    /// `text` stands for the file called `name`.
    pub(crate) fn attach(&mut self, name: &str, text: &str) {
        self.attached.insert(name.to_owned(), text.into());
    }

    /// The traces that the configuration names.
    pub(crate) fn traces(&self) -> Traces<'_> {
        Traces::new(&self.directory, &self.attached)
    }

    /// The text of `place`.
    pub(crate) fn get(&self, place: Place) -> Option<&Source> {
        self.list.get(place.source as usize)
    }

    /// Whether `place` is in an override on the command line.
    pub(crate) fn is_override(&self, place: Place) -> bool {
        self.get(place).is_some_and(|source| source.origin == Origin::Override)
    }

    /// Where `place` is.
    pub(crate) fn locate(&self, place: Place) -> Option<Location> {
        let source = self.get(place)?;
        let text = &*source.text;
        let start = floor_boundary(text, place.start as usize);
        let end = floor_boundary(text, place.end as usize).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[..line_start].bytes().filter(|b| *b == b'\n').count() + 1;
        let chars_before = text[line_start..start].chars().count();
        let skipped = chars_before.saturating_sub(EXCERPT_CHARS / 2);
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let excerpt: String =
            text[line_start..line_end].chars().skip(skipped).take(EXCERPT_CHARS).map(shown).collect();
        let before = chars_before - skipped;
        let room = excerpt.chars().count().saturating_sub(before).max(1);
        let width = text[start..end.min(line_end).max(start)].chars().count().clamp(1, room);
        Some(Location { file: source.name.clone(), line, column: chars_before + 1, excerpt, before, width })
    }
}

/// The last boundary between characters at or before byte `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_line_a_column_and_an_excerpt() {
        let mut sources = Sources::default();
        let text = "a = 1\nß = \"zwei\"\r\nc = 3";
        let number = sources.add("f.toml".into(), text.into(), Origin::File);
        let start = text.find("\"zwei").unwrap();
        let location = sources.locate(Place::new(number, start, start + 6)).unwrap();
        assert_eq!((location.line, location.column, location.width), (2, 5, 6));
        assert_eq!(location.excerpt, "ß = \"zwei\" ");
    }

    #[test]
    fn places_outside_of_the_text_or_inside_a_character_do_no_harm() {
        let mut sources = Sources::default();
        let number = sources.add("f".into(), "ß".into(), Origin::File);
        for (start, end) in [(0, 1), (1, 2), (5, 9), (2, 2)] {
            assert_eq!(sources.locate(Place::new(number, start, end)).unwrap().line, 1);
        }
        assert!(sources.locate(Place::new(number + 1, 0, 0)).is_none());
    }
}

//! The texts that a configuration came from, and places in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A stretch of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    source: u32,
    start: u32,
    end: u32,
}

impl Place {
    /// The stretch from byte `start` to byte `end` of text number `source`. Texts are far shorter than 4 GiB.
    pub fn new(source: u32, start: usize, end: usize) -> Self {
        Self { source, start: start as u32, end: end.max(start) as u32 }
    }

    /// The same stretch, `bytes` further on.
    pub fn shifted(self, bytes: usize) -> Self {
        let by = bytes as u32;
        Self { start: self.start.saturating_add(by), end: self.end.saturating_add(by), ..self }
    }

    /// Which text.
    pub const fn source(self) -> u32 {
        self.source
    }

    /// The first byte.
    pub const fn start(self) -> u32 {
        self.start
    }
}

/// Where a text came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file, or a text that stands for one.
    File,
    /// An override on the command line.
    Override,
}

/// One text.
#[derive(Clone, Debug)]
pub struct Source {
    /// How it is called in errors.
    pub name: String,
    /// What it says.
    pub text: Arc<str>,
    /// Where it came from.
    pub origin: Origin,
}

/// All texts of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
    /// Where the file is that everything began with.
    directory: PathBuf,
    /// Folders in which files that the configuration names may lie, without links.
    reach: Vec<PathBuf>,
    /// Texts that stand for files that the configuration names.
    attached: BTreeMap<String, Arc<str>>,
}

/// A place for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of the text.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The line, or the part around the place where it is long.
    pub excerpt: String,
    /// Characters of the excerpt before the place.
    pub before: usize,
    /// Characters of the place on this line, at least 1.
    pub width: usize,
}

/// Bytes of one file.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Characters of a line that are shown at most.
const EXCERPT_CHARS: usize = 120;

impl Sources {
    /// Adds a text and gives its number.
    pub fn add(&mut self, name: String, text: Arc<str>, origin: Origin) -> u32 {
        self.list.push(Source { name, text, origin });
        (self.list.len() - 1) as u32
    }

    /// What names of files in the configuration are relative to. They may name what lies in this folder, or in one of `allowed`.
    pub fn set_directory(&mut self, directory: &Path, allowed: &[PathBuf]) {
        directory.clone_into(&mut self.directory);
        let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let folders = core::iter::once(here).chain(allowed.iter().map(PathBuf::as_path));
        self.reach = folders.filter_map(|folder| folder.canonicalize().ok()).collect();
    }

    /// The text of a file that the configuration names, at `path`.
    ///
    /// # Errors
    /// Why it cannot be read; or that it lies elsewhere, also by way of a link: a configuration may come from a stranger.
    pub fn read_file(&self, path: &Path) -> Result<String, String> {
        let real = path.canonicalize().map_err(|why| format!("cannot be read: {why}"))?;
        if !self.reach.iter().any(|folder| real.starts_with(folder)) {
            return Err(
                "lies outside of the folder of this file: allow its folder with `--allow DIR`".to_owned()
            );
        }
        read_file(&real)
    }

    /// `text` stands for the file called `name`.
    pub fn attach(&mut self, name: &str, text: &str) {
        self.attached.insert(name.to_owned(), text.into());
    }

    /// What names of files in the configuration are relative to.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the file is that the configuration calls `name`: beside the file that everything began with, or else beside one that
    /// this includes, in their order. A file of a few lines may so lie elsewhere than what it includes.
    pub fn find(&self, name: &str) -> PathBuf {
        let first = self.directory.join(name);
        if first.is_file() {
            return first;
        }
        let included = self.list.iter().filter(|source| source.origin == Origin::File);
        let mut beside = included.filter_map(|source| Some(Path::new(&source.name).parent()?.join(name)));
        beside.find(|path| path.is_file()).unwrap_or(first)
    }

    /// The text that stands for the file called `name`, if one does.
    pub fn attached(&self, name: &str) -> Option<&str> {
        self.attached.get(name).map(|text| &**text)
    }

    /// The text of `place`.
    pub fn get(&self, place: Place) -> Option<&Source> {
        self.list.get(place.source as usize)
    }

    /// Whether `place` is in an override on the command line.
    pub fn is_override(&self, place: Place) -> bool {
        self.get(place).is_some_and(|source| source.origin == Origin::Override)
    }

    /// Where `place` is.
    pub fn locate(&self, place: Place) -> Option<Location> {
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

/// What is wrong with what is longer than [`FILE_BYTES_MAX`].
pub fn too_large() -> String {
    format!("larger than {} MiB", FILE_BYTES_MAX >> 20)
}

/// The text of a file, if it is a file of a reasonable size.
///
/// # Errors
/// Why it cannot be read.
pub fn read_file(path: &Path) -> Result<String, String> {
    let cannot = |why: std::io::Error| format!("cannot be read: {why}");
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err("cannot be read: not a file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(cannot)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|b| *b == b'\n').count();
        format!("line {line} is not UTF-8 text")
    })
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

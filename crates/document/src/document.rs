//! A configuration file with its includes and overrides, not yet understood.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::de::DeserializeOwned;

use crate::error::{ConfigError, ConfigErrors, Problem, Problems};
use crate::fault::cut;
use crate::format::Format;
use crate::merge::merged_tables;
use crate::overrides::{self, Override};
use crate::site::Site;
use crate::source::{FILE_BYTES_MAX, Origin, Sources, read_file, too_large};
use crate::template::Scope;
use crate::tree::{Table, Tree, Value, parse_document};

/// Characters of an override by which errors call it.
const ASSIGNMENT_CHARS: usize = 200;
/// Files that include one another.
const INCLUDE_DEPTH_MAX: usize = 8;
/// Files of one configuration, counted as often as they are included.
const INCLUDES_MAX: usize = 256;

/// A configuration file with everything it includes, and overrides.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    format: Format,
    sources: Sources,
    /// The file over what it includes.
    root: Tree,
    overrides: Vec<Override>,
    /// How many files were read.
    loaded: usize,
}

impl Document {
    /// Reads the file at `path` and what it includes, which must lie in its folder.
    ///
    /// # Errors
    /// When a file cannot be read, is too large, is not TOML, or includes itself.
    pub fn open(path: &Path, format: Format) -> Result<Self, ConfigErrors> {
        Self::open_within(path, &[], format)
    }

    /// The same; what it includes may also lie in one of the folders `allowed`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_within(path: &Path, allowed: &[PathBuf], format: Format) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        let text =
            read_file(path).map_err(|why| ConfigError::without_place(name.clone(), why, String::new()))?;
        Self::build(name, &text, path, allowed, format)
    }

    /// Reads `text` as if it stood in a file called `name`; its includes are relative to that.
    ///
    /// # Errors
    /// When the text is not TOML, or an include fails.
    pub fn from_text(name: &str, text: &str, format: Format) -> Result<Self, ConfigErrors> {
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::without_place(name.to_owned(), too_large(), String::new()).into());
        }
        Self::build(name.to_owned(), text, Path::new(name), &[], format)
    }

    fn build(
        name: String,
        text: &str,
        path: &Path,
        allowed: &[PathBuf],
        format: Format,
    ) -> Result<Self, ConfigErrors> {
        let (mut sources, mut loaded) = (Sources::default(), 0);
        sources.set_directory(path.parent().unwrap_or(Path::new("")), allowed);
        let mut loader =
            Loader { format: &format, sources: &mut sources, chain: Vec::new(), loaded: &mut loaded };
        let read = loader.load(name.clone(), text, path);
        let root = all_or_errors(read, &sources)?;
        Ok(Self { name, format, sources, root, overrides: Vec::new(), loaded })
    }

    /// Reads a further file, whose name `at` gives, relative to the file in which that stands. It counts as an include.
    ///
    /// # Errors
    /// When it is not the name of a file that can be included.
    pub fn include(&mut self, at: &Tree) -> Result<Tree, ConfigErrors> {
        let from = self.sources.get(at.place).map(|source| source.name.clone()).unwrap_or_default();
        let mut loader = Loader {
            format: &self.format,
            sources: &mut self.sources,
            chain: Vec::new(),
            loaded: &mut self.loaded,
        };
        let read = loader.include(at.as_text().unwrap_or(""), at, Path::new(&from));
        all_or_errors(read, &self.sources)
    }

    /// Overrides a value: `PATH=VALUE`. The value is read as TOML, and as a string where it is none. Later overrides win.
    ///
    /// # Errors
    /// When there is no `=` or the path is not one.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigErrors> {
        let name = format!("--set {}", cut(assignment, ASSIGNMENT_CHARS));
        if assignment.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::without_place("--set".to_owned(), too_large(), String::new()).into());
        }
        let number = self.sources.add(name, assignment.into(), Origin::Override);
        match Override::parse(assignment, number, &self.format) {
            Ok(parsed) if parsed.path.first().is_some_and(|first| first == "include") => {
                let help = "write it in a file of your own, which includes this one".to_owned();
                let message = "files are included before values are set".to_owned();
                let problem = Problem { place: parsed.place, path: String::new(), message, help };
                Err(problem.resolve(&self.sources).into())
            }
            Ok(parsed) => {
                self.overrides.push(parsed);
                Ok(())
            }
            Err(problem) => Err(problem.resolve(&self.sources).into()),
        }
    }

    /// `text` stands for the file that the document calls `name`, which is then not read: for those who have no such file.
    pub fn attach(&mut self, name: &str, text: &str) {
        self.sources.attach(name, text);
    }

    /// The same with the text of the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn attach_file(&mut self, name: &str, path: &Path) -> Result<(), ConfigErrors> {
        let text = read_file(path)
            .map_err(|why| ConfigError::without_place(path.display().to_string(), why, String::new()))?;
        self.attach(name, &text);
        Ok(())
    }

    /// The whole document as a `T`, with its overrides; braces are braces. For formats without parameters and repeats.
    ///
    /// # Errors
    /// Overrides that fit nothing, and the first thing that is no part of a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigErrors> {
        let mut problems = Problems::default();
        let mut root = self.root.clone();
        let late =
            overrides::apply(&mut root, &self.overrides().collect::<Vec<_>>(), &self.format, &mut problems);
        for section in self.format.repeated {
            late.report_unused(section, |_| String::new(), &mut problems);
        }
        let (parameters, elements) = (IndexMap::new(), Cell::new(0));
        let scope = Scope::literal(&parameters, &elements);
        let value = Site { tree: &root, section: "", name: "" }.read(&scope, &mut problems);
        problems.finish(value, &self.sources)
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file over what it includes, without overrides.
    pub fn root(&self) -> &Tree {
        &self.root
    }

    /// The overrides, in the order in which they were set.
    pub fn overrides(&self) -> impl Iterator<Item = &Override> {
        self.overrides.iter()
    }

    /// The texts that it came from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }
}

/// What was read, or the problems with their lines.
fn all_or_errors(read: Result<Tree, Vec<Problem>>, sources: &Sources) -> Result<Tree, ConfigErrors> {
    let mut problems = Problems::default();
    let read = read.map_err(|list| list.into_iter().for_each(|problem| problems.push(problem)));
    problems.finish(read.ok(), sources)
}

/// Reads a file, then what it includes.
struct Loader<'d> {
    format: &'d Format,
    sources: &'d mut Sources,
    /// The files that include one another at the moment, outermost first.
    chain: Vec<PathBuf>,
    /// How many files were read.
    loaded: &'d mut usize,
}

impl Loader<'_> {
    fn load(&mut self, name: String, text: &str, path: &Path) -> Result<Tree, Vec<Problem>> {
        let number = self.sources.add(name, text.into(), Origin::File);
        *self.loaded += 1;
        let mut tree = parse_document(text, number)?;
        let Some(include) = tree.as_table_mut().and_then(|table| table.remove("include")) else {
            return Ok(tree);
        };
        self.chain.push(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let names: Vec<(&str, &Tree)> = match &include.tree.value {
            Value::Text(one) => vec![(one, &include.tree)],
            Value::List(list) => list.iter().map(|one| (one.as_text().unwrap_or(""), one)).collect(),
            _ => vec![("", &include.tree)],
        };
        let mut base = Table::default();
        for (file, at) in names {
            let included = self.include(file, at, path)?;
            if let Some(table) = included.as_table() {
                base = merged_tables(&base, table, self.format);
            }
        }
        self.chain.pop();
        let place = tree.place;
        let table = tree.as_table().map(|own| merged_tables(&base, own, self.format)).unwrap_or_default();
        Ok(Tree::table(table, place))
    }

    fn include(&mut self, file: &str, at: &Tree, from: &Path) -> Result<Tree, Vec<Problem>> {
        let fail = |message: String| {
            vec![Problem { place: at.place, path: "include".to_owned(), message, help: String::new() }]
        };
        if file.is_empty() || Path::new(file).is_absolute() {
            return Err(fail("an include is a path relative to this file".to_owned()));
        }
        let path = from.parent().unwrap_or(Path::new("")).join(file);
        let real = path.canonicalize().map_err(|why| fail(format!("`{file}` cannot be read: {why}")))?;
        if self.chain.contains(&real) {
            return Err(fail(format!("`{file}` includes itself, by way of others or directly")));
        }
        if self.chain.len() > INCLUDE_DEPTH_MAX {
            return Err(fail(format!("more than {INCLUDE_DEPTH_MAX} files include one another")));
        }
        if *self.loaded >= INCLUDES_MAX {
            return Err(fail(format!("more than {INCLUDES_MAX} includes")));
        }
        let text = self.sources.read_file(&path).map_err(|why| fail(format!("`{file}` {why}")))?;
        self.load(path.display().to_string(), &text, &path)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const FORMAT: Format =
        Format { kind_keys: &["meter"], repeated: &[], override_example: "listen.port=4000" };

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Gate {
        listen: Listen,
        peers: Vec<String>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Listen {
        port: u16,
    }

    const TEXT: &str = "peers = ['a{1..2}']\n[listen]\nport = 1\n";

    #[test]
    fn a_document_of_any_format_is_read_with_its_overrides_and_braces_are_braces() {
        let mut document = Document::from_text("gate.toml", TEXT, FORMAT).unwrap();
        document.set("listen.port=4000").unwrap();
        let expected = Gate { listen: Listen { port: 4000 }, peers: vec!["a{1..2}".to_owned()] };
        assert_eq!(document.read::<Gate>().unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_has_its_place_and_its_path() {
        let text = TEXT.replace("port", "prot");
        let errors = Document::from_text("gate.toml", &text, FORMAT).unwrap().read::<Gate>().unwrap_err();
        assert_eq!(
            errors.to_string(),
            "gate.toml:3:1: listen.prot: unknown key `prot` (did you mean `port`?)"
        );
        let mut document = Document::from_text("gate.toml", TEXT, FORMAT).unwrap();
        let refused = document.set("listen.port").unwrap_err();
        assert!(refused.to_string().contains("like listen.port=4000"), "{refused}");
    }

    #[test]
    fn numbers_that_nothing_holds_are_refused_where_they_are_read() {
        for (written, why) in [
            ("nan", "a finite number"),
            ("-inf", "a finite number"),
            ("1e999", "end at 1.8e308"),
            ("0xffffffffffffffffffff", "have 64 bits"),
            ("-99999999999999999999", "have 64 bits"),
        ] {
            let text = TEXT.replace("port = 1", &format!("port = {written}"));
            let in_file = Document::from_text("gate.toml", &text, FORMAT).unwrap();
            let mut on_the_line = Document::from_text("gate.toml", TEXT, FORMAT).unwrap();
            on_the_line.set(&format!("listen.port={written}")).unwrap();
            for (document, place) in [(in_file, "gate.toml:3:8"), (on_the_line, "--set")] {
                let refused = document.read::<Gate>().unwrap_err().to_string();
                let what = format!("listen.port: expected a whole number from 0 to 65535, found {written}");
                assert!(refused.starts_with(place), "{refused}");
                assert!(refused.contains(&what) && refused.contains(why), "{refused}");
            }
        }
    }

    #[test]
    fn errors_about_megabytes_are_lines() {
        const LONG: usize = 1 << 20;
        let long = "x".repeat(LONG);
        for (text, set) in [
            (TEXT.replace("port = 1", &format!("port = '{long}'")), None),
            (TEXT.replace("port = 1", &format!("port = 0x{}", "f".repeat(LONG))), None),
            (TEXT.replace("port", &long), None),
            (TEXT.to_owned(), Some(format!("listen.port={long}"))),
            (TEXT.to_owned(), Some(format!("listen.{long}=1"))),
            (TEXT.to_owned(), Some(long.clone())),
        ] {
            let mut document = Document::from_text("gate.toml", &text, FORMAT).unwrap();
            let set = set.map_or(Ok(()), |set| document.set(&set));
            let errors = set.and_then(|()| document.read::<Gate>()).unwrap_err();
            for shown in [errors.to_string(), errors.render()] {
                assert!(shown.len() < 3000 && shown.contains("..."), "{}: {shown:.300}", shown.len());
            }
        }
    }

    #[test]
    fn what_a_document_names_lies_in_its_folder_or_where_it_is_allowed() {
        let scratch = std::env::temp_dir().join(format!("tidegate-document-{}", std::process::id()));
        let (own, other) = (scratch.join("own"), scratch.join("other"));
        std::fs::create_dir_all(own.join("below")).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(other.join("secret.toml"), "password = 'hunter2'").unwrap();
        std::fs::write(own.join("below/base.toml"), "peers = []").unwrap();
        let open = |include: &str, allowed: &[PathBuf]| {
            let file = own.join("gate.toml");
            std::fs::write(&file, format!("include = '{include}'\nlisten.port = 1\n")).unwrap();
            Document::open_within(&file, allowed, FORMAT)
        };
        assert!(open("below/base.toml", &[]).is_ok());
        assert!(open("./below/../below/base.toml", &[]).is_ok());
        #[cfg(unix)]
        std::os::unix::fs::symlink(other.join("secret.toml"), own.join("link.toml")).unwrap();
        for outside in ["../other/secret.toml", "link.toml", "below/../../other/secret.toml"] {
            let refused = open(outside, &[]).unwrap_err().render();
            assert!(
                refused.contains("lies outside of the folder") && !refused.contains("hunter2"),
                "{refused}"
            );
            assert!(open(outside, core::slice::from_ref(&other)).is_ok(), "{outside}");
        }
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}

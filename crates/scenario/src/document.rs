//! A configuration file with its includes and overrides, not yet understood.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{ConfigError, ConfigErrors, Problem, Problems};
use crate::merge::merged_tables;
use crate::model::Scenario;
use crate::overrides::Override;
use crate::scenario::{self, keys};
use crate::source::{Origin, Sources};
use crate::tree::{Table, Tree, Value, parse_document};

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files that include one another.
const INCLUDE_DEPTH_MAX: usize = 8;
/// Files of one configuration, counted as often as they are included.
const INCLUDES_MAX: usize = 256;

/// A configuration file with everything it includes, and overrides.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) name: String,
    pub(crate) sources: Sources,
    /// The file over what it includes, and over the files of the first values of its axes.
    pub(crate) root: Tree,
    /// The same without the files of axes.
    pub(crate) own: Tree,
    /// By axis: the file of each of its values.
    pub(crate) axis_files: BTreeMap<String, Vec<Tree>>,
    pub(crate) overrides: Vec<Override>,
}

impl Document {
    /// Reads the file at `path` and what it includes.
    ///
    /// # Errors
    /// When a file cannot be read, is too large, is not TOML, or includes itself.
    pub fn open(path: &Path) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        let text =
            read_file(path).map_err(|why| ConfigError::without_place(name.clone(), why, String::new()))?;
        Self::build(name, &text, path)
    }

    /// Reads `text` as if it stood in a file called `name`; its includes are relative to that.
    ///
    /// # Errors
    /// When the text is not TOML, or an include fails.
    pub fn from_text(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::without_place(name.to_owned(), too_large(), String::new()).into());
        }
        Self::build(name.to_owned(), text, Path::new(name))
    }

    fn build(name: String, text: &str, path: &Path) -> Result<Self, ConfigErrors> {
        let mut loader = Loader { sources: Sources::default(), chain: Vec::new(), loaded: 0 };
        let mut problems = Problems::default();
        let read = loader.load(name.clone(), text, path).and_then(|own| {
            let axis_files = loader.axis_files(&own)?;
            Ok((own, axis_files))
        });
        let read = read.map_err(|list| list.into_iter().for_each(|problem| problems.push(problem)));
        let (own, axis_files) = problems.finish(read.ok(), &loader.sources)?;
        let root = over_files(axis_files.values().filter_map(|files| files.first()), &own);
        let mut sources = loader.sources;
        sources.set_directory(path.parent().unwrap_or(Path::new("")));
        Ok(Self { name, sources, root, own, axis_files, overrides: Vec::new() })
    }

    /// Overrides a value: `PATH=VALUE`, as in `links.bottleneck.rate=2Mbit`. The value is read as TOML, and as a string
    /// where it is none. Later overrides win.
    ///
    /// # Errors
    /// When there is no `=` or the path is not one.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigErrors> {
        let name = format!("--set {assignment}");
        if assignment.len() as u64 > FILE_BYTES_MAX {
            return Err(ConfigError::without_place("--set".to_owned(), too_large(), String::new()).into());
        }
        let number = self.sources.add(name, assignment.into(), Origin::Override);
        match Override::parse(assignment, number) {
            Ok(parsed) => {
                self.overrides.push(parsed);
                Ok(())
            }
            Err(problem) => Err(problem.resolve(&self.sources).into()),
        }
    }

    /// `text` stands for the file that the scenario calls `name`, which is then not read: for those who have no such file.
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

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file with everything that it includes as one text, without overrides: what [`Self::from_text`] reads again anywhere. Of
    /// an axis that chooses among files only its first value is left.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut root = self.root.clone();
        if let Some(axes) =
            root.as_table_mut().and_then(|table| table.get_mut("axes")).and_then(Tree::as_table_mut)
        {
            self.axis_files.keys().for_each(|axis| drop(axes.remove(axis)));
        }
        for (key, entry) in root.as_table().into_iter().flat_map(Table::iter) {
            text.push_str(&serde_json::Value::from(&**key).to_string());
            text.push_str(" = ");
            entry.tree.write_toml(&mut text);
            text.push('\n');
        }
        text
    }

    /// Whether the file has keys of an experiment: seeds, axes, variants or figures.
    pub fn is_experiment(&self) -> bool {
        self.root.as_table().is_some_and(|table| keys::EXPERIMENT.iter().any(|key| table.contains(key)))
    }

    /// The scenario, ignoring what would make it an experiment.
    ///
    /// # Errors
    /// When something is wrong with it: up to 20 errors at once.
    pub fn scenario(&self) -> Result<Scenario, ConfigErrors> {
        scenario::build(&self.root, &self.overrides.iter().collect::<Vec<_>>(), &self.sources)
    }

    /// What is to be said of the element `name` of a section (`links`, `flows`, `markers`), where that was written. `keys` are
    /// those below it.
    pub fn at(
        &self,
        section: &'static str,
        name: &str,
        keys: &[&str],
        message: &str,
        help: &str,
    ) -> ConfigError {
        let overrides = self.overrides.iter().collect::<Vec<_>>();
        scenario::at(&self.root, &overrides, (section, name), keys, message, help).resolve(&self.sources)
    }
}

/// `own` laid over `files`, later ones over earlier ones.
pub(crate) fn over_files<'a>(files: impl Iterator<Item = &'a Tree>, own: &Tree) -> Tree {
    let base =
        files.filter_map(Tree::as_table).fold(Table::default(), |below, table| merged_tables(&below, table));
    let table = own.as_table().map(|table| merged_tables(&base, table)).unwrap_or_default();
    Tree::table(table, own.place)
}

fn too_large() -> String {
    format!("larger than {} MiB", FILE_BYTES_MAX >> 20)
}

/// The text of a file, if it is a file of a reasonable size.
pub(crate) fn read_file(path: &Path) -> Result<String, String> {
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

/// Reads a file, then what it includes.
struct Loader {
    sources: Sources,
    /// The files that include one another at the moment, outermost first.
    chain: Vec<PathBuf>,
    loaded: usize,
}

impl Loader {
    fn load(&mut self, name: String, text: &str, path: &Path) -> Result<Tree, Vec<Problem>> {
        let number = self.sources.add(name, text.into(), Origin::File);
        self.loaded += 1;
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
                base = merged_tables(&base, table);
            }
        }
        self.chain.pop();
        let place = tree.place;
        let table = tree.as_table().map(|own| merged_tables(&base, own)).unwrap_or_default();
        Ok(Tree::table(table, place))
    }

    /// The files among which the axes of `own` choose. What is no list of names is left to who reads the axes.
    fn axis_files(&mut self, own: &Tree) -> Result<BTreeMap<String, Vec<Tree>>, Vec<Problem>> {
        let mut files = BTreeMap::new();
        let axes = own.as_table().and_then(|table| table.get("axes")).and_then(Tree::as_table);
        for (axis, entry) in axes.into_iter().flat_map(Table::iter) {
            let include = entry.tree.as_table().and_then(|table| table.get("include"));
            let Some(Value::List(names)) = include.map(|tree| &tree.value) else { continue };
            let mut trees = Vec::with_capacity(names.len());
            for at in names {
                let from = self.sources.get(at.place).map(|source| source.name.clone()).unwrap_or_default();
                trees.push(self.include(at.as_text().unwrap_or(""), at, Path::new(&from))?);
            }
            files.insert(axis.to_string(), trees);
        }
        Ok(files)
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
        if self.loaded >= INCLUDES_MAX {
            return Err(fail(format!("more than {INCLUDES_MAX} includes")));
        }
        let text = read_file(&path).map_err(|why| fail(format!("`{file}` {why}")))?;
        self.load(path.display().to_string(), &text, &path)
    }
}

/// Names that appear in a list more than once, with their second position.
pub(crate) fn first_duplicate<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    let mut seen = HashSet::new();
    names.into_iter().enumerate().find(|(_, name)| !seen.insert(*name))
}

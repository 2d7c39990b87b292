//! A configuration file with its includes and overrides, as scenarios and experiments have them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_document as generic;

use crate::error::{ConfigError, ConfigErrors, Problem};
use crate::merge::merged_tables;
use crate::model::Scenario;
use crate::overrides::Override;
use crate::scenario::{self, keys};
use crate::tree::{Table, Tree, Value};

/// A configuration file with everything it includes, and overrides.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) base: generic::Document,
    /// The file over what it includes, and over the files of the first values of its axes.
    pub(crate) root: Tree,
    /// By axis: the file of each of its values.
    pub(crate) axis_files: BTreeMap<String, Vec<Tree>>,
}

impl Document {
    /// Reads the file at `path` and what it includes, which must lie in its folder, as traces must.
    ///
    /// # Errors
    /// When a file cannot be read, is too large, is not TOML, or includes itself.
    pub fn open(path: &Path) -> Result<Self, ConfigErrors> {
        Self::open_within(path, &[])
    }

    /// The same; the files that it names may also lie in one of the folders `allowed`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_within(path: &Path, allowed: &[PathBuf]) -> Result<Self, ConfigErrors> {
        generic::Document::open_within(path, allowed, keys::FORMAT).and_then(Self::with_axes)
    }

    /// Reads `text` as if it stood in a file called `name`; its includes are relative to that.
    ///
    /// # Errors
    /// When the text is not TOML, or an include fails.
    pub fn from_text(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        generic::Document::from_text(name, text, keys::FORMAT).and_then(Self::with_axes)
    }

    fn with_axes(mut base: generic::Document) -> Result<Self, ConfigErrors> {
        let axis_files = axis_files(&mut base)?;
        let root = over_files(axis_files.values().filter_map(|files| files.first()), base.root());
        Ok(Self { base, root, axis_files })
    }

    /// Overrides a value: `PATH=VALUE`, as in `links.bottleneck.rate=2Mbit`. The value is read as TOML, and as a string
    /// where it is none. Later overrides win.
    ///
    /// # Errors
    /// When there is no `=` or the path is not one.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigErrors> {
        self.base.set(assignment)
    }

    /// `text` stands for the file that the scenario calls `name`, which is then not read: for those who have no such file.
    pub fn attach(&mut self, name: &str, text: &str) {
        self.base.attach(name, text);
    }

    /// The same with the text of the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn attach_file(&mut self, name: &str, path: &Path) -> Result<(), ConfigErrors> {
        self.base.attach_file(name, path)
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        self.base.name()
    }

    /// The overrides, in the order in which they were set.
    pub(crate) fn overrides(&self) -> Vec<&Override> {
        self.base.overrides().collect()
    }

    /// The file with everything that it includes as one text, without overrides: what [`Self::from_text`] reads again anywhere. Of
    /// an axis that chooses among files only its first value is left.
    pub fn to_toml(&self) -> String {
        let mut root = self.root.clone();
        if let Some(axes) =
            root.as_table_mut().and_then(|table| table.get_mut("axes")).and_then(Tree::as_table_mut)
        {
            self.axis_files.keys().for_each(|axis| drop(axes.remove(axis)));
        }
        root.as_table().map(Table::to_toml).unwrap_or_default()
    }

    /// Whether the file has keys of an experiment: seeds, axes, variants or figures.
    pub fn is_experiment(&self) -> bool {
        self.root.as_table().is_some_and(|table| keys::EXPERIMENT.iter().any(|key| table.contains(key)))
    }

    /// Refuses overrides of what only an experiment has: they change nothing of [`Self::scenario`].
    ///
    /// # Errors
    /// The first such override.
    pub fn require_one_run(&self) -> Result<(), ConfigErrors> {
        for one in self.overrides() {
            let Some(key) = one.path.first().filter(|key| keys::EXPERIMENT.contains(&key.as_str())) else {
                continue;
            };
            let message = format!("`{key}` is of an experiment, and this is one run");
            let help =
                "`tidegate sweep` runs an experiment; what can be set here is what a run has".to_owned();
            let problem = Problem { place: one.place, path: one.path.join("."), message, help };
            return Err(problem.resolve(self.base.sources()).into());
        }
        Ok(())
    }

    /// The scenario, ignoring what would make it an experiment.
    ///
    /// # Errors
    /// When something is wrong with it: up to 20 errors at once.
    pub fn scenario(&self) -> Result<Scenario, ConfigErrors> {
        scenario::build(&self.root, &self.overrides(), self.base.sources())
    }

    /// What is to be said of the element `name` of a section (`links`, `flows`, `markers`), or of the section itself where `name` is
    /// empty (`record`), where that was written. `keys` are those below it.
    pub fn at(
        &self,
        section: &'static str,
        name: &str,
        keys: &[&str],
        message: &str,
        help: &str,
    ) -> ConfigError {
        scenario::at(&self.root, &self.overrides(), (section, name), keys, message, help)
            .resolve(self.base.sources())
    }
}

/// `own` laid over `files`, later ones over earlier ones.
pub(crate) fn over_files<'a>(files: impl Iterator<Item = &'a Tree>, own: &Tree) -> Tree {
    let base = files
        .filter_map(Tree::as_table)
        .fold(Table::default(), |below, table| merged_tables(&below, table, &keys::FORMAT));
    let table = own.as_table().map(|table| merged_tables(&base, table, &keys::FORMAT)).unwrap_or_default();
    Tree::table(table, own.place)
}

/// The files among which the axes of a document choose. What is no list of names is left to who reads the axes.
fn axis_files(base: &mut generic::Document) -> Result<BTreeMap<String, Vec<Tree>>, ConfigErrors> {
    let mut names = Vec::new();
    let axes = base.root().as_table().and_then(|table| table.get("axes")).and_then(Tree::as_table);
    for (axis, entry) in axes.into_iter().flat_map(Table::iter) {
        let include = entry.tree.as_table().and_then(|table| table.get("include"));
        let Some(Value::List(list)) = include.map(|tree| &tree.value) else { continue };
        names.push((axis.to_string(), list.clone()));
    }
    let read = |(axis, list): (String, Arc<Vec<Tree>>)| {
        let trees = list.iter().map(|at| base.include(at)).collect::<Result<_, _>>()?;
        Ok((axis, trees))
    };
    names.into_iter().map(read).collect()
}

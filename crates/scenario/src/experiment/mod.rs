//! Experiments: a scenario with variants, swept values, seeds and figures.

mod apart;
pub(crate) mod raw;
mod read;

pub use raw::{Figure, FigureKind, Names, Scale};

use std::collections::HashSet;
use std::sync::Arc;

use crate::document::{Document, over_files};
use crate::error::{ConfigError, ConfigErrors, ERRORS_MAX};
use crate::model::Scenario;
use crate::overrides::Override;
use crate::scenario;
use crate::tree::Tree;

/// Scenarios that [`Experiment::check`] builds at most.
const CHECKED_MAX: usize = 200;

/// A scenario with variants, axes, seeds and figures.
#[derive(Clone, Debug)]
pub struct Experiment {
    document: Document,
    /// A line that names it; may be empty.
    pub title: String,
    /// What it shows; may be empty.
    pub description: String,
    /// Which document it follows; may be empty.
    pub source: String,
    /// Further names by which it is found in its group: the figures and tables that it holds.
    pub also: Vec<String>,
    /// Seeds are 1 to this.
    pub seeds: u32,
    /// Seeds of the quick form.
    pub quick_seeds: u32,
    /// What the quick form sets besides.
    quick_set: Vec<Override>,
    /// The named values with where they come from.
    pub parameters: Vec<DocumentedParameter>,
    /// The swept values, the outermost first.
    pub axes: Vec<Axis>,
    /// The versions of the scenario; may be empty.
    pub variants: Vec<Variant>,
    /// What to draw.
    pub figures: Vec<Figure>,
}

/// A named value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DocumentedParameter {
    /// Its name.
    pub name: String,
    /// Its value in the file, as text.
    pub value: String,
    /// What it is called in reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its unit in reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// `text`, `derived`, `literature`, `fitted` or `assumed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// The reason for the value, or the place that states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// With how many variants it is tried whether a mistake is that of the whole file.
const VARIANTS_COMPARED: usize = 16;

/// A swept value.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The paths of the keys that it sets, or the files among which it chooses.
    pub paths: Vec<String>,
    /// Its values as text.
    pub values: Vec<String>,
    /// Positions of the values that the quick form takes.
    pub quick: Vec<usize>,
    /// How a figure names it; empty: by its name.
    pub label: String,
    /// The unit in which a figure counts it; may be empty.
    pub unit: String,
    /// For each value, what it sets.
    sets: Vec<Vec<Override>>,
    /// For each value, the file that it lays under the experiment; empty if it does not choose among files.
    files: Vec<Tree>,
}

/// One version of the scenario.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// How a figure names it; empty: by its name.
    pub label: String,
    set: Vec<Override>,
}

/// One run: a variant, a value of each axis, a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The variant; none if the experiment has none.
    pub variant: Option<String>,
    /// Name and value of each axis.
    pub axes: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// Path and value of everything that it sets, in the order in which it is set; tables are shown as `{...}`.
    pub overrides: Arc<[(String, String)]>,
    choice: Choice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    variant: Option<usize>,
    values: Vec<usize>,
    is_quick: bool,
}

impl Document {
    /// The experiment of this file. A plain scenario is an experiment of one run.
    ///
    /// # Errors
    /// When a key of the experiment is wrong; the scenarios are checked by [`Experiment::check`].
    pub fn experiment(&self) -> Result<Experiment, ConfigErrors> {
        read::read(self)
    }

    /// Everything that `run` or `reproduce` would check.
    ///
    /// # Errors
    /// What is wrong, up to 20 errors.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        if self.is_experiment() {
            return self.experiment()?.check();
        }
        self.require_one_run()?;
        self.scenario().map(|_| ())
    }
}

impl Experiment {
    /// The runs: variants outermost, then axes in the order of the file, seeds innermost.
    pub fn points(&self, quick: bool) -> Vec<Point> {
        let seeds = if quick { self.quick_seeds } else { self.seeds };
        let mut points = Vec::new();
        for choice in self.choices(quick) {
            let point = self.point(choice, 1);
            points.extend((1..=u64::from(seeds)).map(|seed| Point { seed, ..point.clone() }));
        }
        points
    }

    fn variant_choices(&self) -> Vec<Option<usize>> {
        if self.variants.is_empty() { vec![None] } else { (0..self.variants.len()).map(Some).collect() }
    }

    fn choices(&self, is_quick: bool) -> Vec<Choice> {
        let mut choices: Vec<Choice> = self
            .variant_choices()
            .into_iter()
            .map(|variant| Choice { variant, values: Vec::new(), is_quick })
            .collect();
        for axis in &self.axes {
            let taken: Vec<usize> =
                if is_quick { axis.quick.clone() } else { (0..axis.values.len()).collect() };
            choices = choices
                .into_iter()
                .flat_map(|choice| {
                    taken.iter().map(move |value| {
                        let mut choice = choice.clone();
                        choice.values.push(*value);
                        choice
                    })
                })
                .collect();
        }
        choices
    }

    fn point(&self, choice: Choice, seed: u64) -> Point {
        let axes = self.axes.iter().zip(&choice.values);
        Point {
            variant: choice.variant.map(|variant| self.variants[variant].name.clone()),
            axes: axes.map(|(axis, value)| (axis.name.clone(), axis.values[*value].clone())).collect(),
            seed,
            overrides: self
                .overrides(&choice)
                .into_iter()
                .map(|one| (one.path.join("."), shown(&one.value)))
                .collect(),
            choice,
        }
    }

    fn overrides(&self, choice: &Choice) -> Vec<&Override> {
        let mut overrides: Vec<&Override> = Vec::new();
        if choice.is_quick {
            overrides.extend(&self.quick_set);
        }
        if let Some(variant) = choice.variant {
            overrides.extend(&self.variants[variant].set);
        }
        for (axis, value) in self.axes.iter().zip(&choice.values) {
            overrides.extend(&axis.sets[*value]);
        }
        overrides
    }

    /// The scenario of one run. Overrides of the command line win over variants and axes.
    ///
    /// # Errors
    /// When the scenario is not valid with what the point sets.
    pub fn scenario(&self, point: &Point) -> Result<Scenario, ConfigErrors> {
        let mut scenario = self.build(&point.choice)?;
        scenario.seed = point.seed;
        Ok(scenario)
    }

    fn build(&self, choice: &Choice) -> Result<Scenario, ConfigErrors> {
        self.build_bare(choice).map_err(|errors| {
            let point = self.point(choice.clone(), 1);
            let variant = point.variant.map(|variant| format!("variant {variant}"));
            let axes = point.axes.iter().map(|(name, value)| format!("{name} = {value}"));
            let context: Vec<String> = variant.into_iter().chain(axes).collect();
            let common = self.common_errors(choice);
            let told = errors.into_vec().into_iter().map(|error| {
                if common.contains(&error) { error } else { error.in_context(&context.join(", ")) }
            });
            ConfigErrors::new(told.collect())
        })
    }

    /// Those errors that the file has by itself and with every variant: no variant is to blame.
    fn common_errors(&self, choice: &Choice) -> Vec<ConfigError> {
        let overrides = self.document.overrides();
        let root = &self.document.root;
        let Err(own) = scenario::build(root, &overrides, self.document.base.sources()) else {
            return Vec::new();
        };
        let mut common = own.into_vec();
        for variant in self.variant_choices().into_iter().take(VARIANTS_COMPARED) {
            let with = self.build_bare(&Choice { variant, ..choice.clone() });
            let errors = with.map_or_else(ConfigErrors::into_vec, |_| Vec::new());
            common.retain(|error| errors.contains(error));
        }
        common
    }

    fn build_bare(&self, choice: &Choice) -> Result<Scenario, ConfigErrors> {
        let mut overrides = self.overrides(choice);
        overrides.extend(self.document.overrides());
        let mut files =
            self.axes.iter().zip(&choice.values).filter_map(|(axis, at)| axis.files.get(*at)).peekable();
        let laid = files.peek().is_some().then(|| over_files(files, self.document.base.root()));
        let root = laid.as_ref().unwrap_or(&self.document.root);
        scenario::build(root, &overrides, self.document.base.sources())
    }

    /// Builds the scenario of every variant with the first values of all axes, and with each other value in turn; a
    /// bounded number.
    ///
    /// # Errors
    /// What is wrong with them, up to 20 errors.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let first = vec![0; self.axes.len()];
        let mut values = vec![first.clone()];
        for (position, axis) in self.axes.iter().enumerate() {
            values.extend((1..axis.values.len()).map(|value| {
                let mut others = first.clone();
                others[position] = value;
                others
            }));
        }
        let mut errors: Vec<ConfigError> = Vec::new();
        let mut seen = HashSet::new();
        let variants = self.variant_choices();
        // Values outermost: where there are too many, each variant is checked at least once.
        let choices = values.iter().flat_map(|values| {
            variants.iter().map(|variant| Choice {
                variant: *variant,
                values: values.clone(),
                is_quick: false,
            })
        });
        // Then what only the quick form sets.
        let quick =
            self.choices(true).into_iter().take(if self.quick_set.is_empty() { 0 } else { CHECKED_MAX });
        for choice in choices.take(CHECKED_MAX).chain(quick) {
            let Err(found) = self.build(&choice) else { continue };
            for error in found.into_vec() {
                // The same error under other circumstances is the same error.
                let key = (error.file.clone(), error.line, error.path.clone(), error.message.clone());
                if seen.insert(key) && errors.len() < ERRORS_MAX {
                    errors.push(error);
                }
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::new(errors)) }
    }

    /// What is odd about it, and no error: overrides that leave its runs nothing to differ in.
    pub fn warnings(&self) -> Vec<ConfigError> {
        apart::warnings(self)
    }

    /// Everything but the scenarios, as JSON: titles, seeds, parameters, axes, variants and figures.
    pub fn to_json(&self) -> serde_json::Value {
        let parameters: serde_json::Map<_, _> = self
            .parameters
            .iter()
            .map(|parameter| (parameter.name.clone(), serde_json::json!(parameter)))
            .collect();
        let axes: serde_json::Map<_, _> = self
            .axes
            .iter()
            .map(|axis| {
                let quick: Vec<&String> = axis.quick.iter().map(|value| &axis.values[*value]).collect();
                let json = serde_json::json!({
                    "path": axis.paths.join(", "),
                    "values": axis.values,
                    "quick": quick,
                    "label": axis.label,
                    "unit": axis.unit,
                });
                (axis.name.clone(), json)
            })
            .collect();
        let variants: serde_json::Map<_, _> = self
            .variants
            .iter()
            .map(|variant| {
                let set: serde_json::Map<_, _> = variant
                    .set
                    .iter()
                    .map(|one| (one.path.join("."), serde_json::Value::String(shown(&one.value))))
                    .collect();
                (variant.name.clone(), serde_json::json!({ "label": variant.label, "set": set }))
            })
            .collect();
        serde_json::json!({
            "title": self.title,
            "description": self.description,
            "source": self.source,
            "also": self.also,
            "seeds": self.seeds,
            "quick_seeds": self.quick_seeds,
            "parameters": parameters,
            "axes": axes,
            "variants": variants,
            "figures": self.figures,
        })
    }
}

/// A value on one line.
fn shown(tree: &Tree) -> String {
    tree.scalar_text().unwrap_or_else(|| tree.inline())
}

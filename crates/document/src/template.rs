//! Names in braces: parameters, loop variables, whole-number arithmetic and ranges in any string.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;

use indexmap::IndexMap;
use serde::Serialize;

use crate::expression;
use crate::fault::shortened;
use crate::suggest;

/// Characters that one string may have after expansion.
const TEXT_BYTES_MAX: usize = 1 << 16;
/// Names of parameters and loop variables.
const NAME_BYTES_MAX: usize = 64;
/// Elements that all ranges and repeats of a configuration may give together.
pub const ELEMENTS_MAX: u64 = 4_000_000;
/// What gives texts of so many bytes takes two of them, of twice as many three, and so on: all texts together are bounded too.
const ELEMENT_BYTES: u64 = 16;

/// A named value that stands in braces.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A whole number.
    Integer(i64),
    /// A real number.
    Float(f64),
    /// Any text.
    Text(String),
}

/// What names in braces stand for.
#[derive(Debug)]
pub struct Scope<'a> {
    parameters: &'a IndexMap<String, Parameter>,
    loops: Vec<(String, i64)>,
    elements_left: &'a Cell<u64>,
    is_literal: bool,
}

impl<'a> Scope<'a> {
    /// A scope of these parameters, and of how many elements are left to ranges and repeats.
    pub fn new(parameters: &'a IndexMap<String, Parameter>, elements_left: &'a Cell<u64>) -> Self {
        Self { parameters, loops: Vec::new(), elements_left, is_literal: false }
    }

    /// A scope in which braces are braces.
    pub fn literal(parameters: &'a IndexMap<String, Parameter>, elements_left: &'a Cell<u64>) -> Self {
        Self { is_literal: true, ..Self::new(parameters, elements_left) }
    }

    /// Whether `text` has braces to replace.
    pub fn is_template(&self, text: &str) -> bool {
        !self.is_literal && is_template(text)
    }

    /// A loop variable becomes visible.
    pub fn enter(&mut self, name: &str, value: i64) {
        self.loops.push((name.to_owned(), value));
    }
    /// The loop variable entered last has another value.
    pub fn set_last(&mut self, value: i64) {
        if let Some((_, last)) = self.loops.last_mut() {
            *last = value;
        }
    }
    /// The loop variable entered last disappears.
    pub fn leave(&mut self) {
        self.loops.pop();
    }

    /// Takes `count` elements from what the configuration may have.
    ///
    /// # Errors
    /// When there are not so many left.
    pub fn take_elements(&self, count: u64) -> Result<(), String> {
        match self.elements_left.get().checked_sub(count) {
            Some(left) => {
                self.elements_left.set(left);
                Ok(())
            }
            None => Err(format!(
                "ranges and repeats give more than {ELEMENTS_MAX} elements in all, long names several"
            )),
        }
    }

    /// The whole number that `name` stands for.
    ///
    /// # Errors
    /// When it stands for none.
    pub fn integer(&self, name: &str) -> Result<i64, String> {
        if let Some((_, value)) = self.loops.iter().rev().find(|(known, _)| known == name) {
            return Ok(*value);
        }
        match self.parameters.get(name) {
            Some(Parameter::Integer(value)) => Ok(*value),
            Some(Parameter::Text(text)) => text
                .parse()
                .map_err(|_| format!("`{name}` is \"{text}\", and arithmetic is on whole numbers")),
            Some(Parameter::Float(value)) => {
                Err(format!("`{name}` is {value}, and arithmetic is on whole numbers"))
            }
            None => Err(self.unknown(name)),
        }
    }

    /// The two ends of the range `first..last`.
    ///
    /// # Errors
    /// Why `text` is none.
    pub fn range(&self, text: &str) -> Result<(i64, i64), String> {
        expression::range(text, &|name| self.integer(name))
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self
            .loops
            .iter()
            .map(|(variable, _)| variable.as_str())
            .chain(self.parameters.keys().map(String::as_str))
            .collect();
        no_parameter(name, &known)
    }

    /// The text of what stands in one pair of braces.
    fn write_value(&self, inside: &str, out: &mut String) -> Result<(), String> {
        let name = inside.trim();
        if expression::is_name(name) && !self.loops.iter().any(|(known, _)| known == name) {
            match self.parameters.get(name) {
                Some(Parameter::Integer(value)) => out.push_str(&value.to_string()),
                Some(Parameter::Float(value)) => out.push_str(&value.to_string()),
                Some(Parameter::Text(text)) => out.push_str(text),
                None => return Err(self.unknown(name)),
            }
            return Ok(());
        }
        let value = expression::evaluate(inside, &|of| self.integer(of))?;
        out.push_str(&value.to_string());
        Ok(())
    }

    /// `text` with its braces replaced: one text.
    ///
    /// # Errors
    /// What is wrong in the braces, or that they give several texts.
    pub fn expand<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        if !self.is_template(text) {
            return Ok(Cow::Borrowed(text));
        }
        let mut out = String::with_capacity(text.len());
        for part in Parts(text) {
            match part? {
                Part::Plain(plain) => out.push_str(plain),
                Part::Brace(inside) => {
                    if inside.contains("..") {
                        return Err(format!(
                            "the range {{{inside}}} gives several names: it belongs in a list"
                        ));
                    }
                    self.write_value(inside, &mut out)?;
                }
            }
            check_length(&out)?;
        }
        Ok(Cow::Owned(out))
    }

    /// `text` with its braces replaced: as many texts as its ranges give, the last range running fastest.
    ///
    /// # Errors
    /// What is wrong in the braces, or that they give too much.
    pub fn expand_all(&self, text: &str) -> Result<Vec<String>, String> {
        let mut results = vec![String::new()];
        if !text.contains("..") || !self.is_template(text) {
            self.take_elements(1)?;
            return self.expand(text).map(|text| vec![text.into_owned()]);
        }
        for part in Parts(text) {
            match part? {
                Part::Plain(plain) => results.iter_mut().for_each(|result| result.push_str(plain)),
                Part::Brace(inside) if inside.contains("..") => {
                    let (first, last) = self.range(inside)?;
                    let count = range_length(first, last)?;
                    let longest = results.iter().map(String::len).max().unwrap_or_default() as u64;
                    let total = (results.len() as u64).saturating_mul(count);
                    self.take_elements(total.saturating_mul(1 + longest / ELEMENT_BYTES))?;
                    results = results
                        .iter()
                        .flat_map(|start| (first..=last).map(move |value| format!("{start}{value}")))
                        .collect();
                }
                Part::Brace(inside) => {
                    let mut value = String::new();
                    self.write_value(inside, &mut value)?;
                    for result in &mut results {
                        result.push_str(&value);
                    }
                }
            }
            results.iter().try_for_each(|result| check_length(result))?;
        }
        Ok(results)
    }
}

/// What is wrong with `name` in braces, where none of those `known` is called so.
fn no_parameter(name: &str, known: &[&str]) -> String {
    let name = shortened(name);
    let help = suggest::help(&name, known);
    let help = if help.is_empty() { "write {{ for a brace".to_owned() } else { help };
    format!("`{name}` in braces is no parameter: {help}")
}

/// Whether `text` has braces in it.
fn is_template(text: &str) -> bool {
    text.contains(['{', '}'])
}

/// How many values `first..last` has, both included. One below the first is the empty range.
///
/// # Errors
/// When it counts down or is too long.
pub fn range_length(first: i64, last: i64) -> Result<u64, String> {
    match last.checked_sub(first).and_then(|gap| gap.checked_add(1)) {
        Some(length) if length >= 0 => Ok(length as u64),
        Some(_) => Err(format!("the range {first}..{last} counts down")),
        None => Err(format!("the range {first}..{last} is too long")),
    }
}

/// All parameters, with the parameters that they name replaced. `Err` names the one that is wrong, and says why: each is resolved
/// once, after those that it names, so that one that is only built on a wrong one is not blamed.
///
/// # Errors
/// The name of the parameter that is wrong, and why.
pub fn resolve_parameters(
    raw: &IndexMap<String, Parameter>,
) -> Result<IndexMap<String, Parameter>, (String, String)> {
    let mut resolved: IndexMap<String, Parameter> = IndexMap::with_capacity(raw.len());
    for (name, value) in raw {
        check_name(name).map_err(|why| (name.clone(), why))?;
        if !matches!(value, Parameter::Text(text) if is_template(text)) {
            resolved.insert(name.clone(), value.clone());
        }
    }
    // Parameters that wait for one another, the innermost last, each with what it still has to ask for. A chain may be as long as
    // the file, so that no recursion follows it.
    let mut waiting: Vec<(&str, &str, std::vec::IntoIter<&str>)> = Vec::new();
    let mut is_waiting: HashSet<&str> = HashSet::new();
    let templates = |name: &str| match raw.get_key_value(name) {
        Some((name, Parameter::Text(text))) => Some((name.as_str(), text.as_str())),
        _ => None,
    };
    for first in raw.keys() {
        let mut next = Some(first.as_str());
        loop {
            if let Some((name, text)) = next.filter(|name| !resolved.contains_key(*name)).and_then(templates)
            {
                if !is_waiting.insert(name) {
                    return Err((name.to_owned(), "parameters refer to one another in a circle".to_owned()));
                }
                waiting.push((name, text, names_in(text).into_iter()));
            }
            let Some((name, text, asked)) = waiting.last_mut() else { break };
            next = asked.next();
            if next.is_some() {
                continue;
            }
            let elements = Cell::new(0);
            let value = Scope::new(&resolved, &elements).expand(text);
            let value = value.map_err(|why| {
                let known = || raw.keys().map(String::as_str).filter(|known| known != name);
                let missing = names_in(text).into_iter().find(|one| !raw.contains_key(*one));
                let why = missing.map_or(why, |missing| no_parameter(missing, &known().collect::<Vec<_>>()));
                ((*name).to_owned(), why)
            })?;
            resolved.insert((*name).to_owned(), Parameter::Text(value.into_owned()));
            is_waiting.remove(name);
            waiting.pop();
        }
    }
    // In the order of the file, however they were resolved.
    Ok(raw.keys().filter_map(|name| Some((name.clone(), resolved.swap_remove(name)?))).collect())
}

/// The names in the braces of `text`.
fn names_in(text: &str) -> Vec<&str> {
    let inside = Parts(text).filter_map(|part| match part {
        Ok(Part::Brace(inside)) => Some(inside),
        _ => None,
    });
    inside
        .flat_map(|inside| inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| expression::is_name(word))
        .collect()
}

/// Whether `name` may be a parameter or a loop variable.
///
/// # Errors
/// Why it may not.
pub fn check_name(name: &str) -> Result<(), String> {
    if expression::is_name(name) && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "`{name}` is no name for a parameter: letters, digits and _, a letter first, at most {NAME_BYTES_MAX}"
    ))
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("the text becomes longer than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(())
}

enum Part<'t> {
    Plain(&'t str),
    Brace(&'t str),
}

/// Splits a text at its braces; `{{` and `}}` are plain braces.
struct Parts<'t>(&'t str);

impl<'t> Iterator for Parts<'t> {
    type Item = Result<Part<'t>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0;
        if text.is_empty() {
            return None;
        }
        let at = text.find(['{', '}']).unwrap_or(text.len());
        if at > 0 {
            self.0 = &text[at..];
            return Some(Ok(Part::Plain(&text[..at])));
        }
        if text.starts_with("{{") || text.starts_with("}}") {
            self.0 = &text[2..];
            return Some(Ok(Part::Plain(&text[..1])));
        }
        let close = text.find('}');
        match close {
            Some(close) if text.starts_with('{') => {
                self.0 = &text[close + 1..];
                Some(Ok(Part::Brace(&text[1..close])))
            }
            _ => {
                self.0 = "";
                Some(Err("a brace without its partner; write {{ or }} for a brace itself".to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> IndexMap<String, Parameter> {
        IndexMap::from([
            ("hops".to_owned(), Parameter::Integer(3)),
            ("load".to_owned(), Parameter::Text("64kbit".to_owned())),
            ("p".to_owned(), Parameter::Float(0.25)),
        ])
    }

    fn expand(text: &str) -> Result<Vec<String>, String> {
        let budget = Cell::new(ELEMENTS_MAX);
        let parameters = parameters();
        let mut scope = Scope::new(&parameters, &budget);
        scope.enter("i", 2);
        scope.expand_all(text)
    }

    #[test]
    fn braces_become_values_arithmetic_and_ranges() {
        assert_eq!(expand("R{i+1}").unwrap(), ["R3"]);
        assert_eq!(expand("{load}").unwrap(), ["64kbit"]);
        assert_eq!(expand("{p}").unwrap(), ["0.25"]);
        assert_eq!(expand("{hops*2-(i-1)}x").unwrap(), ["5x"]);
        assert_eq!(expand("R{1..hops+1}").unwrap(), ["R1", "R2", "R3", "R4"]);
        assert_eq!(expand("{1..2}-{i..hops}").unwrap(), ["1-2", "1-3", "2-2", "2-3"]);
        assert_eq!(expand("R{1..0}").unwrap(), Vec::<String>::new());
        assert_eq!(expand("{{x}}").unwrap(), ["{x}"]);
    }

    #[test]
    fn nonsense_in_braces_is_an_error_and_never_a_panic() {
        for text in [
            "{",
            "}",
            "{}",
            "{nope}",
            "{1..}",
            "{..}",
            "{5..1}",
            "{i/0}",
            "{9223372036854775807+1}",
            "{p+1}",
            "{1..4000001}",
            "{-9223372036854775808..9223372036854775807}",
            "{i i}",
            "{(i}",
            "{1..2..3}",
            // 400,000 texts of more than 400 bytes.
            &format!("{}{{1..400000}}", "x".repeat(400)),
        ] {
            assert!(expand(text).is_err(), "{text}: {:?}", expand(text));
        }
    }

    #[test]
    fn parameters_may_name_others_but_not_in_a_circle() {
        let text = |text: &str| Parameter::Text(text.to_owned());
        let raw = IndexMap::from([
            ("a".to_owned(), text("{b}{b}")),
            ("b".to_owned(), text("{n+1}")),
            ("n".to_owned(), Parameter::Integer(1)),
        ]);
        let resolved = resolve_parameters(&raw).unwrap();
        assert_eq!(resolved["a"], text("22"));
        let circle = IndexMap::from([("a".to_owned(), text("{b}")), ("b".to_owned(), text("{a}"))]);
        assert!(resolve_parameters(&circle).unwrap_err().1.contains("circle"));
    }

    /// In rounds over all that wait for another, this would take minutes.
    #[test]
    fn a_chain_of_parameters_is_resolved_in_one_pass_from_either_end() {
        const LENGTH: usize = 20_000;
        let name = |number: usize| format!("p{number}");
        let chain = |end: &str| {
            let mut raw: IndexMap<String, Parameter> = (0..LENGTH)
                .map(|number| (name(number), Parameter::Text(format!("{{{}}}", name(number + 1)))))
                .collect();
            raw.insert(name(LENGTH), Parameter::Text(end.to_owned()));
            raw
        };
        let raw = chain("7");
        let resolved = resolve_parameters(&raw).unwrap();
        assert!(resolved.keys().eq(raw.keys()), "they keep their order");
        assert!(resolved.values().all(|value| *value == Parameter::Text("7".to_owned())));
        let backwards = raw.iter().rev().map(|(key, value)| (key.clone(), value.clone())).collect();
        assert!(resolve_parameters(&backwards).unwrap().iter().rev().eq(&resolved));
        let refused = |end: &str| resolve_parameters(&chain(end)).unwrap_err();
        assert!(refused("{p0}").1.contains("circle"));
        let (blamed, why) = refused("{p30000}");
        assert_eq!(blamed, name(LENGTH));
        assert!(why.contains("`p30000` in braces is no parameter"), "{why}");
    }

    #[test]
    fn what_is_built_on_a_wrong_parameter_is_no_circle_and_not_blamed() {
        let wrong = |pairs: &[(&str, &str)]| {
            let text = |text: &str| Parameter::Text(text.to_owned());
            let raw = pairs.iter().map(|(name, value)| ((*name).to_owned(), text(value))).collect();
            let (name, why) = resolve_parameters(&raw).unwrap_err();
            format!("{name}: {why}")
        };
        assert_eq!(
            wrong(&[("a", "{b}"), ("b", "{lod}"), ("load", "{speed}"), ("speed", "2")]),
            "b: `lod` in braces is no parameter: did you mean `load`?"
        );
        let arithmetic = wrong(&[("a", "{b + 1}"), ("b", "{c}"), ("c", "fast")]);
        assert!(arithmetic.starts_with("a: `b` is \"fast\", and arithmetic"), "{arithmetic}");
        // Whoever only leads into a circle is none of it.
        let circle = "b: parameters refer to one another in a circle";
        assert_eq!(wrong(&[("a", "{b}"), ("b", "{c}"), ("c", "{b}")]), circle);
        assert_eq!(wrong(&[("b", "{b}")]), circle);
    }
}

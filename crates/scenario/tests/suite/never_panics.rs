//! Any input gives a scenario or an error.

use proptest::prelude::*;
use tidegate_scenario::Document;

const SEEDS: [&str; 3] = [
    include_str!("../data/nbp.toml"),
    include_str!("../data/sweep.toml"),
    include_str!("../data/frame.toml"),
];

/// Everything that can be done with a text.
fn exercise(text: &str, overrides: &[String]) {
    let Ok(mut document) = Document::from_text("any.toml", text) else { return };
    for one in overrides {
        if let Err(errors) = document.set(one) {
            assert!(!errors.render().is_empty());
        }
    }
    match document.check() {
        Err(errors) => assert!(!errors.to_string().is_empty() && !errors.render().is_empty()),
        Ok(()) => {
            if let Ok(scenario) = document.scenario() {
                assert!(scenario.to_json().is_object());
            }
        }
    }
}

/// Words that mean something somewhere.
const WORDS: [&str; 40] = [
    "{",
    "}",
    "{1..3}",
    "{n}",
    "{i+1}",
    "..",
    "*",
    "\"",
    "'",
    "[",
    "]",
    "=",
    "\n",
    ".",
    "0",
    "-1",
    "1e308",
    "inf",
    "nan",
    "9223372036854775807",
    "true",
    "\"0s\"",
    "\"100p\"",
    "\"1Mbit\"",
    "kind",
    "\"red\"",
    "\"tcp\"",
    "repeat",
    "\"i = 1..2\"",
    "include",
    "links",
    "flows",
    "[[events]]",
    "parameters",
    "between",
    "\u{feff}",
    "ß",
    "\0",
    "\"\\u0000\"",
    "[a.b.c]",
];

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn random_words(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..40)) {
        exercise(&words.join(" "), &[]);
    }

    #[test]
    fn mutated_files(
        seed in 0usize..3,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, prop::sample::select(&WORDS[..])), 1..6),
    ) {
        let mut text = SEEDS[seed].to_owned();
        for (at, length, word) in edits {
            let start = floor(&text, at.index(text.len() + 1));
            let end = floor(&text, (start + length).min(text.len())).max(start);
            text.replace_range(start..end, word);
        }
        exercise(&text, &[]);
    }

    #[test]
    fn swapped_lines(seed in 0usize..3, swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5)) {
        let mut lines: Vec<&str> = SEEDS[seed].lines().collect();
        for (a, b) in swaps {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        exercise(&lines.join("\n"), &[]);
    }

    #[test]
    fn random_overrides(
        seed in 0usize..3,
        paths in prop::collection::vec("(links|flows|domains|defaults|parameters|nodes|events|record|axes|variants|figures|duration|seeds)(\\.(tcp|core1|core2|link|queue|kind|hops|n|0|rate|transport|\"a\"|limit|values|from)){0,4}", 1..4),
        values in prop::collection::vec(prop::sample::select(&WORDS[..]), 4),
    ) {
        let overrides: Vec<String> = paths.iter().zip(values).map(|(path, value)| format!("{path}={value}")).collect();
        exercise(SEEDS[seed], &overrides);
    }

    #[test]
    fn random_texts_as_overrides(text in ".{0,40}") {
        exercise(SEEDS[2], &[text]);
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[test]
fn deep_nesting_and_long_names_are_refused() {
    let deep = format!("a = {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(Document::from_text("deep.toml", &deep).is_err());
    let dotted = format!("{} = 1", vec!["a"; 5_000].join("."));
    assert!(Document::from_text("dotted.toml", &dotted).is_err());
    let fields = format!("a = {}1{}", "{ b.c.d.e.f.g.h = ".repeat(70), " }".repeat(70));
    assert!(Document::from_text("fields.toml", &fields).is_err());
    exercise(&format!("title = \"{}\"", "{n}".repeat(100_000)), &[]);
    exercise(&format!("duration = '1s'\n[nodes]\nhosts = ['{}']", "h".repeat(100_000)), &[]);
    exercise(&format!("title = \"{{{}1}}\"", "(".repeat(100_000)), &[]);
    exercise(&format!("title = \"{{{}1}}\"", "-".repeat(100_000)), &[]);
    exercise("[nodes]\nhosts = [\"{1..2000}{1..2000}\"]", &[]);
    exercise("[nodes]\nhosts = [\"{1..2000}{1..2000}{1..2000}\"]", &[]);
}

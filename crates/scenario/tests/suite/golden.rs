//! The exact messages for bad inputs: `data/bad.toml` against `data/bad.txt`. After a wanted change, run with
//! `TIDEGATE_BLESS=1` and review the difference.

use std::fmt::Write;
use std::path::Path;

use tidegate_scenario::Document;

/// A valid scenario with markers at which lines can be added.
const FRAME: &str = include_str!("../data/frame.toml");

/// Each case: a name, overrides, and what changes.
fn cases() -> Vec<(String, Vec<String>, String)> {
    let text = include_str!("../data/bad.toml");
    let mut cases = Vec::new();
    for block in text.split("#: ").skip(1) {
        let (head, body) = block.split_once('\n').unwrap_or((block, ""));
        let mut words = head.split(" --set ");
        let name = words.next().unwrap_or_default().trim().to_owned();
        let overrides = words.map(|one| one.trim().to_owned()).collect();
        cases.push((name, overrides, body.trim_end().to_owned() + "\n"));
    }
    cases
}

/// The frame with each change of `body` made: `marker| line` adds a line before `#marker`, `old => new` replaces. A body
/// that begins with `#whole` is the whole file.
fn assemble(body: &str) -> String {
    if body.starts_with("#whole\n") {
        return body.to_owned();
    }
    let mut text = FRAME.to_owned();
    for line in body.lines() {
        if let Some((marker, content)) = line.split_once("| ") {
            let marker = format!("#{marker}\n");
            assert!(text.contains(&marker), "no marker {marker}");
            text = text.replacen(&marker, &format!("{content}\n{marker}"), 1);
        } else if let Some((from, to)) = line.split_once(" =>") {
            assert!(text.contains(from), "`{from}` is not in the frame");
            text = text.replacen(from, to.trim_start(), 1);
        }
    }
    text
}

#[test]
fn messages_are_as_reviewed() {
    let mut found = String::new();
    for (name, overrides, body) in cases() {
        let result = Document::from_text("bad.toml", &assemble(&body)).and_then(|mut document| {
            overrides.iter().try_for_each(|one| document.set(one))?;
            document.check()
        });
        let errors = result.err().unwrap_or_else(|| panic!("{name} is valid"));
        writeln!(found, "## {name}\n{errors}\n\n{}", errors.render()).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bad.txt");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (now, before)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(now, before, "line {} of bad.txt", line + 1);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn the_frame_itself_is_valid() {
    let document = Document::from_text("frame.toml", FRAME).unwrap();
    document.check().unwrap_or_else(|errors| panic!("{}", errors.render()));
}

//! Golden results: a scenario with a little of everything gives the very bytes that stand in `tests/golden`.
//!
//! This test runs in the development profile; `tests/python/test_golden.py` demands the same bytes of the release build
//! that Python loads. So the two together show that results do not depend on the build. After a wanted change, run with
//! `TIDEGATE_BLESS=1` and review the difference.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_lab::{Progress, Run, run};
use tidegate_scenario::{Document, Scenario};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn mix() -> Arc<Scenario> {
    let document = Document::open(&folder().join("mix.toml")).unwrap();
    Arc::new(document.scenario().unwrap())
}

/// Summary and series as text; numbers as Rust writes them, shortest that reads back.
fn text_of(outcome: &tidegate_lab::Outcome) -> String {
    let mut text = outcome.summary.to_json();
    text.push('\n');
    for series in &outcome.series {
        write!(text, "{}", series.name).unwrap();
        for value in &series.values {
            write!(text, " {value:?}").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn results_are_the_golden_bytes() {
    let measured = text_of(&run(&mix(), 7).unwrap());
    let file = folder().join("mix.txt");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&file, &measured).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    assert!(measured == golden, "results changed; if that is wanted, bless and review (see the module)");
}

#[test]
fn pauses_do_not_change_results() {
    let scenario = mix();
    let mut stepped = Run::start(&scenario, 7, ()).unwrap();
    while stepped.advance(1_000) != Progress::Done {}
    assert_eq!(text_of(&stepped.finish().0), text_of(&run(&scenario, 7).unwrap()));
}

#[test]
fn seeds_differ() {
    let scenario = mix();
    assert_ne!(run(&scenario, 1).unwrap().summary.to_json(), run(&scenario, 2).unwrap().summary.to_json());
}

//! Every published experiment is valid.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_scenario::Document;

/// The TOML files below `folder`, in order; those that begin with `_` are only included.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.join("card.toml").is_file() || path.ends_with("suite/mechanisms") {
            // Experiments of a suite are whole with a mechanism; tests/python/test_suite.py runs them.
            continue;
        }
        if path.ends_with("experiments/tune") {
            // Tunings say what to search, and on which of their networks; tests/python/test_tune.py reads them.
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn every_experiment_is_valid() {
    let mut found = Vec::new();
    // They include one another across folders.
    let shelf = [Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")];
    files(&shelf[0], &mut found);
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with('_') && name != "expected.toml"
    });
    assert!(found.len() > 100);
    // Some are long; each thread takes the next that nobody has.
    let next = AtomicUsize::new(0);
    let check_all = || {
        while let Some(path) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            let checked = Document::open_within(path, &shelf).and_then(|document| document.check());
            checked.unwrap_or_else(|errors| panic!("{}", errors.render()));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(check_all);
        }
    });
}

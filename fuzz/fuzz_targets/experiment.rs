//! Any text is an experiment or is refused; its points are bounded, and each gives a scenario or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_scenario::Document;

fuzz_target!(|text: &str| {
    let Ok(document) = Document::from_text("fuzzed.toml", text) else { return };
    let Ok(experiment) = document.experiment() else { return };
    for point in experiment.points(true).iter().take(3) {
        if let Err(errors) = experiment.scenario(point) {
            assert!(!errors.render().is_empty());
        }
    }
});

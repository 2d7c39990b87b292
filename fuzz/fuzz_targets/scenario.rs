//! Any text is a scenario or is refused with errors that can be shown; a scenario has a description and can be judged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_scenario::Document;

fuzz_target!(|text: &str| {
    let document = match Document::from_text("fuzzed.toml", text) {
        Ok(document) => document,
        Err(errors) => {
            assert!(!errors.render().is_empty());
            return;
        }
    };
    match document.scenario() {
        Ok(scenario) => {
            let _ = tidegate_lab::warnings(&document, &scenario);
        }
        Err(errors) => assert!(!errors.render().is_empty()),
    }
});

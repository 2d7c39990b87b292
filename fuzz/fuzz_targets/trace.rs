//! Any text is a trace in Mahimahi's format or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_scenario::Document;

const SCENARIO: &str = "duration = \"1s\"\nnodes = { hosts = [\"A\", \"B\"] }\n\
    links.l = { between = [\"A\", \"B\"], rate = { trace = \"t\" }, delay = \"3ms\" }";

fuzz_target!(|text: &str| {
    let mut document = Document::from_text("traced.toml", SCENARIO).expect("it is one");
    document.attach("t", text);
    if let Err(errors) = document.scenario() {
        assert!(!errors.render().is_empty());
    }
});

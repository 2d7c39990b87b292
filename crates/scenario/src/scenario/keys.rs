//! The keys of tables that are read key by key. A test holds them against the schema.

use tidegate_document::Format;

/// What scenarios and experiments are as documents.
pub(crate) const FORMAT: Format = Format {
    kind_keys: &["queue", "transport", "application", "mechanism", "labels", "loss"],
    repeated: &["links", "flows", "domains", "commands"],
    override_example: "links.bottleneck.rate=2Mbit",
};

/// Keys of a scenario, besides `include`.
pub(crate) const SCENARIO: [&str; 17] = [
    "title",
    "description",
    "source",
    "duration",
    "warmup",
    "seed",
    "parameters",
    "nodes",
    "defaults",
    "links",
    "flows",
    "routing",
    "domains",
    "markers",
    "commands",
    "events",
    "record",
];
/// Keys that make a file an experiment.
pub(crate) const EXPERIMENT: [&str; 7] =
    ["also", "seeds", "quick_seeds", "quick_set", "axes", "variants", "figures"];
/// Keys of a link.
pub(crate) const LINK: [&str; 13] = [
    "repeat",
    "between",
    "rate",
    "delay",
    "queue",
    "loss",
    "reorder",
    "duplicate",
    "circuit",
    "cost",
    "duplex",
    "forward",
    "reverse",
];
/// Those that are not about a direction.
pub(crate) const LINK_HEAD: [&str; 6] = ["repeat", "between", "cost", "duplex", "forward", "reverse"];
/// Those that are.
pub(crate) const LINK_DIRECTION: [&str; 7] =
    ["rate", "delay", "queue", "loss", "reorder", "duplicate", "circuit"];
/// Tables of defaults.
pub(crate) const DEFAULTS: [&str; 4] = ["link", "flow", "tcp", "udp"];
/// Keys of a parameter that says where its value comes from.
pub(crate) const PARAMETER: [&str; 5] = ["value", "label", "unit", "provenance", "why"];
/// Keys of an axis.
pub(crate) const AXIS: [&str; 7] = ["path", "paths", "include", "values", "quick", "label", "unit"];
/// Keys of a variant.
pub(crate) const VARIANT: [&str; 2] = ["label", "set"];

/// All keys of a file.
pub(crate) fn file() -> Vec<&'static str> {
    SCENARIO.iter().chain(&EXPERIMENT).chain(&["include"]).copied().collect()
}

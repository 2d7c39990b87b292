//! The keys of tables that are read key by key: those of the structures that the schema describes.

use std::sync::OnceLock;

use serde_aux::serde_introspection::serde_introspect;
use tidegate_document::Format;

use super::raw::{DefaultsText, DirectionText, DocumentedParameter, LinkText};
use crate::experiment::raw::{AxisText, VariantText};
use crate::schema::FileText;

/// What scenarios and experiments are as documents.
pub(crate) const FORMAT: Format = Format {
    kind_keys: &[
        "queue",
        "transport",
        "control",
        "application",
        "mechanism",
        "labels",
        "loss",
        "jitter",
        "follows",
    ],
    repeated: &["links", "flows", "domains", "commands"],
    override_example: "links.bottleneck.rate=2Mbit",
};

/// Keys that make a file an experiment.
pub(crate) const EXPERIMENT: [&str; 7] =
    ["also", "seeds", "quick_seeds", "quick_set", "axes", "variants", "figures"];

/// All keys of a file.
pub(crate) fn file() -> &'static [&'static str] {
    serde_introspect::<FileText>()
}

/// Keys of a link.
pub(crate) fn link() -> &'static [&'static str] {
    serde_introspect::<LinkText>()
}

/// Those that are about a direction.
pub(crate) fn direction() -> &'static [&'static str] {
    serde_introspect::<DirectionText>()
}

/// Those that are not.
pub(crate) fn link_head() -> &'static [&'static str] {
    static HEAD: OnceLock<Vec<&'static str>> = OnceLock::new();
    HEAD.get_or_init(|| link().iter().filter(|key| !direction().contains(key)).copied().collect())
}

/// Tables of defaults.
pub(crate) fn defaults() -> &'static [&'static str] {
    serde_introspect::<DefaultsText>()
}

/// Keys of a parameter that says where its value comes from, the value first.
pub(crate) fn parameter() -> &'static [&'static str] {
    serde_introspect::<DocumentedParameter>()
}

/// Keys of an axis.
pub(crate) fn axis() -> &'static [&'static str] {
    serde_introspect::<AxisText>()
}

/// Keys of a variant.
pub(crate) fn variant() -> &'static [&'static str] {
    serde_introspect::<VariantText>()
}

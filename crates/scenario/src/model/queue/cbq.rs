//! Class-Based Queueing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::{BitRate, Bytes, Span};

use super::{Manager, QueueClassify};
use crate::text::{self, Text};

/// From which ancestors a class may borrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CbqSharing {
    /// From any that is not above its share.
    AncestorOnly,
    /// From one that is not above its share, up to a level that follows where classes last had to wait.
    TopLevel,
    /// From one that is not above its share, if no class below its level is unsatisfied.
    Formal,
}

/// # Class-Based Queueing
///
/// Classes share the link in agreed parts. A class above its share is held back while others need the link; it may borrow from
/// its ancestors while they do not. Priorities, and round robin within a priority, decide among those that may send.
///
/// Source: Floyd and Jacobson 1995; ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cbq {
    /// The classes, parents before their children. Those without children have queues.
    pub classes: Vec<CbqClass>,
    /// What the numbers in `match` are: classes of flows, input ports, or codepoints.
    pub classify: QueueClassify,
    /// The class of packets that no class matches. Default: the first with a queue.
    pub default: Option<String>,
    /// From which ancestors a class may borrow. Source: ns.
    pub sharing: CbqSharing,
    /// The rate that is shared, if it is not the link's. Source: Pazos (minimum cell rate).
    #[serde(with = "text::optional")]
    #[schemars(with = "Option<Text<BitRate>>")]
    pub rate: Option<BitRate>,
    /// A large packet: unit of the round robin and of the automatic `max_idle`. Source: ns (1024 bytes).
    #[serde(with = "text")]
    #[schemars(with = "Text<Bytes>")]
    pub max_packet: Bytes,
}

impl Default for Cbq {
    fn default() -> Self {
        Self {
            classes: Vec::new(),
            classify: QueueClassify::Class,
            default: None,
            sharing: CbqSharing::AncestorOnly,
            rate: None,
            max_packet: Bytes::new(1024),
        }
    }
}

/// A class of `cbq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CbqClass {
    /// Its name, for `parent`, `default` and the summary.
    pub name: String,
    /// The class that it is part of, and borrows from. Default: none.
    #[serde(default)]
    pub parent: Option<String>,
    /// Its part of the link, above 0, at most 1.
    pub share: f64,
    /// Lower goes first, 0 to 9. With children it counts only in the automatic `max_idle`. Default: 1, 8 with children.
    /// Source: ns's test suite.
    #[serde(default)]
    pub priority: Option<u8>,
    /// Whether it may borrow. Default: true. Source: ns.
    #[serde(default = "yes")]
    pub borrow: bool,
    /// The credit that it keeps while idle, in time per packet. Default: by share and priority, as ns does.
    #[serde(default, with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub max_idle: Option<Span>,
    /// The largest debt, in time per packet. Default: no bound. Source: ns.
    #[serde(default, with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub min_idle: Option<Span>,
    /// What it waits in addition when it is held back. Default: 0s. Source: ns.
    #[serde(default, with = "text::optional")]
    #[schemars(with = "Option<Text<Span>>")]
    pub extra_delay: Option<Span>,
    /// The numbers whose packets are its: see `classify`. Default: none.
    #[serde(default, rename = "match")]
    pub matches: Vec<u32>,
    /// What manages its queue. Default: droptail.
    #[serde(default)]
    pub queue: Option<Manager>,
}

const fn yes() -> bool {
    true
}

impl Cbq {
    /// Which class each class is part of: numbers in the list.
    pub fn parent_of(&self, class: &CbqClass) -> Option<usize> {
        class.parent.as_ref().and_then(|name| self.number_of(name))
    }

    /// The number of the class with this name.
    pub fn number_of(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    /// Whether the class has children, and so no queue.
    pub fn has_children(&self, class: &CbqClass) -> bool {
        self.classes.iter().any(|other| other.parent.as_ref() == Some(&class.name))
    }
}

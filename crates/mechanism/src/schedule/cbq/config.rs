//! The classes of a link, as they are given.
//!
//! Source: ns-2 `ns-queue.tcl` and `cbq.cc` (names and defaults); Floyd & Jacobson 1995, section 3.
//! Deviations: in [`super`].

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tidegate_parameters::{Bound, Parameters, Report, bound, parameters, words};
use tidegate_units::{BitRate, Bytes, Span};

use super::tree::{Tree, TreeClass};
use super::{CBQ_PRIORITIES, Cbq};
use crate::Context;
use crate::queue::{ManagerConfig, bytes32};
use crate::schedule::Classification;

words! {
    /// From which ancestors a class may borrow.
    pub enum LinkSharing {
        /// From any that is not above its share.
        AncestorOnly = "ancestor-only",
        /// From one that is not above its share, up to a level that follows where classes last had to wait.
        TopLevel = "top-level",
        /// From one that is not above its share, if no class below its level is unsatisfied.
        Formal = "formal",
    }
}

/// No class has less of a link: the times of its estimator fit in 128 bits.
const SHARE: Bound<f64> =
    Bound::between(1e-9, 1.0).saying("", " is no share").helping("from 0.000000001 to 1");

parameters! {
    /// A class of `cbq`.
    pub struct CbqClassConfig {
        /// Its name, for `parent`, `default` and the summary.
        name: String;
        /// The class that it is part of, and borrows from. Default: none.
        parent: Option<String> = None;
        /// Its part of the link, above 0, at most 1 (`allot`).
        share: f64 => SHARE;
        /// Lower goes first, 0 to 9. With children it counts only in the automatic `max_idle`. Default: 1, 8 with children.
        /// Source: ns's test suite.
        priority: Option<u8> = None => Bound::at_most(CBQ_PRIORITIES - 1).saying("", " is no priority").helping("from 0 to 9");
        /// Whether it may borrow. Counts in classes that hold packets: what a class above them may not borrow they may. Source: ns
        /// (`okborrow`).
        borrow: bool = true;
        /// The credit that it keeps while idle, in time per packet. Default: by share and priority, as ns does.
        max_idle: Option<Span> = None => bound::DELAY;
        /// The largest debt, in time per packet. Default: no bound. Source: ns.
        min_idle: Option<Span> = None => bound::DELAY;
        /// What it waits in addition when it is held back, for longer bursts. Source: ns.
        extra_delay: Span = Span::ZERO => bound::DELAY;
        /// The numbers whose packets are its: see `classify`. Default: none.
        r#match: Vec<u32> = Vec::new();
        /// What manages its queue. Default: droptail.
        queue: Option<ManagerConfig> = None => bound::INSIDE;
    }
}

parameters! {
    /// # Class-Based Queueing
    ///
    /// Classes share the link in agreed parts. A class above its share is held back while others need the link; it may borrow
    /// from its ancestors while they do not. Priorities, and round robin within a priority, decide among those that may send.
    ///
    /// Source: Floyd and Jacobson 1995; ns.
    pub struct CbqConfig {
        /// The classes, parents before their children. Those without children have queues.
        classes: Vec<CbqClassConfig> = Vec::new();
        /// What the numbers in `match` are: classes of flows, input ports, or codepoints.
        classify: Classification = Classification::Class;
        /// The class of packets that no class matches. Default: the first with a queue.
        default: Option<String> = None;
        /// From which ancestors a class may borrow. Source: ns.
        sharing: LinkSharing = LinkSharing::AncestorOnly;
        /// The rate that is shared, if it is not the link's. Source: Pazos (minimum cell rate).
        rate: Option<BitRate> = None => bound::RATE;
        /// A large packet: unit of the round robin and of the automatic `max_idle`. Source: ns (1024 bytes).
        max_packet: Bytes = Bytes::new(1024) => bound::PACKET;
    }
    check CbqConfig::check_classes;
}

/// Classes of a link: every one is looked at per packet.
const CLASSES_MAX: usize = 256;

impl CbqConfig {
    /// The scheduler.
    pub fn build(&self, context: &Context) -> Cbq {
        self.tree().build(context)
    }

    /// Names resolved.
    fn tree(&self) -> Tree {
        let first = || self.classes.iter().position(|class| !self.has_children(class));
        let named = self.default.as_ref().and_then(|name| self.number_of(name));
        Tree {
            classify: self.classify,
            classes: self.classes.iter().map(|class| self.tree_class(class)).collect(),
            default: named.or_else(first).expect("checked: there is a class with a queue"),
            sharing: self.sharing,
            rate: self.rate,
            max_packet: bytes32(self.max_packet),
        }
    }

    fn tree_class(&self, class: &CbqClassConfig) -> TreeClass {
        TreeClass {
            parent: class.parent.as_ref().and_then(|name| self.number_of(name)),
            share: class.share,
            priority: class.priority.unwrap_or(if self.has_children(class) { 8 } else { 1 }),
            borrow: class.borrow,
            max_idle: class.max_idle,
            min_idle: class.min_idle,
            extra_delay: class.extra_delay,
            keys: class.r#match.clone(),
            manager: class.queue.clone().unwrap_or_default(),
        }
    }

    /// The number of the class with this name.
    pub fn number_of(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    /// Whether the class has children, and so no queue.
    pub fn has_children(&self, class: &CbqClassConfig) -> bool {
        self.classes.iter().any(|other| other.parent.as_ref() == Some(&class.name))
    }

    fn check_classes(&self, report: &mut Report<'_>) {
        let count = self.classes.len();
        if count == 0 || count > CLASSES_MAX {
            let help = "classes = [{ name = \"a\", share = 0.2, match = [1] }, ...], at most 256";
            report.say("classes", format!("{count} classes share no link"), help);
            return;
        }
        let largest = match self.classify {
            Classification::Class => u32::from(u8::MAX),
            Classification::Dscp => 63,
            Classification::Precedence => 7,
            Classification::InputPort => u32::from(u16::MAX),
            Classification::Flow => {
                let help = "\"class\", \"input-port\" or \"dscp\"; give the flows a `class`";
                report.say("classify", "flows have names, not numbers", help);
                return;
            }
        };
        let mut matched = Vec::new();
        for (number, class) in self.classes.iter().enumerate() {
            report.below("classes", |report| {
                report.below(&number.to_string(), |report| self.check_class(number, class, report));
            });
            for &key in &class.r#match {
                if key > largest {
                    let message =
                        format!("class `{}` matches {key}, and numbers go to {largest}", class.name);
                    report.say("classes", message, "");
                } else if matched.contains(&key) {
                    report.say("classes", format!("two classes match {key}"), "");
                }
                matched.push(key);
            }
        }
        if let Some(sum) = above_one(self.classes.iter().filter(|class| class.parent.is_none())) {
            let message = format!("the shares of the classes without a parent add up to {sum}");
            report.say("classes", message, "at most 1");
        }
        match &self.default {
            None => {}
            Some(name) => match self.number_of(name) {
                None => report.say("default", format!("there is no class `{name}`"), &self.names()),
                Some(number) if self.has_children(&self.classes[number]) => {
                    let message = format!("class `{name}` has children, so packets cannot wait in it");
                    report.say("default", message, "name one without children");
                }
                Some(_) => {}
            },
        }
    }

    /// The class with `number` in the list.
    fn check_class(&self, number: usize, class: &CbqClassConfig, report: &mut Report<'_>) {
        let name = &class.name;
        if name.is_empty() || self.number_of(name) != Some(number) {
            report.say("name", format!("two classes have the name `{name}`, or it is empty"), "");
            return;
        }
        class.check(report);
        if let Some(parent) = &class.parent {
            match self.number_of(parent) {
                None => report.say("parent", format!("there is no class `{parent}`"), &self.names()),
                Some(above) if above >= number => {
                    report.say("parent", format!("class `{parent}` comes later"), "parents come first");
                }
                Some(_) => {}
            }
        }
        if self.has_children(class) {
            let of_packets = [("queue", class.queue.is_some()), ("match", !class.r#match.is_empty())];
            for (key, _) in of_packets.into_iter().filter(|(_, is_given)| *is_given) {
                let message = format!("class `{name}` has children, so packets cannot wait in it");
                report.say(key, message, "give it to the children");
            }
            let children = self.classes.iter().filter(|child| child.parent.as_ref() == Some(name));
            if let Some(sum) = above_one(children) {
                report.say("share", format!("the shares of its children add up to {sum}"), "at most 1");
            }
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.classes.iter().map(|class| &*class.name).take(20).collect();
        format!("there are: {}", names.join(", "))
    }
}

/// The sum of the shares, if it is above one by more than sums lose.
fn above_one<'c>(classes: impl Iterator<Item = &'c CbqClassConfig>) -> Option<f64> {
    Some(classes.map(|class| class.share).sum()).filter(|sum| *sum > 1.0 + 1e-9)
}

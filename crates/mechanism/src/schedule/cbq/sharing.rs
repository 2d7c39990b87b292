//! From whom a class may borrow: the three kinds of link-sharing of Floyd & Jacobson 1995, section 3.
//!
//! Source: Floyd & Jacobson 1995, section 3, and ns-2 `cbq.cc` (top-level). Deviations: in [`super`].

use tidegate_packet::Backlog;

use super::estimator::Ticks;
use super::{Cbq, LEAF_LEVEL, LinkSharing, NONE};

impl Cbq {
    /// Who lets the class send: itself, or an ancestor that it may borrow from (ns-2 `send_permitted`, `find_lender`).
    pub(super) fn lender_of(&mut self, number: usize, now: Ticks) -> Option<usize> {
        let class = &mut self.classes[number];
        if class.estimator.is_allowed(now) {
            class.estimator.found_allowed();
            return Some(number);
        }
        if !class.borrows {
            return None;
        }
        let mut at = class.parent;
        while at != NONE {
            let ancestor = &self.classes[at];
            let is_within = ancestor.level <= self.top_level;
            if ancestor.estimator.is_allowed(now) {
                let is_eligible = match self.config.sharing {
                    LinkSharing::AncestorOnly => true,
                    LinkSharing::TopLevel => is_within,
                    LinkSharing::Formal => self.all_below_are_satisfied(ancestor.level, now),
                };
                if is_eligible {
                    return Some(at);
                }
            } else if self.config.sharing == LinkSharing::TopLevel && !is_within {
                return None;
            }
            at = ancestor.parent;
        }
        None
    }

    /// Formal link-sharing's second rule (ns-2 `eligible_formal`).
    fn all_below_are_satisfied(&self, level: u32, now: Ticks) -> bool {
        let below = |number: &usize| self.classes[*number].level < level;
        (0..self.classes.len()).filter(below).all(|number| self.is_satisfied(number, now))
    }

    /// Not under its limit with a backlog, of its own or of a class that may borrow up to it.
    fn is_satisfied(&self, number: usize, now: Ticks) -> bool {
        let class = &self.classes[number];
        if !class.estimator.is_under(now) {
            return true;
        }
        if class.level == LEAF_LEVEL {
            return !class.has_demand();
        }
        !(0..self.classes.len())
            .any(|leaf| self.classes[leaf].has_demand() && self.borrows_from(leaf, number))
    }

    fn borrows_from(&self, mut number: usize, ancestor: usize) -> bool {
        while self.classes[number].borrows {
            number = self.classes[number].parent;
            if number == ancestor {
                return true;
            }
        }
        false
    }

    /// Top-level link-sharing, when a packet arrives for a class: under its limit it needs no loan, nor does anyone above.
    pub(super) fn on_arrival_at_top_level(&mut self, number: usize, now: Ticks) {
        let class = &self.classes[number];
        if class.estimator.is_allowed(now) {
            self.top_level = self.top_level.min(LEAF_LEVEL);
        } else if class.borrows && self.classes[class.parent].estimator.is_allowed(now) {
            self.top_level = self.top_level.min(LEAF_LEVEL + 1);
        }
    }

    /// Top-level link-sharing, when a class sent and left `behind`, by a loan of `lender`.
    pub(super) fn on_departure_at_top_level(&mut self, lender: usize, behind: Backlog, now: Ticks) {
        let lender = &self.classes[lender];
        if self.top_level >= lender.level {
            let is_over = behind.packets <= 1 || !lender.estimator.is_allowed(now);
            self.top_level = if is_over { u32::MAX } else { lender.level };
        }
    }
}

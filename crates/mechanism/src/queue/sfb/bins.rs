//! One set of bins with one set of hash functions.
//!
//! Source: Feng, thesis, section 4.4, Fig. 4.14; deviations in [`super`].

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use tidegate_packet::FlowId;
use tidegate_units::Time;

use super::hash::{LevelHashes, SfbHash};
use super::law::{Bin, BinLaw};
use crate::random::Substream;

/// No more levels than this: what a flow hashes to is an array of this length.
pub const LEVELS_MAX: u32 = 8;

/// Nobody has asked yet.
const UNKNOWN: u32 = u32::MAX;

/// Of flows with numbers up to this the bins are remembered.
const REMEMBERED_MAX: usize = 1 << 16;

/// The bins of one flow: an index per level into [`Bins::table`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    at: [u32; LEVELS_MAX as usize],
    levels: usize,
}

impl Slots {
    pub(super) fn each(&self) -> impl Iterator<Item = usize> + '_ {
        self.at[..self.levels].iter().map(|&slot| slot as usize)
    }
}

/// What the bins of a flow say of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finding {
    /// One of them holds more than its size.
    pub(super) is_full: bool,
    /// All of them are polluted: `p_min = 1`.
    pub(super) is_nonresponsive: bool,
    /// With which probability the packet is notified: `p_min`.
    pub(super) p_min: f64,
}

/// `B[l][n]` with its hash functions.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    kind: SfbHash,
    hashes: LevelHashes,
    /// By flow, and within it by level: what its hashes gave, or [`UNKNOWN`]. They cost more than all else that a packet meets here.
    remembered: Vec<u32>,
    /// Level by level.
    table: Box<[Bin]>,
    per_level: u32,
    levels: u32,
    bin_size: u32,
    /// How many have `p_m = 1`.
    polluted: u32,
    law: BinLaw,
}

impl Bins {
    pub(super) fn new(
        levels: u32,
        per_level: u32,
        bin_size: u32,
        law: BinLaw,
        kind: SfbHash,
        salts: &mut Substream,
    ) -> Self {
        let mut set = Self {
            kind,
            hashes: LevelHashes::draw(kind, levels, per_level, salts),
            remembered: Vec::new(),
            table: vec![law.fresh(); (levels * per_level) as usize].into(),
            per_level,
            levels,
            bin_size,
            polluted: 0,
            law,
        };
        set.recount();
        set
    }

    /// New hash functions; every bin starts again.
    pub(super) fn reset(&mut self, salts: &mut Substream) {
        self.hashes = LevelHashes::draw(self.kind, self.levels, self.per_level, salts);
        self.remembered.fill(UNKNOWN);
        self.table.fill(self.law.fresh());
        self.recount();
    }

    /// The mean probability of the bins that are not polluted; none if all are.
    pub(super) fn mean_of_unpolluted(&self) -> Option<f64> {
        let clean = self.table.len() as u32 - self.polluted;
        let sum: f64 = self.table.iter().map(|bin| bin.p).filter(|&p| p < 1.0).sum();
        (clean > 0).then(|| sum / f64::from(clean))
    }

    /// Bins whose probability is below `least`, which is below 1, begin there.
    pub(super) fn raise_to(&mut self, least: f64) {
        for bin in &mut self.table {
            bin.p = bin.p.max(least);
        }
    }

    fn recount(&mut self) {
        self.polluted = self.table.iter().filter(|bin| bin.p >= 1.0).count() as u32;
    }

    /// The bins of `flow`: `h_0 .. h_{L-1}`.
    #[inline]
    pub(super) fn slots(&mut self, flow: FlowId) -> Slots {
        let levels = self.levels as usize;
        let begin = flow.0 as usize * levels;
        match self.remembered.get(begin..begin + levels) {
            Some(found) if found[0] != UNKNOWN => {
                let mut at = [0; LEVELS_MAX as usize];
                at[..levels].copy_from_slice(found);
                Slots { at, levels }
            }
            _ => self.find_slots(flow),
        }
    }

    /// The same for a flow that is not remembered; it is from now on, if its number is small.
    #[inline(never)]
    fn find_slots(&mut self, flow: FlowId) -> Slots {
        let slots = self.hashed(flow);
        let number = flow.0 as usize;
        if number < REMEMBERED_MAX {
            let begin = number * slots.levels;
            if self.remembered.len() < begin + slots.levels {
                self.remembered.resize(begin + slots.levels, UNKNOWN);
            }
            self.remembered[begin..begin + slots.levels].copy_from_slice(&slots.at[..slots.levels]);
        }
        slots
    }

    /// The same by the hashes.
    pub(super) fn hashed(&self, flow: FlowId) -> Slots {
        let mut at = self.hashes.of(flow, self.levels, self.per_level);
        for (slot, level) in at.iter_mut().zip(0..self.levels) {
            *slot += level * self.per_level;
        }
        Slots { at, levels: self.levels as usize }
    }

    /// A packet arrives: updates its bins (Fig. 4.14) and says what they are.
    #[inline]
    pub(super) fn observe(&mut self, slots: &Slots, now: Time) -> Finding {
        let mut is_full = false;
        for slot in slots.each() {
            let qlen = self.table[slot].qlen;
            is_full |= qlen > self.bin_size;
            self.update(slot, qlen, now);
        }
        Finding { is_full, ..self.find(slots) }
    }

    /// A packet of a non-responsive flow was refused or accepted: updates its bins in a set that is being warmed up.
    #[inline]
    pub(super) fn warm(&mut self, slots: &Slots, is_refused: bool, now: Time) {
        for slot in slots.each() {
            let qlen = if is_refused { self.bin_size.saturating_add(1) } else { self.table[slot].qlen };
            self.update(slot, qlen, now);
        }
    }

    #[inline]
    fn update(&mut self, slot: usize, qlen: u32, now: Time) {
        let bin = &mut self.table[slot];
        let was = bin.p >= 1.0;
        self.law.observe(bin, qlen, self.bin_size, now);
        self.polluted = self.polluted + u32::from(bin.p >= 1.0) - u32::from(was);
    }

    /// What the bins say, without an update.
    #[inline]
    pub(super) fn find(&self, slots: &Slots) -> Finding {
        let mut finding = Finding { is_full: false, is_nonresponsive: true, p_min: 1.0 };
        for slot in slots.each() {
            let bin = &self.table[slot];
            finding.is_full |= bin.qlen > self.bin_size;
            finding.is_nonresponsive &= bin.p >= 1.0;
            finding.p_min = finding.p_min.min(self.law.notification(bin));
        }
        finding
    }

    /// A packet joined the queue.
    #[inline]
    pub(super) fn add(&mut self, slots: &Slots) {
        for slot in slots.each() {
            self.table[slot].qlen += 1;
        }
    }

    /// A packet that was [added](Self::add) here left the queue.
    #[inline]
    pub(super) fn remove(&mut self, slots: &Slots) {
        for slot in slots.each() {
            debug_assert!(self.table[slot].qlen > 0, "left but never joined");
            self.table[slot].qlen = self.table[slot].qlen.saturating_sub(1);
        }
    }

    /// How many bins have `p_m = 1`, over all levels.
    pub(super) const fn polluted(&self) -> u32 {
        self.polluted
    }

    /// The bin `n` of level `level`, from zero.
    pub(super) fn bin(&self, level: u32, n: u32) -> Option<&Bin> {
        let is_there = level < self.levels && n < self.per_level;
        is_there.then(|| &self.table[(level * self.per_level + n) as usize])
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &[Bin] {
        &self.table
    }
}

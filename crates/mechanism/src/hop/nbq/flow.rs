//! What a router keeps of one non-adaptive flow, and the bounded table of them.
//!
//! Source: Tamura, Tobe & Tokuda, section 5 (Figs. 12, 13: `ALLOW_IDLE`); the bound of the table is ours.

use alloc::vec::Vec;

use hashbrown::HashMap;
use tidegate_units::{Span, Time};

use crate::hop::PortId;
use crate::hop::wire::FlowName;
use crate::random::KeyedHash;

/// The throughput estimator: bytes over the time since the last estimate, at least an interval long (Fig. 13).
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimator {
    bytes: u64,
    since: Time,
    /// Bytes per second as last estimated.
    pub(super) rate: f64,
}

impl Estimator {
    pub(super) const fn new(now: Time) -> Self {
        Self { bytes: 0, since: now, rate: 0.0 }
    }

    /// Counts a packet; whether there is a new estimate.
    pub(super) fn add(&mut self, bytes: u32, interval: Span, now: Time) -> bool {
        self.bytes += u64::from(bytes);
        let elapsed = now.since(self.since);
        if elapsed < interval {
            return false;
        }
        self.rate = self.bytes as f64 / elapsed.as_secs_f64();
        self.bytes = 0;
        self.since = now;
        true
    }
}

/// A flow. Names in the comments are those of Fig. 12.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) name: FlowName,
    /// Where it last came in.
    pub(super) from: PortId,
    /// Where it goes out.
    pub(super) to: PortId,
    /// `in_byte`, `in_time`, `in_th`.
    pub(super) arrivals: Estimator,
    /// `out_byte`, `out_time`, `out_th`.
    pub(super) departures: Estimator,
    /// `prev_in_th`.
    pub(super) arrival_before: f64,
    /// `discard_ratio`.
    pub(super) ratio: f64,
    /// `idle_time`: when its last packet arrived.
    pub(super) seen: Time,
    /// `neighbor_in_th` and `neighbor_out_th`, and when they were heard.
    pub(super) neighbor: Option<(f64, f64, Time)>,
    /// Parts of packets that are to be discarded and were not yet.
    pub(super) due: f64,
    /// Whether it lost a packet here, discarded or dropped, since the last round of messages.
    pub(super) has_lost: bool,
}

impl Flow {
    pub(super) const fn new(name: FlowName, from: PortId, to: PortId, now: Time) -> Self {
        Self {
            name,
            from,
            to,
            arrivals: Estimator::new(now),
            departures: Estimator::new(now),
            arrival_before: 0.0,
            ratio: 0.0,
            seen: now,
            neighbor: None,
            due: 0.0,
            has_lost: false,
        }
    }
}

/// Up to so many flows by name. What is beyond passes uncontrolled.
#[derive(Clone, Debug)]
pub(super) struct Table {
    flows: Vec<Flow>,
    by_name: HashMap<FlowName, u32, KeyedHash>,
    flows_max: usize,
}

impl Table {
    pub(super) fn new(flows_max: u32, hash: KeyedHash) -> Self {
        Self { flows: Vec::new(), by_name: HashMap::with_hasher(hash), flows_max: flows_max as usize }
    }

    pub(super) fn get_mut(&mut self, name: FlowName) -> Option<&mut Flow> {
        let at = *self.by_name.get(&name)?;
        Some(&mut self.flows[at as usize])
    }

    /// Adds a flow that is not in it; whether there was room.
    pub(super) fn insert(&mut self, flow: Flow) -> bool {
        let has_room = self.flows.len() < self.flows_max;
        if has_room {
            self.by_name.insert(flow.name, self.flows.len() as u32);
            self.flows.push(flow);
        }
        has_room
    }

    /// In an order that depends on the packets alone.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Forgets the flows that `keep` does not want.
    pub(super) fn retain(&mut self, keep: impl Fn(&Flow) -> bool) {
        let mut at = 0;
        while at < self.flows.len() {
            if keep(&self.flows[at]) {
                at += 1;
                continue;
            }
            self.by_name.remove(&self.flows[at].name);
            self.flows.swap_remove(at);
            if let Some(moved) = self.flows.get(at) {
                self.by_name.insert(moved.name, at as u32);
            }
        }
    }
}

//! What is looked at while a case runs: what must hold at any time, and what was done.

use tidegate_units::BitRate;

use super::World;
use crate::case::{FALLBACK, FLOOR, MAX};
use crate::hosts::Done;

/// What was seen in a while: see [`World::take`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// By load.
    pub done: Vec<Done>,
    /// Bytes on the lines, away from the hub, by site.
    pub line_bytes: Vec<u64>,
    /// The mean queue of the hub towards each site, bytes.
    pub queue_bytes: Vec<f64>,
    /// The rate of the link to each other site, the last one.
    pub rates: Vec<BitRate>,
}

impl World<'_> {
    /// What must hold at any time.
    pub(super) fn look(&mut self) {
        let mut found = Vec::new();
        for (site, gateway) in self.gateways.iter().enumerate() {
            let (mut came, mut went) = (0, 0);
            for status in gateway.status() {
                let counters = &status.counters;
                came += counters.entered_packets + counters.relayed_packets;
                went += counters.sent_packets + status.drops.total() + counters.too_large_packets;
                if status.buffers.0 > status.buffers.1 {
                    found.push(format!(
                        "{} holds {} of {} buffers of gateway {site}",
                        status.name, status.buffers.0, status.buffers.1
                    ));
                }
                for link in &status.links {
                    let is_within = link.rate >= FLOOR.min(FALLBACK) && link.rate <= MAX;
                    if !is_within {
                        found.push(format!(
                            "gateway {site} sends to {} at {}, not within {FLOOR} and {MAX}",
                            status.name, link.rate
                        ));
                    }
                }
            }
            let (shaped, other) = gateway.held();
            let held = (shaped + other) as u64;
            if came < went || came > went + held {
                found.push(format!("gateway {site}: {came} packets came, {went} went, and {held} are held"));
            }
        }
        for flow in &self.flows {
            // Not even where the network repeats datagrams: tunnels see that.
            if flow.done.wrong > 0 {
                found.push(format!(
                    "{} packets from site {} to {} came twice or changed",
                    flow.done.wrong, flow.ends.0, flow.ends.1
                ));
            }
        }
        for what in found {
            self.break_rule(what);
        }
    }

    /// What was done since the last time, and what lines and queues look like.
    pub fn take(&mut self) -> Seen {
        let sites = self.case.lines.len();
        let done = self.flows.iter_mut().map(|flow| std::mem::take(&mut flow.done)).collect();
        let rate = |other: usize| {
            let status = &self.gateways[0].status()[other - 1];
            status.links.first().map_or(BitRate::ZERO, |link| link.rate)
        };
        let rates = (1..sites).map(rate).collect();
        let statistics = self.network.statistics();
        let counted: Vec<(u64, u128)> = (0..sites)
            .map(|site| &statistics.links[2 * site + 1])
            .map(|link| (link.delivered_bytes, link.byte_nanos))
            .collect();
        let nanos = self.now.since(self.looked).as_nanos().max(1);
        let since =
            counted.iter().zip(&self.counted).map(|(now, before)| (now.0 - before.0, now.1 - before.1));
        let (line_bytes, queue_bytes) =
            since.map(|(bytes, byte_nanos)| (bytes, byte_nanos as f64 / nanos as f64)).unzip();
        (self.counted, self.looked) = (counted, self.now);
        Seen { done, line_bytes, queue_bytes, rates }
    }
}

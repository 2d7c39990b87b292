//! What an emulation looks like at an instant: read from its counters between two packets, for those who watch it.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_engine::{LinkCounters, LinkId};
use tidegate_scenario::Scenario;
use tidegate_units::{BitRate, Time};

use crate::address;
use crate::emulation::{Counts, Emulation, Totals, protocol_name};
use crate::lateness::Lateness;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkLook {
    /// Which link of the scenario.
    pub link: usize,
    /// From its second node to its first.
    pub is_reverse: bool,
    /// How fast it is; with a trace, on average.
    pub rate: BitRate,
    /// Packets and bytes in its queue, the packet in transmission included.
    pub queue: (u32, u64),
    /// What it has counted since the statistics began.
    pub counters: LinkCounters,
}

/// One flow, simulated or real.
#[derive(Clone, Debug)]
pub struct FlowLook {
    /// Its name in the scenario, or what a connection is called.
    pub name: String,
    /// Packets sent, and lost or marked on the way.
    pub sent_packets: u64,
    /// See above.
    pub lost_packets: u64,
    /// See above.
    pub marked_packets: u64,
    /// What all receivers got together.
    pub received_packets: u64,
    /// Its bytes at the network layer.
    pub received_bytes: u64,
}

impl FlowLook {
    fn of(name: String, total: Totals) -> Self {
        Self {
            name,
            sent_packets: total.sent_packets,
            lost_packets: total.lost_packets,
            marked_packets: total.marked_packets,
            received_packets: total.received_packets,
            received_bytes: total.received_bytes,
        }
    }
}

/// The distribution of lateness so far, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct LatenessLook {
    /// Half of all was not later.
    pub p50_us: f64,
    /// 99 of 100 were not later.
    pub p99_us: f64,
    /// The latest.
    pub max_us: f64,
}

impl LatenessLook {
    fn of(lateness: &Lateness) -> Self {
        Self {
            p50_us: lateness.quantile_us(0.5),
            p99_us: lateness.quantile_us(0.99),
            max_us: lateness.max_us(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Look {
    /// When, since the emulation began.
    pub at: Time,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// All directions of links, in the order of the scenario.
    pub links: Vec<LinkLook>,
    /// The flows of the scenario, then the connections of real hosts that have been seen.
    pub flows: Vec<FlowLook>,
    /// Packets at the border of the network.
    pub counts: Counts,
    /// How late events ran.
    pub events: LatenessLook,
    /// How late packets were handed over.
    pub deliveries: LatenessLook,
}

impl<W: Write> Emulation<W> {
    /// What it looks like now. Changes nothing of what follows.
    pub fn look(&mut self, now: Time) -> Look {
        let scenario = Arc::clone(&self.setup().scenario);
        let (simulation, connections) = self.parts();
        let links = (0..simulation.direction_count())
            .map(|direction| {
                let id = LinkId(direction as u32);
                LinkLook {
                    link: direction / 2,
                    is_reverse: direction % 2 == 1,
                    rate: simulation.link_rate(id),
                    queue: simulation.queue_length(id),
                    counters: simulation.link_counters(id),
                }
            })
            .collect();
        let counted = |flow| Totals::of_flow(simulation, flow);
        let simulated = scenario.flows.iter().map(|flow| flow.name.clone()).enumerate();
        let simulated = simulated.map(|(flow, name)| FlowLook::of(name, counted(flow)));
        let real = connections.totals(counted).map(|(one, total)| {
            let end = |address, port| SocketAddr::new(address::to_ip(address), port);
            let (from, to) = (
                end(one.key.source, one.key.source_port),
                end(one.key.destination, one.key.destination_port),
            );
            FlowLook::of(format!("{} {from} > {to}", protocol_name(one.key.protocol.0)), total)
        });
        let flows = simulated.chain(real).collect();
        Look {
            at: now,
            scenario,
            links,
            flows,
            counts: self.counts,
            events: LatenessLook::of(&self.event_lateness),
            deliveries: LatenessLook::of(&self.delivery_lateness),
        }
    }
}

//! What is only in the results of an emulation: what came and went, and what each connection got.

use serde_json::{Value, json};
use tidegate_lab::Outcome;
use tidegate_packet::FlowKey;

use crate::address;
use crate::setup::Setup;

/// Counts of what never entered the network, or left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Packets that real hosts sent into the network.
    pub arrived_packets: u64,
    /// Packets that the network handed to real hosts.
    pub delivered_packets: u64,
    /// Packets for no real host: multicast, neighbour discovery, strange addresses.
    pub stray_packets: u64,
    /// Packets for which there was no buffer.
    pub unbuffered_packets: u64,
    /// Packets that a host's device did not take.
    pub refused_packets: u64,
    /// Packets of hosts that their own device dropped, since the emulation did not read them in time: they never came here, and
    /// are among none of the others.
    pub device_dropped_packets: u64,
    /// Packets that devices still held when it ended; without segmentation offload.
    pub unread_packets: u64,
}

impl Counts {
    /// Adds them to `results`.
    pub(super) fn add_to(&self, results: &mut Value) {
        results["arrived_packets"] = json!(self.arrived_packets);
        results["delivered_packets"] = json!(self.delivered_packets);
        results["stray_packets"] = json!(self.stray_packets);
        results["unbuffered_packets"] = json!(self.unbuffered_packets);
        results["refused_packets"] = json!(self.refused_packets);
        results["device_dropped_packets"] = json!(self.device_dropped_packets);
        results["unread_packets"] = json!(self.unread_packets);
    }
}

/// A connection that had a flow, for results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) flow: u32,
    pub(crate) key: FlowKey,
}

/// What each of `seen` got.
pub(super) fn connections(seen: &[Seen], setup: &Setup, outcome: &Outcome) -> Vec<Value> {
    let statistics = outcome.summary.statistics();
    let window = statistics.until.since(statistics.since).as_secs_f64();
    let per_second = |bytes: u64| if window > 0.0 { bytes as f64 * 8.0 / window } else { 0.0 };
    seen.iter()
        .map(|one| {
            let counters = &statistics.flows[2 * one.flow as usize];
            let sink = &statistics.sinks[one.flow as usize][0];
            let delay = (sink.received_packets > 0)
                .then(|| sink.delay_nanos as f64 / 1e6 / sink.received_packets as f64);
            // Of the scenario, if it is one of those.
            let flow = setup.own.iter().find(|own| own.flow == one.flow);
            let flow = flow.map(|own| &setup.scenario.flows[own.flow as usize].name);
            json!({
                "flow": flow,
                "protocol": protocol_name(one.key.protocol.0),
                "source": address::to_ip(one.key.source),
                "source_port": one.key.source_port,
                "destination": address::to_ip(one.key.destination),
                "destination_port": one.key.destination_port,
                "throughput_bps": per_second(sink.received_bytes),
                "sent_packets": counters.sent_packets,
                "received_packets": sink.received_packets,
                "lost_packets": counters.lost_packets,
                "marked_packets": counters.marked_packets,
                "delay_ms_mean": delay,
            })
        })
        .collect()
}

pub(crate) fn protocol_name(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        other => other.to_string(),
    }
}

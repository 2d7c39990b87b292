//! What is only in the results of an emulation: what came and went.

use serde_json::{Value, json};

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
    /// Packets larger than any that the hosts were set up for: they did not enter.
    pub oversized_packets: u64,
    /// Answers to hosts whose packets could not go on: time exceeded, packet too big. They are among those delivered.
    pub answers: u64,
    /// Datagrams that came in at one instant with others, since their host let its device take them apart.
    pub burst_datagrams: u64,
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
        results["oversized_packets"] = json!(self.oversized_packets);
        results["answers"] = json!(self.answers);
        results["burst_datagrams"] = json!(self.burst_datagrams);
    }
}

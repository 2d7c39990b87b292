//! The connections of real hosts, and what each of them got, although several may have the same flow one after the other.

use std::collections::HashMap;

use serde_json::{Value, json};
use tidegate_engine::{Observer, Simulation};
use tidegate_lab::Outcome;
use tidegate_packet::FlowKey;
use tidegate_units::Time;

use crate::address;
use crate::setup::Setup;

/// Connections that are kept in results; of further ones there is a count.
const CONNECTIONS_MAX: usize = 10_000;

/// What a flow has counted, or a connection of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) sent_packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) marked_packets: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    delay_nanos: u128,
}

impl Totals {
    /// What flow number `flow` of `simulation` has counted since the statistics began.
    pub(crate) fn of_flow<O: Observer>(simulation: &Simulation<O>, flow: usize) -> Self {
        let counters = simulation.flow_counters(flow);
        let mut totals = Self {
            sent_packets: counters.sent_packets,
            lost_packets: counters.lost_packets,
            marked_packets: counters.marked_packets,
            ..Self::default()
        };
        for sink in simulation.sink_counters(flow) {
            totals.received_packets += sink.received_packets;
            totals.received_bytes += sink.received_bytes;
            totals.delay_nanos += sink.delay_nanos;
        }
        totals
    }

    /// Each of its numbers with that of `other`.
    fn with(self, other: Self, join: impl Fn(u128, u128) -> u128) -> Self {
        let small = |a: u64, b: u64| join(u128::from(a), u128::from(b)) as u64;
        Self {
            sent_packets: small(self.sent_packets, other.sent_packets),
            lost_packets: small(self.lost_packets, other.lost_packets),
            marked_packets: small(self.marked_packets, other.marked_packets),
            received_packets: small(self.received_packets, other.received_packets),
            received_bytes: small(self.received_bytes, other.received_bytes),
            delay_nanos: join(self.delay_nanos, other.delay_nanos),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, u128::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, u128::saturating_sub)
    }
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(crate) key: FlowKey,
    /// The flow that it has, or had last.
    pub(crate) flow: u32,
    /// While it has the flow: since when, and what the flow had counted then.
    since: Option<(Time, Totals)>,
    /// What it got while it had flows before.
    earlier: Totals,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    list: Vec<Connection>,
    by_key: HashMap<FlowKey, usize>,
    /// By flow: the connection that has it.
    of_flow: HashMap<u32, usize>,
    /// When the statistics begin.
    statistics_since: Time,
    left_out: u64,
}

impl Connections {
    pub(super) fn new(statistics_since: Time) -> Self {
        Self { statistics_since, ..Self::default() }
    }

    /// From `now` on connection `key` has `flow`, which has counted `counted` until now: for the connection that had it.
    pub(super) fn begin(&mut self, key: FlowKey, flow: u32, now: Time, counted: Totals) {
        if let Some(old) = self.of_flow.remove(&flow) {
            self.end(old, counted);
        }
        let number = match self.by_key.get(&key) {
            Some(&number) => number,
            None if self.list.len() == CONNECTIONS_MAX => {
                self.left_out += 1;
                return;
            }
            None => {
                self.list.push(Connection { key, flow, since: None, earlier: Totals::default() });
                self.by_key.insert(key, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        let connection = &mut self.list[number];
        (connection.flow, connection.since) = (flow, Some((now, counted)));
        self.of_flow.insert(flow, number);
    }

    fn end(&mut self, number: usize, counted: Totals) {
        let total = self.total(&self.list[number], counted);
        let connection = &mut self.list[number];
        (connection.earlier, connection.since) = (total, None);
    }

    /// What `connection` got in all, when its flow has counted `counted`.
    fn total(&self, connection: &Connection, counted: Totals) -> Totals {
        match connection.since {
            // Since then the counters have begun again.
            Some((since, _)) if since < self.statistics_since => counted,
            Some((_, before)) => connection.earlier.plus(counted.minus(before)),
            None => connection.earlier,
        }
    }

    /// Each connection and what it got, `counted` by flow.
    pub(crate) fn totals(
        &self,
        counted: impl Fn(usize) -> Totals,
    ) -> impl Iterator<Item = (&Connection, Totals)> {
        self.list
            .iter()
            .map(move |connection| (connection, self.total(connection, counted(connection.flow as usize))))
    }

    /// Connections of which nothing is kept.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What each got, for results.
    pub(super) fn to_json(&self, setup: &Setup, outcome: &Outcome) -> Vec<Value> {
        let statistics = outcome.summary.statistics();
        let window = statistics.until.since(statistics.since).as_secs_f64();
        let per_second = |bytes: u64| if window > 0.0 { bytes as f64 * 8.0 / window } else { 0.0 };
        let counted = |flow: usize| {
            let (counters, sink) = (&statistics.flows[2 * flow], &statistics.sinks[flow][0]);
            Totals {
                sent_packets: counters.sent_packets,
                lost_packets: counters.lost_packets,
                marked_packets: counters.marked_packets,
                received_packets: sink.received_packets,
                received_bytes: sink.received_bytes,
                delay_nanos: sink.delay_nanos,
            }
        };
        let to_json = |(one, total): (&Connection, Totals)| {
            let delay = (total.received_packets > 0)
                .then(|| total.delay_nanos as f64 / 1e6 / total.received_packets as f64);
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
                "throughput_bps": per_second(total.received_bytes),
                "sent_packets": total.sent_packets,
                "received_packets": total.received_packets,
                "lost_packets": total.lost_packets,
                "marked_packets": total.marked_packets,
                "delay_ms_mean": delay,
            })
        };
        self.totals(counted).map(to_json).collect()
    }
}

/// What people call the protocol with this number.
pub(crate) fn protocol_name(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_packet::{Address, Headers, Protocol};

    use super::*;

    fn key(source_port: u16) -> FlowKey {
        let (source, destination) = (Address::V4([10, 0, 0, 1]), Address::V4([10, 0, 0, 2]));
        Headers::best_effort(Protocol::UDP, (source, source_port), (destination, 9)).flow_key()
    }

    fn sent(packets: u64) -> Totals {
        Totals { sent_packets: packets, ..Totals::default() }
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn packets(connections: &Connections, counted: u64) -> Vec<(u16, u64)> {
        connections
            .totals(|_| sent(counted))
            .map(|(one, total)| (one.key.source_port, total.sent_packets))
            .collect()
    }

    #[test]
    fn a_flow_that_goes_to_another_connection_closes_the_first() {
        let mut connections = Connections::new(Time::ZERO);
        connections.begin(key(1), 7, at(0), sent(0));
        connections.begin(key(2), 7, at(20), sent(100));
        assert_eq!(packets(&connections, 130), [(1, 100), (2, 30)]);
        connections.begin(key(1), 7, at(40), sent(130));
        assert_eq!(packets(&connections, 135), [(1, 105), (2, 30)], "it comes back as the same one");
    }

    #[test]
    fn what_came_before_the_statistics_is_not_counted() {
        let mut connections = Connections::new(at(10));
        connections.begin(key(1), 7, at(1), sent(40));
        // The counters of the flow began again at 10 s.
        assert_eq!(packets(&connections, 5), [(1, 5)]);
        connections.begin(key(2), 7, at(30), sent(5));
        assert_eq!(packets(&connections, 6), [(1, 5), (2, 1)]);
    }

    #[test]
    fn their_number_has_a_bound() {
        let mut connections = Connections::new(Time::ZERO);
        for number in 0..CONNECTIONS_MAX + 3 {
            let key = FlowKey { destination_port: (number >> 8) as u16, ..key(number as u16) };
            connections.begin(key, 7, at(0), sent(0));
        }
        assert_eq!((packets(&connections, 0).len(), connections.left_out()), (CONNECTIONS_MAX, 3));
    }
}

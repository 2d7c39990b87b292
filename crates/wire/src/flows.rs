//! Which flow of the simulation a real packet belongs to.
//!
//! The simulation numbers its flows when it is built. So each ordered pair of real hosts has a bounded number of flows, and
//! the connections between the two take one each as they appear. A flow that was silent long enough serves another
//! connection; while none is, new connections share, by hash.
//!
//! A flow of the scenario from one real host to another is theirs to send ([`OwnFlow`]): the connection with its source port
//! is that flow, and what comes back to that port are its acknowledgments.

use std::collections::HashMap;
use std::hash::BuildHasher;

use tidegate_mechanism::random::{KeyedHash, Seed};
use tidegate_packet::{Address, FlowKey, Headers, Protocol};
use tidegate_units::{Span, Time};

use crate::ip::Fragment;

/// So long a flow must be silent before it serves another connection: longer than any packet is under way.
const REUSE_AFTER: Span = Span::from_secs(10);
/// Packets in parts of which it is known to which flow they belong: a power of two. Hosts send the parts of one in a row.
const FRAGMENTED_MAX: usize = 256;

/// A flow of the scenario that real hosts send and receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnFlow {
    /// Its number.
    pub flow: u32,
    /// Which of the real hosts sends it.
    pub from: u32,
    /// Which receives it.
    pub to: u32,
    /// The protocol that carries it.
    pub protocol: Protocol,
    /// The port that it is sent from.
    pub source_port: u16,
}

/// What tells a packet of an [`OwnFlow`]: hosts, protocol and the port of the flow, at which end it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Claim {
    from: u32,
    to: u32,
    protocol: u8,
    port: u16,
    is_source: bool,
}

/// See the module.
#[derive(Debug)]
pub struct FlowTable {
    hosts: u32,
    per_pair: u32,
    /// Number of the first flow among those of the simulation.
    first: u32,
    by_key: HashMap<FlowKey, u32, KeyedHash>,
    hash: KeyedHash,
    flows: Vec<Entry>,
    /// The flow that a claim stands for, and the connection that it serves now.
    claims: HashMap<Claim, (u32, Option<FlowKey>), KeyedHash>,
    /// By the hash of a packet in parts: which it is, and the flow of its first part.
    fragmented: Box<[Option<(Fragmented, u32)>]>,
}

/// What tells a packet that comes in parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Fragmented {
    source: Address,
    destination: Address,
    protocol: Protocol,
    identification: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: Option<FlowKey>,
    last: Time,
}

/// What became of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assigned {
    /// The connection has this flow.
    Known(u32),
    /// This flow is the connection's from now on.
    New(u32),
    /// This flow serves the connection along with another.
    Shared(u32),
}

impl Assigned {
    /// Its number.
    pub const fn flow(self) -> u32 {
        match self {
            Self::Known(flow) | Self::New(flow) | Self::Shared(flow) => flow,
        }
    }
}

impl FlowTable {
    /// For `hosts` real hosts, `per_pair` flows for each ordered pair, numbered from `first`; then one for the acknowledgments
    /// of each of `own`.
    pub fn new(hosts: u32, per_pair: u32, first: u32, own: &[OwnFlow]) -> Self {
        let flows = vec![Entry::default(); (hosts * hosts.saturating_sub(1) * per_pair) as usize];
        let hash = KeyedHash::new(Seed(0));
        let by_key = HashMap::with_capacity_and_hasher(flows.len(), hash);
        let mut claims = HashMap::with_capacity_and_hasher(2 * own.len(), hash);
        for (one, acknowledgments) in own.iter().zip(first + flows.len() as u32..) {
            let OwnFlow { from, to, source_port: port, protocol: Protocol(protocol), flow } = *one;
            claims.insert(Claim { from, to, protocol, port, is_source: true }, (flow, None));
            let back = Claim { from: to, to: from, protocol, port, is_source: false };
            claims.insert(back, (acknowledgments, None));
        }
        Self {
            hosts,
            per_pair,
            first,
            by_key,
            hash,
            flows,
            claims,
            fragmented: [None; FRAGMENTED_MAX].into(),
        }
    }

    /// The pairs of hosts, each as often as it has flows, in the order of their numbers.
    pub fn ends(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (hosts, per_pair) = (self.hosts, self.per_pair);
        (0..hosts)
            .flat_map(move |from| (0..hosts).filter(move |&to| to != from).map(move |to| (from, to)))
            .flat_map(move |pair| (0..per_pair).map(move |_| pair))
    }

    /// The flow of a packet with `headers` from host `from` to another one, `to`; of a `fragment` that of the first one, which
    /// has the ports.
    pub fn assign(
        &mut self,
        from: u32,
        to: u32,
        headers: &Headers,
        fragment: Option<Fragment>,
        now: Time,
    ) -> Assigned {
        let Some(fragment) = fragment else { return self.assign_whole(from, to, headers, now) };
        let of = Fragmented {
            source: headers.source,
            destination: headers.destination,
            protocol: headers.protocol,
            identification: fragment.identification,
        };
        let slot = self.hash.hash_one(of) as usize & (FRAGMENTED_MAX - 1);
        if !fragment.is_first
            && let Some((_, flow)) = self.fragmented[slot].filter(|(known, _)| *known == of)
        {
            return Assigned::Known(flow);
        }
        let assigned = self.assign_whole(from, to, headers, now);
        if fragment.is_first {
            self.fragmented[slot] = Some((of, assigned.flow()));
        }
        assigned
    }

    fn assign_whole(&mut self, from: u32, to: u32, headers: &Headers, now: Time) -> Assigned {
        let key = headers.flow_key();
        if let Some(&flow) = self.by_key.get(&key) {
            if let Some(entry) = flow.checked_sub(self.first).and_then(|row| self.flows.get_mut(row as usize))
            {
                entry.last = now;
            }
            return Assigned::Known(flow);
        }
        if let Some(flow) = self.claim(from, to, headers) {
            return Assigned::New(flow);
        }
        let pair = from * (self.hosts - 1) + to - u32::from(to > from);
        let start = pair * self.per_pair;
        let range = start as usize..(start + self.per_pair) as usize;
        let is_idle = |entry: &Entry| entry.key.is_none() || now.since(entry.last) >= REUSE_AFTER;
        // A scan of a short row, for the first packet of a connection only (or for each while connections share).
        let idle = self.flows[range].iter().enumerate().filter(|(_, entry)| is_idle(entry));
        let Some((position, _)) = idle.min_by_key(|(_, entry)| (entry.key.is_some(), entry.last)) else {
            return Assigned::Shared(
                self.first + start + (self.hash.hash_one(key) % u64::from(self.per_pair)) as u32,
            );
        };
        let flow = start + position as u32;
        if let Some(old) = self.flows[flow as usize].key.replace(key) {
            self.by_key.remove(&old);
        }
        self.flows[flow as usize].last = now;
        self.by_key.insert(key, self.first + flow);
        Assigned::New(self.first + flow)
    }

    /// The flow of the scenario that a packet with `headers` belongs to; from now on the connection is known.
    fn claim(&mut self, from: u32, to: u32, headers: &Headers) -> Option<u32> {
        let protocol = headers.protocol.0;
        let ends = [(headers.source_port, true), (headers.destination_port, false)];
        let claim = ends.map(|(port, is_source)| Claim { from, to, protocol, port, is_source });
        let claim = claim.into_iter().find(|claim| self.claims.contains_key(claim))?;
        let (flow, serves) = self.claims.get_mut(&claim)?;
        let key = headers.flow_key();
        // One connection at a time, or their number would have no bound.
        if let Some(old) = serves.replace(key) {
            self.by_key.remove(&old);
        }
        self.by_key.insert(key, *flow);
        Some(*flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(source_port: u16) -> Headers {
        Headers::best_effort(
            Protocol::UDP,
            (Address::V4([10, 0, 0, 1]), source_port),
            (Address::V4([10, 0, 0, 3]), 5201),
        )
    }
    const fn at(secs: u64) -> Time {
        Time::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn fragments_stay_with_their_first() {
        let mut table = FlowTable::new(2, 4, 0, &[]);
        let part = |identification, is_first| Some(Fragment { identification, is_first });
        let without_ports = Headers { source_port: 0, destination_port: 0, ..headers(1) };
        assert_eq!(table.assign(0, 1, &headers(1), part(7, true), at(0)), Assigned::New(0));
        assert_eq!(table.assign(0, 1, &headers(2), part(8, true), at(0)), Assigned::New(1));
        assert_eq!(table.assign(0, 1, &without_ports, part(7, false), at(0)), Assigned::Known(0));
        assert_eq!(table.assign(0, 1, &without_ports, part(8, false), at(0)), Assigned::Known(1));
        assert_eq!(
            table.assign(0, 1, &without_ports, part(9, false), at(0)),
            Assigned::New(2),
            "no first one"
        );
    }

    #[test]
    fn a_connection_whose_flow_label_changes_stays_one() {
        let mut table = FlowTable::new(2, 4, 0, &[]);
        let (source, destination) = (Address::V6([1; 16]), Address::V6([2; 16]));
        let labelled = |flow_label| Headers { source, destination, flow_label, ..headers(1) };
        assert_eq!(table.assign(0, 1, &labelled(5), None, at(0)), Assigned::New(0));
        assert_eq!(table.assign(0, 1, &labelled(6), None, at(0)), Assigned::Known(0));
        let without_ports = |label| Headers { source_port: 0, destination_port: 0, ..labelled(label) };
        assert_eq!(table.assign(0, 1, &without_ports(5), None, at(0)), Assigned::New(1), "all there is");
        assert_eq!(table.assign(0, 1, &without_ports(6), None, at(0)), Assigned::New(2));
    }

    #[test]
    fn each_pair_has_its_own_flows() {
        let mut table = FlowTable::new(3, 2, 100, &[]);
        let ends: Vec<_> = table.ends().collect();
        assert_eq!(
            ends,
            [(0, 1), (0, 1), (0, 2), (0, 2), (1, 0), (1, 0), (1, 2), (1, 2), (2, 0), (2, 0), (2, 1), (2, 1)]
        );
        for (number, (from, to)) in ends.into_iter().enumerate() {
            let port = number as u16;
            assert_eq!(
                table.assign(from, to, &headers(port), None, at(0)),
                Assigned::New(100 + number as u32)
            );
        }
    }

    #[test]
    fn connections_share_when_there_are_too_many_and_silent_ones_give_way() {
        let mut table = FlowTable::new(2, 2, 0, &[]);
        assert_eq!(table.assign(0, 1, &headers(1), None, at(0)), Assigned::New(0));
        assert_eq!(table.assign(0, 1, &headers(2), None, at(1)), Assigned::New(1));
        assert_eq!(table.assign(0, 1, &headers(1), None, at(5)), Assigned::Known(0));
        assert!(matches!(table.assign(0, 1, &headers(3), None, at(6)), Assigned::Shared(0 | 1)));
        assert_eq!(table.assign(0, 1, &headers(3), None, at(11)), Assigned::New(1));
        assert!(matches!(table.assign(0, 1, &headers(2), None, at(12)), Assigned::Shared(_)));
        assert_eq!(table.assign(0, 1, &headers(1), None, at(13)), Assigned::Known(0));
    }

    #[test]
    fn a_connection_from_the_port_of_a_flow_is_that_flow() {
        let own = OwnFlow { flow: 7, from: 0, to: 1, protocol: Protocol::UDP, source_port: 1031 };
        let mut table = FlowTable::new(2, 2, 10, &[own]);
        assert_eq!(table.assign(0, 1, &headers(1031), None, at(0)), Assigned::New(7));
        assert_eq!(table.assign(0, 1, &headers(1031), None, at(30)), Assigned::Known(7));
        assert_eq!(
            table.assign(1, 0, &headers(1031).reversed(), None, at(0)),
            Assigned::New(14),
            "acknowledgments"
        );
        assert_eq!(table.assign(0, 1, &headers(1032), None, at(0)), Assigned::New(10), "another port");
        let tcp = Headers { protocol: Protocol::TCP, ..headers(1031) };
        assert_eq!(table.assign(0, 1, &tcp, None, at(0)), Assigned::New(11), "another protocol");
        let next = Headers { destination_port: 5202, ..headers(1031) };
        assert_eq!(
            table.assign(0, 1, &next, None, at(40)),
            Assigned::New(7),
            "the next connection of the flow"
        );
        assert_eq!(table.assign(0, 1, &next, None, at(41)), Assigned::Known(7));
    }
}

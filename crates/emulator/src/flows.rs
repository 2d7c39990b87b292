//! Which flow of the simulation a real packet belongs to.
//!
//! The simulation numbers its flows when it is built. So each ordered pair of real hosts has a bounded number of flows, and
//! the connections between the two take one each as they appear. A flow that was silent long enough serves another
//! connection; while none is, new connections share, by hash.

use std::collections::HashMap;
use std::hash::BuildHasher;

use tidegate_mechanism::random::{KeyedHash, Seed};
use tidegate_packet::{FlowKey, Headers};
use tidegate_units::{Span, Time};

/// So long a flow must be silent before it serves another connection: longer than any packet is under way.
const REUSE_AFTER: Span = Span::from_secs(10);

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

impl FlowTable {
    /// For `hosts` real hosts, `per_pair` flows for each ordered pair, numbered from `first`.
    pub fn new(hosts: u32, per_pair: u32, first: u32) -> Self {
        let flows = vec![Entry::default(); (hosts * hosts.saturating_sub(1) * per_pair) as usize];
        let hash = KeyedHash::new(Seed(0));
        let by_key = HashMap::with_capacity_and_hasher(flows.len(), hash);
        Self { hosts, per_pair, first, by_key, hash, flows }
    }

    /// The pairs of hosts, each as often as it has flows, in the order of their numbers.
    pub fn ends(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (hosts, per_pair) = (self.hosts, self.per_pair);
        (0..hosts)
            .flat_map(move |from| (0..hosts).filter(move |&to| to != from).map(move |to| (from, to)))
            .flat_map(move |pair| (0..per_pair).map(move |_| pair))
    }

    /// The flow of a packet with `headers` from host `from` to another one, `to`.
    pub fn assign(&mut self, from: u32, to: u32, headers: &Headers, now: Time) -> Assigned {
        let key = headers.flow_key();
        if let Some(&flow) = self.by_key.get(&key) {
            self.flows[flow as usize].last = now;
            return Assigned::Known(self.first + flow);
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
        self.by_key.insert(key, flow);
        Assigned::New(self.first + flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_packet::{Address, Dscp, Ecn, Protocol};

    fn headers(source_port: u16) -> Headers {
        Headers {
            source: Address::V4([10, 0, 0, 1]),
            destination: Address::V4([10, 0, 0, 3]),
            flow_label: 0,
            protocol: Protocol::UDP,
            source_port,
            destination_port: 9,
            dscp: Dscp::BEST_EFFORT,
            ecn: Ecn::NotEct,
        }
    }
    const fn at(secs: u64) -> Time {
        Time::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn each_pair_has_its_own_flows() {
        let mut table = FlowTable::new(3, 2, 100);
        let ends: Vec<_> = table.ends().collect();
        assert_eq!(
            ends,
            [(0, 1), (0, 1), (0, 2), (0, 2), (1, 0), (1, 0), (1, 2), (1, 2), (2, 0), (2, 0), (2, 1), (2, 1)]
        );
        for (number, (from, to)) in ends.into_iter().enumerate() {
            let port = number as u16;
            assert_eq!(table.assign(from, to, &headers(port), at(0)), Assigned::New(100 + number as u32));
        }
    }

    #[test]
    fn connections_share_when_there_are_too_many_and_silent_ones_give_way() {
        let mut table = FlowTable::new(2, 2, 0);
        assert_eq!(table.assign(0, 1, &headers(1), at(0)), Assigned::New(0));
        assert_eq!(table.assign(0, 1, &headers(2), at(1)), Assigned::New(1));
        assert_eq!(table.assign(0, 1, &headers(1), at(5)), Assigned::Known(0));
        assert!(matches!(table.assign(0, 1, &headers(3), at(6)), Assigned::Shared(0 | 1)));
        assert_eq!(table.assign(0, 1, &headers(3), at(11)), Assigned::New(1));
        assert!(matches!(table.assign(0, 1, &headers(2), at(12)), Assigned::Shared(_)));
        assert_eq!(table.assign(0, 1, &headers(1), at(13)), Assigned::Known(0));
    }
}

//! Which queue a flow has in a tin, and which hosts it counts for: sets of places, as for the queues of a flow in `flow_queueing`, but
//! with a table of hosts on either side, whose flows with more than a quantum to send are counted.
//!
//! Source: Linux, `sch_cake.c` (`cake_hash`); Høiland-Jørgensen, Täht & Morton, "Piece of CAKE" (LANMAN 2018), section III.
//! Deviations:
//! - Tags have 64 bits, not 32.

use alloc::vec;
use alloc::vec::Vec;

use tidegate_packet::{Address, Packet, Sink};

use super::config::{CakeConfig, CakeFlows};
use crate::random::{KeyedHash, Seed};
use crate::schedule::BinHash;

/// A host that sends, or one that receives.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tag: u64,
    /// Its bulk flows.
    bulk: u32,
}

/// The numbers by which a packet is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub(super) flow: u64,
    hosts: [u64; 2],
}

/// What a packet's flow and hosts are to queues.
#[derive(Clone, Debug)]
pub(super) struct Classifier {
    hash: KeyedHash,
    kind: BinHash,
    isolate: CakeFlows,
}

impl Classifier {
    pub(super) fn new(config: &CakeConfig, seed: Seed) -> Self {
        Self { hash: KeyedHash::new(seed), kind: config.hash, isolate: config.isolate }
    }

    fn of(&self, number: u64) -> u64 {
        match self.kind {
            BinHash::Keyed => self.hash.of(number),
            BinHash::Modulo => number,
        }
    }

    fn of_address(&self, address: Address) -> u64 {
        match address {
            Address::V4(octets) => self.of(u64::from(u32::from_be_bytes(octets))),
            Address::V6(octets) => {
                let number = u128::from_be_bytes(octets);
                self.of(self.of((number >> 64) as u64) ^ number as u64)
            }
        }
    }

    /// Of a packet; where the world knows no hosts, each flow has its own.
    #[inline]
    pub(super) fn keys(&self, packet: &Packet, out: &impl Sink) -> Keys {
        let flow = self.of(u64::from(packet.flow.0));
        if matches!(self.isolate, CakeFlows::Flowblind | CakeFlows::Flows) {
            return Keys { flow, hosts: [0; 2] };
        }
        let hosts = out.hosts(packet).map_or([flow; 2], |(source, destination)| {
            [self.of_address(source), self.of_address(destination)]
        });
        let flow = match self.isolate {
            CakeFlows::SrcHost => hosts[0],
            CakeFlows::DstHost => hosts[1],
            // By their numbers both have to count where places are powers of two.
            CakeFlows::Hosts if self.kind == BinHash::Modulo => {
                hosts[0].wrapping_mul(65_537).wrapping_add(hosts[1])
            }
            CakeFlows::Hosts => self.of(hosts[0].wrapping_shl(16).wrapping_add(hosts[1])),
            _ => flow,
        };
        Keys { flow, hosts }
    }

    /// Where the place of `key` is among so many, before any choice.
    fn direct(&self, key: u64, places: usize) -> usize {
        match self.kind {
            BinHash::Keyed => (((key >> 32) * places as u64) >> 32) as usize,
            BinHash::Modulo => (key % places as u64) as usize,
        }
    }
}

/// The hosts that a flow counts for, by their places.
pub(super) type HostsOf = [u32; 2];

/// The tags of the queues of a tin, and its hosts.
#[derive(Clone, Debug)]
pub(super) struct Places {
    tags: Vec<u64>,
    ways: usize,
    /// Those that send and those that receive; empty where they do not count.
    hosts: [Vec<Host>; 2],
}

/// Where a packet goes, and which hosts its flow counts for if that is to change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) queue: usize,
    pub(super) moves: bool,
}

/// The places of a set, `direct` first.
fn set_of(direct: usize, ways: usize) -> impl Iterator<Item = usize> + Clone {
    let inner = direct % ways;
    (0..ways).map(move |way| direct - inner + (inner + way) % ways)
}

impl Places {
    pub(super) fn new(config: &CakeConfig) -> Self {
        let (counts_sources, counts_destinations) = match config.isolate {
            CakeFlows::DualSrcHost => (true, false),
            CakeFlows::DualDstHost => (false, true),
            CakeFlows::TripleIsolate => (true, true),
            _ => (false, false),
        };
        let queues = config.queues as usize;
        let table = |counts| if counts { vec![Host::default(); queues] } else { Vec::new() };
        Self {
            tags: vec![0; queues],
            ways: config.ways as usize,
            hosts: [table(counts_sources), table(counts_destinations)],
        }
    }

    /// The queue of a flow: in its set the one that it had, or one that is not `is_used`, or else the one of its hash, with another flow.
    #[inline]
    pub(super) fn find(
        &mut self,
        classifier: &Classifier,
        keys: &Keys,
        is_used: impl Fn(usize) -> bool,
    ) -> Found {
        if classifier.isolate == CakeFlows::Flowblind {
            return Found { queue: 0, moves: false };
        }
        let direct = classifier.direct(keys.flow, self.tags.len());
        if self.tags[direct] == keys.flow {
            return Found { queue: direct, moves: !is_used(direct) };
        }
        let own = set_of(direct, self.ways).find(|&queue| self.tags[queue] == keys.flow);
        let queue =
            own.or_else(|| set_of(direct, self.ways).find(|&queue| !is_used(queue))).unwrap_or(direct);
        self.tags[queue] = keys.flow;
        Found { queue, moves: own.is_none() || !is_used(queue) }
    }

    /// The places of the hosts of a packet, which have them from now on.
    pub(super) fn take_hosts(&mut self, classifier: &Classifier, keys: &Keys) -> HostsOf {
        let mut found = HostsOf::default();
        for (side, table) in self.hosts.iter_mut().enumerate().filter(|(_, table)| !table.is_empty()) {
            let key = keys.hosts[side];
            let direct = classifier.direct(key, table.len());
            let own = set_of(direct, self.ways).find(|&host| table[host].tag == key);
            let free = || set_of(direct, self.ways).find(|&host| table[host].bulk == 0);
            let host = own.or_else(free).unwrap_or(direct);
            table[host].tag = key;
            found[side] = host as u32;
        }
        found
    }

    fn counts(&mut self, of: HostsOf) -> impl Iterator<Item = &mut u32> {
        let sides = self.hosts.iter_mut().zip(of);
        sides.filter_map(|(table, host)| table.get_mut(host as usize).map(|host| &mut host.bulk))
    }

    /// A flow of these hosts has more than a quantum to send.
    #[inline]
    pub(super) fn add_bulk(&mut self, of: HostsOf) {
        self.counts(of).for_each(|bulk| *bulk += 1);
    }

    /// One has not any more.
    #[inline]
    pub(super) fn remove_bulk(&mut self, of: HostsOf) {
        self.counts(of).for_each(|bulk| *bulk = bulk.saturating_sub(1));
    }

    /// Among how many flows the quantum of a flow of these hosts is shared: those of the busier one.
    #[inline]
    pub(super) fn load(&self, of: HostsOf) -> u32 {
        let loads = self.hosts.iter().zip(of).filter_map(|(table, host)| table.get(host as usize));
        loads.map(|host| host.bulk).fold(1, u32::max)
    }
}

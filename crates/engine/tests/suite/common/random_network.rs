//! Network Border Patrol on random networks, against max-min fairness.
//!
//! The networks are those of the specification: 5 to 15 routers, capacities of 10 to 200 Mb/s, delays of 1 to 20 ms, 5 to
//! 40 unresponsive flows, each with hosts and border routers of its own, 20 s, averages of the last 5 s. The ideal comes
//! from progressive filling over paths that are found here (Floyd and Warshall), not by the engine.

#![allow(dead_code, missing_docs, reason = "the test and the example use different parts of it")]

use tidegate_engine::{ApplicationSpec, LinkCounters, TransportSpec};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::nbp::{NbpConfig, RoundTrip};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::schedule::{DisciplineConfig, WfqConfig};
use tidegate_units::{BitRate, Limit, Span};

use super::{Net, direction, drop_tail, throughput_bps};

const DURATION: f64 = 20.0;
const WINDOW: f64 = 5.0;
/// What an unresponsive flow sends, as a multiple of the smallest capacity on its path: more than any share.
const OFFERED: f64 = 1.2;
const PACKET_BYTES: u32 = 1000;

/// A link between core routers, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub struct CoreLink {
    pub ends: [usize; 2],
    pub mbps: u64,
    pub delay: Span,
    /// For routing: so that no two paths are equal.
    pub cost: u32,
}

/// A random network.
#[derive(Clone, Debug)]
pub struct Topology {
    pub routers: usize,
    pub links: Vec<CoreLink>,
    /// From and to which router.
    pub flows: Vec<[usize; 2]>,
}

/// What one topology showed.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub topology: Topology,
    /// Directions of core links that each flow crosses: link and whether against its order of ends.
    pub paths: Vec<Vec<(usize, bool)>>,
    /// Max-min fair rates, bits per second.
    pub ideal: Vec<f64>,
    /// Rates received, bits per second.
    pub measured: Vec<f64>,
    /// Of the packets that arrived at core links, how many these dropped.
    pub core_loss: f64,
}

impl Outcome {
    /// |measured - ideal| / ideal of each flow.
    pub fn deviations(&self) -> Vec<f64> {
        self.measured
            .iter()
            .zip(&self.ideal)
            .map(|(measured, ideal)| (measured - ideal).abs() / ideal)
            .collect()
    }

    pub fn mean_deviation(&self) -> f64 {
        let deviations = self.deviations();
        deviations.iter().sum::<f64>() / deviations.len() as f64
    }

    /// Round-trip propagation of a flow's core path.
    pub fn core_rtt(&self, flow: usize) -> f64 {
        self.paths[flow].iter().map(|&(link, _)| 2.0 * self.topology.links[link].delay.as_secs_f64()).sum()
    }
}

impl Topology {
    pub fn random(seed: u64) -> Self {
        let mut random = Substream::new(Seed::for_component(seed, "maxmin.topology"));
        let mut between = |low: u32, high: u32| low + random.below(high - low + 1);
        let routers = between(5, 15) as usize;
        // A random tree, and half as many links again.
        let mut pairs: Vec<[usize; 2]> =
            (1..routers).map(|node| [between(0, node as u32 - 1) as usize, node]).collect();
        for _ in 0..routers / 2 {
            let pair = [between(0, routers as u32 - 1) as usize, between(0, routers as u32 - 1) as usize];
            let known = pairs.iter().any(|other| *other == pair || *other == [pair[1], pair[0]]);
            if pair[0] != pair[1] && !known {
                pairs.push(pair);
            }
        }
        let links = pairs
            .into_iter()
            .map(|ends| CoreLink {
                ends,
                mbps: u64::from(between(10, 200)),
                delay: Span::from_micros(u64::from(between(1_000, 20_000))),
                // Few hops first; among equals, chance.
                cost: 1_000_000 + between(0, 9_999),
            })
            .collect();
        let flows = (0..between(5, 40))
            .map(|_| {
                let from = between(0, routers as u32 - 1) as usize;
                let step = between(1, routers as u32 - 1) as usize;
                [from, (from + step) % routers]
            })
            .collect();
        Self { routers, links, flows }
    }

    /// The directions of links on the cheapest path of every flow.
    pub fn paths(&self) -> Vec<Vec<(usize, bool)>> {
        const FAR: u64 = u64::MAX / 4;
        let n = self.routers;
        let mut distance = vec![vec![FAR; n]; n];
        let mut first: Vec<Vec<Option<(usize, bool)>>> = vec![vec![None; n]; n];
        for (node, row) in distance.iter_mut().enumerate() {
            row[node] = 0;
        }
        for (index, link) in self.links.iter().enumerate() {
            for (against, [from, to]) in [(false, link.ends), (true, [link.ends[1], link.ends[0]])] {
                distance[from][to] = u64::from(link.cost);
                first[from][to] = Some((index, against));
            }
        }
        for via in 0..n {
            for from in 0..n {
                for to in 0..n {
                    let candidate = distance[from][via] + distance[via][to];
                    if candidate < distance[from][to] {
                        distance[from][to] = candidate;
                        first[from][to] = first[from][via];
                    }
                }
            }
        }
        let walk = |&[from, to]: &[usize; 2]| {
            let (mut at, mut path) = (from, Vec::new());
            while at != to {
                let (link, against) = first[at][to].expect("the network is connected");
                path.push((link, against));
                at = self.links[link].ends[usize::from(!against)];
            }
            path
        };
        self.flows.iter().map(walk).collect()
    }

    /// Progressive filling: all rates rise together; a flow stops when a link on its path is full.
    pub fn max_min_rates(&self, paths: &[Vec<(usize, bool)>]) -> Vec<f64> {
        let slot = |&(link, against): &(usize, bool)| link * 2 + usize::from(against);
        let mut room: Vec<f64> = self.links.iter().flat_map(|link| [link.mbps as f64 * 1e6; 2]).collect();
        let mut rates = vec![0.0; paths.len()];
        let mut rising: Vec<usize> = (0..paths.len()).collect();
        while !rising.is_empty() {
            let mut users = vec![0usize; room.len()];
            for &flow in &rising {
                paths[flow].iter().for_each(|hop| users[slot(hop)] += 1);
            }
            let share = |link: usize| room[link] / users[link] as f64;
            let step =
                (0..room.len()).filter(|&link| users[link] > 0).map(share).fold(f64::INFINITY, f64::min);
            let full: Vec<bool> =
                (0..room.len()).map(|link| users[link] > 0 && share(link) <= step * (1.0 + 1e-12)).collect();
            for (link, left) in room.iter_mut().enumerate() {
                *left -= step * users[link] as f64;
            }
            for &flow in &rising {
                rates[flow] += step;
            }
            rising.retain(|&flow| !paths[flow].iter().any(|hop| full[slot(hop)]));
        }
        rates
    }

    /// The network, under NBP with WFQ with `room` in every queue; the links of the core come first.
    fn build(&self, paths: &[Vec<(usize, bool)>], mechanism: EdgeConfig, room: Limit) -> Net {
        let fair = || DisciplineConfig::Wfq(WfqConfig { limit: Some(room), ..WfqConfig::default() });
        let mut net = Net::default();
        let core: Vec<String> = (0..self.routers).map(|router| format!("R{router}")).collect();
        for link in &self.links {
            let [a, b] = link.ends.map(|end| core[end].as_str());
            let mut spec = direction("1Gbit", "1ms", fair());
            spec.rate = BitRate::from_mbps(link.mbps);
            spec.delay = link.delay;
            net.link(a, b, spec);
            net.network.links.last_mut().unwrap().cost = link.cost;
        }
        let mut edges = Vec::new();
        for (index, (&[from, to], path)) in self.flows.iter().zip(paths).enumerate() {
            let [source, ingress, egress, sink] = ["hs", "I", "E", "hd"].map(|kind| format!("{kind}{index}"));
            let access = || direction("1Gbit", "100us", drop_tail(100));
            let border = || direction("1Gbit", "100us", fair());
            net.link(&source, &ingress, access());
            net.link(&ingress, &core[from], border());
            net.link(&core[to], &egress, border());
            net.link(&egress, &sink, access());
            let smallest = path.iter().map(|&(link, _)| self.links[link].mbps).min().expect("ends differ");
            let rate = BitRate::from_bps_f64(smallest as f64 * 1e6 * OFFERED);
            let application = ApplicationSpec::ConstantRate { rate, packet_bytes: PACKET_BYTES, jitter: 0.0 };
            net.flow(&source, &[&sink], TransportSpec::Udp { header_bytes: 28 }, application);
            edges.extend([ingress, egress]);
        }
        let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
        let core: Vec<&str> = core.iter().map(String::as_str).collect();
        net.domain(&edges, &core).mechanism = Some(mechanism);
        net
    }

    /// Simulates it with `seed`.
    pub fn run(self, seed: u64, mechanism: EdgeConfig) -> Outcome {
        self.run_with(seed, mechanism, Limit::Packets(100))
    }

    /// The same with `room` in every queue.
    pub fn run_with(self, seed: u64, mechanism: EdgeConfig, room: Limit) -> Outcome {
        let paths = self.paths();
        let ideal = self.max_min_rates(&paths);
        let statistics = self.build(&paths, mechanism, room).run(seed, DURATION - WINDOW, DURATION);
        let measured = (0..self.flows.len()).map(|flow| throughput_bps(&statistics, flow)).collect();
        let core = &statistics.links[..2 * self.links.len()];
        let sum = |of: fn(&LinkCounters) -> u64| core.iter().map(of).sum::<u64>() as f64;
        let core_loss =
            sum(|link| link.drops_by_reason.iter().sum()) / sum(|link| link.arrived_packets).max(1.0);
        Outcome { topology: self, paths, ideal, measured, core_loss }
    }
}

/// NBP that looks at the round trip of data.
pub fn nbp_by_data() -> EdgeConfig {
    EdgeConfig::Nbp(Box::new(NbpConfig { round_trip: RoundTrip::Data, ..NbpConfig::default() }))
}

/// NBP as by default.
pub fn nbp() -> EdgeConfig {
    EdgeConfig::Nbp(Box::default())
}

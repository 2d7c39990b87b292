//! A good division of a network: parts with as much to do as each other, that seldom have to meet.

use tidegate_units::{Span, Time};

use super::division::{self, Division, PARTS_MAX, Undivided};
use super::groups::Groups;
use crate::network::{Network, NodeKind};
use crate::simulation::Simulation;

/// Events of the beginning of the run from which work is judged, and windows of it.
const EVENTS: u64 = 250_000;
const WINDOWS: u32 = 300;
/// Delays that are tried as the least that is cut.
const THRESHOLDS_MAX: usize = 40;
/// What is done at a host with a packet that arrives, in packet-hops.
const HOST_HOPS: f64 = 2.0;
/// What it costs each of two parts that a packet goes from one to the other, in packet-hops. This and the next were fitted to what
/// `benches/cores.py` measured of S2 (no gain) and S4 (1.4).
pub(super) const CROSSING_HOPS: f64 = 0.7;
/// What a window costs beyond what happens in it, in packet-hops: a meeting, and caches that have to be filled again.
const WINDOW_HOPS: f64 = 80.0;
/// It pays to be so many times as fast, where there are so many events to handle: some tenths of a second, of which dividing the network
/// takes one.
const GAIN_MIN: f64 = 1.2;
pub(super) const EVENTS_MIN: f64 = 4e6;

pub(super) fn choose(
    network: &Network,
    seed: u64,
    horizon: Time,
    cores: usize,
) -> Result<Division, Undivided> {
    if let Some(obstacle) = division::obstacle(network) {
        return Err(obstacle);
    }
    let delays = division::delays_of_cuts(network);
    let mut thresholds: Vec<Span> = delays.iter().flatten().copied().collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    // The longest first.
    thresholds.reverse();
    thresholds.truncate(THRESHOLDS_MAX);
    if thresholds.is_empty() {
        return Err(Undivided::NoLongLink);
    }
    let work = Work::of_beginning(network, seed, horizon)?;
    let parts = cores.min(PARTS_MAX);
    let tried = thresholds.into_iter().filter_map(|least| {
        let groups = Groups::of(network, &delays, least, &work);
        groups.divide(parts).map(|of_node| judge(network, &delays, &work, of_node))
    });
    let best = tried.max_by(|one, other| one.gain.total_cmp(&other.gain)).ok_or(Undivided::NoLongLink)?;
    let Judged { of_node, mut gain, hops, window } = best;
    if gain >= GAIN_MIN {
        gain = rehearse(network, seed, horizon, &of_node, window);
    }
    if gain < GAIN_MIN {
        return Err(Undivided::DoesNotPay { gain, hops, window });
    }
    Division::new(network, &of_node)
}

/// What there is to do in each of `parts`, in packet-hops, if `passed` has packets by direction of a link, at its queue and at its end.
fn loads(network: &Network, passed: &[[f64; 2]], parts: usize, part: impl Fn(usize) -> usize) -> Vec<f64> {
    let mut loads = vec![0.0; parts];
    for (index, link) in network.links.iter().enumerate() {
        for reverse in [0, 1] {
            let [arrived, delivered] = passed[2 * index + reverse];
            let [from, to] = [link.ends[reverse], link.ends[1 - reverse]].map(|node| node.0 as usize);
            loads[part(from)] += arrived;
            if network.nodes[to].kind == NodeKind::Host {
                loads[part(to)] += HOST_HOPS * delivered;
            }
            if part(from) != part(to) {
                loads[part(from)] += CROSSING_HOPS * delivered;
                loads[part(to)] += CROSSING_HOPS * delivered;
            }
        }
    }
    loads
}

/// What has passed links since statistics began.
fn passed(simulation: &Simulation) -> Vec<[f64; 2]> {
    let tallies = simulation.links.iter().map(|link| &link.tally);
    tallies.map(|tally| [tally.arrived_packets() as f64, tally.delivered_packets() as f64]).collect()
}

/// What the beginning of a run was like.
pub(super) struct Work {
    passed: Vec<[f64; 2]>,
    /// By node, in packet-hops.
    pub(super) of_node: Vec<f64>,
    /// By link: packets in both directions.
    pub(super) of_link: Vec<f64>,
    /// How long it was.
    span: Span,
}

impl Work {
    /// Simulates the beginning.
    fn of_beginning(network: &Network, seed: u64, horizon: Time) -> Result<Self, Undivided> {
        // What cannot be built is told by whoever builds it in earnest.
        let mut simulation: Simulation =
            network.clone().build(seed, ()).map_err(|_| Undivided::Short { events: 0.0 })?;
        if simulation.run_until(horizon, EVENTS) {
            return Err(Undivided::Short { events: simulation.totals().events as f64 });
        }
        let part = simulation.now().as_secs_f64() / horizon.as_secs_f64();
        let events = simulation.totals().events as f64 / part;
        if events < EVENTS_MIN {
            return Err(Undivided::Short { events });
        }
        let passed = passed(&simulation);
        let of_link: Vec<f64> = passed.chunks(2).map(|ways| ways[0][1] + ways[1][1]).collect();
        let mut of_node = loads(network, &passed, network.nodes.len(), |node| node);
        // Here each node is a part of its own, and everything crosses.
        for (link, packets) in network.links.iter().zip(&of_link) {
            link.ends.iter().for_each(|end| of_node[end.0 as usize] -= CROSSING_HOPS * packets);
        }
        Ok(Self { passed, of_node, of_link, span: simulation.now().since(Time::ZERO) })
    }
}

/// A division, and what it is worth.
struct Judged {
    of_node: Vec<u8>,
    gain: f64,
    hops: f64,
    window: Span,
}

/// If what there is to do came evenly.
fn judge(network: &Network, delays: &[Option<Span>], work: &Work, of_node: Vec<u8>) -> Judged {
    let part = |node: usize| usize::from(of_node[node]);
    let parts = 1 + of_node.iter().copied().max().map_or(0, usize::from);
    let is_cut = |link: usize| {
        let [one, other] = network.links[link].ends;
        part(one.0 as usize) != part(other.0 as usize)
    };
    let cut = (0..delays.len()).filter(|&link| is_cut(link)).filter_map(|link| delays[link]);
    let window = cut.min().unwrap_or(Span::MAX);
    let windows = (work.span.as_secs_f64() / window.as_secs_f64()).max(1.0);
    let all: f64 = work.of_node.iter().sum();
    let greatest = loads(network, &work.passed, parts, part).into_iter().fold(0.0, f64::max);
    let gain = all / (greatest + windows * WINDOW_HOPS);
    Judged { of_node, gain, hops: all / windows, window }
}

/// How many times as fast it is in windows of `window`, in each of which all wait for the part with most to do: packets come in bursts, so
/// that it is another one each time.
fn rehearse(network: &Network, seed: u64, horizon: Time, of_node: &[u8], window: Span) -> f64 {
    let Ok(mut simulation): Result<Simulation, _> = network.clone().build(seed, ()) else { return 0.0 };
    // Connections have begun by then.
    simulation.run_until(horizon, EVENTS / 2);
    let parts = 1 + of_node.iter().copied().max().map_or(0, usize::from);
    let events = simulation.totals().events + 2 * EVENTS;
    let begun = passed(&simulation);
    let (mut before, mut longest) = (begun.clone(), 0.0);
    let since = |now: &[[f64; 2]], then: &[[f64; 2]]| -> Vec<[f64; 2]> {
        now.iter().zip(then).map(|(now, then)| [now[0] - then[0], now[1] - then[1]]).collect()
    };
    for _ in 0..WINDOWS {
        let end = simulation.now().saturating_add(window).min(horizon);
        simulation.run_until(end, u64::MAX);
        let after = passed(&simulation);
        let of_window = loads(network, &since(&after, &before), parts, |node| usize::from(of_node[node]));
        longest += of_window.into_iter().fold(0.0, f64::max) + WINDOW_HOPS;
        before = after;
        if end == horizon || simulation.totals().events > events {
            break;
        }
    }
    loads(network, &since(&before, &begun), 1, |_| 0)[0] / longest
}

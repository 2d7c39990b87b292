//! Where the fluids of a network go, and whether they can.

use tidegate_mechanism::fluid::FluidLaw;
use tidegate_mechanism::queue::ManagerConfig;
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_units::{Bytes, Span};

use super::HISTORY_MAX;
use crate::error::BuildError;
use crate::ids::{LinkId, NodeId};
use crate::link::DirectionSpec;
use crate::network::{Change, FollowState, Multipath, Network};
use crate::routing::{Path, Routing};

/// No step is shorter.
const STEP_MIN: Span = Span::from_micros(1);
/// An acknowledgment on the wire.
const ACK_BYTES: u64 = 40;

/// Where the fluids of a network go.
pub(crate) struct Ways {
    pub(super) paths: Vec<Path>,
    /// By fluid: the round trip without queues, in seconds.
    pub(super) rtts: Vec<f64>,
}

impl Ways {
    /// Those of `network`, if its fluids can be.
    pub(crate) fn of(network: &Network) -> Result<Self, BuildError> {
        let mut ways = Self { paths: Vec::new(), rtts: Vec::new() };
        if network.fluids.is_empty() {
            return Ok(ways);
        }
        let mut routing = Routing::new(network);
        let mut random = Substream::new(Seed(0));
        for fluid in &network.fluids {
            let impossible =
                |key: &'static str, why: String| BuildError::Fluid { flow: fluid.name.clone(), key, why };
            if network.multipath != Multipath::None || matches!(network.follows, Some(FollowState { .. })) {
                return Err(impossible("fluid", "a fluid has one way; leave `routing` out".to_owned()));
            }
            if network.domains.iter().any(|domain| domain.mechanism.is_some()) || !network.hops.is_empty() {
                let why =
                    "the edges and hops of domains control packets, and no fluid; leave their mechanisms out";
                return Err(impossible("fluid", why.to_owned()));
            }
            let mut path = |from: NodeId, to: NodeId| {
                routing.paths(from, to, Multipath::None, &mut random).into_iter().next().ok_or_else(|| {
                    BuildError::Unreachable {
                        flow: fluid.name.clone(),
                        from: network.nodes[from.0 as usize].name.clone(),
                        to: network.nodes[to.0 as usize].name.clone(),
                    }
                })
            };
            let there = path(fluid.from, fluid.to)?;
            let back = path(fluid.to, fluid.from)?;
            let mut rtt_s = 0.0;
            for (links, bytes) in [(&there, fluid.config.packet.get()), (&back, ACK_BYTES)] {
                for &link in links {
                    let spec = network.direction(link);
                    rtt_s += (spec.delay + spec.rate.span_of(bytes)).as_secs_f64();
                }
            }
            for &link in &there {
                if let Some(why) = unfit(network, link, fluid.config.packet) {
                    return Err(impossible("to", why));
                }
            }
            if let Some(given) = fluid.config.rtt {
                if given.as_secs_f64() < rtt_s {
                    let why = format!(
                        "a round trip of {given} is shorter than the links of its path are: {:.3} ms",
                        rtt_s * 1e3
                    );
                    return Err(impossible("rtt", why));
                }
                rtt_s = given.as_secs_f64();
            }
            let steps = fluid.config.steps;
            if rtt_s / f64::from(steps) < STEP_MIN.as_secs_f64() {
                let why = format!(
                    "a round trip of {:.3} us has no {steps} steps of {STEP_MIN}, which is the shortest; make its links \
                     longer, or `rtt`",
                    rtt_s * 1e6
                );
                return Err(impossible("fluid", why));
            }
            let others = ways.paths.iter().zip(&network.fluids);
            let unlike = others.filter(|(_, other)| other.config.packet != fluid.config.packet);
            for (crossed, other) in unlike {
                if let Some(link) = crossed.iter().find(|link| there.contains(link)) {
                    let why = format!(
                        "`{}` has packets of {} on link `{}`, where a queue counts fluids in packets of one size",
                        other.name,
                        other.config.packet,
                        network.links[link.index() as usize].name
                    );
                    return Err(impossible("packet", why));
                }
            }
            ways.paths.push(there);
            ways.rtts.push(rtt_s);
        }
        ways.require_history(network)?;
        Ok(ways)
    }

    /// All fluids move on by this: the shortest of what each asks for. None if there are none.
    pub(super) fn step(&self, network: &Network) -> Option<Span> {
        let wanted =
            network.fluids.iter().zip(&self.rtts).map(|(fluid, rtt_s)| rtt_s / f64::from(fluid.config.steps));
        Some(Span::from_secs_f64(wanted.reduce(f64::min)?).max(STEP_MIN))
    }

    /// What happened a round trip ago is kept step by step.
    fn require_history(&self, network: &Network) -> Result<(), BuildError> {
        let Some(step) = self.step(network) else { return Ok(()) };
        for (fluid, rtt_s) in network.fluids.iter().zip(&self.rtts) {
            if rtt_s / step.as_secs_f64() > HISTORY_MAX as f64 {
                let why = format!(
                    "a round trip of {:.0} ms is more than {HISTORY_MAX} steps of {step}, which the shortest round trip of \
                     a fluid asks for; make that one longer, or simulate one of them as packets",
                    rtt_s * 1e3
                );
                return Err(BuildError::Fluid { flow: fluid.name.clone(), key: "fluid", why });
            }
        }
        Ok(())
    }

    /// By direction of a link: the packets of the first fluid that crosses it, in which its law counts.
    pub(crate) fn packets(&self, network: &Network) -> Vec<Option<Bytes>> {
        if self.paths.is_empty() {
            return Vec::new();
        }
        let mut packets = vec![None; network.links.len() * 2];
        for (fluid, path) in network.fluids.iter().zip(&self.paths) {
            for link in path {
                packets[link.0 as usize].get_or_insert(fluid.config.packet);
            }
        }
        packets
    }
}

/// Why no fluid can cross `link`, if so.
fn unfit(network: &Network, link: LinkId, packet: Bytes) -> Option<String> {
    let spec = network.direction(link);
    let of_link = &network.links[link.index() as usize];
    let has_law = match &spec.queue {
        DisciplineConfig::Fifo(manager) => FluidLaw::new(manager, spec.rate, packet).is_some(),
        _ => false,
    };
    let is_moved =
        network.script.iter().any(|change| change.link == link && matches!(change.change, Change::Delay(_)));
    let why = if !has_law {
        match &spec.queue {
            DisciplineConfig::Fifo(ManagerConfig::Red(_) | ManagerConfig::Codel(_)) => {
                "has a queue with an option that no fluid has a law for; allowed: without `smoothing`, `flows_rtt`, `slope_rtt`, \
                 `ce_threshold`"
            }
            _ => "has a queue that no fluid has a law for; allowed: droptail, red, pi, codel",
        }
    } else if spec.trace.is_some() || spec.circuit.is_some() || spec.device.is_some() || of_link.half_duplex {
        "is no plain one; allowed: a rate, no trace, circuit, device or shared medium"
    } else if spec.loss.is_some() || spec.reorder.is_some() || spec.jitter.is_some() || spec.duplicate > 0.0 {
        "has a medium that does to packets what it does to no fluid; allowed: no loss, reorder, jitter or duplicate"
    } else if is_moved {
        "changes its delay, which a fluid does not see; allowed: events with a rate or a state"
    } else {
        return None;
    };
    Some(format!("link `{}` on its way {why}", of_link.name))
}

impl Network {
    pub(super) fn direction(&self, link: LinkId) -> &DirectionSpec {
        let spec = &self.links[link.index() as usize];
        if link.0.is_multiple_of(2) { &spec.forward } else { &spec.reverse }
    }
}

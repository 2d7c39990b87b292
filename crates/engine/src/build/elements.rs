//! Links, markers and borders, each with the random numbers of its name.

use std::collections::HashMap;

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::{self, BorderSite, PeerId};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_units::{Bytes, Time};

use crate::border::{Border, Clock};
use crate::ids::{LinkId, NodeId};
use crate::liar::Liar;
use crate::link::{DirectionSpec, FarEnd, Link, Medium, PortChoice};
use crate::marker::MarkerPoint;
use crate::nesting;
use crate::network::{DomainSpec, MarkerSpec, Network, NodeKind};
use crate::shared::Share;
use crate::simulation::hops;
use crate::world::Alarm;

/// `fluids`: by direction of a link, the packets of the fluid that crosses it; empty if there is none at all.
pub(super) fn build_links(
    network: &Network,
    seed: u64,
    choice: PortChoice,
    fluids: &[Option<Bytes>],
) -> Vec<Link> {
    let mut ports = vec![0u16; network.nodes.len()];
    let mut links = Vec::with_capacity(network.links.len() * 2);
    let mut media = 0;
    let hop_links = hops::links(network);
    let mtu_bytes = network.mtu_bytes();
    for (index, spec) in network.links.iter().enumerate() {
        let far_ports = spec.ends.map(|end| {
            let port = ports[end.0 as usize];
            ports[end.0 as usize] = port.wrapping_add(1);
            port
        });
        for (reverse, direction) in [(false, &spec.forward), (true, &spec.reverse)] {
            let way = if reverse { "reverse" } else { "forward" };
            let end = usize::from(!reverse);
            let component = format!("links.{}.{way}", spec.name);
            let id = LinkId::of(index as u32, reverse);
            let share = spec.half_duplex.then_some(Share { medium: media, side: u8::from(reverse) });
            let choice = match share {
                _ if hop_links.get(id.0 as usize) == Some(&true) => PortChoice::Hop(share),
                Some(share) => PortChoice::Shared(share),
                None => fluids.get(id.0 as usize).copied().flatten().map_or(choice, PortChoice::Fluid),
            };
            links.push(build_direction(
                id,
                FarEnd {
                    node: spec.ends[end].0,
                    port: far_ports[end],
                    is_router: network.nodes[spec.ends[end].0 as usize].kind == NodeKind::Router,
                },
                direction,
                mtu_bytes,
                Seed::for_component(seed, &component),
                [".medium", ".medium.duplicate", ".medium.jitter"]
                    .map(|part| Seed::for_component(seed, &format!("{component}{part}"))),
                choice,
            ));
        }
        media += u32::from(spec.half_duplex);
    }
    links
}

fn build_direction(
    id: LinkId,
    far: FarEnd,
    spec: &DirectionSpec,
    mtu_bytes: u32,
    queue_seed: Seed,
    medium_seeds: [Seed; 3],
    choice: PortChoice,
) -> Link {
    let context = Context { seed: queue_seed, link_rate: spec.rate, mtu_bytes };
    let medium = Medium::new(spec.loss.clone(), spec.reorder, spec.duplicate, spec.jitter, medium_seeds);
    Link::new(id, far, spec, &context, medium, choice)
}

pub(super) fn build_markers(network: &Network, seed: u64) -> Vec<MarkerPoint> {
    let mtu_bytes = network.mtu_bytes();
    let point = |spec: &MarkerSpec| {
        let context = Context {
            seed: Seed::for_component(seed, &format!("markers.{}", spec.name)),
            link_rate: tidegate_units::BitRate::MAX,
            mtu_bytes,
        };
        MarkerPoint {
            marker: spec.config.build(&context, Time::ZERO),
            counters: crate::marker::MarkerCounters::default(),
        }
    };
    network.markers.iter().map(point).collect()
}

/// What the random numbers of a border are called after.
pub(crate) fn border_name(network: &Network, domain: usize, node: NodeId) -> String {
    format!("domains.{}.{}", network.domains[domain].name, network.nodes[node.0 as usize].name)
}

/// The edge mechanism at `site`, if the domain has one.
pub(crate) fn build_control(
    domain: &DomainSpec,
    site: BorderSite,
    seed: Seed,
    mtu_bytes: u32,
) -> Option<edge::Border> {
    let context = Context { seed, link_rate: tidegate_units::BitRate::MAX, mtu_bytes };
    domain.mechanism.as_ref().map(|config| edge::Border::new(config, site, &context))
}

pub(super) fn build_borders(network: &Network, seed: u64) -> Vec<Border> {
    let mut borders = Vec::new();
    let around = nesting::around(network);
    let mtu_bytes = network.mtu_bytes();
    for (index, domain) in network.domains.iter().enumerate() {
        for &node in &domain.edges {
            let name = border_name(network, index, node);
            let level = around[index].len() as u8;
            let site = BorderSite { border: PeerId(borders.len() as u32), level };
            let control = build_control(domain, site, Seed::for_component(seed, &name), mtu_bytes);
            let losses = Seed::for_component(seed, &format!("{name}.control_loss"));
            let clock = domain.clocks.iter().find(|(edge, _)| *edge == node).map(|(_, spec)| *spec);
            let liar = domain.lies.iter().find(|(edge, _)| *edge == node).zip(domain.mechanism.as_ref());
            let lies = Seed::for_component(seed, &format!("{name}.lies"));
            borders.push(Border {
                liar: liar.map(|((_, spec), config)| Box::new(Liar::new(*spec, config, lies))),
                node: node.0,
                domain: index as u32,
                level,
                polices: control.is_some() && !domain.unpoliced.contains(&node),
                control,
                clock: Clock::new(clock.unwrap_or_default()),
                labeller: domain.labels.as_ref().map(|labels| labels.config.build(labels.liars.clone())),
                control_loss: (domain.control_loss, Substream::new(losses)),
                routes: HashMap::new(),
                alarm: Alarm::default(),
                shaper_alarm: Alarm::default(),
                restarts: 0,
                drops_by_reason: [0; tidegate_packet::DropReason::ALL.len()],
            });
        }
    }
    borders
}

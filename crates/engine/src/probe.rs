//! What can be looked at between events, without changing anything that follows.

use tidegate_mechanism::edge::iec::EpochReport;
use tidegate_mechanism::edge::{Border, EdgeReport, PeerId};
use tidegate_mechanism::mark::Marker;
use tidegate_mechanism::tcp::TcpSender;
use tidegate_units::BitRate;

use crate::counters::{Delays, FlowCounters, LinkCounters, SinkCounters, no_delays};
use crate::ids::{FlowIds, LinkId, NodeId};
use crate::marker::MarkerCounters;
use crate::observer::Observer;
use crate::program::{Routes, Step};
use crate::simulation::{Carrier, Simulation};
use crate::waste::Trails;

/// A flow at the border where it enters a domain.
#[derive(Clone, Copy, Debug)]
pub struct BorderReport {
    /// What the edge mechanism says of it.
    pub edge: EdgeReport,
    /// What the border where it leaves knows of congestion.
    pub epoch: Option<EpochReport>,
    /// Packets and bytes that wait at its shaper.
    pub shaper: tidegate_packet::Backlog,
}

/// The way that packets take at the moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowPath {
    /// The directions of links, in order.
    pub links: Vec<LinkId>,
    /// The domains with something to do at their borders: where packets enter each, and where they leave it.
    pub domains: Vec<[NodeId; 2]>,
    /// The borders that write labels on them.
    pub labellers: Vec<NodeId>,
}

impl<O: Observer> Simulation<O> {
    /// How many directions of links there are.
    pub const fn direction_count(&self) -> usize {
        self.links.len()
    }

    /// Packets and bytes in the queue of `link`, the packet in transmission included.
    pub fn queue_length(&mut self, link: LinkId) -> (u32, u64) {
        if let Some(parts) = &mut self.divided {
            return parts.near_mut(link).queue_length(link);
        }
        self.links[link.0 as usize].length(&mut self.world)
    }

    /// An inner variable of the queue of `link` by name.
    pub fn queue_variable(&mut self, link: LinkId, name: &str) -> Option<f64> {
        if let Some(parts) = &mut self.divided {
            return parts.near_mut(link).queue_variable(link, name);
        }
        self.links[link.0 as usize].variable(name, &mut self.world)
    }

    /// The rate at which `link` sends now: its own, or what a neighbour lets it.
    pub fn link_rate(&self, link: LinkId) -> BitRate {
        if let Some(parts) = &self.divided {
            return parts.near(link).link_rate(link);
        }
        self.links[link.0 as usize].rate()
    }

    /// The counters of `link` as of now.
    pub fn link_counters(&mut self, link: LinkId) -> LinkCounters {
        if let Some(parts) = &mut self.divided {
            return parts.link_counters(link);
        }
        self.links[link.0 as usize].counters_now(&mut self.world)
    }

    /// The counters of the data of flow `flow`.
    pub fn flow_counters(&self, flow: usize) -> FlowCounters {
        if let Some(parts) = &self.divided {
            let mut all = FlowCounters::default();
            parts.each().for_each(|part| all.add(&part.flow_counters(flow)));
            return all;
        }
        let of = |place: u32| self.world.flows[FlowIds::data(place).0 as usize];
        let mut counters = of(flow as u32);
        self.counted_with(flow).iter().for_each(|&other| counters.add(&of(other)));
        counters
    }

    /// What the receivers of flow `flow` got; of all places of a crowd together.
    pub fn sink_counters(&self, flow: usize) -> &[SinkCounters] {
        if let Some(parts) = &self.divided {
            return parts.destination(flow).sink_counters(flow);
        }
        let flow = &self.flows[flow];
        &self.sinks[flow.first_sink as usize..][..flow.sinks as usize]
    }

    /// The TCP sender of flow `flow`, if it has one.
    pub fn tcp_sender(&self, flow: usize) -> Option<&TcpSender> {
        if let Some(parts) = &self.divided {
            return parts.source(flow).tcp_sender(flow);
        }
        match self.flows[flow].carrier {
            Carrier::Tcp(connection) => Some(&self.connections[connection as usize].sender),
            // A place has one connection after another.
            Carrier::Crowd(_) | Carrier::Stream(_) | Carrier::Datagrams { .. } | Carrier::External => None,
        }
    }

    /// The data of flow `flow` where it enters domain `domain`.
    pub fn border_report(&self, domain: usize, flow: usize) -> Option<BorderReport> {
        match &self.divided {
            Some(parts) => parts.any().report(domain, flow, |border| parts.control(border)),
            None => self.report(domain, flow, |border| self.borders[border as usize].control.as_ref()),
        }
    }

    /// The same, with the edge mechanisms of borders from where they are.
    fn report<'s>(
        &self,
        domain: usize,
        flow: usize,
        control_of: impl Fn(u32) -> Option<&'s Border>,
    ) -> Option<BorderReport> {
        let headers = &self.flows[flow].headers;
        let is_here = |border: u32| self.borders[border as usize].domain as usize == domain;
        let passage = match self.flows[flow].forward {
            Routes::One(start) => self.programs.passage_into(start, is_here),
            Routes::Many(_) => None,
        };
        (0..self.borders.len() as u32).filter(|&index| is_here(index)).find_map(|index| {
            let control = control_of(index)?;
            let peers = passage.filter(|passage| passage.border == index).map(|passage| &passage.peers);
            let egress = peers.and_then(|peers| peers.first()).copied();
            let edge = control.ingress().report(headers, egress)?;
            let far = egress.and_then(|peer| control_of(peer.0));
            let epoch = far.and_then(|other| other.egress().epoch_report(PeerId(index)));
            Some(BorderReport { edge, epoch, shaper: control.backlog(edge.aggregate) })
        })
    }

    /// The counters of marker `marker`.
    pub fn marker_counters(&self, marker: usize) -> MarkerCounters {
        if let Some(parts) = &self.divided {
            return parts.marker(marker).marker_counters(marker);
        }
        self.markers[marker].counters
    }

    /// An inner variable of marker `marker` by name.
    pub fn marker_variable(&self, marker: usize, name: &str) -> Option<f64> {
        if let Some(parts) = &self.divided {
            return parts.marker(marker).marker_variable(marker, name);
        }
        self.markers[marker].marker.variable(name)
    }

    /// Keeps the distribution of one-way delays of flow `flow` from now on.
    pub fn watch_flow_delays(&mut self, flow: usize) {
        if let Some(parts) = &mut self.divided {
            return parts.each_mut().for_each(|part| part.watch_flow_delays(flow));
        }
        let flow = &self.flows[flow];
        self.sink_delays.resize_with(self.sinks.len(), || None);
        for sink in flow.first_sink..flow.first_sink + flow.sinks {
            self.sink_delays[sink as usize].get_or_insert_with(|| Box::new(no_delays()));
        }
    }

    /// Keeps the distribution of the times that packets spend in the queue of `link` from now on.
    pub fn watch_link_delays(&mut self, link: LinkId) {
        if let Some(parts) = &mut self.divided {
            return parts.each_mut().for_each(|part| part.watch_link_delays(link));
        }
        let watch = self.links[link.0 as usize].watch_mut();
        watch.delays.get_or_insert_with(no_delays);
    }

    /// Counts from now on what each link carried of packets that were dropped later.
    pub fn watch_waste(&mut self) {
        self.world.trails = Some(Box::new(Trails::new(self.links.len())));
        for link in &mut self.links {
            link.watch_mut().leaves_trails = true;
        }
    }

    /// Bytes that `link` has carried of packets that were dropped later, if that is counted. A packet counts when it is
    /// dropped; one that the medium of `link` lost was carried by `link`, one that its queue dropped was not.
    pub fn wasted_bytes(&self, link: LinkId) -> Option<u64> {
        Some(self.world.trails.as_ref()?.wasted_bytes(link))
    }

    /// Bytes that `link` has carried, those included that its medium lost, if that is counted.
    pub fn crossed_bytes(&self, link: LinkId) -> Option<u64> {
        Some(self.world.trails.as_ref()?.crossed_bytes(link))
    }

    /// The way of the data of flow `flow`, or with `back` of its acknowledgments. `None` where there is none, or several:
    /// for multicast, and for packets that choose among paths.
    pub fn flow_path(&self, flow: usize, back: bool) -> Option<FlowPath> {
        if let Some(parts) = &self.divided {
            return parts.any().flow_path(flow, back);
        }
        let flow = &self.flows[flow];
        let Routes::One(start) = *(if back { &flow.reverse } else { &flow.forward }) else { return None };
        let node_of = |border: u32| NodeId(self.borders[border as usize].node);
        let mut path = FlowPath { links: Vec::new(), domains: Vec::new(), labellers: Vec::new() };
        for step in self.programs.way(start)? {
            match step {
                Step::Link(link) | Step::Hop(link) => path.links.push(link),
                Step::Ingress(index) => {
                    let passage = &self.programs.passages[index as usize];
                    let leaves = passage.peers.first().map_or(passage.border, |peer| peer.0);
                    path.domains.push([passage.border, leaves].map(node_of));
                }
                Step::Label(border) => path.labellers.push(node_of(border)),
                _ => {}
            }
        }
        Some(path)
    }

    /// Counts what `link` carries of each flow from now on.
    pub fn watch_link_flows(&mut self, link: LinkId) {
        if let Some(parts) = &mut self.divided {
            return parts.each_mut().for_each(|part| part.watch_link_flows(link));
        }
        let watch = self.links[link.0 as usize].watch_mut();
        watch.bytes_by_flow.resize(2 * self.flows.len(), 0);
    }

    /// Bytes of the data of flow `flow` that `link` has carried, if that is counted. A packet counts when its last bit
    /// reaches the far end, or would if the medium did not lose it.
    pub fn link_flow_bytes(&self, link: LinkId, flow: usize) -> Option<u64> {
        if let Some(parts) = &self.divided {
            return parts.far(link).link_flow_bytes(link, flow);
        }
        let watch = self.links[link.0 as usize].watch()?;
        let of = |place: u32| watch.bytes_by_flow.get(FlowIds::data(place).0 as usize).copied();
        let others: u64 = self.counted_with(flow).iter().filter_map(|&other| of(other)).sum();
        Some(of(flow as u32)? + others)
    }

    /// The distribution of one-way delays of flow `flow` over all its receivers, if it is kept.
    pub fn flow_delays(&self, flow: usize) -> Option<Delays> {
        if let Some(parts) = &self.divided {
            return parts.destination(flow).flow_delays(flow);
        }
        let flow = &self.flows[flow];
        let sinks = flow.first_sink as usize..(flow.first_sink + flow.sinks) as usize;
        let mut each = self.sink_delays.get(sinks)?.iter().flatten();
        let mut all: Delays = (**each.next()?).clone();
        for more in each {
            all.add(&**more).expect("a distribution that grows takes any value");
        }
        Some(all)
    }

    /// The distribution of times in the queue of `link`, if it is kept.
    pub fn link_delays(&self, link: LinkId) -> Option<&Delays> {
        if let Some(parts) = &self.divided {
            return parts.far(link).link_delays(link);
        }
        self.links[link.0 as usize].watch()?.delays.as_ref()
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.world.observer
    }

    /// Takes the observer out at the end.
    pub fn into_observer(self) -> O {
        self.world.observer
    }
}

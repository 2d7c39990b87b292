//! The programs of flows and of control messages: at the start, and anew when routes change.

use tidegate_mechanism::edge::PeerId;
use tidegate_mechanism::random::{Seed, Substream};

use crate::border::Border;
use crate::error::BuildError;
use crate::ids::NodeId;
use crate::network::{Multipath, Network};
use crate::observer::Observer;
use crate::planner::{Naming, Planner};
use crate::program::{Programs, Routes, Step};
use crate::simulation::{Carrier, Simulation};

/// The programs of flow `index`, there and back: one of them can be missing without the other.
#[allow(clippy::too_many_arguments, reason = "the parts of a simulation, before they are one")]
pub(super) fn plan_flow(
    network: &Network,
    index: usize,
    carrier: Carrier,
    first_sink: u32,
    borders: &[Border],
    planner: &mut Planner,
    run_seed: u64,
    programs: &mut Programs,
) -> [Result<Routes, BuildError>; 2] {
    let spec = &network.flows[index];
    let stream = |way: &str| match network.multipath {
        Multipath::None => Substream::new(Seed(0)),
        _ => Substream::new(Seed::for_component(run_seed, &format!("flows.{}.{way}", spec.name))),
    };
    let markers = planner.markers.get(&(index as u32)).cloned().unwrap_or_default();
    // Real hosts have their own time.
    let pausing = network.ties.is_some() && !matches!(carrier, Carrier::External);
    let way = 2 * index as u32;
    let pauses = pausing.then_some(way);
    let naming = Naming { network, flow: &spec.name, borders, markers: &markers, messages_of: None, pauses };
    // Acknowledgments are not marked.
    let naming_back = Naming { markers: &[], pauses: pausing.then_some(way + 1), ..naming };
    let ends: Vec<(NodeId, Step)> = match carrier {
        Carrier::Tcp(connection) => vec![(spec.to[0], Step::TcpData(connection))],
        Carrier::Crowd(connection) => vec![(spec.to[0], Step::CrowdData(connection))],
        Carrier::Stream(number) => vec![(spec.to[0], Step::StreamData(number))],
        Carrier::External => vec![(spec.to[0], Step::External(first_sink))],
        Carrier::Datagrams { .. } => {
            spec.to.iter().zip(first_sink..).map(|(&node, sink)| (node, Step::Datagram(sink))).collect()
        }
    };
    let forward = planner.routes(spec.from, &ends, network.multipath, &mut stream("path"), programs, &naming);
    let back = match carrier {
        Carrier::Tcp(connection) => Step::TcpAck(connection),
        Carrier::Crowd(connection) => Step::CrowdAck(connection),
        Carrier::Stream(number) => Step::StreamReport(number),
        Carrier::Datagrams { .. } | Carrier::External => return [forward, Ok(Routes::One(0))],
    };
    let mut random = stream("path_back");
    let reverse = planner.routes(
        spec.to[0],
        &[(spec.from, back)],
        network.multipath,
        &mut random,
        programs,
        &naming_back,
    );
    [forward, reverse]
}

impl<O: Observer> Simulation<O> {
    /// The program of control messages from border `from` to border `to`.
    pub(crate) fn control_route(&mut self, from: u32, to: PeerId) -> u32 {
        if let Some(&route) = self.borders[from as usize].routes.get(&to) {
            return route;
        }
        let (source, target) = (self.borders[from as usize].node, self.borders[to.0 as usize].node);
        let naming = Naming {
            network: &self.network,
            flow: "control",
            borders: &self.borders,
            markers: &[],
            messages_of: Some(self.borders[from as usize].domain),
            pauses: None,
        };
        let ends = [(NodeId(target), Step::Control(to.0))];
        let mut random = Substream::new(Seed(0));
        let planned = self.planner.routes(
            NodeId(source),
            &ends,
            Multipath::None,
            &mut random,
            &mut self.programs,
            &naming,
        );
        let route = if let Ok(Routes::One(route)) = planned { route } else { self.programs.nowhere() };
        self.borders[from as usize].routes.insert(to, route);
        route
    }

    /// Links went down or up, or others are congested: every flow takes the shortest path that there is now, to those of its
    /// receivers that can be reached. Packets under way go on as they were.
    pub(crate) fn reroute(&mut self) {
        let (links, congested) = (&self.links, &self.congested);
        let penalty = self.network.follows.map_or(0, |follows| follows.penalty);
        self.planner.routing.update(
            |link| links[link.0 as usize].is_up(),
            |link| if congested.binary_search(&link).is_ok() { penalty } else { 0 },
        );
        self.planner.changes = true;
        for border in &mut self.borders {
            border.routes.clear();
        }
        for index in 0..self.flows.len() {
            let (carrier, first_sink) = (self.flows[index].carrier, self.flows[index].first_sink);
            let planned = plan_flow(
                &self.network,
                index,
                carrier,
                first_sink,
                &self.borders,
                &mut self.planner,
                self.run_seed,
                &mut self.programs,
            );
            let [forward, reverse] =
                planned.map(|way| way.unwrap_or_else(|_| Routes::One(self.programs.nowhere())));
            self.flows[index].forward = forward;
            self.flows[index].reverse = reverse;
        }
        self.plan_messages();
    }

    /// In a part of a simulation, plans the way of every message that there can be: elsewhere they are planned when there is the first
    /// one, and a packet stands at the same place of the same program in all parts.
    pub(crate) fn plan_messages(&mut self) {
        if self.part.is_none() {
            return;
        }
        let count = self.borders.len() as u32;
        for from in 0..count {
            for to in 0..count {
                let [one, other] = [from, to].map(|border| &self.borders[border as usize]);
                if from != to && one.domain == other.domain && one.control.is_some() {
                    self.control_route(from, PeerId(to));
                }
            }
        }
    }
}

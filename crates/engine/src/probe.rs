//! What can be looked at between events, without changing anything that follows.

use tidegate_mechanism::edge::EdgeReport;
use tidegate_mechanism::tcp::TcpSender;
use tidegate_units::BitRate;

use crate::counters::{Delays, FlowCounters, LinkCounters, SinkCounters, no_delays};
use crate::ids::{FlowIds, LinkId};
use crate::observer::Observer;
use crate::simulation::{Carrier, Simulation};

/// A flow at the border where it enters a domain.
#[derive(Clone, Copy, Debug)]
pub struct BorderReport {
    /// What the edge mechanism says of it.
    pub edge: EdgeReport,
    /// Packets and bytes that wait at its shaper.
    pub shaper: tidegate_packet::Backlog,
}

impl<O: Observer> Simulation<O> {
    /// How many directions of links there are.
    pub const fn direction_count(&self) -> usize {
        self.links.len()
    }

    /// Packets and bytes in the queue of `link`, the packet in transmission included.
    pub fn queue_length(&mut self, link: LinkId) -> (u32, u64) {
        self.links[link.0 as usize].length(self.world.now)
    }

    /// An inner variable of the queue of `link` by name.
    pub fn queue_variable(&mut self, link: LinkId, name: &str) -> Option<f64> {
        self.links[link.0 as usize].variable(name, self.world.now)
    }

    /// The present rate of `link`.
    pub fn link_rate(&self, link: LinkId) -> BitRate {
        self.links[link.0 as usize].rate()
    }

    /// The counters of `link` as of now.
    pub fn link_counters(&mut self, link: LinkId) -> LinkCounters {
        self.links[link.0 as usize].counters_at(self.world.now)
    }

    /// The counters of the data of flow `flow`.
    pub fn flow_counters(&self, flow: usize) -> FlowCounters {
        self.world.flows[FlowIds::data(flow as u32).0 as usize]
    }

    /// What the receivers of flow `flow` got.
    pub fn sink_counters(&self, flow: usize) -> &[SinkCounters] {
        let flow = &self.flows[flow];
        &self.sinks[flow.first_sink as usize..][..flow.sinks as usize]
    }

    /// The TCP sender of flow `flow`, if it has one.
    pub fn tcp_sender(&self, flow: usize) -> Option<&TcpSender> {
        match self.flows[flow].carrier {
            Carrier::Tcp(connection) => Some(&self.connections[connection as usize].sender),
            Carrier::Datagrams { .. } | Carrier::External => None,
        }
    }

    /// The data of flow `flow` where it enters domain `domain`.
    pub fn border_report(&self, domain: usize, flow: usize) -> Option<BorderReport> {
        let headers = &self.flows[flow].headers;
        let controls = self.borders.iter().filter(|border| border.domain as usize == domain);
        controls.filter_map(|border| border.control.as_ref()).find_map(|control| {
            let edge = control.ingress.report(headers)?;
            Some(BorderReport { edge, shaper: control.bank.backlog(edge.aggregate) })
        })
    }

    /// Keeps the distribution of one-way delays of flow `flow` from now on.
    pub fn watch_flow_delays(&mut self, flow: usize) {
        let flow = &self.flows[flow];
        self.sink_delays.resize_with(self.sinks.len(), || None);
        for sink in flow.first_sink..flow.first_sink + flow.sinks {
            self.sink_delays[sink as usize].get_or_insert_with(|| Box::new(no_delays()));
        }
    }

    /// Keeps the distribution of the times that packets spend in the queue of `link` from now on.
    pub fn watch_link_delays(&mut self, link: LinkId) {
        self.links[link.0 as usize].delays.get_or_insert_with(|| Box::new(no_delays()));
    }

    /// The distribution of one-way delays of flow `flow` over all its receivers, if it is kept.
    pub fn flow_delays(&self, flow: usize) -> Option<Delays> {
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
        self.links[link.0 as usize].delays.as_deref()
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

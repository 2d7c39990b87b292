//! From the description of a network to a simulation: links, endpoints, borders, and the program of every flow.

pub(crate) mod elements;
mod ways;

use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::tcp::{Rules, TcpConfig, TcpReceiver, TcpSender};
use tidegate_units::{Span, Time};

use self::elements::{build_borders, build_links, build_markers};
use self::ways::plan_flow;
use crate::border::Border;
use crate::counters::{FlowCounters, RateIntegral, SinkCounters, Totals};
use crate::error::BuildError;
use crate::fluid::Fluids;
use crate::ids::FlowIds;
use crate::link::PortChoice;
use crate::network::{ApplicationSpec, FlowSpec, Network, TransportSpec};
use crate::observer::Observer;
use crate::planner::Planner;
use crate::program::{Passage, Programs};
use crate::shared::SharedMedium;
use crate::simulation::{Carrier, Connection, Flow, Parts, Simulation};
use crate::simulation::{crowds, hops};
use crate::source::Source;
use crate::stream::Stream;
use crate::world::{Alarm, FlowEnds, Wake, World};

impl Network {
    /// A simulation of this network in the run with `seed`, watched by `observer`.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build<O: Observer>(self, seed: u64, observer: O) -> Result<Simulation<O>, BuildError> {
        self.build_with(seed, observer, PortChoice::Cheapest)
    }

    /// The same with a scheduled port on every link, also where a planned one would do: for checking one by the other.
    #[doc(hidden)]
    pub fn build_scheduled<O: Observer>(self, seed: u64, observer: O) -> Result<Simulation<O>, BuildError> {
        self.build_with(seed, observer, PortChoice::Scheduled)
    }

    fn build_with<O: Observer>(
        self,
        seed: u64,
        observer: O,
        ports: PortChoice,
    ) -> Result<Simulation<O>, BuildError> {
        let mut world = World {
            now: Time::ZERO,
            events: crate::event::EventQueue::default(),
            arena: crate::arena::Arena::default(),
            messages: crate::arena::Messages::default(),
            stamps: crate::arena::Stamps::default(),
            reports: crate::arena::Reports::default(),
            departures: crate::arena::Departures::default(),
            media: self.links.iter().filter(|link| link.half_duplex).map(|_| SharedMedium::new()).collect(),
            flows: Vec::new(),
            ends: Vec::new(),
            first_control: FlowIds { flows: self.flows.len() as u32 }.control(0).0,
            totals: Totals::default(),
            observer,
            rates: Vec::new(),
            hop_ports: Vec::new(),
            hop_drops: Vec::new(),
            trails: None,
        };
        let fluid_ways = crate::fluid::Ways::of(&self)?;
        let links = build_links(&self, seed, ports, &fluid_ways.packets(&self));
        world.rates = links.iter().map(|link| RateIntegral::starting(link.rate(), Time::ZERO)).collect();
        let borders = build_borders(&self, seed);
        world.flows = vec![FlowCounters::default(); self.flows.len() * 2 + borders.len() + self.hops.len()];
        let mut planner = Planner::new(&self, &borders, hops::links(&self));
        let mut programs = Programs::default();
        let mut ends = Ends::default();
        let mut flows = Vec::with_capacity(self.flows.len());
        for (index, spec) in self.flows.iter().enumerate() {
            let first_sink = ends.sinks.len() as u32;
            let carrier = ends.add(index as u32, spec, seed);
            let [forward, reverse] =
                plan_flow(&self, index, carrier, first_sink, &borders, &mut planner, seed, &mut programs);
            let (forward, reverse) = (forward?, reverse?);
            let source_seed = Seed::for_component(seed, &format!("flows.{}.source", spec.name));
            let datagrams = matches!(carrier, Carrier::Datagrams { .. });
            let source = Source::new(spec.application.clone(), datagrams, spec.start, spec.stop, source_seed);
            let mut source_alarm = Alarm::default();
            if let Some(start) = source.next() {
                source_alarm.arm(start, Wake::Source.token(index as u32), &mut world.events);
            }
            world.ends.push(FlowEnds {
                source: spec.headers.source,
                destination: spec.headers.destination,
                has_simulated_tcp: matches!(carrier, Carrier::Tcp(_) | Carrier::Crowd(_)),
            });
            flows.push(Flow {
                headers: spec.headers,
                dscp: spec.dscp,
                class: spec.class,
                carrier,
                source,
                source_alarm,
                forward,
                reverse,
                first_sink,
                sinks: spec.to.len() as u32,
            });
        }
        // What receivers of a crowd get is counted together.
        for crowd in &self.crowds {
            let first_sink = flows[crowd.places[0] as usize].first_sink;
            crowd.places.iter().for_each(|&place| flows[place as usize].first_sink = first_sink);
        }
        pair(&self.pairs, &flows, &mut ends.connections);
        check_domains(&self, &borders, &programs)?;
        let markers = build_markers(&self, seed);
        let hops = hops::build(&self, seed, &mut programs, &mut world);
        let (crowds, places) = crowds::build(&self, &flows, ends.connections.len(), seed, &mut world.events);
        let parts = Parts {
            links,
            flows,
            connections: ends.connections,
            streams: ends.streams,
            sinks: ends.sinks,
            borders,
            markers,
            hops,
            crowds,
            places,
            programs,
            planner,
        };
        let fluids = Fluids::new(&self, &fluid_ways);
        let network = Self { links: Vec::new(), ..self };
        let mut simulation = Simulation::assemble(network, world, parts, seed);
        simulation.arm_script();
        simulation.arm_follow();
        simulation.fluids = fluids;
        simulation.arm_fluids();
        Ok(simulation)
    }
}

/// What sends and receives, of all flows.
#[derive(Default)]
struct Ends {
    connections: Vec<Connection>,
    streams: Vec<Stream>,
    sinks: Vec<SinkCounters>,
}

impl Ends {
    /// Those of flow `index`, in a run of `seed`.
    fn add(&mut self, index: u32, spec: &FlowSpec, seed: u64) -> Carrier {
        self.sinks.resize(self.sinks.len() + spec.to.len(), SinkCounters::default());
        match &spec.transport {
            TransportSpec::Tcp(config) => {
                let config = with_clock_phase((**config).clone(), &spec.name, seed);
                self.connections.push(Connection {
                    sender: TcpSender::new(&config),
                    receiver: TcpReceiver::new(&config),
                    partner: None,
                    flow: index,
                    send_alarm: Alarm::default(),
                    receive_alarm: Alarm::default(),
                });
                let number = self.connections.len() as u32 - 1;
                if spec.application == ApplicationSpec::Crowd {
                    Carrier::Crowd(number)
                } else {
                    Carrier::Tcp(number)
                }
            }
            TransportSpec::Media(config) => {
                self.streams.push(Stream::new(index, config));
                Carrier::Stream(self.streams.len() as u32 - 1)
            }
            TransportSpec::Udp { header_bytes } => Carrier::Datagrams { header_bytes: *header_bytes },
            TransportSpec::External => Carrier::External,
        }
    }
}

/// `config` of flow `name`, with the phase of its host's clock drawn where nothing gives it and ns's arithmetic looks at it.
fn with_clock_phase(mut config: TcpConfig, name: &str, seed: u64) -> TcpConfig {
    if config.rules == Rules::Ns1999 && config.rto.clock_phase.is_none() {
        let mut random = Substream::new(Seed::for_component(seed, &format!("flows.{name}.clock")));
        let tick_ns = config.rto.granularity.as_nanos() as f64;
        config.rto.clock_phase = Some(Span::from_nanos((random.uniform() * tick_ns) as u64));
    }
    config
}

/// Makes two connections of each pair of flows one with data in both directions.
fn pair(pairs: &[[u32; 2]], flows: &[Flow], connections: &mut [Connection]) {
    for &[one, other] in pairs {
        let [one, other] = [one, other].map(|index| &flows[index as usize]);
        let connection_of = |flow: &Flow| match flow.carrier {
            Carrier::Tcp(connection) | Carrier::Crowd(connection) => connection,
            _ => panic!("flows of a pair are TCP"),
        };
        let [there, back] = [one, other].map(connection_of);
        assert_eq!(
            one.headers.reversed().flow_key(),
            other.headers.flow_key(),
            "flows of a pair have the same ends and ports, the other way round"
        );
        for (connection, partner) in [(there, back), (back, there)] {
            let before = connections[connection as usize].partner.replace(partner);
            assert_eq!(before, None, "a flow belongs to one pair");
        }
    }
}

/// Whether each domain whose edges control what enters has something to control.
fn check_domains(network: &Network, borders: &[Border], programs: &Programs) -> Result<(), BuildError> {
    for (index, domain) in network.domains.iter().enumerate() {
        let is_entered = |passage: &Passage| borders[passage.border as usize].domain as usize == index;
        if domain.mechanism.is_some()
            && !network.flows.is_empty()
            && domain.unpoliced.len() < domain.edges.len()
            && !programs.passages.iter().any(is_entered)
        {
            return Err(BuildError::DomainUncrossed { domain: domain.name.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_mechanism::tcp::Variant;

    #[test]
    fn clocks_of_ns_are_drawn_by_name_and_seed_within_a_tick_and_others_are_left_alone() {
        let ns = TcpConfig::ns_1999(Variant::Reno);
        let drawn = |name: &str, seed| with_clock_phase(ns.clone(), name, seed).rto.clock_phase.unwrap();
        let phases = [drawn("a", 1), drawn("b", 1), drawn("a", 2)];
        assert!(phases.iter().all(|&phase| phase < ns.rto.granularity));
        assert!(phases[0] != phases[1] && phases[0] != phases[2] && phases[0] == drawn("a", 1));
        let mut given = ns.clone();
        given.rto.clock_phase = Some(Span::from_millis(7));
        assert_eq!(with_clock_phase(given.clone(), "a", 1), given);
        let modern = TcpConfig::modern(Variant::Reno);
        assert_eq!(with_clock_phase(modern.clone(), "a", 1), modern);
    }
}

//! What an emulation and its replay are built from alike.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{ApplicationSpec, FlowSpec, Network, NodeId, Observer, StartSpec, TransportSpec};
use tidegate_lab::lower::source_port;
use tidegate_lab::{Run, flow_count};
use tidegate_packet::{Address, Dscp, Headers, Protocol};
use tidegate_scenario::model::{NodeIndex, Transport};
use tidegate_scenario::{ConfigErrors, Document, Scenario};
use tidegate_units::Time;
use tidegate_wire::flows::{FlowTable, OwnFlow};
use tidegate_wire::recording::Configuration;

use crate::address;

/// A scenario that real hosts take part in.
#[derive(Clone, Debug)]
pub struct Setup {
    /// For recordings.
    pub configuration: Configuration,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The nodes of the real hosts, in order.
    pub real: Vec<u32>,
    /// By real host: the node at the far end of its first link.
    pub neighbours: Vec<NodeId>,
    /// The flows of the scenario that they send themselves.
    pub own: Vec<OwnFlow>,
}

/// Why a scenario cannot be emulated.
#[derive(Debug)]
pub enum SetupError {
    /// It is none.
    Configuration(ConfigErrors),
    /// No host of it is real.
    NoRealHosts,
    /// It has more real hosts than there can be flows between, unless each pair has no more than so many.
    TooManyHosts(u32),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(errors) => f.write_str(&errors.render()),
            Self::NoRealHosts => f.write_str(
                "fewer than two hosts of the scenario are real; name them in [nodes]: real = [\"A\", \"B\"]",
            ),
            Self::TooManyHosts(0) => {
                write!(f, "more than {REAL_FLOWS_MAX} flows between real hosts; mark fewer hosts as real")
            }
            Self::TooManyHosts(fitting) => write!(
                f,
                "more than {REAL_FLOWS_MAX} flows between real hosts; give each pair fewer (--flows-per-pair {fitting}), \
                 or mark fewer hosts as real"
            ),
        }
    }
}
impl std::error::Error for SetupError {}

/// Flows between real hosts in all.
const REAL_FLOWS_MAX: u32 = 1 << 16;

impl Setup {
    /// The scenario of `document`, on which `overrides` are not laid yet; with its own seed, unless `seed` gives one.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn new(
        mut document: Document,
        overrides: &[String],
        seed: Option<u64>,
        flows_per_pair: u32,
    ) -> Result<Self, SetupError> {
        let scenario_text = document.to_toml();
        for assignment in overrides {
            document.set(assignment).map_err(SetupError::Configuration)?;
        }
        let scenario = document.scenario().map_err(SetupError::Configuration)?;
        let is_real = |index: &u32| scenario.nodes[*index as usize].is_real;
        let real: Vec<u32> = (0..scenario.nodes.len() as u32).filter(is_real).collect();
        if real.len() < 2 {
            return Err(SetupError::NoRealHosts);
        }
        let pairs = (real.len() as u32).saturating_mul(real.len() as u32 - 1);
        if pairs.saturating_mul(flows_per_pair) > REAL_FLOWS_MAX {
            return Err(SetupError::TooManyHosts(REAL_FLOWS_MAX / pairs));
        }
        let own = own_flows(&scenario, &real);
        let configuration = Configuration {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: document.name().to_owned(),
            scenario: scenario_text,
            files: scenario.files(),
            overrides: overrides.to_owned(),
            seed: seed.unwrap_or(scenario.seed),
            flows_per_pair,
        };
        let neighbours = real.iter().map(|&node| neighbour(&scenario, node)).collect();
        Ok(Self { configuration, scenario: Arc::new(scenario), real, neighbours, own })
    }

    /// The same scenario as a recording was made of.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn from_recording(configuration: &Configuration) -> Result<Self, SetupError> {
        // The text has no includes any more, so its name is no path.
        let mut document = Document::from_text(&configuration.name, &configuration.scenario)
            .map_err(SetupError::Configuration)?;
        for (name, text) in &configuration.files {
            document.attach(name, text);
        }
        Self::new(document, &configuration.overrides, Some(configuration.seed), configuration.flows_per_pair)
    }

    /// The table of flows between the real hosts.
    pub fn flow_table(&self) -> FlowTable {
        let first = flow_count(&self.scenario) as u32;
        FlowTable::new(self.real.len() as u32, self.configuration.flows_per_pair, first, &self.own)
    }

    /// By number of a flow: the real host that its packets go to; none for simulated flows.
    pub fn receivers(&self) -> Vec<Option<u32>> {
        let mut receivers = vec![None; flow_count(&self.scenario)];
        for own in &self.own {
            receivers[own.flow as usize] = Some(own.to);
        }
        receivers.extend(self.flow_table().ends().map(|(_, to)| Some(to)));
        receivers.extend(self.own.iter().map(|own| Some(own.from)));
        receivers
    }

    /// Builds the network with a flow for each entry of the table; the flows that real hosts send are not simulated.
    ///
    /// # Errors
    /// When no path leads from one real host to another, and as for the scenario itself.
    pub fn start<O: Observer>(&self, observer: O) -> Result<Run<O>, SetupError> {
        let alter = |network: &mut Network| {
            let first = network.flows.len() as u32;
            let between = self.flow_table().ends().enumerate();
            let between: Vec<FlowSpec> =
                between.map(|(number, (from, to))| self.flow_between(number, from, to, 0)).collect();
            let everything = first..first + between.len() as u32;
            for (point, marker) in self.scenario.markers.iter().zip(&mut network.markers) {
                if point.has_all {
                    marker.flows.extend(everything.clone());
                }
            }
            let acknowledgments = self.own.iter().enumerate().map(|(number, own)| {
                let class = self.scenario.flows[own.flow as usize].class;
                self.flow_between(between.len() + number, own.to, own.from, class)
            });
            let acknowledgments: Vec<FlowSpec> = acknowledgments.collect();
            // What real hosts send, they send by themselves: over all connections of a crowd, and in both directions.
            let mut sent: Vec<u32> = self.own.iter().map(|own| own.flow).collect();
            let (real, simulated): (Vec<_>, Vec<_>) =
                network.crowds.drain(..).partition(|crowd| sent.contains(&crowd.places[0]));
            network.crowds = simulated;
            sent.extend(real.iter().flat_map(|crowd| crowd.places.iter().chain(&crowd.asking)));
            sent.sort_unstable();
            sent.dedup();
            network.pairs.retain(|pair| pair.iter().all(|flow| sent.binary_search(flow).is_err()));
            for &flow in &sent {
                let flow = &mut network.flows[flow as usize];
                flow.transport = TransportSpec::External;
                flow.application = ApplicationSpec::External;
                (flow.start, flow.stop) = (StartSpec::At(Time::ZERO), None);
            }
            network.flows.extend(between.into_iter().chain(acknowledgments));
        };
        let run = Run::start_with(&self.scenario, alter, self.configuration.seed, observer);
        run.map_err(|why| {
            let found = self.scenario.at_domain(why.domain().unwrap_or_default(), why.to_string());
            SetupError::Configuration(found.into())
        })
    }

    /// The flow number `number` of those that only the emulation has, from one real host to another.
    fn flow_between(&self, number: usize, from: u32, to: u32, class: u8) -> FlowSpec {
        let node = |host: u32| self.real[host as usize];
        let name = |host: u32| &self.scenario.nodes[node(host) as usize].name;
        let address = |host: u32| Address::V4(address::ipv4(node(host)).octets());
        FlowSpec {
            name: format!("{} to {} ({number})", name(from), name(to)),
            from: NodeId(node(from)),
            to: vec![NodeId(node(to))],
            transport: TransportSpec::External,
            application: ApplicationSpec::External,
            start: StartSpec::At(Time::ZERO),
            stop: None,
            dscp: Dscp::BEST_EFFORT,
            class,
            // Until a connection takes the flow.
            headers: Headers::best_effort(Protocol(255), (address(from), 0), (address(to), 0)),
        }
    }
}

/// The node at the far end of the first link of `node`; itself where it has none.
fn neighbour(scenario: &Scenario, node: u32) -> NodeId {
    let far_end = scenario.links.iter().find_map(|link| match (link.a.0, link.b.0) {
        (from, to) if from == node => Some(to),
        (from, to) if to == node => Some(from),
        _ => None,
    });
    NodeId(far_end.unwrap_or(node))
}

/// The flows from one real host to another; those to several hosts are simulated.
fn own_flows(scenario: &Scenario, real: &[u32]) -> Vec<OwnFlow> {
    let host = |node: NodeIndex| real.iter().position(|real| *real == node.0).map(|host| host as u32);
    let own = scenario.flows.iter().enumerate().filter_map(|(number, flow)| {
        let &[to] = &flow.to[..] else { return None };
        let protocol = match flow.transport {
            Transport::Tcp(_) => Protocol::TCP,
            Transport::Udp(_) | Transport::Media(_) => Protocol::UDP,
        };
        let (from, to) = (host(flow.from)?, host(to)?);
        Some(OwnFlow { flow: number as u32, from, to, protocol, source_port: source_port(number) })
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn with_many_hosts_it_is_said_how_many_flows_each_pair_can_have() {
        let hosts: Vec<String> = (0..40).map(|number| format!("\"h{number}\"")).collect();
        let hosts = hosts.join(", ");
        let mut text = format!(
            "duration = \"1s\"\nnodes = {{ hosts = [{hosts}], routers = [\"r\"], real = [{hosts}] }}\n\
             defaults.link = {{ rate = \"10Mbit\", delay = \"1ms\" }}\n"
        );
        for number in 0..40 {
            let _ = writeln!(text, "links.l{number} = {{ between = [\"h{number}\", \"r\"] }}");
        }
        let setup = |flows| Setup::new(Document::from_text("many.toml", &text).unwrap(), &[], None, flows);
        let why = setup(64).unwrap_err().to_string();
        assert!(why.contains("--flows-per-pair 42"), "{why}");
        assert!(setup(42).is_ok() && setup(43).is_err());
    }
}

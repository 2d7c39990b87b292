//! What an emulation and its replay are built from alike.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{ApplicationSpec, BuildError, FlowSpec, NodeId, Observer, StartSpec, TransportSpec};
use tidegate_lab::Run;
use tidegate_packet::{Address, Dscp, Ecn, Headers, Protocol};
use tidegate_scenario::{ConfigErrors, Document, Scenario};
use tidegate_units::Time;

use crate::address;
use crate::flows::FlowTable;
use crate::recording::Configuration;

/// A scenario that real hosts take part in.
#[derive(Clone, Debug)]
pub struct Setup {
    /// For recordings.
    pub configuration: Configuration,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The nodes of the real hosts, in order.
    pub real: Vec<u32>,
}

/// Why a scenario cannot be emulated.
#[derive(Debug)]
pub enum SetupError {
    /// It is none.
    Configuration(ConfigErrors),
    /// No host of it is real.
    NoRealHosts,
    /// It has more real hosts than there can be flows between.
    TooManyHosts,
    /// It cannot be built.
    Build(BuildError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(errors) => f.write_str(&errors.render()),
            Self::NoRealHosts => f.write_str(
                "fewer than two hosts of the scenario are real; name them in [nodes]: real = [\"A\", \"B\"]",
            ),
            Self::TooManyHosts => {
                write!(f, "more than {REAL_FLOWS_MAX} flows between real hosts; mark fewer hosts as real")
            }
            Self::Build(why) => write!(f, "{why}"),
        }
    }
}
impl std::error::Error for SetupError {}

/// Flows between real hosts in all.
const REAL_FLOWS_MAX: u32 = 1 << 16;

/// The files that `scenario` names, each once.
fn files(scenario: &Scenario) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    let directions = scenario.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
    for trace in directions.filter_map(|direction| direction.trace.as_ref()) {
        if files.iter().all(|(name, _)| *name != trace.file) {
            files.push((trace.file.clone(), trace.to_text()));
        }
    }
    files
}

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
            return Err(SetupError::TooManyHosts);
        }
        let configuration = Configuration {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: document.name().to_owned(),
            scenario: scenario_text,
            files: files(&scenario),
            overrides: overrides.to_owned(),
            seed: seed.unwrap_or(scenario.seed),
            flows_per_pair,
        };
        Ok(Self { configuration, scenario: Arc::new(scenario), real })
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
        let first = self.scenario.flows.len() as u32;
        FlowTable::new(self.real.len() as u32, self.configuration.flows_per_pair, first)
    }

    /// Builds the network with a flow for each entry of the table.
    ///
    /// # Errors
    /// When no path leads from one real host to another, and as for the scenario itself.
    pub fn start<O: Observer>(&self, observer: O) -> Result<Run<O>, SetupError> {
        let name = |host: u32| &self.scenario.nodes[self.real[host as usize] as usize].name;
        let spec = |(number, (from, to)): (usize, (u32, u32))| {
            let address = |host: u32| Address::V4(address::ipv4(self.real[host as usize]).octets());
            FlowSpec {
                name: format!("{} to {} ({number})", name(from), name(to)),
                from: NodeId(self.real[from as usize]),
                to: vec![NodeId(self.real[to as usize])],
                transport: TransportSpec::External,
                application: ApplicationSpec::External,
                start: StartSpec::At(Time::ZERO),
                stop: None,
                dscp: Dscp::BEST_EFFORT,
                class: 0,
                // Until a connection takes the flow.
                headers: Headers {
                    source: address(from),
                    destination: address(to),
                    flow_label: 0,
                    protocol: Protocol(255),
                    source_port: 0,
                    destination_port: 0,
                    dscp: Dscp::BEST_EFFORT,
                    ecn: Ecn::NotEct,
                },
            }
        };
        let more: Vec<FlowSpec> = self.flow_table().ends().enumerate().map(spec).collect();
        Run::start_with(&self.scenario, &more, self.configuration.seed, observer).map_err(SetupError::Build)
    }
}

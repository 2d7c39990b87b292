//! All real hosts of an emulation, and what runs in them.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::signal::SigSet;
use tidegate_scenario::Scenario;
use tidegate_wire::flows::OwnFlow;

use super::child::{Child, Program};
use super::children::{Beside, Children};
use super::clean::Lease;
use super::error::{Failure, complain};
use super::host::{DEVICE_QUEUE_PACKETS, Host};
use super::namespace::Namespace;
use super::output::Kept;
use super::processes;
use super::run::Options;
use crate::address;

/// Variables for programs, and those that several would have.
#[derive(Debug, Default)]
struct Variables {
    list: BTreeMap<String, String>,
    clashes: BTreeSet<String>,
}

impl Variables {
    fn add(&mut self, prefix: &str, name: &str, value: String) {
        let plain = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let variable = format!("{prefix}_{plain}");
        if self.list.insert(variable.clone(), value).is_some() {
            self.clashes.insert(variable);
        }
    }

    fn tell(&self, program: &mut Program) {
        for (name, value) in &self.list {
            program.env(name, value);
        }
    }
}

/// All hosts. Their processes end with them.
pub struct Hosts {
    /// In the order of the scenario.
    pub list: Vec<Host>,
    /// What was started in them.
    pub children: Children,
    // Dropped after the namespaces: as long as one has a name, the run is alive.
    _lease: Lease,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let namespaces: Vec<&Namespace> = self.list.iter().map(|host| &host.namespace).collect();
        if !processes::end(&namespaces, &mut self.children) {
            complain("processes of hosts did not end");
        }
    }
}

impl Hosts {
    /// No hosts yet.
    pub fn new(lease: Lease) -> Self {
        Self { list: Vec::new(), children: Children::default(), _lease: lease }
    }

    /// Packets that devices of hosts have dropped.
    pub fn dropped_packets(&self) -> u64 {
        self.list.iter().map(Host::dropped_packets).sum()
    }

    /// Takes what devices still hold away; how many packets that is. What hosts send meanwhile may be among them.
    pub fn unread_packets(&self) -> u64 {
        let mut nowhere = [0; 1];
        let mut unread = |host: &Host| {
            (0..DEVICE_QUEUE_PACKETS).take_while(|_| matches!(host.read(&mut nowhere), Ok(Some(_)))).count()
        };
        self.list.iter().map(|host| unread(host) as u64).sum()
    }

    fn find(&self, name: &str) -> Result<usize, Failure> {
        self.list.iter().position(|host| host.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.list.iter().map(|host| host.name.as_str()).collect();
            Failure::usage(format!("there is no real host `{name}`; there are: {}", names.join(", ")))
        })
    }

    /// What programs are told of all hosts and of the flows that they send.
    fn variables(&self, own: &[OwnFlow], scenario: &Scenario) -> Variables {
        let mut variables = Variables::default();
        for host in &self.list {
            variables.add("TIDEGATE_ADDRESS", &host.name, address::ipv4(host.node).to_string());
            if host.has_ipv6 {
                variables.add("TIDEGATE_ADDRESS6", &host.name, address::ipv6(host.node).to_string());
            }
        }
        for flow in own {
            let name = &scenario.flows[flow.flow as usize].name;
            variables.add("TIDEGATE_PORT", name, flow.source_port.to_string());
        }
        variables
    }

    /// Starts `program` in host number `host`; of signals it holds `held`.
    fn spawn(&self, host: usize, mut program: Program, held: &SigSet) -> Result<Child, Failure> {
        let own = &self.list[host];
        // The peer of the first is the second, and of all others the first.
        let peer = &self.list[usize::from(host == 0)];
        program
            .env("TIDEGATE_HOST", &own.name)
            .env("TIDEGATE_NAMESPACE", own.namespace.name())
            .env("TIDEGATE_ADDRESS", address::ipv4(own.node).to_string())
            .env("TIDEGATE_PEER", address::ipv4(peer.node).to_string());
        if own.has_ipv6 && peer.has_ipv6 {
            program
                .env("TIDEGATE_ADDRESS6", address::ipv6(own.node).to_string())
                .env("TIDEGATE_PEER6", address::ipv6(peer.node).to_string());
        }
        let name = program.name().to_string_lossy().into_owned();
        let spawned = own.namespace.enter(|| program.spawn(held)).and_then(|spawned| spawned);
        spawned
            .map_err(|why| Failure::system(format!("`{name}` cannot be started in host {}", own.name), why))
    }

    /// Starts what the scenario and the user want to run; of signals it holds `held`.
    ///
    /// # Errors
    /// When something cannot be started.
    pub fn start_commands(
        &mut self,
        scenario: &Scenario,
        own: &[OwnFlow],
        options: &Options,
        kept: Option<&Kept>,
        held: &SigSet,
    ) -> Result<(), Failure> {
        let redirect = |program: &mut Program| -> Result<(), Failure> {
            if let Some(kept) = kept {
                program.without_input();
                program.keep(kept.share()?.into());
            } else if options.keep_stdout {
                program.print_to_errors();
            }
            Ok(())
        };
        let variables = self.variables(own, scenario);
        for name in &variables.clashes {
            complain(format!(
                "{name} is the variable of several: give them names that differ in letters or digits"
            ));
        }
        let of_scenario = scenario.commands.iter().map(|command| {
            let host = &scenario.nodes[command.host.index()].name;
            (command.name.clone(), host, &command.run)
        });
        let of_user = options.beside.iter().map(|(host, line)| (format!("{host}={line}"), host, line));
        for (name, host, line) in of_scenario.chain(of_user) {
            let mut program = Program::new(["/bin/sh", "-c", line]);
            program.without_input();
            redirect(&mut program)?;
            variables.tell(&mut program);
            let child = self.spawn(self.find(host)?, program, held)?;
            self.children.beside.push(Beside { name, child });
        }
        if let Some((host, words)) = &options.command {
            let host = host.as_ref().map_or(Ok(0), |name| self.find(name))?;
            let mut program = Program::new(words);
            redirect(&mut program)?;
            variables.tell(&mut program);
            self.children.is_shell = options.is_shell;
            self.children.command = Some(self.spawn(host, program, held)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_several_is_known() {
        let mut variables = Variables::default();
        for (prefix, name) in [("P", "a-b"), ("P", "c"), ("Q", "a-b"), ("P", "a_b")] {
            variables.add(prefix, name, name.to_owned());
        }
        assert_eq!(variables.clashes.into_iter().collect::<Vec<_>>(), ["P_a_b"]);
        assert_eq!(variables.list.len(), 3);
    }
}

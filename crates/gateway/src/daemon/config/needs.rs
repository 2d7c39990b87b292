//! What a configuration that is right asks of the machine: ways to other ends, and memory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tidegate_document::{ConfigError, ConfigErrors};
use tidegate_units::Span;

use super::super::house::NAMES_AT_ONCE;
use super::super::io::clock;
use super::super::{rights, routes};
use super::{Nowhere, PeerPlan, Plan, literal, resolve};
use crate::core::store;

/// Places in the file, which say nothing yet.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub private_key_file: ConfigError,
    pub buffers: ConfigError,
    /// By site: `public_key`, `preshared_key_file` and `endpoint`.
    pub sites: Vec<[ConfigError; 3]>,
}

/// What became of names; by the numbers of their sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Where they are.
    pub found: Vec<(usize, SocketAddr)>,
    /// Those that have to be found, and of which no resolver has said anything yet.
    pub unanswered: Vec<usize>,
}

impl Plan {
    /// Where sites are that the file gives an address.
    pub fn known_ends(&self) -> Vec<Option<SocketAddr>> {
        let listen = self.listen.ip();
        self.peers.iter().map(|peer| literal(peer.endpoint.as_ref()?, listen)).collect()
    }

    /// The same, and of those that it gives a name, if all there is may go through the tunnel: elsewhere it is not worth the wait before
    /// packets go, which is no longer than `patience`, and who looks names up looks at the way as well.
    pub fn ends_before_packets(&self, patience: Span) -> Vec<Option<SocketAddr>> {
        let mut ends = self.known_ends();
        if self.networks().iter().any(|network| network.prefix_len() <= 1) {
            let name = |(peer, end): (&PeerPlan, &Option<SocketAddr>)| {
                Some((peer.endpoint.clone().filter(|_| end.is_none())?, false))
            };
            let names: Vec<_> = self.peers.iter().zip(&ends).map(name).collect();
            let found = self.require_names(&names, patience).unwrap_or_default().found;
            for (site, end) in found {
                ends[site] = Some(end);
            }
        }
        ends
    }

    /// Where sites are, by their names; of each site whether it has one to ask for, and whether that has to be found. It takes no longer
    /// than `patience`.
    ///
    /// # Errors
    /// When one that has to be found is not, as resolvers say: of those that they have not answered for by then nothing is known.
    pub fn require_names(
        &self,
        names: &[Option<(String, bool)>],
        patience: Span,
    ) -> Result<Named, ConfigErrors> {
        let until = clock::now() + patience;
        let listen = self.listen.ip();
        let (says, hears) = mpsc::channel();
        let asked =
            names.iter().enumerate().filter_map(|(site, name)| Some((site, name.as_ref()?.0.clone())));
        let asked: Vec<(usize, String)> = asked.collect();
        let asks = asked.len().min(NAMES_AT_ONCE);
        let asked = Arc::new(Mutex::new(asked.into_iter()));
        // A resolver that does not answer keeps its thread, and nobody else.
        for _ in 0..asks {
            let (asked, says) = (Arc::clone(&asked), says.clone());
            let _ = thread::Builder::new().spawn(move || {
                // It may outlive the start, and reads what strangers answer.
                if rights::give_away_here().is_err() {
                    return;
                }
                let next = || asked.lock().ok()?.next();
                while let Some((site, name)) = next()
                    && clock::now() < until
                {
                    let _ = says.send((site, resolve(&name, listen)));
                }
            });
        }
        drop(says);
        let mut answers = BTreeMap::new();
        let rest = || Duration::from_nanos(until.since(clock::now()).as_nanos());
        while let Ok((site, end)) = hears.recv_timeout(rest()) {
            answers.insert(site, end);
        }
        let mut named = Named::default();
        for (site, name) in names.iter().enumerate() {
            let Some((name, has_to_be)) = name else { continue };
            match answers.get(&site) {
                Some(Ok(end)) => named.found.push((site, *end)),
                Some(Err(Nowhere::Unknown)) if *has_to_be => {
                    let [.., at] = &self.written.sites[site];
                    let wrong = at.saying(format!("no address of {name} is found"));
                    let help = "its site is heard where it is, and stays there; correct the name, or see that it is known";
                    return Err(ConfigErrors::from(wrong.helped(help.to_owned())));
                }
                Some(Err(Nowhere::Unsaid)) | None if *has_to_be => named.unanswered.push(site),
                Some(Err(_)) | None => {}
            }
        }
        Ok(named)
    }

    /// What the daemon sends to the other `ends` must not come back to it as packets of hosts.
    ///
    /// # Errors
    /// When it would, as routes are now.
    pub fn require_ways(&self, ends: &[Option<SocketAddr>]) -> Result<(), ConfigErrors> {
        let networks = self.networks();
        for (end, [.., at]) in ends.iter().zip(&self.written.sites) {
            let Some(ip) = end.map(|end| end.ip()) else { continue };
            let wrong = |message: String, help: String| ConfigErrors::from(at.saying(message).helped(help));
            let taken = routes::taken(ip, &networks, &self.device);
            let taken = taken
                .map_err(|why| wrong(format!("which way {ip} has is not known: {why}"), String::new()))?;
            if let Some(network) = taken {
                return Err(wrong(
                    format!(
                        "{ip} is in {network}, which goes through the tunnel, and so would its datagrams"
                    ),
                    format!(
                        "give it a way of its own (`ip route add {ip} via ROUTER`), or take smaller networks"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Whether this machine gives as much memory as `buffers` are: who takes them without a question is ended by the system.
    ///
    /// # Errors
    /// When it does not.
    pub fn require_memory(&self) -> Result<(), ConfigErrors> {
        let bytes = store::bytes_of(self.core.buffers);
        let mut asks = Vec::<u8>::new();
        let is_given = usize::try_from(bytes).is_ok_and(|bytes| asks.try_reserve_exact(bytes).is_ok());
        // Else the compiler may leave out what is taken and given back.
        std::hint::black_box(&asks);
        if is_given {
            return Ok(());
        }
        let message =
            format!("this machine does not give {} MB for {} packets", bytes / 1_000_000, self.core.buffers);
        Err(ConfigErrors::from(
            self.written.buffers.saying(message).helped("fewer; 16384 take 80 MB".to_owned()),
        ))
    }
}

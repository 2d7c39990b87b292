//! Recordings of a running gateway, and their replay: [the third world](crate) decides the same about the same as the first.
//!
//! A core is deterministic, given its configuration, what happens with its instants, and what its tunnels answer. [`Core`] is one that
//! can be recorded: it writes all three into a [`Tape`], with each verdict. [`replay`] hands the first three to another core and compares the
//! verdicts. Of packets the headers are written, of messages between gateways all that gateways read, and nothing else ([`headers`]): no
//! payload, no keys, no handshakes.
//!
//! Most of what tunnels answer can be foretold ([`Known`], [`Foretold`]), by who records and by who replays, and is not written.

mod codec;
mod headers;
mod replay;
pub mod step;
mod tape;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::net::SocketAddr;

use tidegate_units::Time;

pub use self::replay::{Difference, Differs, Outcome, ReplayError, replay};
use self::step::{Begin, COUNTS, Stray, Verdict, What};
pub use self::tape::{Recorded, Tape};
use crate::core::config::GatewayConfig;
use crate::core::ends::{Home, Near};
use crate::core::peer::Counters;
use crate::core::status::SiteStatus;
use crate::core::{Gateway, Input, Output, Stray as Strays};
use crate::tunnel::{Addressed, Refusal, Tunnels, sealed_bytes};

/// What tunnels said last, which they are expected to say again.
#[derive(Clone, Debug, Default)]
struct Known {
    /// By peer: whether it is up, and its timeout.
    tunnels: Vec<(bool, Option<Time>)>,
    peer: u32,
}

impl Known {
    fn new(peers: usize) -> Self {
        Self { tunnels: vec![(false, None); peers], peer: 0 }
    }

    /// Whether this was to be expected; it is from now on.
    fn addressed(&mut self, addressed: Addressed) -> bool {
        match addressed {
            Addressed::Peer(peer) => std::mem::replace(&mut self.peer, peer) == peer,
            Addressed::Reply(_) | Addressed::Refused(_) => false,
        }
    }

    fn up(&mut self, peer: u32, is_up: bool) -> bool {
        std::mem::replace(&mut self.tunnels[peer as usize].0, is_up) == is_up
    }

    fn timeout(&mut self, peer: u32, at: Option<Time>) -> bool {
        std::mem::replace(&mut self.tunnels[peer as usize].1, at) == at
    }
}

/// What tunnels do whose sessions are up.
struct Foretold;

impl Foretold {
    /// How many bytes `packet` becomes.
    fn sealed(packet: &[u8], room: &[u8]) -> Option<usize> {
        Some(sealed_bytes(packet.len())).filter(|&bytes| bytes <= room.len())
    }
}

/// All that was counted of a site.
fn counts(counters: &Counters) -> Box<[u64; COUNTS]> {
    let Counters {
        entered_packets,
        entered_bytes,
        sent_packets,
        sent_bytes,
        received_packets,
        received_bytes,
        strange_packets,
        relayed_packets,
        too_large_packets,
        said_messages,
        said_bytes,
        heard_messages,
        unheard_messages,
        // Sessions are foretold, whoever asked for them.
        asked: _,
        lives,
        refused,
    } = *counters;
    let mut counts = Box::new([0; COUNTS]);
    let (first, rest) = counts.split_at_mut(COUNTS - Refusal::ALL.len());
    first.copy_from_slice(&[
        entered_packets,
        entered_bytes,
        sent_packets,
        sent_bytes,
        received_packets,
        received_bytes,
        strange_packets,
        relayed_packets,
        too_large_packets,
        said_messages,
        said_bytes,
        heard_messages,
        unheard_messages,
        lives,
    ]);
    rest.copy_from_slice(&refused);
    counts
}

/// What has come since `before` that belongs to no site: one call counts one such thing, or what is relayed in it one more.
fn strays(before: &Strays, now: &Strays) -> impl Iterator<Item = Stray> {
    let more = |then: u64, count: u64, stray| (count > then).then_some(stray);
    let refused = Refusal::ALL
        .map(|why| more(before.refused[why as usize], now.refused[why as usize], Stray::Refused(why)));
    [
        more(before.bad_packets, now.bad_packets, Stray::Bad),
        more(before.unrouted_packets, now.unrouted_packets, Stray::Unrouted),
        more(before.unrelayed, now.unrelayed, Stray::Unrelayed),
    ]
    .into_iter()
    .chain(refused)
    .flatten()
}

/// A gateway that can be recorded. What is not said here is as in [`Gateway`].
#[derive(Debug)]
pub struct Core<T, W> {
    gateway: Gateway<Recorded<T, W>>,
}

impl<T: Tunnels, W: Write> Core<T, W> {
    /// A gateway that begins at `now`. It is recorded on `tape`, if there is one, in which `text` stands for its configuration.
    pub fn new(config: GatewayConfig, text: &str, tunnels: T, tape: Option<Tape<W>>, now: Time) -> Self {
        Self::begin(config, text, Recorded { tunnels, tape: tape.map(Box::new) }, now)
    }

    fn begin(config: GatewayConfig, text: &str, mut tunnels: Recorded<T, W>, now: Time) -> Self {
        if let Some(tape) = &mut tunnels.tape {
            let begin = Begin {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                text: text.to_owned(),
                id: config.id,
                seed: config.seed,
                endpoints: config.sites.iter().map(|site| site.endpoint).collect(),
            };
            tape.begin(now, &What::Begin(Box::new(begin)));
        }
        let is_recorded = tunnels.tape.is_some();
        let mut core = Self { gateway: Gateway::new(config, tunnels, now) };
        if is_recorded {
            core.gateway.keep_fates(true);
            core.end(|_| ());
        }
        core
    }

    /// Another core with the tunnels of this one, after `change` of these: sessions go on, and what waits is lost. A recording goes on as well;
    /// it begins where there was none and `tape` is one.
    pub fn reload(
        mut self,
        config: GatewayConfig,
        text: &str,
        tape: Option<Tape<W>>,
        now: Time,
        change: impl FnOnce(&mut T),
    ) -> Self {
        self.close(now);
        let mut tunnels = self.gateway.into_tunnels();
        tunnels.tape = tunnels.tape.or_else(|| tape.map(Box::new));
        change(&mut tunnels.tunnels);
        Self::begin(config, text, tunnels, now)
    }

    /// Takes the recording away, if there is one; the gateway goes on.
    pub fn stop(&mut self, now: Time) -> Option<Tape<W>> {
        self.close(now);
        self.gateway.keep_fates(false);
        self.gateway.tunnels_mut().tape.take().map(|tape| *tape)
    }

    /// Whether it is recorded, and something could not be written.
    pub fn has_failed(&self) -> bool {
        self.gateway.tunnels().tape.as_ref().is_some_and(|tape| tape.has_failed())
    }

    /// What was counted becomes verdicts.
    fn close(&mut self, now: Time) {
        if !self.begins(now, &What::Close) {
            return;
        }
        let passed: Vec<_> = self.gateway.counters().map(counts).collect();
        self.end(|tape| {
            for (site, counts) in (0..).zip(passed) {
                tape.verdict(&Verdict::Passed(site, counts));
            }
        });
    }

    /// A step begins, if there is a recording.
    fn begins(&mut self, now: Time, what: &What) -> bool {
        match &mut self.gateway.tunnels_mut().tape {
            Some(tape) => {
                tape.begin(now, what);
                true
            }
            None => false,
        }
    }

    /// A step ends in a recording, with what `decide` says of it.
    fn end(&mut self, decide: impl FnOnce(&mut Tape<W>)) {
        let (fates, tunnels) = self.gateway.fates_beside();
        if let Some(tape) = &mut tunnels.tape {
            decide(tape);
            for fate in fates.drain(..) {
                tape.verdict(&fate.into());
            }
            tape.end();
        }
    }

    /// See [`Gateway::handle`].
    pub fn handle(&mut self, input: Input<'_>, now: Time) {
        match &mut self.gateway.tunnels_mut().tape {
            Some(tape) => tape.begin_input(now, &input),
            None => return self.gateway.handle(input, now),
        }
        let before = self.gateway.stray();
        self.gateway.handle(input, now);
        let after = self.gateway.stray();
        self.end(|tape| strays(&before, &after).for_each(|stray| tape.verdict(&Verdict::Stray(stray))));
    }

    /// See [`Gateway::poll_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.gateway.poll_timeout()
    }

    /// See [`Gateway::poll_output`].
    pub fn poll_output(&mut self, now: Time, room: &mut [u8]) -> Option<Output> {
        let is_recorded = self.begins(now, &What::PollOutput);
        let output = self.gateway.poll_output(now, room);
        if is_recorded {
            self.end(|tape| {
                if let Some(output) = &output {
                    tape.output(output, room);
                }
            });
        }
        output
    }

    /// See [`Gateway::poll_lan`].
    pub fn poll_lan(&mut self, now: Time) -> Option<&[u8]> {
        let (packet, tunnels) = self.gateway.poll_lan_beside()?;
        if let Some(tape) = &mut tunnels.tape {
            tape.begin(now, &What::PollLan);
            tape.packet(packet);
            tape.end();
        }
        Some(packet)
    }

    /// See [`Gateway::drain`].
    pub fn drain(&mut self, now: Time) {
        let is_recorded = self.begins(now, &What::Drain);
        self.gateway.drain(now);
        if is_recorded {
            self.end(|_| ());
        }
    }

    /// See [`Gateway::is_drained`].
    pub fn is_drained(&self) -> bool {
        self.gateway.is_drained()
    }

    /// See [`Gateway::find`].
    pub fn find(&mut self, site: u32, endpoint: SocketAddr, now: Time) {
        let is_recorded = self.begins(now, &What::Find(site, endpoint));
        self.gateway.find(site, endpoint, now);
        if is_recorded {
            self.end(|_| ());
        }
    }

    /// See [`Gateway::settle`]. Nothing that is recorded depends on it.
    pub fn settle(&mut self, site: u32, home: Home) {
        self.gateway.settle(site, home);
    }

    /// See [`Gateway::on_routes`]. Nothing that is recorded depends on it.
    pub fn on_routes(&mut self, site: u32, near: Near, is_elsewhere: bool) {
        self.gateway.on_routes(site, near, is_elsewhere);
    }

    /// The tunnels. What changes in them here shows in what they answer, and is recorded so.
    pub const fn tunnels_mut(&mut self) -> &mut T {
        &mut self.gateway.tunnels_mut().tunnels
    }

    /// See [`Gateway::status`].
    pub fn status(&self) -> Vec<SiteStatus> {
        self.gateway.status()
    }

    /// See [`Gateway::stray`].
    pub const fn stray(&self) -> Strays {
        self.gateway.stray()
    }
}

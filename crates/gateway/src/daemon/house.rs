//! What is done beside all else, for as long as the daemon runs: it is kept where sites are, and their names are looked up.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tidegate_units::Span;

use super::config::{self, Nowhere};
use super::control::{Shares, lock};
use super::log::{Level, say};
use super::order::Order;
use super::routes;
use super::state::Keeper;
use crate::core::peer::State;

/// How often it is looked where sites are: who is killed remembers that.
const PLACES_EVERY: Duration = Duration::from_secs(1);
/// How often the state is kept whatever has happened, in turns of that.
const HOUSE_EVERY: u32 = 30;
/// Within these turns who is not heard where it was heard last is looked for where the file says, in one of them at least: one that asks
/// at once has an answer by then.
const WRITTEN_PLACES: RangeInclusive<u32> = 3..=6;
/// How often names of sites that are down are looked up.
const NAMES_EVERY: Duration = Duration::from_secs(30);
/// How long somebody waits for names to be looked up: a start, or who has asked for a reload.
pub const NAMES_PATIENCE: Span = Span::from_secs(2);
/// How many names are looked up at once.
pub const NAMES_AT_ONCE: usize = 8;

/// What is done twice a minute, for ever: it is noted how late it is, and where sites are. And once, soon after the start: sites that are
/// no more where they were heard last are looked for where the file says.
pub fn keep_house(shares: &Shares, mut keeper: Keeper) {
    for turn in 1_u32.. {
        std::thread::sleep(PLACES_EVERY);
        let is_due = turn.is_multiple_of(HOUSE_EVERY);
        if WRITTEN_PLACES.contains(&turn) {
            lock(shares).find_as_written();
        }
        let moved = keeper.follow(lock(shares).places());
        if moved && !is_due {
            keeper.keep();
        }
        if !is_due {
            continue;
        }
        if keeper.was_set_forward() {
            say(Level::Notice, "the clock was set forward: handshakes are stamped by it from now on");
            let _ = lock(shares).crew().order_all(|| Order::Restamp);
        }
        keeper.keep();
    }
}

/// The network of `plan` that takes datagrams to `end`, as far as the kernel says.
fn swallowed(plan: &config::Plan, end: SocketAddr) -> Option<ipnet::IpNet> {
    routes::taken(end.ip(), &plan.networks(), &plan.device).ok().flatten()
}

/// Looks up names of sites that are down, several at once: at the start, when `wakes` says that they may be others, and twice a minute, for
/// ever. A resolver that does not answer keeps nobody waiting.
pub fn keep_names(shares: &Shares, wakes: &Receiver<()>) {
    // Of which it was said already.
    let (mut unknown, mut inside) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let (look, plan) = {
            let manager = lock(shares);
            (manager.crew().look(), manager.plan().clone())
        };
        let sites = look.iter().flat_map(|look| &look.sites);
        let asked = plan.peers.iter().zip(sites).enumerate().filter_map(|(number, (peer, site))| {
            let name = peer.endpoint.as_ref().filter(|_| site.state == State::Down)?;
            config::literal(name, plan.listen.ip()).is_none().then_some((number, name, site))
        });
        let asked: Vec<_> = asked.collect();
        for some in asked.chunks(NAMES_AT_ONCE) {
            let listen = plan.listen.ip();
            let found: Vec<Result<SocketAddr, Nowhere>> = std::thread::scope(|scope| {
                let ask = |name| {
                    std::thread::Builder::new()
                        .spawn_scoped(scope, move || config::resolve(name, listen))
                        .ok()
                };
                let asks: Vec<_> = some.iter().map(|(_, name, _)| ask(name.as_str())).collect();
                asks.into_iter()
                    .map(|one| one.and_then(|one| one.join().ok()).unwrap_or(Err(Nowhere::Unsaid)))
                    .collect()
            });
            for (&(number, name, site), at) in some.iter().zip(found) {
                match at.map(|at| (at, swallowed(&plan, at))) {
                    Ok((endpoint, Some(network))) => {
                        unknown.remove(name);
                        if inside.insert(name.clone()) {
                            let (ip, site) = (endpoint.ip(), &site.name);
                            say(
                                Level::Warning,
                                format_args!(
                                    "site {site}: {name} is {ip}, in {network}, which goes through the tunnel, and so would datagrams to it: \
                                     it is not looked for there. Give it a way of its own (`ip route add {ip} via ROUTER`)"
                                ),
                            );
                        }
                    }
                    Ok((endpoint, None)) => {
                        unknown.remove(name);
                        inside.remove(name);
                        if site.endpoint != Some(endpoint) {
                            say(
                                Level::Notice,
                                format_args!("site {} is looked for at {endpoint}", site.name),
                            );
                            let _ = lock(shares).find(number, name, endpoint);
                        }
                    }
                    Err(why) if unknown.insert(name.clone()) => {
                        let what = match why {
                            Nowhere::Unknown => "nobody knows an address of",
                            Nowhere::Unsaid => "no resolver is reached that says an address of",
                        };
                        say(
                            Level::Warning,
                            format_args!("site {}: {what} {name}; it is asked for again", site.name),
                        );
                    }
                    Err(_) => {}
                }
            }
        }
        // Before there is a look nobody knows who is down.
        let wait = if look.is_some() { NAMES_EVERY } else { PLACES_EVERY / 10 };
        if wakes.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

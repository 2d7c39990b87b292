//! What the daemon runs by, and how that changes: reloads, recordings, the end.
//!
//! Orders go to packet threads by queues. Whoever has the manager waits for these, for files and for the kernel, and for nobody outside.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_units::Span;

use super::super::config::{self, Keys, Named, Plan};
use super::super::house::NAMES_PATIENCE;
use super::super::log::{Level, say};
use super::super::order::{Change, Order};
use super::super::recording::{self, Ended, Heard, Recording};
use super::super::state::Places;
use super::super::threads::accord;
use super::super::threads::crew::Crew;
use super::super::threads::groups::Division;
use super::super::threads::owners::Owners;
use super::super::threads::share::Share;
use crate::core::config::GatewayConfig;
use crate::core::ends::Near;
use crate::core::peer::State;

/// Packet threads say within this that they have heard of a change, and that it is so.
const ORDER_PATIENCE: Span = Span::from_secs(5);

/// What the daemon runs by, and how it is changed.
pub struct Manager {
    file: PathBuf,
    plan: Plan,
    keys: Keys,
    /// Sites whose names no resolver has answered for when the file was read: they are looked for in the next reload.
    unanswered: BTreeSet<String>,
    public: [u8; 32],
    division: Division,
    crew: Arc<Crew>,
    /// Rings for who looks names up.
    names: SyncSender<()>,
}

/// See [`Manager`].
pub type Shares = Arc<Mutex<Manager>>;

/// The manager, whatever became of who had it before.
pub fn lock(shares: &Shares) -> MutexGuard<'_, Manager> {
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Manager {
    /// Of a daemon that runs by `plan`, which stands in `file`, with its sites among the threads of `crew` by
    /// `division`; and what wakes [`keep_names`].
    pub fn new(
        file: PathBuf,
        plan: Plan,
        keys: Keys,
        division: Division,
        crew: Arc<Crew>,
    ) -> (Self, Receiver<()>) {
        let public = keys.private(&plan).public();
        let (names, wakes) = sync_channel(1);
        (Self { file, plan, keys, unanswered: BTreeSet::new(), public, division, crew, names }, wakes)
    }

    /// What it runs by.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where sites are heard; those that are silent are left out.
    pub fn places(&self) -> Places {
        let look = self.crew.look();
        let sites = look.iter().flat_map(|look| &look.sites);
        let heard = self.plan.peers.iter().zip(sites).filter(|(_, site)| site.state != State::Down);
        heard.filter_map(|(peer, site)| Some((peer.public, site.endpoint?))).collect()
    }

    /// Site number `site` has been found by its `name`, which may be another one by now.
    ///
    /// # Errors
    /// When its packet thread has too much to do to be told.
    pub fn find(&self, site: usize, name: &String, endpoint: SocketAddr) -> Result<(), String> {
        if self.plan.peers.get(site).and_then(|peer| peer.endpoint.as_ref()) != Some(name) {
            return Ok(());
        }
        self.order(site, |own| Order::Find(own, endpoint))
    }

    /// Sites that are not heard where they were heard last are looked for where the file says.
    pub fn find_as_written(&self) {
        let look = self.crew.look();
        let sites = look.iter().flat_map(|look| &look.sites);
        for (number, (peer, site)) in self.plan.peers.iter().zip(sites).enumerate() {
            let written =
                peer.endpoint.as_ref().and_then(|text| config::literal(text, self.plan.listen.ip()));
            if let Some(endpoint) = written.filter(|_| site.state == State::Down)
                && site.endpoint != Some(endpoint)
            {
                // Who has too much to do to be told is told in the next turn.
                let _ = self.order(number, |own| Order::Find(own, endpoint));
            }
        }
    }

    /// Packets from where site number `site` reached us, which was called `name`, leave by another device than it came by, or do not.
    ///
    /// # Errors
    /// As of [`Self::find`].
    pub fn judge_home(&self, site: usize, name: &str, near: Near, is_elsewhere: bool) -> Result<(), String> {
        if self.plan.names().get(site).is_none_or(|other| other != name) {
            return Ok(());
        }
        self.order(site, |site| Order::Routes { site, near, is_elsewhere })
    }

    /// Tells the packet thread of site number `site` something about it, by the number that it has there.
    fn order(&self, site: usize, about: impl FnOnce(u32) -> Order) -> Result<(), String> {
        let thread = self.division.of(site);
        let own = self.division.sites(thread).binary_search(&site);
        own.map_or(Ok(()), |own| self.crew.order(thread, about(own as u32)))
    }

    /// Runs by `plan`, of which names that are new lead where `named` says. If anything in it is wrong, or a packet thread cannot be
    /// told, nothing changes.
    ///
    /// # Errors
    /// What is wrong, for people.
    fn reload(&mut self, plan: Plan, named: &Named) -> Result<(), String> {
        require_changeable(&plan, &self.plan)?;
        self.keys.load(&plan).map_err(|why| why.render())?;
        plan.require_memory().map_err(|why| why.render())?;
        // What has not changed is where it was, whatever routes are there just now.
        let mut ends = plan.known_ends();
        for (end, (new, old)) in ends.iter_mut().zip(plan.peers.iter().zip(&self.plan.peers)) {
            *end = end.filter(|_| new.endpoint != old.endpoint);
        }
        let names = plan.names();
        let mut moved = plan.moved_from(&self.plan);
        for &(site, end) in &named.found {
            ends[site] = Some(end);
            moved.insert(names[site].clone());
        }
        let unanswered: BTreeSet<String> = named.unanswered.iter().map(|&site| names[site].clone()).collect();
        moved.retain(|site| !unanswered.contains(site));
        plan.require_ways(&ends).map_err(|why| why.render())?;
        let written = self.keys.written_since(&plan);
        let moved = Arc::new(moved);
        let whole = self.whole(&plan, &moved, &ends)?;
        let division = Division::new(&whole, self.crew.threads(), Some(&self.division));
        let all = 0..self.crew.threads();
        self.begin_anew(&plan, &whole, (&division, moved), all.map(|thread| (thread, None)).collect())?;
        for (site, name) in names.iter().enumerate() {
            let thread = division.of(site);
            if thread != self.division.of(site) {
                say(
                    Level::Notice,
                    format_args!("site {name} is on thread {thread} now, and asks for a session"),
                );
            }
        }
        for (site, name) in named
            .unanswered
            .iter()
            .filter_map(|&site| Some((&names[site], plan.peers[site].endpoint.as_ref()?)))
        {
            say(
                Level::Warning,
                format_args!(
                    "site {site}: no resolver has said yet where {name} is. The site stays where it is heard, and is looked for by its name when \
                     it is heard no more; reload again for it to go there at once"
                ),
            );
        }
        for file in written {
            let later = "its key counts from the next start; restart the daemon for it";
            say(Level::Warning, format_args!("{file} has been written since the daemon began: {later}"));
        }
        (self.plan, self.division, self.unanswered) = (plan, division, unanswered);
        // Names may be others. Whoever looks them up may do that already.
        let _ = self.names.try_send(());
        Ok(())
    }

    /// What one core of all sites would be told, which are looked for where they are heard, but for those that have `moved`: those are
    /// at these `ends`, as far as they are known.
    fn whole(
        &self,
        plan: &Plan,
        moved: &BTreeSet<String>,
        ends: &[Option<SocketAddr>],
    ) -> Result<GatewayConfig, String> {
        let seed = config::fresh_seed().map_err(|why| why.to_string())?;
        let mut whole = plan.core(&self.public, seed);
        for (site, end) in whole.sites.iter_mut().zip(ends) {
            site.endpoint = site.endpoint.or(*end);
        }
        let look = self.crew.look();
        for (site, status) in whole.sites.iter_mut().zip(look.iter().flat_map(|look| &look.sites)) {
            if !moved.contains(&site.name) {
                site.endpoint = status.endpoint.or(site.endpoint);
            }
        }
        Ok(whole)
    }

    /// On all of these threads another core begins by their part of `plan`, and is recorded if that is wanted,
    /// or on none. It returns when all have begun.
    fn begin_anew(
        &self,
        plan: &Plan,
        whole: &GatewayConfig,
        (division, moved): (&Division, Arc<BTreeSet<String>>),
        threads: Vec<(u8, Option<Recording>)>,
    ) -> Result<(), String> {
        let keys = plan.peers.iter().map(|peer| peer.public);
        let owners = Arc::new(Owners::new(&whole.sites, keys, division));
        let change = |(thread, recording)| {
            let share = Share::new(plan, &self.keys, whole, division, thread);
            (
                thread,
                Box::new(Change {
                    share,
                    pace: plan.pace,
                    recording,
                    owners: Arc::clone(&owners),
                    moved: Arc::clone(&moved),
                }),
            )
        };
        accord::propose(
            threads.into_iter().map(change).collect(),
            ORDER_PATIENCE,
            |thread, proposal| self.crew.order(thread, Order::Reload(proposal)),
            || self.crew.wake(),
            |thread| {
                say(Level::Warning, format_args!("packet thread {thread} has much to do, and begins later"));
            },
        )
    }

    /// Another core begins, as by a reload, so that all of its state is known, and is recorded from there as
    /// `begin` says: who hears how that ends, and the sites that are in it: all that are on one thread with
    /// `site`. Whoever asked takes `is_recorded` back when all is written.
    ///
    /// # Errors
    /// When there is a recording already, none can begin, or sites are on several threads and none is named.
    pub fn record(
        &self,
        site: Option<&str>,
        begin: impl FnOnce() -> io::Result<Heard>,
    ) -> Result<(Receiver<Ended>, Vec<String>), String> {
        let thread = recording::thread_of(site, &self.plan.names(), &self.division)?;
        if self.crew.is_recorded.swap(true, Ordering::AcqRel) {
            return Err("a recording is under way, and there is one at a time; end that first".to_owned());
        }
        let begun = begin().map_err(|why| why.to_string()).and_then(|(recording, hears)| {
            let nobody = Arc::new(BTreeSet::new());
            let whole = self.whole(&self.plan, &nobody, &[])?;
            self.begin_anew(&self.plan, &whole, (&self.division, nobody), vec![(thread, Some(recording))])?;
            Ok((hears, self.names_on(thread)))
        });
        if begun.is_err() {
            self.crew.is_recorded.store(false, Ordering::Release);
        }
        begun
    }

    /// Names of the sites on `thread`.
    fn names_on(&self, thread: u8) -> Vec<String> {
        let names = self.plan.names();
        self.division.sites(thread).into_iter().map(|site| names[site].clone()).collect()
    }

    /// The recording ends; whoever began it hears that.
    ///
    /// # Errors
    /// When a packet thread has too much to do to be told.
    pub fn end_recording(&self) -> Result<(), String> {
        self.crew.order_all(|| Order::EndRecording)
    }

    /// The packet threads.
    pub fn crew(&self) -> &Crew {
        &self.crew
    }

    /// The same, for who has it longer than the manager.
    pub fn shared_crew(&self) -> Arc<Crew> {
        Arc::clone(&self.crew)
    }

    /// Says goodbye to all sites; what hosts send from now on is dropped. It ends then if `ends`.
    ///
    /// # Errors
    /// When it does not listen.
    pub fn drain(&self, ends: bool) -> Result<(), String> {
        self.crew.order_all(|| Order::Drain { ends })
    }
}

/// What cannot change while the daemon runs is in `plan` as it is `now`.
fn require_changeable(plan: &Plan, now: &Plan) -> Result<(), String> {
    let fixed = plan.fixed_that_differ(now);
    if fixed.is_empty() {
        return Ok(());
    }
    let fixed = fixed.join(", ");
    Err(format!("error: these cannot change while the daemon runs: {fixed}\n  = help: restart it\n"))
}

/// The file as it is by now, and where sites are whose names are new in it. One that is heard does not leave where it is for a name that
/// nobody knows. While names are looked up nobody waits for the manager.
fn read_anew(shares: &Shares) -> Result<(Plan, Named), String> {
    let (file, now, look, unanswered) = {
        let manager = lock(shares);
        let look = manager.crew.look();
        (manager.file.clone(), manager.plan.clone(), look, manager.unanswered.clone())
    };
    let plan = config::open(&file).map_err(|why| why.render())?;
    require_changeable(&plan, &now)?;
    let sites = look.iter().flat_map(|look| &look.sites);
    let names = plan.peers.iter().zip(&now.peers).zip(sites).map(|((new, old), site)| {
        let is_open = new.endpoint != old.endpoint || unanswered.contains(&site.name);
        let name = new.endpoint.clone().filter(|_| is_open)?;
        config::literal(&name, plan.listen.ip()).is_none().then_some((name, site.state != State::Down))
    });
    let named = plan.require_names(&names.collect::<Vec<_>>(), NAMES_PATIENCE);
    Ok((plan, named.map_err(|why| why.render())?))
}

/// Reads the file again. If anything in it is wrong, or a packet thread cannot be told, nothing changes. The log is told.
///
/// # Errors
/// What is wrong, for people.
pub fn reload(shares: &Shares) -> Result<(), String> {
    // One after the other: what one reads is compared with what the one before made of it.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = read_anew(shares).and_then(|(plan, named)| lock(shares).reload(plan, &named));
    match &outcome {
        Ok(()) => say(Level::Notice, "reloaded"),
        Err(why) => say(Level::Error, format_args!("not reloaded, and nothing has changed:\n{why}")),
    }
    outcome
}

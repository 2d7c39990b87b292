//! Those who talk to the daemon: `tidegatectl` over a socket in the file system, browsers and Prometheus over loopback.
//!
//! Commands come one at a time, browsers a few, each bounded in bytes and time. Orders of others go to packet threads by queues.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};
use tidegate_units::{Span, Time};

use super::changes::Changes;
use super::config::{self, Keys, Plan};
use super::io::clock;
use super::log::{Level, say};
use super::look::{History, Look};
use super::order::{Change, Order};
use super::recording::{self, Ended, Heard, Recording};
use super::request::{Command, Page, read_head, write_answer};
use super::state::Places;
use super::threads::accord;
use super::threads::crew::Crew;
use super::threads::groups::Division;
use super::threads::owners::Owners;
use super::threads::share::Share;
use super::{metrics, page};
use crate::core::config::GatewayConfig;
use crate::core::ends::Near;
use crate::core::peer::State;

/// A client that says nothing for so long is left.
const PATIENCE: Duration = Duration::from_millis(500);
/// So long it may take for all that it asks, and as long to hear the answer.
const REQUEST_MAX: Span = Span::from_secs(1);
/// Names that are new in the file are found within this, or not at all.
const NAMES_PATIENCE: Span = Span::from_secs(2);
/// Packet threads say within this that they have heard of a change, and that it is so.
const ORDER_PATIENCE: Span = Span::from_secs(5);
/// Browsers that are answered at once.
const BROWSERS_MAX: usize = 16;
/// The status page is tried again so often where somebody else has its port.
const PAGE_EVERY: Duration = Duration::from_secs(2);
/// How often the look is kept for the pictures.
const SECOND: Span = Span::from_secs(1);

/// What the daemon runs by, and how it is changed.
pub struct Manager {
    file: PathBuf,
    plan: Plan,
    keys: Keys,
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
        (Self { file, plan, keys, public, division, crew, names }, wakes)
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

    /// Runs by `plan`, of which names that are new lead to the places `found`. If anything in it is wrong, or a packet thread cannot be
    /// told, nothing changes.
    ///
    /// # Errors
    /// What is wrong, for people.
    fn reload(&mut self, plan: Plan, found: Vec<(usize, SocketAddr)>) -> Result<(), String> {
        require_changeable(&plan, &self.plan)?;
        self.keys.load(&plan).map_err(|why| why.render())?;
        plan.require_memory().map_err(|why| why.render())?;
        // What has not changed is where it was, whatever routes are there just now.
        let mut ends = plan.known_ends(false);
        for (end, (new, old)) in ends.iter_mut().zip(plan.peers.iter().zip(&self.plan.peers)) {
            *end = end.filter(|_| new.endpoint != old.endpoint);
        }
        for (site, end) in found {
            ends[site] = Some(end);
        }
        plan.require_ways(&ends).map_err(|why| why.render())?;
        let written = self.keys.written_since(&plan);
        let moved = Arc::new(plan.moved_from(&self.plan));
        let whole = self.whole(&plan, &moved, &ends)?;
        let division = Division::new(&whole, self.crew.threads(), Some(&self.division));
        let all = 0..self.crew.threads();
        self.begin_anew(&plan, &whole, (&division, moved), all.map(|thread| (thread, None)).collect())?;
        for (site, name) in plan.names().iter().enumerate() {
            let thread = division.of(site);
            if thread != self.division.of(site) {
                say(
                    Level::Notice,
                    format_args!("site {name} is on thread {thread} now, and asks for a session"),
                );
            }
        }
        for file in written {
            let later = "its key counts from the next start; restart the daemon for it";
            say(Level::Warning, format_args!("{file} has been written since the daemon began: {later}"));
        }
        (self.plan, self.division) = (plan, division);
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
fn read_anew(shares: &Shares) -> Result<(Plan, Vec<(usize, SocketAddr)>), String> {
    let (file, now, look) = {
        let manager = lock(shares);
        (manager.file.clone(), manager.plan.clone(), manager.crew.look())
    };
    let plan = config::open(&file).map_err(|why| why.render())?;
    require_changeable(&plan, &now)?;
    let sites = look.iter().flat_map(|look| &look.sites);
    let names = plan.peers.iter().zip(&now.peers).zip(sites).map(|((new, old), site)| {
        let name = new.endpoint.clone().filter(|_| new.endpoint != old.endpoint)?;
        config::literal(&name, plan.listen.ip()).is_none().then_some((name, site.state != State::Down))
    });
    let found = plan.require_names(&names.collect::<Vec<_>>(), NAMES_PATIENCE);
    let found = found.map_err(|why| why.render())?;
    Ok((plan, found))
}

/// Reads the file again. If anything in it is wrong, or a packet thread cannot be told, nothing changes. The log is told.
///
/// # Errors
/// What is wrong, for people.
pub fn reload(shares: &Shares) -> Result<(), String> {
    // One after the other: what one reads is compared with what the one before made of it.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = read_anew(shares).and_then(|(plan, found)| lock(shares).reload(plan, found));
    match &outcome {
        Ok(()) => say(Level::Notice, "reloaded"),
        Err(why) => say(Level::Error, format_args!("not reloaded, and nothing has changed:\n{why}")),
    }
    outcome
}

/// Serves the status page at `address` for ever, as soon as nobody else has that: packets do not wait for it.
/// `opened` is what became of it with the rights of the start.
pub fn keep_pages(desk: &Desk, address: SocketAddr, opened: io::Result<TcpListener>) {
    let (mut was_told, mut opened) = (false, Some(opened));
    loop {
        match opened.take().unwrap_or_else(|| TcpListener::bind(address)) {
            Ok(listener) => {
                if was_told {
                    say(Level::Notice, format_args!("status at http://{address}/"));
                }
                return serve_pages(desk, &listener);
            }
            Err(why) if !was_told => {
                let help = if why.kind() == io::ErrorKind::AddrInUse {
                    "; stop what has the port (`ss -ltnp` shows it), or choose another `status.listen`"
                } else {
                    ""
                };
                say(
                    Level::Warning,
                    format_args!(
                        "status at {address}: {why}{help}; there is no status page until it can be had"
                    ),
                );
                was_told = true;
            }
            Err(_) => {}
        }
        thread::sleep(PAGE_EVERY);
    }
}

/// What answers need.
pub struct Desk {
    /// What can be changed.
    pub shares: Shares,
    /// Where looks are.
    pub crew: Arc<Crew>,
    /// The name of the machine.
    pub name: String,
    /// When the daemon began.
    pub began: Time,
    /// What was seen in the last minutes.
    pub history: Mutex<History>,
}

/// Answers `tidegatectl`, and looks at what becomes of sites, for ever.
pub fn serve(desk: &Desk, socket: &UnixListener) {
    let mut changes = Changes::default();
    let mtu = lock(&desk.shares).plan().mtu();
    let mut next = clock::now();
    loop {
        let now = clock::now();
        if now >= next {
            next = now + SECOND;
            if let Some(look) = desk.crew.look() {
                desk.history.lock().unwrap_or_else(PoisonError::into_inner).add(&look);
                changes.tell(&look, mtu, &mut |level, what| say(level, what));
            }
        }
        let wait = next.since(clock::now()).as_nanos() / 1_000_000 + 1;
        let mut waits = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(wait as i32).unwrap_or(PollTimeout::MAX);
        if poll(&mut waits, timeout).is_err() {
            continue;
        }
        // A client that has gone away is no failure.
        match socket.accept() {
            Ok((stream, _)) => {
                let patient = stream
                    .set_nonblocking(false)
                    .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
                    .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
                let _ = patient.and_then(|()| answer_command(stream, desk));
            }
            Err(why) => pause_after(&why),
        }
    }
}

/// Answers browsers and Prometheus at `listener`, for ever: users of the machine, of whom some are slow, or open connections that they
/// do not use. Each has a thread, and where there are too many the next waits for one of them.
fn serve_pages(desk: &Desk, listener: &TcpListener) {
    let busy = AtomicUsize::new(0);
    let answer = |stream: TcpStream| {
        let patient =
            stream.set_write_timeout(Some(PATIENCE)).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        let _ = patient.and_then(|()| answer_browser(stream, desk));
        busy.fetch_sub(1, Ordering::AcqRel);
    };
    thread::scope(|scope| {
        loop {
            match listener.accept() {
                Ok((stream, _)) if busy.fetch_add(1, Ordering::AcqRel) < BROWSERS_MAX => {
                    // Where there is no thread for it, it is left, and counts no more.
                    if thread::Builder::new().spawn_scoped(scope, move || answer(stream)).is_err() {
                        busy.fetch_sub(1, Ordering::AcqRel);
                    }
                }
                Ok((stream, _)) => answer(stream),
                Err(why) => pause_after(&why),
            }
        }
    });
}

/// Where there is no descriptor left, asking at once would say so again.
fn pause_after(why: &io::Error) {
    if !matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
        thread::sleep(PATIENCE);
    }
}

/// A command is a line; so is the answer: JSON with `error` if it failed.
fn answer_command(mut stream: UnixStream, desk: &Desk) -> io::Result<()> {
    let head = read_head(&mut stream, b"\n", REQUEST_MAX)?;
    let done = |outcome: Result<(), String>| match outcome {
        Ok(()) => json!({ "ok": true }),
        Err(why) => json!({ "error": why }),
    };
    let answer = match Command::decode(&head) {
        Command::Status => status(desk).unwrap_or_else(|| json!({ "error": "not yet" })),
        Command::Reload => done(reload(&desk.shares)),
        Command::Drain => done(lock(&desk.shares).drain(false)),
        Command::Record { site } => {
            let shares = Arc::clone(&desk.shares);
            let serve = move || recording::serve(&stream, &shares, site.as_deref());
            // Where there is no thread for it, the client is left.
            return thread::Builder::new().spawn(serve).map(|_| ());
        }
        Command::Unknown(other) => json!({ "error": format!("there is no command `{other}`") }),
    };
    write_answer(&mut stream, format!("{answer}\n").as_bytes(), REQUEST_MAX)
}

fn status(desk: &Desk) -> Option<Value> {
    let look = desk.crew.look()?;
    Some(look.to_json(&desk.name, look.at.since(desk.began)))
}

fn answer_browser(mut stream: impl Read + Write, desk: &Desk) -> io::Result<()> {
    let head = read_head(&mut stream, b"\r\n\r\n", REQUEST_MAX)?;
    let look = desk.crew.look();
    let (status, kind, body) = match (Page::decode(&head), look) {
        (Page::Foreign, _) => {
            ("403 Forbidden", "text/plain", "ask by the address of this machine\n".to_owned())
        }
        (Page::Unknown, _) => {
            ("404 Not Found", "text/plain", "there are /, /metrics and /status.json\n".to_owned())
        }
        (_, None) => ("503 Service Unavailable", "text/plain", "not yet\n".to_owned()),
        (Page::Status, Some(look)) => {
            let history = desk.history.lock().unwrap_or_else(PoisonError::into_inner);
            let page = page::page(&look, &history, &desk.name, look.at.since(desk.began));
            ("200 OK", "text/html; charset=utf-8", page)
        }
        (Page::Metrics, Some(look)) => ("200 OK", metrics::CONTENT_TYPE, metrics::page(Look::clone(&look))),
        (Page::Json, Some(_)) => ("200 OK", "application/json", status(desk).unwrap_or_default().to_string()),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n{body}"
    );
    write_answer(&mut stream, answer.as_bytes(), REQUEST_MAX)
}

//! From the file to a running daemon, and to its end.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sd_notify::NotifyState;

use super::config::{self, Keys, Plan};
use super::control::{self, Desk, Manager, Shares};
use super::homes;
use super::house::{self, NAMES_PATIENCE};
use super::io::clock;
use super::io::tun::Tun;
use super::io::udp::{Opened, Udp};
use super::kept::{self, Kept};
use super::log::{Level, say};
use super::order::Shared;
use super::packets::{Core, Packets};
use super::recording::{self, FromStart, Recording};
use super::state::{self, Keeper, Made, Places};
use super::threads::beside::Beside;
use super::threads::crew::{Crew, Post, all_go_on};
use super::threads::groups::Division;
use super::threads::owners::Owners;
use super::threads::share::Share;
use super::{rights, routes, socket};
use crate::tunnel::wireguard::{Known, WireguardTunnels};

/// How often it looks whether packet threads are alive, where systemd does not say.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Orders that wait for one packet thread.
const ORDERS_MAX: usize = 16;

/// What the system refused, and to whom.
///
/// # Errors
/// Those of `outcome`, for people.
pub fn refused<T>(what: impl std::fmt::Display, outcome: io::Result<T>) -> Result<T, String> {
    outcome.map_err(|why| {
        if why.kind() == io::ErrorKind::PermissionDenied {
            format!("{what}: this needs the rights of root (CAP_NET_ADMIN)")
        } else {
            format!("{what}: {why}")
        }
    })
}

/// The same outcome; where it failed for `kind`, with what to do about that.
fn advised<T>(outcome: io::Result<T>, kind: io::ErrorKind, advice: &str) -> io::Result<T> {
    outcome.map_err(
        |why| if why.kind() == kind { io::Error::new(kind, format!("{why}: {advice}")) } else { why },
    )
}

fn system<T>(what: &str, outcome: nix::Result<T>) -> Result<T, String> {
    refused(what, outcome.map_err(io::Error::from))
}

/// Runs by the file at `path` until a signal ends it, and records that into a file, if there is one at `record`:
/// the thread of the site that is named there, or the only one.
///
/// # Errors
/// Why it cannot, for people.
pub fn run(path: &Path, record: Option<(&Path, Option<&str>)>) -> Result<(), String> {
    // A service is one that the machine starts: packets for other sites go no other way, whatever becomes of that. Who starts it by
    // hand hears first what is wrong, and may need the network for it.
    let is_service = std::env::var_os("NOTIFY_SOCKET").is_some();
    let plan = match config::open(path) {
        Ok(plan) => plan,
        Err(why) => {
            if is_service {
                refused("routes", state::close_as_before(config::state_of_wrong(path).as_deref()))?;
            }
            return Err(why.render());
        }
    };
    let close = || {
        let networks = if plan.is_closed { plan.networks() } else { Vec::new() };
        state::note_closed(plan.state.as_deref(), &plan.user, &networks);
        refused("routes", routes::close(&networks))
    };
    let closed =
        "packets for other sites are dropped until it runs; `tidegate-gateway open` lets them go other ways";
    // Where another daemon has them, packets go on: it answers. A device that was kept for this one is nobody's.
    let go_on = || UnixStream::connect(&plan.socket).is_ok();
    let told = |why: String| {
        if plan.is_closed && !go_on() { format!("{}\n{closed}", why.trim_end()) } else { why }
    };
    let mut keys = Keys::default();
    let signals = hold_signals()?;
    if is_service {
        may_close(&plan).or_else(|why| as_before(&plan).and(Err(why)))?;
        close()?;
        require(&plan, &mut keys).map_err(told)?;
    } else {
        require(&plan, &mut keys)?;
        close()?;
    }
    run_by(path, &plan, keys, (record, signals)).map_err(told)
}

/// Whether packets for other sites may be kept from going other ways before it is known that the daemon can run. Where nobody has kept them
/// from that before, and the datagrams of the tunnel itself would go the way that is closed, the machine would be left with no network
/// to mend that by; packets went their ways until now.
///
/// # Errors
/// Why not, for people.
pub fn may_close(plan: &Plan) -> Result<(), String> {
    let before = state::made_before(plan.state.as_deref());
    let was_closed =
        before.is_closed && plan.networks().iter().all(|network| before.networks.contains(network));
    if !plan.is_closed || was_closed {
        return Ok(());
    }
    let mut ends = plan.ends_before_packets(NAMES_PATIENCE);
    // A machine that starts has no network yet, and nothing to lose.
    for end in &mut ends {
        *end = end.filter(|end| routes::has_way(end.ip(), &plan.device).unwrap_or(true));
    }
    plan.require_ways(&ends).map_err(|why| why.render())
}

/// What was closed before by a daemon with the state of `plan` is closed, where what the plan says is not.
///
/// # Errors
/// When the system refuses it.
pub fn as_before(plan: &Plan) -> Result<(), String> {
    refused("routes", state::close_as_before(plan.state.as_deref())).map(|_| ())
}

/// Signals that end the daemon, or let it read its file again, arrive as readable bytes only. Call it before there are threads, also those
/// that look up names.
fn hold_signals() -> Result<SignalFd, String> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    system("signals cannot be held", signals.thread_block())?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    system("signals cannot be read", signals)
}

/// What the plan needs is there, and its keys are read.
fn require(plan: &Plan, keys: &mut Keys) -> Result<(), String> {
    keys.load(plan).map_err(|why| why.render())?;
    plan.require_memory().map_err(|why| why.render())?;
    plan.require_ways(&plan.ends_before_packets(NAMES_PATIENCE)).map_err(|why| why.render())
}

/// The same by `plan`, which stands at `path`; routes are closed, if they are to be.
fn run_by(
    path: &Path,
    plan: &Plan,
    keys: Keys,
    (record, signals): (Option<(&Path, Option<&str>)>, SignalFd),
) -> Result<(), String> {
    let division = Division::new(plan.outline(), plan.threads, None);
    let recorded =
        record.map(|(_, site)| recording::thread_of(site, &plan.names(), &division)).transpose()?;

    // With the rights that it has now.
    let file = record.map(|(file, _)| new_file(file)).transpose()?;
    let socket = refused(&plan.socket, socket::open(Path::new(&plan.socket), &plan.user))?;
    let status = plan.status.map(|at| (at, TcpListener::bind(at)));
    let mut kept = Kept::take(&plan.device, &Udp::addresses(plan.listen), plan.threads);
    let queues = kept.queues();
    let is_kept = !queues.is_empty();
    let tuns =
        if is_kept { queues.into_iter().map(Tun::from_descriptor).collect() } else { make_device(plan)? };
    let advice = "stop what has the port (`ss -lunp` shows it), or choose another `gateway.listen`";
    let mut hear = || kept.patiently(|kept| Udp::all(plan.listen, plan.threads, |at| kept.sockets(at)));
    let sockets = advised(when_it_is_there(plan, &signals, &mut hear), io::ErrorKind::AddrInUse, advice);
    let sockets = refused(format!("nothing can be heard at {}", plan.listen), sockets)?;
    let Some(Opened { of_threads: sockets, steered }) = sockets else { return Ok(()) };
    drop(kept);
    if let Err(why) = steered {
        let told = "the kernel does not give datagrams to their threads, which hand them over, at some cost";
        say(Level::Warning, format_args!("{told}: {why}"));
    }
    if is_kept {
        refused("the device", routes::set_mtu(&plan.device, plan.mtu()))?;
    }
    let made = refused("routes", make_ways(plan))?;
    if let Some(remembered) = &plan.state {
        state::prepare(remembered, &plan.user);
    }
    let given = refused("rights cannot be given away", rights::give_away(&plan.user))?;
    match &given.user {
        _ if given.is_root => say(
            Level::Warning,
            format_args!(
                "runs as root, without capabilities, for there is no other user `{}`: files of root are its own. Make the user (`useradd \
                 --system {}`), or choose another `gateway.user`",
                plan.user,
                if plan.user.is_empty() || plan.user == "root" { "tidegate" } else { &plan.user }
            ),
        ),
        Some(user) => say(Level::Info, format_args!("runs as {user}, without capabilities")),
        None => say(
            Level::Info,
            format_args!("has no right to become `{}`: the same user, without capabilities", plan.user),
        ),
    }

    let opened: Vec<(Tun, Vec<Udp>)> = tuns.into_iter().zip(sockets).collect();
    let descriptors = opened.iter().map(|(tun, udp)| (tun.as_fd(), udp.iter().map(AsFd::as_fd).collect()));
    kept::keep(&plan.device, &descriptors.collect::<Vec<_>>());
    let (recording, hears) = match file.map(|file| recording::begin(move || Ok(file))).transpose() {
        Ok(begun) => begun.unzip(),
        Err(why) => return Err(format!("the recording cannot begin: {why}")),
    };
    let mut keeper = Keeper::new(plan.state.clone(), made);
    keeper.forget_others(&plan.peers.iter().map(|peer| peer.public).collect::<Vec<_>>());
    let recording = recorded.zip(recording);
    let (crew, packets) = start_packets(plan, &keys, (&division, keeper.places()), opened, recording)?;
    if plan.threads > 1 {
        tell_division(plan, &division);
    }
    let (manager, wakes) = Manager::new(path.to_owned(), plan.clone(), keys, division, Arc::clone(&crew));
    let manager = Arc::new(Mutex::new(manager));
    let names = Arc::clone(&manager);
    thread::spawn(move || house::keep_names(&names, &wakes));
    let began = clock::now();
    let (shares, history) = (Arc::clone(&manager), Mutex::default());
    let desk = Arc::new(Desk { shares, crew: Arc::clone(&crew), name: name(), began, history });
    let mut at = String::new();
    if let Some((address, listener)) = status {
        if listener.is_ok() {
            at = format!(", status at http://{address}/");
        }
        let pages = Arc::clone(&desk);
        thread::spawn(move || control::keep_pages(&pages, address, listener));
    }
    thread::spawn(move || control::serve(&desk, &socket));
    let homes = Arc::clone(&manager);
    thread::spawn(move || homes::keep_homes(&homes));
    let house = Arc::clone(&manager);
    thread::spawn(move || house::keep_house(&house, keeper));

    let sites = if plan.peers.len() == 1 { "site" } else { "sites" };
    say(Level::Notice, format_args!("listens at {} for {} {sites}{at}", plan.listen, plan.peers.len()));
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("running")]);
    let (networks, device) = (plan.networks(), plan.device.clone());
    // Where there is no room for it nothing is told.
    let _ = thread::Builder::new().spawn(move || homes::tell_past(&networks, &device));
    let mut from_start = FromStart(hears);
    let ended = watch(&signals, &manager, &crew, packets, &mut from_start);
    from_start.look(&manager, true);
    recording::wait_for_clients(&crew);
    ended
}

/// A new file, which only its owner reads: what is recorded tells who talks to whom.
///
/// # Errors
/// When it cannot be made, or there is one already, for people.
pub fn new_file(path: &Path) -> Result<File, String> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|why| {
        let help =
            if why.kind() == io::ErrorKind::AlreadyExists { "; choose another, or remove it" } else { "" };
        format!("{}: {why}{help}", path.display())
    })
}

/// What `hear` opens, as soon as this machine has the address at which it is to listen, which a network may bring later.
/// None, if a signal ends it before.
fn when_it_is_there<T>(
    plan: &Plan,
    signals: &SignalFd,
    hear: &mut dyn FnMut() -> io::Result<T>,
) -> io::Result<Option<T>> {
    let mut was_told = false;
    loop {
        match hear() {
            Err(why) if why.kind() == io::ErrorKind::AddrNotAvailable => {
                if !was_told {
                    // The machine may start on: what waits for this waits for the network as well.
                    let status = format!("waits for {}", plan.listen);
                    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
                    say(
                        Level::Warning,
                        format_args!(
                            "{}: this machine does not have this address; it is waited for (`gateway.listen = \"[::]:51820\"` hears at all)",
                            plan.listen
                        ),
                    );
                    was_told = true;
                }
                let mut waits = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut waits, PollTimeout::from(1000_u16));
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
                while let Ok(Some(signal)) = signals.read_signal() {
                    if signal.ssi_signo != Signal::SIGHUP as u32 {
                        return Ok(None);
                    }
                }
            }
            outcome => return outcome.map(Some),
        }
    }
}

/// Addresses of the device and routes over it, in place of those that a daemon before has made.
fn make_ways(plan: &Plan) -> io::Result<Made> {
    let networks = plan.networks();
    let (device, addresses) = (plan.device.clone(), plan.addresses.clone());
    let made = Made { device, addresses, networks, is_closed: plan.is_closed };
    // What cannot be taken away drops what nobody has behind it: worth a word, and no reason not to run.
    let cleared = routes::clear(&state::made_before(plan.state.as_deref()), &made);
    let opened = if plan.is_closed { Ok(()) } else { routes::open(&made.networks).map(|_| ()) };
    if let Err(why) = cleared.and(opened) {
        say(Level::Warning, format_args!("a route that drops stays: {why}"));
    }
    routes::set_up(&made.device, &made.addresses, &made.networks)?;
    tell_closed(&made.networks);
    Ok(made)
}

/// Says which networks are closed here by another gateway, or by this one when its file was another and it kept no state.
fn tell_closed(networks: &[IpNet]) {
    let others = routes::closed().unwrap_or_default().into_iter().filter(|one| !networks.contains(one));
    let others: Vec<String> = others.map(|one| one.to_string()).collect();
    if !others.is_empty() {
        say(
            Level::Notice,
            format_args!(
                "packets for {} are dropped here too, and not by this file: by another gateway's, or by what this one's was before (`ip route del \
                 blackhole NETWORK`)",
                others.join(", ")
            ),
        );
    }
}

fn no_randomness(why: getrandom::Error) -> String {
    format!("the system has no randomness: {why}")
}

/// Says which sites are on which thread.
fn tell_division(plan: &Plan, division: &Division) {
    let names = plan.names();
    for thread in 0..division.threads() {
        let own: Vec<&str> = division.sites(thread).into_iter().map(|site| names[site].as_str()).collect();
        let own = if own.is_empty() { "no site".to_owned() } else { own.join(", ") };
        say(Level::Info, format_args!("thread {thread} has {own}"));
    }
}

fn make_device(plan: &Plan) -> Result<Vec<Tun>, String> {
    // The node may be missing, or the kernel's driver behind it.
    let made = Tun::create(&plan.device, plan.mtu(), plan.threads).map_err(|why| match why.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => io::ErrorKind::NotFound.into(),
        _ => why,
    });
    let missing = "/dev/net/tun is not there (`modprobe tun`; a container has to be given it)";
    let made = advised(made, io::ErrorKind::NotFound, missing);
    let busy = "another program has it; stop that, or choose another `gateway.device`";
    let made = advised(made, io::ErrorKind::ResourceBusy, busy);
    refused(format!("the device {} cannot be made", plan.device), made)
}

type Thread = thread::JoinHandle<io::Result<()>>;

/// Starts the packet threads, which have what was opened: sites are divided among them, and were heard at places.
/// One of the threads is recorded, if there is a recording.
fn start_packets(
    plan: &Plan,
    keys: &Keys,
    (division, places): (&Division, &Places),
    all_opened: Vec<(Tun, Vec<Udp>)>,
    mut recording: Option<(u8, Recording)>,
) -> Result<(Arc<Crew>, Vec<Thread>), String> {
    let private = keys.private(plan);
    let now = clock::now();
    let mut whole = plan.core(&private.public(), config::fresh_seed().map_err(no_randomness)?);
    for (site, peer) in whole.sites.iter_mut().zip(&plan.peers) {
        let place = places.get(&peer.public).filter(|&place| config::fits(place, plan.listen.ip()));
        if site.via.is_none() && place.is_some() {
            site.endpoint = place.copied();
        }
    }
    let is_recorded = recording.is_some();
    let all_shared = (0..plan.threads).map(|_| Shared::new().map(Arc::new)).collect();
    let all_shared: Vec<Arc<Shared>> = refused("a packet thread cannot be woken up", all_shared)?;
    let owners = Owners::new(&whole.sites, plan.peers.iter().map(|peer| peer.public), division);
    // A thread that is alone has none.
    let beside = if plan.threads > 1 { Beside::all(&all_shared, &Arc::new(owners)) } else { Vec::new() };
    let mut beside = beside.into_iter();
    let known = Arc::new(Known::new().map_err(no_randomness)?);
    let (mut posts, mut threads) = (Vec::new(), Vec::new());
    for ((number, opened), shared) in (0..).zip(all_opened).zip(all_shared) {
        let Share { config, text, numbers, peers } = Share::new(plan, keys, &whole, division, number);
        let tunnels = if plan.threads > 1 {
            WireguardTunnels::among((number, numbers), &private, &peers, now).map(|one| one.knowing(&known))
        } else {
            WireguardTunnels::new(&private, &peers, now)
        };
        let own = recording.take_if(|(thread, _)| *thread == number).map(|(_, recording)| recording);
        let (tape, ended) = own.unzip();
        let gateway = Core::new(config, &text, tunnels.map_err(no_randomness)?, tape, now);
        let (orders, hears) = sync_channel(ORDERS_MAX);
        posts.push(Post { orders, shared: Arc::clone(&shared) });
        let packets = Packets::new((gateway, ended), opened, beside.next(), plan.pace, hears, shared);
        let name = if number == 0 { "packets".to_owned() } else { format!("packets-{number}") };
        let spawned = thread::Builder::new().name(name).spawn(move || packets.run());
        threads.push(refused("no thread can be started", spawned)?);
    }
    Ok((Arc::new(Crew::new(posts, plan.names(), is_recorded)), threads))
}

/// Until a signal ends it, or a packet thread does. systemd is told that it is alive as long as packets are
/// served, by each of them.
fn watch(
    signals: &SignalFd,
    manager: &Shares,
    crew: &Crew,
    mut packets: Vec<Thread>,
    recording: &mut FromStart,
) -> Result<(), String> {
    let every = sd_notify::watchdog_enabled().map_or(LOOK_EVERY, |limit| (limit / 2).min(LOOK_EVERY));
    let timeout = PollTimeout::try_from(every).unwrap_or(PollTimeout::MAX);
    let mut beats = Vec::new();
    let end = |thread: Thread| {
        let ended = thread.join().map_err(|_| "a packet thread has panicked".to_owned())?;
        refused("packets", ended)
    };
    loop {
        let mut waits = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut waits, timeout);
        while let Ok(Some(signal)) = signals.read_signal() {
            if signal.ssi_signo == Signal::SIGHUP as u32 {
                let _ = sd_notify::notify(&[NotifyState::Reloading]);
                // The log has been told.
                let _ = control::reload(manager);
                let _ = sd_notify::notify(&[NotifyState::Ready]);
            } else {
                let _ = sd_notify::notify(&[NotifyState::Stopping]);
                control::lock(manager).drain(true)?;
                return packets.into_iter().map(end).fold(Ok(()), Result::and);
            }
        }
        // The others end with it.
        if let Some(ended) = packets.iter().position(Thread::is_finished) {
            return end(packets.swap_remove(ended));
        }
        recording.look(manager, false);
        if all_go_on(&mut beats, crew.beats()) {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }
}

fn name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default()
}

/// What the file at `path` says is right, and so are the files with keys.
///
/// # Errors
/// What is wrong, for people.
pub fn check(path: &Path) -> Result<Plan, String> {
    let plan = config::open(path).map_err(|why| why.render())?;
    Keys::default().load(&plan).map_err(|why| why.render())?;
    plan.require_memory().map_err(|why| why.render())?;
    Ok(plan)
}

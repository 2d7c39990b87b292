//! From the file to a running daemon, and to its end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sd_notify::NotifyState;

use super::config::{self, Keys, Plan};
use super::control::{self, Desk, Manager, Shares};
use super::io::clock;
use super::io::tun::Tun;
use super::io::udp::Udp;
use super::kept::{self, Kept};
use super::log::{Level, say};
use super::packets::{Core, Packets, Shared};
use super::recording::{self, FromStart, Recording};
use super::state::{self, Keeper, Places};
use super::{rights, routes};
use crate::tunnel::wireguard::WireguardTunnels;

/// How often it looks whether the packet thread is alive, where systemd does not say.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Orders that wait for the packet thread.
const ORDERS_MAX: usize = 16;

/// What the system refused, and to whom.
fn refused<T>(what: impl std::fmt::Display, outcome: io::Result<T>) -> Result<T, String> {
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

/// Runs by the file at `path` until a signal ends it, and records that into a file at `record`, if there is one.
///
/// # Errors
/// Why it cannot, for people.
pub fn run(path: &Path, record: Option<&Path>) -> Result<(), String> {
    let plan = config::open(path).map_err(|why| why.render())?;
    let mut keys = Keys::default();
    keys.load(&plan).map_err(|why| why.render())?;
    // Before there are threads: signals arrive as readable bytes only.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    system("signals cannot be held", signals.thread_block())?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let signals = system("signals cannot be read", signals)?;

    // With the rights that it has now.
    let file = record.map(new_file).transpose()?;
    let socket = refused(&plan.socket, control::open_socket(Path::new(&plan.socket), &plan.user))?;
    let shown = "stop what has the port (`ss -ltnp` shows it), or choose another `status.listen`";
    let open_status = |at| {
        refused(format!("status at {at}"), advised(control::open_status(at), io::ErrorKind::AddrInUse, shown))
    };
    let status = plan.status.map(open_status).transpose()?;
    // Closed first, so that there is no instant in which packets go another way.
    let networks = plan.networks();
    if plan.is_closed {
        refused("routes", routes::close(&networks))?;
    }
    let mut kept = Kept::take(&plan.device, &Udp::addresses(plan.listen));
    let (tun, is_kept) = match kept.device() {
        Some(descriptor) => (Tun::from_descriptor(descriptor), true),
        None => (make_device(&plan)?, false),
    };
    let advice = "stop what has the port (`ss -lunp` shows it), or choose another `gateway.listen`";
    let sockets = advised(Udp::all(plan.listen, |at| kept.socket(at)), io::ErrorKind::AddrInUse, advice);
    let sockets = refused(format!("nothing can be heard at {}", plan.listen), sockets)?;
    drop(kept);
    if is_kept {
        refused("the device", routes::set_mtu(&plan.device, plan.mtu()))?;
    }
    refused("routes", routes::set_up(&plan.device, &plan.addresses, &networks))?;
    if let Some(remembered) = &plan.state {
        state::prepare(remembered, &plan.user);
    }
    let given = refused("rights cannot be given away", rights::give_away(&plan.user))?;
    say(
        Level::Info,
        match &given.user {
            Some(user) => format!("runs as {user}, without capabilities"),
            None => format!(
                "there is no user `{}`, or no right to become it: the same user, without capabilities",
                plan.user
            ),
        },
    );

    kept::keep(&plan.device, tun.as_fd(), &sockets.iter().map(AsFd::as_fd).collect::<Vec<_>>());
    let (recording, hears) = match file.map(|file| recording::begin(move || Ok(file))).transpose() {
        Ok(begun) => begun.unzip(),
        Err(why) => return Err(format!("the recording cannot begin: {why}")),
    };
    let mut keeper = Keeper::new(plan.state.clone());
    keeper.forget_others(&plan.peers.iter().map(|peer| peer.public).collect::<Vec<_>>());
    let (manager, shared, packets) =
        start_packets(path, &plan, keys, keeper.places(), (tun, sockets), recording)?;
    let began = clock::now();
    let desk = Desk { shares: Arc::clone(&manager), shared: Arc::clone(&shared), name: name(), began };
    thread::spawn(move || control::serve(&desk, &socket, status.as_ref()));
    let house = Arc::clone(&manager);
    thread::spawn(move || control::keep_house(&house, keeper));

    let at = plan.status.map_or_else(String::new, |at| format!(", status at http://{at}/"));
    say(Level::Notice, format_args!("listens at {} for {} sites{at}", plan.listen, plan.peers.len()));
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("running")]);
    let mut from_start = FromStart(hears);
    let ended = watch(&signals, &manager, &shared, packets, &mut from_start);
    from_start.look(&manager, true);
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

fn make_device(plan: &Plan) -> Result<Tun, String> {
    // The node may be missing, or the kernel's driver behind it.
    let made = Tun::create(&plan.device, plan.mtu()).map_err(|why| match why.raw_os_error() {
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

fn start_packets(
    path: &Path,
    plan: &Plan,
    keys: Keys,
    places: &Places,
    opened: (Tun, Vec<Udp>),
    recording: Option<Recording>,
) -> Result<(Shares, Arc<Shared>, Thread), String> {
    let no_randomness = |why: getrandom::Error| format!("the system has no randomness: {why}");
    let private = keys.private(plan);
    let now = clock::now();
    let tunnels = WireguardTunnels::new(&private, &keys.peers(plan), now).map_err(no_randomness)?;
    let seed = config::fresh_seed().map_err(no_randomness)?;
    let mut config = plan.core(&private.public(), seed);
    for (site, peer) in config.sites.iter_mut().zip(&plan.peers) {
        if site.endpoint.is_none() && site.via.is_none() {
            site.endpoint = places.get(&peer.public).copied();
        }
    }
    let is_recorded = AtomicBool::new(recording.is_some());
    let (tape, ended) = recording.unzip();
    let gateway = Core::new(config, &plan.recorded, tunnels, tape, now);
    let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
    let wake = system("the packet thread cannot be woken up", wake)?;
    let shared =
        Arc::new(Shared { look: ArcSwapOption::empty(), beats: AtomicU64::new(0), wake, is_recorded });
    let (orders, hears) = sync_channel(ORDERS_MAX);
    let packets = Packets::new((gateway, ended), opened, plan.together, hears, Arc::clone(&shared));
    let spawned = thread::Builder::new().name("packets".to_owned()).spawn(move || packets.run());
    let thread = refused("no thread can be started", spawned)?;
    let manager = Manager::new(path.to_owned(), plan.clone(), keys, orders, Arc::clone(&shared));
    Ok((Arc::new(Mutex::new(manager)), shared, thread))
}

/// Until a signal ends it, or the packet thread does. systemd is told that it is alive as long as packets are served.
fn watch(
    signals: &SignalFd,
    manager: &Shares,
    shared: &Shared,
    packets: Thread,
    recording: &mut FromStart,
) -> Result<(), String> {
    let every = sd_notify::watchdog_enabled().map_or(LOOK_EVERY, |limit| (limit / 2).min(LOOK_EVERY));
    let timeout = PollTimeout::try_from(every).unwrap_or(PollTimeout::MAX);
    let mut beats = 0;
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
                let ended = packets.join().map_err(|_| "the packet thread has panicked".to_owned())?;
                return refused("packets", ended);
            }
        }
        if packets.is_finished() {
            let ended = packets.join().map_err(|_| "the packet thread has panicked".to_owned())?;
            return refused("packets", ended);
        }
        recording.look(manager, false);
        let now = shared.beats.load(Ordering::Relaxed);
        if now != beats {
            beats = now;
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
    Ok(plan)
}

//! What outlives the daemon: when it last asked for a session, by the wall clock, and where other sites were heard.
//!
//! Who answers a handshake remembers its stamp, and refuses earlier ones (NDSS 2017, section 5.1). A machine whose clock was set back
//! is refused until its clock has passed that, and cannot know why: the other end is silent. This file says so at the next
//! start. The library stamps handshakes by the wall clock at the time at which its tunnel was made, and lets nobody else say the
//! time, so that nothing here makes stamps later than they are.
//!
//! A site is asked for a session where it was heard last: it may have moved since the configuration was written, or be behind an address
//! translator, and would notice after WireGuard's 15 s that this end has forgotten where it is. Should somebody else be there now, they
//! cannot answer: after some seconds the place that the configuration says counts, if there is one, and the site is followed when it
//! speaks.
//!
//! And what it made of routes and addresses of the machine is in it, so that the next one takes away what its file does not say any more,
//! and nothing that somebody else made.
//!
//! What cannot be read, or is of another version, counts for nothing; a file that cannot be written is a line in the log. Neither
//! keeps the daemon from running.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use serde_json::{Value, json};
use tidegate_units::Span;

use super::config::{decode_key, encode_key};
use super::io::clock;
use super::log::{Level, say};
use super::{rights, routes};

/// The version that is written and understood.
const VERSION: u64 = 1;
/// No more of the file is read: places of some ten thousand sites.
const BYTES_MAX: u64 = 1 << 20;

/// Where sites were heard last, by their public keys.
pub type Places = BTreeMap<[u8; 32], SocketAddr>;

/// What a daemon made of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Made {
    /// The name of its device.
    pub device: String,
    /// What goes there, or is dropped.
    pub networks: Vec<IpNet>,
    /// What the device is called by.
    pub addresses: Vec<IpNet>,
    /// Whether what is for the networks is dropped while it does not run.
    pub is_closed: bool,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Handshakes were stamped with no later time than this, since 1970.
    pub stamp: Span,
    /// Where other sites were heard.
    pub places: Places,
    /// Routes and addresses.
    pub made: Made,
}

impl State {
    /// What `bytes` say, if they are of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let read: Value = serde_json::from_slice(bytes).ok()?;
        (read.get("version")?.as_u64()? == VERSION).then_some(())?;
        let stamp = Span::from_nanos(read.get("stamp_ns")?.as_u64()?);
        // Earlier ones have none.
        let places = read.get("places").and_then(Value::as_object).into_iter().flatten();
        let place = |(key, at): (&String, &Value)| Some((decode_key(key)?, at.as_str()?.parse().ok()?));
        let said = read.get("made").unwrap_or(&Value::Null);
        let nets = |key: &str| {
            let all = said.get(key).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(|one| one.as_str()?.parse().ok()).collect()
        };
        let device = said.get("device").and_then(Value::as_str).unwrap_or_default().to_owned();
        // Earlier ones did not say it, and most were.
        let is_closed = said.get("closed").and_then(Value::as_bool).unwrap_or(true);
        let made = Made { device, networks: nets("networks"), addresses: nets("addresses"), is_closed };
        Some(Self { stamp, places: places.filter_map(place).collect(), made })
    }

    /// The bytes of it.
    pub fn encode(&self) -> Vec<u8> {
        let places: BTreeMap<String, String> =
            self.places.iter().map(|(key, at)| (encode_key(key), at.to_string())).collect();
        let texts = |nets: &[IpNet]| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
        let Made { device, networks, addresses, is_closed } = &self.made;
        let made = json!({
            "device": device,
            "networks": texts(networks),
            "addresses": texts(addresses),
            "closed": is_closed,
        });
        let whole =
            json!({ "version": VERSION, "stamp_ns": self.stamp.as_nanos(), "places": places, "made": made });
        format!("{whole}\n").into_bytes()
    }

    /// What the file at `path` says; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or says nothing that is understood.
    pub fn load(path: &Path) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        match File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes)) {
            Ok(_) => {
                Self::decode(&bytes).map(Some).ok_or_else(|| io::Error::other("is no state of this version"))
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Writes it to the file at `path`, in one step: whatever happens meanwhile, the old one is there or the new one.
    ///
    /// # Errors
    /// When the system refuses it; the old one is there then.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        self.store_for(path, "")
    }

    /// The same; the file is `user`'s, if there is such a user, before it has its name: whoever has the folder may put something else there.
    fn store_for(&self, path: &Path, user: &str) -> io::Result<()> {
        let beside = beside(path);
        // What a life left that ended while it wrote. A link is removed, and not what it leads to.
        let _ = fs::remove_file(&beside);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        // Where it may not, it keeps what is known all the same.
        let _ = rights::hand_over(&file, user);
        let written = (&file)
            .write_all(&self.encode())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // It may be half of one, on a disk that has no room.
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

/// Where the next state is written: a name that nobody else gives.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tidegate-new");
    PathBuf::from(name)
}

/// What a daemon that had its state at `path` made of the machine, as far as that can be known.
pub fn made_before(path: Option<&Path>) -> Made {
    path.and_then(|path| State::load(path).ok().flatten()).unwrap_or_default().made
}

/// Keeps that `networks` are closed from now on, in the file at `path` of the daemon that `user` is: whoever opens them later must know of
/// them, whatever becomes of the start. Where that cannot be kept it is closed all the same.
pub fn note_closed(path: Option<&Path>, user: &str, networks: &[IpNet]) {
    let Some(path) = path else { return };
    // What cannot be read is not written over: a daemon says so when it runs.
    let Ok(kept) = State::load(path) else { return };
    let mut state = kept.unwrap_or_default();
    let known = state.made.networks.len();
    let new = networks.iter().filter(|one| !state.made.networks.contains(one)).copied().collect::<Vec<_>>();
    state.made.networks.extend(new);
    state.made.is_closed = true;
    if state.made.networks.len() > known {
        prepare(path, user);
        let _ = state.store_for(path, user);
    }
}

/// Closes what a daemon had closed that had its state at `path`: for a start by a file that is wrong. The networks.
///
/// # Errors
/// When the system refuses it.
pub fn close_as_before(path: Option<&Path>) -> io::Result<Vec<IpNet>> {
    let Made { networks, is_closed, .. } = made_before(path);
    if !is_closed {
        return Ok(Vec::new());
    }
    routes::close(&networks).map(|()| networks)
}

/// Makes the folder of the file at `path` for `user`; call it before rights are given away. Whether it is there is seen when it is used.
pub fn prepare(path: &Path, user: &str) {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        let _ = make_folder(folder, user);
    }
}

/// Makes `folder`, and the one that it is in. They are held open meanwhile: who has that may put something else in its place, which is not
/// handed over.
fn make_folder(folder: &Path, user: &str) -> io::Result<()> {
    let Some(name) = folder.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let within = folder.parent().filter(|within| !within.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(within)?;
    let within = File::open(within)?;
    mkdirat(&within, name, Mode::S_IRWXU)?;
    rights::hand_over(open_folder(&within, name)?, user)
}

/// The folder `name` that is in `within`, and not what a link of that name leads to.
fn open_folder(within: &File, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(within, name, flags, Mode::empty())?)
}

/// Keeps the file of a running daemon.
pub struct Keeper {
    path: Option<PathBuf>,
    /// By how much the wall clock was ahead of that of the machine when tunnels were made: what handshakes are stamped by.
    offset_ns: i64,
    /// The latest stamp of any life, and where sites were heard.
    state: State,
    /// That it cannot be written was said.
    has_failed: bool,
}

impl Keeper {
    /// Of tunnels that were made just now, and of what else was `made`. The log is told if the clock was set back, and if the file cannot be used.
    pub fn new(at: Option<PathBuf>, made: Made) -> Self {
        let state = State::default();
        let mut keeper = Self { path: at, offset_ns: clock::wall_offset_ns(), state, has_failed: false };
        let Some(path) = &keeper.path else { return keeper };
        match State::load(path) {
            Ok(kept) => keeper.state = kept.unwrap_or_default(),
            Err(why) => say(
                Level::Warning,
                format_args!(
                    "{}: {why}; when this gateway last asked for a session is not known, and it goes on without. Remove the file, or \
                     let the daemon's user read it",
                    path.display()
                ),
            ),
        }
        keeper.state.made = made;
        let now = keeper.stamp_now();
        if keeper.state.stamp > now {
            let behind = Span::from_nanos(keeper.state.stamp.as_nanos() - now.as_nanos());
            say(
                Level::Warning,
                format_args!(
                    "the clock is {:.0} s behind the last handshake of this gateway, and other ends refuse what is older. Gateways like this one \
                     ask back; with other ends there is no session before they ask, or the clock is right: set it (`timedatectl set-ntp true`). If it is \
                     right, remove {}",
                    behind.as_secs_f64(),
                    path.display()
                ),
            );
        }
        keeper.keep();
        keeper
    }

    /// Where sites were heard, in this life or the one before.
    pub const fn places(&self) -> &Places {
        &self.state.places
    }

    /// Sites are heard at these places, and those of which nothing is said were where they were: whether that is new.
    pub fn follow(&mut self, places: Places) -> bool {
        let before = self.state.places.clone();
        self.state.places.extend(places);
        self.state.places != before
    }

    /// Nothing is remembered of sites but these.
    pub fn forget_others(&mut self, known: &[[u8; 32]]) {
        self.state.places.retain(|key, _| known.contains(key));
    }

    fn stamp_now(&self) -> Span {
        let now = clock::now().as_nanos().cast_signed();
        Span::from_nanos(u64::try_from(now + self.offset_ns).unwrap_or(0))
    }

    /// Writes what is so now. The log is told once if that cannot be.
    pub fn keep(&mut self) {
        let Some(path) = &self.path else { return };
        let stamp = self.state.stamp.max(self.stamp_now());
        match (State { stamp, ..self.state.clone() }).store(path) {
            Ok(()) => self.has_failed = false,
            Err(_) if self.has_failed => {}
            Err(why) => {
                self.has_failed = true;
                say(
                    Level::Warning,
                    format_args!(
                        "{}: cannot be written: {why}; the daemon goes on, and nothing is lost but a warning if the clock is set back, and seconds until sites without `endpoint` are found after a restart. Make room \
                         there, or let the daemon's user write",
                        path.display()
                    ),
                );
            }
        }
    }

    /// Whether the wall clock was set forward since tunnels were made: those without a session are to be made anew then.
    pub fn was_set_forward(&mut self) -> bool {
        let offset_ns = clock::wall_offset_ns();
        let is_ahead = offset_ns - self.offset_ns > 1_000_000_000;
        if is_ahead {
            self.offset_ns = offset_ns;
        }
        is_ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-state-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("there is room");
        folder
    }

    #[test]
    fn what_is_written_is_read_and_garbage_counts_for_nothing() {
        let folder = folder("garbage");
        let path = folder.join("state.json");
        assert_eq!(State::load(&path).expect("there is none"), None);
        let places = Places::from([([7; 32], SocketAddr::from(([192, 0, 2, 1], 51820)))]);
        let net = |text: &str| text.parse().expect("it is one");
        let made = Made {
            device: "tidegate0".to_owned(),
            networks: vec![net("10.2.0.0/24"), net("fd00::/64")],
            addresses: vec![net("10.9.0.1/24")],
            is_closed: true,
        };
        let state = State { stamp: Span::from_nanos(1_764_037_260_123_456_789), places, made };
        state.store(&path).expect("there is room");
        assert_eq!(State::load(&path).expect("it is one"), Some(state.clone()));
        let later = state.encode().iter().map(|byte| if *byte == b'1' { b'2' } else { *byte }).collect();
        for garbage in [vec![], vec![0; 100_000], b"{}".to_vec(), b"{\"version\":1}".to_vec(), later] {
            fs::write(&path, garbage).expect("there is room");
            assert!(State::load(&path).is_err());
        }
        state.store(&path).expect("garbage is written over");
        assert_eq!(State::load(&path).expect("it is one"), Some(state));
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn a_state_of_an_earlier_version_of_the_program_and_places_that_are_none_are_read_as_far_as_they_go() {
        let early = State::decode(b"{\"version\":1,\"stamp_ns\":5}").expect("it is one");
        let made = Made { is_closed: true, ..Made::default() };
        assert_eq!(early, State { stamp: Span::from_nanos(5), made, ..State::default() });
        let odd = b"{\"version\":1,\"stamp_ns\":5,\"places\":{\"no key\":\"192.0.2.1:1\",\"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\":7}}";
        assert_eq!(State::decode(odd), Some(early));
    }

    #[test]
    fn who_is_silent_was_where_it_was_and_who_is_no_site_any_more_is_forgotten() {
        let mut keeper = Keeper::new(None, Made::default());
        let at = |last| SocketAddr::from(([192, 0, 2, last], 51820));
        assert!(keeper.follow(Places::from([([1; 32], at(1)), ([2; 32], at(2))])));
        assert!(!keeper.follow(Places::from([([1; 32], at(1))])));
        assert!(keeper.follow(Places::from([([1; 32], at(9))])));
        keeper.forget_others(&[[1; 32]]);
        assert_eq!(*keeper.places(), Places::from([([1; 32], at(9))]));
    }

    #[test]
    fn what_stands_beside_is_not_written_and_who_cannot_write_keeps_the_old_one() {
        let folder = folder("beside");
        let path = folder.join("state.json");
        let state = |seconds| State { stamp: Span::from_secs(seconds), ..State::default() };
        let stranger = folder.join("state.new");
        fs::write(&stranger, "somebody's").expect("there is room");
        std::os::unix::fs::symlink(&stranger, beside(&path)).expect("there is room");
        state(1).store(&path).expect("there is room");
        assert_eq!(fs::read_to_string(&stranger).expect("it is there"), "somebody's");
        // What cannot be removed, and cannot be a file.
        fs::create_dir(beside(&path)).expect("there is room");
        assert_eq!(state(2).store(&path).map_err(|why| why.kind()), Err(io::ErrorKind::AlreadyExists));
        assert_eq!(State::load(&path).expect("it is one"), Some(state(1)));
        fs::remove_dir_all(folder).expect("it is ours");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_state_or_none(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            ns: u64,
            places in prop::collection::btree_map(any::<[u8; 32]>(), any::<(std::net::IpAddr, u16)>(), 0..5),
        ) {
            let _ = State::decode(&bytes);
            let places = places.into_iter().map(|(key, at)| (key, SocketAddr::from(at))).collect();
            let state = State { stamp: Span::from_nanos(ns), places, made: Made::default() };
            prop_assert_eq!(State::decode(&state.encode()), Some(state));
        }
    }

    #[test]
    fn what_is_closed_is_known_also_where_the_start_fails() {
        let folder = folder("closed");
        let path = folder.join("within/state.json");
        let net = |text: &str| text.parse::<IpNet>().expect("it is one");
        note_closed(None, "", &[net("10.1.0.0/24")]);
        note_closed(Some(&path), "", &[net("10.1.0.0/24"), net("10.2.0.0/24")]);
        note_closed(Some(&path), "", &[net("10.2.0.0/24"), net("fd00::/64")]);
        let made = made_before(Some(&path));
        assert_eq!(made.networks, ["10.1.0.0/24", "10.2.0.0/24", "fd00::/64"].map(net));
        assert!(made.is_closed);
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn what_is_made_for_the_daemons_user_is_its_own_and_nobody_elses_is_made_so() {
        let folder = folder("owner");
        let path = folder.join("more/within/state.json");
        note_closed(Some(&path), "nobody", &["10.1.0.0/24".parse().expect("it is one")]);
        let about = |at: &Path| {
            let about = fs::symlink_metadata(at).expect("it is there");
            (about.uid(), about.mode() & 0o7777)
        };
        let own = nix::unistd::geteuid();
        let nobody =
            nix::unistd::User::from_name("nobody").expect("users can be read").expect("it is there").uid;
        // Only root may give it away.
        let user = if own.is_root() { nobody } else { own };
        assert_eq!(about(&path), (user.as_raw(), 0o600));
        let within = path.parent().expect("it is in one");
        assert_eq!(about(within), (user.as_raw(), 0o700));
        // What a link leads to is not what was made.
        let more = within.parent().expect("it is in one");
        assert_eq!(about(more).0, own.as_raw());
        std::os::unix::fs::symlink(&folder, more.join("link")).expect("there is room");
        let more = File::open(more).expect("it is there");
        assert!(open_folder(&more, OsStr::new("within")).is_ok());
        assert!(open_folder(&more, OsStr::new("link")).is_err());
        // Somebody was there before.
        fs::create_dir(folder.join("theirs")).expect("there is room");
        assert!(make_folder(&folder.join("theirs"), "nobody").is_err());
        assert_eq!(about(&folder.join("theirs")).0, own.as_raw());
        fs::remove_dir_all(folder).expect("it is ours");
    }
}

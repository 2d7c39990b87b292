//! The one file that an operator writes, and what follows from it.
//!
//! [`read`] understands the text, with errors that name file, line and key. [`Keys`] reads the files with secrets that it names, once:
//! later the daemon has no rights to.

mod endpoint;
mod keys;
mod needs;
mod reader;
mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use ipnet::IpNet;
use serde::Deserialize;
use tidegate_document::error::Problems;
use tidegate_document::{ConfigError, ConfigErrors, Document, Format, Site};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::mark::MarkerConfig;
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_parameters::{Bound, bound, family, parameters, words};
use tidegate_units::{BitRate, Span};

pub use self::endpoint::{Nowhere, fits, literal, resolve};
pub use self::keys::{Keys, decode_key, encode_key};
pub use self::needs::Named;
use self::needs::Written;
use self::reader::Reader;
pub use self::recorded::{Recorded, configure};
use super::rounds::Pace;
use crate::core::config::{GatewayConfig, RateConfig};
use crate::tunnel::wireguard::{THREADS_MAX, site_id};

/// Where it is looked for.
pub const DEFAULT_FILE: &str = "/etc/tidegate/gateway.toml";
/// Where it keeps what outlives it.
pub const DEFAULT_STATE: &str = "/var/lib/tidegate/gateway.json";
/// What fits no class has this number, so that there are some before it and some behind.
const OTHER_CLASS: u8 = 4;
/// Linux keeps names of devices this short.
const DEVICE_BYTES_MAX: usize = 15;

const FORMAT: Format = Format {
    kind_keys: &["control", "queue", "relay", "marker"],
    repeated: &[],
    override_example: "gateway.mtu=1400",
};

parameters! {
    /// # Nothing is held
    ///
    /// What goes there leaves at once, whatever the path gives.
    #[derive(Copy)]
    pub struct Unheld {
    }
}

family! {
    /// What finds the rate towards a site.
    pub enum Control {
        /// Nothing is held.
        None(Unheld) = "none",
    } and {
        /// A mechanism.
        Edge(EdgeConfig),
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::Edge(EdgeConfig::Path(Box::default()))
    }
}

words! {
    /// What becomes of packets for other sites while the daemon does not run.
    pub enum WhenStopped {
        /// They are dropped: nothing leaves in clear text by another route.
        Closed = "closed",
        /// They go where other routes lead.
        Open = "open",
    }
}

const RATE: Bound<BitRate> = Bound::above(BitRate::ZERO)
    .and_at_most(bound::RATE_MAX)
    .low("a rate of zero moves nothing", "like 1Mbit; to stop what goes to a site, take its table away");

parameters! {
    /// # The rate towards a site
    ///
    /// What rates keep to, whatever a mechanism, a path or the other end says.
    #[derive(Copy)]
    pub struct RateTable {
        /// Never less: what is assured. Default: 1 Mbit/s, or `max` where that is less. Source: assumed.
        floor: Option<BitRate> = None => RATE;
        /// Never more. Source: assumed.
        max: BitRate = BitRate::from_mbps(10_000) => RATE;
        /// The rate towards an end that does not answer. Default: 2 Mbit/s, or what is nearest to that between `floor` and `max`. Source:
        /// assumed.
        fallback: Option<BitRate> = None => RATE;
    }
    check |config, report| {
        let RateConfig { floor, max, fallback } = config.rates();
        if floor > max {
            report.say("floor", "is more than `max`", "floor <= fallback <= max");
        } else if fallback < floor || fallback > max {
            report.say("fallback", format!("{fallback} is not between `floor` and `max`"), "floor <= fallback <= max");
        }
    };
}

impl RateTable {
    /// What it says, and what follows from that where it says nothing.
    fn rates(&self) -> RateConfig {
        let max = self.max;
        let floor = self.floor.unwrap_or_else(|| BitRate::from_mbps(1).min(max));
        let fallback = self.fallback.unwrap_or_else(|| BitRate::from_mbps(2).min(max).max(floor));
        RateConfig { floor, max, fallback }
    }
}

parameters! {
    /// # This gateway
    ///
    /// Who it is, where it listens, what it holds.
    ///
    /// Source: none.
    pub struct GatewayTable {
        /// The file with its key, as `tidegatectl keygen` writes it. Nobody else may read it. Required.
        private_key_file: String;
        /// Where datagrams come in; `[::]` is IPv6 and IPv4. Source: the port that WireGuard has by habit.
        listen: String = "[::]:51820".to_owned();
        /// Its own addresses inside, with the length of the network, like `10.9.0.1/24`: hosts here are answered from them.
        address: Vec<String> = Vec::new();
        /// The name of its device.
        device: String = "tidegate0".to_owned();
        /// The largest packet inside, if the path takes it. Source: 1500 without what WireGuard and IPv6 add.
        mtu: u16 = 1420 => Bound::between(1280, 1440);
        /// Packets that it holds at most either way, 4 kB for both; each site may hold its part of them. Source: assumed.
        buffers: u32 = 16_384 => Bound::between(64, 4_194_304);
        /// How many numbers flows have: those that share one share a queue, and all else that is a flow's. Source: assumed; they cost nothing, and
        /// with the 1024 of Linux' fq_codel a call would wait in the queue of one of four downloads in one case of 256.
        flows: u32 = 65_536 => Bound::between(1, 1_048_576);
        /// Where more than 8 packets leave in a millisecond, rounds of work begin so far apart, so that many packets go with one call. It costs
        /// processor time to have it shorter, and half of it as added delay on the average to have it longer. As much at their rate do shapers
        /// let go at once. Zero: at once, and one by one. Source: Linux' TCP sends what its pacing allows for 1 ms at once (`tcp_tso_autosize`).
        together: Span = Span::from_millis(1) => Bound::between(Span::ZERO, Span::from_millis(10));
        /// The share of a processor that a packet thread may take for looking out, for 0.4 ms after a packet, for what comes next, in place of
        /// sleeping: an answer is not held up by a wake, of which a round trip has four. Zero: it always sleeps. Source: assumed; the field's
        /// name for it is busy polling.
        busy_poll: f64 = 0.05 => Bound::between(0.0, 1.0);
        /// Threads that packets are divided among: sites that have nothing to do with each other may be on
        /// several, each with a core of its own. More than there are processors are of no use. Source: assumed.
        threads: u8 = 1 => Bound::between(1, THREADS_MAX);
        /// Who it is after its start, if there is such a user.
        user: String = "tidegate".to_owned();
        /// Where `tidegatectl` finds it.
        socket: String = super::DEFAULT_SOCKET.to_owned();
        /// Where it keeps what outlives it: its last stamp, and where other sites were heard; empty: nowhere.
        state: String = DEFAULT_STATE.to_owned();
        /// What it tells and hears of neighbours about what passes on through them: `nbq` or `backpressure`. Default: nothing passes on.
        relay: Option<HopConfig> = None => bound::INSIDE;
    }
}

parameters! {
    /// # Another site
    ///
    /// Where it is, what is behind it, and how traffic there is held.
    ///
    /// Source: none.
    pub struct SiteTable {
        /// Its key, which `tidegatectl keygen` shows there. Required.
        public_key: String;
        /// A file with a secret that both have besides. Default: none.
        preshared_key_file: Option<String> = None;
        /// Where it is, like `b.example.net:51820`. Default: it speaks first; after a restart it is looked for where it was heard.
        endpoint: Option<String> = None;
        /// The networks behind it, like `10.2.0.0/24`, and its own address inside, like `10.9.0.2/32`: the daemon makes routes to them over its
        /// device (metric 10), and packets from it are taken with these addresses alone. Of several sites the longest prefix decides. The other
        /// end's address outside must not be in one, unless it has a route of its own.
        networks: Vec<String> = Vec::new();
        /// It hears from here so often, for address translators in between. Default: never.
        keepalive: Option<Span> = None => Bound::between(Span::from_secs(1), Span::from_secs(3600));
        /// What finds the rate. Default: `path`.
        control: Control = Control::default() => bound::INSIDE;
        /// What the rate keeps to.
        rate: RateTable = RateTable::default() => bound::INSIDE;
        /// What waits in front of the shaper. Default: `fq-codel` with 8 `ways`, so that flows share a queue only where many are busy, or where there are classes `priority` with `codel` in each.
        queue: Option<DisciplineConfig> = None => bound::INSIDE;
        /// The site that passes on what is for this one. Default: none.
        via: Option<String> = None;
    }
}

parameters! {
    /// # A class of traffic
    ///
    /// What some packets have in common. Classes are looked at in the order of the file; what fits none has priority 4.
    ///
    /// Source: none.
    pub struct ClassTable {
        /// Lower ones are more urgent. Required.
        priority: u8 => Bound::between(0, 7);
        /// Codepoints that its packets have, like `[46]`. Default: any.
        dscp: Vec<u8> = Vec::new() => bound::Each(bound::CODEPOINT);
        /// Ports, of either end. Default: any.
        ports: Vec<u16> = Vec::new();
        /// It has a virtual link of its own, with this codepoint outside. Default: that of best effort.
        own_link: Option<u8> = None => Bound::between(1, 63);
        /// What conditions it where it enters. Default: nothing.
        marker: Option<MarkerConfig> = None => bound::INSIDE;
    }
}

parameters! {
    /// # Status
    ///
    /// The page for people, `/metrics` for Prometheus, `/status.json` for programs.
    ///
    /// Source: none.
    pub struct StatusTable {
        /// Where; an address of the machine itself. Empty: nowhere.
        listen: String = "127.0.0.1:9586".to_owned();
    }
}

parameters! {
    /// # What happens when something fails
    ///
    /// Source: none.
    #[derive(Copy)]
    pub struct FailTable {
        /// What becomes of packets for other sites while the daemon does not run.
        daemon_stops: WhenStopped = WhenStopped::Closed;
    }
}

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    gateway: GatewayTable,
    #[serde(default)]
    sites: BTreeMap<String, SiteTable>,
    #[serde(default)]
    classes: IndexMap<String, ClassTable>,
    #[serde(default)]
    status: Option<StatusTable>,
    #[serde(default)]
    fail: Option<FailTable>,
}

/// What the file says, understood; without what files with secrets say.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file with the key.
    pub private_key_file: String,
    /// Where datagrams come in.
    pub listen: SocketAddr,
    /// The own addresses inside.
    pub addresses: Vec<IpNet>,
    /// The name of the device.
    pub device: String,
    /// Who the daemon is after its start.
    pub user: String,
    /// Where it is told what to do.
    pub socket: String,
    /// Threads that packets are divided among.
    pub threads: u8,
    /// When rounds of a packet thread begin.
    pub pace: Pace,
    /// Where it keeps what outlives it; none: nowhere.
    pub state: Option<PathBuf>,
    /// Where it shows itself; none: nowhere.
    pub status: Option<SocketAddr>,
    /// Whether nothing may leave by other routes while it does not run.
    pub is_closed: bool,
    /// The tunnels, in the order of the sites.
    pub peers: Vec<PeerPlan>,
    /// What of the file a recording has.
    pub recorded: Recorded,
    /// Where in the file stands what is judged later.
    written: Written,
    /// For the core; its own name and the seed are missing.
    core: GatewayConfig,
}

/// The other end of a tunnel.
#[derive(Clone, Debug)]
pub struct PeerPlan {
    /// Its key.
    pub public: [u8; 32],
    /// The file with the secret that both have besides.
    pub shared_file: Option<String>,
    /// It hears from here so often.
    pub keepalive: Option<Span>,
    /// Where it is, as the file says.
    pub endpoint: Option<String>,
}

/// Understands `text`, which stands in a file called `name`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(name: &str, text: &str) -> Result<Plan, ConfigErrors> {
    understand(name, text, false)
}

/// The same, also of what a recording has.
fn understand(name: &str, text: &str, is_recorded: bool) -> Result<Plan, ConfigErrors> {
    let document = Document::from_text(name, text, FORMAT)?;
    let mut problems = Problems::default();
    let site = Site { tree: document.root(), section: "", name: "" };
    let written = |keys: &[&str]| site.problem(keys, "", "").resolve(document.sources());
    let mut reader = Reader { site, problems: &mut problems, listen: None, written: &written, is_recorded };
    reader.rates_alone();
    if !reader.problems.is_empty() {
        return problems.finish(None, document.sources());
    }
    let plan = reader.plan(&document.read()?);
    problems.finish(plan, document.sources())
}

/// The same of the file at `path`.
///
/// # Errors
/// When it cannot be read, or is wrong.
pub fn open(path: &Path) -> Result<Plan, ConfigErrors> {
    let name = path.display().to_string();
    let text = text_of(path).map_err(|why| {
        let help = "`tidegate-gateway explain` shows one to begin with".to_owned();
        ConfigErrors::from(ConfigError::without_place(name.clone(), format!("cannot be read: {why}"), help))
    })?;
    if decode_key(&text).is_some() {
        // Whatever is wrong with a configuration is shown with the line where it stands.
        let help = "the file with `[gateway]` and `[sites]`, /etc/tidegate/gateway.toml as a rule".to_owned();
        let message = "is a key, which is not shown, and no configuration".to_owned();
        return Err(ConfigErrors::from(ConfigError::without_place(name, message, help)));
    }
    read(&name, &text)
}

/// Where the file at `path`, which is wrong, says that the state is: by its lines alone, for where the daemon before has noted what is
/// closed counts whatever else is wrong. Where it says nothing, the usual place; none where it says that no state is kept.
pub fn state_of_wrong(path: &Path) -> Option<PathBuf> {
    let text = text_of(path).unwrap_or_default();
    let place = said_in(&text, "state").unwrap_or(DEFAULT_STATE);
    (!place.is_empty()).then(|| PathBuf::from(place))
}

/// The same of the socket of orders.
pub fn socket_of_wrong(path: &Path) -> PathBuf {
    PathBuf::from(said_in(&text_of(path).unwrap_or_default(), "socket").unwrap_or(super::DEFAULT_SOCKET))
}

/// What a line of `text` gives `key` of `[gateway]` as: a string in quotes, on one line, as it stands there.
fn said_in<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut table = "";
    text.lines().find_map(|line| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            table = header.split(']').next().unwrap_or_default().trim();
        }
        let (name, value) = line.split_once('=')?;
        let name = match (table, name.trim()) {
            ("gateway", name) => name,
            ("", name) => name.strip_prefix("gateway.")?,
            _ => return None,
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (inside, behind) = value[1..].split_once(quote)?;
        // Of several lines, or with escapes, it may be anything.
        let is_plain = !behind.starts_with(quote) && !inside.contains('\\');
        (name == key && is_plain).then_some(inside)
    })
}

/// A file that somebody named is read no further than this: four thousand sites need less.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The text of the file at `path`.
///
/// # Errors
/// When it cannot be read, or has more than 4 MiB.
pub fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    if fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)? as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it has more than 4 MiB, as no file of ours has"));
    }
    Ok(text)
}

impl Plan {
    /// What the core is told, in a life that draws its numbers from `seed`, by a gateway with `public_key`. Where a site is that has a
    /// name is not known yet: nobody waits for that.
    pub fn core(&self, public_key: &[u8; 32], seed: u64) -> GatewayConfig {
        let mut core = self.core.clone();
        (core.id, core.seed) = (site_id(public_key), seed);
        for (site, peer) in core.sites.iter_mut().zip(&self.peers) {
            site.endpoint = peer.endpoint.as_deref().and_then(|text| literal(text, self.listen.ip()));
        }
        core
    }

    /// The same without what is found out when the core begins: where sites are, who the gateway is, and the seed.
    pub const fn outline(&self) -> &GatewayConfig {
        &self.core
    }

    /// The largest packet inside.
    pub const fn mtu(&self) -> u16 {
        self.core.mtu
    }

    /// All networks of all sites.
    pub fn networks(&self) -> Vec<IpNet> {
        self.core.sites.iter().flat_map(|site| &site.networks).copied().collect()
    }

    /// Names of the sites.
    pub fn names(&self) -> Vec<String> {
        self.core.sites.iter().map(|site| site.name.clone()).collect()
    }

    /// Names of sites that are elsewhere than `now` says, as far as both files say where.
    pub fn moved_from(&self, now: &Self) -> BTreeSet<String> {
        let place = |plan: &Self, at: usize| plan.peers.get(at).and_then(|peer| peer.endpoint.clone());
        let sites = self.core.sites.iter().enumerate();
        sites
            .filter(|(at, _)| place(self, *at).is_some() && place(self, *at) != place(now, *at))
            .map(|(_, site)| site.name.clone())
            .collect()
    }

    /// What cannot change while the daemon runs, and is another than in `now`; by key.
    pub fn fixed_that_differ(&self, now: &Self) -> Vec<&'static str> {
        let sorted = |plan: &Self| {
            let mut networks = plan.networks();
            networks.sort_unstable();
            networks
        };
        let keys = |plan: &Self| {
            plan.peers.iter().map(|peer| (peer.public, peer.shared_file.clone())).collect::<Vec<_>>()
        };
        [
            ("gateway.private_key_file", self.private_key_file != now.private_key_file),
            ("gateway.listen", self.listen != now.listen),
            ("gateway.address", self.addresses != now.addresses),
            ("gateway.device", self.device != now.device),
            ("gateway.mtu", self.mtu() != now.mtu()),
            ("gateway.threads", self.threads != now.threads),
            ("gateway.user", self.user != now.user),
            ("gateway.socket", self.socket != now.socket),
            ("gateway.state", self.state != now.state),
            ("status.listen", self.status != now.status),
            ("fail.daemon_stops", self.is_closed != now.is_closed),
            ("sites.*.networks", sorted(self) != sorted(now)),
            ("sites.*.public_key", keys(self) != keys(now) || self.names() != now.names()),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

/// A number that nobody knows, for what is drawn in one life.
///
/// # Errors
/// When the system has no randomness.
pub fn fresh_seed() -> Result<u64, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::getrandom(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests;

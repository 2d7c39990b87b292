//! Addresses and routes, by `ip` of iproute2.
//!
//! Each network of another site has two routes: one over the device, and, unless the operator wants it open, one just behind it that
//! drops. The kernel takes the first away with the device, whenever and however the daemon ends; the second stays, so that
//! nothing leaves in clear text by another way.
//!
//! What the operator's own routes make of that is looked at: datagrams of the daemon must not come back to it as packets of hosts
//! ([`taken`]), and a route that goes before ours is worth a word ([`past`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write as _};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};
use serde_json::Value;

use super::state::Made;

/// Of both routes; the lower goes first. Routes without one, of IPv4, go before both: they are the operator's own word.
const METRIC_OVER: u64 = 10;
const METRIC_CLOSED: u64 = 11;
/// Who made a route that drops, as `ip route` shows it (`proto`): no other program's number in iproute2's `rt_protos`.
const PROTOCOL: &str = "116";
/// No more is read of what `ip` says of all routes of a family, in bytes: those of the whole Internet are some 100 MB.
const TEXT_MAX: u64 = 1 << 28;

fn ip(arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("ip").args(arguments).output().map_err(|why| {
        if why.kind() == io::ErrorKind::NotFound {
            io::Error::other("`ip` is missing; install iproute2")
        } else {
            why
        }
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Operation not permitted") {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Err(io::Error::other(format!("`ip {}`: {}", arguments.join(" "), said.trim())))
}

const fn family(network: &IpNet) -> &'static str {
    match network {
        IpNet::V4(_) => "-4",
        IpNet::V6(_) => "-6",
    }
}

/// From now on packets for `networks` are dropped where no better route is.
///
/// # Errors
/// When the system refuses it for one of them; the others are closed.
pub fn close(networks: &[IpNet]) -> io::Result<()> {
    networks.iter().map(|network| behind("replace", network)).fold(Ok(()), io::Result::and)
}

/// The opposite: those that were closed, and are not any more.
///
/// # Errors
/// When the system refuses it for one of them; the others are open. Routes that are not there are no failure.
pub fn open(networks: &[IpNet]) -> io::Result<Vec<IpNet>> {
    let (mut opened, mut outcome) = (Vec::new(), Ok(()));
    for network in networks {
        match behind("del", network) {
            Ok(()) => opened.push(*network),
            Err(why) if is_absence(&why.to_string()) => {}
            Err(why) => outcome = outcome.and(Err(why)),
        }
    }
    outcome.map(|()| opened)
}

/// Whether what `ip` said of a route that was to be taken away means that there is none: ESRCH, with or without the kernel's own
/// words, or a family of addresses that the machine does not have.
fn is_absence(said: &str) -> bool {
    ["No such process", "FIB table does not exist", "not supported"].iter().any(|words| said.contains(words))
}

/// The route that drops what is for `network`.
fn behind(change: &str, network: &IpNet) -> io::Result<()> {
    let (text, metric) = (network.to_string(), METRIC_CLOSED.to_string());
    let mut arguments = vec![family(network), "route", change, "blackhole", &text, "metric", &metric];
    if change == "replace" {
        arguments.extend(["proto", PROTOCOL]);
    }
    ip(&arguments).map(|_| ())
}

/// All networks that daemons have closed here, of this file or another one.
///
/// # Errors
/// When the system does not say which routes there are.
pub fn closed() -> io::Result<Vec<IpNet>> {
    let mut found = Vec::new();
    for (family, whole) in [("-4", IpNet::from(Ipv4Net::default())), ("-6", Ipv6Net::default().into())] {
        let said = ip(&["-j", family, "route", "show", "type", "blackhole", "proto", PROTOCOL])?;
        found.extend(routes(&said, whole).into_iter().map(|one| one.network));
    }
    Ok(found)
}

/// The largest packet of `device`.
///
/// # Errors
/// When the system refuses it.
pub fn set_mtu(device: &str, mtu: u16) -> io::Result<()> {
    ip(&["link", "set", "dev", device, "mtu", &mtu.to_string()]).map(|_| ())
}

/// `device` gets `addresses`, and what is for `networks` goes there.
///
/// # Errors
/// When the system refuses it.
pub fn set_up(device: &str, addresses: &[IpNet], networks: &[IpNet]) -> io::Result<()> {
    for address in addresses {
        let text = address.to_string();
        let mut arguments = vec![family(address), "address", "replace", &text, "dev", device];
        if matches!(address, IpNet::V6(_)) {
            arguments.push("nodad");
        }
        ip(&arguments)?;
    }
    ip(&["link", "set", device, "up"])?;
    for network in networks {
        let (text, metric) = (network.to_string(), METRIC_OVER.to_string());
        ip(&[family(network), "route", "replace", &text, "dev", device, "metric", &metric])?;
    }
    Ok(())
}

/// Those of `networks` that no route of ours leads to over `device`.
///
/// # Errors
/// When the system does not say which routes there are.
pub fn missing(networks: &[IpNet], device: &str) -> io::Result<Vec<IpNet>> {
    let mut there = BTreeSet::new();
    for (family, whole) in [("-4", IpNet::from(Ipv4Net::default())), ("-6", Ipv6Net::default().into())] {
        let metric = METRIC_OVER.to_string();
        match ip(&["-j", family, "route", "show", "dev", device, "metric", &metric]) {
            Ok(said) => there.extend(routes(&said, whole).into_iter().map(|one| one.network)),
            // Without the device there are none.
            Err(why) if why.to_string().contains("Cannot find device") => {}
            Err(why) => return Err(why),
        }
    }
    Ok(networks.iter().filter(|network| !there.contains(network)).copied().collect())
}

/// Takes away what a daemon before has `made` and `plan` does not say any more: of the device, if it is still there, and before
/// [`set_up`], for with the first address of a network the kernel takes its others away. What is not there is no failure.
///
/// # Errors
/// When a route that drops cannot be taken away.
pub fn clear(before: &Made, now: &Made) -> io::Result<()> {
    let gone = |then: &[IpNet], still: &[IpNet]| {
        then.iter().filter(|one| !still.contains(one)).copied().collect::<Vec<_>>()
    };
    let networks = gone(&before.networks, &now.networks);
    if before.device == now.device {
        for network in &networks {
            let (text, metric) = (network.to_string(), METRIC_OVER.to_string());
            let _ = ip(&[family(network), "route", "del", &text, "dev", &now.device, "metric", &metric]);
        }
        for address in gone(&before.addresses, &now.addresses) {
            let _ = ip(&[family(&address), "address", "del", &address.to_string(), "dev", &now.device]);
        }
    }
    open(&networks).map(|_| ())
}

/// What `ip` says of one route.
#[derive(Debug)]
struct Route {
    network: IpNet,
    /// None where packets are dropped.
    device: Option<String>,
    /// The lower goes first.
    metric: u64,
}

/// The routes in `text`, which `ip -j route show` has written.
fn routes(text: &str, whole: IpNet) -> Vec<Route> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    all.iter().filter_map(|one| Route::read(one, whole)).collect()
}

impl Route {
    /// One of those that `ip -j route show` says; `whole` are all addresses of its family.
    fn read(one: &Value, whole: IpNet) -> Option<Self> {
        let network = match one["dst"].as_str()? {
            "default" => whole,
            host if !host.contains('/') => IpNet::from(host.parse::<IpAddr>().ok()?),
            network => network.parse().ok()?,
        };
        // What drops, or says that it does not go on, leaves by none, whatever device is told.
        let goes_on = one.get("type").is_none_or(|kind| kind == "unicast");
        let device = one["dev"].as_str().filter(|_| goes_on).map(str::to_owned);
        Some(Self { network, device, metric: one["metric"].as_u64().unwrap_or(0) })
    }
}

/// All addresses of the family of `address`.
fn whole(address: IpAddr) -> IpNet {
    match address {
        IpAddr::V4(_) => Ipv4Net::default().into(),
        IpAddr::V6(_) => Ipv6Net::default().into(),
    }
}

/// The one of `networks` that would take what is sent to `address`, once they go over `device`: none, where a route is there that is
/// narrower, or goes first.
///
/// # Errors
/// When the system does not say which routes there are.
pub fn taken(address: IpAddr, networks: &[IpNet], device: &str) -> io::Result<Option<IpNet>> {
    let Some(taker) = networks.iter().filter(|one| one.contains(&address)).max_by_key(|one| one.prefix_len())
    else {
        return Ok(None);
    };
    let said = ip(&["-j", family(taker), "route", "show", "match", &address.to_string()])?;
    let found = routes(&said, whole(address));
    Ok((!is_apart(&found, taker, device)).then_some(*taker))
}

/// Whether what is sent to `address` leaves now, by another device than `device`.
///
/// # Errors
/// When the system does not say which routes there are.
pub fn has_way(address: IpAddr, device: &str) -> io::Result<bool> {
    let said = ip(&["-j", family(&IpNet::from(address)), "route", "show", "match", &address.to_string()])?;
    let found = routes(&said, whole(address));
    Ok(found.iter().any(|one| one.device.as_deref().is_some_and(|name| name != device)))
}

/// Whether one of the routes in `found`, all to one address, goes before one of `taker` over `device`.
fn is_apart(found: &[Route], taker: &IpNet, device: &str) -> bool {
    let others = found.iter().filter(|one| one.device.as_deref().is_some_and(|name| name != device));
    let before = |one: &Route| {
        let length = one.network.prefix_len();
        length > taker.prefix_len() || (length == taker.prefix_len() && one.metric < METRIC_OVER)
    };
    others.into_iter().any(before)
}

/// What other routes make of a network that goes over the device.
#[derive(Debug, Default)]
pub struct Past {
    /// The metric of the route for the same network that goes first, and its device, if that is another one.
    pub first: Option<(u64, Option<String>)>,
    /// A part that leaves by another device, for its route is narrower and goes first: with the device. The first one that was told.
    pub part: Option<(IpNet, String)>,
    /// How many such parts there are.
    pub parts: usize,
}

impl Past {
    /// The device by which all of the network leaves because of another route for it, which goes before that over the device.
    pub fn whole(&self) -> Option<&str> {
        let (_, device) = self.first.as_ref().filter(|(metric, _)| *metric < METRIC_OVER)?;
        device.as_deref()
    }

    /// There is such a `route` as well, for the same network or a narrower one.
    fn add(&mut self, route: &Route, is_same: bool, device: &str) {
        let other = route.device.as_deref().filter(|name| *name != device);
        if is_same {
            if self.first.as_ref().is_none_or(|(metric, _)| route.metric < *metric) {
                self.first = Some((route.metric, other.map(str::to_owned)));
            }
        } else if let Some(other) = other {
            self.parts += 1;
            self.part.get_or_insert_with(|| (route.network, other.to_owned()));
        }
    }
}

/// What other routes make of each of `networks`, which go over `device`; and whether all routes were looked through. All that the machine
/// has may be those of the whole Internet: the kernel is asked once for each family of addresses, and `ip` says what is in one network
/// around all of ours. Of a family that nobody tells of nothing is known.
pub fn past(networks: &[IpNet], device: &str) -> (BTreeMap<IpNet, Past>, bool) {
    past_by(networks, device, Dump::begin)
}

fn past_by<R: Read>(
    networks: &[IpNet],
    device: &str,
    mut begin: impl FnMut(&IpNet) -> io::Result<R>,
) -> (BTreeMap<IpNet, Past>, bool) {
    let (mut all, mut is_whole) = (BTreeMap::new(), true);
    let (four, six): (Vec<IpNet>, Vec<IpNet>) =
        networks.iter().partition(|network| matches!(network, IpNet::V4(_)));
    for family in [four, six] {
        let Some(around) = around(&family) else { continue };
        let mut found = family.into_iter().map(|network| (network, Past::default())).collect();
        let looked = begin(&around).and_then(|text| look_through(text, TEXT_MAX, &mut found, device));
        is_whole &= looked.unwrap_or(true);
        all.append(&mut found);
    }
    (all, is_whole)
}

/// The narrowest network that has all of `networks`, which are of one family, in it.
fn around(networks: &[IpNet]) -> Option<IpNet> {
    let (first, others) = networks.split_first()?;
    let with = |around: IpNet, one: &IpNet| {
        std::iter::successors(Some(around), IpNet::supernet).find(|wider| wider.contains(one))
    };
    others.iter().try_fold(*first, with)
}

/// The first part of `network` that leaves by another device than `device`, for its route is narrower and goes first: with that device.
///
/// # Errors
/// When the system does not say which routes there are.
pub fn parts_past(network: &IpNet, device: &str) -> io::Result<Option<(IpNet, String)>> {
    let mut found = BTreeMap::from([(*network, Past::default())]);
    look_through(Dump::begin(network)?, TEXT_MAX, &mut found, device)?;
    Ok(found.remove(network).and_then(|past| past.part))
}

/// Adds what routes of one family in `text` make of the networks that are in `found`. They are `ip -j route show`'s, and looked at one
/// after the other, so that many need no memory. No more than `most` bytes are read: whether that was all.
///
/// # Errors
/// When it ends before its end.
fn look_through(
    text: impl Read,
    most: u64,
    found: &mut BTreeMap<IpNet, Past>,
    device: &str,
) -> io::Result<bool> {
    let Some(whole) = found.keys().next().map(|network| whole(network.addr())) else { return Ok(true) };
    let lengths: BTreeSet<u8> = found.keys().map(IpNet::prefix_len).collect();
    let add = |route: Route| {
        let (address, length) = (route.network.addr(), route.network.prefix_len());
        for &wider in lengths.range(..=length) {
            let around = IpNet::new(address, wider).map(|one| one.trunc());
            if let Some(past) = around.ok().and_then(|around| found.get_mut(&around)) {
                past.add(&route, wider == length, device);
            }
        }
    };
    let mut text = text.take(most);
    let reader = BufReader::with_capacity(1 << 16, &mut text);
    let read = serde_json::Deserializer::from_reader(reader).deserialize_seq(Each { whole, add });
    match read {
        Ok(()) => Ok(true),
        Err(_) if text.limit() == 0 => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// Takes the routes of a list as they come.
struct Each<F> {
    whole: IpNet,
    add: F,
}

impl<'de, F: FnMut(Route)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a list of routes")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(one) = list.next_element::<Value>()? {
            if let Some(route) = Route::read(&one, self.whole) {
                (self.add)(route);
            }
        }
        Ok(())
    }
}

/// What `ip` says of routes while it says it. It ends with this, for who is not read to the end would wait for ever.
struct Dump(Child);

impl Dump {
    /// All routes for parts of `network`, and for all of it.
    fn begin(network: &IpNet) -> io::Result<Self> {
        Command::new("ip")
            .args(["-j", family(network), "route", "show", "root", &network.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
    }
}

impl Read for Dump {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.stdout.as_mut().map_or(Ok(0), |said| said.read(room))
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // One that has ended already is no failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// By which devices packets leave: of each other end and address of ours in `ways`, in this order. What is missing has no way.
///
/// # Errors
/// When the system does not say it.
pub fn devices(ways: &BTreeSet<(IpAddr, IpAddr)>) -> io::Result<BTreeMap<(IpAddr, IpAddr), String>> {
    let mut asked = Command::new("ip")
        // One that has no way says nothing, and the others are asked all the same.
        .args(["-j", "-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let questions: Vec<String> =
        ways.iter().map(|(to, from)| format!("route get {to} from {from}\n")).collect();
    let mut stdin = asked.stdin.take().expect("it is piped");
    // Who answers while others still ask may wait for who reads.
    let asks = std::thread::spawn(move || stdin.write_all(questions.concat().as_bytes()));
    let output = asked.wait_with_output()?;
    let _ = asks.join();
    Ok(ways_of(&String::from_utf8_lossy(&output.stdout)))
}

/// What `ip -j -batch -` says of routes that were asked for, one list in each line.
fn ways_of(text: &str) -> BTreeMap<(IpAddr, IpAddr), String> {
    let lists = serde_json::Deserializer::from_str(text).into_iter::<Value>().map_while(Result::ok);
    let way = |one: &Value| {
        let address = |key: &str| one[key].as_str()?.parse().ok();
        Some(((address("dst")?, address("from")?), one["dev"].as_str()?.to_owned()))
    };
    lists.flat_map(|list| list.as_array().into_iter().flatten().filter_map(way).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_known_by_both_ends_and_what_is_no_way_is_left_out() {
        // What `ip -j -force -batch -` of iproute2 6.1 says.
        let said = r#"[{"dst":"198.51.100.7","from":"192.0.2.1","gateway":"192.0.2.254","dev":"eth0","flags":[],"uid":0,"cache":[]}]
[{"type":"local","dst":"192.0.2.1","from":"192.0.2.1","dev":"lo","flags":[],"cache":["local"]}]
[{"dst":"2001:db8::7","from":"2001:db8:1::1","dev":"eth1","flags":[]}]
[{"dst":"198.51.100.8","flags":[]}]
"#;
        let found: Vec<_> =
            ways_of(said).into_iter().map(|((to, from), device)| format!("{to} {from} {device}")).collect();
        assert_eq!(
            found,
            ["192.0.2.1 192.0.2.1 lo", "198.51.100.7 192.0.2.1 eth0", "2001:db8::7 2001:db8:1::1 eth1"]
        );
        for garbage in ["", "{", "[1]", "[]\n}", r#"[{"dst":"there","from":"here","dev":"eth0"}]"#] {
            assert!(ways_of(garbage).is_empty(), "{garbage}");
        }
    }

    /// What `ip -j -4 route show match 198.51.100.7` of iproute2 6.1 says.
    const FOUND: &str = r#"[{"dst":"default","gateway":"192.0.2.254","dev":"eth0","flags":[]},
        {"type":"unreachable","dst":"default","dev":"lo","metric":11,"flags":[]},
        {"dst":"default","gateway":"192.0.2.253","dev":"eth0","metric":100,"flags":[]},
        {"dst":"198.51.100.0/24","dev":"eth1","protocol":"kernel","scope":"link","prefsrc":"198.51.100.1","flags":[]},
        {"dst":"198.51.100.7","gateway":"192.0.2.254","dev":"eth0","flags":[]}]"#;

    fn of(parts: std::ops::Range<usize>) -> Vec<Route> {
        let all: IpNet = "0.0.0.0/0".parse().expect("it is one");
        routes(FOUND, all).drain(parts).collect()
    }

    fn net(text: &str) -> IpNet {
        text.parse().expect("it is one")
    }

    #[test]
    fn a_narrower_route_keeps_datagrams_apart_and_one_as_wide_if_it_goes_first() {
        let apart = |parts, taker: &str| is_apart(&of(parts), &net(taker), "tidegate0");
        assert!(apart(0..1, "0.0.0.0/0"), "without a metric it goes first");
        assert!(!apart(1..3, "0.0.0.0/0"), "one that drops is none, and a later one does not help");
        assert!(apart(3..4, "198.51.0.0/16") && !apart(3..4, "198.51.100.0/28"));
        assert!(apart(4..5, "198.51.100.0/28") && !apart(0..1, "128.0.0.0/1"));
        assert!(!is_apart(&of(4..5), &net("198.51.0.0/16"), "eth0"), "a way over the device itself is none");
    }

    /// What routes in `said`, of which `most` bytes are read, make of one network: the device of all of it, a part, and how many there are.
    fn past_of(said: &str, most: usize, network: &str, device: &str) -> (String, io::Result<bool>) {
        let mut found = BTreeMap::from([(net(network), Past::default())]);
        let looked = look_through(said.as_bytes(), most as u64, &mut found, device);
        let past = &found[&net(network)];
        let part = past.part.as_ref().map(|(part, name)| format!("{part} {name}")).unwrap_or_default();
        (format!("{}; {part}; {}", past.whole().unwrap_or_default(), past.parts), looked)
    }

    #[test]
    fn what_leaves_by_another_device_is_named_with_it() {
        let past = |network: &str, device: &str| {
            let (past, looked) = past_of(FOUND, FOUND.len(), network, device);
            assert!(looked.expect("it is whole"));
            past
        };
        assert_eq!(past("198.51.0.0/16", "tidegate0"), "; 198.51.100.0/24 eth1; 2");
        assert_eq!(past("198.51.0.0/16", "eth1"), "; 198.51.100.7/32 eth0; 1");
        assert_eq!(past("198.51.100.7/32", "tidegate0"), "eth0; ; 0");
        assert_eq!(past("198.51.100.7/32", "eth0"), "; ; 0", "a way over the device itself is none");
        assert_eq!(past("0.0.0.0/0", "tidegate0"), "eth0; 198.51.100.0/24 eth1; 2");
        let later = FOUND.replacen(r#""dev":"eth0","flags""#, r#""dev":"eth0","metric":100,"flags""#, 1);
        assert!(
            past_of(&later, later.len(), "0.0.0.0/0", "tidegate0").0.starts_with("; "),
            "ours goes first"
        );
    }

    #[test]
    fn of_routes_without_end_a_part_is_read_and_who_ends_early_has_not_said_all() {
        let one = r#"{"dst":"10.0.1.0/24","dev":"eth0","flags":[]},"#;
        let said = format!("[{}", one.repeat(100));
        let (some, looked) = past_of(&said, 1 + 40 * one.len(), "10.0.0.0/8", "tidegate0");
        assert_eq!(some, "; 10.0.1.0/24 eth0; 40");
        assert!(!looked.expect("there is more"));
        let (all, ended) = past_of(&said, said.len() + 1, "10.0.0.0/8", "tidegate0");
        assert_eq!(all, "; 10.0.1.0/24 eth0; 100");
        assert!(ended.is_err());
    }

    #[test]
    fn for_any_number_of_networks_routes_of_a_family_are_asked_for_once() {
        let four = (0..200).map(|part| format!("10.{part}.0.0/16"));
        let networks: Vec<IpNet> =
            four.chain(["fd00::/64".to_owned(), "fd00:0:1::/48".to_owned()]).map(|one| net(&one)).collect();
        let mut asked = Vec::new();
        let (found, is_whole) = past_by(&networks, "tidegate0", |around| {
            asked.push(around.to_string());
            match around {
                IpNet::V4(_) => {
                    Ok(&br#"[{"dst":"10.7.1.0/24","dev":"lan"},{"dst":"10.9.0.0/16","dev":"wan"}]"#[..])
                }
                IpNet::V6(_) => Err(io::ErrorKind::NotFound.into()),
            }
        });
        assert_eq!(asked, ["10.0.0.0/8", "fd00::/47"]);
        assert!(is_whole && found.len() == networks.len());
        let shown = |past: &Past| past.whole().is_some() || past.parts > 0;
        let named: Vec<_> =
            found.iter().filter(|(_, past)| shown(past)).map(|(one, _)| one.to_string()).collect();
        assert_eq!(named, ["10.7.0.0/16", "10.9.0.0/16"]);
        assert_eq!(around(&[net("192.0.2.0/24")]), Some(net("192.0.2.0/24")));
        assert_eq!(
            around(&[net("10.0.0.0/8"), net("192.0.2.0/24"), net("0.0.0.0/1")]),
            Some(net("0.0.0.0/0"))
        );
    }

    #[test]
    fn what_ip_says_is_understood_as_far_as_it_goes() {
        let read: Vec<_> = of(0..5).into_iter().map(|one| (one.network.to_string(), one.metric)).collect();
        let expected = [
            ("0.0.0.0/0", 0),
            ("0.0.0.0/0", 11),
            ("0.0.0.0/0", 100),
            ("198.51.100.0/24", 0),
            ("198.51.100.7/32", 0),
        ];
        assert_eq!(read, expected.map(|(network, metric)| (network.to_owned(), metric)));
        assert_eq!(of(1..2)[0].device, None);
        for absent in ["RTNETLINK answers: No such process", "Error: ipv4: FIB table does not exist."] {
            assert!(is_absence(absent) && !is_absence("RTNETLINK answers: Network is down"));
        }
        for garbage in ["", "{}", "[1]", r#"[{"dst":7}]"#, r#"[{"dst":"there"}]"#] {
            assert!(routes(garbage, whole(IpAddr::from([0, 0, 0, 0]))).is_empty(), "{garbage}");
        }
        assert_eq!(whole(IpAddr::from([192, 0, 2, 1])).to_string(), "0.0.0.0/0");
        assert_eq!(whole("2001:db8::1".parse().expect("it is one")).to_string(), "::/0");
    }
}

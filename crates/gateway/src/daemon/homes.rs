//! Whether what is sent from the addresses at which sites reach us leaves by the devices by which they came: see
//! [`crate::core::ends`]; whether the routes over the device are there; and, once, which others go before them.
//!
//! The kernel is asked when a site is heard at another address, when it says that its routes are others, and twice a minute
//! whatever it says. What it answers goes to the packet threads, which ask nobody.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use ipnet::IpNet;
use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_indextoname;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tidegate_units::Span;

use super::control::{Shares, lock};
use super::io::clock;
use super::log::{Level, say};
use super::routes::{self, Past};
use crate::core::ends::Near;

/// How often it is looked where sites are heard.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the kernel is asked whatever has happened, in turns of that.
const ASK_EVERY: u32 = 30;
/// Whether our own routes are there is asked no more often: the kernel goes through all that it has, which may be those of the whole
/// Internet.
const LOST_EVERY: Span = Span::from_secs(5);
/// Changes of routes come together.
const SETTLES: Duration = Duration::from_millis(100);
/// So many of them are taken at once.
const CHANGES_MAX: usize = 4096;
/// What the kernel tells: devices, addresses, routes, and rules by which routes are found.
const GROUPS: i32 = libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV6_ROUTE
    | libc::RTMGRP_IPV4_RULE
    // It has no name as a mask.
    | 1 << (libc::RTNLGRP_IPV6_RULE - 1);

/// Hears that routes have changed.
struct Changes(OwnedFd);

impl Changes {
    fn open() -> nix::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, Some(SockProtocol::NetlinkRoute))?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS as u32))?;
        Ok(Self(socket))
    }

    /// Whether something has changed, after a while at most.
    fn wait(&self) -> bool {
        let mut waits = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(LOOK_EVERY).unwrap_or(PollTimeout::MAX);
        if poll(&mut waits, timeout) != Ok(1) {
            return false;
        }
        std::thread::sleep(SETTLES);
        // What they say is not read: too many to be kept are a change as well.
        let mut room = [0; 64];
        let _ = (0..CHANGES_MAX).find(|_| {
            let taken = recv(self.0.as_raw_fd(), &mut room, MsgFlags::MSG_DONTWAIT);
            !matches!(taken, Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR))
        });
        true
    }
}

/// What was judged of each site: the other end, ours, and whether packets leave by another device.
type Judged = BTreeMap<String, (IpAddr, Near, bool)>;

/// For as long as the daemon runs.
pub fn keep_homes(shares: &Shares) {
    let changes = Changes::open();
    if let Err(why) = &changes {
        say(
            Level::Warning,
            format_args!("the kernel does not tell of other routes, and is asked for them: {why}"),
        );
    }
    let (mut judged, mut lost) = (Judged::new(), Vec::new());
    let (mut has_changed_since, mut looked_at) = (false, clock::now());
    for turn in 1_u32.. {
        let has_changed = changes.as_ref().is_ok_and(Changes::wait);
        if changes.is_err() {
            std::thread::sleep(LOOK_EVERY);
        }
        if has_changed || turn.is_multiple_of(ASK_EVERY) {
            judged.clear();
            has_changed_since = true;
        }
        let now = clock::now();
        if has_changed_since && now.since(looked_at) >= LOST_EVERY {
            (has_changed_since, looked_at) = (false, now);
            tell_lost(shares, &mut lost);
        }
        judge(shares, &mut judged);
    }
}

/// Says which of `networks` do not go through the tunnel over `device`, for other routes go first: that is the operator's word, but may be
/// a mistake. Where a machine has very many routes this takes seconds: nobody should wait for it.
pub fn tell_past(networks: &[IpNet], device: &str) {
    let (found, is_whole) = routes::past(networks, device);
    for what in networks.iter().filter_map(|network| Some((network, found.get(network)?))).flat_map(past_told)
    {
        say(Level::Warning, what);
    }
    if !is_whole {
        say(
            Level::Notice,
            format_args!(
                "there are more routes than are looked through: others may go before those over {device} as well (`ip route show root NETWORK` \
                 shows them)"
            ),
        );
    }
}

/// What there is to say of a network, of which all or a part leaves by other devices.
fn past_told((network, past): (&IpNet, &Past)) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(other) = past.whole() {
        told.push(format!(
            "{network} leaves by {other}, in clear text: a route there goes first (`ip route show exact {network}`); remove it, or give it \
             a metric above 11"
        ));
    }
    // All there is has narrower routes wherever a machine has a network, and that is meant.
    if let Some((part, other)) = past.part.as_ref().filter(|_| network.prefix_len() > 1) {
        let more = match past.parts {
            1 => String::new(),
            some => format!(" (and {} more)", some - 1),
        };
        told.push(format!(
            "{part} of {network} leaves by {other}{more}, in clear text, for a narrower route goes first: a network of this machine's own? Each \
             is at one site; `ip route show root {network}` shows them"
        ));
    }
    told
}

/// Says which routes over the device are gone that were not `lost` before, or that all are back: who gave its rights away cannot make
/// them again.
fn tell_lost(shares: &Shares, lost: &mut Vec<IpNet>) {
    let (networks, device) = {
        let manager = lock(shares);
        (manager.plan().networks(), manager.plan().device.clone())
    };
    let Ok(now) = routes::missing(&networks, &device) else { return };
    let gone: Vec<IpNet> = now.iter().filter(|network| !lost.contains(network)).copied().collect();
    match gone.as_slice() {
        [] if now.is_empty() && !lost.is_empty() => {
            say(Level::Notice, format_args!("all routes over {device} are there again"));
        }
        [] => {}
        [first, others @ ..] => {
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            say(
                Level::Warning,
                format_args!(
                    "the route over {device} to {first}{more} is gone: {device} was down, or another program has made another one (`ip route \
                     show {first}`). What hosts send there does not come here; restart the daemon, which makes it again"
                ),
            );
        }
    }
    *lost = now;
}

/// Asks for those that were not `judged`, and tells what is new.
fn judge(shares: &Shares, judged: &mut Judged) {
    let (look, device) = {
        let manager = lock(shares);
        (manager.crew().look(), manager.plan().device.clone())
    };
    let Some(look) = look else { return };
    let open: Vec<_> = look
        .sites
        .iter()
        .enumerate()
        .filter_map(|(number, site)| {
            let (far, near) = (site.endpoint?.ip(), site.home.heard()?);
            // A site that was silent for long has begun anew, and knows no verdict.
            let shown = (far, near, site.home.near().is_none());
            (judged.get(&site.name) != Some(&shown)).then_some((number, site, (far, near)))
        })
        .collect();
    if open.is_empty() {
        return;
    }
    let asked = open.iter().map(|(.., (far, near))| (*far, near.address));
    let Ok(devices) = routes::devices(&asked.collect()) else { return };
    for (number, site, (far, near)) in open {
        let came_by = if_indextoname(near.interface).ok().and_then(|name| name.into_string().ok());
        let leaves_by = devices.get(&(far, near.address));
        let is_elsewhere = came_by.as_ref() != leaves_by;
        if is_elsewhere != site.home.near().is_none() {
            if leaves_by == Some(&device) {
                say(
                    Level::Warning,
                    format_args!(
                        "site {} is at {far} now, and the way there is {device} itself, as it is in a network of that site: nothing that is sent \
                         arrives. Give it a way of its own (`ip route add {far} via ROUTER`)",
                        site.name
                    ),
                );
            } else if is_elsewhere {
                let by = leaves_by.map_or("nowhere", String::as_str);
                let came_by = came_by.as_deref().unwrap_or("a device that is gone");
                say(
                    Level::Notice,
                    format_args!(
                        "site {} came by {came_by} to {}, from where packets would leave by {by}: it is answered from an address that the \
                         kernel chooses. `ip rule add from {} ...` would make it one way",
                        site.name, near.address, near.address
                    ),
                );
            }
            if lock(shares).judge_home(number, &site.name, near, is_elsewhere).is_err() {
                continue; // it is asked again
            }
        }
        judged.insert(site.name.clone(), (far, near, is_elsewhere));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_past_the_tunnel_is_told_with_what_to_do() {
        let net = |text: &str| text.parse::<IpNet>().expect("it is one");
        let past = |parts| Past {
            first: Some((0, Some("wan".to_owned()))),
            part: Some((net("10.44.3.0/24"), "lan".to_owned())),
            parts,
        };
        let told = past_told((&net("10.44.0.0/16"), &past(3)));
        assert_eq!(told.len(), 2);
        assert!(
            told[0].starts_with("10.44.0.0/16 leaves by wan, in clear text: a route there goes first (`ip ")
        );
        assert!(
            told[1].starts_with("10.44.3.0/24 of 10.44.0.0/16 leaves by lan (and 2 more), in clear text, ")
        );
        let one = past_told((&net("10.44.0.0/16"), &past(1)));
        assert!(
            one[1].starts_with("10.44.3.0/24 of 10.44.0.0/16 leaves by lan, in clear text, for a narrower")
        );
        assert_eq!(past_told((&net("0.0.0.0/0"), &past(1))).len(), 1, "that parts leave is meant there");
        assert!(past_told((&net("10.44.0.0/16"), &Past::default())).is_empty());
        let ours = Past { first: Some((10, None)), ..Past::default() };
        let later = Past { first: Some((100, Some("wan".to_owned()))), ..Past::default() };
        assert!([ours, later].iter().all(|none| past_told((&net("10.44.0.0/16"), none)).is_empty()));
    }
}

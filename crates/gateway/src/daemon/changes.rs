//! What the log is told of sites: what has become of them, what their paths take, and why one does not answer.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use nix::libc;

use super::log::Level;
use super::look::Look;
use crate::core::mtu::BASE;
use crate::core::peer::State;
use crate::core::status::SiteStatus;
use crate::tunnel::Refusal;

/// What counts is what was so in as many looks one after the other, each a second after the one before: a core that begins anew has no
/// session for a moment, and a path's largest packet is found by and by.
const LOOKS: u32 = 2;
/// A site that is asked for a session and does not answer is worth a word after so many.
const LOOKS_UNANSWERED: u32 = 20;
/// What speaks to us in vain may be somebody else once, who says again what the site has said before the daemon began; a site that wants a
/// session asks every 5 s.
const IN_VAIN: u64 = 2;

/// Something that is seen again and again, and what was told of it last.
#[derive(Debug)]
struct Seen<T> {
    last: T,
    looks: u32,
    told: Option<T>,
}

impl<T: Copy + PartialEq> Seen<T> {
    const fn new(first: T) -> Self {
        Self { last: first, looks: 0, told: None }
    }

    /// Whether `now` is to be told: it is new, and was seen often enough, or counts `at_once`.
    fn see(&mut self, now: T, at_once: bool) -> bool {
        self.looks = if now == self.last { self.looks.saturating_add(1) } else { 1 };
        self.last = now;
        self.told != Some(now) && (at_once || self.looks >= LOOKS)
    }
}

/// One site.
#[derive(Debug)]
struct Site {
    state: Seen<State>,
    /// What its path takes, and whether it does not even take that.
    path: Seen<(u16, bool)>,
    /// What had come of it, and to nothing, when it went down.
    in_vain: u64,
    /// Where it was.
    endpoint: Option<SocketAddr>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Changes(BTreeMap<String, Site>);

impl Changes {
    /// Sites are as `look` says now, a second after the look before; a path may take `here` bytes, as far as this end goes. What is new goes to `say`.
    pub fn tell(&mut self, look: &Look, here: u16, say: &mut dyn FnMut(Level, String)) {
        for site in &look.sites {
            // It asks and hears no answer that it takes, or answers, and that is not taken here.
            let in_vain = site.counters.asked + site.counters.refused[Refusal::Forged as usize];
            let seen = self.0.entry(site.name.clone()).or_insert_with(|| Site {
                state: Seen::new(site.state),
                path: Seen::new((site.mtu, false)),
                in_vain,
                endpoint: site.endpoint,
            });
            // After a reload counts begin anew, and so does the wait for an answer somewhere else.
            if site.state != State::Down || in_vain < seen.in_vain {
                seen.in_vain = in_vain;
            }
            if site.endpoint != seen.endpoint {
                (seen.endpoint, seen.state.looks) = (site.endpoint, 0);
            }
            if seen.state.see(site.state, site.state != State::Down) {
                seen.state.told = Some(site.state);
                let at = site.endpoint.map_or_else(String::new, |endpoint| format!(", at {endpoint}"));
                let level = if site.state == State::Down { Level::Warning } else { Level::Notice };
                say(level, format!("site {} is {}{at}", site.name, site.state.name()));
            }
            if site.state == State::Down && seen.state.looks == LOOKS_UNANSWERED {
                let refusal = site.endpoint.and_then(|to| look.wire.refusals.of(to));
                seen.tell_unanswered(site, in_vain, refusal, say);
            }
            if site.state == State::Controlled {
                seen.tell_path(site, here, say);
            }
        }
    }
}

impl Site {
    /// `refusal` is the system's number of why it sends nothing there.
    fn tell_unanswered(
        &self,
        site: &SiteStatus,
        in_vain: u64,
        refusal: Option<i32>,
        say: &mut dyn FnMut(Level, String),
    ) {
        let Some(endpoint) = site.endpoint else { return };
        let name = &site.name;
        if let Some(why) = refusal {
            let why = io::Error::from_raw_os_error(why);
            let help = match why.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    "a rule of a firewall here, for what goes out, forbids it"
                }
                Some(libc::EAFNOSUPPORT) => "no address of `gateway.listen` is of its version of IP",
                _ => "look at `ip route get` for it",
            };
            say(
                Level::Warning,
                format!("site {name}: this machine sends nothing to {endpoint} ({why}): {help}"),
            );
            return;
        }
        say(
            Level::Warning,
            // Whose key is another one than is thought here answers nothing at all.
            if in_vain >= self.in_vain + IN_VAIN {
                format!(
                    "site {name}, looked for at {endpoint}, speaks to us, and no session comes of it: `preshared_key_file` is not the same at \
                     both ends, or what we say does not arrive there"
                )
            } else {
                format!(
                    "site {name} does not answer at {endpoint}: does its daemon run, does its port let UDP pass, and has each end the \
                     `public_key` that `tidegatectl keygen` shows at the other?"
                )
            },
        );
    }

    fn tell_path(&mut self, site: &SiteStatus, here: u16, say: &mut dyn FnMut(Level, String)) {
        let SiteStatus { name, mtu, mtu_most, takes_base, .. } = site;
        // The least is what is left before it is known whether that arrives.
        let Some(arrives) = takes_base.or((*mtu > BASE).then_some(true)) else { return };
        let now = (*mtu, !arrives);
        if !self.path.see(now, false) {
            return;
        }
        match self.path.told.replace(now) {
            _ if !arrives => say(
                Level::Warning,
                format!(
                    "the path to site {name} does not even take packets of {mtu} bytes inside, and larger ones of hosts are lost there: \
                     what goes outside of this tunnel (another tunnel, PPP, a link) has to take 60 bytes more over IPv4, 80 over IPv6"
                ),
            ),
            // As it should be, from the beginning.
            None if *mtu >= here => {}
            Some((before, false)) if *mtu < before && mtu < mtu_most => say(
                Level::Warning,
                format!(
                    "the path to site {name} takes packets of {mtu} bytes inside, and no more of {before}"
                ),
            ),
            _ if mtu == mtu_most && *mtu < here => say(
                Level::Notice,
                format!(
                    "site {name} takes packets of {mtu} bytes inside, by its `gateway.mtu`, which is {here} here"
                ),
            ),
            _ => say(
                Level::Notice,
                format!(
                    "the path to site {name} takes packets of {mtu} bytes inside (`gateway.mtu` is {mtu_most})"
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_units::Time;

    use super::*;
    use crate::core::Stray;
    use crate::core::ends::Home;
    use crate::core::peer::Counters;
    use crate::core::store::Drops;
    use crate::daemon::look::Wire;

    /// What is said of one site that is in these states, a second each, with a path of these bytes, and from which so many forged
    /// datagrams have come by then.
    fn said(seconds: &[(State, u16)], forged: impl Fn(u64) -> u64) -> Vec<String> {
        said_of(seconds, forged, 1420)
    }

    /// The same of one that takes so many bytes itself.
    fn said_of(seconds: &[(State, u16)], forged: impl Fn(u64) -> u64, mtu_most: u16) -> Vec<String> {
        said_by(seconds, forged, mtu_most, &Wire::default())
    }

    /// And on a machine that did this.
    fn said_by(
        seconds: &[(State, u16)],
        forged: impl Fn(u64) -> u64,
        mtu_most: u16,
        wire: &Wire,
    ) -> Vec<String> {
        let (mut changes, mut said) = (Changes::default(), Vec::new());
        let endpoint: SocketAddr = "192.0.2.7:51820".parse().expect("it is one");
        for (second, &(state, mtu)) in seconds.iter().enumerate() {
            let mut counters = Counters::default();
            counters.refused[Refusal::Forged as usize] = forged(second as u64);
            let site = SiteStatus {
                name: "b".to_owned(),
                state,
                via: None,
                endpoint: Some(endpoint),
                home: Home::default(),
                mtu: mtu.max(1280),
                mtu_most,
                // 1279 stands for what is less than the least, and 1278 for what is not known.
                takes_base: (mtu != 1278).then_some(mtu != 1279),
                links: Vec::new(),
                counters,
                drops: Drops::default(),
                marks: 0,
                buffers: (0, 1),
            };
            let look = Look {
                at: Time::from_nanos(second as u64 * 1_000_000_000),
                sites: vec![site],
                threads: vec![0],
                stray: Stray::default(),
                wire: *wire,
            };
            changes.tell(&look, 1420, &mut |level, what| said.push(format!("{} {what}", level as u8)));
        }
        said
    }

    #[test]
    fn a_moment_without_a_session_is_not_told_and_a_longer_one_is() {
        let up = (State::Controlled, 1420);
        let down = (State::Down, 1420);
        assert_eq!(said(&[down, up, up, down, up], |_| 0), ["5 site b is controlled, at 192.0.2.7:51820"]);
        let told = said(&[up, down, down, down, up], |_| 0);
        assert_eq!(
            told,
            [
                "5 site b is controlled, at 192.0.2.7:51820",
                "4 site b is down, at 192.0.2.7:51820",
                "5 site b is controlled, at 192.0.2.7:51820"
            ]
        );
    }

    #[test]
    fn who_does_not_answer_is_told_once_with_what_it_may_be() {
        let unanswered = said(&[(State::Down, 1280); 60], |_| 0);
        assert_eq!(unanswered.len(), 2, "{unanswered:?}");
        assert!(
            unanswered[1].starts_with("4 site b does not answer at 192.0.2.7:51820: does its daemon run")
        );
        let refused = said(&[(State::Down, 1280); 60], |second| second);
        let once = said(&[(State::Down, 1280); 60], |second| second.min(1));
        assert_eq!(once, unanswered, "somebody else has said again what it said before");
        assert!(refused[1].contains("`preshared_key_file` is not the same"), "{refused:?}");
    }

    #[test]
    fn what_this_machine_does_not_send_is_told_as_that() {
        let told = |to: &str, why| {
            let mut wire = Wire::default();
            wire.refusals.add(to.parse().expect("it is one"), why);
            said_by(&[(State::Down, 1280); 60], |_| 0, 1420, &wire)
        };
        let forbidden = told("192.0.2.7:51820", libc::EPERM);
        assert_eq!(forbidden.len(), 2, "{forbidden:?}");
        assert!(
            forbidden[1].starts_with(
                "4 site b: this machine sends nothing to 192.0.2.7:51820 (Operation not permitted"
            )
        );
        assert!(forbidden[1].contains("firewall"), "{forbidden:?}");
        assert!(told("192.0.2.7:51820", libc::ENETUNREACH)[1].contains("`ip route get`"));
        assert!(told("192.0.2.7:51820", libc::EAFNOSUPPORT)[1].contains("`gateway.listen`"));
        assert!(told("192.0.2.8:51820", libc::EPERM)[1].contains("does not answer"), "it is another's");
    }

    #[test]
    fn what_a_path_takes_is_told_where_it_is_less_than_it_might_be_and_when_it_changes() {
        let at = |mtu| (State::Controlled, mtu);
        assert_eq!(said(&[at(1280), at(1420), at(1420), at(1420)], |_| 0).len(), 1, "it is found by and by");
        let told = said(&[at(1340), at(1340), at(1280), at(1280), at(1420), at(1420), at(1420)], |_| 0);
        assert_eq!(
            told[1..],
            [
                "5 the path to site b takes packets of 1340 bytes inside (`gateway.mtu` is 1420)",
                "4 the path to site b takes packets of 1280 bytes inside, and no more of 1340",
                "5 the path to site b takes packets of 1420 bytes inside (`gateway.mtu` is 1420)"
            ]
        );
    }

    #[test]
    fn what_the_other_end_takes_is_not_told_as_what_the_path_does() {
        let told = said_of(&[(State::Controlled, 1400); 3], |_| 0, 1400);
        assert_eq!(
            told[1..],
            ["5 site b takes packets of 1400 bytes inside, by its `gateway.mtu`, which is 1420 here"]
        );
        let path = said_of(&[(State::Controlled, 1392); 3], |_| 0, 1400);
        assert_eq!(
            path[1..],
            ["5 the path to site b takes packets of 1392 bytes inside (`gateway.mtu` is 1400)"]
        );
    }

    #[test]
    fn a_path_that_takes_not_even_the_least_is_told_once_and_that_it_does() {
        let path = [1278, 1278, 1278, 1279, 1279, 1279, 1278, 1278, 1279, 1279, 1280, 1280, 1420, 1420, 1420];
        let told = said(&path.map(|mtu| (State::Controlled, mtu)), |_| 0);
        let [_, small, again, all] = told.as_slice() else { panic!("{told:?}") };
        assert!(
            small.starts_with("4 the path to site b does not even take packets of 1280 bytes"),
            "{told:?}"
        );
        assert_eq!(again, "5 the path to site b takes packets of 1280 bytes inside (`gateway.mtu` is 1420)");
        assert_eq!(all, "5 the path to site b takes packets of 1420 bytes inside (`gateway.mtu` is 1420)");
    }
}

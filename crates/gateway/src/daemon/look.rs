//! A look at the daemon, as packet threads leave it; as JSON; and what the last minutes were like.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use serde_json::{Value, json};
use tidegate_packet::DropReason;
use tidegate_units::{Span, Time};

use super::io::udp::Refusals;
use crate::core::Stray;
use crate::core::status::SiteStatus;
use crate::core::store::Way;
use crate::tunnel::Refusal;

/// Seconds that are remembered.
pub const SECONDS: usize = 600;

/// What the machine did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    /// Datagrams that the system did not take.
    pub unsent: u64,
    /// To whom the system sends nothing.
    pub refusals: Refusals,
    /// Datagrams that were too large for the path.
    pub too_large: u64,
    /// Packets that the system did not take for hosts here.
    pub refused_packets: u64,
    /// What came from the device and was no packet.
    pub bad_reads: u64,
    /// Calls that read packets.
    pub reads: u64,
    /// Packets and datagrams that one packet thread has handed over to another, and those that it could not.
    pub handed_over: u64,
    /// See `handed_over`.
    pub lost_between: u64,
    /// How late timers were since the look before, at most.
    pub late: Span,
    /// What the packet threads have cost so far.
    pub spent: Time,
}

impl Wire {
    /// That of two threads.
    fn and(&self, other: &Self) -> Self {
        Self {
            unsent: self.unsent + other.unsent,
            refusals: self.refusals.and(&other.refusals),
            too_large: self.too_large + other.too_large,
            refused_packets: self.refused_packets + other.refused_packets,
            bad_reads: self.bad_reads + other.bad_reads,
            reads: self.reads + other.reads,
            handed_over: self.handed_over + other.handed_over,
            lost_between: self.lost_between + other.lost_between,
            late: self.late.max(other.late),
            spent: Time::from_nanos(self.spent.as_nanos() + other.spent.as_nanos()),
        }
    }
}

/// All that there is to see.
#[derive(Clone, Debug)]
pub struct Look {
    /// When.
    pub at: Time,
    /// The other sites.
    pub sites: Vec<SiteStatus>,
    /// The packet thread of each.
    pub threads: Vec<u8>,
    /// What belongs to none.
    pub stray: Stray,
    /// What the machine did.
    pub wire: Wire,
}

fn seconds(span: Span) -> f64 {
    span.as_secs_f64()
}

impl Look {
    /// The looks that threads have left, as one of all sites, whose `names` are in order; `None` while a site is
    /// on its way from one to another.
    pub fn merged<'a>(looks: impl Iterator<Item = &'a Self>, names: &[String]) -> Option<Self> {
        let mut found: Vec<Option<(Time, u8, &SiteStatus)>> = vec![None; names.len()];
        let mut whole: Option<Self> = None;
        for (thread, look) in (0..).zip(looks) {
            for site in &look.sites {
                let place = &mut found[names.binary_search(&site.name).ok()?];
                if place.is_none_or(|(at, ..)| at < look.at) {
                    *place = Some((look.at, thread, site));
                }
            }
            let Self { at, stray, wire, .. } = look;
            let before = whole.take();
            whole = Some(Self {
                at: before.as_ref().map_or(*at, |one| one.at.max(*at)),
                stray: before.as_ref().map_or(*stray, |one| one.stray.and(stray)),
                wire: before.as_ref().map_or(*wire, |one| one.wire.and(wire)),
                sites: Vec::new(),
                threads: Vec::new(),
            });
        }
        let all: Vec<_> = found.into_iter().collect::<Option<_>>()?;
        let sites = all.iter().map(|(.., site)| (*site).clone()).collect();
        Some(Self { sites, threads: all.iter().map(|(_, thread, _)| *thread).collect(), ..whole? })
    }

    /// For programs; keys are stable.
    pub fn to_json(&self, name: &str, uptime: Span) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "gateway": name,
            "uptime_s": seconds(uptime),
            "cpu_s": self.wire.spent.as_secs_f64(),
            "late_s": seconds(self.wire.late),
            "sites": self.sites.iter().zip(&self.threads).map(site_json).collect::<Vec<_>>(),
            "stray": {
                "bad_packets": self.stray.bad_packets,
                "unrouted_packets": self.stray.unrouted_packets,
                "unrelayed": self.stray.unrelayed,
                "refused": refused(&self.stray.refused),
            },
            "wire": {
                "unsent": self.wire.unsent,
                "refusals": self.wire.refusals.iter().map(|(to, why)| (to.to_string(), io::Error::from_raw_os_error(why).to_string())).collect::<BTreeMap<_, _>>(),
                "too_large": self.wire.too_large,
                "refused_packets": self.wire.refused_packets,
                "bad_reads": self.wire.bad_reads,
                "reads": self.wire.reads,
                "handed_over": self.wire.handed_over,
                "lost_between": self.wire.lost_between,
            },
        })
    }
}

fn refused(counts: &[u64; Refusal::ALL.len()]) -> Value {
    Refusal::ALL.iter().map(|why| (why.name().to_owned(), json!(counts[*why as usize]))).collect()
}

fn site_json((site, thread): (&SiteStatus, &u8)) -> Value {
    let counters = &site.counters;
    let links: Vec<Value> = site
        .links
        .iter()
        .map(|link| {
            json!({
                "link": link.link,
                "rate_bps": link.rate.as_bps(),
                "output_bps": link.output.as_bps(),
                "rtt_s": link.rtt.map(seconds),
                "excess_s": link.excess.map(seconds),
                "is_pressed": link.is_pressed,
                "queue_packets": link.backlog.packets,
                "queue_bytes": link.backlog.bytes,
            })
        })
        .collect();
    let drops = DropReason::ALL.iter().filter(|why| site.drops.by_reason[why.index()] > 0);
    let mut drops: serde_json::Map<String, Value> =
        drops.map(|why| (why.name().to_owned(), json!(site.drops.by_reason[why.index()]))).collect();
    for (why, way) in [("no buffer", Way::Out), ("no buffer, incoming", Way::In)] {
        drops.insert(why.to_owned(), json!(site.drops.no_buffer[way as usize]));
    }
    json!({
        "name": site.name,
        "state": site.state.name(),
        "thread": thread,
        "via": site.via,
        "endpoint": site.endpoint.map(|endpoint| endpoint.to_string()),
        "answers_from": site.home.near().map(|near| near.address.to_string()),
        "mtu": site.mtu,
        "mtu_arrives": site.takes_base,
        "links": links,
        "entered_packets": counters.entered_packets,
        "entered_bytes": counters.entered_bytes,
        "sent_packets": counters.sent_packets,
        "sent_bytes": counters.sent_bytes,
        "received_packets": counters.received_packets,
        "received_bytes": counters.received_bytes,
        "strange_packets": counters.strange_packets,
        "relayed_packets": counters.relayed_packets,
        "too_large_packets": counters.too_large_packets,
        "said_messages": counters.said_messages,
        "said_bytes": counters.said_bytes,
        "heard_messages": counters.heard_messages,
        "unheard_messages": counters.unheard_messages,
        "asked": counters.asked,
        "lives": counters.lives,
        "refused": refused(&counters.refused),
        "dropped": drops,
        "dropped_packets": site.drops.total(),
        "marked_packets": site.marks,
        "buffers": site.buffers.0,
        "buffers_max": site.buffers.1,
    })
}

/// One second of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// At which packets may leave, bit/s.
    pub rate: f64,
    /// At which they arrive there, bit/s.
    pub output: f64,
    /// What left in this second, bit/s inside.
    pub sent: f64,
    /// What came in this second, bit/s inside.
    pub received: f64,
    /// What waits here, bytes.
    pub queue: f64,
    /// How long the queue of the path is above its least, seconds.
    pub excess: f64,
    /// Packets that were dropped here in this second.
    pub dropped: f64,
}

/// What sites were like in the last seconds, by second.
#[derive(Debug, Default)]
pub struct History {
    sites: Vec<VecDeque<Moment>>,
    before: Option<Look>,
}

impl History {
    /// Another second has passed.
    pub fn add(&mut self, look: &Look) {
        self.sites.resize_with(look.sites.len(), VecDeque::new);
        if let Some(before) = &self.before {
            let span = look.at.since(before.at).as_secs_f64().max(1e-3);
            for ((site, old), kept) in look.sites.iter().zip(&before.sites).zip(&mut self.sites) {
                // After a reload counts begin anew.
                let grown = |now: u64, then: u64| now.saturating_sub(then) as f64 / span;
                let link = site.links.first();
                let moment = Moment {
                    rate: link.map_or(0.0, |one| one.rate.as_bps() as f64),
                    output: link.map_or(0.0, |one| one.output.as_bps() as f64),
                    sent: grown(site.counters.sent_bytes, old.counters.sent_bytes) * 8.0,
                    received: grown(site.counters.received_bytes, old.counters.received_bytes) * 8.0,
                    queue: site.links.iter().map(|one| one.backlog.bytes).sum::<u64>() as f64,
                    excess: link.and_then(|one| one.excess).map_or(0.0, seconds),
                    dropped: grown(site.drops.total(), old.drops.total()),
                };
                if kept.len() == SECONDS {
                    kept.pop_front();
                }
                kept.push_back(moment);
            }
        }
        self.before = Some(look.clone());
    }

    /// A copy of what site number `site` was like, the oldest first.
    pub fn of(&self, site: usize) -> Vec<Moment> {
        self.sites.get(site).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ends::Home;
    use crate::core::peer::{Counters, State};
    use crate::core::store::Drops;

    fn site(name: &str, mtu: u16) -> SiteStatus {
        SiteStatus {
            name: name.to_owned(),
            state: State::Down,
            via: None,
            endpoint: None,
            home: Home::default(),
            mtu,
            mtu_most: mtu,
            takes_base: None,
            links: Vec::new(),
            counters: Counters::default(),
            drops: Drops::default(),
            marks: 0,
            buffers: (0, 1),
        }
    }

    fn look(at: u64, sites: &[(&str, u16)], late_ms: u64) -> Look {
        let mut stray = Stray { unrouted_packets: 3, ..Stray::default() };
        stray.refused[Refusal::Busy as usize] = at;
        let wire = Wire {
            reads: 10,
            handed_over: 1,
            lost_between: 2,
            late: Span::from_millis(late_ms),
            spent: Time::from_nanos(at),
            ..Wire::default()
        };
        let sites: Vec<SiteStatus> = sites.iter().map(|&(name, mtu)| site(name, mtu)).collect();
        Look { at: Time::from_nanos(at), threads: vec![0; sites.len()], sites, stray, wire }
    }

    #[test]
    fn looks_of_threads_are_one_of_all_sites_in_order() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let (first, second) = (look(5, &[("b", 1)], 7), look(9, &[("a", 2), ("c", 3)], 4));
        let all = Look::merged([&first, &second].into_iter(), &names).expect("nobody is missing");
        let shown: Vec<_> =
            all.sites.iter().zip(&all.threads).map(|(one, thread)| (&*one.name, *thread)).collect();
        assert_eq!(shown, [("a", 1), ("b", 0), ("c", 1)]);
        assert_eq!((all.at, all.wire.spent), (Time::from_nanos(9), Time::from_nanos(14)));
        assert_eq!((all.wire.late, all.wire.reads), (Span::from_millis(7), 20));
        assert_eq!((all.wire.handed_over, all.wire.lost_between), (2, 4));
        assert_eq!((all.stray.unrouted_packets, all.stray.refused[Refusal::Busy as usize]), (6, 14));
        let json = all.to_json("here", Span::ZERO);
        assert_eq!((&json["sites"][0]["thread"], &json["wire"]["lost_between"]), (&json!(1), &json!(4)));
    }

    #[test]
    fn a_site_on_its_way_between_threads_is_shown_where_it_came_or_not_at_all() {
        let names: Vec<String> = ["a", "b"].map(str::to_owned).into();
        // Thread 0 has it no more, thread 1 not yet.
        let (left, waiting) = (look(5, &[("a", 1)], 0), look(4, &[], 0));
        assert!(Look::merged([&left, &waiting].into_iter(), &names).is_none());
        // Thread 0 has not said yet that it has it no more.
        let (old, new) = (look(4, &[("a", 1), ("b", 1)], 0), look(5, &[("b", 9)], 0));
        let all = Look::merged([&old, &new].into_iter(), &names).expect("nobody is missing");
        assert_eq!((all.sites[1].mtu, all.threads), (9, vec![0, 1]));
    }
}

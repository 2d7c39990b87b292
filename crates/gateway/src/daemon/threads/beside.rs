//! What a thread hands over to those beside it, and takes from them.
//!
//! Nothing is handed over twice: what comes over a lane is handled here or refused, but for a handshake message,
//! which goes to the thread that judges all of them and then, if it is worth it, to whose it is. So nobody can
//! send anything that goes to and fro.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tidegate_units::Time;

use super::super::order::Shared;
use super::lane::{Giver, Head, Kind, Taker, lane};
use super::owners::{Owners, Whose, destination};
use crate::core::ends::Ends;
use crate::core::store::BUFFER_BYTES;
use crate::tunnel::Refusal;
use crate::tunnel::wireguard::{Judgement, WireguardTunnels};

/// The thread that judges the handshakes of strangers for all.
pub const JUDGE: u8 = 0;
/// Answers to strangers that wait to be sent.
const REPLIES_MAX: usize = 64;

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Wan<'a> {
    /// From where, and to which of our addresses.
    pub from: Ends,
    /// Its traffic class.
    pub traffic_class: u8,
    /// When.
    pub came: Time,
    /// What is in it.
    pub datagram: &'a [u8],
}

impl Wan<'_> {
    const fn head(&self, kind: Kind) -> Head {
        Head::new(kind, self.from, self.traffic_class, self.came)
    }
}

/// Another thread, and the lane to it.
struct Other {
    thread: u8,
    giver: Giver,
    shared: Arc<Shared>,
    /// It got something since it was last woken up.
    has_more: bool,
}

/// What was handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets and datagrams that others got.
    pub handed_over: u64,
    /// Those for which there was no room.
    pub lost: u64,
    /// Datagrams that counted for nothing before they came to a core, by why.
    pub refused: [u64; Refusal::ALL.len()],
}

/// See the module.
pub struct Beside {
    thread: u8,
    owners: Arc<Owners>,
    others: Vec<Other>,
    takers: Vec<Taker>,
    /// Whose turn it was.
    turn: usize,
    own: Arc<Shared>,
    /// Where the last packet went, which the next one will too.
    latest: Option<(IpAddr, u8)>,
    replies: VecDeque<(Ends, Vec<u8>)>,
    room: Box<[u8; BUFFER_BYTES]>,
    /// What became of all that.
    pub counts: Counts,
}

impl Beside {
    /// Those beside each thread of `shared`, with lanes between all of them.
    pub fn all(shared: &[Arc<Shared>], owners: &Arc<Owners>) -> Vec<Self> {
        let mut all: Vec<Self> = (0..)
            .zip(shared)
            .map(|(thread, own)| Self {
                thread,
                owners: Arc::clone(owners),
                others: Vec::new(),
                takers: Vec::new(),
                turn: 0,
                own: Arc::clone(own),
                latest: None,
                replies: VecDeque::new(),
                room: Box::new([0; BUFFER_BYTES]),
                counts: Counts::default(),
            })
            .collect();
        for one in 0..all.len() {
            for other in (0..all.len()).filter(|&other| other != one) {
                let (giver, taker) = lane();
                let shared = Arc::clone(&shared[other]);
                all[one].others.push(Other { thread: other as u8, giver, shared, has_more: false });
                all[other].takers.push(taker);
            }
        }
        all
    }

    /// From now on this says whose what is.
    pub fn change(&mut self, owners: Arc<Owners>) {
        self.owners = owners;
        self.latest = None;
    }

    /// Whether the packet of a host is this thread's: to be handled here, also if it is nobody's. Else it was
    /// handed over.
    pub fn keeps_packet(&mut self, packet: &[u8], now: Time) -> bool {
        let Some(destination) = destination(packet) else { return true };
        let thread = match self.latest {
            Some((latest, thread)) if latest == destination => thread,
            _ => {
                let thread = self.owners.of_destination(destination).unwrap_or(self.thread);
                self.latest = Some((destination, thread));
                thread
            }
        };
        if thread == self.thread {
            return true;
        }
        let nobody = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        self.give(thread, Head::new(Kind::Lan, nobody.into(), 0, now), packet);
        false
    }

    /// Whether a datagram that came to this thread is its own, to be handled here. Else it was handed over,
    /// answered or refused.
    pub fn keeps_datagram(&mut self, wan: &Wan<'_>, tunnels: &mut WireguardTunnels) -> bool {
        match self.owners.of_datagram(wan.datagram) {
            Whose::Thread(thread) if thread != self.thread => {
                self.give(thread, wan.head(Kind::Session), wan.datagram);
                false
            }
            Whose::Handshake if self.thread != JUDGE => {
                self.give(JUDGE, wan.head(Kind::Unjudged), wan.datagram);
                false
            }
            Whose::Handshake => self.judges(wan, tunnels),
            Whose::Nobody => self.refuse(Refusal::Unknown),
            Whose::Thread(_) | Whose::Garbage => true,
        }
    }

    /// The next that others have handed over, in `room`; and how much of that it takes.
    pub fn take(&mut self, room: &mut [u8]) -> Option<(Head, usize)> {
        // In turn, so that what one of them has does not keep others waiting.
        let count = self.takers.len();
        for _ in 0..count {
            self.turn = (self.turn + 1) % count;
            if let Some(taken) = self.takers[self.turn].take(room) {
                return Some(taken);
            }
        }
        None
    }

    /// Whether the datagram that others have handed over is to be handled here. It is not handed over once more,
    /// but for a handshake that was judged here.
    pub fn keeps_taken(&mut self, kind: Kind, wan: &Wan<'_>, tunnels: &mut WireguardTunnels) -> bool {
        match kind {
            Kind::Unjudged if self.thread == JUDGE => self.judges(wan, tunnels),
            Kind::Unjudged => self.refuse(Refusal::Unknown),
            Kind::Judged(handshake) => {
                tunnels.admit(handshake);
                true
            }
            // Of a session that is not here, since a reload was in between, the core says so.
            Kind::Session | Kind::Lan => true,
        }
    }

    /// Whether a handshake message may be heard, and by this thread.
    fn judges(&mut self, wan: &Wan<'_>, tunnels: &mut WireguardTunnels) -> bool {
        let handshake = match tunnels.judge(wan.datagram, wan.from.far.into(), wan.came, &mut self.room[..]) {
            Judgement::Passed(handshake) => handshake,
            Judgement::Refused(why) => return self.refuse(why),
            Judgement::Reply(bytes) => {
                if self.replies.len() < REPLIES_MAX {
                    self.replies.push_back((wan.from, self.room[..bytes].to_vec()));
                }
                return false;
            }
        };
        match self.owners.of_handshake(&handshake) {
            Some(thread) if thread == self.thread => {
                tunnels.admit(handshake);
                true
            }
            Some(thread) => {
                self.give(thread, wan.head(Kind::Judged(handshake)), wan.datagram);
                false
            }
            None => self.refuse(Refusal::Unknown),
        }
    }

    /// The next answer to a stranger.
    pub fn next_reply(&mut self) -> Option<(Ends, Vec<u8>)> {
        self.replies.pop_front()
    }

    fn refuse(&mut self, why: Refusal) -> bool {
        self.counts.refused[why as usize] += 1;
        false
    }

    fn give(&mut self, thread: u8, head: Head, bytes: &[u8]) {
        // What is longer is no packet and no datagram of a session.
        if bytes.len() > BUFFER_BYTES {
            self.refuse(Refusal::Malformed);
            return;
        }
        let other = self.others.iter_mut().find(|other| other.thread == thread);
        let given = other.is_some_and(|other| {
            let given = other.giver.give(head, bytes);
            other.has_more |= given;
            given
        });
        if given {
            self.counts.handed_over += 1;
        } else {
            self.counts.lost += 1;
        }
    }

    /// Who got something and may sleep is woken up.
    pub fn wake_others(&mut self) {
        for other in &mut self.others {
            if std::mem::take(&mut other.has_more) {
                other.shared.bell.ring_for_more();
            }
        }
    }

    /// Whether it may sleep: nothing waits for it, and who hands something over from now on wakes it up.
    pub fn lies_down(&self) -> bool {
        self.own.bell.lie_down();
        self.takers.iter().all(Taker::is_empty)
    }

    /// It is awake again.
    pub fn gets_up(&self) {
        self.own.bell.get_up();
    }
}

#[cfg(test)]
mod tests;

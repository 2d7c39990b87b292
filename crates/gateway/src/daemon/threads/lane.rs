//! The one way from one thread to another: what came to the wrong one. It is bounded, and neither end waits: what
//! finds no room is lost.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use nix::sys::eventfd::{EfdFlags, EventFd};
use rtrb::{Consumer, Producer, RingBuffer};
use tidegate_units::Time;

use crate::core::ends::Ends;
use crate::tunnel::wireguard::Handshake;

/// Bytes that wait at most: at 500 Mbit/s some 8 ms.
const BYTES: usize = 512 << 10;
/// Packets and datagrams that wait at most.
const COUNT: usize = 2048;

/// What is handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A packet of a host.
    Lan,
    /// A datagram of a session whose name says the other thread, or a cookie for it.
    Session,
    /// A handshake message that is still to be judged.
    Unjudged,
    /// One that was.
    Judged(Handshake),
}

impl Kind {
    /// The part of the lane, in eighths, that such may fill. What strangers send for nothing leaves room for what
    /// hosts send, and that for handshakes that were found worth computing, of which there are few.
    const fn eighths(self) -> usize {
        match self {
            Self::Session | Self::Unjudged => 4,
            Self::Lan => 7,
            Self::Judged(_) => 8,
        }
    }
}

/// What is said of a packet or datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// From where a datagram came, and to which of our addresses.
    pub from: Ends,
    /// Its traffic class.
    pub traffic_class: u8,
    /// When it came.
    pub came: Time,
    /// How many bytes there are.
    bytes: usize,
}

impl Head {
    /// Of something that came at `came`.
    pub const fn new(kind: Kind, from: Ends, traffic_class: u8, came: Time) -> Self {
        Self { kind, from, traffic_class, came, bytes: 0 }
    }
}

/// The end of who hands over.
pub struct Giver {
    heads: Producer<Head>,
    bytes: Producer<u8>,
}

/// The end of who takes it.
pub struct Taker {
    heads: Consumer<Head>,
    bytes: Consumer<u8>,
}

/// Both ends of a lane.
pub fn lane() -> (Giver, Taker) {
    let (heads, heads_taken) = RingBuffer::new(COUNT);
    let (bytes, bytes_taken) = RingBuffer::new(BYTES);
    (Giver { heads, bytes }, Taker { heads: heads_taken, bytes: bytes_taken })
}

impl Giver {
    /// Whether there was room for it.
    pub fn give(&mut self, head: Head, bytes: &[u8]) -> bool {
        let kept = 8 - head.kind.eighths();
        if self.heads.slots() <= COUNT * kept / 8 || self.bytes.slots() < BYTES * kept / 8 + bytes.len() {
            return false;
        }
        // Whoever finds the head finds what belongs to it.
        self.bytes.push_entire_slice(bytes).is_ok()
            && self.heads.push(Head { bytes: bytes.len(), ..head }).is_ok()
    }
}

impl Taker {
    /// The next, of which as much is in `room` as there is room; and how much that is.
    pub fn take(&mut self, room: &mut [u8]) -> Option<(Head, usize)> {
        let head = self.heads.pop().ok()?;
        let chunk = self.bytes.read_chunk(head.bytes).ok()?;
        let (first, second) = chunk.as_slices();
        let (one, other) = room.split_at_mut(first.len().min(room.len()));
        let rest = second.len().min(other.len());
        one.copy_from_slice(&first[..one.len()]);
        other[..rest].copy_from_slice(&second[..rest]);
        let bytes = one.len() + rest;
        chunk.commit_all();
        Some((head, bytes))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

/// Wakes a thread up. For what is handed over that is a system call only while the thread may sleep.
pub struct Bell {
    /// What it waits for.
    pub wake: EventFd,
    sleeps: AtomicBool,
}

impl Bell {
    /// Of a thread that is awake.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn new() -> nix::Result<Self> {
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { wake, sleeps: AtomicBool::new(false) })
    }

    /// Wakes it up in any case.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn ring(&self) -> nix::Result<()> {
        self.wake.write(1).map(|_| ())
    }

    /// Wakes it up if it sleeps, after something was handed over.
    pub fn ring_for_more(&self) {
        // Either this sees that it sleeps, or it sees what was handed over: both say their own before they look
        // at the other's.
        fence(Ordering::SeqCst);
        if self.sleeps.swap(false, Ordering::Relaxed) {
            let _ = self.ring();
        }
    }

    /// From now on it has to be woken up; whoever calls this looks once more whether there is something.
    pub fn lie_down(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// It is awake.
    pub fn get_up(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::net::SocketAddr;
    use std::os::fd::AsFd as _;

    use super::*;

    const ALL: u64 = 200_000;

    fn head(kind: Kind, number: u64) -> Head {
        Head::new(kind, SocketAddr::from(([192, 0, 2, 1], 7)).into(), 5, Time::from_nanos(number))
    }

    #[test]
    fn a_full_lane_takes_no_more_and_what_is_in_it_comes_in_order() {
        for length in [0, 60, 1500, 2048] {
            let (mut giver, mut taker) = lane();
            let packet = vec![7; length];
            let count =
                (0..1_000_000).take_while(|&number| giver.give(head(Kind::Lan, number), &packet)).count();
            assert!(count <= COUNT && count * length <= BYTES, "{count} of {length}");
            assert!(
                count >= COUNT * 7 / 8 - 1 || count * length >= BYTES * 7 / 8 - 2048,
                "{count} of {length}"
            );
            let mut room = [0; 2048];
            for number in 0..count {
                let (taken, bytes) = taker.take(&mut room).unwrap();
                assert_eq!((taken.came, bytes), (Time::from_nanos(number as u64), length));
                assert_eq!(room[..bytes], packet);
            }
            assert!(taker.is_empty() && taker.take(&mut room).is_none());
            assert!(giver.give(head(Kind::Lan, 0), &packet), "there is room again");
        }
    }

    #[test]
    fn strangers_leave_room_for_hosts_and_these_for_handshakes() {
        let (mut giver, _taker) = lane();
        let mut fill =
            |kind| (0..9999).take_while(|&number| giver.give(head(kind, number), &[1; 500])).count();
        let session = fill(Kind::Session);
        assert!(session > 100 && session * 500 <= BYTES / 2, "{session}");
        assert_eq!(fill(Kind::Unjudged), 0);
        assert!(fill(Kind::Lan) > 100);
        let judged = Kind::Judged(Handshake::Initiation([1; 32]));
        assert_eq!((fill(Kind::Session), fill(Kind::Lan)), (0, 0));
        assert!(fill(judged) > 100);
    }

    #[test]
    fn two_threads_lose_nothing_that_was_given_and_who_sleeps_is_woken_up() {
        let (mut giver, mut taker) = lane();
        let bell = Bell::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while number < ALL {
                    let length = (number * 37 % 1500) as usize;
                    let byte = number as u8;
                    if giver.give(head(Kind::Lan, number), &vec![byte; length]) {
                        number += 1;
                        if number % 7 == 0 || number == ALL {
                            bell.ring_for_more();
                        }
                    } else {
                        bell.ring_for_more();
                        std::thread::yield_now();
                    }
                }
            });
            let mut room = [0; 2048];
            let mut next = 0;
            while next < ALL {
                while let Some((taken, bytes)) = taker.take(&mut room) {
                    assert_eq!((taken.came.as_nanos(), bytes), (next, (next * 37 % 1500) as usize));
                    assert!(room[..bytes].iter().all(|&byte| byte == next as u8));
                    next += 1;
                }
                bell.lie_down();
                if taker.is_empty() && next < ALL {
                    let mut waits = [PollFd::new(bell.wake.as_fd(), PollFlags::POLLIN)];
                    let woken = poll(&mut waits, PollTimeout::from(10_000_u16)).unwrap();
                    assert!(woken == 1, "it sleeps for ever at {next}");
                    let _ = bell.wake.read();
                }
                bell.get_up();
            }
        });
    }
}

//! Device and sockets that outlive the daemon: systemd keeps them (`FileDescriptorStoreMax=`, `sd_pid_notify_with_fds(3)`) and hands them to
//! the next one (`sd_listen_fds(3)`). The device stays with its addresses, its routes and what waits in it; datagrams wait in
//! the sockets. Without systemd, or without a store, there is nothing to take, and what is kept is gone with the daemon.
//!
//! What is taken must be what the file asks for; all else is given up, also by who keeps it, so that it can be
//! made anew. Where there are several threads, the names say how many, so that queues and sockets of another
//! number do not fit.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sd_notify::NotifyState;
use socket2::{Socket, Type};

use super::log::{Level, say};

/// So long who keeps what was given up may have it still, looking so often.
const GIVEN_UP_MAX: u32 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The name in the store of the queue of `thread` of the device `device`.
fn queue_label(device: &str, thread: u8, threads: u8) -> String {
    if threads == 1 { format!("device-{device}") } else { format!("queue-{thread}-{threads}-{device}") }
}

/// That of its sockets.
fn socket_label(thread: u8, threads: u8) -> String {
    if threads == 1 { "socket".to_owned() } else { format!("socket-{thread}-{threads}") }
}

/// See the module.
#[derive(Default)]
pub struct Kept {
    device: String,
    /// By thread.
    queues: BTreeMap<u8, OwnedFd>,
    sockets: Vec<(u8, Socket)>,
    threads: u8,
    /// Somebody else may have it still for a moment.
    has_given_up: bool,
}

impl Kept {
    /// What there is of a device `name` and of sockets at one of `addresses`, for so many threads.
    pub fn take(name: &str, addresses: &[SocketAddr], threads: u8) -> Self {
        let mut kept = Self { device: name.to_owned(), threads, ..Self::default() };
        for (label, descriptor) in sd_listen_fds::get().unwrap_or_default() {
            let (label, descriptor) = (label.unwrap_or_default(), descriptor.into_std());
            // What is started beside the daemon does not get it.
            let _ = fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
            kept.add(&label, descriptor, addresses);
        }
        // A part of it would be no use: the kernel gives each queue and each socket its part.
        if kept.queues.len() != usize::from(threads) && !kept.queues.is_empty() {
            for thread in std::mem::take(&mut kept.queues).into_keys() {
                kept.give_up(&queue_label(name, thread, threads));
            }
        }
        for &address in addresses {
            if ![0, usize::from(threads)].contains(&kept.count_at(address)) {
                kept.sockets.retain(|(_, socket)| !is_at(socket, &[address]));
                for thread in 0..threads {
                    kept.give_up(&socket_label(thread, threads));
                }
            }
        }
        kept
    }

    fn count_at(&self, address: SocketAddr) -> usize {
        self.sockets.iter().filter(|(_, socket)| is_at(socket, &[address])).count()
    }

    fn add(&mut self, label: &str, descriptor: OwnedFd, addresses: &[SocketAddr]) {
        let queue =
            (0..self.threads).find(|&thread| queue_label(&self.device, thread, self.threads) == label);
        if let Some(thread) = queue.filter(|thread| !self.queues.contains_key(thread))
            && is_alive(&self.device, descriptor.as_fd())
        {
            self.queues.insert(thread, descriptor);
            return;
        }
        let socket = Socket::from(descriptor);
        let thread = (0..self.threads).find(|&thread| socket_label(thread, self.threads) == label);
        if let Some(thread) = thread.filter(|_| is_at(&socket, addresses)) {
            self.sockets.push((thread, socket));
        } else {
            // Of sockets the others go too, as they have one name; who has them keeps them again.
            drop(socket);
            self.give_up(label);
        }
    }

    fn give_up(&mut self, label: &str) {
        self.has_given_up = true;
        let _ = sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(label)]);
    }

    /// The queues of the device in the order of threads; none if it is to be made.
    pub fn queues(&mut self) -> Vec<OwnedFd> {
        let queues = std::mem::take(&mut self.queues);
        if queues.is_empty() && self.has_given_up {
            // A device that does not fit is gone when nobody has it any more.
            let mut looks = 0..GIVEN_UP_MAX;
            while if_nametoindex(&*self.device).is_ok() && looks.next().is_some() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        queues.into_values().collect()
    }

    /// The sockets at `address` in the order of threads; none if they are to be opened.
    pub fn sockets(&mut self, address: SocketAddr) -> Vec<Socket> {
        let all = std::mem::take(&mut self.sockets);
        let (mut here, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, one)| is_at(one, &[address]));
        self.sockets = rest;
        here.sort_by_key(|(thread, _)| *thread);
        here.into_iter().map(|(_, socket)| socket).collect()
    }

    /// What `open` opens at a port that somebody else may have for a moment.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn patiently<T>(&mut self, mut open: impl FnMut(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let mut looks = 0..if self.has_given_up { GIVEN_UP_MAX } else { 0 };
        loop {
            match open(self) {
                Err(why) if why.kind() == io::ErrorKind::AddrInUse && looks.next().is_some() => {
                    std::thread::sleep(LOOK_EVERY);
                }
                outcome => return outcome,
            }
        }
    }
}

/// Whether the device `name` is there and `descriptor` is one that has not lost it.
fn is_alive(name: &str, descriptor: BorrowedFd<'_>) -> bool {
    let mut waits = [PollFd::new(descriptor, PollFlags::POLLIN)];
    let has_failed = poll(&mut waits, PollTimeout::ZERO).is_err()
        || waits[0]
            .revents()
            .is_none_or(|events| events.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL));
    if_nametoindex(name).is_ok() && !has_failed
}

fn is_at(socket: &Socket, addresses: &[SocketAddr]) -> bool {
    let address = socket.local_addr().ok().and_then(|address| address.as_socket());
    socket.r#type().is_ok_and(|kind| kind == Type::DGRAM)
        && address.is_some_and(|address| {
            addresses.iter().any(|one| (one.ip(), one.port()) == (address.ip(), address.port()))
        })
}

/// From now on the device `name` and the sockets are kept, if somebody does that: the queue and the sockets of
/// each thread. Those that are already are not kept twice.
pub fn keep(name: &str, threads: &[(BorrowedFd<'_>, Vec<BorrowedFd<'_>>)]) {
    let count = threads.len() as u8;
    let told = (0..).zip(threads).try_for_each(|(thread, (queue, sockets))| {
        let (of_queue, of_sockets) = (queue_label(name, thread, count), socket_label(thread, count));
        sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(&of_queue)], &[*queue])?;
        // That an error came in is no reason to let a socket go.
        let states =
            [NotifyState::FdStore, NotifyState::FdName(&of_sockets), NotifyState::Custom("FDPOLL=0")];
        sd_notify::notify_with_fds(&states, sockets)
    });
    if let Err(why) = told {
        say(Level::Warning, format_args!("device and sockets are not kept over a restart: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_store_say_how_many_threads_there_are_and_one_has_those_that_it_always_had() {
        assert_eq!(
            (queue_label("tidegate0", 0, 1), socket_label(0, 1)),
            ("device-tidegate0".into(), "socket".into())
        );
        let two: Vec<String> =
            (0..2).flat_map(|one| [queue_label("t", one, 2), socket_label(one, 2)]).collect();
        assert_eq!(two, ["queue-0-2-t", "socket-0-2", "queue-1-2-t", "socket-1-2"]);
        assert_ne!(socket_label(0, 2), socket_label(0, 3));
    }

    #[test]
    fn sockets_are_taken_in_the_order_of_threads_and_what_does_not_fit_is_given_up() {
        let open = || Socket::new(socket2::Domain::IPV4, Type::DGRAM, None).unwrap();
        let first = open();
        first.set_reuse_port(true).unwrap();
        first.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let at = first.local_addr().unwrap().as_socket().unwrap();
        let second = open();
        second.set_reuse_port(true).unwrap();
        second.bind(&at.into()).unwrap();
        let inode = |socket: &Socket| nix::sys::stat::fstat(socket).unwrap().st_ino;
        let (own, other) = (inode(&first), inode(&second));
        let mut kept = Kept { device: "t".into(), threads: 2, ..Kept::default() };
        kept.add("socket-1-2", second.into(), &[at]);
        kept.add("socket-0-2", first.into(), &[at]);
        assert_eq!(kept.sockets(at).iter().map(inode).collect::<Vec<_>>(), [own, other]);
        assert!(!kept.has_given_up && kept.sockets(at).is_empty());
        for (label, address) in
            [("socket", at), ("socket-2-3", at), ("socket-0-2", "127.0.0.1:9".parse().unwrap())]
        {
            let mut beside = Kept { threads: 2, ..Kept::default() };
            let socket = open();
            socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            let own_address = socket.local_addr().unwrap().as_socket().unwrap();
            beside.add(label, socket.into(), &[if address == at { own_address } else { address }]);
            assert!(beside.has_given_up && beside.sockets.is_empty(), "{label}");
        }
    }
}

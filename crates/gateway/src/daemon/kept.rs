//! Device and sockets that outlive the daemon: systemd keeps them (`FileDescriptorStoreMax=`, `sd_pid_notify_with_fds(3)`) and hands them to
//! the next one (`sd_listen_fds(3)`). The device stays with its addresses, its routes and what waits in it; datagrams wait in
//! the sockets. Without systemd, or without a store, there is nothing to take, and what is kept is gone with the daemon.
//!
//! What is taken must be what the file asks for; all else is given up, also by who keeps it, so that it can be made anew.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sd_notify::NotifyState;
use socket2::{Socket, Type};

use super::log::{Level, say};

/// Names in the store.
const DEVICE: &str = "device-";
const SOCKET: &str = "socket";

/// See the module.
#[derive(Default)]
pub struct Kept {
    device: Option<OwnedFd>,
    sockets: Vec<Socket>,
}

impl Kept {
    /// What there is of a device `name` and of sockets at one of `addresses`.
    pub fn take(name: &str, addresses: &[SocketAddr]) -> Self {
        let all = sd_listen_fds::get().unwrap_or_default();
        let mut kept = Self::default();
        for (label, descriptor) in all {
            let (label, descriptor) = (label.unwrap_or_default(), descriptor.into_std());
            // What is started beside the daemon does not get it.
            let _ = fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
            let is_device = label.strip_prefix(DEVICE) == Some(name) && kept.device.is_none();
            if is_device && is_alive(name, descriptor.as_fd()) {
                kept.device = Some(descriptor);
                continue;
            }
            let socket = Socket::from(descriptor);
            if label == SOCKET && is_at(&socket, addresses) {
                kept.sockets.push(socket);
            } else {
                // Of sockets the others go too, as they have one name; who has them keeps them again.
                give_up(&label);
            }
        }
        kept
    }

    /// The device, if there is one.
    pub fn device(&mut self) -> Option<OwnedFd> {
        self.device.take()
    }

    /// The socket at `address`, if there is one.
    pub fn socket(&mut self, address: SocketAddr) -> Option<Socket> {
        let which = self.sockets.iter().position(|socket| is_at(socket, &[address]))?;
        Some(self.sockets.swap_remove(which))
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

fn give_up(label: &str) {
    let _ = sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(label)]);
}

/// From now on the device `name` and `sockets` are kept, if somebody does that. Those that are already are not kept twice.
pub fn keep(name: &str, device: BorrowedFd<'_>, sockets: &[BorrowedFd<'_>]) {
    let label = format!("{DEVICE}{name}");
    let told = sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(&label)], &[device])
        // That an error came in is no reason to let a socket go.
        .and_then(|()| {
            let states = [NotifyState::FdStore, NotifyState::FdName(SOCKET), NotifyState::Custom("FDPOLL=0")];
            sd_notify::notify_with_fds(&states, sockets)
        });
    if let Err(why) = told {
        say(Level::Warning, format_args!("device and sockets are not kept over a restart: {why}"));
    }
}

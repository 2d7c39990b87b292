//! Several packet threads: what each of them has, and what they hand over to each other.
//!
//! Sites that have to do with each other are a group ([`groups`]), and each group is on one thread, with a core
//! of its own ([`share`]): nothing is shared on the way of a packet. The kernel gives each thread what is its own
//! as far as it can: datagrams by a program at the sockets ([`super::io::steer`]), packets of hosts by the queue
//! of the device in which their connection was written last. What comes to the wrong thread is handed over once
//! ([`beside`]), over a bounded lane to each other thread ([`lane`]). What a file
//! that is read again says all of them begin by, or none ([`accord`]).

pub mod accord;
pub mod beside;
pub mod crew;
pub mod groups;
pub mod lane;
pub mod owners;
pub mod share;

//! Which of several sockets at one port gets a datagram: a program of classic BPF that the kernel runs for each
//! (`SO_ATTACH_REUSEPORT_CBPF`,
//! `socket(7)`), and which answers with the number of the socket, in the order in which they were bound.
//!
//! Handshakes go to the first thread, which judges them; all else goes to the thread that the name of its session
//! says. What the kernel steers otherwise (it has refused the program, or joined datagrams of several sessions)
//! the thread that has it hands over.

use std::io;
use std::os::fd::AsFd;

use nix::libc::{self, sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};

use crate::tunnel::wireguard::{THREAD_AT, THREAD_MASK};

const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_NOT_LESS: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;
const ANSWER_LOADED: u32 = libc::BPF_RET | libc::BPF_A;

/// One step; jumps leave out so many steps.
const fn step(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// The program for `threads` sockets. Bytes are those of the datagram; one that is too short answers zero.
fn program(threads: u8) -> [sock_filter; 8] {
    [
        step(LOAD_BYTE, 0, 0, 0),
        // A cookie, or a packet.
        step(IF_EQUAL, 1, 0, 3),
        step(IF_EQUAL, 0, 3, 4),
        step(LOAD_BYTE, 0, 0, THREAD_AT as u32),
        step(AND, 0, 0, u32::from(THREAD_MASK)),
        step(IF_NOT_LESS, 0, 1, threads.into()),
        step(ANSWER, 0, 0, 0),
        step(ANSWER_LOADED, 0, 0, 0),
    ]
}

/// From now on the sockets at the port of `socket`, of which there are `threads`, get datagrams so.
///
/// # Errors
/// When the system refuses it.
pub fn attach(socket: &impl AsFd, threads: u8) -> io::Result<()> {
    let mut steps = program(threads);
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    Ok(setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel does with it: the steps that occur, and zero for a byte that is not there.
    fn run(steps: &[sock_filter], datagram: &[u8]) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = steps[at];
            at += 1;
            let jump = |taken: bool| usize::from(if taken { jt } else { jf });
            match u32::from(code) {
                LOAD_BYTE => match datagram.get(k as usize) {
                    Some(&byte) => loaded = u32::from(byte),
                    None => return 0,
                },
                AND => loaded &= k,
                IF_EQUAL => at += jump(loaded == k),
                IF_NOT_LESS => at += jump(loaded >= k),
                ANSWER => return k,
                ANSWER_LOADED => return loaded,
                other => panic!("there is no step {other}"),
            }
        }
    }

    #[test]
    fn sessions_go_to_their_thread_and_all_else_to_the_first() {
        let program = program(3);
        let session = |kind: u8, name: u8| run(&program, &[kind, 0, 0, 0, 77, name, 0, 0, 1]);
        assert_eq!([0x10, 0x11, 0xf2].map(|name| session(4, name)), [0, 1, 2]);
        assert_eq!([0x10, 0x11, 0xf2].map(|name| session(3, name)), [0, 1, 2]);
        assert_eq!([0x13, 0x1f].map(|name| session(4, name)), [0, 0], "of no thread");
        assert_eq!([0, 1, 2, 5, 255].map(|kind| session(kind, 2)), [0; 5]);
        assert_eq!([&[][..], &[4], &[4, 0, 0, 0, 2]].map(|short| run(&program, short)), [0; 3]);
    }

    proptest! {
        /// Whatever comes, it goes to one of the sockets.
        #[test]
        fn any_bytes_go_somewhere(bytes in prop::collection::vec(any::<u8>(), 0..40), threads in 2u8..=16) {
            prop_assert!(run(&program(threads), &bytes) < u32::from(threads));
        }
    }
}

//! The names that sessions have: their upper 24 bits say whose they are, and where several threads have tunnels
//! also which thread.
//!
//! The other end writes the name of our session into each datagram (NDSS 2017, section 5.4.6), so that the kernel
//! finds the thread of a datagram by one byte of it. The library adds 8 bits of its own below.

/// Threads that tunnels can be divided among.
pub const THREADS_MAX: u8 = 1 << THREAD_BITS;
/// Bits of a name that say the thread.
const THREAD_BITS: u32 = 4;
/// Peers that one gateway can have, and one whose tunnels are divided.
pub const PEERS_MAX: usize = 1 << 24;
const PEERS_AMONG_MAX: usize = 1 << (24 - THREAD_BITS);
/// Where in a datagram the byte is whose lower bits say the thread: behind the type and the library's bits.
pub const THREAD_AT: usize = 5;
/// Those bits.
pub const THREAD_MASK: u8 = THREADS_MAX - 1;

/// How the tunnels here are called.
#[derive(Debug)]
pub(super) enum Names {
    /// By their numbers: all tunnels of the gateway are here.
    Numbers(usize),
    /// Those of one thread, by the numbers that they have in the whole gateway; these stay when a tunnel beside
    /// them goes.
    Among {
        thread: u8,
        /// Of each tunnel here.
        numbers: Vec<u32>,
        /// Of each of the whole gateway, its number here.
        here: Vec<Option<u32>>,
    },
}

impl Names {
    pub fn among(thread: u8, numbers: Vec<u32>) -> Self {
        let most = numbers.iter().max().map_or(0, |&most| most as usize + 1);
        assert!(thread < THREADS_MAX && most <= PEERS_AMONG_MAX, "names have 24 bits");
        let mut here = vec![None; most];
        for (own, &number) in (0..).zip(&numbers) {
            here[number as usize] = Some(own);
        }
        Self::Among { thread, numbers, here }
    }

    /// What tunnel `own` is called.
    pub fn of(&self, own: u32) -> u32 {
        match self {
            Self::Numbers(_) => own,
            Self::Among { thread, numbers, .. } => numbers[own as usize] << THREAD_BITS | u32::from(*thread),
        }
    }

    /// Whose `session` is, of those that are here.
    pub fn peer(&self, session: u32) -> Option<u32> {
        let name = session >> 8;
        match self {
            Self::Numbers(count) => Some(name).filter(|&number| (number as usize) < *count),
            Self::Among { thread, here, .. } => {
                let is_here = name as u8 & THREAD_MASK == *thread;
                here.get((name >> THREAD_BITS) as usize).copied().flatten().filter(|_| is_here)
            }
        }
    }
}

/// The thread in the name of `session`.
pub const fn thread_of(session: u32) -> u8 {
    (session >> 8) as u8 & THREAD_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_thread_and_peer_and_who_is_elsewhere_is_not_here() {
        let names = Names::among(3, vec![7, 2, 900]);
        for (own, number) in (0..).zip([7_u32, 2, 900]) {
            // The library's own bits change.
            for below in [0, 255] {
                let session = names.of(own) << 8 | below;
                assert_eq!((names.peer(session), thread_of(session)), (Some(own), 3));
                assert_eq!(session.to_le_bytes()[THREAD_AT - 4] & THREAD_MASK, 3);
            }
            assert_eq!(names.of(own) >> THREAD_BITS, number);
        }
        let of = |thread: u32, number: u32| (number << THREAD_BITS | thread) << 8;
        assert_eq!([of(2, 7), of(3, 8), of(3, 901), of(3, 0xf_ffff)].map(|one| names.peer(one)), [None; 4]);
        assert_eq!([0, 1, 2].map(|number| Names::Numbers(2).peer(number << 8 | 5)), [Some(0), Some(1), None]);
    }
}

//! What others ask a packet thread for, and where they find what it leaves.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwapOption;

use super::look::Look;
use super::recording::Recording;
use super::rounds::Pace;
use super::threads::accord::Proposal;
use super::threads::lane::Bell;
use super::threads::owners::Owners;
use super::threads::share::Share;
use crate::core::ends::Near;

/// What a core is made anew with.
pub struct Change {
    /// The sites that the thread has from now on, and what the core is told.
    pub share: Share,
    /// When rounds begin.
    pub pace: Pace,
    /// It is recorded from its beginning, and who is told how that ended.
    pub recording: Option<Recording>,
    /// Whose what is, where there are several threads.
    pub owners: Arc<Owners>,
    /// Sites that are at another place than they were, as the file says.
    pub moved: Arc<BTreeSet<String>>,
}

/// What others ask for.
pub enum Order {
    /// It is as this says as soon as all threads have heard of it.
    Reload(Proposal<Box<Change>>),
    /// The recording ends, if there is one; who began it is told.
    EndRecording,
    /// A site of the thread, by the number that it has there, has been found by its name.
    Find(u32, SocketAddr),
    /// Packets that leave for a site of the thread from an address of ours would leave by another device than the one by which the site was
    /// heard there, or do not.
    Routes {
        /// The site, by the number that it has there.
        site: u32,
        /// The address, and the device by which the site was heard there.
        near: Near,
        /// Whether they would.
        is_elsewhere: bool,
    },
    /// The wall clock was set forward: who has no session stamps handshakes by it from now on.
    Restamp,
    /// Say goodbye and send what waits; then go, if that is wanted.
    Drain {
        /// Whether it ends then.
        ends: bool,
    },
}

/// Where others find what the thread leaves.
pub struct Shared {
    /// The latest look.
    pub look: ArcSwapOption<Look>,
    /// Rises as long as the thread is alive.
    pub beats: AtomicU64,
    /// Wakes it up, for an order or for what another thread hands over.
    pub bell: Bell,
}

impl Shared {
    /// Of a thread that has not begun.
    ///
    /// # Errors
    /// When the system refuses what wakes it up.
    pub fn new() -> io::Result<Self> {
        Ok(Self { look: ArcSwapOption::empty(), beats: AtomicU64::new(0), bell: Bell::new()? })
    }
}

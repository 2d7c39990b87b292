//! All packet threads, as others see them: orders go to those whom they concern, and looks are put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use arc_swap::ArcSwapOption;

use super::super::look::Look;
use super::super::order::{Order, Shared};

/// What others have of one thread.
pub struct Post {
    /// Its orders.
    pub orders: SyncSender<Order>,
    /// What it shares.
    pub shared: Arc<Shared>,
}

/// See the module.
pub struct Crew {
    posts: Vec<Post>,
    /// Names of all sites, in order.
    names: Vec<String>,
    /// The latest look at all sites.
    latest: ArcSwapOption<Look>,
    /// Whether there is a recording. Who begins one sets it, and takes it back when all is written.
    pub is_recorded: AtomicBool,
    /// How many clients are being given a recording, which takes a little longer.
    takers: AtomicUsize,
}

/// A client that is being given a recording, for as long as this is there.
pub struct Taker<'a>(&'a Crew);

impl Drop for Taker<'_> {
    fn drop(&mut self) {
        self.0.takers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Crew {
    /// The threads of `posts`, in order, which have the sites `names`.
    pub fn new(posts: Vec<Post>, names: Vec<String>, is_recorded: bool) -> Self {
        Self {
            posts,
            names,
            latest: ArcSwapOption::empty(),
            is_recorded: AtomicBool::new(is_recorded),
            takers: AtomicUsize::new(0),
        }
    }

    /// A client is given a recording, until what this returns is dropped.
    pub fn gives(&self) -> Taker<'_> {
        self.takers.fetch_add(1, Ordering::AcqRel);
        Taker(self)
    }

    /// Whether some client is being given a recording.
    pub fn is_giving(&self) -> bool {
        self.takers.load(Ordering::Acquire) > 0
    }

    /// How many threads there are.
    pub fn threads(&self) -> u8 {
        self.posts.len() as u8
    }

    /// Tells `thread` to do something.
    ///
    /// # Errors
    /// When it has too much to do to be told.
    pub fn order(&self, thread: u8, order: Order) -> Result<(), String> {
        let post = &self.posts[usize::from(thread)];
        post.orders.try_send(order).map_err(|why| match why {
            TrySendError::Full(_) => format!("packet thread {thread} has too much to do; ask again"),
            TrySendError::Disconnected(_) => format!("packet thread {thread} has ended"),
        })?;
        post.shared.bell.ring().map_err(|why| why.to_string())
    }

    /// Wakes all threads: what they wait for may be so.
    pub fn wake(&self) {
        for post in &self.posts {
            // A bell that cannot be rung any more rings.
            let _ = post.shared.bell.ring();
        }
    }

    /// Tells all threads, also where one cannot be told.
    ///
    /// # Errors
    /// The first one.
    pub fn order_all(&self, order: impl Fn() -> Order) -> Result<(), String> {
        (0..self.threads()).map(|thread| self.order(thread, order())).fold(Ok(()), Result::and)
    }

    /// The latest look at all sites; none before there is one.
    pub fn look(&self) -> Option<Arc<Look>> {
        if let [only] = &self.posts[..] {
            return only.shared.look.load_full();
        }
        let looks: Option<Vec<Arc<Look>>> =
            self.posts.iter().map(|post| post.shared.look.load_full()).collect();
        if let Some(merged) =
            looks.and_then(|looks| Look::merged(looks.iter().map(|look| &**look), &self.names))
        {
            self.latest.store(Some(Arc::new(merged)));
        }
        self.latest.load_full()
    }

    /// Of each thread, what rises as long as it is alive.
    pub fn beats(&self) -> Vec<u64> {
        self.posts.iter().map(|post| post.shared.beats.load(Ordering::Relaxed)).collect()
    }
}

/// Whether all threads are alive: each has gone on since `before`, which is what was told then.
pub fn all_go_on(before: &mut Vec<u64>, now: Vec<u64>) -> bool {
    let go_on = before.len() != now.len() || before.iter().zip(&now).all(|(then, count)| then != count);
    if go_on {
        *before = now;
    }
    go_on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_alive_as_long_as_each_thread_is() {
        let mut before = Vec::new();
        assert!(all_go_on(&mut before, vec![1, 1]));
        assert!(!all_go_on(&mut before, vec![9, 1]), "one hangs");
        // Whoever goes on meanwhile is not asked to go on twice.
        assert!(all_go_on(&mut before, vec![9, 2]));
        assert!(!all_go_on(&mut before, vec![9, 2]));
    }
}

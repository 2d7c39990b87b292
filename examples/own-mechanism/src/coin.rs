//! Drops each packet with a fixed probability while enough others wait: the simplest early notification.

use tidegate_own::packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_own::queue::{QueueLimit, QueueManager, Verdict, own::ManagerParameters};
use tidegate_own::units::{Limit, Time};
use tidegate_own::{Context, Variable, bound, parameters, random::Substream};

parameters! {
    /// # Coin
    ///
    /// Tosses a coin for each packet that arrives when some wait.
    ///
    /// Source: this example.
    pub struct CoinConfig {
        /// How much may wait. Source: assumed.
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// From how many waiting packets on the coin is tossed. Source: assumed.
        above: u32 = 5;
        /// The probability of a drop, or of a mark where the transport knows ECN. Source: assumed.
        p: f64 = 0.02 => bound::PROBABILITY;
    }
}

impl ManagerParameters for CoinConfig {
    type Manager = Coin;

    fn build(&self, context: &Context) -> Coin {
        let limit = QueueLimit::new(self.limit, context.link_rate);
        Coin { limit, random: Substream::new(context.seed), notified: 0, config: self.clone() }
    }
}

pub struct Coin {
    limit: QueueLimit,
    random: Substream,
    notified: u64,
    config: CoinConfig,
}

impl QueueManager for Coin {
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("notified", "Packets dropped or marked early.")] }
    }

    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, _now: Time) -> Verdict {
        if !self.limit.admits(queue, packet) {
            return Verdict::Drop(DropReason::Overflow);
        }
        if queue.packets < self.config.above || !self.random.chance(self.config.p) {
            return Verdict::Accept;
        }
        self.notified += 1;
        let mark = packet.ecn.is_capable().then_some(Verdict::Mark(MarkReason::Early));
        mark.unwrap_or(Verdict::Drop(DropReason::Early))
    }

    fn variable(&self, name: &str) -> Option<f64> {
        (name == "notified").then_some(self.notified as f64)
    }
}

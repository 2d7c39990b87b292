//! REM, random exponential marking: keeps a price of the link that rises while more arrives than leaves or more waits than
//! should, and notifies with a probability that is exponential in it. So the price finds the load at which rates match with a queue
//! that is short whatever the number of flows, and as it is exponential, the prices of all links on a path add up in what a
//! flow sees.
//!
//! Source: Athuraliya, Li, Low & Yin, "REM: active queue management", IEEE Network 15(3), 2001; ns-2.35 `rem.cc`.
//! Deviations:
//! - Updates are at multiples of [`RemConfig::period`] from time zero, but for those that would change nothing. The queue is what
//!   waits, without the packet in transmission.
//! - All packets are notified as they arrive; ns-2 drops at the arrival and marks at the departure, where the paper leaves it open.
//! - A packet that does not fit counts as input, as in ns-2, and is dropped without a random decision.
//! - In bytes (`mode`) queue and input are counted in mean packets, and a packet is notified in proportion to its size (ns-2).

use alloc::format;

use tidegate_packet::{Backlog, DropReason, MarkReason, Packet};
use tidegate_parameters::{Bound, bound, parameters};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

use super::limit::{BELOW_LIMIT, in_packets, never_exceeded};
use super::pi::{PERIOD, by_size, measure};
use super::pie::next_of;
use super::red::QueueUnit;
use super::{QueueLimit, QueueManager, Verdict};
use crate::random::Substream;
use crate::{Context, Variable};

/// What is left of an average that fades, in packets, and changes no sum that a packet is in.
const NO_INPUT: f64 = 1e-30;
/// At 1 the price would have no effect.
const PHI: Bound<f64> =
    Bound::above(1.0).and_at_most(1000.0).saying("", " makes no probability of a price").helping(
        "above 1, at most 1000: at 1 a price has no effect; above that one of 1 notifies nearly everything",
    );
/// A step of the price, for each packet.
const GAMMA: Bound<f64> = Bound::above(0.0).and_at_most(1e6).saying("", " is no step of the price").helping(
    "above 0, at most 1000000: at 0 the price never moves; above that a packet makes the probability 1",
);
/// How much the queue counts beside the input.
const ALPHA: Bound<f64> = Bound::between(0.0, 1e6).saying("", " is no weight").helping(
    "from 0 to 1000000: below 0 a queue that is too long lowers the price; above that it alone counts",
);

parameters! {
    /// # Random exponential marking
    ///
    /// Notifies arrivals with a probability that is exponential in a price, which rises while more arrives than leaves or more
    /// waits than should.
    ///
    /// Source: Athuraliya, Li, Low and Yin 2001; ns (`Queue/REM`).
    #[derive(Copy)]
    pub struct RemConfig {
        /// How much may wait. Source: NBP, Table 1 (100 packets).
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Where the queue should be, in packets or bytes (`b*`). Source: Athuraliya et al. 2001; ns (`pbo_`).
        b_ref: Limit = Limit::Packets(20) => bound::level("a queue of nothing leaves the link idle between packets");
        /// By how much the price moves for each packet that arrived too much since the update before. Source: Athuraliya et al. 2001;
        /// ns (`gamma_`).
        gamma: f64 = 0.001 => GAMMA;
        /// How much a packet counts that waits too much, beside one that arrived too much. Source: Athuraliya et al. 2001; ns
        /// (fixed).
        alpha: f64 = 0.1 => ALPHA;
        /// The base of the probability `1 - phi^-price`. Source: Athuraliya et al. 2001; ns (`phi_`).
        phi: f64 = 1.001 => PHI;
        /// The time between two updates. Source: ns (`pupdtime_`).
        period: Span = Span::from_millis(2) => PERIOD;
        /// Weight of the last input in its average. Source: ns (`inw_`).
        weight: f64 = 1.0 => bound::GAIN;
        /// What queue and input count. Source: ns (`qib_`, off).
        mode: QueueUnit = QueueUnit::Packets;
        /// Size of a typical packet, in which the link's rate is counted. Source: ns (`mean_pktsize_`).
        mean_packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// Whether packets of transports with ECN are marked instead of dropped. On, as with the other queues here. Source: ns
        /// (`markpkts_`, off).
        ecn: bool = true;
    }
    check |config, report| {
        if in_packets(config.b_ref, config.mean_packet).is_none() {
            report.say("b_ref", format!("{} is a time", config.b_ref), "in packets or bytes, like `20p`");
        } else if config.b_ref.is_at_least(config.limit) {
            report.say("b_ref", never_exceeded(config.b_ref, config.limit), BELOW_LIMIT);
        }
    };
}

impl RemConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Rem {
        assert!(!self.period.is_zero(), "time moves on between updates");
        assert!(self.phi > 1.0, "a price has an effect");
        assert!(self.mean_packet.get() > 0, "a packet has bytes");
        let b_ref = in_packets(self.b_ref, self.mean_packet).expect("checked: in packets or bytes");
        Rem {
            price: 0.0,
            p: 0.0,
            input: 0.0,
            arrived: Backlog::EMPTY,
            queue: Backlog::EMPTY,
            next_update: Time::ZERO + self.period,
            capacity: self.capacity(context.link_rate),
            b_ref,
            ln_phi: libm::log(self.phi),
            limit: QueueLimit::new(self.limit, context.link_rate),
            random: Substream::new(context.seed),
            config: *self,
        }
    }

    /// c: the packets that the link sends between two updates.
    fn capacity(&self, rate: BitRate) -> f64 {
        self.period.as_secs_f64() * rate.as_bytes_per_second_f64() / self.mean_packet.as_f64()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Rem {
    price: f64,
    /// The probability that follows from the price.
    p: f64,
    /// x: the average input between two updates, in packets.
    input: f64,
    /// What arrived since the last update.
    arrived: Backlog,
    /// What waits.
    queue: Backlog,
    next_update: Time,
    capacity: f64,
    /// In packets.
    b_ref: f64,
    ln_phi: f64,
    limit: QueueLimit,
    random: Substream,
    config: RemConfig,
}

impl QueueManager for Rem {
    fn variables() -> &'static [Variable] {
        const {
            &[
                Variable::new("price", "The price of the link, which the probability follows from."),
                Variable::new(
                    "marking_probability",
                    "The probability with which packets are marked or dropped.",
                ),
            ]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        if self.is_at_rest() {
            self.next_update = next_of(self.next_update, self.config.period, now);
        }
        self.arrived.add(packet);
        let verdict = self.judge(packet, queue);
        self.queue = queue;
        if !matches!(verdict, Verdict::Drop(_)) {
            self.queue.add(packet);
        }
        verdict
    }

    #[inline]
    fn on_departure(&mut self, _packet: &Packet, queue: Backlog, _now: Time) {
        self.queue = queue;
    }

    fn set_link_rate(&mut self, rate: BitRate, _now: Time) {
        self.limit.set_link_rate(rate);
        self.capacity = self.config.capacity(rate);
    }

    #[inline]
    fn timer_at(&self) -> Option<Time> {
        if self.is_at_rest() { None } else { Some(self.next_update) }
    }

    fn on_timer(&mut self, now: Time) {
        let units = |of| measure(of, self.config.mode, self.config.mean_packet);
        let weight = self.config.weight;
        self.input = (1.0 - weight) * self.input + weight * units(self.arrived);
        if self.input < NO_INPUT {
            self.input = 0.0;
        }
        let excess = excess(units(self.queue), self.b_ref, self.config.alpha, self.input, self.capacity);
        self.price = moved(self.price, excess, self.config.gamma);
        self.p = probability(self.price, self.ln_phi);
        self.arrived = Backlog::EMPTY;
        self.next_update = now + self.config.period;
    }

    fn variable(&self, name: &str) -> Option<f64> {
        match name {
            "price" => Some(self.price),
            "marking_probability" => Some(self.p),
            _ => None,
        }
    }
}

impl Rem {
    /// Whether updates change nothing until the next arrival: a link that has nothing to send lowers a price that there is not.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.price == 0.0 && self.input == 0.0 && self.arrived.is_empty() && self.queue.is_empty()
    }

    #[inline]
    fn judge(&mut self, packet: &Packet, queue: Backlog) -> Verdict {
        if !self.limit.admits(queue, packet) {
            return Verdict::Drop(DropReason::Overflow);
        }
        if !self.random.chance(by_size(self.p, packet, self.config.mode, self.config.mean_packet)) {
            Verdict::Accept
        } else if self.config.ecn && packet.ecn.is_capable() {
            Verdict::Mark(MarkReason::Early)
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }
}

/// `alpha (b - b*) + x - c`: what waits and what arrived too much (Athuraliya et al., equation 1).
fn excess(b: f64, b_ref: f64, alpha: f64, x: f64, c: f64) -> f64 {
    alpha * (b - b_ref) + x - c
}

/// `p(t + 1) = [p(t) + gamma excess]+` (Athuraliya et al., equation 1).
fn moved(price: f64, excess: f64, gamma: f64) -> f64 {
    (price + gamma * excess).max(0.0)
}

/// `1 - phi^-p` (Athuraliya et al., equation 2).
fn probability(price: f64, ln_phi: f64) -> f64 {
    if price > 0.0 { -libm::expm1(-price * ln_phi) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::testing::settle;
    use crate::queue::{Fifo, QueueDiscipline};
    use crate::schedule::testing::{arrivals, drive};
    use proptest::prelude::*;
    use tidegate_packet::{Ecn, FlowId};

    fn rem(config: RemConfig) -> Rem {
        config.build(&Context { link_rate: BitRate::from_mbps(8), ..Context::for_tests() })
    }

    fn packets(packets: u32) -> Backlog {
        Backlog { packets, bytes: 1000 * u64::from(packets) }
    }

    /// The price after updates before each of which so many packets arrived and so many wait.
    fn updated(rem: &mut Rem, steps: &[(u32, u32)]) -> f64 {
        for &(arrived, waiting) in steps {
            (rem.arrived, rem.queue) = (packets(arrived), packets(waiting));
            rem.on_timer(rem.next_update);
        }
        rem.price
    }

    #[test]
    fn the_price_is_the_sum_of_what_arrived_and_waits_too_much() {
        // Two packets leave between updates; 20 should wait.
        let mut rem = rem(RemConfig { gamma: 0.5, ..RemConfig::default() });
        assert!((updated(&mut rem, &[(7, 20)]) - 2.5).abs() < 1e-12);
        assert!((updated(&mut rem, &[(2, 30)]) - 3.0).abs() < 1e-12, "a tenth for one that waits");
        assert!((updated(&mut rem, &[(0, 0), (2, 20)]) - 1.0).abs() < 1e-12);
        assert_eq!(updated(&mut rem, &[(0, 0), (0, 0)]), 0.0);
    }

    #[test]
    fn matched_rates_and_a_queue_at_the_reference_leave_the_price_where_it_is() {
        let mut rem = Rem { price: 123.0, ..rem(RemConfig::default()) };
        assert_eq!(updated(&mut rem, &[(2, 20); 1000]), 123.0);
    }

    #[test]
    fn the_probabilities_of_links_on_a_path_add_up_as_their_prices_do() {
        let ln_phi = libm::log(1.001);
        let (one, other) = (probability(300.0, ln_phi), probability(450.0, ln_phi));
        let of_either = 1.0 - (1.0 - one) * (1.0 - other);
        assert!((of_either - probability(750.0, ln_phi)).abs() < 1e-15);
        assert!((probability(1.0, ln_phi) - (1.0 - 1.0 / 1.001)).abs() < 1e-15);
        assert_eq!((probability(0.0, ln_phi), probability(1e9, ln_phi)), (0.0, 1.0));
    }

    #[test]
    fn the_input_is_averaged_with_its_weight() {
        let mut rem = rem(RemConfig { weight: 0.25, gamma: 1.0, alpha: 0.0, ..RemConfig::default() });
        updated(&mut rem, &[(8, 0)]);
        assert_eq!(rem.input, 2.0);
        updated(&mut rem, &[(0, 0)]);
        assert_eq!(rem.input, 1.5);
    }

    #[test]
    fn sources_that_answer_settle_at_the_reference_and_at_the_price_of_their_probability() {
        // One of the equilibria of the paper: input and capacity match, b = b*, and the price is what asks for a fifth.
        for mode in [QueueUnit::Packets, QueueUnit::Bytes] {
            let limit = Limit::Packets(1000);
            let config = RemConfig { limit, gamma: 0.1, alpha: 0.01, mode, ..RemConfig::default() };
            let mut fifo = Fifo::new(rem(config));
            let settled = settle(&mut fifo, Some("price"), 200, |price| {
                1.5 - 2.5 * probability(price, libm::log(1.001))
            });
            let price = -libm::log(1.0 - 0.2) / libm::log(1.001);
            assert!((settled.signal - price).abs() < 0.01 * price, "{settled:?}, {price}");
            assert!((settled.queue - 20.0).abs() < 1.0 && settled.load > 0.99, "{settled:?}");
            assert_eq!(settled.dropped, 0);
        }
    }

    #[test]
    fn a_new_rate_of_the_link_is_a_new_capacity() {
        let mut rem = rem(RemConfig::default());
        assert_eq!(rem.capacity, 2.0);
        rem.set_link_rate(BitRate::from_mbps(4), Time::ZERO);
        assert_eq!(rem.capacity, 1.0);
    }

    #[test]
    fn marks_take_the_place_of_drops_and_a_full_queue_still_counts_as_input() {
        let verdict = |ecn, queue, ecn_on| {
            let mut rem = Rem { p: 1.0, ..rem(RemConfig { ecn: ecn_on, ..RemConfig::default() }) };
            let verdict =
                rem.on_arrival(&mut Packet { ecn, ..Packet::new(0, FlowId(0), 1000) }, queue, Time::ZERO);
            (verdict, rem.arrived.packets)
        };
        assert_eq!(verdict(Ecn::Ect0, packets(99), true), (Verdict::Mark(MarkReason::Early), 1));
        assert_eq!(verdict(Ecn::Ect0, packets(99), false), (Verdict::Drop(DropReason::Early), 1));
        assert_eq!(verdict(Ecn::NotEct, packets(99), true), (Verdict::Drop(DropReason::Early), 1));
        assert_eq!(verdict(Ecn::Ect0, packets(100), true), (Verdict::Drop(DropReason::Overflow), 1));
    }

    proptest! {
        #[test]
        fn any_arrivals_keep_the_limit_and_the_price(
            vector in arrivals(3, 300), limit in 1u32..40, b_ref in 1u32..40, gamma in 1e-4..10.0f64,
            phi in 1.0001..10.0f64, weight in 0.01..=1.0f64, in_bytes: bool,
        ) {
            let mode = if in_bytes { QueueUnit::Bytes } else { QueueUnit::Packets };
            let period = Span::from_micros(20);
            let (limit, b_ref) = (Limit::Packets(limit), Limit::Packets(b_ref));
            let config = RemConfig { limit, b_ref, gamma, phi, period, weight, mode, ..RemConfig::default() };
            let mut fifo = Fifo::new(rem(config));
            let most = QueueLimit::new(limit, BitRate::from_mbps(8));
            let run = drive(&mut fifo, &vector, 8, |waiting| assert!(!most.exceeded_by(waiting)));
            prop_assert!(run.out.marks.is_empty(), "nothing here can carry a mark");
            prop_assert!((0.0..=1.0).contains(&fifo.variable("marking_probability").expect("it has one")));
            prop_assert!(fifo.variable("price").expect("it has one") >= 0.0);
        }
    }
}

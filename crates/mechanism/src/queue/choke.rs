//! CHOKe, "choose and keep for responsive flows, choose and kill for unresponsive flows": RED that compares each arrival with a
//! packet drawn from the queue, and drops both if they are of the same flow. A flow that does not slow down has the most
//! packets waiting and the most arriving, so it is hit by the square of its share, without any state for flows.
//!
//! Source: Pan, Prabhakar & Psounis, "CHOKe, a stateless active queue management scheme for approximating fair bandwidth
//! allocation", INFOCOM 2000, section II and Fig. 1. The rest is [`super::red`], with its source.
//! Deviations:
//! - Comparison begins with the average at `min`, where RED begins to notify (the paper: above it).
//! - One packet is drawn. The paper's section IV also draws several, or a number that follows the average.
//! - The packet in transmission is no part of the queue and is not drawn, nor is one that waits alone: an arrival leaves no queue
//!   empty that was not, on which schedulers rely.
//! - A match is no event for RED: its count goes on. Both packets are dropped, whatever their ECN fields.
//! - A manager sees no packets that wait. It keeps the flows of those that joined, 4 bytes for each.

use alloc::collections::VecDeque;

use tidegate_packet::{Backlog, DropReason, FlowId, Packet};
use tidegate_parameters::parameters;
use tidegate_units::{BitRate, Time};

use super::red::WITHOUT_FLOWS;
use super::{QueueManager, Red, RedConfig, Verdict};
use crate::{Context, Variable};

parameters! {
    /// # CHOKe
    ///
    /// RED that compares each arrival, while it notifies, with a packet drawn from the queue, and drops both if they are of the same
    /// flow.
    ///
    /// Source: Pan, Prabhakar and Psounis 2000.
    #[derive(Copy)]
    pub struct ChokeConfig {
        ..red: RedConfig;
    }
}

impl ChokeConfig {
    /// The manager.
    pub fn build(&self, context: &Context) -> Choke {
        Choke { red: self.red.build(context), flows: VecDeque::new(), leaves: 0, matches: 0 }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Choke {
    red: Red,
    /// Of the packets that wait, in their order.
    flows: VecDeque<FlowId>,
    /// The position of the packet that departs next: not the head if one was chosen to make room.
    leaves: u32,
    /// Packets that were drawn and dropped.
    matches: u64,
}

impl QueueManager for Choke {
    fn variables() -> &'static [Variable] {
        const {
            let [average, probability, max_p] = WITHOUT_FLOWS;
            &[
                average,
                probability,
                max_p,
                Variable::new("matches", "Packets that were drawn and dropped so far."),
            ]
        }
    }

    #[inline]
    fn on_arrival(&mut self, packet: &mut Packet, queue: Backlog, now: Time) -> Verdict {
        debug_assert_eq!(
            self.flows.len(),
            queue.packets as usize,
            "every packet that waits has its flow here"
        );
        let avg = self.red.observe(packet, queue, now);
        if avg >= self.red.thresholds().0
            && let Some(position) = self.drawn()
            && self.flows.get(position as usize) == Some(&packet.flow)
        {
            self.leaves = position;
            self.matches += 1;
            return Verdict::DropWith { position, why: DropReason::FairShare };
        }
        let verdict = self.red.decide(packet, queue, now);
        if let Verdict::Evict { position, .. } = verdict {
            self.leaves = position;
        }
        if !matches!(verdict, Verdict::Drop(_)) {
            self.flows.push_back(packet.flow);
        }
        verdict
    }

    #[inline]
    fn on_departure(&mut self, _packet: &Packet, _queue: Backlog, _now: Time) {
        match core::mem::take(&mut self.leaves) {
            0 => self.flows.pop_front(),
            position => self.flows.remove(position as usize),
        };
    }

    fn on_idle(&mut self, now: Time) {
        self.red.on_idle(now);
    }

    fn set_link_rate(&mut self, rate: BitRate, now: Time) {
        self.red.set_link_rate(rate, now);
    }

    fn variable(&self, name: &str) -> Option<f64> {
        if name == "matches" { Some(self.matches as f64) } else { self.red.variable(name) }
    }
}

impl Choke {
    /// The position of a waiting packet, each with the same probability; none where fewer than two wait.
    #[inline]
    fn drawn(&mut self) -> Option<u32> {
        let waiting = self.flows.len() as u32;
        (waiting >= 2).then(|| self.red.random().below(waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::limit::threshold;
    use crate::queue::{Fifo, QueueDiscipline, QueueLimit, Victim};
    use crate::random::Substream;
    use crate::schedule::testing::{Counted, arrivals, drive};
    use crate::schedule::{Drr, DrrConfig};
    use proptest::prelude::*;
    use tidegate_packet::Ecn;
    use tidegate_units::{BitRate, Limit, Span};

    /// Compares from two waiting packets on, and hardly notifies otherwise.
    fn comparing() -> RedConfig {
        RedConfig {
            min: Limit::Packets(2),
            max: Limit::Packets(1000),
            weight: 1.0,
            max_p: 1e-6,
            ..RedConfig::default()
        }
    }

    fn fifo(red: RedConfig) -> Fifo<Choke> {
        Fifo::new(ChokeConfig { red }.build(&Context::for_tests()))
    }

    fn enqueue(fifo: &mut Fifo<Choke>, slot: u32, flow: u32, out: &mut Counted) {
        let packet = Packet { ecn: Ecn::Ect0, ..Packet::new(slot, FlowId(flow), 1000) };
        fifo.enqueue(packet, Time::ZERO, out);
    }

    #[test]
    fn an_arrival_and_the_packet_drawn_are_both_dropped_if_they_are_of_one_flow() {
        let (mut fifo, mut out) = (fifo(comparing()), Counted::default());
        for slot in 0..2 {
            enqueue(&mut fifo, slot, 7, &mut out);
        }
        assert!(out.drops.is_empty(), "the average is below the threshold until two wait");
        enqueue(&mut fifo, 2, 8, &mut out);
        assert!(out.drops.is_empty() && fifo.backlog().packets == 3, "another flow");
        // Two of three are of flow 7: sooner or later one is drawn.
        let mut slot = 3;
        while out.drops.is_empty() {
            enqueue(&mut fifo, slot, 7, &mut out);
            slot += 1;
        }
        let [(victim, why), (arrival, why_too)] = out.drops[..] else { panic!("{:?}", out.drops) };
        assert_eq!((why, why_too), (DropReason::FairShare, DropReason::FairShare));
        assert_eq!((arrival.slot, victim.flow, arrival.flow), (slot - 1, FlowId(7), FlowId(7)));
        assert!(out.marks.is_empty(), "a match is no mark");
        assert_eq!(fifo.manager().flows.len(), fifo.backlog().packets as usize);
    }

    #[test]
    fn a_packet_that_waits_alone_is_not_drawn() {
        let red = RedConfig { min: Limit::Packets(0), ..comparing() };
        let (mut fifo, mut out) = (fifo(red), Counted::default());
        for slot in 0..1000 {
            enqueue(&mut fifo, slot, 7, &mut out);
            fifo.dequeue(Time::ZERO, &mut out);
            enqueue(&mut fifo, slot, 7, &mut out);
            fifo.dequeue(Time::ZERO, &mut out);
        }
        assert!(out.drops.is_empty());
    }

    #[test]
    fn packets_of_different_flows_are_treated_as_by_red() {
        let red = RedConfig {
            min: Limit::Packets(2),
            max: Limit::Packets(10),
            weight: 0.5,
            ..RedConfig::default()
        };
        let (mut fifo, mut out) = (fifo(red), Counted::default());
        for slot in 0..50 {
            enqueue(&mut fifo, slot, slot, &mut out);
        }
        assert_eq!((fifo.manager().matches, out.drops.len()), (0, 0));
        assert!(out.marks.len() > 30, "from the average of 10 on all are marked: {}", out.marks.len());
    }

    #[test]
    fn each_waiting_packet_is_drawn_with_the_same_probability() {
        let mut choke = ChokeConfig { red: comparing() }.build(&Context::for_tests());
        choke.flows.extend((0..5).map(FlowId));
        let mut drawn = [0; 5];
        for _ in 0..50_000 {
            drawn[choke.drawn().expect("five wait") as usize] += 1;
        }
        assert!(drawn.iter().all(|count| (9_600..10_400).contains(count)), "{drawn:?}");
    }

    #[test]
    fn a_flow_that_sends_far_too_much_gets_hardly_more_than_the_others_leave() {
        // Nine flows that send a twentieth of the link each, and one that sends 1.5 times the link. Under drop-tail all would lose
        // the same part, and it would get 1.5 of 1.95; they leave 0.55.
        let red = RedConfig {
            min: Limit::Packets(5),
            max: Limit::Packets(1000),
            weight: 0.1,
            max_p: 1e-6,
            ..RedConfig::default()
        };
        let (mut fifo, mut out) = (fifo(red), Counted::default());
        let mut random = Substream::new(crate::random::Seed(3));
        let (mut sent, mut of_big) = (0u32, 0u32);
        for step in 0..200_000u32 {
            let now = Time::ZERO + Span::from_millis(u64::from(step));
            // 1.95 packets for each that leaves, of which 1.5 are of flow 0.
            for _ in 0..2 {
                let point = random.uniform() * 2.0;
                let flow = if point < 1.5 { 0 } else { 1 + random.below(9) };
                if point < 1.95 {
                    let packet = Packet { arrived: now, ..Packet::new(step, FlowId(flow), 1000) };
                    fifo.enqueue(packet, now, &mut out);
                }
            }
            if let Some(packet) = fifo.dequeue(now, &mut out) {
                sent += 1;
                of_big += u32::from(packet.flow.0 == 0);
            }
        }
        let (share, used) = (f64::from(of_big) / f64::from(sent), f64::from(sent) / 200_000.0);
        assert!(used > 0.99 && (0.53..0.60).contains(&share), "{share} of {used}");
    }

    fn configs() -> impl Strategy<Value = RedConfig> {
        (0.0..5.0f64, 0.1..10.0f64, 0.001..1.0f64, 0.0..=1.0f64, 1u32..30, any::<[bool; 2]>()).prop_map(
            |(min_th, width, weight, max_p, limit, [ns, is_random])| {
                let base = if ns { RedConfig::ns() } else { RedConfig::default() };
                RedConfig {
                    limit: Limit::Packets(limit),
                    min: threshold(min_th),
                    max: threshold(min_th + width),
                    max_p,
                    weight,
                    victim: if is_random { Victim::Random } else { Victim::Arriving },
                    ..base
                }
            },
        )
    }

    proptest! {
        #[test]
        fn any_configuration_keeps_the_invariants_and_knows_the_flows_that_wait(
            red in configs(), vector in arrivals(3, 300),
        ) {
            let mut fifo = fifo(red);
            let limit = QueueLimit::new(red.limit, BitRate::from_mbps(10));
            let run = drive(&mut fifo, &vector, 8, |backlog| assert!(!limit.exceeded_by(backlog)));
            prop_assert!(fifo.manager().flows.is_empty(), "all of them left");
            let shared = run.out.drops.iter().filter(|(_, why)| *why == DropReason::FairShare).count();
            prop_assert_eq!(shared as u64, 2 * fifo.manager().matches);
        }

        #[test]
        fn inside_of_a_scheduler_no_queue_is_lost(red in configs(), vector in arrivals(3, 300), limit in 1u32..30) {
            let queue = Some(crate::queue::ManagerConfig::Choke(ChokeConfig { red }));
            let config = DrrConfig { limit: Limit::Packets(limit), queue, ..DrrConfig::default() };
            let mut drr: Drr = config.build(&Context::for_tests());
            drive(&mut drr, &vector, 8, |backlog| assert!(backlog.packets <= limit));
        }
    }
}

//! Fluids in a network: populations of connections, the links that they cross, and what runs between them, moved on by even steps.
//!
//! In each step a population sends what its windows and its round trip say; each link serves what waits, first come first served, hears
//! its law about the rest, and passes on; what it dropped or marked comes back to the population a round trip after it was sent. Packets
//! on these links are in the same queues ([`FluidPort`]). A step costs as much as there are populations, windows on the grid and links
//! on their ways, however many connections there are; a network without fluids has none of it.
//!
//! Source: Liu, Lo Presti, Misra, Towsley & Gu, SIGMETRICS 2003 (several queues in a row, what leaves each in the proportion in which it
//! came); Gu, Liu & Towsley, "On integrating fluid models with packet simulation", INFOCOM 2004 (packets in the queues of a fluid).
//! Deviations: what is between two links takes whole steps, at least one; round trips are exact. Acknowledgments take no room.

mod outage;
mod ways;

use std::collections::VecDeque;

use tidegate_mechanism::fluid::{FluidConfig, FluidLaw, Notice, Population};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_units::{Bytes, Span, Time};

use crate::ids::{LinkId, NodeId};
use crate::link::Link;
use crate::network::{Network, StartSpec};
use crate::observer::Observer;
use crate::simulation::Simulation;
use crate::world::Wake;
pub(crate) use ways::Ways;

/// Steps of history that a link keeps, and of what waits there, at most.
const HISTORY_MAX: usize = 1 << 16;

/// Many TCP connections as one fluid.
#[derive(Clone, Debug)]
pub struct FluidSpec {
    /// Unique name, also among flows.
    pub name: String,
    /// The sending host.
    pub from: NodeId,
    /// The receiving host.
    pub to: NodeId,
    /// What it is.
    pub config: FluidConfig,
    /// When its connections start: all at once, or evenly over a time.
    pub start: StartSpec,
    /// When they stop, if ever.
    pub stop: Option<Time>,
}

/// What a fluid did since the statistics began.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FluidCounters {
    /// How long that was, in seconds.
    pub seconds: f64,
    /// Bytes that it sent.
    pub sent_bytes: f64,
    /// Bytes that arrived.
    pub delivered_bytes: f64,
    /// Bytes that were dropped on the way.
    pub lost_bytes: f64,
    /// Bytes that were marked.
    pub marked_bytes: f64,
    /// How much of it somebody had started, in seconds; over this the next three are integrals.
    pub present_seconds: f64,
    /// Its round trip, integrated over time.
    pub rtt_seconds: f64,
    /// Its mean window in segments, integrated over time.
    pub window_seconds: f64,
    /// The part that waits for a time-out, integrated over time.
    pub timed_out_seconds: f64,
}

/// What a link did with fluids since the statistics began, in bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FluidLinkCounters {
    /// How long that was, in seconds.
    pub seconds: f64,
    /// What came.
    pub offered_bytes: f64,
    /// What was dropped of it.
    pub lost_bytes: f64,
    /// What was marked of it.
    pub marked_bytes: f64,
    /// What left.
    pub served_bytes: f64,
}

/// What can be looked at of a fluid now.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FluidState {
    /// What it sends, in bits per second.
    pub rate_bps: f64,
    /// Its round trip, in seconds.
    pub rtt_s: f64,
    /// Its mean window in segments; NaN if there is none.
    pub window_segments: f64,
    /// The part of its connections that waits for a time-out.
    pub timed_out: f64,
}

/// A fluid on its way.
#[derive(Debug)]
struct Class {
    population: Population,
    packet_bytes: f64,
    ecn: bool,
    /// Without queues, in seconds.
    base_rtt_s: f64,
    hops: Vec<ClassHop>,
    /// From when to when connections start, in seconds.
    starts: Option<(f64, f64)>,
    stop: Option<Time>,
    counters: FluidCounters,
    state: FluidState,
}

/// A link on the way of a fluid.
#[derive(Debug)]
struct ClassHop {
    /// Which of the links with fluid, and which of the fluids there.
    link: usize,
    slot: usize,
    /// From the sender to here, without queues, in seconds.
    delay_s: f64,
    /// What travels to here, in bytes per second by step; nothing at the first link.
    travelling: VecDeque<f64>,
    /// What arrives now, in bytes per second.
    offered: f64,
}

/// A link that fluids cross.
#[derive(Debug)]
struct FluidLink {
    id: LinkId,
    /// What waits, by the step in which it came: bytes of each fluid, then those of packets.
    waiting: VecDeque<f64>,
    slots: usize,
    /// How many steps may be told apart in it.
    steps_max: usize,
    /// What was notified in the steps before, the last one first.
    notices: VecDeque<Notice>,
    notices_max: usize,
    /// By fluid: what joins it, in bytes per second, and what left in the last step, in bytes.
    joins: Vec<f64>,
    left: Vec<f64>,
    /// What is left of unfinished work, how long it takes, and what packets offered, in bytes per second.
    work: f64,
    wait_s: f64,
    brought: f64,
    /// The fluids that cross it, and as which of their links.
    members: Vec<(usize, usize)>,
    counters: FluidLinkCounters,
}

impl FluidLink {
    /// What came in the last step, which was so long, joins what waits; `packets` are the bytes of packets.
    fn push(&mut self, step_s: f64, packets: f64) {
        let width = self.slots + 1;
        let of = self.joins.iter().map(|joins| joins * step_s);
        if self.waiting.len() >= self.steps_max * width {
            // More than a queue holds; what is last is one.
            let start = self.waiting.len() - width;
            for (index, bytes) in of.chain(core::iter::once(packets)).enumerate() {
                self.waiting[start + index] += bytes;
            }
            return;
        }
        self.waiting.extend(of.chain(core::iter::once(packets)));
    }

    /// What waits leaves, first come first served, into `left`, until so much work remains: as much as the port has sent, which knows when in
    /// a step packets came.
    fn serve_down_to(&mut self, work: f64) {
        let mut bytes = self.waiting.iter().sum::<f64>() - work;
        let width = self.slots + 1;
        self.left.fill(0.0);
        while bytes > 0.0 && !self.waiting.is_empty() {
            let first: f64 = self.waiting.iter().take(width).sum();
            if first <= bytes {
                for slot in 0..self.slots {
                    self.left[slot] += self.waiting[slot];
                }
                self.waiting.drain(..width);
                bytes -= first;
                continue;
            }
            let part = bytes / first;
            for index in 0..width {
                let leaves = self.waiting[index] * part;
                self.waiting[index] -= leaves;
                if index < self.slots {
                    self.left[index] += leaves;
                }
            }
            bytes = 0.0;
        }
        self.work = work;
    }

    /// What was notified `ago` steps before this one: nothing before the run, and the oldest that is kept where that is too long ago.
    fn notice(&self, ago: f64) -> Notice {
        let index = (ago.max(0.0) as usize).min(self.notices_max.saturating_sub(1));
        self.notices.get(index).copied().unwrap_or_default()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Fluids {
    step: Span,
    classes: Vec<Class>,
    links: Vec<FluidLink>,
}

impl Fluids {
    /// Those of `network` on their `ways`; none if there are none.
    pub(crate) fn new(network: &Network, ways: &Ways) -> Option<Box<Self>> {
        let step = ways.step(network)?;
        let step_s = step.as_secs_f64();
        let mut links: Vec<FluidLink> = Vec::new();
        let mut classes = Vec::new();
        for (index, (fluid, path)) in network.fluids.iter().zip(&ways.paths).enumerate() {
            let mut delay_s = 0.0;
            let mut between_s = 0.0;
            let mut hops = Vec::new();
            for &id in path {
                let spec = network.direction(id);
                let position = links.iter().position(|link| link.id == id).unwrap_or_else(|| {
                    links.push(FluidLink::new(id));
                    links.len() - 1
                });
                let link = &mut links[position];
                link.members.push((index, hops.len()));
                let steps = ((between_s / step_s) + 0.5) as usize;
                let travelling =
                    if hops.is_empty() { VecDeque::new() } else { VecDeque::from(vec![0.0; steps.max(1)]) };
                hops.push(ClassHop { link: position, slot: link.slots, delay_s, travelling, offered: 0.0 });
                link.slots += 1;
                between_s = (spec.delay + spec.rate.span_of(fluid.config.packet.get())).as_secs_f64();
                delay_s += between_s;
            }
            let starts = match fluid.start {
                StartSpec::At(at) => (at.as_secs_f64(), at.as_secs_f64()),
                StartSpec::Uniform(from, to) => (from.as_secs_f64(), to.as_secs_f64()),
            };
            classes.push(Class {
                population: Population::new(&fluid.config),
                packet_bytes: fluid.config.packet.as_f64(),
                ecn: fluid.config.ecn,
                base_rtt_s: ways.rtts[index],
                hops,
                starts: Some(starts),
                stop: fluid.stop,
                counters: FluidCounters::default(),
                state: FluidState::default(),
            });
        }
        for link in &mut links {
            let slowest =
                link.members.iter().map(|&(class, _)| classes[class].base_rtt_s).fold(0.0, f64::max);
            link.allot(network, slowest, step_s);
        }
        Some(Box::new(Self { step, classes, links }))
    }

    pub(crate) const fn step(&self) -> Span {
        self.step
    }

    /// Statistics begin now.
    pub(crate) fn restart(&mut self) {
        self.classes.iter_mut().for_each(|class| class.counters = FluidCounters::default());
        self.links.iter_mut().for_each(|link| link.counters = FluidLinkCounters::default());
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = FluidCounters> {
        self.classes.iter().map(|class| class.counters)
    }

    pub(crate) fn link_counters(&self) -> impl Iterator<Item = (LinkId, FluidLinkCounters)> {
        self.links.iter().map(|link| (link.id, link.counters))
    }

    pub(crate) fn state(&self, fluid: usize) -> Option<FluidState> {
        self.classes.get(fluid).map(|class| class.state)
    }

    /// What links served in the last step goes on, and populations hear what was notified and send.
    fn move_classes(&mut self, now: Time) {
        let step_s = self.step.as_secs_f64();
        for class in &mut self.classes {
            class.begin(now, self.step);
            let wait_s: f64 = class.hops.iter().map(|hop| self.links[hop.link].wait_s).sum();
            let rtt_s = class.base_rtt_s + wait_s;
            let notice = class.heard(&self.links, rtt_s, step_s);
            class.population.step(notice, rtt_s, self.step);
            let rate = class.population.rate(rtt_s) * class.packet_bytes;
            class.pass_on(&self.links, rate, step_s);
            let population = &class.population;
            class.state = FluidState {
                rate_bps: rate * 8.0,
                rtt_s,
                window_segments: population.mean_window().unwrap_or(f64::NAN),
                timed_out: population.timed_out(),
            };
            let counters = &mut class.counters;
            counters.seconds += step_s;
            counters.sent_bytes += rate * step_s;
            if population.started() > 0.0 {
                counters.present_seconds += step_s;
                counters.rtt_seconds += rtt_s * step_s;
                counters.window_seconds += population.mean_window().unwrap_or(0.0) * step_s;
                counters.timed_out_seconds += population.timed_out() * step_s;
            }
        }
    }
}

impl Class {
    /// Those that are to start until `now` do, and all stop when it is time.
    fn begin(&mut self, now: Time, step: Span) {
        if self.stop.is_some_and(|stop| stop <= now) {
            self.starts = None;
            self.population.stop();
        }
        let Some((from, to)) = self.starts else { return };
        let at = now.as_secs_f64();
        if at < from {
            return;
        }
        if at >= to {
            self.population.start(1.0);
            self.starts = None;
        } else {
            self.population.start(step.as_secs_f64() / (to - from));
        }
    }

    /// What was notified of what it sent a round trip ago: each link's part is as old as the way from there back to the sender is long.
    fn heard(&self, links: &[FluidLink], rtt_s: f64, step_s: f64) -> Notice {
        let (mut passed, mut unmarked) = (1.0, 1.0);
        let mut reached_s = 0.0;
        for hop in &self.hops {
            let back_s = rtt_s - hop.delay_s - reached_s;
            // What was decided one step ago holds until now.
            let notice = links[hop.link].notice(back_s / step_s - 1.0);
            passed *= 1.0 - notice.lost(self.ecn);
            let marked = notice.marked(self.ecn);
            unmarked *= 1.0 - (marked / (1.0 - notice.lost(self.ecn)).max(f64::MIN_POSITIVE)).min(1.0);
            reached_s += links[hop.link].wait_s;
        }
        Notice { drop: 1.0 - passed, mark: if self.ecn { passed * (1.0 - unmarked) } else { 0.0 } }
    }

    /// `rate` bytes per second are offered to the first link; what left each goes on to the next, and arrives after the last.
    fn pass_on(&mut self, links: &[FluidLink], rate: f64, step_s: f64) {
        let mut arriving = rate;
        for (index, hop) in self.hops.iter_mut().enumerate() {
            if index == 0 {
                hop.offered = rate;
            } else {
                hop.travelling.push_back(arriving);
                hop.offered = hop.travelling.pop_front().unwrap_or(0.0);
            }
            arriving = links[hop.link].left[hop.slot] / step_s;
        }
        self.counters.delivered_bytes += arriving * step_s;
    }
}

impl FluidLink {
    fn new(id: LinkId) -> Self {
        Self {
            id,
            waiting: VecDeque::new(),
            slots: 0,
            steps_max: 0,
            notices: VecDeque::new(),
            notices_max: 0,
            joins: Vec::new(),
            left: Vec::new(),
            work: 0.0,
            wait_s: 0.0,
            brought: 0.0,
            members: Vec::new(),
            counters: FluidLinkCounters::default(),
        }
    }

    /// Room for what waits and for what was notified.
    fn allot(&mut self, network: &Network, rtt_s: f64, step_s: f64) {
        let longest = |link: LinkId| {
            let spec = network.direction(link);
            let DisciplineConfig::Fifo(manager) = &spec.queue else { return 0.0 };
            let law = FluidLaw::new(manager, spec.rate, Bytes::new(65_535));
            law.map_or(0.0, |(_, limit)| limit / spec.rate.as_bytes_per_second_f64())
        };
        let steps = |seconds: f64| ((seconds / step_s) as usize + 2).min(HISTORY_MAX);
        self.left = vec![0.0; self.slots];
        self.joins = vec![0.0; self.slots];
        self.steps_max = steps(longest(self.id));
        self.notices_max = steps(rtt_s + 2.0 * longest(self.id));
        self.waiting = VecDeque::with_capacity(self.steps_max.min(1024) * (self.slots + 1));
        self.notices = VecDeque::with_capacity(self.notices_max + 1);
    }
}

impl<O: Observer> Simulation<O> {
    /// One step of all fluids.
    #[cold]
    pub(crate) fn on_fluid(&mut self) {
        let Some(mut fluids) = self.fluids.take() else { return };
        let now = self.world.now;
        let step_s = fluids.step.as_secs_f64();
        let step = fluids.step;
        let Fluids { links: every, classes: of, .. } = &mut *fluids;
        for link in every {
            let (port, tally) = port_of(&mut self.links, link.id);
            port.settle(now, tally);
            if port.take_emptied() {
                link.lose_all(of, step_s);
            }
            let packets = port.take_brought();
            link.push(step_s, packets.joined_bytes);
            link.serve_down_to(port.work());
            link.brought = packets.offered_bytes / step_s;
            link.wait_s = link.work / port.capacity();
            let served: f64 = link.left.iter().sum();
            port.deliver(served, tally);
            link.counters.served_bytes += served;
            link.counters.seconds += step_s;
        }
        fluids.move_classes(now);
        let Fluids { links, classes, .. } = &mut *fluids;
        for link in links {
            let is_up = self.links[link.id.0 as usize].is_up();
            let (port, tally) = port_of(&mut self.links, link.id);
            let offered: f64 =
                link.members.iter().map(|&(class, hop)| classes[class].hops[hop].offered).sum();
            let said = port.judge(offered + link.brought, step, now);
            let passing = |class: &Class, of_it: f64| of_it * (1.0 - said.lost(class.ecn));
            let passes: f64 = link
                .members
                .iter()
                .map(|&(class, hop)| passing(&classes[class], classes[class].hops[hop].offered))
                .sum();
            let mut overflow = port.join(passes, link.brought, step, tally);
            if !is_up {
                port.close();
                overflow = 1.0;
            }
            for (slot, &(class, hop)) in link.members.iter().enumerate() {
                let class = &mut classes[class];
                let of_it = class.hops[hop].offered;
                let joins = passing(class, of_it) * (1.0 - overflow);
                link.joins[slot] = joins;
                let marked = of_it * said.marked(class.ecn) * (1.0 - overflow);
                class.counters.lost_bytes += (of_it - joins) * step_s;
                class.counters.marked_bytes += marked * step_s;
                link.counters.offered_bytes += of_it * step_s;
                link.counters.lost_bytes += (of_it - joins) * step_s;
                link.counters.marked_bytes += marked * step_s;
            }
            let notice = Notice {
                drop: 1.0 - (1.0 - said.drop) * (1.0 - overflow),
                mark: said.mark * (1.0 - overflow),
            };
            link.notices.push_front(notice);
            link.notices.truncate(link.notices_max);
        }
        self.fluids = Some(fluids);
        self.arm_fluids();
    }

    /// The next step is due.
    pub(crate) fn arm_fluids(&mut self) {
        if let Some(fluids) = &self.fluids {
            self.world.events.schedule(self.world.now + fluids.step(), Wake::Fluid.token(0));
        }
    }

    /// What fluid `fluid` does now.
    pub fn fluid_state(&self, fluid: usize) -> Option<FluidState> {
        self.fluids.as_ref()?.state(fluid)
    }

    /// What fluid `fluid` did since the statistics began.
    pub fn fluid_counters(&self, fluid: usize) -> Option<FluidCounters> {
        self.fluids.as_ref()?.counters().nth(fluid)
    }
}

fn port_of(links: &mut [Link], id: LinkId) -> (&mut crate::link::FluidPort, &mut crate::link::Tally) {
    links[id.0 as usize].fluid_port().expect("links that fluids cross have ports for them")
}

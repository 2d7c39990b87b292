//! A case: lines, gateways, load, and what goes wrong. It is drawn from a seed alone, and says in a line how to run it again.

use std::fmt;

use tidegate_engine::LinkTrace;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::path::{PathConfig, PathDelays};
use tidegate_mechanism::queue::sfb::SfbLimiting;
use tidegate_mechanism::queue::{DropTailConfig, ManagerConfig, SfbConfig};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::schedule::{DisciplineConfig, FlowQueueingConfig, FqCodelConfig};
use tidegate_mechanism::shape::ShaperConfig;
use tidegate_units::{BitRate, Limit, Span, Time};

/// The last fault comes by then.
pub const FAULTS_END: Time = Time::from_nanos(20_000_000_000);
/// So much later all must be well again.
pub const RECOVERY: Span = Span::from_secs(10);
/// And for so long it is watched then.
pub const WATCH: Span = Span::from_secs(10);
/// What every gateway's rate keeps to.
pub const FLOOR: BitRate = BitRate::from_bps(150_000);
/// See [`FLOOR`].
pub const MAX: BitRate = BitRate::from_mbps(60);
/// The rate towards an end that does not answer.
pub const FALLBACK: BitRate = BitRate::from_bps(500_000);

/// The line of a site, the same both ways.
#[derive(Clone, Debug)]
pub struct Line {
    /// How fast.
    pub rate: BitRate,
    /// When it may send, in place of that.
    pub trace: Option<LinkTrace>,
    /// How far from the hub.
    pub delay: Span,
    /// Packets in its queue.
    pub buffer: u32,
    /// Parts of packets that get lost, arrive twice, are held back, and are spoilt.
    pub loss: f64,
    /// See `loss`.
    pub duplicate: f64,
    /// See `loss`.
    pub reorder: f64,
    /// For how long those are held back.
    pub late: Span,
    /// How much later packets come at most, in order.
    pub jitter: Span,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The line of a site is cut for a while.
    Cut {
        /// Which.
        site: usize,
        /// For how long.
        lasts: Span,
    },
    /// It is slower or faster from now on.
    Rate {
        /// Which.
        site: usize,
        /// How fast.
        rate: BitRate,
    },
    /// It is longer or shorter from now on.
    Way {
        /// Which.
        site: usize,
        /// From the hub.
        delay: Span,
    },
    /// A gateway is killed and starts anew, with a clock that shows so many seconds more.
    Restart {
        /// Which.
        site: usize,
        /// Seconds.
        step: f64,
    },
    /// The clock of a gateway is set while it runs, by so many seconds.
    Step {
        /// Which.
        site: usize,
        /// Seconds.
        step: f64,
    },
    /// A gateway is seen at another address from now on.
    Move {
        /// Which.
        site: usize,
    },
}

impl Fault {
    /// Who is seen at another address.
    const fn mover(&self) -> Option<usize> {
        if let Self::Move { site } = self { Some(*site) } else { None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { site, lasts } => write!(f, "line {site} is cut for {lasts}"),
            Self::Rate { site, rate } => write!(f, "line {site} has {rate}"),
            Self::Way { site, delay } => write!(f, "line {site} takes {delay}"),
            Self::Restart { site, step } => write!(f, "gateway {site} starts anew, its clock {step:+} s"),
            Self::Step { site, step } => write!(f, "the clock of gateway {site} is set by {step:+} s"),
            Self::Move { site } => write!(f, "gateway {site} moves"),
        }
    }
}

/// What somebody at a site does besides what is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vice {
    /// Reports that more arrives than does.
    LiesHigh,
    /// Reports that less arrives.
    LiesLow,
    /// Never answers a probe.
    Silent,
    /// Says as much as it can: messages of all kinds, packets for nobody, handshakes.
    Exhausts,
}

/// What hosts at site 0 send to those at another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Datagrams, at so many times the line's rate.
    Datagrams(f64),
    /// So many transfers without end.
    Transfers(u32),
}

/// Somebody else's TCP, through the same queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stranger {
    /// On whose line.
    pub site: usize,
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it was drawn from, and the runs draw from.
    pub seed: u64,
    /// By site; site 0 is the one that sends.
    pub lines: Vec<Line>,
    /// The part of datagrams that are spoilt on the way.
    pub spoils: f64,
    /// What finds the rates; none: a plain tunnel of the same sizes.
    pub control: Option<EdgeConfig>,
    /// By site, from the second on.
    pub loads: Vec<Load>,
    /// Packets that a gateway holds.
    pub buffers: u32,
    /// By site: how its clock is ahead, and its drift, parts in a million.
    pub clocks: Vec<(Span, f64)>,
    /// A site that is bad.
    pub vice: Option<(usize, Vice)>,
    /// Others on the lines.
    pub strangers: Vec<Stranger>,
    /// What happens when, in order.
    pub faults: Vec<(Time, Fault)>,
    /// How long it lasts.
    pub duration: Span,
}

impl Case {
    /// One pair of gateways on lines of `rate` and `delay`, with `buffer` packets of queue, and nothing that goes wrong.
    pub fn calm(rate: BitRate, delay: Span, buffer: u32, load: Load) -> Self {
        let line = Line {
            rate,
            trace: None,
            delay,
            buffer,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            late: Span::ZERO,
            jitter: Span::ZERO,
        };
        // Only the second line is narrow.
        let wide = Line {
            rate: BitRate::from_mbps(1000),
            delay: Span::from_millis(1),
            buffer: 20_000,
            ..line.clone()
        };
        Self {
            seed: 1,
            lines: vec![wide, line],
            spoils: 0.0,
            control: Some(control("droptail", PathDelays::OneWay)),
            loads: vec![load],
            buffers: 4096,
            clocks: vec![(Span::ZERO, 0.0); 2],
            vice: None,
            strangers: Vec::new(),
            faults: Vec::new(),
            duration: FAULTS_END.since(Time::ZERO) + RECOVERY + WATCH,
        }
    }

    /// The case of `seed`.
    pub fn draw(seed: u64) -> Self {
        let mut dice = Dice(Substream::new(Seed::for_component(seed, "case")));
        let sites = if dice.one_in(3) { 3 } else { 2 };
        let mut lines = vec![Line { rate: BitRate::from_mbps(1000), ..dice.line() }];
        lines[0].buffer = 20_000;
        lines.extend((1..sites).map(|_| dice.line()));
        // One way of being imperfect after the other, so that some cases have none and few have all.
        let mut spoils = 0.0;
        for line in &mut lines[1..] {
            if dice.one_in(3) {
                line.loss = if dice.one_in(8) { 0.3 * dice.part() } else { 0.01 * dice.part() };
            }
            if dice.one_in(4) {
                line.jitter = Span::from_secs_f64(0.005 * dice.part());
            }
            if dice.one_in(5) {
                (line.reorder, line.late) = (0.02 * dice.part(), Span::from_secs_f64(0.005 * dice.part()));
            }
            if dice.one_in(5) {
                line.duplicate = 0.02 * dice.part();
            }
            if dice.one_in(10) {
                line.trace = Some(recorded());
            }
        }
        if dice.one_in(5) {
            spoils = 0.01 * dice.part();
        }
        let queue = ["droptail", "fq-codel", "sfb"][dice.below(3)];
        let delays = if dice.one_in(3) { PathDelays::RoundTrip } else { PathDelays::OneWay };
        let loads = (1..sites).map(|_| {
            if dice.one_in(2) {
                Load::Transfers(1 + dice.below(3) as u32)
            } else {
                Load::Datagrams(1.5 + dice.part())
            }
        });
        let loads = loads.collect();
        let vices = [Vice::LiesHigh, Vice::LiesLow, Vice::Silent, Vice::Exhausts];
        let vice = (sites == 3 && dice.one_in(2)).then(|| (2, vices[dice.below(4)]));
        let clocks =
            (0..sites).map(|_| (dice.span(3600.0, 10_800.0), 1000.0 * dice.part() - 500.0)).collect();
        let mut faults: Vec<(Time, Fault)> = (0..dice.below(5)).map(|_| dice.fault(&lines)).collect();
        faults.sort_by_key(|(at, _)| *at);
        // Ends that both move before either is heard from have lost each other, gateways or not.
        let mover = faults.iter().find_map(|(_, fault)| fault.mover());
        faults.retain(|(_, fault)| fault.mover().is_none_or(|site| Some(site) == mover));
        let strangers = if dice.one_in(5) {
            let from = Time::ZERO + dice.span(2.0, 8.0);
            vec![Stranger { site: 1, from, to: from + dice.span(2.0, 10.0) }]
        } else {
            Vec::new()
        };
        Self {
            seed,
            lines,
            spoils,
            control: Some(control(queue, delays)),
            loads,
            buffers: if dice.one_in(5) { 64 + dice.below(64) as u32 } else { 4096 },
            clocks,
            vice,
            strangers,
            faults,
            duration: FAULTS_END.since(Time::ZERO) + RECOVERY + WATCH,
        }
    }

    /// The rate of the line of `site` when all is over.
    pub fn final_rate(&self, site: usize) -> BitRate {
        let last = self.faults.iter().rev().find_map(|(_, fault)| match fault {
            Fault::Rate { site: which, rate } if *which == site => Some(*rate),
            _ => None,
        });
        last.unwrap_or(self.lines[site].rate)
    }

    /// The same with a plain tunnel.
    pub fn plain(&self) -> Self {
        Self { control: None, vice: None, ..self.clone() }
    }

    /// What happens, for people.
    pub fn describe(&self) -> String {
        let line = |(site, line): (usize, &Line)| {
            let (loss, twice, late) = (line.loss, line.duplicate, line.reorder);
            let rate = if line.trace.is_some() { "recorded".into() } else { line.rate.to_string() };
            format!(
                "line {site}: {rate}, {}, {} packets, loss {loss:.4}, twice {twice:.4}, late {late:.4} by {}, jitter {}",
                line.delay, line.buffer, line.late, line.jitter
            )
        };
        let lines = self.lines.iter().enumerate().map(line);
        let load = format!(
            "loads {:?}, spoilt {:.4}, buffers {}, vice {:?}",
            self.loads, self.spoils, self.buffers, self.vice
        );
        let strangers = self.strangers.iter().map(|stranger| {
            format!("{}: TCP of others on line {} until {}", stranger.from, stranger.site, stranger.to)
        });
        let faults = self.faults.iter().map(|(at, fault)| format!("{at}: {fault}"));
        let all: Vec<String> = lines.chain([load]).chain(strangers).chain(faults).collect();
        all.join("\n") + "\n"
    }
}

/// The line of a telephone: when it could send, as somebody recorded it.
fn recorded() -> LinkTrace {
    let stamps = include_str!("../../../examples/lte.trace").lines();
    LinkTrace::new(stamps.map(|stamp| stamp.trim().parse().expect("they are milliseconds")).collect())
}

/// Path control with `queue` in front of its shapers.
pub fn control(queue: &str, delays: PathDelays) -> EdgeConfig {
    let limit = Limit::Packets(1000);
    let queue = match queue {
        // As in a gateway whose file says nothing.
        "fq-codel" => DisciplineConfig::FqCodel(FqCodelConfig {
            flows: FlowQueueingConfig { ways: 8, ..FlowQueueingConfig::default() },
            ..FqCodelConfig::default()
        }),
        // What leaves changes tenfold and more: a fixed rate for flows that do not respond would be all of it, or nothing.
        "sfb" => DisciplineConfig::Fifo(ManagerConfig::Sfb(SfbConfig {
            limiting: SfbLimiting::FairShare,
            ..SfbConfig::default()
        })),
        _ => DisciplineConfig::Fifo(ManagerConfig::DropTail(DropTailConfig { limit })),
    };
    let shaper = ShaperConfig { queue, ..ShaperConfig::default() };
    EdgeConfig::Path(Box::new(PathConfig { delays, shaper, ..PathConfig::default() }))
}

/// Draws.
struct Dice(Substream);

impl Dice {
    fn part(&mut self) -> f64 {
        self.0.uniform()
    }
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u32) as usize
    }
    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
    fn span(&mut self, least: f64, most: f64) -> Span {
        Span::from_secs_f64(least + (most - least) * self.part())
    }

    fn line(&mut self) -> Line {
        // From 1 to 20 Mbit/s and 1 to 40 ms, evenly in their logarithms.
        let rate = libm_exp2(4.32 * self.part());
        let delay = libm_exp2(5.32 * self.part()) * 1e-3;
        let product = rate * 1e6 * 2.0 * (delay + 0.002) / 8.0 / 1300.0;
        let buffer = (product * [1.0, 2.0, 4.0][self.below(3)]).max(20.0) as u32;
        Line {
            rate: BitRate::from_bps_f64(rate * 1e6),
            trace: None,
            delay: Span::from_secs_f64(delay),
            buffer,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            late: Span::ZERO,
            jitter: Span::ZERO,
        }
    }

    fn fault(&mut self, lines: &[Line]) -> (Time, Fault) {
        let last = FAULTS_END.as_secs_f64() - 6.0;
        let at = Time::ZERO + self.span(3.0, last);
        let site = 1 + self.below(lines.len() - 1);
        let any = self.below(lines.len());
        let fault = match self.below(6) {
            0 => Fault::Cut { site, lasts: self.span(0.1, 5.0) },
            1 => {
                let factor = libm_exp2(4.0 * self.part() - 2.0);
                Fault::Rate {
                    site,
                    rate: BitRate::from_bps_f64((lines[site].rate.as_bps_f64() * factor).max(1e6)),
                }
            }
            2 => {
                let factor = libm_exp2(3.0 * self.part() - 2.0);
                Fault::Way { site, delay: Span::from_secs_f64(lines[site].delay.as_secs_f64() * factor) }
            }
            3 => {
                let step = if self.one_in(2) { 0.0 } else { (3600.0 * self.part()).floor() - 1800.0 };
                Fault::Restart { site: any, step }
            }
            4 => Fault::Step { site: any, step: 4.0 * self.part() - 2.0 },
            _ => Fault::Move { site: any },
        };
        (at, fault)
    }
}

/// Two to the power of `x`, the same on every platform.
fn libm_exp2(x: f64) -> f64 {
    // By squares of the root of two for each bit of 32, so that nothing of the platform has a part.
    let (mut result, mut root, mut rest) = (1.0, 2.0_f64, x);
    while rest >= 1.0 {
        result *= 2.0;
        rest -= 1.0;
    }
    while rest < 0.0 {
        result /= 2.0;
        rest += 1.0;
    }
    for _ in 0..32 {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            result *= root;
            rest -= 1.0;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_case_again_and_others_give_others() {
        let texts: Vec<String> = (1..60).map(|seed| Case::draw(seed).describe()).collect();
        assert_eq!(texts[4], Case::draw(5).describe());
        let mut different = texts.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), texts.len());
        // Each kind of fault comes.
        for word in ["cut", "has", "takes", "starts anew", "set by", "moves", "TCP of others", "Exhausts"] {
            assert!(texts.iter().any(|text| text.contains(word)), "{word}");
        }
    }

    #[test]
    fn powers_of_two_are_what_they_are() {
        for (x, expected) in
            [(0.0, 1.0), (1.0, 2.0), (0.5, std::f64::consts::SQRT_2), (-1.5, 0.353_553_390_6)]
        {
            assert!((libm_exp2(x) - expected).abs() < 1e-8, "{x}");
        }
    }
}

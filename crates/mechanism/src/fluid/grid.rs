//! The windows that connections of a fluid can have, and how they move over them: chains of points, along which windows grow, and from
//! each of which a reduction leads to the beginning of a chain or to a point of it.
//!
//! Reno's windows are one chain. What CUBIC does next depends on `W_max` as well, the window at the last reduction, so that it has a chain
//! for each of some `W_max`, and as many for those that have given way (fast convergence), which begin nearer to it.
//!
//! Source: RFC 5681, section 3.1 (Reno); RFC 9438, sections 4.1 to 4.7 (CUBIC: the curve, its start at `beta_cubic`, the window of Reno that it
//! does not fall behind, fast convergence).
//! Deviations:
//! - Windows stand on a grid: a quarter of a segment apart up to 8 segments, 3 % above. CUBIC's are 6 % apart above 4 segments; near the plateau as
//!   far as the window moves in a tenth of the time scale of its curve, and at least a tenth of a segment. `W_max` are 12 % apart; what is
//!   between two is divided among both. With points half as far and `W_max` 8 % apart, mean windows differed by less than 0.8 %.
//! - After a time-out a connection begins again at one segment with a threshold of two: where windows are small, as they are where
//!   time-outs count, that is the half of the window.
//! - CUBIC's window is on its curve, not on the way to where that will be a round trip later (section 4.2); by how much it grows in a round trip is
//!   bounded by the grid (section 4.2: by half).

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::{FluidConfig, FluidControl};

/// The distance of small windows on the grid, in segments.
const FINE: f64 = 0.25;
/// Up to which they stand so close.
const FINE_UNTIL: f64 = 8.0;
/// The distance of others, as a part of the window.
const COARSE: f64 = 0.03;
/// Below this a part of all connections is nobody, where a grid has many points.
const NOBODY: f64 = 1e-9;

/// `C`, in segments per cubic second, and `beta_cubic`: RFC 9438, sections 5.1 and 4.6.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Section 4.3: the increase with which Reno, reduced to `beta_cubic`, has Reno's mean.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Section 4.7: what `W_max` is of the window that gives way.
const GIVES_WAY: f64 = f64::midpoint(1.0, BETA);
/// The distance of points near the plateau, in `cbrt(W_max / C)`, and the least one, in segments: Reno's window must not pass one in a step.
const PLATEAU: f64 = 0.1;
const LEAST: f64 = 0.1;
/// The distance of others of CUBIC, as a part of the window.
const STEEP: f64 = 0.06;
/// The distance of `W_max`, as a part of it, and the first.
const LADDER: f64 = 0.12;
const LADDER_FROM: f64 = 2.0;

/// A window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// In segments.
    pub window: f64,
    /// Whole segments: what it sends in a round trip.
    pub segments: f64,
    /// The distance to the next point of the chain; zero at the last one.
    pub up: f64,
    /// What each segment adds to the window: an acknowledgment adds 1 / cwnd, and a segment alone has one.
    pub growth: f64,
    /// When the clock of CUBIC is here, in seconds from the beginning of the chain.
    pub clock_s: f64,
    /// Where a reduction leads: to the first point, and to the second with this part.
    pub reduced: (usize, usize, f64),
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// All chains, one behind the other. The first point is where a time-out leads.
    pub points: Vec<Point>,
    /// Where each begins and ends.
    pub chains: Vec<Range<usize>>,
    /// Whether windows grow with a clock, too.
    pub has_clock: bool,
    /// A part of all connections that is as good as none.
    pub nobody: f64,
}

impl Grid {
    /// That of `config`.
    pub(super) fn new(config: &FluidConfig) -> Self {
        match config.control {
            FluidControl::Reno => Self::reno(config),
            FluidControl::Cubic => Self::cubic(config),
        }
    }

    fn reno(config: &FluidConfig) -> Self {
        let window_max = f64::from(config.window);
        let windows: Vec<f64> = reno_windows(window_max).chain(core::iter::once(window_max)).collect();
        let least = f64::from(config.minimum_window);
        let points = windows
            .iter()
            .enumerate()
            .map(|(index, &window)| Point {
                window,
                segments: libm::floor(window),
                growth: if window < 2.0 { 1.0 } else { config.increase } / window,
                up: windows.get(index + 1).map_or(0.0, |next| next - window),
                clock_s: f64::INFINITY,
                reduced: between(&windows, (window / 2.0).max(least).min(window_max)),
            })
            .collect();
        let all = 0..windows.len();
        Self { points, chains: vec![all], has_clock: false, nobody: 0.0 }
    }

    fn cubic(config: &FluidConfig) -> Self {
        let (window_max, least) = (f64::from(config.window), f64::from(config.minimum_window));
        let mut ladder = vec![LADDER_FROM];
        while let Some(&last) = ladder.last()
            && last < window_max
        {
            ladder.push((last * (1.0 + LADDER)).min(window_max));
        }
        // Who begins again grows with what is sent up to its threshold, where the next chain begins, on its plateau (section 4.2). That is
        // what a reduction leaves of what was before.
        let slow = reno_windows(LADDER_FROM).map(|window| Point {
            window,
            segments: libm::floor(window),
            up: distance(window),
            growth: 1.0 / window,
            clock_s: f64::INFINITY,
            reduced: (0, 0, 0.0),
        });
        let again = Chain { plateau: LADDER_FROM, begins: LADDER_FROM, before: LADDER_FROM / BETA };
        let of = |plateau: f64, before: f64| Chain { plateau, begins: (before * BETA).max(least), before };
        let kept = ladder.iter().map(|&plateau| of(plateau, plateau));
        let given_way = ladder.iter().map(|&plateau| of(plateau, plateau / GIVES_WAY));
        let mut points: Vec<Point> = slow.collect();
        let begins_again = 0..points.len();
        let mut chains = vec![begins_again];
        let mut plateaus = vec![LADDER_FROM];
        for chain in core::iter::once(again).chain(kept).chain(given_way) {
            let start = points.len();
            points.extend(chain.points(window_max, config.increase));
            chains.push(start..points.len());
            plateaus.push(chain.plateau);
        }
        let first_of = |kind: usize, step: usize| chains[2 + kind * ladder.len() + step].start;
        for (range, &plateau) in chains.iter().zip(&plateaus) {
            for point in &mut points[range.clone()] {
                let gives_way = point.window < plateau;
                let (kind, remembered) =
                    if gives_way { (1, point.window * GIVES_WAY) } else { (0, point.window) };
                let (below, above, part) = between(&ladder, remembered.max(LADDER_FROM));
                point.reduced = (first_of(kind, below), first_of(kind, above), part);
            }
        }
        Self { points, chains, has_clock: true, nobody: NOBODY }
    }

    /// The chain of point `index`, and its place there.
    pub(super) fn place(&self, index: usize) -> (usize, usize) {
        let chain = self.chains.partition_point(|chain| chain.end <= index);
        (chain, index - self.chains[chain].start)
    }

    /// Where the first reduction leads from a window of so many segments.
    pub(super) fn first_reduction(&self, window: f64) -> usize {
        let (_, points) = self.widest();
        let above = points.partition_point(|point| point.window <= window);
        points[above.max(1) - 1].reduced.0
    }

    /// The point of the receive window, for who has never met congestion.
    pub(super) fn full(&self) -> usize {
        let (start, points) = self.widest();
        start + points.len() - 1
    }

    /// A chain that has all windows, from the least that counts here; of them none has given way.
    fn widest(&self) -> (usize, &[Point]) {
        let chain = &self.chains[usize::from(self.has_clock)];
        (chain.start, &self.points[chain.clone()])
    }
}

/// Windows that grow from `begins`, after a reduction from `before`, over the `plateau` at `W_max`.
#[derive(Clone, Copy, Debug)]
struct Chain {
    plateau: f64,
    begins: f64,
    before: f64,
}

impl Chain {
    /// Its points, which do not know yet where reductions lead.
    fn points(self, window_max: f64, increase: f64) -> Vec<Point> {
        let mut windows = vec![self.begins.min(window_max)];
        while let Some(&last) = windows.last()
            && last < window_max
        {
            let curve = libm::cbrt(last / self.plateau - 1.0) + PLATEAU;
            let on_curve = self.plateau * (1.0 + curve * curve * curve);
            let next = on_curve.min(last + distance(last).max(STEEP * last)).max(last + LEAST);
            windows.push(next.min(window_max));
        }
        // Equations 1 and 2; a window that is above `W_max` already begins at its plateau (section 4.2).
        let plateau = self.plateau.max(self.begins);
        let k = libm::cbrt((plateau - self.begins) / C);
        let point = |(index, &window): (usize, &f64)| {
            let alpha = if window < self.before { ALPHA } else { 1.0 };
            Point {
                window,
                segments: libm::floor(window),
                growth: alpha * if window < 2.0 { 1.0 } else { increase } / window,
                up: windows.get(index + 1).map_or(0.0, |next| next - window),
                clock_s: k + libm::cbrt((window - plateau) / C),
                reduced: (0, 0, 0.0),
            }
        };
        windows.iter().enumerate().map(point).collect()
    }
}

/// Windows from one segment on, below `end`.
fn reno_windows(end: f64) -> impl Iterator<Item = f64> {
    core::iter::successors(Some(1.0), |&last| Some(last + distance(last)))
        .take_while(move |&window| window < end)
}

/// The distance of windows at `window`.
fn distance(window: f64) -> f64 {
    if window < FINE_UNTIL { FINE } else { COARSE * window }
}

/// The two of `steps`, ascending, between which `value` is, and the part of the second.
fn between(steps: &[f64], value: f64) -> (usize, usize, f64) {
    let above = steps.partition_point(|&other| other <= value);
    let below = above - 1;
    match steps.get(above) {
        Some(&next) => (below, above, (value - steps[below]) / (next - steps[below])),
        None => (below, below, 0.0),
    }
}

//! The density of a population of connections over their windows.
//!
//! Source: Baccelli, `McDonald` & Reynier 2002, section 2 (the density; the rate of losses in proportion to the window); Padhye, Firoiu,
//! Towsley & Kurose, "Modeling TCP throughput", SIGCOMM 1998, section II (too few duplicates make a time-out, which doubles up to 64
//! times).
//! Deviations:
//! - Windows stand on a grid ([`grid`](super::grid)). A connection moves up to the next point with the rate that makes the mean window
//!   grow as it should, so that the density is that of a chain of jumps: its variance grows by the step of the grid times what the window grows, which widens a sawtooth of mean W by up to 1.5 % of W squared, and the mean by less than 1 %.
//! - Recovery lasts for one round trip on average, exponentially distributed, at the reduced window.
//! - All of slow start from the beginning is one window, the same for all that are in it.

use alloc::vec;
use alloc::vec::Vec;

use tidegate_units::Span;

use super::grid::{Grid, Point};
use super::{FluidConfig, Notice};

/// A time-out doubles so often.
const BACKOFFS: usize = 7;

/// See the module. Parts of the whole population, which add up to those that have started.
#[derive(Clone, Debug)]
pub struct Population {
    grid: Grid,
    /// By chain of the grid: how many points of it have somebody, from the first one on.
    occupied: Vec<usize>,
    /// By chain: how many may have somebody after this step, where it is more.
    reached: Vec<usize>,
    /// In congestion avoidance.
    avoiding: Vec<f64>,
    /// In recovery, or in the round trip after a mark, at the window that is left.
    recovering: Vec<f64>,
    /// Waiting for a time-out, by how often it has doubled.
    waiting: [f64; BACKOFFS],
    /// In slow start from the beginning.
    starting: f64,
    starting_window: f64,
    /// Not started, or stopped.
    absent: f64,
    /// What each step adds to the densities.
    delta_avoiding: Vec<f64>,
    delta_recovering: Vec<f64>,
    spared: Spared,
    count: f64,
    ecn: bool,
    limited_transmit: bool,
    increase: f64,
    initial_window: f64,
    window_max: f64,
    rto_min_s: f64,
    delayed_ack_s: f64,
}

/// `base^exponent` for whole exponents, by squaring: the same on every platform.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

/// The probability that fewer than three of `others` arrive, each with probability `1 - p`: so that no three duplicates tell of a loss.
fn too_few(others: u32, p: f64) -> f64 {
    let q = 1.0 - p;
    let n = f64::from(others);
    let exactly =
        |k: u32, ways: f64| if others < k { 0.0 } else { ways * power(q, k) * power(p, others - k) };
    (exactly(0, 1.0) + exactly(1, n) + exactly(2, n * (n - 1.0) / 2.0)).min(1.0)
}

/// With which probability nothing of a window is lost, and nothing is noticed, of windows of so many segments: many points have as many.
#[derive(Clone, Debug, Default)]
struct Spared {
    /// The probabilities of loss and mark for which `known` is.
    of: (f64, f64),
    known: Vec<Option<(f64, f64)>>,
}

impl Spared {
    /// Windows beyond this are reckoned each time.
    const KNOWN_MAX: usize = 1 << 12;

    fn of(&mut self, segments: f64, lost: f64, marked: f64) -> (f64, f64) {
        let n = segments.min(1e6) as u32;
        let reckon = || (power(1.0 - lost, n), power(1.0 - lost - marked, n));
        if n as usize >= Self::KNOWN_MAX {
            return reckon();
        }
        if self.of != (lost, marked) {
            self.of = (lost, marked);
            self.known.fill(None);
        }
        if self.known.len() <= n as usize {
            self.known.resize(n as usize + 1, None);
        }
        *self.known[n as usize].get_or_insert_with(reckon)
    }
}

impl Population {
    /// Nobody has started yet.
    pub fn new(config: &FluidConfig) -> Self {
        let grid = Grid::new(config);
        let zeros = vec![0.0; grid.points.len()];
        Self {
            occupied: vec![0; grid.chains.len()],
            reached: vec![0; grid.chains.len()],
            grid,
            avoiding: zeros.clone(),
            recovering: zeros.clone(),
            waiting: [0.0; BACKOFFS],
            starting: 0.0,
            starting_window: f64::from(config.initial_window),
            absent: 1.0,
            delta_avoiding: zeros.clone(),
            delta_recovering: zeros,
            spared: Spared::default(),
            count: f64::from(config.count),
            ecn: config.ecn,
            limited_transmit: config.limited_transmit,
            increase: config.increase,
            initial_window: f64::from(config.initial_window),
            window_max: f64::from(config.window),
            rto_min_s: config.rto_min.as_secs_f64(),
            delayed_ack_s: config.delayed_ack.as_secs_f64(),
        }
    }

    /// `part` of all connections start, as far as there are any left.
    pub fn start(&mut self, part: f64) {
        let part = part.min(self.absent);
        if part <= 0.0 {
            return;
        }
        let all = self.starting + part;
        self.starting_window = (self.starting_window * self.starting + self.initial_window * part) / all;
        self.starting = all;
        self.absent -= part;
    }

    /// All stop.
    pub fn stop(&mut self) {
        self.avoiding.fill(0.0);
        self.recovering.fill(0.0);
        self.occupied.fill(0);
        self.waiting.fill(0.0);
        self.starting = 0.0;
        self.absent = 1.0;
    }

    /// The time-out before it doubles.
    fn rto_s(&self, rtt_s: f64) -> f64 {
        rtt_s + self.rto_min_s
    }

    /// How long a window of `segments` takes to come round: one alone waits for its acknowledgment.
    fn round_s(&self, segments: f64, rtt_s: f64) -> f64 {
        if segments < 2.0 { rtt_s + self.delayed_ack_s } else { rtt_s }
    }

    /// What a window of `segments` sends in a second. Receivers acknowledge two at once; the last of an odd number waits for the first of
    /// the next round, or for the delayed acknowledgment.
    fn segments_per_second(&self, segments: f64, rtt_s: f64) -> f64 {
        if segments < 2.0 {
            return segments / (rtt_s + self.delayed_ack_s);
        }
        let pairs = 2.0 * libm::floor(segments / 2.0);
        pairs / rtt_s + (segments - pairs) / (rtt_s + self.delayed_ack_s.min(rtt_s))
    }

    /// The points that have somebody, and which part of all.
    fn parts(&self) -> impl Iterator<Item = (&Point, f64)> {
        let occupied = self.grid.chains.iter().zip(&self.occupied);
        occupied.flat_map(|(chain, &points)| chain.start..chain.start + points).map(|index| {
            let part = self.avoiding[index] + self.recovering[index];
            (&self.grid.points[index], part)
        })
    }

    /// What all of them send with a round trip of `rtt_s`, in packets per second.
    pub fn rate(&self, rtt_s: f64) -> f64 {
        let mut rate = self.starting * self.starting_window / rtt_s;
        for (point, part) in self.parts() {
            rate += part * self.segments_per_second(point.segments, rtt_s);
        }
        let rto_s = self.rto_s(rtt_s);
        let mut again = 0.0;
        let mut doubled = 1.0;
        for &waiting in &self.waiting {
            again += waiting / (rto_s * doubled);
            doubled *= 2.0;
        }
        self.count * (rate + again)
    }

    /// The mean window of those that have started and do not wait for a time-out, in segments; none if there are none.
    pub fn mean_window(&self) -> Option<f64> {
        let (mut sum, mut all) = (self.starting * self.starting_window, self.starting);
        for (point, part) in self.parts() {
            sum += point.window * part;
            all += part;
        }
        (all > 0.0).then(|| sum / all)
    }

    /// The part that waits for a time-out.
    pub fn timed_out(&self) -> f64 {
        self.waiting.iter().sum()
    }

    /// Of all connections, those that have started.
    pub fn started(&self) -> f64 {
        1.0 - self.absent
    }

    /// The probability that a loss in a window of `segments` makes a time-out.
    fn times_out(&self, segments: f64, lost: f64) -> f64 {
        // So many duplicates that there are always enough.
        if segments > 64.0 && lost < 0.1 {
            return lost;
        }
        let released = if self.limited_transmit && segments >= 2.0 { 2.0 } else { 0.0 };
        let others = (segments - 1.0 + released).min(1e6) as u32;
        // What is sent again may be lost as well.
        let few = too_few(others, lost);
        few + (1.0 - few) * lost
    }

    /// Moves on by `step`, while what was sent a round trip of `rtt_s` ago met `notice`.
    pub fn step(&mut self, notice: Notice, rtt_s: f64, step: Span) {
        let (lost, marked) = (notice.lost(self.ecn), notice.marked(self.ecn));
        let mut timed_out = 0.0;
        for chain in 0..self.grid.chains.len() {
            let start = self.grid.chains[chain].start;
            // How long windows that grow with what is sent take from the beginning of the chain to here.
            let mut sending_s = 0.0;
            for index in start..start + self.occupied[chain] {
                let point = self.grid.points[index];
                let in_rounds = (step.as_secs_f64() / self.round_s(point.segments, rtt_s)).min(1.0);
                let resumed = self.recovering[index] * in_rounds;
                self.delta_recovering[index] -= resumed;
                self.delta_avoiding[index] += resumed;
                let here = self.avoiding[index];
                let sends = self.segments_per_second(point.segments, rtt_s);
                let mut grown = if point.up <= 0.0 {
                    0.0
                } else if point.clock_s.is_infinite() {
                    here * (sends * step.as_secs_f64()) * point.growth / point.up
                } else {
                    // The window is that of the clock or, where it is larger, that of Reno.
                    let from_s = point.clock_s.min(sending_s);
                    sending_s += point.up / (sends * point.growth);
                    let until_s = self.grid.points[index + 1].clock_s.min(sending_s);
                    here * (step.as_secs_f64() / (until_s - from_s)).min(1.0)
                };
                if here <= self.grid.nobody {
                    continue;
                }
                let (mut with_loss, mut with_mark, mut late) = (0.0, 0.0, 0.0);
                if lost > 0.0 || marked > 0.0 {
                    let (none_lost, none_noticed) = self.spared.of(point.segments, lost, marked);
                    with_loss = here * in_rounds * (1.0 - none_lost);
                    with_mark = here * in_rounds * (none_lost - none_noticed);
                    late = with_loss * self.times_out(point.segments, lost);
                }
                // No more leave than there are: what a step is too long for is shared among where they go.
                let leaving = grown + with_loss + with_mark;
                if leaving > here {
                    for each in [&mut grown, &mut with_loss, &mut with_mark, &mut late] {
                        *each *= here / leaving;
                    }
                }
                if grown > 0.0 {
                    self.delta_avoiding[index] -= grown;
                    self.delta_avoiding[index + 1] += grown;
                    if index + 1 < self.grid.chains[chain].end {
                        self.reached[chain] = self.reached[chain].max(index + 2 - start);
                    } else {
                        self.touch(index + 1);
                    }
                }
                if lost <= 0.0 && marked <= 0.0 {
                    continue;
                }
                self.delta_avoiding[index] -= with_loss + with_mark;
                timed_out += late;
                let (below, above, part) = point.reduced;
                let reduced = with_loss - late + with_mark;
                self.recovers(below, reduced * (1.0 - part));
                if part > 0.0 {
                    self.recovers(above, reduced * part);
                }
            }
        }
        timed_out += self.step_starting(lost, marked, (step.as_secs_f64() / rtt_s).min(1.0));
        self.step_waiting(lost, rtt_s, step, timed_out);
        self.apply();
    }

    /// `part` of all connections begins to recover at point `index`.
    fn recovers(&mut self, index: usize, part: f64) {
        self.delta_recovering[index] += part;
        self.touch(index);
    }

    /// There may be somebody at point `index` after this step.
    fn touch(&mut self, index: usize) {
        let (chain, place) = self.grid.place(index);
        self.reached[chain] = self.reached[chain].max(place + 1);
    }

    /// What the step has added is there from now on.
    fn apply(&mut self) {
        for (chain, range) in self.grid.chains.iter().enumerate() {
            let reached = core::mem::take(&mut self.reached[chain]).max(self.occupied[chain]);
            let mut occupied = 0;
            for index in range.start..range.start + reached {
                for (value, delta) in [
                    (&mut self.avoiding[index], &mut self.delta_avoiding[index]),
                    (&mut self.recovering[index], &mut self.delta_recovering[index]),
                ] {
                    *value = (*value + core::mem::take(delta)).max(0.0);
                    if *value > self.grid.nobody {
                        occupied = index + 1 - range.start;
                    }
                }
            }
            self.occupied[chain] = occupied;
        }
    }

    /// Slow start from the beginning; which part of all has timed out of it.
    fn step_starting(&mut self, lost: f64, marked: f64, in_rounds: f64) -> f64 {
        if self.starting <= 0.0 {
            return 0.0;
        }
        let n = self.starting_window.min(1e6) as u32;
        let none_lost = power(1.0 - lost, n);
        let with_loss = self.starting * in_rounds * (1.0 - none_lost);
        let with_mark = self.starting * in_rounds * (none_lost - power(1.0 - lost - marked, n));
        let late = with_loss * self.times_out(self.starting_window, lost);
        let reduced = self.grid.first_reduction(self.starting_window);
        self.recovers(reduced, with_loss - late + with_mark);
        self.starting -= with_loss + with_mark;
        // It doubles in a round trip, or grows by a half where every second segment is acknowledged.
        self.starting_window *= 1.0 + libm::log(1.0 + self.increase) * in_rounds;
        if self.starting_window >= self.window_max {
            let full = self.grid.full();
            self.delta_avoiding[full] += self.starting;
            self.touch(full);
            self.starting = 0.0;
        }
        late
    }

    /// Those that wait send one segment each when their time is over; `timed_out` join them.
    fn step_waiting(&mut self, lost: f64, rtt_s: f64, step: Span, timed_out: f64) {
        let rto_s = self.rto_s(rtt_s);
        let mut joining = timed_out;
        let mut doubled = 1.0;
        for index in 0..BACKOFFS {
            let over = self.waiting[index] * (step.as_secs_f64() / (rto_s * doubled)).min(1.0);
            self.waiting[index] += joining - over;
            joining = over * lost;
            // It is back when what it sent is acknowledged; that round trip it spends as one in recovery does.
            self.recovers(0, over - joining);
            doubled *= 2.0;
        }
        self.waiting[BACKOFFS - 1] += joining;
    }
}

#[cfg(test)]
mod tests {
    use super::super::FluidControl;
    use super::*;
    use crate::random::{Seed, Substream};

    fn settled(config: &FluidConfig, notice: Notice, rtt_s: f64, seconds: f64) -> Population {
        let mut population = Population::new(config);
        population.start(1.0);
        let step = Span::from_secs_f64(rtt_s / 20.0);
        for _ in 0..(seconds / step.as_secs_f64()) as u64 {
            population.step(notice, rtt_s, step);
        }
        population
    }

    fn all(population: &Population) -> f64 {
        population.avoiding.iter().chain(&population.recovering).sum::<f64>()
            + population.timed_out()
            + population.starting
            + population.absent
    }

    #[test]
    fn nobody_comes_or_goes_where_steps_are_long() {
        for control in [FluidControl::Reno, FluidControl::Cubic] {
            let config = FluidConfig { control, window: 1000, ..FluidConfig::default() };
            let mut population = Population::new(&config);
            population.start(1.0);
            // From a twentieth of a round trip to three; a loss in one of fifty, now and then in every second.
            for round in 0..4000_u32 {
                let step = Span::from_millis(5 + u64::from(round % 60) * 5);
                let drop = if round % 7 == 0 { 0.5 } else { 0.02 };
                population.step(Notice { drop, mark: 0.0 }, 0.1, step);
                assert!((all(&population) - 1.0).abs() < 1e-6, "{control:?} {round}: {}", all(&population));
            }
        }
    }

    #[test]
    fn the_mean_window_follows_the_square_root_law_of_losses_that_come_at_random() {
        // Additive increase by 1 and halving at a rate of w p per round trip: the stationary mean is sqrt(2 / p) Gamma-like, 1.3098 /
        // sqrt(p) (Ott, Kemperman & Mathis 1996). One round trip of recovery for every W / 1.31 takes its part of it.
        for p in [1e-3, 1e-4] {
            let config = FluidConfig { window: 100_000, ecn: true, ..FluidConfig::default() };
            let notice = Notice { drop: 0.0, mark: p };
            let seconds = 0.1 * 40.0 / libm::sqrt(p);
            let mean = settled(&config, notice, 0.1, seconds).mean_window().expect("they have started");
            let law = 1.3098 / libm::sqrt(p);
            let error = mean / law - 1.0;
            assert!(error.abs() < 0.02 + 0.6 * libm::sqrt(p), "p = {p}: {mean} against {law}: {error}");
        }
    }

    /// The mean window of one CUBIC connection whose segments are marked at random, by RFC 9438 in real numbers, in small steps of time:
    /// no grid and no density. It recovers for one round trip.
    fn mean_of_one_cubic(p: f64, rtt_s: f64, reductions: u32) -> f64 {
        const STEPS: f64 = 20.0;
        let mut random = Substream::new(Seed(7));
        let (mut w, mut w_max, mut prior) = (10.0_f64, 0.0_f64, f64::INFINITY);
        let (mut t, mut k, mut w_est) = (0.0, 0.0, w);
        let (mut sum, mut steps, mut seen, mut recovering) = (0.0, 0.0, 0, 0.0);
        while seen < reductions {
            sum += w;
            steps += 1.0;
            if recovering > 0.0 {
                recovering -= 1.0;
                continue;
            }
            t += rtt_s / STEPS;
            w_est += if w_est < prior { 9.0 / 17.0 } else { 1.0 } / STEPS;
            w = w_est.max(0.4 * (t - k) * (t - k) * (t - k) + w_max);
            if random.chance((1.0 - libm::pow(1.0 - p, libm::floor(w))) / STEPS) {
                seen += 1;
                prior = w;
                w_max = if w < w_max { 0.85 * w } else { w };
                w = (0.7 * w).max(2.0);
                w_max = w_max.max(w);
                (t, w_est, recovering) = (0.0, w, STEPS);
                k = libm::cbrt((w_max - w) / 0.4);
            }
        }
        sum / steps
    }

    #[test]
    fn the_mean_window_of_cubic_is_that_of_one_connection_followed_for_long() {
        // Where the clock counts, where Reno's window does, and in between. The mean over 5,000 reductions is good to about 1 %.
        let cases = [(1e-4, 0.1, 60.0), (1e-3, 0.01, 6.0), (2e-3, 0.1, 40.0)];
        let means = cases.map(|(p, rtt_s, seconds)| {
            let config = FluidConfig {
                window: 100_000,
                ecn: true,
                delayed_ack: Span::ZERO,
                control: FluidControl::Cubic,
                ..FluidConfig::default()
            };
            let population = settled(&config, Notice { drop: 0.0, mark: p }, rtt_s, seconds);
            (population.mean_window().expect("they have started"), mean_of_one_cubic(p, rtt_s, 5000))
        });
        assert!(means.iter().all(|(mean, one)| (mean / one - 1.0).abs() < 0.03), "{means:?}");
    }

    #[test]
    fn nobody_is_lost_and_nobody_is_made() {
        for control in [FluidControl::Reno, FluidControl::Cubic] {
            let config = FluidConfig { window: 64, control, ..FluidConfig::default() };
            for lost in [0.0, 0.01, 0.3, 1.0] {
                let population = settled(&config, Notice { drop: lost, mark: 0.0 }, 0.05, 30.0);
                assert!((all(&population) - 1.0).abs() < 1e-9, "{control:?}, {lost}: {}", all(&population));
            }
        }
    }

    #[test]
    fn without_losses_all_reach_the_receive_window() {
        for control in [FluidControl::Reno, FluidControl::Cubic] {
            let config = FluidConfig { window: 40, count: 7, control, ..FluidConfig::default() };
            let population = settled(&config, Notice::default(), 0.1, 60.0);
            assert!((population.rate(0.1) - 7.0 * 400.0).abs() < 1.0, "{}", population.rate(0.1));
        }
    }

    #[test]
    fn where_everything_is_lost_time_outs_double_up_to_64_times() {
        let config = FluidConfig { count: 1, ..FluidConfig::default() };
        let population = settled(&config, Notice { drop: 1.0, mark: 0.0 }, 0.1, 500.0);
        let once_in = 1.0 / population.rate(0.1);
        assert!((once_in - 64.0 * 0.3).abs() < 0.5, "{once_in}");
    }

    #[test]
    fn three_of_those_behind_a_loss_tell_of_it() {
        assert!((too_few(2, 0.1) - 1.0).abs() < 1e-12);
        assert!((too_few(3, 0.1) - (1.0 - 0.729)).abs() < 1e-12);
        assert!(too_few(30, 0.1) < 1e-20);
    }

    #[test]
    fn a_reduction_keeps_the_mean_of_what_is_left() {
        for (control, part) in [(FluidControl::Reno, 0.5), (FluidControl::Cubic, 0.7)] {
            let config = FluidConfig { minimum_window: 1, control, ..FluidConfig::default() };
            let grid = Grid::new(&config);
            // CUBIC remembers no window below two.
            for point in grid.points.iter().filter(|point| point.window >= 3.0) {
                let (below, above, share) = point.reduced;
                let mean = grid.points[below].window * (1.0 - share) + grid.points[above].window * share;
                assert!((mean / (part * point.window) - 1.0).abs() < 1e-9, "{}: {mean}", point.window);
            }
        }
    }
}

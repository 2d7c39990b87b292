//! Which law a virtual link follows, and what its rate is: slow start, a short queue, or a part beside others.
//!
//! Source: two modes, and what tells them apart: Copa, section 2.2; Bundler, section 5. Silence: ours.
//! Deviations:
//! - [`super::rivals`] says how others are found. That they are gone shows when the path gives all that it ever gave; and where that cannot
//!   be, in a test: now and then the rate is lowered for as long as the own queue would need to empty.
//! - The queue is emptied in each period of `drain_every` in which it was not empty by itself; and what was taken for a longer way, as if it
//!   were one: see [`super::proof`].
//!
//! ```text
//! Start --a queue, or losses--> Delay --others fill the queue--> Compete --every test_every--> Test
//!   ^                             ^<--------- all of the path -----------'                      |
//!   '-- silence, from any --      '<--------------------------- the queue is empty -------------'
//! ```
//!
//! `Delay` begins anew, too, where it stands at the least rate and nothing waits: others kept it there.

mod compete;

use tidegate_units::{Span, Time};

use self::compete::Trial;
use super::law::Law;
use super::proof::Proof;
use super::rivals::{DRAINING, Flat, Share, Standing, Verdict};
use super::view::{Aging, PathView, Seen};
use super::virtual_flows::VirtualFlows;

/// What the rate follows.
#[derive(Clone, Debug)]
enum Mode {
    /// It doubles per round trip until there is a queue.
    Start,
    /// A short queue.
    Delay,
    /// Others fill the queue: so many flows do as well.
    Compete(VirtualFlows),
    /// The same, and whether the queue empties is tried.
    Test(VirtualFlows, Trial),
}

/// What of the configuration the control needs. Rates are bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Of the delay.
    pub law: Law,
    /// The least rate.
    pub rate_min: f64,
    /// The greatest; infinite for none.
    pub rate_max: f64,
    /// Beyond this part of packets lost, the rate does not grow.
    pub loss_max: f64,
    /// Growth per round trip beside the law, bytes.
    pub sigma: f64,
    /// Whether it competes at all.
    pub competes: bool,
    /// How often the queue is emptied.
    pub drain_every: Span,
    /// How many round trips others may keep it from being empty.
    pub patience: f64,
    /// How often it is tried whether they are gone.
    pub test_every: Span,
}

/// One report, and what else a step of the control looks at. Seconds, and bytes per second.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    seen: &'a Seen,
    output: f64,
    /// Whether the rate was used, and by how many flows.
    is_used: bool,
    busy: u32,
    /// The round trip, and how much of one passed since the last step.
    t: f64,
    rounds: f64,
    elapsed: f64,
    /// Above this the queue is too long, and below this it is empty.
    target: f64,
    emptied: f64,
    terms: &'a Terms,
    now: Time,
}

/// A drain takes this part of the rate.
const DRAIN: f64 = 0.75;
/// No test, and no drain, takes longer, seconds.
const TEST_MOST: f64 = 3.0;
/// Where the delay has stood still for so many round trips above the target, and no further, while the rate fell, it is the way's.
const STILL_ABOVE: f64 = 8.0;
/// In slow start so many late probes in a row are a queue, and two are if less leaves than enters.
const LATE_MOST: u32 = 4;
/// The weight of a round trip's losses.
const LOSS_WEIGHT: f64 = 0.25;
/// And that of a packet, at most: one over this. Of the few that a slow path carries in a round trip one is many.
const LOSS_PACKETS: f64 = 200.0;
/// But what was lost so many seconds ago, beside others, is no longer what the path loses.
const LOSS_MEMORY: f64 = 5.0;
/// Nor if so many times the packets of which `loss_max` is one came in a row (the rule of three: more would be lost, 95 of 100 times).
const CLEAN: f64 = 3.0;
/// So many reports after silence that count say nothing of losses: they miss what was lost in it, and then know that it is.
const FORGIVEN: u32 = 3;
/// Up to so many times the least rate it is that: a drain gives back a third more than it took of that.
const AT_FLOOR: f64 = 1.4;

/// See the module.
#[derive(Clone, Debug)]
pub struct Control {
    mode: Mode,
    /// Bytes per second.
    rate: f64,
    share: Share,
    last: Time,
    /// When this period ends, and the least excess in it.
    period_ends: Time,
    period_least: f64,
    /// Until when a drain lasts, and when output rates are again those of none.
    draining_until: Option<Time>,
    settled: Time,
    /// Since the queue was last seen empty, if that is not now.
    standing: Option<Standing>,
    /// Whether it is above the target.
    is_long: bool,
    /// How the delay stands still a little above the target, if it does.
    still: Option<Flat>,
    /// What of the least delay may be a queue.
    proof: Option<Proof>,
    next_test: Time,
    test_wait: Span,
    /// What it had when it began to compete, and what the path usually gave before, bytes per second; until more was sent.
    push: Option<(f64, f64)>,
    /// The least excess since it competes, seconds.
    least: f64,
    /// When others last had a part, and when they were last thought to be gone.
    somebody: Time,
    left: Option<Time>,
    /// Probes in a row that were late in slow start.
    late: u32,
    /// So many of the next reports are the first ones after silence.
    forgives: u32,
    /// The part of packets that get lost, smoothed.
    loss: f64,
    /// Packets since one was lost.
    kept: u64,
}

impl Control {
    /// Nothing is known but the `rate` to begin with, bytes per second.
    pub fn new(rate: f64, terms: &Terms, now: Time) -> Self {
        Self {
            mode: Mode::Start,
            rate: rate.clamp(terms.rate_min, terms.rate_max),
            share: Share::new(now),
            last: now,
            period_ends: now,
            period_least: f64::INFINITY,
            draining_until: None,
            settled: now,
            standing: None,
            is_long: false,
            still: None,
            proof: None,
            next_test: now,
            test_wait: Span::ZERO,
            push: None,
            least: f64::INFINITY,
            somebody: now,
            left: None,
            late: 0,
            forgives: 0,
            loss: 0.0,
            kept: 0,
        }
    }

    /// The rate, bytes per second.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether it competes with others, or tries whether it still must.
    pub const fn is_competing(&self) -> bool {
        matches!(self.mode, Mode::Compete(_) | Mode::Test(..))
    }

    /// Whether the queue is empty now and then, for all that is known: the least delay may age.
    pub const fn aging(&self) -> Aging {
        if self.is_competing() || (self.standing.is_some() && self.is_long) {
            Aging::Anew
        } else if self.share.is_falling() {
            Aging::Later
        } else {
            Aging::Now
        }
    }

    /// Nothing was heard for long: half of the rate, until something is.
    pub fn on_silence(&mut self, terms: &Terms, now: Time) {
        self.rate = (self.rate / 2.0).max(terms.rate_min);
        self.mode = Mode::Start;
        (self.standing, self.still, self.proof) = (None, None, None);
        self.draining_until = None;
        self.last = now;
        // What got lost meanwhile is not what the path loses.
        (self.loss, self.forgives) = (0.0, FORGIVEN);
    }

    /// A report shows `seen`; whether the rate `is_used`, and by how many `busy` flows.
    pub fn on_seen(
        &mut self,
        seen: &Seen,
        (is_used, busy): (bool, u32),
        view: &mut PathView,
        terms: &Terms,
        now: Time,
    ) {
        let t = view.rtt().unwrap_or(seen.rtt);
        let elapsed = now.since(self.last).as_secs_f64();
        self.last = now;
        let rounds = (elapsed / t).min(1.0);
        if seen.sent > 0 && self.forgives > 0 {
            self.forgives -= 1;
        } else if seen.sent > 0 {
            let part = (seen.lost as f64 / seen.sent as f64).min(1.0);
            let weight = (seen.sent as f64 / LOSS_PACKETS).max(elapsed / LOSS_MEMORY);
            let weight = weight.min(LOSS_WEIGHT * rounds);
            self.loss += weight * (part - self.loss);
            self.kept = if seen.lost > 0 { 0 } else { self.kept + seen.sent };
            if self.kept as f64 * terms.loss_max >= CLEAN {
                self.loss = 0.0;
            }
        }
        let Some(output) = seen.output else { return };
        self.share.on_output(output, elapsed, self.is_competing());
        let (target, emptied) =
            (terms.law.target(seen.jitter, output), terms.law.emptied(seen.jitter, output));
        self.period_least = self.period_least.min(seen.excess);
        self.is_long = seen.excess > target;
        let step = Step { seen, output, is_used, busy, t, rounds, elapsed, target, emptied, terms, now };
        match core::mem::replace(&mut self.mode, Mode::Delay) {
            Mode::Start => self.on_start(&step),
            Mode::Delay => {
                self.on_delay(&step);
                self.judge(&step, view);
            }
            Mode::Compete(flows) => self.on_compete(flows, &step),
            Mode::Test(flows, trial) => self.on_test(flows, trial, &step, view),
        }
        self.rate = self.rate.clamp(terms.rate_min, terms.rate_max);
    }

    fn on_start(&mut self, step: &Step<'_>) {
        // One late probe is jitter, which is not known yet.
        self.late = if step.seen.excess > step.target { self.late + 1 } else { 0 };
        let is_behind = step.output < DRAINING * step.seen.input;
        let is_queue = self.late > LATE_MOST || (self.late > 1 && is_behind);
        if is_queue || self.loss > step.terms.loss_max {
            self.late = 0;
            // Few losses where the rate is not used end the search, and say nothing of what the path gives.
            if is_queue || step.is_used || is_behind {
                self.rate = self.rate.min(step.output);
                self.share.usual = step.output;
            }
            return;
        }
        self.mode = Mode::Start;
        if step.is_used {
            self.rate *= libm::exp2(step.rounds);
        }
    }

    fn on_delay(&mut self, step: &Step<'_>) {
        let Step { seen, output, t, rounds, elapsed, target, terms, now, .. } = *step;
        if let Some(until) = self.draining_until {
            if now < until {
                return;
            }
            self.draining_until = None;
            self.rate /= DRAIN;
            self.settled = now + Span::from_secs_f64(2.0 * seen.rtt);
        }
        if now < self.settled && seen.excess <= target {
            return; // output rates are still of the drain
        }
        if self.is_at_floor(step) {
            self.mode = Mode::Start;
            return;
        }
        // Where control may not take more, reports come less often than twice per round trip, and the loop is so much longer.
        let t = t.max(2.0 * elapsed);
        let next = terms.law.next(self.rate, output, seen.excess, target, t, rounds);
        if next < self.rate {
            // Where the rate is not used, what leaves is not what the path gives.
            self.rate = if step.is_used { next } else { self.rate + rounds * (next.max(output) - self.rate) };
        } else if step.is_used && self.loss <= terms.loss_max {
            self.rate = next + terms.sigma * rounds / t;
        }
    }

    /// Others kept it at the least rate, and are gone: as at the beginning nothing is known of what the path gives.
    fn is_at_floor(&self, step: &Step<'_>) -> bool {
        let Step { seen, is_used, emptied, terms, .. } = *step;
        is_used
            && self.rate <= AT_FLOOR * terms.rate_min
            && seen.excess <= emptied
            && self.loss <= terms.loss_max
    }

    /// Who fills the queue? And at the end of a period: was it empty in it?
    fn judge(&mut self, step: &Step<'_>, view: &mut PathView) {
        let Step { seen, output, t, target, emptied, terms, now, .. } = *step;
        if let Some(standing) = &mut self.standing {
            match standing.on_seen(seen, output, t, view.rtt_least(), terms.patience, now) {
                Verdict::Way => {
                    let rate = standing.rate;
                    self.accept(rate, view, now);
                }
                Verdict::Others if terms.competes => return self.compete(step),
                Verdict::Others | Verdict::Open => {}
            }
        }
        self.look_at_little(step, view);
        if seen.excess <= emptied {
            self.standing = None;
        } else if self.standing.is_none() && seen.excess > 2.0 * target {
            self.standing = Some(Standing::new(seen, self.rate, now));
        }
        if let Some(proof) = &mut self.proof
            && self.draining_until.is_none()
        {
            let least = view.rtt_least();
            if !proof.is_open(least) {
                self.proof = None;
            } else if let Some(queue) = proof.queue(least, now) {
                self.drain(queue, now);
            }
        }
        if now < self.period_ends {
            return;
        }
        if self.share.is_taken(output, seen.excess > target / 2.0, now) && terms.competes {
            return self.compete(step);
        }
        if self.period_least > emptied && seen.excess <= 2.0 * target {
            self.drain(seen.excess, now);
        }
        self.begin_period(step);
    }

    /// So little above the target the rate falls slowly, and nobody is looked for: a way that is a little longer would stay one.
    fn look_at_little(&mut self, step: &Step<'_>, view: &mut PathView) {
        let Step { seen, t, target, terms, now, .. } = *step;
        // Who does not compete keeps below the target, whoever else is there.
        if seen.excess <= target || seen.excess > 2.0 * target || !terms.competes {
            self.still = None;
            return;
        }
        let still = self.still.get_or_insert(Flat::new(seen, now));
        still.on_seen(seen, now);
        if still.rounds(t, now) >= STILL_ABOVE && still.is_the_way(seen, t, now) {
            let rate = still.input();
            self.accept(rate, view, now);
        }
    }

    /// The delay is that of the way: it goes on at the `rate` before, and is asked again what the delay is of.
    fn accept(&mut self, rate: f64, view: &mut PathView, now: Time) {
        self.proof = Some(view.accept_level(now));
        self.rate = self.share.usual.max(rate);
        (self.standing, self.still) = (None, None);
    }

    /// A queue of so many seconds is emptied.
    fn drain(&mut self, queue: f64, now: Time) {
        if self.draining_until.is_none() {
            self.rate *= DRAIN;
            self.draining_until = Some(now + Span::from_secs_f64((queue / (1.0 - DRAIN)).min(TEST_MOST)));
        }
    }

    /// Others are thought to be gone: a short queue again, at `rate`.
    fn leave(&mut self, rate: f64, step: &Step<'_>) {
        self.rate = rate;
        self.left = Some(step.now);
        self.share.restart(rate, step.now);
        self.begin_period(step);
    }

    fn begin_period(&mut self, step: &Step<'_>) {
        self.period_least = f64::INFINITY;
        self.period_ends = step.now + step.terms.drain_every;
    }
}

#[cfg(test)]
mod tests;

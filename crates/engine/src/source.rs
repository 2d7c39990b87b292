//! Traffic sources: when a flow has something to send.

use tidegate_mechanism::hop::nbq::AdvisedSource;
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_units::{GapClock, Span, Time, TransmissionClock};

use crate::network::{ApplicationSpec, OnOffDistribution, StartSpec};

/// What a source wants done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// The application opens with so many bytes to send; `None` is without end.
    Open(Option<u64>),
    /// It pauses (TCP: nothing new is sent).
    Pause,
    /// One datagram of this size.
    Datagram(u32),
    /// It is over.
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    On,
    Off,
    Done,
}

/// One flow's source. Woken at [`Source::next`].
#[derive(Debug)]
pub(crate) struct Source {
    application: ApplicationSpec,
    datagrams: bool,
    random: Substream,
    /// Spacing of datagrams at a constant rate.
    clock: Option<TransmissionClock>,
    /// Spacing of datagrams at random.
    gaps: GapClock,
    state: State,
    /// When it began.
    started: Option<Time>,
    /// When the next packet, or the start, is due.
    next: Time,
    /// When the present on or off time ends.
    phase_ends: Time,
    stop: Time,
    /// The rates of an adaptive source.
    advised: Option<Box<AdvisedSource>>,
}

impl Source {
    pub(crate) fn new(
        application: ApplicationSpec,
        datagrams: bool,
        start: StartSpec,
        stop: Option<Time>,
        seed: Seed,
    ) -> Self {
        let mut random = Substream::new(seed);
        let next = start.draw(&mut random);
        let clock = match application {
            ApplicationSpec::ConstantRate { rate, .. } => Some(TransmissionClock::new(rate)),
            ApplicationSpec::OnOff { rate, .. } if datagrams => Some(TransmissionClock::new(rate)),
            ApplicationSpec::Adaptive { ref rates, .. } => rates.last().copied().map(TransmissionClock::new),
            _ => None,
        };
        let advised = match &application {
            ApplicationSpec::Adaptive { rates, patience, settle, .. } => {
                Some(Box::new(AdvisedSource::new(rates.clone(), *patience, *settle)))
            }
            _ => None,
        };
        let stop = stop.unwrap_or(Time::MAX);
        let is_driven = matches!(application, ApplicationSpec::External | ApplicationSpec::Crowd);
        let state = if is_driven { State::Done } else { State::Waiting };
        Self {
            application,
            datagrams,
            random,
            clock,
            gaps: GapClock::default(),
            state,
            started: None,
            next,
            phase_ends: Time::MAX,
            stop,
            advised,
        }
    }

    /// Whether the source follows advice.
    pub(crate) const fn is_advised(&self) -> bool {
        self.advised.is_some()
    }

    /// A router discards the part `ratio` of this flow.
    pub(crate) fn on_advice(&mut self, ratio: f64, now: Time) {
        if let Some(rate) = self.advised.as_mut().and_then(|advised| advised.on_advice(ratio, now)) {
            self.clock = Some(TransmissionClock::new(rate));
        }
    }

    /// When the source wants to be woken.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        if self.state == State::Done {
            return None;
        }
        Some(self.next.min(self.phase_ends).min(self.stop)).filter(|&at| at != Time::MAX)
    }

    /// What is due at `now`; call it until it gives `None`.
    #[inline]
    pub(crate) fn poll(&mut self, now: Time) -> Option<Act> {
        if self.next().is_some_and(|due| due <= now) { self.poll_due(now) } else { None }
    }

    fn poll_due(&mut self, now: Time) -> Option<Act> {
        if self.stop <= now {
            self.state = State::Done;
            return Some(Act::Close);
        }
        if self.state == State::Waiting {
            return self.switch_on(now);
        }
        if self.phase_ends <= now {
            return if self.state == State::On { self.switch_off(now) } else { self.switch_on(now) };
        }
        if self.state == State::On && self.datagrams && self.next <= now {
            return Some(Act::Datagram(self.schedule_packet(now)));
        }
        None
    }

    /// The bytes that it sends in all, and when it began; `None` if it never ends by itself or has not begun.
    pub(crate) fn transfer(&self) -> Option<(u64, Time)> {
        match self.application {
            ApplicationSpec::Transfer { bytes } => self.started.map(|at| (bytes, at)),
            _ => None,
        }
    }

    fn switch_on(&mut self, now: Time) -> Option<Act> {
        self.state = State::On;
        self.started.get_or_insert(now);
        self.phase_ends = self.phase_length(true).map_or(Time::MAX, |length| now.saturating_add(length));
        if self.datagrams {
            if let Some(clock) = &mut self.clock {
                clock.restart();
            }
            self.next = now;
            if matches!(self.application, ApplicationSpec::Poisson { .. } | ApplicationSpec::Markov { .. }) {
                // The first packet is as random as the others.
                self.schedule_packet(now);
            }
            return self.poll(now);
        }
        self.next = Time::MAX;
        Some(Act::Open(match self.application {
            ApplicationSpec::Transfer { bytes } => Some(bytes),
            _ => None,
        }))
    }

    fn switch_off(&mut self, now: Time) -> Option<Act> {
        self.state = State::Off;
        self.next = Time::MAX;
        self.phase_ends = self.phase_length(false).map_or(Time::MAX, |length| now.saturating_add(length));
        if self.datagrams { self.poll(now) } else { Some(Act::Pause) }
    }

    fn phase_length(&mut self, on: bool) -> Option<Span> {
        let ApplicationSpec::OnOff { distribution, on: mean_on, off: mean_off, .. } = self.application else {
            return None;
        };
        let mean = if on { mean_on } else { mean_off }.as_secs_f64();
        let secs = match distribution {
            OnOffDistribution::Constant => mean,
            OnOffDistribution::Exponential => self.random.exponential(mean),
            OnOffDistribution::Pareto { shape } => self.random.pareto(mean, shape),
        };
        // At least a nanosecond, so that time moves on.
        Some(Span::from_secs_f64(secs).max(Span::from_nanos(1)))
    }

    /// Sets when the packet after the one at `now` is due; the size of the one at `now`.
    fn schedule_packet(&mut self, now: Time) -> u32 {
        if let Some(rate) = self.advised.as_mut().and_then(|advised| advised.on_send(now)) {
            self.clock = Some(TransmissionClock::new(rate));
        }
        let (bytes, gap) = match (&self.application, &mut self.clock) {
            (&ApplicationSpec::ConstantRate { packet_bytes, jitter, .. }, Some(clock)) => {
                let gap = clock.transmit(packet_bytes);
                (packet_bytes, jittered(gap, jitter, &mut self.random, &mut self.gaps))
            }
            (
                &(ApplicationSpec::OnOff { packet_bytes, .. }
                | ApplicationSpec::Adaptive { packet_bytes, .. }),
                Some(clock),
            ) => (packet_bytes, clock.transmit(packet_bytes)),
            (&ApplicationSpec::Poisson { rate, packet_bytes }, _) => {
                let mean = f64::from(packet_bytes) / rate.as_bytes_per_second_f64();
                (packet_bytes, self.gaps.gap(self.random.exponential(mean)))
            }
            (&ApplicationSpec::Markov { rate, mean_packet_bytes }, _) => {
                let mean_bytes = f64::from(mean_packet_bytes);
                let mean_gap = mean_bytes / rate.as_bytes_per_second_f64();
                let gap = self.gaps.gap(self.random.exponential(mean_gap));
                (whole_bytes(self.random.exponential(mean_bytes)), gap)
            }
            _ => unreachable!("only datagram applications schedule packets"),
        };
        self.next = now.saturating_add(gap);
        bytes
    }
}

/// `bytes`, rounded; at least one.
fn whole_bytes(bytes: f64) -> u32 {
    ((bytes + 0.5) as u32).max(1)
}

/// `gap`, longer or shorter by up to `jitter` of itself.
fn jittered(gap: Span, jitter: f64, random: &mut Substream, gaps: &mut GapClock) -> Span {
    if jitter <= 0.0 {
        return gap;
    }
    gaps.gap(gap.as_secs_f64() * (1.0 + jitter * (2.0 * random.uniform() - 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_units::BitRate;

    fn acts(mut source: Source, until: Time) -> Vec<(u64, Act)> {
        let mut acts = Vec::new();
        while let Some(at) = source.next().filter(|&at| at < until) {
            while let Some(act) = source.poll(at) {
                acts.push((at.as_nanos(), act));
            }
        }
        acts
    }

    #[test]
    fn a_constant_rate_is_exact_and_stops_when_told() {
        let application =
            ApplicationSpec::ConstantRate { rate: BitRate::from_mbps(3), packet_bytes: 1000, jitter: 0.0 };
        let stop = Some(Time::from_nanos(1_000_000_000));
        let source = Source::new(application, true, StartSpec::At(Time::ZERO), stop, Seed(1));
        let acts = acts(source, Time::MAX);
        assert_eq!(acts.len(), 375 + 1);
        assert_eq!(acts[3].0, 8_000_000);
        assert_eq!(acts.last().unwrap().1, Act::Close);
    }

    /// A hundred thousand packets of 64 bytes at `gbps` take as long as they should, whatever is left of each nanosecond.
    fn keeps_its_rate(application: ApplicationSpec, gbps: f64) {
        let mut source = Source::new(application, true, StartSpec::At(Time::ZERO), None, Seed(1));
        let (mut packets, mut last) = (0, Time::ZERO);
        while packets < 100_000 {
            last = source.next().unwrap();
            packets += i32::from(matches!(source.poll(last), Some(Act::Datagram(_))));
        }
        let secs = f64::from(packets) * 64.0 * 8.0 / (gbps * 1e9);
        assert!((last.as_secs_f64() / secs - 1.0).abs() < 0.02, "{last} in place of {secs} s");
    }

    #[test]
    fn random_gaps_of_nanoseconds_and_less_keep_their_rate() {
        for gbps in [360, 5_000] {
            let rate = BitRate::from_mbps(gbps * 1_000);
            keeps_its_rate(ApplicationSpec::Poisson { rate, packet_bytes: 64 }, gbps as f64);
            keeps_its_rate(ApplicationSpec::Markov { rate, mean_packet_bytes: 64 }, gbps as f64);
            keeps_its_rate(
                ApplicationSpec::ConstantRate { rate, packet_bytes: 64, jitter: 1.0 },
                gbps as f64,
            );
        }
    }

    #[test]
    fn an_on_off_source_sends_its_share_of_the_time() {
        let application = ApplicationSpec::OnOff {
            distribution: OnOffDistribution::Exponential,
            on: Span::from_millis(100),
            off: Span::from_millis(300),
            rate: BitRate::from_mbps(8),
            packet_bytes: 1000,
        };
        let source = Source::new(application, true, StartSpec::At(Time::ZERO), None, Seed(1));
        let sent = acts(source, Time::from_nanos(2_000_000_000_000)).len() as f64;
        // 1000 packets per second while on, a quarter of 2000 s; half a packet more per on time.
        assert!((sent / 502_500.0 - 1.0).abs() < 0.05, "{sent}");
    }

    #[test]
    fn a_greedy_on_off_source_opens_and_pauses() {
        let application = ApplicationSpec::OnOff {
            distribution: OnOffDistribution::Constant,
            on: Span::from_millis(1),
            off: Span::from_millis(2),
            rate: BitRate::ZERO,
            packet_bytes: 0,
        };
        let source = Source::new(application, false, StartSpec::At(Time::ZERO), None, Seed(1));
        let acts = acts(source, Time::from_nanos(5_000_000));
        assert_eq!(
            acts,
            [
                (0, Act::Open(None)),
                (1_000_000, Act::Pause),
                (3_000_000, Act::Open(None)),
                (4_000_000, Act::Pause)
            ]
        );
    }
}

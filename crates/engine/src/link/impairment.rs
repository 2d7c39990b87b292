//! What a medium does to packets: loss, reordering, duplication and jitter.

use tidegate_mechanism::random::{Seed, Substream};
use tidegate_units::{Span, Time};

/// Which packets a medium loses. Lost packets have used the link.
#[derive(Clone, Debug, PartialEq)]
pub enum LossModel {
    /// Each packet independently.
    Random {
        /// From 0 to 1.
        probability: f64,
    },
    /// Those with these ordinals, counted from 0 over all packets that cross the link; ascending.
    List(Vec<u64>),
    /// Gilbert and Elliott's two states.
    Burst {
        /// Probability per packet to go from good to bad.
        enter: f64,
        /// Probability per packet to go from bad to good.
        leave: f64,
        /// Loss probability in the good state.
        good: f64,
        /// Loss probability in the bad state.
        bad: f64,
    },
}

/// How a medium reorders: some packets take longer and are overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReorderModel {
    /// Share of packets that are held back, from 0 to 1.
    pub probability: f64,
    /// For how long.
    pub delay: Span,
}

/// How a medium varies the time that packets travel. None overtakes another one by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JitterModel {
    /// By a time drawn for each packet.
    Uniform {
        /// How much longer a packet travels at most.
        most: Span,
    },
    /// Packets arrive at these instants only.
    Slots {
        /// The time between two of them, above zero.
        every: Span,
        /// The first one, below `every`.
        phase: Span,
    },
}

/// The jitter of a medium.
#[derive(Debug)]
struct Jitter {
    model: JitterModel,
    /// Of jitter alone: nothing else on the medium depends on it.
    random: Substream,
    /// When the packet before arrives.
    latest: Time,
}

impl Jitter {
    /// For how long the packet that would arrive at `now` waits for its own instant; `None` if it does not. One that waits for
    /// no time at all goes after those that wait until now.
    fn shifts(&mut self, now: Time) -> Option<Span> {
        let own = match self.model {
            JitterModel::Uniform { most } => {
                now.saturating_add(Span::from_nanos((self.random.uniform() * most.as_nanos() as f64) as u64))
            }
            JitterModel::Slots { every, phase } => {
                let since = now.since(Time::ZERO + phase).as_nanos();
                Time::ZERO.saturating_add(phase).saturating_add(Span::from_nanos(
                    since.div_ceil(every.as_nanos()).saturating_mul(every.as_nanos()),
                ))
            }
        };
        let before = self.latest;
        self.latest = own.max(before);
        (self.latest > now || before == now).then(|| self.latest.since(now))
    }
}

/// The impairments of one direction of a link.
#[derive(Debug)]
pub struct Medium {
    loss: Option<LossModel>,
    reorder: Option<ReorderModel>,
    /// Share of packets that arrive twice, from 0 to 1.
    duplicate: f64,
    random: Substream,
    /// Of duplication alone: which packets are lost or held back does not depend on it.
    duplicates: Substream,
    jitter: Option<Jitter>,
    ordinal: u64,
    next_listed: usize,
    bad: bool,
}

impl Medium {
    /// A medium with these models; `None` if it has none.
    pub fn new(
        loss: Option<LossModel>,
        reorder: Option<ReorderModel>,
        duplicate: f64,
        jitter: Option<JitterModel>,
        [seed, duplicate_seed, jitter_seed]: [Seed; 3],
    ) -> Option<Self> {
        if loss.is_none() && reorder.is_none() && duplicate <= 0.0 && jitter.is_none() {
            return None;
        }
        Some(Self {
            loss,
            reorder,
            duplicate,
            random: Substream::new(seed),
            duplicates: Substream::new(duplicate_seed),
            jitter: jitter.map(|model| Jitter {
                model,
                random: Substream::new(jitter_seed),
                latest: Time::ZERO,
            }),
            ordinal: 0,
            next_listed: 0,
            bad: false,
        })
    }

    /// Whether the next packet is lost.
    pub(crate) fn loses(&mut self) -> bool {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        match &self.loss {
            None => false,
            Some(LossModel::Random { probability }) => self.random.chance(*probability),
            Some(LossModel::List(ordinals)) => {
                let listed = ordinals.get(self.next_listed) == Some(&ordinal);
                self.next_listed += usize::from(listed);
                listed
            }
            Some(LossModel::Burst { enter, leave, good, bad }) => {
                let (enter, leave, good, bad) = (*enter, *leave, *good, *bad);
                let change = self.random.chance(if self.bad { leave } else { enter });
                self.bad ^= change;
                self.random.chance(if self.bad { bad } else { good })
            }
        }
    }

    /// For how long the next packet is held back.
    pub(crate) fn holds_back(&mut self) -> Span {
        match self.reorder {
            Some(ReorderModel { probability, delay }) if self.random.chance(probability) => delay,
            _ => Span::ZERO,
        }
    }

    /// For how long the next packet that arrives, at `now` without jitter, waits with its copy for those before it and for its
    /// own instant; `None` if nothing keeps it.
    pub(crate) fn shifts(&mut self, now: Time) -> Option<Span> {
        self.jitter.as_mut()?.shifts(now)
    }

    /// Whether the next packet that arrives does so twice.
    pub(crate) fn duplicates(&mut self) -> bool {
        self.duplicate > 0.0 && self.duplicates.chance(self.duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_model_loses_its_stationary_share() {
        let model = LossModel::Burst { enter: 0.01, leave: 0.1, good: 0.0, bad: 0.5 };
        let mut medium = Medium::new(Some(model), None, 0.0, None, [Seed(3), Seed(4), Seed(5)]).unwrap();
        let lost = (0..400_000).filter(|_| medium.loses()).count() as f64 / 400_000.0;
        // Bad for enter / (enter + leave) of the time.
        assert!((lost - 0.5 * 0.01 / 0.11).abs() < 0.003, "{lost}");
    }

    #[test]
    fn a_list_names_exactly_its_packets() {
        let mut medium =
            Medium::new(Some(LossModel::List(vec![0, 3])), None, 0.0, None, [Seed(0); 3]).unwrap();
        let lost: Vec<bool> = (0..5).map(|_| medium.loses()).collect();
        assert_eq!(lost, [true, false, false, true, false]);
    }

    #[test]
    fn duplication_draws_from_a_stream_of_its_own() {
        let fates = |duplicate| {
            let loss = Some(LossModel::Random { probability: 0.2 });
            let mut medium = Medium::new(loss, None, duplicate, None, [Seed(1), Seed(2), Seed(3)]).unwrap();
            let mut twice = 0;
            let lost: Vec<bool> = (0..10_000)
                .map(|_| {
                    let lost = medium.loses();
                    twice += u32::from(!lost && medium.duplicates());
                    lost
                })
                .collect();
            (lost, twice)
        };
        let ((without, none), (with, twice)) = (fates(0.0), fates(0.3));
        assert_eq!(without, with);
        assert!(none == 0 && (2300..2500).contains(&twice), "{twice} of about 8000");
    }

    fn jittering(model: JitterModel) -> Medium {
        Medium::new(None, None, 0.0, Some(model), [Seed(1), Seed(2), Seed(3)]).unwrap()
    }

    #[test]
    fn uniform_jitter_is_uniform_where_packets_are_far_apart() {
        let most = Span::from_millis(10);
        let mut medium = jittering(JitterModel::Uniform { most });
        let shifts: Vec<Span> = (1..=20_000)
            .map(|packet| medium.shifts(Time::ZERO + Span::from_millis(20) * packet).unwrap_or_default())
            .collect();
        assert!(shifts.iter().all(|&shift| shift <= most));
        let below =
            |part: f64| shifts.iter().filter(|shift| shift.as_secs_f64() < part * 0.010).count() as f64;
        for part in [0.1, 0.5, 0.9] {
            // Five standard deviations are below 0.018.
            assert!((below(part) / 20_000.0 - part).abs() < 0.018, "{part}");
        }
    }

    #[test]
    fn packets_that_are_close_keep_their_order_under_jitter_and_none_takes_longer_than_the_most() {
        let most = Span::from_millis(10);
        let mut medium = jittering(JitterModel::Uniform { most });
        let mut before = Time::ZERO;
        for packet in 0..10_000 {
            let now = Time::ZERO + Span::from_micros(300) * packet;
            let shift = medium.shifts(now);
            let arrives = now + shift.unwrap_or_default();
            assert!(arrives >= before && arrives <= now + most);
            // One that arrives together with the one before goes after it.
            assert!(shift.is_some() || arrives > before || packet == 0);
            before = arrives;
        }
    }

    #[test]
    fn slots_let_packets_arrive_at_their_instants_only() {
        let ms = Span::from_millis;
        let mut medium = jittering(JitterModel::Slots { every: ms(5), phase: ms(2) });
        let mut arrivals = Vec::new();
        for now in [0, 1, 2, 3, 7, 8, 12, 13] {
            let now = Time::ZERO + ms(now);
            arrivals.push((now + medium.shifts(now).unwrap_or_default()).as_nanos() / 1_000_000);
        }
        assert_eq!(arrivals, [2, 2, 2, 7, 7, 12, 12, 17]);
    }

    #[test]
    fn jitter_draws_from_a_stream_of_its_own() {
        let fates = |jitter| {
            let loss = Some(LossModel::Random { probability: 0.2 });
            let reorder = Some(ReorderModel { probability: 0.3, delay: Span::from_millis(1) });
            let mut medium = Medium::new(loss, reorder, 0.1, jitter, [Seed(1), Seed(2), Seed(3)]).unwrap();
            let fate = |packet| {
                let fate = (medium.loses(), medium.holds_back(), medium.duplicates());
                let _ = medium.shifts(Time::ZERO + Span::from_millis(1) * packet);
                fate
            };
            (0..5_000).map(fate).collect::<Vec<_>>()
        };
        assert_eq!(fates(None), fates(Some(JitterModel::Uniform { most: Span::from_millis(3) })));
    }
}

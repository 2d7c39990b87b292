//! A border that lies: what its messages say is changed where they leave it, and old ones are sent again.
//!
//! A message is decoded and encoded as its mechanism does; one that is not understood goes out as it is. Each format is one
//! function here, and one arm of [`distorter`].

use tidegate_mechanism::edge::autorate::wire as autorate;
use tidegate_mechanism::edge::iec::wire as iec;
use tidegate_mechanism::edge::nbp::wire as nbp;
use tidegate_mechanism::edge::path::wire as path;
use tidegate_mechanism::edge::{EdgeConfig, PeerId};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_units::Span;

/// What a border says that is not true.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LieSpec {
    /// What the output rates that it reports are multiplied by; not negative.
    pub output: f64,
    /// It never reports congestion. NBP, which reports rates alone, has nothing to hide.
    pub hides: bool,
    /// Time stamps that it returns are set back by a second.
    pub forges: bool,
    /// The probability that an old message of it is sent again behind a new one.
    pub replays: f64,
}

impl Default for LieSpec {
    /// The truth.
    fn default() -> Self {
        Self { output: 1.0, hides: false, forges: false, replays: 0.0 }
    }
}

/// How far forged time stamps are set back.
const BACK: Span = Span::from_secs(1);

/// Messages that are remembered to be sent again.
const REMEMBERED_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Liar {
    spec: LieSpec,
    distort: fn(&LieSpec, &mut Vec<u8>),
    random: Substream,
    /// The last messages, as they were sent.
    remembered: Vec<(PeerId, Vec<u8>)>,
    /// Which of them goes next, once there are as many as there may be.
    oldest: usize,
}

impl Liar {
    /// One that lies about what the mechanism of `config` says.
    pub(crate) fn new(spec: LieSpec, config: &EdgeConfig, seed: Seed) -> Self {
        let random = Substream::new(seed);
        Self { spec, distort: distorter(config), random, remembered: Vec::new(), oldest: 0 }
    }

    /// Makes of `message`, which is for `to`, what is said instead; and gives the message that is sent behind it, if there is one.
    pub(crate) fn tell(&mut self, to: PeerId, message: &mut Vec<u8>) -> Option<(PeerId, Vec<u8>)> {
        (self.distort)(&self.spec, message);
        if self.spec.replays <= 0.0 {
            return None;
        }
        let again = if !self.remembered.is_empty() && self.random.chance(self.spec.replays) {
            let one = self.random.below(self.remembered.len() as u32);
            Some(self.remembered[one as usize].clone())
        } else {
            None
        };
        if self.remembered.len() < REMEMBERED_MAX {
            self.remembered.push((to, message.clone()));
        } else {
            let (old_to, old) = &mut self.remembered[self.oldest];
            *old_to = to;
            old.clone_from(message);
            self.oldest = (self.oldest + 1) % REMEMBERED_MAX;
        }
        again
    }
}

/// What changes the messages of a mechanism.
fn distorter(config: &EdgeConfig) -> fn(&LieSpec, &mut Vec<u8>) {
    match config {
        EdgeConfig::Nbp(_) => distort_nbp,
        EdgeConfig::Iec(_) | EdgeConfig::Eec(_) => distort_iec,
        EdgeConfig::Path(_) => distort_path,
        EdgeConfig::Autorate(_) => distort_autorate,
        // Only it knows what it says, or it says nothing; old messages can be sent again.
        EdgeConfig::Own(_) | EdgeConfig::Fixed(_) => |_, _| (),
    }
}

fn distort_iec(spec: &LieSpec, message: &mut Vec<u8>) {
    let Ok(iec::Message::Feedback(mut feedback)) = iec::decode(message) else { return };
    feedback.output_rate = (feedback.output_rate as f64 * spec.output) as u64;
    if spec.hides {
        (feedback.is_negative, feedback.has_loss, feedback.in_epoch) = (false, false, false);
    }
    if spec.forges {
        feedback.timestamp = feedback.timestamp.saturating_sub(BACK);
    }
    message.clear();
    message.extend_from_slice(&feedback.encode());
}

fn distort_path(spec: &LieSpec, message: &mut Vec<u8>) {
    let Ok(path::Message::Report(mut report)) = path::decode(message) else { return };
    report.received_bytes = (report.received_bytes as f64 * spec.output) as u64;
    report.received_packets = (report.received_packets as f64 * spec.output) as u64;
    if spec.hides {
        // All probes take the same time: nothing ever waits.
        report.arrived = report.nonce.wrapping_add(BACK.as_nanos());
    }
    if spec.forges {
        report.nonce = report.nonce.saturating_sub(BACK.as_nanos());
    }
    message.clear();
    message.extend_from_slice(&report.encode());
}

/// It reports no rate. What it hides shows in one-way delays only.
fn distort_autorate(spec: &LieSpec, message: &mut Vec<u8>) {
    let Ok(autorate::Message::Pong(mut pong)) = autorate::decode(message) else { return };
    if spec.hides {
        pong.arrived = pong.ping.sent.wrapping_add(BACK.as_nanos());
    }
    if spec.forges {
        pong.ping.sent = pong.ping.sent.saturating_sub(BACK.as_nanos());
    }
    message.clear();
    message.extend_from_slice(&pong.encode());
}

fn distort_nbp(spec: &LieSpec, message: &mut Vec<u8>) {
    let Ok(nbp::Feedback::Backward { mut timestamp, asynchronous, hop_count, flows, echoes }) =
        nbp::decode(message)
    else {
        return;
    };
    if spec.forges {
        timestamp = timestamp.saturating_sub(BACK);
    }
    let mut encoder = nbp::Encoder::default();
    encoder.backward(timestamp, asynchronous, hop_count, !echoes.is_empty());
    for (index, (key, rate)) in flows.iter().enumerate() {
        encoder.push_with_rate(key, (f64::from(*rate) * spec.output) as u32);
        if let Some(&echo) = echoes.get(index) {
            // Microseconds, modulo their number; zero means that there is none.
            let is_forged = spec.forges && echo != 0;
            let forged = echo.wrapping_sub((BACK.as_nanos() / 1000) as u32).max(1);
            encoder.push_echo(if is_forged { forged } else { echo });
        }
    }
    message.clear();
    message.extend_from_slice(encoder.finish());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_mechanism::edge::iec::OverlayConfig;
    use tidegate_mechanism::edge::nbp::ClassKey;
    use tidegate_packet::Address;
    use tidegate_units::Time;

    const TO: PeerId = PeerId(3);

    fn iec_liar(spec: LieSpec) -> Liar {
        Liar::new(spec, &EdgeConfig::from(OverlayConfig::default()), Seed(1))
    }

    fn nbp_liar(spec: LieSpec) -> Liar {
        Liar::new(spec, &EdgeConfig::Nbp(Box::default()), Seed(1))
    }

    fn feedback() -> iec::Feedback {
        iec::Feedback {
            incarnation: 500,
            sequence: 7,
            timestamp: Time::from_nanos(3_000_000_000),
            held: Span::from_millis(3),
            output_rate: 1_000_000,
            accumulation: -5,
            is_negative: true,
            in_epoch: true,
            has_loss: true,
        }
    }

    /// What it makes of this feedback.
    fn told(spec: LieSpec, feedback: iec::Feedback) -> iec::Feedback {
        let mut message = feedback.encode().to_vec();
        assert_eq!(iec_liar(spec).tell(TO, &mut message), None);
        match iec::decode(&message) {
            Ok(iec::Message::Feedback(told)) => told,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_lie_about_feedback_changes_what_it_is_about() {
        let truth = feedback();
        assert_eq!(told(LieSpec::default(), truth), truth);
        let more = iec::Feedback { output_rate: 2_500_000, ..truth };
        assert_eq!(told(LieSpec { output: 2.5, ..LieSpec::default() }, truth), more);
        let calm = iec::Feedback { is_negative: false, in_epoch: false, has_loss: false, ..truth };
        assert_eq!(told(LieSpec { hides: true, ..LieSpec::default() }, truth), calm);
        let late = iec::Feedback { timestamp: Time::from_nanos(2_000_000_000), ..truth };
        let forges = LieSpec { forges: true, ..LieSpec::default() };
        assert_eq!(told(forges, truth), late);
    }

    #[test]
    fn what_an_ingress_says_is_left_alone() {
        let control = iec::Control {
            incarnation: 3,
            sequence: 1,
            timestamp: Time::from_nanos(9),
            sent_bytes: 10,
            sent_packets: 1,
            rtt: Span::from_millis(1),
            queueing: None,
            echo: 0,
            wants_answer: true,
        };
        let lies = LieSpec { output: 3.0, hides: true, forges: true, replays: 0.0 };
        let mut message = control.encode().to_vec();
        iec_liar(lies).tell(TO, &mut message);
        assert_eq!(message, control.encode());
        let mut encoder = nbp::Encoder::default();
        encoder.forward(Time::from_nanos(4_000_000_000));
        let before = encoder.finish().to_vec();
        message.clone_from(&before);
        nbp_liar(lies).tell(TO, &mut message);
        assert_eq!(message, before);
    }

    #[test]
    fn egress_rates_time_stamps_and_echoes_of_nbp_are_changed() {
        let key = |last| ClassKey::AddressPair {
            source: Address::V4([10, 0, 0, 1]),
            destination: Address::V4([10, 0, 0, last]),
        };
        let mut encoder = nbp::Encoder::default();
        encoder.backward(Time::from_nanos(4_000_000_000), false, 5, true);
        for (last, rate, echo) in [(2, 1000, 0), (3, u32::MAX, 5_000_000), (4, 7, 1_000_000)] {
            encoder.push_with_rate(&key(last), rate);
            encoder.push_echo(echo);
        }
        let mut message = encoder.finish().to_vec();
        nbp_liar(LieSpec { output: 2.0, forges: true, ..LieSpec::default() }).tell(TO, &mut message);
        let expected = nbp::Feedback::Backward {
            timestamp: Time::from_nanos(3_000_000_000),
            asynchronous: false,
            hop_count: 5,
            flows: vec![(key(2), 2000), (key(3), u32::MAX), (key(4), 14)],
            echoes: vec![0, 4_000_000, 1],
        };
        assert_eq!(nbp::decode(&message), Ok(expected));
    }

    #[test]
    fn old_messages_are_sent_again_as_often_as_said_and_to_whom_they_were_for() {
        let mut liar = iec_liar(LieSpec { replays: 0.3, ..LieSpec::default() });
        let mut again = Vec::new();
        for sequence in 0..10_000 {
            let peer = PeerId(sequence % 5);
            let mut message = iec::Feedback { sequence, ..feedback() }.encode().to_vec();
            let Some((to, old)) = liar.tell(peer, &mut message) else { continue };
            let Ok(iec::Message::Feedback(old)) = iec::decode(&old) else { panic!("not feedback") };
            assert_eq!(to, PeerId(old.sequence % 5));
            assert!(old.sequence < sequence && sequence - old.sequence <= REMEMBERED_MAX as u32);
            again.push(sequence - old.sequence);
        }
        // Five standard deviations of 46.
        assert!((2770..3230).contains(&again.len()), "{}", again.len());
        assert_eq!(again.iter().max(), Some(&(REMEMBERED_MAX as u32)));
        assert_eq!(again.iter().min(), Some(&1));
    }

    proptest! {
        #[test]
        fn whatever_the_message_the_truth_is_left_as_it_is(
            message in proptest::collection::vec(any::<u8>(), 0..80),
            lies in any::<bool>(),
        ) {
            let spec = if lies {
                LieSpec { output: 1e3, hides: true, forges: true, replays: 0.5 }
            } else {
                LieSpec::default()
            };
            for mut liar in [iec_liar(spec), nbp_liar(spec)] {
                let mut told = message.clone();
                liar.tell(TO, &mut told);
                prop_assert_eq!(told.len(), message.len());
                if !lies {
                    prop_assert_eq!(&told, &message);
                }
            }
        }
    }
}

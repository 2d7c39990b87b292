//! Control packets of the ingress and feedback of the egress.
//!
//! Source: sections II.B and III.A (contents: time stamp, input rate, smoothed output rate); the encoding is ours.
//! Deviations: the input rate over the last `tau` travels as cumulative counts, so that a lost control packet costs nothing
//! but time (IEC-2), and with the sent packets, for losses are counted from them (section III.B).
//!
//! All numbers are big-endian. A message begins with one byte of version and kind, and one of flags:
//!
//! | control (kind 3) | bytes | feedback (kind 4) | bytes |
//! |---|---|---|---|
//! | flags: 0 answer wanted, 1 queueing known | 1 | flags: 0 negative, 1 loss, 2 epoch | 1 |
//! | incarnation | 8 | the same, of the control packet | 8 |
//! | sequence number | 4 | sequence number of the feedback | 4 |
//! | time stamp, ns | 8 | time stamp of the last control packet, ns | 8 |
//! | bytes sent | 8 | how long ago that came, ns | 8 |
//! | packets sent | 8 | smoothed output rate, bytes per second | 8 |
//! | round-trip time, ns | 8 | accumulation, bytes, signed | 8 |
//! | queueing by round-trip times, ns | 8 | | |
//! | sequence number of the feedback that gave it | 4 | | |
//!
//! The incarnation is a random number that tells the counters of one virtual link from those of its predecessors between the
//! same edges. It is older or newer than none: clocks of machines that start anew may show anything. Decoding is total: any
//! bytes give a message or [`Malformed`]. Trailing bytes are malformed, and so is what contradicts itself: a loss that is not
//! negative. Version 1 had the time of the opening in place of the incarnation.

use tidegate_units::{Span, Time};

pub use crate::wire::Malformed;
use crate::wire::Reader;

const VERSION: u8 = 2;
const CONTROL: u8 = VERSION << 4 | 3;
const FEEDBACK: u8 = VERSION << 4 | 4;

const ANSWER: u8 = 1;
const QUEUEING: u8 = 2;
const NEGATIVE: u8 = 1;
const LOSS: u8 = 2;
const EPOCH: u8 = 4;

/// Bytes of an encoded control message.
pub const CONTROL_BYTES: usize = 2 + 8 + 4 + 8 * 5 + 4;
/// Bytes of an encoded feedback message.
pub const FEEDBACK_BYTES: usize = 2 + 8 + 4 + 8 * 4;

/// From the ingress of a virtual link, behind the data that it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Names this life of the virtual link.
    pub incarnation: u64,
    /// Rises by one with each control packet of the virtual link.
    pub sequence: u32,
    /// When it was sent, on the ingress's clock.
    pub timestamp: Time,
    /// Bytes of data sent since it was opened.
    pub sent_bytes: u64,
    /// Packets of data sent since it was opened.
    pub sent_packets: u64,
    /// The round-trip time `T` as the ingress knows it.
    pub rtt: Span,
    /// How far the last round-trip time was above the least; with it, `echo` has a meaning.
    pub queueing: Option<Span>,
    /// The feedback that gave this round-trip time.
    pub echo: u32,
    /// An answer is wanted even without congestion.
    pub wants_answer: bool,
}

/// From the egress of a virtual link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// As in the control packet.
    pub incarnation: u64,
    /// Rises by one with each feedback of the virtual link.
    pub sequence: u32,
    /// The time stamp of the last control packet.
    pub timestamp: Time,
    /// How long ago that came.
    pub held: Span,
    /// The smoothed output rate, bytes per second.
    pub output_rate: u64,
    /// The accumulation, bytes; in the round-trip version, whose ingress resets it, the sum of all growth.
    pub accumulation: i64,
    /// Back off.
    pub is_negative: bool,
    /// A congestion epoch is on (an answer in between is not negative).
    pub in_epoch: bool,
    /// Packets were lost: back off more.
    pub has_loss: bool,
}

/// Writes to the front of an array.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    fn new(kind: u8, flags: u8) -> Self {
        let mut bytes = [0; N];
        bytes[0] = kind;
        bytes[1] = flags;
        Self { bytes, at: 2 }
    }
    fn put<const M: usize>(&mut self, field: [u8; M]) {
        self.bytes[self.at..self.at + M].copy_from_slice(&field);
        self.at += M;
    }
    fn u64(&mut self, value: u64) {
        self.put(value.to_be_bytes());
    }
}

impl Control {
    /// The message.
    pub fn encode(&self) -> [u8; CONTROL_BYTES] {
        let flags = (u8::from(self.wants_answer) * ANSWER) | (u8::from(self.queueing.is_some()) * QUEUEING);
        let mut writer = Writer::new(CONTROL, flags);
        writer.u64(self.incarnation);
        writer.put(self.sequence.to_be_bytes());
        writer.u64(self.timestamp.as_nanos());
        writer.u64(self.sent_bytes);
        writer.u64(self.sent_packets);
        writer.u64(self.rtt.as_nanos());
        writer.u64(self.queueing.map_or(0, Span::as_nanos));
        writer.put(self.echo.to_be_bytes());
        writer.bytes
    }
}

impl Feedback {
    /// The message.
    pub fn encode(&self) -> [u8; FEEDBACK_BYTES] {
        let flags = (u8::from(self.is_negative) * NEGATIVE)
            | (u8::from(self.has_loss) * LOSS)
            | (u8::from(self.in_epoch) * EPOCH);
        let mut writer = Writer::new(FEEDBACK, flags);
        writer.u64(self.incarnation);
        writer.put(self.sequence.to_be_bytes());
        writer.u64(self.timestamp.as_nanos());
        writer.u64(self.held.as_nanos());
        writer.u64(self.output_rate);
        writer.put(self.accumulation.to_be_bytes());
        writer.bytes
    }
}

/// Either message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// For an egress.
    Control(Control),
    /// For an ingress.
    Feedback(Feedback),
}

/// The message in `bytes`.
///
/// # Errors
/// When they are no message, or more than one.
pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
    let mut reader = Reader(bytes);
    let [kind, flags] = reader.take()?;
    let allowed = if kind == CONTROL { ANSWER | QUEUEING } else { NEGATIVE | LOSS | EPOCH };
    if flags & !allowed != 0 {
        return Err(Malformed);
    }
    let incarnation = reader.u64()?;
    let sequence = reader.u32()?;
    let timestamp = reader.time()?;
    let message = match kind {
        CONTROL => {
            let (sent_bytes, sent_packets) = (reader.u64()?, reader.u64()?);
            let rtt = Span::from_nanos(reader.u64()?);
            let queueing = Span::from_nanos(reader.u64()?);
            let echo = reader.u32()?;
            if flags & QUEUEING == 0 && !(queueing.is_zero() && echo == 0) {
                return Err(Malformed);
            }
            Message::Control(Control {
                incarnation,
                sequence,
                timestamp,
                sent_bytes,
                sent_packets,
                rtt,
                queueing: (flags & QUEUEING != 0).then_some(queueing),
                echo,
                wants_answer: flags & ANSWER != 0,
            })
        }
        FEEDBACK if flags & LOSS != 0 && flags & NEGATIVE == 0 => return Err(Malformed),
        FEEDBACK => Message::Feedback(Feedback {
            incarnation,
            sequence,
            timestamp,
            held: Span::from_nanos(reader.u64()?),
            output_rate: reader.u64()?,
            accumulation: reader.u64()?.cast_signed(),
            is_negative: flags & NEGATIVE != 0,
            has_loss: flags & LOSS != 0,
            in_epoch: flags & EPOCH != 0,
        }),
        _ => return Err(Malformed),
    };
    reader.finish(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn control() -> impl Strategy<Value = Control> {
        (any::<(u64, u32, u64, u64, u64, u64)>(), any::<Option<(u64, u32)>>(), any::<bool>()).prop_map(
            |((incarnation, sequence, timestamp, sent_bytes, sent_packets, rtt), queueing, wants_answer)| {
                Control {
                    incarnation,
                    sequence,
                    timestamp: Time::from_nanos(timestamp),
                    sent_bytes,
                    sent_packets,
                    rtt: Span::from_nanos(rtt),
                    queueing: queueing.map(|(nanos, _)| Span::from_nanos(nanos)),
                    echo: queueing.map_or(0, |(_, echo)| echo),
                    wants_answer,
                }
            },
        )
    }

    fn feedback() -> impl Strategy<Value = Feedback> {
        (any::<(u64, u32, u64, u64, u64, i64)>(), any::<(bool, bool, bool)>()).prop_map(
            |(
                (incarnation, sequence, timestamp, held, output_rate, accumulation),
                (is_negative, has_loss, in_epoch),
            )| {
                Feedback {
                    incarnation,
                    sequence,
                    timestamp: Time::from_nanos(timestamp),
                    held: Span::from_nanos(held),
                    output_rate,
                    accumulation,
                    is_negative,
                    has_loss: has_loss && is_negative,
                    in_epoch,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(control in control(), feedback in feedback()) {
            prop_assert_eq!(decode(&control.encode()), Ok(Message::Control(control)));
            prop_assert_eq!(decode(&feedback.encode()), Ok(Message::Feedback(feedback)));
        }

        #[test]
        fn any_bytes_give_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(message) = decode(&bytes) {
                // What is accepted has one encoding.
                let again = match message {
                    Message::Control(control) => control.encode().to_vec(),
                    Message::Feedback(feedback) => feedback.encode().to_vec(),
                };
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn messages_that_contradict_themselves_are_refused(control in control(), feedback in feedback()) {
            let loss = Feedback { is_negative: false, has_loss: true, ..feedback };
            prop_assert_eq!(decode(&loss.encode()), Err(Malformed));
            let unknown = Control { queueing: None, echo: 1, ..control };
            prop_assert_eq!(decode(&unknown.encode()), Err(Malformed));
        }

        #[test]
        fn cut_or_prolonged_messages_are_refused(control in control(), cut in 0..CONTROL_BYTES) {
            let mut bytes: Vec<u8> = control.encode().to_vec();
            prop_assert_eq!(decode(&bytes[..cut]), Err(Malformed));
            bytes.push(0);
            prop_assert_eq!(decode(&bytes), Err(Malformed));
        }
    }
}

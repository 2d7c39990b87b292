//! Probes of the sending edge and reports of the receiving one.
//!
//! Source: the encoding is ours; contents after Harrison and Kalyanaraman, sections II.B and III.A, and Bundler (Cangialosi and
//! others, 2021), section 4, where the far box reports and the near one thinks.
//! Deviations: none.
//!
//! All numbers are big-endian. A message begins with one byte of version and kind:
//!
//! | probe (kind 5) | bytes | report (kind 6) | bytes |
//! |---|---|---|---|
//! | incarnation of the sender | 8 | the same, of the probe | 8 |
//! | sequence number | 4 | the same, of the probe | 4 |
//! | nonce: the sender's clock, ns | 8 | the same, of the probe | 8 |
//! | | | incarnation of the receiver | 8 |
//! | | | the receiver's clock when the probe came, ns | 8 |
//! | | | bytes received | 8 |
//! | | | packets received | 8 |
//!
//! A probe does not tell what was sent: who knows that could say that all of it came. Version 1 did.
//!
//! Incarnations are random numbers: they are the same or not, and never older or newer. Counts are of one incarnation. Decoding
//! is total: any bytes give a message or [`Malformed`]; trailing bytes are malformed.

pub use crate::wire::Malformed;
use crate::wire::Reader;

const VERSION: u8 = 2;
const PROBE: u8 = VERSION << 4 | 5;
const REPORT: u8 = VERSION << 4 | 6;

/// Bytes of an encoded probe.
pub const PROBE_BYTES: usize = 1 + 8 + 4 + 8;
/// Bytes of an encoded report.
pub const REPORT_BYTES: usize = 1 + 8 + 4 + 8 + 8 + 8 + 8 + 8;

/// From where packets enter, ahead of the packet that gives occasion to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Names this life of the virtual link.
    pub incarnation: u64,
    /// Rises by one with each probe of it.
    pub sequence: u32,
    /// When it was sent, on the sender's clock, ns. Who has not seen the probe cannot know it.
    pub nonce: u64,
}

/// From where packets leave, at once for each probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// That of the probe.
    pub incarnation: u64,
    /// That of the probe.
    pub sequence: u32,
    /// That of the probe.
    pub nonce: u64,
    /// Names this life of the receiver's counters.
    pub receiver: u64,
    /// When the probe came, on the receiver's clock, ns.
    pub arrived: u64,
    /// Bytes received in this life of the receiver.
    pub received_bytes: u64,
    /// Packets received in this life of the receiver.
    pub received_packets: u64,
}

/// Either message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// For the half where packets leave.
    Probe(Probe),
    /// For the half where they enter.
    Report(Report),
}

/// The bytes of `fields`, one behind the other, after the byte `kind`.
fn encode<const N: usize>(kind: u8, fields: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[0] = kind;
    let mut at = 1;
    for field in fields {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    }
    debug_assert_eq!(at, N, "the fields fill the message");
    bytes
}

impl Probe {
    /// The message.
    pub fn encode(&self) -> [u8; PROBE_BYTES] {
        encode(
            PROBE,
            &[&self.incarnation.to_be_bytes(), &self.sequence.to_be_bytes(), &self.nonce.to_be_bytes()],
        )
    }
}

impl Report {
    /// The message.
    pub fn encode(&self) -> [u8; REPORT_BYTES] {
        encode(
            REPORT,
            &[
                &self.incarnation.to_be_bytes(),
                &self.sequence.to_be_bytes(),
                &self.nonce.to_be_bytes(),
                &self.receiver.to_be_bytes(),
                &self.arrived.to_be_bytes(),
                &self.received_bytes.to_be_bytes(),
                &self.received_packets.to_be_bytes(),
            ],
        )
    }
}

/// The message in `bytes`.
///
/// # Errors
/// When they are no message, or more than one.
pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
    let mut reader = Reader(bytes);
    let kind = reader.u8()?;
    let (incarnation, sequence, nonce) = (reader.u64()?, reader.u32()?, reader.u64()?);
    let message = match kind {
        PROBE => Message::Probe(Probe { incarnation, sequence, nonce }),
        REPORT => {
            let (receiver, arrived) = (reader.u64()?, reader.u64()?);
            let (received_bytes, received_packets) = (reader.u64()?, reader.u64()?);
            Message::Report(Report {
                incarnation,
                sequence,
                nonce,
                receiver,
                arrived,
                received_bytes,
                received_packets,
            })
        }
        _ => return Err(Malformed),
    };
    reader.finish(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(
            (incarnation, sequence, nonce) in any::<(u64, u32, u64)>(), rest in any::<(u64, u64, u64, u64)>(),
        ) {
            let probe = Probe { incarnation, sequence, nonce };
            prop_assert_eq!(decode(&probe.encode()), Ok(Message::Probe(probe)));
            let (receiver, arrived, received_bytes, received_packets) = rest;
            let report = Report {
                incarnation, sequence, nonce, receiver, arrived, received_bytes, received_packets,
            };
            prop_assert_eq!(decode(&report.encode()), Ok(Message::Report(report)));
        }

        #[test]
        fn any_bytes_give_a_message_with_one_encoding_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0u8..3,
        ) {
            if let (Some(first), 1..) = (bytes.first_mut(), kind) {
                *first = if kind == 1 { PROBE } else { REPORT };
            }
            match decode(&bytes) {
                Ok(Message::Probe(probe)) => prop_assert_eq!(&probe.encode()[..], &bytes[..]),
                Ok(Message::Report(report)) => prop_assert_eq!(&report.encode()[..], &bytes[..]),
                Err(Malformed) => {}
            }
        }
    }

    #[test]
    fn cut_and_prolonged_messages_are_refused() {
        let probe = Probe { incarnation: 1, sequence: 2, nonce: 3 };
        let mut bytes = probe.encode().to_vec();
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(Malformed), "cut to {length}");
        }
        bytes.push(0);
        assert_eq!(decode(&bytes), Err(Malformed));
    }
}

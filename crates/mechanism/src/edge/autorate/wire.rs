//! A ping, and its answer.
//!
//! Source: the encoding is ours; contents after ICMP echo (RFC 792) with the time stamps of ICMP type 13.
//! Deviations: one time stamp of the reflector, which answers at once, in place of two; nanoseconds in place of milliseconds.
//!
//! All numbers are big-endian. A message begins with one byte of version and kind:
//!
//! | ping (kind 7) | bytes | pong (kind 8) | bytes |
//! |---|---|---|---|
//! | life of the pinger | 8 | the same, of the ping | 8 |
//! | sequence number | 4 | the same, of the ping | 4 |
//! | the pinger's clock, ns | 8 | the same, of the ping | 8 |
//! | | | the reflector's clock when the ping came, ns | 8 |
//!
//! Lives are random numbers. Decoding is total: any bytes give a message or [`Malformed`]; trailing bytes are malformed.

pub use crate::wire::Malformed;
use crate::wire::Reader;

const VERSION: u8 = 1;
const PING: u8 = VERSION << 4 | 7;
const PONG: u8 = VERSION << 4 | 8;

/// Bytes of an encoded ping.
pub const PING_BYTES: usize = 1 + 8 + 4 + 8;
/// Bytes of an encoded pong.
pub const PONG_BYTES: usize = PING_BYTES + 8;

/// From where packets enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ping {
    /// Names this life of the pinger.
    pub life: u64,
    /// Rises by one with each ping of it.
    pub sequence: u32,
    /// When it was sent, on the pinger's clock, ns.
    pub sent: u64,
}

/// From where packets leave, at once for each ping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pong {
    /// What it answers.
    pub ping: Ping,
    /// When that came, on the reflector's clock, ns.
    pub arrived: u64,
}

/// Either message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// For the half where packets leave.
    Ping(Ping),
    /// For the half where they enter.
    Pong(Pong),
}

impl Ping {
    fn write(&self, kind: u8, bytes: &mut [u8]) {
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&self.life.to_be_bytes());
        bytes[9..13].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[13..PING_BYTES].copy_from_slice(&self.sent.to_be_bytes());
    }

    /// The message.
    pub fn encode(&self) -> [u8; PING_BYTES] {
        let mut bytes = [0; PING_BYTES];
        self.write(PING, &mut bytes);
        bytes
    }
}

impl Pong {
    /// The message.
    pub fn encode(&self) -> [u8; PONG_BYTES] {
        let mut bytes = [0; PONG_BYTES];
        self.ping.write(PONG, &mut bytes);
        bytes[PING_BYTES..].copy_from_slice(&self.arrived.to_be_bytes());
        bytes
    }
}

/// The message in `bytes`.
///
/// # Errors
/// When they are no message, or more than one.
pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
    let mut reader = Reader(bytes);
    let kind = reader.u8()?;
    let ping = Ping { life: reader.u64()?, sequence: reader.u32()?, sent: reader.u64()? };
    let message = match kind {
        PING => Message::Ping(ping),
        PONG => Message::Pong(Pong { ping, arrived: reader.u64()? }),
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
            (life, sequence, sent, arrived) in any::<(u64, u32, u64, u64)>(),
        ) {
            let ping = Ping { life, sequence, sent };
            prop_assert_eq!(decode(&ping.encode()), Ok(Message::Ping(ping)));
            let pong = Pong { ping, arrived };
            prop_assert_eq!(decode(&pong.encode()), Ok(Message::Pong(pong)));
        }

        #[test]
        fn any_bytes_give_a_message_with_one_encoding_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..40), kind in 0u8..3, whole in any::<bool>(),
        ) {
            if let (Some(first), 1..) = (bytes.first_mut(), kind) {
                *first = if kind == 1 { PING } else { PONG };
            }
            if whole {
                bytes.resize(if kind == 1 { PING_BYTES } else { PONG_BYTES }, 7);
            }
            match decode(&bytes) {
                Ok(Message::Ping(ping)) => prop_assert_eq!(&ping.encode()[..], &bytes[..]),
                Ok(Message::Pong(pong)) => prop_assert_eq!(&pong.encode()[..], &bytes[..]),
                Err(Malformed) => {}
            }
        }
    }

    #[test]
    fn cut_and_prolonged_messages_are_refused() {
        let pong = Pong { ping: Ping { life: 1, sequence: 2, sent: 3 }, arrived: 4 };
        let mut bytes = pong.encode().to_vec();
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Err(Malformed), "cut to {length}");
        }
        bytes.push(0);
        assert_eq!(decode(&bytes), Err(Malformed));
    }
}

//! Messages between neighbours.
//!
//! Source: NBQ, section 4 and Fig. 11 (what a manager tells its upstream neighbour), section 8.1 (what it could tell a
//! source); Pazos and Gerla, section 4.2 (resource management cells); the encoding is ours.
//!
//! All numbers are big-endian. A message begins with one byte of version and kind, the sender's clock in nanoseconds (8
//! bytes; only its order matters), the number of entries (2 bytes), and then the entries:
//!
//! | entry | bytes |
//! |---|---|
//! | form: 4 for IPv4, 6 for IPv6 | 1 |
//! | protocol | 1 |
//! | destination address | 4 or 16 |
//! | report (kind 1): arrival rate, departure rate, bytes per second | 4 + 4 |
//! | advice (kind 2): discard ratio, in parts of 65535 | 2 |
//! | outlet (kind 5): number of the output that its packets take, rate for them there, bytes per second | 2 + 4 |
//!
//! Resource management (kind 3 on its way downstream, kind 4 on its way back) has no entries. Where others have their number
//! it has 2 bytes of zero, and then the explicit rate, bytes per second (4 bytes). The answer carries the stamp of what it
//! answers, so that it is the clock of the asking router. It fits into the payload of an ATM cell.
//!
//! Decoding is total: any bytes give a message or [`Malformed`]; trailing bytes are malformed.

use alloc::vec::Vec;

use tidegate_packet::{Address, Protocol};
use tidegate_units::Time;

pub use crate::wire::Malformed;

const VERSION: u8 = 1;
const REPORT: u8 = VERSION << 4 | 1;
const ADVICE: u8 = VERSION << 4 | 2;
const RM_FORWARD: u8 = VERSION << 4 | 3;
const RM_BACKWARD: u8 = VERSION << 4 | 4;
const OUTLETS: u8 = VERSION << 4 | 5;

const FORM_V4: u8 = 4;
const FORM_V6: u8 = 6;

/// Bytes before the entries.
const HEAD_BYTES: usize = 1 + 8 + 2;

/// A flow as neighbours name it: by protocol and destination (NBQ, section 4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowName {
    /// The transport protocol.
    pub protocol: Protocol,
    /// Where its packets go.
    pub destination: Address,
}

impl FlowName {
    const fn bytes(self) -> usize {
        2 + match self.destination {
            Address::V4(_) => 4,
            Address::V6(_) => 16,
        }
    }
}

/// What a router says of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Which flow.
    pub flow: FlowName,
    /// Its arrival rate there, bytes per second.
    pub arrival: u32,
    /// Its departure rate there, bytes per second.
    pub departure: u32,
}

/// What a router tells the source of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advice {
    /// Which flow.
    pub flow: FlowName,
    /// The part of its packets that is discarded, in parts of 65535.
    pub ratio: u16,
}

impl Advice {
    /// The part of its packets that is discarded.
    pub fn discarded(&self) -> f64 {
        f64::from(self.ratio) / f64::from(u16::MAX)
    }
}

/// What a router says of the traffic that a neighbour sends through it to one destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outlet {
    /// Which packets.
    pub flow: FlowName,
    /// The output that they take there; equal numbers share one.
    pub output: u16,
    /// What the neighbour may send to that output, bytes per second.
    pub rate: u32,
}

/// Resource management: what a virtual source asks, and what comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rm {
    /// When it was asked, on the clock of the virtual source.
    pub stamp: Time,
    /// The explicit rate (`ER`), bytes per second; whoever carries less lowers it.
    pub rate: u32,
}

/// Bytes of an encoded [`Rm`].
pub const RM_BYTES: usize = HEAD_BYTES + 4;

impl Rm {
    /// As a virtual source sends it.
    pub fn encode_forward(&self) -> [u8; RM_BYTES] {
        self.encode(RM_FORWARD)
    }

    /// As a virtual destination returns it.
    pub fn encode_backward(&self) -> [u8; RM_BYTES] {
        self.encode(RM_BACKWARD)
    }

    fn encode(&self, kind: u8) -> [u8; RM_BYTES] {
        let mut bytes = [0; RM_BYTES];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&self.stamp.as_nanos().to_be_bytes());
        bytes[HEAD_BYTES..].copy_from_slice(&self.rate.to_be_bytes());
        bytes
    }
}

/// What a switch does with a message that passes it: it lowers the explicit rate of resource management on its way
/// downstream to what it can carry, bytes per second. Other messages stay as they are.
pub fn lower_explicit_rate(message: &mut [u8], rate: u32) {
    if let Ok(Message::RmForward(rm)) = decode(message) {
        let lowered = Rm { rate: rm.rate.min(rate), ..rm };
        message.copy_from_slice(&lowered.encode_forward());
    }
}

/// What can stand in a message.
pub trait Entry: Sized {
    /// Version and kind of the messages it stands in.
    const KIND: u8;
    /// Bytes after the name of the flow.
    const BYTES: usize;
    /// Its flow.
    fn flow(&self) -> FlowName;
    /// Appends what follows the name.
    fn put(&self, out: &mut Vec<u8>);
    /// The entry of `flow` with these [`Self::BYTES`] bytes.
    fn get(flow: FlowName, bytes: &[u8]) -> Option<Self>;
}

impl Entry for Report {
    const KIND: u8 = REPORT;
    const BYTES: usize = 8;
    fn flow(&self) -> FlowName {
        self.flow
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.arrival.to_be_bytes());
        out.extend_from_slice(&self.departure.to_be_bytes());
    }
    fn get(flow: FlowName, bytes: &[u8]) -> Option<Self> {
        let (arrival, departure) = bytes.split_first_chunk::<4>()?;
        let departure: [u8; 4] = departure.try_into().ok()?;
        Some(Self { flow, arrival: u32::from_be_bytes(*arrival), departure: u32::from_be_bytes(departure) })
    }
}

impl Entry for Advice {
    const KIND: u8 = ADVICE;
    const BYTES: usize = 2;
    fn flow(&self) -> FlowName {
        self.flow
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.ratio.to_be_bytes());
    }
    fn get(flow: FlowName, bytes: &[u8]) -> Option<Self> {
        Some(Self { flow, ratio: u16::from_be_bytes(bytes.try_into().ok()?) })
    }
}

impl Entry for Outlet {
    const KIND: u8 = OUTLETS;
    const BYTES: usize = 6;
    fn flow(&self) -> FlowName {
        self.flow
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.output.to_be_bytes());
        out.extend_from_slice(&self.rate.to_be_bytes());
    }
    fn get(flow: FlowName, bytes: &[u8]) -> Option<Self> {
        let (output, rate) = bytes.split_first_chunk::<2>()?;
        let rate: [u8; 4] = rate.try_into().ok()?;
        Some(Self { flow, output: u16::from_be_bytes(*output), rate: u32::from_be_bytes(rate) })
    }
}

/// Builds messages of at most a given size, in a buffer that is reused.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    buffer: Vec<u8>,
    count: u16,
}

impl Encoder {
    /// Whether a further entry about `flow` still fits into `bytes_max`. An empty message always takes one.
    pub fn has_room<E: Entry>(&self, flow: FlowName, bytes_max: usize) -> bool {
        let bytes = self.buffer.len() + flow.bytes() + E::BYTES;
        self.count == 0 || (self.count < u16::MAX && bytes <= bytes_max)
    }

    /// Adds an entry. A message has entries of one type.
    pub fn push<E: Entry>(&mut self, entry: &E) {
        if self.count == 0 {
            self.buffer.clear();
            self.buffer.push(E::KIND);
            self.buffer.extend_from_slice(&[0; HEAD_BYTES - 1]);
        }
        debug_assert_eq!(self.buffer[0], E::KIND, "a message has entries of one type");
        let flow = entry.flow();
        match flow.destination {
            Address::V4(octets) => {
                self.buffer.extend_from_slice(&[FORM_V4, flow.protocol.0]);
                self.buffer.extend_from_slice(&octets);
            }
            Address::V6(octets) => {
                self.buffer.extend_from_slice(&[FORM_V6, flow.protocol.0]);
                self.buffer.extend_from_slice(&octets);
            }
        }
        entry.put(&mut self.buffer);
        self.count += 1;
    }

    /// The message as of `stamp`, if it has entries. The next entry begins a new one.
    pub fn finish(&mut self, stamp: Time) -> Option<&[u8]> {
        if self.count == 0 {
            return None;
        }
        self.buffer[1..9].copy_from_slice(&stamp.as_nanos().to_be_bytes());
        self.buffer[9..HEAD_BYTES].copy_from_slice(&self.count.to_be_bytes());
        self.count = 0;
        Some(&self.buffer)
    }
}

/// The entries of a message that is well-formed to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entries<'m, E> {
    rest: &'m [u8],
    kind: core::marker::PhantomData<E>,
}

impl<E: Entry> Iterator for Entries<'_, E> {
    type Item = E;
    fn next(&mut self) -> Option<E> {
        let (entry, rest) = take_entry(self.rest)?;
        self.rest = rest;
        Some(entry)
    }
}

/// What a neighbour says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'m> {
    /// The state of flows at a router, for its upstream neighbour.
    Reports {
        /// When it was sent, on the sender's clock.
        stamp: Time,
        /// Each flow once.
        entries: Entries<'m, Report>,
    },
    /// For a source.
    Advice {
        /// When it was sent, on the sender's clock.
        stamp: Time,
        /// Each flow once.
        entries: Entries<'m, Advice>,
    },
    /// What a virtual source asks.
    RmForward(Rm),
    /// What comes back to it.
    RmBackward(Rm),
    /// What each output accepts, for the neighbour upstream.
    Outlets {
        /// When it was sent, on the sender's clock.
        stamp: Time,
        /// Each flow once.
        entries: Entries<'m, Outlet>,
    },
}

/// The message in `bytes`.
///
/// # Errors
/// When they are no message, or more than one.
pub fn decode(bytes: &[u8]) -> Result<Message<'_>, Malformed> {
    let (&kind, rest) = bytes.split_first().ok_or(Malformed)?;
    let (stamp, rest) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
    let (count, rest) = rest.split_first_chunk::<2>().ok_or(Malformed)?;
    let (stamp, count) = (Time::from_nanos(u64::from_be_bytes(*stamp)), u16::from_be_bytes(*count));
    match kind {
        REPORT => Ok(Message::Reports { stamp, entries: entries(rest, count)? }),
        ADVICE => Ok(Message::Advice { stamp, entries: entries(rest, count)? }),
        OUTLETS => Ok(Message::Outlets { stamp, entries: entries(rest, count)? }),
        RM_FORWARD => Ok(Message::RmForward(rm(stamp, count, rest)?)),
        RM_BACKWARD => Ok(Message::RmBackward(rm(stamp, count, rest)?)),
        _ => Err(Malformed),
    }
}

fn rm(stamp: Time, count: u16, rest: &[u8]) -> Result<Rm, Malformed> {
    match (count, <[u8; 4]>::try_from(rest)) {
        (0, Ok(rate)) => Ok(Rm { stamp, rate: u32::from_be_bytes(rate) }),
        _ => Err(Malformed),
    }
}

/// Exactly `count` entries in `bytes`.
fn entries<E: Entry>(bytes: &[u8], count: u16) -> Result<Entries<'_, E>, Malformed> {
    let mut rest = bytes;
    for _ in 0..count {
        rest = take_entry::<E>(rest).ok_or(Malformed)?.1;
    }
    if !rest.is_empty() {
        return Err(Malformed);
    }
    Ok(Entries { rest: bytes, kind: core::marker::PhantomData })
}

fn take_entry<E: Entry>(bytes: &[u8]) -> Option<(E, &[u8])> {
    let (&[form, protocol], rest) = bytes.split_first_chunk::<2>()?;
    let (destination, rest) = match form {
        FORM_V4 => rest.split_first_chunk::<4>().map(|(octets, rest)| (Address::V4(*octets), rest))?,
        FORM_V6 => rest.split_first_chunk::<16>().map(|(octets, rest)| (Address::V6(*octets), rest))?,
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(E::BYTES)?;
    Some((E::get(FlowName { protocol: Protocol(protocol), destination }, value)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow_name() -> impl Strategy<Value = FlowName> {
        let address =
            prop_oneof![any::<[u8; 4]>().prop_map(Address::V4), any::<[u8; 16]>().prop_map(Address::V6)];
        (any::<u8>(), address)
            .prop_map(|(protocol, destination)| FlowName { protocol: Protocol(protocol), destination })
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(
            nanos in any::<u64>(),
            flows in prop::collection::vec((flow_name(), any::<(u32, u32, u16)>()), 1..40),
        ) {
            let stamp = Time::from_nanos(nanos);
            let mut encoder = Encoder::default();
            let reports: Vec<Report> =
                flows.iter().map(|&(flow, (arrival, departure, _))| Report { flow, arrival, departure }).collect();
            for report in &reports {
                encoder.push(report);
            }
            let Ok(Message::Reports { stamp: read, entries }) = decode(encoder.finish(stamp).unwrap()) else {
                panic!("a report was encoded")
            };
            prop_assert_eq!((read, entries.collect::<Vec<_>>()), (stamp, reports));
            let advice: Vec<Advice> =
                flows.iter().map(|&(flow, (_, _, ratio))| Advice { flow, ratio }).collect();
            for entry in &advice {
                encoder.push(entry);
            }
            let Ok(Message::Advice { stamp: said, entries: advised }) = decode(encoder.finish(stamp).unwrap()) else {
                panic!("advice was encoded")
            };
            prop_assert_eq!((said, advised.collect::<Vec<_>>()), (stamp, advice));
            let outlets: Vec<Outlet> =
                flows.iter().map(|&(flow, (_, rate, output))| Outlet { flow, output, rate }).collect();
            for entry in &outlets {
                encoder.push(entry);
            }
            let Ok(Message::Outlets { stamp: at, entries: let_out }) = decode(encoder.finish(stamp).unwrap()) else {
                panic!("outlets were encoded")
            };
            prop_assert_eq!((at, let_out.collect::<Vec<_>>()), (stamp, outlets));
            prop_assert_eq!(encoder.finish(stamp), None);
        }

        #[test]
        fn a_message_never_exceeds_its_bound(flows in prop::collection::vec(flow_name(), 1..200), most in 60usize..400) {
            let mut encoder = Encoder::default();
            let mut told = 0;
            for &flow in &flows {
                if !encoder.has_room::<Report>(flow, most) {
                    let message = encoder.finish(Time::ZERO).unwrap();
                    prop_assert!(message.len() <= most);
                    let Ok(Message::Reports { entries, .. }) = decode(message) else { panic!() };
                    told += entries.count();
                }
                encoder.push(&Report { flow, arrival: 1, departure: 1 });
            }
            let Ok(Message::Reports { entries, .. }) = decode(encoder.finish(Time::ZERO).unwrap()) else { panic!() };
            prop_assert_eq!(told + entries.count(), flows.len());
        }

        #[test]
        fn resource_management_decodes_to_itself_and_a_switch_only_lowers_it(
            nanos in any::<u64>(), rate in any::<u32>(), residual in any::<u32>(),
        ) {
            let rm = Rm { stamp: Time::from_nanos(nanos), rate };
            let (mut forward, mut backward) = (rm.encode_forward(), rm.encode_backward());
            prop_assert_eq!(decode(&forward), Ok(Message::RmForward(rm)));
            lower_explicit_rate(&mut forward, residual);
            lower_explicit_rate(&mut backward, residual);
            prop_assert_eq!(decode(&forward), Ok(Message::RmForward(Rm { rate: rate.min(residual), ..rm })));
            prop_assert_eq!(decode(&backward), Ok(Message::RmBackward(rm)));
            prop_assert_eq!(decode(&forward[..RM_BYTES - 1]), Err(Malformed));
        }

        #[test]
        fn any_bytes_decode_or_are_malformed(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn a_shortened_or_lengthened_message_is_malformed(flow in flow_name(), cut in 1usize..10, more in any::<u8>()) {
            let mut encoder = Encoder::default();
            encoder.push(&Report { flow, arrival: 7, departure: 5 });
            let message = encoder.finish(Time::ZERO).unwrap();
            prop_assert_eq!(decode(&message[..message.len() - cut]), Err(Malformed));
            let mut longer = message.to_vec();
            longer.push(more);
            prop_assert_eq!(decode(&longer), Err(Malformed));
        }
    }
}

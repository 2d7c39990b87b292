//! Forward and backward feedback packets.
//!
//! Source: NBP, section II.B and Fig. 5 (contents); the encoding is ours.
//!
//! All numbers are big-endian. A message begins with one byte of version and kind, then:
//!
//! | forward (kind 1) | bytes | backward (kind 2) | bytes |
//! |---|---|---|---|
//! | time stamp, ns | 8 | time stamp of the forward packet, ns | 8 |
//! | number of flows | 2 | flags: bit 0 asynchronous, bit 1 with echoes | 1 |
//! | flow specifications | | hop count | 1 |
//! | | | number of flows | 2 |
//! | | | flow specifications, each with its egress rate (bytes/s, 4 bytes) and, with echoes, its echo (4 bytes) | |
//!
//! A flow specification is a byte that names its form and then the fields of [`ClassKey`]: 14 bytes for an IPv4 flow.
//! An echo is the stamp of the flow's last packet plus the microseconds since that left; zero if none did since the last report
//! (`round_trip = "data"`). Egress rates saturate at 2^32 - 1 bytes/s (34 Gbit/s): a flow that leaves faster is held to that.
//! Decoding is total: any bytes give a message or [`Malformed`]; trailing bytes are malformed.

use alloc::vec::Vec;

use tidegate_packet::{Address, FlowKey, Protocol};
use tidegate_units::Time;

use super::ClassKey;
pub use crate::wire::Malformed;
use crate::wire::Reader;

const VERSION: u8 = 1;
const FORWARD: u8 = VERSION << 4 | 1;
const BACKWARD: u8 = VERSION << 4 | 2;
const ASYNCHRONOUS: u8 = 1;
const WITH_ECHOES: u8 = 2;

const FORM_FLOW_V4: u8 = 1;
const FORM_FLOW_V6: u8 = 2;
const FORM_PAIR_V4: u8 = 3;
const FORM_PAIR_V6: u8 = 4;
const FORM_NETWORK_V4: u8 = 5;
const FORM_NETWORK_V6: u8 = 6;

/// Bytes of a forward message without flows.
pub const FORWARD_BYTES: usize = 11;
/// Bytes of a backward message without flows.
pub const BACKWARD_BYTES: usize = 13;
/// Bytes of an egress rate, and of an echo.
const NUMBER_BYTES: usize = 4;

/// What a feedback packet says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Feedback {
    /// From an ingress: the flows that it sends to this egress.
    Forward {
        /// When it was sent, on the ingress's clock.
        timestamp: Time,
        /// The flows.
        flows: Vec<ClassKey>,
    },
    /// From an egress: how fast flows leave.
    Backward {
        /// The time stamp of the forward packet that it answers.
        timestamp: Time,
        /// Sent unasked: the time stamp means nothing.
        asynchronous: bool,
        /// Routers between ingress and egress.
        hop_count: u8,
        /// Flows and their egress rates in bytes per second.
        flows: Vec<(ClassKey, u32)>,
        /// By flow, if there are any: the stamp of its last packet, as old as it was; zero if none came.
        echoes: Vec<u32>,
    },
}

/// A flow in a message. What the message does not say is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) key: ClassKey,
    /// Its egress rate, bytes per second.
    pub(super) rate: u32,
    /// See the module.
    pub(super) echo: u32,
}

/// Bytes of the encoded specification of a flow.
pub fn spec_bytes(key: &ClassKey) -> usize {
    1 + match key {
        ClassKey::Flow(FlowKey { source: Address::V4(_), .. }) => 4 + 4 + 1 + 2 + 2,
        ClassKey::Flow(FlowKey { source: Address::V6(_), .. }) => 16 + 16 + 4 + 1 + 2 + 2,
        ClassKey::AddressPair { source: Address::V4(_), .. } => 4 + 4,
        ClassKey::AddressPair { source: Address::V6(_), .. } => 16 + 16,
        ClassKey::DestinationNetwork { network: Address::V4(_), .. } => 4 + 1,
        ClassKey::DestinationNetwork { network: Address::V6(_), .. } => 16 + 1,
    }
}

fn put_address(out: &mut Vec<u8>, address: Address) {
    match address {
        Address::V4(octets) => out.extend_from_slice(&octets),
        Address::V6(octets) => out.extend_from_slice(&octets),
    }
}

fn put_spec(out: &mut Vec<u8>, key: &ClassKey) {
    let form = |address: &Address, v4, v6| if matches!(address, Address::V4(_)) { v4 } else { v6 };
    match key {
        ClassKey::Flow(flow) => {
            out.push(form(&flow.source, FORM_FLOW_V4, FORM_FLOW_V6));
            put_address(out, flow.source);
            put_address(out, flow.destination);
            if matches!(flow.source, Address::V6(_)) {
                out.extend_from_slice(&flow.flow_label.to_be_bytes());
            }
            out.push(flow.protocol.0);
            out.extend_from_slice(&flow.source_port.to_be_bytes());
            out.extend_from_slice(&flow.destination_port.to_be_bytes());
        }
        ClassKey::AddressPair { source, destination } => {
            out.push(form(source, FORM_PAIR_V4, FORM_PAIR_V6));
            put_address(out, *source);
            put_address(out, *destination);
        }
        ClassKey::DestinationNetwork { network, prefix_bits } => {
            out.push(form(network, FORM_NETWORK_V4, FORM_NETWORK_V6));
            put_address(out, *network);
            out.push(*prefix_bits);
        }
    }
}

/// Builds messages of at most a given size from a list of flows, in a buffer that is reused.
#[derive(Debug, Default)]
pub struct Encoder {
    buffer: Vec<u8>,
    count: u16,
    count_at: usize,
}

impl Encoder {
    /// Begins a forward message.
    pub fn forward(&mut self, timestamp: Time) {
        self.buffer.clear();
        self.buffer.push(FORWARD);
        self.buffer.extend_from_slice(&timestamp.as_nanos().to_be_bytes());
        self.begin_flows();
    }

    /// Begins a backward message; `with_echoes` if its flows have echoes.
    pub fn backward(&mut self, timestamp: Time, asynchronous: bool, hop_count: u8, with_echoes: bool) {
        self.buffer.clear();
        self.buffer.push(BACKWARD);
        self.buffer.extend_from_slice(&timestamp.as_nanos().to_be_bytes());
        let unasked = if asynchronous { ASYNCHRONOUS } else { 0 };
        self.buffer.push(unasked | if with_echoes { WITH_ECHOES } else { 0 });
        self.buffer.push(hop_count);
        self.begin_flows();
    }

    fn begin_flows(&mut self) {
        self.count = 0;
        self.count_at = self.buffer.len();
        self.buffer.extend_from_slice(&[0, 0]);
    }

    /// Whether a further flow with so many `numbers` (its rate, its echo) still fits into `bytes_max`. An empty message always
    /// takes one.
    pub fn has_room(&self, key: &ClassKey, numbers: usize, bytes_max: usize) -> bool {
        let more = spec_bytes(key) + numbers * NUMBER_BYTES;
        self.count == 0 || (self.count < u16::MAX && self.buffer.len() + more <= bytes_max)
    }

    /// Adds a flow to a forward message.
    pub fn push(&mut self, key: &ClassKey) {
        put_spec(&mut self.buffer, key);
        self.count += 1;
    }

    /// Adds a flow to a backward message.
    pub fn push_with_rate(&mut self, key: &ClassKey, bytes_per_second: u32) {
        self.push(key);
        self.buffer.extend_from_slice(&bytes_per_second.to_be_bytes());
    }

    /// Adds the echo of the flow that was added last.
    pub fn push_echo(&mut self, echo: u32) {
        self.buffer.extend_from_slice(&echo.to_be_bytes());
    }

    /// The message.
    pub fn finish(&mut self) -> &[u8] {
        self.buffer[self.count_at..self.count_at + 2].copy_from_slice(&self.count.to_be_bytes());
        &self.buffer
    }

    /// How many flows it has so far.
    pub const fn count(&self) -> u16 {
        self.count
    }
}

impl Reader<'_> {
    fn spec(&mut self) -> Result<ClassKey, Malformed> {
        let form = self.u8()?;
        let v6 = matches!(form, FORM_FLOW_V6 | FORM_PAIR_V6 | FORM_NETWORK_V6);
        match form {
            FORM_FLOW_V4 | FORM_FLOW_V6 => Ok(ClassKey::Flow(FlowKey {
                source: self.address(v6)?,
                destination: self.address(v6)?,
                flow_label: if v6 { self.u32()? } else { 0 },
                protocol: Protocol(self.u8()?),
                source_port: self.u16()?,
                destination_port: self.u16()?,
            })),
            FORM_PAIR_V4 | FORM_PAIR_V6 => {
                Ok(ClassKey::AddressPair { source: self.address(v6)?, destination: self.address(v6)? })
            }
            FORM_NETWORK_V4 | FORM_NETWORK_V6 => {
                let (network, prefix_bits) = (self.address(v6)?, self.u8()?);
                let longest = if v6 { 128 } else { 32 };
                if prefix_bits > longest || network.network(prefix_bits) != network {
                    return Err(Malformed);
                }
                Ok(ClassKey::DestinationNetwork { network, prefix_bits })
            }
            _ => Err(Malformed),
        }
    }
}

/// What a message says besides its flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// See [`Feedback::Forward`].
    Forward { timestamp: Time },
    /// See [`Feedback::Backward`].
    Backward { timestamp: Time, asynchronous: bool, hop_count: u8 },
}

/// The message in `bytes`; its flows take the place of what was in `flows`.
///
/// # Errors
/// When they are no message, or more than one.
pub(super) fn decode_into(bytes: &[u8], flows: &mut Vec<Listed>) -> Result<Head, Malformed> {
    decode_listed(bytes, flows).map(|(head, _)| head)
}

/// The same, and whether there are echoes.
fn decode_listed(bytes: &[u8], flows: &mut Vec<Listed>) -> Result<(Head, bool), Malformed> {
    flows.clear();
    let mut reader = Reader(bytes);
    let kind = reader.u8()?;
    let (head, has_rates, has_echoes) = match kind {
        FORWARD => (Head::Forward { timestamp: reader.time()? }, false, false),
        BACKWARD => {
            let timestamp = reader.time()?;
            let flags = reader.u8()?;
            if flags & !(ASYNCHRONOUS | WITH_ECHOES) != 0 {
                return Err(Malformed);
            }
            let asynchronous = flags & ASYNCHRONOUS != 0;
            (
                Head::Backward { timestamp, asynchronous, hop_count: reader.u8()? },
                true,
                flags & WITH_ECHOES != 0,
            )
        }
        _ => return Err(Malformed),
    };
    for _ in 0..reader.u16()? {
        let key = reader.spec()?;
        let rate = if has_rates { reader.u32()? } else { 0 };
        let echo = if has_echoes { reader.u32()? } else { 0 };
        flows.push(Listed { key, rate, echo });
    }
    reader.finish((head, has_echoes))
}

/// The message in `bytes`.
///
/// # Errors
/// When they are no message, or more than one.
pub fn decode(bytes: &[u8]) -> Result<Feedback, Malformed> {
    let mut flows = Vec::new();
    let (head, has_echoes) = decode_listed(bytes, &mut flows)?;
    Ok(match head {
        Head::Forward { timestamp } => {
            Feedback::Forward { timestamp, flows: flows.into_iter().map(|flow| flow.key).collect() }
        }
        Head::Backward { timestamp, asynchronous, hop_count } => {
            let echoes = if has_echoes { flows.iter().map(|flow| flow.echo).collect() } else { Vec::new() };
            let flows = flows.into_iter().map(|flow| (flow.key, flow.rate)).collect();
            Feedback::Backward { timestamp, asynchronous, hop_count, flows, echoes }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(v6: bool) -> BoxedStrategy<Address> {
        if v6 {
            any::<[u8; 16]>().prop_map(Address::V6).boxed()
        } else {
            any::<[u8; 4]>().prop_map(Address::V4).boxed()
        }
    }

    fn class_key() -> impl Strategy<Value = ClassKey> {
        any::<bool>().prop_flat_map(|v6| {
            let flow = (address(v6), address(v6), any::<(u32, u8, u16, u16)>()).prop_map(
                move |(source, destination, (label, protocol, source_port, destination_port))| {
                    ClassKey::Flow(FlowKey {
                        source,
                        destination,
                        flow_label: if v6 { label } else { 0 },
                        protocol: Protocol(protocol),
                        source_port,
                        destination_port,
                    })
                },
            );
            let pair = (address(v6), address(v6))
                .prop_map(|(source, destination)| ClassKey::AddressPair { source, destination });
            let network =
                (address(v6), 0..=if v6 { 128u8 } else { 32 }).prop_map(|(network, prefix_bits)| {
                    ClassKey::DestinationNetwork { network: network.network(prefix_bits), prefix_bits }
                });
            prop_oneof![flow, pair, network]
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(
            nanos in any::<u64>(), asynchronous in any::<bool>(), hop_count in any::<u8>(), with_echoes in any::<bool>(),
            flows in prop::collection::vec((class_key(), any::<u32>()), 0..40),
        ) {
            let timestamp = Time::from_nanos(nanos);
            let mut encoder = Encoder::default();
            encoder.forward(timestamp);
            for (key, _) in &flows {
                encoder.push(key);
            }
            let keys = flows.iter().map(|(key, _)| *key).collect();
            prop_assert_eq!(decode(encoder.finish()), Ok(Feedback::Forward { timestamp, flows: keys }));
            encoder.backward(timestamp, asynchronous, hop_count, with_echoes);
            for (key, rate) in &flows {
                encoder.push_with_rate(key, *rate);
                if with_echoes {
                    encoder.push_echo(!*rate);
                }
            }
            let echoes = if with_echoes { flows.iter().map(|(_, rate)| !rate).collect() } else { Vec::new() };
            prop_assert_eq!(
                decode(encoder.finish()),
                Ok(Feedback::Backward { timestamp, asynchronous, hop_count, flows, echoes })
            );
        }

        #[test]
        fn any_bytes_give_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn damaged_messages_never_panic_and_truncated_ones_are_refused(
            flows in prop::collection::vec(class_key(), 1..5), cut in any::<prop::sample::Index>(), flip in any::<u8>(),
        ) {
            let mut encoder = Encoder::default();
            encoder.forward(Time::ZERO);
            for key in &flows {
                encoder.push(key);
            }
            let mut bytes = encoder.finish().to_vec();
            let at = cut.index(bytes.len());
            prop_assert_eq!(decode(&bytes[..at]), Err(Malformed));
            bytes[at] ^= flip;
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn an_ipv4_flow_takes_fourteen_bytes() {
        let key = ClassKey::Flow(FlowKey {
            source: Address::V4([1, 2, 3, 4]),
            destination: Address::V4([5, 6, 7, 8]),
            flow_label: 0,
            protocol: Protocol::TCP,
            source_port: 1,
            destination_port: 2,
        });
        let mut encoder = Encoder::default();
        encoder.forward(Time::ZERO);
        assert_eq!(encoder.finish().len(), FORWARD_BYTES);
        encoder.push(&key);
        assert_eq!(encoder.finish().len(), FORWARD_BYTES + 14);
        encoder.backward(Time::ZERO, true, 3, false);
        assert_eq!(encoder.finish().len(), BACKWARD_BYTES);
    }
}

//! The fields of records.

use tidegate_packet::{
    Address, Arrival, DropReason, Headers, LinkId, MarkReason, OutsideTcp, Place, Protocol,
};

use super::fields::{Fields, put_bytes};
use super::{Configuration, Decision, DecodeError, Record, Verdict};

/// Appends kind and fields of `record`.
pub(super) fn encode(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Configuration(configuration) => {
            out.push(0);
            for text in [&configuration.version, &configuration.name, &configuration.scenario] {
                put_bytes(out, text.as_bytes());
            }
            out.extend((configuration.files.len() as u32).to_le_bytes());
            for (name, text) in &configuration.files {
                put_bytes(out, name.as_bytes());
                put_bytes(out, text.as_bytes());
            }
            out.extend((configuration.overrides.len() as u32).to_le_bytes());
            for text in &configuration.overrides {
                put_bytes(out, text.as_bytes());
            }
            out.extend(configuration.seed.to_le_bytes());
            out.extend(configuration.flows_per_pair.to_le_bytes());
        }
        Record::Headers(flow, headers) => {
            out.push(1);
            out.extend(flow.to_le_bytes());
            for address in [headers.source, headers.destination] {
                match address {
                    Address::V4(octets) => put_bytes(out, &octets),
                    Address::V6(octets) => put_bytes(out, &octets),
                }
            }
            out.extend(headers.flow_label.to_le_bytes());
            out.extend(headers.source_port.to_le_bytes());
            out.extend(headers.destination_port.to_le_bytes());
            out.extend([headers.protocol.0, headers.dscp.get(), headers.ecn as u8]);
        }
        Record::Arrival(at, arrival) => {
            out.push(2);
            out.extend(at.as_nanos().to_le_bytes());
            out.extend(arrival.flow.to_le_bytes());
            out.extend(arrival.handle.to_le_bytes());
            out.extend(arrival.wire_bytes.to_le_bytes());
            out.extend([arrival.ecn as u8, arrival.dscp.get(), arrival.ttl]);
            encode_tcp(arrival.tcp, out);
        }
        Record::Ran(at) => {
            out.push(3);
            out.extend(at.as_nanos().to_le_bytes());
        }
        Record::Decision(decision) => encode_decision(decision, out),
        Record::End(at) => {
            out.push(5);
            out.extend(at.as_nanos().to_le_bytes());
        }
    }
}

/// Numbers of the bits that say what of a TCP header is there.
const HAS_TCP: u8 = 1;
const HAS_ACK: u8 = 2;
const HAS_SHIFT: u8 = 4;
const HAS_ECHO: u8 = 8;

fn encode_tcp(tcp: Option<OutsideTcp>, out: &mut Vec<u8>) {
    let Some(tcp) = tcp else { return out.push(0) };
    let ack = if tcp.has_ack { HAS_ACK } else { 0 };
    let shift = if tcp.announced_shift.is_some() { HAS_SHIFT } else { 0 };
    out.push(HAS_TCP | ack | shift | if tcp.ecn_echo { HAS_ECHO } else { 0 });
    out.extend(tcp.sequence.to_le_bytes());
    out.extend(tcp.acknowledgment.to_le_bytes());
    out.extend(tcp.payload_bytes.to_le_bytes());
    out.extend(tcp.window.to_le_bytes());
    out.extend(tcp.announced_shift);
}

fn encode_decision(decision: &Decision, out: &mut Vec<u8>) {
    out.push(4);
    out.extend(decision.at.as_nanos().to_le_bytes());
    out.extend(decision.flow.to_le_bytes());
    out.extend(decision.handle.to_le_bytes());
    out.extend(decision.wire_bytes.to_le_bytes());
    out.extend(decision.label.to_le_bytes());
    out.extend([decision.ecn as u8, decision.dscp.get(), decision.ttl]);
    match &decision.verdict {
        Verdict::Hop(link, message) => {
            out.push(0);
            out.extend(link.0.to_le_bytes());
            put_bytes(out, message);
        }
        Verdict::Drop(at, why) => {
            out.push(1);
            place(out, *at);
            out.push(why.index() as u8);
        }
        Verdict::Mark(at, why) => {
            out.push(2);
            place(out, *at);
            out.push(why.index() as u8);
        }
        Verdict::Out(tcp) => {
            out.push(3);
            encode_tcp(Some(*tcp), out);
        }
    }
}

fn place(out: &mut Vec<u8>, place: Place) {
    let (kind, number) = match place {
        Place::Link(link) => (0, link.0),
        Place::Edge(edge) => (1, edge),
        Place::Node(node) => (2, node),
        Place::Marker(marker) => (3, marker),
    };
    out.push(kind);
    out.extend(number.to_le_bytes());
}

/// The record with these kind and fields.
pub(super) fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    let mut fields = Fields(bytes);
    let record = match fields.byte()? {
        0 => Record::Configuration(Configuration {
            version: fields.text()?,
            name: fields.text()?,
            scenario: fields.text()?,
            files: {
                let count = fields.u32()?;
                (0..count).map(|_| Ok((fields.text()?, fields.text()?))).collect::<Result<_, _>>()?
            },
            overrides: {
                let count = fields.u32()?;
                (0..count).map(|_| fields.text()).collect::<Result<_, _>>()?
            },
            seed: fields.u64()?,
            flows_per_pair: fields.u32()?,
        }),
        1 => Record::Headers(
            fields.u32()?,
            Headers {
                source: fields.address()?,
                destination: fields.address()?,
                flow_label: fields.u32()?,
                source_port: fields.u16()?,
                destination_port: fields.u16()?,
                protocol: Protocol(fields.byte()?),
                dscp: fields.dscp()?,
                ecn: fields.ecn()?,
            },
        ),
        2 => Record::Arrival(
            fields.time()?,
            Arrival {
                flow: fields.u32()?,
                handle: fields.u64()?,
                wire_bytes: fields.u32()?,
                ecn: fields.ecn()?,
                dscp: fields.dscp()?,
                ttl: fields.byte()?,
                tcp: fields.tcp()?,
            },
        ),
        3 => Record::Ran(fields.time()?),
        4 => Record::Decision(fields.decision()?),
        5 => Record::End(fields.time()?),
        _ => return Err(DecodeError::Malformed("a record has an unknown kind")),
    };
    fields.end().map(|()| record)
}

impl Fields<'_> {
    fn place(&mut self) -> Result<Place, DecodeError> {
        let kind = self.byte()?;
        let number = self.u32()?;
        match kind {
            0 => Ok(Place::Link(LinkId(number))),
            1 => Ok(Place::Edge(number)),
            2 => Ok(Place::Node(number)),
            3 => Ok(Place::Marker(number)),
            _ => Err(DecodeError::Malformed("a place has an unknown kind")),
        }
    }

    fn tcp(&mut self) -> Result<Option<OutsideTcp>, DecodeError> {
        let bits = self.byte()?;
        if bits == 0 {
            return Ok(None);
        }
        if bits & HAS_TCP == 0 || bits > (HAS_TCP | HAS_ACK | HAS_SHIFT | HAS_ECHO) {
            return Err(DecodeError::Malformed("a TCP header has unknown parts"));
        }
        Ok(Some(OutsideTcp {
            sequence: self.u32()?,
            acknowledgment: self.u32()?,
            payload_bytes: self.u16()?,
            window: self.u16()?,
            has_ack: bits & HAS_ACK != 0,
            ecn_echo: bits & HAS_ECHO != 0,
            announced_shift: if bits & HAS_SHIFT == 0 { None } else { Some(self.byte()?) },
        }))
    }

    fn decision(&mut self) -> Result<Decision, DecodeError> {
        let (at, flow, handle) = (self.time()?, self.u32()?, self.u64()?);
        let (wire_bytes, label) = (self.u32()?, self.u32()?);
        let (ecn, dscp, ttl) = (self.ecn()?, self.dscp()?, self.byte()?);
        let verdict = match self.byte()? {
            0 => Verdict::Hop(LinkId(self.u32()?), self.bytes()?.to_vec()),
            1 => Verdict::Drop(self.place()?, self.reason(DropReason::ALL)?),
            2 => Verdict::Mark(self.place()?, self.reason(MarkReason::ALL)?),
            3 => Verdict::Out(self.tcp()?.ok_or(DecodeError::Malformed("a packet left without a header"))?),
            _ => return Err(DecodeError::Malformed("a verdict has an unknown kind")),
        };
        Ok(Decision { at, verdict, flow, handle, wire_bytes, label, ecn, dscp, ttl })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tidegate_packet::{Dscp, Ecn};
    use tidegate_units::Time;

    proptest! {
        /// What is decoded is encoded to the same bytes, so no byte of a record is without meaning.
        #[test]
        fn any_bytes_give_a_record_or_an_error(kind in 0u8..7, bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let bytes = [&[kind][..], &bytes].concat();
            if let Ok(record) = decode(&bytes) {
                let mut again = Vec::new();
                encode(&record, &mut again);
                prop_assert_eq!(bytes, again);
            }
        }

        #[test]
        fn a_decision_survives(
            at in any::<u64>(), flow in any::<u32>(), handle in any::<u64>(), place in 0u8..3, what in 0u8..4, small in 0u8..4
        ) {
            let place = match place {
                0 => Place::Link(LinkId(flow)),
                1 => Place::Edge(flow),
                2 => Place::Marker(flow),
                _ => Place::Node(flow),
            };
            let verdict = match what {
                0 => Verdict::Hop(LinkId(flow), vec![small; usize::from(small)]),
                1 => Verdict::Drop(place, DropReason::ALL[usize::from(small)]),
                2 => Verdict::Mark(place, MarkReason::ALL[usize::from(small) % 3]),
                _ => Verdict::Out(OutsideTcp {
                    sequence: flow, acknowledgment: !flow, payload_bytes: flow as u16, window: small.into(), has_ack: small > 1,
                    ecn_echo: small % 2 == 1, announced_shift: (small == 3).then_some(small),
                }),
            };
            let decision = Decision {
                at: Time::from_nanos(at), verdict, flow, handle, wire_bytes: flow, label: flow,
                ecn: Ecn::from_bits(small), dscp: Dscp::new(small), ttl: small,
            };
            let mut bytes = Vec::new();
            encode(&Record::Decision(decision.clone()), &mut bytes);
            prop_assert_eq!(decode(&bytes).unwrap(), Record::Decision(decision));
        }
    }
}

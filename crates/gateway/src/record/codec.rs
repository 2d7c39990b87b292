//! The fields of records.

use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

use tidegate_packet::{DropReason, MarkReason};
use tidegate_units::Time;
use tidegate_wire::recording::fields::{Fields, put_bytes};
use tidegate_wire::recording::frames::DecodeError;

use super::step::{
    ANSWERS_MAX, Answer, Begin, COUNTS, Kept, SITES_MAX, Step, Stray, VERDICTS_MAX, Verdict, What,
};
use crate::core::store::Way;
use crate::tunnel::{Addressed, Opened, Refusal};

/// Instants are before this one, so that what is added to them has room: more than a century.
const INSTANT_MAX: u64 = 1 << 62;

// Numbers of what may stand in a record. What happened, by position in `What`; then answers and verdicts.
const ADDRESSED: u8 = 0;
const UP: u8 = 1;
const SEALED: u8 = 2;
const OPENED: u8 = 3;
const SAID: u8 = 4;
const TIMEOUT: u8 = 5;
const VERDICT_LAN: u8 = 16;
const VERDICT_WAN: u8 = 17;
const VERDICT_SEALED: u8 = 18;
const VERDICT_DROPPED: u8 = 19;
const VERDICT_MARKED: u8 = 20;
const VERDICT_UNHELD: u8 = 21;
const VERDICT_STRAY: u8 = 22;
const VERDICT_PASSED: u8 = 23;

fn put_socket(out: &mut Vec<u8>, socket: &SocketAddr) {
    match socket {
        SocketAddr::V4(socket) => {
            out.push(4);
            out.extend(socket.ip().octets());
        }
        SocketAddr::V6(socket) => {
            out.push(6);
            out.extend(socket.ip().octets());
            out.extend(socket.flowinfo().to_le_bytes());
            out.extend(socket.scope_id().to_le_bytes());
        }
    }
    out.extend(socket.port().to_le_bytes());
}

/// A packet of `bytes` bytes with this beginning.
fn put_kept(out: &mut Vec<u8>, bytes: usize, beginning: &[u8]) {
    out.extend((bytes as u16).to_le_bytes());
    out.extend((beginning.len() as u16).to_le_bytes());
    out.extend(beginning);
}

/// The instant and what happened.
pub(super) fn put_what(out: &mut Vec<u8>, at: Time, what: &What) {
    match what {
        What::Begin(begin) => {
            put_head(out, at, 0);
            put_bytes(out, begin.version.as_bytes());
            put_bytes(out, begin.text.as_bytes());
            out.extend(begin.id.to_le_bytes());
            out.extend(begin.seed.to_le_bytes());
            out.extend((begin.endpoints.len() as u32).to_le_bytes());
            for endpoint in &begin.endpoints {
                out.push(endpoint.is_some().into());
                if let Some(endpoint) = endpoint {
                    put_socket(out, endpoint);
                }
            }
        }
        What::Lan(kept) => put_lan(out, at, usize::from(kept.bytes), &kept.beginning),
        What::Wan(from, traffic_class, bytes) => {
            put_head(out, at, 2);
            put_socket(out, from);
            out.push(*traffic_class);
            out.extend(bytes.to_le_bytes());
        }
        What::PollOutput => put_head(out, at, 3),
        What::PollLan => put_head(out, at, 4),
        What::Find(site, endpoint) => {
            put_head(out, at, 5);
            out.extend(site.to_le_bytes());
            put_socket(out, endpoint);
        }
        What::Drain => put_head(out, at, 6),
        What::Close => put_head(out, at, 7),
        What::End => put_head(out, at, 8),
    }
}

fn put_head(out: &mut Vec<u8>, at: Time, what: u8) {
    out.extend(at.as_nanos().to_le_bytes());
    out.push(what);
}

/// [`What::Lan`] of a packet of `bytes` bytes with this beginning.
pub(super) fn put_lan(out: &mut Vec<u8>, at: Time, bytes: usize, beginning: &[u8]) {
    put_head(out, at, 1);
    put_kept(out, bytes, beginning);
}

/// An answer behind `foretold` others.
pub(super) fn put_answer(out: &mut Vec<u8>, foretold: u32, answer: &Answer) {
    let mut head = |kind: u8| {
        out.push(kind);
        out.extend(foretold.to_le_bytes());
    };
    match answer {
        Answer::Addressed(addressed) => {
            head(ADDRESSED);
            let (kind, number) = match addressed {
                Addressed::Peer(peer) => (0, *peer),
                Addressed::Reply(bytes) => (1, *bytes as u32),
                Addressed::Refused(why) => (2, *why as u32),
            };
            out.push(kind);
            out.extend(number.to_le_bytes());
        }
        Answer::Up(is_up) => {
            head(UP);
            out.push((*is_up).into());
        }
        Answer::Sealed(bytes) => {
            head(SEALED);
            out.push(bytes.is_some().into());
            out.extend(bytes.unwrap_or(0).to_le_bytes());
        }
        Answer::Opened(opened, kept) => put_opened(out, foretold, *opened, &kept.beginning),
        Answer::Said(bytes) => {
            head(SAID);
            out.extend(bytes.to_le_bytes());
        }
        Answer::Timeout(at) => {
            head(TIMEOUT);
            out.push(at.is_some().into());
            out.extend(at.unwrap_or(Time::ZERO).as_nanos().to_le_bytes());
        }
    }
}

/// [`Answer::Opened`] with a packet that has this beginning.
pub(super) fn put_opened(out: &mut Vec<u8>, foretold: u32, opened: Opened, beginning: &[u8]) {
    out.push(OPENED);
    out.extend(foretold.to_le_bytes());
    match opened {
        Opened::Packet(bytes) => {
            out.push(0);
            put_kept(out, bytes, beginning);
        }
        Opened::Handshake => out.push(1),
        Opened::Noted => out.push(2),
        Opened::Refused(why) => out.extend([3, why as u8]),
        Opened::Asked => out.push(4),
    }
}

pub(super) fn put_verdict(out: &mut Vec<u8>, verdict: &Verdict) {
    match verdict {
        Verdict::Lan(bytes, traffic_class, digest) => {
            out.push(VERDICT_LAN);
            out.extend(bytes.to_le_bytes());
            out.push(*traffic_class);
            out.extend(digest.to_le_bytes());
        }
        Verdict::Wan(to, traffic_class, bytes) => {
            out.push(VERDICT_WAN);
            put_socket(out, to);
            out.push(*traffic_class);
            out.extend(bytes.to_le_bytes());
        }
        Verdict::Sealed(site, bytes, traffic_class, digest) => {
            out.push(VERDICT_SEALED);
            out.extend(site.to_le_bytes());
            out.extend(bytes.to_le_bytes());
            out.push(*traffic_class);
            out.extend(digest.to_le_bytes());
        }
        Verdict::Dropped(site, bytes, why) => {
            out.push(VERDICT_DROPPED);
            out.extend(site.to_le_bytes());
            out.extend(bytes.to_le_bytes());
            out.push(why.index() as u8);
        }
        Verdict::Marked(site, bytes, why) => {
            out.push(VERDICT_MARKED);
            out.extend(site.to_le_bytes());
            out.extend(bytes.to_le_bytes());
            out.push(why.index() as u8);
        }
        Verdict::Unheld(site, way) => {
            out.push(VERDICT_UNHELD);
            out.extend(site.to_le_bytes());
            out.push(*way as u8);
        }
        Verdict::Stray(stray) => {
            out.push(VERDICT_STRAY);
            let (kind, why) = match stray {
                Stray::Bad => (0, 0),
                Stray::Unrouted => (1, 0),
                Stray::Refused(why) => (2, *why as u8),
                Stray::Unrelayed => (3, 0),
            };
            out.extend([kind, why]);
        }
        Verdict::Passed(site, counts) => {
            out.push(VERDICT_PASSED);
            out.extend(site.to_le_bytes());
            for count in counts.iter() {
                out.extend(count.to_le_bytes());
            }
        }
    }
}

/// Fields that only gateways have.
struct Reader<'a>(Fields<'a>);

const UNKNOWN: DecodeError = DecodeError::Malformed("a record has an unknown part");

impl Reader<'_> {
    fn instant(&mut self) -> Result<Time, DecodeError> {
        match self.0.u64()? {
            nanos @ 0..INSTANT_MAX => Ok(Time::from_nanos(nanos)),
            _ => Err(DecodeError::Malformed("an instant is too far away")),
        }
    }
    fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.0.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(UNKNOWN),
        }
    }
    fn socket(&mut self) -> Result<SocketAddr, DecodeError> {
        match self.0.byte()? {
            4 => Ok(SocketAddrV4::new(self.0.array::<4>()?.into(), self.0.u16()?).into()),
            6 => {
                let address = self.0.array::<16>()?.into();
                let (flow, scope) = (self.0.u32()?, self.0.u32()?);
                Ok(SocketAddrV6::new(address, self.0.u16()?, flow, scope).into())
            }
            _ => Err(UNKNOWN),
        }
    }
    fn kept(&mut self) -> Result<Kept, DecodeError> {
        let (bytes, beginning) = (self.0.u16()?, self.0.u16()?);
        if beginning > bytes {
            return Err(DecodeError::Malformed("the beginning of a packet is longer than the packet"));
        }
        Ok(Kept { bytes, beginning: self.0.take(beginning.into())?.to_vec() })
    }
    fn refusal(&mut self) -> Result<Refusal, DecodeError> {
        self.0.reason(&Refusal::ALL)
    }

    fn what(&mut self) -> Result<What, DecodeError> {
        Ok(match self.0.byte()? {
            0 => What::Begin(Box::new(Begin {
                version: self.0.text()?,
                text: self.0.text()?,
                id: self.0.u64()?,
                seed: self.0.u64()?,
                endpoints: {
                    let count = self.0.u32()?;
                    if count > SITES_MAX {
                        return Err(DecodeError::Malformed("a configuration has too many sites"));
                    }
                    let endpoint = |_| Ok(if self.flag()? { Some(self.socket()?) } else { None });
                    (0..count).map(endpoint).collect::<Result<_, _>>()?
                },
            })),
            1 => What::Lan(self.kept()?),
            2 => What::Wan(self.socket()?, self.0.byte()?, self.0.u16()?),
            3 => What::PollOutput,
            4 => What::PollLan,
            5 => What::Find(self.0.u32()?, self.socket()?),
            6 => What::Drain,
            7 => What::Close,
            8 => What::End,
            _ => return Err(UNKNOWN),
        })
    }

    fn answer(&mut self, kind: u8) -> Result<Answer, DecodeError> {
        Ok(match kind {
            ADDRESSED => {
                let (which, number) = (self.0.byte()?, self.0.u32()?);
                Answer::Addressed(match which {
                    0 => Addressed::Peer(number),
                    1 => Addressed::Reply(number as usize),
                    2 => Addressed::Refused(*Refusal::ALL.get(number as usize).ok_or(UNKNOWN)?),
                    _ => return Err(UNKNOWN),
                })
            }
            UP => Answer::Up(self.flag()?),
            SEALED => match (self.flag()?, self.0.u16()?) {
                (true, bytes) => Answer::Sealed(Some(bytes)),
                (false, 0) => Answer::Sealed(None),
                (false, _) => return Err(UNKNOWN),
            },
            OPENED => match self.0.byte()? {
                0 => {
                    let kept = self.kept()?;
                    Answer::Opened(Opened::Packet(kept.bytes.into()), kept)
                }
                1 => Answer::Opened(Opened::Handshake, Kept::default()),
                2 => Answer::Opened(Opened::Noted, Kept::default()),
                3 => Answer::Opened(Opened::Refused(self.refusal()?), Kept::default()),
                4 => Answer::Opened(Opened::Asked, Kept::default()),
                _ => return Err(UNKNOWN),
            },
            SAID => Answer::Said(self.0.u16()?),
            TIMEOUT => match (self.flag()?, self.0.time()?) {
                (true, at) => Answer::Timeout(Some(at)),
                (false, Time::ZERO) => Answer::Timeout(None),
                (false, _) => return Err(UNKNOWN),
            },
            _ => return Err(UNKNOWN),
        })
    }

    fn verdict(&mut self, kind: u8) -> Result<Verdict, DecodeError> {
        let fields = &mut self.0;
        Ok(match kind {
            VERDICT_LAN => Verdict::Lan(fields.u16()?, fields.byte()?, fields.u32()?),
            VERDICT_WAN => Verdict::Wan(self.socket()?, self.0.byte()?, self.0.u16()?),
            VERDICT_SEALED => Verdict::Sealed(fields.u32()?, fields.u16()?, fields.byte()?, fields.u32()?),
            VERDICT_DROPPED => {
                Verdict::Dropped(fields.u32()?, fields.u32()?, fields.reason(DropReason::ALL)?)
            }
            VERDICT_MARKED => Verdict::Marked(fields.u32()?, fields.u32()?, fields.reason(MarkReason::ALL)?),
            VERDICT_UNHELD => Verdict::Unheld(fields.u32()?, fields.reason(&[Way::Out, Way::In])?),
            VERDICT_STRAY => Verdict::Stray(match (fields.byte()?, self.refusal()?) {
                (0, Refusal::Malformed) => Stray::Bad,
                (1, Refusal::Malformed) => Stray::Unrouted,
                (2, why) => Stray::Refused(why),
                (3, Refusal::Malformed) => Stray::Unrelayed,
                _ => return Err(UNKNOWN),
            }),
            VERDICT_PASSED => {
                let site = fields.u32()?;
                let mut counts = Box::new([0; COUNTS]);
                for count in counts.iter_mut() {
                    *count = fields.u64()?;
                }
                Verdict::Passed(site, counts)
            }
            _ => return Err(UNKNOWN),
        })
    }
}

impl Step {
    /// The bytes of it; answers are before verdicts.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_what(&mut out, self.at, &self.what);
        for (foretold, answer) in &self.answers {
            put_answer(&mut out, *foretold, answer);
        }
        for verdict in &self.verdicts {
            put_verdict(&mut out, verdict);
        }
        out
    }

    /// The step in `record`.
    ///
    /// # Errors
    /// When there is none in these bytes.
    pub fn decode(record: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader(Fields(record));
        let at = reader.instant()?;
        let what = reader.what()?;
        let mut step = Self { at, what, answers: Vec::new(), verdicts: Vec::new() };
        while let Ok(kind) = reader.0.byte() {
            if kind < VERDICT_LAN {
                let foretold = reader.0.u32()?;
                step.answers.push((foretold, reader.answer(kind)?));
            } else {
                step.verdicts.push(reader.verdict(kind)?);
            }
            if step.answers.len() > ANSWERS_MAX as usize || step.verdicts.len() > VERDICTS_MAX as usize {
                return Err(DecodeError::Malformed("a record decides too much"));
            }
        }
        Ok(step)
    }
}

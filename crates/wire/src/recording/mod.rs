//! A recording of an emulation: all that decided it, and all that was decided. A gateway's has the same frame and other records
//! ([`frames`], [`fields`]), and goes the same way to its file ([`recorder`]).
//!
//! The file begins with [`MAGIC`] and a version. Then come records: four bytes of length, one byte of kind, the fields in a
//! fixed order, little-endian. The first is the configuration, the last an end with a digest of all that precedes it.
//! Decoding is total: any bytes give records or an error.

mod codec;
pub mod fields;
pub mod frames;
pub mod recorder;

use std::fmt;
use std::io::{self, Read, Write};

use tidegate_packet::{
    Arrival, DropReason, Dscp, Ecn, Headers, LinkId, MarkReason, OutsideTcp, Packet, Place,
};
use tidegate_units::Time;

pub use self::frames::DecodeError;
use self::frames::{Format, FrameReader, FrameWriter};

/// The first bytes of a recording.
pub const MAGIC: [u8; 8] = frames::OF_EMULATION;
/// Version of the format.
pub const VERSION: u16 = 3;
/// No record is longer: the scenario of a configuration has 16 MiB at most, and its traces have 40 MB.
const RECORD_BYTES_MAX: u32 = 64 << 20;
const FORMAT: Format = Format {
    magic: MAGIC,
    version: VERSION,
    record_bytes_max: RECORD_BYTES_MAX,
    made_by: "tidegate emulate --record",
};

/// What an emulation was built from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    /// Version of Tidegate.
    pub version: String,
    /// The name of the scenario's file.
    pub name: String,
    /// The scenario, includes resolved.
    pub scenario: String,
    /// The files that the scenario names, and their texts: traces of links.
    pub files: Vec<(String, String)>,
    /// Overrides, in order.
    pub overrides: Vec<String>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Flows for each ordered pair of real hosts.
    pub flows_per_pair: u32,
}

/// What happened to a packet, real or simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its last bit reached the far end of this link; a control packet carries a message.
    Hop(LinkId, Vec<u8>),
    /// It was dropped.
    Drop(Place, DropReason),
    /// It was marked.
    Mark(Place, MarkReason),
    /// It left for its real host, with this in its TCP header; all zero without such a header.
    Out(OutsideTcp),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hop(link, message) if message.is_empty() => write!(f, "crossed {link:?}"),
            Self::Hop(link, message) => write!(f, "crossed {link:?} with message {message:02x?}"),
            Self::Drop(place, why) => write!(f, "dropped at {place:?}: {}", why.name()),
            Self::Mark(place, why) => write!(f, "marked at {place:?}: {}", why.name()),
            Self::Out(tcp) => {
                let OutsideTcp { sequence, acknowledgment, window, payload_bytes, .. } = tcp;
                let echo = if tcp.ecn_echo { ", with an echo" } else { "" };
                write!(
                    f,
                    "left for its host with window {window}, {payload_bytes} bytes at {sequence}, acknowledging {acknowledgment}{echo}"
                )
            }
        }
    }
}

/// A verdict with the packet as it was then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// When, in virtual time.
    pub at: Time,
    /// What.
    pub verdict: Verdict,
    /// The flow identity.
    pub flow: u32,
    /// What its owner calls it; of a simulated packet the sequence number.
    pub handle: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// The label of an edge.
    pub label: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its DSCP.
    pub dscp: Dscp,
    /// Hops it may still make.
    pub ttl: u8,
}

impl Decision {
    /// `verdict` on `packet`, which its owner calls `handle`.
    pub fn new(at: Time, verdict: Verdict, packet: &Packet, handle: u64) -> Self {
        Self {
            at,
            verdict,
            flow: packet.flow.0,
            handle,
            wire_bytes: packet.wire_bytes,
            label: packet.label.0,
            ecn: packet.ecn,
            dscp: packet.dscp,
            ttl: packet.ttl,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ns: packet {:#x} of flow {} ({} bytes, {:?}, DSCP {}, TTL {}, label {}) {}",
            self.at.as_nanos(),
            self.handle,
            self.flow,
            self.wire_bytes,
            self.ecn,
            self.dscp.get(),
            self.ttl,
            self.label,
            self.verdict,
        )
    }
}

/// One record.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The first one.
    Configuration(Configuration),
    /// From now on a flow has these headers.
    Headers(u32, Headers),
    /// A packet came in.
    Arrival(Time, Arrival),
    /// What was due until this instant, timers included, ran at this instant.
    Ran(Time),
    /// What happened to a packet.
    Decision(Decision),
    /// The emulation ended then.
    End(Time),
}

/// Writes a recording of an emulation. The first failure is kept and told at the end, so that a full disk does not stop it.
#[derive(Debug)]
pub struct Writer<W> {
    frames: FrameWriter<W>,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording of an emulation with `configuration`.
    pub fn new(out: W, configuration: &Configuration) -> Self {
        let mut writer = Self { frames: FrameWriter::new(out, &FORMAT), buffer: Vec::new() };
        writer.write(&Record::Configuration(configuration.clone()));
        writer
    }

    /// Adds a record.
    pub fn write(&mut self, record: &Record) {
        self.buffer.clear();
        codec::encode(record, &mut self.buffer);
        self.frames.write(&self.buffer);
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first that happened since it began.
    pub fn finish(mut self, at: Time) -> io::Result<W> {
        self.write(&Record::End(at));
        self.frames.finish()
    }
}

/// Reads a recording of an emulation.
#[derive(Debug)]
pub struct Reader<R> {
    frames: FrameReader<R>,
    has_ended: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read; what the emulation was built from.
    ///
    /// # Errors
    /// When this is no recording of this version.
    pub fn new(from: R) -> Result<(Self, Configuration), DecodeError> {
        let mut reader = Self { frames: FrameReader::new(from, &FORMAT)?, has_ended: false };
        match reader.read()? {
            Some(Record::Configuration(configuration)) => Ok((reader, configuration)),
            _ => Err(DecodeError::Malformed("it does not begin with a configuration")),
        }
    }

    /// The next record; `None` after the end.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn read(&mut self) -> Result<Option<Record>, DecodeError> {
        if self.has_ended {
            return Ok(None);
        }
        let record = codec::decode(self.frames.read()?)?;
        if let Record::End(_) = record {
            self.has_ended = true;
            self.frames.finish()?;
        }
        Ok(Some(record))
    }
}

//! A recording of an emulation: all that decided it, and all that was decided.
//!
//! The file begins with [`MAGIC`] and a version. Then come records: four bytes of length, one byte of kind, the fields in a
//! fixed order, little-endian. The first is the configuration, the last an end with a digest of all that precedes it.
//! Decoding is total: any bytes give records or an error.

mod codec;

use std::fmt;
use std::hash::Hasher;
use std::io::{self, Read, Write};

use siphasher::sip::SipHasher13;
use tidegate_packet::{
    Arrival, DropReason, Dscp, Ecn, Headers, LinkId, MarkReason, OutsideTcp, Packet, Place,
};
use tidegate_units::Time;

/// The first bytes of a recording.
pub const MAGIC: [u8; 8] = *b"TDGTREC\n";
/// Version of the format.
pub const VERSION: u16 = 3;
/// No record is longer: the scenario of a configuration has 16 MiB at most, and its traces have 40 MB.
const RECORD_BYTES_MAX: u32 = 64 << 20;

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

/// Why bytes are no recording.
#[derive(Debug)]
pub enum DecodeError {
    /// They cannot be read.
    Io(io::Error),
    /// They do not begin as one does.
    NoRecording,
    /// They are of another version.
    Version(u16),
    /// They end within the recording: it was cut off.
    CutOff,
    /// A record cannot be.
    Malformed(&'static str),
    /// They are not as they were written.
    Digest,
    /// There is more after the end.
    Appended,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(why) => write!(f, "the recording cannot be read: {why}"),
            Self::NoRecording => f.write_str("this is no recording of `tidegate emulate --record`"),
            Self::Version(version) => {
                write!(
                    f,
                    "the recording has version {version} of the format; this program reads version {VERSION}"
                )
            }
            Self::CutOff => f.write_str(
                "the recording ends early: its emulation was interrupted, or it could not be written",
            ),
            Self::Malformed(what) => write!(f, "the recording is damaged: {what}"),
            Self::Digest => f.write_str("the recording is damaged: its digest does not fit"),
            Self::Appended => f.write_str("the recording is damaged: something follows its end"),
        }
    }
}
impl std::error::Error for DecodeError {}

/// Against accidents, not against forgers: the key is no secret.
fn digest() -> SipHasher13 {
    SipHasher13::new_with_keys(0x7469_6465, 0x6761_7465)
}

/// Writes a recording. The first failure is kept and told at the end, so that a full disk does not stop an emulation.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    digest: SipHasher13,
    buffer: Vec<u8>,
    failure: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording of an emulation with `configuration`.
    pub fn new(out: W, configuration: &Configuration) -> Self {
        let mut writer = Self { out, digest: digest(), buffer: Vec::new(), failure: None };
        writer.put(&MAGIC);
        writer.put(&VERSION.to_le_bytes());
        writer.write(&Record::Configuration(configuration.clone()));
        writer
    }

    /// Adds a record.
    pub fn write(&mut self, record: &Record) {
        let mut buffer = core::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend_from_slice(&[0; 4]);
        codec::encode(record, &mut buffer);
        let length = (buffer.len() - 4) as u32;
        buffer[..4].copy_from_slice(&length.to_le_bytes());
        self.put(&buffer);
        self.buffer = buffer;
    }

    fn put(&mut self, bytes: &[u8]) {
        self.digest.write(bytes);
        if self.failure.is_none() {
            self.failure = self.out.write_all(bytes).err();
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first that happened since it began.
    pub fn finish(mut self, at: Time) -> io::Result<W> {
        self.write(&Record::End(at));
        let digest = self.digest.finish().to_le_bytes();
        self.put(&digest);
        match self.failure {
            Some(failure) => Err(failure),
            None => self.out.flush().map(|()| self.out),
        }
    }
}

/// Reads a recording.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    digest: SipHasher13,
    buffer: Vec<u8>,
    has_ended: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read; what the emulation was built from.
    ///
    /// # Errors
    /// When this is no recording of this version.
    pub fn new(from: R) -> Result<(Self, Configuration), DecodeError> {
        let mut reader = Self { from, digest: digest(), buffer: Vec::new(), has_ended: false };
        let mut magic = [0; MAGIC.len()];
        reader.get(&mut magic).map_err(|why| match why {
            DecodeError::CutOff => DecodeError::NoRecording,
            other => other,
        })?;
        if magic != MAGIC {
            return Err(DecodeError::NoRecording);
        }
        let mut version = [0; 2];
        reader.get(&mut version)?;
        let version = u16::from_le_bytes(version);
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        match reader.read()? {
            Some(Record::Configuration(configuration)) => Ok((reader, configuration)),
            _ => Err(DecodeError::Malformed("it does not begin with a configuration")),
        }
    }

    fn get(&mut self, bytes: &mut [u8]) -> Result<(), DecodeError> {
        self.from.read_exact(bytes).map_err(|why| match why.kind() {
            io::ErrorKind::UnexpectedEof => DecodeError::CutOff,
            _ => DecodeError::Io(why),
        })?;
        self.digest.write(bytes);
        Ok(())
    }

    /// The next record; `None` after the end.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn read(&mut self) -> Result<Option<Record>, DecodeError> {
        if self.has_ended {
            return Ok(None);
        }
        let mut length = [0; 4];
        self.get(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > RECORD_BYTES_MAX {
            return Err(DecodeError::Malformed("a record is too long"));
        }
        // A length that lies costs no more memory than there are bytes.
        let mut buffer = core::mem::take(&mut self.buffer);
        buffer.clear();
        (&mut self.from).take(u64::from(length)).read_to_end(&mut buffer).map_err(DecodeError::Io)?;
        if buffer.len() < length as usize {
            return Err(DecodeError::CutOff);
        }
        self.digest.write(&buffer);
        let record = codec::decode(&buffer)?;
        self.buffer = buffer;
        if let Record::End(_) = record {
            self.has_ended = true;
            let expected = self.digest.finish();
            let mut digest = [0; 8];
            self.get(&mut digest)?;
            if u64::from_le_bytes(digest) != expected {
                return Err(DecodeError::Digest);
            }
            return match self.from.read_exact(&mut [0]) {
                Ok(()) => Err(DecodeError::Appended),
                Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(record)),
                Err(why) => Err(DecodeError::Io(why)),
            };
        }
        Ok(Some(record))
    }
}

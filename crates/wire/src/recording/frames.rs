//! What all recordings have around their records: first bytes, a version, lengths, and a digest at the end.

use std::fmt;
use std::hash::Hasher;
use std::io::{self, Read, Write};

use siphasher::sip::SipHasher13;

/// The first bytes of an emulation's recording, and of a gateway's.
pub const OF_EMULATION: [u8; 8] = *b"TDGTREC\n";
/// See [`OF_EMULATION`].
pub const OF_GATEWAY: [u8; 8] = *b"TDGTGWR\n";
/// What replays each kind.
const KINDS: [([u8; 8], &str); 2] =
    [(OF_EMULATION, "tidegate replay"), (OF_GATEWAY, "tidegate-gateway replay")];

/// What tells recordings of one kind from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// The first bytes.
    pub magic: [u8; 8],
    /// The version behind them.
    pub version: u16,
    /// No record has more bytes.
    pub record_bytes_max: u32,
    /// The command that makes them, for people.
    pub made_by: &'static str,
}

/// Why bytes are no recording.
#[derive(Debug)]
pub enum DecodeError {
    /// They cannot be read.
    Io(io::Error),
    /// They do not begin as those of this command do.
    NoRecording(&'static str),
    /// They are of another kind, which this command replays.
    Other(&'static str),
    /// They are of the first version, and this program reads the second.
    Version(u16, u16),
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
            Self::Other(command) => write!(f, "this is another kind of recording: `{command}` replays it"),
            Self::NoRecording(made_by) => write!(f, "this is no recording of `{made_by}`"),
            Self::Version(version, ours) => {
                write!(
                    f,
                    "the recording has version {version} of the format; this program reads version {ours}"
                )
            }
            Self::CutOff => f.write_str(
                "the recording ends early: what made it was interrupted, or it could not be written",
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

/// Writes records. The first failure is kept and told at the end, so that a full disk does not stop what is recorded.
#[derive(Debug)]
pub struct FrameWriter<W> {
    out: W,
    digest: SipHasher13,
    failure: Option<io::Error>,
}

impl<W: Write> FrameWriter<W> {
    /// Begins a recording of this `format`.
    pub fn new(out: W, format: &Format) -> Self {
        let mut writer = Self { out, digest: digest(), failure: None };
        writer.put(&format.magic);
        writer.put(&format.version.to_le_bytes());
        writer
    }

    /// Adds a record, which is no longer than the format allows.
    pub fn write(&mut self, record: &[u8]) {
        self.put(&(record.len() as u32).to_le_bytes());
        self.put(record);
    }

    /// Nothing more is written, because of `why`; unless that was so before.
    pub fn fail(&mut self, why: io::Error) {
        self.failure.get_or_insert(why);
    }

    /// Whether something could not be written.
    pub const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.digest.write(bytes);
            self.failure = self.out.write_all(bytes).err();
        }
    }

    /// Ends it behind the last record.
    ///
    /// # Errors
    /// The first failure since it began.
    pub fn finish(mut self) -> io::Result<W> {
        let digest = self.digest.finish().to_le_bytes();
        self.put(&digest);
        match self.failure {
            Some(failure) => Err(failure),
            None => self.out.flush().map(|()| self.out),
        }
    }
}

/// Reads records.
#[derive(Debug)]
pub struct FrameReader<R> {
    from: R,
    digest: SipHasher13,
    buffer: Vec<u8>,
    record_bytes_max: u32,
}

impl<R: Read> FrameReader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// When this is no recording of this `format`.
    pub fn new(from: R, format: &Format) -> Result<Self, DecodeError> {
        let record_bytes_max = format.record_bytes_max;
        let mut reader = Self { from, digest: digest(), buffer: Vec::new(), record_bytes_max };
        let mut magic = [0; 8];
        reader.get(&mut magic).map_err(|why| match why {
            DecodeError::CutOff => DecodeError::NoRecording(format.made_by),
            other => other,
        })?;
        if magic != format.magic {
            let other = KINDS.iter().find(|(first, _)| *first == magic);
            return Err(other.map_or(DecodeError::NoRecording(format.made_by), |(_, command)| {
                DecodeError::Other(command)
            }));
        }
        let mut version = [0; 2];
        reader.get(&mut version)?;
        let version = u16::from_le_bytes(version);
        if version != format.version {
            return Err(DecodeError::Version(version, format.version));
        }
        Ok(reader)
    }

    fn get(&mut self, bytes: &mut [u8]) -> Result<(), DecodeError> {
        self.from.read_exact(bytes).map_err(|why| match why.kind() {
            io::ErrorKind::UnexpectedEof => DecodeError::CutOff,
            _ => DecodeError::Io(why),
        })?;
        self.digest.write(bytes);
        Ok(())
    }

    /// The next record. Whoever knows that it is the last one calls [`Self::finish`] then.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(&mut self) -> Result<&[u8], DecodeError> {
        let mut length = [0; 4];
        self.get(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > self.record_bytes_max {
            return Err(DecodeError::Malformed("a record is too long"));
        }
        // A length that lies costs no more memory than there are bytes.
        self.buffer.clear();
        (&mut self.from).take(u64::from(length)).read_to_end(&mut self.buffer).map_err(DecodeError::Io)?;
        if self.buffer.len() < length as usize {
            return Err(DecodeError::CutOff);
        }
        self.digest.write(&self.buffer);
        Ok(&self.buffer)
    }

    /// That nothing has changed since it was written, and nothing follows.
    ///
    /// # Errors
    /// When it is not so.
    pub fn finish(&mut self) -> Result<(), DecodeError> {
        let expected = self.digest.finish();
        let mut digest = [0; 8];
        self.get(&mut digest)?;
        if u64::from_le_bytes(digest) != expected {
            return Err(DecodeError::Digest);
        }
        match self.from.read_exact(&mut [0]) {
            Ok(()) => Err(DecodeError::Appended),
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(why) => Err(DecodeError::Io(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMAT: Format =
        Format { magic: OF_GATEWAY, version: 7, record_bytes_max: 100, made_by: "somebody" };

    #[test]
    fn who_has_another_kind_is_told_what_replays_it() {
        let read = |bytes: &[u8]| FrameReader::new(bytes, &FORMAT).map(drop).unwrap_err().to_string();
        assert!(read(&OF_EMULATION).contains("`tidegate replay`"));
        assert!(read(b"something else").contains("no recording of `somebody`"));
        assert!(read(b"").contains("no recording of `somebody`"));
        assert!(
            read(&[&OF_GATEWAY[..], &[8, 0]].concat())
                .contains("version 8 of the format; this program reads version 7")
        );
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written_and_whatever_is_changed_is_found(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..5), at: usize, value in 1u8..,
        ) {
            let mut writer = FrameWriter::new(Vec::new(), &FORMAT);
            for record in &records {
                writer.write(record);
            }
            let mut bytes = writer.finish().expect("memory is not full");
            let read = |mut from: &[u8]| -> Result<Vec<Vec<u8>>, DecodeError> {
                let mut reader = FrameReader::new(&mut from, &FORMAT)?;
                let all = records.iter().map(|_| reader.read().map(<[u8]>::to_vec)).collect::<Result<_, _>>()?;
                reader.finish().map(|()| all)
            };
            prop_assert_eq!(read(&bytes).expect("it is whole"), records.clone());
            prop_assert!(matches!(read(&bytes[..bytes.len() - 1]), Err(DecodeError::CutOff)));
            let changed = at % bytes.len();
            bytes[changed] ^= value;
            prop_assert!(read(&bytes).is_err());
        }
    }

    #[test]
    fn the_first_failure_is_the_one_that_is_told() {
        let mut room = [0; 12];
        let mut writer = FrameWriter::new(&mut room[..], &FORMAT);
        assert!(!writer.has_failed());
        writer.write(&[1; 50]);
        writer.fail(io::Error::other("later"));
        assert!(writer.has_failed());
        assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}

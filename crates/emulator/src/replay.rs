//! Parity: what came into an emulation goes through the simulator once more, and every verdict must be the same.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;

use tidegate_wire::recording::{Decision, DecodeError, Reader, Record};

use crate::setup::{Setup, SetupError};
use crate::watcher::{Log, Watcher};

/// A recording that replayed as it was.
#[derive(Debug)]
pub struct Replay {
    /// Packets of real hosts.
    pub arrivals: u64,
    /// Verdicts, all the same.
    pub verdicts: u64,
    /// The version of Tidegate that made the recording.
    pub version: String,
    /// The length of the emulation, in seconds.
    pub duration_s: f64,
}

/// Why it did not.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Decode(DecodeError),
    /// Its configuration cannot be built.
    Setup(SetupError),
    /// It contradicts itself.
    Inconsistent(&'static str),
    /// A verdict differs.
    Differs(Box<Difference>),
}

/// The first verdict that differs.
#[derive(Debug)]
pub struct Difference {
    /// Its number, from one.
    pub number: u64,
    /// As it is recorded; `None` if the recording has no more.
    pub recorded: Option<Decision>,
    /// As the simulator has it; `None` if it made no more.
    pub replayed: Option<Decision>,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(why) => write!(f, "{why}"),
            Self::Setup(why) => write!(f, "{why}"),
            Self::Inconsistent(what) => write!(f, "the recording contradicts itself: {what}"),
            Self::Differs(difference) => {
                let tell = |decision: &Option<Decision>| {
                    decision.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
                };
                write!(
                    f,
                    "verdict {} is the first that differs\n  recorded: {}\n  replayed: {}",
                    difference.number,
                    tell(&difference.recorded),
                    tell(&difference.replayed),
                )
            }
        }
    }
}
impl std::error::Error for ReplayError {}

impl From<DecodeError> for ReplayError {
    fn from(why: DecodeError) -> Self {
        Self::Decode(why)
    }
}

/// The verdicts of the simulator that are not compared yet.
#[derive(Debug, Default)]
struct Made(VecDeque<Decision>);

impl Log for Made {
    const LISTENS: bool = true;
    fn on_decision(&mut self, decision: Decision) {
        self.0.push_back(decision);
    }
}

/// Replays the recording that `from` gives.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(from: impl Read) -> Result<Replay, ReplayError> {
    let (mut reader, configuration) = Reader::new(from)?;
    let setup = Setup::from_recording(&configuration).map_err(ReplayError::Setup)?;
    let receivers = setup.receivers();
    let is_real = |flow: u32| receivers.get(flow as usize).is_some_and(Option::is_some);
    let mut run = setup.start(Watcher(Made::default())).map_err(ReplayError::Setup)?;
    // Recorded verdicts that the simulator has not come to, in order: the emulation wrote them as it went.
    let mut recorded = VecDeque::new();
    let (mut arrivals, mut verdicts) = (0, 0);
    let mut last = tidegate_units::Time::ZERO;
    let mut move_on = |at| {
        let is_in_order = last <= at;
        last = at;
        if is_in_order { Ok(()) } else { Err(ReplayError::Inconsistent("time goes back")) }
    };
    let mut end = None;
    while let Some(record) = reader.read()? {
        match record {
            Record::Configuration(_) => return Err(ReplayError::Inconsistent("it has two configurations")),
            Record::Headers(flow, headers) if is_real(flow) => run.set_headers(flow, headers),
            Record::Arrival(at, arrival) if is_real(arrival.flow) => {
                move_on(at)?;
                run.inject(&arrival, at);
                arrivals += 1;
            }
            Record::Headers(..) | Record::Arrival(..) => {
                return Err(ReplayError::Inconsistent("a packet belongs to no flow of real hosts"));
            }
            Record::Ran(at) => {
                move_on(at)?;
                run.advance_to(at, |_| ());
            }
            Record::Decision(decision) => recorded.push_back(decision),
            Record::End(at) => {
                move_on(at)?;
                run.advance_to(at, |_| ());
                end = Some(at);
            }
        }
        compare(&mut recorded, &mut run.observer_mut().0.0, &mut verdicts, end.is_some())?;
    }
    let Some(end) = end else { return Err(ReplayError::Decode(DecodeError::CutOff)) };
    Ok(Replay { arrivals, verdicts, version: configuration.version, duration_s: end.as_secs_f64() })
}

/// Compares what there is on both sides; at the end nothing may be left on either.
fn compare(
    recorded: &mut VecDeque<Decision>,
    made: &mut VecDeque<Decision>,
    verdicts: &mut u64,
    is_end: bool,
) -> Result<(), ReplayError> {
    loop {
        match (recorded.front(), made.front()) {
            (Some(left), Some(right)) if left == right => {
                recorded.pop_front();
                made.pop_front();
                *verdicts += 1;
            }
            (Some(_), Some(_)) => break,
            (Some(_), None) | (None, Some(_)) if is_end => break,
            (None, _) | (_, None) => return Ok(()),
        }
    }
    Err(ReplayError::Differs(Box::new(Difference {
        number: *verdicts + 1,
        recorded: recorded.pop_front(),
        replayed: made.pop_front(),
    })))
}

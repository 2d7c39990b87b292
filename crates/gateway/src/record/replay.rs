//! Parity: what happened to a gateway happens to another core once more, and every verdict must be the same.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;

use tidegate_units::{Span, Time};
use tidegate_wire::recording::frames::{DecodeError, FrameReader};

use super::step::{Answer, Begin, FORMAT, Kept, Step, Verdict, What};
use super::tape::{from_output, sealed, to_lan};
use super::{Foretold, Known, counts, strays};
use crate::core::config::GatewayConfig;
use crate::core::store::BUFFER_BYTES;
use crate::core::{Gateway, Input};
use crate::tunnel::{Addressed, Opened, Refusal, Source, Tunnel, Tunnels};

/// Differences that are told; of others there is a count.
const TOLD_MAX: usize = 10;

/// How a replay went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The version of Tidegate that made the recording.
    pub version: String,
    /// Cores: one, and one more for each reload.
    pub cores: u64,
    /// What happened, by count.
    pub steps: u64,
    /// All that was decided, here or there; and of them packets to hosts, datagrams, packets and messages that were sealed, drops, and marks.
    pub verdicts: u64,
    /// See `verdicts`.
    pub to_hosts: u64,
    /// See `verdicts`.
    pub datagrams: u64,
    /// See `verdicts`.
    pub sealed: u64,
    /// See `verdicts`.
    pub drops: u64,
    /// See `verdicts`.
    pub marks: u64,
    /// Verdicts that are not the same, and calls in which tunnels were asked otherwise.
    pub differing: u64,
    /// The first of them.
    pub first: Vec<Difference>,
    /// From its beginning to its end.
    pub span: Span,
}

/// What is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the verdict, from one.
    pub number: u64,
    /// When, since the recording began.
    pub at: Span,
    /// What had happened.
    pub during: String,
    /// The site that it is about.
    pub site: Option<String>,
    /// See [`Differs`].
    pub differs: Differs,
}

/// In what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Differs {
    /// This was recorded, and that came of it here; `None`: nothing.
    Verdict(Option<Verdict>, Option<Verdict>),
    /// The core has asked its tunnels otherwise than it did.
    Asked,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let site = self.site.as_deref().map_or_else(String::new, |name| format!(", site {name}"));
        write!(f, "verdict {}, {:.9} s, {}{site}", self.number, self.at.as_secs_f64(), self.during)?;
        let tell = |verdict: &Option<Verdict>| {
            verdict.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
        };
        match &self.differs {
            Differs::Verdict(expected, got) => {
                write!(f, "\n  expected: {}\n  got:      {}", tell(expected), tell(got))
            }
            Differs::Asked => f.write_str("\n  the tunnels were asked otherwise"),
        }
    }
}

/// Why it could not be replayed to its end.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read; and how it went until there.
    Decode(DecodeError, Box<Outcome>),
    /// Its configuration is wrong, as this says.
    Configuration(String),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(why, outcome) if outcome.verdicts > 0 => {
                let Outcome { verdicts, differing, .. } = **outcome;
                write!(f, "{why}; of {verdicts} verdicts until there {differing} differ")
            }
            Self::Decode(why, _) => write!(f, "{why}"),
            Self::Configuration(why) => write!(f, "the configuration in it is wrong:\n{why}"),
        }
    }
}
impl std::error::Error for ReplayError {}

/// Tunnels that say what was recorded.
#[derive(Debug, Default)]
struct Replayed {
    answers: VecDeque<(u32, Answer)>,
    foretold: u32,
    known: Known,
    /// An answer was no answer to what was asked.
    is_lost: bool,
    made: Vec<Verdict>,
}

struct ReplayedTunnel<'a> {
    all: &'a mut Replayed,
    peer: u32,
}

impl Replayed {
    /// The answer to the next question, if it could not be foretold.
    fn next(&mut self) -> Option<Answer> {
        match self.answers.front() {
            Some(&(foretold, _)) if foretold == self.foretold => {
                self.foretold = 0;
                self.answers.pop_front().map(|(_, answer)| answer)
            }
            _ => {
                self.foretold = self.foretold.saturating_add(1);
                None
            }
        }
    }

    /// The same, of which `understand` says whether it answers the question.
    fn answer<T>(&mut self, understand: impl FnOnce(Answer) -> Option<T>) -> Option<T> {
        let answer = self.next()?;
        let understood = understand(answer);
        self.is_lost |= understood.is_none();
        understood
    }
}

impl Tunnels for Replayed {
    type Tunnel<'a> = ReplayedTunnel<'a>;

    fn addressed(&mut self, _datagram: &[u8], _from: Source, _now: Time, room: &mut [u8]) -> Addressed {
        let peers = self.known.tunnels.len();
        let addressed = self.answer(|answer| match answer {
            Answer::Addressed(Addressed::Peer(peer)) if peer as usize >= peers => None,
            Answer::Addressed(Addressed::Reply(bytes)) if bytes > room.len() => None,
            Answer::Addressed(addressed) => Some(addressed),
            _ => None,
        });
        let addressed = addressed.unwrap_or(Addressed::Peer(self.known.peer));
        self.known.addressed(addressed);
        // A configuration may have no site.
        if peers == 0 { Addressed::Refused(Refusal::Unknown) } else { addressed }
    }

    fn tunnel(&mut self, peer: u32) -> ReplayedTunnel<'_> {
        ReplayedTunnel { all: self, peer }
    }
}

impl Tunnel for ReplayedTunnel<'_> {
    fn is_up(&mut self, _now: Time) -> bool {
        let said = self.all.answer(|answer| if let Answer::Up(is_up) = answer { Some(is_up) } else { None });
        let known = &mut self.all.known.tunnels[self.peer as usize].0;
        *known = said.unwrap_or(*known);
        *known
    }

    fn want(&mut self, _now: Time) {}

    fn seal(&mut self, packet: &[u8], _now: Time, room: &mut [u8]) -> Option<usize> {
        self.all.made.push(sealed(self.peer, packet));
        let said = self.all.answer(|answer| match answer {
            Answer::Sealed(bytes) => Some(bytes.map(usize::from)),
            _ => None,
        });
        said.unwrap_or_else(|| Foretold::sealed(packet, room)).filter(|&bytes| bytes <= room.len())
    }

    fn open(&mut self, _datagram: &[u8], _from: SocketAddr, _now: Time, room: &mut [u8]) -> Opened {
        let said = self.all.answer(|answer| match answer {
            Answer::Opened(opened, kept) => Some((opened, kept)),
            _ => None,
        });
        // That is never foretold.
        self.all.is_lost |= said.is_none();
        match said {
            Some((Opened::Packet(bytes), kept)) if bytes <= room.len() => {
                fill(&mut room[..bytes], &kept);
                Opened::Packet(bytes)
            }
            Some((Opened::Packet(_), _)) | None => Opened::Refused(Refusal::Malformed),
            Some((opened, _)) => opened,
        }
    }

    fn poll(&mut self, _now: Time, room: &mut [u8]) -> Option<usize> {
        let said = self.all.answer(|answer| match answer {
            Answer::Said(bytes) => Some(usize::from(bytes)),
            _ => None,
        });
        said.filter(|&bytes| bytes <= room.len())
    }

    fn timeout(&mut self) -> Option<Time> {
        let said = self.all.answer(|answer| if let Answer::Timeout(at) = answer { Some(at) } else { None });
        let known = &mut self.all.known.tunnels[self.peer as usize].1;
        *known = said.unwrap_or(*known);
        *known
    }
}

/// The packet that `kept` is of, with zeros in the place of its payload.
fn fill(packet: &mut [u8], kept: &Kept) {
    let (beginning, rest) = packet.split_at_mut(kept.beginning.len());
    beginning.copy_from_slice(&kept.beginning);
    rest.fill(0);
}

/// See the module.
struct Replay {
    gateway: Option<Gateway<Replayed>>,
    outcome: Outcome,
    began: Option<Time>,
    room: Vec<u8>,
    packet: Vec<u8>,
}

/// Replays the recording that `from` gives, in which `configure` understands configurations.
///
/// # Errors
/// See [`ReplayError`]. That verdicts differ is none.
pub fn replay(
    from: impl Read,
    mut configure: impl FnMut(&Begin) -> Result<GatewayConfig, String>,
) -> Result<Outcome, ReplayError> {
    let mut replay = Replay {
        gateway: None,
        outcome: Outcome::default(),
        began: None,
        room: vec![0; BUFFER_BYTES],
        packet: vec![0; usize::from(u16::MAX)],
    };
    match replay.run(from, &mut configure) {
        Ok(()) => Ok(replay.outcome),
        Err(Stop::Decode(why)) => Err(ReplayError::Decode(why, Box::new(replay.outcome))),
        Err(Stop::Configuration(why)) => Err(ReplayError::Configuration(why)),
    }
}

/// Why it goes no further.
enum Stop {
    Decode(DecodeError),
    Configuration(String),
}

impl From<DecodeError> for Stop {
    fn from(why: DecodeError) -> Self {
        Self::Decode(why)
    }
}

impl Replay {
    fn run(
        &mut self,
        from: impl Read,
        configure: &mut impl FnMut(&Begin) -> Result<GatewayConfig, String>,
    ) -> Result<(), Stop> {
        let mut frames = FrameReader::new(from, &FORMAT)?;
        loop {
            let mut step = Step::decode(frames.read()?)?;
            self.outcome.span = step.at.since(*self.began.get_or_insert(step.at));
            if step.what == What::End {
                return Ok(frames.finish()?);
            }
            self.outcome.steps += 1;
            let answers = std::mem::take(&mut step.answers).into();
            let mut decided = if let What::Begin(begin) = &step.what {
                self.begin(begin, answers, step.at, configure)?;
                Vec::new()
            } else {
                let gateway = self
                    .gateway
                    .as_mut()
                    .ok_or(DecodeError::Malformed("it does not begin with a configuration"))?;
                let tunnels = gateway.tunnels_mut();
                (tunnels.answers, tunnels.foretold) = (answers, 0);
                happen(gateway, &step, &mut self.room, &mut self.packet)?
            };
            let Some(gateway) = &mut self.gateway else { continue };
            let (fates, tunnels) = gateway.fates_beside();
            let mut made = std::mem::take(&mut tunnels.made);
            made.append(&mut decided);
            made.extend(fates.drain(..).map(Verdict::from));
            let is_lost = std::mem::take(&mut tunnels.is_lost) || !tunnels.answers.is_empty();
            tunnels.answers.clear();
            self.compare(&step, &made, is_lost);
        }
    }

    fn begin(
        &mut self,
        begin: &Begin,
        answers: VecDeque<(u32, Answer)>,
        at: Time,
        configure: &mut impl FnMut(&Begin) -> Result<GatewayConfig, String>,
    ) -> Result<(), Stop> {
        let mut config = configure(begin).map_err(Stop::Configuration)?;
        if config.sites.len() != begin.endpoints.len() {
            return Err(DecodeError::Malformed("its configuration has another number of sites").into());
        }
        (config.id, config.seed) = (begin.id, begin.seed);
        for (site, endpoint) in config.sites.iter_mut().zip(&begin.endpoints) {
            site.endpoint = *endpoint;
        }
        let known = Known::new(config.sites.len());
        let mut gateway = Gateway::new(config, Replayed { answers, known, ..Replayed::default() }, at);
        gateway.keep_fates(true);
        self.gateway = Some(gateway);
        self.outcome.version.clone_from(&begin.version);
        self.outcome.cores += 1;
        Ok(())
    }

    fn compare(&mut self, step: &Step, made: &[Verdict], is_lost: bool) {
        let differ = |replay: &mut Self, differs: Differs| {
            replay.outcome.differing += 1;
            if replay.outcome.first.len() < TOLD_MAX {
                let site = match &differs {
                    Differs::Verdict(expected, got) => {
                        expected.as_ref().or(got.as_ref()).and_then(Verdict::site)
                    }
                    Differs::Asked => None,
                };
                let name = |number: u32| {
                    let sites = &replay.gateway.as_ref()?.config().sites;
                    Some(sites.get(number as usize)?.name.clone())
                };
                replay.outcome.first.push(Difference {
                    number: replay.outcome.verdicts,
                    at: replay.outcome.span,
                    during: step.what.to_string(),
                    site: site.and_then(name),
                    differs,
                });
            }
        };
        for number in 0..step.verdicts.len().max(made.len()) {
            let (expected, got) = (step.verdicts.get(number), made.get(number));
            self.outcome.verdicts += 1;
            if let Some(verdict) = expected {
                self.outcome.count(verdict);
            }
            if expected != got {
                differ(self, Differs::Verdict(expected.cloned(), got.cloned()));
            }
        }
        if is_lost {
            differ(self, Differs::Asked);
        }
    }
}

impl Outcome {
    const fn count(&mut self, verdict: &Verdict) {
        let count = match verdict {
            Verdict::Lan(..) => &mut self.to_hosts,
            Verdict::Wan(..) => &mut self.datagrams,
            Verdict::Sealed(..) => &mut self.sealed,
            Verdict::Dropped(..) | Verdict::Unheld(..) | Verdict::Stray(_) => &mut self.drops,
            Verdict::Marked(..) => &mut self.marks,
            Verdict::Passed(..) => return,
        };
        *count += 1;
    }
}

/// Lets it happen: what was decided besides what the tunnels and the store have heard.
fn happen(
    gateway: &mut Gateway<Replayed>,
    step: &Step,
    room: &mut [u8],
    packet: &mut [u8],
) -> Result<Vec<Verdict>, DecodeError> {
    let before = gateway.stray();
    let mut decided = Vec::new();
    match &step.what {
        What::Lan(kept) => {
            let packet = &mut packet[..usize::from(kept.bytes)];
            fill(packet, kept);
            gateway.handle(Input::Lan(packet), step.at);
        }
        What::Wan(from, traffic_class, bytes) => {
            // What is in it only tunnels know.
            let datagram = &packet[..usize::from(*bytes)];
            gateway.handle(
                Input::Wan { from: (*from).into(), traffic_class: *traffic_class, datagram },
                step.at,
            );
        }
        What::PollOutput => {
            decided.extend(gateway.poll_output(step.at, room).map(|output| from_output(&output, room)));
        }
        What::PollLan => decided.extend(gateway.poll_lan().map(to_lan)),
        What::Find(site, endpoint) => {
            if *site as usize >= gateway.config().sites.len() {
                return Err(DecodeError::Malformed("a site has no such number"));
            }
            gateway.find(*site, *endpoint, step.at);
        }
        What::Drain => gateway.drain(step.at),
        What::Close => {
            decided
                .extend((0..).zip(gateway.counters()).map(|(site, now)| Verdict::Passed(site, counts(now))));
        }
        What::Begin(_) | What::End => {}
    }
    decided.extend(strays(&before, &gateway.stray()).map(Verdict::Stray));
    Ok(decided)
}

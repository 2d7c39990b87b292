//! What is written while a gateway runs: [`Tape`], which hears what it is told, what its tunnels answer, and what it decides.

use std::io::{self, Write};
use std::net::SocketAddr;

use tidegate_units::Time;
use tidegate_wire::recording::frames::FrameWriter;

use super::codec::{put_answer, put_lan, put_opened, put_verdict, put_what};
use super::headers::{self, Side};
use super::step::{ANSWERS_MAX, Answer, FORMAT, SITES_MAX, VERDICTS_MAX, Verdict, What};
use super::{Foretold, Known};
use crate::core::{Input, Output};
use crate::tunnel::{Addressed, Opened, Source, Tunnel, Tunnels};

/// See the module.
#[derive(Debug)]
pub struct Tape<W> {
    frames: FrameWriter<W>,
    /// The step that is under way.
    step: Vec<u8>,
    known: Known,
    /// Answers that were foretold since the last that was not; those that were not, and verdicts, of this step.
    foretold: u32,
    answers: u32,
    verdicts: u32,
}

impl<W: Write> Tape<W> {
    /// A recording that goes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            frames: FrameWriter::new(out, &FORMAT),
            step: Vec::new(),
            known: Known::default(),
            foretold: 0,
            answers: 0,
            verdicts: 0,
        }
    }

    /// Whether nothing more is written, because something could not be.
    pub const fn has_failed(&self) -> bool {
        self.frames.has_failed()
    }

    /// Ends the recording at `at`.
    ///
    /// # Errors
    /// The first failure since it began.
    pub fn finish(mut self, at: Time) -> io::Result<W> {
        self.begin(at, &What::End);
        self.end();
        self.frames.finish()
    }

    /// A step begins.
    pub(super) fn begin(&mut self, at: Time, what: &What) {
        if let What::Begin(begin) = what {
            self.known = Known::new(begin.endpoints.len());
        }
        self.clear();
        put_what(&mut self.step, at, what);
    }

    /// The same of what comes in, without a copy.
    pub(super) fn begin_input(&mut self, at: Time, input: &Input<'_>) {
        self.clear();
        match input {
            Input::Lan(packet) => {
                put_lan(&mut self.step, at, length(packet), headers::kept(packet, Side::Hosts));
            }
            Input::Wan { from, traffic_class, datagram } => {
                let bytes = length(datagram) as u16;
                put_what(&mut self.step, at, &What::Wan(from.far, *traffic_class, bytes));
            }
        }
    }

    fn clear(&mut self) {
        self.step.clear();
        (self.foretold, self.answers, self.verdicts) = (0, 0, 0);
    }

    /// It ends.
    pub(super) fn end(&mut self) {
        let is_much = self.known.tunnels.len() > SITES_MAX as usize
            || self.answers > ANSWERS_MAX
            || self.verdicts > VERDICTS_MAX
            || self.step.len() > FORMAT.record_bytes_max as usize;
        if is_much {
            self.frames.fail(io::Error::other(
                "there are more sites, or there is more decided at once, than a recording holds",
            ));
        }
        self.frames.write(&self.step);
    }

    pub(super) fn verdict(&mut self, verdict: &Verdict) {
        self.verdicts += 1;
        put_verdict(&mut self.step, verdict);
    }

    /// `packet` goes to hosts.
    pub(super) fn packet(&mut self, packet: &[u8]) {
        self.verdict(&to_lan(packet));
    }

    pub(super) fn output(&mut self, output: &Output, room: &[u8]) {
        self.verdict(&from_output(output, room));
    }

    fn is_foretold(&mut self, is_so: bool) -> bool {
        if is_so {
            self.foretold += 1;
        } else {
            self.answers += 1;
        }
        is_so
    }

    fn answer(&mut self, is_foretold: bool, answer: &Answer) {
        if !self.is_foretold(is_foretold) {
            put_answer(&mut self.step, std::mem::take(&mut self.foretold), answer);
        }
    }

    fn opened(&mut self, opened: Opened, packet: &[u8]) {
        self.answers += 1;
        let foretold = std::mem::take(&mut self.foretold);
        put_opened(&mut self.step, foretold, opened, headers::kept(packet, Side::Tunnel));
    }
}

/// No packet and no datagram has more than their headers can say.
fn length(bytes: &[u8]) -> usize {
    bytes.len().min(usize::from(u16::MAX))
}

/// What is decided where `packet` goes to hosts.
pub(super) fn to_lan(packet: &[u8]) -> Verdict {
    let digest = headers::digest(packet, Side::Hosts);
    Verdict::Lan(length(packet) as u16, headers::traffic_class(packet), digest)
}

/// The same of what is in `room`.
pub(super) fn from_output(output: &Output, room: &[u8]) -> Verdict {
    match *output {
        Output::Lan(bytes) => to_lan(&room[..bytes]),
        Output::Wan { to, traffic_class, bytes } => Verdict::Wan(to.far, traffic_class, bytes as u16),
    }
}

/// What is decided where `packet` is sealed for `site`.
pub(super) fn sealed(site: u32, packet: &[u8]) -> Verdict {
    let digest = headers::digest(packet, Side::Tunnel);
    Verdict::Sealed(site, length(packet) as u16, headers::traffic_class(packet), digest)
}

/// Tunnels before which somebody stands who writes down what they answer, if that is wanted. Where it is not, that costs a branch.
#[derive(Debug)]
pub struct Recorded<T, W> {
    pub(super) tunnels: T,
    pub(super) tape: Option<Box<Tape<W>>>,
}

/// One of them.
#[derive(Debug)]
pub struct RecordedTunnel<'a, T, W> {
    tunnel: T,
    peer: u32,
    tape: Option<&'a mut Tape<W>>,
}

impl<T: Tunnels, W: Write> Tunnels for Recorded<T, W> {
    type Tunnel<'a>
        = RecordedTunnel<'a, T::Tunnel<'a>, W>
    where
        Self: 'a;

    fn addressed(&mut self, datagram: &[u8], from: Source, now: Time, room: &mut [u8]) -> Addressed {
        let addressed = self.tunnels.addressed(datagram, from, now, room);
        if let Some(tape) = &mut self.tape {
            let is_foretold = tape.known.addressed(addressed);
            tape.answer(is_foretold, &Answer::Addressed(addressed));
        }
        addressed
    }

    fn tunnel(&mut self, peer: u32) -> Self::Tunnel<'_> {
        RecordedTunnel { tunnel: self.tunnels.tunnel(peer), peer, tape: self.tape.as_deref_mut() }
    }
}

impl<T: Tunnel, W: Write> Tunnel for RecordedTunnel<'_, T, W> {
    fn is_up(&mut self, now: Time) -> bool {
        let is_up = self.tunnel.is_up(now);
        if let Some(tape) = &mut self.tape {
            let is_foretold = tape.known.up(self.peer, is_up);
            tape.answer(is_foretold, &Answer::Up(is_up));
        }
        is_up
    }

    fn want(&mut self, now: Time) {
        self.tunnel.want(now);
    }

    fn seal(&mut self, packet: &[u8], now: Time, room: &mut [u8]) -> Option<usize> {
        let bytes = self.tunnel.seal(packet, now, room);
        if let Some(tape) = &mut self.tape {
            let answer = Answer::Sealed(bytes.map(|bytes| bytes as u16));
            tape.answer(bytes == Foretold::sealed(packet, room), &answer);
            tape.verdict(&sealed(self.peer, packet));
        }
        bytes
    }

    fn open(&mut self, datagram: &[u8], from: SocketAddr, now: Time, room: &mut [u8]) -> Opened {
        let opened = self.tunnel.open(datagram, from, now, room);
        if let Some(tape) = &mut self.tape {
            let bytes = if let Opened::Packet(bytes) = opened { bytes } else { 0 };
            tape.opened(opened, &room[..bytes]);
        }
        opened
    }

    fn poll(&mut self, now: Time, room: &mut [u8]) -> Option<usize> {
        let bytes = self.tunnel.poll(now, room);
        if let Some(tape) = &mut self.tape {
            tape.answer(bytes.is_none(), &Answer::Said(bytes.unwrap_or(0) as u16));
        }
        bytes
    }

    fn timeout(&mut self) -> Option<Time> {
        let at = self.tunnel.timeout();
        if let Some(tape) = &mut self.tape {
            let is_foretold = tape.known.timeout(self.peer, at);
            tape.answer(is_foretold, &Answer::Timeout(at));
        }
        at
    }
}

//! A transfer over one path, for a recovery that an RFC was read into a second time: after each event of the sender the second
//! reading says which segments must go out, in which order.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each program takes what it needs of it")]

use std::collections::VecDeque;

use tidegate_mechanism::tcp::{TcpConfig, TcpReceiver, TcpSender, Transmit};
use tidegate_packet::{Ecn, TcpHeader};
use tidegate_units::{Span, Time};

/// Payload of every segment, in bytes.
pub const MSS: u64 = 1460;

/// A second reading of an RFC. Segments are numbered from zero.
pub trait Reading {
    /// `sender` has taken `header`.
    fn on_ack(&mut self, header: &TcpHeader, sender: &TcpSender, now: Time);

    /// The timer of `sender` ran; `copies` tells how often each segment was sent, and whether the last copy was lost.
    fn on_timer(&mut self, is_timeout: bool, copies: &[Copies], sender: &TcpSender, now: Time);

    /// `sent` went out in this order, of the `data_end` segments that the application has given so far. Panics if it should not have.
    fn on_output(&mut self, sent: &[usize], data_end: usize, sender: &TcpSender, now: Time);
}

/// What became of a segment.
#[derive(Clone, Copy, Default, Debug)]
pub struct Copies {
    pub sent: u32,
    pub is_last_lost: bool,
}

/// A bottleneck with a drop-tail queue, and what random things happen behind it.
pub struct Path {
    /// Packets that may wait, the one in transmission included.
    pub queue: usize,
    pub transmission: Span,
    /// Each way.
    pub delay: Span,
    /// Of data segments and of acknowledgments, by order of sending.
    pub loses: Box<dyn FnMut(bool) -> bool>,
    /// How much longer a single one takes than the others, of data segments and of acknowledgments, by order of sending.
    pub extra: Box<dyn FnMut(bool) -> Span>,
}

impl Path {
    pub fn lossless(queue: usize, transmission_micros: u64, delay_millis: u64) -> Self {
        Self {
            queue,
            transmission: Span::from_micros(transmission_micros),
            delay: Span::from_millis(delay_millis),
            loses: Box::new(|_| false),
            extra: Box::new(|_| Span::ZERO),
        }
    }
}

/// A source of random numbers for the path.
pub fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// What is under way, by time of arrival; those of one instant in the order in which they were sent.
#[derive(Default)]
struct Flight(VecDeque<(Time, Transmit)>);

impl Flight {
    fn push(&mut self, at: Time, transmit: Transmit) {
        let behind = self.0.iter().rposition(|(other, _)| *other <= at).map_or(0, |before| before + 1);
        self.0.insert(behind, (at, transmit));
    }

    fn next(&self) -> Time {
        self.0.front().map_or(Time::MAX, |(at, _)| *at)
    }

    fn pop(&mut self) -> TcpHeader {
        self.0.pop_front().unwrap().1.header
    }
}

/// One transfer over `path`, compared step by step with `reading`: at each of the instants of `gifts`, in their order, the application
/// gives so many segments. Returns the sender when all of them are acknowledged, or at `end`.
pub fn transfer(
    config: &TcpConfig,
    mut path: Path,
    gifts: &[(Time, usize)],
    end: Time,
    reading: &mut impl Reading,
) -> TcpSender {
    let mut sender = TcpSender::new(config);
    let mut receiver = TcpReceiver::new(config);
    let mut gifts = gifts.iter().copied().peekable();
    let mut now = Time::ZERO;
    let mut departures: VecDeque<Time> = VecDeque::new();
    let mut data = Flight::default();
    let mut acks = Flight::default();
    let mut copies: Vec<Copies> = Vec::new();
    for _ in 0..1_000_000 {
        while let Some((_, segments)) = gifts.next_if(|(at, _)| *at <= now) {
            sender.on_app_data(segments as u64 * MSS);
            copies.resize(copies.len() + segments, Copies::default());
        }
        let mut sent = Vec::new();
        while let Some(transmit) = sender.poll_transmit(now) {
            let number = usize::try_from(transmit.header.sequence / MSS).unwrap();
            sent.push(number);
            while departures.front().is_some_and(|&at| at <= now) {
                departures.pop_front();
            }
            let is_lost = departures.len() >= path.queue || (path.loses)(true);
            copies[number] = Copies { sent: copies[number].sent + 1, is_last_lost: is_lost };
            if !is_lost {
                let done = departures.back().copied().unwrap_or(now) + path.transmission;
                departures.push_back(done);
                data.push(done + path.delay + (path.extra)(true), transmit);
            }
        }
        reading.on_output(&sent, copies.len(), &sender, now);
        if sender.finished_at().is_some() && gifts.peek().is_none() || now >= end {
            return sender;
        }
        let sender_at = sender.timer_at().unwrap_or(Time::MAX);
        let receiver_at = receiver.timer_at().unwrap_or(Time::MAX);
        let gift_at = gifts.peek().map_or(Time::MAX, |(at, _)| *at);
        now = data.next().min(acks.next()).min(sender_at).min(receiver_at).min(gift_at);
        let mut answer = None;
        if now == data.next() {
            answer = receiver.on_segment(&data.pop(), Ecn::NotEct, now).ack;
        } else if now == acks.next() {
            let header = acks.pop();
            sender.on_ack(&header, now);
            reading.on_ack(&header, &sender, now);
        } else if now == receiver_at {
            answer = receiver.on_timer(now);
        } else if now == sender_at {
            let before = sender.counters().timeouts;
            sender.on_timer(now);
            reading.on_timer(sender.counters().timeouts > before, &copies, &sender, now);
        }
        if let Some(ack) = answer
            && !(path.loses)(false)
        {
            acks.push(now + path.delay + (path.extra)(false), ack);
        }
    }
    panic!("the transfer never ends: {:?}", sender.counters());
}

//! The loop: what is due runs, packets are read and written, and in between the process sleeps until the next of these.

use std::io::Write;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use tidegate_units::{Span, Time};
use tidegate_wire::offload::{self, Inbound};

use super::error::Failure;
use super::host::{Host, Written};
use super::hosts::Hosts;
use super::pace::Pace;
use super::signals::{Meaning, Signals};
use super::watch::Watchers;
use crate::emulation::Emulation;

/// Packets read from one host before the others and what is due get their turn: at 1500 bytes and 10 Gbit/s 77 us.
const BATCH_PACKETS: usize = 64;
/// The time since the emulation began. The only clock of this world.
struct Clock {
    start: Time,
}

impl Clock {
    fn start() -> Self {
        Self { start: monotonic() }
    }

    fn now(&self) -> Time {
        Time::ZERO + monotonic().since(self.start)
    }
}

fn monotonic() -> Time {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has a monotonic clock");
    Time::from_nanos(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// How and when it ended.
#[derive(Debug)]
pub struct Stop {
    /// When.
    pub at: Time,
    /// Whether a signal ended it.
    pub by_signal: bool,
    /// What broke, if that ended it.
    pub broken: Option<Failure>,
}

/// Carries packets until `end`, until the command ends or a signal comes. What is due until then has run, unless there was a
/// signal: who sent that has waited long enough where the machine is behind.
pub fn carry<W: Write>(
    emulation: &mut Emulation<W>,
    hosts: &mut Hosts,
    signals: &Signals,
    mut end: Time,
    offload: bool,
    watchers: &mut Watchers,
) -> Result<Stop, Failure> {
    let clock = Clock::start();
    let mut room = vec![0; if offload { offload::ROOM_BYTES } else { 0 }];
    let mut pace = Pace::default();
    let mut broken = None;
    loop {
        let actual = clock.now();
        let now = actual.min(end);
        let until = pace.until(emulation.next_event(), now);
        emulation.catch_up(until, actual);
        hand_over(emulation, &mut hosts.list, &clock);
        pace.took(clock.now().since(actual));
        if now >= watchers.wants_at() {
            emulation.counts.device_dropped_packets = hosts.dropped_packets();
            watchers.leave(emulation.look(now));
        }
        if until >= end {
            return Ok(Stop { at: end, by_signal: false, broken });
        }
        // A packet comes in when all is done that was due before.
        if until == now && now < end {
            match read_all(emulation, hosts, &clock, end, &mut room) {
                Ok(true) => (),
                Ok(false) => {
                    let next = emulation.next_event().unwrap_or(Time::MAX).min(end).min(watchers.wants_at());
                    wait(hosts, signals, next.since(clock.now()))?;
                }
                Err(why) => {
                    broken = Some(why);
                    end = end.min(clock.now());
                }
            }
        }
        while let Some(meaning) = signals.read()? {
            let has_command_ended = hosts.children.reap();
            if meaning == Meaning::End {
                // A command that ended by the same signal does not hide it.
                let at = emulation.reached(clock.now().min(end));
                return Ok(Stop { at, by_signal: true, broken });
            }
            if has_command_ended {
                end = end.min(clock.now());
            }
        }
    }
}

/// Gives the hosts what has left the network for them.
fn hand_over<W: Write>(emulation: &mut Emulation<W>, hosts: &mut [Host], clock: &Clock) {
    while let Some(departure) = emulation.next_departure() {
        let host = &mut hosts[departure.host as usize];
        let mut written = host.write(emulation.packet(&departure), departure.due);
        if written == Written::Full {
            host.flush(|due, is_taken| emulation.delivered(due, clock.now(), is_taken));
            written = host.write(emulation.packet(&departure), departure.due);
        }
        emulation.release(departure);
        if let Written::Now(is_taken) = written {
            emulation.delivered(departure.due, clock.now(), is_taken);
        }
    }
    for host in hosts {
        host.flush(|due, is_taken| emulation.delivered(due, clock.now(), is_taken));
    }
}

/// Takes what the hosts have sent, some of each; whether there was anything. `room` is for many packets in one, and empty
/// without segmentation offload.
fn read_all<W: Write>(
    emulation: &mut Emulation<W>,
    hosts: &Hosts,
    clock: &Clock,
    end: Time,
    room: &mut [u8],
) -> Result<bool, Failure> {
    let mut any = false;
    for (number, host) in (0..).zip(&hosts.list) {
        let mut count = 0;
        while !room.is_empty() && count < BATCH_PACKETS {
            let Some(bytes) = host.read(room)? else { break };
            any = true;
            count += read_together(emulation, number, &mut room[..bytes], clock.now().min(end));
        }
        for _ in count..if room.is_empty() { BATCH_PACKETS } else { count } {
            // With all buffers in use a packet is read all the same, and lost: the network is full.
            let mut nowhere = [0; 1];
            let read = match emulation.room() {
                Some(free) => host.read(free)?,
                None => host.read(&mut nowhere)?,
            };
            let Some(bytes) = read else { break };
            any = true;
            emulation.arrive(number, bytes, clock.now().min(end));
        }
    }
    Ok(any)
}

/// Takes many packets in one from host `number`; how many they are.
fn read_together<W: Write>(emulation: &mut Emulation<W>, number: u32, read: &mut [u8], now: Time) -> usize {
    let Ok(inbound) = Inbound::new(read) else {
        emulation.counts.stray_packets += 1;
        return 1;
    };
    let count = inbound.count();
    if inbound.largest_bytes() > emulation.mtu_bytes() {
        emulation.arrive_oversized(number, inbound.bytes(), count, now);
        return count;
    }
    if inbound.is_datagrams() && count > 1 {
        emulation.counts.burst_datagrams += count as u64;
    }
    if inbound.each(|packet| emulation.arrive_copied(number, packet, now)).is_err() {
        emulation.counts.stray_packets += count as u64;
    }
    count
}

/// Sleeps until a host has sent something, a signal has come, or `span` is over.
fn wait(hosts: &Hosts, signals: &Signals, span: Span) -> Result<(), Failure> {
    let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
    let mut descriptors: Vec<PollFd<'_>> = hosts
        .list
        .iter()
        .map(|host| readable(host.descriptor()))
        .chain([readable(signals.as_fd())])
        .collect();
    let timeout = TimeSpec::from_duration(std::time::Duration::from_nanos(span.as_nanos()));
    match ppoll(&mut descriptors, Some(timeout), None) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(why) => Err(Failure::system("waiting failed", why)),
    }
}

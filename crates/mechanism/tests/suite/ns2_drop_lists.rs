//! The `ns-1999` profile against ns-2.35: for lists of lost packets, the same packets at the same times.
//!
//! Source: tests/oracle/ns2/README.md, sections 1.10 and 4.1; tests/oracle/ns2/frozen/droplist.json, which ns-2 made.
//! Deviations: none. The path model here knows nothing but what that network is: one access link, one bottleneck, one
//! last link, and the same way back; packets are lost in front of the bottleneck's queue. It counts time in thirds of a
//! nanosecond, in which every transmission at 1.5 Mb/s and 10 Mb/s is a whole number.

use crate::ns2_cases;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use ns2_cases::{frozen, tcp_of};
use serde_json::Value;
use tidegate_mechanism::tcp::congestion::CongestionControl;
use tidegate_mechanism::tcp::{TcpConfig, TcpReceiver, TcpSender, Transmit};
use tidegate_packet::Ecn;
use tidegate_units::{Span, Time};

/// Model time per nanosecond.
const UNITS_PER_NANO: u64 = 3;
/// A millisecond in model time.
const MILLISECOND: u64 = 1_000_000 * UNITS_PER_NANO;
/// Model time of one byte at 10 Mb/s (800 ns) and at 1.5 Mb/s (16,000 / 3 ns).
const ACCESS_UNITS_PER_BYTE: u64 = 800 * UNITS_PER_NANO;
const BOTTLENECK_UNITS_PER_BYTE: u64 = 16_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The packet at the head of the link's flight reaches its far end.
    Arrival {
        link: usize,
    },
    /// The link has sent its packet.
    Free {
        link: usize,
    },
    SenderTimer,
    ReceiverTimer,
}

struct Link {
    units_per_byte: u64,
    delay: u64,
    queue: VecDeque<Transmit>,
    in_flight: VecDeque<Transmit>,
    busy: bool,
}

#[derive(Debug, PartialEq)]
struct Send {
    nanos: u64,
    packet: u64,
    cwnd: f64,
}

/// One connection over n0 - r0 - r1 - n1.
struct Path4 {
    now: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// 0, 1, 2 lead to the receiver; 3, 4, 5 back.
    links: Vec<Link>,
    sender: TcpSender,
    receiver: TcpReceiver,
    sender_armed: Option<u64>,
    receiver_armed: Option<u64>,
    packet_bytes: u64,
    lose: HashSet<(u64, u64)>,
    mark: HashSet<(u64, u64)>,
    transmissions: HashMap<u64, u64>,
    at_bottleneck: u64,
    sends: Vec<Send>,
    drops: Vec<u64>,
}

impl Path4 {
    fn new(config: &TcpConfig, lose: HashSet<(u64, u64)>, mark: HashSet<(u64, u64)>) -> Self {
        let link = |units_per_byte, delay| Link {
            units_per_byte,
            delay,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            busy: false,
        };
        let access = || link(ACCESS_UNITS_PER_BYTE, MILLISECOND);
        let bottleneck = || link(BOTTLENECK_UNITS_PER_BYTE, 10 * MILLISECOND);
        Self {
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            links: vec![access(), bottleneck(), access(), access(), bottleneck(), access()],
            sender: TcpSender::new(config),
            receiver: TcpReceiver::new(config),
            sender_armed: None,
            receiver_armed: None,
            packet_bytes: u64::from(config.segment_bytes),
            lose,
            mark,
            transmissions: HashMap::new(),
            at_bottleneck: 0,
            sends: Vec::new(),
            drops: Vec::new(),
        }
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now / UNITS_PER_NANO)
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn give(&mut self, index: usize, packet: Transmit) {
        self.links[index].queue.push_back(packet);
        if !self.links[index].busy {
            self.take(index);
        }
    }

    fn take(&mut self, index: usize) {
        let link = &mut self.links[index];
        let Some(packet) = link.queue.pop_front() else {
            link.busy = false;
            return;
        };
        link.busy = true;
        link.in_flight.push_back(packet);
        let sent = self.now + u64::from(packet.wire_bytes) * link.units_per_byte;
        let arrived = sent + link.delay;
        self.schedule(arrived, Event::Arrival { link: index });
        self.schedule(sent, Event::Free { link: index });
    }

    /// Sends what the sender has, and re-arms both timers.
    fn drain(&mut self) {
        let now = self.time();
        while let Some(transmit) = self.sender.poll_transmit(now) {
            let cwnd = self.sender.congestion_control().variable("cwnd_segments").unwrap();
            let packet = transmit.header.sequence / self.packet_bytes;
            self.sends.push(Send { nanos: now.as_nanos(), packet, cwnd });
            self.give(0, transmit);
        }
        let sender_at = self.sender.timer_at().map(|at| at.as_nanos() * UNITS_PER_NANO);
        if sender_at != self.sender_armed {
            self.sender_armed = sender_at;
            if let Some(at) = sender_at {
                self.schedule(at.max(self.now), Event::SenderTimer);
            }
        }
        let receiver_at = self.receiver.timer_at().map(|at| at.as_nanos() * UNITS_PER_NANO);
        if receiver_at != self.receiver_armed {
            self.receiver_armed = receiver_at;
            if let Some(at) = receiver_at {
                self.schedule(at.max(self.now), Event::ReceiverTimer);
            }
        }
    }

    fn arrive(&mut self, index: usize) {
        let mut packet = self.links[index].in_flight.pop_front().unwrap();
        match index {
            0 => {
                let number = packet.header.sequence / self.packet_bytes;
                let count = self.transmissions.entry(number).or_insert(0);
                *count += 1;
                if self.lose.contains(&(number, *count)) {
                    self.drops.push(self.at_bottleneck);
                } else {
                    if self.mark.contains(&(number, *count)) {
                        packet.ecn = Ecn::Ce;
                    }
                    self.give(1, packet);
                }
                self.at_bottleneck += 1;
            }
            2 => {
                let received = self.receiver.on_segment(&packet.header, packet.ecn, self.time());
                if let Some(ack) = received.ack {
                    self.give(3, ack);
                }
            }
            5 => self.sender.on_ack(&packet.header, self.time()),
            _ => self.give(index + 1, packet),
        }
        self.drain();
    }

    /// Runs until the sender has everything acknowledged.
    fn run(&mut self, bytes: u64) -> Option<Time> {
        self.sender.on_app_data(bytes);
        self.drain();
        while self.sender.finished_at().is_none() {
            let Reverse((at, _, event)) = self.events.pop()?;
            if at > 300_000 * MILLISECOND {
                return None;
            }
            self.now = at;
            match event {
                Event::Arrival { link } => self.arrive(link),
                Event::Free { link } => self.take(link),
                Event::SenderTimer if self.sender_armed == Some(at) => {
                    self.sender_armed = None;
                    self.sender.on_timer(self.time());
                    self.drain();
                }
                Event::ReceiverTimer if self.receiver_armed == Some(at) => {
                    self.receiver_armed = None;
                    if let Some(ack) = self.receiver.on_timer(self.time()) {
                        self.give(3, ack);
                    }
                    self.drain();
                }
                // An earlier setting of a timer that has moved.
                Event::SenderTimer | Event::ReceiverTimer => {}
            }
        }
        self.sender.finished_at()
    }
}

fn config_of(case: &Value) -> TcpConfig {
    let ecn = case["mark_spec"].is_array();
    // Half a segment is a window of zero in ns-2.35: it waits for its timer.
    TcpConfig { ecn, ecn_timeout: ecn, ..tcp_of(case, case["phase"].as_f64().unwrap()) }
}

/// Which transmissions of which packets `key` names: none, if the case has no such list.
fn transmissions_of(case: &Value, key: &str) -> HashSet<(u64, u64)> {
    let pairs = case[key].as_array().into_iter().flatten();
    pairs.map(|pair| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap())).collect()
}

/// The first difference between a case and what our state machines do, if any.
fn difference(case: &Value) -> Option<String> {
    let config = config_of(case);
    let mut path =
        Path4::new(&config, transmissions_of(case, "drop_spec"), transmissions_of(case, "mark_spec"));
    let packets = case["transfer_packets"].as_u64().unwrap();
    let done = path.run(packets * u64::from(config.segment_bytes));

    let expected: Vec<Send> = case["sends"]
        .as_array()
        .unwrap()
        .iter()
        .map(|send| Send {
            nanos: Span::from_secs_f64(send[0].as_f64().unwrap()).as_nanos(),
            packet: send[1].as_u64().unwrap(),
            cwnd: send[2].as_f64().unwrap(),
        })
        .collect();
    for (ordinal, (ours, theirs)) in path.sends.iter().zip(&expected).enumerate() {
        // The frozen times are rounded to a microsecond, the windows to four decimals.
        let same = ours.packet == theirs.packet
            && ours.nanos.abs_diff(theirs.nanos) <= 1_000
            && (ours.cwnd - theirs.cwnd).abs() <= 1e-4;
        if !same {
            return Some(format!("send {ordinal}: ours {ours:?}, ns-2's {theirs:?}"));
        }
    }
    if path.sends.len() != expected.len() {
        return Some(format!("{} sends, ns-2 has {}", path.sends.len(), expected.len()));
    }
    let drops: Vec<u64> =
        case["drops"].as_array().unwrap().iter().map(|drop| drop.as_u64().unwrap()).collect();
    if path.drops != drops {
        return Some(format!("lost {:?}, ns-2 lost {drops:?}", path.drops));
    }
    let expected_done = Span::from_secs_f64(case["done"].as_f64().unwrap_or(f64::MAX));
    match done {
        Some(done) if done.as_nanos().abs_diff(expected_done.as_nanos()) <= 1_000 => None,
        done => Some(format!("done at {done:?}, ns-2 at {expected_done}")),
    }
}

/// Fails, unless at least `cases_min` cases of the frozen `file` have no difference.
fn compare_with(file: &str, cases_min: usize) {
    let frozen = frozen(file);
    let cases = frozen["cases"].as_array().unwrap();
    assert!(cases.len() >= cases_min, "{} of at least {cases_min} cases", cases.len());
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            difference(case)
                .map(|what| format!("{} {} {}: {what}", case["variant"], case["sink"], case["name"]))
        })
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} cases differ:\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}

/// Five variants, two sinks, 27 lists.
#[test]
fn every_frozen_drop_list_gives_the_sends_of_ns_2() {
    compare_with("droplist.json", 270);
}

/// Four variants, two sinks, 26 lists of marks and losses.
#[test]
fn every_frozen_mark_list_gives_the_sends_of_ns_2() {
    compare_with("marklist.json", 208);
}

//! Hosts behind gateways. Their packets are real bytes: headers as IP has them, a mark that must never be seen outside of a tunnel, and a
//! number, by which the simulation knows the rest.

use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, CubicConfig};
use tidegate_mechanism::tcp::{TcpConfig, TcpReceiver, TcpSender, Transmit, Variant};
use tidegate_packet::{Ecn, TcpHeader};
use tidegate_units::{BitRate, Span, Time};

/// Stands in every packet of hosts.
pub const MARK: [u8; 16] = *b"\x9d\xe1seen by nobody";
/// Where it begins, behind the headers of IPv4 and TCP or UDP.
const HEADERS_UDP: usize = 28;
const HEADERS_TCP: usize = 40;
/// What a host sends in one packet.
const PACKET_BYTES: usize = 1200;
/// No packet is shorter: headers, mark, number.
const SHORTEST: usize = HEADERS_TCP + 24;

/// What a host sends.
#[derive(Debug)]
enum Kind {
    Datagrams { every: Span, next: Time },
    Transfer { sender: Box<TcpSender>, receiver: Box<TcpReceiver> },
}

/// What one load has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes of packets that arrived where they were to. Of a transfer those are counted, and not what an application gets in order,
    /// which may wait for seconds for a packet that was lost in front of a long queue.
    pub bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived where they were to.
    pub arrived: u64,
    /// Their delays: the sum and the greatest since it was last looked at, in nanoseconds.
    pub delay_sum: u128,
    /// See `delay_sum`.
    pub delay_max: u64,
    /// Packets that arrived twice, changed, or elsewhere.
    pub wrong: u64,
}

/// A load from one site to another.
#[derive(Debug)]
pub struct Flow {
    /// From which site to which.
    pub ends: (usize, usize),
    kind: Kind,
    /// The packets that were sent last, by their number modulo the length.
    under_way: Vec<Option<UnderWay>>,
    has_begun: bool,
    next: u64,
    number: u16,
    /// So far.
    pub done: Done,
}

/// Packets of one load that are remembered. Of those that take longer nothing is known any more when they arrive.
const REMEMBERED: usize = 1 << 14;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    sent: Time,
    header: TcpHeader,
    has_arrived: bool,
}

/// What is to enter at a site.
pub type Entering = (usize, Vec<u8>);

impl Flow {
    /// Load number `number`: datagrams at `rate`, from `start` on.
    pub fn datagrams(number: u16, ends: (usize, usize), rate: BitRate, start: Time) -> Self {
        let every = rate.span_of(PACKET_BYTES as u64);
        Self::new(number, ends, Kind::Datagrams { every, next: start })
    }

    /// Load number `number`: a transfer without end.
    pub fn transfer(number: u16, ends: (usize, usize)) -> Self {
        let tcp = TcpConfig {
            control: CongestionControlConfig::Cubic(CubicConfig::default()),
            ..TcpConfig::modern(Variant::Sack)
        };
        let tcp = tcp.with_packet_bytes(PACKET_BYTES as u32).with_window_packets(2000);
        let mut sender = TcpSender::new(&tcp);
        sender.set_unlimited();
        let receiver = Box::new(TcpReceiver::new(&tcp));
        Self::new(number, ends, Kind::Transfer { sender: Box::new(sender), receiver })
    }

    fn new(number: u16, ends: (usize, usize), kind: Kind) -> Self {
        Self {
            ends,
            kind,
            under_way: vec![None; REMEMBERED],
            has_begun: false,
            next: 0,
            number,
            done: Done::default(),
        }
    }

    /// When it has something to do next.
    pub fn next_at(&self) -> Time {
        match &self.kind {
            Kind::Datagrams { next, .. } => *next,
            Kind::Transfer { .. } if !self.has_begun => Time::ZERO,
            Kind::Transfer { sender, receiver } => {
                [sender.timer_at(), receiver.timer_at()].into_iter().flatten().min().unwrap_or(Time::MAX)
            }
        }
    }

    /// It is `now`: what is to enter is added to `entering`.
    pub fn advance(&mut self, now: Time, entering: &mut Vec<Entering>) {
        self.has_begun = true;
        match &mut self.kind {
            Kind::Datagrams { every, next } => {
                let mut due = 0;
                while *next <= now {
                    *next += *every;
                    due += 1;
                }
                for _ in 0..due {
                    let packet =
                        self.put(TcpHeader::default(), now, PACKET_BYTES, (true, false), Ecn::NotEct);
                    entering.push((self.ends.0, packet));
                }
            }
            Kind::Transfer { sender, receiver } => {
                if sender.timer_at().is_some_and(|at| at <= now) {
                    sender.on_timer(now);
                }
                let ack = if receiver.timer_at().is_some_and(|at| at <= now) {
                    receiver.on_timer(now)
                } else {
                    None
                };
                if let Some(ack) = ack {
                    self.acknowledge(&ack, now, entering);
                }
                self.pump(now, entering);
            }
        }
    }

    fn pump(&mut self, now: Time, entering: &mut Vec<Entering>) {
        while let Kind::Transfer { sender, .. } = &mut self.kind
            && let Some(segment) = sender.poll_transmit(now)
        {
            let bytes = (segment.wire_bytes as usize).max(SHORTEST);
            let packet = self.put(segment.header, now, bytes, (false, false), segment.ecn);
            entering.push((self.ends.0, packet));
        }
    }

    fn acknowledge(&mut self, ack: &Transmit, now: Time, entering: &mut Vec<Entering>) {
        let packet = self.put(ack.header, now, SHORTEST, (false, true), ack.ecn);
        entering.push((self.ends.1, packet));
    }

    /// The bytes of a packet with `header`, which is under way from now on, in the load's direction or back.
    fn put(
        &mut self,
        header: TcpHeader,
        now: Time,
        bytes: usize,
        (is_udp, is_back): (bool, bool),
        ecn: Ecn,
    ) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        self.done.sent += 1;
        self.under_way[number as usize % REMEMBERED] =
            Some(UnderWay { number, sent: now, header, has_arrived: false });
        let mut packet = vec![0; bytes];
        let (from, to) = if is_back { (self.ends.1, self.ends.0) } else { self.ends };
        packet[0] = 0x45;
        packet[1] = ecn as u8;
        packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
        packet[6] = 0x40;
        packet[8] = 60;
        packet[9] = if is_udp { 17 } else { 6 };
        packet[12..16].copy_from_slice(&[10, from as u8 + 1, 0, 9]);
        packet[16..20].copy_from_slice(&[10, to as u8 + 1, 0, 9]);
        packet[20..22].copy_from_slice(&(10_000 + self.number).to_be_bytes());
        packet[22..24].copy_from_slice(&7_u16.to_be_bytes());
        let at = if is_udp {
            packet[24..26].copy_from_slice(&((bytes - 20) as u16).to_be_bytes());
            HEADERS_UDP
        } else {
            packet[24..28].copy_from_slice(&(header.sequence as u32).to_be_bytes());
            packet[28..32].copy_from_slice(&(header.acknowledgment as u32).to_be_bytes());
            packet[32] = 0x50;
            packet[33] = 0x10;
            packet[34..36].copy_from_slice(&0xffff_u16.to_be_bytes());
            HEADERS_TCP
        };
        packet[at..at + 16].copy_from_slice(&MARK);
        packet[at + 16..at + 24].copy_from_slice(&(u64::from(self.number) << 48 | number).to_be_bytes());
        packet
    }

    /// `packet`, one of its own, reached a host at `site`.
    pub fn arrive(
        &mut self,
        site: usize,
        packet: &[u8],
        number: u64,
        now: Time,
        entering: &mut Vec<Entering>,
    ) {
        let known =
            self.under_way[number as usize % REMEMBERED].as_mut().filter(|known| known.number == number);
        let Some(known) = known else {
            self.done.wrong += u64::from(number >= self.next);
            if matches!(self.kind, Kind::Datagrams { .. }) {
                (self.done.bytes, self.done.arrived) =
                    (self.done.bytes + packet.len() as u64, self.done.arrived + 1);
            }
            return;
        };
        self.done.wrong += u64::from(known.has_arrived);
        known.has_arrived = true;
        let UnderWay { sent, header, .. } = *known;
        let delay = now.since(sent).as_nanos();
        let ecn = Ecn::from_bits(packet[1]);
        match &mut self.kind {
            Kind::Datagrams { .. } => {
                self.done.wrong += u64::from(site != self.ends.1 || packet.len() != PACKET_BYTES);
                self.done.bytes += PACKET_BYTES as u64;
            }
            Kind::Transfer { sender, receiver } => {
                if site == self.ends.1 {
                    let received = receiver.on_segment(&header, ecn, now);
                    self.done.bytes += packet.len() as u64;
                    if let Some(ack) = received.ack {
                        self.acknowledge(&ack, now, entering);
                    }
                } else {
                    sender.on_ack(&header, now);
                    self.pump(now, entering);
                    return;
                }
            }
        }
        self.done.arrived += 1;
        self.done.delay_sum += u128::from(delay);
        self.done.delay_max = self.done.delay_max.max(delay);
    }
}

/// Whose packet it is: the number of the load, and that of the packet in it.
pub fn owner(packet: &[u8]) -> Option<(u16, u64)> {
    let at = if *packet.get(9)? == 17 { HEADERS_UDP } else { HEADERS_TCP };
    let rest = packet.get(at..at + 24)?;
    if rest[..16] != MARK {
        return None;
    }
    let both = u64::from_be_bytes(rest[16..].try_into().expect("there are eight"));
    Some(((both >> 48) as u16, both & 0xffff_ffff_ffff))
}

/// Whether something of a host's packet can be seen in `datagram`.
pub fn is_clear(datagram: &[u8]) -> bool {
    datagram.windows(MARK.len()).any(|window| window[0] == MARK[0] && window == MARK)
}

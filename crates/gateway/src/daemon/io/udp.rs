//! The sockets on which other gateways are heard: many datagrams for one place go with one call, and come with one.
//!
//! Where a socket hears at all addresses of the machine, each datagram says to which of them it came, and each that is sent may say
//! from which it goes. Codepoints and congestion marks come and go with each call as control messages (`ip(7)`, `ipv6(7)`, `udp(7)`), which are written
//! and read here as the bytes that they are. Datagrams are never cut on their way: what is too large for it is lost, by which
//! the core finds out what the path takes.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use quinn_udp::UdpSocketState;
use socket2::{Domain, MsgHdr, Protocol, Socket, Type};

use super::steer;
use crate::core::ends::{Ends, Near};

/// What the kernel keeps for us in either direction: at 1 Gbit/s some 30 ms.
const BUFFER_BYTES: usize = 4 << 20;
/// Datagrams that go with one call (`UDP_MAX_SEGMENTS`), and their bytes.
pub const SEGMENTS_MAX: usize = 64;
/// See [`SEGMENTS_MAX`].
pub const BATCH_BYTES_MAX: usize = 65_507;
/// Room for the control messages of one call.
const CONTROL_BYTES: usize = 256;

/// What one call gave.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// From where, and to which of our addresses if the socket has several.
    pub from: Ends,
    /// Codepoint and congestion mark.
    pub traffic_class: u8,
    /// How many bytes.
    pub bytes: usize,
    /// How many each datagram has; the last may have less.
    pub segment: usize,
    /// When the kernel got the first of them, in nanoseconds of the wall clock, if it says so.
    pub stamped_ns: Option<i64>,
}

/// What [`Udp::all`] has opened.
pub struct Opened {
    /// The sockets of each thread, one for each version of IP.
    pub of_threads: Vec<Vec<Udp>>,
    /// Whether the kernel finds the thread of a datagram.
    pub steered: io::Result<()>,
}

/// One socket, for one version of IP.
pub struct Udp {
    socket: Socket,
    is_v6: bool,
    /// It hears at all addresses of the machine.
    is_everywhere: bool,
    control: Vec<u8>,
    /// Datagrams that could not be sent, and those that were too large for what is known of the path.
    pub unsent: u64,
    /// See `unsent`.
    pub too_large: u64,
    /// To whom nothing could be sent, until something could again.
    pub refusals: Refusals,
}

/// So many are remembered to whom nothing could be sent.
const REFUSALS: usize = 8;

/// To whom the system sends nothing, and its numbers of why; of more than are remembered, some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([Option<(SocketAddr, i32)>; REFUSALS]);

impl Refusals {
    /// Nothing was sent to `to` because of `why`.
    pub fn add(&mut self, to: SocketAddr, why: i32) {
        let same = self.0.iter().position(|one| one.is_some_and(|(at, _)| at == to));
        let place = same.or_else(|| self.0.iter().position(Option::is_none)).unwrap_or(0);
        self.0[place] = Some((to, why));
    }

    /// Something was sent to `to`.
    fn clear(&mut self, to: SocketAddr) {
        for one in &mut self.0 {
            *one = one.filter(|(at, _)| *at != to);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Why nothing was sent to `to`, if that is so.
    pub fn of(&self, to: SocketAddr) -> Option<i32> {
        self.iter().find_map(|(at, why)| (at == to).then_some(why))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, i32)> {
        self.0.iter().copied().flatten()
    }

    /// These and `others`.
    pub fn and(mut self, others: &Self) -> Self {
        others.iter().for_each(|(to, why)| self.add(to, why));
        self
    }
}

impl Udp {
    /// Opens a socket at `address`.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::open_or(address, None)
    }

    /// The same with `kept`, a socket that an earlier daemon opened there, if there is one.
    fn open_or(address: SocketAddr, kept: Option<Socket>) -> io::Result<Self> {
        match kept {
            Some(socket) => Ok(Self::with(socket, address.is_ipv6())),
            None => Self::open_new(address, false),
        }
    }

    /// A new one; others may have one there as well if it `is_shared`.
    fn open_new(address: SocketAddr, is_shared: bool) -> io::Result<Self> {
        let is_v6 = address.is_ipv6();
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if is_v6 {
            socket.set_only_v6(true)?;
            socket.set_recv_tclass_v6(true)?;
        } else {
            socket.set_recv_tos_v4(true)?;
        }
        if is_shared {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&address.into())?;
        socket.set_nonblocking(true)?;
        // Beyond what everybody may have, if we are somebody.
        if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
            socket.set_recv_buffer_size(BUFFER_BYTES)?;
        }
        if setsockopt(&socket, sockopt::SndBufForce, &BUFFER_BYTES).is_err() {
            socket.set_send_buffer_size(BUFFER_BYTES)?;
        }
        let socket = UdpSocket::from(socket);
        // It sets what `nix` and `socket2` have not: that datagrams are not cut, and many come as one.
        UdpSocketState::new((&socket).into())?;
        Ok(Self::with(socket.into(), is_v6))
    }

    /// So many sockets at `address`, in the order of threads, with the program that says which of them gets a
    /// datagram; or `kept` ones.
    fn open_shared(
        address: SocketAddr,
        count: u8,
        kept: Vec<Socket>,
    ) -> io::Result<(Vec<Self>, io::Result<()>)> {
        let mut sockets: Vec<Self> = kept.into_iter().map(|one| Self::with(one, address.is_ipv6())).collect();
        if sockets.is_empty() {
            // Another daemon of the same user could share the port, and would get a part of what comes: who is
            // alone shares it with nobody.
            drop(Self::open_new(address, false)?);
            let mut at = address;
            for _ in 0..count {
                let socket = Self::open_new(at, true)?;
                // Which port it is, if any was asked for.
                at = socket.socket.local_addr()?.as_socket().unwrap_or(at);
                sockets.push(socket);
            }
        }
        let steered = steer::attach(&sockets[0], count);
        Ok((sockets, steered))
    }

    fn with(socket: Socket, is_v6: bool) -> Self {
        // Without it, what comes counts as having come when it is read.
        let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
        // Without it the kernel chooses from where answers go.
        let _ = if is_v6 {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)
        } else {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)
        };
        let bound = socket.local_addr().ok().and_then(|at| at.as_socket());
        let is_everywhere = bound.is_none_or(|at| at.ip().is_unspecified());
        Self {
            socket,
            is_v6,
            is_everywhere,
            control: vec![0; CONTROL_BYTES],
            unsent: 0,
            too_large: 0,
            refusals: Refusals::default(),
        }
    }

    /// Where sockets for `listen` are: where it is `[::]`, there is one for each version of IP.
    pub fn addresses(listen: SocketAddr) -> Vec<SocketAddr> {
        if listen.ip() != IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            return vec![listen];
        }
        vec![
            SocketAddr::from(([0; 4], listen.port())),
            SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, listen.port(), 0, 0)),
        ]
    }

    /// The sockets for `listen` of each of so many threads, if need be only for the versions of IP that the
    /// machine has; `kept` may have those at an address already, all or none.
    ///
    /// # Errors
    /// When there is none.
    pub fn all(
        listen: SocketAddr,
        threads: u8,
        mut kept: impl FnMut(SocketAddr) -> Vec<Socket>,
    ) -> io::Result<Opened> {
        let addresses = Self::addresses(listen);
        let mut opened = Opened { of_threads: (0..threads).map(|_| Vec::new()).collect(), steered: Ok(()) };
        for &address in &addresses {
            let sockets = if threads == 1 {
                Self::open_or(address, kept(address).pop()).map(|socket| (vec![socket], Ok(())))
            } else {
                Self::open_shared(address, threads, kept(address))
            };
            match sockets {
                Ok((sockets, steered)) => {
                    opened.steered = opened.steered.and(steered);
                    for (thread, socket) in opened.of_threads.iter_mut().zip(sockets) {
                        thread.push(socket);
                    }
                }
                // Machines without IPv6 are machines too.
                Err(why)
                    if why.raw_os_error() == Some(libc::EAFNOSUPPORT)
                        && addresses.len() > 1
                        && address.is_ipv6() => {}
                Err(why) => return Err(why),
            }
        }
        Ok(opened)
    }

    /// Whether it reaches `to`.
    pub const fn reaches(&self, to: &SocketAddr) -> bool {
        self.is_v6 == to.is_ipv6()
    }

    /// Receives what came, several datagrams of one sender if there are; `None` if nothing did.
    pub fn receive(&mut self, room: &mut [u8]) -> Option<Received> {
        self.control.fill(0);
        let (bytes, address) = {
            let mut parts = [IoSliceMut::new(room)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let message = recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut self.control),
                flags,
            )
            .ok()?;
            (message.bytes, message.address)
        };
        let address = address?;
        let from = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => SocketAddr::from((v4.ip(), v4.port())),
            (_, Some(v6)) => SocketAddr::V6(SocketAddrV6::new(v6.ip(), v6.port(), 0, v6.scope_id())),
            _ => return None,
        };
        let mut received =
            Received { from: from.into(), traffic_class: 0, bytes, segment: bytes, stamped_ns: None };
        for_each_control(&self.control, |level, kind, data| match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // One byte, or a whole number whose lowest byte it is.
                received.traffic_class = if data.len() >= 4 { read_i32(data) as u8 } else { data[0] };
            }
            // The device, the address that is to answer, and that in the header; for IPv6 one address, and the device behind it.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if data.len() >= 12 => {
                let own: [u8; 4] = data[4..8].try_into().expect("there are four");
                received.from.near = Some(Near { address: own.into(), interface: read_i32(data) as u32 });
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if data.len() >= 20 => {
                let own: [u8; 16] = data[..16].try_into().expect("there are sixteen");
                let interface = read_i32(&data[16..]) as u32;
                received.from.near = Some(Near { address: own.into(), interface });
            }
            // Seconds and nanoseconds, eight bytes each.
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if data.len() >= 16 => {
                let [seconds, nanos] = [&data[..8], &data[8..16]].map(read_i64);
                received.stamped_ns = Some(seconds.saturating_mul(1_000_000_000).saturating_add(nanos));
            }
            (libc::SOL_UDP, libc::UDP_GRO) if data.len() >= 4 => {
                received.segment = usize::try_from(read_i32(data)).unwrap_or(0).max(1);
            }
            _ => {}
        });
        // Who has one address answers from there in any case.
        received.from.near = received.from.near.filter(|_| self.is_everywhere);
        Some(received)
    }

    /// Sends `bytes` to `to`: datagrams of `segment` bytes, the last of which may be shorter.
    pub fn send(&mut self, to: Ends, traffic_class: u8, bytes: &[u8], segment: usize) {
        let is_many = bytes.len() > segment;
        match self.send_from(to, traffic_class, bytes, is_many.then_some(segment)) {
            Ok(()) => self.count(Ok(()), to.far, 0),
            // The device or the path does not take them at once.
            Err(why) if is_many && why.kind() != io::ErrorKind::WouldBlock => {
                for one in bytes.chunks(segment) {
                    let sent = self.send_from(to, traffic_class, one, None);
                    self.count(sent, to.far, 1);
                }
            }
            failed @ Err(_) => self.count(failed, to.far, bytes.len().div_ceil(segment.max(1)) as u64),
        }
    }

    /// Nothing is sent to `to`, for no socket has its version of IP.
    pub fn lack(&mut self, to: SocketAddr, datagrams: u64) {
        self.count(Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)), to, datagrams);
    }

    fn count(&mut self, sent: io::Result<()>, to: SocketAddr, datagrams: u64) {
        match sent.map_err(|why| why.raw_os_error().unwrap_or(libc::EIO)) {
            Ok(()) if self.refusals.is_empty() => {}
            Ok(()) => self.refusals.clear(to),
            Err(libc::EMSGSIZE) => self.too_large += datagrams,
            // There is no room just now.
            Err(libc::EAGAIN | libc::ENOBUFS) => self.unsent += datagrams,
            Err(why) => {
                self.unsent += datagrams;
                self.refusals.add(to, why);
            }
        }
    }

    /// From the address that is wished for, or, where that is not ours any more, from one that the kernel chooses.
    fn send_from(&self, to: Ends, traffic_class: u8, bytes: &[u8], segment: Option<usize>) -> io::Result<()> {
        match self.send_once(to, traffic_class, bytes, segment) {
            Err(why)
                if to.near.is_some()
                    && why.kind() != io::ErrorKind::WouldBlock
                    && why.raw_os_error() != Some(libc::EMSGSIZE) =>
            {
                self.send_once(to.far.into(), traffic_class, bytes, segment)
            }
            sent => sent,
        }
    }

    fn send_once(&self, to: Ends, traffic_class: u8, bytes: &[u8], segment: Option<usize>) -> io::Result<()> {
        let mut control = [0; 2 * SPACE_BYTES + NEAR_SPACE_BYTES];
        let (level, kind) = if self.is_v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
        } else {
            (libc::IPPROTO_IP, libc::IP_TOS)
        };
        let mut used = write_control(&mut control, level, kind, &i32::from(traffic_class).to_ne_bytes());
        if let Some(segment) = segment {
            let size = (segment as u16).to_ne_bytes();
            used += write_control(&mut control[used..], libc::SOL_UDP, libc::UDP_SEGMENT, &size);
        }
        used += match to.near {
            None => 0,
            Some(Near { address: IpAddr::V4(address), .. }) => {
                let mut data = [0; 12];
                data[4..8].copy_from_slice(&address.octets());
                write_control(&mut control[used..], libc::IPPROTO_IP, libc::IP_PKTINFO, &data)
            }
            Some(Near { address: IpAddr::V6(address), interface }) => {
                let mut data = [0; 20];
                data[..16].copy_from_slice(&address.octets());
                // Such an address means nothing without its device; with another one a device would be a route.
                if address.is_unicast_link_local() {
                    data[16..].copy_from_slice(&interface.to_ne_bytes());
                }
                write_control(&mut control[used..], libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data)
            }
        };
        let (address, parts) = (to.far.into(), [IoSlice::new(bytes)]);
        let message = MsgHdr::new().with_addr(&address).with_buffers(&parts).with_control(&control[..used]);
        self.socket.sendmsg(&message, libc::MSG_DONTWAIT).map(|_| ())
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

// A control message is its length (a word), its level and its kind (four bytes each), and what it says, up to the next whole word.

const WORD: usize = size_of::<usize>();
const HEAD_BYTES: usize = WORD + 8;
/// Of a message that says four bytes or less.
const SPACE_BYTES: usize = HEAD_BYTES + WORD;

/// Of one with an address of ours.
const NEAR_SPACE_BYTES: usize = HEAD_BYTES + 3 * WORD;

/// Writes one into `room`; its length.
fn write_control(room: &mut [u8], level: i32, kind: i32, data: &[u8]) -> usize {
    let whole = HEAD_BYTES + data.len();
    room[..WORD].copy_from_slice(&whole.to_ne_bytes());
    room[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
    room[WORD + 4..HEAD_BYTES].copy_from_slice(&kind.to_ne_bytes());
    room[HEAD_BYTES..whole].copy_from_slice(data);
    whole.next_multiple_of(WORD)
}

/// Tells `each` of all of them; behind the last one there are zeros.
fn for_each_control(mut bytes: &[u8], mut each: impl FnMut(i32, i32, &[u8])) {
    while let Some(head) = bytes.get(..HEAD_BYTES) {
        let whole = usize::from_ne_bytes(head[..WORD].try_into().expect("it is a word"));
        if whole <= HEAD_BYTES || whole > bytes.len() {
            return;
        }
        each(read_i32(&head[WORD..]), read_i32(&head[WORD + 4..]), &bytes[HEAD_BYTES..whole]);
        bytes = bytes.get(whole.next_multiple_of(WORD)..).unwrap_or_default();
    }
}

fn read_i32(bytes: &[u8]) -> i32 {
    i32::from_ne_bytes(bytes[..4].try_into().expect("there are four"))
}

fn read_i64(bytes: &[u8]) -> i64 {
    i64::from_ne_bytes(bytes[..8].try_into().expect("there are eight"))
}

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::*;

    fn pair(address: &str) -> Option<(Udp, Udp, SocketAddr)> {
        let open = || Udp::open(address.parse().unwrap());
        let (one, other) = match (open(), open()) {
            (Ok(one), Ok(other)) => (one, other),
            // A machine without IPv6.
            (Err(why), _) | (_, Err(why)) if address.contains("::") => {
                eprintln!("not tried: {why}");
                return None;
            }
            (Err(why), _) | (_, Err(why)) => panic!("{why}"),
        };
        let to = other.socket.local_addr().unwrap().as_socket().unwrap();
        Some((one, other, to))
    }

    fn receive_all(socket: &mut Udp, datagrams: usize) -> Vec<(u8, Vec<u8>)> {
        let mut room = vec![0; 65_535];
        let mut all = Vec::new();
        for _ in 0..1000 {
            while let Some(received) = socket.receive(&mut room) {
                let parts = room[..received.bytes].chunks(received.segment.max(1));
                all.extend(parts.map(|part| (received.traffic_class, part.to_vec())));
            }
            if all.len() >= datagrams {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        all
    }

    #[test]
    fn many_datagrams_arrive_as_they_were_with_their_codepoint() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some((mut one, mut other, to)) = pair(address) else { continue };
            let bytes: Vec<u8> = (0..20 * 1200 + 77).map(|at| (at * 7) as u8).collect();
            one.send(to.into(), 46 << 2 | 1, &bytes, 1200);
            one.send(to.into(), 0, &bytes[..5], 5);
            let all = receive_all(&mut other, 22);
            assert_eq!(all.len(), 22, "{address}");
            let expected = bytes.chunks(1200).map(|part| (46 << 2 | 1, part.to_vec()));
            assert!(all[..21].iter().cloned().eq(expected), "{address}");
            assert_eq!(all[21], (0, bytes[..5].to_vec()));
            assert_eq!((one.unsent, one.too_large), (0, 0));
        }
    }

    #[test]
    fn why_nothing_is_sent_is_remembered_until_something_is() {
        let (mut one, mut other, to) = pair("127.0.0.1:0").expect("every machine has IPv4");
        let nowhere: SocketAddr = "0.0.0.1:9".parse().unwrap();
        one.send(nowhere.into(), 0, &[1; 60], 20);
        assert_eq!(one.unsent, 3);
        assert!(one.refusals.of(nowhere).is_some());
        one.send(to.into(), 0, &[2; 20], 20);
        assert_eq!(receive_all(&mut other, 1).len(), 1);
        assert!(one.refusals.of(nowhere).is_some(), "that went elsewhere");
        one.lack(to, 2);
        assert_eq!((one.unsent, one.refusals.of(to)), (5, Some(libc::EAFNOSUPPORT)));
        assert!(one.refusals.of(nowhere).is_some(), "each has its own");
        one.send(to.into(), 0, &[3; 20], 20);
        assert_eq!(one.refusals.of(to), None);
        // Others than are remembered take the place of one.
        for port in 1..40 {
            one.lack(SocketAddr::new(to.ip(), port), 1);
        }
        assert_eq!(one.refusals.iter().count(), REFUSALS);
    }

    #[test]
    fn an_answer_goes_from_where_it_was_asked_for_as_long_as_that_is_ours() {
        let hears = |socket: &mut Udp| {
            (0..1000).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                socket.receive(&mut [0; 100]).map(|received| received.from)
            })
        };
        let cases: [(&str, &str, &[&str], &str); 2] = [
            ("127.0.0.1:0", "0.0.0.0:0", &["127.0.0.1", "127.0.0.2", "127.0.0.3"], "192.0.2.9"),
            ("[::1]:0", "[::]:0", &["::1"], "2001:db8::9"),
        ];
        for (own, everywhere, addresses, nobodys) in cases {
            let opened = (Udp::open(own.parse().unwrap()), Udp::open(everywhere.parse().unwrap()));
            let (Ok(mut asks), Ok(mut answers)) = opened else {
                assert!(own.contains("::"), "only IPv6 may be missing");
                continue;
            };
            let port = answers.socket.local_addr().unwrap().as_socket().unwrap().port();
            for (address, segment) in addresses.iter().zip([60, 60, 20]) {
                let asked = SocketAddr::new(address.parse().unwrap(), port);
                asks.send(asked.into(), 0, &[1; 60], 60);
                let from = hears(&mut answers).expect("it was asked");
                let near = from.near.expect("it hears at all addresses");
                assert_eq!(near.address, asked.ip());
                answers.send(from, 5, &[2; 60], segment);
                let answered = hears(&mut asks).expect("it answers");
                assert_eq!((answered.far, answered.near), (asked, None), "and has one address itself");
                // What is nobody's address any more is no reason to be silent.
                let gone = Near { address: nobodys.parse().unwrap(), ..near };
                answers.send(Ends { near: Some(gone), ..from }, 0, &[3; 60], segment);
                let chosen = hears(&mut asks).expect("it answers all the same").far;
                assert_eq!(chosen, SocketAddr::new(addresses[0].parse().unwrap(), port));
            }
            assert_eq!((answers.unsent, answers.too_large), (0, 0));
        }
    }

    #[test]
    fn a_datagram_comes_when_the_kernel_gets_it_not_when_it_is_read() {
        let (mut one, mut other, to) = pair("127.0.0.1:0").expect("every machine has IPv4");
        let wall = || clock::now().as_nanos().cast_signed() + clock::wall_offset_ns();
        let mut room = vec![0; 65_535];
        // On a busy machine it may come late; not twenty times.
        let is_early = (0..20).any(|_| {
            let sent = wall();
            one.send(to.into(), 0, &[1; 100], 100);
            std::thread::sleep(std::time::Duration::from_millis(20));
            let read = wall();
            let stamped = other.receive(&mut room).and_then(|received| received.stamped_ns);
            let stamped = stamped.expect("this kernel stamps");
            assert!(sent <= stamped && stamped <= wall(), "{sent} {stamped}");
            stamped < read - 10_000_000
        });
        assert!(is_early);
    }

    #[test]
    fn the_kernel_gives_each_thread_what_is_its_own_and_nobody_else_gets_a_part() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some((mut one, ..)) = pair(address) else { continue };
            let (mut threads, steered) =
                Udp::open_shared(address.parse().unwrap(), 3, Vec::new()).expect("there is a port");
            steered.expect("this kernel takes the program");
            let to = threads[0].socket.local_addr().unwrap().as_socket().unwrap();
            let datagram = |kind: u8, name: u8, mark: u8| [kind, 0, 0, 0, 77, name, 0, 0, mark];
            // Sessions of each thread, of none, a cookie, both handshakes, garbage; what is too short.
            let cases = [
                (4, 0x10, 0),
                (4, 0x21, 1),
                (4, 0xf2, 2),
                (4, 0x13, 0),
                (3, 2, 2),
                (1, 1, 0),
                (2, 1, 0),
                (9, 1, 0),
            ];
            for (mark, &(kind, name, _)) in (0..).zip(&cases) {
                one.send(to.into(), 0, &datagram(kind, name, mark), 9);
            }
            one.send(to.into(), 0, &[4], 1);
            for (thread, socket) in threads.iter_mut().enumerate() {
                let expected: Vec<Vec<u8>> = (0..)
                    .zip(&cases)
                    .filter(|(_, (.., whose))| *whose == thread)
                    .map(|(mark, &(kind, name, _))| datagram(kind, name, mark).to_vec())
                    .chain((thread == 0).then(|| vec![4]))
                    .collect();
                let all = receive_all(socket, expected.len());
                assert_eq!(all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), expected, "{thread}");
            }
            let refused = Udp::open_shared(to, 2, Vec::new()).map(|_| ()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn control_messages_are_read_as_they_were_written() {
        let mut room = [0; 64];
        let first = write_control(&mut room, 17, 103, &[1, 2]);
        write_control(&mut room[first..], 41, 67, &[9, 0, 0, 0]);
        let mut read = Vec::new();
        for_each_control(&room, |level, kind, data| read.push((level, kind, data.to_vec())));
        assert_eq!(read, [(17, 103, vec![1, 2]), (41, 67, vec![9, 0, 0, 0])]);
    }

    #[test]
    fn any_control_bytes_are_read() {
        use proptest::prelude::*;
        proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..128))| {
            for_each_control(&bytes, |_, _, data| assert!(!data.is_empty()));
        });
    }
}

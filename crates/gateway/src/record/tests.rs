//! Records one by one, and gateways that are recorded and replayed.

use std::collections::VecDeque;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::random::Seed;
use tidegate_packet::{DropReason, MarkReason};
use tidegate_units::{BitRate, Span};
use tidegate_wire::recording::frames::DecodeError;

use super::step::{Answer, Kept, Step};
use super::*;
use crate::core::config::{RateConfig, SiteConfig};
use crate::core::store::{BUFFER_BYTES, Way};
use crate::tunnel::Opened;
use crate::tunnel::plain::PlainTunnels;

const MARKER: &[u8] = b"what hosts say to each other";
const WAY: Span = Span::from_millis(5);

fn address(site: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, site as u8], 51820))
}

/// Gateway `here` of three, of which the last two reach each other by way of the first.
fn config(here: usize) -> GatewayConfig {
    let site = |there: usize| {
        let is_far = here != 0 && there != 0;
        SiteConfig {
            name: format!("site{there}"),
            id: there as u64,
            endpoint: (!is_far).then(|| address(there)),
            networks: vec![format!("10.{there}.0.0/16").parse().expect("it is a network")],
            control: (!is_far).then(|| EdgeConfig::Path(Box::default())),
            rate: RateConfig {
                floor: BitRate::from_mbps(1),
                max: BitRate::from_mbps(20),
                fallback: BitRate::from_mbps(2),
            },
            via: is_far.then_some(0),
        }
    };
    GatewayConfig {
        id: here as u64,
        address4: Some([10, here as u8, 0, 1].into()),
        address6: None,
        sites: (0..3).filter(|&there| there != here).map(site).collect(),
        classes: Vec::new(),
        buffers: 128,
        mtu: 1420,
        flows: 64,
        relay: Some(HopConfig::Nbq(Box::default())),
        seed: 7 + here as u64,
    }
}

type Recorded = Core<PlainTunnels, Vec<u8>>;

struct World {
    cores: Vec<Recorded>,
    now: Time,
    under_way: VecDeque<(Time, usize, SocketAddr, u8, Vec<u8>)>,
    delivered: usize,
}

impl World {
    fn new() -> Self {
        let core = |here: usize| {
            let others = (0..3).filter(|&there| there != here);
            let secrets: Vec<_> =
                others.map(|there| (3 + (here + there) as u64, 4 + (here * there) as u64)).collect();
            let tunnels = PlainTunnels::new(&secrets, None, 1, Seed(here as u64));
            Core::new(config(here), "text", tunnels, Some(Tape::new(Vec::new())), Time::ZERO)
        };
        Self { cores: (0..3).map(core).collect(), now: Time::ZERO, under_way: VecDeque::new(), delivered: 0 }
    }

    /// Up to `until`, in steps of a tenth of a millisecond.
    fn run(&mut self, until: Time) {
        let mut room = [0; BUFFER_BYTES];
        while self.now < until {
            self.now += Span::from_micros(100);
            while let Some((_, to, from, traffic_class, datagram)) =
                self.under_way.pop_front_if(|(at, ..)| *at <= self.now)
            {
                self.cores[to]
                    .handle(Input::Wan { from: from.into(), traffic_class, datagram: &datagram }, self.now);
            }
            for (here, core) in self.cores.iter_mut().enumerate() {
                while core.poll_lan(self.now).is_some() {
                    self.delivered += 1;
                }
                if core.poll_timeout().is_none_or(|due| due > self.now) {
                    continue;
                }
                while let Some(output) = core.poll_output(self.now, &mut room) {
                    let Output::Wan { to, traffic_class, bytes } = output else {
                        self.delivered += 1;
                        continue;
                    };
                    let to = (0..3).find(|&site| address(site) == to.far).expect("it is one of them");
                    let datagram = room[..bytes].to_vec();
                    self.under_way.push_back((self.now + WAY, to, address(here), traffic_class, datagram));
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: u8, bytes: usize) {
        let builder = PacketBuilder::ipv4([10, from as u8, 0, 9], [10, to, 0, 9], 60);
        let payload: Vec<u8> = MARKER.iter().copied().cycle().take(bytes).collect();
        let mut packet = Vec::new();
        let port = 1000 + (bytes % 7) as u16;
        let written = match bytes % 3 {
            0 => builder.tcp(port, 80, 7, 9).write(&mut packet, &payload),
            1 => builder.udp(port, 80).write(&mut packet, &payload),
            _ => builder.icmpv4_echo_request(7, port).write(&mut packet, &payload),
        };
        written.expect("there is room");
        self.cores[from].handle(Input::Lan(&packet), self.now);
    }

    /// Traffic of all kinds: between neighbours and through the relay, more than there is room for, and what is none.
    fn load(&mut self, seconds: u64) {
        let end = self.now + Span::from_secs(seconds);
        let mut number = 0;
        while self.now < end {
            number += 1;
            for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
                self.send(from, to, 40 + number * 37 % 1300);
            }
            if number % 50 == 0 {
                (0..200).for_each(|more| self.send(1, 0, 1200 + more % 3));
                self.send(0, 9, 100);
                self.send(2, 1, 1450);
                self.cores[0].handle(Input::Lan(MARKER), self.now);
                let input = Input::Wan { from: address(9).into(), traffic_class: 3, datagram: MARKER };
                self.cores[0].handle(input, self.now);
            }
            self.run(self.now + Span::from_millis(2));
        }
    }

    fn recordings(&mut self) -> Vec<Vec<u8>> {
        let now = self.now;
        self.cores
            .iter_mut()
            .map(|core| core.stop(now).expect("it is recorded").finish(now).expect("memory is not full"))
            .collect()
    }
}

fn replayed(here: usize, recording: &[u8]) -> Result<Outcome, ReplayError> {
    replay(
        recording,
        |begin| if begin.text == "text" { Ok(config(here)) } else { Err("another text".into()) },
    )
}

fn three() -> Vec<Vec<u8>> {
    let mut world = World::new();
    world.run(Time::ZERO + Span::from_secs(1));
    world.load(3);
    let now = world.now;
    world.cores[1].find(0, address(0), now);
    // One is configured anew, and another one leaves.
    let core = world.cores.swap_remove(1);
    let again = core.reload(GatewayConfig { seed: 99, ..config(1) }, "text", None, now, |_| ());
    world.cores.insert(1, again);
    world.load(1);
    let end = world.now;
    world.cores[2].drain(end);
    world.run(end + Span::from_millis(500));
    assert!(world.delivered > 1000, "{}", world.delivered);
    let recordings = world.recordings();
    // They go on, and keep nothing for a recording that is over.
    world.load(1);
    assert!(world.cores.iter_mut().all(|one| one.gateway.fates_beside().0.is_empty()));
    recordings
}

#[test]
fn gateways_replay_verdict_by_verdict_and_no_payload_is_written() {
    let recordings = three();
    for (here, recording) in recordings.iter().enumerate() {
        let outcome = replayed(here, recording).unwrap();
        assert_eq!((outcome.differing, &outcome.first[..]), (0, &[][..]), "{here}");
        assert!(outcome.verdicts > 3000, "{outcome:?}");
        assert!(outcome.to_hosts > 100 && outcome.datagrams > 1000 && outcome.sealed > 1000, "{outcome:?}");
        assert_eq!((outcome.cores, &*outcome.version), (1 + u64::from(here == 1), env!("CARGO_PKG_VERSION")));
        assert!(!recording.windows(8).any(|window| window == &MARKER[..8]), "payload is in it");
    }
    let drops: u64 = (0..3).map(|here| replayed(here, &recordings[here]).unwrap().drops).sum();
    assert!(drops > 100, "{drops}");
}

/// Where records begin in `recording`, and how long they are.
fn records(recording: &[u8]) -> Vec<(usize, usize)> {
    let mut at = 10;
    let mut all = Vec::new();
    while at + 8 < recording.len() {
        let length = u32::from_le_bytes(recording[at..at + 4].try_into().unwrap()) as usize;
        all.push((at + 4, length));
        at += 4 + length;
    }
    all
}

/// The same recording with another record in the place of number `which`, and a digest that fits.
fn with(recording: &[u8], which: usize, change: impl FnOnce(&mut Step)) -> Vec<u8> {
    let mut change = Some(change);
    let mut frames = tidegate_wire::recording::frames::FrameWriter::new(Vec::new(), &super::step::FORMAT);
    for (number, (at, length)) in records(recording).into_iter().enumerate() {
        let mut step = Step::decode(&recording[at..at + length]).unwrap();
        if number == which {
            change.take().unwrap()(&mut step);
        }
        frames.write(&step.encode());
    }
    frames.finish().unwrap()
}

#[test]
fn one_verdict_that_was_changed_is_found_and_told_where() {
    let recording = &three()[0];
    let all = records(recording);
    let find = |wanted: fn(&Verdict) -> bool| {
        let has = |&(at, length): &(usize, usize)| {
            Step::decode(&recording[at..at + length]).unwrap().verdicts.iter().any(wanted)
        };
        all.iter().position(has).expect("there is one")
    };
    let which = find(|verdict| matches!(verdict, Verdict::Lan(..)));
    let changed = with(recording, which, |step| {
        let Some(Verdict::Lan(_, traffic_class, _)) =
            step.verdicts.iter_mut().find(|verdict| matches!(verdict, Verdict::Lan(..)))
        else {
            panic!("there is one")
        };
        *traffic_class ^= 3;
    });
    let outcome = replayed(0, &changed).unwrap();
    assert_eq!((outcome.differing, outcome.first.len()), (1, 1));
    let told = outcome.first[0].to_string();
    assert!(told.contains("expected: to hosts") && told.contains("Ce") && told.contains("NotEct"), "{told}");

    let sealed = find(|verdict| matches!(verdict, Verdict::Sealed(..)));
    let missing = with(recording, sealed, |step| step.verdicts.clear());
    let without = replayed(0, &missing).unwrap();
    assert!(without.differing > 0 && without.first[0].to_string().contains("expected: nothing"));
    assert_eq!(without.first[0].site.as_deref(), Some("site1"));

    // Another answer of the tunnels leads elsewhere, and a packet that did not come as well.
    let has_answers = |&(at, length): &(usize, usize)| {
        let step = Step::decode(&recording[at..at + length]).unwrap();
        matches!(step.what, What::Wan(..)) && !step.answers.is_empty()
    };
    let asked = all.iter().position(has_answers).expect("there is one");
    let lost = with(recording, asked, |step| step.answers.push((0, Answer::Up(true))));
    let elsewhere = replayed(0, &lost).unwrap();
    assert!(elsewhere.first.iter().any(|difference| difference.differs == Differs::Asked), "{elsewhere:?}");
}

#[test]
fn what_is_cut_or_changed_is_told_and_nothing_panics() {
    let recording = &three()[2];
    let all = records(recording);
    let middle = all[all.len() / 2].0;
    let why = replayed(2, &recording[..middle + 3]).unwrap_err();
    assert!(matches!(why, ReplayError::Decode(DecodeError::CutOff, _)), "{why}");
    assert!(why.to_string().contains("ends early") && why.to_string().contains(" 0 differ"), "{why}");
    assert!(matches!(replayed(2, b"hello"), Err(ReplayError::Decode(DecodeError::NoRecording(_), _))));
    let other = [&b"TDGTREC\n"[..], &recording[8..]].concat();
    assert!(matches!(
        replayed(2, &other),
        Err(ReplayError::Decode(DecodeError::Other("tidegate replay"), _))
    ));
    let appended = [&recording[..], &[0]].concat();
    assert!(matches!(replayed(2, &appended), Err(ReplayError::Decode(DecodeError::Appended, _))));
    let text = recording.windows(4).position(|four| four == b"text").expect("it is there");
    let mut another = recording.clone();
    another[text] = b'T';
    assert!(matches!(replayed(2, &another), Err(ReplayError::Configuration(_))));
    // Any bit of it: it differs, or is refused.
    for at in (0..recording.len()).step_by(recording.len() / 60) {
        let mut flipped = recording.clone();
        flipped[at] ^= 1 << (at % 8);
        if let Ok(outcome) = replayed(2, &flipped) {
            panic!("byte {at} counts for nothing: {outcome:?}");
        }
    }
}

#[test]
fn a_file_that_takes_no_more_ends_the_recording_and_nothing_else() {
    /// Has room for so many bytes.
    #[derive(Debug)]
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let tunnels = PlainTunnels::new(&[(1, 2), (3, 4)], None, 1, Seed(1));
    let mut core = Core::new(config(0), "text", tunnels, Some(Tape::new(Full(2000))), Time::ZERO);
    let mut room = [0; BUFFER_BYTES];
    let mut outputs = 0;
    for second in 1..100 {
        let now = Time::from_nanos(second * 1_000_000_000);
        while core.poll_output(now, &mut room).is_some() {
            outputs += 1;
        }
    }
    assert!(core.has_failed() && outputs > 20);
    let why = core.stop(Time::from_nanos(100_000_000_000)).expect("it was recorded").finish(Time::ZERO);
    assert_eq!(why.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert!(core.stop(Time::ZERO).is_none());
}

fn any_socket() -> impl Strategy<Value = SocketAddr> {
    let v6 = (any::<[u8; 16]>(), any::<u16>(), any::<u32>(), any::<u32>())
        .prop_map(|(ip, port, flow, scope)| std::net::SocketAddrV6::new(ip.into(), port, flow, scope).into());
    prop_oneof![any::<([u8; 4], u16)>().prop_map(SocketAddr::from), v6]
}

fn any_kept() -> impl Strategy<Value = Kept> {
    (prop::collection::vec(any::<u8>(), 0..80), 0u16..1500)
        .prop_map(|(beginning, more)| Kept { bytes: beginning.len() as u16 + more, beginning })
}

fn any_refusal() -> impl Strategy<Value = Refusal> {
    prop::sample::select(&Refusal::ALL[..])
}

fn any_what() -> impl Strategy<Value = What> {
    let endpoints = prop::collection::vec(prop::option::of(any_socket()), 0..4);
    let begin = ("\\PC{0,9}", "\\PC{0,99}", any::<(u64, u64)>(), endpoints).prop_map(
        |(version, text, (id, seed), endpoints)| {
            What::Begin(Box::new(Begin { version, text, id, seed, endpoints }))
        },
    );
    prop_oneof![
        begin,
        any_kept().prop_map(What::Lan),
        (any_socket(), any::<u8>(), any::<u16>())
            .prop_map(|(from, class, bytes)| What::Wan(from, class, bytes)),
        Just(What::PollOutput),
        Just(What::PollLan),
        (any::<u32>(), any_socket()).prop_map(|(site, endpoint)| What::Find(site, endpoint)),
        Just(What::Drain),
        Just(What::Close),
        Just(What::End),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let opened = any_kept().prop_map(|kept| Answer::Opened(Opened::Packet(kept.bytes.into()), kept));
    let other = |what| Answer::Opened(what, Kept::default());
    prop_oneof![
        any::<u32>().prop_map(|peer| Answer::Addressed(Addressed::Peer(peer))),
        any::<u32>().prop_map(|bytes| Answer::Addressed(Addressed::Reply(bytes as usize))),
        any_refusal().prop_map(|why| Answer::Addressed(Addressed::Refused(why))),
        any::<bool>().prop_map(Answer::Up),
        prop::option::of(any::<u16>()).prop_map(Answer::Sealed),
        opened,
        Just(other(Opened::Handshake)),
        Just(other(Opened::Asked)),
        Just(other(Opened::Noted)),
        any_refusal().prop_map(move |why| other(Opened::Refused(why))),
        any::<u16>().prop_map(Answer::Said),
        prop::option::of(any::<u64>().prop_map(Time::from_nanos)).prop_map(Answer::Timeout),
    ]
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    let site_and_bytes = any::<(u32, u32)>();
    let stray = prop_oneof![
        Just(Stray::Bad),
        Just(Stray::Unrouted),
        Just(Stray::Unrelayed),
        any_refusal().prop_map(Stray::Refused),
    ];
    prop_oneof![
        any::<(u16, u8, u32)>().prop_map(|(bytes, class, digest)| Verdict::Lan(bytes, class, digest)),
        (any_socket(), any::<u8>(), any::<u16>())
            .prop_map(|(to, class, bytes)| Verdict::Wan(to, class, bytes)),
        any::<(u32, u16, u8, u32)>()
            .prop_map(|(site, bytes, class, digest)| Verdict::Sealed(site, bytes, class, digest)),
        (site_and_bytes, prop::sample::select(DropReason::ALL))
            .prop_map(|((site, bytes), why)| Verdict::Dropped(site, bytes, why)),
        (site_and_bytes, prop::sample::select(MarkReason::ALL))
            .prop_map(|((site, bytes), why)| Verdict::Marked(site, bytes, why)),
        (any::<u32>(), prop::sample::select(&[Way::Out, Way::In][..]))
            .prop_map(|(site, way)| Verdict::Unheld(site, way)),
        stray.prop_map(Verdict::Stray),
        (any::<u32>(), any::<[u64; COUNTS]>())
            .prop_map(|(site, counts)| Verdict::Passed(site, Box::new(counts))),
    ]
}

proptest! {
    #[test]
    fn records_survive(
        at in 0u64..1 << 62, what in any_what(), answers in prop::collection::vec((any::<u32>(), any_answer()), 0..4),
        verdicts in prop::collection::vec(any_verdict(), 0..4),
    ) {
        let step = Step { at: Time::from_nanos(at), what, answers, verdicts };
        let bytes = step.encode();
        prop_assert_eq!(Step::decode(&bytes).unwrap(), step.clone());
        for cut in 0..bytes.len() {
            // What is shorter is an error, or another one.
            prop_assert!(Step::decode(&bytes[..cut]).map_or(true, |less| less != step));
        }
    }

    /// What is decoded is encoded to the same bytes where answers precede verdicts, so no byte of a record is without meaning.
    #[test]
    fn any_bytes_are_a_record_or_none(what in any_what(), spoilt in any::<[(u16, u8); 3]>(), more in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut bytes = Step { at: Time::ZERO, what, answers: Vec::new(), verdicts: Vec::new() }.encode();
        bytes.extend(more);
        for (at, value) in spoilt {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= value;
        }
        if let Ok(step) = Step::decode(&bytes) {
            prop_assert_eq!(step.encode().len(), bytes.len());
        }
    }
}

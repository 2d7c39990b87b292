//! A border as a world drives it: the example, and any order of calls with any bytes.

use proptest::prelude::*;
use tidegate_mechanism::Context;
use tidegate_mechanism::edge::iec::{Detection, OverlayConfig};
use tidegate_mechanism::edge::nbp::{Classify, NbpConfig};
use tidegate_mechanism::edge::tcp_rate::TcpRateConfig;
use tidegate_mechanism::edge::{
    Border, BorderSite, EdgeConfig, PacketStore, PeerId, SegmentEditor, Transmit,
};
use tidegate_packet::{
    Address, DropReason, Dscp, Ecn, FlowId, Headers, MarkReason, Packet, Protocol, Sink, TcpFlags, TcpHeader,
};
use tidegate_units::{BitRate, Span, Time};

#[path = "../examples/two_borders.rs"]
mod two_borders;

#[test]
fn two_borders_keep_the_queue_between_them_short_over_a_lossy_channel() {
    for config in [EdgeConfig::Nbp(Box::default()), EdgeConfig::Iec(Box::default())] {
        let outcome = two_borders::run(&config, 30);
        // 3750 packets fit through in that time, and 15,000 want to; of NBP's, feedback takes a part.
        assert!(outcome.delivered > 3_000, "the channel is used: {outcome:?}");
        assert!(outcome.overflows * 50 < outcome.delivered, "and its queue is not full: {outcome:?}");
        assert!(outcome.refused > 10_000, "the rest never enters: {outcome:?}");
    }
}

/// One call, by a world that knows no rules.
#[derive(Clone, Debug)]
enum Call {
    Enter {
        flow: u8,
        wire_bytes: u32,
        dscp: u8,
        exits: Vec<u32>,
    },
    Leave {
        flow: u8,
        wire_bytes: u32,
        entry: Vec<u32>,
        ecn: u8,
        is_tunnelled: bool,
    },
    Bytes {
        from: u32,
        bytes: Vec<u8>,
        ttl: u8,
    },
    /// The message that was heard so many before the last, from the other border or from itself, damaged or not.
    Echo {
        from: u32,
        which: usize,
        flip: Option<(usize, u8)>,
        ttl: u8,
    },
    Timeout,
    Poll {
        count: u8,
    },
    /// Time goes on, or seems to go back.
    Clock {
        nanos: i64,
    },
}

fn call() -> impl Strategy<Value = Call> {
    let peers = || prop::collection::vec(0u32..3, 0..3);
    let flip = prop::option::weighted(0.3, (0usize..80, 1u8..=255));
    prop_oneof![
        6 => (0u8..6, 0u32..3000, 0u8..64, peers())
            .prop_map(|(flow, wire_bytes, dscp, exits)| Call::Enter { flow, wire_bytes, dscp, exits }),
        4 => (0u8..6, 0u32..3000, peers(), 0u8..4, any::<bool>()).prop_map(
            |(flow, wire_bytes, entry, ecn, is_tunnelled)| Call::Leave { flow, wire_bytes, entry, ecn, is_tunnelled }
        ),
        1 => (0u32..3, prop::collection::vec(any::<u8>(), 0..80), any::<u8>())
            .prop_map(|(from, bytes, ttl)| Call::Bytes { from, bytes, ttl }),
        6 => (0u32..3, 0usize..8, flip, any::<u8>())
            .prop_map(|(from, which, flip, ttl)| Call::Echo { from, which, flip, ttl }),
        3 => Just(Call::Timeout),
        4 => (0u8..5).prop_map(|count| Call::Poll { count }),
        6 => prop_oneof![
            8 => 0i64..20_000_000, 1 => 0i64..20_000_000_000, 1 => -20_000_000i64..0, 1 => any::<i64>().prop_map(|n| n >> 8),
        ].prop_map(|nanos| Call::Clock { nanos }),
    ]
}

fn config() -> impl Strategy<Value = EdgeConfig> {
    let nbp = (0u8..3, 1u32..4, any::<bool>(), prop::option::of(1.0f64..4.0)).prop_map(
        |(granularity, flows_max, asynch_repeats, arrival_headroom)| {
            let classify = Classify::ALL[usize::from(granularity)];
            let exempt = vec![Dscp::EF.get()];
            let idle_timeout = Span::from_millis(50);
            let base = NbpConfig::default();
            EdgeConfig::Nbp(Box::new(NbpConfig {
                classify,
                flows_max,
                asynch_repeats,
                arrival_headroom,
                exempt,
                idle_timeout,
                ..base
            }))
        },
    );
    let iec = (0u8..3, any::<bool>()).prop_map(|(detection, with_tcp)| {
        let detection = match detection {
            0 => Detection::OneWay,
            1 => Detection::RoundTrip,
            _ => Detection::Marks,
        };
        let tcp_rate = with_tcp.then(TcpRateConfig::default);
        let idle_timeout = Span::from_millis(50);
        EdgeConfig::from(OverlayConfig { detection, tcp_rate, idle_timeout, ..OverlayConfig::default() })
    });
    prop_oneof![nbp, iec]
}

fn headers(flow: u8) -> Headers {
    Headers {
        source: Address::V4([10, 0, 0, flow]),
        destination: Address::V4([10, 0, flow % 2, 2]),
        flow_label: 0,
        protocol: if flow.is_multiple_of(2) { Protocol::TCP } else { Protocol::UDP },
        source_port: 1,
        destination_port: 2,
        dscp: Dscp::BEST_EFFORT,
        ecn: Ecn::NotEct,
    }
}

fn segment(flow: u8) -> Option<TcpHeader> {
    let header = TcpHeader { payload_bytes: 1000, flags: TcpFlags::ACK, ..TcpHeader::default() };
    flow.is_multiple_of(2).then_some(header)
}

#[derive(Default)]
struct Store {
    dropped: u32,
}

impl Sink for Store {
    fn on_drop(&mut self, _packet: Packet, _why: DropReason) {
        self.dropped += 1;
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {}
}

impl PacketStore for Store {
    fn headers(&self, packet: &Packet) -> Headers {
        headers(packet.flow.0 as u8)
    }
    fn segment(&mut self, packet: Packet) -> Option<impl SegmentEditor> {
        segment(packet.flow.0 as u8)
    }
}

/// A border, what was said by it, and where its packets are.
struct World {
    border: Border,
    store: Store,
    heard: Vec<Vec<u8>>,
    now: Time,
    /// The latest that it ever was.
    latest: Time,
    entered: u32,
    went_on: u32,
    message: Vec<u8>,
}

impl World {
    fn new(config: &EdgeConfig) -> Self {
        let site = BorderSite { border: PeerId(0), level: 0 };
        let border = Border::new(config, site, &Context::for_tests());
        let (heard, message, now) = (Vec::new(), Vec::new(), Time::from_nanos(1_000_000_000));
        Self { border, store: Store::default(), heard, now, latest: now, entered: 0, went_on: 0, message }
    }

    fn poll(&mut self) -> bool {
        match self.border.poll_transmit(self.now, &mut self.store, &mut self.message) {
            None => return false,
            Some(Transmit::Packet(_)) => self.went_on += 1,
            Some(Transmit::Message { .. }) => self.heard.push(self.message.clone()),
        }
        true
    }

    fn call(&mut self, call: Call) {
        let now = self.now;
        match call {
            Call::Enter { flow, wire_bytes, dscp, exits } => {
                self.entered += 1;
                let exits: Vec<PeerId> = exits.into_iter().map(PeerId).collect();
                let mut packet = Packet::new(0, FlowId(u32::from(flow)), wire_bytes);
                packet.dscp = Dscp::new(dscp);
                let passed = self.border.handle_packet(packet, &headers(flow), &exits, now, &mut self.store);
                self.went_on += u32::from(passed.is_some());
            }
            Call::Leave { flow, wire_bytes, entry, ecn, is_tunnelled } => {
                let entry: Vec<PeerId> = entry.into_iter().map(PeerId).collect();
                let mut packet = Packet::new(0, FlowId(u32::from(flow)), wire_bytes);
                packet.ecn = Ecn::from_bits(ecn);
                if is_tunnelled {
                    packet.inner_ecn.put(0, Ecn::Ect0);
                }
                let mut segment = segment(flow);
                self.border.handle_leaving(&mut packet, &headers(flow), &entry, segment.as_mut(), now);
            }
            Call::Bytes { from, bytes, ttl } => self.border.handle_message(PeerId(from), &bytes, ttl, now),
            Call::Echo { from, which, flip, ttl } => {
                let Some(bytes) = self.heard.iter().rev().nth(which) else { return };
                let mut bytes = bytes.clone();
                if let Some((at, mask)) = flip.filter(|(at, _)| *at < bytes.len()) {
                    bytes[at] ^= mask;
                }
                self.border.handle_message(PeerId(from), &bytes, ttl, now);
            }
            Call::Timeout => self.border.handle_timeout(now),
            Call::Poll { count } => {
                for _ in 0..count {
                    self.poll();
                }
            }
            Call::Clock { nanos } => {
                self.now = Time::from_nanos(now.as_nanos().saturating_add_signed(nanos));
                self.latest = self.latest.max(self.now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_order_of_calls_is_safe_and_loses_no_packet(
        config in config(), calls in prop::collection::vec(call(), 0..120), pairs in any::<bool>(),
    ) {
        // What one says the other hears, if there are two.
        let mut worlds = vec![World::new(&config)];
        if pairs {
            worlds.push(World::new(&config));
        }
        let count = worlds.len();
        for (turn, call) in calls.into_iter().enumerate() {
            let (said, hears) = (turn % count, (turn + 1) % count);
            if count > 1 && let Some(message) = worlds[said].heard.last().cloned() {
                worlds[hears].heard.push(message);
            }
            let world = &mut worlds[hears];
            world.call(call);
            let held = world.border.held_packets() as u32;
            prop_assert_eq!(world.entered, world.went_on + world.store.dropped + held);
        }
        for mut world in worlds {
            // A world that comes back is done with this instant at some time.
            world.now = world.latest;
            world.border.handle_timeout(world.now);
            let mut polls = 0;
            while world.poll() {
                polls += 1;
                prop_assert!(polls < 1000, "it says no more than there is to say");
            }
            prop_assert!(world.border.poll_timeout().is_none_or(|at| at > world.latest));
        }
    }
}

#[test]
fn what_is_not_asked_for_is_asked_for_again_at_once() {
    let mut world = World::new(&EdgeConfig::Nbp(Box::new(NbpConfig {
        initial_rate: Some(BitRate::from_mbps(1)),
        ..NbpConfig::default()
    })));
    world.call(Call::Enter { flow: 0, wire_bytes: 1000, dscp: 0, exits: vec![1] });
    assert_eq!(world.border.poll_timeout(), Some(world.now), "a new flow is announced");
    world.border.handle_timeout(world.now);
    assert_eq!(world.border.poll_timeout(), Some(world.now), "there is something to say");
    assert!(world.poll() && world.poll() && !world.poll());
    assert_eq!((world.heard.len(), world.went_on), (1, 1));
    assert!(world.border.poll_timeout().is_some_and(|at| at > world.now));
}

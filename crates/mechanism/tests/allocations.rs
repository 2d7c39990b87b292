//! A border allocates while it meets something new, a flow or a peer, and nothing any more when it knows them; flow queueing while
//! more waits than ever before; a call nothing at all.

use tidegate_mechanism::Context;
use tidegate_mechanism::edge::{
    Border, BorderSite, EdgeConfig, PacketStore, PeerId, SegmentEditor, Transmit,
};
use tidegate_mechanism::queue::QueueDiscipline;
use tidegate_mechanism::schedule::{CakeConfig, FlowQueueingConfig, FqCodelConfig, FqPieConfig};
use tidegate_mechanism::scream::{ScreamConfig, ScreamReceiver, ScreamSender};
use tidegate_packet::{
    Address, DropReason, Ecn, FlowId, Headers, MarkReason, Packet, Protocol, Sink, TcpHeader,
};
use tidegate_units::{Span, Time};

const FLOWS: u32 = 20;
const PEERS: [PeerId; 2] = [PeerId(0), PeerId(1)];

fn headers(flow: u32) -> Headers {
    Headers::best_effort(
        Protocol::UDP,
        (Address::V4([10, 0, 0, flow as u8]), 1),
        (Address::V4([10, 0, 1, 0]), 2),
    )
}

struct Store;

impl Sink for Store {
    fn on_drop(&mut self, _: Packet, _: DropReason) {}
    fn on_mark(&mut self, _: &Packet, _: MarkReason) {}
}

impl PacketStore for Store {
    fn headers(&self, packet: &Packet) -> Headers {
        headers(packet.flow.0)
    }
    fn segment(&mut self, _: Packet) -> Option<impl SegmentEditor> {
        None::<TcpHeader>
    }
}

/// Two borders with 20 flows through them, for so many milliseconds; what the borders themselves allocated meanwhile.
struct World {
    borders: [Border; 2],
    now: Time,
    message: Vec<u8>,
    /// What is on its way, from each border, until the next millisecond.
    packets: [Vec<Packet>; 2],
    messages: [Vec<Vec<u8>>; 2],
}

impl World {
    fn new(config: &EdgeConfig) -> Self {
        let build = |border| Border::new(config, BorderSite { border, level: 0 }, &Context::for_tests());
        Self {
            borders: PEERS.map(build),
            now: Time::ZERO,
            message: Vec::new(),
            packets: Default::default(),
            messages: Default::default(),
        }
    }

    fn run(&mut self, millis: u32) -> u64 {
        let mut allocated = 0;
        let mut count = |call: &mut dyn FnMut()| allocated += allocation_counter::measure(call).count_total;
        for milli in 0..millis {
            self.now = self.now.saturating_add(Span::from_millis(1));
            let now = self.now;
            for (to, from) in [(0, 1), (1, 0)] {
                for mut packet in std::mem::take(&mut self.packets[from]) {
                    let flow = headers(packet.flow.0);
                    let border = &mut self.borders[to];
                    count(&mut || {
                        border.handle_leaving(
                            &mut packet,
                            &flow,
                            &[PEERS[from]],
                            None::<&mut TcpHeader>,
                            now,
                        );
                    });
                }
                for bytes in std::mem::take(&mut self.messages[from]) {
                    let border = &mut self.borders[to];
                    count(&mut || border.handle_message(PEERS[from], &bytes, 254, now));
                }
            }
            let flow = milli % FLOWS;
            let border = &mut self.borders[0];
            let mut passed = None;
            count(&mut || {
                let packet = Packet::new(0, FlowId(flow), 1000);
                passed = border.handle_packet(packet, &headers(flow), &PEERS[1..], now, &mut Store);
            });
            self.packets[0].extend(passed);
            for from in 0..2 {
                let (sender, message) = (&mut self.borders[from], &mut self.message);
                count(&mut || sender.handle_timeout(now));
                loop {
                    let mut sent = None;
                    count(&mut || sent = sender.poll_transmit(now, &mut Store, message));
                    match sent {
                        Some(Transmit::Packet(packet)) => self.packets[from].push(packet),
                        Some(Transmit::Message { .. }) => self.messages[from].push(message.clone()),
                        None => break,
                    }
                }
            }
        }
        allocated
    }
}

#[test]
fn a_border_that_knows_its_flows_allocates_nothing() {
    for (name, config) in [("NBP", EdgeConfig::Nbp(Box::default())), ("IEC", EdgeConfig::Iec(Box::default()))]
    {
        let mut world = World::new(&config);
        assert!(world.run(20_000) > 0, "{name}: flows are new at first");
        assert_eq!(world.run(20_000), 0, "{name}");
    }
}

#[test]
fn flow_queueing_allocates_nothing_for_new_flows_while_no_more_waits_than_did() {
    let context = Context::for_tests();
    let flows = FlowQueueingConfig { ways: 8, ..FlowQueueingConfig::default() };
    allocates_for_places_only(FqCodelConfig { flows, ..FqCodelConfig::default() }.build(&context));
    allocates_for_places_only(FqPieConfig { flows, ..FqPieConfig::default() }.build(&context));
    allocates_for_places_only(CakeConfig::default().build(&context));
}

fn allocates_for_places_only(mut fq: impl QueueDiscipline) {
    let mut offer = |flows: std::ops::Range<u32>| {
        let call = || {
            for flow in flows {
                let now = Time::ZERO.saturating_add(Span::from_millis(u64::from(flow)));
                let packet = Packet { arrived: now, ..Packet::new(flow, FlowId(flow), 1000) };
                fq.enqueue(packet, now, &mut Store);
                if fq.backlog().packets > 500 {
                    fq.dequeue(now, &mut Store);
                }
            }
        };
        allocation_counter::measure(call).count_total
    };
    assert!(offer(0..1_000) > 0, "the first packets need places");
    assert_eq!(offer(1_000..100_000), 0);
}

/// A call, its reports heard at once; what both ends allocate after they were built.
#[test]
fn a_call_allocates_nothing() {
    let config = ScreamConfig::default();
    let (mut sender, mut receiver) = (ScreamSender::new(&config), ScreamReceiver::new(&config));
    sender.start(Time::ZERO);
    let mut sent = 0;
    let call = || {
        for millis in 0..10_000 {
            let now = Time::ZERO + Span::from_millis(millis);
            let mut report = receiver.on_timer(now);
            while let Some(data) = sender.poll_transmit(now) {
                sent += 1;
                report = receiver.on_data(&data, Ecn::NotEct, now).or(report);
            }
            if let Some(report) = report {
                sender.on_report(&report, now);
            }
        }
    };
    assert_eq!(allocation_counter::measure(call).count_total, 0);
    assert!(sent > 1000, "{sent}");
}

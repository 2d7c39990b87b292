//! What a packet costs in every queue discipline: nanoseconds for one enqueue and its dequeue, and as a multiple of
//! drop-tail's in the same run.
//!
//!     cargo run --release -p tidegate-mechanism --example cost [--json]
//!
//!     cargo run --release -p tidegate-mechanism --example cost -- --only NAME FLOWS PACKETS
//!
//! does nothing but offer so many packets to one of them (to none: `making`), for callgrind to count the instructions.
//!
//! Making the packet is measured apart and taken off. About 40 packets of random flows wait all the time; each figure is the best of several rounds, in which all disciplines
//! take turns, so that a machine that is busy for a while slows none of them alone.

use std::hint::black_box;
use std::time::Instant;

use tidegate_mechanism::Context;
use tidegate_mechanism::queue::{
    AdaptiveRedConfig, AvqConfig, BlueConfig, ChokeConfig, CobaltConfig, CodelConfig, CodelLawConfig,
    CsfqConfig, DropTailConfig, EecMarkerConfig, FredConfig, ManagerConfig, Pi2Config, PiConfig, PieConfig,
    PieLawConfig, QueueDiscipline, RedConfig, RedPenaltyBoxConfig, RemConfig, SfbConfig, StepConfig,
};
use tidegate_mechanism::random::Seed;
use tidegate_mechanism::schedule::{
    AnyDiscipline, CakeConfig, CbqClassConfig, CbqConfig, DisciplineConfig, DrrConfig, DualPi2Config,
    FlowQueueingConfig, FqCodelConfig, FqConfig, FqPieConfig, PriorityConfig, SfqConfig, WfqConfig,
};
use tidegate_packet::{DropReason, Ecn, FlowId, MarkReason, Packet, RateLabel, Sink};
use tidegate_units::{BitRate, Limit, Span, Time};

const FLOWS: [u32; 3] = [1, 100, 10_000];
const WAITING: u32 = 40;
const LIMIT: Limit = Limit::Packets(100);
const PACKETS: u32 = 100_000;
const ROUNDS: usize = 9;

/// Counts, so that nothing is optimised away.
#[derive(Default)]
struct Told(u64);

impl Sink for Told {
    fn on_drop(&mut self, packet: Packet, _why: DropReason) {
        self.0 += u64::from(packet.wire_bytes);
    }
    fn on_mark(&mut self, _packet: &Packet, _why: MarkReason) {
        self.0 += 1;
    }
}

/// Every discipline, with thresholds around the 40 packets that wait, so that its laws are at work.
fn disciplines() -> Vec<(&'static str, DisciplineConfig)> {
    let red =
        RedConfig { min: Limit::Packets(30), max: Limit::Packets(90), limit: LIMIT, ..RedConfig::default() };
    let manager = |name, config| (name, DisciplineConfig::Fifo(config));
    let classes = (0..8).map(|class: u32| CbqClassConfig {
        parent: Some("all".to_owned()),
        r#match: vec![class],
        ..CbqClassConfig::with(format!("{class}"), 0.1225)
    });
    // 40 packets of 8 us wait.
    let codel = CodelLawConfig {
        target: Span::from_micros(300),
        interval: Span::from_micros(6000),
        ..CodelLawConfig::default()
    };
    let pie = PieLawConfig { target: codel.target, ..PieLawConfig::default() };
    let cobalt = CobaltConfig {
        limit: LIMIT,
        target: codel.target,
        interval: codel.interval,
        ..CobaltConfig::default()
    };
    let root = CbqClassConfig::with("all".to_owned(), 0.98);
    let cbq = CbqConfig { classes: [root].into_iter().chain(classes).collect(), ..CbqConfig::default() };
    vec![
        manager("droptail", ManagerConfig::DropTail(DropTailConfig { limit: LIMIT })),
        manager("red", ManagerConfig::Red(red)),
        manager(
            "red with flows_rtt",
            ManagerConfig::Red(RedConfig { flows_rtt: Some(Span::from_millis(20)), ..red }),
        ),
        manager("adaptive-red", ManagerConfig::AdaptiveRed(AdaptiveRedConfig { red, ..Default::default() })),
        manager(
            "red-penalty-box",
            ManagerConfig::RedPenaltyBox(RedPenaltyBoxConfig { red, ..Default::default() }),
        ),
        manager("blue", ManagerConfig::Blue(BlueConfig { limit: LIMIT, ..BlueConfig::default() })),
        manager(
            "fred",
            ManagerConfig::Fred(FredConfig {
                min: Some(Limit::Packets(30)),
                max: Some(Limit::Packets(90)),
                limit: LIMIT,
                ..FredConfig::default()
            }),
        ),
        manager("codel", ManagerConfig::Codel(CodelConfig { limit: LIMIT, law: codel })),
        manager("choke", ManagerConfig::Choke(ChokeConfig { red })),
        manager("cobalt", ManagerConfig::Cobalt(cobalt)),
        manager("pie", ManagerConfig::Pie(PieConfig { limit: LIMIT, law: pie, ..PieConfig::default() })),
        manager("pi", ManagerConfig::Pi(PiConfig { limit: LIMIT, ..PiConfig::default() })),
        manager(
            "pi2",
            ManagerConfig::Pi2(Pi2Config { limit: LIMIT, target: codel.target, ..Pi2Config::default() }),
        ),
        manager("rem", ManagerConfig::Rem(RemConfig { limit: LIMIT, ..RemConfig::default() })),
        manager("avq", ManagerConfig::Avq(AvqConfig { limit: LIMIT, ..AvqConfig::default() })),
        manager("step", ManagerConfig::Step(StepConfig { limit: LIMIT, ..StepConfig::default() })),
        manager("sfb", ManagerConfig::Sfb(SfbConfig { limit: LIMIT, ..SfbConfig::default() })),
        manager("csfq", ManagerConfig::Csfq(CsfqConfig { limit: LIMIT, ..CsfqConfig::default() })),
        manager(
            "eec-marker",
            ManagerConfig::EecMarker(EecMarkerConfig { limit: LIMIT, ..EecMarkerConfig::default() }),
        ),
        ("drr", DisciplineConfig::Drr(DrrConfig { limit: LIMIT, ..DrrConfig::default() })),
        ("wfq", DisciplineConfig::Wfq(WfqConfig { limit: Some(LIMIT), ..WfqConfig::default() })),
        ("sfq", DisciplineConfig::Sfq(SfqConfig { limit: Some(LIMIT), ..SfqConfig::default() })),
        ("fq-codel", DisciplineConfig::FqCodel(FqCodelConfig { codel, ..FqCodelConfig::default() })),
        (
            "fq-codel in sets",
            DisciplineConfig::FqCodel(FqCodelConfig {
                codel,
                flows: FlowQueueingConfig { ways: 8, ..FlowQueueingConfig::default() },
                ..FqCodelConfig::default()
            }),
        ),
        ("fq-pie", DisciplineConfig::FqPie(FqPieConfig { pie, ..FqPieConfig::default() })),
        ("fq", DisciplineConfig::Fq(FqConfig::default())),
        ("cake", DisciplineConfig::Cake(CakeConfig { bandwidth: None, ..CakeConfig::default() })),
        // A little above what is offered, so that it counts and holds nothing back.
        (
            "cake with a shaper",
            DisciplineConfig::Cake(CakeConfig {
                bandwidth: Some(BitRate::from_mbps(1100)),
                overhead: 18,
                ..CakeConfig::default()
            }),
        ),
        (
            "dualpi2",
            DisciplineConfig::DualPi2(DualPi2Config { target: codel.target, ..DualPi2Config::default() }),
        ),
        ("cbq", DisciplineConfig::Cbq(cbq)),
        ("priority", DisciplineConfig::Priority(PriorityConfig::default())),
    ]
}

/// One port under load, as it goes on from round to round.
struct Port {
    discipline: AnyDiscipline,
    now: Time,
    random: u64,
    flows: u32,
    told: Told,
}

impl Port {
    fn new(config: &DisciplineConfig, flows: u32) -> Self {
        let context = Context { seed: Seed(1), link_rate: BitRate::from_mbps(1000), mtu_bytes: 1500 };
        let mut port = Self {
            discipline: config.build(&context),
            now: Time::ZERO,
            random: 0x9e37_79b9_7f4a_7c15,
            flows,
            told: Told::default(),
        };
        port.offer(PACKETS / 10);
        port
    }

    fn packet(&mut self, number: u32) -> Packet {
        self.now += Span::from_micros(8);
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let flow = (self.random >> 33) as u32 % self.flows;
        let mut packet = Packet::new(number, FlowId(flow), 1000);
        packet.arrived = self.now;
        packet.ecn = Ecn::Ect0;
        packet.class = (flow % 8) as u8;
        packet.label = RateLabel(1_000_000);
        packet
    }

    /// `packets` arrive, one per transmission time, and one leaves whenever enough wait.
    fn offer(&mut self, packets: u32) {
        for number in 0..packets {
            let packet = self.packet(number);
            while let Some(at) = self.discipline.timer_at().filter(|&at| at <= self.now) {
                self.discipline.on_timer(at, &mut self.told);
            }
            self.discipline.enqueue(packet, self.now, &mut self.told);
            if self.discipline.backlog().packets > WAITING {
                let sent = self.discipline.dequeue(self.now, &mut self.told);
                self.told.0 += sent.map_or(0, |left| u64::from(left.slot));
            }
        }
        black_box(self.told.0);
    }

    /// `packets` are made, and nothing else.
    fn only_make(&mut self, packets: u32) {
        for number in 0..packets {
            black_box(self.packet(number));
        }
    }
}

/// Nanoseconds per packet of `run`.
#[expect(clippy::disallowed_methods, reason = "this measures the machine, not the network")]
fn nanos(run: impl FnOnce()) -> f64 {
    let started = Instant::now();
    run();
    started.elapsed().as_nanos() as f64 / f64::from(PACKETS)
}

fn main() {
    let disciplines = disciplines();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [only, name, flows, packets] = &arguments[..]
        && only == "--only"
    {
        let of = disciplines.iter().find(|(one, _)| one == name).unwrap_or(&disciplines[0]);
        let mut port = Port::new(&of.1, flows.parse().expect("a number of flows"));
        let packets = packets.parse().expect("a number of packets");
        if name == "making" {
            port.only_make(packets);
        } else {
            port.offer(packets);
        }
        return;
    }
    let mut best = vec![[f64::INFINITY; FLOWS.len()]; disciplines.len()];
    for (column, flows) in FLOWS.into_iter().enumerate() {
        let mut ports: Vec<Port> = disciplines.iter().map(|(_, config)| Port::new(config, flows)).collect();
        let mut making = f64::INFINITY;
        for _ in 0..ROUNDS {
            making = making.min(nanos(|| ports[0].only_make(PACKETS)));
            for (port, row) in ports.iter_mut().zip(&mut best) {
                row[column] = row[column].min(nanos(|| port.offer(PACKETS)));
            }
        }
        for row in &mut best {
            row[column] -= making;
        }
    }
    if std::env::args().any(|argument| argument == "--json") {
        let rows = disciplines.iter().zip(&best).map(|((name, _), [one, some, many])| {
            format!("\"{name}\": {{\"1\": {one:.2}, \"100\": {some:.2}, \"10000\": {many:.2}}}")
        });
        println!("{{{}}}", rows.collect::<Vec<_>>().join(", "));
        return;
    }
    println!("ns per packet, enqueue and dequeue; in brackets as a multiple of drop-tail\n");
    println!("{:20} {:>16} {:>16} {:>16}", "flows", FLOWS[0], FLOWS[1], FLOWS[2]);
    for ((name, _), row) in disciplines.iter().zip(&best) {
        let cell = |column: usize| format!("{:.1} ({:.1})", row[column], row[column] / best[0][column]);
        println!("{name:20} {:>16} {:>16} {:>16}", cell(0), cell(1), cell(2));
    }
}

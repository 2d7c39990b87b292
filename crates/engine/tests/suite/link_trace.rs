//! Links that follow a trace, held against Mahimahi's own rules, packet by packet.

use std::collections::VecDeque;

use crate::common::{Net, constant, direction, drop_tail, seconds};
use tidegate_engine::{
    ApplicationSpec, Arrival, Carried, LinkId, LinkTrace, OPPORTUNITY_BYTES, Observer, Simulation,
    TransportSpec,
};
use tidegate_mechanism::queue::{ManagerConfig, PieConfig};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_mechanism::schedule::{DisciplineConfig, DrrConfig};
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::{Dscp, Ecn, Packet};
use tidegate_units::{BitRate, Time};

#[derive(Default)]
struct Left(Vec<(u64, u64)>);

impl Observer for Left {
    fn on_external(&mut self, now: Time, _: &Packet, carried: &Carried) {
        self.0.push((now.as_nanos(), carried.handle()));
    }
}

fn on_trace(net: &mut Net, stamps: &[u64]) {
    net.network.links[0].forward.trace = Some(LinkTrace::new(stamps.into()));
}

/// One link from h0 to h1 that follows `stamps`, and a flow from outside over it.
fn simulation(stamps: &[u64], queue: DisciplineConfig) -> Simulation<Left> {
    let mut net = Net::default();
    net.link("h0", "h1", direction("10Mbit", "0s", queue));
    on_trace(&mut net, stamps);
    net.flow("h0", &["h1"], TransportSpec::External, ApplicationSpec::External);
    net.network.build(1, Left::default()).unwrap()
}

/// Instants in nanoseconds and sizes, in order: bursts, pauses, and some at whole milliseconds.
fn arrivals(seed: u64, count: u32, mean_gap_nanos: u32) -> Vec<(u64, u32)> {
    let mut random = Substream::new(Seed(seed));
    let mut now = 0;
    let mut one = |_| {
        match random.below(8) {
            0 => {}
            1 => now = (now / 1_000_000 + 1) * 1_000_000,
            2 => now += u64::from(random.below(40 * mean_gap_nanos)),
            _ => now += u64::from(random.below(mean_gap_nanos)),
        }
        let bytes = if random.below(2) == 0 { 1500 } else { 40 + random.below(1461) };
        (now, bytes)
    };
    (0..count).map(&mut one).collect()
}

/// What Mahimahi's `LinkQueue` does with an endless queue: before a packet joins, all opportunities that have come are used.
/// Departures as (instant, number of the packet).
fn mahimahi(stamps: &[u64], arrivals: &[(u64, u32)], until: u64) -> Vec<(u64, u64)> {
    let (mut base, mut next) = (0, 0);
    let mut queue: VecDeque<(u64, u32)> = VecDeque::new();
    let mut in_transit: Option<(u64, u32)> = None;
    let mut departures = Vec::new();
    let mut rationalize = |now: u64, waiting: &mut VecDeque<(u64, u32)>| {
        while (base + stamps[next]) * 1_000_000 <= now {
            let at = (base + stamps[next]) * 1_000_000;
            next += 1;
            if next == stamps.len() {
                next = 0;
                base += stamps[stamps.len() - 1];
            }
            let mut left = OPPORTUNITY_BYTES;
            while left > 0 {
                let Some((packet, bytes)) = in_transit.take().or_else(|| waiting.pop_front()) else { break };
                let sent = left.min(bytes);
                left -= sent;
                if sent == bytes {
                    departures.push((at, packet));
                } else {
                    in_transit = Some((packet, bytes - sent));
                }
            }
        }
    };
    for (number, &(at, bytes)) in (0..).zip(arrivals) {
        rationalize(at, &mut queue);
        queue.push_back((number, bytes));
    }
    rationalize(until, &mut queue);
    departures
}

fn departures(simulation: &mut Simulation<Left>, arrivals: &[(u64, u32)], until: u64) -> Vec<(u64, u64)> {
    for (handle, &(at, wire_bytes)) in (0..).zip(arrivals) {
        let arrival = Arrival {
            flow: 0,
            handle,
            wire_bytes,
            ecn: Ecn::NotEct,
            dscp: Dscp::BEST_EFFORT,
            ttl: 64,
            tcp: None,
        };
        simulation.inject(&arrival, Time::from_nanos(at));
    }
    simulation.step_until(Time::from_nanos(until));
    simulation.assert_conservation();
    std::mem::take(&mut simulation.observer_mut().0)
}

#[test]
fn every_packet_leaves_when_mahimahi_lets_it() {
    let traces: [&[u64]; 6] = [
        &[1],
        &[0, 0, 3, 3, 3, 7],
        &[5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 1000],
        &[0, 1, 2, 3, 50],
        &[2, 2, 9, 400, 400, 400, 401],
        &[7, 11, 13, 17, 19, 23],
    ];
    for (seed, stamps) in (1..).zip(traces) {
        let mean_gap = 1_000_000 * stamps[stamps.len() - 1] as u32 / stamps.len() as u32;
        for gap in [mean_gap / 2, mean_gap, 3 * mean_gap] {
            let arrivals = arrivals(seed, 3000, gap.min(50_000_000));
            let until = arrivals[arrivals.len() - 1].0 + 3_000_000_000;
            let expected = mahimahi(stamps, &arrivals, until);
            let mut simulation = simulation(stamps, drop_tail(u32::MAX));
            assert!(departures(&mut simulation, &arrivals, until) == expected, "{stamps:?}, {gap}");
            assert!(expected.len() > 20, "{stamps:?}, {gap}: {}", expected.len());
        }
    }
}

#[test]
fn a_scheduler_is_served_by_the_same_opportunities() {
    let stamps = [0, 0, 3, 3, 3, 7];
    let arrivals = arrivals(3, 2000, 2_000_000);
    let until = arrivals[arrivals.len() - 1].0;
    let mut simulation = simulation(&stamps, DisciplineConfig::Drr(DrrConfig::default()));
    // Of a single flow, DRR is first in, first out.
    let left = departures(&mut simulation, &arrivals, until);
    assert!(left.len() > 1000);
    assert!(left == mahimahi(&stamps, &arrivals, until), "packets left otherwise");
}

#[test]
fn a_packet_larger_than_an_opportunity_takes_several() {
    let mut simulation = simulation(&[10, 10, 20], drop_tail(100));
    // 4000 of the 4500 bytes of a round, then 1000 in what is left of it and the next.
    let left = departures(&mut simulation, &[(0, 4000), (1, 500), (2, 500)], 100_000_000);
    assert_eq!(left, [(20_000_000, 0), (20_000_000, 1), (30_000_000, 2)]);
}

#[test]
fn a_saturated_link_is_busy_all_the_time_and_carries_the_mean_rate() {
    let mut net = Net::default();
    let link = net.link("h0", "h1", direction("1Mbit", "3ms", drop_tail(50)));
    // 9 opportunities in 60 ms: 1.8 Mbit/s.
    on_trace(&mut net, &[10, 10, 11, 12, 13, 40, 40, 40, 60]);
    let udp = TransportSpec::Udp { header_bytes: 28 };
    net.flow("h0", &["h1"], udp, constant(BitRate::from_mbps(4)));
    let statistics = net.run(1, 1.205, 7.205);
    let counters = &statistics.links[link.0 as usize];
    assert_eq!(counters.delivered_bytes / 1000, 1350, "100 rounds of 13,500 bytes");
    // Opportunities stand for the time since those before, all of it used; those at 7.21 s are not there yet.
    let busy = counters.busy_nanos as f64 / 5.995e9;
    assert!((0.9999..=1.0).contains(&busy), "{busy}");
    assert_eq!(counters.queue_packets_max, 51, "one in transmission, 50 waiting");
}

#[test]
fn an_opportunity_that_nobody_uses_is_lost_and_not_saved() {
    let mut simulation = simulation(&[1], drop_tail(100));
    let left = departures(&mut simulation, &[(1_000_500_000, 1500), (1_000_500_000, 1500)], 2_000_000_000);
    assert_eq!(left, [(1_001_000_000, 0), (1_002_000_000, 1)]);
    // At the very instant of an opportunity it is too late.
    simulation.step_until(seconds(4.5));
    let late = departures(&mut simulation, &[(5_000_000_000, 40)], 6_000_000_000);
    assert_eq!(late, [(5_001_000_000, 0)]);
}

/// A controller that looks at the queue by a timer, between opportunities.
#[test]
fn looking_at_the_queue_changes_nothing_of_what_its_timers_see() {
    let run = |looks: u32| {
        let pie = DisciplineConfig::Fifo(ManagerConfig::Pie(PieConfig::default()));
        let mut net = Net::default();
        net.link("h0", "h1", direction("10Mbit", "20ms", pie));
        on_trace(&mut net, &[3, 7, 8, 20, 21, 22, 40]);
        let tcp = TransportSpec::Tcp(Box::new(TcpConfig::modern(Variant::Sack)));
        net.flow("h0", &["h1"], tcp, ApplicationSpec::Bulk);
        let mut simulation = net.build(1);
        for look in 1..=looks {
            simulation.run_until(seconds(20.0 * f64::from(look) / f64::from(looks)), u64::MAX);
            let _ = simulation.queue_length(LinkId(0));
        }
        let statistics = simulation.statistics();
        format!("{:?} {:?}", statistics.links, statistics.connections)
    };
    let once = run(1);
    assert!([2000, 213].into_iter().all(|looks| run(looks) == once));
}

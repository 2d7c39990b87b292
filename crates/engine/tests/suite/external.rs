//! Packets from outside: what comes out depends on what came in and when, not on when anybody looked.

use crate::common::{Net, direction, drop_tail, seconds};
use proptest::prelude::*;
use tidegate_engine::{ApplicationSpec, Arrival, Carried, Observer, Place, Simulation, TransportSpec};
use tidegate_packet::{DropReason, Dscp, Ecn, Packet};
use tidegate_units::Time;

/// When what left or was lost, by handle.
#[derive(Default, Debug, PartialEq, Clone)]
struct Seen(Vec<(u64, u64, u8, Option<DropReason>)>);

impl Observer for Seen {
    const WATCHES: bool = false;
    fn on_drop(&mut self, now: Time, _: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        if packet.flow.0 < 2 {
            self.0.push((now.as_nanos(), carried.handle(), packet.ttl, Some(why)));
        }
    }
    fn on_external(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        self.0.push((now.as_nanos(), carried.handle(), packet.ttl, None));
    }
}

/// h0 - r - h1 with a slow second link, which a simulated source shares.
fn simulation() -> Simulation<Seen> {
    let mut net = Net::default();
    net.link("h0", "r", direction("10Mbit", "1ms", drop_tail(50)));
    net.link("r", "h1", direction("1Mbit", "5ms", drop_tail(5)));
    net.flow("h0", &["h1"], TransportSpec::External, ApplicationSpec::External);
    let poisson = ApplicationSpec::Poisson { rate: tidegate_units::BitRate::from_mbps(1), packet_bytes: 700 };
    net.flow("h0", &["h1"], TransportSpec::Udp { header_bytes: 28 }, poisson);
    net.network.build(3, Seen::default()).unwrap()
}

fn arrival(handle: u64, wire_bytes: u32) -> Arrival {
    Arrival { flow: 0, handle, wire_bytes, ecn: Ecn::Ect0, dscp: Dscp::EF, ttl: 64, tcp: None }
}

#[test]
fn a_packet_from_outside_takes_as_long_as_the_links_say() {
    let mut simulation = simulation();
    simulation.inject(&arrival(7, 1000), Time::ZERO);
    simulation.step_until(seconds(0.1));
    let (at, handle, ttl, lost) = simulation.observer().0[0];
    // 0.8 ms + 1 ms + 8 ms + 5 ms; the simulated source has not begun.
    assert_eq!((at, handle, ttl, lost), (14_800_000, 7, 63, None));
}

proptest! {
    #[test]
    fn looking_changes_nothing(
        packets in proptest::collection::vec((0u64..3_000_000, 40u32..1500), 1..150),
        looks in proptest::collection::vec(1u64..500_000, 0..20),
    ) {
        let (mut watched, mut alone) = (simulation(), simulation());
        let mut at = 0;
        for (serial, &(gap, wire_bytes)) in packets.iter().enumerate() {
            for look in &looks {
                let pause = watched.now().as_nanos() + look;
                if pause <= at + gap {
                    watched.step_until(Time::from_nanos(pause));
                }
            }
            at += gap;
            watched.inject(&arrival(serial as u64, wire_bytes), Time::from_nanos(at));
            alone.inject(&arrival(serial as u64, wire_bytes), Time::from_nanos(at));
        }
        for simulation in [&mut watched, &mut alone] {
            simulation.step_until(seconds(2.0));
            simulation.assert_conservation();
        }
        prop_assert_eq!(watched.observer(), alone.observer());
        prop_assert_eq!(watched.observer().0.len(), packets.len());
    }
}

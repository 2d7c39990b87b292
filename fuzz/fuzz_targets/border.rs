//! A border under any order of calls, any messages and any clock: no packet is lost, nothing is promised that has passed.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::iec::{Detection, OverlayConfig};
use tidegate_mechanism::edge::nbp::{Classify, NbpConfig, RoundTrip};
use tidegate_mechanism::edge::tcp_rate::TcpRateConfig;
use tidegate_units::Span;

#[path = "../../crates/mechanism/tests/border_world/mod.rs"]
mod border_world;

use border_world::{Call, drive};

#[derive(Arbitrary, Debug)]
enum Kind {
    Nbp { granularity: u8, flows_max: u8, asynch_repeats: bool, headroom: Option<u8> },
    Iec { detection: u8, with_tcp: bool },
}

impl Kind {
    fn config(self) -> EdgeConfig {
        let idle_timeout = Span::from_millis(50);
        match self {
            Self::Nbp { granularity, flows_max, asynch_repeats, headroom } => {
                EdgeConfig::Nbp(Box::new(NbpConfig {
                    classify: Classify::ALL[usize::from(granularity) % Classify::ALL.len()],
                    flows_max: u32::from(flows_max % 4) + 1,
                    asynch_repeats,
                    arrival_headroom: headroom.map(|more| 1.0 + f64::from(more) / 64.0),
                    exempt: vec![46],
                    idle_timeout,
                    // From a number that there is, so that inputs that were found mean what they did.
                    round_trip: if flows_max & 4 == 0 { RoundTrip::Feedback } else { RoundTrip::Data },
                    ..NbpConfig::default()
                }))
            }
            Self::Iec { detection, with_tcp } => {
                let detection =
                    [Detection::OneWay, Detection::RoundTrip, Detection::Marks][usize::from(detection) % 3];
                let tcp_rate = with_tcp.then(TcpRateConfig::default);
                EdgeConfig::from(OverlayConfig {
                    detection,
                    tcp_rate,
                    idle_timeout,
                    ..OverlayConfig::default()
                })
            }
        }
    }
}

fuzz_target!(|input: (Kind, Vec<Call>, bool)| {
    let (kind, mut calls, are_two) = input;
    calls.truncate(200);
    drive(&kind.config(), calls, are_two);
});

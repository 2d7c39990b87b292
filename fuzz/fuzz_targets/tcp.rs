//! A sender and a receiver under any segments: what is sent stays within what was asked for, and nothing is promised that has passed.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_mechanism::tcp::congestion::{
    BbrConfig, CongestionControlConfig, CopaConfig, DctcpConfig, LedbatConfig, RenoConfig, VegasConfig,
    WestwoodConfig,
};
use tidegate_mechanism::tcp::{EcnFeedback, TcpConfig, TcpReceiver, TcpSender, Variant};
use tidegate_packet::{Ecn, SackBlock, SackBlocks, TcpFlags, TcpHeader};
use tidegate_units::Time;

#[derive(Arbitrary, Debug)]
struct Segment {
    sequence: u32,
    acknowledgment: u32,
    payload: u16,
    window: u32,
    flags: u8,
    sack: Vec<(u32, u16)>,
    ecn: u8,
}

impl Segment {
    fn header(&self) -> TcpHeader {
        let mut sack = SackBlocks::default();
        for &(offset, length) in self.sack.iter().take(3) {
            sack.push(SackBlock { offset, length: u32::from(length) });
        }
        let mut flags = TcpFlags::ACK;
        for (bit, flag) in [(1, TcpFlags::SYN), (2, TcpFlags::FIN), (4, TcpFlags::ECE), (8, TcpFlags::CWR)] {
            // Handshakes are rare.
            if self.flags & bit != 0 && (bit > 2 || self.flags & 0xf0 == 0) {
                flags = flags.union(flag);
            }
        }
        TcpHeader {
            sequence: u64::from(self.sequence) >> 8,
            acknowledgment: u64::from(self.acknowledgment) >> 8,
            payload_bytes: u32::from(self.payload % 3000),
            window_bytes: self.window,
            flags,
            sack,
            ..TcpHeader::default()
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Call {
    Ack(Segment),
    Data(Segment),
    Write(u32),
    Timer,
    After(u32),
}

fuzz_target!(|input: (u8, u8, bool, Vec<Call>)| {
    let (variant, control, is_old, mut calls) = input;
    calls.truncate(300);
    let variant = [Variant::Tahoe, Variant::Reno, Variant::NewReno, Variant::Sack][usize::from(variant) % 4];
    let base = if is_old { TcpConfig::ns_1999(variant) } else { TcpConfig::modern(variant) };
    let with = |control| TcpConfig { control, prr: true, ..base.clone() };
    let config = match control % 8 {
        0 => base,
        _ if is_old => base,
        1 => TcpConfig {
            control: CongestionControlConfig::Dctcp(DctcpConfig::default()),
            ecn: true,
            ecn_feedback: EcnFeedback::Dctcp,
            ..base
        },
        2 => TcpConfig { control: CongestionControlConfig::Bbr(BbrConfig::default()), ..base },
        3 => with(CongestionControlConfig::Vegas(VegasConfig::default())),
        4 => with(CongestionControlConfig::Westwood(WestwoodConfig::default())),
        5 => with(CongestionControlConfig::Ledbat(LedbatConfig::default())),
        6 => with(CongestionControlConfig::Copa(CopaConfig::default())),
        _ => with(CongestionControlConfig::Reno(RenoConfig { ecn_beta: Some(0.8), hystart: true })),
    };
    let mut now = Time::from_nanos(1_000_000);
    let mut sender = TcpSender::new(&config);
    let mut receiver = TcpReceiver::new(&config);
    let mut asked = 0_u64;
    for call in calls {
        match call {
            Call::Ack(segment) => sender.on_ack(&segment.header(), now),
            Call::Data(segment) => {
                receiver.on_segment(&segment.header(), Ecn::from_bits(segment.ecn), now);
            }
            Call::Write(bytes) => {
                asked += u64::from(bytes >> 12);
                sender.on_app_data(u64::from(bytes >> 12));
            }
            Call::Timer => {
                sender.on_timer(now);
                receiver.on_timer(now);
            }
            Call::After(nanos) => now = Time::from_nanos(now.as_nanos() + u64::from(nanos)),
        }
        for sent in 0.. {
            assert!(sent < 100_000, "a window has an end");
            let Some(segment) = sender.poll_transmit(now) else { break };
            let end = segment.header.sequence + u64::from(segment.header.payload_bytes);
            assert!(end <= asked, "{end} of {asked} bytes");
        }
    }
});

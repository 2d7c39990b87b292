//! TCP.

use tidegate_mechanism::tcp::congestion::{
    self, BbrConfig, CongestionControlConfig, CubicConfig, DctcpConfig, Detection, MarkingSourceConfig,
    ReservedConfig, ReservedRoundTrip, SubTcpConfig, Surplus, UnresponsiveConfig,
};
use tidegate_mechanism::tcp::{self, DelayedAck, RtoConfig, Rules, TcpConfig, Variant};

use tidegate_packet::Dscp;

use super::bytes32;
use super::marker::meter;
use crate::model::{
    Control, EcnFeedback, Marking, MarkingSurplus, Reserved, ReservedWindow, SubTcpForm, Tcp, TcpProfile,
    TcpVariant, Window,
};

/// Segments of a delayed acknowledgment: every second (RFC 5681, section 4.2; ns).
const DELAYED_ACK_SEGMENTS: u32 = 2;

/// The parameters of a TCP connection.
pub fn tcp(config: &Tcp) -> TcpConfig {
    let variant = match config.variant {
        TcpVariant::Tahoe => Variant::Tahoe,
        TcpVariant::Reno => Variant::Reno,
        TcpVariant::NewReno => Variant::NewReno,
        TcpVariant::Sack => Variant::Sack,
    };
    let base = match config.profile {
        TcpProfile::Ns1999 => TcpConfig::ns_1999(variant),
        TcpProfile::Modern => TcpConfig::modern(variant),
    };
    let segment = config.segment();
    TcpConfig {
        rules: match config.profile {
            TcpProfile::Ns1999 => Rules::Ns1999,
            TcpProfile::Modern => Rules::Modern,
        },
        segment_bytes: bytes32(segment),
        header_bytes: bytes32(config.header),
        ack_bytes: bytes32(config.ack),
        initial_window_segments: config.initial_window,
        minimum_window_segments: config.minimum_window,
        initial_ssthresh_bytes: config.initial_ssthresh.map(|window: Window| window.bytes(segment).get()),
        receive_window_bytes: bytes32(config.window_bytes()),
        rto: RtoConfig {
            initial: config.initial_rto,
            min: config.min_rto,
            max: config.max_rto,
            granularity: config.timer_granularity,
            ..base.rto
        },
        delayed_ack: config.delayed_ack.map(|timeout| DelayedAck { segments: DELAYED_ACK_SEGMENTS, timeout }),
        control: control(&config.control),
        ecn: config.ecn,
        ecn_feedback: match config.ecn_feedback {
            EcnFeedback::Classic => tcp::EcnFeedback::Classic,
            EcnFeedback::Dctcp => tcp::EcnFeedback::Dctcp,
            EcnFeedback::Accurate => tcp::EcnFeedback::Accurate,
        },
        ecn_timeout: config.ecn_timeout,
        gradual_reduction: config.gradual_reduction,
        dupack_threshold: config.dupack_threshold,
        limited_transmit: config.limited_transmit,
        handshake: config.handshake,
        ..base
    }
}

fn control(control: &Control) -> CongestionControlConfig {
    match control {
        Control::Reno(_) => CongestionControlConfig::RENO,
        Control::Cubic(config) => CongestionControlConfig::Cubic(CubicConfig {
            c: config.c,
            beta: config.beta,
            fast_convergence: config.fast_convergence,
            full_increase: config.full_increase,
            whole_segments: config.whole_segments,
        }),
        Control::Dctcp(config) => {
            CongestionControlConfig::Dctcp(DctcpConfig { g: config.g, initial_alpha: config.initial_alpha })
        }
        Control::Bbr(config) => CongestionControlConfig::Bbr(BbrConfig {
            high_gain: config.high_gain,
            cwnd_gain: config.cwnd_gain,
            rtprop_window: config.rtprop_window,
            probe_rtt: config.probe_rtt,
            pacing_margin: config.pacing_margin,
            extra_segments: config.extra_segments,
            probe_segments: config.probe_segments,
        }),
        Control::SubTcp(config) => CongestionControlConfig::SubTcp(SubTcpConfig {
            form: match config.form {
                SubTcpForm::Halving => congestion::SubTcpForm::Halving,
                SubTcpForm::Scaled => congestion::SubTcpForm::Scaled { scale_factor: config.scale_factor },
                SubTcpForm::Bandwidth => congestion::SubTcpForm::Bandwidth { x: config.increase },
            },
            tick: config.tick,
            scale_max: config.scale_max,
        }),
        Control::Reserved(config) => CongestionControlConfig::Reserved(reserved(config)),
        Control::Marking(config) => CongestionControlConfig::Marking(marking(config)),
        Control::Unresponsive(_) => CongestionControlConfig::Unresponsive(UnresponsiveConfig),
    }
}

fn reserved(config: &Reserved) -> ReservedConfig {
    ReservedConfig {
        rate: config.rate,
        depth: config.depth,
        timer: config.timer,
        window: match config.window {
            ReservedWindow::None => None,
            ReservedWindow::Best => Some(ReservedRoundTrip::Best),
            ReservedWindow::Average => Some(ReservedRoundTrip::Average),
        },
        delayed: config.delayed,
        burst: config.burst,
        literal_growth: config.literal_growth,
        safeguard: config.safeguard,
        marked: Dscp::new(config.marked),
        unmarked: Dscp::new(config.unmarked),
    }
}

fn marking(config: &Marking) -> MarkingSourceConfig {
    let detection = Detection { factor: config.factor, pause: config.pause, pause_max: config.pause_max };
    MarkingSourceConfig {
        target: config.target,
        meter: meter(&config.goal()),
        interval: config.interval,
        surplus: match config.surplus {
            MarkingSurplus::GivenUp => Surplus::GivenUp,
            MarkingSurplus::Replaced => Surplus::Replaced,
        },
        detection: config.detection.then_some(detection),
        marked: Dscp::new(config.marked),
        unmarked: Dscp::new(config.unmarked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BbrControl, CubicControl, DctcpControl, SubTcp};

    #[test]
    fn the_defaults_of_dctcp_and_bbr_are_those_of_the_mechanism() {
        let default = CongestionControlConfig::Dctcp(DctcpConfig::default());
        assert_eq!(control(&Control::Dctcp(DctcpControl::default())), default);
        let default = CongestionControlConfig::Bbr(BbrConfig::default());
        assert_eq!(control(&Control::Bbr(BbrControl::default())), default);
    }

    #[test]
    fn dctcp_brings_its_feedback_with_it() {
        let of = |text| tcp(&serde_json::from_str::<TcpText>(text).expect("a transport").resolved());
        let dctcp = of(r#"{"control": {"dctcp": {}}}"#);
        assert_eq!((dctcp.ecn, dctcp.ecn_feedback), (true, tcp::EcnFeedback::Dctcp));
        assert_eq!(of("{}").ecn_feedback, tcp::EcnFeedback::Classic);
    }

    #[test]
    fn subtcps_defaults_are_those_of_the_mechanism() {
        let default = CongestionControlConfig::SubTcp(SubTcpConfig::default());
        assert_eq!(control(&Control::SubTcp(SubTcp::default())), default);
    }

    #[test]
    fn cubics_defaults_are_those_of_the_mechanism() {
        let default = CongestionControlConfig::Cubic(CubicConfig::default());
        assert_eq!(control(&Control::Cubic(CubicControl::default())), default);
    }

    #[test]
    fn what_a_promise_leaves_out_is_as_in_the_mechanism() {
        use tidegate_units::BitRate;
        let rate = BitRate::from_mbps(4);
        let of = |text| control(&serde_json::from_str(text).expect("a control"));
        let reserved = CongestionControlConfig::Reserved(ReservedConfig::new(rate));
        assert_eq!(of(r#"{"reserved": {"rate": "4Mbit"}}"#), reserved);
        let marking = CongestionControlConfig::Marking(MarkingSourceConfig::new(rate));
        assert_eq!(of(r#"{"marking": {"target": "4Mbit"}}"#), marking);
    }
    use crate::model::TcpText;

    #[test]
    fn each_profile_of_tcp_is_that_of_the_mechanism() {
        for (profile, expected) in [
            (TcpProfile::Ns1999, TcpConfig::ns_1999(Variant::Reno)),
            (TcpProfile::Modern, TcpConfig::modern(Variant::Reno)),
        ] {
            let text =
                TcpText { profile: Some(profile), variant: Some(TcpVariant::Reno), ..TcpText::default() };
            assert_eq!(tcp(&text.resolved()), expected);
        }
    }
}

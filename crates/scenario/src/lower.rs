//! From the configurations of a scenario to those of the mechanisms: the only place that names both.

use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::nbp::{Granularity, NbpConfig};
use tidegate_mechanism::meter::{CsfqLabellerConfig, ExponentialMeterConfig, TswConfig};
use tidegate_mechanism::queue::{
    CsfqConfig, DropTailConfig, Flavor, GapLaw, ManagerConfig, QueueUnit, RedConfig, Victim,
};
use tidegate_mechanism::schedule::{
    Classification, Clock, DisciplineConfig, DrrConfig, FlowQueuesConfig, WfqConfig,
};
use tidegate_mechanism::shape::ShaperConfig;
use tidegate_mechanism::tcp::{DelayedAck, RtoConfig, Rules, TcpConfig, Variant};
use tidegate_units::{Bytes, Limit};

use crate::model::{
    Classify, Csfq, DropTail, Drr, Labels, Manager, Mechanism, Nbp, Queue, QueueClassify, Red, RedFlavor,
    RedGap, RedMode, RedVictim, Tcp, TcpProfile, TcpVariant, Wfq, WfqClock, Window,
};

/// Segments of a delayed acknowledgment: every second (RFC 5681, section 4.2; ns).
const DELAYED_ACK_SEGMENTS: u32 = 2;

/// The discipline of a queue. `weights` are those other than 1, by number of flow or class as the queue classifies.
pub fn discipline(queue: &Queue, weights: &[(u32, f64)]) -> DisciplineConfig {
    match queue {
        Queue::Droptail(config) => DisciplineConfig::Fifo(ManagerConfig::DropTail(drop_tail(config))),
        Queue::Red(config) => DisciplineConfig::Fifo(ManagerConfig::Red(red(config))),
        Queue::Csfq(config) => DisciplineConfig::Fifo(ManagerConfig::Csfq(csfq(config))),
        Queue::Drr(config) => DisciplineConfig::Drr(drr(config, weights)),
        Queue::Wfq(config) => DisciplineConfig::Wfq(wfq(config, weights)),
    }
}

/// The manager of one queue of a scheduler.
pub fn manager(manager: &Manager) -> ManagerConfig {
    match manager {
        Manager::Droptail(config) => ManagerConfig::DropTail(drop_tail(config)),
        Manager::Red(config) => ManagerConfig::Red(red(config)),
        Manager::Csfq(config) => ManagerConfig::Csfq(csfq(config)),
    }
}

fn drop_tail(config: &DropTail) -> DropTailConfig {
    DropTailConfig { limit: config.limit }
}

fn red(config: &Red) -> RedConfig {
    // A threshold in bytes counts in typical packets.
    let packets = |limit: Limit| match limit {
        Limit::Packets(packets) => f64::from(packets),
        Limit::Bytes(bytes) => bytes.as_f64() / config.mean_packet.as_f64(),
        Limit::Time(_) => unreachable!("checked: thresholds are in packets or bytes"),
    };
    RedConfig {
        min_th: packets(config.min),
        max_th: packets(config.max),
        w: config.weight,
        max_p: config.max_p,
        limit: config.limit,
        packet_bytes: bytes32(config.mean_packet),
        unit: match config.mode {
            RedMode::Packets => QueueUnit::Packets,
            RedMode::Bytes => QueueUnit::Bytes,
        },
        gap_law: match config.gap {
            RedGap::Paper => GapLaw::Paper,
            RedGap::Ns => GapLaw::Wait,
        },
        flavor: match config.flavor {
            RedFlavor::Paper => Flavor::Floyd1993,
            RedFlavor::Ns => Flavor::Ns,
        },
        gentle: config.gentle,
        victim: match config.victim {
            RedVictim::Tail => Victim::Arriving,
            RedVictim::Random => Victim::Random,
        },
        ecn: config.ecn,
        ecn_when_forced: config.mark_forced,
    }
}

fn csfq(config: &Csfq) -> CsfqConfig {
    let threshold_packets = match config.threshold {
        Limit::Packets(packets) => packets,
        Limit::Bytes(_) | Limit::Time(_) => unreachable!("checked: the threshold is in packets"),
    };
    CsfqConfig { k_alpha: config.averaging, k_c: config.window, threshold_packets, limit: config.limit }
}

fn drr(config: &Drr, weights: &[(u32, f64)]) -> DrrConfig {
    DrrConfig {
        quantum: config.quantum,
        queues: queues(config.classify, config.queue.as_ref(), Some(config.limit), None, weights),
    }
}

fn wfq(config: &Wfq, weights: &[(u32, f64)]) -> WfqConfig {
    let limit = match (config.limit, config.per_flow_limit) {
        (None, None) => Some(Limit::Packets(100)),
        (limit, _) => limit,
    };
    WfqConfig {
        clock: match config.clock {
            WfqClock::Gps => Clock::Gps,
            WfqClock::SelfClocked => Clock::SelfClocked,
        },
        queues: queues(config.classify, config.queue.as_ref(), limit, config.per_flow_limit, weights),
    }
}

fn queues(
    classify: QueueClassify,
    own: Option<&Manager>,
    limit: Option<Limit>,
    per_queue: Option<Limit>,
    weights: &[(u32, f64)],
) -> FlowQueuesConfig {
    let none = Limit::Packets(u32::MAX);
    FlowQueuesConfig {
        classify: match classify {
            QueueClassify::Flow => Classification::Flow,
            QueueClassify::Class => Classification::Class,
            QueueClassify::InputPort => Classification::InputPort,
        },
        manager: match own {
            Some(own) => manager(own),
            None => ManagerConfig::DropTail(DropTailConfig { limit: per_queue.unwrap_or(none) }),
        },
        weights: weights.to_vec(),
        ..FlowQueuesConfig::shared(limit.unwrap_or(none))
    }
}

/// What the edges of a domain do; none for nothing.
pub fn edge(mechanism: &Mechanism) -> Option<EdgeConfig> {
    match mechanism {
        Mechanism::None => None,
        Mechanism::Nbp(config) => Some(EdgeConfig::Nbp(Box::new(nbp(config)))),
    }
}

fn nbp(config: &Nbp) -> NbpConfig {
    NbpConfig {
        mss_bytes: bytes32(config.mss),
        mrc_factor: config.mrc_factor,
        asynch_interval: config.asynch_interval,
        asynch_repeats: config.asynch_repeats,
        meter: TswConfig { window: config.meter_window, ..TswConfig::nbp() },
        initial_rate: config.initial_rate,
        rate_min: config.rate_min,
        initial_interval: config.initial_interval,
        interval_min: config.interval_min,
        idle_timeout: config.idle_timeout,
        granularity: match config.classify {
            Classify::Flow => Granularity::Flow,
            Classify::AddressPair => Granularity::AddressPair,
            Classify::DestinationNetwork => Granularity::DestinationNetwork { prefix_bits: config.prefix },
        },
        feedback_mtu_bytes: bytes32(config.feedback_mtu),
        arrival_headroom: config.arrival_headroom,
        shaper: ShaperConfig {
            bucket: config.shaper.bucket.unwrap_or(Bytes::ZERO),
            queue: discipline(&config.shaper.queue, &[]),
        },
        flows_max: config.flows_max,
    }
}

/// What the edges of a domain write on packets.
pub fn labeller(labels: &Labels) -> CsfqLabellerConfig {
    match labels {
        Labels::Csfq(config) => CsfqLabellerConfig {
            meter: ExponentialMeterConfig { k: config.averaging },
            flows_max: config.flows_max,
        },
    }
}

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
        ecn: config.ecn,
        dupack_threshold: config.dupack_threshold,
        limited_transmit: config.limited_transmit,
        handshake: config.handshake,
        ..base
    }
}

/// Sizes that were checked to fit.
fn bytes32(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TcpText;

    #[test]
    fn defaults_are_those_of_the_mechanisms() {
        assert_eq!(red(&Red::default()), RedConfig::default());
        assert_eq!(nbp(&Nbp::default()), NbpConfig::default());
        assert_eq!(drop_tail(&DropTail::default()), DropTailConfig::default());
        assert_eq!(wfq(&Wfq::default(), &[]), WfqConfig::default());
        let labels = Labels::Csfq(crate::model::CsfqLabels::default());
        assert_eq!(labeller(&labels), CsfqLabellerConfig::default());
    }

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

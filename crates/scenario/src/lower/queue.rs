//! Queue managers and disciplines.

use tidegate_mechanism::queue::{
    CsfqConfig, DropTailConfig, EecMarkerConfig, Flavor, GapLaw, ManagerConfig, QueueUnit, RedConfig, Victim,
};
use tidegate_mechanism::schedule::{
    Classification, Clock, DisciplineConfig, DrrConfig, FlowQueuesConfig, WfqConfig,
};
use tidegate_units::Limit;

use super::bytes32;
use crate::model::{
    Csfq, DropTail, Drr, EecMarker, Manager, Queue, QueueClassify, Red, RedFlavor, RedGap, RedMode,
    RedVictim, Wfq, WfqClock,
};

/// The discipline of a queue. `weights` are those other than 1, by number of flow or class as the queue classifies.
pub fn discipline(queue: &Queue, weights: &[(u32, f64)]) -> DisciplineConfig {
    match queue {
        Queue::Droptail(config) => DisciplineConfig::Fifo(ManagerConfig::DropTail(drop_tail(config))),
        Queue::Red(config) => DisciplineConfig::Fifo(ManagerConfig::Red(red(config))),
        Queue::Csfq(config) => DisciplineConfig::Fifo(ManagerConfig::Csfq(csfq(config))),
        Queue::Drr(config) => DisciplineConfig::Drr(drr(config, weights)),
        Queue::Wfq(config) => DisciplineConfig::Wfq(wfq(config, weights)),
        Queue::EecMarker(config) => DisciplineConfig::Fifo(ManagerConfig::EecMarker(eec_marker(config))),
    }
}

/// The manager of one queue of a scheduler.
pub fn manager(manager: &Manager) -> ManagerConfig {
    match manager {
        Manager::Droptail(config) => ManagerConfig::DropTail(drop_tail(config)),
        Manager::Red(config) => ManagerConfig::Red(red(config)),
        Manager::Csfq(config) => ManagerConfig::Csfq(csfq(config)),
        Manager::EecMarker(config) => ManagerConfig::EecMarker(eec_marker(config)),
    }
}

fn drop_tail(config: &DropTail) -> DropTailConfig {
    DropTailConfig { limit: config.limit }
}

const fn eec_marker(config: &EecMarker) -> EecMarkerConfig {
    EecMarkerConfig { threshold: config.threshold, limit: config.limit }
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

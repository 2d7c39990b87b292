//! Queue managers and disciplines.

use tidegate_mechanism::meter::ActiveFlowsConfig;
use tidegate_mechanism::queue::{
    AdaptiveRedConfig, CsfqConfig, DropTailConfig, Flavor, FromFlows, GapLaw, ManagerConfig, QueueUnit,
    RedConfig, RedPenaltyBoxConfig, Victim,
};
use tidegate_mechanism::schedule::{
    Classification, Clock, DisciplineConfig, DrrConfig, FlowQueuesConfig, WfqConfig,
};
use tidegate_units::Limit;

use super::bytes32;
use crate::model::{
    AdaptiveRed, Csfq, DropTail, Drr, Manager, Queue, QueueClassify, Red, RedFlavor, RedGap, RedMode,
    RedPenaltyBox, RedVictim, Wfq, WfqClock,
};

/// The discipline of a queue. `weights` are those other than 1, by number of flow or class as the queue classifies.
pub fn discipline(queue: &Queue, weights: &[(u32, f64)]) -> DisciplineConfig {
    match queue {
        Queue::Droptail(config) => DisciplineConfig::Fifo(ManagerConfig::DropTail(drop_tail(config))),
        Queue::Red(config) => DisciplineConfig::Fifo(ManagerConfig::Red(red(config))),
        Queue::AdaptiveRed(config) => {
            DisciplineConfig::Fifo(ManagerConfig::AdaptiveRed(adaptive_red(config)))
        }
        Queue::RedPenaltyBox(config) => {
            DisciplineConfig::Fifo(ManagerConfig::RedPenaltyBox(penalty_box(config)))
        }
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
        Manager::AdaptiveRed(config) => ManagerConfig::AdaptiveRed(adaptive_red(config)),
        Manager::RedPenaltyBox(config) => ManagerConfig::RedPenaltyBox(penalty_box(config)),
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
        smoothing: config.smoothing,
        active: config.flows_rtt.map(|rtt| FromFlows {
            count: ActiveFlowsConfig { window: config.flows_window, ..ActiveFlowsConfig::default() },
            rtt,
        }),
    }
}

fn adaptive_red(config: &AdaptiveRed) -> AdaptiveRedConfig {
    AdaptiveRedConfig {
        red: red(&config.red()),
        alpha: config.alpha,
        beta: config.beta,
        floor: config.floor,
        ceiling: config.ceiling,
    }
}

fn penalty_box(config: &RedPenaltyBox) -> RedPenaltyBoxConfig {
    RedPenaltyBoxConfig {
        red: red(&config.red()),
        log: config.log,
        period: config.period,
        rtt: config.rtt,
        high: config.high.as_bytes_per_second_f64(),
        share: config.share,
        flows_max: config.flows_max,
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

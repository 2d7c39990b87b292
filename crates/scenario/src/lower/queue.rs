//! Queue managers and disciplines.

use tidegate_mechanism::meter::ActiveFlowsConfig;
use tidegate_mechanism::queue::sfb::{
    AdaptiveRed as BinRed, BinLaw, BinsBegin, NonresponsiveLimit, SfbHash as Spread,
};
use tidegate_mechanism::queue::{
    AdaptiveRedConfig, BlueConfig, Counted, CsfqConfig, DropTailConfig, EecMarkerConfig, EredConfig,
    EredTests, Flavor, FredConfig, FreezeTimers, FromFlows, GapLaw, ManagerConfig, QueueUnit, RedConfig,
    RedPenaltyBoxConfig, SfbConfig, TcpFriendlyConfig, Victim,
};
use tidegate_mechanism::schedule::{
    ActiveWeightsConfig, BinHash, CbqClassConfig, CbqConfig, Classification, Clock, DisciplineConfig,
    DrrConfig, FlowQueuesConfig, LinkSharing, PriorityConfig, SfqConfig, WfqConfig,
};
use tidegate_units::{Limit, Span};

use super::bytes32;
use crate::model::{
    AdaptiveRed, Blue, BlueTimers, Cbq, CbqClass, CbqSharing, Csfq, DropTail, Drr, EecMarker, Ered,
    EredCounted, Fred, FredVariant, Manager, Priority, Queue, QueueClassify, Red, RedFlavor, RedGap, RedMode,
    RedPenaltyBox, RedVictim, Sfb, SfbBinsBegin, SfbHash, SfbLaw, SfbLimiting, Sfq, SfqHash, TcpFriendly,
    Wfq, WfqClock, WfqWeights,
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
        Queue::Blue(config) => DisciplineConfig::Fifo(ManagerConfig::Blue(blue(config))),
        Queue::Fred(config) => DisciplineConfig::Fifo(ManagerConfig::Fred(fred(config))),
        Queue::Csfq(config) => DisciplineConfig::Fifo(ManagerConfig::Csfq(csfq(config))),
        Queue::Sfb(config) => DisciplineConfig::Fifo(ManagerConfig::Sfb(sfb(config))),
        Queue::Drr(config) => DisciplineConfig::Drr(drr(config, weights)),
        Queue::Wfq(config) => DisciplineConfig::Wfq(wfq(config, weights)),
        Queue::Sfq(config) => DisciplineConfig::Sfq(sfq(config)),
        Queue::Cbq(config) => DisciplineConfig::Cbq(cbq(config)),
        Queue::Priority(config) => DisciplineConfig::Priority(priority(config)),
        Queue::EecMarker(config) => DisciplineConfig::Fifo(ManagerConfig::EecMarker(eec_marker(config))),
        Queue::Ered(config) => DisciplineConfig::Fifo(ManagerConfig::Ered(ered(config))),
        Queue::TcpFriendly(config) => {
            DisciplineConfig::Fifo(ManagerConfig::TcpFriendly(tcp_friendly(config)))
        }
    }
}

/// The manager of one queue of a scheduler.
pub fn manager(manager: &Manager) -> ManagerConfig {
    match manager {
        Manager::Droptail(config) => ManagerConfig::DropTail(drop_tail(config)),
        Manager::Red(config) => ManagerConfig::Red(red(config)),
        Manager::AdaptiveRed(config) => ManagerConfig::AdaptiveRed(adaptive_red(config)),
        Manager::RedPenaltyBox(config) => ManagerConfig::RedPenaltyBox(penalty_box(config)),
        Manager::Blue(config) => ManagerConfig::Blue(blue(config)),
        Manager::Fred(config) => ManagerConfig::Fred(fred(config)),
        Manager::Csfq(config) => ManagerConfig::Csfq(csfq(config)),
        Manager::Sfb(config) => ManagerConfig::Sfb(sfb(config)),
        Manager::EecMarker(config) => ManagerConfig::EecMarker(eec_marker(config)),
        Manager::Ered(config) => ManagerConfig::Ered(ered(config)),
        Manager::TcpFriendly(config) => ManagerConfig::TcpFriendly(tcp_friendly(config)),
    }
}

fn drop_tail(config: &DropTail) -> DropTailConfig {
    DropTailConfig { limit: config.limit }
}

const fn eec_marker(config: &EecMarker) -> EecMarkerConfig {
    EecMarkerConfig { threshold: config.threshold, limit: config.limit }
}

fn red(config: &Red) -> RedConfig {
    let (min_th, max_th) = config.thresholds().expect("checked: thresholds are in packets or bytes");
    RedConfig {
        min_th,
        max_th,
        w: config.weight,
        max_p: config.max_p,
        limit: config.limit,
        packet_bytes: bytes32(config.mean_packet),
        unit: queue_unit(config.mode),
        gap_law: gap_law(config.gap),
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

const fn gap_law(gap: RedGap) -> GapLaw {
    match gap {
        RedGap::Paper => GapLaw::Paper,
        RedGap::Ns => GapLaw::Wait,
    }
}

const fn queue_unit(mode: RedMode) -> QueueUnit {
    match mode {
        RedMode::Packets => QueueUnit::Packets,
        RedMode::Bytes => QueueUnit::Bytes,
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

fn blue(config: &Blue) -> BlueConfig {
    BlueConfig {
        delta_up: config.delta_up,
        delta_down: config.delta_down,
        freeze_time: config.freeze_time,
        freeze_spread: config.freeze_spread,
        timers: match config.timers {
            BlueTimers::Shared => FreezeTimers::Shared,
            BlueTimers::Separate => FreezeTimers::Separate,
        },
        threshold: config.threshold,
        limit: config.limit,
        ecn: config.ecn,
        priority: config.priority,
    }
}

fn fred(config: &Fred) -> FredConfig {
    let (min_th, max_th) = config.thresholds().expect("checked: thresholds are in packets or bytes");
    FredConfig {
        min_th,
        max_th,
        w: config.weight,
        max_p: config.max_p,
        min_q: config.min_q,
        variant: match config.variant {
            FredVariant::Basic => tidegate_mechanism::queue::FredVariant::Basic,
            FredVariant::ManyFlows => tidegate_mechanism::queue::FredVariant::ManyFlows,
        },
        limit: config.limit,
        packet_bytes: bytes32(config.mean_packet),
        ecn: config.ecn,
    }
}

fn tcp_friendly(config: &TcpFriendly) -> TcpFriendlyConfig {
    let (min_th, max_th) = config.thresholds().expect("checked: thresholds are in packets or bytes");
    TcpFriendlyConfig {
        min_th,
        max_th,
        w: config.weight,
        max_p: config.max_p,
        spacing: config.spacing,
        limit: config.limit,
        packet_bytes: bytes32(config.mean_packet),
        flows_max: config.flows_max,
        ecn: config.ecn,
    }
}

fn ered(config: &Ered) -> EredConfig {
    let (min_th, max_th) = config.thresholds().expect("checked: thresholds are in packets or bytes");
    let variant = match config.variant {
        FredVariant::Basic => tidegate_mechanism::queue::FredVariant::Basic,
        FredVariant::ManyFlows => tidegate_mechanism::queue::FredVariant::ManyFlows,
    };
    EredConfig {
        min_th,
        max_th,
        w: config.weight,
        max_p: config.max_p,
        limit: config.limit,
        unmarked_limit: config.unmarked_limit,
        packet_bytes: bytes32(config.mean_packet),
        unit: queue_unit(config.mode),
        counted: match config.counted {
            EredCounted::All => Counted::All,
            EredCounted::Unmarked => Counted::Unmarked,
        },
        absolute: config.absolute,
        tests: if config.fair { EredTests::Fred { min_q: config.min_q, variant } } else { EredTests::Red },
        gap_law: gap_law(config.gap),
        ecn: config.ecn,
    }
}

fn csfq(config: &Csfq) -> CsfqConfig {
    let threshold_packets = match config.threshold {
        Limit::Packets(packets) => packets,
        Limit::Bytes(_) | Limit::Time(_) => unreachable!("checked: the threshold is in packets"),
    };
    CsfqConfig { k_alpha: config.averaging, k_c: config.window, threshold_packets, limit: config.limit }
}

fn sfb(config: &Sfb) -> SfbConfig {
    let bin_size = match config.bin_size {
        Limit::Packets(packets) => packets,
        Limit::Bytes(_) | Limit::Time(_) => unreachable!("checked: a bin counts packets"),
    };
    SfbConfig {
        limit: config.limit,
        levels: config.levels,
        bins: config.bins,
        hash: match config.hash {
            SfbHash::Keyed => Spread::Keyed,
            SfbHash::Even => Spread::Even,
        },
        bin_size,
        law: match config.law {
            SfbLaw::Blue => BinLaw::Blue {
                increment: config.increment,
                decrement: config.decrement,
                freeze: config.freeze,
                ceiling: config.ceiling,
            },
            SfbLaw::AdaptiveRed => BinLaw::AdaptiveRed(BinRed {
                min_th: config.min * f64::from(bin_size),
                max_th: config.max * f64::from(bin_size),
                w: config.weight,
                max_p: config.max_p,
                alpha: config.alpha,
                beta: config.beta,
            }),
        },
        nonresponsive: match config.limiting {
            SfbLimiting::Fixed => NonresponsiveLimit::Rate(config.nonresponsive_rate),
            SfbLimiting::FairShare => {
                NonresponsiveLimit::FairShare { map_bits: config.census_bits, window: config.census_window }
            }
        },
        nonresponsive_burst: config.nonresponsive_burst,
        rehash: config.rehash,
        double_buffered: config.double_buffered,
        bins_begin: match config.bins_begin {
            SfbBinsBegin::Fresh => BinsBegin::Fresh,
            SfbBinsBegin::Mean => BinsBegin::Mean,
        },
        ecn: config.ecn,
    }
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
        active: (config.weights == WfqWeights::Active).then(|| ActiveWeightsConfig {
            reserved: config.reserved.iter().map(|one| (one.key, one.rate)).collect(),
            count: ActiveFlowsConfig { window: config.active_window, ..ActiveFlowsConfig::default() },
        }),
    }
}

fn sfq(config: &Sfq) -> SfqConfig {
    let limit = match (config.limit, &config.queue) {
        (Some(Limit::Packets(packets)), _) => Some(packets),
        (Some(Limit::Bytes(_) | Limit::Time(_)), _) => unreachable!("checked: the limit is in packets"),
        (None, Some(_)) => None,
        (None, None) => SfqConfig::default().limit,
    };
    SfqConfig {
        buckets: config.buckets,
        hash: match config.hash {
            SfqHash::Keyed => BinHash::Keyed,
            SfqHash::Modulo => BinHash::Modulo,
        },
        perturb: config.perturb,
        limit,
        classify: classification(config.classify),
        manager: config.queue.as_ref().map_or(SfqConfig::default().manager, manager),
    }
}

fn priority(config: &Priority) -> PriorityConfig {
    let queues = queues(config.classify, config.queue.as_ref(), None, Some(config.limit), &[]);
    let classify = match queues.classify {
        Classification::Dscp => Classification::Precedence,
        other => other,
    };
    let remembered = PriorityConfig::default().queues.remembered;
    PriorityConfig { queues: FlowQueuesConfig { classify, remembered, ..queues } }
}

fn cbq(config: &Cbq) -> CbqConfig {
    let first = || config.classes.iter().position(|class| !config.has_children(class));
    let named = config.default.as_ref().and_then(|name| config.number_of(name));
    CbqConfig {
        classify: classification(config.classify),
        classes: config.classes.iter().map(|class| cbq_class(config, class)).collect(),
        default: named.or_else(first).expect("checked: there is a class with a queue"),
        sharing: match config.sharing {
            CbqSharing::AncestorOnly => LinkSharing::AncestorOnly,
            CbqSharing::TopLevel => LinkSharing::TopLevel,
            CbqSharing::Formal => LinkSharing::Formal,
        },
        rate: config.rate,
        max_packet: bytes32(config.max_packet),
    }
}

fn cbq_class(config: &Cbq, class: &CbqClass) -> CbqClassConfig {
    let usual = CbqClassConfig::default();
    CbqClassConfig {
        parent: config.parent_of(class),
        share: class.share,
        priority: class.priority.unwrap_or(if config.has_children(class) { 8 } else { usual.priority }),
        borrow: class.borrow,
        max_idle: class.max_idle,
        min_idle: class.min_idle,
        extra_delay: class.extra_delay.unwrap_or(Span::ZERO),
        keys: class.matches.clone(),
        manager: class.queue.as_ref().map_or(usual.manager, manager),
    }
}

const fn classification(classify: QueueClassify) -> Classification {
    match classify {
        QueueClassify::Flow => Classification::Flow,
        QueueClassify::Class => Classification::Class,
        QueueClassify::InputPort => Classification::InputPort,
        QueueClassify::Dscp => Classification::Dscp,
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
        classify: classification(classify),
        manager: match own {
            Some(own) => manager(own),
            None => ManagerConfig::DropTail(DropTailConfig { limit: per_queue.unwrap_or(none) }),
        },
        weights: weights.to_vec(),
        ..FlowQueuesConfig::shared(limit.unwrap_or(none))
    }
}

//! Mechanisms of all routers of a domain.

use tidegate_mechanism::hop::HopConfig;
use tidegate_mechanism::hop::backpressure::{
    BackPressureConfig, Capacity, Excess, Feedback, LastHopConfig, LastHopForm,
};
use tidegate_mechanism::hop::nbq::{Decay, Discard, NbqConfig};

use crate::model::{
    BackPressure, BackPressureCapacity, BackPressureExcess, BackPressureFeedback, BackPressureLastHop,
    Mechanism, Nbq, NbqDecay, NbqDiscard,
};

/// What each router of a domain does; none for mechanisms of its edges.
pub fn hop(mechanism: &Mechanism) -> Option<HopConfig> {
    match mechanism {
        Mechanism::None | Mechanism::Nbp(_) | Mechanism::Iec(_) | Mechanism::Eec(_) => None,
        Mechanism::Nbq(config) => Some(HopConfig::Nbq(Box::new(nbq(config)))),
        Mechanism::BackPressure(config) => Some(HopConfig::BackPressure(Box::new(back_pressure(config)))),
    }
}

const fn back_pressure(config: &BackPressure) -> BackPressureConfig {
    BackPressureConfig {
        period: config.period,
        nrm: config.nrm,
        rm_gap: config.rm_gap,
        reserved: config.reserved,
        tolerance: config.tolerance,
        hold: config.hold,
        idle: config.idle,
        rate_min: config.rate_min,
        feedback: match config.feedback {
            BackPressureFeedback::Aggregate => Feedback::Aggregate,
            BackPressureFeedback::Selective => Feedback::Selective,
            BackPressureFeedback::Circuit => Feedback::Circuit,
        },
        routes_max: config.routes_max,
        capacity: match config.capacity {
            BackPressureCapacity::ExplicitRate => Capacity::ExplicitRate,
            BackPressureCapacity::Measured => Capacity::Measured,
        },
        excess: match config.excess {
            BackPressureExcess::OverNew => Excess::OverNew,
            BackPressureExcess::OverTold => Excess::OverTold,
        },
        last_hop: LastHopConfig {
            form: match config.last_hop {
                BackPressureLastHop::None => LastHopForm::None,
                BackPressureLastHop::Bucket => LastHopForm::Bucket,
                BackPressureLastHop::Ecn => LastHopForm::Ecn,
            },
            threshold: config.last_hop_queue,
            acks_max: config.last_hop_acks_max,
            flows_max: config.last_hop_flows_max,
        },
    }
}

fn nbq(config: &Nbq) -> NbqConfig {
    NbqConfig {
        discard_max: config.discard_max,
        discard_min: config.discard_min,
        decrease: config.decrease,
        interval: config.interval,
        weight: config.weight,
        idle: config.idle,
        decay: match config.decay {
            NbqDecay::Silence => Decay::Silence,
            NbqDecay::Literal => Decay::Literal,
        },
        discard: match config.discard {
            NbqDiscard::Even => Discard::Even,
            NbqDiscard::Random => Discard::Random,
        },
        advises: config.advice,
        flows_max: config.flows_max,
        ..NbqConfig::default()
    }
}

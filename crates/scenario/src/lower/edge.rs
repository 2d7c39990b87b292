//! Edges of domains.

use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::nbp::{Granularity, NbpConfig};
use tidegate_mechanism::meter::{CsfqLabellerConfig, ExponentialMeterConfig, TswConfig};
use tidegate_mechanism::shape::ShaperConfig;
use tidegate_units::Bytes;

use super::{bytes32, discipline};
use crate::model::{Classify, Labels, Mechanism, Nbp};

/// What the edges of a domain do; none for nothing.
pub fn edge(mechanism: &Mechanism) -> Option<EdgeConfig> {
    match mechanism {
        Mechanism::None | Mechanism::Nbq(_) => None,
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

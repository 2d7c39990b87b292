//! Edges of domains.

use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::iec::{Detection, IecConfig, MinimumDelayConfig};
use tidegate_mechanism::edge::nbp::{Granularity, NbpConfig};
use tidegate_mechanism::edge::tcp_rate::TcpRateConfig;
use tidegate_mechanism::meter::{CsfqLabellerConfig, ExponentialMeterConfig, TswConfig};
use tidegate_mechanism::shape::ShaperConfig;
use tidegate_packet::Dscp;
use tidegate_units::Bytes;

use super::{bytes32, discipline};
use crate::model::{Classify, Iec, IecDelays, Labels, Mechanism, Nbp, Queue, Shaper};

/// What the edges of a domain do; none for nothing. `weights` are those that a shaper's queue looks up. Which borders
/// `virtual_links` are about is for who numbers borders.
pub fn edge<'a>(mechanism: &Mechanism, weights: &dyn Fn(&Queue) -> &'a [(u32, f64)]) -> Option<EdgeConfig> {
    match mechanism {
        Mechanism::None | Mechanism::Nbq(_) | Mechanism::BackPressure(_) => None,
        Mechanism::Nbp(config) => Some(EdgeConfig::Nbp(Box::new(nbp(config, weights)))),
        Mechanism::Iec(config) => {
            let detection = match config.delays {
                IecDelays::OneWay => Detection::OneWay,
                IecDelays::RoundTrip => Detection::RoundTrip,
            };
            Some(EdgeConfig::Iec(Box::new(iec(config, detection, weights))))
        }
        Mechanism::Eec(config) => {
            Some(EdgeConfig::Iec(Box::new(iec(&config.as_iec(), Detection::Marks, weights))))
        }
    }
}

fn shaper<'a>(shaper: &Shaper, bucket: Bytes, weights: &dyn Fn(&Queue) -> &'a [(u32, f64)]) -> ShaperConfig {
    let queue = discipline(&shaper.queue, weights(&shaper.queue));
    ShaperConfig { bucket: shaper.bucket.unwrap_or(bucket), queue }
}

fn iec<'a>(config: &Iec, detection: Detection, weights: &dyn Fn(&Queue) -> &'a [(u32, f64)]) -> IecConfig {
    IecConfig {
        detection,
        sigma: config.sigma,
        beta: config.beta,
        loss_backoff: config.loss_backoff,
        smoothing: config.smoothing,
        rate_min: config.rate_min,
        terms: Vec::new(),
        initial_rate: config.initial_rate,
        initial_interval: config.initial_interval,
        use_min: config.use_min,
        answer_interval: config.answer_interval,
        idle_timeout: config.idle_timeout,
        minimum: MinimumDelayConfig { drift_ppm: config.drift_ppm, stale_rounds: config.stale_rounds },
        class: config.class,
        tcp_rate: config.tcp_rate.as_ref().map(|tcp| TcpRateConfig {
            idle_timeout: tcp.idle_timeout,
            flows_max: tcp.flows_max,
            round_up: tcp.round_up,
        }),
        shaper: shaper(&config.shaper, config.sigma, weights),
    }
}

fn nbp<'a>(config: &Nbp, weights: &dyn Fn(&Queue) -> &'a [(u32, f64)]) -> NbpConfig {
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
        exempt: config.exempt.iter().copied().map(Dscp::new).collect(),
        granularity: match config.classify {
            Classify::Flow => Granularity::Flow,
            Classify::AddressPair => Granularity::AddressPair,
            Classify::DestinationNetwork => Granularity::DestinationNetwork { prefix_bits: config.prefix },
        },
        feedback_mtu_bytes: bytes32(config.feedback_mtu),
        arrival_headroom: config.arrival_headroom,
        shaper: shaper(&config.shaper, Bytes::ZERO, weights),
        flows_max: config.flows_max,
    }
}

/// What the edges of a domain write on packets; about whom they lie is for who knows the identities of flows.
pub fn labeller(labels: &Labels) -> CsfqLabellerConfig {
    match labels {
        Labels::Csfq(config) => CsfqLabellerConfig {
            meter: ExponentialMeterConfig { k: config.averaging },
            flows_max: config.flows_max,
            lie: config.lie,
            liars: None,
        },
    }
}

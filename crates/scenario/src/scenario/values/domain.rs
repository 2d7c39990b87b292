//! What edges and routers of a domain do; circuits.

use tidegate_units::BitRate;

use super::{Report, queue};
use crate::model::{BackPressure, Circuit, Clock, Iec, Labels, Mechanism, Nbp, Nbq, Shaper};

pub(crate) fn mechanism(mechanism: &Mechanism, report: &mut Report<'_>) {
    match mechanism {
        Mechanism::None => {}
        Mechanism::Nbp(config) => nbp(config, report),
        Mechanism::Iec(config) => overlay(config, report),
        Mechanism::Eec(config) => overlay(&config.as_iec(), report),
        Mechanism::Nbq(config) => nbq(config, report),
        Mechanism::BackPressure(config) => back_pressure(config, report),
    }
}

fn overlay(config: &Iec, report: &mut Report<'_>) {
    report.packet("sigma", config.sigma);
    for (key, value) in [
        ("beta", config.beta),
        ("loss_backoff", config.loss_backoff),
        ("smoothing", config.smoothing),
        // It bounds the rate, see the documents of the ingress.
        ("use_min", config.use_min),
    ] {
        report.above_zero(key, value);
        if value > 1.0 {
            report.say(&[key], format!("{value} is above 1"), "");
        }
    }
    for (key, span) in [
        ("initial_interval", config.initial_interval),
        ("answer_interval", config.answer_interval),
        ("idle_timeout", config.idle_timeout),
    ] {
        report.positive_span(key, span);
    }
    report.rate("rate_min", config.rate_min);
    for (position, link) in config.virtual_links.iter().enumerate() {
        report.below("virtual_links", |report| {
            report.below(&position.to_string(), |report| {
                report.weight("weight", link.weight);
                if let Some(rate) = link.rate_min {
                    report.rate("rate_min", rate);
                }
            });
        });
    }
    if let Some(rate) = config.initial_rate {
        report.rate("initial_rate", rate);
    }
    if config.drift_ppm > 100_000 {
        report.say(&["drift_ppm"], format!("a drift of {} ppm", config.drift_ppm), "at most 100000");
    }
    report.count("stale_rounds", config.stale_rounds);
    if let Some(tcp_rate) = &config.tcp_rate {
        report.below("tcp_rate", |report| {
            report.positive_span("idle_timeout", tcp_rate.idle_timeout);
            report.count("flows_max", tcp_rate.flows_max);
        });
    }
    report.below("shaper", |report| shaper(&config.shaper, report));
}

fn shaper(shaper: &Shaper, report: &mut Report<'_>) {
    if let Some(bucket) = shaper.bucket {
        if bucket.get() == 0 {
            report.say(&["bucket"], "an empty bucket lets nothing pass", "");
        }
        report.bucket("bucket", bucket);
    }
    report.below("queue", |report| queue(&shaper.queue, report));
}

pub(crate) fn clock(clock: &Clock, report: &mut Report<'_>) {
    report.delay("offset", clock.offset);
    if !(-100_000.0..=100_000.0).contains(&clock.drift_ppm) {
        let message = format!("a drift of {} ppm", clock.drift_ppm);
        report.say(&["drift_ppm"], message, "from -100000 to 100000");
    }
}

fn nbq(config: &Nbq, report: &mut Report<'_>) {
    for (key, ratio) in [
        ("discard_max", config.discard_max),
        ("discard_min", config.discard_min),
        ("decrease", config.decrease),
        ("weight", config.weight),
    ] {
        if !(0.0..=1.0).contains(&ratio) {
            report.say(&[key], format!("{ratio} is not between 0 and 1"), "");
        }
    }
    report.positive_span("interval", config.interval);
    report.positive_span("idle", config.idle);
    report.count("flows_max", config.flows_max);
}

fn back_pressure(config: &BackPressure, report: &mut Report<'_>) {
    for (key, span) in [("period", config.period), ("hold", config.hold), ("idle", config.idle)] {
        report.positive_span(key, span);
    }
    if config.hold < config.period {
        let message = format!("{} is shorter than the period, {}", config.hold, config.period);
        report.say(
            &["hold"],
            message,
            "an input has no share then that lasts until the next: ten periods are usual",
        );
    }
    if !(2..=65_536).contains(&config.nrm) {
        report.say(&["nrm"], format!("one cell in {}", config.nrm), "from 2 to 65536");
    }
    report.probability("reserved", config.reserved);
    report.probability("tolerance", config.tolerance);
    report.rate("rate_min", config.rate_min);
    report.count("routes_max", config.routes_max);
    report.count("last_hop_queue", config.last_hop_queue);
    report.count("last_hop_acks_max", config.last_hop_acks_max);
    report.count("last_hop_flows_max", config.last_hop_flows_max);
}

pub(crate) fn circuit(circuit: &Circuit, capacity: Option<BitRate>, report: &mut Report<'_>) {
    if let Some(capacity) = capacity {
        background(circuit, circuit.background, capacity, report);
    }
    if !(1..=10_000_000).contains(&circuit.buffer) {
        report.say(&["buffer"], format!("a buffer of {} cells", circuit.buffer), "from 1 to 10000000");
    }
    report.probability("threshold", circuit.threshold);
}

/// The switch keeps its promises.
pub(crate) fn background(circuit: &Circuit, background: BitRate, capacity: BitRate, report: &mut Report<'_>) {
    if background >= capacity {
        let message = format!("a background of {background} on a link of {capacity}");
        report.say(&["background"], message, "less than the rate of the link");
    } else if circuit.minimum > capacity - background {
        let minimum = circuit.minimum;
        let message = format!("a background of {background} leaves less than the minimum, {minimum}");
        report.say(&["background"], message, "");
    }
}

fn nbp(config: &Nbp, report: &mut Report<'_>) {
    report.packet("mss", config.mss);
    if config.mrc_factor.is_nan() || config.mrc_factor < 1.0 {
        report.say(&["mrc_factor"], format!("{} is below 1", config.mrc_factor), "");
    }
    for (key, span) in [
        ("asynch_interval", config.asynch_interval),
        ("meter_window", config.meter_window),
        ("initial_interval", config.initial_interval),
        ("interval_min", config.interval_min),
        ("idle_timeout", config.idle_timeout),
    ] {
        report.positive_span(key, span);
    }
    if let Some(rate) = config.initial_rate {
        report.rate("initial_rate", rate);
    }
    if let Some(headroom) = config.arrival_headroom {
        report.above_zero("arrival_headroom", headroom);
    }
    for &codepoint in &config.exempt {
        report.codepoint("exempt", codepoint);
    }
    report.count("flows_max", config.flows_max);
    if config.prefix > 128 {
        report.say(&["prefix"], format!("a network of {} bits", config.prefix), "at most 128, for IPv4 32");
    }
    report.packet("feedback_mtu", config.feedback_mtu);
    if config.feedback_mtu.get() < 100 {
        report.say(&["feedback_mtu"], "too small for a report of one flow", "at least 100B");
    }
    report.below("shaper", |report| shaper(&config.shaper, report));
}

pub(crate) fn labels(labels: &Labels, report: &mut Report<'_>) {
    match labels {
        Labels::Csfq(config) => {
            report.positive_span("averaging", config.averaging);
            report.count("flows_max", config.flows_max);
            report.above_zero("lie", config.lie);
            if config.liars.as_ref().is_some_and(Vec::is_empty) {
                report.say(&["liars"], "nobody lies", "leave `lie` out");
            }
        }
    }
}

//! Checks of single values: zero where nothing would move, and values that nobody can mean.

use serde::{Deserialize, Deserializer};
use tidegate_units::{BitRate, Bytes, Limit, Span};

use crate::model::{
    Application, Csfq, Drr, Labels, Loss, Manager, Mechanism, Nbp, Nbq, Queue, Red, RedMode, Reorder, Tcp,
    Udp, Wfq, Window,
};
use crate::text;

/// No link is faster: 10 Tbit/s.
const RATE_MAX: BitRate = BitRate::from_bps(10_000_000_000_000);
/// No link is longer, and no time constant either.
const DELAY_MAX: Span = Span::from_secs(3_600);
/// No queue holds more packets, bytes or time.
const QUEUE_PACKETS_MAX: u32 = 1_000_000_000;
const QUEUE_BYTES_MAX: u64 = 1_000_000_000_000;
/// No packet is larger.
const PACKET_BYTES_MAX: u64 = 65_535;
/// Entries of a list of lost packets.
const LOSS_LIST_MAX: usize = 1_000_000;

/// A time that stands alone.
pub(crate) struct SpanText(pub(crate) Span);

impl<'de> Deserialize<'de> for SpanText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::deserialize(deserializer).map(Self)
    }
}

/// Takes what is wrong: the keys below the checked table, the message, the help.
pub(crate) struct Report<'r> {
    pub(crate) sink: &'r mut dyn FnMut(&[&str], String, &str),
}

impl Report<'_> {
    fn say(&mut self, keys: &[&str], message: impl Into<String>, help: &str) {
        (self.sink)(keys, message.into(), help);
    }

    /// The same for a table inside.
    pub(crate) fn below(&mut self, key: &str, check: impl FnOnce(&mut Report<'_>)) {
        let sink = &mut *self.sink;
        let mut inner = |keys: &[&str], message: String, help: &str| {
            let whole: Vec<&str> = std::iter::once(key).chain(keys.iter().copied()).collect();
            sink(&whole, message, help);
        };
        check(&mut Report { sink: &mut inner });
    }

    pub(crate) fn rate(&mut self, key: &str, rate: BitRate) {
        if rate.is_zero() {
            self.say(
                &[key],
                "a rate of zero moves nothing",
                "to cut a link, use an event with state = \"down\"",
            );
        } else if rate > RATE_MAX {
            self.say(&[key], format!("{rate} is above {RATE_MAX}"), "");
        }
    }

    pub(crate) fn delay(&mut self, key: &str, delay: Span) {
        if delay > DELAY_MAX {
            self.say(&[key], format!("{delay} is above an hour"), "");
        }
    }

    fn positive_span(&mut self, key: &str, span: Span) {
        if span.is_zero() {
            self.say(&[key], "this time cannot be zero", "");
        } else {
            self.delay(key, span);
        }
    }

    pub(crate) fn packet(&mut self, key: &str, bytes: Bytes) {
        if bytes.get() == 0 {
            self.say(&[key], "a packet has at least one byte", "");
        } else if bytes.get() > PACKET_BYTES_MAX {
            self.say(
                &[key],
                format!("{bytes} is no size of a packet"),
                "IP counts the bytes of a packet in 16 bits: at most 65535B",
            );
        }
    }

    fn probability(&mut self, key: &str, value: f64) {
        if !(0.0..=1.0).contains(&value) {
            self.say(&[key], format!("{value} is no probability"), "from 0 to 1");
        }
    }

    fn above_zero(&mut self, key: &str, value: f64) {
        if value.is_nan() || value <= 0.0 {
            self.say(&[key], format!("{value} is not above 0"), "");
        }
    }

    fn count(&mut self, key: &str, value: u32) {
        if value == 0 {
            self.say(&[key], "zero leaves nothing", "");
        }
    }

    fn limit(&mut self, key: &str, limit: Limit) {
        let (zero, too_large) = match limit {
            Limit::Packets(packets) => (packets == 0, packets > QUEUE_PACKETS_MAX),
            Limit::Bytes(bytes) => (bytes.get() == 0, bytes.get() > QUEUE_BYTES_MAX),
            Limit::Time(span) => (span.is_zero(), span > DELAY_MAX),
        };
        if zero {
            self.say(&[key], "a queue that holds nothing drops everything", "");
        } else if too_large {
            let help = "at most 1000000000p, 1000GB or one hour";
            self.say(&[key], format!("no queue holds {limit}"), help);
        }
    }
}

pub(crate) fn queue(queue: &Queue, report: &mut Report<'_>) {
    match queue {
        Queue::Droptail(config) => report.limit("limit", config.limit),
        Queue::Red(config) => red(config, report),
        Queue::Csfq(config) => csfq(config, report),
        Queue::Drr(config) => drr(config, report),
        Queue::Wfq(config) => wfq(config, report),
    }
}

fn manager(manager: &Manager, report: &mut Report<'_>) {
    match manager {
        Manager::Droptail(config) => report.limit("limit", config.limit),
        Manager::Red(config) => red(config, report),
        Manager::Csfq(config) => csfq(config, report),
    }
}

fn red(config: &Red, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    report.probability("max_p", config.max_p);
    if !(config.weight > 0.0 && config.weight <= 1.0) {
        report.say(&["weight"], format!("{} is no weight", config.weight), "above 0, at most 1");
    }
    report.packet("mean_packet", config.mean_packet);
    let counted = |limit: Limit| match (config.mode, limit) {
        (RedMode::Packets, Limit::Packets(packets)) => Some(u64::from(packets)),
        (RedMode::Bytes, Limit::Bytes(bytes)) => Some(bytes.get()),
        _ => None,
    };
    let unit = if config.mode == RedMode::Packets { "packets, like `5p`" } else { "bytes, like `5kB`" };
    let mut thresholds = [("min", config.min), ("max", config.max)].map(|(key, limit)| {
        let value = counted(limit);
        if value.is_none() {
            let mode = if config.mode == RedMode::Packets { "packets" } else { "bytes" };
            let help = "give min and max in what `mode` says";
            report.say(&[key], format!("{limit} is not in {unit}, and mode is \"{mode}\""), help);
        }
        value
    });
    if let [Some(min), Some(max)] = &mut thresholds
        && min >= max
    {
        let message = format!("min ({}) is not below max ({})", config.min, config.max);
        report.say(&["min"], message, "");
    }
}

fn csfq(config: &Csfq, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    report.positive_span("averaging", config.averaging);
    report.positive_span("window", config.window);
    let Limit::Packets(threshold) = config.threshold else {
        let message = format!("{} is not in packets", config.threshold);
        report.say(&["threshold"], message, "write one like `25p`");
        return;
    };
    if matches!(config.limit, Limit::Packets(limit) if threshold > limit) {
        let message = format!("the threshold ({}) is above the limit ({})", config.threshold, config.limit);
        report.say(&["threshold"], message, "");
    }
}

fn drr(config: &Drr, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    let quantum = config.quantum.get();
    if quantum == 0 || quantum > u64::from(u32::MAX) {
        report.say(&["quantum"], format!("{} is no quantum", config.quantum), "from 1B to 4GB");
    }
    if let Some(child) = &config.queue {
        report.below("queue", |report| manager(child, report));
    }
}

fn wfq(config: &Wfq, report: &mut Report<'_>) {
    for (key, limit) in [("limit", config.limit), ("per_flow_limit", config.per_flow_limit)] {
        if let Some(limit) = limit {
            report.limit(key, limit);
        }
    }
    if let Some(child) = &config.queue {
        report.below("queue", |report| manager(child, report));
        if config.per_flow_limit.is_some() {
            let help = "the queue has a limit of its own";
            report.say(&["per_flow_limit"], "not together with `queue`", help);
        }
    }
}

pub(crate) fn loss(loss: &Loss, report: &mut Report<'_>) {
    match loss {
        Loss::Random(config) => report.probability("probability", config.probability),
        Loss::List(config) => {
            if config.packets.first() == Some(&0) || !config.packets.is_sorted_by(|a, b| a < b) {
                report.say(&["packets"], "ordinals count from 1 and ascend", "");
            }
            if config.packets.len() > LOSS_LIST_MAX {
                report.say(&["packets"], format!("more than {LOSS_LIST_MAX} packets"), "");
            }
        }
        Loss::Burst(config) => {
            for (key, value) in [
                ("good_to_bad", config.good_to_bad),
                ("bad_to_good", config.bad_to_good),
                ("loss_good", config.loss_good),
                ("loss_bad", config.loss_bad),
            ] {
                report.probability(key, value);
            }
        }
    }
}

pub(crate) fn reorder(config: &Reorder, report: &mut Report<'_>) {
    report.probability("probability", config.probability);
    report.delay("delay", config.delay);
}

pub(crate) fn tcp(config: &Tcp, report: &mut Report<'_>) {
    report.packet("packet", config.packet);
    report.packet("ack", config.ack);
    if config.header >= config.packet {
        let message = format!("a packet of {} has no room for a header of {}", config.packet, config.header);
        report.say(&["header"], message, "");
        return;
    }
    let segment = config.segment();
    if config.window_bytes() < segment {
        let message = format!("a window of {} is smaller than a packet's {segment}", config.window);
        report.say(&["window"], message, "");
    } else if config.window_bytes().get() > u64::from(u32::MAX) {
        report.say(&["window"], format!("a window of {} is above 4GB", config.window), "");
    }
    for (key, packets) in
        [("initial_window", config.initial_window), ("minimum_window", config.minimum_window)]
    {
        if packets == 0 {
            report.say(&[key], "a window of no packet sends nothing", "");
        }
    }
    report.count("dupack_threshold", config.dupack_threshold);
    if let Some(window) = config.initial_ssthresh
        && window == Window::Packets(0)
    {
        report.say(&["initial_ssthresh"], "a threshold of no packet", "");
    }
    for (key, span) in
        [("initial_rto", config.initial_rto), ("min_rto", config.min_rto), ("max_rto", config.max_rto)]
    {
        report.positive_span(key, span);
    }
    if config.min_rto > config.max_rto {
        let message = format!("min_rto ({}) is above max_rto ({})", config.min_rto, config.max_rto);
        report.say(&["min_rto"], message, "");
    }
    report.positive_span("timer_granularity", config.timer_granularity);
    if let Some(span) = config.delayed_ack {
        report.positive_span("delayed_ack_timeout", span);
    }
}

pub(crate) fn udp(config: &Udp, report: &mut Report<'_>) {
    report.packet("packet", config.packet);
    if config.header >= config.packet {
        let message = format!("a packet of {} has no room for a header of {}", config.packet, config.header);
        report.say(&["header"], message, "");
    }
}

pub(crate) fn application(application: &Application, report: &mut Report<'_>) {
    match application {
        Application::Bulk(_) => {}
        Application::Transfer(config) => {
            if config.size.get() == 0 {
                report.say(&["size"], "a transfer of nothing", "");
            }
        }
        Application::Cbr(config) => {
            report.rate("rate", config.rate);
            if !(0.0..=1.0).contains(&config.jitter) {
                report.say(&["jitter"], format!("{} is no part of a gap", config.jitter), "from 0 to 1");
            }
        }
        Application::Poisson(config) => report.rate("rate", config.rate),
        Application::Adaptive(config) => {
            if config.rates.is_empty() {
                report.say(&["rates"], "an adaptive source needs rates".to_owned(), "at least one");
            }
            for rate in &config.rates {
                report.rate("rates", *rate);
            }
            if !config.rates.is_sorted_by(|a, b| a < b) {
                report.say(&["rates"], "the rates do not ascend".to_owned(), "the lowest first");
            }
            report.positive_span("patience", config.patience);
            report.delay("settle", config.settle);
        }
        Application::OnOff(config) => {
            report.positive_span("on", config.on);
            report.delay("off", config.off);
            if config.shape.is_nan() || config.shape <= 1.0 {
                let message = format!("a Pareto distribution of shape {} has no mean", config.shape);
                report.say(&["shape"], message, "above 1");
            }
            if let Some(rate) = config.rate {
                report.rate("rate", rate);
            }
        }
    }
}

pub(crate) fn mechanism(mechanism: &Mechanism, report: &mut Report<'_>) {
    match mechanism {
        Mechanism::None => {}
        Mechanism::Nbp(config) => nbp(config, report),
        Mechanism::Nbq(config) => nbq(config, report),
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
    report.count("flows_max", config.flows_max);
    if config.prefix > 128 {
        report.say(&["prefix"], format!("a network of {} bits", config.prefix), "at most 128, for IPv4 32");
    }
    report.packet("feedback_mtu", config.feedback_mtu);
    if config.feedback_mtu.get() < 100 {
        report.say(&["feedback_mtu"], "too small for a report of one flow", "at least 100B");
    }
    report.below("shaper", |report| {
        if config.shaper.bucket.is_some_and(|bucket| bucket.get() == 0) {
            report.say(&["bucket"], "an empty bucket lets nothing pass", "");
        }
        report.below("queue", |report| queue(&config.shaper.queue, report));
    });
}

pub(crate) fn labels(labels: &Labels, report: &mut Report<'_>) {
    match labels {
        Labels::Csfq(config) => {
            report.positive_span("averaging", config.averaging);
            report.count("flows_max", config.flows_max);
        }
    }
}

pub(crate) fn weight(weight: f64, report: &mut Report<'_>) {
    report.above_zero("weight", weight);
}

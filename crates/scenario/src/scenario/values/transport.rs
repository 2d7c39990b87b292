//! Transports, their controls, and applications.

use super::Report;
use super::marker::goal;
use crate::model::{
    Application, BbrControl, Control, CubicControl, DctcpControl, EcnFeedback, Marking, Reserved, SubTcp,
    Tcp, Tfrc, Udp, Window,
};

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
    report.below("control", |report| control(&config.control, report));
    if config.ecn_timeout && !config.ecn {
        report.say(&["ecn_timeout"], "without `ecn` no mark is heard", "set ecn = true");
    }
    if config.ecn_timeout && matches!(config.control, Control::SubTcp(_)) {
        let help = "its windows below one segment stand in for it";
        report.say(&["ecn_timeout"], "SUBTCP does without ECN time-outs", help);
    }
    if config.ecn_feedback != EcnFeedback::Classic && !config.ecn {
        report.say(&["ecn_feedback"], "without `ecn` there is no feedback on marks", "set ecn = true");
    }
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

fn control(control: &Control, report: &mut Report<'_>) {
    match control {
        Control::Reno(_) | Control::Unresponsive(_) => {}
        Control::Cubic(config) => cubic(config, report),
        Control::Dctcp(config) => dctcp(config, report),
        Control::Bbr(config) => bbr(config, report),
        Control::SubTcp(config) => subtcp(config, report),
        Control::Reserved(config) => reserved(config, report),
        Control::Marking(config) => marking(config, report),
    }
}

fn cubic(config: &CubicControl, report: &mut Report<'_>) {
    if !(config.c > 0.0 && config.c <= 1e6) {
        report.say(&["c"], format!("{} must be above 0 and at most 1000000", config.c), "");
    }
    if !(config.beta > 0.0 && config.beta < 1.0) {
        report.say(&["beta"], format!("{} must be between 0 and 1", config.beta), "");
    }
}

fn dctcp(config: &DctcpControl, report: &mut Report<'_>) {
    if !(config.g > 0.0 && config.g <= 1.0) {
        report.say(&["g"], format!("{} must be above 0 and at most 1", config.g), "");
    }
    report.probability("initial_alpha", config.initial_alpha);
}

fn bbr(config: &BbrControl, report: &mut Report<'_>) {
    for (key, gain) in [("high_gain", config.high_gain), ("cwnd_gain", config.cwnd_gain)] {
        if !(gain > 1.0 && gain <= 100.0) {
            report.say(&[key], format!("{gain} must be above 1 and at most 100"), "");
        }
    }
    report.positive_span("rtprop_window", config.rtprop_window);
    report.positive_span("probe_rtt", config.probe_rtt);
    if !(0.0..1.0).contains(&config.pacing_margin) {
        report.say(
            &["pacing_margin"],
            format!("{} must be at least 0 and below 1", config.pacing_margin),
            "",
        );
    }
    for (key, segments) in
        [("extra_segments", config.extra_segments), ("probe_segments", config.probe_segments)]
    {
        if segments > 1000 {
            report.say(&[key], format!("{segments} is above 1000"), "");
        }
    }
}

fn reserved(config: &Reserved, report: &mut Report<'_>) {
    report.rate("rate", config.rate);
    report.positive_span("depth", config.depth);
    report.bucket("depth", config.rate.bytes_in(config.depth));
    if let Some(most) = config.burst {
        report.count("burst", most);
    }
    for (key, span) in [("timer", config.timer), ("delayed", config.delayed)] {
        if let Some(span) = span {
            report.positive_span(key, span);
        }
    }
    report.codepoint("marked", config.marked);
    report.codepoint("unmarked", config.unmarked);
}

fn marking(config: &Marking, report: &mut Report<'_>) {
    if !(config.factor > 0.0 && config.factor.is_finite()) {
        report.say(&["factor"], format!("{} is no factor", config.factor), "above 0");
    }
    report.positive_span("pause", config.pause);
    if config.pause_max < config.pause {
        let message = format!("pause_max ({}) is below pause ({})", config.pause_max, config.pause);
        report.say(&["pause_max"], message, "");
    }
    goal(&config.goal(), report);
}

fn subtcp(config: &SubTcp, report: &mut Report<'_>) {
    for (key, value) in [("scale_factor", config.scale_factor), ("increase", config.increase)] {
        if !(value > 0.0 && value <= 1e3) {
            report.say(&[key], format!("{value} must be above 0 and at most 1000"), "");
        }
    }
    if !(config.scale_max >= 1.0 && config.scale_max <= 1e6) {
        report.say(&["scale_max"], format!("{} must be from 1 to 1000000", config.scale_max), "");
    }
    report.positive_span("tick", config.tick);
}

pub(crate) fn udp(config: &Udp, report: &mut Report<'_>) {
    report.packet("packet", config.packet);
    if config.header >= config.packet {
        let message = format!("a packet of {} has no room for a header of {}", config.packet, config.header);
        report.say(&["header"], message, "");
    }
}

pub(crate) fn tfrc(config: &Tfrc, report: &mut Report<'_>) {
    report.packet("packet", config.packet);
    report.packet("report", config.report);
    if let Some(rate) = config.max_rate {
        report.rate("max_rate", rate);
    }
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

//! Markers.

use tidegate_units::Limit;

use super::Report;
use crate::model::{EngineGoal, EngineLaw, EngineMeter, Marker};

pub(crate) fn marker(marker: &Marker, report: &mut Report<'_>) {
    match marker {
        Marker::Profile(profile) => {
            report.rate("rate", profile.rate);
            if let Some(peak) = profile.peak {
                report.rate("peak", peak);
            }
            if let Limit::Packets(_) = profile.depth {
                report.say(
                    &["depth"],
                    "a bucket holds bytes",
                    "a size (`10kB`), or a time (`50ms`) at the rate",
                );
            }
            report.limit("depth", profile.depth);
            match profile.depth {
                Limit::Bytes(bytes) => report.bucket("depth", bytes),
                Limit::Time(span) => report.bucket("depth", profile.rate.bytes_in(span)),
                Limit::Packets(_) => {}
            }
            report.codepoint("marked", profile.marked);
            report.codepoint("unmarked", profile.unmarked);
        }
        Marker::SingleRate(config) => {
            report.rate("committed_rate", config.committed_rate);
            report.bucket("committed_burst", config.committed_burst);
            report.bucket("excess_burst", config.excess_burst);
            report.assured_class("class", config.class);
        }
        Marker::TwoRates(config) => {
            report.rate("committed_rate", config.committed_rate);
            report.rate("peak_rate", config.peak_rate);
            report.bucket("committed_burst", config.committed_burst);
            report.bucket("peak_burst", config.peak_burst);
            if config.peak_rate < config.committed_rate {
                report.say(&["peak_rate"], "below `committed_rate`", "RFC 2698: at least the committed rate");
            }
            report.assured_class("class", config.class);
        }
        Marker::Engine(engine) => {
            match engine.law {
                EngineLaw::TcpFriendly => {
                    report.positive_span("rtt", engine.rtt);
                    report.packet("packet", engine.packet);
                }
                EngineLaw::TcpIndependent => report.above_zero("step", engine.step),
            }
            goal(&engine.goal(), report);
        }
        Marker::Account(account) => {
            for (key, price) in [("price", account.price), ("marked_price", account.marked_price)] {
                if !(price >= 0.0 && price.is_finite()) {
                    report.say(&[key], format!("{price} is no price"), "0 or more for a megabyte");
                }
            }
            report.positive_span("interval", account.interval);
        }
    }
}

/// What every marking engine is told.
pub(crate) fn goal(goal: &EngineGoal, report: &mut Report<'_>) {
    report.rate("target", goal.target);
    match goal.meter {
        EngineMeter::Weighted => {
            report.above_zero("weight", goal.weight);
            report.probability("weight", goal.weight);
        }
        EngineMeter::Sliding if goal.windows > 100_000 => {
            report.say(&["windows"], format!("{} intervals are too many", goal.windows), "at most 100000");
        }
        EngineMeter::Sliding => report.count("windows", goal.windows),
    }
    report.positive_span("interval", goal.interval);
    report.codepoint("marked", goal.marked);
    report.codepoint("unmarked", goal.unmarked);
}

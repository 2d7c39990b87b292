//! Queue managers and schedulers.

use tidegate_mechanism::queue::sfb::LEVELS_MAX;
use tidegate_mechanism::schedule::CBQ_PRIORITIES;
use tidegate_units::{Limit, Span};

use super::Report;
use crate::model::{
    AdaptiveRed, Blue, Cbq, CbqClass, Csfq, Drr, EecMarker, Ered, Fred, Manager, Priority, Queue,
    QueueClassify, Red, RedMode, RedPenaltyBox, Sfb, SfbHash, SfbLimiting, Sfq, TcpFriendly, Wfq, WfqWeights,
};

/// No `max_p` is larger: at 1000 everything above `min` is notified.
const MAX_P_MAX: f64 = 1_000.0;
/// Notifications that a penalty box remembers; each search sorts them.
const LOG_MAX: u32 = 1_000_000;
/// Flows in a penalty box; each packet looks through them.
const BOX_MAX: u32 = 10_000;
/// An idle link under BLUE changes once per freeze time: this bounds the work.
const FREEZE_MIN: Span = Span::from_micros(1);
/// No set of bins is larger, and no bit map either.
const BINS_MAX: u32 = 1 << 24;
/// Bins of a scheduler, each a queue.
const SFQ_BUCKETS_MAX: u32 = 1_000_000;
/// No class has less of a link: the times of its estimator fit in 128 bits.
const CBQ_SHARE_MIN: f64 = 1e-9;
/// Queues of a fair queue with a reservation: every packet looks for its own.
const WFQ_RESERVED_MAX: usize = 256;
/// Classes of a link: every one is looked at per packet.
const CBQ_CLASSES_MAX: usize = 256;

pub(crate) fn queue(queue: &Queue, report: &mut Report<'_>) {
    match queue {
        Queue::Droptail(config) => report.limit("limit", config.limit),
        Queue::Red(config) => red(config, report),
        Queue::AdaptiveRed(config) => adaptive_red(config, report),
        Queue::RedPenaltyBox(config) => penalty_box(config, report),
        Queue::Blue(config) => blue(config, report),
        Queue::Fred(config) => fred(config, report),
        Queue::Csfq(config) => csfq(config, report),
        Queue::Sfb(config) => sfb(config, report),
        Queue::Drr(config) => drr(config, report),
        Queue::Wfq(config) => wfq(config, report),
        Queue::Sfq(config) => sfq(config, report),
        Queue::Cbq(config) => cbq(config, report),
        Queue::Priority(config) => priority(config, report),
        Queue::EecMarker(config) => eec_marker(config, report),
        Queue::Ered(config) => ered(config, report),
        Queue::TcpFriendly(config) => tcp_friendly(config, report),
    }
}

fn eec_marker(config: &EecMarker, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    report.limit("threshold", config.threshold);
    if matches!(config.threshold, Limit::Time(_)) {
        let message = format!("{} is a time", config.threshold);
        report.say(&["threshold"], message, "in packets or bytes, like `10p`: sigma for each virtual link");
    }
}

fn manager(manager: &Manager, report: &mut Report<'_>) {
    match manager {
        Manager::Droptail(config) => report.limit("limit", config.limit),
        Manager::Red(config) => red(config, report),
        Manager::AdaptiveRed(config) => adaptive_red(config, report),
        Manager::RedPenaltyBox(config) => penalty_box(config, report),
        Manager::Blue(config) => blue(config, report),
        Manager::Fred(config) => fred(config, report),
        Manager::Csfq(config) => csfq(config, report),
        Manager::Sfb(config) => sfb(config, report),
        Manager::EecMarker(config) => eec_marker(config, report),
        Manager::Ered(config) => ered(config, report),
        Manager::TcpFriendly(config) => tcp_friendly(config, report),
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
    for (key, span) in [("smoothing", config.smoothing), ("flows_rtt", config.flows_rtt)] {
        if let Some(span) = span {
            report.positive_span(key, span);
        }
    }
    report.positive_span("flows_window", config.flows_window);
}

fn adaptive_red(config: &AdaptiveRed, report: &mut Report<'_>) {
    red(&config.red(), report);
    for (key, factor) in [("alpha", config.alpha), ("beta", config.beta)] {
        if !(factor > 1.0 && factor.is_finite()) {
            report.say(&[key], format!("{factor} does not change max_p as it should"), "above 1");
        }
    }
    report.above_zero("floor", config.floor);
    if config.ceiling.is_nan() || config.ceiling > MAX_P_MAX {
        report.say(&["ceiling"], format!("{} is no bound", config.ceiling), "at most 1000");
    } else if config.floor > config.ceiling {
        let message = format!("floor ({}) is above ceiling ({})", config.floor, config.ceiling);
        report.say(&["floor"], message, "");
    }
}

fn penalty_box(config: &RedPenaltyBox, report: &mut Report<'_>) {
    red(&config.red(), report);
    for (key, most, value) in [("log", LOG_MAX, config.log), ("flows_max", BOX_MAX, config.flows_max)] {
        report.count(key, value);
        if value > most {
            report.say(&[key], format!("{value} is too much"), &format!("at most {most}"));
        }
    }
    report.positive_span("period", config.period);
    report.positive_span("rtt", config.rtt);
    if !(config.share > 0.0 && config.share <= 1.0) {
        report.say(&["share"], format!("{} is no share of a link", config.share), "above 0, at most 1");
    }
}

fn blue(config: &Blue, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    report.probability("delta_up", config.delta_up);
    report.probability("delta_down", config.delta_down);
    if config.freeze_time < FREEZE_MIN {
        let message = format!("{} is no freeze time", config.freeze_time);
        report.say(&["freeze_time"], message, "at least 1us: an idle link changes once in each");
    } else {
        report.delay("freeze_time", config.freeze_time);
    }
    if !(0.0..=1.0).contains(&config.freeze_spread) {
        let message = format!("{} is no part of a freeze time", config.freeze_spread);
        report.say(&["freeze_spread"], message, "from 0 to 1");
    }
    if let Some(threshold) = config.threshold {
        report.limit("threshold", threshold);
    }
}

fn fred(config: &Fred, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    report.probability("max_p", config.max_p);
    if !(config.weight > 0.0 && config.weight <= 1.0) {
        report.say(&["weight"], format!("{} is no weight", config.weight), "above 0, at most 1");
    }
    report.packet("mean_packet", config.mean_packet);
    match config.thresholds() {
        Some((min, max)) if min <= 0.0 || min.is_nan() || min >= max => {
            report.say(&["min"], format!("min ({min} packets) is not between 0 and max ({max})"), "");
        }
        Some(_) => {}
        None => {
            let help = "in packets, like `25p`, or bytes, like `25kB`; a limit in time needs `min`";
            report.say(&["min"], "min and max are not in packets or bytes", help);
        }
    }
}

fn tcp_friendly(config: &TcpFriendly, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    report.probability("max_p", config.max_p);
    if !(config.weight > 0.0 && config.weight <= 1.0) {
        report.say(&["weight"], format!("{} is no weight", config.weight), "above 0, at most 1");
    }
    report.packet("mean_packet", config.mean_packet);
    report.count("flows_max", config.flows_max);
    match config.thresholds() {
        Some((min, max)) if min.is_nan() || min >= max => {
            report.say(&["min"], format!("min ({min} packets) is not below max ({max})"), "");
        }
        Some(_) => {}
        None => {
            let help = "in packets, like `25p`, or bytes, like `25kB`; a limit in time needs `min`";
            report.say(&["min"], "min and max are not in packets or bytes", help);
        }
    }
}

fn ered(config: &Ered, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    if let Some(limit) = config.unmarked_limit {
        report.limit("unmarked_limit", limit);
    }
    report.probability("max_p", config.max_p);
    if !(config.weight > 0.0 && config.weight <= 1.0) {
        report.say(&["weight"], format!("{} is no weight", config.weight), "above 0, at most 1");
    }
    report.packet("mean_packet", config.mean_packet);
    match config.thresholds() {
        Some((min, max)) if min < 0.0 || min.is_nan() || min >= max || (config.fair && min <= 0.0) => {
            report.say(&["min"], format!("min ({min} packets) is not between 0 and max ({max})"), "");
        }
        Some(_) => {}
        None => {
            report.say(&["min"], "min and max are not in packets or bytes", "like `20p`, or like `20kB`");
        }
    }
    if config.fair && config.mode == RedMode::Bytes {
        report.say(&["mode"], "FRED's tests count packets", "leave out `mode` or `fair`");
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

fn sfb(config: &Sfb, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    if !(1..=LEVELS_MAX).contains(&config.levels) {
        let message = format!("{} levels", config.levels);
        report.say(&["levels"], message, &format!("from 1 to {LEVELS_MAX}"));
    }
    for (key, value) in [("bins", config.bins), ("census_bits", config.census_bits)] {
        report.count(key, value);
        if value > BINS_MAX / LEVELS_MAX {
            report.say(&[key], format!("{value} is too many"), &format!("at most {}", BINS_MAX / LEVELS_MAX));
        }
    }
    if config.hash == SfbHash::Even && config.levels > config.bins {
        let message = format!("{} levels of {} bins", config.levels, config.bins);
        report.say(&["levels"], message, "with `hash = \"even\"` not more levels than bins");
    }
    if matches!(config.bin_size, Limit::Packets(_)) {
        report.limit("bin_size", config.bin_size);
    } else {
        let message = format!("{} is not in packets", config.bin_size);
        report.say(&["bin_size"], message, "write one like `13p`");
    }
    for (key, value) in [
        ("increment", config.increment),
        ("decrement", config.decrement),
        ("max_p", config.max_p),
        ("weight", config.weight),
    ] {
        report.probability(key, value);
    }
    if !(config.min >= 0.0 && config.min < config.max && config.max.is_finite()) {
        let message = format!("min ({}) is not below max ({})", config.min, config.max);
        report.say(&["min"], message, "parts of `bin_size`, like 0.3 and 0.9");
    }
    let ceiling = config.ceiling.unwrap_or(1.0);
    for (key, value) in [("ceiling", ceiling), ("alpha", config.alpha), ("beta", config.beta)] {
        if !(value >= 1.0 && value.is_finite()) {
            report.say(&[key], format!("{value} is below 1"), "");
        }
    }
    report.positive_span("census_window", config.census_window);
    if let Some(freeze) = config.freeze {
        report.delay("freeze", freeze);
    }
    if let Some(rehash) = config.rehash {
        report.positive_span("rehash", rehash);
    }
    if config.limiting == SfbLimiting::Fixed {
        report.rate("nonresponsive_rate", config.nonresponsive_rate);
    }
    if let Some(burst) = config.nonresponsive_burst
        && burst.get() == 0
    {
        report.say(&["nonresponsive_burst"], "an empty bucket lets nothing pass", "");
    }
    if let Some(burst) = config.nonresponsive_burst {
        report.bucket("nonresponsive_burst", burst);
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
    report.positive_span("active_window", config.active_window);
    if config.weights == WfqWeights::Flows {
        if !config.reserved.is_empty() {
            report.say(&["reserved"], "weights of flows know of no reservation", "weights = \"active\"");
        }
        return;
    }
    if config.classify == QueueClassify::Flow {
        let help = "\"class\", \"input-port\" or \"dscp\": a queue per flow has one connection";
        report.say(&["classify"], "no queue has more connections than another", help);
    }
    if config.reserved.len() > WFQ_RESERVED_MAX {
        report.say(&["reserved"], format!("{} reservations", config.reserved.len()), "at most 256");
    }
    for (number, one) in config.reserved.iter().enumerate() {
        if config.reserved[..number].iter().any(|other| other.key == one.key) {
            report.say(&["reserved"], format!("two reservations for {}", one.key), "");
        }
    }
}

fn sfq(config: &Sfq, report: &mut Report<'_>) {
    if config.buckets == 0 || config.buckets > SFQ_BUCKETS_MAX {
        let help = "from 1 to 1000000";
        report.say(&["buckets"], format!("{} bins hold no flows", config.buckets), help);
    }
    match config.limit {
        Some(limit @ Limit::Packets(_)) => report.limit("limit", limit),
        Some(limit) => report.say(&["limit"], format!("{limit} is not in packets"), "write one like `40p`"),
        None => {}
    }
    if let Some(perturb) = config.perturb {
        report.positive_span("perturb", perturb);
    }
    if let Some(child) = &config.queue {
        report.below("queue", |report| manager(child, report));
    }
}

fn priority(config: &Priority, report: &mut Report<'_>) {
    report.limit("limit", config.limit);
    if config.classify == QueueClassify::Flow {
        report.say(&["classify"], "flows have no order of urgency", "\"class\", \"input-port\" or \"dscp\"");
    }
    if let Some(child) = &config.queue {
        report.below("queue", |report| manager(child, report));
    }
}

fn cbq(config: &Cbq, report: &mut Report<'_>) {
    let count = config.classes.len();
    if count == 0 || count > CBQ_CLASSES_MAX {
        let help = "classes = [{ name = \"a\", share = 0.2, match = [1] }, ...], at most 256";
        report.say(&["classes"], format!("{count} classes share no link"), help);
        return;
    }
    let largest = match config.classify {
        QueueClassify::Class => u32::from(u8::MAX),
        QueueClassify::Dscp => 63,
        QueueClassify::InputPort => u32::from(u16::MAX),
        QueueClassify::Flow => {
            let help = "\"class\", \"input-port\" or \"dscp\"; give the flows a `class`";
            report.say(&["classify"], "flows have names, not numbers", help);
            return;
        }
    };
    let mut matched = Vec::new();
    for (number, class) in config.classes.iter().enumerate() {
        report.below("classes", |report| {
            report.below(&number.to_string(), |report| cbq_class(config, number, class, report));
        });
        for &key in &class.matches {
            if key > largest {
                let message = format!("class `{}` matches {key}, and numbers go to {largest}", class.name);
                report.say(&["classes"], message, "");
            } else if matched.contains(&key) {
                report.say(&["classes"], format!("two classes match {key}"), "");
            }
            matched.push(key);
        }
    }
    if let Some(sum) = above_one(config.classes.iter().filter(|class| class.parent.is_none())) {
        let message = format!("the shares of the classes without a parent add up to {sum}");
        report.say(&["classes"], message, "at most 1");
    }
    match &config.default {
        None => {}
        Some(name) => match config.number_of(name) {
            None => report.say(&["default"], format!("there is no class `{name}`"), &cbq_names(config)),
            Some(number) if config.has_children(&config.classes[number]) => {
                let message = format!("class `{name}` has children, so packets cannot wait in it");
                report.say(&["default"], message, "name one without children");
            }
            Some(_) => {}
        },
    }
    if let Some(rate) = config.rate {
        report.rate("rate", rate);
    }
    report.packet("max_packet", config.max_packet);
}

/// The class with `number` in the list.
fn cbq_class(config: &Cbq, number: usize, class: &CbqClass, report: &mut Report<'_>) {
    let name = &class.name;
    if name.is_empty() || config.number_of(name) != Some(number) {
        report.say(&["name"], format!("two classes have the name `{name}`, or it is empty"), "");
        return;
    }
    if !(CBQ_SHARE_MIN..=1.0).contains(&class.share) {
        report.say(&["share"], format!("{} is no share", class.share), "from 0.000000001 to 1");
    }
    if let Some(parent) = &class.parent {
        match config.number_of(parent) {
            None => report.say(&["parent"], format!("there is no class `{parent}`"), &cbq_names(config)),
            Some(above) if above >= number => {
                report.say(&["parent"], format!("class `{parent}` comes later"), "parents come first");
            }
            Some(_) => {}
        }
    }
    if let Some(priority) = class.priority.filter(|&priority| priority >= CBQ_PRIORITIES) {
        report.say(&["priority"], format!("{priority} is no priority"), "from 0 to 9");
    }
    for (key, span) in
        [("max_idle", class.max_idle), ("min_idle", class.min_idle), ("extra_delay", class.extra_delay)]
    {
        if let Some(span) = span {
            report.delay(key, span);
        }
    }
    if config.has_children(class) {
        let of_packets = [("queue", class.queue.is_some()), ("match", !class.matches.is_empty())];
        for (key, _) in of_packets.into_iter().filter(|(_, is_given)| *is_given) {
            let message = format!("class `{name}` has children, so packets cannot wait in it");
            report.say(&[key], message, "give it to the children");
        }
        let children = config.classes.iter().filter(|child| child.parent.as_ref() == Some(name));
        if let Some(sum) = above_one(children) {
            report.say(&["share"], format!("the shares of its children add up to {sum}"), "at most 1");
        }
    }
    if let Some(child) = &class.queue {
        report.below("queue", |report| manager(child, report));
    }
}

/// The sum of the shares, if it is above one by more than sums lose.
fn above_one<'c>(classes: impl Iterator<Item = &'c CbqClass>) -> Option<f64> {
    Some(classes.map(|class| class.share).sum()).filter(|sum| *sum > 1.0 + 1e-9)
}

fn cbq_names(config: &Cbq) -> String {
    let names: Vec<&str> = config.classes.iter().map(|class| &*class.name).take(20).collect();
    format!("there are: {}", names.join(", "))
}

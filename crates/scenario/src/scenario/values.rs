//! Checks of single values: zero where nothing would move, and values that nobody can mean.

use serde::{Deserialize, Deserializer};
use tidegate_mechanism::queue::sfb::LEVELS_MAX;
use tidegate_mechanism::schedule::CBQ_PRIORITIES;
use tidegate_units::{BitRate, Bytes, Limit, Span};

use crate::model::{
    AdaptiveRed, Application, BackPressure, Blue, Cbq, CbqClass, Circuit, Clock, Control, Csfq, Drr,
    EecMarker, EngineLaw, EngineMeter, Ered, Fred, Iec, Labels, Loss, Manager, Marker, Marking, Mechanism,
    Nbp, Nbq, Priority, Queue, QueueClassify, Red, RedMode, RedPenaltyBox, Reorder, Reserved, Sfb,
    SfbLimiting, Sfq, Shaper, SubTcp, Tcp, Udp, Wfq, Window,
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
/// Entries of a list of lost packets.
const LOSS_LIST_MAX: usize = 1_000_000;
/// Bins of a scheduler, each a queue.
const SFQ_BUCKETS_MAX: u32 = 1_000_000;
/// Classes of a link: every one is looked at per packet.
const CBQ_CLASSES_MAX: usize = 256;

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

    fn codepoint(&mut self, key: &str, value: u8) {
        if value > 63 {
            self.say(&[key], format!("{value} is no codepoint"), "from 0 to 63");
        }
    }

    fn assured_class(&mut self, key: &str, value: u8) {
        if !(1..=4).contains(&value) {
            self.say(&[key], format!("{value} is no class of assured forwarding"), "from 1 to 4");
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
    if !(class.share > 0.0 && class.share <= 1.0) {
        report.say(&["share"], format!("{} is no share", class.share), "above 0, at most 1");
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
    report.below("control", |report| control(&config.control, report));
    if config.ecn_timeout && !config.ecn {
        report.say(&["ecn_timeout"], "without `ecn` no mark is heard", "set ecn = true");
    }
    if config.ecn_timeout && matches!(config.control, Control::SubTcp(_)) {
        let help = "its windows below one segment stand in for it";
        report.say(&["ecn_timeout"], "SUBTCP does without ECN time-outs", help);
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
        Control::Reno(_) => {}
        Control::SubTcp(config) => subtcp(config, report),
        Control::Reserved(config) => reserved(config, report),
        Control::Marking(config) => marking(config, report),
    }
}

fn reserved(config: &Reserved, report: &mut Report<'_>) {
    report.rate("rate", config.rate);
    report.positive_span("depth", config.depth);
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
    report.rate("target", config.target);
    match config.meter {
        EngineMeter::Weighted => {
            report.above_zero("weight", config.weight);
            report.probability("weight", config.weight);
        }
        EngineMeter::Sliding if config.windows > 100_000 => {
            report.say(&["windows"], format!("{} intervals are too many", config.windows), "at most 100000");
        }
        EngineMeter::Sliding => report.count("windows", config.windows),
    }
    report.positive_span("interval", config.interval);
    if !(config.factor > 0.0 && config.factor.is_finite()) {
        report.say(&["factor"], format!("{} is no factor", config.factor), "above 0");
    }
    report.positive_span("pause", config.pause);
    if config.pause_max < config.pause {
        let message = format!("pause_max ({}) is below pause ({})", config.pause_max, config.pause);
        report.say(&["pause_max"], message, "");
    }
    report.codepoint("marked", config.marked);
    report.codepoint("unmarked", config.unmarked);
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
            report.codepoint("marked", profile.marked);
            report.codepoint("unmarked", profile.unmarked);
        }
        Marker::SingleRate(config) => {
            report.rate("committed_rate", config.committed_rate);
            report.assured_class("class", config.class);
        }
        Marker::TwoRates(config) => {
            report.rate("committed_rate", config.committed_rate);
            report.rate("peak_rate", config.peak_rate);
            if config.peak_rate < config.committed_rate {
                report.say(&["peak_rate"], "below `committed_rate`", "RFC 2698: at least the committed rate");
            }
            report.assured_class("class", config.class);
        }
        Marker::Engine(engine) => {
            report.rate("target", engine.target);
            match engine.law {
                EngineLaw::TcpFriendly => {
                    report.positive_span("rtt", engine.rtt);
                    report.packet("packet", engine.packet);
                }
                EngineLaw::TcpIndependent => report.above_zero("step", engine.step),
            }
            match engine.meter {
                EngineMeter::Weighted => {
                    report.above_zero("weight", engine.weight);
                    report.probability("weight", engine.weight);
                }
                EngineMeter::Sliding if engine.windows > 100_000 => {
                    report.say(
                        &["windows"],
                        format!("{} intervals are too many", engine.windows),
                        "at most 100000",
                    );
                }
                EngineMeter::Sliding => report.count("windows", engine.windows),
            }
            report.positive_span("interval", engine.interval);
            report.codepoint("marked", engine.marked);
            report.codepoint("unmarked", engine.unmarked);
        }
    }
}

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
    for (key, value) in
        [("beta", config.beta), ("loss_backoff", config.loss_backoff), ("smoothing", config.smoothing)]
    {
        report.above_zero(key, value);
        if value > 1.0 {
            report.say(&[key], format!("{value} is above 1"), "");
        }
    }
    report.probability("use_min", config.use_min);
    for (key, span) in [
        ("initial_interval", config.initial_interval),
        ("answer_interval", config.answer_interval),
        ("idle_timeout", config.idle_timeout),
    ] {
        report.positive_span(key, span);
    }
    report.rate("rate_min", config.rate_min);
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
    if shaper.bucket.is_some_and(|bucket| bucket.get() == 0) {
        report.say(&["bucket"], "an empty bucket lets nothing pass", "");
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
    if !(2..=65_536).contains(&config.nrm) {
        report.say(&["nrm"], format!("one cell in {}", config.nrm), "from 2 to 65536");
    }
    report.probability("reserved", config.reserved);
    report.probability("tolerance", config.tolerance);
    report.rate("rate_min", config.rate_min);
    report.count("routes_max", config.routes_max);
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
    } else if background + circuit.minimum > capacity {
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
            if !config.lie.is_finite() {
                report.say(&["lie"], "a label has no bits for an endless rate", "");
            }
            if config.liars.as_ref().is_some_and(Vec::is_empty) {
                report.say(&["liars"], "nobody lies", "leave `lie` out");
            }
        }
    }
}

pub(crate) fn weight(weight: f64, report: &mut Report<'_>) {
    report.above_zero("weight", weight);
}

//! Declared tables are read, written and described through serde and schemars as derived ones would be.
#![cfg(feature = "text")]

use serde_json::{Value, json};
use tidegate_parameters::{Bound, Report, bound, family, parameters, text, words};
use tidegate_units::{Limit, Span};

words! {
    /// How it ends.
    pub enum Ending {
        /// At once.
        Sudden = "sudden",
        /// By and by.
        SlowlyFading = "slowly-fading",
    }
}

parameters! {
    /// # A queue
    ///
    /// It waits.
    ///
    /// Source: none.
    #[derive(Copy)]
    pub struct QueueConfig {
        /// How much may wait. Source: assumed.
        limit: Limit = Limit::Packets(7) => bound::QUEUE;
        /// A part. Default: all. Source: assumed.
        part: Option<f64> = None => bound::SHARE;
        /// Its end.
        ending: Ending = Ending::Sudden;
    }
    check |config, report| {
        if config.part.is_some() && config.ending == Ending::Sudden {
            report.say("part", "nothing ends in part at once", "");
        }
    };
}

parameters! {
    /// # A pause
    pub struct Pause {
        /// How long.
        span: Span => bound::DURATION;
        /// What it matches.
        r#match: Vec<u32> = Vec::new();
        /// What waits meanwhile.
        queue: Option<QueueConfig> = None => bound::INSIDE;
    }
}

family! {
    /// An inner choice.
    pub enum Inner {
        /// A queue.
        Queue(QueueConfig) = "queue",
    }
}

family! {
    /// A choice.
    pub enum Outer {
        /// A pause.
        Pause(Box<Pause>) = "pause",
    } and {
        /// What waits.
        Inner(Inner),
    }
}

parameters! {
    /// # A queue with more
    pub struct Larger {
        ..queue: QueueConfig;
        /// More. Source: assumed.
        more: f64 = 1.0 => bound::ABOVE_ZERO;
    }
}

parameters! {
    /// # How many
    pub struct Counts {
        /// Of something. Source: assumed.
        of: u8 = 1 => Bound::between(1, 9);
        /// At most. Default: any. Source: assumed.
        most: Option<u64> = None => Bound::at_least(2);
        /// A share of them. Source: assumed.
        share: f64 = 0.5 => bound::SHARE;
        /// Any number. Source: assumed.
        any: u32 = 0;
    }
}

#[test]
fn a_table_takes_in_another() {
    let larger: Larger = serde_json::from_value(json!({ "limit": "3p", "more": 2.0 })).unwrap();
    let queue = QueueConfig { limit: Limit::Packets(3), ..QueueConfig::default() };
    assert_eq!(larger, Larger { queue, more: 2.0 });
    let written = serde_json::to_value(&larger).unwrap();
    assert_eq!(written, json!({ "limit": "3p", "part": null, "ending": "sudden", "more": 2.0 }));
    let wrong = serde_json::from_value::<Larger>(json!({ "less": 1 })).unwrap_err().to_string();
    assert_eq!(wrong, "unknown field `less`, expected one of `limit`, `part`, `ending`, `more`");
    let schema = text::schema_of::<Larger>().to_value();
    assert_eq!(schema["properties"].as_object().unwrap().len(), 4);
    let bad = Larger { queue: QueueConfig { part: Some(9.0), ..queue }, more: 0.0 };
    assert_eq!(complaints(&bad).len(), 3);
}

fn complaints(config: &impl tidegate_parameters::Parameters) -> Vec<String> {
    let mut found = Vec::new();
    let mut sink = |keys: &[&str], message: String, help: &str| {
        found.push(format!("{}: {message} ({help})", keys.join(".")));
    };
    config.check(&mut Report::new(&mut sink));
    found
}

#[test]
fn what_is_not_given_is_the_default() {
    let queue: QueueConfig = serde_json::from_value(json!({ "ending": "slowly-fading" })).unwrap();
    assert_eq!(queue, QueueConfig { ending: Ending::SlowlyFading, ..QueueConfig::default() });
    assert_eq!(
        serde_json::to_value(queue).unwrap(),
        json!({ "limit": "7p", "part": null, "ending": "slowly-fading" })
    );
    let pause: Pause = serde_json::from_value(json!({ "span": "3s", "match": [1] })).unwrap();
    assert_eq!(pause, Pause { r#match: vec![1], ..Pause::with(Span::from_secs(3)) });
}

#[test]
fn what_is_wrong_is_said_as_serde_says_it() {
    let of = |value: Value| serde_json::from_value::<Pause>(value).unwrap_err().to_string();
    assert_eq!(of(json!({})), "missing field `span`");
    assert_eq!(of(json!({ "spam": 1 })), "unknown field `spam`, expected one of `span`, `match`, `queue`");
    assert!(of(json!({ "span": 3 })).contains("expected a time as text, like `\"10ms\"`"));
    let ending = serde_json::from_value::<Ending>(json!("late")).unwrap_err().to_string();
    assert_eq!(ending, "unknown variant `late`, expected `sudden` or `slowly-fading`");
}

#[test]
fn a_number_out_of_range_is_told_what_its_key_allows() {
    let of = |value: Value| serde_json::from_value::<Counts>(value).unwrap_err().to_string();
    assert_eq!(of(json!({ "of": -1 })), "invalid value: integer `-1`, expected a whole number from 1 to 9");
    assert_eq!(of(json!({ "of": 300 })), "invalid value: integer `300`, expected a whole number from 1 to 9");
    let large = u64::MAX;
    let expected = format!("invalid value: integer `{large}`, expected a whole number from 1 to 9");
    assert_eq!(of(json!({ "of": large })), expected);
    assert!(of(json!({ "of": 1.5 })).contains("expected a whole number from 1 to 9"));
    assert!(of(json!({ "of": "x" })).contains("expected a whole number from 1 to 9"));
    assert!(of(json!({ "most": -1 })).contains("expected a whole number, at least 2"));
    assert!(of(json!({ "of": null })).contains("expected a whole number from 1 to 9"));
    assert!(of(json!({ "any": -1 })).contains("expected u32"));
    let counts: Counts = serde_json::from_value(json!({ "of": 9, "most": null, "share": 1 })).unwrap();
    assert_eq!(counts, Counts { of: 9, share: 1.0, ..Counts::default() });
}

#[test]
fn a_family_within_a_family_has_one_kind() {
    // Reading a family by its `kind` is the reader's part; plain JSON has it as serde's enumerations do.
    let outer: Outer = serde_json::from_value(json!({ "queue": { "limit": "9p" } })).unwrap();
    assert_eq!(outer.kind(), "queue");
    assert_eq!(serde_json::to_value(&outer).unwrap()["kind"], "queue");
    assert_eq!(<Outer as text::Family>::kinds(), ["queue", "pause"]);
    let schema = text::schema_of::<Outer>().to_value();
    assert_eq!(schema["oneOf"][1]["required"], json!(["kind", "span"]));
    assert_eq!(schema["oneOf"][0]["properties"]["limit"]["default"], "7p");
    assert_eq!(schema["oneOf"][0]["title"], "A queue");
}

#[test]
fn bounds_hold_inside_too_and_stand_in_the_schema() {
    let queue = QueueConfig { part: Some(2.0), ..QueueConfig::default() };
    let pause = Pause { queue: Some(queue), ..Pause::with(Span::ZERO) };
    assert_eq!(
        complaints(&Outer::Pause(Box::new(pause))),
        [
            "span: this time cannot be zero (above 0s: waiting and averaging take time)",
            "queue.part: 2 is no share (above 0, at most 1)",
            "queue.part: nothing ends in part at once ()"
        ]
    );
    let schema = text::schema_of::<QueueConfig>().to_value();
    assert_eq!(schema["properties"]["part"]["exclusiveMinimum"], json!(0.0));
    assert_eq!(schema["properties"]["part"]["$comment"], "above 0, at most 1");
    assert_eq!(schema["title"], "A queue");
    assert_eq!(schema["description"], "It waits.\n\nSource: none.");
}

#[test]
fn what_is_no_number_is_out_of_every_bound() {
    for part in [f64::NAN, 0.0, -1.0] {
        let queue = QueueConfig { part: Some(part), ending: Ending::SlowlyFading, ..QueueConfig::default() };
        assert_eq!(complaints(&queue).len(), 1, "{part}");
    }
}

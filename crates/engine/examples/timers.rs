//! What a timer costs: setting one, and handling its expiry, with so many others pending. In place of Table 5.1 of Feng's
//! thesis, which has them for two machines of 1996 (7.4 and 7.1 us, 14.0 and 30.1 us). Cancelling one costs nothing by
//! itself: its event comes up, and is passed over.
//!
//! `cargo run --release -p tidegate-engine --example timers`

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::time::Instant;

use tidegate_engine::{EventQueue, Token};
use tidegate_units::{Span, Time};

/// Timers set and handled in one round, and rounds of which the fastest counts: whatever else runs makes others slower.
const TIMERS: u32 = 1000;
const ROUNDS: u32 = 2000;

/// The deadlines of timers that follow a connection's traffic: some milliseconds ahead, never twice the same.
fn ahead(number: u32) -> Span {
    Span::from_nanos(20_000_000 + u64::from(number.wrapping_mul(2_654_435_761)) % 20_000_000)
}

/// Nanoseconds to set one, and to handle one, with `pending` others.
fn measure(pending: u32) -> [f64; 2] {
    let mut events = EventQueue::default();
    let mut now = Time::ZERO;
    (0..pending).for_each(|number| events.schedule(now + ahead(number), Token(number)));
    let mut best = [f64::INFINITY; 2];
    for round in 0..ROUNDS {
        let begin = Instant::now();
        for number in 0..TIMERS {
            events.schedule(now + ahead(round.wrapping_mul(TIMERS) + number), Token(number));
        }
        let between = Instant::now();
        for _ in 0..TIMERS {
            now = black_box(events.pop()).expect("as many as were set").0;
        }
        let took = [between - begin, between.elapsed()];
        best = [0, 1].map(|kind| best[kind].min(took[kind].as_nanos() as f64 / f64::from(TIMERS)));
    }
    best
}

fn main() {
    println!("pending    set (ns)  handle (ns)");
    for pending in [100, 10_000, 100_000] {
        let [set, handle] = measure(pending);
        println!("{pending:7}  {set:10.1}  {handle:11.1}");
    }
}

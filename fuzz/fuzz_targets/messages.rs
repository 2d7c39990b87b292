//! Messages of edges and of neighbours: any bytes are a message or are refused, and the entries of a message can all be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_mechanism::edge::{autorate, iec, nbp, path};
use tidegate_mechanism::hop::wire::{self, Message};

fuzz_target!(|bytes: &[u8]| {
    let _ = nbp::wire::decode(bytes);
    let _ = iec::wire::decode(bytes);
    // One encoding each.
    match path::wire::decode(bytes) {
        Ok(path::wire::Message::Probe(probe)) => assert_eq!(probe.encode(), bytes),
        Ok(path::wire::Message::Report(report)) => assert_eq!(report.encode(), bytes),
        Err(path::wire::Malformed) => {}
    }
    match autorate::wire::decode(bytes) {
        Ok(autorate::wire::Message::Ping(ping)) => assert_eq!(ping.encode(), bytes),
        Ok(autorate::wire::Message::Pong(pong)) => assert_eq!(pong.encode(), bytes),
        Err(autorate::wire::Malformed) => {}
    }
    let entries = match wire::decode(bytes) {
        Ok(Message::Reports { entries, .. }) => entries.count(),
        Ok(Message::Advice { entries, .. }) => entries.count(),
        Ok(Message::Outlets { entries, .. }) => entries.count(),
        _ => 0,
    };
    assert!(entries <= bytes.len(), "an entry has bytes");
    let mut message = bytes.to_vec();
    wire::lower_explicit_rate(&mut message, 7);
    assert_eq!(message.len(), bytes.len());
});

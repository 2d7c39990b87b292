//! What a device hands over with segmentation offload is taken apart or refused; what is joined has the length of its parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_units::Time;
use tidegate_wire::offload::{Inbound, Outbox};

fuzz_target!(|input: (Vec<u8>, u8, Vec<Vec<u8>>)| {
    let (mut read, rooms, packets) = input;
    if let Ok(inbound) = Inbound::new(&mut read) {
        let count = inbound.count();
        let mut memory = vec![vec![0; 1500]; count.min(usize::from(rooms))];
        let mut rooms: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
        let mut lengths = vec![0; rooms.len()];
        if inbound.split(&mut rooms, &mut lengths).is_ok() {
            assert!(lengths.iter().all(|length| *length <= 1500));
        }
    }
    let mut outbox = Outbox::default();
    for packet in packets.iter().filter(|packet| packet.len() < 3000) {
        if !outbox.add(packet, Time::ZERO) {
            let whole = outbox.packet().len();
            assert!(whole <= 65_600, "{whole} bytes");
            outbox.clear();
            assert!(outbox.add(packet, Time::ZERO), "there is nothing before it");
        }
    }
});

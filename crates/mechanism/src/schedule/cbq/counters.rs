//! What a class did, in all and by the port where its packets entered.
//!
//! Source: none; statistics. Deviations: none.

use alloc::vec::Vec;

use tidegate_packet::{Address, DropReason, MarkReason, Packet, Sink, TcpHeader};
use tidegate_units::Time;

/// Packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Amount {
    packets: u64,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.wire_bytes);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    arrived: Amount,
    sent: Amount,
    dropped: Amount,
}

impl Counts {
    fn get(&self, quantity: &str) -> Option<f64> {
        let (what, unit) = quantity.split_once('_')?;
        let amount = match what {
            "arrived" => self.arrived,
            "sent" => self.sent,
            "dropped" => self.dropped,
            _ => return None,
        };
        match unit {
            "packets" => Some(amount.packets as f64),
            "bytes" => Some(amount.bytes as f64),
            _ => None,
        }
    }
}

/// The counters of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassCounters {
    all: Counts,
    /// By input port: as many as the router has.
    ports: Vec<Counts>,
}

impl ClassCounters {
    fn count(&mut self, packet: &Packet, which: impl Fn(&mut Counts) -> &mut Amount) {
        which(&mut self.all).add(packet);
        let port = usize::from(packet.in_port);
        if port >= self.ports.len() {
            self.ports.resize(port + 1, Counts::default());
        }
        which(&mut self.ports[port]).add(packet);
    }

    pub(super) fn on_arrival(&mut self, packet: &Packet) {
        self.count(packet, |counts| &mut counts.arrived);
    }
    pub(super) fn on_sent(&mut self, packet: &Packet) {
        self.count(packet, |counts| &mut counts.sent);
    }
    pub(super) fn on_drop(&mut self, packet: &Packet) {
        self.count(packet, |counts| &mut counts.dropped);
    }

    /// Begins again, knowing the same ports.
    pub(super) fn restart(&mut self) {
        self.all = Counts::default();
        self.ports.fill(Counts::default());
    }

    /// `sent_bytes`, or `ports.2.sent_bytes`.
    pub(super) fn get(&self, name: &str) -> Option<f64> {
        match name.strip_prefix("ports.") {
            None => self.all.get(name),
            Some(rest) => {
                let (port, quantity) = rest.split_once('.')?;
                self.ports.get(port.parse::<usize>().ok()?)?.get(quantity)
            }
        }
    }
}

/// Counts the drops of a class on their way.
pub(super) struct Counting<'a, S> {
    pub(super) counters: &'a mut ClassCounters,
    pub(super) out: &'a mut S,
}

impl<S: Sink> Sink for Counting<'_, S> {
    fn on_drop(&mut self, packet: Packet, why: DropReason) {
        self.counters.on_drop(&packet);
        self.out.on_drop(packet, why);
    }
    fn on_mark(&mut self, packet: &Packet, why: MarkReason) {
        self.out.on_mark(packet, why);
    }
    fn hosts(&self, packet: &Packet) -> Option<(Address, Address)> {
        self.out.hosts(packet)
    }
    fn pure_ack(&self, packet: &Packet) -> Option<TcpHeader> {
        self.out.pure_ack(packet)
    }

    fn departs_at(&self, packet: &Packet) -> Option<Time> {
        self.out.departs_at(packet)
    }
}

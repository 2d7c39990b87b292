//! What an observer of the simulation is told, as the decisions that a recording keeps.

use tidegate_engine::{Carried, Observer};
use tidegate_packet::{DropReason, LinkId, MarkReason, Packet, Place};
use tidegate_units::Time;
use tidegate_wire::recording::{Decision, Verdict};

/// Takes every verdict of a simulation.
pub trait Log {
    /// Whether there is anybody who wants them.
    const LISTENS: bool;
    /// `decision` was made.
    fn on_decision(&mut self, decision: Decision);
}

/// Turns what an observer is told into decisions for a log.
#[derive(Debug)]
pub struct Watcher<L>(pub L);

impl<L: Log> Observer for Watcher<L> {
    const WATCHES: bool = L::LISTENS;

    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        let verdict = Verdict::Hop(link, message.unwrap_or_default().to_vec());
        self.0.on_decision(Decision::new(now, verdict, packet, carried.handle()));
    }
    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        self.0.on_decision(Decision::new(now, Verdict::Drop(place, why), packet, carried.handle()));
    }
    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        self.0.on_decision(Decision::new(now, Verdict::Mark(place, why), packet, carried.handle()));
    }
    fn on_external(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        self.0.on_decision(Decision::new(now, Verdict::Out(carried.outside_tcp()), packet, carried.handle()));
    }
}

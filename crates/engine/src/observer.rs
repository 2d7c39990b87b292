//! Who watches single packets. The engine is generic over its observer: with `()` nothing of this costs anything.

use tidegate_packet::{DropReason, MarkReason, Packet, Place};
use tidegate_units::Time;

use crate::arena::Carried;
use crate::ids::LinkId;

/// Told of every packet; for traces.
pub trait Observer {
    /// Whether it wants to be told at all. If not, the engine does not even look up what it would tell.
    const WATCHES: bool = true;

    /// A host sends `packet`, which is new.
    fn on_sent(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        let _ = (now, packet, carried);
    }
    /// The last bit of `packet` reached the far end of `link`. `message` is what a control packet carries.
    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        let _ = (now, link, packet, carried, message);
    }
    /// `packet` was dropped.
    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        let _ = (now, place, packet, carried, why);
    }
    /// `packet` was marked.
    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        let _ = (now, place, packet, carried, why);
    }
    /// A medium made a copy of `packet`, which goes on besides it; or its acknowledgment goes on in a packet of its own. Told even to those who do not watch.
    fn on_duplicate(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        let _ = (now, packet, carried);
    }
    /// `packet` came from outside and reached its destination: it leaves the simulation. Told even to those who do not watch.
    fn on_external(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        let _ = (now, packet, carried);
    }
}

impl Observer for () {
    const WATCHES: bool = false;
}

/// A borrowed observer, for a caller that keeps it.
impl<O: Observer> Observer for &mut O {
    const WATCHES: bool = O::WATCHES;

    fn on_sent(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        (**self).on_sent(now, packet, carried);
    }
    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        (**self).on_delivered(now, link, packet, carried, message);
    }
    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        (**self).on_drop(now, place, packet, carried, why);
    }
    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        (**self).on_mark(now, place, packet, carried, why);
    }
    fn on_duplicate(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        (**self).on_duplicate(now, packet, carried);
    }
    fn on_external(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        (**self).on_external(now, packet, carried);
    }
}

/// Several observers, each of which is told.
impl<O: Observer> Observer for Vec<O> {
    const WATCHES: bool = O::WATCHES;

    fn on_sent(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        for each in self {
            each.on_sent(now, packet, carried);
        }
    }
    fn on_delivered(
        &mut self,
        now: Time,
        link: LinkId,
        packet: &Packet,
        carried: &Carried,
        message: Option<&[u8]>,
    ) {
        for each in self {
            each.on_delivered(now, link, packet, carried, message);
        }
    }
    fn on_drop(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: DropReason) {
        for each in self {
            each.on_drop(now, place, packet, carried, why);
        }
    }
    fn on_mark(&mut self, now: Time, place: Place, packet: &Packet, carried: &Carried, why: MarkReason) {
        for each in self {
            each.on_mark(now, place, packet, carried, why);
        }
    }
    fn on_duplicate(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        for each in self {
            each.on_duplicate(now, packet, carried);
        }
    }
    fn on_external(&mut self, now: Time, packet: &Packet, carried: &Carried) {
        for each in self {
            each.on_external(now, packet, carried);
        }
    }
}

//! What happens on the wire itself.

use tidegate_units::{Span, Time, TransmissionClock};

use super::transits::Transits;

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Wire {
    /// Packets that are decided: waiting for their planned transmission, in transmission, or travelling.
    pub(super) transits: Transits,
    pub(super) delay: Span,
    /// End of the last transmission that has been decided.
    pub(super) busy_until: Time,
    pub(super) clock: TransmissionClock,
}

impl Wire {
    /// When the packet at `position` from the front arrives at the far end; [`Time::MAX`] if there is none.
    #[inline]
    pub(super) fn arrival(&self, position: usize) -> Time {
        self.transits.get(position).map_or(Time::MAX, |transit| transit.ends.saturating_add(self.delay))
    }

    /// The same of the packet behind that at the front.
    #[inline]
    pub(super) fn second_arrival(&self) -> Time {
        self.transits.second().map_or(Time::MAX, |transit| transit.ends.saturating_add(self.delay))
    }
}

//! Why a packet was dropped or marked. Every mechanism reports one of these; results count by them.

/// Declares a field-less enumeration with stable names for results.
macro_rules! reasons {
    ($(#[$outer:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in results: stable.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The position in [`Self::ALL`].
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

reasons! {
    /// Why a packet will never be sent.
    DropReason {
        /// No room in the queue.
        Overflow = "overflow",
        /// An early, random notification to a transport without ECN.
        Early = "early",
        /// The average queue is above its upper threshold.
        Forced = "forced",
        /// A policy for flows that do not respond to congestion.
        Unresponsive = "unresponsive",
        /// The flow exceeds its fair share (CSFQ, FRED, per-flow limits).
        FairShare = "fair_share",
        /// The queue in front of an edge shaper is full.
        Shaper = "shaper",
        /// A policer found the packet out of profile.
        Policed = "policed",
        /// A neighbour asked for less (NBQ).
        Neighbor = "neighbor",
        /// The link was down.
        LinkDown = "link_down",
        /// The medium lost it (a loss model).
        Medium = "medium",
        /// Its TTL ran out.
        TtlExpired = "ttl_expired",
        /// No route to its destination.
        NoRoute = "no_route",
        /// An acknowledgment that a later one, which waits behind it, makes needless.
        Redundant = "redundant",
    }
}

reasons! {
    /// Why a packet carries a congestion mark.
    MarkReason {
        /// An early, random notification.
        Early = "early",
        /// The average queue is above its upper threshold.
        Forced = "forced",
        /// The instantaneous queue is above a step threshold.
        Step = "step",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_match_positions() {
        for (position, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), position);
        }
        for (position, reason) in MarkReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), position);
        }
    }
}

//! How packets find their way.

use tidegate_parameters::{Bound, bound, family, parameters, words};
use tidegate_units::Span;

/// How packets find their way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routing {
    /// What happens where several ways are equally short.
    pub multipath: Multipath,
    /// Whose state costs follow, if any; there are routers that have it.
    pub follows: Option<Follows>,
}

words! {
    /// What happens where several ways are equally short.
    pub enum Multipath {
        /// One of them is used for all.
        None = "none",
        /// Each flow keeps to one of them.
        Flow = "flow",
        /// Each packet takes one of them at random.
        Packet = "packet",
    }
}

#[allow(clippy::derivable_impls, reason = "its declaration has no place for the attribute")]
impl Default for Multipath {
    fn default() -> Self {
        Self::None
    }
}

family! {
    /// Whose state costs of links follow.
    pub enum Follows {
        /// That of routers with Neighbor-state Based Queuing.
        Nbq(FollowsNbq) = "nbq",
    }
}

/// What is told more often costs more than it is worth.
const EVERY: Bound<Span> = Bound::between(Span::from_millis(1), Span::from_secs(3_600));

parameters! {
    /// # Routes that follow NBQ
    ///
    /// A direction of a link costs more for a while when its router with NBQ reports it and flows that do not adapt bring as much as
    /// fills it. All routers learn it at the same instants; then flows take the ways that cost least, and packets under way go on as
    /// they were. A link that all have left becomes cheap again: they come back, and leave again if it is too narrow still.
    ///
    /// Source: ours; NBQ, section 8.2, names routing protocols such as OSPF as future work.
    #[derive(Copy)]
    pub struct FollowsNbq {
        /// How often routers tell each other. Source: assumed; the interval of NBQ's estimates.
        every: Span = Span::from_millis(100) => EVERY;
        /// What a congested direction costs more. Source: assumed; nine more links of cost 1 are worth it.
        penalty: u32 = 10 => bound::COUNT;
        /// For how long it does after its router last found it congested; at least `every`. Source: assumed; for as long as NBQ
        /// remembers what is silent.
        hold: Span = Span::from_secs(2) => bound::DURATION;
    }
    check |config, report| {
        if config.hold < config.every {
            let message = format!("{} is shorter than `every`, {}", config.hold, config.every);
            report.say("hold", message, "at least `every`, or what happens in between is missed");
        }
    };
}

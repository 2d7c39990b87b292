//! Domains: which routers form a controlled network, and what its edges or all its routers do.

use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::iec::VirtualLinkConfig;
use tidegate_mechanism::hop::HopConfig;
use tidegate_parameters::{Bound, bound, family, parameters};
use tidegate_units::Span;

parameters! {
    /// # No mechanism
    ///
    /// What enters is not controlled.
    #[derive(Copy)]
    pub struct Uncontrolled {
    }
}

family! {
    /// What the edges of a domain do, or all its routers.
    pub enum Mechanism {
        /// Nothing.
        None(Uncontrolled) = "none",
    } and {
        /// A mechanism of its edges.
        Edge(EdgeConfig),
        /// A mechanism of each of its routers.
        Hop(HopConfig),
    }
}

impl Default for Mechanism {
    fn default() -> Self {
        Self::None(Uncontrolled {})
    }
}

impl Mechanism {
    /// What its edges do, if that is it.
    pub const fn edge(&self) -> Option<&EdgeConfig> {
        if let Self::Edge(config) = self { Some(config) } else { None }
    }

    /// What each of its routers does, if that is it.
    pub const fn hop(&self) -> Option<&HopConfig> {
        if let Self::Hop(config) = self { Some(config) } else { None }
    }

    /// What is said of single virtual links.
    pub fn virtual_links(&self) -> &[VirtualLinkConfig] {
        self.edge().and_then(EdgeConfig::overlay).map_or(&[], |overlay| &overlay.virtual_links)
    }

    /// Edges at which what enters is not shaped.
    pub fn unpoliced(&self) -> &[String] {
        self.edge().map_or(&[], EdgeConfig::unpoliced)
    }

    /// It without what it says of single edges.
    pub(crate) fn without_places(&self) -> Self {
        let mut general = self.clone();
        if let Self::Edge(config) = &mut general {
            config.forget_places();
        }
        general
    }
}

parameters! {
    /// What the messages of an edge say that is not true.
    #[derive(Copy)]
    pub struct Lies {
        /// What the output rates that it reports are multiplied by. Not with the auto-rate shaper, whose reflectors report none.
        output: f64 = 1.0 => Bound::between(0.0, 1_000_000.0).saying("a factor of ", "");
        /// Whether it never reports congestion: neither a need to back off, nor losses, nor an epoch. Not with NBP, which reports rates alone.
        hides: bool = false;
        /// Whether it sets time stamps that it returns back by a second: nobody sent them, and the feedback is ignored.
        forges: bool = false;
        /// The probability that one of its last 64 messages is sent again behind each new one.
        replays: f64 = 0.0 => bound::PROBABILITY;
    }
}

parameters! {
    /// The clock of an edge.
    #[derive(Copy)]
    pub struct Clock {
        /// How far it is ahead at the start.
        offset: Span = Span::ZERO => bound::DELAY;
        /// How much faster it goes, parts per million; slower if negative.
        drift_ppm: f64 = 0.0 => Bound::between(-100_000.0, 100_000.0).saying("a drift of ", " ppm");
    }
}

//! What back-pressure is told when it is built.
//!
//! Source: Pazos and Gerla, sections 4.1 to 4.4; ATM Forum, Traffic Management 4.0 (`Nrm`). Values that the paper lacks are
//! said to be assumed. Deviations: in [`super`].

use tidegate_units::{BitRate, Span};

use super::LastHopConfig;

/// What a router tells its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Feedback {
    /// What it accepts from them, the sum over its outputs.
    #[default]
    Aggregate,
    /// The same, and what each output accepts, so that they need not divide the sum evenly (beyond the paper; see its
    /// section 4.3).
    Selective,
    /// Nothing of its own: only the circuits limit rates (plain ABR).
    Circuit,
}

/// What `Tf_out` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Capacity {
    /// What the explicit rate allows.
    #[default]
    ExplicitRate,
    /// What was sent.
    Measured,
}

/// What an input has to exceed for step 1(d) to take it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Excess {
    /// Its share of the period before, which is what its sender was told, or its new share if that is more: whoever obeyed is
    /// not punished.
    #[default]
    OverTold,
    /// The share that step 1(c) just assigned.
    OverNew,
}

/// Parameters of [`BackPressure`](super::BackPressure).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BackPressureConfig {
    /// The sampling period of shares. Default 10 ms (assumed; the text has none).
    pub period: Span,
    /// `Nrm`: one in so many cells is an RM cell; on links that are no circuits, the same in bytes. Default 32 (ATM Forum).
    pub nrm: u32,
    /// `Trm`: after so long without one, the first packet brings an RM cell with it. Default 100 ms (ATM Forum).
    pub rm_gap: Span,
    /// The part of the minimum cell rate that is reserved. Default 0.7 (section 5: for video).
    pub reserved: f64,
    /// How far below its fair share an input is still constrained. Default 0.1 (assumed: RM cells of both directions take
    /// 0.06 of what it was told, and a packet more or less in a period of 30 is 0.03).
    pub tolerance: f64,
    /// How long after its last packet an input contributes. Default 100 ms (assumed: a few round trips).
    pub hold: Span,
    /// After how long without an answer a neighbour is forgotten. Default 1 s (assumed).
    pub idle: Span,
    /// The least rate of a link, so that its loop goes on. Default 64 kbit/s (assumed).
    pub rate_min: BitRate,
    /// What neighbours are told. Default: the sum (section 4.2).
    pub feedback: Feedback,
    /// Pairs of input and destination that selective feedback tells apart at once. Default 4096 (assumed; it bounds the
    /// memory).
    pub routes_max: u32,
    /// What `Tf_out` is. Default: by the explicit rate (settled; see the module).
    pub capacity: Capacity,
    /// What an excess is. Default: what exceeds the share that was told (settled; see the module).
    pub excess: Excess,
    /// What is done about senders on the links to hosts. Default: nothing.
    pub last_hop: LastHopConfig,
}

impl Default for BackPressureConfig {
    fn default() -> Self {
        Self {
            period: Span::from_millis(10),
            nrm: 32,
            rm_gap: Span::from_millis(100),
            reserved: 0.7,
            tolerance: 0.1,
            hold: Span::from_millis(100),
            idle: Span::from_secs(1),
            rate_min: BitRate::from_bps(64_000),
            feedback: Feedback::default(),
            routes_max: 4096,
            capacity: Capacity::default(),
            excess: Excess::default(),
            last_hop: LastHopConfig::default(),
        }
    }
}

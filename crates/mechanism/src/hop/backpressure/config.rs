//! What back-pressure is told when it is built.
//!
//! Source: Pazos and Gerla, sections 4.1 to 4.4; ATM Forum, Traffic Management 4.0 (`Nrm`). Values that the paper lacks are
//! said to be assumed. Deviations: in [`super`].

use alloc::format;

use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{BitRate, Span};

use crate::ROUNDS;

words! {
    /// What routers tell their neighbours.
    pub enum Feedback {
        /// What they accept from them.
        Aggregate = "aggregate",
        /// The same, and what each output accepts.
        Selective = "selective",
        /// Only what the circuits carry: plain ABR.
        Circuit = "circuit",
    }
}

words! {
    /// What an output can send in a period.
    pub enum Capacity {
        /// What its explicit rate allows.
        ExplicitRate = "explicit-rate",
        /// What it sent in the last one.
        Measured = "measured",
    }
}

words! {
    /// What an input has to exceed for twice the excess to be taken back.
    pub enum Excess {
        /// The share that its sender was told, or its next one if that is more.
        OverTold = "over-told",
        /// Its share of the next period.
        OverNew = "over-new",
    }
}

words! {
    /// What edges do about TCP senders on the links to hosts.
    pub enum LastHopForm {
        /// Nothing: the queue of the circuit takes what comes.
        None = "none",
        /// Acknowledgments wait until the circuit can take what they let out.
        Bucket = "bucket",
        /// Acknowledgments carry the congestion echo while the queue of the circuit is long.
        Ecn = "ecn",
    }
}

parameters! {
    /// # Rate-based back-pressure
    ///
    /// Each router tells each neighbour, in answers to its resource management cells, what it accepts from it: its shares of
    /// what the outputs may send. Neighbours send no faster, so what cannot be carried waits at the edges. All routers of the
    /// domain, edges and core, take part, on circuits and on other links.
    ///
    /// Source: Pazos and Gerla 1999, section 4.
    #[derive(Copy)]
    pub struct BackPressureConfig {
        /// The sampling period, after which shares are computed. Source: assumed; the document has none.
        period: Span = Span::from_millis(10) => ROUNDS;
        /// One cell in so many is a resource management cell (`Nrm`); on other links one message per so many times 53 bytes.
        /// Source: ATM Forum, Traffic Management 4.0.
        nrm: u32 = 32 => Bound::between(2, 65_536).saying("one cell in ", "");
        /// After so long without one (`Trm`), the next packet brings one with it. Source: ATM Forum, Traffic Management 4.0.
        rm_gap: Span = Span::from_millis(100);
        /// The part of the minimum rate of a circuit that is reserved, in equal parts for its inputs. Source: Pazos and Gerla,
        /// section 5.
        reserved: f64 = 0.7 => bound::PROBABILITY;
        /// How far below its fair share an input still counts as constrained by the output. Source: assumed, what RM cells and
        /// a packet in a period of 30 take.
        tolerance: f64 = 0.1 => bound::PROBABILITY;
        /// How long after its last packet an input has a share. Source: assumed, a few round trips.
        hold: Span = Span::from_millis(100) => bound::DURATION;
        /// After how long without an answer a neighbour is forgotten. Source: assumed.
        idle: Span = Span::from_secs(1) => bound::DURATION;
        /// The least rate of a link. Source: assumed; below the minimum rates of circuits it has no effect.
        rate_min: BitRate = BitRate::from_bps(64_000) => bound::RATE;
        /// What neighbours are told. Source: Pazos and Gerla, section 4.2; `circuit` is section 5.2, "no back-pressure";
        /// `selective` is ours, for what its section 4.3 leaves open.
        feedback: Feedback = Feedback::Aggregate;
        /// Pairs of input and destination that `selective` tells apart at once. Source: assumed; it bounds the memory.
        routes_max: u32 = 4096 => bound::COUNT;
        /// What an output can send in a period (`Tf_out`). Source: settled; what was sent is the demand if nothing waits.
        capacity: Capacity = Capacity::ExplicitRate;
        /// What an input has to exceed for twice the excess to be taken back. Source: Pazos and Gerla, section 4.2, step 1(d),
        /// which does not say which share; settled, since only with `over-told` the oscillation of section 5.1 ends with its
        /// cause.
        excess: Excess = Excess::OverTold;
        /// What edges do about TCP senders on the links to hosts. Source: Pazos and Gerla, section 4.4, after Narvaez and Siu
        /// 1997 (`bucket`) and Floyd 1994 (`ecn`).
        last_hop: LastHopForm = LastHopForm::None;
        /// At so many packets of TCP in the queue of a circuit its bucket is closed, and echoes are set. Source: assumed, half
        /// of the queue in section 5.
        last_hop_queue: u32 = 50 => bound::COUNT;
        /// The most acknowledgments that wait for one circuit. Source: assumed; it bounds the memory.
        last_hop_acks_max: u32 = 4096 => bound::COUNT;
        /// The most TCPs that a router knows for this. Source: assumed; it bounds the memory.
        last_hop_flows_max: u32 = 65_536 => bound::COUNT;
    }
    check |config, report| {
        if config.hold < config.period {
            let message = format!("{} is shorter than the period, {}", config.hold, config.period);
            let help = "an input has no share then that lasts until the next: ten periods are usual";
            report.say("hold", message, help);
        }
    };
}

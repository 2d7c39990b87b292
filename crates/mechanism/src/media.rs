//! Transports of media: which there are, and what all of them have.
//!
//! Source: RFC 5348 (TFRC) and draft-johansson-ccwg-rfc8298bis-screamv2-07 (`SCReAM`); their sections stand beside the laws, in `tfrc`
//! and `scream`.
//! Deviations: those that these two name; here is nothing but the choice.

use tidegate_packet::Ecn;
use tidegate_parameters::family;
use tidegate_units::{BitRate, Bytes};

use crate::Variable;
use crate::scream::{ScreamConfig, ScreamSender};
use crate::tfrc::{TfrcConfig, TfrcSender};

family! {
    /// How a media stream over UDP follows the network.
    pub enum MediaConfig {
        /// At the rate that TCP would have.
        Tfrc(TfrcConfig) = "tfrc",
        /// As calls do, by delay, losses and marks.
        Scream(ScreamConfig) = "scream",
    }
}

impl MediaConfig {
    /// Its name in sentences.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tfrc(_) => "TFRC",
            Self::Scream(_) => "SCReAM",
        }
    }

    /// The largest packet on the wire.
    pub const fn packet(&self) -> Bytes {
        match self {
            Self::Tfrc(tfrc) => tfrc.packet,
            Self::Scream(scream) => scream.packet,
        }
    }

    /// The most that the medium sends, if that is bounded.
    pub const fn max_rate(&self) -> Option<BitRate> {
        match self {
            Self::Tfrc(tfrc) => tfrc.max_rate,
            Self::Scream(scream) => scream.max_rate,
        }
    }

    /// The codepoint with which packets are sent.
    pub const fn codepoint(&self) -> Ecn {
        match self {
            Self::Tfrc(TfrcConfig { ecn: true, .. }) => Ecn::Ect0,
            Self::Tfrc(_) => Ecn::NotEct,
            Self::Scream(scream) => scream.ecn.codepoint(),
        }
    }

    /// What may be recorded of its sender.
    pub const fn variables(&self) -> &'static [Variable] {
        match self {
            Self::Tfrc(_) => TfrcSender::VARIABLES,
            Self::Scream(_) => ScreamSender::VARIABLES,
        }
    }

    /// What may be recorded of any.
    pub fn all_variables() -> alloc::vec::Vec<Variable> {
        crate::distinct(&[TfrcSender::VARIABLES, ScreamSender::VARIABLES])
    }
}

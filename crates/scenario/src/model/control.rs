//! Congestion controls of TCP: how the window moves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_units::Span;

use super::kinds;
use crate::text::{self, Text};

kinds! {
    /// Who decides the window of TCP.
    Control {
        Reno(RenoControl) = "reno",
        SubTcp(SubTcp) = "subtcp",
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::Reno(RenoControl {})
    }
}

/// # Reno's window
///
/// Slow start, additive increase, multiplicative decrease; never below `minimum_window`.
///
/// Source: RFC 5681; ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenoControl {}

/// How SUBTCP's window grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubTcpForm {
    /// Below one segment a success halves `scale`.
    #[default]
    Halving,
    /// Below one segment a success takes `scale_factor` from `scale`.
    Scaled,
    /// The rate rises by at most `increase` of itself per round trip.
    Bandwidth,
}

/// # SUBTCP: windows below one segment
///
/// Sends one segment every `scale` round trips where a window of one segment is too much. Congestion doubles `scale`, a
/// success takes some of it back; from one segment on it is TCP, but for the form `bandwidth`.
///
/// Source: thesis of Feng, section 3.3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubTcp {
    /// How the window grows. Source: thesis of Feng, Fig. 3.17, Fig. 3.21, Fig. 3.22.
    pub form: SubTcpForm,
    /// What a success takes from `scale`, in the form `scaled`. Source: thesis of Feng, section 3.3.2.
    pub scale_factor: f64,
    /// By which part of itself the rate may rise per round trip, in the form `bandwidth` (X). Source: thesis of Feng,
    /// section 3.3.2 (1 %).
    pub increase: f64,
    /// The tick in which waits between segments are counted. Source: assumed.
    #[serde(with = "text")]
    #[schemars(with = "Text<Span>")]
    pub tick: Span,
    /// The largest `scale`. Source: assumed, ns's largest back-off, which `scale` replaces.
    pub scale_max: f64,
}

impl Default for SubTcp {
    fn default() -> Self {
        Self {
            form: SubTcpForm::Halving,
            scale_factor: 0.25,
            increase: 0.01,
            tick: Span::from_millis(10),
            scale_max: 64.0,
        }
    }
}

//! Defaults that the marking engine has as a marker and inside a source.

use tidegate_units::Span;

use super::marker::EngineMeter;

pub(super) const fn hundred_millis() -> Span {
    Span::from_millis(100)
}

pub(super) fn hundred_millis_text() -> String {
    hundred_millis().to_string()
}

pub(super) const fn weighted() -> EngineMeter {
    EngineMeter::Weighted
}

pub(super) const fn af11() -> u8 {
    tidegate_packet::Dscp::AF11.get()
}

pub(super) const fn ten() -> u32 {
    10
}

pub(super) const fn weight() -> f64 {
    0.15
}

pub(super) const fn yes() -> bool {
    true
}

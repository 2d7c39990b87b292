//! Reading numbers that no declared table has, so that errors say what their keys allow.

use serde::de::DeserializeSeed as _;
use serde::{Deserialize, Deserializer};
use tidegate_parameters::text::Within;
use tidegate_parameters::{Bound, Check, bound};

fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    bound: &impl Check<T>,
    deserializer: D,
) -> Result<T, D::Error> {
    Within::new(&|| bound.number()).deserialize(deserializer)
}

/// Costs of links, up to what is kept of one.
const COST: Bound<u32> = Bound::between(1, u32::MAX);

/// What routing adds up.
pub(super) fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    read(&COST, deserializer)
}

/// A codepoint of differentiated services, if there is one.
pub(super) fn codepoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    read(&bound::CODEPOINT, deserializer)
}

/// A weight in schedulers, if there is one.
pub(super) fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    read(&bound::WEIGHT, deserializer)
}

/// A probability.
pub(super) fn probability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    read(&bound::PROBABILITY, deserializer)
}

/// A probability, if there is one.
pub(super) fn probability_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    read(&bound::PROBABILITY, deserializer)
}

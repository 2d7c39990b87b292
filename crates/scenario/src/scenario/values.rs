//! Checks of what is not declared with its parameters: values that several places have together.

use tidegate_parameters::Report;
use tidegate_units::BitRate;

use crate::model::Circuit;

/// The switch keeps its promises.
pub(crate) fn background(circuit: &Circuit, background: BitRate, capacity: BitRate, report: &mut Report<'_>) {
    if background >= capacity {
        let message = format!("a background of {background} on a link of {capacity}");
        report.say("background", message, "less than the rate of the link");
    } else if circuit.minimum > capacity - background {
        let minimum = circuit.minimum;
        let message = format!("a background of {background} leaves less than the minimum, {minimum}");
        report.say("background", message, "");
    }
}

//! Traffic as a fluid: so many TCP connections that only their distribution counts, at a cost that does not depend on how many they
//! are. A population has a density over windows, which grows, is halved and waits for time-outs as the window of one connection does;
//! a queue has a law that says which part of what arrives is dropped or marked. The world around them moves both on by even steps.
//!
//! Source: Misra, Gong & Towsley, "Fluid-based analysis of a network of AQM routers supporting TCP flows with an application to RED",
//! SIGCOMM 2000 (the rates, the average of RED, the delay of the feedback); Baccelli, `McDonald` & Reynier, "A mean-field model for
//! multiple TCP connections through a buffer implementing RED", Performance Evaluation 49, 2002 (the density over windows); `McDonald` &
//! Reynier, "Mean field convergence of a model of multiple TCP connections through a buffer implementing RED", Annals of Applied
//! Probability 16(1), 2006 (that it is the limit of many connections); Liu, Lo Presti, Misra, Towsley & Gu, "Fluid models and solutions for
//! large-scale IP networks", SIGMETRICS 2003 (several queues in a row).
//! CUBIC is RFC 9438's, on a density of our own over windows and over the windows at the last reduction.
//! Deviations:
//! - Where Misra et al. follow the mean window alone, `dW/dt = 1/R - W W' p' / (2 R')`, this follows the density: its mean for a given
//!   small probability is `1.31 / sqrt(p)`, and not `sqrt(2 / p)`, for the square of a mean is not the mean of a square.
//! - A window sends its whole segments; a reduction happens once per round trip, with `1 - (1 - p)^w`, lasts for one, and leaves no less
//!   than `minimum_window`; too few duplicates, or the loss of what is sent again, make a time-out, which doubles. None of the papers
//!   has all of that; many connections on a slow link have windows of one or two segments, where nothing else counts.
//! - The density lives on a grid of windows and flows up along it in Euler's steps. The mean moves exactly as it should; the spread is a
//!   little wider (see [`population`]).

mod grid;
mod law;
mod population;

use alloc::format;

use tidegate_parameters::{Bound, bound, parameters, words};
use tidegate_units::{Bytes, Span};

pub use law::{FluidLaw, Load, Notice};
pub use population::Population;

words! {
    /// How the connections of a fluid react.
    pub enum FluidControl {
        /// Slow start, additive increase, halving.
        Reno = "reno",
        /// Slow start, growth with the time since the last reduction or, where it is faster, as Reno; reduction to 0.7.
        Cubic = "cubic",
    }
}

/// The connections of one fluid.
const CONNECTIONS: Bound<u32> = Bound::between(1, 1_000_000_000)
    .saying("", " is no number of connections")
    .helping("from 1 to 1000000000; below some tens packets are as cheap, and a fluid is far from them");
const WINDOW: Bound<u32> = Bound::between(2, 1_000_000).saying("", " is no window in segments");
const MINIMUM_WINDOW: Bound<u32> = Bound::between(1, 2).saying("", " is no least window").helping("1 or 2");
const STEPS: Bound<u32> = Bound::between(8, 1000).saying("", " is no number of steps for a round trip");
const INCREASE: Bound<f64> =
    Bound::above(0.0).and_at_most(1.0).saying("a window that grows by ", " in a round trip is not Reno's");

parameters! {
    /// # Fluid traffic
    ///
    /// Many TCP connections with always something to send, as one fluid: their mean rate, queue and loss, at a cost that does not depend
    /// on how many they are.
    ///
    /// Source: Misra, Gong and Towsley 2000; Baccelli, McDonald and Reynier 2002.
    #[derive(Copy)]
    pub struct FluidConfig {
        /// How many connections. Source: none; the model is one of many.
        count: u32 = 1000 => CONNECTIONS;
        /// How they react. Source: RFC 5681; RFC 9438.
        control: FluidControl = FluidControl::Reno;
        /// The round trip without queues. Default: that of the path, with the time that a packet takes on each link of it. Source: the
        /// links.
        rtt: Option<Span> = None => bound::DURATION;
        /// A packet on the wire, with its headers. Source: Ethernet.
        packet: Bytes = Bytes::new(1500) => bound::PACKET;
        /// Whether packets are marked where the queue marks, instead of dropped. Source: off, as in `tcp`.
        ecn: bool = false;
        /// The receive window in segments. Source: `tcp` in `modern` (4 MiB).
        window: u32 = 2872 => WINDOW;
        /// The initial window in segments. Source: RFC 6928.
        initial_window: u32 = 10 => WINDOW;
        /// What a reduction leaves at least, in segments. Source: RFC 5681, equation 4; 1 in ns.
        minimum_window: u32 = 2 => MINIMUM_WINDOW;
        /// By how much the window grows in a round trip, in segments. Source: RFC 3465 (counts bytes: 1); 0.5 with delayed acknowledgments
        /// that are counted, as in ns.
        increase: f64 = 1.0 => INCREASE;
        /// How long the acknowledgment of a segment that comes alone waits for a second. Source: Linux; `tcp` in `modern`.
        delayed_ack: Span = Span::from_millis(40) => bound::DELAY;
        /// Whether the first two duplicates release new data. Source: RFC 3042; off in ns.
        limited_transmit: bool = true;
        /// What a time-out adds to the round trip. Source: Linux.
        rto_min: Span = Span::from_millis(200) => bound::DURATION;
        /// How many steps the shortest round trip is divided into. Source: ours; with two and four times as many, mean queues change by
        /// less than 2 %, rates by less than 0.5 %.
        steps: u32 = 20 => STEPS;
    }
    check |config, report| {
        if config.initial_window > config.window {
            let message = format!("the window of {} segments is less than the initial one of {}", config.window, config.initial_window);
            report.say("window", message, "");
        }
    };
}

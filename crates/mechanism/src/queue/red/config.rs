//! Parameters of RED.
//!
//! Source: Floyd & Jacobson 1993, Fig. 2 (names); ns-2 `ns-default.tcl`; W. Feng, thesis, sections 3.5 and 4.3.3.
//! Deviations: in [`super`].

use alloc::format;

use tidegate_parameters::{Report, bound, parameters, words};
use tidegate_units::{Bytes, Limit, Span};

use crate::queue::limit::in_packets;

words! {
    /// How the gaps between two random notifications are distributed (catalogue, ambiguity RED-1).
    pub enum GapLaw {
        /// Uniform on 1 to 1/p packets, as the RED paper has it: `p_b / (1 - count p_b)`.
        Paper = "paper",
        /// Uniform on 1/p to 2/p packets, as ns has it with `wait` set: a third as many notifications. 0 while
        /// `count p_b < 1`, then `p_b / (2 - count p_b)`.
        Wait = "ns",
    }
}

words! {
    /// Whose small differences.
    pub enum Flavor {
        /// Of Floyd and Jacobson's paper, Fig. 2.
        Floyd1993 = "paper",
        /// Of ns: no notification with fewer than two packets waiting, none for the first packet above `min`.
        Ns = "ns",
    }
}

words! {
    /// What RED counts.
    pub enum QueueUnit {
        /// The queue in packets; all packets are equal.
        Packets = "packets",
        /// The queue in bytes; a packet's probability is in proportion to its size.
        Bytes = "bytes",
    }
}

words! {
    /// Who leaves when the queue overflows.
    pub enum Victim {
        /// The arriving packet (ns-2 since 1 October 1997).
        Arriving = "tail",
        /// A waiting packet, or the arriving one, each with the same probability (ns-1).
        Random = "random",
    }
}

/// How long a flow counts as active.
const FLOWS_WINDOW: Span = Span::from_secs(1);

parameters! {
    /// # Random Early Detection
    ///
    /// Keeps an average of the queue and notifies arriving packets at random, the more the higher the average.
    ///
    /// Source: Floyd and Jacobson 1993; ns of 1997 to 1999.
    #[derive(Copy)]
    pub struct RedConfig {
        /// How much may wait. Source: NBP, Table 1.
        limit: Limit = Limit::Packets(100) => bound::QUEUE;
        /// Average queue at which random notification begins, in packets or bytes. As `mode` says. Source: Floyd and Jacobson
        /// 1993, section VII; ns (`thresh_`).
        min: Limit = Limit::Packets(5);
        /// Average queue from which on every packet is notified. At least twice `min` is advised. Source: Floyd and Jacobson
        /// 1993, section VI; ns (`maxthresh_`).
        max: Limit = Limit::Packets(15);
        /// Probability of a notification as the average reaches `max`. Source: Floyd and Jacobson 1993, section VII; ns has 0.1
        /// (`linterm_`).
        max_p: f64 = 0.02 => bound::PROBABILITY;
        /// Weight of the present queue in its average (`w_q`). Source: Floyd and Jacobson 1993, section
        /// VII.
        weight: f64 = 0.002 => bound::GAIN;
        /// What the average counts. Source: ns until October 2004.
        mode: QueueUnit = QueueUnit::Packets;
        /// Size of a typical packet. Idle time is counted in these. Source: Floyd and Jacobson 1993; ns has 500B.
        mean_packet: Bytes = Bytes::new(1000) => bound::PACKET;
        /// The distribution of the gaps between notifications. Source: Floyd and Jacobson 1993.
        gap: GapLaw = GapLaw::Paper;
        /// Whether packets of transports with ECN are marked as congested instead of dropped. Source: Floyd and Jacobson 1993;
        /// in ns off (`setbit_`).
        ecn: bool = true;
        /// Whose small differences: how idle time counts, and what happens as the average crosses `min`. Source: Floyd and
        /// Jacobson 1993, Fig. 2.
        flavor: Flavor = Flavor::Floyd1993;
        /// Whether the probability rises from `max_p` to one between `max` and twice `max` instead of jumping. Source: ns
        /// before June 1999 (off).
        gentle: bool = false;
        /// Whether packets with ECN are marked also above `max`. Source: Floyd and Jacobson 1993; thesis of Feng, chapter 3;
        /// in ns off.
        mark_forced: bool = true;
        /// Who leaves when the queue overflows. Source: ns since October 1997.
        victim: Victim = Victim::Arriving;
        /// Time constant of a low-pass filter on the probability; it then decides alone, without a jump above `max`. Default:
        /// no filter. Source: thesis of Feng, section 4.3.3.
        smoothing: Option<Span> = None => bound::DURATION;
        /// Round-trip time of the flows, queueing included. With it `max_p` follows the number of active flows. Default:
        /// `max_p` is fixed. Source: thesis of Feng, section 3.5 and equation 3.2.
        flows_rtt: Option<Span> = None => bound::DURATION;
        /// Round-trip time of the flows, queueing included. With it the number of flows is read from the slope of the average and
        /// from the notifications of each round trip, and the average at which the probability reaches `max_p` moves so that the
        /// average settles halfway between `min` and `max`. Default: it is `max`. Source: ours, after the thesis of Feng, section
        /// 3.5.
        slope_rtt: Option<Span> = None => bound::DURATION;
        /// How long a flow counts as active after a packet; with `flows_rtt`. Source: assumed, several round-trip times.
        flows_window: Span = FLOWS_WINDOW => bound::DURATION;
    }
    check RedConfig::check_together;
}

impl RedConfig {
    /// As in ns-2 of 1998 and 1999.
    pub fn ns() -> Self {
        Self {
            max_p: 0.1,
            limit: Limit::Packets(50),
            mean_packet: Bytes::new(500),
            gap: GapLaw::Wait,
            flavor: Flavor::Ns,
            ecn: false,
            mark_forced: false,
            ..Self::default()
        }
    }

    /// `min` and `max` in packets, where bytes count as packets of `mean_packet`; none where they are given in time.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        Some((in_packets(self.min, self.mean_packet)?, in_packets(self.max, self.mean_packet)?))
    }

    fn check_together(&self, report: &mut Report<'_>) {
        if self.flows_rtt.is_some() && self.slope_rtt.is_some() {
            report.say("slope_rtt", "the number of flows is counted or read from the slope, not both", "");
        }
        if self.slope_rtt.is_some() && self.max_p == 0.0 {
            report.say("max_p", "a line that reaches 0 has no end that could move", "above 0");
        }
        if self.flows_rtt.is_none() {
            report.idle("flows_window", self.flows_window != FLOWS_WINDOW, "flows_rtt");
        }
        let counted = |limit: Limit| match (self.mode, limit) {
            (QueueUnit::Packets, Limit::Packets(packets)) => Some(u64::from(packets)),
            (QueueUnit::Bytes, Limit::Bytes(bytes)) => Some(bytes.get()),
            _ => None,
        };
        let mode = self.mode.word();
        let unit = if self.mode == QueueUnit::Packets { "packets, like `5p`" } else { "bytes, like `5kB`" };
        let thresholds = [("min", self.min), ("max", self.max)].map(|(key, limit)| {
            let value = counted(limit);
            if value.is_none() {
                let message = format!("{limit} is not in {unit}, and mode is \"{mode}\"");
                report.say(key, message, "give min and max in what `mode` says");
            }
            value
        });
        if let [Some(min), Some(max)] = thresholds
            && min >= max
        {
            report.say("min", format!("min ({}) is not below max ({})", self.min, self.max), "");
        }
    }
}

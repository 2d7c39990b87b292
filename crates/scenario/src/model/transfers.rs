//! Transfers that come and go: when, and how large.

use std::sync::Arc;

use tidegate_parameters::bound::INSIDE;
use tidegate_parameters::{Bound, bound, family, parameters, words};
use tidegate_units::{BitRate, Bytes, Span};

use crate::tables::read_points;

/// The largest transfer.
const SIZE_MAX: Bytes = Bytes::new(1_000_000_000_000);

/// Sizes of one transfer.
const SIZE: Bound<Bytes> = Bound::between(Bytes::new(1), SIZE_MAX).low("a transfer of nothing", "").high(
    "",
    " is above 1000 GB",
    "",
);

const SCALE: Bound<f64> = Bound::between(1e-6, 1e6).saying("", " is no scale");

family! {
    /// How large transfers are: bytes of payload.
    pub enum Sizes {
        /// All the same.
        Fixed(FixedSize) = "fixed",
        /// Between two, each as likely.
        Uniform(UniformSizes) = "uniform",
        /// Exponentially distributed.
        Exponential(ExponentialSizes) = "exponential",
        /// Heavy-tailed.
        Pareto(ParetoSizes) = "pareto",
        /// As they were measured somewhere.
        Measured(MeasuredSizes) = "measured",
        /// As a table says.
        Table(SizeTable) = "table",
    }
}

parameters! {
    /// # Transfers of one size
    ///
    /// All transfers have the same size.
    ///
    /// Source: none.
    pub struct FixedSize {
        /// The bytes of payload.
        size: Bytes => SIZE;
    }
}

parameters! {
    /// # Uniformly distributed sizes
    ///
    /// All sizes between two are as likely.
    ///
    /// Source: none.
    pub struct UniformSizes {
        /// The least, bytes of payload.
        least: Bytes => SIZE;
        /// The greatest.
        most: Bytes => SIZE;
    }
    check |config, report| {
        if config.most < config.least {
            report.say("most", format!("{} is below the least, {}", config.most, config.least), "");
        }
    };
}

parameters! {
    /// # Exponentially distributed sizes
    ///
    /// Many small transfers, few large ones; whole bytes, at least one.
    ///
    /// Source: queueing theory; the oracle of M/M/1 with processor sharing.
    pub struct ExponentialSizes {
        /// The mean, bytes of payload.
        mean: Bytes => SIZE;
    }
}

parameters! {
    /// # Pareto distributed sizes
    ///
    /// Heavy-tailed: most transfers are small, most bytes are in large ones. Cut off at `most`: the distribution of those that are
    /// not larger.
    ///
    /// Source: Crovella and Bestavros, "Self-Similarity in World Wide Web Traffic", 1997.
    pub struct ParetoSizes {
        /// The mean that it would have without the cut, bytes of payload.
        mean: Bytes => SIZE;
        /// The shape, above 1. Source: Crovella and Bestavros 1997 (1.1 to 1.3 for files of the web).
        shape: f64 = 1.2 => Bound::above(1.0).and_at_most(100.0).saying("a Pareto distribution of shape ", " has no mean");
        /// Nothing is larger. Source: assumed.
        most: Bytes = Bytes::new(1_000_000_000) => SIZE;
    }
    check |config, report| {
        let least = config.mean.as_f64() * (config.shape - 1.0) / config.shape;
        if config.most.as_f64() <= least {
            report.say("most", format!("{} is not above the least size, {least:.0} B", config.most), "the least is mean * (shape - 1) / shape");
        }
    };
}

words! {
    /// Where sizes of transfers were measured.
    pub enum Measured {
        /// Requests on a link of the Internet's core, as Bundler's evaluation has them (CAIDA): nearly all are small. Mean 21 kB.
        Internet = "internet",
        /// A web search in a data centre (DCTCP, 2010). Mean 1.7 MB.
        WebSearch = "web-search",
        /// Data mining in a data centre (VL2, 2009): most are tiny, and nearly all bytes are in a few. Mean 7.7 MB.
        DataMining = "data-mining",
        /// Hadoop in a data centre (Facebook, 2015). Mean 120 kB.
        Hadoop = "hadoop",
    }
}

parameters! {
    /// # Sizes that were measured
    ///
    /// One of the distributions that ship, each with its source.
    ///
    /// Source: docs/sizes.md.
    pub struct MeasuredSizes {
        /// Which one.
        of: Measured;
        /// Sizes are this many times those of the table. Source: none.
        scale: f64 = 1.0 => SCALE;
    }
}

impl MeasuredSizes {
    /// Points of the distribution function: bytes, and the part of transfers that are not larger; straight between them.
    ///
    /// # Panics
    /// Never: the tables that ship are tried.
    pub fn points(&self) -> Arc<[(f64, f64)]> {
        let (name, text) = match self.of {
            Measured::Internet => ("internet", include_str!("../../sizes/internet.csv")),
            Measured::WebSearch => ("web-search", include_str!("../../sizes/web-search.csv")),
            Measured::DataMining => ("data-mining", include_str!("../../sizes/data-mining.csv")),
            Measured::Hadoop => ("hadoop", include_str!("../../sizes/hadoop.csv")),
        };
        read_points(name, text).expect("a table that ships")
    }
}

parameters! {
    /// # Sizes by a table
    ///
    /// The distribution function of sizes, as measured: points in a file, straight between them, and the first one a step.
    ///
    /// Source: the tables that evaluations of data centres and access networks publish; those that ship name theirs.
    pub struct SizeTable {
        /// The file, relative to the scenario: one point per line, bytes and the part of transfers that are not larger, with a comma
        /// between; both ascend, the last part is 1. Lines that begin with `#`, and a first line of names, are passed over.
        file: String;
        /// Sizes are this many times those of the table. Source: none.
        scale: f64 = 1.0 => SCALE;
    }
    world {
        /// The points, as the file has them.
        points: Arc<[(f64, f64)]> = Arc::new([]);
    }
}

family! {
    /// When transfers come.
    pub enum Arrivals {
        /// At random.
        Poisson(PoissonArrivals) = "poisson",
        /// At even distances.
        Even(EvenArrivals) = "even",
        /// As a list says.
        List(ArrivalList) = "list",
    }
}

parameters! {
    /// # Random arrivals
    ///
    /// Independent of each other, at exponentially distributed distances: what many users make together. One of the two keys.
    ///
    /// Source: Paxson and Floyd, "Wide-Area Traffic: The Failure of Poisson Modeling", 1995: sessions of users are such, packets are not.
    pub struct PoissonArrivals {
        /// The mean distance. Default: what `rate` gives.
        every: Option<Span> = None => bound::DURATION;
        /// The payload that they offer together: the mean size over the mean distance. Default: what `every` gives.
        rate: Option<BitRate> = None => bound::RATE;
    }
    check |config, report| {
        if config.every.is_some() == config.rate.is_some() {
            report.at(&[], "random arrivals have `every` or `rate`, one of them", "every = \"20ms\", or rate = \"50Mbit\" of payload");
        }
    };
}

parameters! {
    /// # Even arrivals
    ///
    /// One, or a burst at once, at even distances. The first comes at the start.
    ///
    /// Source: Phanishayee et al., "Measurement and Analysis of TCP Throughput Collapse in Cluster-based Storage Systems", 2008 (incast).
    pub struct EvenArrivals {
        /// The distance.
        every: Span => bound::DURATION;
        /// How many come at once. Source: none.
        burst: u32 = 1 => Bound::between(1, 100_000).saying("a burst of ", " transfers");
    }
}

parameters! {
    /// # Arrivals by a list
    ///
    /// As they were recorded: instants and sizes in a file.
    ///
    /// Source: none.
    pub struct ArrivalList {
        /// The file, relative to the scenario: one transfer per line, seconds after the start and bytes of payload, with a comma
        /// between; seconds ascend. Lines that begin with `#`, and a first line of names, are passed over.
        file: String;
    }
    world {
        /// When each comes after the start, and its bytes.
        list: Arc<[(Span, u64)]> = Arc::new([]);
    }
}

parameters! {
    /// # Transfers that come and go
    ///
    /// Each is a connection of its own, that begins when it comes and ends when all of it is acknowledged. For TCP.
    ///
    /// Source: RFC 7928, section 3.2 (web traffic and repeating transfers); the evaluations of flow completion times since
    /// Dukkipati and McKeown 2006.
    pub struct Transfers {
        /// When they come.
        arrivals: Arrivals => INSIDE;
        /// How large they are. Default: those of the list; needed without one.
        sizes: Option<Sizes> = None => INSIDE;
        /// How many may be under way at once; what comes beyond it is refused, and counted. Source: assumed.
        places: u32 = 1_000 => Bound::between(1, PLACES_MAX).saying("room for ", " transfers");
        /// Whether to find out how long they would take where nothing else is, so that slow-downs can be told. Source: none.
        slowdown: bool = true;
    }
    check |config, report| {
        match (&config.arrivals, &config.sizes) {
            (Arrivals::List(_), Some(_)) => {
                report.say("sizes", "the list of arrivals has the sizes", "leave them out");
            }
            (Arrivals::Poisson(_) | Arrivals::Even(_), None) => {
                report.at(&[], "missing key `sizes`", "how large the transfers are: { kind = \"fixed\", size = \"10kB\" }");
            }
            _ => {}
        }
    };
}

/// What can be recorded of them over time: how many are under way, and how many arrived whole since the statistics began.
pub(crate) const VARIABLES: [&str; 2] = ["active_transfers", "completed_transfers"];

/// Places of one flow.
pub(crate) const PLACES_MAX: u32 = 100_000;

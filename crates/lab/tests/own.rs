//! Mechanisms that another crate registers: read, checked, described and run as those of the family's own list are.
//!
//! The registries belong to the process, so this file has one test.

use std::sync::Arc;

use tidegate_mechanism::edge::nbp::{NbpConfig, NbpEgress, NbpIngress};
use tidegate_mechanism::edge::{self, BorderSite, EdgeReport, PeerId};
use tidegate_mechanism::queue::{self, Red, RedConfig};
use tidegate_mechanism::schedule::{self, Drr, DrrConfig};
use tidegate_mechanism::shape::ShaperConfig;
use tidegate_mechanism::tcp::TcpConfig;
use tidegate_mechanism::tcp::congestion::{self, Cubic, CubicConfig};
use tidegate_mechanism::{Context, Variable};
use tidegate_packet::Headers;
use tidegate_parameters::own::RegistryError;
use tidegate_parameters::{parameters, words};
use tidegate_scenario::{Document, explain, list_mechanisms, schema};

words! {
    /// Which.
    pub enum Which {
        /// The first.
        First = "first",
        /// The second.
        Second = "second",
    }
}

parameters! {
    /// # RED again
    ///
    /// Source: this test.
    pub struct AgainRed {
        ..red: RedConfig;
        /// Means nothing. Source: this test.
        which: Which = Which::First;
        /// Neither. Source: this test.
        words: Vec<Which> = Vec::new();
    }
}

impl queue::own::ManagerParameters for AgainRed {
    type Manager = Red;
    fn build(&self, context: &Context) -> Red {
        self.red.build(context)
    }
}

parameters! {
    /// # DRR again
    ///
    /// Source: this test.
    pub struct AgainDrr {
        ..drr: DrrConfig;
    }
}

impl schedule::own::DisciplineParameters for AgainDrr {
    type Discipline = Drr;
    fn build(&self, context: &Context) -> Drr {
        self.drr.build(context)
    }
    fn variables() -> &'static [Variable] {
        const { &[Variable::new("active_queues", "Queues with something waiting.")] }
    }
}

parameters! {
    /// # CUBIC again
    ///
    /// Source: this test.
    pub struct AgainCubic {
        ..cubic: CubicConfig;
    }
}

impl congestion::own::ControlParameters for AgainCubic {
    type Control = Cubic;
    fn build(&self, tcp: &TcpConfig) -> Cubic {
        self.cubic.build(tcp)
    }
}

parameters! {
    /// # NBP again
    ///
    /// Source: this test.
    pub struct AgainNbp {
        ..nbp: NbpConfig;
    }
}

impl edge::own::EdgeParameters for AgainNbp {
    type Ingress = NbpIngress;
    type Egress = NbpEgress;
    fn build(&self, _: BorderSite, context: &Context) -> (NbpIngress, NbpEgress) {
        self.nbp.build(context)
    }
    fn shaper(&self) -> ShaperConfig {
        self.nbp.shaper.clone()
    }
    fn report(ingress: &NbpIngress, headers: &Headers, _: Option<PeerId>) -> Option<EdgeReport> {
        ingress.report(headers)
    }
}

const NETWORK: &str = r#"
duration = "20s"
warmup = "2s"
[nodes]
hosts = ["A", "B", "C"]
routers = ["I", "J", "E"]
[links.one]
between = ["A", "I"]
rate = "10Mbit"
delay = "1ms"
[links.two]
between = ["B", "J"]
rate = "10Mbit"
delay = "3ms"
[links.left]
between = ["I", "E"]
rate = "3Mbit"
delay = "5ms"
queue = { kind = "red", min = "5p", max = "15p" }
[links.right]
between = ["J", "E"]
rate = "3Mbit"
delay = "5ms"
queue = { kind = "drr", quantum = "700B" }
[links.exit]
between = ["E", "C"]
rate = "4Mbit"
delay = "5ms"
queue = "red"
[flows.tcp]
from = "A"
to = "C"
transport = { kind = "tcp", control = { kind = "cubic", beta = 0.6 } }
[flows.udp]
from = "B"
to = "C"
transport = "udp"
application = { kind = "poisson", rate = "3Mbit" }
[domains.isp]
edges = ["I", "J", "E"]
mechanism = { kind = "nbp", initial_rate = "200kbit" }
[record]
every = "500ms"
series = ["links.left.average_queue_packets", "links.right.active_queues", "domains.isp.udp.ingress_rate_bps", "flows.tcp.cwnd_bytes"]
"#;

/// The summary and the series of the network; with `again`, under mechanisms from outside.
fn results(again: bool) -> String {
    let mut text = NETWORK.to_owned();
    if again {
        for kind in ["red", "drr", "cubic", "nbp"] {
            text = text.replace(&format!("\"{kind}\""), &format!("\"again-{kind}\""));
        }
    }
    let document = Document::from_text("network", &text).unwrap();
    let scenario = Arc::new(document.scenario().unwrap_or_else(|errors| panic!("{}", errors.render())));
    let outcome = tidegate_lab::run(&scenario, 7).unwrap();
    assert_eq!(outcome.series.len(), 4);
    let series: Vec<_> = outcome.series.iter().map(|s| format!("{} {:?}", s.name, s.values)).collect();
    format!("{}\n{}", outcome.summary.to_json(), series.join("\n"))
}

/// What is said of the network with `from` replaced by `to`.
fn complaint(from: &str, to: &str) -> String {
    assert!(NETWORK.contains(from), "{from}");
    let document = Document::from_text("network", &NETWORK.replace(from, to)).unwrap();
    document.scenario().unwrap_err().render()
}

#[test]
fn what_is_registered_is_read_described_and_run_as_what_is_built_in() {
    queue::own::register::<AgainRed>("again-red").unwrap();
    schedule::own::register::<AgainDrr>("again-drr").unwrap();
    congestion::own::register::<AgainCubic>("again-cubic").unwrap();
    edge::own::register::<AgainNbp>("again-nbp").unwrap();
    let refused = |kind| queue::own::register::<AgainRed>(kind).unwrap_err();
    for taken in ["again-red", "again-drr", "drr", "blue"] {
        assert!(matches!(refused(taken), RegistryError::Taken(_)), "{taken}");
    }
    for odd in ["", "My Queue", "2red", "r\u{e9}d"] {
        assert!(matches!(refused(odd), RegistryError::Name(_)), "{odd}");
    }
    assert!(matches!(edge::own::register::<AgainNbp>("nbq"), Err(RegistryError::Taken(_))));

    assert_eq!(results(false), results(true));
    assert!(matches!(refused("later"), RegistryError::Late(_)));

    // Messages: as good, and where it is.
    let drr = r#"kind = "drr", quantum = "700B""#;
    let key = complaint(drr, r#"kind = "again-red", limitt = "9p""#);
    assert!(
        key.starts_with("error: links.right.queue.limitt: unknown key `limitt` for kind `again-red`"),
        "{key}"
    );
    assert!(key.contains("network:24:31") && key.ends_with("did you mean `limit`?\n"), "{key}");
    let range = complaint(drr, r#"kind = "again-red", weight = 7"#);
    assert!(range.contains("links.right.queue.weight"), "{range}");
    let word = complaint(drr, r#"kind = "again-red", which = "frist""#);
    assert!(word.contains("links.right.queue.which") && word.contains("did you mean `first`"), "{word}");
    let inside = complaint(drr, r#"kind = "again-red", words = ["first", 3]"#);
    assert!(inside.contains("links.right.queue.words"), "{inside}");
    let kind = complaint(drr, r#"kind = "again-rde""#);
    assert!(kind.contains("did you mean `again-red`"), "{kind}");

    // Descriptions.
    let doc = explain("again-red").unwrap();
    assert_eq!((doc.family.as_str(), doc.title.as_str()), ("queue", "RED again"));
    let which = doc.parameters.iter().find(|parameter| parameter.name == "which").unwrap();
    assert_eq!((which.default.as_str(), which.kind.as_str()), ("first", "first | second"));
    let listed = list_mechanisms();
    for again in ["again-drr", "again-cubic", "again-nbp"] {
        assert!(listed.iter().any(|mechanism| mechanism.kind == again), "{again}");
    }
    assert!(schema().to_string().contains("again-nbp"));
}

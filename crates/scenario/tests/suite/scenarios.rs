//! What a scenario file means.

use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::tcp::congestion::{CongestionControlConfig, CubicConfig};
use tidegate_scenario::model::{
    Application, Bulk, ClockStep, DelayOf, DomainIndex, Event, EventChange, FlowCounter, FlowIndex,
    FlowQuantity, Follows, FollowsNbq, LinkCounter, LinkIndex, LinkQuantity, Manager, Mechanism, Multipath,
    NodeKind, Queue, Routing, Series, Start, TcpVariant, Transport, Way, Window,
};
use tidegate_scenario::{Document, Scenario};
use tidegate_units::{BitRate, Bytes, Limit, Span, Time};

const NBP: &str = include_str!("../data/nbp.toml");

fn load(text: &str, overrides: &[&str]) -> Scenario {
    let mut document =
        Document::from_text("test.toml", text).unwrap_or_else(|errors| panic!("{}", errors.render()));
    for one in overrides {
        document.set(one).unwrap_or_else(|errors| panic!("{}", errors.render()));
    }
    document.scenario().unwrap_or_else(|errors| panic!("{}", errors.render()))
}

fn fail(text: &str, overrides: &[&str]) -> String {
    let mut document = Document::from_text("test.toml", text).unwrap();
    for one in overrides {
        document.set(one).unwrap();
    }
    document.scenario().expect_err("should not be valid").to_string()
}

fn link<'s>(scenario: &'s Scenario, name: &str) -> &'s tidegate_scenario::model::Link {
    scenario.links.iter().find(|link| link.name == name).unwrap()
}

#[test]
fn a_scenario_is_read_whole() {
    let scenario = load(NBP, &[]);
    assert_eq!(scenario.title, "Network Border Patrol through 3 hops");
    assert_eq!(
        (scenario.duration, scenario.warmup, scenario.seed),
        (Span::from_secs(100), Span::from_secs(10), 1)
    );
    let names: Vec<&str> = scenario.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["S", "D", "U1", "U2", "U3", "V1", "V2", "V3", "I", "E", "R1", "R2", "R3", "R4"]);
    assert_eq!(scenario.nodes[8].kind, NodeKind::Router);
    let core = link(&scenario, "core2");
    assert_eq!(scenario.nodes[core.a.index()].name, "R2");
    assert_eq!(scenario.nodes[core.b.index()].name, "R3");
    assert_eq!(core.forward.rate, BitRate::from_bps(1_500_000));
    assert_eq!(core.forward.delay, Span::from_millis(10));
    assert_eq!(core.reverse.rate, BitRate::from_mbps(3));
    assert!(
        matches!(&core.forward.queue, Queue::Fifo(Manager::DropTail(config)) if config.limit == Limit::Packets(50))
    );
    assert!(
        matches!(&core.reverse.queue, Queue::Fifo(Manager::Red(config)) if config.limit == Limit::Packets(100))
    );
    let tcp = &scenario.flows[0];
    assert_eq!(tcp.application, Application::Bulk(Bulk {}));
    let Transport::Tcp(config) = &tcp.transport else { panic!("not TCP") };
    assert_eq!(
        (config.config.variant, config.window),
        (TcpVariant::Reno, Window::Bytes(Bytes::new(100_000)))
    );
    assert_eq!((config.config.initial_window_segments, config.config.rto.initial), (1, Span::from_secs(6)));
    let udp = &scenario.flows[2];
    assert_eq!(udp.name, "udp2");
    assert!(matches!(&udp.application, Application::Cbr(cbr)
        if cbr.rate == BitRate::from_mbps(1) && cbr.packet == Some(Bytes::new(1000))));
    assert_eq!(udp.start, Start::Uniform(Time::ZERO, Time::from_nanos(1_000_000_000)));
    assert_eq!(scenario.domains[0].edges.len(), 2);
    let Mechanism::Edge(EdgeConfig::Nbp(nbp)) = &scenario.domains[0].mechanism else { panic!("not NBP") };
    assert_eq!((nbp.mss, nbp.mrc_factor), (Bytes::new(1500), 10.0));
    assert!(
        matches!(&nbp.shaper.queue, Queue::Fifo(Manager::DropTail(queue)) if queue.limit == Limit::Packets(100))
    );
    assert_eq!(scenario.events.len(), 2);
    assert_eq!(scenario.events[0].at, Time::from_nanos(2_000_000_000));
    assert_eq!(
        scenario.record.series,
        [
            Series::Flow(FlowIndex(0), FlowQuantity::Counted(FlowCounter::Cwnd)),
            Series::Link(LinkIndex(1), Way::Forward, LinkQuantity::Counted(LinkCounter::QueuePackets)),
            Series::Link(LinkIndex(2), Way::Forward, LinkQuantity::Counted(LinkCounter::QueuePackets)),
            Series::Link(LinkIndex(3), Way::Forward, LinkQuantity::Counted(LinkCounter::QueuePackets)),
            Series::Link(LinkIndex(1), Way::Reverse, LinkQuantity::Queue("average_queue_packets")),
            Series::Link(LinkIndex(2), Way::Reverse, LinkQuantity::Queue("average_queue_packets")),
            Series::Link(LinkIndex(3), Way::Reverse, LinkQuantity::Queue("average_queue_packets")),
        ]
    );
    assert_eq!(scenario.record.delays.len(), 5);
    assert_eq!(scenario.record.delays[4], DelayOf::Link(LinkIndex(0), Way::Forward));
}

#[test]
fn events_of_edges_find_their_domain() {
    let mut text = NBP.to_owned();
    text.push_str("\n[[events]]\nat = \"3s\"\nedge = \"EDGE\"\nclock_back = \"200ms\"\nrestart = true\n");
    let plain = load(NBP, &[]);
    let edge = plain.domains[0].edges[1];
    let scenario = load(&text.replace("EDGE", &plain.nodes[edge.index()].name), &[]);
    let change = EventChange::Edge {
        domain: DomainIndex(0),
        edge,
        step: Some(ClockStep::Back(Span::from_millis(200))),
        restart: true,
    };
    assert!(scenario.events.iter().any(|event| event.change == change));
}

#[test]
fn any_value_can_be_overridden_also_one_that_a_repeat_makes() {
    let scenario = load(
        NBP,
        &["links.core2.rate=2Mbit", "parameters.hops=4", "seed=7", "flows.udp4.application.rate=9Mbit"],
    );
    assert_eq!(scenario.seed, 7);
    assert_eq!(link(&scenario, "core1").forward.rate, BitRate::from_bps(1_500_000));
    assert_eq!(link(&scenario, "core2").forward.rate, BitRate::from_mbps(2));
    assert_eq!(link(&scenario, "core4").forward.rate, BitRate::from_bps(1_500_000));
    assert!(
        matches!(&scenario.flows[4].application, Application::Cbr(cbr) if cbr.rate == BitRate::from_mbps(9))
    );
}

#[test]
fn an_override_may_name_the_template_and_one_of_its_links() {
    let scenario = load(NBP, &["links.\"core{i}\".rate=7Mbit", "links.core3.queue.limit=9p"]);
    assert_eq!(link(&scenario, "core2").forward.rate, BitRate::from_mbps(7));
    assert!(
        matches!(&link(&scenario, "core3").forward.queue, Queue::Fifo(Manager::DropTail(c)) if c.limit == Limit::Packets(9))
    );
    assert!(matches!(&link(&scenario, "core3").reverse.queue, Queue::Fifo(Manager::Red(_))));
}

#[test]
fn a_queue_that_could_never_act_is_refused() {
    let link = load(NBP, &[]).links[0].name.clone();
    for (queue, message) in [
        ("{ kind = 'step', threshold = '200p' }", "200p is never exceeded: no more than 100p may wait"),
        ("{ kind = 'step', threshold = '20ms', limit = '20ms' }", "20ms is never exceeded"),
        ("{ kind = 'rem', b_ref = '200p' }", "200p is never exceeded: no more than"),
        ("{ kind = 'pi', q_ref = '900p' }", "900p is never exceeded: no more than 800p may wait"),
        ("{ kind = 'dualpi2', target = '300ms' }", "250ms is not longer than the target"),
        ("{ kind = 'fq-codel', queues = 10, ways = 4 }", "10 queues are no whole number of sets of 4"),
        ("{ kind = 'cake', queues = 10 }", "10 queues are no whole number of sets of 8"),
        ("{ kind = 'cake', overhead = 18 }", "without `bandwidth` it has no effect"),
        ("{ kind = 'cake', ingress = true }", "without `bandwidth` it has no effect"),
        (
            "{ kind = 'dualpi2', tshift = '10ms' }",
            "tshift: without `scheduler = \"time-shifted\"` it has no effect",
        ),
        (
            "{ kind = 'dualpi2', scheduler = 'time-shifted', classic_share = 0.2 }",
            "classic_share: without `scheduler = \"wrr\"` it has no effect",
        ),
        (
            "{ kind = 'pie', dq_threshold = '1kB' }",
            "without `estimator = \"departure-rate\"` it has no effect",
        ),
        (
            "{ kind = 'red', min = '5p', max = '15p', flows_window = '2s' }",
            "without `flows_rtt` it has no effect",
        ),
        ("{ kind = 'ered', min_q = 3 }", "min_q: without `fair = true` it has no effect"),
        ("{ kind = 'ered', variant = 'many-flows' }", "variant: without `fair = true` it has no effect"),
        ("{ kind = 'wfq', active_window = '2s' }", "without `weights = \"active\"` it has no effect"),
    ] {
        let said = fail(NBP, &[&format!("links.{link}.forward.queue={queue}")]);
        assert!(said.contains(message), "{queue}: {said}");
    }
    for queue in [
        "{ kind = 'step', threshold = '99p' }",
        "{ kind = 'step', threshold = '200kB' }",
        "{ kind = 'cake', bandwidth = '1Mbit', overhead = 18 }",
    ] {
        load(NBP, &[&format!("links.{link}.forward.queue={queue}")]);
    }
}

/// As with a queue: a control that is named alone keeps what lies below it, and an override reaches into it.
#[test]
fn a_control_written_alone_is_a_table_with_that_kind() {
    let control = |overrides: &[&str]| {
        let scenario =
            load(NBP, &[&["defaults.tcp.control={ kind = 'cubic', beta = 0.5 }"], overrides].concat());
        let Some(Transport::Tcp(tcp)) =
            scenario.flows.iter().map(|flow| &flow.transport).find(|one| matches!(one, Transport::Tcp(_)))
        else {
            panic!("it has TCP")
        };
        tcp.config.control.clone()
    };
    let cubic = |beta, hystart| {
        CongestionControlConfig::Cubic(CubicConfig { beta, hystart, ..CubicConfig::default() })
    };
    let name = load(NBP, &[])
        .flows
        .iter()
        .find(|flow| matches!(flow.transport, Transport::Tcp(_)))
        .unwrap()
        .name
        .clone();
    let alone = format!("flows.{name}.transport.control=cubic");
    let inside = format!("flows.{name}.transport.control.hystart=true");
    assert_eq!(control(&[]), cubic(0.5, false));
    assert_eq!(control(&[&alone]), cubic(0.5, false), "the kind that is below");
    assert_eq!(control(&[&alone, &inside]), cubic(0.5, true), "an override inside of a kind written alone");
    let other = format!("flows.{name}.transport.control=vegas");
    assert!(matches!(control(&[&other]), CongestionControlConfig::Vegas(_)), "another kind replaces it");
}

#[test]
fn an_override_may_add_a_whole_element() {
    let flow = "flows.extra={ from = 'S', to = 'D', transport = 'tcp' }";
    let scenario = load(NBP, &[flow, "flows.extra.weight=2.5"]);
    let extra = scenario.flows.last().unwrap();
    assert_eq!((extra.name.as_str(), extra.weight), ("extra", 2.5));
}

#[test]
fn a_flow_may_be_the_other_direction_of_one_that_comes_later() {
    let back = "flows.extra={ from = 'D', to = 'S', transport = 'tcp', back_of = 'later' }";
    let scenario = load(NBP, &[back, "flows.later={ from = 'S', to = 'D', transport = 'tcp' }"]);
    let [.., extra, later] = &scenario.flows[..] else { panic!() };
    assert_eq!((extra.back_of, later.back_of), (Some(scenario.flows.len() as u32 - 1), None));
}

#[test]
fn a_whole_table_of_another_kind_replaces_the_old_one() {
    let scenario = load(NBP, &["defaults.link.queue={ kind = 'drr', quantum = '500B' }"]);
    let config = &link(&scenario, "core1").forward.queue;
    assert!(matches!(config, Queue::Drr(config) if config.limit == Limit::Packets(100)), "{config:?}");
    let message = fail(NBP, &["links.S-I.queue.gentle=true"]);
    assert!(message.contains("unknown key `gentle` for kind `droptail`"), "{message}");
}

#[test]
fn changing_only_the_kind_says_what_to_do_with_the_rest() {
    let text = NBP.replace(
        r#"queue = { kind = "droptail", limit = "50p" }"#,
        r#"queue = { kind = "red", min = "5p" }"#,
    );
    let message = fail(&text, &["defaults.link.queue.kind=droptail"]);
    assert!(message.contains("unknown key `min` for kind `droptail`"), "{message}");
    let like = "set the whole table, like defaults.link.queue=droptail or";
    assert!(message.contains("those of kind `red`") && message.contains(like), "{message}");
    // Done as it says, it is right.
    load(&text, &["defaults.link.queue=droptail"]);
    // A key that is unknown to a kind that nobody changed is another mistake.
    let unknown = fail(&text, &["defaults.link.queue.mni='7p'"]);
    assert!(unknown.contains("did you mean `min`?") && !unknown.contains("only `kind`"), "{unknown}");
}

#[test]
fn files_lie_over_what_they_include() {
    let folder = std::env::temp_dir().join(format!("tidegate-include-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("base")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("base/all.toml", NBP);
    write(
        "top.toml",
        "include = 'base/all.toml'\nduration = '50s'\n[links.core1]\nbetween = ['S', 'D']\n[links.last]\nrate = '9Mbit'",
    );
    write("loop.toml", "include = ['base/all.toml', 'loop.toml']");
    write("missing.toml", "include = 'nowhere.toml'");
    let errors = Document::open(&folder.join("top.toml")).unwrap().scenario().unwrap_err();
    let text = errors.to_string();
    assert!(text.contains("top.toml:3:8: links.core1: `core1` is there twice"), "{text}");
    write("top.toml", "include = 'base/all.toml'\nduration = '50s'\n[links.last]\nrate = '9Mbit'");
    let scenario = Document::open(&folder.join("top.toml")).unwrap().scenario().unwrap();
    assert_eq!(scenario.duration, Span::from_secs(50));
    assert_eq!(link(&scenario, "last").forward.rate, BitRate::from_mbps(9));
    let message = |name: &str| Document::open(&folder.join(name)).unwrap_err().to_string();
    assert!(message("loop.toml").contains("includes itself"), "{}", message("loop.toml"));
    assert!(message("missing.toml").contains("cannot be read"));
    assert!(message("base").contains("not a file"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn routes_follow_nbq_where_it_is_and_json_says_so_only_then() {
    let fixed = load(NBP, &[]);
    assert_eq!(fixed.routing, Routing::default());
    assert_eq!(fixed.to_json()["routing"], serde_json::json!({ "multipath": "none" }));
    let nbq = "domains.net.mechanism=nbq";
    let read = |follows: &[&str]| load(NBP, &[&[nbq], follows].concat()).routing;
    let defaults = FollowsNbq { every: Span::from_millis(100), penalty: 10, hold: Span::from_secs(2) };
    let routing = Routing { multipath: Multipath::Flow, follows: Some(Follows::Nbq(defaults)) };
    assert_eq!(read(&["routing={ multipath = 'flow', follows = 'nbq' }"]), routing);
    let held = FollowsNbq { hold: Span::from_secs(9), penalty: 3, ..defaults };
    let keys = ["routing.follows=nbq", "routing.follows.hold=9s", "routing.follows.penalty=3"];
    assert_eq!(read(&keys).follows, Some(Follows::Nbq(held)));
    let follows = &load(NBP, &[nbq, "routing.follows=nbq"]).to_json()["routing"]["follows"];
    assert_eq!(*follows, serde_json::json!({ "kind": "nbq", "every_s": 0.1, "penalty": 10, "hold_s": 2.0 }));
}

#[test]
fn equal_scenarios_have_equal_json_with_names_and_units() {
    let json = load(NBP, &[]).to_json();
    assert_eq!(json, load(NBP, &[]).to_json());
    let changes =
        ["links.last.delay=1ns", "domains.net.control_loss=0.1", "ties.seed=1", "flows.tcp.weight=2"];
    for change in changes {
        assert_ne!(json, load(NBP, &[change]).to_json(), "{change}");
    }
    assert_ne!(load(NBP, &["ties.seed=1"]).to_json(), load(NBP, &["ties.seed=2"]).to_json());
    assert_eq!(json["duration_s"], 100.0);
    assert_eq!(json["links"][1]["a"], "R1");
    assert_eq!(json["links"][1]["forward"]["rate_bps"], 1_500_000);
    assert_eq!(json["links"][1]["forward"]["queue"]["limit_packets"], 50);
    assert_eq!(json["links"][1]["reverse"]["queue"]["kind"], "red");
    assert_eq!(json["flows"][0]["transport"]["window_bytes"], 100_000);
    assert_eq!(json["flows"][1]["application"]["rate_bps"], 1_000_000);
    assert_eq!(json["domains"][0]["mechanism"]["kind"], "nbp");
    assert_eq!(json["domains"][0]["mechanism"]["asynch_interval_s"], 0.01);
    assert_eq!(json["domains"][0]["mechanism"]["shaper"]["queue"]["limit_packets"], 100);
    assert_eq!(json["record"]["series"][0], "flows.tcp.cwnd_bytes");
}

#[test]
fn a_parameter_may_say_where_it_comes_from() {
    let text = NBP.replace(
        "load = \"1Mbit\"",
        "load = { value = \"1Mbit\", provenance = \"text\", why = \"Table 1\" }",
    );
    assert_eq!(load(&text, &[]).to_json(), load(NBP, &[]).to_json());
    let changed = load(&text, &["parameters.load=2Mbit"]);
    assert!(
        matches!(&changed.flows[1].application, Application::Cbr(cbr) if cbr.rate == BitRate::from_mbps(2))
    );
    assert!(fail(NBP, &["parameters.laod=2Mbit"]).contains("did you mean `load`?"));
}

#[test]
fn a_hundred_thousand_flows_load() {
    let text = r#"
        duration = "10s"
        [parameters]
        n = 100000
        [nodes]
        hosts = ["S{1..n}", "D{1..n}"]
        routers = ["A", "B"]
        [defaults]
        link = { rate = "1Gbit", delay = "1ms", queue = { kind = "droptail", limit = "100p" } }
        tcp = { profile = "ns-1999", variant = "reno", window = "100kB" }
        [links.middle]
        between = ["A", "B"]
        [links."s{i}"]
        repeat = "i = 1..n"
        between = ["S{i}", "A"]
        [links."d{i}"]
        repeat = "i = 1..n"
        between = ["B", "D{i}"]
        [flows."f{i}"]
        repeat = "i = 1..n"
        from = "S{i}"
        to = "D{i}"
        transport = "tcp"
        application = { kind = "on-off", on = "1s", off = "1s" }
        start = { uniform = ["0s", "1s"] }
        [record]
        series = ["flows.*.throughput_bps"]
        every = "1s"
    "#;
    let scenario = load(text, &[]);
    assert_eq!(scenario.flows.len(), 100_000);
    assert_eq!(scenario.links.len(), 200_001);
    assert_eq!(scenario.record.series.len(), 100_000);
}

#[test]
fn an_event_that_repeats_is_that_many_events_by_time() {
    let text = "duration = '1s'\nnodes = { hosts = ['A', 'B'] }\n\
                links.l = { between = ['A', 'B'], rate = '1Mbit', delay = '1ms' }\n\
                [[events]]\nrepeat = 'k = 1..9'\nat = '{100 * k}ms'\nlink = 'l'\nrate = '{2 - k % 2}Mbit'\n\
                [[events]]\nat = '150ms'\nlink = 'l'\ndelay = '2ms'\n";
    let scenario = load(text, &[]);
    let told = |event: &Event| match event.change {
        EventChange::Link { rate, delay, .. } => (event.at, rate, delay),
        EventChange::Reservation { .. } | EventChange::Edge { .. } => unreachable!("all are of a link"),
    };
    let events: Vec<_> = scenario.events.iter().map(told).collect();
    assert_eq!(events.len(), 10);
    let at = |ms: u64| Time::ZERO.saturating_add(Span::from_millis(ms));
    assert_eq!(events[0], (at(100), Some(BitRate::from_mbps(1)), None));
    assert_eq!(events[1], (at(150), None, Some(Span::from_millis(2))));
    assert_eq!(events[2], (at(200), Some(BitRate::from_mbps(2)), None));
    assert_eq!(events[9], (at(900), Some(BitRate::from_mbps(1)), None));
}

#[test]
fn a_queue_of_no_kind_is_of_the_default_kind() {
    let text = "duration = '1s'\nnodes = { hosts = ['A', 'B'] }\n\
                links.l = { between = ['A', 'B'], rate = '1Mbit', delay = '1ms' }";
    let scenario = load(text, &["links.l.queue.limit=7p"]);
    let is_seven =
        |queue: &Queue| matches!(queue, Queue::Fifo(Manager::DropTail(q)) if q.limit == Limit::Packets(7));
    assert!(is_seven(&scenario.links[0].forward.queue) && is_seven(&scenario.links[0].reverse.queue));
    let text = text.replace("delay = '1ms'", "delay = '1ms', reverse = { queue = { limit = '7p' } }");
    let one_way = load(&text, &[]);
    assert!(!is_seven(&one_way.links[0].forward.queue) && is_seven(&one_way.links[0].reverse.queue));
}

#[test]
fn markers_find_their_flows_by_patterns_and_say_what_is_wrong() {
    let text = "duration = '1s'\nnodes = { hosts = ['A', 'B'], routers = ['R'] }\n\
                defaults.link = { rate = '1Mbit', delay = '1ms' }\n\
                links.a = { between = ['A', 'R'] }\nlinks.b = { between = ['R', 'B'] }\n\
                [flows.'c{i}']\nrepeat = 'i = 1..3'\nfrom = 'A'\nto = 'B'\ntransport = 'tcp'\n\
                [markers.gold]\nflows = ['c2', 'c*']\nat = 'R'\n\
                mechanism = { kind = 'profile', rate = '1Mbit', depth = '10kB' }\n\
                [record]\nseries = ['markers.*.tokens_bytes']\n";
    let scenario = load(text, &[]);
    let gold = &scenario.markers[0];
    assert_eq!(gold.flows, [0, 1, 2].map(FlowIndex));
    assert_eq!(gold.at.map(|node| scenario.nodes[node.index()].name.as_str()), Some("R"));
    assert_eq!(scenario.record.series.len(), 1);
    for (key, wrong, said) in [
        ("flows", "[\"x\"]", "there is no flow `x`"),
        ("mechanism.depth", "5p", "a bucket holds bytes"),
        ("mechanism.marked", "64", "64 is no codepoint"),
        ("at", "X", "`X`"),
    ] {
        let message = fail(text, &[&format!("markers.gold.{key}={wrong}")]);
        assert!(message.contains(said), "{key}: {message}");
    }
}

/// A flow that is wrong itself is no reason to panic, and the others keep their places.
#[test]
fn events_of_what_is_wrong_say_nothing_more() {
    let text = "duration = '2s'\nnodes = { hosts = ['a', 'b'] }\n\
                links.x = { between = ['a', 'b'], rate = '10Mbit', delay = '1ms' }\n\
                flows.e = { from = 'a', to = 'b', transport = 'tpc' }\n\
                flows.f = { from = 'a', to = 'b', transport = { kind = 'tcp', control = { kind = 'reserved', rate = '1Mbit' } } }\n\
                flows.g = { from = 'a', to = 'b', transport = 'tpc' }\n\
                events = [{ at = '1s', flow = 'f', reservation = '2Mbit' }, { at = '1s', flow = 'g', reservation = '2Mbit' }]\n";
    let message = fail(text, &[]);
    assert!(message.contains("tpc") && !message.contains("reserves nothing"), "{message}");
}

#[test]
fn samples_that_never_come_are_refused() {
    let text = "duration = '2s'\nnodes = { hosts = ['a', 'b'] }\n\
                links.x = { between = ['a', 'b'], rate = '10Mbit', delay = '1ms' }\n\
                flows.f = { from = 'a', to = 'b', transport = 'tcp' }\n\
                record = { every = '3s', series = ['links.x.queue_packets'] }\n";
    assert!(fail(text, &[]).contains("no value is taken"));
    assert_eq!(load(text, &["record.every='2s'"]).record.every, Some(Span::from_secs(2)));
}

#[test]
fn what_speaks_to_a_terminal_is_shown_and_not_obeyed() {
    assert!(fail("\tduration = 'fast'\n", &[]).contains("duration"), "a tab is no threat");
    let message = fail("duration = '2s'\n\"\\u001b[2J\\nerror: forged\" = 1\n", &[]);
    assert!(!message.contains('\u{1b}') && message.contains("\u{fffd}[2J\u{fffd}error: forged"), "{message}");
}

/// A small network with a flow of each transport.
const SMALL: &str = r#"
duration = "1s"
nodes = { hosts = ["a", "b"] }
[links.l]
between = ["a", "b"]
rate = "1Mbit"
delay = "1ms"
[flows.t]
from = "a"
to = "b"
transport = "tcp"
[flows.u]
from = "a"
to = "b"
transport = "udp"
application = { kind = "cbr", rate = "1Mbit" }
[record]
waste = true
"#;

#[test]
fn a_key_in_the_wrong_table_is_led_to_the_right_one() {
    for (set, said) in [
        (
            "flows.t.control=bbr",
            "(`control` is a key of `transport`: transport = { kind = \"tcp\", control = \"bbr\" }, or in [defaults.tcp] for all flows)",
        ),
        (
            "flows.t.control={ kind = \"cubic\" }",
            "transport = { kind = \"tcp\", control = ... }, or in [defaults.tcp]",
        ),
        ("flows.u.ecn=true", "transport = { kind = \"udp\", ecn = true }, or in [defaults.udp]"),
        (
            "flows.u.rate=2Mbit",
            "(`rate` is a key of `application`: application = { kind = \"cbr\", rate = \"2Mbit\" })",
        ),
        (
            "flows.t.size=1MB",
            "`size` is a key of `application`: application = { kind = \"transfer\", size = \"1MB\" }",
        ),
        ("flows.u.transport.rate=2Mbit", "application = { kind = \"cbr\", rate = \"2Mbit\" }"),
        ("flows.u.transport.dscp=3", "(`dscp` is a key of the flow itself, beside `transport`)"),
        ("flows.u.transport.window=3kB", "`window` is a key of kind tcp; here allowed: packet"),
        ("flows.u.application.dscp=3", "(`dscp` is a key of the flow itself, beside `application`)"),
        ("flows.t.transport.c=2", "`c` is a key of `control`: control = { kind = \"cubic\", c = 2 }"),
        ("flows.t.seed=3", "`seed` stands above the first [table] of the file"),
        ("links.l.limit=7p", "queue = { kind = \"droptail\", limit = \"7p\" }"),
        ("links.l.probability=0.1", "loss = { kind = \"random\", probability = 0.1 }"),
        ("links.l.name=x", "the name of a link is that of its table: [links.NAME]"),
        ("links.l.queue.rate=1Mbit", "`rate` is a key of the link itself, beside `queue`"),
        ("links.l.queue.queue=red", "(`queue` is a key of kind "),
        ("links.l.forward.limit=7p", "queue = { kind = \"droptail\", limit = \"7p\" }"),
        ("links.l.forward.cost=7", "`cost` is a key of the link itself, beside `forward`"),
        ("defaults.queue=red", "link = { queue = \"red\" }"),
        ("defaults.link.limit=7p", "queue = { kind = \"droptail\", limit = \"7p\" }"),
        ("record.seed=7", "`seed` is a key of the file itself, beside `record`"),
        ("hosts=a", "nodes = { hosts = \"a\" }"),
        // A slip is a slip.
        ("flows.t.fron=a", "did you mean `from`?"),
        ("links.l.dealy=a", "did you mean `delay`?"),
    ] {
        let message = fail(SMALL, &[set]);
        assert!(message.contains(said), "{set}: {message}");
    }
    let red = fail(&SMALL.replace("delay =", "queue = \"red\"\nlimit = \"7p\"\ndelay ="), &[]);
    assert!(
        red.contains("(`limit` is a key of `queue`: queue = { kind = \"red\", limit = \"7p\" })"),
        "{red}"
    );
    let list = fail(&SMALL.replace("[links.l]", "[[links]]\nname = \"fast\""), &[]);
    assert!(
        list.contains("expected tables, found a list") && list.contains("write [links.fast], not [[links]]"),
        "{list}"
    );
    let flows = fail(&SMALL.replace("[flows.t]", "[[flows]]").replace("[flows.u]", "[[flows]]"), &[]);
    assert!(flows.contains("write [flows.NAME], not [[flows]]"), "{flows}");
    let axis = format!("{SMALL}[axes.x]\ntitle = \"X\"\npath = \"seed\"\nvalues = [1]\n");
    let axis = Document::from_text("test.toml", &axis).unwrap().experiment().unwrap_err().to_string();
    assert!(axis.contains("axes.x.title: unknown key `title` (did you mean `label`?)"), "{axis}");
}

#[test]
fn a_value_that_stands_for_its_table_is_written_out() {
    for (set, said) in [
        ("links.l.loss=0.01", "(loss = { kind = \"random\", probability = 0.01 })"),
        (
            "links.l.reverse.loss=1",
            "links.l.reverse.loss: expected a name in quotes, or a table with a `kind`, found an integer (loss =",
        ),
        ("links.l.reorder=0.5", "reorder = { probability = 0.5, delay = "),
        ("links.l.jitter=3ms", "(jitter = { kind = \"uniform\", most = \"3ms\" })"),
        ("links.l.queue=100p", "(queue = { kind = \"droptail\", limit = \"100p\" })"),
        ("links.l.loss=randm", "did you mean `random`?"),
        (
            "links.l.cost=5000000000",
            "5000000000 is out of range: expected a whole number from 1 to 4294967295",
        ),
        ("links.l.cost=-1", "expected a whole number from 1 to 4294967295"),
    ] {
        let message = fail(SMALL, &[set]);
        assert!(message.contains(said), "{set}: {message}");
    }
}

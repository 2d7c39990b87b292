//! Traces of whole runs, read back by other hands: pcap-file's reader, and tshark where it is installed.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::Command;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use tidegate_engine::{
    ApplicationSpec, DirectionSpec, DomainSpec, FlowSpec, LinkId, LinkSpec, Network, NodeId, NodeKind,
    NodeSpec, StartSpec, Statistics, TransportSpec,
};
use tidegate_mechanism::edge::EdgeConfig;
use tidegate_mechanism::edge::nbp::wire;
use tidegate_mechanism::queue::{DropTailConfig, ManagerConfig, RedConfig};
use tidegate_mechanism::schedule::DisciplineConfig;
use tidegate_mechanism::tcp::{TcpConfig, Variant};
use tidegate_packet::{Address, DropReason, Dscp, Ecn, Headers, MarkReason, Protocol};
use tidegate_record::{Capture, PcapTrace};
use tidegate_units::{Limit, Span, Time};

const BOTTLENECK: LinkId = LinkId::of(0, false);

fn direction(rate: &str, delay: &str, queue: ManagerConfig) -> DirectionSpec {
    let (rate, delay) = (rate.parse().unwrap(), delay.parse().unwrap());
    DirectionSpec {
        rate,
        delay,
        queue: DisciplineConfig::Fifo(queue),
        loss: None,
        device: None,
        reorder: None,
        duplicate: 0.0,
        jitter: None,
        circuit: None,
        trace: None,
    }
}

fn flow(name: &str, from: u32, to: u32, v6: bool, transport: TransportSpec, port: u16) -> FlowSpec {
    let address = |node: u32| {
        if v6 {
            Address::V6(Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(node + 1)).octets())
        } else {
            Address::V4(Ipv4Addr::from(0x0a00_0001 + node).octets())
        }
    };
    let (protocol, application) = match transport {
        TransportSpec::Tcp(_) => (Protocol::TCP, ApplicationSpec::Bulk),
        TransportSpec::Media(_) => (Protocol::UDP, ApplicationSpec::Bulk),
        TransportSpec::Udp { .. } => {
            let rate = "300kbit".parse().unwrap();
            (Protocol::UDP, ApplicationSpec::ConstantRate { rate, packet_bytes: 501, jitter: 0.0 })
        }
        TransportSpec::External => unreachable!("this network has no such flows"),
    };
    FlowSpec {
        name: name.into(),
        from: NodeId(from),
        to: vec![NodeId(to)],
        transport,
        application,
        start: StartSpec::At(Time::ZERO),
        stop: None,
        dscp: Dscp::BEST_EFFORT,
        class: 0,
        headers: Headers {
            source: address(from),
            destination: address(to),
            flow_label: if v6 { u32::from(port) } else { 0 },
            protocol,
            source_port: port,
            destination_port: 5001,
            dscp: Dscp::BEST_EFFORT,
            ecn: Ecn::NotEct,
        },
    }
}

/// Two hosts at each end of a bottleneck with RED: three kinds of TCP and one UDP flow. With `edges`, its routers (and
/// a third, idle one if there are three) patrol their border.
fn network(v6: bool, edges: &[u32]) -> Network {
    let drop_tail = || ManagerConfig::DropTail(DropTailConfig { limit: Limit::Packets(100) });
    let red = RedConfig { ecn: true, weight: 0.1, limit: Limit::Packets(20), ..RedConfig::default() };
    let mut network = Network::default();
    for (index, name) in ["west", "east", "north", "h1", "h2", "h3", "h4"].into_iter().enumerate() {
        let kind = if index < 3 { NodeKind::Router } else { NodeKind::Host };
        network.nodes.push(NodeSpec { name: name.into(), kind });
    }
    let bottleneck = direction("2Mbit", "10ms", ManagerConfig::Red(red));
    let links =
        [("bottleneck", 0, 1), ("h1", 3, 0), ("h2", 4, 0), ("h3", 1, 5), ("h4", 1, 6), ("idle", 0, 2)];
    for (name, from, to) in links {
        let access = direction("10Mbit", "1ms", drop_tail());
        let forward = if name == "bottleneck" { bottleneck.clone() } else { access.clone() };
        let ends = [NodeId(from), NodeId(to)];
        network.links.push(LinkSpec {
            name: name.into(),
            ends,
            forward,
            reverse: access,
            cost: 1,
            half_duplex: false,
        });
    }
    let tcp = |config| TransportSpec::Tcp(Box::new(config));
    let opening = TcpConfig { handshake: true, ..TcpConfig::modern(Variant::Sack) };
    let capable = TcpConfig { ecn: true, ..TcpConfig::modern(Variant::NewReno) };
    network.flows = vec![
        flow("opening", 3, 5, v6, tcp(opening), 1001),
        flow("capable", 4, 6, v6, tcp(capable), 1002),
        flow("ns", 3, 6, v6, tcp(TcpConfig::ns_1999(Variant::Reno)), 1003),
        flow("datagrams", 4, 5, v6, TransportSpec::Udp { header_bytes: 28 }, 1004),
    ];
    if !edges.is_empty() {
        network.domains.push(DomainSpec {
            name: "isp".into(),
            edges: edges.iter().copied().map(NodeId).collect(),
            core: Vec::new(),
            mechanism: Some(EdgeConfig::Nbp(Box::default())),
            unpoliced: Vec::new(),
            control_loss: 0.0,
            clocks: Vec::new(),
            lies: Vec::new(),
            labels: None,
        });
    }
    network
}

fn run(network: Network, capture: Capture) -> (Vec<u8>, Statistics) {
    let mut trace = PcapTrace::new(Vec::new(), &network, capture).unwrap();
    let mut simulation = network.build(1, &mut trace).unwrap();
    assert!(simulation.run_until(Time::ZERO + Span::from_secs(5), u64::MAX));
    let statistics = simulation.statistics();
    drop(simulation);
    (trace.finish().unwrap(), statistics)
}

/// What a reader finds: how often what (the comment; empty for delivered packets) happened on which interface.
fn read(bytes: &[u8]) -> BTreeMap<(String, String), u64> {
    let mut reader = PcapNgReader::new(bytes).unwrap();
    let mut names = Vec::new();
    let mut counts = BTreeMap::new();
    let mut last = std::time::Duration::ZERO;
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                assert!(interface.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                assert_eq!(interface.linktype, pcap_file::DataLink::RAW);
                names.extend(interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                assert!(packet.timestamp >= last, "packets are in order of time");
                assert!(packet.original_len as usize >= packet.data.len());
                last = packet.timestamp;
                let comment = match &packet.options[..] {
                    [] => String::new(),
                    [EnhancedPacketOption::Comment(comment)] => comment.to_string(),
                    other => panic!("{other:?}"),
                };
                *counts.entry((names[packet.interface_id as usize].clone(), comment)).or_default() += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    counts
}

/// What the run's own counters say in the same form.
fn counted(names: &[&str], statistics: &Statistics) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for (index, link) in statistics.links.iter().enumerate() {
        let way = if index % 2 == 0 { "forward" } else { "reverse" };
        let interface = format!("links.{}.{way}", names[index / 2]);
        counts.insert((interface.clone(), String::new()), link.delivered_packets);
        for why in DropReason::ALL {
            counts.insert(
                (interface.clone(), format!("drop: {}", why.name())),
                link.drops_by_reason[why.index()],
            );
        }
        for why in MarkReason::ALL {
            counts.insert(
                (interface.clone(), format!("mark: {}", why.name())),
                link.marks_by_reason[why.index()],
            );
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

#[test]
fn a_trace_at_links_has_every_delivered_packet_and_one_of_fates_every_drop_and_mark() {
    for v6 in [false, true] {
        let (bytes, statistics) = run(network(v6, &[]), Capture::at_links());
        let (fates, _) = run(network(v6, &[]), Capture::fates());
        let mut expected = counted(&["bottleneck", "h1", "h2", "h3", "h4", "idle"], &statistics);
        let delivered = read(&bytes);
        let found = read(&fates);
        assert!(delivered.keys().all(|(_, comment)| comment.is_empty()));
        let has = |what: &str| found.keys().any(|(_, comment)| comment.starts_with(what));
        assert!(has("drop: ") && has("mark: early"), "the run shows what is to be shown: {found:?}");
        for (key, count) in delivered.into_iter().chain(found) {
            assert_eq!(expected.remove(&key), Some(count), "{key:?}");
        }
        assert!(expected.is_empty(), "{expected:?}");
    }
}

#[test]
fn a_trace_at_senders_has_what_they_sent_and_what_came_back() {
    let (bytes, statistics) = run(network(false, &[]), Capture::at_senders());
    let found = read(&bytes);
    let frames = |host: &str, flows: [usize; 2], access: u32| {
        let sent: u64 = flows.map(|flow| statistics.flows[2 * flow].sent_packets).iter().sum();
        let back = statistics.links[LinkId::of(access, true).0 as usize].delivered_packets;
        ((format!("hosts.{host}"), String::new()), sent + back)
    };
    let expected = BTreeMap::from([frames("h1", [0, 2], 1), frames("h2", [1, 3], 2)]);
    assert_eq!(found, expected);
    let host = run(network(false, &[]), Capture::at(vec![NodeId(3)], Vec::new())).0;
    assert_eq!(read(&host), BTreeMap::from([frames("h1", [0, 2], 1)]), "all of h1 is of its own flows");
}

#[test]
fn control_messages_carry_the_bytes_that_the_edges_exchange() {
    for (v6, header_bytes) in [(false, 20), (true, 40)] {
        let (bytes, _) = run(network(v6, &[0, 1, 2]), Capture::at_links());
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut seen = 0;
        while let Some(block) = reader.next_block() {
            let Some(packet) = block.unwrap().into_enhanced_packet() else { continue };
            let protocol = if v6 { packet.data[6] } else { packet.data[9] };
            if packet.options.is_empty() && matches!(protocol, 1 | 58) {
                wire::decode(&packet.data[header_bytes + 8..]).expect("what the wire format says");
                seen += 1;
            }
        }
        assert!(seen > 0);
    }
}

#[test]
fn a_trace_of_one_direction_has_that_direction_only() {
    let (bytes, statistics) = run(network(false, &[]), Capture::at(Vec::new(), vec![BOTTLENECK]));
    let mut expected = counted(&["bottleneck", "h1", "h2", "h3", "h4", "idle"], &statistics);
    expected.retain(|(interface, what), _| interface == "links.bottleneck.forward" && what.is_empty());
    assert_eq!(read(&bytes), expected);
}

#[test]
fn the_same_run_gives_the_same_trace() {
    for capture in [Capture::at_senders(), Capture::at_links(), Capture::fates()] {
        assert_eq!(run(network(false, &[0, 1]), capture.clone()).0, run(network(false, &[0, 1]), capture).0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_trace_meets_a_full_disk_goes_on_and_says_so() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let network = network(false, &[]);
    let mut trace = PcapTrace::new(full, &network, Capture::at_links()).unwrap();
    let mut simulation = network.build(1, &mut trace).unwrap();
    assert!(simulation.run_until(Time::ZERO + Span::from_secs(1), u64::MAX));
    drop(simulation);
    assert_eq!(trace.finish().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
}

// tshark.

/// A trace on the disk, removed after the test.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `fields` of the packets that `filter` selects, by tshark with all checksums verified; `None` if it is not
/// installed, which `CI` does not allow.
fn tshark(file: &File, filter: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file.0).args(["-Y", filter, "-T", "fields"]);
    for layer in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "tshark is not installed");
            eprintln!("skipped: tshark is not installed");
            return None;
        }
        Err(error) => panic!("tshark: {error}"),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// The trace of a run, with the name of the test that wants it.
fn traced(test: &str, network: Network, capture: Capture) -> (File, Statistics) {
    let (bytes, statistics) = run(network, capture);
    let path = std::env::temp_dir().join(format!("tidegate-{test}-{}.pcapng", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    (File(path), statistics)
}

#[test]
fn tshark_finds_nothing_malformed_and_no_wrong_checksum() {
    for (v6, edges) in [(false, &[][..]), (true, &[]), (false, &[0, 1]), (true, &[0, 1, 2])] {
        let (file, _) =
            traced(&format!("sound-{v6}-{}", edges.len()), network(v6, edges), Capture::at_links());
        let bad = "_ws.malformed or _ws.expert.severity == error or ip.bogus_ip_length or ip.checksum.status == \"Bad\" \
                   or tcp.checksum.status == \"Bad\" or udp.checksum.status == \"Bad\" \
                   or icmp.checksum.status == \"Bad\" or icmpv6.checksum.status == \"Bad\"";
        let Some(found) = tshark(&file, bad, &["frame.number", "_ws.expert.message"]) else { return };
        assert!(found.is_empty(), "v6 {v6}, edges {edges:?}: {:?}", &found[..found.len().min(5)]);
        let layer = if v6 { "ipv6" } else { "ip" };
        let good = format!("{layer} and tcp.checksum.status == \"Good\"");
        assert!(!tshark(&file, &good, &["frame.number"]).unwrap().is_empty(), "acknowledgments are verified");
    }
}

#[test]
fn tshark_shows_comments_and_interfaces() {
    let (file, statistics) = traced("comments", network(false, &[]), Capture::fates());
    let Some(comments) = tshark(&file, "frame.comment", &["frame.interface_name", "frame.comment"]) else {
        return;
    };
    let link = &statistics.links[BOTTLENECK.0 as usize];
    let count = |text: &str| comments.iter().filter(|line| line.ends_with(text)).count() as u64;
    assert!(
        comments.iter().all(|line| line.starts_with("links.bottleneck.forward\t")),
        "{:?}",
        comments.first()
    );
    assert_eq!(count("drop: early"), link.drops_by_reason[DropReason::Early.index()]);
    assert_eq!(count("mark: early"), link.marks_by_reason[MarkReason::Early.index()]);
    let marked = tshark(&file, "frame.comment contains \"mark\" and ip.dsfield.ecn != 3", &["frame.number"]);
    assert!(marked.unwrap().is_empty(), "what is marked carries the mark");
}

#[test]
fn tshark_counts_what_the_connections_count() {
    for v6 in [false, true] {
        let (file, statistics) = traced(&format!("followed-{v6}"), network(v6, &[]), Capture::at_senders());
        let doubts = "tcp.analysis.lost_segment or tcp.analysis.ack_lost_segment or tcp.analysis.zero_window \
                      or tcp.analysis.window_full";
        let Some(found) = tshark(&file, doubts, &["frame.number", "_ws.expert.message"]) else { return };
        assert!(found.is_empty(), "{:?}", &found[..found.len().min(5)]);
        for (flow, port) in [(0, 1001), (1, 1002), (2, 1003)] {
            let connection = statistics.connections[flow].unwrap();
            let count = |filter: String| tshark(&file, &filter, &["frame.number"]).unwrap().len() as u64;
            // "Spurious" and "fast" ones are retransmissions as well, in `tcp.analysis.retransmission`; what tshark takes for out
            // of order, since it came soon after a gap, is one too: a sender has no other reason to go back.
            let again = format!(
                "tcp.srcport == {port} and (tcp.analysis.retransmission or tcp.analysis.out_of_order)"
            );
            assert_eq!(count(again), connection.sender.retransmissions, "flow {flow}, v6 {v6}");
            let data = format!("tcp.srcport == {port} and tcp.len > 0");
            let lengths = tshark(&file, &data, &["tcp.len"]).unwrap();
            let bytes: u64 = lengths.iter().map(|length| length.parse::<u64>().unwrap()).sum();
            assert_eq!(bytes, connection.sender.sent_bytes, "flow {flow}, v6 {v6}");
            let duplicates = format!("tcp.dstport == {port} and tcp.analysis.duplicate_ack");
            assert_eq!(count(duplicates), connection.sender.duplicate_acks, "flow {flow}, v6 {v6}");
        }
        let total: u64 = [0, 1, 2]
            .map(|flow: usize| statistics.connections[flow].unwrap().sender.retransmissions)
            .iter()
            .sum();
        assert!(total > 10, "only {total} retransmissions to count");
        let syn = tshark(&file, "tcp.flags.syn == 1", &["tcp.options.mss_val", "tcp.options.wscale.shift"])
            .unwrap();
        assert_eq!(syn, ["1460\t7", "1460\t7"], "SYN and its answer");
        if !v6 {
            let of = |filter: &str| tshark(&file, filter, &["ip.id"]).unwrap();
            let mut ids = of("udp");
            let frames = ids.len();
            ids.sort();
            ids.dedup();
            // Of as many numbers of 16 bits as there are frames, so many are expected to be equal to another.
            assert!(frames - ids.len() <= 3 + frames * frames / (1 << 16), "{} of {frames}", ids.len());
        }
    }
}

#[test]
fn tshark_shows_control_messages_as_icmp_between_edges() {
    let (file, statistics) =
        traced("control", network(false, &[0, 1]), Capture::at(Vec::new(), vec![BOTTLENECK]));
    let fields = ["icmp.type", "ip.src", "ip.dst", "ip.dsfield.dscp", "frame.len"];
    let Some(found) = tshark(&file, "icmp", &fields) else { return };
    let between_edges = "253\t198.18.0.1\t198.18.0.2\t48\t";
    let bytes = |line: &String| line.strip_prefix(between_edges).expect(line).parse::<u64>().unwrap();
    let bytes_seen: u64 = found.iter().map(bytes).sum();
    assert!(bytes_seen > 0);
    assert_eq!(bytes_seen, statistics.links[BOTTLENECK.0 as usize].control_bytes);
}

//! Parity of the two worlds: what the emulator decided about packets that came at any instants, handled as late as may be,
//! the simulator decides again from the recording. Every discipline and every edge mechanism there is goes through this.

use tidegate_emulator::replay::{ReplayError, replay};
use tidegate_emulator::{Emulation, Setup};
use tidegate_mechanism::random::{Seed, Substream};
use tidegate_scenario::{Document, list_mechanisms};
use tidegate_units::{Span, Time};
use tidegate_wire::recording::{Configuration, Reader, Record, Writer};

/// A queue of this kind, with what it cannot do without.
fn queue_of(kind: &str) -> String {
    match kind {
        "cbq" => "{ kind = \"cbq\", classes = [{ name = \"all\", share = 0.9 }, { name = \"half\", parent = \"all\", share = 0.5 }, \
                  { name = \"rest\", parent = \"all\", share = 0.4, match = [0] }] }"
            .to_owned(),
        _ => format!("{{ kind = \"{kind}\" }}"),
    }
}

/// A marker of this kind on all flows, with what it cannot do without.
fn marker_of(kind: &str) -> String {
    let own = match kind {
        "profile" => "rate = \"1Mbit\", beyond = \"drop\"",
        "srtcm" => {
            // Not aware: what real hosts send without a codepoint is red, and would be dropped all of it.
            "committed_rate = \"1Mbit\", committed_burst = \"3kB\", excess_burst = \"6kB\", aware = false, drop_red = true"
        }
        "trtcm" => {
            "committed_rate = \"1Mbit\", committed_burst = \"3kB\", peak_rate = \"2Mbit\", peak_burst = \"3kB\""
        }
        "pme" => "target = \"1Mbit\"",
        "account" => "price = 0.5",
        _ => panic!("a marker of a new kind, {kind}, needs a line here"),
    };
    format!("{{ kind = \"{kind}\", {own} }}")
}

/// Two real hosts and a simulated TCP and UDP flow, all through one narrow link between the edges of a domain.
fn scenario(queue: &str, mechanism: &str, marker: &str) -> Setup {
    let (queue_table, marker_table) = (queue_of(queue), marker_of(marker));
    // What asks nobody for a rate has to be told one.
    let told = if mechanism == "fixed" { r#", rate = "3Mbit""# } else { "" };
    let mechanism_table = format!(r#"{{ kind = "{mechanism}"{told} }}"#);
    let text = format!(
        r#"
        duration = "10s"
        nodes = {{ hosts = ["A", "B", "S", "D"], routers = ["I", "C", "E"], real = ["A", "B"] }}
        defaults.link = {{ rate = "20Mbit", delay = "1ms" }}
        links.a = {{ between = ["A", "I"] }}
        links.s = {{ between = ["S", "I"], duplicate = 0.05 }}
        links.narrow = {{ between = ["I", "C"], rate = "4Mbit", delay = "3ms", queue = {queue_table} }}
        links.c = {{ between = ["C", "E"], queue = {queue_table} }}
        links.b = {{ between = ["E", "B"], duplicate = 0.05 }}
        links.d = {{ between = ["E", "D"] }}
        flows.tcp = {{ from = "S", to = "D", transport = {{ kind = "tcp", ecn = true }} }}
        [flows.udp]
        from = "S"
        to = "D"
        transport = "udp"
        application = {{ kind = "poisson", rate = "1Mbit", packet = "500B" }}
        [domains.net]
        edges = ["I", "E"]
        core = ["C"]
        mechanism = {mechanism_table}
        labels = {{ kind = "csfq" }}
        [markers.edge]
        flows = ["*"]
        at = "I"
        mechanism = {marker_table}
        "#
    );
    let text: Vec<&str> = text.lines().map(str::trim_start).collect();
    let document = Document::from_text("parity.toml", &text.join("\n")).unwrap();
    Setup::new(document, &["links.b.delay=2ms".to_owned()], Some(5), 4)
        .unwrap_or_else(|why| panic!("{queue}, {mechanism}, {marker}: {why}"))
}

/// A UDP packet from A to B or back.
fn packet(from: u8, port: u16, payload: usize, ecn: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, from], [10, 0, 0, 3 - from], 64);
    builder.udp(port, 5001).write(&mut bytes, &vec![0; payload]).unwrap();
    // The checksum is then off by what was written; the network keeps it so.
    bytes[1] |= ecn;
    bytes
}

/// Emulates some seconds with bursts from both hosts, and a world that looks when it likes; the recording.
fn record(setup: Setup) -> Vec<u8> {
    let mut emulation = Emulation::start(setup, 300, 1500, Some(Vec::new())).unwrap();
    let mut random = Substream::new(Seed(9));
    let mut now = Time::ZERO;
    let mut out = 0;
    for _ in 0..4000 {
        now += Span::from_nanos(u64::from(random.below(1_500_000)));
        emulation.advance(now);
        for _ in 0..random.below(4) {
            let from = 1 + random.below(2) as u8;
            let bytes = packet(
                from,
                4000 + random.below(6) as u16,
                random.below(1400) as usize,
                random.below(4) as u8,
            );
            if let Some(room) = emulation.room() {
                room[..bytes.len()].copy_from_slice(&bytes);
            }
            now += Span::from_nanos(u64::from(random.below(20_000)));
            emulation.arrive(u32::from(from) - 1, bytes.len(), now);
        }
        while let Some(departure) = emulation.next_departure() {
            assert!(!emulation.packet(&departure).is_empty());
            emulation.release(departure);
            emulation.delivered(departure.due, now, true);
            out += 1;
        }
    }
    assert!(out > 500, "only {out} packets came through");
    let (_, _, recording) = emulation.finish(now);
    recording.unwrap().unwrap()
}

/// The recording with one record changed by `change`, which says whether it did.
fn changed(recording: &[u8], mut change: impl FnMut(&mut Record) -> bool) -> Vec<u8> {
    let (mut reader, configuration): (_, Configuration) = Reader::new(recording).unwrap();
    let mut writer = Writer::new(Vec::new(), &configuration);
    let mut is_changed = false;
    while let Some(mut record) = reader.read().unwrap() {
        if let Record::End(at) = record {
            assert!(is_changed, "there was nothing to change");
            return writer.finish(at).unwrap();
        }
        is_changed = is_changed || change(&mut record);
        writer.write(&record);
    }
    unreachable!("a recording has an end")
}

#[test]
fn every_queue_and_every_edge_replays_identically() {
    let kinds = |family: &str| -> Vec<String> {
        list_mechanisms().into_iter().filter(|doc| doc.family == family).map(|doc| doc.kind).collect()
    };
    let queues = kinds("queue");
    assert!(queues.len() >= 5 && !kinds("mechanism").is_empty());
    let queues = queues.iter().map(|queue| (queue.as_str(), "none".to_owned(), "pme".to_owned()));
    let edges = kinds("mechanism").into_iter().map(|mechanism| ("red", mechanism, "pme".to_owned()));
    let markers = kinds("marker").into_iter().map(|marker| ("red", "none".to_owned(), marker));
    let last_hops = ["bucket", "ecn"].map(|form| {
        (
            "red",
            format!("backpressure\", last_hop = \"{form}\", last_hop_queue = 3, rate_min = \"64kbit"),
            "pme".to_owned(),
        )
    });
    for (queue, mechanism, marker) in queues.chain(edges).chain(markers).chain(last_hops) {
        let replayed = replay(&record(scenario(queue, &mechanism, &marker))[..]);
        let replayed = replayed.unwrap_or_else(|why| panic!("{queue}, {mechanism}, {marker}: {why}"));
        assert!(
            replayed.arrivals > 2000 && replayed.verdicts > 8_000,
            "{queue}, {mechanism}, {marker}: {replayed:?}"
        );
    }
}

#[test]
fn what_follows_the_end_of_a_recording_is_noticed() {
    let mut recording = record(scenario("droptail", "none", "pme"));
    replay(&recording[..]).unwrap();
    recording.push(0);
    let why = replay(&recording[..]).unwrap_err().to_string();
    assert!(why.contains("something follows its end"), "{why}");
}

/// A packet that has `ttl` hops to go.
fn packet_with(ttl: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], ttl);
    builder.udp(4000, 5001).write(&mut bytes, &[0; 100]).unwrap();
    bytes
}

#[test]
fn an_answer_takes_as_long_as_the_packet_took_and_gives_its_buffer_back() {
    let text = "duration = \"10s\"\nnodes = { hosts = [\"A\", \"B\"], routers = [\"R\", \"Q\"], real = [\"A\", \"B\"] }\n\
        defaults.link = { rate = \"1Mbit\", delay = \"3ms\" }\nlinks.a = { between = [\"A\", \"R\"] }\n\
        links.m = { between = [\"R\", \"Q\"] }\nlinks.b = { between = [\"Q\", \"B\"] }";
    let setup = Setup::new(Document::from_text("chain.toml", text).unwrap(), &[], None, 4).unwrap();
    let mut emulation = Emulation::start(setup, 16, 1500, None::<Vec<u8>>).unwrap();
    let mut now = Time::ZERO;
    let mut answers = 0;
    // Four times as many as there are buffers: none may be lost.
    for round in 0..64 {
        let bytes = packet_with(1 + round % 2);
        emulation.room().unwrap()[..bytes.len()].copy_from_slice(&bytes);
        let sent = now;
        emulation.arrive(0, bytes.len(), sent);
        now += Span::from_millis(40);
        emulation.advance(now);
        while let Some(departure) = emulation.next_departure() {
            let packet = emulation.packet(&departure).to_vec();
            assert_eq!((departure.host, packet[9], packet[20]), (0, 1, 11), "ICMP to its sender");
            let way = departure.due.since(sent).as_millis_f64();
            // 128 bytes at 1 Mbit/s and 3 ms for each hop there, and as long back.
            let expected = 2.0 * 4.024 * f64::from(1 + round % 2);
            assert!((way - expected).abs() < 1e-6, "hop {}: {way} ms", 1 + round % 2);
            emulation.release(departure);
            answers += 1;
        }
    }
    assert_eq!((answers, emulation.counts.answers), (64, 64));
}

#[test]
fn a_link_that_follows_a_trace_replays_without_the_file() {
    let text = "duration = \"10s\"\nnodes = { hosts = [\"A\", \"B\"], real = [\"A\", \"B\"] }\n\
        links.l = { between = [\"A\", \"B\"], rate = { trace = \"no-such-file\" }, delay = \"3ms\", queue = \"red\" }";
    let mut document = Document::from_text("traced.toml", text).unwrap();
    assert!(Setup::new(document.clone(), &[], Some(5), 4).is_err());
    document.attach("no-such-file", "0\n2\n2\n2\n5\n9\n");
    let replayed = replay(&record(Setup::new(document, &[], Some(5), 4).unwrap())[..]).unwrap();
    assert!(replayed.arrivals > 2000 && replayed.verdicts > 4000, "{replayed:?}");
}

#[test]
fn a_recording_with_one_field_changed_fails() {
    let recording = record(scenario("red", "nbp", "pme"));
    replay(&recording[..]).unwrap();
    let mut skip = 700;
    let mut later = || {
        skip -= 1;
        skip == 0
    };
    let cases = [
        changed(&recording, |record| match record {
            Record::Arrival(_, arrival) if later() => {
                arrival.wire_bytes += 1;
                true
            }
            _ => false,
        }),
        changed(&recording, |record| match record {
            Record::Arrival(_, arrival) => {
                arrival.ttl -= 1;
                true
            }
            _ => false,
        }),
        changed(&recording, |record| match record {
            Record::Decision(decision) => {
                decision.at += Span::from_nanos(1);
                true
            }
            _ => false,
        }),
    ];
    for (number, changed) in cases.iter().enumerate() {
        assert!(matches!(replay(&changed[..]), Err(ReplayError::Differs(_))), "case {number}");
    }
}

#[test]
fn no_byte_of_a_recording_can_change_unnoticed() {
    let recording = record(scenario("droptail", "none", "profile"));
    let mut random = Substream::new(Seed(2));
    for _ in 0..12 {
        let mut damaged = recording.clone();
        let position = random.below(damaged.len() as u32) as usize;
        damaged[position] ^= 1 << random.below(8);
        assert!(replay(&damaged[..]).is_err(), "byte {position}");
    }
    assert!(replay(&recording[..recording.len() - 9]).is_err());
    assert!(replay(&b"TDG"[..]).is_err());
}

/// A TCP segment from A to B or back. A SYN announces a window scale of 7.
fn segment(from: u8, number: u32, ack: u32, payload: usize, is_syn: bool) -> Vec<u8> {
    let ports = if from == 1 { (1024, 5001) } else { (5001, 1024) };
    let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, from], [10, 0, 0, 3 - from], 64);
    let mut tcp = builder.tcp(ports.0, ports.1, number, 4000).ack(ack);
    if is_syn {
        tcp = tcp.syn().options(&[etherparse::TcpOptionElement::WindowScale(7)]).unwrap();
    }
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, &vec![0; payload]).unwrap();
    bytes
}

/// Flow `tcp` of the scenario is between real hosts: what they send from its port is that flow.
#[test]
fn tcp_rate_control_lowers_the_windows_of_real_hosts_and_replays() {
    let text = r#"
        duration = "20s"
        nodes = { hosts = ["A", "B"], routers = ["I", "C", "E"], real = ["A", "B"] }
        defaults.link = { rate = "20Mbit", delay = "2ms" }
        links.a = { between = ["A", "I"] }
        links.narrow = { between = ["I", "C"], rate = "2Mbit", delay = "5ms" }
        links.c = { between = ["C", "E"] }
        links.b = { between = ["E", "B"] }
        flows.tcp = { from = "A", to = "B", transport = "tcp" }
        domains.net = { edges = ["I", "E"], core = ["C"], mechanism = { kind = "iec", unpoliced = ["E"], tcp_rate = {} } }
        markers.edge = { flows = ["tcp"], at = "I", mechanism = { kind = "profile", rate = "50Mbit" } }
        "#;
    let text: Vec<&str> = text.lines().map(str::trim_start).collect();
    let document = Document::from_text("tcp_rate.toml", &text.join("\n")).unwrap();
    let setup = Setup::new(document, &[], Some(5), 4).unwrap();
    let mut emulation = Emulation::start(setup, 2000, 1500, Some(Vec::new())).unwrap();
    let send = |world: &mut Emulation<Vec<u8>>, bytes: &[u8], at: Time| {
        world.room().unwrap()[..bytes.len()].copy_from_slice(bytes);
        let from = u32::from(bytes[15]) - 1;
        world.arrive(from, bytes.len(), at);
    };
    // A sends 20 segments ahead of what was acknowledged; B acknowledges each that it gets.
    let (mut sent, mut acknowledged, mut now) = (0_u32, 0_u32, Time::ZERO);
    send(&mut emulation, &segment(1, 0, 0, 0, true), now);
    send(&mut emulation, &segment(2, 0, 1, 0, true), now);
    let (mut least, mut marked) = (u16::MAX, 0);
    while now < Time::from_nanos(12_000_000_000) {
        now += Span::from_nanos(1_000_000);
        emulation.advance(now);
        let mut acks = Vec::new();
        while let Some(departure) = emulation.next_departure() {
            let packet = emulation.packet(&departure).to_vec();
            let (host, due) = (departure.host, departure.due);
            emulation.release(departure);
            emulation.delivered(due, now, true);
            let (ip, tcp) = (
                etherparse::Ipv4HeaderSlice::from_slice(&packet).unwrap(),
                etherparse::TcpSlice::from_slice(&packet[20..]).unwrap(),
            );
            assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv4(ip.source(), ip.destination()).unwrap());
            if host == 1 && !tcp.syn() {
                marked += u32::from(ip.dcp().value() != 0);
                acks.push(segment(2, 1, tcp.sequence_number() + tcp.payload().len() as u32, 0, false));
            } else if host == 0 && !tcp.syn() {
                acknowledged = acknowledged.max(tcp.acknowledgment_number());
                least = least.min(tcp.window_size());
            }
        }
        for ack in &acks {
            send(&mut emulation, ack, now);
        }
        while sent < acknowledged + 20 * 1000 {
            send(&mut emulation, &segment(1, 1 + sent, 1, 1000, false), now);
            sent += 1000;
        }
    }
    // 2 Mb/s over 20 ms are five segments; the host offered 4000 << 7.
    assert!((4..=160).contains(&least), "{least}");
    assert!(marked > 1000, "the marker of the flow marks its packets: {marked}");
    let (outcome, _, recording) = emulation.finish(now);
    let summary: serde_json::Value = serde_json::from_str(&outcome.summary.to_json()).unwrap();
    let throughput = summary["flows"]["tcp"]["throughput_bps"].as_f64().unwrap();
    assert!((1.5e6..2e6).contains(&throughput), "what the hosts send is the flow: {throughput}");
    let replayed = replay(&recording.unwrap().unwrap()[..]).unwrap();
    assert!(replayed.verdicts > 10_000, "{replayed:?}");
}

/// The same network with back-pressure from edge to edge. A sends ahead of what was acknowledged, B answers each segment with data of
/// its own. What A saw, as echo, payload bytes, sequence number and acknowledgment of each segment.
fn last_hop(form: &str) -> Vec<(bool, u32, u32, u32)> {
    let text = format!(
        r#"
        duration = "20s"
        nodes = {{ hosts = ["A", "B"], routers = ["I", "C", "E"], real = ["A", "B"] }}
        defaults.link = {{ rate = "20Mbit", delay = "2ms" }}
        links.a = {{ between = ["A", "I"] }}
        links.narrow = {{ between = ["I", "C"], rate = "2Mbit", delay = "5ms" }}
        links.c = {{ between = ["C", "E"] }}
        links.b = {{ between = ["E", "B"] }}
        flows.tcp = {{ from = "A", to = "B", transport = "tcp" }}
        [domains.net]
        edges = ["I", "E"]
        core = ["C"]
        mechanism = {{ kind = "backpressure", last_hop = "{form}", last_hop_queue = 3 }}
        "#
    );
    let text: Vec<&str> = text.lines().map(str::trim_start).collect();
    let document = Document::from_text("last_hop.toml", &text.join("\n")).unwrap();
    let setup = Setup::new(document, &[], Some(5), 4).unwrap();
    let mut emulation = Emulation::start(setup, 100, 1500, Some(Vec::new())).unwrap();
    let send = |world: &mut Emulation<Vec<u8>>, mut bytes: Vec<u8>, at: Time| {
        bytes[1] |= 2; // ECT(0), which no checksum of a test looks at on the way in
        bytes[10..12].fill(0);
        let checksum =
            etherparse::Ipv4HeaderSlice::from_slice(&bytes).unwrap().to_header().calc_header_checksum();
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        world.room().unwrap()[..bytes.len()].copy_from_slice(&bytes);
        let from = u32::from(bytes[15]) - 1;
        world.arrive(from, bytes.len(), at);
    };
    let (mut sent, mut acknowledged, mut answered, mut now) = (0_u32, 1_u32, 1_u32, Time::ZERO);
    let mut seen = Vec::new();
    while now < Time::from_nanos(6_000_000_000) {
        now += Span::from_nanos(1_000_000);
        emulation.advance(now);
        let mut answers = Vec::new();
        while let Some(departure) = emulation.next_departure() {
            let packet = emulation.packet(&departure).to_vec();
            let (host, due) = (departure.host, departure.due);
            emulation.release(departure);
            emulation.delivered(due, now, true);
            let sliced = etherparse::SlicedPacket::from_ip(&packet).expect("lengths are right");
            let Some(etherparse::TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("no TCP") };
            let ip = etherparse::Ipv4HeaderSlice::from_slice(&packet).unwrap();
            assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
            assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv4(ip.source(), ip.destination()).unwrap());
            let payload = tcp.payload().len() as u32;
            if host == 1 {
                answers.push(segment(2, answered, tcp.sequence_number() + payload, 200, false));
                answered += 200;
            } else {
                acknowledged = acknowledged.max(tcp.acknowledgment_number());
                seen.push((tcp.ece(), payload, tcp.sequence_number(), tcp.acknowledgment_number()));
            }
        }
        for answer in answers {
            send(&mut emulation, answer, now);
        }
        while sent + 1 < acknowledged + 20 * 1000 && now < Time::from_nanos(4_000_000_000) {
            send(&mut emulation, segment(1, 1 + sent, 1, 1000, false), now);
            sent += 1000;
        }
    }
    assert!(sent > 500_000, "{sent}");
    assert_eq!(acknowledged, 1 + sent, "in the end all is acknowledged");
    assert_eq!(emulation.counts.unbuffered_packets, 0, "no buffer is lost");
    let (_, _, recording) = emulation.finish(now);
    let replayed = replay(&recording.unwrap().unwrap()[..]).unwrap();
    assert!(replayed.verdicts > 3_000, "{replayed:?}");
    seen
}

#[test]
fn acknowledgments_of_real_hosts_wait_at_the_last_hop_apart_from_their_data() {
    let passing = last_hop("none");
    assert!(passing.iter().all(|&(echo, payload, ..)| !echo && payload == 200));
    let seen = last_hop("bucket");
    let bare = seen.iter().filter(|(_, payload, ..)| *payload == 0).count();
    assert!(bare > 100, "{bare} of {}", seen.len());
    let (mut end, mut greatest) = (0, 0);
    for (_, payload, sequence, acknowledgment) in seen {
        assert!(
            payload > 0 || sequence == end,
            "a host takes nothing that waited for old: {sequence}, {end}"
        );
        assert!(
            acknowledgment >= greatest,
            "what was let out is not taken back: {acknowledgment}, {greatest}"
        );
        (end, greatest) = (end.max(sequence + payload), acknowledgment);
    }
}

#[test]
fn the_last_hop_echoes_on_acknowledgments_of_real_hosts() {
    let seen = last_hop("ecn");
    let echoes = seen.iter().filter(|(echo, ..)| *echo).count();
    assert!(echoes > 20 && echoes < seen.len(), "{echoes} of {}", seen.len());
    assert!(seen.iter().all(|&(_, payload, ..)| payload == 200));
}

/// Flows of real hosts that are several connections, or have data in both directions, are theirs altogether.
#[test]
fn nothing_of_what_real_hosts_send_over_several_connections_is_simulated() {
    let text = r#"
        duration = "10s"
        nodes = { hosts = ["A", "B", "S"], routers = ["R"], real = ["A", "B"] }
        defaults.link = { rate = "20Mbit", delay = "1ms" }
        links.a = { between = ["A", "R"] }
        links.b = { between = ["R", "B"] }
        links.s = { between = ["S", "R"] }
        [flows.browser]
        from = "A"
        to = "B"
        transport = { kind = "tcp", profile = "modern", handshake = true }
        application = { kind = "pages", objects = [{ size = "10kB" }, { size = "20kB", count = 8 }] }
        [flows.simulated]
        from = "S"
        to = "B"
        transport = { kind = "tcp", profile = "modern", handshake = true }
        application = { kind = "pages", objects = [{ size = "10kB" }, { size = "20kB", count = 8 }] }
    "#;
    let text: Vec<&str> = text.lines().map(str::trim_start).collect();
    let document = Document::from_text("pages.toml", &text.join("\n")).unwrap();
    let setup = Setup::new(document, &[], Some(5), 4).unwrap();
    let mut emulation = Emulation::start(setup, 300, 1500, Some(Vec::new())).unwrap();
    let end = Time::ZERO + Span::from_secs(3);
    emulation.advance(end);
    let (outcome, ..) = emulation.finish(end);
    let summary: serde_json::Value = serde_json::from_str(&outcome.summary.to_json()).unwrap();
    let arrived = |link: &str| summary["links"][link]["arrived_packets"].as_u64().unwrap();
    assert!(arrived("s") > 100, "{summary}");
    assert_eq!(arrived("a"), 0, "{summary}");
    assert_eq!(summary["links"]["a"]["reverse"]["arrived_packets"], 0, "{summary}");
    assert!(summary["flows"]["browser"].get("pages").is_none(), "{summary}");
    assert_eq!(summary["flows"]["simulated"]["pages"]["begun"], 1, "{summary}");
}

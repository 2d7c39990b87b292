use std::os::unix::fs::PermissionsExt as _;

use tidegate_mechanism::queue::ManagerConfig;

use super::*;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Two sites in 15 lines, as `docs/gateway.md` has it.
const TEXT: &str = r#"[gateway]
private_key_file = "/etc/tidegate/key"
address = ["10.9.0.1/24", "fd00:9::1/64"]
[sites.b]
public_key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
endpoint = "192.0.2.2:51820"
networks = ["10.2.0.0/24", "fd00:2::/64"]
rate = { floor = "2Mbit", max = "100Mbit", fallback = "8Mbit" }
"#;

fn errors(text: &str) -> String {
    read("gateway.toml", text).unwrap_err().to_string()
}

#[test]
fn two_sites_fit_in_15_lines() {
    assert!(TEXT.lines().count() <= 15);
    let plan = read("gateway.toml", TEXT).unwrap();
    let core = plan.core(&[1; 32], 5);
    let [site] = &core.sites[..] else { panic!("there is one") };
    assert_eq!(site.endpoint, Some(SocketAddr::from(([192, 0, 2, 2], 51820))));
    assert_eq!(site.id, site_id(&decode_key(KEY).unwrap()));
    assert_eq!((site.rate.max, site.networks.len()), (BitRate::from_mbps(100), 2));
    assert_eq!((core.address4, core.seed), (Some([10, 9, 0, 1].into()), 5));
    assert!(matches!(&site.control, Some(EdgeConfig::Path(path))
        if matches!(path.shaper.queue, DisciplineConfig::FqCodel(ref queue) if queue.flows.ways == 8) && path.initial_rate == Some(BitRate::from_mbps(8))));
    assert!(plan.is_closed, "nothing leaves in clear text unless somebody asks for it");
}

#[test]
fn what_is_said_of_one_rate_moves_the_others_where_they_are_not_said() {
    let rates = |table: &str| {
        let from = TEXT.find("rate = ").unwrap();
        let plan = read("gateway.toml", &format!("{}rate = {table}\n", &TEXT[..from])).unwrap();
        let rate = &plan.outline().sites[0].rate;
        [rate.floor, rate.fallback, rate.max].map(|rate| rate.as_bps() / 1000)
    };
    assert_eq!(rates("{}"), [1000, 2000, 10_000_000]);
    assert_eq!(rates("{ max = \"1500kbit\" }"), [1000, 1500, 1500]);
    assert_eq!(rates("{ max = \"500kbit\" }"), [500, 500, 500]);
    assert_eq!(rates("{ floor = \"5Mbit\" }"), [5000, 5000, 10_000_000]);
}

/// The text with this in place of that is refused, with this message.
fn is_refused((from, to, expected): (&str, &str, &str)) {
    let text = TEXT.replacen(from, to, 1);
    assert!(text != TEXT, "{from}");
    let said = errors(&text);
    assert!(said.contains(expected), "{said}\n{expected}");
}

#[test]
fn a_key_in_place_of_a_configuration_is_not_shown() {
    let file = std::env::temp_dir().join(format!("tidegate-key-{}", std::process::id()));
    fs::write(&file, format!("{KEY}\n")).unwrap();
    let said = open(&file).unwrap_err().to_string();
    fs::remove_file(&file).unwrap();
    assert!(said.contains("is a key, which is not shown") && !said.contains(&KEY[..8]), "{said}");
}

#[test]
fn files_without_an_end_are_not_read_to_it() {
    let said = text_of(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(said.contains("more than 4 MiB"), "{said}");
}

#[test]
fn names_that_logs_and_terminals_would_obey_are_refused() {
    for name in ["", "a\\nb", "a\\u001b[31mb", "a\\u202eb"] {
        is_refused(("[sites.b]", &format!("[sites.\"{name}\"]"), "is no name"));
    }
    let text = TEXT.replacen("[sites.b]", "[sites.\"Köln 2/b\"]", 1);
    assert!(read("gateway.toml", &text).is_ok(), "others are shown as they are");
}

#[test]
fn what_no_machine_or_site_can_have_is_refused() {
    let cases = [
        (
            "10.9.0.1/24",
            "10.9.0.0/24",
            "gateway.toml:3:11: gateway.address: 10.9.0.0/24 is a network, and no address in it",
        ),
        ("10.9.0.1/24", "10.9.0.255/24", "gateway.address: 10.9.0.255/24 is the broadcast of its network"),
        ("fd00:9::1/64", "10.9.0.1/16", "gateway.address: 10.9.0.1 is there twice (once)"),
        ("fd00:9::1/64", "fe80::1/64", "gateway.address: fe80::1/64 is no address of one machine"),
        (
            "[sites.b]",
            "listen = \"[ff02::1]:51820\"\n[sites.b]",
            "gateway.toml:4:10: gateway.listen: ff02::1 is no address of one machine",
        ),
        (
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "gateway.toml:5:14: sites.b.public_key: is nobody's: everybody could make a session with it",
        ),
        (
            "10.2.0.0/24",
            "127.0.0.0/24",
            "gateway.toml:7:12: sites.b.networks: 127.0.0.0/24 is this machine itself, which no site has",
        ),
        ("10.2.0.0/24", "239.1.0.0/16", "239.1.0.0/16 is of groups, which no site has"),
        ("10.2.0.0/24", "255.255.255.255/32", "is of all machines of a network, which no site has"),
        ("fd00:2::/64", "fe80::/64", "fe80::/64 is of one link, which no site has"),
        ("fd00:2::/64", "::ffff:a02:0/120", "of this machine alone, or addresses of IPv4, which no site has"),
    ];
    for case in cases {
        is_refused(case);
    }
    for whole in ["0.0.0.0/0", "::/0", "128.0.0.0/1", "224.0.0.0/3", "fd00::/8"] {
        let text = TEXT.replace("fd00:2::/64", whole);
        assert!(read("g", &text).is_ok(), "{whole} has more than what is special");
    }
}

#[test]
fn what_is_wrong_has_file_line_and_key_and_says_what_is_allowed() {
    let cases = [
        (
            "endpoint",
            "endpont",
            "gateway.toml:6:1: sites.b.endpont: unknown key `endpont` (did you mean `endpoint`?)",
        ),
        (
            "100Mbit",
            "1Mbit",
            "gateway.toml:8:18: sites.b.rate.floor: is more than `max` (floor <= fallback <= max)",
        ),
        (
            "8Mbit",
            "1Mbit",
            "gateway.toml:8:55: sites.b.rate.fallback: 1Mbit is not between `floor` and `max` (floor <= fallback <= max)",
        ),
        (
            "[sites.b]",
            "socket = \" \"\n[sites.b]",
            "gateway.toml:4:10: gateway.socket: names no file (like \"/run/tidegate/gateway.sock\")",
        ),
        (
            "[sites.b]",
            "listen = \"[::]:0\"\n[sites.b]",
            "gateway.toml:4:10: gateway.listen: has no port (one that other sites can know, like \"[::]:51820\")",
        ),
        (
            "floor = \"2Mbit\"",
            "floor = \"0bit\"",
            "gateway.toml:8:18: sites.b.rate.floor: a rate of zero moves nothing (like 1Mbit; to stop what goes to a site, take its table away)",
        ),
        (
            "10.9.0.1/24",
            "224.0.0.1/24",
            "gateway.toml:3:11: gateway.address: 224.0.0.1/24 is no address of one machine",
        ),
        (
            "fd00:2::/64",
            "10.2.0.0/24",
            "gateway.toml:7:12: sites.b.networks: 10.2.0.0/24 is there twice (once)",
        ),
        ("2.2:51820", "2.2", "gateway.toml:6:12: sites.b.endpoint: `192.0.2.2` has no port"),
        (
            "10.2.0.0/24",
            "10.2.0.0/40",
            "gateway.toml:7:12: sites.b.networks: `10.2.0.0/40` is no network (like \"10.2.0.0/24\")",
        ),
        (
            "10.2.0.0/24",
            "10.2.0.1/16",
            "gateway.toml:7:12: sites.b.networks: 10.2.0.1/16 is an address in a network, and no network \
             (\"10.2.0.0/16\" for the network, \"10.2.0.1/32\" for this host alone)",
        ),
        (
            "fd00:2::/64",
            "fd00:2::1/64",
            "(\"fd00:2::/64\" for the network, \"fd00:2::1/128\" for this host alone)",
        ),
        (
            "192.0.2.2:51820",
            "10.9.0.2:51820",
            "gateway.toml:6:12: sites.b.endpoint: 10.9.0.2 is in 10.9.0.0/24 of `gateway.address`",
        ),
        ("192.0.2.2:51820", "2001:db8::1", "(\"[2001:db8::1]:51820\")"),
        (
            "{ floor = \"2Mbit\", max = \"100Mbit\", fallback = \"8Mbit\" }",
            "\"30Mbit\"",
            "gateway.toml:8:8: sites.b.rate: is a table of `floor`, `max` and `fallback`, and no rate alone \
             (like { max = \"30Mbit\" }, or { floor = \"1Mbit\", max = \"30Mbit\", fallback = \"2Mbit\" })",
        ),
        ("2.2:51820", "2.2:0", "gateway.toml:6:12: sites.b.endpoint: `192.0.2.2:0` has no port"),
        ("fd00:2::/64", "10.9.0.1/32", "sites.b.networks: 10.9.0.1/32 is an address of this gateway itself"),
        (
            "AAEC",
            "AA",
            "gateway.toml:5:14: sites.b.public_key: is no key (44 characters, as `tidegatectl keygen` shows them)",
        ),
    ];
    for case in cases {
        is_refused(case);
    }
    assert!(
        errors(&format!("{TEXT}[status]\nlisten = '0.0.0.0:9586'\n"))
            .contains("status.listen: is seen from elsewhere")
    );
    assert!(
        errors(&format!("{TEXT}[status]\nlisten = '127.0.0.1:0'\n")).contains("status.listen: has no port")
    );
    assert!(errors(&format!("{TEXT}via = 'c'\n")).contains("sites.b.via: there is no site `c` (allowed: b)"));
    assert!(errors(&format!("{TEXT}control = 'iecc'\n")).contains("did you mean `iec`?"));
    assert!(errors("[gateway]\nprivate_key_file = 'k'\n").contains("there is no site to go to"));
}

#[test]
fn sites_do_not_share_keys_or_networks() {
    let twice = format!("{TEXT}[sites.c]\npublic_key = '{KEY}'\nnetworks = ['10.2.0.0/24']\n");
    let said = errors(&twice);
    assert!(said.contains("sites.c.public_key: is that of site `b` too"), "{said}");
    let blank = errors(&twice.replace(&format!("'{KEY}'"), &format!("' {KEY}'")));
    assert!(blank.contains("sites.c.public_key: is that of site `b` too"), "{blank}");
    assert!(said.contains("sites.c.networks: 10.2.0.0/24 is behind site `b` too"), "{said}");
}

#[test]
fn every_control_and_queue_can_be_chosen() {
    for control in ["'none'", "'path'", "'iec'", "'nbp'", "{ kind = 'fixed', rate = '5Mbit' }"] {
        for queue in ["'fq-codel'", "'codel'", "'droptail'", "{ kind = 'droptail', limit = '50kB' }"] {
            let plan = read("g", &format!("{TEXT}control = {control}\nqueue = {queue}\n")).unwrap();
            let control_read = &plan.core(&[1; 32], 0).sites[0].control;
            assert_eq!(control_read.is_none(), control == "'none'");
            if let Some(edge) = control_read {
                let is_droptail =
                    matches!(edge.shaper().queue, DisciplineConfig::Fifo(ManagerConfig::DropTail(_)));
                assert_eq!(is_droptail, queue.contains("droptail"), "{control} {queue}");
            }
        }
    }
}

#[test]
fn what_fits_no_class_is_less_urgent_than_what_is_called_urgent() {
    let text = format!(
        "{TEXT}[classes.voice]\npriority = 1\ndscp = [46]\nown_link = 46\n[classes.bulk]\npriority = 6\nports = [873]\n"
    );
    let core = read("g", &text).unwrap().core(&[1; 32], 0);
    let classes: Vec<_> = core.classes.iter().map(|class| (class.name.as_str(), class.class)).collect();
    assert_eq!(classes, [("voice", 1), ("bulk", 6), ("other", 4)]);
    assert_eq!(core.links().len(), 2);
    assert!(matches!(core.sites[0].control.as_ref().unwrap().shaper().queue, DisciplineConfig::Priority(_)));
    for (from, to) in [("priority = 6", "priority = 1"), ("priority = 1", "priority = 4")] {
        assert!(errors(&text.replace(from, to)).contains("classes."), "{to}");
    }
    assert!(errors(&text.replace("[46]", "[64]")).contains("64"));
}

#[test]
fn keys_that_others_may_read_are_refused() {
    let folder = std::env::temp_dir().join(format!("tidegate-keys-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("key");
    fs::write(&file, format!("{KEY}\n")).unwrap();
    let plan = read("g", &TEXT.replace("/etc/tidegate/key", file.to_str().unwrap())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let said = Keys::default().load(&plan).unwrap_err().to_string();
    assert!(said.contains("may be read by others (its mode is 640)") && said.contains("chmod 600"), "{said}");
    assert!(said.starts_with("g:2:20: gateway.private_key_file: "), "{said}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut keys = Keys::default();
    keys.load(&plan).unwrap();
    assert_eq!(keys.private(&plan).to_bytes()[..4], [0, 1, 2, 3]);
    assert!(keys.written_since(&plan).is_empty());
    // Another file with the same key is the same key.
    fs::remove_file(&file).unwrap();
    fs::write(&file, KEY).unwrap();
    assert!(keys.written_since(&plan).is_empty());
    fs::write(&file, KEY.replacen("AAEC", "AAEB", 1)).unwrap();
    assert_eq!(keys.written_since(&plan), [file.to_str().unwrap()]);
    let shared = format!(
        "{}preshared_key_file = \"/none\"\n",
        TEXT.replace("/etc/tidegate/key", file.to_str().unwrap())
    );
    let missing = keys.load(&read("g", &shared).unwrap()).unwrap_err().to_string();
    assert!(missing.starts_with("g:9:22: sites.b.preshared_key_file: /none cannot be read"), "{missing}");
    // Once read it is known, for later there are no rights to.
    fs::remove_dir_all(&folder).unwrap();
    keys.load(&plan).unwrap();
    assert!(Keys::default().load(&plan).unwrap_err().to_string().contains("tidegatectl keygen"));
}

#[test]
fn what_cannot_change_while_it_runs_is_told_by_key() {
    let plan = |text: &str| read("g", text).unwrap();
    let now = plan(TEXT);
    assert!(plan(&TEXT.replace("100Mbit", "50Mbit")).fixed_that_differ(&now).is_empty());
    let other = TEXT.replace("10.2.0.0/24", "10.3.0.0/24").replace("10.9.0.1", "10.9.0.7");
    assert_eq!(plan(&other).fixed_that_differ(&now), ["gateway.address", "sites.*.networks"]);
    let threads = |count: &str| TEXT.replacen("[gateway]\n", &format!("[gateway]\nthreads = {count}\n"), 1);
    assert_eq!((now.threads, plan(&threads("16")).threads), (1, 16));
    assert_eq!(plan(&threads("2")).fixed_that_differ(&now), ["gateway.threads"]);
    for wrong in ["0", "17", "1.5", "'two'", "-1"] {
        let said = errors(&threads(wrong));
        assert!(said.contains("gateway.toml:2:11: gateway.threads: "), "{wrong}: {said}");
    }
}

#[test]
fn memory_that_no_machine_gives_is_refused_before_it_is_taken() {
    let mut plan = read("g", &TEXT.replacen("[gateway]\n", "[gateway]\nbuffers = 64\n", 1)).unwrap();
    assert!(plan.require_memory().is_ok());
    // More than addresses of a process.
    plan.core.buffers = u32::MAX;
    let few = usize::try_from(crate::core::store::bytes_of(u32::MAX)).unwrap();
    if Vec::<u8>::new().try_reserve_exact(few).is_err() {
        let said = plan.require_memory().unwrap_err().to_string();
        assert!(said.starts_with("g:2:11: gateway.buffers: this machine does not give"), "{said}");
    }
}

#[test]
fn a_name_that_has_to_be_found_and_is_not_is_told_with_its_place() {
    let now = read("gateway.toml", TEXT).expect("it is right");
    let asked = |name: &str, must: bool| {
        let mut names = vec![None; now.peers.len()];
        names[0] = Some((name.to_owned(), must));
        now.require_names(&names, Span::from_secs(60))
    };
    let Named { found, unanswered } = asked("localhost:7", true).expect("every machine knows it");
    assert!(matches!(found.as_slice(), [(0, end)] if end.ip().is_loopback() && end.port() == 7), "{found:?}");
    assert!(unanswered.is_empty(), "{unanswered:?}");
    // Without a port it is no name of an end: no resolver is asked.
    assert_eq!(asked("localhost", false), Ok(Named::default()), "it may be unknown");
    let told = asked("localhost", true).expect_err("nobody knows it").render();
    assert!(told.contains("endpoint: no address of localhost is found"), "{told}");
    assert_eq!(
        now.require_names(&vec![None; now.peers.len()], Span::ZERO),
        Ok(Named::default()),
        "nobody is asked"
    );
}

#[test]
fn a_name_that_no_resolver_answers_for_in_time_is_neither_found_nor_unknown() {
    let now = read("gateway.toml", TEXT).expect("it is right");
    let in_no_time = |must| {
        let mut names = vec![None; now.peers.len()];
        names[0] = Some(("localhost:7".to_owned(), must));
        now.require_names(&names, Span::ZERO).expect("nobody has said that it is unknown")
    };
    assert_eq!(in_no_time(true), Named { found: vec![], unanswered: vec![0] });
    assert_eq!(in_no_time(false), Named::default());
}

#[test]
fn where_the_state_is_is_said_by_a_file_that_is_wrong_elsewhere() {
    let said = |text: &str| said_in(text, "state").map(str::to_owned);
    let there = Some("/srv/a.json".to_owned());
    assert_eq!(said("[gateway]\nprivate_key_file = \nstate = \"/srv/a.json\" # ours\nmtu = \"x"), there);
    assert_eq!(said("gateway.state = '/srv/a.json'\n[sites.b]\nnetworks = ["), there);
    assert_eq!(said("[ gateway ]\nstate=\"/srv/a.json\""), there);
    assert_eq!(said("[gateway]\nstate = \"\""), Some(String::new()));
    for none in [
        "",
        "[sites.b]\nstate = \"/x\"",
        "[gateway]\nstate = 7",
        "[gateway]\nstate = \"\"\"/x\"\"\"",
        "[gateway]\nstate = \"/\\u0078\"",
        "[gateway]\nstate = \"/x",
        "state = \"/x\"",
        "=",
        "[",
    ] {
        assert_eq!(said(none), None, "{none}");
    }
    let nowhere = Path::new("/nowhere/at/all");
    assert_eq!(state_of_wrong(nowhere), Some(PathBuf::from(DEFAULT_STATE)), "an unread one says nothing");
}

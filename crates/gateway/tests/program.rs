//! The command lines of the gateway, as people call them: what needs neither rights nor a network. Tests with real hosts
//! (`tests/system`) use the program that is compiled for these.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate-gateway");

/// A folder of its own, which is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-program-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What it says when it succeeds, or else why it does not; the other way says nothing then.
fn run(name: &str, arguments: &[&str]) -> Result<String, String> {
    let ended = Command::new(PROGRAM).arg0(name).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (said, why) = (text(ended.stdout), text(ended.stderr));
    match ended.status.code() {
        Some(0) => {
            assert_eq!(why, "");
            Ok(said)
        }
        Some(1) => {
            assert_eq!(said, "");
            Err(why)
        }
        other => panic!("{other:?}: {said}{why}"),
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_key_is_made_once_and_for_nobody_else() {
    let folder = Folder::new("key");
    let key = folder.0.join("key");
    let public = run("tidegatectl", &["keygen", shown(&key)]).unwrap();
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = fs::read_to_string(&key).unwrap();
    assert_eq!(run("tidegatectl", &["pubkey", shown(&key)]), Ok(public.clone()));
    assert_ne!(kept, public);
    let why = run("tidegatectl", &["keygen", shown(&key)]).unwrap_err();
    assert!(why.contains(shown(&key)) && why.contains("exists"), "{why}");
    assert_eq!(fs::read_to_string(&key).unwrap(), kept);
}

#[test]
fn a_file_is_right_or_what_is_wrong_is_said_with_its_place() {
    let folder = Folder::new("check");
    let key = folder.0.join("key");
    let own = run("tidegatectl", &["keygen", shown(&key)]).unwrap();
    let public = run("tidegatectl", &["keygen", shown(&folder.0.join("other"))]).unwrap();
    let text = format!(
        "[gateway]\nprivate_key_file = '{}'\naddress = ['10.9.0.1/24']\n[sites.b]\npublic_key = '{}'\nnetworks = ['10.2.0.0/24']\n",
        key.display(),
        public.trim(),
    );
    let file = folder.0.join("gateway.toml");
    let check = |as_written: &str| {
        fs::write(&file, as_written).unwrap();
        run("tidegate-gateway", &["check", shown(&file)])
    };
    assert!(check(&text).unwrap().ends_with("is right: 1 site (b)\n"));
    for flag in ["-c", "--config"] {
        let said = run("tidegate-gateway", &["check", flag, shown(&file)]);
        assert!(said.unwrap().ends_with("is right: 1 site (b)\n"), "{flag}");
    }
    let swapped = check(&text.replace(public.trim(), own.trim())).unwrap_err();
    assert!(swapped.contains("sites.b.public_key") && swapped.contains("this gateway itself"), "{swapped}");
    let many = check(&text.replacen("[gateway]\n", "[gateway]\nthreads = 16\n", 1)).unwrap();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(many.contains("16 threads are more than"), processors < 16, "{many}");
    let why = check(&text.replace("networks", "networs")).unwrap_err();
    let expected = ["unknown key `networs`", "gateway.toml:6:1\n", "did you mean `networks`?"];
    assert!(expected.iter().all(|part| why.contains(part)), "{why}");
    let missing = run("tidegate-gateway", &["check", "/nowhere/gateway.toml"]).unwrap_err();
    assert!(missing.contains("/nowhere/gateway.toml"), "{missing}");
}

#[test]
fn what_the_overview_lists_is_explained() {
    let overview = run("tidegate-gateway", &["explain"]).unwrap();
    let listed = overview.split_once("Ask for a table or a key").unwrap().1.lines().skip(1);
    let names: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 10, "{overview}");
    // Each call makes all tables; some tell as much as all.
    for name in names.into_iter().step_by(8) {
        let asked = name.split_once('/').map_or(name, |(_, kind)| kind);
        let said = run("tidegate-gateway", &["explain", asked]).unwrap();
        assert!(said.lines().count() > 1, "{name}: {said}");
    }
    let help = run("tidegate-gateway", &["explain", "path.targt"]).unwrap_err();
    assert!(help.contains("did you mean `target`?"), "{help}");
}

/// Who does not read on wants no more; a disk that is full is said.
#[test]
fn an_output_that_nobody_reads_is_no_failure_and_one_that_cannot_be_written_is_said() {
    let folder = Folder::new("output");
    let socket = folder.0.join("socket");
    let daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let answers = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = daemon.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(b"{\"sites\": []}\n").unwrap();
        }
    });
    let asked = ["--socket", shown(&socket), "status", "--json"];
    let explained: [(&str, &[&str]); 3] = [
        ("tidegate-gateway", &["explain"]),
        ("tidegatectl", &asked),
        ("tidegatectl", &["completion", "bash"]),
    ];
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (name, arguments) in explained {
        let shown_to = |out: Stdio| {
            let ended = Command::new(PROGRAM).arg0(name).args(arguments).stdout(out).output().unwrap();
            (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(shown_to(writer.into()), (Some(0), String::new()), "{arguments:?}");
        let (code, said) = shown_to(full().into());
        assert!(code == Some(1) && said.contains("the output cannot be written"), "{arguments:?}: {said}");
    }
    answers.join().unwrap();
    // A log that cannot be written: what it would have said is in its exit code, and nothing is broken.
    let mut command = Command::new(PROGRAM);
    command.arg0("tidegate-gateway").args(["run", "/nowhere/gateway.toml"]);
    assert_eq!(command.stderr(full()).status().unwrap().code(), Some(1));
}

#[test]
fn whatever_answers_is_shown_in_bounds_and_terminals_obey_none_of_it() {
    let folder = Folder::new("answers");
    let socket = folder.0.join("socket");
    let daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let long = format!("{{\"sites\": [{{\"name\": \"\\u001b[2Jb{}\"}}]}}\n", "x".repeat(70_000));
    let answers = std::thread::spawn(move || {
        for answer in [long.as_str(), ""] {
            let (mut stream, _) = daemon.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let status = || run("tidegatectl", &["--socket", shown(&socket), "status"]);
    let table = status().unwrap();
    assert!(table.contains("[2Jb") && !table.contains('\x1b') && table.len() < 1000, "{table:?}");
    assert!(status().unwrap_err().contains("has ended before it answered"));
    answers.join().unwrap();
}

#[test]
fn who_asks_a_daemon_that_does_not_run_is_told_so() {
    let folder = Folder::new("socket");
    let socket = folder.0.join("socket");
    for command in ["status", "reload", "drain"] {
        let why = run("tidegatectl", &["--socket", shown(&socket), command]).unwrap_err();
        assert!(why.contains("does the daemon run?") && why.contains(shown(&socket)), "{command}: {why}");
    }
}

#[test]
fn the_name_by_which_it_is_called_says_which_program_it_is() {
    let folder = Folder::new("name");
    let link = folder.0.join("tidegatectl");
    symlink(PROGRAM, &link).unwrap();
    let help = Command::new(&link).arg("--help").output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("Talks to a running tidegate-gateway"));
    for (name, shell) in [("tidegate-gateway", "bash"), ("tidegatectl", "zsh"), ("tidegatectl", "fish")] {
        assert!(run(name, &["completion", shell]).unwrap().contains(name), "{name} {shell}");
    }
}

#[test]
fn what_is_no_recording_is_said_and_who_is_not_recorded_leaves_no_file() {
    let folder = Folder::new("recording");
    let file = folder.0.join("site.tgr");
    let replay = || run("tidegate-gateway", &["replay", shown(&file)]).unwrap_err();
    assert!(replay().contains("No such file"));
    fs::write(&file, "hello").unwrap();
    assert!(replay().contains("no recording of `tidegatectl record`"));
    fs::write(&file, "TDGTREC\n and more").unwrap();
    assert!(replay().contains("`tidegate replay` replays it"));
    let nobody = folder.0.join("socket");
    let new = folder.0.join("new.tgr");
    let why = run("tidegatectl", &["--socket", shown(&nobody), "record", "-o", shown(&new)]).unwrap_err();
    assert!(why.contains("does the daemon run?") && !new.exists(), "{why}");
}

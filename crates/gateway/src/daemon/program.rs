//! The command lines: `tidegate-gateway` and `tidegatectl`, which are one program under two names.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::{Shell, generate};
use ipnet::IpNet;

use super::client::{ask, connect, measure, table};
use super::config::{self, DEFAULT_FILE, decode_key, encode_key};
use super::log::{Level, say, show};
use super::notes::notes;
use super::state::{self, made_before};
use super::{DEFAULT_SOCKET, explain, parity, routes, run};
use crate::tunnel::wireguard::PrivateKey;

#[derive(Parser)]
#[command(
    name = "tidegate-gateway",
    version,
    about = "Joins sites over networks that nobody owns, and holds the queue here"
)]
struct Gateway {
    #[command(subcommand)]
    command: GatewayCommand,
}

/// The configuration: the first word behind the command, or, as many other programs have it, what follows `-c`.
#[derive(Args)]
struct Named {
    /// The configuration.
    #[arg(default_value = DEFAULT_FILE)]
    file: PathBuf,
    /// The same, for who is used to it.
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

impl Named {
    fn file(self) -> PathBuf {
        self.config.unwrap_or(self.file)
    }
}

#[derive(Subcommand)]
enum GatewayCommand {
    /// Run until a signal ends it.
    Run {
        #[command(flatten)]
        named: Named,
        /// Record what it does into this new file, for `tidegate-gateway replay`.
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        /// Which sites: all that are on one thread with this one. Needed where sites are on several threads.
        #[arg(long, value_name = "NAME", requires = "record")]
        site: Option<String>,
    },
    /// Say whether a configuration is right, and change nothing.
    Check {
        #[command(flatten)]
        named: Named,
    },
    /// Let what was recorded happen once more, and compare every verdict.
    Replay {
        /// The recording.
        file: PathBuf,
        /// Print JSON with stable keys.
        #[arg(long)]
        json: bool,
    },
    /// Say what a key of the configuration means, like sites.rate.floor or path.target; without one, what there is.
    Explain {
        /// The key.
        key: Option<String>,
    },
    /// Print what makes a shell complete these commands.
    Completion {
        /// Which.
        shell: Shell,
    },
    /// Drop packets for other sites from now on, before the daemon runs: for the start of a machine.
    Close {
        #[command(flatten)]
        named: Named,
    },
    /// Take the routes away that drop packets for other sites while the daemon does not run.
    Open {
        #[command(flatten)]
        named: Named,
    },
}

#[derive(Parser)]
#[command(name = "tidegatectl", version, about = "Talks to a running tidegate-gateway")]
struct Control {
    /// Where the daemon listens.
    #[arg(long, global = true, default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    #[command(subcommand)]
    command: ControlCommand,
}

#[derive(Subcommand)]
enum ControlCommand {
    /// Show all sites.
    ///
    /// rate: at which packets may leave, on the wire; arrives: at which they arrive there, as that end last reported; round trip: between the
    /// gateways; excess: how long the queue of the path is above its least; waits: what is held here; dropped: packets, here, since the start
    /// or the last reload; at: from where the site spoke last.
    Status {
        /// Print JSON with stable keys.
        #[arg(long)]
        json: bool,
    },
    /// Show all sites again and again.
    Watch,
    /// Look for some seconds, and say what rates and delays were.
    Measure {
        /// How long.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
        /// Print JSON with stable keys.
        #[arg(long)]
        json: bool,
    },
    /// Make a key, and show the part that others are told.
    Keygen {
        /// Where to keep it; it must not be there yet.
        file: PathBuf,
    },
    /// Show the part of a key that others are told.
    Pubkey {
        /// Where it is kept.
        file: PathBuf,
    },
    /// Read the configuration again; if it is wrong, nothing changes.
    Reload,
    /// Say goodbye to all sites; what hosts send from then on is dropped.
    Drain,
    /// Record what the daemon decides, and about what, until the time is over or Ctrl-C. Another core begins for it, as by a reload.
    Record {
        /// Where to; it must not be there yet.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Which sites: all that are on one thread with this one. Needed where sites are on several threads.
        #[arg(long, value_name = "NAME")]
        site: Option<String>,
        /// For how long.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: Option<u32>,
        /// Write over what is there.
        #[arg(long)]
        force: bool,
    },
    /// Print what makes a shell complete these commands.
    Completion {
        /// Which.
        shell: Shell,
    },
}

/// Runs the program whose name and arguments these are: its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_control = arguments
        .first()
        .and_then(|name| Path::new(name).file_name())
        .is_some_and(|name| name.to_string_lossy().starts_with("tidegatectl"));
    let outcome = if is_control {
        control(Control::parse_from(arguments)).map(|()| 0)
    } else {
        gateway(Gateway::parse_from(arguments))
    };
    match outcome {
        Ok(code) => code,
        Err(why) => {
            if is_control {
                let _ = io::stderr().write_all(ended(&why).as_bytes());
            } else {
                say(Level::Error, why.trim_end());
            }
            1
        }
    }
}

fn ended(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

fn gateway(cli: Gateway) -> Result<u8, String> {
    match cli.command {
        GatewayCommand::Run { named, record, site } => {
            run::run(&named.file(), record.as_deref().map(|path| (path, site.as_deref())))?;
        }
        GatewayCommand::Replay { file, json } => return parity::replay(&file, json),
        GatewayCommand::Check { named } => {
            let file = named.file();
            let plan = run::check(&file)?;
            let sites = if plan.peers.len() == 1 { "site" } else { "sites" };
            let names = plan.names().join(", ");
            let mut said = format!("{} is right: {} {sites} ({names})\n", file.display(), plan.peers.len());
            for note in notes(&plan) {
                let _ = writeln!(said, "note: {note}");
            }
            show(&said)?;
        }
        GatewayCommand::Explain { key } => {
            show(&key.map_or_else(|| Ok(explain::overview()), |key| explain::explain(&key))?)?;
        }
        GatewayCommand::Completion { shell } => {
            complete(shell, &mut Gateway::command(), "tidegate-gateway")?;
        }
        GatewayCommand::Close { named } => close(&named.file())?,
        GatewayCommand::Open { named } => open(&named.file())?,
    }
    Ok(0)
}

fn listed(networks: &[IpNet]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Where the file at `path` is wrong, the networks that a daemon had before are closed, if they were.
fn close(path: &Path) -> Result<(), String> {
    let plan = super::config::open(path);
    let networks = match &plan {
        Ok(plan) if plan.is_closed => {
            run::may_close(plan).or_else(|why| {
                run::as_before(plan)?;
                Err(format!("{}\nno more is closed than was before", why.trim_end()))
            })?;
            let networks = plan.networks();
            state::note_closed(plan.state.as_deref(), &plan.user, &networks);
            routes::close(&networks).map(|()| networks)
        }
        Ok(_) => Ok(Vec::new()),
        Err(_) => state::close_as_before(config::state_of_wrong(path).as_deref()),
    };
    let networks = run::refused("routes", networks)?;
    let said = if networks.is_empty() {
        "nothing is closed: no network is known, or `fail.daemon_stops` is `open`\n".to_owned()
    } else {
        format!("closed until a daemon runs: {}\n", listed(&networks))
    };
    show(&said)?;
    plan.map(|_| ()).map_err(|why| format!("{}\nwhat a daemon had before counts", why.render().trim_end()))
}

/// And what an earlier file said, as far as a daemon has kept it.
fn open(path: &Path) -> Result<(), String> {
    let plan = super::config::open(path);
    let (socket, state, mut networks) = match &plan {
        Ok(plan) => (PathBuf::from(&plan.socket), plan.state.clone(), plan.networks()),
        Err(_) => (config::socket_of_wrong(path), config::state_of_wrong(path), Vec::new()),
    };
    if UnixStream::connect(&socket).is_ok() {
        return Err(
            "the daemon runs, and what is closed is closed for it: stop it first (`systemctl stop tidegate-gateway`)"
                .to_owned(),
        );
    }
    for network in made_before(state.as_deref()).networks {
        if !networks.contains(&network) {
            networks.push(network);
        }
    }
    let opened = run::refused("routes", routes::open(&networks))?;
    let mut said = if opened.is_empty() {
        format!("none of {} networks was closed\n", networks.len())
    } else {
        format!("open: {}\n", listed(&opened))
    };
    let left = run::refused("routes", routes::closed())?;
    if !left.is_empty() {
        let _ = writeln!(
            said,
            "note: {} stay closed, for another gateway, or for what a file said of which no state is left (`ip route del blackhole NETWORK`)",
            listed(&left)
        );
    }
    show(&said)?;
    plan.map(|_| ())
        .map_err(|why| format!("{}\nwhat a daemon had before was opened", why.render().trim_end()))
}

fn control(cli: Control) -> Result<(), String> {
    let ask = |command: &str| ask(&cli.socket, command);
    match cli.command {
        ControlCommand::Status { json: true } => show(&format!("{:#}\n", ask("status")?))?,
        ControlCommand::Status { json: false } => show(&table(&ask("status")?))?,
        ControlCommand::Watch => loop {
            let shown = format!("\x1b[2J\x1b[H{}", table(&ask("status")?));
            if io::stdout().write_all(shown.as_bytes()).and_then(|()| io::stdout().flush()).is_err() {
                return Ok(());
            }
            sleep(Duration::from_secs(1));
        },
        ControlCommand::Measure { seconds, json } => measure(&cli.socket, seconds, json)?,
        ControlCommand::Keygen { file } => {
            let key = PrivateKey::generate().map_err(|why| why.to_string())?;
            let refused = |why: io::Error| match why.kind() {
                io::ErrorKind::AlreadyExists => {
                    let name = file.display();
                    format!(
                        "{name} exists and is not replaced; `tidegatectl pubkey {name}` shows its public part"
                    )
                }
                io::ErrorKind::NotFound => {
                    format!("{}: its folder is not there; make it first (`mkdir`)", file.display())
                }
                _ => format!("{}: {why}", file.display()),
            };
            // Never over another one, and never readable for others.
            let mut kept =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).map_err(refused)?;
            let written = writeln!(kept, "{}", encode_key(&key.to_bytes())).and_then(|()| kept.sync_all());
            if written.is_err() {
                // A part of a key would keep the next one from its place.
                let _ = std::fs::remove_file(&file);
            }
            written.map_err(refused)?;
            show(&format!("{}\n", encode_key(&key.public())))?;
        }
        ControlCommand::Pubkey { file } => {
            let text = config::text_of(&file).map_err(|why| format!("{}: {why}", file.display()))?;
            let key = decode_key(&text).ok_or_else(|| format!("{}: is no key", file.display()))?;
            show(&format!("{}\n", encode_key(&PrivateKey::from(key).public())))?;
        }
        ControlCommand::Reload => {
            ask("reload")?;
        }
        ControlCommand::Drain => {
            ask("drain")?;
        }
        ControlCommand::Record { output, site, seconds, force } => {
            parity::record(connect(&cli.socket)?, &output, (site.as_deref(), seconds), force)?;
        }
        ControlCommand::Completion { shell } => {
            complete(shell, &mut Control::command(), "tidegatectl")?;
        }
    }
    Ok(())
}

/// Shows what a shell completes `command` by.
fn complete(shell: Shell, command: &mut clap::Command, name: &str) -> Result<(), String> {
    let mut out = Vec::new();
    generate(shell, command, name, &mut out);
    show(&String::from_utf8_lossy(&out))
}

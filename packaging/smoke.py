"""What an installed Tidegate must do: every command is tried, in an empty folder, as a stranger would.

    python packaging/smoke.py TIDEGATE [--prefix DIR] [--real]

TIDEGATE is the command. `--prefix` is where it was installed, to look for manual pages and licences;
`--real` demands that real hosts can be emulated (as root), which is tried anyway where it can be. It needs
nothing but the standard library, so that it runs outside of the environment that is looked at.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS_MAX = 300
EXPERIMENT = """
include = "mine.toml"
seeds = 2
axes.rate = { path = "links.shared.rate", values = ["5Mbit", "10Mbit"] }
variants.red = { set = { "links.shared.queue" = "codel" } }
[[figures]]
id = "used"
kind = "lines"
x = "rate"
y = "links.shared.utilization"
"""
# Without arguments of its own, each prints what it is about.
PLAIN = [
    ["--version"],
    ["--help"],
    ["schema"],
    ["explain", "red"],
    ["list", "mechanisms"],
    ["list", "plots"],
    ["list", "experiments"],
    ["reproduce", "--list"],
    ["tune"],
    ["design", "red", "--rate", "10Mbit", "--rtt", "60ms", "--flows", "8"],
    ["design", "blue", "--rate", "10Mbit", "--rtt", "60ms", "--flows", "8"],
    ["design", "ered", "--rate", "10Mbit", "--peak", "12Mbit"],
    ["design", "sfb", "--flows", "20", "--nonresponsive", "2", "--memory", "3kB"],
    ["completion", "bash"],
    ["demo", "gateway", "--help"],
    ["completion", "zsh"],
    ["completion", "fish"],
]
WORK = [
    ["new", "dumbbell", "--duration", "4s", "-o", "mine.toml"],
    ["validate", "mine.toml", "sweep.toml"],
    ["run", "mine.toml", "-o", "one", "--trace", "mine.pcapng"],
    ["export", "one", "-o", "one.csv"],
    ["plot", "one"],
    ["report", "one"],
    ["sweep", "sweep.toml", "-o", "many"],
    ["reproduce", "nbp/fig8", "--quick", "-o", "published"],
    ["suite", "aqm", "codel", "droptail", "--quick", "-o", "compared"],
]
LEFT = ["mine.pcapng", "one/result.json", "one.csv", "one/throughput.svg", "one/report.html"]
LEFT += ["many/result.json", "published/report.html", "compared/scorecard.html"]
# Nobody listens at the peer, whose system says so: a packet there and one back.
ASK = """
import os, socket
asked = socket.socket()
asked.settimeout(5)
try:
    asked.connect((os.environ["TIDEGATE_PEER"], 9))
except ConnectionRefusedError:
    raise SystemExit(0)
raise SystemExit("the peer does not answer as it should")
"""
REAL = ["emulate", "--rate", "10Mbit", "--record", "real.tgr", "--", sys.executable, "-c", ASK]


class Failed(Exception):
    """A command did not do what it should; the text says which and what it printed."""


class Tried:
    """Runs commands of one installation, and remembers which."""

    def __init__(self, command: str, folder: Path):
        self.command = command
        self.folder = folder
        self.names: set[str] = set()

    def run(self, arguments: list[str]) -> str:
        """What a command prints; `Failed` where it does not end well."""
        self.names.add(arguments[0])
        done = subprocess.run(
            [self.command, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            # Nothing of a checkout, and no terminal.
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            stdin=subprocess.DEVNULL,
        )
        shown = f"tidegate {' '.join(arguments)}"
        if done.returncode != 0 or not done.stdout.strip() + done.stderr.strip():
            raise Failed(f"{shown} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        print(f"ok  {shown}", flush=True)
        return done.stdout


def commands_of(text: str) -> list[str]:
    """The names below `Commands:` in what `--help` prints."""
    return re.findall(r"^  ([a-z]+) ", text.partition("\nCommands:\n")[2], re.MULTILINE)


def try_all(tried: Tried, prefix: Path | None, real: bool) -> None:
    """Everything, in order; `Failed` at the first thing that is wrong."""
    for arguments in PLAIN:
        tried.run(arguments)
    commands = commands_of(tried.run(["--help"]))
    for name in commands:
        told = tried.run([name, "--help"])
        for inner in commands_of(told):
            tried.run([name, inner, "--help"])
    (tried.folder / "sweep.toml").write_text(EXPERIMENT, encoding="utf-8")
    for arguments in WORK:
        tried.run(arguments)
    for name in LEFT:
        if not (tried.folder / name).is_file():
            raise Failed(f"{name} was not written")
    if can_be_real() or real:
        tried.run(REAL)
        tried.run(["replay", "real.tgr"])
    else:
        print("--  real hosts: not here (Linux, root, /dev/net/tun and ip are needed)")
    if untried := set(commands) - tried.names:
        raise Failed(f"not tried: {', '.join(sorted(untried))}")
    if prefix is not None:
        pages = sorted((prefix / "share" / "man" / "man1").glob("tidegate*.1*"))
        if len(pages) <= len(commands):
            raise Failed(f"{len(pages)} manual pages below {prefix / 'share' / 'man'}")
        licenses = prefix / "share" / "doc" / "tidegate" / "THIRD-PARTY-LICENSES"
        if not licenses.is_file():
            raise Failed(f"{licenses} is missing: what others wrote has licences of its own")
        print(f"ok  {len(pages)} manual pages")


def can_be_real() -> bool:
    """Whether real hosts can be made here."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return is_root and Path("/dev/net/tun").exists() and shutil.which("ip") is not None


def main() -> int:
    """The exit code: 0 if all is well."""
    parser = argparse.ArgumentParser(description="Try every command of an installed Tidegate.")
    parser.add_argument("command", help="the command `tidegate` to try")
    parser.add_argument(
        "--prefix", type=Path, help="where it was installed, to look for manual pages and licences"
    )
    parser.add_argument("--real", action="store_true", help="real hosts must work")
    given = parser.parse_args()
    command = shutil.which(given.command)
    if command is None:
        parser.error(f"no command {given.command}")
    with tempfile.TemporaryDirectory(prefix="tidegate-smoke-") as folder:
        try:
            try_all(Tried(str(Path(command).absolute()), Path(folder)), given.prefix, given.real)
        except (Failed, subprocess.TimeoutExpired) as error:
            print(f"smoke: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

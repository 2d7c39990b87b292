"""`make mutants`: breaks mechanisms in small ways, one at a time, and looks whether anything notices.

Each entry of mutants.toml is a mutant. A copy of the workspace in target/mutants/work holds them, each
behind a switch that the environment variable TIDEGATE_MUTANT turns: it is compiled once, and nothing of it
is in the sources. A mutant is killed by the unit tests if a test of the crates that hold mutants fails, and
by the quick experiments if `tidegate reproduce --quick` does. Both must pass without a mutant. What is known
of one is kept in target/mutants/outcomes.json, and holds until a source changes; an interrupted run goes on.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).parent / "mutants.toml"
PLACE = ROOT / "target" / "mutants"
WORK = PLACE / "work"
BUILD = PLACE / "build"
OUTCOMES = PLACE / "outcomes.json"
RESULT = PLACE / "result.json"
# Which of the mutants must be killed, in percent.
GOALS = {"quick": 90, "all": 97}
VARIABLE = "TIDEGATE_MUTANT"
FUNCTION = re.compile(r"^ *(pub(\([a-z: ]+\))? )?(const )?fn ", re.MULTILINE)
LEFT_OUT = {"target", ".venv", "results", "dist", "site", ".git", "__pycache__", "fuzz"}
# What decides about an outcome.
SOURCES = {
    "unit": ["crates", "Cargo.toml", "Cargo.lock", "tests/oracle"],
    "quick": ["crates", "Cargo.toml", "Cargo.lock", "python/tidegate", "experiments"],
}
SWITCH = """
mod mutant {
    //! Which breakage is on, by its number.
    extern crate std;

    /// Whether it is this one.
    pub(crate) fn on(number: u32) -> bool {
        static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        let chosen = || std::env::var("TIDEGATE_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        *CHOSEN.get_or_init(chosen) == number
    }
}
"""


@dataclass
class Mutant:
    """An entry of the list; its number is its place in it, from 1."""

    number: int
    name: str
    group: str
    what: str
    file: str
    find: str
    replace: str
    first: list[str] = field(default_factory=list)
    statement: bool | None = None

    def crate(self) -> Path:
        """The folder of the crate that holds it."""
        return Path(*Path(self.file).parts[:2])

    def switched(self) -> str:
        """Both forms, behind the switch."""
        statement = self.find.endswith(";") if self.statement is None else self.statement
        choice = f"if crate::mutant::on({self.number}) {{ {self.replace} }} else {{ {self.find} }}"
        return choice if statement else f"({choice})"

    def digest(self) -> str:
        """Of what it does."""
        return hashlib.sha256("\0".join((self.file, self.find, self.replace)).encode()).hexdigest()


@dataclass
class TestBinary:
    """Unit tests of a crate."""

    name: str
    path: Path
    crate: Path


@dataclass
class Outcome:
    """Whether a mutant was killed by one kind of test, and by what."""

    digest: str
    by: str | None
    seconds: float


def read_list() -> list[Mutant]:
    """The mutants, with their numbers."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutants"]
    return [Mutant(number, **entry) for number, entry in enumerate(entries, 1)]


def files_of(folder: Path) -> Iterable[Path]:
    """What is copied, relative to the folder; links are not followed."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        links = [name for name in folders if Path(path, name).is_symlink()]
        for name in sorted([*names, *links]):
            if not name.endswith((".so", ".pyd", ".pyc")):
                yield Path(path, name).relative_to(folder)


def digest_of(places: Sequence[str]) -> str:
    """Of the sources at these places."""
    total = hashlib.sha256()
    for place in places:
        whole = ROOT / place
        for path in [whole] if whole.is_file() else [whole / file for file in files_of(whole)]:
            if path.is_file():
                total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


def with_switches(file: str, text: str, mutants: Sequence[Mutant]) -> str:
    """The text of a source file with the mutants that are in it; a constant function ends being one."""
    for mutant in mutants:
        if text.count(mutant.find) != 1:
            sys.exit(f"{mutant.name}: `{mutant.find}` is {text.count(mutant.find)} times in {file}, not once")
        at = text.index(mutant.find)
        before, after = text[:at], text[at + len(mutant.find) :]
        start = max(match.start() for match in FUNCTION.finditer(before))
        before = before[:start] + before[start:].replace("const fn ", "fn ", 1)
        text = before + mutant.switched() + after
    return text


def copy_with_mutants(mutants: Sequence[Mutant]) -> None:
    """Brings the copy of the workspace up to date; what did not change keeps its time, for cargo."""
    by_file: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    roots = {str(mutant.crate() / "src" / "lib.rs") for mutant in mutants}
    wanted = set(files_of(ROOT))
    for path in wanted:
        source, copy = ROOT / path, WORK / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not copy.is_symlink():
                copy.symlink_to(os.readlink(source))
            continue
        content = source.read_bytes()
        if str(path) in by_file:
            content = with_switches(str(path), content.decode(), by_file[str(path)]).encode()
        if str(path) in roots:
            content += SWITCH.encode()
        if not copy.exists() or copy.read_bytes() != content:
            copy.write_bytes(content)
    for path in list(files_of(WORK)):
        if path not in wanted:
            (WORK / path).unlink()


def cargo(python: Path, *arguments: str) -> str:
    """Runs cargo in the copy; what it prints to its output."""
    environment = os.environ | {"CARGO_TARGET_DIR": str(BUILD), "PYO3_PYTHON": str(python)}
    done = subprocess.run(["cargo", *arguments], cwd=WORK, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"cargo {arguments[0]} failed")
    return done.stdout


def build_tests(python: Path, crates: Iterable[Path]) -> list[TestBinary]:
    """The unit tests of these crates."""
    names = [tomllib.loads((ROOT / crate / "Cargo.toml").read_text())["package"]["name"] for crate in crates]
    packages = [argument for name in sorted(names) for argument in ("-p", name)]
    printed = cargo(python, "test", "--no-run", "--lib", "--tests", "--message-format", "json", *packages)
    messages = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return [
        TestBinary(
            f"{Path(message['manifest_path']).parent.name}/{message['target']['name']}",
            Path(message["executable"]),
            Path(message["manifest_path"]).parent,
        )
        for message in messages
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]
    ]


def build_module(python: Path) -> None:
    """The Python module, beside the copy of the package."""
    cargo(python, "build", "-p", "tidegate-core", "--profile", "ci")
    (built,) = [path for path in (BUILD / "ci").glob("lib_core.*") if path.suffix in (".so", ".dylib")]
    shutil.copy2(built, WORK / "python" / "tidegate" / "_core.abi3.so")


def environment_of(number: int) -> dict[str, str]:
    """With this mutant on; 0 is none."""
    return os.environ | {VARIABLE: str(number), "PYTHONPATH": str(WORK / "python"), "RUST_BACKTRACE": "0"}


def run_tests(binary: TestBinary, number: int, jobs: int, timeout: float) -> str | None:
    """The first unit test that fails, or why there is none."""
    try:
        done = subprocess.run(
            [binary.path, "--test-threads", str(jobs)],
            cwd=binary.crate,
            env=environment_of(number),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return f"{binary.name}: no end"
    if not done.returncode:
        return None
    failed = re.search(r"^test (\S+) .*FAILED$", done.stdout.decode(errors="replace"), re.MULTILINE)
    return f"{binary.name}: {failed[1] if failed else f'exit code {done.returncode}'}"


def run_experiments(python: Path, ids: Sequence[str], number: int, jobs: int, timeout: float) -> str | None:
    """The first check that fails, or why there is none."""
    with tempfile.TemporaryDirectory(dir=PLACE) as out:
        command = [python, "-m", "tidegate", "reproduce", *ids, "--quick", "--fresh", "--json"]
        try:
            done = subprocess.run(
                [*command, "--workers", str(jobs), "--out", out],
                cwd=out,
                env=environment_of(number),
                capture_output=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            return f"{ids[0]}: no end"
    if not done.returncode:
        return None
    try:
        experiments = json.loads(done.stdout)["experiments"]
    except ValueError:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        return f"{ids[0]}: exit code {done.returncode}: {told[-1] if told else ''}"
    for each in experiments:
        for check in each["checks"]:
            if check["status"] == "fail":
                return f"{each['id']}: {check['name']}"
    failed = [each["id"] for each in experiments if each["status"] == "fail"]
    return f"{(failed or ids)[0]}: exit code {done.returncode}"


def experiments_of(python: Path) -> list[str]:
    """All that run without real hosts."""
    code = (
        "from tidegate import library; known = library.all_experiments();"
        "print(*(name for name, path in known.items() if not library.is_real(path)))"
    )
    return subprocess.check_output([python, "-c", code], env=environment_of(0), text=True).split()


def batches(every: Sequence[str], first: Sequence[str]) -> list[list[str]]:
    """Those to try first, one by one, then the others by folder, beginning with the folders of the first."""
    known = [name for name in first if name in every]
    folders = list(dict.fromkeys(name.partition("/")[0] for name in [*known, *every]))
    rest = [[name for name in every if name.startswith(f"{of}/") and name not in known] for of in folders]
    return [*([name] for name in known), *(batch for batch in rest if batch)]


Runs = Iterable[Callable[[], str | None]]


class Unit:
    """The unit tests, built."""

    def __init__(self, every: Sequence[Mutant], given: argparse.Namespace) -> None:
        self.given = given
        self.binaries = build_tests(given.python, {mutant.crate() for mutant in every})

    def runs(self, mutant: Mutant | None) -> Runs:
        """The tests with this mutant, those of its crate first."""
        number, near = (mutant.number, mutant.crate().name) if mutant else (0, "")
        for binary in sorted(self.binaries, key=lambda binary: binary.crate.name != near):
            yield partial(run_tests, binary, number, self.given.jobs, self.given.timeout)


class Quick:
    """The quick experiments, ready to run."""

    def __init__(self, every: Sequence[Mutant], given: argparse.Namespace) -> None:
        self.given = given
        build_module(given.python)
        self.ids = experiments_of(given.python)

    def runs(self, mutant: Mutant | None) -> Runs:
        """The experiments with this mutant; without one all at once."""
        number = mutant.number if mutant else 0
        tries = batches(self.ids, mutant.first) if mutant else [self.ids]
        if mutant and self.given.first:
            tries = [[name] for name in mutant.first]
        for ids in tries:
            yield partial(
                run_experiments, self.given.python, ids, number, self.given.jobs, self.given.timeout
            )


KINDS = {"unit": Unit, "quick": Quick}


class Outcomes:
    """What is known, kept as soon as it is."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}

    def get(self, name: str, kind: str, digest: str) -> Outcome | None:
        """The outcome, unless sources changed since."""
        entry = self.known.get(f"{name} {kind}")
        return Outcome(**entry) if entry and entry["digest"] == digest else None

    def put(self, name: str, kind: str, outcome: Outcome) -> None:
        """Keeps it."""
        self.known[f"{name} {kind}"] = vars(outcome)
        beside = OUTCOMES.with_suffix(".new")
        beside.write_text(json.dumps(self.known, indent=1))
        beside.replace(OUTCOMES)


def percent(killed: int, of: int) -> str:
    """As people read it."""
    return f"{killed} of {of} ({100 * killed / of:.0f} %)" if of else "none"


def report(mutants: Sequence[Mutant], found: dict[str, dict[str, Outcome]]) -> int:
    """Prints and writes the result; the exit code."""
    kinds = list(found)
    columns = [*kinds, "all"] if len(kinds) > 1 else kinds

    def is_killed(mutant: Mutant, column: str) -> bool:
        asked = kinds if column == "all" else [column]
        return any(found[kind][mutant.name].by is not None for kind in asked)

    width = max(len(mutant.name) for mutant in mutants)
    for mutant in mutants:
        for place, kind in enumerate(kinds):
            by = found[kind][mutant.name].by
            print(f"{'' if place else mutant.name:{width}}  {kind:5}  {by or 'SURVIVES'}")
    rates: dict[str, dict[str, list[int]]] = {}
    print()
    for group in [*dict.fromkeys(mutant.group for mutant in mutants), "together"]:
        of = [mutant for mutant in mutants if group in (mutant.group, "together")]
        rates[group] = {column: [sum(is_killed(m, column) for m in of), len(of)] for column in columns}
        told = [f"{column} {percent(*rates[group][column])}" for column in columns]
        print(f"{group:12}" + ", ".join(told))
    survivors = {column: [m.name for m in mutants if not is_killed(m, column)] for column in columns}
    for column in columns:
        print(f"\nsurvive {column}: {', '.join(survivors[column]) or 'none'}")
    outcomes = {m.name: {kind: vars(found[kind][m.name]) for kind in kinds} for m in mutants}
    result = {"rates": rates, "survivors": survivors, "mutants": outcomes}
    RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False))
    missed = [
        f"{column} kill less than {GOALS[column]} %"
        for column in columns
        if column in GOALS and 100 * rates["together"][column][0] < GOALS[column] * len(mutants)
    ]
    if missed:
        print(f"\n{'; '.join(missed)}")
    return 1 if missed else 0


def judge_all(kind: str, every: Sequence[Mutant], given: argparse.Namespace) -> dict[str, Outcome]:
    """By one kind of test: that all passes without a mutant, then the outcome of each that is asked for."""
    tests = KINDS[kind](every, given)
    sources = digest_of(SOURCES[kind])
    outcomes = Outcomes()

    def judge(name: str, digest: str, mutant: Mutant | None) -> Outcome:
        outcome = outcomes.get(name, kind, f"{sources} {digest}")
        if outcome is None:
            began = time.monotonic()
            by = next((said for said in (run() for run in tests.runs(mutant)) if said is not None), None)
            outcome = Outcome(f"{sources} {digest}", by, round(time.monotonic() - began, 1))
            print(f"{kind}, {name}: {by or 'all passes'} ({outcome.seconds} s)", flush=True)
            # What failed without a mutant is mended, and what survived some experiments may not survive all.
            if by is None if mutant is None else by is not None or not given.first:
                outcomes.put(name, kind, outcome)
        return outcome

    whole = judge("no mutant", hashlib.sha256(LIST.read_bytes()).hexdigest(), None)
    if whole.by is not None:
        sys.exit("without a mutant everything must pass")
    chosen = [mutant for mutant in every if not given.only or mutant.name in given.only]
    return {mutant.name: judge(mutant.name, mutant.digest(), mutant) for mutant in chosen}


def main() -> int:
    """Build once, then run mutant after mutant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants")
    parser.add_argument("--unit", action="store_true", help="the unit tests only")
    parser.add_argument("--quick", action="store_true", help="the quick experiments only")
    parser.add_argument("--first", action="store_true", help="no experiments but those that a mutant names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="threads and workers")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a run has no end")
    parser.add_argument(
        "--python", type=Path, default=ROOT / ".venv/bin/python", help="with what Tidegate needs"
    )
    given = parser.parse_args()
    given.python = Path(os.path.abspath(given.python))
    every = read_list()
    if unknown := set(given.only or []) - {mutant.name for mutant in every}:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    PLACE.mkdir(parents=True, exist_ok=True)
    copy_with_mutants(every)
    kinds = [kind for kind in KINDS if getattr(given, kind)] or list(KINDS)
    found = {kind: judge_all(kind, every, given) for kind in kinds}
    return report([mutant for mutant in every if mutant.name in found[kinds[0]]], found)


if __name__ == "__main__":
    sys.exit(main())

"""A mechanism of one's own in Rust: the steps of docs/own-mechanism.md, word for word, in a clean folder."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 1200


def profile_of_others() -> str:
    """What the manifest says of the profile `ci`, without what it says of Tidegate's own crates."""
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    tables = re.findall(r"^\[profile\.ci\b.*?(?=^\[|\Z)", manifest, re.MULTILINE | re.DOTALL)
    assert tables, "Cargo.toml has no profile `ci`"
    return "".join(table for table in tables if ".package.tidegate-" not in table)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What the steps see: the sources, and an environment where Tidegate is installed."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("crates", "examples", "Cargo.lock", "Cargo.toml"):
        (folder / name).symlink_to(ROOT / name)
    subprocess.run([sys.executable, "-m", "venv", folder / ".venv"], check=True)
    beside = next((folder / ".venv").glob("lib/python*/site-packages"))
    (beside / "beside.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return folder


def test_the_steps_of_the_page_give_a_command_that_knows_the_mechanism(checkout, tmp_path):
    page = (ROOT / "docs/own-mechanism.md").read_text(encoding="utf-8")
    (steps,) = re.findall(r"^```sh own-mechanism\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    # Compiled as continuous integration compiles Tidegate: other people's crates are taken as they lie there.
    # Ours are not optimised.
    (tmp_path / ".cargo").mkdir()
    (tmp_path / ".cargo/config.toml").write_text(profile_of_others())
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")),
        "MATURIN_PEP517_ARGS": "--profile ci",
    }
    assert shutil.which("cargo"), "cargo is missing"

    def run(line):
        options = {"cwd": checkout, "env": environment, "timeout": SECONDS_MAX}
        done = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, **options)
        return done.returncode, done.stdout, done.stderr

    code, out, err = run(steps)
    assert code == 0, err
    assert "Four flows and a coin" in out and "Tosses a coin for each packet" in out
    own = ".venv/bin/own-tidegate"
    scenario = "$HOME/my-queue/scenario.toml"
    _, first, _ = run(f"{own} run {scenario} --json --set links.bottleneck.queue.p=0")
    _, other, _ = run(f"{own} run {scenario} --json --set links.bottleneck.queue=droptail")
    assert '"throughput_bps"' in first
    assert first == other, "a coin that never falls is drop-tail"
    code, _, err = run(f"{own} validate {scenario} --set links.bottleneck.queue.p=2")
    assert (code, "links.bottleneck.queue.p: 2 is no probability" in err) == (3, True), err
    code, out, _ = run(f"{own} schema")
    assert (code, '"coin"' in out) == (0, True)
    # Tidegate itself knows nothing of it.
    code, _, err = run(f"{sys.executable} -m tidegate validate {scenario}")
    assert (code, "`coin` is not known here" in err) == (3, True), err

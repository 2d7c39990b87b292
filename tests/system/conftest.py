"""System tests: real namespaces, real TCP. They need Linux and root; elsewhere they say why they are skipped.

Where the machine could run them and `CI` is set, a skip is a failure: nothing may go unnoticed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import two_sites

ROOT = Path(__file__).resolve().parents[2]

# A script's job in the background begins with these ignored, and so would what tests start and end by them.
for _one, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_one) == signal.SIG_IGN:
        signal.signal(_one, _usual)


def _obstacle() -> str | None:
    """Why this machine has no network namespaces for us; `None` if it has."""
    if sys.platform != "linux":
        return "emulation needs Linux"
    if os.geteuid() != 0:
        return "emulation needs root"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is missing"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True)
    return None if probe.returncode == 0 else "this kernel or container makes no network namespaces"


OBSTACLE = _obstacle()


def pytest_collection_modifyitems(items):
    if OBSTACLE:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"skipped: {OBSTACLE}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.skipped and OBSTACLE is None and os.environ.get("CI") == "true":
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although this machine has network namespaces ({why})"


def _compiled(test: str, name: str) -> Path:
    """The program `name` as `make test` compiled it for the Rust test `test`: the same packages, features and
    profile, so that nothing is compiled twice, and optimised enough for these rates.
    """
    profile = os.environ.get("TIDEGATE_PROFILE", "dev")
    packages = ["--workspace", "--exclude", "tidegate-core", "--features", "tidegate-gateway/daemon"]
    compiled = ["cargo", "test", "--profile", profile, *packages, "--no-run", "--test", test]
    subprocess.run(compiled, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / ("debug" if profile == "dev" else profile) / name


@pytest.fixture(scope="session")
def program() -> Path:
    """The program under test."""
    given = os.environ.get("TIDEGATE_EMULATE")
    if given:
        return Path(given)
    return _compiled("emulations", "tidegate-emulate")


@pytest.fixture
def emulate(program):
    """Runs `tidegate-emulate emulate ARGUMENTS...` to its end."""

    def run(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        command = [str(program), "emulate", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)

    return run


@pytest.fixture(scope="session")
def gateway() -> Path:
    """The gateway under test."""
    if why := two_sites.obstacle():
        pytest.skip(why)
    given = os.environ.get("TIDEGATE_GATEWAY")
    if given:
        return Path(given)
    return _compiled("program", "tidegate-gateway")

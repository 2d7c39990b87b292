"""Points of experiments whose hosts are real: they go through `tidegate emulate`, alone and in real time.

A run in which the machine was too late shows the machine and not the network: it is thrown away and made
again.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate import reach
from tidegate.errors import TidegateError

# A run is thrown away if events or packets were later than this, 99 times of 100.
LATE_US_MAX = 2000.0
# Runs made for one point before it is given up.
ATTEMPTS_MAX = 4


class LateError(TidegateError):
    """The machine was too late in every attempt."""


def programs(scenario: Mapping[str, Any]) -> list[str]:
    """What the commands of its real hosts need."""
    return sorted({name for command in scenario.get("commands") or () for name in command["needs"]})


def obstacle(needs: Iterable[str]) -> str | None:
    """Why this machine cannot run real hosts with these programs; `None` if it can."""
    if sys.platform != "linux":
        return "real hosts need Linux"
    if os.geteuid() != 0:
        return "real hosts need root"
    if not Path("/dev/net/tun").exists():
        return "real hosts need /dev/net/tun"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True)
    if probe.returncode != 0:
        return "this kernel or container makes no network namespaces"
    missing = [name for name in needs if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    return None


def run(path: Path, overrides: Sequence[tuple[str, str]], seed: int) -> dict[str, Any]:
    """Emulate the scenario of `path` under `overrides`; its summary, with the number of runs thrown away."""
    summary: dict[str, Any] = {}
    for discarded in range(ATTEMPTS_MAX):
        summary = _emulate(path, overrides, seed)
        if lateness_us(summary) <= LATE_US_MAX:
            summary["emulation"]["discarded_runs"] = discarded
            return summary
    raise LateError(
        f"this machine was late by {lateness_us(summary) / 1e3:.1f} ms (p99) in the last of {ATTEMPTS_MAX} "
        f"runs, {LATE_US_MAX / 1e3:g} ms is the limit"
    )


def lateness_us(summary: Mapping[str, Any]) -> float:
    """How late events or packets were, 99 times of 100; infinite where packets found no buffer."""
    emulation = summary["emulation"]
    if emulation["unbuffered_packets"]:
        return float("inf")
    return max(kind["p99_us"] for kind in emulation["lateness"].values())


def _emulate(path: Path, overrides: Sequence[tuple[str, str]], seed: int) -> dict[str, Any]:
    from tidegate.commands import emulate

    command = [*emulate.program(), "emulate", str(path), "--json", "--seed", str(seed)]
    for folder in reach.of(path):
        command += ["--allow", folder]
    for key, value in overrides:
        command += ["--set", f"{key}={value}"]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if ended.returncode != 0:
        raise TidegateError(f"tidegate emulate: {_last_words(ended.stderr)}")
    summary: dict[str, Any] = json.loads(ended.stdout)
    failed = {name: code for name, code in summary["emulation"]["ended_commands"].items() if code != 0}
    if failed:
        what = ", ".join(f"{name} ended with {code}" for name, code in failed.items())
        raise TidegateError(f"commands failed: {what}; {_last_words(ended.stderr)}")
    return summary


def _last_words(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-3:])[-400:] or "no message"

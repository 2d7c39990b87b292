"""Points of experiments whose hosts are real: they go through `tidegate emulate`, alone and in real time.

A run in which the machine was too late shows the machine and not the network: it is thrown away and made
again.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate import reach
from tidegate.errors import TidegateError

# A run is thrown away if events or packets were later than this, 99 times of 100.
LATE_US_MAX = 2000.0
# Runs made for one point before it is given up.
ATTEMPTS_MAX = 4
# Bytes of what commands may tell of one flow.
TOLD_BYTES_MAX = 1 << 20


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
    if shutil.which("unshare") is None:
        return "not installed: unshare (util-linux)"
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
    # What commands leave there goes with it.
    with tempfile.TemporaryDirectory(prefix="tidegate-", ignore_cleanup_errors=True) as told:
        places = {"TIDEGATE_FOLDER": str(path.resolve().parent), "TIDEGATE_RESULTS": told}
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env={**os.environ, **places}
        )
        summary = _summary(ended)
        add_told(summary, Path(told))
    return summary


def add_told(summary: dict[str, Any], folder: Path) -> None:
    """Add to the flows of `summary` what commands told of them: `FLOW.json` in `folder`, an object.

    What the emulation counts itself stays: a key that the flow has already is an error, and so is a file of
    no flow.
    """
    flows = summary.get("flows", {})
    for file in sorted(folder.glob("*.json")):
        flow = flows.get(file.stem)
        if flow is None:
            raise TidegateError(f"a command wrote {file.name}, but there is no flow `{file.stem}`")
        if file.stat().st_size > TOLD_BYTES_MAX:
            raise TidegateError(f"a command wrote {file.name} with more than {TOLD_BYTES_MAX} bytes")
        try:
            told = json.loads(file.read_bytes())
        except ValueError as error:
            raise TidegateError(f"a command wrote {file.name}, which is not JSON: {error}") from None
        if not isinstance(told, dict):
            raise TidegateError(f"a command wrote {file.name}, which is not an object of JSON")
        if known := sorted(told.keys() & flow.keys()):
            raise TidegateError(
                f"a command wrote {file.name} with `{known[0]}`, which the emulation counts itself"
            )
        flow.update(told)


def _summary(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What an emulation printed; an error if it or one of its commands failed."""
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

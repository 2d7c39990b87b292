"""`tidegate reproduce real/...`: an experiment with real hosts, in a form of a few seconds."""

import json
import os
import subprocess
import sys
import warnings

import pytest

# Runs the command line of this checkout, whatever else is installed.
TIDEGATE = [sys.executable, "-m", "tidegate"]


def reproduce(program, folder, *arguments):
    environment = os.environ | {"TIDEGATE_EMULATE": str(program)}
    command = [*TIDEGATE, "reproduce", *arguments, "--json", "--out", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert ended.stdout, ended.stderr
    return ended, json.loads(ended.stdout)["experiments"]


def test_tcp_of_the_kernel_gets_what_the_simulator_gives(program, tmp_path):
    ended, (result,) = reproduce(program, tmp_path, "real/agreement", "--quick", "--set", "parameters.tcps=1")
    if result["status"] == "skipped":
        # Where there are namespaces and CI is set, this fails.
        pytest.skip("; ".join(result["skipped"]))
    if problems := result.get("problems"):
        # A machine that is late again and again shows itself, not the network: it says so and gives up.
        assert all("this machine was late by" in problem for problem in problems), problems
        warnings.warn(f"not judged: {problems}", stacklevel=1)
        assert result["status"] == "fail" and ended.returncode == 1
        return
    # In six seconds nothing but throughput is certain.
    throughput = [check for check in result["checks"] if "kernel gets" in check["name"]]
    # With one connection instead of four nothing is claimed of the experiment; it must hold all the same.
    assert [check["status"] for check in throughput] == ["not comparable"] * 2, result
    for check in throughput:
        tolerance = float(check["tolerance"].removesuffix("%")) / 100
        assert check["measured"] == pytest.approx(check["expected"], rel=tolerance), check
    lines = (tmp_path / "real/agreement/points.jsonl").read_text().splitlines()
    points = [json.loads(line) for line in lines]
    real = next(point["summary"] for point in points if point["variant"] == "real-reno")
    assert real["emulation"]["real_flows"] == ["tcp1"]
    assert real["flows"]["tcp1"]["received_packets"] > 1000


def test_an_experiment_that_cannot_run_says_why(program, tmp_path):
    scenario = ["real/sfb-flood", "--quick", "--set", 'commands.tcp-server.needs=["no-such-program"]']
    ended, (result,) = reproduce(program, tmp_path, *scenario)
    assert ended.returncode == 0, ended.stderr
    assert result["status"] == "skipped" and result["checks"] == []
    assert result["skipped"] == ["skipped: not installed: no-such-program"]

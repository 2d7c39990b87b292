#!/usr/bin/env python3
"""Runs the peer simulators ns-2 and ns-3 on the benchmark scenarios S1..S5.

What it measures: for each peer and scenario the packet-hops (one counting run)
and the wall-clock time of building and of running (timed runs without
counters, `--repeat` of them), the receivers' throughput and the peak memory.
It prints, or writes with --output, one JSON list; each element is one peer on
one scenario.

Needs: Python 3.11 (standard library only); for ns-2 the command `ns` of ns-2.35
(Debian package ns2); for ns-3 its C++ library (Debian package libns3-dev),
g++ and make.

    python3 run_peers.py --build-dir DIR
    python3 run_peers.py --build-dir DIR --scenarios s1,s4 --peers ns2 --repeat 5

Elements: peer, version, scenario, scheduler, sim_s, packet_hops, build_s and run_s
(the medians), build_s_all and run_s_all (every timed run), hops_per_s
(packet_hops / run_s), throughput_mbps, peak_rss_kb (largest of the timed runs), beside (what --beside said,
once more than there are timed runs).
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = ["s1", "s2", "s3", "s4", "s5-fifo", "s5-drr"]
PEERS = ["ns2", "ns3"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def debian_version(package):
    if shutil.which("dpkg-query") is None:
        return "unknown"
    result = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


class Ns2:
    name = "ns2"
    scenarios = SCENARIOS

    def __init__(self, options):
        self.schedulers = options.ns2_schedulers.split(",")

    def prepare(self):
        if shutil.which("ns") is None:
            return "ns-2 is not installed: there is no command `ns` (Debian package ns2)."
        self.version = debian_version("ns2")
        return None

    def command(self, scenario, scheduler, count, duration):
        script, _, queue = scenario.partition("-")
        command = ["ns", str(HERE / "ns2" / f"{script}.tcl"), f"scheduler={scheduler}"]
        if queue:
            command.append(f"queue={queue}")
        if count:
            command.append("count=1")
        if duration:
            command.append(f"duration={duration}")
        return command


class Ns3:
    name = "ns3"
    # ns-3 has no plain DRR, see ns3/peers.cc.
    scenarios = [s for s in SCENARIOS if s != "s5-drr"]

    def __init__(self, options):
        self.schedulers = options.ns3_schedulers.split(",")
        self.build_dir = pathlib.Path(options.build_dir).resolve()
        self.prefix = options.ns3_prefix

    def prepare(self):
        for tool in ["make", os.environ.get("CXX", "g++")]:
            if shutil.which(tool) is None:
                return f"ns-3 cannot be built: there is no command `{tool}`."
        if self.prefix and not (pathlib.Path(self.prefix) / "include" / "ns3").is_dir():
            return f"there is no ns-3 under {self.prefix}: include/ns3 is missing."
        flags = ["-I", str(pathlib.Path(self.prefix).resolve() / "include")] if self.prefix else []
        probe = subprocess.run(
            [os.environ.get("CXX", "g++"), *flags, "-E", "-x", "c++", "-"],
            input="#include <ns3/core-module.h>\n",
            capture_output=True,
            text=True,
        )
        if probe.returncode != 0:
            return "ns-3 is not installed: its headers are missing (Debian package libns3-dev)."
        self.build_dir.mkdir(parents=True, exist_ok=True)
        command = ["make", "-B", "-C", str(HERE / "ns3"), f"BUILD_DIR={self.build_dir}"]
        if self.prefix:
            command.append(f"NS3_PREFIX={pathlib.Path(self.prefix).resolve()}")
        say("building the ns-3 program")
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            return "ns-3's program does not build:\n" + result.stdout + result.stderr
        self.version = "own build" if self.prefix else debian_version("libns3-dev")
        return None

    def command(self, scenario, scheduler, count, duration):
        command = [str(self.build_dir / "peers"), f"--scenario={scenario.partition('-')[0]}"]
        command.append(f"--scheduler={scheduler}")
        if count:
            command.append("--count=1")
        if duration:
            command.append(f"--duration={duration}")
        return command


def run_once(peer, scenario, scheduler, count, options):
    """One run. Returns the peer's JSON, after checking its clock against ours."""
    command = peer.command(scenario, scheduler, count, options.duration)
    start = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, cwd=HERE)
    elapsed = time.monotonic() - start
    lines = result.stdout.strip().splitlines()
    if result.returncode != 0 or not lines:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
    data = json.loads(lines[-1])
    # The peer's own two times must fit inside the process's time, and account for
    # all of it except starting and ending the process.
    told = data["build_s"] + data["run_s"]
    if told > elapsed + 0.05 or told < 0.5 * elapsed - 1.0:
        raise RuntimeError(f"{' '.join(command)} says {told:.3f} s but took {elapsed:.3f} s")
    return data


def run_beside(options):
    """What the other program says of a run."""
    result = subprocess.run(options.beside, capture_output=True, text=True, timeout=options.timeout)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(options.beside)} failed:\n{result.stdout}{result.stderr}")
    return json.loads(result.stdout)


def measure(peer, scenario, scheduler, options):
    say(f"{peer.name} {scenario} {scheduler}: counting")
    counted = run_once(peer, scenario, scheduler, True, options)
    timed, beside = [], []
    for i in range(options.repeat):
        say(f"{peer.name} {scenario} {scheduler}: timed run {i + 1} of {options.repeat}")
        if options.beside:
            beside.append(run_beside(options))
        data = run_once(peer, scenario, scheduler, False, options)
        # Both runs must be the same simulation.
        if data["throughput_mbps"] != counted["throughput_mbps"]:
            raise RuntimeError(f"{peer.name} {scenario}: the counting run differs from a timed run")
        timed.append(data)
    if options.beside:
        beside.append(run_beside(options))
    run_s = round(statistics.median(d["run_s"] for d in timed), 4)
    return {
        "peer": counted["peer"],
        "version": peer.version,
        "scenario": counted["scenario"],
        "scheduler": scheduler,
        "sim_s": counted["sim_s"],
        "packet_hops": counted["packet_hops"],
        "build_s": round(statistics.median(d["build_s"] for d in timed), 4),
        "run_s": run_s,
        "build_s_all": [d["build_s"] for d in timed],
        "run_s_all": [d["run_s"] for d in timed],
        "beside": beside,
        "hops_per_s": round(counted["packet_hops"] / run_s) if run_s > 0 else None,
        "throughput_mbps": counted["throughput_mbps"],
        "peak_rss_kb": max(d["peak_rss_kb"] for d in timed),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build-dir", required=True, help="where ns-3's program is built")
    parser.add_argument(
        "--scenarios",
        default=",".join(SCENARIOS),
        help=f"of {','.join(SCENARIOS)}; s5 means both (default: all)",
    )
    parser.add_argument("--peers", default=",".join(PEERS), help="of ns2,ns3 (default: both)")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs (default 3)")
    parser.add_argument(
        "--duration",
        type=float,
        default=None,
        help="simulated seconds, to shorten the runs (default: the scenario's)",
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run")
    parser.add_argument("--ns2-schedulers", default="Calendar", help="e.g. Calendar,Splay")
    parser.add_argument("--ns3-schedulers", default="ns3::MapScheduler")
    parser.add_argument("--ns3-prefix", default=None, help="an ns-3 of your own, see ns3/Makefile")
    parser.add_argument(
        "--beside",
        type=json.loads,
        help="a command as a JSON list, run before each timed run and after the last; it prints JSON",
    )
    parser.add_argument("--output", default=None, help="file for the JSON (default: standard output)")
    options = parser.parse_args()

    wanted = []
    for name in options.scenarios.split(","):
        found = [s for s in SCENARIOS if s == name or s.startswith(name + "-")]
        if not found:
            parser.error(f"unknown scenario: {name}")
        wanted.extend(found)
    for name in options.peers.split(","):
        if name not in PEERS:
            parser.error(f"unknown peer: {name}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")

    peers = [p(options) for p in (Ns2, Ns3) if p.name in options.peers.split(",")]
    missing = [problem for problem in (p.prepare() for p in peers) if problem]
    if missing:
        sys.exit("\n".join(missing))

    results = []
    failed = False
    for peer in peers:
        for scenario in wanted:
            if scenario not in peer.scenarios:
                say(f"{peer.name} has no {scenario}; left out")
                continue
            for scheduler in peer.schedulers:
                try:
                    results.append(measure(peer, scenario, scheduler, options))
                except (RuntimeError, subprocess.TimeoutExpired) as problem:
                    say(f"error: {problem}")
                    failed = True
    text = "[\n" + ",\n".join(json.dumps(r) for r in results) + "\n]\n"
    if options.output:
        pathlib.Path(options.output).write_text(text)
    else:
        sys.stdout.write(text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

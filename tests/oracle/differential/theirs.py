"""ns-2: a scenario as Tcl, the counters of a run, and its packets."""

from __future__ import annotations

import pathlib
import random
import subprocess
import tempfile

from .clocks import phase_of_tidegate, seed_of_ns
from .packets import Event
from .scenario import Flow, Queue, Scenario

HERE = pathlib.Path(__file__).resolve().parent
PROFILE = HERE.parent / "ns2" / "profile.tcl"
NETWORK = HERE / "network.tcl"

# What `advance` is told where there is always something to send.
WITHOUT_END = 100_000_000

# Its clock counts 8 us then, and all times of a scenario are multiples of 125 ns, which such numbers hold
# exactly.
EXACT_UNIT = 125_000


def spread(seed: int) -> int:
    """A seed of ns-2: its random numbers are linear in the seed, so that seeds in step would not do."""
    return random.Random(seed).randrange(1, 2**31 - 1)


def tcl(scenario: Scenario, seed: int, packets: bool = False, exact: bool = False, plain: bool = True) -> str:
    """The file that ns-2 runs, complete.

    `exact`: its clock rounds no sum of times. Not `plain`: ties go as in Tidegate (`departures_first` in
    network.tcl).
    """
    starts = scenario.starts(seed)
    hops = [f"{{{hop.rate} {hop.delay} {{{_queue(hop.queue)}}}}}" for hop in scenario.hops]
    flows = [f"{{{_flow(flow, number, starts[number], seed)}}}" for number, flow in enumerate(scenario.flows)]
    lines = [
        f"# Differential test {scenario.name}, seed {seed}.",
        f"set unit {EXACT_UNIT if exact else 1}",
        f"set seed {spread(seed)}",
        f"set begin {scenario.begin}",
        f"set stop {scenario.stop}",
        f"set packets {int(packets)}",
        f"set two_way {int(scenario.is_two_way)}",
        f"set departures_first {int(not plain)}",
        "set hops {",
        *hops,
        "}",
        "set flows {",
        *flows,
        "}",
        "",
    ]
    return "\n".join(lines) + PROFILE.read_text() + NETWORK.read_text()


def counters(scenario: Scenario, seed: int, plain: bool = True) -> dict[str, float]:
    """What `judge.QUANTITIES` names, from one run of ns-2 as it is; not `plain`: with ties as in Tidegate."""
    found = {}
    for line in _run(tcl(scenario, seed, exact=not plain, plain=plain)).splitlines():
        name, value = line.split()
        found[name] = float(value)
    return found


def events(scenario: Scenario, seed: int, plain: bool = False) -> list[Event]:
    """All packets that reached the far end of a link, or were dropped, in the order of time."""
    found = []
    for line in _run(tcl(scenario, seed, packets=True, exact=True, plain=plain)).splitlines():
        time, link, what, flow, kind, sequence = line.split()
        found.append(Event(int(time), link, what, int(flow), kind, int(sequence)))
    return sorted(found)


def shares_a_queue(scenario: Scenario) -> bool:
    """Whether ns-2's hashes of addresses put two flows into one bucket of a fair queue somewhere."""
    for number, hop in enumerate(scenario.hops):
        if hop.queue.kind not in ("sfq", "drr"):
            continue
        for backward in (False, True):
            used = [
                _bucket(hop.queue, scenario, index)
                for index, flow in enumerate(scenario.flows)
                if scenario.crosses(flow, number, backward)
            ]
            if len(set(used)) < len(used):
                return True
    return False


def _bucket(queue: Queue, scenario: Scenario, flow: int) -> int:
    source = len(scenario.hops) + 1 + 2 * flow
    key = source if queue.kind == "drr" else 2 * source + 1
    buckets = 128 if queue.kind == "drr" else queue.buckets
    return (key + (key >> 8) + ~(key >> 4)) % buckets


def _queue(queue: Queue) -> str:
    return (
        f"kind {queue.kind} limit {queue.limit} low {queue.low} high {queue.high} max_p {queue.max_p} "
        f"weight {queue.weight} gentle {int(queue.gentle)} mean_packet {queue.mean_packet} "
        f"buckets {queue.buckets}"
    )


def _flow(flow: Flow, number: int, start: int, seed: int) -> str:
    variant = {"sack": "sack1"}.get(flow.variant, flow.variant)
    phase = seed_of_ns(phase_of_tidegate(seed, f"f{number}")) if flow.is_tcp else 0
    return (
        f"kind {flow.kind} enters {flow.enters} leaves {flow.leaves} access_rate {flow.access_rate} "
        f"access_delay {flow.access_delay} exit_delay {flow.exit_delay} packet {flow.packet} start {start} "
        f"variant {variant} window {flow.window} ecn {int(flow.ecn)} delayed_ack {int(flow.delayed_ack)} "
        f"transfer {flow.transfer or WITHOUT_END} phase_seed {phase} "
        f"rate {flow.rate} jitter {int(flow.jitter)} on {flow.on} off {flow.off}"
    )


def _run(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.tcl"
        path.write_text(text)
        done = subprocess.run(["ns", path], cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError(f"ns-2 failed: {done.stderr[:2000]}")
    return done.stdout

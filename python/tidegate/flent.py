"""Time series as files that flent opens, one per run: https://flent.org, format version 4.

Flent draws by the description of one of its tests. These files claim to be of `tcp_nup`, N flows and a
ping, whose data sets are filled like this; every series is there under its own name and unit besides.

    TCP upload::1, ::2, ..        flows.*.throughput_bps, in their order, Mbit/s; UDP flows as well
    TCP upload sum, avg, fairness their sum, mean and Jain's index
    Ping (ms) ICMP                the mean of flows.*.srtt_ms, the only round trips that a run records
    qdisc_stats_LINK              links.*.queue_bytes and the drops and marks of each interval

Source: flent 2.3, doc/data-format.rst and resultset.py. Times are seconds since the beginning of the run,
which is dated to the beginning of 1970: results know no clock.
"""

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate import stats, tidy
from tidegate.errors import UsageError
from tidegate.experiment import PointResult
from tidegate.store import write_atomic

SUFFIX = ".flent.gz"
VERSION = 4
_TEST = "tcp_nup"
_BEGIN = "1970-01-01T00:00:00.000000Z"
_FLOW = "TCP upload"
_PING = "Ping (ms) ICMP"
_QUEUE = "qdisc_stats_"

Column = list[float | None]


def write(points: Sequence[PointResult], title: str, path: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """A file for each run; of several, `NAME-00002.flent.gz` is the second. Gives what was written.

    `patterns` choose series by name. Runs that recorded none of them have no file; where
    none did, that is a `UsageError`.
    """
    is_chosen = tidy.chosen(patterns)
    numbered = [
        (number, point) for number, point in enumerate(points, 1) if any(map(is_chosen, point.series_names))
    ]
    if not numbered:
        raise UsageError("no run recorded such time series, and files of flent hold nothing else")
    written = []
    for number, point in numbered:
        own = path
        if len(points) > 1:
            own = path.with_name(f"{path.name.removesuffix(SUFFIX)}-{number:05d}{SUFFIX}")
        series = {name: point.series(name) for name in point.series_names if is_chosen(name)}
        about = f"{title}: {point.label}, seed {point.seed}" if len(points) > 1 else title
        text = json.dumps(document(series, about), allow_nan=False, separators=(",", ":"))
        write_atomic(own, gzip.compress(text.encode(), mtime=0))
        written.append(own)
    return written


def document(series: Mapping[str, tuple[Any, Any]], title: str) -> dict[str, Any]:
    """What a file of flent holds for one run's series: times in seconds and values by name."""
    times = sorted({float(time) for column, _ in series.values() for time in column})
    columns = {name: _aligned(times, *column) for name, column in series.items()}
    flows = {name: columns[name] for name in columns if _is(name, "flows", "throughput_bps")}
    links = _links(columns)
    results = dict(columns)
    units = {name: tidy.unit_of(name) for name in columns}
    raw: dict[str, list[dict[str, float]]] = {}
    for number, (name, values) in enumerate(flows.items(), 1):
        data_set, flow = f"{_FLOW}::{number}", name.removesuffix(".throughput_bps")
        results[data_set] = _scaled(values, 1e-6)
        raw[data_set] = _raw(
            times,
            {
                "val": results[data_set],
                "tcp_rtt": columns.get(f"{flow}.srtt_ms"),
                "tcp_cwnd": columns.get(f"{flow}.cwnd_segments"),
            },
        )
    if flows:
        rates = [_scaled(values, 1e-6) for values in flows.values()]
        results[f"{_FLOW} sum"] = _over(rates, math.fsum)
        results[f"{_FLOW} avg"] = _over(rates, stats.mean)
        results[f"{_FLOW} fairness"] = _over(rates, stats.jain)
        units |= {name: "Mbits/s" for name in results if name.startswith(_FLOW)}
        units[f"{_FLOW} fairness"] = "Idx"
    if round_trips := [columns[name] for name in columns if _is(name, "flows", "srtt_ms")]:
        results[_PING], units[_PING] = _over(round_trips, stats.mean), "ms"
        raw[_PING] = _raw(times, {"val": results[_PING]})
    for link, of_link in links.items():
        raw[f"{_QUEUE}{link}"] = _raw(times, of_link)
        results[f"{_QUEUE}{link}"] = of_link.get("backlog_bytes") or [None] * len(times)
        units[f"{_QUEUE}{link}"] = "misc"
    numbers = [f"{number} is {name.split('.')[1]}" for number, name in enumerate(flows, 1)]
    named = f"{_FLOW} {', '.join(numbers)}." if numbers else ""
    step = times[1] - times[0] if len(times) > 1 else times[0] if times else 0.0
    return {
        "version": VERSION,
        "metadata": {
            "NAME": _TEST,
            "TITLE": title,
            "TIME": _BEGIN,
            "T0": _BEGIN,
            "DATA_FILENAME": f"{_TEST}{SUFFIX}",
            "HOST": "simulated",
            "HOSTS": ["simulated"],
            "LOCAL_HOST": "tidegate",
            "LENGTH": times[-1] if times else 0.0,
            "TOTAL_LENGTH": times[-1] if times else 0.0,
            "STEP_SIZE": step,
            "NOTE": f"Simulated by Tidegate. {named}",
            "FLENT_VERSION": None,
            "IP_VERSION": 4,
            "TEST_PARAMETERS": {
                "upload_streams": str(len(flows)),
                "qdisc_stats_hosts": ",".join(links),
                "qdisc_stats_interfaces": ",".join(links),
            },
            "SERIES_META": {name: {"UNITS": units[name]} for name in results},
        },
        "x_values": times,
        "results": results,
        "raw_values": raw,
    }


def _is(name: str, group: str, quantity: str) -> bool:
    """Whether a series is this quantity of a flow or of a link."""
    return name.startswith(f"{group}.") and name.endswith(f".{quantity}")


def _aligned(times: Sequence[float], own_times: Any, values: Any) -> Column:
    found = {float(time): float(value) for time, value in zip(own_times, values, strict=True)}
    return [found[time] if math.isfinite(found.get(time, math.nan)) else None for time in times]


def _scaled(values: Column, factor: float) -> Column:
    return [None if value is None else value * factor for value in values]


def _over(columns: Sequence[Column], function: Any) -> Column:
    """`function` of what is known at each instant."""
    known = ([value for value in row if value is not None] for row in zip(*columns, strict=True))
    return [function(row) if row else None for row in known]


def _raw(times: Sequence[float], columns: Mapping[str, Column | None]) -> list[dict[str, float]]:
    """Flent's samples: an object for each instant with what is known then."""

    def samples() -> Iterator[dict[str, float]]:
        for index, time in enumerate(times):
            known = {key: values[index] for key, values in columns.items() if values is not None}
            yield {"t": time} | {key: value for key, value in known.items() if value is not None}

    return [sample for sample in samples() if len(sample) > 1]


def _links(columns: Mapping[str, Column]) -> dict[str, dict[str, Column]]:
    """By link, what flent records of a queueing discipline. Counters there are per interval."""
    found: dict[str, dict[str, Column]] = {}
    for name, values in columns.items():
        for quantity, key in (
            ("queue_bytes", "backlog_bytes"),
            ("sojourn_ms", "delay"),
            ("dropped_packets", "dropped"),
            ("marked_packets", "ecn_mark"),
        ):
            if _is(name, "links", quantity):
                link = name.removeprefix("links.").removesuffix(f".{quantity}")
                is_counter = quantity.endswith("_packets")
                found.setdefault(link, {})[key] = _steps(values) if is_counter else values
    return found


def _steps(values: Column) -> Column:
    """How much a counter grew in each interval; where it began again, what it has since."""
    before, steps = 0.0, []
    for value in values:
        steps.append(None if value is None else value - before if value >= before else value)
        before = before if value is None else value
    return steps

"""Puts the stand-in for the compiled core in its place, and a small library of experiments to run."""

import sys
from pathlib import Path

import fake_core
import pytest

import tidegate
from tidegate import cli, library

try:
    from tidegate import _core as built_core
except ImportError:  # not compiled: modules of the package are imported with the stand-in
    built_core = None
    sys.modules["tidegate._core"] = fake_core

EXPERIMENT = """
title = "Two flows share a link"
description = "TCP gives way to UDP."
source = "a test"
duration = "4s"
warmup = "1s"
seeds = 4
quick_seeds = 2

[nodes]
hosts = ["a", "b", "c", "d"]
routers = ["r", "s"]

[links]
bottleneck = { between = ["r", "s"], rate = "1.5Mbit", delay = "10ms" }
a-r = { between = ["a", "r"], rate = "10Mbit", delay = "1ms" }
b-r = { between = ["b", "r"], rate = "10Mbit", delay = "1ms" }
s-c = { between = ["s", "c"], rate = "10Mbit", delay = "1ms" }
s-d = { between = ["s", "d"], rate = "10Mbit", delay = "1ms" }

[flows]
tcp = { from = "a", to = "c", transport = "tcp" }
udp = { from = "b", to = "d", transport = "udp" }

[record]
series = ["flows.*.throughput_bps"]

[model]
shares = { tcp = "1.5-min(load, 1.4)", udp = "min(load, 1.4)" }

[parameters]
delay = { value = "10ms", provenance = "assumed", why = "as elsewhere" }

[axes.load]
path = "model.load"
values = ["250kbit", "500kbit", "1Mbit"]
quick = ["500kbit", "1Mbit"]
label = "offered by UDP"
unit = "Mb/s"

[variants.fifo]
label = "FIFO"
[variants.fair]
label = "fair queueing"
set = { "model.shares.tcp" = "0.75", "model.shares.udp" = "min(load, 0.75)" }

[[figures]]
id = "throughput"
title = "Throughput"
kind = "lines"
x = "load"
y = ["flows.tcp.throughput_bps / 1e6", "flows.udp.throughput_bps / 1e6"]
labels = ["TCP", "UDP"]
y_label = "throughput (Mb/s)"

[[figures]]
id = "time"
title = "Over time"
kind = "series"
variant = "fair"
y = "flows.*.throughput_bps"
"""

CHECK = """
[["share".checks]]
name = "{name}"
measure = "flows.tcp.throughput_bps / 1e6"
unit = "Mb/s"
where = {{ variant = "fair", load = "1Mbit" }}
{compare}
kind = "quantitative"
provenance = "{provenance}"
source = "a test"
{more}
"""

SCENARIO = (
    EXPERIMENT.split("seeds = 4")[0]
    + EXPERIMENT[EXPERIMENT.index("[nodes]") : EXPERIMENT.index("[parameters]")]
)


def check_text(compare, name="TCP keeps half", provenance="text", more=""):
    return CHECK.format(name=name, compare=compare, provenance=provenance, more=more)


@pytest.fixture(autouse=True)
def core(request, monkeypatch):
    """The stand-in, even where the real core has been built; the real one for tests marked `real_core`."""
    wanted = fake_core
    if request.node.get_closest_marker("real_core"):
        if built_core is None:
            pytest.skip("the core has not been built")
        wanted = built_core
    monkeypatch.setitem(sys.modules, "tidegate._core", wanted)
    monkeypatch.setattr(tidegate, "_core", wanted, raising=False)
    for name, module in list(sys.modules.items()):
        if name.startswith("tidegate.") and hasattr(module, "_core"):
            monkeypatch.setattr(module, "_core", wanted)
    return wanted


@pytest.fixture
def shelf(tmp_path, monkeypatch) -> Path:
    """A library with one experiment; the working directory is beside it."""
    directory = tmp_path / "experiments"
    (directory / "two").mkdir(parents=True)
    (directory / "two" / "share.toml").write_text(EXPERIMENT)
    (directory / "two" / "base.toml").write_text('duration = "1s"\n')
    (directory / "two" / "expected.toml").write_text(check_text('value = 0.75\ntolerance = "3%"'))
    monkeypatch.setattr(library, "experiments_dir", lambda: directory)
    monkeypatch.chdir(tmp_path)
    return directory


@pytest.fixture
def scenario_file(tmp_path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def tidegate_command(capsys, tmp_path, monkeypatch):
    """Run a command line in this process, in a directory of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        code = cli.invoke([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return invoke

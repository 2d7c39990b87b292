"""A sweep and a reproduction that are killed at any instant lose nothing that they said was finished.

TIDEGATE_KILLS says how often each is killed (4 if it does not).
"""

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time

import pytest

TIDEGATE = [sys.executable, "-m", "tidegate"]
KILLS = int(os.environ.get("TIDEGATE_KILLS", "4"))
# The slow point comes first: what is finished behind it must not wait for it.
EXPERIMENT = """
title = "Slow first"
duration = "{length}s"
[nodes]
hosts = ["A", "B"]
[links.a]
between = ["A", "B"]
rate = "50Mbit"
delay = "1ms"
[flows.f]
from = "A"
to = "B"
transport = "udp"
application = { kind = "poisson", rate = "40Mbit" }
[parameters]
length = 1
[record]
every = "1s"
series = ["flows.f.throughput_bps"]
[axes.length]
path = "parameters.length"
values = [60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
[[figures]]
id = "rate"
title = "Rate"
x = "length"
y = ["flows.f.throughput_bps"]
"""


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def reported_until_killed(command, cwd, after):
    """How many points a terminal was told of when the command is killed `after` so many seconds."""
    reader, writer = pty.openpty()
    started = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    time.sleep(after)
    started.send_signal(signal.SIGKILL)
    started.wait()
    told = b""
    while True:
        try:
            some = os.read(reader, 1 << 16)
        except OSError:
            break
        if not some:
            break
        told += some
    os.close(reader)
    counts = re.findall(rb"(\d+)/12\b", told)
    return max((int(count) for count in counts), default=0)


@pytest.mark.parametrize("what", ["sweep", "reproduce"])
def test_what_was_reported_finished_is_kept_and_the_end_is_the_same(what, tmp_path):
    (tmp_path / "slow.toml").write_text(EXPERIMENT)
    out = {"sweep": "whole", "reproduce": "whole/slow"}[what]
    base = [*TIDEGATE, what, "slow.toml", "--workers", "2"]
    begin = time.monotonic()
    subprocess.run([*base, "--out", "whole"], cwd=tmp_path, check=True, capture_output=True)
    took = time.monotonic() - begin
    expected = files(tmp_path / out)
    random.seed(1)
    for number in range(KILLS):
        folder = tmp_path / f"killed{number}"
        target = folder if what == "sweep" else folder / "slow"
        reported = reported_until_killed(
            [*base, "--out", folder.name], tmp_path, random.uniform(0.2, 1.1) * took
        )
        partial = target.with_name(target.name + ".partial")
        kept = len(list(partial.glob("*.json")))
        if not (target / "result.json").exists():
            assert kept >= reported, f"{kept} kept of {reported} reported"
        else:
            assert files(target) == expected
        ended = subprocess.run(
            [*base, "--out", folder.name, "--resume", "--json"], cwd=tmp_path, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        if what == "sweep":
            assert json.loads(ended.stdout)["run"] <= 12 - reported
        assert files(target) == expected
        left = [
            path.name for path in target.parent.iterdir() if path.name.startswith((".", f"{target.name}."))
        ]
        assert left == [], "temporaries are swept"

"""A run that is asked to end."""

import signal
import subprocess
import sys
import time

ENDLESS = """
duration = "100000s"
nodes = { hosts = ["A", "B"], routers = [] }
[links.only]
between = ["A", "B"]
rate = "10Mbit"
delay = "10ms"
[flows.tcp]
from = "A"
to = "B"
transport = "tcp"
"""


def test_a_run_that_is_asked_to_end_leaves_nothing_behind(tmp_path):
    (tmp_path / "endless.toml").write_text(ENDLESS)
    words = ["tidegate", "run", "endless.toml", "--out", "res", "--trace", "trace.pcapng"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A name that shows that the work has begun: the trace is written under a temporary one.
    with subprocess.Popen([sys.executable, "-m", *words], cwd=tmp_path, **streams) as run:
        try:
            deadline = time.monotonic() + 20
            while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            run.send_signal(signal.SIGTERM)
            _, said = run.communicate(timeout=20)
        finally:
            run.kill()
    assert run.returncode == 130, said
    assert "interrupted" in said
    assert [path.name for path in tmp_path.iterdir()] == ["endless.toml"]

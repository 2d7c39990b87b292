"""What a point costs more on a cluster of local processes than on threads, and whether results are the same.

Sweeps of POINTS runs of some milliseconds and of a tenth of them, on threads and on `local:N`. The difference
of the two lengths is what the points cost: starting cancels out. Time of processors (of all processes) says
what is done more, and a busy machine does not disturb it; elapsed time also says who waits for whom.

    python benches/cluster.py [--points N] [--workers N] [--kill] [--folder DIR]

With `--kill` a worker is killed in the middle of the longest sweep. Results are compared by a digest over all
files. Before that, in time of processors: what ordering, sending and checking adds to a run, without Dask and
in this process; and what Dask asks for a chunk in which nothing is done.
"""

import argparse
import hashlib
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tidegate import cluster, cluster_worker, experiment
from tidegate.progress import Progress

SEEDS = 50
EXPERIMENT = """
title = "Points"
duration = "{duration}"
seeds = {seeds}
nodes = {{ hosts = ["a", "b", "c"], routers = ["r"] }}
[links]
a-r = {{ between = ["a", "r"], rate = "100Mbit", delay = "1ms" }}
c-r = {{ between = ["c", "r"], rate = "100Mbit", delay = "1ms" }}
slow = {{ between = ["r", "b"], rate = "50Mbit", delay = "2ms", queue = {{ kind = "red", limit = "60p" }} }}
[flows]
download = {{ from = "a", to = "b", transport = "tcp" }}
noise = {{ from = "c", to = "b", transport = "udp", application = {{ kind = "poisson", rate = "20Mbit" }} }}
[axes.rate]
path = "links.slow.rate"
values = {values}
"""


def exchange(folder: pathlib.Path, duration: str, seeds: int) -> tuple[float, float]:
    """Microseconds of a run here, and what ordering it, making it as a worker does and reading it add."""
    (folder / "exchange.toml").write_text(text_of(1000 // seeds, duration, seeds))
    tasks = experiment.Experiment("exchange", folder / "exchange.toml").tasks()
    files = tasks[0].files.message
    here, more = [], []
    for first in range(0, len(tasks), 100):
        part = tasks[first : first + 100]
        begin = time.process_time()
        order = cluster.order_of(part)
        cluster.read_reply(cluster_worker.make(files, order), part)
        middle = time.process_time()
        for task in part:
            task.run()
        end = time.process_time()
        here.append((end - middle) * 1e4)
        more.append((middle - begin) * 1e4 - here[-1])
    return statistics.median(here), statistics.median(more)


def chunk(workers: int, count: int) -> float:
    """Milliseconds that `count` chunks cost each, without a run in them; starting is left out."""
    used = []
    for number in (count // 10, count):
        begin = sum(os.times()[:4])
        pool = cluster.Cluster(f"local:{workers}", workers)
        crew = pool.connected(Progress(0, ""))
        files = crew.client.submit(bytes, os.urandom(1000), pure=False)
        flying = []
        for _ in range(number):
            given = {"files": files, "order": os.urandom(10_000)}
            flying.append(crew.submit("order", given, "bench", list(crew.client.nthreads())))
            if len(flying) > 2 * workers:
                flying.pop(0).result()
        for future in flying:
            future.result()
        pool.close()
        used.append(sum(os.times()[:4]) - begin)
    return (used[1] - used[0]) / (count - count // 10) * 1e3


def text_of(values: int, duration: str, seeds: int) -> str:
    """An experiment of so many values and seeds."""
    rates = [f"{30_000 + 10 * number}kbit" for number in range(values)]
    return EXPERIMENT.format(duration=duration, seeds=seeds, values=rates)


def sweep(folder: pathlib.Path, points: int, options: list[str], kill: bool) -> tuple[float, float]:
    """Seconds elapsed, and seconds of processors, of one sweep; its results are in `folder`."""
    command = [sys.executable, "-m", "tidegate", "sweep", f"{points}.toml", "--fresh", "--out", folder.name]
    begin = time.monotonic()
    process = subprocess.Popen([*command, *options], cwd=folder.parent, stdout=subprocess.DEVNULL)
    if kill:
        partial = folder.with_name(f"{folder.name}.partial")
        while len(list(partial.glob("*.json"))) < points // 3:
            time.sleep(0.2)
        worker = subprocess.run(
            ["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        os.kill(int(worker), signal.SIGKILL)
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime


def digest(folder: pathlib.Path) -> str:
    """Of all files and their names."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--duration", default="500ms", help="how long a run simulates")
    parser.add_argument("--kill", action="store_true", help="kill a worker on the way")
    parser.add_argument("--folder", help="where results go meanwhile")
    given = parser.parse_args()
    long = given.points - given.points % (10 * SEEDS)
    ways = {"threads": ["--workers", str(given.workers)], "cluster": ["--cluster", f"local:{given.workers}"]}
    costs = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        for seeds in (1, 10, 50):
            here, more = exchange(pathlib.Path(scratch), given.duration, seeds)
            print(f"a run, {seeds} seeds of each scenario: {here:.0f} us here, {more:+.0f} us on a worker")
        print(f"a chunk for Dask: {chunk(given.workers, 200):.1f} ms", flush=True)
        if long == 0:
            return
        for points in (long // 10, long):
            text = text_of(points // SEEDS, given.duration, SEEDS)
            (pathlib.Path(scratch) / f"{points}.toml").write_text(text)
            for way, options in ways.items():
                folder = pathlib.Path(scratch) / f"{way}-{points}"
                is_killed = given.kill and way == "cluster" and points == long
                costs[way, points] = sweep(folder, points, options, is_killed)
                elapsed, used = costs[way, points]
                print(
                    f"{way:8} {points:6} points: {elapsed:7.1f} s elapsed, {used:7.1f} s of processors, "
                    f"digest {digest(folder)[:16]}",
                    flush=True,
                )
    more = long - long // 10
    for what, part in (("elapsed", 0), ("of processors", 1)):
        point = {way: (costs[way, long][part] - costs[way, long // 10][part]) / more * 1e3 for way in ways}
        print(
            f"per point, {what}: {point['threads']:.3f} ms on threads, {point['cluster']:.3f} ms on the "
            f"cluster, {point['cluster'] - point['threads']:+.3f} ms"
        )


if __name__ == "__main__":
    main()

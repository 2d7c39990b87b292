"""Runs on a cluster: what goes over the wire, and that nothing is lost whatever happens on the way."""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace

import pytest

import tidegate
from tidegate import cluster, cluster_crew, cluster_worker, experiment, library, parallel, progress, reach
from tidegate import cluster_wire as wire
from tidegate.errors import ClusterError, TidegateError, UsageError

TIDEGATE = [sys.executable, "-m", "tidegate"]
# Some milliseconds a run, or all are made before a test looks; series, includes and a trace are sent too.
NETWORK = """
duration = "20s"
nodes = { hosts = ["a", "b"], routers = ["r"] }
[links]
up = { between = ["a", "r"], rate = "20Mbit" }
slow = { between = ["r", "b"], rate = { trace = "../traces/slow.trace" }, delay = "2ms", queue = "red" }
[flows]
f = { from = "a", to = "b", transport = "udp", application = { kind = "poisson", rate = "4Mbit" } }
[record]
every = "100ms"
series = ["flows.f.throughput_bps"]
"""
SWEEP = """
# include = "../secret.toml"
include = [
    "parts/network.toml",
]
title = "Sent"
seeds = 2
[axes.rate]
path = "flows.f.application.rate"
values = ["2Mbit", "3Mbit", "4Mbit"]
[axes.delay]
values = ["short", "long"]
include = ["parts/short.toml", "parts/long.toml"]
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """An experiment of five files; beside its folder a secret that it only mentions."""
    folder = tmp_path_factory.mktemp("sweep")
    for name, text in {
        "secret.toml": "password = 'hunter2'",
        "own/sweep.toml": SWEEP,
        "own/parts/network.toml": NETWORK,
        "own/parts/short.toml": 'links.up.delay = "1ms"',
        "own/parts/long.toml": 'links.up.delay = "9ms"',
        "traces/slow.trace": "".join(f"{4 * stamp}\n" for stamp in range(1, 100)),
        "own/unused.trace": "1\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder / "own" / "sweep.toml"


@pytest.fixture
def tasks(sweep):
    """Its twelve runs."""
    reach.allow([sweep.parent.parent / "traces"])
    found = experiment.Experiment("sweep", sweep).tasks()
    assert found[0].files.message
    reach.allow(None)
    return found


def parquet(result, folder):
    result.write_parquet(str(folder / "series.parquet"))
    return (folder / "series.parquet").read_bytes()


def test_a_message_comes_back_as_it_was_or_not_at_all(monkeypatch):
    message = wire.pack({"a": [1, "ä\udcff"]}, [b"\0\n", b"x"])
    assert wire.unpack(message) == ({"a": [1, "ä\udcff"]}, b"\0\nx")
    for place in range(len(message)):
        changed = bytearray(message)
        changed[place] ^= 1
        with pytest.raises(wire.WireError, match="changed on its way"):
            wire.unpack(bytes(changed))
    for wrong in (b"", message[:20], None, "text"):
        with pytest.raises(wire.WireError, match="cut off"):
            wire.unpack(wrong)
    monkeypatch.setattr(wire, "BYTES_MAX", 1000)
    with pytest.raises(wire.WireError, match="more than 1000 bytes"):
        wire.unpack(wire.pack({}, [bytes(10_000)]))


@pytest.mark.real_core
def test_a_worker_makes_the_same_bytes_of_what_it_is_sent(tasks, tmp_path):
    files = json.loads(json.dumps(wire.unpack(tasks[0].files.message)[0]["files"]))
    assert sorted(files) == [
        *(f"own/parts/{name}.toml" for name in ("long", "network", "short")),
        "own/sweep.toml",
        "traces/slow.trace",
    ]
    _, _, found = cluster.read_reply(
        cluster_worker.make(tasks[0].files.message, cluster.order_of(tasks)), tasks
    )
    assert len(found) == len(tasks) == 12
    for task, point in zip(tasks, found, strict=True):
        here = task.run()
        assert (point.summary, point.key, point.series_names) == (here.summary, task.key, here.series_names)
        assert parquet(point.result, tmp_path) == parquet(here.result, tmp_path)
        for sent, own in zip(
            point.series("flows.f.throughput_bps"), here.series("flows.f.throughput_bps"), strict=True
        ):
            assert list(sent) == list(own)
    assert len({json.dumps(point.summary) for point in found}) == 12


@pytest.mark.real_core
def test_a_worker_ends_when_its_time_is_over_and_says_what_went_wrong(tasks):
    _, _, found = cluster.read_reply(
        cluster_worker.make(tasks[0].files.message, cluster.order_of(tasks, 0)), tasks
    )
    assert len(found) == 1, "one run at least, or nothing would ever be done"

    other = [SimpleNamespace(**{**vars(tasks[0]), "key": "0" * 24})]
    _, _, found = cluster.read_reply(
        cluster_worker.make(tasks[0].files.message, cluster.order_of(other)), other
    )
    assert "another scenario of these files" in str(found[0])
    # Nor is anything taken that would have come after it, or of another point.
    others = [SimpleNamespace(**{**vars(task), "key": "0" * 24}) for task in tasks[1:]]
    mixed = [tasks[0], *others]
    _, _, found = cluster.read_reply(
        cluster_worker.make(tasks[0].files.message, cluster.order_of(mixed)), mixed
    )
    assert isinstance(found[0], experiment.PointResult)
    assert len(found) < len(mixed)
    wrong = [of for of in found if isinstance(of, TidegateError)]
    assert len(wrong) == 1 and found[-1] is wrong[0]

    head = wire.unpack(tasks[0].files.message)[0]
    head["files"]["own/parts/network.toml"] = NETWORK.replace('"20Mbit"', '"fast"')
    _, _, found = cluster.read_reply(
        cluster_worker.make(wire.pack(head), cluster.order_of(tasks[:2])), tasks[:2]
    )
    assert [type(each) for each in found] == [TidegateError] * 2
    assert str(found[0]).startswith("own/parts/network.toml:"), "as who asked knows the file"


@pytest.mark.real_core
def test_an_experiment_behind_a_link_is_sent_with_what_lies_beside_the_link(tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "hidden.toml").write_text('include = "beside.toml"')
    (tmp_path / "shown" / "link.toml").symlink_to(tmp_path / "hidden.toml")
    simple = NETWORK.replace('{ trace = "../traces/slow.trace" }', '"3Mbit"')
    os.mkfifo(tmp_path / "shown" / "pipe.toml")
    (tmp_path / "shown" / "beside.toml").write_text(
        f"""# include = "pipe.toml"
{simple.replace("links]", "links] # include = 'folder'")}
""".replace('rate = "20Mbit" }', 'rate = "20Mbit", delay = "1ms" }')
    )
    (task,) = experiment.Experiment("link", tmp_path / "shown" / "link.toml").tasks()
    assert sorted(wire.unpack(task.files.message)[0]["files"]) == ["beside.toml", "link.toml"]
    (point,) = cluster.read_reply(cluster_worker.make(task.files.message, cluster.order_of([task])), [task])[
        2
    ]
    assert point.summary == task.run().summary


def test_a_worker_has_the_mechanisms_that_who_asks_has(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(
        "import tidegate\nfrom mine import _core\ntidegate.use_core(_core)"
    )
    (tmp_path / "mine" / "_core.py").write_text("__version__ = '7.5'")
    asked = "from tidegate import cluster_worker; print(cluster_worker.about('mine._core'))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", asked], env=environment, check=True, capture_output=True, text=True
    )
    told = json.loads(told.stdout)
    assert (told["version"], told["core"]) == ("7.5", "mine._core")
    digest = hashlib.sha256((tmp_path / "mine" / "_core.py").read_bytes()).hexdigest()[:16]
    assert told["engine"] == f"7.5+{digest}", "its mechanisms are what it simulates with"


@pytest.mark.real_core
def test_a_worker_of_another_build_is_refused_whatever_its_version(core):
    own = json.loads(cluster_worker.about(core.__name__))
    assert cluster_worker.obstacle(json.dumps(own)) == ""
    assert "another build" in cluster_worker.obstacle(json.dumps({**own, "engine": "0.1.0+feed"}))
    del own["engine"]
    assert "an older one" in cluster_worker.obstacle(json.dumps(own))
    assert "does not say" in cluster_worker.obstacle("{}")


@pytest.mark.parametrize("name", ["../elsewhere.toml", "/tmp/elsewhere.toml", "a/../../elsewhere.toml"])
def test_files_that_were_sent_stay_in_their_folder(tmp_path, name):
    message = wire.pack(
        {"main": "m.toml", "files": {"m.toml": "", name: ""}, "overrides": [], "quick": False}
    )
    (tmp_path / "folder").mkdir()
    with pytest.raises(wire.WireError, match="leads out"):
        wire.unfold(message, tmp_path / "folder")
    assert list(tmp_path.rglob("elsewhere*")) == []


TASK = SimpleNamespace(variant=None, axes={}, seed=7, key="k" * 24)


def replied(entries, blobs=()):
    """What a worker sends; summaries stand in their entries here."""
    about, sent = entries, []
    if isinstance(entries, list):
        about = [dict(entry) if isinstance(entry, dict) else entry for entry in entries]
        for entry in about:
            if isinstance(entry, dict) and isinstance(entry.get("summary"), str):
                sent.append(entry.pop("summary").encode())
                entry["summary_bytes"] = len(sent[-1])
    return wire.pack({"worker": "w", "seconds": 1.0, "runs": about}, [*sent, *blobs])


ENTRY = {"key": TASK.key, "summary": '{"seed": 7}', "series_names": [], "series_bytes": 0}


@pytest.mark.parametrize(
    ("entries", "blobs", "says"),
    [
        ([], [], "other runs"),
        ([ENTRY, ENTRY, ENTRY], [], "other runs"),
        ([ENTRY | {"key": "another"}], [], "other runs"),
        ([ENTRY | {"summary": '{"seed": 8}'}], [], "another run"),
        ([ENTRY | {"summary": "[]"}], [], "another run"),
        ([ENTRY | {"summary": "{"}], [], "no answer"),
        ([ENTRY | {"summary": None}], [], "no answer"),
        ([ENTRY | {"series_names": "ab"}], [], "no names"),
        ([ENTRY | {"series_names": ["a"]}], [], "no Parquet"),
        ([ENTRY | {"series_names": ["a"], "series_bytes": 4}], [b"text"], "no Parquet"),
        ([ENTRY | {"series_bytes": 8}], [b"PAR1PAR1"], "no Parquet"),
        ([ENTRY | {"series_bytes": 9}], [b"PAR1PAR1"], "other runs"),
        ([ENTRY | {"series_bytes": -1}], [], "other runs"),
        ([ENTRY | {"series_bytes": "8"}], [], "no answer"),
        ([ENTRY], [b"more"], "belong to no run"),
        ([{}], [], "no answer"),
        (["text"], [], "no answer"),
        ({"0": ENTRY}, [], "other runs"),
    ],
)
def test_what_a_worker_sends_is_checked(entries, blobs, says):
    reply = replied(entries, blobs)
    with pytest.raises(wire.WireError, match=says):
        cluster.read_reply(reply, [TASK, TASK])
    assert cluster.read_reply(replied([ENTRY]), [TASK, TASK])[2][0].summary == {"seed": 7}


@pytest.mark.parametrize(
    ("count", "address", "says"),
    [
        (2, "local", "exclude each other"),
        (None, "local:0", "write local:N"),
        (None, "local:two", "write local:N"),
        (None, "local:", "write local:N"),
        (None, "local:100000", "write local:N"),
        (None, " ", "address of a Dask scheduler"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(count, address, says):
    with pytest.raises(UsageError, match=says):
        parallel.Workers(count, address)


def test_real_hosts_stay_on_this_machine():
    task = experiment.Task(None, {}, 1, None, "k", path=Path("real.toml"))
    with contextlib.closing(cluster.Cluster("tcp://127.0.0.1:1", None)) as pool:
        refused = pytest.raises(UsageError, match="real hosts need this machine")
        with refused:
            list(experiment.run_tasks([task], pool))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://x", str(tmp_path / "no.json")):
        pool = cluster.Cluster(address, None)
        with contextlib.closing(pool), pytest.raises(ClusterError, match="no Dask scheduler answers at"):
            list(pool.run_ordered([TASK], lambda *_: None, progress.Progress(0, "")))


def work(count, seconds, threads=2):
    """Runs that wait for a cluster of so many threads, each of so many seconds as far as is known."""
    files = wire.Files(Path("x.toml"), (), False)
    files.__dict__["message"] = b"d" * wire.DIGEST_BYTES
    crew = SimpleNamespace(seconds={} if seconds is None else {files.message: seconds})
    crew.require_scheduler = lambda: None
    crew.good = lambda: {"w": threads}
    bar = progress.Progress(0, "")
    return cluster._Work(crew, [SimpleNamespace(files=files) for _ in range(count)], lambda *_: None, bar)


def test_chunks_last_some_seconds_and_become_smaller_at_the_end():
    assert len(work(10_000, None)._next_chunk(2).numbers) == 1, "nobody knows yet"
    assert len(work(10_000, 0.01)._next_chunk(2).numbers) == 500
    assert len(work(10_000, 30)._next_chunk(2).numbers) == 1
    assert len(work(10_000, 0)._next_chunk(2).numbers) == cluster.CHUNK_MAX
    ending = work(1000, 0.001)
    sizes = []
    while ending._waiting:
        sizes.append(len(ending._next_chunk(2).numbers))
    assert sum(sizes) == 1000 and sizes[0] == 249 and sizes[-1] == 1 and sizes == sorted(sizes, reverse=True)


def test_what_brings_workers_down_is_tried_alone_and_then_given_up():
    from distributed import KilledWorker

    runs = work(5, 0.001, threads=1)
    killed = KilledWorker("key", None, 4)
    runs._waiting = deque([1, 2, 3])
    chunk = cluster._Chunk([0, 4], runs._tasks[0].files)
    runs._flying = {chunk}
    runs._failed(chunk, killed)
    assert list(runs._waiting) == [0, 4, 1, 2, 3]
    alone = [runs._next_chunk(1) for _ in range(2)]
    assert [each.numbers for each in alone] == [[0], [4]]
    runs._flying = set(alone)
    runs._failed(alone[0], killed)
    assert runs._left == 4
    for _ in range(cluster._TRIES_MAX):
        runs._failed(alone[1], wire.WireError("it is no answer"))
        if runs._waiting[0] == 4:
            alone[1] = runs._next_chunk(1)
            runs._flying = {alone[1]}
    outcomes = runs.outcomes.in_order(runs._bar)
    assert str(next(outcomes)) == "given up: each worker that began it was lost"
    assert runs._left == 3 and str(runs.outcomes._found[4]) == "given up: it is no answer"


def test_a_cluster_of_other_versions_alone_is_given_up_after_a_while(monkeypatch):
    crew = cluster_crew.Crew(SimpleNamespace(status="running"))
    crew.workers = {"tcp://w": cluster_crew.Worker(1, None, refused="has tidegate 9, and this is 8")}
    crew.require_hope()
    crew.workers["tcp://v"] = cluster_crew.Worker(1, None)
    monkeypatch.setattr(cluster_crew, "_HOPE_S", -1)
    crew.require_hope()
    del crew.workers["tcp://v"]
    with pytest.raises(ClusterError, match="tcp://w has tidegate 9, and this is 8"):
        crew.require_hope()
    crew.client.status = "connecting"
    with pytest.raises(ClusterError, match="scheduler of the cluster is gone"):
        crew.look(progress.Progress(0, ""))


def test_what_is_lost_with_its_worker_holds_nobody_up():
    """Dask may say that it was made and then lose it with its worker: it never comes."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        answers = {"tcp://good": loop.create_future(), "tcp://lost": loop.create_future()}
        client = SimpleNamespace(
            status="running",
            nthreads=lambda: dict.fromkeys(answers, 1),
            submit=lambda *_, workers, **__: answers[workers[0]],
            loop=SimpleNamespace(add_callback=lambda wait: loop.create_task(wait())),
            cancel=lambda futures: [future.set_exception(CancelledError()) for future in futures],
        )
        crew, bar = cluster_crew.Crew(client), progress.Progress(0, "")
        crew.look(bar)
        answers["tcp://good"].set_result(cluster_worker.about("tidegate._core"))
        runner.run(asyncio.sleep(0.01))
        crew.events.get_nowait()()
        assert crew.good() == {"tcp://good": 1} and crew.events.empty()
        client.nthreads = lambda: {"tcp://good": 1}
        crew.look(bar)
        runner.run(asyncio.sleep(0.01))
        # What is heard of a worker that is gone changes nothing.
        crew.events.get_nowait()()
        assert crew.good() == {"tcp://good": 1} and list(crew.workers) == ["tcp://good"]


class Loopback:
    """A cluster whose only worker is this process: everything but Dask."""

    def __init__(self, address, processes):
        self.made = []
        Loopback.last = self

    def run_ordered(self, runs, finish, bar):
        for number, task in enumerate(runs):
            reply = cluster_worker.make(task.files.message, cluster.order_of([task]))
            worker, _, (outcome,) = cluster.read_reply(reply, [task])
            assert worker == "None" and not isinstance(outcome, Exception)
            finish(number, outcome)
            self.made.append(task.key)
            bar.advance()
            yield outcome

    def close(self):
        pass


@pytest.mark.real_core
def test_reproductions_and_sweeps_from_python_take_a_cluster_too(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "Cluster", Loopback)
    for where in (None, "tcp://somewhere:8786"):
        (result,) = tidegate.reproduce("nbp/fig1", quick=True, out=tmp_path / str(bool(where)), cluster=where)
        assert result.status == "pass"
    assert len(Loopback.last.made) == len(result.points)
    assert files_in(tmp_path / "False") == files_in(tmp_path / "True")
    swept = tidegate.sweep("nbp/fig1", quick=True, cluster="local:3")
    assert [point.summary for point in swept.points] == [point.summary for point in result.points]


@pytest.mark.real_core
def test_a_worker_makes_the_same_scenarios_of_every_experiment_that_ships(core):
    count = 0
    for name, path in library.all_experiments().items():
        if library.is_real(path):
            continue
        tasks = experiment.Experiment(name, path).tasks(quick=True)
        there = cluster_worker._Experiment(tasks[0].files.message)
        for task in tasks:
            scenario = there._scenario(experiment.place_of(task))
            key = experiment.content_key(scenario.to_json(), task.seed, experiment.engine())
            assert key == task.key, name
            count += 1
    assert count > 500


# From here on with processes.


def files_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@contextlib.contextmanager
def started(command, folder, **environment):
    """A process whose stderr goes to a file; ended at the end, whatever happens."""
    with (folder / "stderr").open("a") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=stderr, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(what, says, seconds=120):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"waited in vain for {says()}"
        time.sleep(0.02)
    return found


def kept(folder, least):
    """Waits until so many points are on the disk."""
    wait_for(
        lambda: len(list((folder / "out.partial").glob("*.json"))) >= least,
        lambda: f"{least} points: {(folder / 'stderr').read_text()}",
    )


def said(folder, *texts):
    """Waits until stderr has all of these."""
    wait_for(
        lambda: all(text in (folder / "stderr").read_text() for text in texts),
        lambda: f"{texts}: {(folder / 'stderr').read_text()}",
    )


def swept(path, *more):
    return [
        *(*TIDEGATE, "sweep", str(path), "--allow", str(path.parent.parent / "traces")),
        *("--seeds", "40", "--out", "out", *more),
    ]


@pytest.fixture(scope="module")
def expected(sweep, tmp_path_factory):
    """What threads make of 240 points."""
    folder = tmp_path_factory.mktemp("threads")
    subprocess.run(swept(sweep), cwd=folder, check=True, capture_output=True)
    return files_in(folder / "out")


def killed_in(sweep, folder):
    """Whether a worker of a sweep was killed in its middle; it then went on to its end."""
    import psutil

    folder.mkdir()
    partial = folder / "out.partial"
    with started(swept(sweep, "--cluster", "local:2"), folder) as process:
        wait_for(
            lambda: process.poll() is not None or list(partial.glob("*.json")),
            lambda: (folder / "stderr").read_text(),
        )
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            children = psutil.Process(process.pid).children(recursive=True)
            workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
            # The other one would make the rest before anybody has looked who is there.
            workers[1].suspend()
            workers[0].kill()
            # All may have been made by then, and be on its way. Or the other one has all that is left: then
            # nothing is said of this one.
            gone = "is gone; what it had goes to others"
            stderr = folder / "stderr"
            end = time.monotonic() + 10
            while process.poll() is None and gone not in stderr.read_text() and time.monotonic() < end:
                time.sleep(0.02)
            workers[1].resume()
            assert process.wait(120) == 0, stderr.read_text()
            return gone in stderr.read_text()
    return False


@pytest.mark.real_core
def test_a_killed_worker_changes_nothing(sweep, expected, tmp_path):
    tries = [tmp_path / f"try{number}" for number in range(10)]
    # A quick machine may be through before a worker is killed: then again.
    folder = next((one for one in tries if killed_in(sweep, one)), None)
    assert folder is not None, "no run was slow enough for a worker of it to be killed"
    assert "dashboard http://127.0.0.1:" in (folder / "stderr").read_text()
    assert files_in(folder / "out") == expected


@contextlib.contextmanager
def worker(folder, tidegate=None):
    """A Dask worker, with another `tidegate` package if these are its files."""
    environment = {}
    if tidegate is not None:
        package = folder / f"other{len(list(folder.glob('other*')))}" / "tidegate"
        package.mkdir(parents=True)
        for name, text in {"__init__.py": "", **tidegate}.items():
            (package / name).write_text(text)
        environment["PYTHONPATH"] = str(package.parent)
    options = ["--scheduler-file", "scheduler.json", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    command = [sys.executable, "-m", "distributed.cli.dask_worker", *options, "--host", "127.0.0.1"]
    with started(command, folder, **environment) as process:
        yield process


@pytest.mark.real_core
def test_whatever_happens_to_a_cluster_a_sweep_goes_on_where_it_was(sweep, expected, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    options = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", "scheduler.json", "--no-dashboard"]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
    asked = swept(sweep, "--resume", "--cluster", str(there / "scheduler.json"))
    old = {
        "cluster_worker.py": """def about(core): return '{"version": "0.0.9", "core": "tidegate._core"}'"""
    }
    broken = {"__init__.py": "raise ImportError('built for another machine')"}
    with started(command, there) as scheduler:
        wait_for((there / "scheduler.json").exists, (there / "stderr").read_text)
        with worker(there, old), worker(there, broken), started(asked, tmp_path) as process:
            said(tmp_path, "has tidegate 0.0.9, and this is", "cannot import", "built for another machine")
            assert not (tmp_path / "out.partial").exists(), "they got no work"
            with worker(there):
                kept(tmp_path, 3)
                process.send_signal(signal.SIGINT)
                assert process.wait(120) == 130
                said(tmp_path, "--resume goes on")
                first = len(list((tmp_path / "out.partial").glob("*.json")))
                assert first < 240
                with started(asked, tmp_path) as process:
                    kept(tmp_path, first + 1)
                    scheduler.kill()
                    assert process.wait(120) == 1
    assert "scheduler of the cluster" in (tmp_path / "stderr").read_text()
    second = len(list((tmp_path / "out.partial").glob("*.json")))
    assert first < second < 240
    ended = subprocess.run(swept(sweep, "--resume", "--json"), cwd=tmp_path, check=True, capture_output=True)
    assert json.loads(ended.stdout)["run"] == 240 - second
    assert files_in(tmp_path / "out") == expected

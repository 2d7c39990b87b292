"""Two sites on one Linux machine, with a slow FIFO between them: three network namespaces.

`a -- middle -- b`: the middle forwards, and sends at a fixed rate from one long queue (Linux' token bucket
filter), as an access link does. Each site is a gateway and a host in one. It needs root.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidegate.errors import TidegateError

# Documentation addresses outside (RFC 5737, RFC 3849), private ones inside.
OUTER = {"a": "192.0.2.1", "b": "192.0.2.5"}
ROUTER = {"a": "192.0.2.2", "b": "192.0.2.6"}
OUTER6 = {"a": "2001:db8:1::1", "b": "2001:db8:2::1"}
ROUTER6 = {"a": "2001:db8:1::2", "b": "2001:db8:2::2"}
INNER = {"a": "10.1.0.1", "b": "10.2.0.1"}
INNER6 = {"a": "fd00:1::1", "b": "fd00:2::1"}
PORT = 51820
PROBE_PORT = 7007
IPERF_PORT = 5201
# So long a daemon may take until it has what it needs.
START_S = 10.0
NOT_ANSWERED_S = 0.5

ECHO = f"""
import socket
heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
heard.bind(("0.0.0.0", {PROBE_PORT}))
print(flush=True)
while True:
    data, sender = heard.recvfrom(2000)
    try:
        heard.sendto(data, sender)
    except OSError:
        pass
"""

# Writes for each probe when it was sent and how long it took, in seconds; none where there is no answer.
# They are sent in time, whatever became of those before.
PROBE = f"""
import json, select, socket, sys, time
address, count, every, text = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asks.setblocking(False)
begin = time.monotonic()
told = []
end = begin + count * every + {NOT_ANSWERED_S}
while (now := time.monotonic()) < end and (len(told) < count or None in [took for _, took in told]):
    due = begin + len(told) * every
    if len(told) < count and now >= due:
        told.append([now, None])
        try:
            asks.sendto(f"{{len(told) - 1}} {{text}}".encode(), (address, {PROBE_PORT}))
        except OSError:
            pass
        continue
    wait = (due if len(told) < count else end) - now
    if select.select([asks], [], [], wait)[0]:
        try:
            number = int(asks.recv(2000).split()[0])
        except OSError:
            continue
        if told[number][1] is None:
            told[number][1] = time.monotonic() - told[number][0]
print(json.dumps(told))
"""

# What passes a device: counts of IP packets, of those that are neither WireGuard of ours nor ICMP, and of
# those with a text in them.
TAP = f"""
import json, select, socket, sys
device, text = sys.argv[1], sys.argv[2].encode()
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
tap.bind((device, 0))
print(flush=True)
seen = {{"packets": 0, "other": 0, "clear": 0}}
while True:
    ready, _, _ = select.select([tap, sys.stdin], [], [])
    if tap in ready:
        frame = tap.recv(65535)
        if frame[12:14] not in (b"\\x08\\x00", b"\\x86\\xdd"):
            continue
        seen["packets"] += 1
        is_v4 = frame[12] == 8
        kind, ports = (frame[23], frame[34:38]) if is_v4 else (frame[20], frame[54:58])
        # Routers tell in ICMP of what they have seen, which is sealed.
        if is_v4 and kind != 1:
            both = (int.from_bytes(ports[:2]), int.from_bytes(ports[2:]))
            seen["other"] += kind != 17 or {PORT} not in both
        seen["clear"] += text in frame
    elif sys.stdin in ready:
        print(json.dumps(seen))
        break
"""


class SetupError(TidegateError):
    """The machine does not do what two sites need."""


def network_of(address: str, length: int) -> str:
    """The network of that length in which an address is, as a gateway's file has it."""
    return str(ip_network(f"{address}/{length}", strict=False))


def obstacle() -> str | None:
    """Why this machine cannot have two sites; `None` if it can."""
    if sys.platform != "linux":
        return "two sites need Linux"
    if os.geteuid() != 0:
        return "two sites need root"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is missing"
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (iproute2)"
    if shutil.which("unshare") is None:
        return "not installed: unshare (util-linux)"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True)
    return None if probe.returncode == 0 else "this kernel or container makes no network namespaces"


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SetupError(f"`{' '.join(command)}`: {ended.stderr.strip()}")


def _listens(process: int, port: int) -> bool:
    """Whether somebody listens at TCP's `port` where `process` is."""
    for name in ("tcp", "tcp6"):
        file = Path(f"/proc/{process}/net/{name}")
        lines = file.read_text().splitlines()[1:] if file.exists() else []
        for line in lines:
            _, local, _, state, *_ = line.split()
            # 0A: it listens (`include/net/tcp_states.h`).
            if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                return True
    return False


class Built(ABC):
    """What is built where a `with` begins, and closed where it ends or cannot begin."""

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _build(self) -> None:
        """Build all of it."""

    @abstractmethod
    def close(self) -> None:
        """End all of it, however much of it there is."""


def end_processes(asked: Collection[subprocess.Popen], killed: Collection[subprocess.Popen]) -> None:
    """Ends those that are asked to, killing who does not, and those that are killed at once."""
    for process in asked:
        process.terminate()
    for process in killed:
        process.kill()
    for process in (*asked, *killed):
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


class TwoSites(Built):
    """See the module. A context: namespaces and daemons end with it."""

    def __init__(
        self, program: Path, rate: str | None = "20mbit", queue_bytes: int = 250_000, *, is_v6: bool = False
    ) -> None:
        self.program = program
        # Without one the middle forwards as fast as it can.
        self.rate = rate
        self.queue_bytes = queue_bytes
        # Whether it is IPv6 outside, and inside besides.
        self.is_v6 = is_v6
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-sites-"))
        # The daemon gives its rights away, and comes back for its file.
        self.folder.chmod(0o755)
        self.prefix = self.folder.name
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.others: list[subprocess.Popen[str]] = []

    def namespace(self, site: str) -> str:
        """Its name."""
        return f"{self.prefix}-{site}"

    def _build(self) -> None:
        for site in ("a", "middle", "b"):
            _run("ip", "netns", "add", self.namespace(site))
            _run("ip", "-n", self.namespace(site), "link", "set", "dev", "lo", "up")
        middle = self.namespace("middle")
        for site in ("a", "b"):
            own = self.namespace(site)
            there = f"to-{site}"
            _run(
                *("ip", "link", "add", "wan", "netns", own, "type", "veth"),
                *("peer", "name", there, "netns", middle),
            )
            _run("ip", "-n", own, "address", "add", f"{OUTER[site]}/30", "dev", "wan")
            _run("ip", "-n", middle, "address", "add", f"{ROUTER[site]}/30", "dev", there)
            _run("ip", "-n", own, "link", "set", "dev", "wan", "up")
            _run("ip", "-n", middle, "link", "set", "dev", there, "up")
            _run("ip", "-n", own, "route", "add", "default", "via", ROUTER[site])
            if self.rate is not None:
                _run(
                    *("tc", "-n", middle, "qdisc", "add", "dev", there, "root", "tbf", "rate", self.rate),
                    *("burst", "5kb", "limit", str(self.queue_bytes)),
                )
        _run("ip", "netns", "exec", middle, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        if self.is_v6:
            self._build_v6()

    def _build_v6(self) -> None:
        middle = self.namespace("middle")
        _run("ip", "netns", "exec", middle, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        for site in ("a", "b"):
            own, there = self.namespace(site), f"to-{site}"
            _run("ip", "-n", own, "address", "add", f"{OUTER6[site]}/64", "dev", "wan", "nodad")
            _run("ip", "-n", middle, "address", "add", f"{ROUTER6[site]}/64", "dev", there, "nodad")
            _run("ip", "-n", own, "-6", "route", "add", "default", "via", ROUTER6[site])

    def close(self) -> None:
        """Ends all of it."""
        end_processes(self.daemons.values(), self.others)
        for site in ("a", "middle", "b"):
            subprocess.run(["ip", "netns", "del", self.namespace(site)], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def move(self, site: str, place: str, router: str) -> None:
        """A site is at `place` from now on, behind `router`, and nowhere else."""
        own, middle = self.namespace(site), self.namespace("middle")
        for namespace, device, address in ((middle, f"to-{site}", router), (own, "wan", place)):
            _run("ip", "-n", namespace, "address", "flush", "dev", device)
            _run("ip", "-n", namespace, "address", "add", f"{address}/30", "dev", device)
        _run("ip", "-n", own, "route", "replace", "default", "via", router)

    def within(self, site: str, *command: str) -> list[str]:
        """`command` as it runs in the namespace of `site`."""
        return ["ip", "netns", "exec", self.namespace(site), *command]

    def control(self, site: str, *command: str) -> subprocess.CompletedProcess[str]:
        """`tidegatectl` at `site`."""
        whole = [str(self.folder / "tidegatectl"), "--socket", str(self.socket(site)), *command]
        return subprocess.run(whole, capture_output=True, text=True, timeout=20)

    def socket(self, site: str) -> Path:
        """Where its daemon listens for commands."""
        return self.folder / f"{site}.sock"

    def file(self, site: str) -> Path:
        """Its configuration."""
        return self.folder / f"{site}.toml"

    def state(self, site: str) -> Path:
        """Where its daemon keeps what outlives it; it makes the folder."""
        return self.folder / f"{site}.state" / "gateway.json"

    def configure(self, rates: str, more: str = "") -> None:
        """Makes keys and configurations; `rates` is the table of rates, `more` what else a site has."""
        control = self.folder / "tidegatectl"
        control.symlink_to(self.program)
        public = {}
        for site in ("a", "b"):
            made = subprocess.run(
                [control, "keygen", self.folder / f"{site}.key"], capture_output=True, text=True, check=True
            )
            public[site] = made.stdout.strip()
        for site, other in (("a", "b"), ("b", "a")):
            addresses, networks = [f"{INNER[site]}/24"], [network_of(INNER[other], 24)]
            endpoint = OUTER[other]
            if self.is_v6:
                addresses.append(f"{INNER6[site]}/64")
                networks.append(network_of(INNER6[other], 64))
                endpoint = f"[{OUTER6[other]}]"
            self.file(site).write_text(
                f'[gateway]\nprivate_key_file = "{self.folder / site}.key"\n'
                f'address = {json.dumps(addresses)}\nsocket = "{self.socket(site)}"\nuser = "nobody"\n'
                f'state = "{self.state(site)}"\n'
                f'[sites.{other}]\npublic_key = "{public[other]}"\nendpoint = "{endpoint}:{PORT}"\n'
                f"networks = {json.dumps(networks)}\nrate = {rates}\n{more}"
            )

    def start(self, site: str, more: Sequence[str] = (), **options: Any) -> None:
        """Starts its daemon, with `more` arguments and more of what `subprocess.Popen` understands."""
        command = self.within(site, str(self.program), "run", str(self.file(site)), *more)
        with (self.folder / f"{site}.log").open("ab") as log:
            self.daemons[site] = subprocess.Popen(command, stdout=log, stderr=log, **options)

    def log(self, site: str) -> str:
        """What its daemon has said."""
        return (self.folder / f"{site}.log").read_text()

    def status(self, site: str) -> dict[str, Any]:
        """What its daemon shows of the other site; empty if it does not answer."""
        answer = self.control(site, "status", "--json")
        if answer.returncode != 0:
            return {}
        found: dict[str, Any] = json.loads(answer.stdout)["sites"][0]
        return found

    def wait_for(self, state: str) -> None:
        """Until each site takes the other for what `state` says."""
        until = time.monotonic() + START_S
        for site in ("a", "b"):
            while (now := self.status(site).get("state")) != state:
                if time.monotonic() > until:
                    raise SetupError(f"site {site} is {now}, not {state}:\n{self.log(site)}")
                time.sleep(0.05)

    def beside(self, site: str, *command: str) -> subprocess.Popen[str]:
        """Starts `command` at `site`, which says a line when it is ready."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(self.within(site, *command), text=True, **pipes)  # type: ignore[call-overload]
        self.others.append(process)
        process.stdout.readline()
        return process  # type: ignore[no-any-return]

    def join(self, rates: str) -> None:
        """Both daemons run and control the way between them, and whoever probes site b is answered."""
        self.configure(rates)
        for site in ("a", "b"):
            self.start(site)
        self.wait_for("controlled")
        self.echo()

    def echo(self) -> None:
        """Whoever probes site b is answered."""
        self.beside("b", sys.executable, "-c", ECHO)

    def probe(self, address: str, count: int, every_s: float, text: str = "") -> subprocess.Popen[str]:
        """Begins to probe `address` from site a; see [`told`]."""
        command = [sys.executable, "-c", PROBE, address, str(count), str(every_s), text]
        process = subprocess.Popen(self.within("a", *command), text=True, stdout=subprocess.PIPE)
        self.others.append(process)
        return process

    @contextmanager
    def tap(self, text: str) -> Iterator[dict[str, int]]:
        """Counts what passes from a to the middle, and what has `text` in it; filled in at the end."""
        process = self.beside("middle", sys.executable, "-c", TAP, "to-a", text)
        seen: dict[str, int] = {}
        yield seen
        said, _ = process.communicate("\n", timeout=10)
        seen.update(json.loads(said))

    def load(self, address: str, seconds: float, flows: int = 4, pace: float | None = None) -> "Load":
        """Begins to send by TCP from a to `address`, each flow at most `pace` bit/s; see [`Load.finish`]."""
        server = subprocess.Popen(
            self.within("b", "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + START_S
        while not _listens(server.pid, IPERF_PORT):
            if time.monotonic() > until or server.poll() is not None:
                raise SetupError("iperf3 does not listen")
            time.sleep(0.02)
        command = ["iperf3", "-c", address, "-P", str(flows), "-t", f"{seconds:g}", "-C", "cubic", "-J"]
        if pace is not None:
            command += ["--fq-rate", f"{pace:.0f}"]
        client = subprocess.Popen(self.within("a", *command), text=True, stdout=subprocess.PIPE)
        self.others += [server, client]  # type: ignore[list-item]
        return Load(client, server)


class Load:
    """Traffic that is under way."""

    def __init__(self, client: subprocess.Popen[str], server: subprocess.Popen[bytes]) -> None:
        self._client, self._server = client, server

    def finish(self) -> dict[str, Any]:
        """What iperf3 says when it is over."""
        said, _ = self._client.communicate(timeout=120)
        result: dict[str, Any] = json.loads(said)
        if "error" in result:
            raise SetupError(f"iperf3: {result['error']}")
        # The next one has the same port.
        self._server.wait(timeout=START_S)
        return result


def told(probe: subprocess.Popen[str]) -> list[tuple[float, float | None]]:
    """When each probe was sent and how long it took, once all were."""
    said, _ = probe.communicate(timeout=120)
    return [(sent, took) for sent, took in json.loads(said)]


def quantile(values: list[float], part: float) -> float:
    """The value below which `part` of them are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

"""A gateway with four others around it, each in a network namespace of its own, and a host in each."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.two_sites import Built, end_processes, network_of

HUB = "hub"
SPOKES = ("s0", "s1", "s2", "s3")
PORT = 51820
START_S = 15.0
RATES = '{ floor = "1Mbit", max = "1Gbit", fallback = "50Mbit" }'
HUB_INNER = "10.1.0.1"

# A host of a site: it sends back what comes by TCP, and writes into a file how many packets came by UDP.
HOST = """
import selectors, socket, sys
file = open(sys.argv[1], "w")
both = selectors.DefaultSelector()
listening = socket.create_server(("0.0.0.0", 7001), backlog=64)
heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
heard.bind(("0.0.0.0", 7002))
for one in (listening, heard):
    one.setblocking(False)
    both.register(one, selectors.EVENT_READ)
count = 0
print(flush=True)
while True:
    for key, _ in both.select():
        if key.fileobj is listening:
            one, _ = listening.accept()
            both.register(one, selectors.EVENT_READ)
        elif key.fileobj is heard:
            try:
                while True:
                    heard.recv(2000)
                    count += 1
            except BlockingIOError:
                file.seek(0)
                file.write(str(count))
                file.flush()
        else:
            data = b""
            try:
                data = key.fileobj.recv(1 << 16)
                key.fileobj.sendall(data)
            except OSError:
                pass
            if not data:
                both.unregister(key.fileobj)
                key.fileobj.close()
"""

# Opens a connection to each address; for each line on its input sends so many bytes over each and waits until
# they have come back; says how many.
TALK = """
import socket, sys, threading
connections = [socket.create_connection((address, 7001), timeout=20) for address in sys.argv[1:]]
print(len(connections), flush=True)
for line in sys.stdin:
    wanted = int(line)
    back = []
    def talk(one):
        def send():
            one.sendall(bytes(wanted))
        sender = threading.Thread(target=send)
        sender.start()
        left = wanted
        while left:
            data = one.recv(1 << 16)
            if not data:
                break
            left -= len(data)
        sender.join()
        back.append(wanted - left)
    all = [threading.Thread(target=talk, args=(one,)) for one in connections]
    for one in all: one.start()
    for one in all: one.join()
    print(sum(back), flush=True)
"""

# So many packets from each of so many ports to each address.
SHOUT = """
import socket, sys, time
ports, each = int(sys.argv[1]), int(sys.argv[2])
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(ports)]
for _ in range(each):
    for one in sockets:
        for address in sys.argv[3:]:
            one.sendto(bytes(500), (address, 7002))
    time.sleep(0.005)
"""


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class Star(Built):
    """See the module. A context: namespaces and daemons end with it."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.folder = Path(tempfile.mkdtemp(prefix="tidegate-star-"))
        # The daemon gives its rights away, and comes back for its file.
        self.folder.chmod(0o755)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.others: list[subprocess.Popen[str]] = []
        self.keys: dict[str, str] = {}

    def namespace(self, site: str) -> str:
        """Its name."""
        return f"{self.folder.name}-{site}"

    def inner(self, site: str) -> str:
        """The address of the host there."""
        return HUB_INNER if site == HUB else f"10.{10 + SPOKES.index(site)}.0.1"

    def outer(self, site: str, end: int) -> str:
        """Of the link between the hub (end 1) and a spoke (end 2)."""
        return f"192.0.2.{4 * SPOKES.index(site) + end}"

    def file(self, site: str) -> Path:
        """Its configuration."""
        return self.folder / f"{site}.toml"

    def within(self, site: str, *command: str) -> list[str]:
        """`command` as it runs in the namespace of `site`."""
        return ["ip", "netns", "exec", self.namespace(site), *command]

    def _build(self) -> None:
        (self.folder / "tidegatectl").symlink_to(self.program)
        for site in (HUB, *SPOKES):
            _run("ip", "netns", "add", self.namespace(site))
            _run("ip", "-n", self.namespace(site), "link", "set", "dev", "lo", "up")
            command = [self.folder / "tidegatectl", "keygen", self.folder / f"{site}.key"]
            made = subprocess.run(command, capture_output=True, text=True, check=True)
            self.keys[site] = made.stdout.strip()
        for site in SPOKES:
            hub, own = self.namespace(HUB), self.namespace(site)
            _run(
                *("ip", "link", "add", "wan", "netns", own, "type", "veth"),
                *("peer", "name", site, "netns", hub),
            )
            for namespace, device, end in ((hub, site, 1), (own, "wan", 2)):
                _run("ip", "-n", namespace, "address", "add", f"{self.outer(site, end)}/30", "dev", device)
                _run("ip", "-n", namespace, "link", "set", "dev", device, "up")
        self.spoke_rates(RATES)
        self.configure_hub(2)

    def configure(self, site: str, others: str, more: str = "") -> None:
        """Writes the configuration of `site`, with tables of `others` and `more` keys of its own."""
        self.file(site).write_text(
            f'[gateway]\nprivate_key_file = "{self.folder / site}.key"\naddress = ["{self.inner(site)}/16"]\n'
            f'socket = "{self.folder / site}.sock"\nuser = "nobody"\n'
            f'state = "{self.folder / site}.state/gateway.json"\n{more}{others}'
        )

    def spoke_rates(self, rates: str) -> None:
        """Writes the configurations of all but the hub."""
        for site in SPOKES:
            hub = f'[sites.hub]\npublic_key = "{self.keys[HUB]}"\nendpoint = "{self.outer(site, 1)}:{PORT}"\n'
            self.configure(site, hub + f'networks = ["10.1.0.0/16"]\nrate = {rates}\n')

    def configure_hub(self, threads: int, rates: str = RATES, more: dict[str, str] | None = None) -> None:
        """The same of the hub, which has so many threads, and `more` of some sites."""
        text = ""
        for site in SPOKES:
            text += f'[sites.{site}]\npublic_key = "{self.keys[site]}"\n'
            text += f'endpoint = "{self.outer(site, 2)}:{PORT}"\n'
            text += f'networks = ["{network_of(self.inner(site), 16)}"]\nrate = {rates}\n'
            text += f"{(more or {}).get(site, '')}\n"
        self.configure(HUB, text, f"threads = {threads}\n")

    def start(
        self, site: str, more: Sequence[str] = (), command: Sequence[str] | None = None, **options: Any
    ) -> None:
        """Starts its daemon, by `command` if it is another one."""
        run = command or [str(self.program), "run", str(self.file(site))]
        with (self.folder / f"{site}.log").open("ab") as log:
            whole = self.within(site, *run, *more)
            self.daemons[site] = subprocess.Popen(whole, stdout=log, stderr=log, **options)

    def kill(self, site: str) -> None:
        """Ends its daemon without a goodbye."""
        self.daemons[site].kill()
        self.daemons[site].wait()

    def log(self, site: str) -> str:
        """What its daemon has said."""
        return (self.folder / f"{site}.log").read_text()

    def control(self, site: str, *command: str) -> subprocess.CompletedProcess[str]:
        """`tidegatectl` at `site`."""
        whole = [str(self.folder / "tidegatectl"), "--socket", str(self.folder / f"{site}.sock"), *command]
        return subprocess.run(whole, capture_output=True, text=True, timeout=60)

    def status(self, site: str = HUB) -> dict[str, Any]:
        """All that its daemon shows; empty if it does not answer."""
        answer = self.control(site, "status", "--json")
        found: dict[str, Any] = json.loads(answer.stdout) if answer.returncode == 0 else {}
        return found

    def sites(self) -> dict[str, dict[str, Any]]:
        """What the hub shows of its sites, by name."""
        return {one["name"]: one for one in self.status().get("sites", [])}

    def wait(self, state: str = "controlled", sites: Sequence[str] = SPOKES) -> None:
        """Until the hub takes `sites` for that."""
        until = time.monotonic() + START_S
        while True:
            now = {name: one["state"] for name, one in self.sites().items()}
            if all(now.get(site) == state for site in sites):
                return
            assert time.monotonic() < until, f"{now}\n{self.log(HUB)}"
            time.sleep(0.1)

    def host(self, site: str) -> None:
        """Starts a host at `site`."""
        command = self.within(site, sys.executable, "-c", HOST, str(self.folder / f"{site}.count"))
        host = subprocess.Popen(command, text=True, stdout=subprocess.PIPE)
        self.others.append(host)
        assert host.stdout is not None
        host.stdout.readline()

    def heard(self, site: str) -> int:
        """How many packets have come to the host there, once no more come."""
        counts: list[int] = []
        while len(counts) < 5 or len(set(counts[-5:])) > 1:
            counts.append(int((self.folder / f"{site}.count").read_text() or 0))
            time.sleep(0.1)
        return counts[-1]

    def talk(self, site: str, addresses: Sequence[str]) -> "Talk":
        """Connections from the host at `site` to `addresses`."""
        command = self.within(site, sys.executable, "-c", TALK, *addresses)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        talk = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
        self.others.append(talk)
        assert talk.stdout.readline().strip() == str(len(addresses)), self.log(HUB)
        return Talk(talk, len(addresses))

    def shout(self, site: str, ports: int, each: int, addresses: Sequence[str]) -> None:
        """Sends one way, from so many ports at `site` so many packets each to each address."""
        _run(*self.within(site, sys.executable, "-c", SHOUT, str(ports), str(each), *addresses))

    def close(self) -> None:
        """Ends all of it."""
        end_processes(self.daemons.values(), self.others)
        for site in (HUB, *SPOKES):
            subprocess.run(["ip", "netns", "del", self.namespace(site)], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


class Talk:
    """Connections that stay open."""

    def __init__(self, process: subprocess.Popen[str], count: int) -> None:
        self.process, self.count = process, count

    def say(self, size: int) -> bool:
        """Whether so many bytes went over each connection and came back."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline() or 0) == size * self.count

"""How much the emulator carries, and how late it is, beside forwarding by the kernel in the same run.

One link with RED between two hosts, TCP of iperf3 over it, with and without segmentation offload: first a
link so fast that the machine is the bottleneck, then one of half the rate that was carried, for the lateness.
The kernel forwards between two namespaces through a third one, over veth devices, with and without
segmentation offload; the same TCP (CUBIC) sends over both. Needs root, iperf3 and iproute2. Numbers of a busy
machine mean little.

    sudo nice -n -15 python benches/emulator.py [--seconds 5] [--repeats 3] [--json FILE]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# Faster than any machine carries; RED works on every packet, and drops nothing while no queue forms.
ENDLESS = "100Gbit"
QUEUE = "{ kind = 'red', limit = '1000p', min = '100p', max = '300p' }"
# The default of the kernel may be another one (BBR paces), and that of the emulator's hosts is Reno.
CONTROL = "cubic"
CLIENT = f"sleep 0.3; exec iperf3 -c $TIDEGATE_PEER -C {CONTROL} -t {{seconds}} -O 1 -J"
# What `ethtool -K DEVICE tso off gso off gro off` does, by its commands STSO, SGSO and SGRO. (A device
# that takes one segment at a time (gso_max_segs 1) is no substitute: TCP's window stays tiny.)
SWITCH_OFF = """
import array, fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    for command in (0x1F, 0x24, 0x2C):
        value = array.array("B", struct.pack("II", command, 0))
        request = struct.pack("16sP8x", sys.argv[1].encode(), value.buffer_info()[0])
        fcntl.ioctl(sock, 0x8946, request)
"""


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    return subprocess.run([str(word) for word in words], text=True, check=True, capture_output=True)


def received_bps(iperf: str) -> float:
    """Payload that arrived, by what iperf3 says."""
    return json.loads(iperf)["end"]["sum_received"]["bits_per_second"]


class Forwarding:
    """Namespaces A and B, and R between them, which forwards."""

    def __init__(self, with_offload: bool) -> None:
        self.names = {host: f"tgbench-{os.getpid()}-{host}" for host in "arb"}
        self.with_offload = with_offload

    def __enter__(self) -> "Forwarding":
        for name in self.names.values():
            run("ip", "netns", "add", name)
        for number, host in enumerate("ab"):
            inner, outer = f"v{host}", f"r{host}"
            end, router = self.names[host], self.names["r"]
            run("ip", "-n", end, "link", "add", inner, "type", "veth", "peer", "name", outer, "netns", router)
            run("ip", "-n", end, "addr", "add", f"10.99.{number}.2/24", "dev", inner)
            run("ip", "-n", router, "addr", "add", f"10.99.{number}.1/24", "dev", outer)
            for name, device in ((end, inner), (router, outer)):
                run("ip", "-n", name, "link", "set", device, "up")
                if not self.with_offload:
                    self.inside(name, sys.executable, "-c", SWITCH_OFF, device)
            run("ip", "-n", end, "route", "add", "default", "via", f"10.99.{number}.1")
        self.inside(self.names["r"], "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def inside(self, name: str, *words: str) -> str:
        """Run a command in a namespace."""
        return run("ip", "netns", "exec", name, *words).stdout

    def carried_bps(self, seconds: int) -> float:
        """What TCP gets through."""
        server = ["ip", "netns", "exec", self.names["b"], "iperf3", "-s", "-1"]
        with subprocess.Popen(server, stdout=subprocess.DEVNULL) as process:
            time.sleep(0.3)
            client = ["iperf3", "-c", "10.99.1.2", "-C", CONTROL, "-t", str(seconds), "-O", "1", "-J"]
            said = self.inside(self.names["a"], *client)
            process.wait(timeout=10)
        return received_bps(said)


def emulated(program: Path, rate: str, offload: str, seconds: int) -> dict:
    """One run: what was carried in bits of IP per second, and the lateness."""
    ended = run(
        program, "emulate", "--rate", rate, "--delay", "1ms", "--queue", QUEUE,
        "--offload", offload, "--json", "--on", "B=exec iperf3 -s -1 >/dev/null",
        "--", "sh", "-c", CLIENT.format(seconds=seconds),
    )  # fmt: skip
    summary = json.loads(ended.stdout)
    emulation = summary["emulation"]
    goodput = received_bps(ended.stderr[ended.stderr.index("{") : ended.stderr.rindex("}") + 1])
    return {
        "offload": offload,
        "link_rate": rate,
        # iperf3 counts payload: 1448 of 1500 bytes.
        "carried_bps": goodput * 1500 / 1448,
        "kept_up": emulation["kept_up"],
        "lateness": emulation["lateness"],
        "dropped_packets": summary["links"]["link"]["dropped_packets"],
        "unbuffered_packets": emulation["unbuffered_packets"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/tidegate-emulate")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("namespaces need root; run it with sudo")
    if missing := [tool for tool in ("iperf3", "ip") if not shutil.which(tool)]:
        sys.exit(f"install {', '.join(missing)} first (Debian: apt install iperf3 iproute2)")
    repeats = range(arguments.repeats)
    results: dict[str, object] = {"cores": os.cpu_count(), "seconds": arguments.seconds}
    print(f"{os.cpu_count()} cores; {arguments.repeats} runs of {arguments.seconds} s each")
    print("Gbit/s of 1500-byte packets, median and all runs\n")
    for offload in ("off", "on"):
        with Forwarding(offload == "on") as kernel:
            forwarded = [kernel.carried_bps(arguments.seconds) * 1500 / 1448 for _ in repeats]
        largest = [emulated(arguments.program, ENDLESS, offload, arguments.seconds) for _ in repeats]
        carried = [one["carried_bps"] for one in largest]
        half = f"{round(median(carried) / 2e6)}Mbit"
        late = [emulated(arguments.program, half, offload, arguments.seconds) for _ in repeats]
        results[offload] = {"forwarded_bps": forwarded, "largest": largest, "half": late}
        show = lambda values: ", ".join(f"{value / 1e9:.2f}" for value in sorted(values))  # noqa: E731
        print(f"offload {offload}")
        print(f"  kernel forwards   {median(forwarded) / 1e9:6.2f}   ({show(forwarded)})")
        print(f"  emulator carries  {median(carried) / 1e9:6.2f}   ({show(carried)})")
        for what in ("events", "deliveries"):
            parts = [
                f"{key[:-3]} {median(one['lateness'][what][key] for one in late):.0f} us"
                for key in ("p50_us", "p99_us", "max_us")
            ]
            print(f"  at {half:>9} {what} are late by {', '.join(parts)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""One of our gateways with `wireguard-go` at the other end, both ways round, over renewals of keys.

TCP of iperf3 goes from site a to site b as fast as it goes for a moment, then at a rate, and beside that a
probe is sent fifty times a second: what was lost, and how long the longest took. WireGuard renews keys every
120 s, so that 300 s have two renewals. Ours has a fixed rate towards an end that knows no path control. Needs
root, iperf3, iproute2, and `wireguard-go` (or Go, with which it is made).

    sudo python benches/gateway_interop.py [--seconds 300] [--program FILE] [--peer FILE]
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benches")]

from gateway import MTU, Peers, peer_program, stop  # noqa: E402

from tidegate.two_sites import INNER, TwoSites, obstacle, told  # noqa: E402

RATES = '{ floor = "1Mbit", max = "1Gbit", fallback = "1Mbit" }'
FIXED = '{ kind = "fixed", rate = "300Mbit" }'
EVERY_S, PACE_BPS, FAST_S = 0.02, 25e6, 5.0


def start(sites: TwoSites, ours: str, peer: Path) -> None:
    """Our daemon at site `ours`, and the other one."""
    other = "b" if ours == "a" else "a"
    file = sites.file(ours)
    keys = ("control", "mtu")
    lines = [line for line in file.read_text().splitlines() if not line.startswith(keys)]
    lines[1:1] = [f"mtu = {MTU}"]
    file.write_text("\n".join([*lines, f"control = {FIXED}", ""]))
    sites.start(ours)
    Peers(sites, peer).start(other)
    sites.echo()
    until = time.monotonic() + 20
    answered = False
    while not answered:
        if time.monotonic() > until:
            sys.exit(f"nothing comes through:\n{sites.log(ours)}")
        answered = any(took is not None for _, took in told(sites.probe(INNER["b"], 5, EVERY_S)))


def main() -> None:
    """Both ways round."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/tidegate-gateway")
    parser.add_argument("--peer", type=Path, help="wireguard-go")
    arguments = parser.parse_args()
    if (why := obstacle()) or shutil.which("iperf3") is None:
        sys.exit(why or "install iperf3 first (Debian: apt install iperf3)")
    peer = arguments.peer or peer_program()
    for ours in "ab":
        with TwoSites(arguments.program.resolve(), None) as sites:
            sites.configure(RATES)
            start(sites, ours, peer)
            fast = sites.load(INNER["b"], FAST_S).finish()["end"]["sum_received"]["bits_per_second"]
            probe = sites.probe(INNER["b"], round(arguments.seconds / EVERY_S), EVERY_S)
            load = sites.load(INNER["b"], arguments.seconds, pace=PACE_BPS)
            time.sleep(arguments.seconds)
            answers = told(probe)
            paced = load.finish()["end"]
            took = [one for _, one in answers if one is not None]
            where = (
                "ours sends, wireguard-go receives" if ours == "a" else "wireguard-go sends, ours receives"
            )
            print(
                f"{where}: {fast / 1e6:.0f} Mbit/s; {len(answers)} probes in {arguments.seconds:g} s, "
                f"{len(answers) - len(took)} lost, the longest {1e3 * max(took):.1f} ms, beside "
                f"{paced['sum_received']['bits_per_second'] / 1e6:.0f} Mbit/s with "
                f"{paced['sum_sent']['retransmits']} retransmissions"
            )
            stop(sites)


if __name__ == "__main__":
    main()

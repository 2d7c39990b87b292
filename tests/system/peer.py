"""What runs inside the hosts: a server and clients that need nothing but Python."""

import json
import os
import socket
import sys
import threading
import time

PORT = 5001


def dial(address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Connect; the server may still be starting."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    deadline = time.monotonic() + 5
    while True:
        try:
            sock = socket.socket(family, kind)
            sock.connect((address, PORT))
            return sock
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def serve() -> None:
    """Echo datagrams; swallow streams and answer each with the bytes it had, when it ends."""
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.bind(("::", PORT))
    silent = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    silent.bind(("::", PORT + 1))

    def echo() -> None:
        while True:
            data, peer = udp.recvfrom(65536)
            udp.sendto(data, peer)

    threading.Thread(target=echo, daemon=True).start()
    listener = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True)

    def swallow(connection: socket.socket) -> None:
        total, first, last = 0, None, 0.0
        while data := connection.recv(1 << 18):
            last = time.monotonic()
            # The first bytes mark the start; the rate is that of what follows.
            if first is None:
                first = last
            else:
                total += len(data)
        elapsed = last - (first if first is not None else last)
        connection.sendall(json.dumps({"bytes": total, "seconds": elapsed}).encode())
        connection.close()

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=swallow, args=(connection,), daemon=True).start()


def round_trips(address: str, count: int) -> None:
    """Round-trip times of datagrams in milliseconds, as JSON."""
    dial(address).close()  # the server is there now
    sock = dial(address, socket.SOCK_DGRAM)
    sock.settimeout(2)
    times = []
    for number in range(count):
        start = time.monotonic()
        sock.send(str(number).encode())
        sock.recv(100)
        times.append((time.monotonic() - start) * 1e3)
        time.sleep(0.02)
    print(json.dumps({"round_trips_ms": times}))


def flood(address: str, seconds: float) -> None:
    """Send small datagrams as fast as this can for so long; how many, and from which port."""
    dial(address).close()
    time.sleep(0.3)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Nobody answers there.
    sock.connect((address, PORT + 1))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    sent, end, data = 0, time.monotonic() + seconds, bytes(64)
    while time.monotonic() < end:
        for _ in range(64):
            sock.send(data)
        sent += 64
    # What still waits in the queue of the socket and of the device goes on.
    time.sleep(0.5)
    print(json.dumps({"sent": sent, "port": sock.getsockname()[1]}))


def trace(version: str, count: int) -> None:
    """Who answers datagrams with few hops to go, and after how long."""
    address = os.environ["TIDEGATE_PEER" if version == "4" else "TIDEGATE_PEER6"]
    dial(address).close()
    level, hops, errors = {
        "4": (socket.IPPROTO_IP, socket.IP_TTL, 11),
        "6": (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 25),
    }[version]
    found = []
    for number in range(1, count + 1):
        sock = dial(address, socket.SOCK_DGRAM)
        sock.setsockopt(level, errors, 1)
        sock.setsockopt(level, hops, number)
        start = time.monotonic()
        sock.send(b"?")
        sock.settimeout(2)
        try:
            sock.recv(100)
            who = "echo"
        except OSError:
            _, more, _, _ = sock.recvmsg(2000, 1000, 0x2000)
            # After what went wrong comes the address of who says so.
            family, offender = more[0][0], more[0][2][16:]
            who = (
                socket.inet_ntop(socket.AF_INET, offender[4:8])
                if family == socket.IPPROTO_IP
                else socket.inet_ntop(socket.AF_INET6, offender[8:24])
            )
        found.append({"from": who, "ms": (time.monotonic() - start) * 1e3})
    print(json.dumps({"hops": found}))


def labels() -> None:
    """Datagrams of one connection over IPv6, each with another flow label."""
    address = os.environ["TIDEGATE_PEER6"]
    dial(address).close()
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind(("::", 0))
    # IPV6_FLOWINFO_SEND of Linux: the label is taken from the address.
    sock.setsockopt(socket.IPPROTO_IPV6, 33, 1)
    for number in range(50):
        sock.sendto(b"x", (address, PORT + 1, number + 1, 0))
        time.sleep(0.005)
    time.sleep(0.3)
    print(json.dumps({"sent": 50, "port": sock.getsockname()[1]}))


def large(address: str, size: int) -> None:
    """Send datagrams that must not be cut, until the system refuses it; what it knows of the path."""
    dial(address).close()
    sock = dial(address, socket.SOCK_DGRAM)
    # IP_MTU_DISCOVER: IP_PMTUDISC_DO.
    sock.setsockopt(socket.IPPROTO_IP, 10, 2)
    sent, refused = 0, ""
    while sent < 20 and not refused:
        try:
            sock.send(bytes(size))
            sent += 1
            time.sleep(0.1)
        except OSError as why:
            refused = os.strerror(why.errno)
    # IP_MTU.
    print(json.dumps({"sent": sent, "refused": refused, "mtu": sock.getsockopt(socket.IPPROTO_IP, 14)}))


def stream(address: str, seconds: float, control: str | None) -> None:
    """Send for so long over TCP; what the other side got, as JSON."""
    sock = dial(address)
    if control:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    used = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    end = time.monotonic() + seconds
    chunk = bytes(1 << 16)
    while time.monotonic() < end:
        sock.sendall(chunk)
    sock.shutdown(socket.SHUT_WR)
    answer = json.loads(sock.recv(1000))
    print(json.dumps({"congestion_control": used, "bps": answer["bytes"] * 8 / answer["seconds"], **answer}))


def main() -> None:
    what, *rest = sys.argv[1:]
    peer = os.environ["TIDEGATE_PEER"]
    if what == "serve":
        serve()
    elif what == "round_trips":
        round_trips(peer, int(rest[0]))
    elif what == "round_trips6":
        round_trips(os.environ["TIDEGATE_PEER6"], int(rest[0]))
    elif what == "flood":
        flood(peer, float(rest[0]))
    elif what == "trace":
        trace(rest[0], int(rest[1]))
    elif what == "large":
        large(peer, int(rest[0]))
    elif what == "labels":
        labels()
    elif what == "stream":
        stream(peer, float(rest[0]), rest[1] if len(rest) > 1 else None)
    else:
        sys.exit(f"unknown: {what}")


if __name__ == "__main__":
    main()

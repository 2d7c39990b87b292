"""A server of pages for `real/pages`, and the book that it keeps of how long a browser takes to load them.

    pages.py --address 10.0.0.1 --port 50000 --flow browser --page 10000 --images 12 --image 30000

HTTP/1.1 with connections that persist. A page is a document that names images at its end; each answer,
with its head, has exactly the bytes that were asked for. When a browser has loaded a page, the page
itself sends what the browser measured (Navigation Timing, Resource Timing), over the network and after
the load. Then the server closes all connections, as the simulator's client does, and the browser goes to
the next page after the time to think. What was measured so far is in FLOW.json in the folder that
`TIDEGATE_RESULTS` names, in the keys that the simulator's `pages` have; without one it is printed.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import struct
import sys
import zlib
from pathlib import Path

# Bytes of the head of a request, and of a report.
HEAD_MAX = 1 << 16
REPORT_MAX = 1 << 20
# Pages of which something is kept.
LOADS_MAX = 100_000

SCRIPT = """<script>
addEventListener("load", () => setTimeout(() => {
  const page = performance.getEntriesByType("navigation")[0];
  const images = performance.getEntriesByType("resource");
  const body = JSON.stringify({
    begun: page.connectStart, connected: page.connectEnd, document: page.responseEnd,
    images: images.map(one => [one.startTime, one.requestStart, one.responseEnd]),
  });
  fetch("/report", { method: "POST", body }).finally(() => setTimeout(() => location.href = "NEXT", THINK));
}, 0));
</script>
"""


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(size: int) -> bytes:
    """A PNG of one pixel that has `size` bytes; a private chunk fills it up."""
    before = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    after = chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    room = size - len(before) - len(after) - len(chunk(b"fiLl", b""))
    if room < 0:
        raise ValueError(f"an image cannot have {size} bytes with its head: ask for at least 400")
    return before + chunk(b"fiLl", bytes(room)) + after


def answer(size: int, kind: str, body_of) -> bytes:
    """An answer of `size` bytes in all; `body_of` makes the body from its length."""
    length = size
    while True:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
        head += "Cache-Control: no-store\r\n\r\n"
        if len(head) + length <= size:
            break
        length = size - len(head)
    # One digit less in the length leaves a byte, which the head takes.
    head = head.replace("OK", "OK" + "." * (size - length - len(head)))
    return head.encode() + body_of(length)


def document(number: int, length: int, images: int, think: float) -> bytes:
    """The HTML of page `number`: what it names stands at its end. Thinking is exponentially distributed."""
    pause = random.expovariate(1 / think) if think > 0 else 0.0
    script = SCRIPT.replace("NEXT", f"/page/{number + 1}").replace("THINK", str(round(1000 * pause)))
    start = f'<!doctype html><html><head><title>{number}</title><link rel="icon" href="data:,">{script}<!--'
    names = "".join(f'<img src="/image/{number}/{image}" alt="">' for image in range(images))
    end = f"--></head><body>{names}</body></html>"
    room = length - len(start) - len(end)
    if room < 0:
        raise ValueError(f"a page with {images} images needs {-room} bytes more")
    return (start + "." * room + end).encode()


def spread(values: list[float]) -> dict[str, float]:
    """Mean and percentiles, as the simulator has them."""
    ranked = sorted(values)
    rank = {name: ranked[min(int(share * len(ranked)), len(ranked) - 1)] for name, share in SHARES.items()}
    return {"mean": statistics.fmean(ranked), **rank, "p50": statistics.median(ranked)}


SHARES = {"p95": 0.95, "p99": 0.99}


class Book:
    """What was measured."""

    def __init__(self, skip: int):
        """The first `skip` pages are not counted: the browser starts."""
        self.skip = skip
        self.begun = self.connections = 0
        self.loads: list[float] = []
        self.objects: list[float] = []
        self.found: list[float] = []
        self.requests: list[int] = []

    def is_open(self) -> bool:
        """Whether the page that was begun last counts."""
        return self.skip < self.begun <= self.skip + LOADS_MAX

    def add(self, told: dict) -> None:
        """A page was loaded."""
        images = told["images"]
        self.loads.append((max(end for _, _, end in images) - told["begun"]) / 1e3)
        self.objects += [(told["document"] - told["begun"]) / 1e3]
        self.objects += [(end - start) / 1e3 for start, _, end in images]
        self.found.append((min(start for start, _, _ in images) - told["document"]) / 1e3)

    def pages(self) -> dict:
        """As the simulator's summary has it, and what the simulation has to be told."""
        return {
            "begun": self.begun - self.skip,
            "loaded": len(self.loads),
            "load_s": spread(self.loads),
            "objects": len(self.objects),
            "object_s": spread(self.objects),
            "connections": self.connections,
            "found_s": spread(self.found),
            "request_bytes": statistics.fmean(self.requests),
        }


class Server:
    """See the module."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.book = Book(options.skip)
        self.image = answer(options.image, "image/png", picture)
        self.open: set[asyncio.StreamWriter] = set()
        folder = os.environ.get("TIDEGATE_RESULTS")
        self.file = Path(folder) / f"{options.flow}.json" if folder else None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.open.add(writer)
        is_counted = False
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, *_ = head.decode("latin-1").split(" ")
                if method == "POST":
                    await self.report(reader, writer, head)
                    continue
                if path.startswith("/page/"):
                    number = int(path.removeprefix("/page/"))
                    self.book.begun += 1
                    writer.write(self.page(number))
                else:
                    writer.write(self.image)
                if self.book.is_open():
                    self.book.requests.append(len(head))
                    self.book.connections += not is_counted
                    is_counted = True
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the browser has closed it
        finally:
            self.open.discard(writer)
            writer.close()

    def page(self, number: int) -> bytes:
        """The answer with page `number`."""
        images, think = self.options.images, self.options.think
        return answer(self.options.page, "text/html", lambda length: document(number, length, images, think))

    async def report(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        """A page was loaded: what the browser says of it."""
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
        length = int(fields[b"content-length"])
        if length > REPORT_MAX:
            raise ValueError(f"a report of {length} bytes")
        told = json.loads(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        if self.book.is_open():
            self.book.add(told)
            self.write()
        for other in self.open:
            other.close()

    def write(self) -> None:
        """Tells what is known."""
        text = json.dumps({"pages": self.book.pages()})
        if self.file is None:
            print(text, flush=True)
            return
        # Whole at every instant: the emulation may end at any.
        half = self.file.with_suffix(".part")
        half.write_text(text)
        half.replace(self.file)


async def run(options: argparse.Namespace) -> None:
    """Serve until killed."""
    listener = socket.create_server((options.address, options.port), backlog=256)
    # Accepted connections have what the listener has.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, options.control.encode())
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = await asyncio.start_server(Server(options).serve, sock=listener, limit=HEAD_MAX)
    await server.serve_forever()


def main() -> None:
    """Read the arguments and serve."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--address", required=True, help="where to listen")
    parser.add_argument("--port", type=int, required=True, help="where to listen")
    parser.add_argument("--flow", required=True, help="the flow of the scenario that the pages are")
    parser.add_argument("--page", type=int, required=True, help="bytes of the document, with the head")
    parser.add_argument("--images", type=int, required=True, help="how many it names")
    parser.add_argument("--image", type=int, required=True, help="bytes of each, with the head")
    parser.add_argument("--think", type=float, default=1.0, help="mean seconds from a page until the next")
    parser.add_argument("--skip", type=int, default=2, help="pages at first that do not count")
    parser.add_argument("--control", default="cubic", help="congestion control")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()

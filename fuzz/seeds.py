"""Gives the targets that read text what the repository itself has: files in seeds/TARGET."""

import hashlib
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
# Larger ones only slow the fuzzer down.
BYTES_MAX = 4096


def put(target: str, data: bytes) -> None:
    """One more seed."""
    if len(data) <= BYTES_MAX:
        folder = HERE / "seeds" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)


def main() -> None:
    """Scenarios of the documentation, of benchmarks and of tests; all experiments; some traces."""
    documentation = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    texts = re.findall(r"```toml[^\n]*\n(.*?)```", documentation, re.DOTALL)
    scenarios = [text.encode() for text in texts]
    for folder in ("benches/scenarios", "tests"):
        scenarios += [path.read_bytes() for path in (ROOT / folder).rglob("*.toml")]
    for text in scenarios:
        put("scenario", text)
    for text in scenarios:
        if b"[gateway]" in text:
            put("configuration", text)
    put("requests", b"\xff\x00GET /metrics HTTP/1.1\r\nHost: [::1]:9586\r\n\r\n")
    put("requests", b"\x01\x01status\n")
    put("state", b'{"version":1,"stamp_ns":1764037260123456789}\n')
    for path in (ROOT / "python/tidegate/experiments").rglob("*.toml"):
        put("experiment", path.read_bytes())
    traces = ("0\n", "1\n2\n2\n5\n", "# comment\n0\n10\n", "1\n1\n1000000000\n", "5\n3\n", "-1\n", "1.5\n")
    for text in traces:
        put("trace", text.encode())


if __name__ == "__main__":
    main()

"""Gives the targets that read text what the repository itself has: files in seeds/scenario, experiment and trace."""

import hashlib
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
# Larger ones only slow the fuzzer down.
BYTES_MAX = 4096


def put(target: str, text: str) -> None:
    data = text.encode()
    if len(data) <= BYTES_MAX:
        folder = HERE / "seeds" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)


def main() -> None:
    scenarios = re.findall(r"```toml[^\n]*\n(.*?)```", "".join(map(Path.read_text, (ROOT / "docs").glob("*.md"))), re.DOTALL)
    scenarios += [path.read_text() for path in (ROOT / "benches/scenarios").glob("*.toml")]
    scenarios += [path.read_text() for path in (ROOT / "tests").rglob("*.toml")]
    for text in scenarios:
        put("scenario", text)
    for path in (ROOT / "python/tidegate/experiments").rglob("*.toml"):
        put("experiment", path.read_text())
    for text in ("0\n", "1\n2\n2\n5\n", "# comment\n0\n10\n", "1\n1\n1000000000\n", "5\n3\n", "-1\n", "1.5\n", "\n\n7"):
        put("trace", text)


if __name__ == "__main__":
    main()

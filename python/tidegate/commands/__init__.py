"""What each `tidegate` command does; `cli` parses, these act and return the exit code."""

from tidegate.errors import UsageError


def parse_overrides(texts: list[str]) -> list[tuple[str, str]]:
    """`PATH=VALUE` texts as pairs."""
    pairs = []
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise UsageError(f"--set {text}: write PATH=VALUE, e.g. links.bottleneck.rate=2Mbit")
        pairs.append((path.strip(), value.strip()))
    return pairs

"""What was frozen of references and peers is of the scripts as they are: who edits one freezes again."""

import hashlib
import json
from pathlib import Path

import pytest

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
# Our own random numbers, which the references draw: `crates/mechanism` holds them.
OURS = "draws.json"
# Files, and from where the paths in them count.
FROZEN = [
    *((path, ORACLE) for path in sorted(ORACLE.glob("verdicts/*.json")) if path.name != OURS),
    *((path, path.parents[1]) for path in sorted(ORACLE.glob("ns[23]/frozen/*.json"))),
]


@pytest.mark.parametrize(
    ("path", "sources"), FROZEN, ids=[str(path.relative_to(ORACLE)) for path, _ in FROZEN]
)
def test_what_is_frozen_is_of_the_scripts_as_they_are(path, sources):
    recorded = json.loads(path.read_text())["scripts_sha256"]
    assert recorded
    changed = [
        name
        for name, digest in recorded.items()
        if hashlib.sha256((sources / name).read_bytes()).hexdigest() != digest
    ]
    assert not changed, (
        f"{path.name} is of earlier ones: freeze again (tests/oracle), and look at what differs"
    )

"""Checks as they are stored, counted by how they came out and by what a pass is worth."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.checks.verdict import NOT_COMPARABLE

# What a check that passes is worth: a number that follows from the document and came out; a claim in words; a
# number from which a parameter was inferred; what we assume ourselves, as a rule to show a cause.
WORTHS = ("predicted", "qualitative", "fitted", "own")


def worth(check: Mapping[str, Any]) -> str:
    """One of `WORTHS`, of a check as it is stored."""
    if check["provenance"] == "fitted":
        return "fitted"
    if check["provenance"] == "assumed":
        return "own"
    return "qualitative" if check["kind"] == "qualitative" else "predicted"


def counts(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many checks there are of each status; those that pass by what they are worth."""
    found = {worth: 0 for worth in WORTHS} | {"differs": 0, "fail": 0, NOT_COMPARABLE: 0, "skipped": 0}
    for check in outcomes:
        found[worth(check) if check["status"] == "pass" else check["status"]] += 1
    return found

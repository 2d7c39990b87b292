"""Expected against measured.

In: the `expected.toml` beside an experiment (`declared`), and the runs of that experiment. From these runs
comes, per check, the value that it speaks of (`measured`), and from value and bounds an `Outcome`
(`verdict`). Out: outcomes, whose records go into result folders; tables and reports count these by what they
are worth (`tally`). What is undecided goes to `seeding`, which runs more seeds.
"""

from tidegate.checks.declared import Check, Expectations, load, require_fits
from tidegate.checks.measured import looks_at
from tidegate.checks.tally import WORTHS, counts, worth
from tidegate.checks.verdict import (
    NOT_COMPARABLE,
    Outcome,
    evaluate,
    not_comparable,
    status_of,
    undecided,
)

__all__ = [
    "NOT_COMPARABLE",
    "WORTHS",
    "Check",
    "Expectations",
    "Outcome",
    "counts",
    "evaluate",
    "load",
    "looks_at",
    "not_comparable",
    "require_fits",
    "status_of",
    "undecided",
    "worth",
]

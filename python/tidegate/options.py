"""Options that several commands of `tidegate` have, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

from tidegate import errors

# A seed is a number of 64 bits.
SEED_MAX = 2**64 - 1

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override one value, e.g. links.bottleneck.rate=2Mbit."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys instead of text.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Runs at the same time. Default: one per core.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on this Dask scheduler, or on local:N processes."),
]
Seeds = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Run seeds 1 to N instead of the file's.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Few seeds and points: the form the tests use.")]
Allowed = Annotated[
    list[Path] | None,
    typer.Option("--allow", metavar="DIR", help="Also read includes and traces in this folder."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Keep the points that an earlier run finished.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Throw away what an earlier run left.")]


def require_one(resume: bool, fresh: bool) -> None:
    """Complains if both are wanted."""
    if resume and fresh:
        raise errors.UsageError("--resume and --fresh exclude each other")

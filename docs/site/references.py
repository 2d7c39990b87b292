"""References of the two languages: pages that let Sphinx read the package, and lead to what rustdoc made."""

import importlib
import inspect
import re
from pathlib import Path

from pages import ROOT, write

import tidegate
from tidegate import api, design, experiment, home, own, tidy

# What public functions take and give back, beside what `tidegate` itself names.
BESIDE = {
    "tidegate.home.Picture": home.Picture,
    "tidegate.home.Results": home.Results,
    "tidegate.tidy.Frame": tidy.Frame,
    "tidegate.experiment.PointResult": experiment.PointResult,
    "tidegate.own.QueueContext": own.QueueContext,
    "tidegate.own.ControlContext": own.ControlContext,
    "tidegate.api.RunOptions": api.RunOptions,
}


def make(target: Path, made: Path | None) -> list[str]:
    """Write the pages, that of Rust where rustdoc has `made` some; back come those of the sidebar."""
    write(target / "reference/python.md", python())
    if made is None:
        return ["reference/python.md"]
    write(target / "reference/rust.md", rust(made))
    return ["reference/python.md", "reference/rust.md"]


def python() -> str:
    """Everything that `tidegate` gives to programs."""
    found = {
        f"tidegate.{name}": getattr(tidegate, name) for name in tidegate.__all__ if name != "__version__"
    }
    names = {name: thing for name, thing in found.items() if not inspect.ismodule(thing)}
    parts = [
        "# Python: all names",
        "What `import tidegate` gives. [Python](../python.md) shows how it goes together; everything else of "
        "the package may change.",
        "## Functions",
        *(_directive(name) for name, thing in names.items() if inspect.isroutine(thing)),
        "## Classes",
        *(
            _directive(name, members=True)
            for name, thing in (names | BESIDE).items()
            if _is_plain_class(thing)
        ),
        "## Errors",
        *(_directive(name) for name, thing in names.items() if _is_error(thing)),
        "## `tidegate.design`",
        "Parameters of queues ([designing a queue](../design.md)).",
        *(
            _directive(f"tidegate.design.{name}", inspect.isclass(getattr(design, name)))
            for name in design.__all__
        ),
        "## `tidegate.gym`",
        "Environments for agents that learn ([learning](../gym.md)).",
        _directive("tidegate.gym.dumbbell"),
        _directive("tidegate.gym.NetworkEnv"),
    ]
    return "\n\n".join(parts) + "\n"


def _is_error(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _is_plain_class(thing: object) -> bool:
    return inspect.isclass(thing) and not _is_error(thing)


def _directive(name: str, members: bool = False) -> str:
    module, _, short = name.rpartition(".")
    kind = "autoclass" if inspect.isclass(getattr(importlib.import_module(module), short)) else "autofunction"
    options = "   :members:\n" if members else ""
    return f"```{{eval-rst}}\n.. {kind}:: {name}\n{options}```"


def rust(made: Path) -> str:
    """The crates of which rustdoc has `made` pages, each with what its first sentence says."""
    rows = []
    for manifest in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        crate = f"tidegate_{manifest.parent.name}"
        if not (made / crate / "index.html").exists():
            continue
        lines = (manifest.parent / "src/lib.rs").read_text(encoding="utf-8").splitlines()
        told = " ".join(line.removeprefix("//!").strip() for line in lines if line.startswith("//!"))
        first = re.split(r"(?<=[.:])\s", told)[0].rstrip(":")
        first = re.sub(r"\[(`[^`]+`)\]", r"\1", first).replace("|", r"\|")
        link = f'<a href="../rust/{crate}/index.html"><code>{crate}</code></a>'
        rows.append(f"| {link} | {first} |")
    return RUST.replace("@ROWS@", "\n".join(rows))


RUST = """# Rust: the public crates

What rustdoc says of the crates on which code outside of this repository builds. Whoever writes a mechanism
needs `tidegate_own` ([a mechanism of your own](../own-mechanism.md)), which has what is needed of the others.
[Architecture](../project/architecture.md) says which crates there are besides.

| crate | holds |
|---|---|
@ROWS@
"""

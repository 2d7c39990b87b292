"""Completion: what may follow on a command line. The protocol and the scripts are click's and typer's."""

import os
from enum import StrEnum


class Shell(StrEnum):
    """Shells that can ask."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def experiments(incomplete: str) -> list[str]:
    """Groups of experiments and their ids that begin so."""
    from tidegate import library

    known = library.all_experiments()
    groups = {name.rpartition("/")[0] for name in known}
    return _that_begin([*sorted(groups), *known], incomplete)


def mechanisms(incomplete: str) -> list[str]:
    """Names of mechanisms that begin so."""
    from tidegate.commands import inspect

    return _that_begin(inspect.mechanism_names(), incomplete)


def queues(incomplete: str) -> list[str]:
    """Kinds of queues that begin so."""
    from tidegate import starter

    return _that_begin([*starter.queues()], incomplete)


def controls(incomplete: str) -> list[str]:
    """Kinds of congestion controls that begin so."""
    from tidegate import starter

    return _that_begin([*starter.controls()], incomplete)


def suites(incomplete: str) -> list[str]:
    """Names of evaluation suites that begin so."""
    from tidegate.suite import declared

    return _that_begin(declared.names(), incomplete)


def suite_mechanisms(incomplete: str) -> list[str]:
    """Names of mechanisms for suites that begin so."""
    from tidegate.suite import mechanisms as known

    return _that_begin(list(known.shipped()), incomplete)


def tunings(incomplete: str) -> list[str]:
    """Names of tunings that ship and begin so."""
    from tidegate.tuning import declared

    return _that_begin(list(declared.shipped()), incomplete)


def lists(incomplete: str) -> list[str]:
    """What can be listed and begins so."""
    return _that_begin(["mechanisms", "plots", "experiments"], incomplete)


def _that_begin(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def answer_if_asked() -> None:
    """Make the command line answer a shell, if one asks: it does so by a variable of the environment."""
    if any(name.endswith("_COMPLETE") for name in os.environ):
        from typer.completion import completion_init

        completion_init()


def script(shell: Shell, program: str) -> str:
    """What a shell is to read so that it completes the command `program`."""
    from typer.completion import get_completion_script

    # A command with mechanisms of one's own has another name; `python -m tidegate` is none.
    name = "tidegate" if not program or " " in program else program
    variable = f"_{name.replace('-', '_').replace('.', '_').upper()}_COMPLETE"
    return get_completion_script(prog_name=name, complete_var=variable, shell=shell.value)

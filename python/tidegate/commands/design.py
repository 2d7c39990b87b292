"""`tidegate design`: one subcommand per mechanism, declared beside its reasoning in `tidegate.design`.

To add one: a module `tidegate/design/NAME.py` with a function `command` (its parameters are the options; it
prints and returns the exit code), and its name here.
"""

from importlib import import_module

import typer

MECHANISMS = ("blue", "ered", "red", "sfb")

app = typer.Typer(
    name="design",
    help="Find parameters for a queue from link rate, round-trip time and number of flows.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

for _name in MECHANISMS:
    app.command(name=_name)(import_module(f"tidegate.design.{_name}").command)

"""The `tidegate` command: declares what can be asked, hands over to `tidegate.commands`, sets the exit code.

Everything heavy is imported inside the command that needs it, so that `tidegate --help` answers at once.
Results go to stdout, progress and complaints to stderr.
"""

from pathlib import Path
from typing import Annotated

import typer

from tidegate import process, reach, shells, starter
from tidegate.commands import emulate
from tidegate.commands.demo import app as demo
from tidegate.commands.design import app as design
from tidegate.errors import UsageError
from tidegate.options import (
    SEED_MAX,
    Allowed,
    Cluster,
    Fresh,
    Json,
    Overrides,
    Quick,
    Resume,
    Seeds,
    Workers,
    require_one,
)

app = typer.Typer(
    name="tidegate",
    help="Simulate how networks handle congestion, and reproduce what has been published about it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tidegate import _core

        # A module with mechanisms of one's own is another build, which has a name of its own.
        build = getattr(_core, "__build__", _core.__name__)
        print(f"tidegate {_core.__version__} ({build})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print version and build."),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="A scenario file (TOML).")],
    overrides: Overrides = None,
    variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run this version of an experiment, not the file itself."),
    ] = None,
    allowed: Allowed = None,
    seed: Annotated[int | None, typer.Option(min=0, max=SEED_MAX, help="Seed of the random numbers.")] = None,
    as_json: Json = False,
    timing: Annotated[bool, typer.Option("--timing", help="What the run cost, on stderr.")] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write packets as pcapng, for Wireshark.")
    ] = None,
    trace_at: Annotated[
        str | None,
        typer.Option(
            metavar="PLACES",
            help="Where: hosts (that send; the default), links, or names of them with commas.",
        ),
    ] = None,
    trace_drops: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write dropped and marked packets as pcapng, with the reasons."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Keep a result folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the result that is in DIR.")] = False,
    cores: Annotated[
        int, typer.Option(min=1, max=64, help="Cores that may simulate it, where that is faster.")
    ] = 1,
) -> int:
    """Run one scenario once; print a summary per flow and link."""
    from tidegate.commands import run as command

    reach.allow(allowed)
    if trace_at is not None and trace is None:
        raise UsageError("--trace-at says where --trace looks: give --trace FILE as well")
    places = [place.strip() for place in (trace_at or "hosts").split(",") if place.strip()]
    return command.run(
        scenario,
        overrides or [],
        seed,
        as_json,
        timing,
        trace,
        places,
        trace_drops,
        out,
        force,
        cores,
        variant,
    )


@app.command(short_help="Write a commented scenario to begin with.")
def new(
    context: typer.Context,
    network: Annotated[
        starter.Network | None, typer.Argument(help="The kind of network. None: questions, on a terminal.")
    ] = None,
    rate: Annotated[str, typer.Option(help="Rate of the links that flows share.")] = "10Mbit",
    delay: Annotated[str, typer.Option(help="Delay of these links, one way.")] = "10ms",
    flows: Annotated[int, typer.Option(min=1, max=starter.FLOWS_MAX, help="TCP flows.")] = 4,
    queue: Annotated[
        str,
        typer.Option(metavar="KIND", help="Queue of these links, of any kind.", autocompletion=shells.queues),
    ] = "droptail",
    control: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Congestion control of the TCP flows, of any kind.",
            autocompletion=shells.controls,
        ),
    ] = "cubic",
    duration: Annotated[str, typer.Option(help="Duration of a run.")] = "30s",
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="A new file. Default: print it."),
    ] = None,
) -> int:
    """Write a commented scenario to begin with, whose queue suits its link."""
    from tidegate.commands import new as command

    names = ("rate", "delay", "flows", "queue", "control", "duration")
    options = {name: context.params[name] for name in names}
    given = {name: value for name, value in options.items() if _was_given(context, name)}
    return command.new(network, out, given, options)


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Scenario or experiment files.")],
    overrides: Overrides = None,
    allowed: Allowed = None,
    as_json: Json = False,
) -> int:
    """Check files as `run` does, without running them."""
    from tidegate.commands import inspect as command

    reach.allow(allowed)
    return command.validate(files, overrides or [], as_json)


@app.command(short_help="Print the JSON Schema of files, for editors.")
def schema() -> int:
    """Print the JSON Schema of scenario and experiment files, for editors."""
    from tidegate.commands import inspect as command

    return command.schema()


@app.command(short_help="Run published experiments; compare with their documents.")
def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="Experiments, groups or files: nbp, nbp/fig8a, mine.toml.",
            autocompletion=shells.experiments,
        ),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    seeds: Seeds = None,
    all_seeds: Annotated[
        bool,
        typer.Option("--all-seeds", help="All seeds of the files, also where fewer decide the checks."),
    ] = False,
    first_seed: Annotated[
        int,
        typer.Option(
            min=1,
            max=SEED_MAX // 2,
            metavar="N",
            help="Begin with this seed instead of 1: other random numbers.",
        ),
    ] = 1,
    ties: Annotated[
        int | None,
        typer.Option(
            min=0, max=SEED_MAX, metavar="SEED", help="Break ties of events by this seed, not by their order."
        ),
    ] = None,
    quick: Quick = False,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="Where results and report go.")
    ] = Path("results"),
    workers: Workers = None,
    cluster: Cluster = None,
    resume: Resume = False,
    fresh: Fresh = False,
    overrides: Overrides = None,
    allowed: Allowed = None,
    as_json: Json = False,
) -> int:
    """Run published experiments; compare what they report with what is measured. Resumable, as a sweep is."""
    from tidegate import parallel
    from tidegate.commands import reproduce as command

    require_one(resume, fresh)
    reach.allow(allowed)

    if list_only:
        return command.list_experiments(ids or [], as_json)
    return command.reproduce(
        ids or [],
        quick,
        seeds,
        out,
        parallel.Workers(workers, cluster),
        overrides or [],
        as_json,
        resume,
        fresh,
        all_seeds,
        first_seed,
        ties,
    )


@app.command()
def sweep(
    experiment: Annotated[
        str,
        typer.Argument(
            help="An experiment file, or the id of a shipped one.", autocompletion=shells.experiments
        ),
    ],
    workers: Workers = None,
    cluster: Cluster = None,
    seeds: Seeds = None,
    quick: Quick = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Default: results/NAME.")
    ] = None,
    resume: Resume = False,
    fresh: Fresh = False,
    overrides: Overrides = None,
    allowed: Allowed = None,
    as_json: Json = False,
) -> int:
    """Run every point of an experiment, in parallel; resumable."""
    from tidegate import parallel
    from tidegate.commands import sweep as command

    require_one(resume, fresh)
    reach.allow(allowed)
    made_by = parallel.Workers(workers, cluster)
    return command.sweep(experiment, quick, seeds, out, made_by, resume, fresh, overrides or [], as_json)


@app.command(short_help="Compare mechanisms by an evaluation suite: one score card.")
def suite(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUITE]",
            help="A suite: aqm, cc, ...; none: list them. A folder with a card.toml is a suite, too.",
            autocompletion=shells.suites,
        ),
    ] = None,
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MECHANISM]...",
            help="Names of mechanisms, or files of your own: codel, mine.toml. Default: those of the suite.",
            autocompletion=shells.suite_mechanisms,
        ),
    ] = None,
    quick: Quick = False,
    seeds: Seeds = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Default: results/suite/SUITE.")
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    resume: Resume = False,
    fresh: Fresh = False,
    overrides: Overrides = None,
    as_json: Json = False,
) -> int:
    """Run mechanisms through an evaluation suite; write a score card: text, JSON and a page. Resumable."""
    from tidegate import parallel
    from tidegate.commands import suite as command

    require_one(resume, fresh)
    if name is None:
        return command.list_suites(as_json)
    made_by = parallel.Workers(workers, cluster)
    return command.suite(
        name, wanted or [], quick, seeds, out, made_by, resume, fresh, overrides or [], as_json
    )


@app.command(short_help="Find parameters for a stated goal; try them on other networks.")
def tune(
    tuning: Annotated[
        str | None,
        typer.Argument(
            metavar="[TUNING]",
            help="A file with a table [tune], or the name of a tuning that ships; none: list these.",
            autocompletion=shells.tunings,
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="This many trials instead of the file's.")
    ] = None,
    quick: Quick = False,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Default: results/tune/TUNING.")
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    resume: Resume = False,
    fresh: Fresh = False,
    overrides: Overrides = None,
    allowed: Allowed = None,
    as_json: Json = False,
) -> int:
    """Find parameters of an experiment for a stated goal; compare them with the defaults on networks and with
    seeds that the search has not seen. Writes a report and the chosen values. Resumable."""
    from tidegate import parallel
    from tidegate.commands import tune as command

    require_one(resume, fresh)
    reach.allow(allowed)
    if tuning is None:
        return command.list_tunings(as_json)
    made_by = parallel.Workers(workers, cluster)
    return command.tune(tuning, quick, trials, out, made_by, resume, fresh, overrides or [], as_json)


@app.command(short_help="Write a result folder's numbers as CSV, Parquet, Arrow or for flent.")
def export(
    result: Annotated[Path, typer.Argument(help="A result folder.")],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="What to write: .csv, .parquet or .arrow; .flent.gz, a file for each run.",
        ),
    ],
    what: Annotated[
        str | None,
        typer.Option(
            "--what",
            metavar="TABLE",
            help="values (a row per run; the default), means (over seeds, with intervals), series.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="PATTERN", help="Only these: flows.*.throughput_bps. May be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a result folder's numbers as a table in tidy form: one row per run, place and metric."""
    from tidegate.commands import picture as command

    return command.export(result, out, what, only or [], as_json)


@app.command()
def plot(
    result: Annotated[Path, typer.Argument(help="A result folder.")],
    figure: Annotated[
        str | None, typer.Option("-p", "--plot", metavar="ID", help="Which figure. Default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help=".svg, .png or .pdf. Default: ID.svg in the folder."
        ),
    ] = None,
    style: Annotated[
        str,
        typer.Option(metavar="NAME", help="screen, or for papers: ieee, ieee-wide, acm, acm-wide."),
    ] = "screen",
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Width and height in millimetres: 88x60.")
    ] = None,
    x_range: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Ends of the horizontal axis.")
    ] = None,
    y_range: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Ends of the vertical axis.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="NAME", help="linear, log-x, log-y or log-log.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--as", metavar="KIND", help="Measures as bars, or spread over seeds as box or violin."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Draw the figures of a result folder."""
    from tidegate.commands import picture as command

    return command.plot(
        result, figure, out, as_json, command.wish(style, size, x_range, y_range, scale, kind)
    )


@app.command()
def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT...", help="Result folders, or folders of them.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Default: report.html there.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Write one self-contained HTML page about results."""
    from tidegate.commands import picture as command

    return command.report(results, out, as_json)


@app.command(name="list")
def list_(
    what: Annotated[
        str,
        typer.Argument(metavar="mechanisms|plots|experiments", help="Of what.", autocompletion=shells.lists),
    ],
    as_json: Json = False,
) -> int:
    """List mechanisms, plots or experiments."""
    from tidegate.commands import inspect as command

    return command.list_things(what, as_json)


@app.command(short_help="Explain a mechanism, or a key of a file or of results: units, source.")
def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A name that `tidegate list mechanisms` prints, or a key: links.delay, loss_ratio.",
            autocompletion=shells.mechanisms,
        ),
    ],
    as_json: Json = False,
) -> int:
    """Explain a mechanism, or a key of a scenario or of results: what it is, its unit, default and source."""
    from tidegate.commands import inspect as command

    return command.explain(name, as_json)


@app.command(short_help="Print what makes a shell complete these commands.")
def completion(
    context: typer.Context,
    shell: Annotated[shells.Shell, typer.Argument(help="The shell.")],
) -> int:
    """Print a script that makes a shell complete commands, options, experiments and mechanisms.

    For one session: eval "$(tidegate completion bash)", zsh alike; tidegate completion fish | source.

    For all: bash reads it from ~/.local/share/bash-completion/completions/tidegate, zsh from a file _tidegate
    in a folder of its fpath, fish from ~/.config/fish/completions/tidegate.fish.
    """
    print(shells.script(shell, context.find_root().info_name or ""))
    return 0


emulate.add_to(app)
app.add_typer(design, short_help="Find the parameters of a queue.")
app.add_typer(demo, short_help="Show what it does with real packets (root).")


def invoke(arguments: list[str] | None = None) -> int:
    """Run the command line given (default: the process's own) and return the exit code."""
    return process.invoke(app, arguments)


def main() -> None:
    """Entry point of the `tidegate` script."""
    process.run(app)


if __name__ == "__main__":
    main()

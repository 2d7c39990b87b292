"""The manual pages, from the declarations that the command line itself is made of.

One page per command: `tidegate(1)`, `tidegate-run(1)`, `tidegate-design-red(1)`. They are written by
`python packaging/make_manual.py`, and lie in wheels and in the Debian package.
"""

import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_SECTION = 1


@dataclass(frozen=True)
class _Parameter:
    """An option (`names` begin with dashes) or an argument (it has none)."""

    names: list[str]
    value: str
    about: str
    required: bool


@dataclass(frozen=True)
class _Command:
    path: list[str]
    help: str
    short: str
    parameters: list[_Parameter]
    inner: "list[_Command]"

    @property
    def page(self) -> str:
        return "-".join(self.path)


def pages(help_of: dict[str, str] | None = None) -> dict[str, str]:
    """The text of every page (roff, `man` macros) by its file's name.

    `help_of` has what commands say of themselves whose options are declared elsewhere: `emulate`, `replay`.
    """
    from tidegate.cli import app

    given = help_of or {}
    return {f"{one.page}.{_SECTION}": _page(one, given.get(one.path[-1])) for one in _all(_group(app, []))}


def _all(command: _Command) -> Iterator[_Command]:
    yield command
    for inner in command.inner:
        yield from _all(inner)


def _group(app: Any, above: list[str]) -> _Command:
    path = [*above, str(app.info.name)]
    inner = [_command(one, path) for one in app.registered_commands]
    inner += [_group(one.typer_instance, path) for one in app.registered_groups]
    callback = app.registered_callback.callback if app.registered_callback else None
    about = str(app.info.help)
    return _Command(path, about, about, _parameters(callback) if callback else [], inner)


def _command(info: Any, above: list[str]) -> _Command:
    callback: Callable[..., Any] = info.callback
    about = inspect.getdoc(callback) or ""
    name = info.name or callback.__name__
    return _Command(
        [*above, name], about, info.short_help or about.split("\n\n")[0], _parameters(callback), []
    )


def _parameters(callback: Callable[..., Any]) -> list[_Parameter]:
    """What typer is told of: the metadata of `Annotated` types."""
    hints = typing.get_type_hints(callback, include_extras=True)
    found = []
    for name, one in inspect.signature(callback).parameters.items():
        if typing.get_origin(hints[name]) is typing.Annotated:
            kind, info = typing.get_args(hints[name])[:2]
            found.append(_parameter(name, kind, info, one.default))
    return found


def _parameter(name: str, kind: Any, info: Any, default: Any) -> _Parameter:
    is_optional = typing.get_origin(kind) in (typing.Union, types.UnionType)
    (kind,) = [one for one in typing.get_args(kind) if one is not type(None)] if is_optional else [kind]
    many = typing.get_origin(kind) is list
    choices = [str(one.value) for one in kind] if isinstance(kind, enum.EnumMeta) else []
    is_argument = type(info).__name__ == "ArgumentInfo"
    required = default is inspect.Parameter.empty
    about = _plain(info.help or "")
    if is_argument:
        shown = (info.metavar or name.upper()).strip("[]").removesuffix("...").rstrip("]")
        about += f" One of {', '.join(choices)}." if choices else ""
        return _Parameter([], shown + ("..." if many else ""), about, required)
    long = f"--{name.replace('_', '-')}"
    # Within `Annotated` the first name stands where a default would.
    declared = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
    names = declared or ([long, long.replace("--", "--no-", 1)] if kind is bool else [long])
    value = "" if kind is bool else info.metavar or "|".join(choices) or name.upper()
    if not (required or default is None or default is False) and "Default:" not in about:
        about += f" Default: {'yes' if default is True else getattr(default, 'value', default)}."
    return _Parameter(names, value, about, required)


def _page(command: _Command, own_help: str | None) -> str:
    options = [one for one in command.parameters if one.names]
    options.append(_Parameter(["-h", "--help"], "", "Show what there is, and exit.", False))
    arguments = [one for one in command.parameters if not one.names]
    about = command.short.rstrip(".")
    lines = [
        f'.TH "{command.page.upper()}" "{_SECTION}" "" "Tidegate" "Tidegate Manual"',
        ".SH NAME",
        f"{_escape(command.page)} \\- {_escape(about[:1].lower() + about[1:])}",
        ".SH SYNOPSIS",
        f"\\fB{_escape(' '.join(command.path))}\\fR [\\fIOPTIONS\\fR]",
        *map(_placeholder, arguments),
        *(["\\fICOMMAND\\fR [\\fIARGUMENTS\\fR]"] if command.inner else []),
        ".SH DESCRIPTION",
        *_paragraphs(command.help),
    ]
    if arguments:
        lines.append(".SH ARGUMENTS")
        for one in arguments:
            lines += [".TP", _placeholder(one), _escape(one.about)]
    lines.append(".SH OPTIONS")
    if own_help:
        lines += [".nf", *map(_escape, own_help.strip("\n").splitlines()), ".fi"]
    else:
        for one in options:
            value = f" \\fI{_escape(one.value)}\\fR" if one.value else ""
            names = ", ".join(f"\\fB{_escape(name)}\\fR" for name in one.names)
            lines += [".TP", names + value, _escape(one.about)]
    if command.inner:
        lines.append(".SH COMMANDS")
        for inner in command.inner:
            lines += [".TP", f"\\fB{_escape(inner.page)}\\fR({_SECTION})", _escape(inner.short)]
    if len(command.path) == 1:
        lines += [".SH EXIT STATUS", *_exit_codes()]
    else:
        lines += [".SH SEE ALSO", f"\\fB{_escape('-'.join(command.path[:-1]))}\\fR({_SECTION})"]
    return "\n".join(lines) + "\n"


def _exit_codes() -> list[str]:
    from tidegate import errors

    meanings = {
        errors.EXIT_DONE: "It is done.",
        errors.EXIT_FAILED: "A check or a run failed, or the system refused something.",
        errors.EXIT_USAGE: "The command line makes no sense.",
        errors.EXIT_INVALID: "A file is not valid.",
        errors.EXIT_PARTIAL: "Some runs of a sweep failed; the others are kept.",
        errors.EXIT_INTERRUPTED: "It was interrupted.",
    }
    return [line for code, text in meanings.items() for line in (".TP", f"\\fB{code}\\fR", _escape(text))]


def _placeholder(argument: _Parameter) -> str:
    shown = f"\\fI{_escape(argument.value)}\\fR"
    return shown if argument.required else f"[{shown}]"


def _plain(text: str) -> str:
    return " ".join(text.split())


def _paragraphs(text: str) -> list[str]:
    parts = [_escape(_plain(part)) for part in re.split(r"\n\s*\n", text.strip())]
    return [line for number, part in enumerate(parts) for line in ([".PP"] if number else []) + [part]]


def _escape(text: str) -> str:
    """Text as roff takes it literally: no escape, no request, and hyphens that can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped

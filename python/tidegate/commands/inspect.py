"""`tidegate validate`, `schema`, `list` and `explain`: what there is, and whether files are right."""

import difflib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from tidegate import _core, config_errors, display, library, paths, reach
from tidegate.commands import parse_overrides
from tidegate.errors import EXIT_INVALID, InvalidFileError, MeasureError, UsageError
from tidegate.experiment import Experiment, Overrides


def validate(files: list[Path], overrides: list[str], as_json: bool) -> int:
    """Say of each file whether it is valid; exit code 3 if one is not."""
    pairs = parse_overrides(overrides)
    reports: list[dict[str, Any]] = []
    for path in files:
        try:
            library.require_file(path)
            if _is_tuning(path):
                from tidegate.commands import tune

                tune.validate(path, overrides)
                reports.append({"file": str(path), "valid": True, "kind": "tuning"})
                continue
            about = json.loads(_core.validate(path, pairs, reach.of(path)))
            if about["kind"] == "experiment":
                _require_measures(path, pairs)
            reports.append({"file": str(path), "valid": True, **about})
        except (_core.ConfigError, MeasureError, InvalidFileError) as error:
            place = {key: getattr(error, key, None) for key in ("line", "column", "path")}
            reports.append(
                {
                    "file": str(path),
                    "valid": False,
                    "error": {"message": str(error), **place},
                    "errors": config_errors.listed(error),
                }
            )
            if not as_json:
                print(getattr(error, "rendered", None) or str(error), file=sys.stderr)
    if as_json:
        print(json.dumps({"schema_version": 1, "files": reports}, indent=1))
    else:
        for report in reports:
            if report["valid"]:
                print(f"{report['file']}: a valid {report.get('kind', 'file')}")
                for warning in report.get("warnings", []):
                    print(warning["rendered"], file=sys.stderr)
    return 0 if all(report["valid"] for report in reports) else EXIT_INVALID


def _require_measures(path: Path, overrides: Overrides) -> None:
    """Refuse an experiment whose figures or checks name what no run will have."""
    from tidegate import checks
    from tidegate.commands.reproduce import expectations

    each = Experiment(path.stem, path, overrides)
    expected = expectations({path.stem: path}, tells=False).get(path.stem, checks.Expectations())
    checks.require_fits(expected, each.info)
    each.check(expected.measures)


def _is_tuning(path: Path) -> bool:
    """Whether a file is one for `tidegate tune`; what cannot be read is not."""
    try:
        return "tune" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False


def schema() -> int:
    """Print the JSON Schema."""
    print(_core.schema().rstrip("\n"))
    return 0


def list_things(what: str, as_json: bool) -> int:
    """List mechanisms, plots or experiments."""
    if what in ("experiments", "experiment"):
        from tidegate.commands.reproduce import list_experiments

        return list_experiments([], as_json)
    if what in ("plots", "plot"):
        from tidegate.figures import KINDS

        entries: list[dict[str, Any]] = [{"name": name, "about": about} for name, about in KINDS.items()]
    elif what in ("mechanisms", "mechanism"):
        entries = _mechanisms(json.loads(_core.list_mechanisms()))
    else:
        raise UsageError(f"cannot list {what!r}; there are mechanisms, plots and experiments")
    if as_json:
        print(json.dumps({"schema_version": 1, what: entries}, indent=1, ensure_ascii=False))
        return 0
    columns = [
        key
        for key in ("family", "name", "kind", "title", "about", "source")
        if any(key in e for e in entries)
    ]
    rows = [[str(entry.get(key, "")).replace("`", "") for key in columns] for entry in entries]
    print(display.table(columns, rows, [False] * len(columns), fit=True))
    return 0


def _mechanisms(listed: Any) -> list[dict[str, Any]]:
    """Entries as dicts, whether the core lists them flat or by family."""
    if isinstance(listed, dict):
        flat = []
        for family, members in listed.items():
            if isinstance(members, list):
                flat += [{"family": family, **_entry(member)} for member in members]
        return flat
    return [_entry(member) for member in listed]


def _entry(member: Any) -> dict[str, Any]:
    return member if isinstance(member, dict) else {"name": str(member)}


# Where a mechanism is written in a scenario, by family.
_PLACES = {
    "queue": "links.NAME.queue = {}",
    "mechanism": "domains.NAME.mechanism = {}",
    "labels": "domains.NAME.labels = {}",
    "marker": "markers.NAME.mechanism = {}",
    "transport": "flows.NAME.transport = {}",
    "control": 'flows.NAME.transport = {{ kind = "tcp", control = {} }}',
    "application": "flows.NAME.application = {}",
    "loss": "links.NAME.loss = {}",
}


def mechanism_names() -> list[str]:
    """The names of all mechanisms, in the order of the list."""
    return _names(_mechanisms(json.loads(_core.list_mechanisms())))


def _names(listed: list[dict[str, Any]]) -> list[str]:
    return [str(each.get("kind") or each.get("name")) for each in listed]


def explain(name: str, as_json: bool) -> int:
    """Explain a mechanism (`FAMILY/NAME` where a name means two things), a key of a file or of results."""
    listed = _mechanisms(json.loads(_core.list_mechanisms()))
    names = _names(listed)
    full = [f"{each.get('family')}/{name}" for each, name in zip(listed, names, strict=True)]
    if name not in names + full and name.lower() in names + full:
        name = name.lower()
    if name in names + full:
        return _explain_mechanism(name, full, as_json)
    keys = json.loads(_core.list_keys())
    results = _of_results(name)
    if found := matching_keys(name, [key["path"] for key in keys]):
        _explain_keys([key for key in keys if key["path"] in found], results, listed, as_json)
        return 0
    if results:
        _explain_keys([], results, listed, as_json)
        return 0
    place, _, last = name.rpartition(".")
    kinds = _kinds_at(place, keys, listed)
    if having := [(kind, each) for kind in kinds for each in kind["parameters"] if each["name"] == last]:
        _explain_parameter(name, having, as_json)
        return 0
    if place:
        close = _near_paths(place, last, [key["path"] for key in keys], kinds)
    else:
        of_results = (key["path"].rpartition(".")[2] for key in _meanings())
        known = list(dict.fromkeys([*names, *(key["name"] for key in keys), *of_results]))
        close = difflib.get_close_matches(last, known, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(close)}?" if close else "see `tidegate list mechanisms`"
    raise UsageError(f"no mechanism and no key of a file or of results is called {name!r}; {hint}")


def _meanings() -> list[dict[str, str]]:
    """What keys of results and of checks mean, and functions of measures; from `docs/make_meanings.py`."""
    text = (Path(__file__).parents[1] / "meanings.json").read_text(encoding="utf-8")
    return [entry for entries in json.loads(text).values() for entry in entries]


# What a key of results may have below it, all meant by its own entry.
_QUANTILES = ("p50", "p95", "p99")
_BELOW = ("mean", "min", "max", *_QUANTILES)


def _of_results(name: str) -> list[dict[str, str]]:
    """The keys of results, and the functions of measures, that a name or a path may mean."""
    parts = name.split(".")
    # The other direction of a link has the same keys.
    parts = [part for part in parts if part != "reverse" or len(parts) == 1]
    if len(parts) > 1 and (parts[-1] in _BELOW or parts[-2] in paths.BY_REASON):
        parts.pop()
    entries = _meanings()
    for wanted in (".".join(parts), ".".join(parts).lower()):
        if found := matching_keys(wanted, [entry["path"] for entry in entries]):
            return [entry for entry in entries if entry["path"] in found]
    if name in _QUANTILES:
        return [entry | {"path": f"{entry['path']}.{name}"} for entry in entries if name in entry["about"]]
    return []


def _near_paths(place: str, last: str, known: list[str], kinds: list[dict[str, Any]]) -> list[str]:
    """What may be meant by a key that `place` does not have: paths as it was written, but for the slip."""
    there = {each["name"] for kind in kinds for each in kind["parameters"]}
    tables = dict.fromkeys(path.rpartition(".")[0] for path in known)
    for parent in matching_keys(place, [*known, *tables]):
        below = [path.removeprefix(f"{parent}.") for path in known if path.startswith(f"{parent}.")]
        there |= {rest.removeprefix("NAME.") for rest in below if "." not in rest.removeprefix("NAME.")}
    if close := difflib.get_close_matches(last, sorted(there), n=3, cutoff=0.6):
        return [f"{place}.{name}" for name in close]
    # The slip may be further in front.
    return difflib.get_close_matches(f"{place}.{last}", known, n=3, cutoff=0.75)


def _kinds_at(place: str, keys: list[dict[str, Any]], listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mechanisms that may stand at a key; all of them if it is none, for a parameter alone."""
    found = matching_keys(place, [key["path"] for key in keys]) if place else []
    families = {key.get("family") for key in keys if key["path"] in found}
    return [each for each in listed if each.get("parameters") and (not place or each["family"] in families)]


def _explain_parameter(name: str, having: list[tuple[dict[str, Any], dict[str, Any]]], as_json: bool) -> None:
    """A parameter of several mechanisms: its default in each, for what it means depends on them."""
    entries = [
        {"kind": kind["kind"], "family": kind["family"], **{key: each[key] for key in ("type", "default")}}
        for kind, each in having
    ]
    if as_json:
        print(json.dumps({"schema_version": 1, "parameter": name, "of": entries}, indent=1))
        return
    about = "depends on the kind; `tidegate explain KIND` says what it means there"
    print(f"{display.coloured(name, 'title')}  {about}\n")
    columns = ["kind", "family", "type", "default"]
    rows = [[str(entry[column]) for column in columns] for entry in entries]
    print(display.table(columns, rows, [False] * len(columns), fit=True))


def matching_keys(name: str, there: list[str]) -> list[str]:
    """The key at that path, whatever stands for its `NAME`, or all whose paths end so."""
    wanted = name.split(".")

    def fits(path: str) -> bool:
        parts = path.split(".")
        return len(parts) == len(wanted) and all(
            part in ("NAME", want) for part, want in zip(parts, wanted, strict=True)
        )

    def ends(path: str) -> bool:
        return [part for part in path.split(".") if part != "NAME"][-len(wanted) :] == wanted

    return [path for path in there if fits(path)] or [path for path in there if ends(path)]


def _explain_keys(
    keys: list[dict[str, Any]], results: list[dict[str, str]], listed: list[dict[str, Any]], as_json: bool
) -> None:
    """Keys of a file, then keys of results that are called alike."""
    if as_json:
        of_results = {"results": results} if results else {}
        print(json.dumps({"schema_version": 1, "keys": keys} | of_results, indent=1, ensure_ascii=False))
        return
    for number, key in enumerate(keys):
        if number:
            print()
        _print_parameter(key, key["path"])
        for word, meaning in key["words"]:
            print(display.wrapped(f"{word}: {meaning}", "      "))
        if key["keys"]:
            print(display.wrapped(f"Its keys: {', '.join(key['keys'])}.", "    "))
        if kinds := [each["kind"] for each in listed if key.get("family") == each.get("family", "")]:
            told = f"One of: {', '.join(kinds)}; by its name, or as a table with that as `kind`."
            print(display.wrapped(told, "    "))

    for number, entry in enumerate(results):
        if number or keys:
            print()
        what = "function of measures" if "call" in entry else f"in {entry.get('file', 'results')}"
        facts = f"{what}, {entry['unit']}" if entry.get("unit") else what
        print(f"{display.coloured(entry.get('call', entry['path']), 'title')}  {facts}")
        print(display.wrapped(entry["about"], "    "))


def _print_parameter(entry: dict[str, Any], name: str) -> None:
    default = str(entry.get("default") or "none")
    facts = [entry.get("type") or entry.get("unit") or ""]
    facts.append(default if default.startswith("required") else f"default {default}")
    facts += [entry["allowed"]] if entry.get("allowed") else []
    print(f"{display.coloured(name, 'title')}  {', '.join(facts)}")
    words = entry.get("description") or entry.get("about") or ""
    source = f" Source: {entry['source']}." if entry.get("source") else ""
    print(display.wrapped(words + source, "    "))


def _explain_mechanism(mechanism: str, full: list[str], as_json: bool) -> int:
    text = _core.explain(mechanism)
    about = json.loads(text)
    if as_json:
        print(json.dumps({"schema_version": 1, **about}, indent=1, ensure_ascii=False))
        return 0
    family, kind = about.get("family", ""), about.get("kind") or about.get("name") or mechanism
    print(display.coloured(str(about.get("title") or kind), "title"))
    print(display.wrapped(about.get("text") or about.get("about") or ""))
    if about.get("source"):
        print(display.wrapped(f"Source: {about['source']}"))
    parameters = about.get("parameters", [])
    if family in _PLACES:
        required = [entry["name"] for entry in parameters if entry.get("default") == "required"]
        table = ", ".join([f'kind = "{kind}"', *(f"{name} = ..." for name in required)])
        print("\n  " + _PLACES[family].format(f"{{ {table} }}"))
    for entry in parameters:
        print()
        _print_parameter(entry, entry["name"])
    others = [name for name in full if name.endswith(f"/{kind}") and name != f"{family}/{kind}"]
    if family and others:
        print(f"\nThe same name, something else: {', '.join(others)}")
    return 0

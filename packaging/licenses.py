"""The licences of what others wrote and ours is compiled from: THIRD-PARTY-LICENSES of lab and gateway.

    python3 packaging/licenses.py lab|gateway > FILE
    python3 packaging/licenses.py lab|gateway --check FILE [--program PROGRAM]

Crates are those that `cargo tree` has for it on this machine: normal dependencies, and so also macros,
which write a part of it. Each text is there once, to the letter, as the crate brings it: licences,
copyrights and notices, also those of older code inside of it. A crate without such a file gets the text of
`spdx/`, or our own of the Apache License, with the copyright that its sources say, or its authors. It is an
error if what a crate brings does not say the licence that its manifest promises. After `cargo fetch
--locked` no network is needed. Rust's standard library is one of them, as the compiler describes it.

With `--check`: whether FILE has all that, and all whose paths are in PROGRAM (messages of panics have them),
which the compiler wrote and not `cargo tree`; of the library, also whether it is that of PROGRAM.
"""

import argparse
import html
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
MANIFEST = HERE.parent / "Cargo.toml"

# Files with licences, by the name of the file or of a folder above it; sources may be called so and are none.
NAMES = re.compile(r"(un)?licen[cs]e|copying|copyright|notice|authors|patents", re.IGNORECASE)
SOURCES = {".rs", ".c", ".h", ".py", ".toml", ".yml", ".yaml", ".json"}
# By what words a text is known to be a licence, by its name in SPDX (https://spdx.org/licenses/).
WORDS = {
    "Apache-2.0": "apache license version 2.0, january 2004",
    "BSD-2-Clause": "redistribution and use in source and binary forms, with or without modification",
    "BSD-3-Clause": "neither the name of",
    "ISC": "permission to use, copy, modify, and/or distribute this software for any purpose",
    "MIT": "to any person obtaining a copy of this software and associated documentation files",
    "Unicode-3.0": "unicode license v3",
    "Unlicense": "this is free and unencumbered software released into the public domain",
    "Zlib": "this software is provided 'as-is', without any express or implied warranty",
}
# What a compiler of rustup has below its sysroot.
LIBRARY = Path("share/doc/rust/COPYRIGHT-library.html")
RULE = "=" * 80
# Texts for crates that bring none, by their names in SPDX.
STANDARD = {path.stem: path for path in sorted(HERE.glob("spdx/*.txt"))}
STANDARD["Apache-2.0"] = MANIFEST.parent / "LICENSE-APACHE"


class Product(NamedTuple):
    """What is given away: its crate, and the features that it is compiled with."""

    crate: str
    features: tuple[str, ...] = ()


PRODUCTS = {
    "lab": Product("tidegate-core"),
    "gateway": Product("tidegate-gateway", ("daemon",)),
}


class Crate(NamedTuple):
    """A crate of others, or the standard library: what its manifest says, and where its files lie."""

    name: str
    version: str
    license: str
    authors: tuple[str, ...]
    repository: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Text(NamedTuple):
    """A text of a licence: whose it is, and its lines."""

    title: str
    body: str


class UnlicensedError(Exception):
    """Crates for which there is no text, each with the reason."""


def _said(*command: str) -> str:
    # Here, for there may be a compiler of this folder.
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE).stdout


def _cargo(command: str, *options: str) -> str:
    return _said("cargo", command, "--locked", "--manifest-path", str(MANIFEST), *options)


def _compiler(key: str) -> str:
    return re.search(rf"^{key}: (.*)$", _said("rustc", "-vV"), re.MULTILINE)[1]


def tree(product: Product) -> set[tuple[str, str]]:
    """Name and version of all crates that it is compiled from, ours among them."""
    which = ("--package", product.crate, "--features", ",".join(product.features))
    lines = _cargo("tree", *which, "--edges", "normal", "--prefix", "none", "--format", "{p}").splitlines()
    return {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, lines)}


def crates(product: Product) -> list[Crate]:
    """Those of `tree` that others wrote."""
    features = ",".join(f"{product.crate}/{feature}" for feature in product.features)
    which = ("--features", features, "--filter-platform", _compiler("host"))
    told = _cargo("metadata", *which, "--format-version", "1")
    needed = tree(product)
    return [
        Crate(
            package["name"],
            package["version"],
            package["license"] or "",
            tuple(package["authors"]),
            package["repository"] or package["homepage"] or "",
            Path(package["manifest_path"]).parent,
        )
        for package in json.loads(told)["packages"]
        if package["source"] and (package["name"], package["version"]) in needed
    ]


def library() -> Crate:
    """Rust's standard library; its version is the commit, as in the paths that the compiler writes."""
    folder = Path(_said("rustc", "--print", "sysroot").strip())
    repository = "https://github.com/rust-lang/rust"
    return Crate("rust-library", _compiler("commit-hash"), "MIT OR Apache-2.0", (), repository, folder)


def files(crate: Crate) -> list[Text]:
    """The texts that a crate brings, those of its own folder first."""
    found = []
    for path in crate.folder.rglob("*"):
        parts = path.relative_to(crate.folder).parts
        is_one = any(map(NAMES.match, parts)) and not any(part.startswith(".") for part in parts)
        if is_one and path.is_file() and path.suffix not in SOURCES:
            found.append((len(parts), "/".join(parts), path))
    return [Text(f"{where} of {crate}", path.read_text("utf-8")) for _, where, path in sorted(found)]


def standard(crate: Crate) -> list[Text]:
    """The texts of `spdx/` that a crate without files names, with its copyright; none if nobody is named."""
    copyright_line = re.compile(r"^\W*(copyright (?:\(c\)|©|\d).*)$", re.IGNORECASE | re.MULTILINE)
    lines = {
        line.strip()
        for source in crate.folder.rglob("*.rs")
        for line in copyright_line.findall(source.read_text("utf-8"))
    }
    holders = sorted(lines) or [f"Copyright (c) {author}" for author in crate.authors]
    names = re.findall(r"[\w.+-]+", crate.license) if holders else []
    return [
        Text(f"{name} for {crate}", path.read_text("utf-8").replace("<copyright>", "\n".join(holders)))
        for name, path in STANDARD.items()
        if name in names
    ]


def is_met(expression: str, names: set[str]) -> bool:
    """Whether the licences `names` are enough for an expression of SPDX; older crates write `/` for OR."""
    tokens = re.findall(r"[()]|[\w.+-]+(?: WITH [\w.+-]+)?", expression.replace("/", " OR "))

    def joined(word: str, part: Callable[[], bool], join: Callable[[Iterable[bool]], bool]) -> bool:
        values = [part()]
        while tokens[:1] == [word]:
            tokens.pop(0)
            values.append(part())
        return join(values)

    def either() -> bool:
        return joined("OR", lambda: joined("AND", one, all), any)

    def one() -> bool:
        token = tokens.pop(0) if tokens else ""
        if token != "(":
            return token in names
        value = either()
        return tokens[:1] == [")"] and tokens.pop(0) == ")" and value

    return either() and not tokens


def of_library(crate: Crate) -> list[Text]:
    """All that stands on the compiler's page about the standard library; none if there is no such page."""
    page = crate.folder / LIBRARY
    if not page.is_file():
        return []
    plain = html.unescape(re.sub(r"<[^>]*>", "", page.read_text("utf-8")))
    return [Text(f"{page.name} of {crate}", re.sub(r"\n\s*\n", "\n\n", plain))]


def texts(crate: Crate) -> list[Text]:
    """The licence of a crate. Raises `UnlicensedError` if the texts are not what its manifest promises."""
    found = of_library(crate) if crate.name == "rust-library" else files(crate) or standard(crate)
    read = _words(" ".join(text.body for text in found))
    if not is_met(crate.license, {name for name, words in WORDS.items() if _words(words) in read}):
        titles = ", ".join(text.title for text in found) or "no file, and nothing in spdx/ that would do"
        raise UnlicensedError(f"{crate}: its licence is {crate.license!r}, and there is {titles}")
    return found


def _words(text: str) -> str:
    # Some texts stand in comments, whose marks are between their words.
    return " ".join(re.findall(r"\w+", text.lower()))


def bundle(product: Product, of: Iterable[Crate]) -> str:
    """All licences of the crates `of`. Raises `UnlicensedError` with all crates for which there is none."""
    problems, entries, bodies = [], [], {}
    for crate in sorted(of):
        try:
            found = texts(crate)
        except UnlicensedError as error:
            problems.append(str(error))
            continue
        numbers = []
        for text in found:
            # Texts that differ in line breaks alone are one.
            words = tuple(text.body.split())
            number, titles, _ = bodies.setdefault(words, (len(bodies) + 1, [], text.body))
            titles.append(text.title)
            numbers.append(number)
        read = ", ".join(map(str, sorted(set(numbers))))
        entries.append(f"{crate}\n    {crate.license}; texts {read}\n    {crate.repository}".rstrip())
    if problems:
        raise UnlicensedError("\n".join(problems))
    return "\n".join(_pages(product, entries, bodies.values()))


def _pages(
    product: Product, entries: list[str], bodies: Iterable[tuple[int, list[str], str]]
) -> Iterator[str]:
    yield f"{product.crate} is compiled from these crates. Each is followed by its licence, by the numbers of"
    yield "the texts below that belong to it, and by where it is developed.\n"
    yield from entries
    for number, titles, body in bodies:
        lines = (line.rstrip() for line in body.strip("\n\ufeff").splitlines())
        yield "\n".join(["", RULE, f"Text {number}", *(f"  {title}" for title in titles), RULE, "", *lines])
    yield ""


def compiled_in(program: bytes) -> set[str]:
    """Crates whose sources a program names: `/registry/src/*/NAME-VERSION/`, `/rustc/COMMIT/library/`."""
    paths = re.findall(rb"registry/src/[^/\0]+/([\w-]+?)-(\d+\.\d+\.\d+[^/\0]*)/", program)
    paths += [(b"rust-library", commit) for commit in re.findall(rb"/rustc/([0-9a-f]{40})/library/", program)]
    return {f"{name.decode()} {version.decode()}" for name, version in paths}


def missing(text: str, names: Iterable[str]) -> list[str]:
    """Those of the crates `names` that have no entry in what `bundle` made."""
    return sorted(set(names) - set(text.split(RULE, 1)[0].splitlines()))


def main() -> None:
    """Write the text, or check one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("product", choices=PRODUCTS)
    parser.add_argument("--check", metavar="FILE", type=Path)
    parser.add_argument("--program", type=Path)
    arguments = parser.parse_args()
    product = PRODUCTS[arguments.product]
    needed = [*crates(product), library()]
    if arguments.check is None:
        try:
            sys.stdout.write(bundle(product, needed))
        except UnlicensedError as error:
            sys.exit(str(error))
        return
    names = set(map(str, needed))
    seen = compiled_in(arguments.program.read_bytes()) if arguments.program else set()
    if arguments.program and not seen:
        sys.exit(f"{arguments.program} names no crate: whether all are there cannot be said")
    if lacking := missing(arguments.check.read_text("utf-8"), names | seen):
        sys.exit(f"{arguments.check} has no licence of: {', '.join(lacking)}")
    print(f"licences of {len(names)} crates; {len(seen)} are named by the program")


if __name__ == "__main__":
    main()

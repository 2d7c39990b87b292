"""A release is refused for every reason there is; what installations are tried with knows all commands;
packages have the licences of what others wrote."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]
FILES = ("Cargo.toml", "Cargo.lock", "CITATION.cff", "CHANGELOG.md")


def load(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def edit(file, pattern, replacement, count=0):
    text = file.read_text(encoding="utf-8")
    changed = re.sub(pattern, replacement, text, count=count, flags=re.MULTILINE)
    assert changed != text
    file.write_text(changed, encoding="utf-8")


@pytest.fixture
def released(tmp_path):
    """The files of this checkout as they would be for a release of 9.8.7."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    edit(tmp_path / "Cargo.toml", r'^version = ".*"', 'version = "9.8.7"')
    edit(tmp_path / "Cargo.lock", r'^(name = "tidegate-.*"\nversion = ").*"', r'\g<1>9.8.7"')
    edit(tmp_path / "CITATION.cff", r"^version: .*", "version: 9.8.7\ndate-released: 2031-02-03")
    edit(tmp_path / "CHANGELOG.md", r"^## ", "## [9.8.7] - 2031-02-03\n\n- Something.\n\n## ", count=1)
    return tmp_path


def test_a_release_that_is_ready_is_allowed(released):
    assert load("release_check").problems(released, "9.8.7") == []


@pytest.mark.parametrize(
    "file, pattern, replacement, says",
    [
        ("Cargo.toml", r'^version = "9.8.7"', 'version = "9.8.6"', "workspace.package.version is 9.8.6"),
        ("Cargo.lock", r'^(name = "tidegate-lab"\nversion = ").*"', r'\g<1>1.0.0"', "tidegate-lab is 1.0.0"),
        ("CITATION.cff", r"^version: 9.8.7", "version: 9.8", "version is 9.8, not 9.8.7"),
        ("CITATION.cff", r"^date-released: .*", "", "date-released is missing"),
        ("CITATION.cff", r"^date-released: .*", "date-released: 2031-02-04", "2031-02-04"),
        ("CHANGELOG.md", r"^## \[9.8.7\].*", "## [Unreleased]", "no heading"),
        ("CHANGELOG.md", r"^- Something.$", "", "nothing stands below"),
    ],
)
def test_a_release_that_is_not_ready_is_refused_for_its_reason(released, file, pattern, replacement, says):
    edit(released / file, pattern, replacement)
    (problem,) = load("release_check").problems(released, "9.8.7")
    assert problem.startswith(file) and says in problem


def test_names_of_wheels_are_looked_at():
    check = load("release_check")
    name = "tidegate-{}-cp311-abi3-manylinux_2_28_x86_64.whl"
    assert check.wheel_problem(Path(name.format("9.8.7")), "9.8.7") is None
    assert "not of" in check.wheel_problem(Path(name.format("9.8.6")), "9.8.7")
    assert "stable ABI" in check.wheel_problem(Path("tidegate-9.8.7-cp311-cp311-linux_x86_64.whl"), "9.8.7")
    assert "version like" in check.problems(ROOT, "9.8")[0]


def test_every_command_is_tried_in_an_installation(tidegate_command):
    smoke = load("smoke")
    listed = smoke.commands_of(tidegate_command("--help")[1])
    tried = {arguments[0] for arguments in [*smoke.PLAIN, *smoke.WORK, smoke.REAL]}
    assert set(listed) == {name for name in tried if not name.startswith("-")} | {"replay"}


def test_the_documents_are_cited():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    titles = re.findall(
        r'^title = "[^:]+: (.+?)(?: \(.*\))?"$', (ROOT / "docs/figures.toml").read_text(), re.M
    )
    assert len(titles) == 5
    for title in titles:
        assert f'title: "{title}"' in citation


def test_the_picture_of_the_readme_is_made_by_the_commands_below_it():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^!\[.*\]\((.*\.png)\)$", readme, re.MULTILINE)
    told = subprocess.run(
        ["make", "-n", "readme-picture", f"PYTHON={sys.executable}"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    # What make would run takes the commands out of the README.
    (command,) = [line for line in told.splitlines() if "sh picture" in line]
    taken = re.search(r"\$\((sed .*)\)", command)[1]
    lines = subprocess.run(
        ["bash", "-c", taken], cwd=ROOT, capture_output=True, text=True
    ).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["tidegate", "reproduce"], ["tidegate", "plot"]]
    assert lines[-1].endswith(f" -o {shown}")
    assert lines[-1].split()[2].startswith(lines[0].split()[-1])


# Only systemd judges its units; a machine without it runs none.
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
@pytest.mark.parametrize("name", ["tidegate-gateway", "tidegate-gateway-close"])
def test_systemd_finds_the_unit_little_exposed(name):
    unit = ROOT / f"packaging/gateway/{name}.service"
    # In tenths; a unit without any restriction has 96.
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=25", str(unit)]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    assert f"Overall exposure level for {name}.service" in told.stdout


# Where `CI` is set, as by `.ci/run`, which installs it, it must be there.
@pytest.mark.skipif(
    shutil.which("groff") is None and not os.environ.get("CI"),
    reason="no groff (Debian: apt install groff-base)",
)
@pytest.mark.parametrize("name", ["tidegate-gateway", "tidegatectl"])
def test_manual_pages_of_the_gateway_are_without_warnings(name):
    page = ROOT / f"packaging/gateway/{name}.8"
    told = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")


@pytest.fixture(scope="module")
def licenses():
    return load("licenses")


@pytest.fixture(scope="module")
def bundled(licenses):
    """The licences as they are in the package of the gateway."""
    return whole(licenses, "gateway")


def whole(licenses, name):
    product = licenses.PRODUCTS[name]
    return licenses.bundle(product, [*licenses.crates(product), licenses.library()])


def test_the_package_of_the_lab_has_the_licences_of_all_crates_in_its_module(licenses):
    text = whole(licenses, "lab")
    product = licenses.PRODUCTS["lab"]
    names = {f"{n} {version}" for n, version in licenses.tree(product) if not n.startswith("tidegate-")}
    assert len(names) > 100
    assert licenses.missing(text, names) == []
    for name in ("pyo3", "parquet", "rust-library"):
        assert re.search(rf"^{name} [\da-f]", text, re.MULTILINE), name
    # What the compiler left in the module that tests run with, if it was not stripped of paths.
    module = Path(tidegate.__file__).parent / "_core.abi3.so"
    seen = licenses.compiled_in(module.read_bytes()) if module.exists() else set()
    assert licenses.missing(text, seen) == []


def test_the_package_of_the_gateway_has_the_licences_of_all_crates_in_it(licenses, bundled):
    # Those that cargo names, of which ours have no entry, and what the manifest says by itself.
    tree = licenses.tree(licenses.PRODUCTS["gateway"])
    names = {f"{name} {version}" for name, version in tree if not name.startswith("tidegate-")}
    assert licenses.missing(bundled, names) == []
    entries = bundled.split(licenses.RULE)[0]
    manifest = tomllib.loads((ROOT / "crates/gateway/Cargo.toml").read_text(encoding="utf-8"))
    direct = [name for name in manifest["dependencies"] if not name.startswith("tidegate-")]
    assert len(direct) > 15
    for name in [*direct, "ring", "untrusted", "rust-library"]:
        assert re.search(rf"^{name} [\da-f]", entries, re.MULTILINE), name
    # Of each entry there is at least one text, whose number is there.
    numbers = set(re.findall(r"^Text (\d+)$", bundled, re.MULTILINE))
    for line in re.findall(r"; texts (.*)$", entries, re.MULTILINE):
        assert set(line.split(", ")) <= numbers
    assert entries.count("; texts ") == len(names) + 1
    # By their own words, and the copyright of one that brings no file.
    for words in ("Neither the name of", "Version 2.0, January 2004", "and/or distribute", "Cloudflare"):
        assert words in bundled
    assert "<copyright>" not in bundled


def test_a_crate_that_is_missing_in_the_licences_is_named(licenses, bundled, tmp_path):
    gone = re.sub(r"^ring (\d)", r"rings \1", bundled, flags=re.MULTILINE)
    file = tmp_path / "THIRD-PARTY-LICENSES"
    program = tmp_path / "program"
    checked = [sys.executable, ROOT / "packaging/licenses.py", "gateway", "--check", file]

    def check(text, names, *more):
        file.write_text(text, encoding="utf-8")
        program.write_bytes(b"\0".join(f"/x/{name}/src/lib.rs".encode() for name in names))
        return subprocess.run([*checked, *more], capture_output=True, text=True)

    assert check(bundled, []).returncode == 0
    # As the script of the package calls it.
    beside = ROOT / "packaging" / "gateway" / ".." / "licenses.py"
    assert subprocess.run([sys.executable, beside, "gateway", "--check", file]).returncode == 0
    told = check(gone, [])
    assert told.returncode == 1 and re.search(r"has no licence of: ring [\d.]+\n", told.stderr)
    # What the compiler put into the program, as it names it.
    ring = re.search(r"^ring (.*)$", bundled, re.MULTILINE)[1]
    told = check(bundled, [f"registry/src/y/ring-{ring}"], "--program", program)
    assert told.returncode == 0, told.stderr
    told = check(bundled, ["registry/src/y/of-nobody-1.2.3+4"], "--program", program)
    assert told.returncode == 1 and "of-nobody 1.2.3+4" in told.stderr
    other = "0123456789" * 4
    told = check(bundled, [f"rustc/{other}/library/core"], "--program", program)
    assert told.returncode == 1 and f"rust-library {other}" in told.stderr
    assert "names no crate" in check(bundled, [], "--program", program).stderr


@pytest.fixture
def crate(licenses, tmp_path):
    """Makes crates: of a licence, with files."""

    def make(license, name="some", authors=(), **files):
        folder = tmp_path / name
        (folder / "src").mkdir(parents=True)
        for file, text in files.items():
            (folder / file.replace("__", "/").replace("_rs", ".rs")).write_text(text, encoding="utf-8")
        return licenses.Crate(name, "1.2.3", license, tuple(authors), "", folder)

    return make


MIT = (ROOT / "LICENSE-MIT").read_text(encoding="utf-8")


def test_texts_of_licences_are_there_once_and_in_one_order(licenses, crate):
    one = crate("MIT", "one", LICENSE=MIT, NOTICE="Of one.", src__LICENSE="Of older code.")
    two = crate("MIT", "two", LICENCE=MIT.replace("\n", "\r\n"), src__license_rs="Not a licence.")
    text = licenses.bundle(licenses.PRODUCTS["lab"], [one, two])
    assert licenses.bundle(licenses.PRODUCTS["lab"], [two, one]) == text
    assert text.count("Permission is hereby granted") == 1
    assert "  LICENSE of one 1.2.3\n  LICENCE of two 1.2.3\n" in text
    assert "Of one." in text and "Of older code." in text and "Not a licence." not in text
    assert licenses.missing(text, ["one 1.2.3", "two 1.2.4", "tw 1.2.3"]) == ["tw 1.2.3", "two 1.2.4"]


def test_a_crate_without_a_file_has_the_text_of_its_licence_with_its_copyright(licenses, crate):
    said = crate("BSD-3-Clause", "said", ["A"], src__lib_rs="// Copyright (c) 2019 B.\n// Of C.\n")
    text = licenses.bundle(licenses.PRODUCTS["lab"], [said])
    assert "\nCopyright (c) 2019 B.\n" in text and "Neither the name of" in text and "(c) A" not in text
    assert "\nCopyright (c) A <a@b>\n" in licenses.bundle(
        licenses.PRODUCTS["lab"], [crate("MIT/Apache-2.0", "by", ["A <a@b>"])]
    )


@pytest.mark.parametrize(
    "license, authors, files, says",
    [
        ("", ["A"], {}, "no file"),
        # Nobody is named, and the text is not known.
        ("MIT", [], {}, "no file"),
        ("Zlib", ["A"], {}, "no file"),
        # What is there says not what was promised.
        ("MIT", ["A"], {"LICENSE": "As in LICENSE-MIT."}, "LICENSE of some 1.2.3"),
        ("MIT AND ISC", ["A"], {"LICENSE": MIT}, "LICENSE of some 1.2.3"),
        ("(MIT OR Zlib) AND ISC", ["A"], {"COPYING": MIT}, "COPYING of some 1.2.3"),
        ("MIT WITH exception", ["A"], {"LICENSE": MIT}, "LICENSE of some 1.2.3"),
    ],
)
def test_a_crate_without_its_licence_is_refused(licenses, crate, license, authors, files, says):
    good = crate("Zlib OR (MIT AND MIT)", "good", LICENSE=MIT)
    assert licenses.texts(good)
    with pytest.raises(licenses.UnlicensedError, match="^some 1.2.3: its licence is .*" + says):
        licenses.bundle(licenses.PRODUCTS["lab"], [good, crate(license, "some", authors, **files)])


def test_a_compiler_that_does_not_describe_its_library_is_refused(licenses, tmp_path):
    with pytest.raises(licenses.UnlicensedError, match="rust-library"):
        licenses.bundle(licenses.PRODUCTS["lab"], [licenses.library()._replace(folder=tmp_path)])

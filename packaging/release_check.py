"""Whether a version may be released: changelog, versions, wheel. `make release-check VERSION=x.y.z` runs it.

    python packaging/release_check.py VERSION [--wheel FILE]...

Says all that is wrong with the files at once. Each wheel is installed into a clean virtual environment that
sees nothing of the checkout, and `smoke.py` tries every command. The exit code is 0 if all is well.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+")


def problems(root: Path, version: str) -> list[str]:
    """What in the files below `root` is not as a release of `version` needs it."""
    if not VERSION.fullmatch(version):
        return [f"{version!r} is no version like 1.2.3"]
    found = []

    def expect(file: str, what: str, is_there: str | None) -> None:
        if is_there != version:
            found.append(f"{file}: {what} is {is_there or 'missing'}, not {version}")

    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    expect("Cargo.toml", "workspace.package.version", manifest["workspace"]["package"]["version"])
    locked = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    for name in sorted(package["name"] for package in locked if package["name"].startswith("tidegate-")):
        (one,) = [package["version"] for package in locked if package["name"] == name]
        expect("Cargo.lock", f"the version of {name}", one)
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    expect("CITATION.cff", "version", _line(citation, "version"))
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$"
    section = re.search(heading + r"\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None:
        found.append(f"CHANGELOG.md: no heading `## [{version}] - YYYY-MM-DD`")
        return found
    if not re.search(r"^- ", section[2], re.MULTILINE):
        found.append(f"CHANGELOG.md: nothing stands below the heading of {version}")
    if _line(citation, "date-released") != section[1]:
        date = _line(citation, "date-released") or "missing"
        found.append(f"CITATION.cff: date-released is {date}, and the changelog says {section[1]}")
    return found


def _line(text: str, key: str) -> str | None:
    """A plain value at the outermost level of a YAML file."""
    match = re.search(rf'^{key}: *"?([^"\n]+?)"? *$', text, re.MULTILINE)
    return match and match[1]


def wheel_problem(wheel: Path, version: str) -> str | None:
    """What a wheel's name says against it."""
    is_abi3 = re.fullmatch(r"tidegate-([^-]+)-cp3\d+-abi3-\w+\.whl", wheel.name)
    if is_abi3 is None:
        return f"{wheel.name} is no wheel of tidegate for the stable ABI"
    return None if is_abi3[1] == version else f"{wheel.name} is not of {version}"


def install_and_try(wheel: Path) -> bool:
    """Whether all commands work where nothing but the wheel is installed, with what it needs for pictures."""
    with tempfile.TemporaryDirectory(prefix="tidegate-release-") as folder:
        prefix = Path(folder) / "env"
        venv.create(prefix, with_pip=True)
        scripts = prefix / ("Scripts" if sys.platform == "win32" else "bin")
        install = [scripts / "python", "-m", "pip", "install", "-q", f"{wheel.absolute()}[plot,data]"]
        smoke = [sys.executable, ROOT / "packaging" / "smoke.py", scripts / "tidegate", "--prefix", prefix]
        return all(subprocess.run(command, cwd=folder).returncode == 0 for command in (install, smoke))


def main() -> int:
    """The exit code: 0 if the version may be released."""
    parser = argparse.ArgumentParser(description="Check whether a version may be released.")
    parser.add_argument("version", help="like 1.2.3")
    parser.add_argument("--wheel", type=Path, action="append", default=[], help="a wheel to install and try")
    given = parser.parse_args()
    found = problems(ROOT, given.version)
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout.strip():
        found.append("the checkout has changes that are not committed")
    for wheel in given.wheel:
        if problem := wheel_problem(wheel, given.version):
            found.append(problem)
        elif not install_and_try(wheel):
            found.append(f"{wheel.name} does not work in a clean environment")
    for problem in found:
        print(f"release-check: {problem}", file=sys.stderr)
    if not found:
        print(f"{given.version} may be released: git tag v{given.version}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Check that the crates depend on each other in one direction only.

Reads `cargo metadata`; prints every dependency that the layering forbids and exits 1 if there is one.
`make test` and so continuous integration run it.
"""

import json
import subprocess
import sys
from pathlib import Path

# Which Tidegate crates each crate may name. A new crate must be entered here, which is the moment to think.
ALLOWED = {
    "units": set(),
    "parameters": {"units"},
    "packet": {"units"},
    "mechanism": {"units", "parameters", "packet"},
    "document": {"units"},
    "wire": {"units", "packet", "mechanism"},
    "scenario": {"units", "parameters", "packet", "mechanism", "document"},
    "engine": {"units", "packet", "mechanism"},
    "record": {"units", "packet", "mechanism", "engine"},
    "lab": {"units", "parameters", "packet", "mechanism", "engine", "scenario", "record"},
    "emulator": {"units", "packet", "mechanism", "wire", "record", "scenario", "engine", "lab"},
    "gateway": {"units", "parameters", "packet", "mechanism", "document", "wire"},
    # The only crate that knows both.
    "gateway-sim": {"units", "packet", "mechanism", "engine", "gateway"},
    "python": {
        *("units", "parameters", "packet", "mechanism", "record", "scenario", "engine", "lab", "emulator")
    },
    "core": {"python"},
    "own": {"units", "parameters", "packet", "mechanism", "python"},
}
# Other people's crates that only some of ours may name.
ONLY_IN = {
    "pyo3": {"python", "core", "own"},
    "numpy": {"python"},
    "pyo3-arrow": {"python"},
    "serde": set(ALLOWED) - {"packet", "mechanism"},
}
PREFIX = "tidegate-"


def violations(metadata: dict) -> list[str]:
    """Every forbidden dependency in the output of `cargo metadata --no-deps`, as one line each."""
    found = []
    for package in metadata["packages"]:
        name = package["name"].removeprefix(PREFIX)
        if name not in ALLOWED:
            found.append(f"{package['name']}: not in the layers; enter it in tests/check_layers.py")
            continue
        for dependency in package["dependencies"]:
            target = dependency["name"]
            ours = target.removeprefix(PREFIX)
            is_test_only = dependency["kind"] == "dev"
            if target.startswith(PREFIX) and not is_test_only and ours not in ALLOWED[name]:
                found.append(f"{name} must not depend on {ours}")
            if target in ONLY_IN and not is_test_only and name not in ONLY_IN[target]:
                found.append(f"{name} must not depend on {target}")
            if {name, ours} == {"engine", "gateway"}:
                found.append(f"{name} and {ours} must not know each other, not even in tests")
    return found


def main() -> int:
    """Run the check on the checkout this file is in."""
    root = Path(__file__).resolve().parent.parent
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    metadata = json.loads(output)
    found = violations(metadata)
    for line in found:
        print(f"layers: {line}", file=sys.stderr)
    if not found:
        print(f"layers: {len(metadata['packages'])} crates depend in one direction")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

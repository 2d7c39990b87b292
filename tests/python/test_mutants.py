"""The list of mutants does not rot: each can still be put into its source."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTANTS = tomllib.loads((ROOT / "tests/mutants/mutants.toml").read_text(encoding="utf-8"))["mutants"]


def test_what_a_mutant_replaces_stands_once_in_its_file():
    times = {m["name"]: (ROOT / m["file"]).read_text(encoding="utf-8").count(m["find"]) for m in MUTANTS}
    assert {name: count for name, count in times.items() if count != 1} == {}


def test_mutants_have_names_of_their_own_and_break_something():
    assert len({m["name"] for m in MUTANTS}) == len(MUTANTS)
    assert [m["name"] for m in MUTANTS if m["find"] == m["replace"]] == []


def test_the_experiments_that_a_mutant_names_exist():
    named = {name for m in MUTANTS for name in m["first"]}
    assert [name for name in sorted(named) if not (ROOT / "experiments" / f"{name}.toml").exists()] == []

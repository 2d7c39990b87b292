"""Distributions of sizes that ship: what they are, and that they are what their first lines say."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIZES = ROOT / "crates/scenario/sizes"
FILES = sorted(SIZES.glob("*.csv"))


def points_of(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines[0] == "bytes,cdf"
    return [(int(size), float(part)) for size, part in (line.split(",") for line in lines[1:])]


def named(name):
    return points_of(SIZES / f"{name}.csv")


def mean_of(points):
    """Of straight lines between the points."""
    return sum((high - low) * (small + large) / 2 for (small, low), (large, high) in pairwise(points))


def part_below(points, size):
    """The distribution function at a size that is not above the largest."""
    for (small, low), (large, high) in pairwise(points):
        if small <= size <= large:
            return low + (high - low) * (size - small) / (large - small)
    raise ValueError(size)


def test_there_are_some():
    assert [path.stem for path in FILES] == ["data-mining", "hadoop", "internet", "web-search"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestEach:
    def test_it_is_a_distribution(self, path):
        points = points_of(path)
        assert points[0] == (1, 0) and points[-1][1] == 1
        for (small, low), (large, high) in pairwise(points):
            assert small < large and 0 <= low < high <= 1

    def test_it_says_where_it_is_from(self, path):
        text = path.read_text(encoding="utf-8")
        assert re.search(r"^# Source: .*(SIGCOMM|EuroSys) 20\d\d", text, re.MULTILINE)
        assert re.search(r"^# Compared with: [\w-]+/[\w-]+ ", text, re.MULTILINE)
        assert max(map(len, text.splitlines())) <= 120

    def test_its_mean_is_what_it_says(self, path):
        said = re.search(r"^# Mean: (\d+) B,", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert int(said[1]) == pytest.approx(mean_of(points_of(path)), abs=0.5)

    def test_the_page_has_it(self, path):
        points = points_of(path)
        page = (ROOT / "docs/sizes.md").read_text(encoding="utf-8")
        row = re.search(
            rf"^\| `{path.stem}` \|.*\| (\d+) B \| ([\d.]+) kB \| (\d+) (M|G)B \|$", page, re.MULTILINE
        )
        assert int(row[1]) == pytest.approx(mean_of(points), abs=0.5)
        assert part_below(points, float(row[2]) * 1e3) == pytest.approx(0.5, abs=0.005)
        assert int(row[3]) * {"M": 1e6, "G": 1e9}[row[4]] == points[-1][0]


def test_means_are_those_that_others_count_with():
    # Scripts for ns-2 that draw from these, RepFlow's among them, say 1138 and 5117 packets.
    assert mean_of(named("web-search")) / 1500 == pytest.approx(1138, rel=0.005)
    assert mean_of(named("data-mining")) / 1500 == pytest.approx(5117, rel=0.005)


def test_what_the_documents_say_in_words_holds():
    # DCTCP, section 2.2: most background flows are small, most bytes are in those of 1 to 50 MB.
    search = named("web-search")
    assert part_below(search, 100_000) > 0.5
    assert mean_of([(size, part) for size, part in search if size >= 1e6]) > 0.8 * mean_of(search)
    # VL2, Figure 2: 99 % of flows are smaller than 100 MB; most bytes are in those of 100 MB to 1 GB.
    mining = named("data-mining")
    assert part_below(mining, 100_000_000) == 0.99
    assert mean_of(mining[-2:]) > 0.7 * mean_of(mining)
    # Bundler: 97.6 % of requests are 10 kB or smaller.
    assert part_below(named("internet"), 10_000) == 0.976


def test_two_readings_of_one_figure_agree():
    # Homa's of the same curve, in part (PlatformLab/HomaSimulation, Facebook_HadoopDist_All.txt).
    others = {
        300: 0.052, 376: 0.2026, 600: 0.4591, 800: 0.5762, 1042: 0.6097, 2214: 0.6747, 7830: 0.7082,
        31946: 0.7212, 51046: 0.816, 81565: 0.8717, 115331: 0.8978, 288520: 0.9535, 940700: 0.9721,
        2169118: 0.987, 10000000: 1.0,
    }  # fmt: skip
    hadoop = named("hadoop")
    for size, part in others.items():
        assert part_below(hadoop, size) == pytest.approx(part, abs=0.06), size

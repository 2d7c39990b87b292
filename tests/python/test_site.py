"""What `make site` does before and behind Sphinx: pages are laid out, and what came out is checked."""

import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs/site"
sys.path.insert(0, str(SITE))

import check  # noqa: E402
import gallery  # noqa: E402
import pages  # noqa: E402

PATHS = {"docs/red.md": "red.md", "README.md": "index.md", "CONTRIBUTING.md": "project/contributing.md"}


def rewritten(text, own="docs/red.md", experiments=None):
    return pages.rewritten(text, own, PATHS[own], PATHS, experiments or {})


def test_links_between_pages_are_of_the_site():
    assert rewritten("[how](../CONTRIBUTING.md#mutants)") == "[how](project/contributing.md#mutants)\n"
    text = rewritten("see [RED and\nits kin](docs/red.md)", "README.md")
    assert text == "see [RED and\nits kin](red.md)\n"
    assert rewritten("[up](docs/red.md)", "README.md") == "[up](red.md)\n"
    back = rewritten("[RED](docs/red.md)", "CONTRIBUTING.md")
    assert back == "[RED](../red.md)\n"
    assert rewritten("[elsewhere](https://example.org/a.md)") == "[elsewhere](https://example.org/a.md)\n"


def test_what_is_no_page_is_told_by_its_place_and_what_is_not_there_is_refused():
    assert rewritten("[the rules](../deny.toml)") == "the rules (`deny.toml`)\n"
    with pytest.raises(pages.LayoutError, match=r"docs/red\.md.*gone\.md"):
        rewritten("[gone](gone.md)")


def test_experiments_are_linked_in_prose_and_not_in_code():
    names = {"nbp/fig8": "gallery/nbp/fig8.md"}
    text = "as `nbp/fig8` and `nbp/none` show\n\n```sh run\ntidegate reproduce `nbp/fig8`\n```\n"
    assert rewritten(text, experiments=names) == (
        "as [`nbp/fig8`](/gallery/nbp/fig8.md) and `nbp/none` show\n\n"
        "```sh\ntidegate reproduce `nbp/fig8`\n```\n"
    )


def test_a_file_is_told_by_its_name():
    text = rewritten('```toml file=a.toml\nduration = "1s"\n```\n')
    assert text == '```{code-block} toml\n:caption: a.toml\n\nduration = "1s"\n```\n'


def test_every_page_is_in_one_chapter():
    listed = [page for chapter in pages.chapters().values() for page in chapter]
    assert len(set(listed)) == len(listed) > 30
    assert set(listed) | {"contents.md", "index.md", *pages.PROJECT.values()} == set(
        pages.site_paths().values()
    )


def test_every_experiment_has_a_place_in_the_gallery_by_each_of_its_names():
    places = gallery.places()
    assert places["nbp/fig8"] == "gallery/nbp/fig8.md"
    assert places["feng/3.2a"] == "gallery/feng/3.2.md"


def test_text_of_experiments_is_no_markup():
    assert gallery._text("p_b of *all* | `a|b_c` [1]") == r"p\_b of \*all\* \| `a\|b_c` \[1\]"


GOOD = '<h1 id="top">A</h1><a href="b.html#part">b</a><img src="a.svg" alt=""><a href="#top">up</a>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "a.svg").write_text("<svg/>")
    (tmp_path / "b.html").write_text('<p id="part">B</p>')
    (tmp_path / "a.html").write_text(GOOD)
    return tmp_path


def test_a_site_whose_links_lead_somewhere_has_nothing_wrong(site):
    assert check.site(site) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("b.html#part -> c.html", "c.html is not there"),
        ("b.html#part -> b.html#gone", "names an anchor that is not there"),
        ("b.html#part -> ../../secret.html", "leads out of the site"),
        ("a.svg -> https://example.org/a.svg", "is loaded from elsewhere"),
        (' alt="" -> ', "has no alternative text"),
        ("#top -> #gone", "names an anchor that is not there"),
        ('<a href="#top" -> <a id="top" href="#top"', "two things have the anchor #top"),
    ],
)
def test_what_is_wrong_with_a_site_is_named_with_its_page(site, change, says):
    before, _, after = change.partition(" -> ")
    assert before in GOOD
    (site / "a.html").write_text(GOOD.replace(before, after))
    (wrong,) = check.site(site)
    assert wrong.startswith("a.html: ")
    assert says in wrong

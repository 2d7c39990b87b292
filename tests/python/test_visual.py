"""The report as a browser shows it: nothing overlaps, nothing is cut off, and everybody can use it.

Chromium of the system draws the pages: `chromium` of Debian, or what `CHROMIUM` names.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate as package

PACKAGE = Path(package.__file__).parent
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FOUND = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)

# Gives what is wrong with the page that is open.
_FINDINGS = Path(__file__).with_name("visual.js").read_text(encoding="utf-8")
_VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 800}},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    # The width of A4 between the margins of the style, at 96 pixels per inch.
    "print": {"viewport": {"width": 688, "height": 1000}},
}


# One worker makes the pages, once, and looks at all of them.
pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture(scope="module")
def browser():
    if _FOUND is None:
        message = "no Chromium: install it (Debian: apt install chromium), or name it by CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        # Without its sandbox it also runs as root; it sees no page but ours.
        opened = playwright.chromium.launch(executable_path=_FOUND, args=["--no-sandbox"], timeout=120_000)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """A page with every kind of figure, and one of a published experiment; made by the command, once."""
    if not list(PACKAGE.glob("_core*.so")) and not list(PACKAGE.glob("_core*.pyd")):
        pytest.skip("the core has not been built")
    place = tmp_path_factory.mktemp("pages")
    for name in ("visual.toml", "visual-tune.toml"):
        shutil.copy(Path(__file__).with_name(name), place)
    for arguments in (
        ["sweep", "visual.toml", "--fresh", "-o", "visual"],
        ["report", "visual", "-o", "visual.html"],
        ["reproduce", "nbp/fig8a", "--quick", "--fresh", "-o", "published"],
        ["report", "published", "visual", "-o", "both.html"],
        ["suite", "aqm", "--quick", "--fresh", "-o", "suite"],
        ["tune", "visual-tune.toml", "--fresh", "-o", "tune"],
    ):
        run_tidegate(*arguments, cwd=place)
    return {
        "visual": place / "visual.html",
        "published": place / "published" / "report.html",
        "both": place / "both.html",
        "suite": place / "suite" / "scorecard.html",
        "tune": place / "tune" / "tuning.html",
    }


def run_tidegate(*arguments, cwd):
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", "tidegate", *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def opened(browser, pages):
    """Opens a page in a view; complains at the end about errors of its script and about what it loads."""
    contexts, complaints = [], []

    def open_page(name="visual", view="desktop", **more):
        contexts.append(browser.new_context(**_VIEWS[view], **more))
        page = contexts[-1].new_page()
        page.set_default_timeout(120_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url != page_address else None)
        page_address = pages[name].as_uri()
        if view == "print":
            page.emulate_media(media="print")
        page.goto(page_address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("view", _VIEWS)
@pytest.mark.parametrize("name", ["visual", "both", "suite", "tune"])
def test_nothing_overlaps_and_nothing_is_cut_off(opened, name, view):
    assert opened(name, view).evaluate(_FINDINGS) == []


@pytest.mark.parametrize(
    ("style", "finding"),
    [
        ("figure { height: 200px; }", "reaches out of visual-lines"),
        (".figures { display: block; } figure + figure { margin-top: -80px; }", "lies on visual-"),
        (".chart text { font-size: 26px; }", "lies on"),
        (".chart text { transform: translate(-60px, 0); }", "is cut off"),
        ("main { min-width: 1500px; }", "the page is 15"),
        (".chart { max-width: 200px; }", "letters of"),
        (".scroll { overflow-x: visible; } table { min-width: 3000px; }", "cannot be scrolled"),
    ],
)
def test_a_page_that_is_drawn_badly_is_noticed(opened, style, finding):
    page = opened()
    page.add_style_tag(content=style)
    found = page.evaluate(_FINDINGS)
    assert any(finding in each for each in found), found


@pytest.mark.parametrize("view", ["desktop", "phone", "dark"])
@pytest.mark.parametrize("name", ["both", "tune"])
def test_everybody_can_use_the_page(opened, name, view):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(name, view)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    found = axe.Axe().run(page).response["violations"]
    assert [(each["id"], each["impact"], each["nodes"][0]["html"][:120]) for each in found] == []


def test_a_page_is_printed_whole(opened):
    printed = opened("visual", "print").pdf(format="A4", prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    assert 3 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page/") <= 12


def test_pages_are_small(pages):
    assert pages["published"].stat().st_size < 100_000
    assert pages["visual"].stat().st_size < 500_000


def test_a_legend_hides_and_shows_lines(opened):
    page = opened("published")
    button, line = page.locator(".legend button").first, page.locator('.chart [data-t="0"]')
    assert line.is_visible()
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    assert not line.is_visible()
    button.press("Enter")
    assert line.is_visible()


def test_values_are_read_by_keyboard_and_by_pointer(opened, pages):
    page = opened("published")
    table = page.locator("figure table").first
    page.get_by_role("button", name="Read values").press("Enter")
    slider = page.get_by_role("slider", name="Where values are read")
    slider.press("Home")
    read = page.locator(".legend output").all_inner_texts()
    page.locator("figure summary").first.press("Enter")
    written = table.locator("tbody tr").first.locator("td").all_inner_texts()[1:]
    assert [float(value) for value in read] == pytest.approx([float(value) for value in written], abs=0.005)
    slider.press("End")
    assert page.locator(".legend output").all_inner_texts() != read
    page.locator(".chart").hover(position={"x": 200, "y": 100})
    assert page.locator(".chart .cursor").count() == 1


def test_the_network_is_stepped_through_and_never_by_itself(opened):
    page = opened()
    network = page.locator("[data-network]")
    slider, meters = network.get_by_role("slider"), network.locator(".meters")
    queue = network.locator(".gauge.queue .fill")
    shown = meters.inner_text()
    assert float(queue.get_attribute("width")) > 0
    slider.press("Home")
    assert meters.inner_text() != shown
    assert network.locator(".at").inner_text() == "0.1 s"
    network.get_by_role("button", name="Forward").press("Enter")
    assert network.locator(".at").inner_text() == "0.2 s"
    page.wait_for_timeout(400)
    assert network.locator(".at").inner_text() == "0.2 s"
    network.get_by_role("combobox").select_option(index=1)
    assert network.locator(".version").inner_text().endswith("size 20 packets")
    network.get_by_role("button", name="Play").press("Enter")
    page.wait_for_function("document.querySelector('.at').textContent !== '0.2 s'")


def test_who_wants_no_motion_is_offered_none(opened):
    page = opened(reduced_motion="reduce")
    assert page.get_by_role("button", name="Play").count() == 0
    assert page.get_by_role("button", name="Forward").count() == 1


_ORDER = """() => [...document.querySelectorAll("tr.row")].map(row => [...row.querySelectorAll("td")]
  .map(cell => [cell.dataset.m, cell.dataset.order]))"""


@pytest.mark.parametrize("view", ["desktop", "phone"])
def test_a_click_on_a_criterion_of_a_score_card_brings_the_best_to_the_front(opened, view):
    page = opened("suite", view)
    given = page.evaluate(_ORDER)
    button = page.locator("tr.row button").nth(1)
    button.click()
    best_first = page.evaluate(_ORDER)
    worths = [float(order) for _, order in best_first[1] if order]
    assert worths == sorted(worths) and worths[0] < worths[-1]
    # Every row and the names above the columns follow.
    names = [name for name, _ in best_first[1]]
    assert all([name for name, _ in row] == names for row in best_first)
    assert (
        page.evaluate(
            "() => [...document.querySelectorAll('#card thead th')].slice(1).map(each => each.textContent)"
        )
        == names
    )
    assert names != [name for name, _ in given[1]]
    button.click()
    worst_first = [float(order) for _, order in page.evaluate(_ORDER)[1] if order]
    assert worst_first == worths[::-1]
    page.locator("#asgiven").click()
    assert page.evaluate(_ORDER) == given

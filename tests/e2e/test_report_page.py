"""The report in a real browser: no error, no overflow, light and dark, mouse and keyboard, and names that are code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

import boggn
import chromium

pytestmark = pytest.mark.slow

BROWSER = chromium.found()
if BROWSER is None:
    pytest.skip(f"no browser on the PATH: none of {', '.join(chromium.NAMES)}", allow_module_level=True)

EVIL = '<img src=x onerror="window.caught=1"><script>window.caught=1</script>\'"&</style></script>'
WIDTHS = [400, 1400]


def objective(trial: optuna.Trial) -> float:
    """Log, ordinal, categorical and conditional parameters; failures; long and hostile names."""
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    depth = trial.suggest_int("depth", 1, 6)
    kind = trial.suggest_categorical(EVIL, [EVIL, "plain", "a category whose name is far longer than its place"])
    if kind == "plain":
        trial.suggest_float("parameter_of_plain_ones_alone", 0.0, 1.0)
    if trial.number in {4, 15}:
        return math.nan
    return (math.log10(rate) + 3.0) ** 2 + abs(depth - 3) + (kind != "plain")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sampler = boggn.BOGGNSampler(seed=0, warn_independent_sampling=False)
    study = optuna.create_study(study_name=EVIL, sampler=sampler)
    study.optimize(objective, n_trials=24)
    study.ask()
    return boggn.report(study, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Page]:
    assert BROWSER is not None
    with chromium.page(BROWSER) as page:
        yield page


def test_the_browser_is_real(browser: chromium.Page, tmp_path: Path) -> None:
    """What the other tests rest on: it does tell of errors, of requests and of overflow."""
    faulty = tmp_path / "faulty.html"
    faulty.write_text("<img src='absent.png'><div style='width:9999px'>.</div><script>missing()</script>", "utf-8")
    browser.open(faulty, width=400)
    assert any("missing" in each for each in browser.complaints)
    assert any(each.endswith("absent.png") for each in browser.requests)
    assert browser.run("document.documentElement.scrollWidth") > 400


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wrong_and_nothing_overflows(browser: chromium.Page, written: Path, width: int, dark: bool) -> None:
    browser.open(written, width=width, dark=dark)
    assert browser.complaints == []
    assert browser.requests == [written.resolve().as_uri()]
    assert browser.run("document.documentElement.scrollWidth") == width
    outside = browser.run("""[...document.querySelectorAll("h1, h2, p, svg, .legend, .x-title, .titles, figure")]
        .filter((e) => !e.closest(".scrolls") && e.getBoundingClientRect().right > innerWidth + 1)
        .map((e) => e.outerHTML)""")
    assert outside == []
    assert (luminance(browser, "document.body", "backgroundColor") < 0.2) == dark
    assert contrast(browser, "document.querySelector('.prose p')") > 7.0
    assert contrast(browser, "document.querySelector('figcaption p')") > 4.5


def test_hostile_names_are_text(browser: chromium.Page, written: Path) -> None:
    browser.open(written, width=1400)
    assert browser.run("window.caught") is None
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 2
    assert browser.run("document.querySelector('h1').textContent") == EVIL
    assert browser.run("[...document.querySelectorAll('td')].some((e) => e.textContent.includes('<img src=x'))")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_keyboard_reaches_the_toggle_and_every_chart(browser: chromium.Page, written: Path, width: int) -> None:
    browser.open(written, width=width)
    reached = []
    charts = browser.run("document.querySelectorAll('.plot svg').length")
    links = browser.run("document.querySelectorAll('nav a').length")
    assert charts >= 10
    for _ in range(charts + links + 10):
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.id || document.activeElement.tagName.toLowerCase()"))
    assert reached[:2] == ["a", "theme"]
    assert reached[2 : 2 + links] == ["a"] * links
    assert reached.count("svg") == charts
    assert browser.run("getComputedStyle(document.querySelector('.plot svg')).overflow") == "visible"


def test_the_toggle_changes_the_theme(browser: chromium.Page, written: Path) -> None:
    browser.open(written, width=1400, dark=False)
    before = luminance(browser, "document.body", "backgroundColor")
    browser.run("document.getElementById('theme').focus()")
    shown = []
    for _ in range(3):
        browser.press("Enter")
        is_dark = luminance(browser, "document.body", "backgroundColor") < 0.2
        shown.append((browser.run("document.getElementById('theme').textContent"), is_dark))
    assert before > 0.9
    assert shown == [("Theme: light", False), ("Theme: dark", True), ("Theme: auto", False)]


def test_marks_tell_of_their_trial(browser: chromium.Page, written: Path) -> None:
    browser.open(written, width=1400)
    x, y = browser.run("""(() => {
        const svg = document.querySelector("#progress svg");
        svg.scrollIntoView({ block: "center", behavior: "instant" });
        const [, x, y] = svg.querySelector("path[data-keys]").getAttribute("d").match(/M([\\d.]+) ([\\d.]+)/);
        const box = svg.getBoundingClientRect();
        return [box.left + (x * box.width) / 1000, box.top + (y * box.height) / 1000];
    })()""")
    browser.run("new Promise(requestAnimationFrame)")
    browser.point(x + 4.0, y + 3.0)
    told = browser.run("document.getElementById('tip').textContent")
    assert told.startswith("Trial 0, complete\noutcome ")
    assert "rate = " in told
    browser.point(2.0, 2.0)
    assert browser.run("document.getElementById('tip').hidden")
    browser.run("document.querySelector('#progress svg').focus({preventScroll: true})")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.run("document.getElementById('tip').textContent").startswith("Trial 1, complete")
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.run("document.getElementById('tip').textContent").startswith("Trial 23, complete")
    browser.press("Escape")
    assert browser.run("document.getElementById('tip').hidden")


def test_what_scrolls_sideways_shows_that_there_is_more(browser: chromium.Page, written: Path) -> None:
    """The table has room on a wide screen. On a narrow one a shadow lies at the side where more is, and only there."""
    beyond = "[...document.querySelectorAll('.scrolls')].map((e) => e.scrollWidth - e.clientWidth)"
    browser.open(written, width=1400)
    assert browser.run(beyond) == [0, 0]
    browser.open(written, width=400, dark=False)
    assert min(browser.run(beyond)) > 20
    for selector in ("#best .scrolls", "#coordinates .scrolls"):
        sides = []
        for left in (0, 9999):
            browser.run(f"document.querySelector('{selector}').scrollLeft = {left}")
            sides.append([lightest(browser, selector, side) < 0.9 for side in ("left", "right")])
        assert sides == [[False, True], [True, False]]


def test_long_names_are_cut_and_told(browser: chromium.Page, written: Path) -> None:
    browser.open(written, width=1400)
    cut = browser.run("""[...document.querySelectorAll("#best thead span")]
        .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.title)""")
    assert "parameter_of_plain_ones_alone" in cut


def test_the_latest_expectation_is_not_cut(browser: chromium.Page, written: Path) -> None:
    for width in WIDTHS:
        browser.open(written, width=width)
        inside = browser.run("""(() => {
            const svg = [...document.querySelectorAll("#progress svg")].at(-1), box = svg.getBoundingClientRect();
            const path = svg.querySelector("path[data-keys$=next]");
            const x = Number(path.getAttribute("d").match(/M([\\d.]+) [\\d.]+h0$/)[1]);
            return box.width - (x * box.width) / 1000; })()""")
        assert inside > 2.5  # half of the width of its stroke


def test_dots_are_round_whatever_the_shape_of_the_plot(browser: chromium.Page, written: Path) -> None:
    """A dot is a stroke of no length: its box has no size, and its stroke keeps its width at any scale."""
    for width in WIDTHS:
        browser.open(written, width=width)
        style = browser.run("""(() => { const s = getComputedStyle(document.querySelector("#progress path[data-keys]"));
            return [s.strokeLinecap, s.vectorEffect]; })()""")
        assert style == ["round", "non-scaling-stroke"]


def test_it_prints(browser: chromium.Page, written: Path) -> None:
    browser.open(written, width=1400, dark=True)
    browser.send(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert luminance(browser, "document.body", "backgroundColor") > 0.9
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert len(browser.send("Page.printToPDF")["data"]) > 10_000
    browser.send("Emulation.setEmulatedMedia", media="")


def luminance(browser: chromium.Page, element: str, colour: str) -> float:
    """The relative luminance of a computed colour, as accessibility guidelines define it."""
    channels = browser.run(f"""(() => {{ const c = document.createElement("canvas").getContext("2d");
        c.fillStyle = getComputedStyle({element}).{colour}; c.fillRect(0, 0, 1, 1);
        return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3); }})()""")
    linear = [v / 12.92 if (v := channel / 255) <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for channel in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def lightest(browser: chromium.Page, selector: str, side: str) -> float:
    """The green of the lightest pixel in a column at one side of an element: what no text covers."""
    box = browser.run(f"""(() => {{ const e = document.querySelector("{selector}");
        e.scrollIntoView({{ block: "center", behavior: "instant" }}); const b = e.getBoundingClientRect();
        return [b.left + scrollX, b.right + scrollX, b.top + scrollY, b.height]; }})()""")
    x = box[0] + 1 if side == "left" else box[1] - 2
    clip = {"x": x, "y": box[2] + 2, "width": 1, "height": box[3] - 4, "scale": 1}
    picture = browser.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
    # From bytes, as the page lets no picture be loaded.
    greens: list[float] = browser.run(f"""(async () => {{
        const bytes = Uint8Array.from(atob("{picture}"), (c) => c.charCodeAt(0));
        const image = await createImageBitmap(new Blob([bytes], {{ type: "image/png" }}));
        const c = new OffscreenCanvas(image.width, image.height).getContext("2d");
        c.drawImage(image, 0, 0);
        return [...c.getImageData(0, 0, image.width, image.height).data].filter((_, k) => k % 4 === 1); }})()""")
    return max(greens) / 255


def contrast(browser: chromium.Page, element: str) -> float:
    text, ground = luminance(browser, element, "color"), luminance(browser, "document.body", "backgroundColor")
    return (max(text, ground) + 0.05) / (min(text, ground) + 0.05)

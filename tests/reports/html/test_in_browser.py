from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.ci

Open = Callable[..., Any]
PAGES = ("held", "broken", "mutant_result", "swept", "swept_clean", "probed")
CONTRAST_MIN = 4.5
"""Minimum contrast of text and background: WCAG 2.2, level AA."""
PAPER_PX = 718
"""The width of A4 between the margins that browsers leave."""

CONTRASTS = """() => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = probe.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = ([r, g, b]) => {
    const part = (x) => ((x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const groundOf = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    throw new Error("no ground");
  };
  const found = {};
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.closest("svg, .unseen") || !element.checkVisibility()) continue;
    const [one, other] = [light(rgba(getComputedStyle(element).color)), light(groundOf(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const name = `${element.tagName}.${element.className}`;
    found[name] = Math.min(found[name] ?? 99, contrast);
  }
  return found;
}"""
"""Script that returns the minimum contrast of text, by kind of element."""


@pytest.fixture
def opened(browser: Browser, request: pytest.FixtureRequest) -> Open:
    """Open a page. Script errors and network requests fail the test."""

    @contextmanager
    def opened(name: str, *, width: int = 1280, scheme: Any = "light", scripts: bool = True) -> Iterator[Page]:
        url = (request.getfixturevalue(name) / "report.html").as_uri()
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        page = context.new_page()
        complaints: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(url)
        try:
            yield page
            assert complaints == []
            assert [one for one in requests if not one.startswith(("file:", "data:"))] == []
        finally:
            context.close()

    return opened


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(opened: Open, name: str, scheme: str) -> None:
    with opened(name, scheme=scheme) as page:
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true })")
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 10
        assert {what: ratio for what, ratio in contrasts.items() if ratio < CONTRAST_MIN} == {}


def test_the_contrast_check_detects_low_contrast(opened: Open) -> None:
    with opened("held") as page:
        page.add_style_tag(content=".note { color: #aaa }")
        assert page.evaluate(CONTRASTS)["P.note"] < 2.4


def test_light_and_dark_themes_have_different_colours(opened: Open) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        with opened("held", scheme=scheme) as page:
            grounds.add(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


@pytest.mark.parametrize("name", PAGES)
def test_a_report_at_phone_width_does_not_scroll_sideways(opened: Open, name: str) -> None:
    with opened(name, width=400) as page:
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true })")
        assert page.evaluate("() => document.documentElement.scrollWidth") == 400
        assert page.locator("h1").bounding_box()["y"] < 200


@pytest.mark.parametrize("name", PAGES)
def test_a_printed_report_is_light_and_fits_the_paper(opened: Open, name: str) -> None:
    with opened(name, width=PAPER_PX, scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PAPER_PX
        assert page.evaluate("() => getComputedStyle(document.body).color") == "rgb(32, 36, 44)"


def test_a_printed_report_shows_every_failure_expanded(opened: Open) -> None:
    with opened("mutant_result") as page:
        claims = page.locator(".failure .claim")
        assert claims.count() == 3
        assert not any(claims.nth(number).is_visible() for number in range(3))
        page.emulate_media(media="print")
        assert all(claims.nth(number).is_visible() for number in range(3))


def test_the_first_screen_of_a_report_shows_the_verdict(opened: Open) -> None:
    for name, tone, sign in (("held", "held", "✓"), ("broken", "broken", "✗")):
        with opened(name, width=400) as page:
            assert page.locator(f".verdict.{tone} h1").is_visible()
            assert page.locator("h1").inner_text().startswith(sign)


def test_the_link_to_a_timeline_opens_it(opened: Open) -> None:
    with opened("broken") as page:
        told = page.locator(".failure[open]").first
        scenario = told.locator("summary b").inner_text()
        told.get_by_role("link", name="timeline").click()
        page.wait_for_selector("#lanes")
        assert "/timelines/" in page.url
        assert page.locator(".head .run b").first.inner_text() == scenario


def test_broken_promises_link_to_their_failures(opened: Open) -> None:
    with opened("broken") as page:
        link = page.locator("#broke tbody a").last
        link.click()
        target = page.locator(page.url[page.url.index("#") :])
        kind = page.locator("details.kind", has=target)
        assert kind.locator("h3").inner_text().startswith(link.inner_text())
        assert target.is_visible()
        assert target.bounding_box()["y"] < 900


@pytest.mark.parametrize("name", PAGES)
def test_tables_have_headers_and_headings_skip_no_level(opened: Open, name: str) -> None:
    with opened(name) as page:
        bare = page.evaluate("() => [...document.querySelectorAll('th:not([scope])')].map((th) => th.innerText)")
        assert bare == []
        rows = page.evaluate(
            "() => [...document.querySelectorAll('tbody tr')].filter((row) => !row.querySelector('th[scope=row]'))"
            ".map((row) => row.innerText)"
        )
        assert [row for row in rows if row != "none"] == []
        levels = page.evaluate(
            "() => [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((one) => +one.tagName[1])"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_report_works_without_scripts(opened: Open) -> None:
    with opened("mutant_result", scripts=False) as page:
        page.locator(".failure summary").first.click()
        assert page.locator(".failure[open] .claim").is_visible()


def test_a_wide_table_can_be_scrolled_with_the_keyboard(opened: Open) -> None:
    with opened("held", width=400) as page:
        page.locator("#promises details summary").click()
        box = page.get_by_role("region", name="Promises by disk")
        box.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.querySelector('[aria-label=\"Promises by disk\"]').scrollLeft > 0")

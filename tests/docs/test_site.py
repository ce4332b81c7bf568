"""The site as a reader has it: opened from a directory, without a network, on a phone and in the dark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.chromium import browser as browser

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1400, "height": 980}
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return { rgb: [r, g, b], alpha: a / 255 };
  };
  const over = (top, alpha, below) => below.map((value, i) => top[i] * alpha + value * (1 - alpha));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ancestors = (element) => (element ? [...ancestors(element.parentElement), element] : []);
  const faint = [];
  for (const element of document.querySelectorAll(".gallery td, .gallery td *, .gallery-filters *")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    if (!element.getClientRects().length) continue;
    const path = ancestors(element);
    const ground = path.reduce((below, one) => {
      const { rgb, alpha } = rgba(getComputedStyle(one).backgroundColor);
      return over(rgb, alpha, below);
    }, [255, 255, 255]);
    const opacity = path.reduce((product, one) => product * Number(getComputedStyle(one).opacity), 1);
    const { rgb, alpha } = rgba(getComputedStyle(element).color);
    const pair = [luminance(over(rgb, alpha * opacity, ground)), luminance(ground)].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) faint.push(`${element.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return faint;
}"""
"""Texts of the gallery with a contrast below WCAG 2.2, 1.4.3 (AA)."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return place


def test_search_works_without_a_network(site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.click(".md-search__input")
    page.keyboard.type("timeline")
    found = page.locator(".md-search-result__item a[href*='timeline.html']").first
    found.wait_for(timeout=20_000)

    assert [url for url in asked if url.startswith("http")] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_gallery_fits_the_screen_with_enough_contrast(
    size: dict[str, int], scheme: str, site: Path, browser: Browser
) -> None:
    page = browser.new_page(viewport=size, color_scheme=scheme)
    page.goto((site / "gallery.html").as_uri())
    page.wait_for_selector(".gallery-count:not(:empty)")

    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(CONTRAST) == []


def test_each_select_element_of_the_gallery_has_a_label_and_filters(site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto((site / "gallery.html").as_uri())
    for name in ("after", "promises to survive", "outcome", "language"):
        assert page.get_by_role("combobox", name=name).count() == 1, name
    page.get_by_role("combobox", name="language").select_option("Rust")

    shown = page.locator(".gallery tbody tr:visible")
    assert 0 < shown.count() < page.locator(".gallery tbody tr").count()
    assert {row.get_attribute("data-language") for row in shown.all()} == {"Rust"}

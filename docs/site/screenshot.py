"""`python screenshot.py PAGE.html PICTURE.png`: the picture of a page in the system's Chromium, 1400 by 980."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def screenshot(page: Path, picture: Path) -> None:
    """Write a picture of a page in the light theme."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("there is no chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        opened = browser.new_page(viewport={"width": 1400, "height": 980}, color_scheme="light")
        opened.goto(page.resolve().as_uri())
        opened.wait_for_timeout(500)  # wait until the page is painted
        opened.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    screenshot(Path(sys.argv[1]), Path(sys.argv[2]))

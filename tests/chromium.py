"""Browser fixture, for the test folders that import it."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's headless Chromium. Without one, tests are skipped, except in CI."""
    if _CHROMIUM is None:
        reason = "no browser to look at pages with: neither chromium nor google-chrome is on the path"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_CHROMIUM, args=list(_CHROMIUM_OPTIONS))
        try:
            yield chromium
        finally:
            chromium.close()

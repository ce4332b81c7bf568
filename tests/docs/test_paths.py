"""Every file and module that a page names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "docs" / "gallery" / "README.md",
)
FILES = {
    path.name
    for folder in ("store", "sim", "faults", "scenarios", "reports", "tests", "docs", ".")
    for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
}
_PATH = re.compile(r"`((?:store|sim|faults|scenarios|reports|tests|docs)/[\w./-]+)`")
_LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]*)?\)")
_MODULE = re.compile(r"(?:from |`)tornlog((?:\.[a-z_]+)+)|`((?:store|sim|faults|scenarios|reports)(?:\.[a-z_]+)+)`")
_FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`(?:[\w./-]*/)?([\w-]+\.(?:py|c|h|sh|java|css|js))`")
"""A file name without its folder."""
_PLACEHOLDER = "NAME"
_OF_READERS = ("FILE.py",)
"""Files of readers."""
_GENERATED = "reference/"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_on_a_page_exists(page: Path) -> None:
    text = page.read_text()
    named = [ROOT / path for path in _PATH.findall(text) if _PLACEHOLDER not in path]
    linked = [page.parent / path for path in _LINK.findall(text) if not path.startswith(_GENERATED)]
    modules = [ROOT.joinpath(*(ours or other).strip(".").split(".")) for ours, other in _MODULE.findall(text)]

    assert [path for path in named + linked if not path.exists()] == []
    assert [name for name in _FILE.findall(_FENCED.sub("", text)) if name not in {*FILES, *_OF_READERS}] == []
    assert [path for path in modules if not (path.is_dir() or is_in_module(path))] == []


def is_in_module(path: Path) -> bool:
    """Return whether a dotted name is a module, or a name in a module."""
    return any(one.with_suffix(".py").exists() for one in (path, path.parent))


def test_the_folders_section_of_architecture_md_lists_every_package() -> None:
    _, _, section = (ROOT / "ARCHITECTURE.md").read_text().partition("## Folders\n")
    top_folder, top_folders, packages = "", [], []
    for line in section.partition("\n## ")[0].splitlines():
        if top := re.match(r"    (\w+)/ ", line):
            top_folder = top[1]
            top_folders.append(top_folder)
        elif listed := re.match(r"      ((?:\w+/ ?)+)", line):
            packages += [f"{top_folder}/{name}" for name in listed[1].replace("/", "").split()]

    assert top_folders == ["store", "sim", "faults", "scenarios", "reports", "tests"]
    there = {
        path.parent.relative_to(ROOT).as_posix()
        for name in top_folders[:-1]
        for path in (ROOT / name).glob("*/__init__.py")
    }
    assert {package for package in packages if not package.startswith("tests/")} == there
    assert all((ROOT / package).is_dir() for package in packages)

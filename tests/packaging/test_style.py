"""Names and words: a class name has one meaning, and old private words stay out."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

FOLDERS = ("sim", "store", "faults", "scenarios", "reports")

DIALECT = {
    "befall": "happen to",
    "chronicle": "recording",
    "hunt(?!-)": "mutation run",  # seeds of `hunt-MUTANT` would be others under another name
    "manieth": "occurrence",
    "mood": "strategy",
    "realities": "disk models",
    "off_time": "offline faults",
    "tell_": "print_",
    "told": "answered, shown, called with, expected",
    "fired": "injected",
}
"""Private word stem -> the field's word."""

_WORDS = re.compile(rf"(?<![a-z])(?:{'|'.join(DIALECT)})", re.IGNORECASE)


def modules(source: Path) -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((source / folder).rglob("*.py"))]


def classes_of(text: str) -> list[str]:
    """Return the classes at the top level of a module."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]


def names_given_twice(text: str) -> list[str]:
    """Return the names that a module assigns more than once at its top level."""
    given = Counter(
        name.id
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    )
    return [name for name, times in given.items() if times > 1]


def lines_with_banned_words(text: str) -> list[str]:
    """Return the lines with old words."""
    return [line.strip() for line in text.splitlines() if _WORDS.search(line)]


def test_each_class_name_is_defined_once(source: Path) -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in modules(source):
        for name in classes_of(path.read_text()):
            places[name].append(str(path.relative_to(source)))

    assert len(places) > 500
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_each_constant_name_has_one_value(source: Path) -> None:
    found = {str(path.relative_to(source)): names_given_twice(path.read_text()) for path in modules(source)}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_second_value_of_a_constant_is_detected() -> None:
    assert names_given_twice("ZEROS = bytes(20)\nSIZE: int = 1\nZEROS = bytes(SIZE)\n") == ["ZEROS"]


def test_code_and_pages_contain_no_banned_words(source: Path) -> None:
    pages = [source / "README.md", source / "ARCHITECTURE.md", *sorted((source / "docs").glob("*.md"))]

    found = {
        str(path.relative_to(source)): lines
        for path in (*modules(source), *pages)
        if (lines := lines_with_banned_words(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize("line", ["def tell_all() -> None:", "# what befalls it", "class HuntedMutant:"])
def test_banned_words_are_detected(line: str) -> None:
    assert lines_with_banned_words(line) == [line]


@pytest.mark.parametrize("line", ["def intelligent() -> None:", "from .recording import shunt", "retell_it"])
def test_other_words_are_not_reported(line: str) -> None:
    assert lines_with_banned_words(line) == []

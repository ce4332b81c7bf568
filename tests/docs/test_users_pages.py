"""The README and the pages about pytest, Hypothesis and mutants: their files and commands give the shown output."""

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

pytestmark = pytest.mark.ci

Done = CompletedProcess[str]
README = Path(__file__).resolve().parents[2] / "README.md"
DOCS = README.parent / "docs"
PAGES = ("pytest.md", "hypothesis.md", "mutants.md")
_BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page_examples(page: str, project: Path, shell: Callable[..., Done]) -> list[str]:
    """Follow a page in a project; return the shown outputs that differ."""
    missing = []
    for block in _BLOCK.finditer(page):
        if block["kind"] == "python":
            name, _, text = block["text"].partition("\n")
            assert name.startswith("# "), name
            file = project / name.removeprefix("# ")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        else:
            assert block["kind"] == "console", block[0]
            for command in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                line, _, shown = command.partition("\n")
                done = shell(line, project)
                missing += missing_lines(done.stdout + done.stderr, shown, line)
    return missing


def missing_lines(output: str, shown: str, line: str) -> list[str]:
    """Return the first shown line that is missing from the output, in order; … matches any text."""
    at = 0
    for piece in shown.splitlines():
        pattern = ".*?".join(map(re.escape, piece.split("…")))
        found = re.compile(f"^{pattern}$", re.MULTILINE).search(output, at)
        if found is None:
            return [f"$ {line}: {piece}\n{output}"]
        at = found.end() if piece != "…" else at
    return []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_the_output_of_its_example(name: str, tmp_path: Path, shell: Callable[..., Done]) -> None:
    page = (DOCS / name).read_text()
    kinds = [block["kind"] for block in _BLOCK.finditer(page)]

    assert page.count("```") == 2 * len(kinds)
    assert kinds.count("python") >= 1
    assert kinds.count("console") >= 2
    assert run_page_examples(page, tmp_path, shell) == []


def test_the_readme_shows_the_output_of_its_failing_example(tmp_path: Path, shell: Callable[..., Done]) -> None:
    page = README.read_text()

    assert [block["kind"] for block in _BLOCK.finditer(page)] == ["console"]
    assert run_page_examples(page, tmp_path, shell) == []


def test_the_page_about_pytest_has_every_option_and_argument(shell: Callable[..., Done], tmp_path: Path) -> None:
    page = (DOCS / "pytest.md").read_text()
    options = re.findall(r"^  (--tornlog-\w+)", shell("pytest --help", tmp_path).stdout, re.MULTILINE)
    marks = shell("pytest --markers", tmp_path).stdout
    (arguments,) = re.findall(r"@pytest.mark.tornlog\(([^)]*\(\)[^)]*)\)", marks)

    assert len(options) == 5
    assert all(f"`{option}" in page for option in options)
    for name in re.findall(r"(\w+)=", arguments):
        assert f"`{name}`" in page, name

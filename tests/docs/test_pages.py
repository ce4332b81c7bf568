"""Pages run from top to bottom, and print the outputs that they show. `python THIS_FILE` updates the outputs."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
OWN_CODE = DOCS / "your-own-code.md"
PAGES = (OWN_CODE, DOCS / "formats.md")
"""Pages with blocks that depend on earlier ones."""
_BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = "$ python "


def run_page(page: str, directory: Path) -> str:
    """Run every block of a page, and return it with the actual outputs."""
    names: dict[str, object] = {"__name__": "page"}
    printed = ""

    def run(block: re.Match[str]) -> str:
        nonlocal printed
        kind, text = block["kind"], block["text"]
        if kind == "python":
            with contextlib.chdir(directory), contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "page", "exec"), names)
            printed = out.getvalue()
            return block[0]
        if kind == "text":
            return f"```text\n{printed}```"
        assert kind == "console", f"a block of an unknown kind: {block[0]}"
        command = text.splitlines()[0]
        assert command.startswith(COMMAND), command
        return f"```console\n{command}\n{run_example(command.removeprefix(COMMAND), directory)}```"

    return _BLOCK.sub(run, page)


def run_example(arguments: str, directory: Path, **environment: str) -> str:
    """Run a script of the examples in a directory, and return its output."""
    script, *others = arguments.split()
    done = subprocess.run(
        [sys.executable, DOCS / "examples" / script, *others],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_block_prints_the_output_on_the_page(path: Path, tmp_path: Path) -> None:
    page = path.read_text()
    kinds = [block["kind"] for block in _BLOCK.finditer(page)]

    assert page.count("```") == 2 * len(kinds)
    assert kinds.count("python") >= 6
    assert kinds.count("console") + kinds.count("text") >= 5
    assert run_page(page, tmp_path) == page


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        lambda page: page.replace("  draws", "  drawn"),
        lambda page: page.replace("```text\nTrue", "```text\nFalse"),
        lambda page: page.replace('rename("/settings.new", "/settings")', 'rename("/settings.new", "/other")', 1),
    ],
)
def test_a_wrong_output_is_noticed(spoil: Callable[[str], str], tmp_path: Path) -> None:
    page = OWN_CODE.read_text().partition("## Mend it")[0]

    assert spoil(page) != page
    assert run_page(page, tmp_path) == page
    assert run_page(spoil(page), tmp_path) != spoil(page)


if __name__ == "__main__":
    for one in PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            one.write_text(run_page(one.read_text(), Path(scratch)))

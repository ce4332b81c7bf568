"""Pages run from top to bottom, and print the outputs that they show. `PYTHONPATH=. python THIS_FILE` updates them."""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "your-own-code": (14, 15),
    "formats": (8, 7),
    "your-python-program": (2, 5),
    "any-program": (1, 5),
    "probe-faults": (2, 1),
    "probe-disks": (2, 1),
    "probe-machines": (1, 1),
}
"""Page -> its number of Python blocks and of outputs."""

EXECUTED = ("your-own-code", "formats")
"""Pages with Python blocks that depend on one another. Other pages show parts of programs."""

_BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(directory: Path) -> Path:
    """Copy the examples, to keep their folder clean."""
    return Path(shutil.copytree(DOCS / "examples", directory / "examples"))


def run_command(command: str, directory: Path) -> tuple[int, str]:
    """Run `python SCRIPT …` or `tornlog …` as on a page; return exit code and output."""
    program, *words = shlex.split(command)
    assert program in ("python", "tornlog"), command
    done = subprocess.run(
        [sys.executable, *(["-m", "tornlog"] if program == "tornlog" else []), *words],
        cwd=directory,
        env={**os.environ, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def run_page(page: str, directory: Path, executes: bool) -> str:
    """Run commands, and Python blocks if `executes`, in a copy of the examples; return the page with actual outputs."""
    names: dict[str, object] = {"__name__": "page"}
    printed = ""

    def run(block: re.Match[str]) -> str:
        nonlocal printed
        kind, text = block["kind"], block["text"]
        if kind == "python" and executes:
            with contextlib.chdir(directory), contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "page", "exec"), names)
            printed = out.getvalue()
        if kind == "text":
            return f"```text\n{printed}```"
        if kind == "console":
            command = text.partition("\n")[0].removeprefix("$ ")
            lines = "\n".join(line.rstrip() for line in run_command(command, directory)[1].splitlines())
            return f"```console\n$ {command}\n{lines}\n```"
        assert kind in ("python", "sh"), f"a block of an unknown kind: {block[0]}"
        return block[0]

    return _BLOCK.sub(run, page)


def without_varying_values(page: str) -> str:
    """Return a page without the values that differ between runs or versions of Python."""
    return re.sub(r"(?<=dumb\.py:)\d+", "N", re.sub(r"in \d+\.\d s", "in N s", page))


def text_of(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in EXECUTED else pytest.mark.ci) for name in PAGES]
)
def test_every_code_block_prints_the_output_on_the_page(name: str, tmp_path: Path) -> None:
    page = text_of(name)
    kinds = [block["kind"] for block in _BLOCK.finditer(page)]

    assert page.count("```") == 2 * len(kinds)
    assert (kinds.count("python"), kinds.count("console") + kinds.count("text")) == PAGES[name]
    assert without_varying_values(run_page(page, examples(tmp_path), name in EXECUTED)) == without_varying_values(page)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "spoil"),
    [
        (("your-own-code", "# Your", "## Fix it"), lambda page: page.replace("  draws", "  drawn")),
        (("your-own-code", "# Your", "## Fix it"), lambda page: page.replace("```text\nTrue", "```text\nFalse")),
        (
            ("your-own-code", "# Your", "## Fix it"),
            lambda page: page.replace('rename("/settings.new", "/settings")', 'rename("/settings.new", "/other")', 1),
        ),
        (
            ("your-python-program", "## Fixed", "## What the recorder"),
            lambda page: page.replace("3 promises", "4 promises"),
        ),
    ],
)
def test_a_wrong_output_on_a_page_fails_the_check(
    part: tuple[str, str, str], spoil: Callable[[str], str], tmp_path: Path
) -> None:
    name, begin, end = part
    page = text_of(name).partition(begin)[2].partition(end)[0]
    spoilt = spoil(page)

    assert spoilt != page
    assert without_varying_values(
        run_page(page, examples(tmp_path / "right"), name in EXECUTED)
    ) == without_varying_values(page)
    assert without_varying_values(
        run_page(spoilt, examples(tmp_path / "wrong"), name in EXECUTED)
    ) != without_varying_values(spoilt)


if __name__ == "__main__":
    for one in PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            (DOCS / f"{one}.md").write_text(run_page(text_of(one), examples(Path(scratch)), one in EXECUTED))

"""docs/bisect.md: its scripts and commands find the planted bug of a small repository."""

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.docs.test_users_pages import missing_lines

Done = CompletedProcess[str]
DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_IDENTITY = "-c user.name=A -c user.email=a@b -c commit.gpgsign=false"
SYNC = "    sync .\n"
SAVER = """#!/bin/sh
for value in one two; do
    echo $value > value.new
    sync value.new
    mv value.new value
    sync .
    echo $value
done
"""
COMMITS = {
    "Save two values": SAVER,
    "Explain it": SAVER.replace("\n", "\n# Saves two values.\n", 1),
    "Save without a sync of the directory": SAVER.replace(SYNC, ""),
    "Explain more": SAVER.replace(SYNC, "").replace("\n", "\n# Saves two values, one after another.\n", 1),
    "Rename the variable": SAVER.replace(SYNC, "").replace("value in", "text in").replace("$value", "$text"),
}


@pytest.fixture
def repository(tmp_path: Path, shell: Callable[..., Done]) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    assert shell("git init --quiet --initial-branch main", place).returncode == 0
    for title, text in COMMITS.items():
        (place / "saver.sh").write_text(text)
        (place / "saver.sh").chmod(0o755)
        done = shell(f"git add . && git {_IDENTITY} commit --quiet -m '{title}'", place)
        assert done.returncode == 0, done.stderr
    (tmp_path / "check.sh").write_text((DOCS / "examples" / "probe_saver_check.sh").read_text())
    (tmp_path / "check.sh").chmod(0o755)
    return place


@pytest.mark.slow
def test_the_bisect_page_finds_the_commit_and_compares_two(repository: Path, shell: Callable[..., Done]) -> None:
    failed = []
    for block in _BLOCK.finditer((DOCS / "bisect.md").read_text()):
        if block["kind"] == "sh":
            name, _, script = block["text"].partition("\n")
            (repository / name.removeprefix("# ")).write_text(script)
        else:
            for command in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                line, _, shown = command.partition("\n")
                done = shell(line, repository)
                assert done.returncode <= 1, done.stdout + done.stderr
                assert missing_lines(done.stdout + done.stderr, shown, line) == []
                failed += [line] if done.returncode else []
    assert len(failed) == 1
    assert "--baseline ../before" in failed[0]


@pytest.mark.slow
def test_the_script_of_the_bisect_page_skips_commits_without_a_verdict(
    repository: Path, shell: Callable[..., Done]
) -> None:
    scripts = [block["text"] for block in _BLOCK.finditer((DOCS / "bisect.md").read_text()) if block["kind"] == "sh"]
    (repository / "saver.sh").unlink()

    assert len(scripts) == 2
    for script in scripts:
        (repository / "script.sh").write_text(script)
        assert shell("sh script.sh", repository).returncode == 125

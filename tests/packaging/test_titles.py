"""Commit titles: the hook and the check of new commits accept only `component: do this`."""

import subprocess
from pathlib import Path

import pytest

Done = subprocess.CompletedProcess[str]


def run_in_directory(*words: str, directory: Path) -> Done:
    return subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False, timeout=60)


def git(*words: str, directory: Path) -> None:
    identity = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "commit.gpgsign=false",
    )
    done = run_in_directory("git", *identity, *words, directory=directory)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("title", "status"),
    [
        ("store/log: reset the retry count after progress", 0),
        ("broker runs: let messages exceed a segment", 0),
        ("# a comment\n\ndocs: explain the axis\n\nWhy: see there", 0),
        ("docs: " + "µ" * 66, 0),
        ("docs: " + "x" * 67, 1),
        ("Reset the retry count", 1),
        ("store:no space", 1),
        ("Merge branch 'x'", 0),
        ('Revert "a: b"', 0),
    ],
)
def test_the_commit_title_hook_requires_a_component_and_at_most_72_characters(
    title: str, status: int, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "message").write_text(f"{title}\n")

    assert run_in_directory(str(source / ".ci/commit-msg"), "message", directory=tmp_path).returncode == status


def test_the_commit_title_check_covers_only_new_commits(source: Path, tmp_path: Path) -> None:
    check = str(source / ".ci/commit-msg")
    git("init", directory=tmp_path)
    git("commit", "--allow-empty", "-m", "An old title", directory=tmp_path)
    git("checkout", "-b", "topic", directory=tmp_path)
    git("commit", "--allow-empty", "-m", "store: do this", directory=tmp_path)
    assert run_in_directory(check, directory=tmp_path).returncode == 0

    git("commit", "--allow-empty", "-m", "Do that", directory=tmp_path)
    done = run_in_directory(check, directory=tmp_path)
    assert (done.returncode, done.stderr.count("'Do that'")) == (1, 1)


def test_a_clone_without_the_default_branch_has_no_new_commits(source: Path, tmp_path: Path) -> None:
    git("init", "-b", "topic", directory=tmp_path)
    git("commit", "--allow-empty", "-m", "Do that", directory=tmp_path)

    assert run_in_directory(str(source / ".ci/commit-msg"), directory=tmp_path).returncode == 0


def test_make_hooks_installs_the_commit_title_check(source: Path, tmp_path: Path) -> None:
    git("init", directory=tmp_path)
    (tmp_path / ".ci").mkdir()
    for name in ("Makefile", ".ci/commit-msg"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    (tmp_path / ".ci/commit-msg").chmod(0o755)
    assert run_in_directory("make", "hooks", directory=tmp_path).returncode == 0

    done = run_in_directory(
        "git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "Do", directory=tmp_path
    )
    assert done.returncode == 1
    assert "title without its component" in done.stderr

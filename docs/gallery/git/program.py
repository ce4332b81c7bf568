"""git: a value of `core.fsync`, or `default`; a transaction is a commit, its rows are lines of one file."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from transactions import NUMBERS, ROWS, main, promise

_FILE = "file"
_ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "HOME": "/nonexistent",
    **{f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(*arguments: str, directory: Path = Path()) -> str:
    """Run git; return its output. Raises RuntimeError with its error output."""
    command = ["git", "-c", "safe.directory=*", "-c", "gc.auto=0", *arguments]
    done = subprocess.run(command, cwd=directory, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).splitlines()[0])
    return done.stdout


def make(setting: str) -> None:
    """Make a repository with a commit that has an empty file."""
    git("init", "-q", "-b", "main")
    Path(_FILE).write_text("")
    git("add", _FILE)
    git("commit", "-qm", "0")


def write(setting: str) -> None:
    """Commit."""
    chosen = [] if setting == "default" else ["-c", f"core.fsync={setting}"]
    for number in NUMBERS:
        with Path(_FILE).open("a") as file:
            file.writelines(f"{number}-{row}\n" for row in range(ROWS))
        git(*chosen, "commit", "-qam", str(number))
        promise(number)


def count(directory: Path) -> Sequence[int]:
    """Run git's check for damage, and read the last commit."""
    git("fsck", "--full", "--strict", "--no-dangling", directory=directory)
    lines = git("show", f"HEAD:{_FILE}", directory=directory).splitlines()
    return [sum(f"{number}-{row}" in lines for row in range(ROWS)) for number in NUMBERS]


main(write, count, lambda: git("--version").strip().replace(" version", ""), make)

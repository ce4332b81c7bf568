"""Vim: default options, `nofsync` or `nowritebackup`; a transaction is a save that adds lines."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from transactions import NUMBERS, ROWS, Wrong, main, promise

_FILE, _BACKUP = "text", "text~"
_EMPTY = "0"


def vim(*commands: str, directory: Path = Path()) -> str:
    """Run commands of Vim on the file, without settings or swap files of this machine; return its output."""
    # By default there are no backups below /tmp, where this may be.
    words = [word for command in ("set backupskip=", *commands) for word in ("-c", command)]
    command = ["vim", "-N", "-u", "NONE", "-i", "NONE", "-n", "-es", *words, "-c", "qa!", _FILE]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).splitlines()[0])
    return done.stdout


def lines_of(number: int) -> list[str]:
    """Return the lines that a save adds."""
    return [f"{number}-{row}" for row in range(ROWS)]


def make(setting: str) -> None:
    """Make a file with one line."""
    Path(_FILE).write_text(f"{_EMPTY}\n")


def write(setting: str) -> None:
    """Add lines and save."""
    option = [] if setting == "default" else [f"set {setting}"]
    for number in NUMBERS:
        vim(*option, f"call append('$', {lines_of(number)})", "write")
        promise(number)


def count(directory: Path) -> Sequence[int]:
    """Read the file, or its backup if the file is incomplete; save once more."""
    texts = [file.read_text() for name in (_FILE, _BACKUP) if (file := directory / name).is_file()]
    whole = [text.splitlines() for text in texts if text.startswith(f"{_EMPTY}\n") and text.endswith("\n")]
    lines = max(whole, key=len, default=[])
    known = {_EMPTY, *(line for number in NUMBERS for line in lines_of(number))}
    if not set(lines) <= known:
        raise Wrong(str(set(lines) - known))
    vim("call append('$', 'more')", "write", directory=directory)
    return [sum(line in lines for line in lines_of(number)) for number in NUMBERS]


def version() -> str:
    """Ask it."""
    said = subprocess.run(["vim", "--version"], capture_output=True, text=True, check=True).stdout
    return "Vim " + said.split()[4]


main(write, count, version, make)

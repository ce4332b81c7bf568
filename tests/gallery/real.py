"""`python -m tests.gallery.real [NAME...]`: cuts programs on a real ext4, to validate its model.

    a file with an ext4, mounted through a loop device → the program writes there → it is stopped at each promise
        → a copy of the file is the state after a power cut of a drive that has stored all writes
        → the copy is mounted, which replays its journal, and checked

Every breach must be among those that the row expects on ext4, because the model must include each real state. If not,
the exit code is 1. Needs root, loop devices and mkfs.ext4. Without them the command says so and exits with 0.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tornlog.reports.cli.console import OUT, plain_table, print_error

from .install import InstalledProgram, NotInstalled, install
from .rows import EXT4, Setting, all_rows

_IMAGE_BYTES = 256 << 20
_SECONDS_MAX = 120


def main(names: Annotated[list[str] | None, typer.Argument(help="Of these folders alone.")] = None) -> None:
    """Simulate a power cut after each promise of each program and setting, on a real ext4."""
    missing = _missing()
    if missing:
        OUT.print(f"skipped: real power cuts need {missing}")
        return
    table = plain_table("real ext4", ("program", "setting", "found", "expected of the model", "agrees"), ("cuts",))
    failures = []
    rows = {row.name: row for row in all_rows()}
    for name in names or ():
        if name not in rows:
            raise typer.BadParameter(f"expected some of {', '.join(rows)}, found {name}")
    for row in (rows[name] for name in names or rows):
        try:
            program = install(row)
        except NotInstalled as error:
            OUT.print(f"not cut: {row.name}: {error}", soft_wrap=True, markup=False)
            continue
        for setting in row.settings:
            answers = list(_cut_power(program, setting))
            found = frozenset(line.partition(":")[0] for answer in answers for line in answer[:1])
            expected = setting.expected(EXT4)
            agrees = found <= expected.always | expected.perhaps
            words = " ".join(sorted(found)) or "nothing"
            table.add_row(row.name, setting.name, words, str(expected), "yes" if agrees else "no", str(len(answers)))
            if not agrees:
                failures.append(f"{row.name} {setting.name}: {[answer for answer in answers if answer]}")
    OUT.print(table)
    for failure in failures:
        print_error(failure)
    raise typer.Exit(1 if failures else 0)


def _missing() -> str:
    """Return the requirements for a mount that this machine lacks."""
    if os.geteuid() != 0:
        return "root"
    if not Path("/dev/loop-control").exists():
        return "loop devices"
    return "" if shutil.which("mkfs.ext4") else "mkfs.ext4"


def _cut_power(program: InstalledProgram, setting: Setting) -> Iterator[list[str]]:
    """Yield the result of the check after each promise."""
    environment = {**os.environ, **program.environment}
    with TemporaryDirectory(prefix="tornlog-real-") as scratch:
        image, copy = Path(scratch, "disk"), Path(scratch, "copy")
        with image.open("wb") as file:
            file.truncate(_IMAGE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        with _mount(image, Path(scratch, "live")) as live:
            place = live / "files"
            place.mkdir()
            if setting.is_made:
                make = [*program.command, "make", *setting.arguments]
                subprocess.run(make, cwd=place, env=environment, check=True, timeout=_SECONDS_MAX)
            subprocess.run(["sync", "-f", str(live)], check=True)
            command = [*program.command, "write", *setting.arguments]
            promised: list[str] = []
            with subprocess.Popen(
                command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
            ) as running:
                assert running.stdout is not None
                for line in running.stdout:
                    promised.append(line.strip())
                    os.killpg(running.pid, signal.SIGSTOP)
                    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
                    os.killpg(running.pid, signal.SIGCONT)
                    with _mount(copy, Path(scratch, "left")) as left:
                        yield _check_verdict(program, left / "files", promised, environment)
            if running.returncode:
                raise RuntimeError(f"{setting.name}: the program has ended with {running.returncode}")


def _check_verdict(
    program: InstalledProgram, directory: Path, promised: list[str], environment: dict[str, str]
) -> list[str]:
    question = json.dumps({"directory": str(directory), "acknowledged": promised})
    check = [*program.command, "check"]
    done = subprocess.run(
        check, input=f"{question}\n", env=environment, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    if done.returncode:
        return [f"unusable: the check has ended with {done.returncode}"]
    broken: list[str] = json.loads(done.stdout)["broken"]
    return broken


@contextmanager
def _mount(image: Path, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


if __name__ == "__main__":
    typer.run(main)

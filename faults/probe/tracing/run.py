"""Traced run: any program on a directory of its own; its record is held against what it left there."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ...disk.export import export
from ...disk.image import Image
from ..record import ProgramRecord
from ..recording.run import ProgramError, unlike
from .control import AS_IT_IS, RunControl
from .machines import MACHINES, this_machine

_START_SECONDS_MAX = 20.0
"""For our own process, on a machine that is busy."""


class TracedRun(NamedTuple):
    """One run of a program under a control."""

    record: ProgramRecord
    unlike: list[str]
    """Where the record is not all it did."""
    choices: int = 0
    """How often one of several threads was picked to go on, and how often while another one still ran."""
    hurried: int = 0


def record_traced(
    program: Sequence[str], start: Image, seconds_max: float, stores: str = "step"
) -> tuple[ProgramRecord, list[str]]:
    """Run any program with arguments; return its record and where that is not all it did.

    stores: "step" records each store through a shared map, "call" what stores have changed by the next recorded call.

    Raises ProgramError if it cannot be recorded here, or does not end well within seconds_max; what it prints on
    standard error is there to read.
    """
    run = run_traced(program, start, seconds_max, stores)
    if run.record.exit:
        raise ProgramError(f"the program has ended with {run.record.exit}")
    return run.record, run.unlike


def run_traced(
    program: Sequence[str],
    start: Image,
    seconds_max: float,
    stores: str = "step",
    control: RunControl = AS_IT_IS,
    *,
    is_quiet: bool = False,
) -> TracedRun:
    """Run a program under a control, and record it as `record_traced` does; it may end as it likes.

    is_quiet: what it prints on standard error is thrown away.
    """
    assert stores in ("step", "call"), stores
    if this_machine() is None:
        known = " or ".join(MACHINES)
        raise ProgramError(
            f"programs are recorded on Linux on {known}: this is {platform.system()} on {platform.machine()}"
        )
    executable = shutil.which(program[0])
    if executable is None:
        raise ProgramError(f"{program[0]}: expected an executable, found none")
    with TemporaryDirectory(prefix="tornlog-probe-") as scratch:
        root, file = Path(scratch, "disk"), Path(scratch, "record.json")
        root.mkdir()
        export(start, "/", root)
        of_run = [f"{seconds_max}", stores, control.dumps()]
        arguments = [str(root), str(file), *of_run, os.path.abspath(executable), *program]
        _trace(arguments, seconds_max, subprocess.DEVNULL if is_quiet else None)
        document = json.loads(file.read_text())
        if "refused" in document:
            raise ProgramError(document["refused"])
        record = ProgramRecord.from_json(document)
        counts = document.get("choices", 0), document.get("hurried", 0)
        return TracedRun(record, list(unlike(record, start, root)), *counts)


def _trace(arguments: list[str], seconds_max: float, errors: int | None) -> None:
    """Run the process that stands beside the program: the kernel gives it all that the program's threads report."""
    command = [sys.executable, "-m", str(__package__), *arguments]
    nothing = subprocess.DEVNULL
    try:
        seconds_max += _START_SECONDS_MAX
        done = subprocess.run(command, stdin=nothing, stdout=nothing, stderr=errors, timeout=seconds_max, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProgramError(f"the recorder has not ended within {error.timeout:g} s") from error
    if done.returncode:
        raise ProgramError(f"the recorder's process has ended with {done.returncode}")

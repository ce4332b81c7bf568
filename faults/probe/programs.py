"""Programs of any kind, and which recorder stands before them: Python's own calls, or the system's.

A script, `.py`, or a module, `-m`, is recorded at the calls of Python, so that each step has its line; everything else,
and those if it is asked for, at the calls of the system. Checks are recorded by the same two: what they do first, as
recovery, is cut as well.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ..disk.image import Image
from . import record as steps
from .checks.check import Check
from .record import ProgramRecord
from .recording.run import ProgramError, record_program
from .tracing.control import RunControl
from .tracing.run import TracedRun, record_traced, run_traced

PYTHON, CALLS = "python", "calls"
RECORDERS = (CALLS, PYTHON)
STORES = ("step", "call")
"""Stores through maps are seen one by one, or what they come to at the next call."""
_MODULE_CODE = "import runpy, sys; {path}; sys.argv[0] = ''; runpy.run_module({name!r}, None, '__main__', True)"


@dataclass(frozen=True, slots=True)
class RecorderChoice:
    """A way to record. kind: of RECORDERS, "" for the one that suits the program; seconds_max: how long it may run.

    takes_stacks: find where in the source each of the system's calls was made. Python's calls have their lines anyway.
    """

    kind: str
    stores: str
    seconds_max: float
    takes_stacks: bool = False

    def record(
        self, program: Sequence[str], start: Image, *, ignores_special_files: bool = False
    ) -> tuple[ProgramRecord, list[str]]:
        """Run a program; return its record and where that is not all it did.

        Raises ProgramError if there is no such program, or it does not end well; what it prints on standard error is
        there to read.
        """
        command = runnable(program)
        if self.kind_for(program) == PYTHON:
            return record_program(program, start, self.seconds_max, ignores_special_files=ignores_special_files)
        return record_traced(
            command,
            start,
            self.seconds_max,
            self.stores,
            takes_stacks=self.takes_stacks,
            ignores_special_files=ignores_special_files,
        )

    def rerun(self, program: Sequence[str], start: Image, control: RunControl) -> TracedRun:
        """Run a program under a control, which only the recorder of the system's calls has; it may end as it likes."""
        return run_traced(
            runnable(program),
            start,
            self.seconds_max,
            self.stores,
            control,
            is_quiet=True,
            takes_stacks=self.takes_stacks,
            ignores_special_files=True,  # a program that ends by a fault does not remove its sockets
        )

    def record_check(self, check: Check, start: Image, acknowledged: list[str]) -> tuple[ProgramRecord, list[str]]:
        """Run a check in what a crash has left, as a program that promises nothing; else as `record`.

        A server is started for this state alone.
        """
        with TemporaryDirectory(prefix="tornlog-probe-") as scratch:
            program = check.program(Path(scratch, "promises"), acknowledged, self.seconds_max)
            record, unlike = self.record(program, start, ignores_special_files=True)  # of a server that it has killed
        silent = tuple(step for step in record.steps if step.kind != steps.ACKNOWLEDGE)
        return replace(record, steps=silent), unlike

    def kind_for(self, program: Sequence[str]) -> str:
        """Return which recorder a program has. Raises ProgramError if it cannot have the one that is asked for."""
        is_python = is_of_python(program)
        if self.kind == PYTHON and not is_python:
            raise ProgramError(f"{program[0]}: expected a script, .py, or -m and a module to record calls of Python")
        return self.kind or (PYTHON if is_python else CALLS)


def is_of_python(program: Sequence[str]) -> bool:
    """Return whether a program is a script or a module of Python's."""
    return program[0] == "-m" or program[0].endswith(".py")


def runnable(program: Sequence[str]) -> list[str]:
    """Return a program as it can be run from anywhere. Raises ProgramError if there is none by that name."""
    first, *arguments = program
    if first == "-m":
        code = _MODULE_CODE.format(path=f"sys.path.insert(0, {str(Path.cwd())!r})", name=arguments[0])
        return [sys.executable, "-c", code, *arguments[1:]]
    if first.endswith(".py") and Path(first).is_file():
        return [sys.executable, str(Path(first).resolve()), *arguments]
    found = None if first.endswith(".py") else shutil.which(first)
    if found is None:
        raise ProgramError(f"{first}: expected a program, found none that can be run by that name")
    return [str(Path(found).absolute()), *arguments]

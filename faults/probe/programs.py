"""Programs of any kind, and the choice of their recorder.

A script (`.py`) or a module (`-m`) is recorded at the calls of Python, so that each step has its source line. All other
programs are recorded at the system calls, and so are scripts and modules on request. Checks are recorded by the same
two recorders, because crashes in their recovery are tried too.
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
"""Stores through maps are seen one by one ("step"), or as their sum at the next call ("call")."""
_MODULE_CODE = "import runpy, sys; {path}; sys.argv[0] = ''; runpy.run_module({name!r}, None, '__main__', True)"


@dataclass(frozen=True, slots=True)
class RecorderChoice:
    """A recorder and its options. kind: one of RECORDERS, or "" for the default of the program.

    seconds_max: time limit of the program. takes_stacks: find the source line of each system call. Calls of Python
    always have their lines.
    """

    kind: str
    stores: str
    seconds_max: float
    takes_stacks: bool = False

    def record(
        self, program: Sequence[str], start: Image, *, ignores_special_files: bool = False
    ) -> tuple[ProgramRecord, list[str]]:
        """Run a program. Return its record, and the differences between the record and the files that the program left.

        Raises ProgramError if there is no such program or it fails. Its standard error is not redirected.
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
        """Run a program with a fault or in a seeded order. Only system calls support this. The program may fail."""
        return run_traced(
            runnable(program),
            start,
            self.seconds_max,
            self.stores,
            control,
            is_quiet=True,
            takes_stacks=self.takes_stacks,
            ignores_special_files=True,  # after an injected fault the program may not remove its sockets
        )

    def record_check(self, check: Check, start: Image, acknowledged: list[str]) -> tuple[ProgramRecord, list[str]]:
        """Run a check in a crash state, as a program without promises. The rest is as in `record`.

        A server is started for this state alone.
        """
        with TemporaryDirectory(prefix="tornlog-probe-") as scratch:
            program = check.program(Path(scratch, "promises"), acknowledged, self.seconds_max)
            # a killed server does not remove its sockets
            record, unlike = self.record(program, start, ignores_special_files=True)
        silent = tuple(step for step in record.steps if step.kind != steps.ACKNOWLEDGE)
        return replace(record, steps=silent), unlike

    def kind_for(self, program: Sequence[str]) -> str:
        """Return the recorder for a program. Raises ProgramError if the requested one does not support it."""
        is_python = is_of_python(program)
        if self.kind == PYTHON and not is_python:
            raise ProgramError(f"{program[0]}: expected a script, .py, or -m and a module to record calls of Python")
        return self.kind or (PYTHON if is_python else CALLS)


def is_of_python(program: Sequence[str]) -> bool:
    """Return whether a program is a Python script or module."""
    return program[0] == "-m" or program[0].endswith(".py")


def runnable(program: Sequence[str]) -> list[str]:
    """Return a program's command line, valid in any working directory. Raises ProgramError if there is none."""
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

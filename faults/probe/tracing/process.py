"""The process that stands beside a program: it gives it its outputs and its surroundings, and writes down its record.

Standard output is a terminal, so that C's stdio hands over each line when it is ended. What is printed there is noted
and read away. The program's own promises come by a pipe, whose number is in the environment.
"""

import json
import os
import resource
import sys
import termios
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from ..record import FILES, TEMPORARY, ProgramRecord
from .calls import PRINTED, PROMISED
from .control import CallFault, RunControl
from .machines import this_machine
from .notes import ProgramNotes
from .ptrace import TraceRefusedError
from .schedule import SeededOrder
from .tracer import ProgramTimeoutError, Tracer

PROMISES = "TORNLOG_PROMISES"
"""The variable of the environment with the number of a descriptor: lines written to it are promises."""
_PLAIN = {"TERM": "dumb", "PAGER": "cat"}
"""For programs that do on a terminal what they would not do otherwise."""


class ProgramOutputs:
    """What a program writes lines to that are noted. A context: what comes is read away as long as it is open."""

    def __init__(self) -> None:
        master, self.terminal = os.openpty()
        attributes = termios.tcgetattr(self.terminal)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(self.terminal, termios.TCSANOW, attributes)
        read_end, self.promises = os.pipe()
        os.set_inheritable(self.promises, True)
        for descriptor in (master, read_end):
            threading.Thread(target=_read_away, args=(descriptor,), daemon=True).start()

    def __enter__(self) -> "ProgramOutputs":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.terminal)
        os.close(self.promises)


def _read_away(descriptor: int) -> None:
    with suppress(OSError):  # EIO: a terminal's way to say that nobody can write to it any more
        while os.read(descriptor, 1 << 16):
            pass
    os.close(descriptor)


def trace(
    root: str,
    executable: str,
    program: Sequence[str],
    seconds_max: float,
    stores: str,
    notes: ProgramNotes,
    order: SeededOrder | None = None,
    fault: CallFault | None = None,
) -> ProgramRecord:
    """Run a program on the disk at root, a real path; return its record. Raises what Tracer.run raises."""
    machine = this_machine()
    assert machine is not None, "asked before"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ProgramOutputs() as outputs, closing(Tracer(machine, root, notes, stores, order, fault)) as tracer:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))  # we keep each file open

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            os.dup2(outputs.terminal, 1)

        tracer.files.add_output(PRINTED, outputs.terminal)
        tracer.files.add_output(PROMISED, outputs.promises)
        environment = {**os.environ, **_PLAIN, "TMPDIR": root + TEMPORARY, PROMISES: str(outputs.promises)}
        code = tracer.run(executable, program, root + FILES, environment, seconds_max, prepare)
    return notes.record(program, code)


def main() -> None:
    """Be that process."""
    root, file, seconds_max, stores, control, executable, *program = sys.argv[1:]
    fault, seed = RunControl.loads(control)
    order = None if seed is None else SeededOrder(seed)
    try:
        real, notes = os.path.realpath(root), ProgramNotes()
        document = trace(real, executable, program, float(seconds_max), stores, notes, order, fault).to_json()
        if order is not None:
            document |= {"choices": order.choices, "hurried": order.hurried}
    except (ProgramTimeoutError, TraceRefusedError) as error:
        document = {"refused": str(error)}
    except OSError as error:
        if error.filename != executable:
            raise
        document = {"refused": f"{program[0]}: {error.strerror}"}
    Path(file).write_text(json.dumps(document))

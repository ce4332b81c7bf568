"""Recording process of one machine: runs and traces its command, and executes orders of the live run.

    order             answer                when
    arm, n, freeze    frozen, steps         after n more steps (`MachineTracer.wake_after`)
    arm, n, pause     paused, steps         after n more steps
    freeze            frozen, steps         at once
    pause             paused, steps         at once
    resume            -                     ends a pause
    kill              ended, MachineLife    at once
    count             counted, steps        at once

The process also sends `ended` if all processes of the machine have ended by themselves, and `failed` with a text if it
cannot record the machine.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, NamedTuple

from ..record import FILES, TEMPORARY, ProgramRecord
from ..tracing.machines import this_machine
from ..tracing.notes import ProgramNotes
from ..tracing.process import drop_inherited_resources
from ..tracing.ptrace import TraceRefusedError
from .tracer import MachineTracer

_FORK = get_context("fork")
_END_SECONDS = 2.0
_FOREVER_SECONDS = 1e9  # the live run enforces the time limit
ARM, FREEZE, PAUSE, RESUME, KILL, COUNT = "arm", "freeze", "pause", "resume", "kill", "count"
FROZEN, PAUSED, ENDED, FAILED, COUNTED = "frozen", "paused", "ended", "failed", "counted"
MACHINE = "TORNLOG_MACHINE"
"""Environment variable with the name of the machine."""


class MachineLife(NamedTuple):
    """The record of one machine from its start to its end. exit: the exit code of its first process."""

    record: ProgramRecord
    exit: int


class MachineStart(NamedTuple):
    """Parameters of a machine. root: real directory of its disk. log: file for its output."""

    name: str
    root: Path
    command: Sequence[str]
    log: Path
    stores: str


class MachineRecorder:
    """The recording process of a running machine, which must be closed."""

    def __init__(self, start: MachineStart) -> None:
        self.connection, theirs = _FORK.Pipe()
        self._process: ForkProcess = _FORK.Process(target=_run, args=(theirs, start), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, *order: Any) -> None:
        """Send an order, which a recorder ignores after the end of its machine."""
        with suppress(OSError):
            self.connection.send(order)

    def receive(self) -> tuple[str, Any]:
        try:
            answer: tuple[str, Any] = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return FAILED, "the recorder's process has ended without a result"
        return answer

    def close(self) -> None:
        """Kill the machine's processes and wait for their end, which frees their ports for the next start."""
        self.send(KILL)
        while self.connection.poll(_END_SECONDS) and self.receive()[0] not in (ENDED, FAILED):
            pass
        self._process.kill()
        self._process.join()
        self.connection.close()


class _Orders:
    """Executes the orders of the live run, in the recording process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._due = ""
        """The order (freeze or pause) of the last ARM."""
        self.tracer: MachineTracer

    def execute_all(self) -> None:
        while self._connection.poll():
            order, *values = self._connection.recv()
            if order == ARM:
                more_steps, self._due = values
                self.tracer.wake_after(more_steps)
            else:
                self._execute(order)

    def on_due(self) -> None:
        self._execute(self._due)

    def _execute(self, order: str) -> None:
        if order == FREEZE:
            self.tracer.freeze()
            self._connection.send((FROZEN, self.tracer.steps))
            while self._connection.recv() != (KILL,):
                pass  # the live run sent this order before our answer
            self.tracer.kill()
        elif order == PAUSE:
            self.tracer.send_signal(signal.SIGSTOP)
            self._connection.send((PAUSED, self.tracer.steps))
        elif order == RESUME:
            self.tracer.send_signal(signal.SIGCONT)
        elif order == KILL:
            self.tracer.kill()
        else:
            assert order == COUNT, order
            self._connection.send((COUNTED, self.tracer.steps))


def _run(connection: Connection, start: MachineStart) -> None:
    drop_inherited_resources(connection.fileno(), is_quiet=False)
    machine = this_machine()
    assert machine is not None, "checked by the caller"
    notes, orders = ProgramNotes(), _Orders(connection)
    root = os.path.realpath(start.root)
    try:
        with closing(MachineTracer(machine, root, notes, start.stores, orders.execute_all, orders.on_due)) as tracer:
            orders.tracer = tracer
            code = _trace(tracer, root, start)
        connection.send((ENDED, MachineLife(notes.record(start.command, code), code)))
    except (TraceRefusedError, TimeoutError) as error:
        connection.send((FAILED, str(error)))
    except OSError as error:
        connection.send((FAILED, f"{start.command[0]}: {error.strerror}"))


def _trace(tracer: MachineTracer, root: str, start: MachineStart) -> int:
    """Run the command of a machine in its directory until all its processes have ended."""
    log = os.open(start.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def prepare() -> None:
        os.dup2(log, 1)
        os.dup2(log, 2)

    environment: Mapping[str, str] = {**os.environ, "TMPDIR": root + TEMPORARY, MACHINE: start.name}
    program = list(start.command)
    try:
        return tracer.run(program[0], program, root + FILES, environment, _FOREVER_SECONDS, prepare)
    finally:
        os.close(log)

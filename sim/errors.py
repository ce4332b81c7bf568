"""Errors that end a simulated run.

MachineDied                   the machine is off; a BaseException, so that no service survives it by accident
InjectedError                 raised in a task on purpose, for its run to judge; no SimError, as it ends no run
SimError                      anything the kernel reports of a run
  TaskFailedError             a task of a living machine ended with an exception
  LivenessError               the run no longer gets anywhere; lists every task and what it waits for
    DeadlockError             nothing can run and no timer is set
    NoProgressError           virtual time or steps are used up
  UnstoppableTaskError        a task swallowed the death of its machine, again and again
  ReplayDivergedError         a record no longer fits the code that follows it
  NondeterminismError         the same run gave two digests
  LeakError                   simulated code reached past the world: to a real clock, file, thread, socket
"""


class MachineDied(BaseException):
    """The machine is off: raised by every world call of its tasks until the last of them has ended."""

    def __init__(self, machine: str) -> None:
        super().__init__(f"machine {machine} is off")
        self.machine = machine


class InjectedError(Exception):
    """Raised in a task on purpose. A task that ends of it is for its run to judge: it does not end the run."""


class SimError(Exception):
    """Anything the kernel reports of a run."""


class TaskFailedError(SimError):
    """A task of a living machine ended with an exception, which is this error's cause."""

    def __init__(self, task: str, failure: Exception) -> None:
        super().__init__(f"task {task} failed: {type(failure).__name__}: {failure}")
        self.task = task


class LivenessError(SimError):
    """The run no longer gets anywhere. `waits` has one line per living task."""

    def __init__(self, reason: str, waits: list[str]) -> None:
        super().__init__("\n  ".join([reason, *waits]))
        self.waits = waits


class DeadlockError(LivenessError):
    """Nothing can run and no timer is set, while the main task has not ended."""


class NoProgressError(LivenessError):
    """Virtual time or steps are used up, while the main task has not ended."""


class UnstoppableTaskError(SimError):
    """A task swallowed MachineDied more often than any cleanup needs to."""

    def __init__(self, task: str, refusals: int) -> None:
        super().__init__(f"task {task} swallowed MachineDied {refusals} times and still makes world calls")
        self.task = task


class ReplayDivergedError(SimError):
    """A record no longer fits the code that follows it.

    >>> print(ReplayDivergedError("stream disk", 4, ("torn", 8), ("torn", 16)))
    stream disk, entry 4: recorded ('torn', 8), found ('torn', 16)
    """

    def __init__(self, record: str, index: int, recorded: object, found: object) -> None:
        super().__init__(f"{record}, entry {index}: recorded {recorded}, found {found}")
        self.record = record
        self.index = index
        self.recorded = recorded
        self.found = found


class NondeterminismError(SimError):
    """The same run gave two digests. `difference` says where they part, as far as that is known."""

    def __init__(self, first: str, second: str, difference: str) -> None:
        super().__init__(f"two runs of the same seed differ: digests {first} and {second}; {difference}")
        self.first = first
        self.second = second
        self.difference = difference


class LeakError(SimError):
    """Simulated code reached past the world."""

    def __init__(self, function: str, file: str, line: int) -> None:
        super().__init__(f"{file}:{line}: simulated code called {function}")
        self.function = function
        self.file = file
        self.line = line

"""Errors that end a simulated run.

MachineDied                   the machine is off; a BaseException, so that no service catches it by accident
InjectedError                 a deliberate failure of one task; does not end the run, so it is no SimError
SimError                      an error of the run itself, reported by the kernel
  TaskFailedError             a task of a living machine ended with an exception
  LivenessError               the run makes no progress; lists every task and the reason for its wait
    DeadlockError             no task can run and no timer is set
    NoProgressError           the limit of virtual time or of steps is reached
  UnstoppableTaskError        a task caught MachineDied and continued, too often
  ReplayDivergedError         the code under replay no longer fits the record
  NondeterminismError         two runs of one seed gave different digests
  LeakError                   simulated code used a real clock, file, thread or socket
"""


class MachineDied(BaseException):
    """The machine is off. Every world call of the machine's tasks raises MachineDied until the last task has ended."""

    def __init__(self, machine: str) -> None:
        super().__init__(f"machine {machine} is off")
        self.machine = machine


class InjectedError(Exception):
    """A deliberate failure of one task. The injecting code checks the outcome."""


class SimError(Exception):
    """An error of the run itself, reported by the kernel."""


class TaskFailedError(SimError):
    """A task of a living machine ended with an exception, which is the cause of this error."""

    def __init__(self, task: str, failure: Exception) -> None:
        super().__init__(f"task {task} failed: {type(failure).__name__}: {failure}")
        self.task = task


class LivenessError(SimError):
    """The run makes no progress. `waits` has one line per living task, first for the tasks that can run.

    At the step limit, lines on the busiest tasks precede them.
    """

    def __init__(self, reason: str, waits: list[str]) -> None:
        super().__init__("\n  ".join([reason, *waits]))
        self.waits = waits


class DeadlockError(LivenessError):
    """No task can run and no timer is set, but the main task has not ended."""


class NoProgressError(LivenessError):
    """The limit of virtual time or of steps is reached, but the main task has not ended."""


class UnstoppableTaskError(SimError):
    """A task caught MachineDied and continued more often than any clean-up needs."""

    def __init__(self, task: str, refusals: int) -> None:
        super().__init__(f"task {task} caught MachineDied {refusals} times and still makes world calls")
        self.task = task


class ReplayDivergedError(SimError):
    """The code under replay no longer fits the record.

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
    """Two runs of one seed gave different digests. `difference` names the first difference found."""

    def __init__(self, first: str, second: str, difference: str) -> None:
        super().__init__(f"two runs of the same seed differ: digests {first} and {second}; {difference}")
        self.first = first
        self.second = second
        self.difference = difference


class LeakError(SimError):
    """Simulated code called a function outside the world."""

    def __init__(self, function: str, file: str, line: int) -> None:
        super().__init__(f"{file}:{line}: simulated code called {function}")
        self.function = function
        self.file = file
        self.line = line

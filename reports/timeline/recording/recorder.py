"""The recorder of a run: a trace that keeps everything a picture needs, in the order in which it happened.

Hand it to a run as its trace, and `ledger` as its ledger. It then observes the tasks and files of every machine whose
disk is shown: a store's, a master's, a broker's, that of a user's own code. It reads and never acts: the run has the
digest that it has without.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ....faults.disk.aftermath import Aftermath
from ....faults.disk.disk import Disk
from ....faults.simulation import trials
from ....faults.simulation.finding import Finding
from ....faults.simulation.simulation import Scenario as OwnScenario
from ....faults.simulation.simulation import WorldTrace
from ....scenarios.campaigns.failures.failure import RunRecord
from ....scenarios.campaigns.failures.replay import RunReplay, replay
from ....scenarios.campaigns.seeds import draw
from ....scenarios.claims.plan import Plan
from ....scenarios.claims.scenario import Scenario
from ....scenarios.mutants.known import applied_mutant
from ....scenarios.oracle.evidence import Evidence, Violation
from ....scenarios.runs.execution import life_name
from ....scenarios.runs.run_of import run_of, simulation_of
from ....sim.machine import Machine as SimMachine
from ....sim.machine import Scheduler, SimTask, Waiting
from ....sim.policies import Policy
from ....sim.process import garbage_kept
from ....sim.trace import RollingDigest
from ....store.message_store import MessageStore
from .cuts import DISTURBANCES, Cuts, Faults
from .record import MachineRecord, RunRecording, Subject, ViolationRecord
from .store_activity import Positions, Puts, RecordedLedger
from .task_activity import Moments, Operations, TaskSpans
from .watched_world import WatchedCell, WatchedFiles, WatchedLock, WatchedTasks


class RunRecorder(WorldTrace):
    """The events of one run, until a promise is broken: what follows is only its unwinding."""

    def __init__(self) -> None:
        super().__init__()
        self._moments = Moments()
        self._tasks = TaskSpans(self._moments)
        self._operations = Operations(self._moments, self._tasks)
        self._positions = Positions(self._moments)
        self._puts = Puts(self._moments, self._tasks)
        self._cuts = Cuts(self._puts.all)
        self._machines: list[MachineRecord] = []
        self._faults = Faults(self._moments)
        self._broken: list[ViolationRecord] = []
        self._page_bytes = self._sector_bytes = 0
        self.ledger = RecordedLedger(self._puts)
        """The ledger that the run has to keep."""

    # -- what the kernel reports ------------------------------------------------------------------

    def attach(self, kernel: Scheduler, digest: RollingDigest) -> None:
        """Take time, step and task from this kernel; the kernel calls it."""
        super().attach(kernel, digest)
        self._moments.attach(kernel)

    def add(self, kind: str, text: str) -> None:
        """Record one event, here and now."""
        if not self._goes_on():
            return
        if kind == "switch":
            self._tasks.switched(text)
        elif kind == "start":
            self._moments.go_on()  # nothing starts on a machine that is dead
            self._tasks.started(text)
        elif kind == "end":
            self._tasks.ended(text)
        elif kind == "kill":
            self._killed(text)
        elif kind in DISTURBANCES:
            self._faults.struck(kind, text)
        else:
            self._operations.done(kind, text)

    def parked(self, why: Waiting) -> None:
        """Note that the current task blocks."""
        if self._goes_on():
            self._tasks.parked(why)

    def made_ready(self, task: SimTask) -> None:
        """Note that a task that was blocked can run again."""
        if self._goes_on():
            self._tasks.made_ready(task)

    def emit(self, fact: object) -> None:
        """Note what the run says of itself."""
        if isinstance(fact, Violation):
            self._break(fact)
        if not self._goes_on():
            return
        if isinstance(fact, MessageStore):
            self._positions.follow(fact)
            self._puts.follow(fact)
        elif isinstance(fact, Evidence):
            self._puts.recovered(fact, self._moments.kernel.current.machine.name)
        elif isinstance(fact, Aftermath) and self._cuts.is_of_the_disk_shown:
            if not self._cuts.is_open:  # a machine whose work was done: it dies with its disk
                self._killed(self._machines[-1].name)
            self._cuts.crashed(fact)

    def _goes_on(self) -> bool:
        """Return whether the run does; see what has happened since the last time."""
        if self._broken:
            return False
        self._puts.look()
        self._faults.look(self._cuts.disk, self._operations)
        return True

    def _killed(self, machine: str) -> None:
        if not self._machines or machine != self._machines[-1].name:
            return  # one beside the machine whose files are shown: its tasks say that they were cut off
        at = self._moments.mark()
        self._moments.stop()
        self._puts.died()
        self._cuts.killed(at)
        self._end_machine(at, "killed")

    def _end_machine(self, at: int, ending: str) -> None:
        if self._machines and self._machines[-1].end < 0:
            self._machines[-1].end = at
            self._machines[-1].ending = ending

    def _break(self, violation: Violation) -> None:
        """Note a violation; those that a check finds together are of one moment."""
        if not self._broken:
            self._puts.look()
            self._moments.go_on()
            self._operations.finish(self._moments.mark())
            self._moments.stop()
        at = self._moments.last()
        puts = self._puts.concerned(violation)
        self._broken.append(ViolationRecord(at, self._tasks.current(), violation, puts))

    # -- what is seen of a store's world -----------------------------------------------

    def watch(self, machine: SimMachine, disk: Disk, tasks: Any, files: Any) -> tuple[Any, Any]:
        """Return a machine's tasks and files, watched, now that it has mounted a disk."""
        if self._broken:
            return tasks, files
        began = self._tasks.tasks[self._tasks.current()].begin
        self._end_machine(began, "stopped")
        self._cuts.mounted(machine, disk, began)
        self._faults.begin(disk)
        state = disk.state()
        self._page_bytes, self._sector_bytes = state.page_bytes, state.sector_bytes
        self._machines.append(MachineRecord(machine.name, began))
        return WatchedTasks(tasks, self), WatchedFiles(files, self)

    @contextmanager
    def under_way(self, kind: str, path: str, start: int = -1, stop: int = -1) -> Iterator[None]:
        """Note a call to the files, which is what the `with` block does."""
        if not self._goes_on():
            yield
            return
        with self._operations.under_way(kind, path, start, stop):
            try:
                yield
            finally:
                self._goes_on()  # what has gone wrong went wrong with this call

    def writes(self, path: str, at: int, data: bytes) -> None:
        """Note what is about to be written to a file."""
        if self._goes_on():
            self._puts.writes(path, at, data)

    def wrote(self, path: str, at: int, data: bytes) -> None:
        """Note what was written to a file."""
        if self._goes_on():
            self._operations.wrote(path, at, at + len(data))
            self._positions.wrote(path, at, data)

    def took(self, lock: WatchedLock) -> None:
        """Note that the task that runs holds a lock from now on."""
        if self._goes_on():
            self._tasks.took(lock.name, lock.number)

    def released(self, lock: WatchedLock) -> None:
        """Note that it holds it no longer."""
        if self._goes_on():
            self._tasks.released(lock.number)

    def written(self, cell: WatchedCell) -> None:
        """Note the positions that move with a cell."""
        if self._goes_on():
            self._positions.written(cell)

    # -- in the end --------------------------------------------------------------------------------

    def run_recording(
        self, subject: Subject, plan: Plan | None, digest: str, injected: Mapping[str, int]
    ) -> RunRecording:
        """Return all of it, now that the run is over. plan: a store's; None of a user's own code."""
        at = self._moments.last()
        self._tasks.finish(at)
        self._operations.finish(at)
        self._end_machine(at, "" if self._broken else "stopped")
        self._cuts.finish()
        lives = {} if plan is None else {life_name(number): life for number, life in enumerate(plan.lives)}
        for cut in self._cuts.all:
            if cut.operation and cut.machine in lives:
                cut.when = lives[cut.machine].moment
        spans = sorted(self._tasks.spans, key=lambda span: (span.begin, span.task))
        run = (subject, plan, digest, dict(sorted(injected.items())), self._page_bytes, self._sector_bytes)
        tasks = (self._moments.all, self._machines, self._tasks.tasks, spans, self._tasks.holds)
        log = (self._operations.all, self._positions.all, self._positions.checkpoints)
        mishaps = (self._faults.all, self._cuts.all)
        return RunRecording(*run, *tasks, *log, *mishaps, self._puts.all, self._broken)


def replay_recorded(subject: Subject, record: RunRecord) -> tuple[RunReplay, RunRecording]:
    """Replay a record as `replay` does, and return its recording too. The subject's mutant is not applied here."""
    recorder = RunRecorder()
    replayed = replay(record, recorder, ledger=recorder.ledger)
    outcome = replayed.result
    return replayed, recorder.run_recording(subject, record.setup, outcome.digest, outcome.injected)


def record_seed(
    scenario: Scenario, seed: int, *, mutant: str | None = None, policy: Policy | None = None
) -> RunRecording:
    """Run one seed, with a mutant if there is one to apply, and return its recording; policy replaces the drawn one."""
    recorder = RunRecorder()
    with garbage_kept(), applied_mutant(mutant):
        choices, plan = draw(scenario, seed)
        simulation = simulation_of(plan, choices, policy, recorder)
        outcome = run_of(plan, simulation, ledger=recorder.ledger).execute()
    subject = Subject(scenario.name, scenario.claim, seed, mutant)
    return recorder.run_recording(subject, plan, outcome.digest, outcome.injected)


def record_finding(scenario: OwnScenario, finding: Finding) -> RunRecording:
    """Replay a finding of a user's own scenario, and return its recording."""
    recorder = RunRecorder()
    outcome = trials.replay(scenario, finding.record, recorder).result
    if outcome.failure is not None:
        promise, _, found = outcome.error.partition(": ")
        recorder.emit(Violation("PROMISE", promise, found=found, detail=outcome.raised))
    name = getattr(scenario, "__name__", "scenario")
    subject = Subject(name, finding.signature, finding.seed, None)
    return recorder.run_recording(subject, None, outcome.digest, outcome.injected)

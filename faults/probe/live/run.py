"""Live run: starts machines and program, executes the events, then runs the check.

If the program ends before the step of an event, a power cut follows the end, and a pause is omitted. The check runs
while all machines are up. A machine that has ended by itself starts again, as under a supervisor.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any

from ....sim.choices import Choices
from ....sim.interruption import current_interruption
from ...disk.export import load_image
from ...disk.image import Image
from ..checks.check import BROKEN, CheckOutcome
from ..endings import exit_text, failed_process_text
from ..record import Answers
from ..recording.run import ProgramError, remove_special_files
from .client import Judging, LiveClient
from .directory import PROGRAM, CrashImage, RunDirectory, crash_image, replace_files, require_complete
from .recorder import (
    ARM,
    COUNT,
    COUNTED,
    ENDED,
    FREEZE,
    FROZEN,
    KILL,
    PAUSE,
    PAUSED,
    RESUME,
    MachineLife,
    MachineRecorder,
    MachineStart,
)
from .schedule import CUT, DISCARDED, CompletedEvent, DiscardedRunError, LiveEvent, LiveOutcome, LivePlan, StepCount

_NEVER_STEPS = 1 << 60
_OWN_EXITS_MAX = 3
_RESTART_SECONDS = 0.3
"""Time until the restart of a machine that has ended by itself."""
_ANSWER_SECONDS = 60.0
"""Time limit for an event. Crash images take the most time."""
_POLL_SECONDS = 0.2
_START_SECONDS = 0.5
"""Time for machines to start or fail, before the check or a power cut after the end of the program."""
_PLACEHOLDER = "{machine}"


@dataclass(slots=True, eq=False)
class _Machine:
    name: str
    root: Path
    image: Image
    """The disk at the last start of the machine."""
    recorder: MachineRecorder | None = None
    up_at: float | None = None
    resume_at: float | None = None
    counts: list[int] = field(default_factory=list)
    """Step counts from the recorder."""
    own_exits: int = 0
    problem: str = ""


@dataclass(slots=True)
class _ActiveEvent:
    """The current event. waiting: machines that have not stopped yet."""

    event: LiveEvent
    waiting: set[str]
    steps: dict[str, int] = field(default_factory=dict)
    images: dict[str, CrashImage] = field(default_factory=dict)
    promises: int = 0
    has_begun: bool = False
    is_killing: bool = False


class LiveRun:
    """One run of machines and program, which must be closed. seed: selects the random losses."""

    def __init__(self, plan: LivePlan, root: Path, events: Sequence[LiveEvent], seed: int) -> None:
        self._plan = plan
        self._directory = RunDirectory(root, plan.machines, plan.start)
        self._events = list(events)
        self._choices = Choices(f"live {seed}")
        self._active: _ActiveEvent | None = None
        self._completed_events: list[CompletedEvent] = []
        self._has_ended = False  # the program
        self._last_start = 0.0
        self._client: LiveClient | None = None
        self._counts_steps = not events
        self._machines = {
            name: _Machine(name, self._directory.disk_of(name), image) for name, image in self._directory.images.items()
        }

    def run(self) -> LiveOutcome:
        """Return the verdict. DiscardedRunError: a failure outside of the check prevents one."""
        try:
            answers = self._run_program()
            self._end_events()
            return self._outcome(self._count_steps(), self._judge(answers))
        except ProgramError as error:
            # A machine that did not restart may be the reason for the program's failure.
            if problems := self._problems:
                return self._outcome({}, CheckOutcome(BROKEN, problems))
            raise DiscardedRunError(str(error), self._outcome({}, CheckOutcome(DISCARDED, (str(error),)))) from error

    def _run_program(self) -> Answers:
        for machine in self._machines.values():
            self._start(machine)
        directory = self._directory
        client = self._client = LiveClient(
            self._plan.program,
            directory.files,
            {**os.environ, "TMPDIR": str(directory.temporary)},
            directory.log_of(PROGRAM),
            self._plan.takes_refusals,
        )
        self._arm_next()
        end, has_promised = monotonic() + self._plan.seconds_max, False
        while client.exit is None:
            if monotonic() > end:
                raise ProgramError(f"the program has not ended within {self._plan.seconds_max:g} s")
            self._serve(client.outputs)
            if self._counts_steps and not has_promised and client.answers.acknowledged:
                has_promised = True
                self._send_to_all(COUNT)
        if client.exit:
            last_lines = [*client.printed, *self._directory.log_text(PROGRAM).splitlines()]
            raise ProgramError(failed_process_text("the program", client.exit, last_lines))
        return client.answers

    def _outcome(self, steps: Mapping[str, StepCount], verdict: CheckOutcome) -> LiveOutcome:
        answers = Answers([]) if self._client is None else self._client.answers
        logs = {name: self._directory.log_text(name) for name in (*self._machines, PROGRAM)}
        return LiveOutcome(answers, self._completed_events, steps, verdict, logs)

    def close(self) -> None:
        """End the program and all machines."""
        if self._client is not None:
            self._client.close()
        for machine in self._machines.values():
            if machine.recorder is not None:
                machine.recorder.close()
                machine.recorder = None

    # -- machines --------------------------------------------------------------------------------------------------

    def _start(self, machine: _Machine) -> None:
        command = [word.replace(_PLACEHOLDER, machine.name) for word in self._plan.restart]
        machine.up_at = machine.resume_at = None
        self._last_start = monotonic()
        machine.recorder = MachineRecorder(
            MachineStart(machine.name, machine.root, command, self._directory.log_of(machine.name), self._plan.stores)
        )
        active = self._active
        if active is not None and not active.has_begun and active.event.machines[0] == machine.name:
            self._arm(active.event)

    def _serve(self, outputs: Sequence[int] = (), more: Sequence[Connection] = ()) -> None:
        recorders = {one.recorder.connection: one for one in self._machines.values() if one.recorder is not None}
        with current_interruption().interrupts_allowed():
            ready = wait([*outputs, *recorders, *more], self._until_next_change())
        for source in ready:
            if isinstance(source, int):
                assert self._client is not None, "its output is read"
                self._client.read(source)
            elif source in recorders:
                machine = recorders[source]
                if machine.recorder is not None:
                    self._on_answer(machine, *machine.recorder.receive())
        now = monotonic()
        for machine in self._machines.values():
            if machine.up_at is not None and machine.up_at <= now:
                self._start(machine)
            if machine.resume_at is not None and machine.resume_at <= now:
                self._resume(machine)

    def _until_next_change(self) -> float:
        times = [moment for one in self._machines.values() for moment in (one.up_at, one.resume_at) if moment]
        return max(0.0, min(_POLL_SECONDS, *(moment - monotonic() for moment in times))) if times else _POLL_SECONDS

    def _send_to_all(self, order: str) -> None:
        for machine in self._machines.values():
            if machine.recorder is not None:
                machine.recorder.send(order)

    def _resume(self, machine: _Machine) -> None:
        machine.resume_at = None
        if machine.recorder is not None:
            machine.recorder.send(RESUME)

    def _on_answer(self, machine: _Machine, answer: str, value: Any) -> None:
        if answer == FROZEN:
            self._on_frozen(machine, value)
        elif answer == PAUSED:
            self._on_paused(machine, value)
        elif answer == ENDED:
            self._on_end(machine, value)
        elif answer == COUNTED:
            machine.counts.append(value)
        else:
            raise ProgramError(f"{machine.name}: {value}")

    def _on_end(self, machine: _Machine, life: MachineLife) -> None:
        assert machine.recorder is not None, "it has answered"
        machine.recorder.close()
        machine.recorder, machine.resume_at = None, None
        active = self._active
        if active is not None and active.is_killing and machine.name in active.steps:
            self._on_cut(machine, life, active)
            return
        if not self._completed_events and not (active is not None and active.has_begun):
            raise ProgramError(self._own_exit_text(machine, life))
        machine.own_exits += 1
        if active is not None and machine.name in active.waiting:
            active.waiting.discard(machine.name)
            if active.has_begun:
                self._kill_when_frozen(active)
        remove_special_files(machine.root)
        machine.image = load_image(machine.root, "/")
        if machine.own_exits < _OWN_EXITS_MAX:
            machine.up_at = monotonic() + _RESTART_SECONDS
        else:
            machine.problem = (
                f"{machine.name} keeps exiting: {machine.own_exits} times without a power cut, last with "
                f"{exit_text(life.exit)}"
            )

    def _own_exit_text(self, machine: _Machine, life: MachineLife) -> str:
        last_lines = self._directory.log_text(machine.name).splitlines()
        return failed_process_text(f"{machine.name} (power not cut)", life.exit, last_lines)

    # -- events ----------------------------------------------------------------------------------------------------

    def _arm_next(self) -> None:
        """Arm the next event. After the end of the program `_end_events` executes it."""
        self._active = None
        if self._events and not self._has_ended:
            event = self._events.pop(0)
            self._active = _ActiveEvent(event, set(event.machines))
            self._arm(event)

    def _arm(self, event: LiveEvent) -> None:
        recorder = self._machines[event.machines[0]].recorder
        if recorder is not None:  # a stopped machine is armed at its restart
            recorder.send(ARM, event.after_steps, FREEZE if event.kind == CUT else PAUSE)

    def _stop_others(self, active: _ActiveEvent) -> None:
        """Stop the other machines of an event now."""
        active.has_begun = True
        for name in [*active.waiting]:
            recorder = self._machines[name].recorder
            if recorder is None:  # it is off
                active.waiting.discard(name)
            else:
                recorder.send(FREEZE)
        self._kill_when_frozen(active)

    def _on_frozen(self, machine: _Machine, steps: int) -> None:
        active = self._active
        assert active is not None, "a machine freezes for an event"
        active.steps[machine.name] = steps
        active.waiting.discard(machine.name)
        if active.has_begun:
            self._kill_when_frozen(active)
        else:
            self._stop_others(active)

    def _kill_when_frozen(self, active: _ActiveEvent) -> None:
        if active.waiting or active.is_killing:
            return
        assert self._client is not None, "events happen while it runs, or after"
        for output in wait(self._client.outputs, 0):
            assert isinstance(output, int), output
            self._client.read(output)
        active.promises = len(self._client.answers.acknowledged)
        active.is_killing = True
        for name in active.steps:
            recorder = self._machines[name].recorder
            assert recorder is not None, "it is frozen"
            recorder.send(KILL)
        if not active.steps:
            self._arm_next()  # all machines of the event were off

    def _on_cut(self, machine: _Machine, life: MachineLife, active: _ActiveEvent) -> None:
        """Replace a machine's disk by its crash image."""
        event = active.event
        require_complete(life.record, machine.image, machine.root)
        stream = self._choices.stream(f"{len(self._completed_events)} {machine.name}")
        choice = event.images[event.machines.index(machine.name)]
        found = crash_image(life.record, machine.image, event.disk, choice, stream)
        active.images[machine.name] = found
        machine.image = found.image
        replace_files(machine.root, found.image)
        machine.up_at = monotonic() + (0 if self._has_ended else event.ms / 1000)
        if len(active.images) == len(active.steps):
            self._note(active)

    def _on_paused(self, machine: _Machine, steps: int) -> None:
        active = self._active
        if active is None or active.event.kind == CUT:
            return  # the pause began before `_disarm`; the resume order follows
        machine.resume_at = monotonic() + active.event.ms / 1000
        active.steps[machine.name] = steps
        assert self._client is not None, "events happen while it runs"
        active.promises = len(self._client.answers.acknowledged)
        self._note(active)

    def _note(self, active: _ActiveEvent) -> None:
        stopped = [name for name in active.event.machines if name in active.steps]
        steps = {name: active.steps[name] for name in stopped}
        images = {name: active.images[name] for name in stopped if name in active.images}
        self._completed_events.append(CompletedEvent(active.event, active.promises, steps, images, self._has_ended))
        self._arm_next()

    def _end_events(self) -> None:
        """Execute the remaining power cuts, omit the pauses, and wait until all machines are up."""
        self._has_ended = True
        self._events = [event for event in self._events if event.kind == CUT]
        active = self._active
        if active is not None and not active.has_begun:
            if active.event.kind != CUT:
                self._disarm(active.event.machines[0])
            elif self._machines[active.event.machines[0]].recorder is not None:
                self._stop_others(active)
            else:  # the machine is off, so it was not armed
                self._active = None
                self._events.insert(0, active.event)
        for machine in self._machines.values():
            if machine.resume_at is not None:
                self._resume(machine)
            if machine.up_at is not None:
                machine.up_at = monotonic()
        while True:
            self._wait_until_up()
            if not self._events:
                return
            event = self._events.pop(0)
            self._active = _ActiveEvent(event, set(event.machines))
            self._stop_others(self._active)

    def _wait_until_up(self) -> None:
        end = monotonic() + _ANSWER_SECONDS
        while self._active is not None or not self._are_up():
            if monotonic() > end:
                raise ProgramError(f"the machines were not up again within {_ANSWER_SECONDS:g} s")
            self._serve()

    def _are_up(self) -> bool:
        """Return whether every machine has run longer than `_START_SECONDS`, in which it may fail."""
        is_settled = monotonic() - self._last_start > _START_SECONDS
        return is_settled and all(machine.up_at is None for machine in self._machines.values())

    def _disarm(self, name: str) -> None:
        """Omit a pause. If the pause has already begun, the handler of its answer ends it."""
        recorder = self._machines[name].recorder
        self._active = None
        if recorder is not None:
            recorder.send(ARM, _NEVER_STEPS, PAUSE)
            recorder.send(RESUME)

    # -- verdict ---------------------------------------------------------------------------------------------------

    def _count_steps(self) -> Mapping[str, StepCount]:
        """Return the steps of each machine, for a run without events."""
        if not self._counts_steps:
            return {}
        self._send_to_all(COUNT)
        wanted = 2 if self._client is not None and self._client.answers.acknowledged else 1
        while any(len(machine.counts) < wanted for machine in self._machines.values()):
            self._serve()
        return {
            name: StepCount(one.counts[0] if wanted == 2 else 0, one.counts[-1]) for name, one in self._machines.items()
        }

    @property
    def _problems(self) -> tuple[str, ...]:
        """Errors of machines that do not stay up."""
        return tuple(one.problem for one in self._machines.values() if one.problem)

    def _judge(self, answers: Answers) -> CheckOutcome:
        if self._problems:
            return CheckOutcome(BROKEN, self._problems)
        with Judging(self._plan.check, self._directory.root, answers, self._plan.check_seconds) as judging:
            while (verdict := judging.verdict()) is None:
                self._serve(more=[judging.connection])
        return verdict

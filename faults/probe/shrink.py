"""Shrinking of a crash case: reduces its losses, at the same crash point and disk."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ...sim.choices import Choices, Decision
from ...sim.interruption import EndedEarlyError
from ...sim.shrink import RunDecisions, ShrinkSearch, shrink_decisions
from ..crashes.at_rest import AT_REST, DamagedState
from ..crashes.enumeration import CrashState
from ..crashes.profiles import PROFILES
from ..disk.aftermath import DiskState
from ..disk.image import Image
from .checks.check import TIMED_OUT, CheckOutcome
from .checks.checkers import Checkers
from .record import FAILED_SYNC, Answers, ProgramRecord
from .replay import DISK_STREAM, Replayer
from .report import CrashCase, is_breach
from .story import Loss, damage_of, is_torn, losses_of

TRIES_MAX = 200
_SLOW_TRIES_MAX = 20
"""Maximum of tries for a check that exceeds its time limit, because each try may take the whole limit."""


class NotReproducedError(Exception):
    """A replay does not lead to the recorded state."""


@dataclass(frozen=True, slots=True)
class CrashCaseView:
    """A case with the image of its state and its losses."""

    case: CrashCase
    image: Image
    losses: tuple[Loss, ...]


class CrashCaseReplay:
    """One crash point of a record, at which decisions select a state."""

    def __init__(self, record: ProgramRecord, start: Image, case: CrashCase) -> None:
        self._replayer = Replayer(record, start, disks=[case.disk])
        self._replayer.replay_to(case.point)
        stream = Choices("").stream(DISK_STREAM)
        self._states = self._replayer.states(case.disk, 1, stream)

    def state(self, decisions: tuple[Decision, ...]) -> tuple[CrashState, tuple[Decision, ...]]:
        """Return the state that the decisions select, and the decisions that had an effect."""
        stream = Choices.for_replay(decisions).stream(DISK_STREAM)
        state = self._states.drawn(stream)
        return state, tuple(stream.decisions())

    def before(self) -> DiskState:
        """Return the cached and the durable content of the disk before the crash."""
        return self._replayer.state()

    def torn(self, case: CrashCase) -> set[tuple[str, int]]:
        """Return the pages that are torn after the crash, by path and page number."""
        state, _ = self.state(case.decisions)
        pages = self._states.losses_of(state).pages
        return {(page.path, page.page) for page, page_outcome in pages if is_torn(page_outcome)}

    def shown(self, case: CrashCase) -> CrashCaseView:
        """Return a case with its state. NotReproducedError: the digest of the state differs."""
        state, _ = self.state(case.decisions)
        if state.digest != case.digest:
            raise NotReproducedError(f"state: expected digest {case.digest}, found {state.digest}")
        if isinstance(state, DamagedState):
            losses = damage_of(state, self._replayer.steps_of, case.disk)
        else:
            each = self._replayer.losses(self._states, state)
            losses = [loss for taken, steps_of in each for loss in losses_of(taken, steps_of)]
        return CrashCaseView(case, state.image, tuple(losses))


def loss_note(record: ProgramRecord, case: CrashCase, losses: Sequence[Loss]) -> str:
    """Return a remark about all losses of a case, or ""."""
    if case.disk in AT_REST:
        return "" if losses else "nothing is damaged: all data is as the program left it"
    failed = [number for number in record.injected if record.steps[number].kind == FAILED_SYNC]
    if failed and failed[0] <= case.point.step and not PROFILES[case.disk].page_cache_survives:
        return f"not durable, unless written again: the data of the failed sync of step {failed[0] + 1}"
    return "" if losses else "nothing is lost: all that had been done is there, and no more"


def shrink(record: ProgramRecord, start: Image, case: CrashCase, checkers: Checkers) -> CrashCaseView:
    """Undo losses one by one, and return the smallest case of the same breach. After an early end, return the smallest
    case so far.
    """
    scene = CrashCaseReplay(record, start, case)
    answers = Answers.from_steps(record.answers[: case.point.answers])
    verdicts: dict[str, CheckOutcome] = {case.digest: case.verdict}

    def still_fails(candidate: RunDecisions) -> RunDecisions | None:
        state, followed = scene.state(candidate.decisions)
        if state.digest not in verdicts:
            (verdicts[state.digest],) = checkers.verdicts([(state, answers)])
        verdict = verdicts[state.digest]
        same = verdict.signature == case.verdict.signature
        return RunDecisions(followed, ()) if same and is_breach(verdict, state) else None

    search = ShrinkSearch(
        RunDecisions(case.decisions, ()),
        still_fails,
        tries_max=_SLOW_TRIES_MAX if case.verdict.outcome == TIMED_OUT else TRIES_MAX,
    )
    with suppress(EndedEarlyError):
        shrink_decisions(search)
    state, decisions = scene.state(search.best.decisions)
    verdict = verdicts[state.digest]
    if verdict.is_assumed:
        with suppress(EndedEarlyError):
            verdict = checkers.judge_again((state, answers))
        if verdict.is_assumed or verdict.signature != case.verdict.signature:
            return scene.shown(case)  # the check is only slow in this case, or the probe has ended
    assert verdict.is_broken, "the smallest case breaks the same promise"
    smallest = replace(case, decisions=decisions, digest=state.digest, verdict=verdict, losses=state.loss_count)
    return scene.shown(smallest)

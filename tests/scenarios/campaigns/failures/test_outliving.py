"""Stored failures of older code: each replays, or the replay names the missing decision.

The files in `failures/` were written by `tornlog mutants ID… --shrink --out DIR`. Digests change with the code, so
these tests compare violations only.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.scenarios.campaigns.failures.failure import FailingRun, Failure
from tornlog.scenarios.campaigns.failures.replay import RunReplay, replay
from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.store.formats.messages import Message, PutMessageResult
from tornlog.store.log.flush import GroupCommitService
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.dispatch import DispatchService
from tornlog.store.service import Service

FILES = sorted(Path(__file__).parent.glob("*.json"))


def failures() -> Iterator[tuple[str, Failure, FailingRun]]:
    for file in FILES:
        failure = Failure.from_json(file.read_text())
        yield f"{file.stem}, as it was found", failure, failure.original
        yield f"{file.stem}, shrunk", failure, failure.smallest


def replay_all(
    change: Callable[[FailingRun], FailingRun] = lambda breach: breach,
) -> dict[str, tuple[FailingRun, RunReplay]]:
    """Replay the shrunk run and the original run of every stored failure, with its bug applied."""
    found = {}
    for name, failure, breach in failures():
        with applied_mutant(failure.mutant):
            found[name] = (breach, replay(change(breach).record))
    return found


def comes_back(breach: FailingRun, replayed: RunReplay) -> bool:
    violations = replayed.result.violations
    return bool(violations) and violations[0].signature == breach.violations[0].signature


def failures_that_do_not_replay(found: dict[str, tuple[FailingRun, RunReplay]]) -> list[str]:
    """Return the failures that no longer replay.

    The replay of each must name missing parts or differ from the stored run.
    """
    lost = [name for name, (breach, replayed) in found.items() if not comes_back(breach, replayed)]
    assert [name for name in lost if not (found[name][1].gone or found[name][1].changed)] == []
    return lost


def shrunk_names(names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(", shrunk")]


def test_stored_failures_include_each_kind() -> None:
    breaches = [breach for _, _, breach in failures()]
    assert len(FILES) >= 5
    assert any(breach.size.sectors for breach in breaches)
    assert any(breach.size.preemptions for breach in breaches)
    assert any(crash.point for breach in breaches for crash in breach.record.crashes)


def test_stored_failures_still_reproduce() -> None:
    assert failures_that_do_not_replay(replay_all()) == []


def test_stored_failures_reproduce_with_an_additional_world_call(monkeypatch: pytest.MonkeyPatch) -> None:
    put = MessageStore.put_message

    def look_and_put(self: MessageStore, message: Message) -> PutMessageResult:
        self.world.tasks.cell("probe").get()
        return put(self, message)

    monkeypatch.setattr(MessageStore, "put_message", look_and_put)
    found = replay_all()
    assert shrunk_names(failures_that_do_not_replay(found)) == []
    steps = {name: breach.steps for name, (breach, _) in found.items()}
    assert any(replayed.result.steps > steps[name] for name, (_, replayed) in found.items())


@pytest.mark.parametrize("service", [DispatchService, GroupCommitService])
def test_stored_failures_reproduce_after_a_task_is_renamed_or_name_the_lost_switches(
    monkeypatch: pytest.MonkeyPatch, service: type[Service]
) -> None:
    old = service.name
    monkeypatch.setattr(service, "name", "renamed")
    found = replay_all()
    assert len(failures_that_do_not_replay(found)) <= 1  # a race with the task itself
    knew_it = 0
    for breach, replayed in found.values():
        knew = [one for one in breach.record.schedule if f"/{old}" in one.task + one.chosen]
        assert set(knew).isdisjoint(replayed.record.schedule)
        assert bool(knew) <= bool(replayed.gone)
        knew_it += bool(knew)
    assert knew_it >= 1


def test_stored_failures_reproduce_with_an_additional_producer() -> None:
    def with_a_producer_more(breach: FailingRun) -> FailingRun:
        plan = breach.record.setup
        plan = replace(plan, producers=plan.producers + 1)
        return replace(breach, record=replace(breach.record, setup=plan))

    found = replay_all(with_a_producer_more)
    assert len(failures_that_do_not_replay(found)) <= len(found) // 4
    assert any(replayed.result.messages > breach.size.messages for breach, replayed in found.values())


def test_stored_failures_do_not_reproduce_without_their_bugs() -> None:
    for _, _, breach in failures():
        assert replay(breach.record).result.violations == []

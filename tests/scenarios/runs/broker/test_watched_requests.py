"""A broker's answers, missing answers and group members are judged while it runs."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tornlog.scenarios.campaigns.mutation_run import narrowed_scenario
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import mutant_named
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.store.broker.late_answers import LateAnswerService
from tornlog.store.broker.parts import BrokerParts
from tornlog.store.broker.processors.client_manage import ClientManageProcessor
from tornlog.store.broker.router import Channel

PULLING = SCENARIOS["consumer-order"]
SENDING = replace(
    SCENARIOS["broker-crash"],
    ranges=SCENARIOS["broker-crash"].ranges.replace(
        sync_flush=(True,), flush={"sync_timeout_ms": (50,)}, producers=(2,), endings=("stop",)
    ),
)


def first_broken(scenario: Scenario, seeds: range = range(20), mutant: str | None = None) -> Violation:
    def broken() -> Iterator[Violation]:
        for seed in seeds:
            result = run_seed(scenario, seed, mutant=mutant)
            if result.failure is not None:
                yield result.failure.violations[0]

    return next(broken())


def test_an_unexpected_processor_error_is_reported_as_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("group")

    monkeypatch.setattr(ClientManageProcessor, "query_offset", fails)
    broken = first_broken(PULLING)

    assert broken.invariant == "STATUS"
    assert "ended in KeyError: 'group'" in broken.summary


def test_a_send_that_is_not_answered_at_its_timeout_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LateAnswerService._take_numbers_to_check

    def looks_at_none(self: LateAnswerService, now_ns: int) -> list[int]:
        original(self, now_ns)
        return []

    monkeypatch.setattr(LateAnswerService, "_take_numbers_to_check", looks_at_none)
    broken = first_broken(SENDING)

    assert (broken.invariant, broken.summary) == ("LIVE", "a send is not answered")


def test_a_server_task_that_dies_of_an_unexpected_error_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("request")

    monkeypatch.setattr(LateAnswerService, "_answer_completed", fails)
    broken = first_broken(SENDING)

    assert broken.invariant == "LIVE"
    assert (broken.summary, broken.found) == ("the process of master ends", "KeyError: 'request'")


def test_a_client_that_stays_a_member_after_its_connection_ended_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgets_pulls_alone(self: BrokerParts, channel: Channel) -> None:
        self.held_pulls.forget_channel(channel)

    monkeypatch.setattr(BrokerParts, "channel_closed", forgets_pulls_alone)
    broken = first_broken(PULLING, range(400))

    assert (broken.invariant, broken.summary) == ("LIVE", "a client is a member although its connection has ended")


@pytest.mark.ci
def test_a_pull_held_although_a_message_arrived_meanwhile_is_a_violation() -> None:
    bug = mutant_named("hold-without-second-look")
    broken = first_broken(narrowed_scenario(bug), range(400), bug.id)

    assert broken.invariant == "LIVE"
    assert broken.summary.endswith("is held although there is a message for it")

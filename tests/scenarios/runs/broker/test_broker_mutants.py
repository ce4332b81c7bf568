"""Broker runs find each bug that is put into a broker."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue.brokers import BROKER, TROUBLED
from tornlog.scenarios.claims.ranges import Ranges
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.mutant import Mutant, Patch
from tornlog.store.broker.broker import Broker
from tornlog.store.broker.client_calls import ClientPushes
from tornlog.store.broker.late_answers import LateAnswerService
from tornlog.store.broker.long_polling import PullRequestHoldService
from tornlog.store.broker.processors.client_manage import ClientManageProcessor
from tornlog.store.broker.processors.pull import PullMessageProcessor
from tornlog.store.broker.processors.send import SendMessageProcessor
from tornlog.store.broker.requests import ResponseCode, response_to
from tornlog.store.broker.server import RemotingServer
from tornlog.store.broker.session import Session
from tornlog.store.formats.messages import PutMessageResult, PutMessageStatus
from tornlog.store.log.put_wait import PutWait
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager
from tornlog.store.services.transaction_service import TransactionalMessageService

pytestmark = pytest.mark.slow

SEEDS = 120


@dataclass(frozen=True)
class Bug:
    """A bug, the invariants that may find it first, and the places where they may find it."""

    owner: type
    name: str
    replacement: Callable[..., Any]
    expected: tuple[str, ...]
    ranges: Ranges = BROKER

    @property
    def mutant(self) -> Mutant:
        return Mutant(
            f"broker {self.name}",
            "a bug of the broker",
            (Patch(self.owner, self.name, self.replacement),),
            self.expected,
        )


POWER = BROKER.replace(sync_flush=(True,), disk=("ext4-ordered", "strict-posix"), sync_ms_max=(10,))
TRANSACTIONAL = BROKER.replace(heals=(True,), consumers=(1,), transactions={"chance": (1.0,)})
LIVELY = BROKER.replace(heals=(True,), consumers=(1, 2), messages_each=(8,))
RESTARTING = LIVELY.replace(endings=("stop",), lives=(2, 3), broker={"consumer_restart_chance": (1.0,)})
_put_single = SendMessageProcessor._put_single
_make_response = RemotingServer._make_response
_commit_offset = ConsumerOffsetManager.commit_offset
_pull = PullMessageProcessor._pull
_send = Session.send


def answer_before_durable(self: Any, message: Any, properties: dict[str, str], late: Any) -> Any:
    return _put_single(self, message, {**properties, "WAIT": "false"}, late)


def answer_timeout_early(self: Any, now_ns: int) -> Any:
    return PutMessageResult(PutMessageStatus.FLUSH_DISK_TIMEOUT, self.append)


def check_no_pending_sends(self: Any, now_ns: int) -> list[int]:
    return []


def execute_request_twice(self: Any, request: Any) -> Any:
    _make_response(self, request)
    return _make_response(self, request)


def answer_wrong_request(self: Any, command: Any) -> bool:
    swapped = getattr(type(self), "held_back", None)
    type(self).held_back = (self, command)
    if swapped is None or swapped[0] is not self or not swapped[1].is_response or not command.is_response:
        return bool(_send(self, command))
    return bool(_send(self, replace(command, ext_fields=swapped[1].ext_fields)))


def drop_held_pulls_on_arrival(self: Any, pulls: Any) -> None:
    with self._lock:
        self._held.remove_pulls(pulls)


def commit_greater_offset(self: Any, group: str, topic: str, queue_id: int, offset: int) -> Any:
    return _commit_offset(self, group, topic, queue_id, offset + 1)


def skip_one_message(self: Any, request: Any, channel: Any, *, may_hold: bool) -> Any:
    fields = dict(request.ext_fields)
    if int(fields["queueOffset"]) == 2:
        fields["queueOffset"] = "3"
    return _pull(self, replace(request, ext_fields=fields), channel, may_hold=may_hold)


def report_no_offsets(self: Any, request: Any, channel: Any) -> Any:
    return response_to(request, ResponseCode.SUCCESS, ext_fields={"offset": "0"})


def keep_store_running(self: Any) -> bool:
    self.housekeeping.shutdown()
    self.held_pulls.shutdown()
    self.offsets.shutdown()
    return True


def commit_on_rollback(self: Any, named: Any) -> Any:
    return self.commit(named)


def never_check(self: Any, record: Any) -> None:
    pass


def forget_committed_messages(self: Any, named: Any) -> Any:
    return self.rollback(named)


BUGS = {
    "commits what is rolled back": Bug(
        TransactionalMessageService, "rollback", commit_on_rollback, ("TX",), TRANSACTIONAL
    ),
    "rolls back what is committed": Bug(
        TransactionalMessageService, "commit", forget_committed_messages, ("TX", "DUR"), TRANSACTIONAL
    ),
    "never asks about half messages": Bug(ClientPushes, "push_transaction_check", never_check, ("TX",), TRANSACTIONAL),
    "answers before it is durable": Bug(SendMessageProcessor, "_put_single", answer_before_durable, ("STATUS",), POWER),
    "answers that the time is up before it is": Bug(PutWait, "poll", answer_timeout_early, ("STATUS",), POWER),
    "leaves those that wait without an answer": Bug(
        LateAnswerService, "_take_numbers_to_check", check_no_pending_sends, ("LIVE",), POWER.replace(endings=("stop",))
    ),
    "carries a request out twice": Bug(RemotingServer, "_make_response", execute_request_twice, ("PREFIX", "QOFF")),
    "answers with what another request was answered": Bug(
        Session, "send", answer_wrong_request, ("QOFF", "DUR", "VIS", "READ", "META", "LIVE")
    ),
    "drops held pulls when something arrives": Bug(
        PullRequestHoldService, "_schedule_answers", drop_held_pulls_on_arrival, ("LIVE",), LIVELY
    ),
    "commits further than was asked": Bug(
        ConsumerOffsetManager, "commit_offset", commit_greater_offset, ("META", "QUIET"), RESTARTING
    ),
    "skips a message": Bug(PullMessageProcessor, "_pull", skip_one_message, ("READ", "LIVE"), LIVELY),
    "leaves the store running at a stop": Bug(Broker, "shutdown", keep_store_running, ("STATUS",), LIVELY),
    "knows no offset of any group": Bug(
        ClientManageProcessor, "query_offset", report_no_offsets, ("META",), RESTARTING
    ),
}


@pytest.mark.parametrize("name", list(BUGS))
def test_each_broker_mutant_is_found_by_its_invariant(name: str) -> None:
    bug = BUGS[name]
    ground = Scenario(f"broker mutant {name}", "no broker does this", bug.ranges)
    with bug.mutant.applied():
        for seed in range(SEEDS):
            result = run_seed(ground, seed)
            assert not result.error, result.error
            if result.failure is not None:
                violation = result.failure.violations[0]
                assert violation.invariant in bug.expected, str(violation)
                break
        else:
            pytest.fail(f"not seen in {SEEDS} seeds")
    clean = run_seed(ground, seed)
    assert clean.outcome == "held", clean.failure or clean.error


def test_without_mutants_broker_runs_have_no_violation_over_any_network() -> None:
    for ranges in (BROKER, BROKER.replace(network=TROUBLED)):
        for seed in range(40):
            result = run_seed(Scenario("broker clean", "all is kept", ranges), seed)
            assert result.outcome == "held", result.failure or result.error

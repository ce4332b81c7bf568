"""An orderly member at the end of its queue."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.pull_times import PullTimes
from tornlog.scenarios.runs.broker.account import BrokerAccount
from tornlog.scenarios.runs.broker.consumer import BrokerQueue
from tornlog.scenarios.runs.broker.group_member import GROUP
from tornlog.scenarios.runs.broker.message_options import Subscription
from tornlog.scenarios.runs.broker.orderly_member import OrderlyMember
from tornlog.scenarios.runs.broker.routes import BROKER
from tornlog.store.broker.requests import ResponseCode
from tornlog.store.formats.remoting.command import RemotingCommand

QUEUE = BrokerQueue(BROKER, "T0", 0)
EVERYTHING = Subscription("TAG", "*", lambda properties: True)


@pytest.mark.parametrize(("committed", "commits"), [(2, []), (0, [2])])
def test_a_member_repeats_a_commit_whose_answer_came_too_late(committed: int, commits: list[int]) -> None:
    account = BrokerAccount(Ledger(), False, EVERYTHING, PullTimes(QUIET_PLAN))
    account.handled_to[GROUP, *QUEUE.queue] = committed
    reply = SimpleNamespace(response=RemotingCommand(ResponseCode.PULL_NOT_FOUND, 1), is_of_this_life=False)
    asked: list[int] = []

    def commit(queue: BrokerQueue, offset: int) -> int:
        asked.append(offset)
        return offset

    run, pulled = SimpleNamespace(accounts={BROKER: account}), (None, reply, ())
    member: Any = SimpleNamespace(run=run, pull=lambda *_: pulled, _suspend_ms=0, _commit=commit)

    assert OrderlyMember._pull_once(member, QUEUE, 2) == 2
    assert asked == commits

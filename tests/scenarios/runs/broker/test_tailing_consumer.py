"""Tailing consumers: their start offset, and the violations that they report."""

from collections.abc import Iterable

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.pull_times import PullTimes, late_ms_max
from tornlog.scenarios.runs.broker import tailing_consumer
from tornlog.scenarios.runs.broker.account import BrokerAccount
from tornlog.scenarios.runs.broker.broker_user import UserContext
from tornlog.scenarios.runs.broker.client_machine import ClientMachine
from tornlog.scenarios.runs.broker.consumer import BrokerQueue
from tornlog.scenarios.runs.broker.message_options import EVERYTHING, SUBSCRIPTIONS
from tornlog.scenarios.runs.broker.routes import BROKER, BrokerAddress, Routes
from tornlog.scenarios.runs.broker.tailing_consumer import TailingConsumer
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.world import World

QUEUE = BrokerQueue(BROKER, "T0", 0)
END = 7


class Asked:
    """A broker with a queue that ends at END. It answers a pull of existing messages after answers_ms."""

    def __init__(self, plan: Plan, answers_ms: int = 1, pulled: ResponseCode = ResponseCode.SUCCESS) -> None:
        self._plan = plan
        self._answers_ms = answers_ms
        self._pulled = pulled
        times = PullTimes(plan)
        self.account = BrokerAccount(Ledger(), False, EVERYTHING, times)
        times.record_answered_put(QUEUE.queue, END, b"TAGS\1TagA\2tier\0011", 0)
        self.reported: list[str] = []
        self.pulls: list[str] = []
        """The start offsets of all pulls."""

    def run(self, conduct_ms: int) -> None:
        """Run a tailing consumer for the given time."""
        choices = Choices("tailing")
        kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
        director, network = kernel.create_machine("director"), SimNetwork(kernel)

        def make_machine(name: str, number: int) -> ClientMachine:
            stream, host = choices.stream("machine"), f"10.0.0.{number}"
            return ClientMachine(kernel, director, network, stream, name=name, host=host, death_chance=0.0)

        def no_store(_: object) -> None:
            return None

        def conduct() -> None:
            accounts, streams, stores = {BROKER: self.account}, choices.stream, (no_store, no_store)
            run = UserContext(
                self._plan, accounts, make_machine, self._routes, streams, self._report, *stores, lambda: kernel.now_ns
            )
            TailingConsumer(run, 0, [QUEUE])
            director.tasks.sleep(conduct_ms)

        kernel.run(director, conduct, time_limit_ns=3600 * 10**9)
        kernel.close()

    def _report(self, violations: Iterable[Violation]) -> None:
        self.reported += [violation.invariant for violation in violations]

    def _routes(self, world: World) -> Routes:
        asked = self

        class Answering(Routes):
            def send_request(
                self, broker: BrokerAddress, command: RemotingCommand, timeout_ms: int
            ) -> tuple[RemotingCommand, int]:
                sent_ns = world.clock.monotonic_ns()
                if command.code == RequestCode.GET_MAX_OFFSET:
                    return RemotingCommand(ResponseCode.SUCCESS, 0, ext_fields={"offset": str(END)}), sent_ns
                asked.pulls.append(command.ext_fields["queueOffset"])
                world.tasks.sleep(asked._answers_ms)
                is_found = asked._pulled == ResponseCode.SUCCESS
                status, end = ("FOUND", 1) if is_found else ("OFFSET_OVERFLOW_BADLY", -1)
                high = str(int(asked.pulls[-1]) + end)
                fields = {"minOffset": "0", "nextBeginOffset": high, "maxOffset": high}
                return RemotingCommand(asked._pulled, 0, remark=status, ext_fields=fields), sent_ns

        return Answering(
            world, [], self.account.hits, only_broker=BrokerAddress(BROKER, 0, "10.0.0.1:10911"), report=self._report
        )


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan in which a consumer need not want the messages that an answer passes over. It begins at the end."""
    monkeypatch.setattr(tailing_consumer, "draw_subscription", lambda *_: SUBSCRIPTIONS[0])
    monkeypatch.setattr(tailing_consumer, "_AHEAD", (0,))
    return QUIET_PLAN.replace(broker={"serves": True}, consuming={"filtered": True})


def test_a_tailing_consumer_starts_at_the_end_and_continues_after_its_messages(plan: Plan) -> None:
    asked = Asked(plan)
    asked.run(4)

    assert asked.pulls[:3] == ["7", "8", "9"]
    assert asked.account.ledger.groups == {"tailing-0"}
    assert not asked.reported


def test_a_tailing_consumer_can_have_several_pulls_in_flight(plan: Plan) -> None:
    asked = Asked(plan.replace(broker={"pulls_in_flight": 2}))
    asked.run(4)

    assert asked.pulls[:3] == ["7", "7", "8"]
    assert not asked.reported


def test_a_tailing_consumer_restarts_at_the_end_if_its_offset_is_missing(plan: Plan) -> None:
    asked = Asked(plan, pulled=ResponseCode.PULL_OFFSET_MOVED)
    asked.run(400)

    assert set(asked.pulls) == {"7"}
    assert len(asked.pulls) > 2


def test_a_tailing_consumer_may_begin_after_the_end(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing_consumer, "_AHEAD", (2,))
    asked = Asked(plan, pulled=ResponseCode.PULL_OFFSET_MOVED)
    asked.run(4)

    assert asked.pulls[0] == "9"


def test_a_held_pull_with_an_available_message_is_reported(plan: Plan) -> None:
    limit_ms = late_ms_max(plan, 0)
    for answers_ms, broken in ((limit_ms, []), (limit_ms + 1, ["LIVE"])):
        asked = Asked(plan, answers_ms)
        asked.run(answers_ms + 2)
        assert asked.reported[:1] == broken

"""The position of a consumer in its queue, from the moment of each answer on."""

from collections.abc import Callable, Iterable

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.group_delivery import MessagePlace
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.pull_times import PullTimes
from tornlog.scenarios.oracle.put_entry import PLAIN
from tornlog.scenarios.oracle.reader import LogRecord, ReadRecord
from tornlog.scenarios.oracle.recovered import RecoveredStore
from tornlog.scenarios.runs.broker.account import BrokerAccount
from tornlog.scenarios.runs.broker.broker_user import ANSWER_MS, UserContext
from tornlog.scenarios.runs.broker.client_machine import ClientMachine
from tornlog.scenarios.runs.broker.consumer import BrokerConsumer, BrokerQueue
from tornlog.scenarios.runs.broker.message_options import Subscription
from tornlog.scenarios.runs.broker.routes import BROKER, BrokerAddress, Routes
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.world import World

QUEUE = BrokerQueue(BROKER, "T0", 0)
WANTS_A = Subscription("TAG", "TagA", lambda properties: b"TagA" in properties)


def run_consumer(
    plan: Plan,
    account: BrokerAccount,
    answer: Callable[[RemotingCommand], RemotingCommand],
    conduct_ms: int,
    look: Callable[[BrokerConsumer], None] = lambda _: None,
) -> None:
    """Run a consumer for the given time with immediate answers; inspect it at its start."""
    choices, reported = Choices("a consumer"), list[Violation]()
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
    director, network = kernel.create_machine("director"), SimNetwork(kernel)

    def make_machine(name: str, number: int) -> ClientMachine:
        stream, host = choices.stream("machine"), f"10.0.0.{number}"
        return ClientMachine(kernel, director, network, stream, name=name, host=host, death_chance=0.0)

    def routes(world: World) -> Routes:
        return Routes(
            world, [], account.hits, only_broker=BrokerAddress(BROKER, 0, "10.0.0.1:10911"), report=reported.extend
        )

    class Answered(BrokerConsumer):
        def send(
            self, broker: BrokerAddress | None, command: RemotingCommand, timeout_ms: int = ANSWER_MS
        ) -> tuple[RemotingCommand | None, int]:
            return answer(command), 0

    def report(violations: Iterable[Violation]) -> None:
        reported.extend(violations)

    def no_store(_: object) -> None:
        return None

    def conduct() -> None:
        accounts, at = {BROKER: account}, (choices.stream, report, no_store, no_store, lambda: kernel.now_ns)
        look(Answered(UserContext(plan, accounts, make_machine, routes, *at), 0, [QUEUE]))
        director.tasks.sleep(conduct_ms)

    kernel.run(director, conduct, time_limit_ns=3600 * 10**9)
    kernel.close()
    assert not reported


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(ResponseCode.PULL_RETRY_IMMEDIATELY, id="it rests, given nothing that it wants"),
        pytest.param(ResponseCode.SUCCESS, id="it works on what is before that"),
    ],
)
def test_a_consumer_advances_its_position_before_it_pauses_or_handles_messages(first: ResponseCode) -> None:
    plan = QUIET_PLAN.replace(broker={"serves": True, "work_ms": 100})
    account = BrokerAccount(Ledger(), False, WANTS_A, PullTimes(plan))
    pulls = 0

    def answer(command: RemotingCommand) -> RemotingCommand:
        nonlocal pulls
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return answer_zero(command)
        pulls += command.code == RequestCode.PULL_MESSAGE
        fields = {"suggestWhichBrokerId": "0", "minOffset": "0", "nextBeginOffset": "2", "maxOffset": "2"}
        status = "FOUND" if first == ResponseCode.SUCCESS else "NO_MATCHED_MESSAGE"
        return RemotingCommand(first, command.opaque, remark=status, ext_fields=fields)

    run_consumer(plan, account, answer, conduct_ms=50)
    assert pulls == 1, "it rests, or works"
    account.note_crash(None, 0)
    account.note_recovery(RecoveredStore())

    assert [account.group.is_owed(MessagePlace(*QUEUE.queue, offset)) for offset in range(3)] == [False, False, True]


def answer_zero(command: RemotingCommand) -> RemotingCommand:
    """Answer a query of a group's offset, as for a queue whose first message is in memory; answer no other request."""
    if command.code != RequestCode.QUERY_CONSUMER_OFFSET:
        return RemotingCommand(ResponseCode.SYSTEM_ERROR, command.opaque)
    return RemotingCommand(ResponseCode.SUCCESS, command.opaque, ext_fields={"offset": "0"})


def given(place: MessagePlace, number: int, log_offset: int) -> ReadRecord:
    """Return a message for the answer to a pull."""
    record = LogRecord(log_offset, 100, *place, 0, 0, b"KEYS\1m%d" % number, PLAIN.head(b"body"))
    return ReadRecord(record, b"body")


@pytest.mark.parametrize(
    ("said", "log_offset", "tears", "seen"),
    [(1, 488, True, 5), (1, 100, True, 1), (7, 488, True, 7), (1, 488, False, 1)],
)
def test_a_consumer_accepts_a_record_whose_offset_field_was_torn(
    said: int, log_offset: int, seen: int, *, tears: bool
) -> None:
    account = BrokerAccount(Ledger(tears=tears), sync_flush=False)
    places: list[MessagePlace] = []

    def look(consumer: BrokerConsumer) -> None:
        places.append(
            consumer._given[BROKER].place_of_received(
                QUEUE.queue, 5, given(MessagePlace("T0", 0, said), 0, log_offset).record
            )
        )

    run_consumer(QUIET_PLAN.replace(broker={"serves": True}), account, answer_zero, 1, look)
    assert places == [MessagePlace("T0", 0, seen)]

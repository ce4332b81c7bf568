"""What a consumer knows of its queue from the moment at which it is answered, whatever it does with that then."""

from collections.abc import Callable, Iterable

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.put_entry import PLAIN
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord
from tornlog.scenarios.runs.broker.client_ledger import ClientLedger
from tornlog.scenarios.runs.broker.client_machine import ClientMachine
from tornlog.scenarios.runs.broker.consumer import BrokerConsumer, BrokerQueue
from tornlog.scenarios.runs.broker.message_options import Subscription
from tornlog.scenarios.runs.broker.pull_times import PullTimes
from tornlog.scenarios.runs.broker.routes import BROKER, BrokerAddress, Routes
from tornlog.scenarios.runs.broker.sent_messages import MessagePlace, body_of
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.network.hosts import SimNetwork
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.world import World

POWER = PROFILES["strict-posix"]
QUEUE = BrokerQueue(BROKER, "T0", 0)
WANTS_A = Subscription("TAG", "TagA", lambda options: options.tag == "TagA")


def recovered(place: MessagePlace, body: bytes) -> FoundRecord:
    scanned = LogRecord(0, 100, place.topic, place.queue_id, place.queue_offset, 0, 0, b"", PLAIN.head(body))
    return FoundRecord(scanned, "log", 0, body)


def run(
    plan: Plan, ledger: ClientLedger, answer: Callable[[RemotingCommand], RemotingCommand], conduct_ms: int
) -> None:
    """Let a consumer run for so long whose requests are answered at once."""
    choices, reported = Choices("a consumer"), list[Violation]()
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
    director, network = kernel.machine("director"), SimNetwork(kernel)
    machine = ClientMachine(
        kernel, director, network, choices.stream("machine"), name="consumer-0", host="10.0.0.30", death_chance=0.0
    )

    def routes(world: World) -> Routes:
        return Routes(world, [], ledger.hits, lone=BrokerAddress(BROKER, 0, "10.0.0.1:10911"))

    class Answered(BrokerConsumer):
        def _timed(
            self, broker: BrokerAddress | None, command: RemotingCommand, timeout_ms: int
        ) -> tuple[RemotingCommand | None, int]:
            return answer(command), 0

    def report(violations: Iterable[Violation]) -> None:
        reported.extend(violations)

    def conduct() -> None:
        Answered(plan, machine, routes, {BROKER: ledger}, [QUEUE], choices.stream("sent back"), report)
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
def test_a_consumer_is_past_what_it_was_sent_past_before_it_rests_or_works(
    quiet_plan: Plan, first: ResponseCode
) -> None:
    plan = quiet_plan.replace(broker={"serves": True, "work_ms": 100})
    ledger = ClientLedger(sync_flush=False, subscription=WANTS_A, pull_times=PullTimes(plan))
    pulls = 0

    def answer(command: RemotingCommand) -> RemotingCommand:
        nonlocal pulls
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return RemotingCommand(ResponseCode.QUERY_NOT_FOUND, command.opaque)
        pulls += command.code == RequestCode.PULL_MESSAGE
        fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "2"}
        return RemotingCommand(first, command.opaque, ext_fields=fields)

    run(plan, ledger, answer, conduct_ms=50)
    assert pulls == 1, "it rests, or works"
    ledger.note_crash(POWER, flushed_where=0)
    ledger.note_recovery([], {("T0", 0): 0})

    found = []
    for offset in range(3):
        name = f"m{offset}"
        send = ledger.begin(name, body_of(name, 40))
        send.options = send.options._replace(tag="TagA")
        assert not list(ledger.answer(0, send, MessagePlace("T0", 0, offset), 0, asked_in=ledger.life))
        found.append(recovered(MessagePlace("T0", 0, offset), send.body))
    assert ["m2" in missing.summary for missing in ledger.check_shown(found)] == [True]

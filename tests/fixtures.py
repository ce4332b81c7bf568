"""Plans without faults, functions that run them, and the command line."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.ledger import HALF_TOPIC, OP_TOPIC, Ledger
from tornlog.scenarios.oracle.put_entry import PLAIN, PutEntry, WaitingPlace
from tornlog.scenarios.oracle.reader import LogRecord
from tornlog.scenarios.oracle.recovered import FoundRecord, RecoveredStore
from tornlog.scenarios.oracle.transactions import Transaction, TransactionBehaviour, TransactionDecision
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.scenarios.workload.traffic import Traffic
from tornlog.sim.choices import Choices
from tornlog.store.formats.message import TRANSACTION_COMMIT
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.services.transaction_service import EndTransactionStatus

QUIET = Ranges(
    sync_flush=(True,),
    endings=("stop",),
    lives=(1,),
    consumers=(0,),
    messages_each=(6,),
    producers=(2,),
    messages={
        "body_bytes_max": (100,),
        "property_bytes_max": (0,),
        "batch_chance": (0.0,),
        "illegal_chance": (0.0,),
        "no_wait_chance": (0.0,),
    },
    pauses={"chance": (0.0,)},
    policy=("random-walk",),
    heals=(True,),
)
"""Two producers, sync flush, one clean stop, no faults."""


QUIET_PLAN = draw_plan(Choices("quiet").stream("plan"), QUIET)
QUIET_SCENARIO = Scenario("quiet", "nothing happens to a store that nothing happens to", QUIET)
BROKEN_SCENARIO = Scenario("broken", "a harness that fails says so", QUIET.replace(producers=()))
"""A scenario that makes the harness itself fail, because it has no range for the number of producers."""


@pytest.fixture(scope="session")
def crash_plan() -> Plan:
    """`QUIET_PLAN` with a power cut instead of the stop, after all services are idle."""
    return replace(QUIET_PLAN, lives=(Life(LifeEnding.CRASH_AT_REST, "strict-posix", -1, "after", 6),))


@pytest.fixture(scope="session")
def delayed_plan() -> Plan:
    """`QUIET_PLAN` with every message delayed, and a second life after the stop."""
    life = Life(LifeEnding.STOP, "nothing-lost", -1, "after", 6)
    return QUIET_PLAN.replace(delay={"chance": 1.0}, flush={"thorough_interval_ms": 2000}, lives=(life, life))


def execute(plan: Plan, seed: str = "1") -> RunOutcome:
    """Run a plan with the choices of a seed."""
    return Run(plan, simulation_of(plan, Choices(seed))).execute()


@pytest.fixture(scope="session")
def failure() -> Failure:
    """The failure of a seed in which puts are answered before they are durable."""
    assert "ack-before-flush" in MUTANTS
    result = run_seed(QUIET_SCENARIO, 1, mutant="ack-before-flush")
    assert result.failure is not None, result
    return result.failure


def make_put(
    name: str, *, at: int | None = None, status: PutMessageStatus | None = None, wait: bool = True
) -> PutEntry:
    """Make a ledger entry of at most 200 bytes."""
    properties = f"KEYS\1{name}".encode()
    entry = PutEntry(name, "T", 0, "", b"body", properties, wait, 0, 0, status, at)
    assert entry.record_bytes <= 200
    return entry


@pytest.fixture
def impatient_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make producers depend on the number of producers made so far in the process."""
    producers = count(1)
    producer = Traffic._producer_task

    def impatient(self: Traffic, number: int, messages_each: int) -> Callable[[], None]:
        return producer(self, number, next(producers))

    monkeypatch.setattr(Traffic, "_producer_task", impatient)


class History:
    """A store with transaction records, and their ledger."""

    def __init__(self) -> None:
        self.evidence = Evidence(Ledger(), RecoveredStore(min_offset=0))
        self._queue_ends: dict[str, int] = {}

    def add(self, topic: str, properties: bytes, body: bytes, sys_flag: int = 0, prepared: int = 0) -> FoundRecord:
        """Append a record of 500 bytes. prepared: log offset of the half message, for a committed message."""
        store = self.evidence.store
        at, queue_offset = len(store.records) * 500, self._queue_ends.get(topic, 0)
        head = PLAIN.head(body)._replace(prepared_transaction_offset=prepared)
        record = LogRecord(at, 500, topic, 0, queue_offset, sys_flag, 1000, properties, head)
        store.records.append(FoundRecord(record, "/store/commitlog/0", at, body))
        self._queue_ends[topic] = queue_offset + 1
        return store.records[-1]

    def prepare(self, name: str, *, immunity_s: int = 0) -> Transaction:
        """Put a half message of a message to T0/0."""
        behaviour = TransactionBehaviour(True, None, False, 0, 0, immunity_s)
        properties = f"KEYS\1{name}\2PGROUP\1sellers\2TRAN_MSG\1true".encode()
        put = PutEntry(name, "T0", 0, "", name.encode(), properties, True, 0)
        put.status, put.waiting_place = PutMessageStatus.PUT_OK, WaitingPlace((HALF_TOPIC, 0))
        self.evidence.ledger.record_request(put)
        transaction = self.evidence.ledger.transactions.add_transaction(name, behaviour)
        half = self.add(HALF_TOPIC, self._waiting(name), put.body)
        put.physical_offset, put.queue_offset = half.record.physical_offset, half.record.queue_offset
        return transaction

    def _waiting(self, name: str, **added: object) -> bytes:
        named = self.evidence.ledger.by_name[name].properties + b"\2REAL_TOPIC\1T0\2REAL_QID\0010"
        return named + "".join(f"\2{key}\1{value}" for key, value in added.items()).encode()

    def put_back(self, name: str, times: int, topic: str = HALF_TOPIC) -> FoundRecord:
        """Put a half message back after so many checks, or discard it."""
        put = self.evidence.ledger.by_name[name]
        added = {"TRAN_PREPARED_QUEUE_OFFSET": put.queue_offset, "TRANSACTION_CHECK_TIMES": times}
        return self.add(topic, self._waiting(name, **added), put.body)

    def copy(self, name: str) -> FoundRecord:
        """Make a committed message visible."""
        half = self.evidence.ledger.by_name[name].physical_offset
        assert half is not None, name
        return self.add("T0", self._waiting(name), name.encode(), TRANSACTION_COMMIT, half)

    def op(self, half_offset: int | str) -> FoundRecord:
        """Append the op message for the half message at a queue offset."""
        return self.add(OP_TOPIC, b"TAGS\1d", str(half_offset).encode())

    def decide(
        self, name: str, *, commits: bool = True, status: EndTransactionStatus | None = EndTransactionStatus.DECIDED
    ) -> TransactionDecision:
        """Record the decision of the producer."""
        transactions = self.evidence.ledger.transactions
        decision = transactions.record_decision(transactions.by_name[name], commits=commits, now_ns=0)
        decision.status = status
        return decision


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture(scope="session")
def transaction_plan() -> Plan:
    """Transactions only, and three lives that end in stops."""
    life = Life(LifeEnding.STOP, "nothing-lost", -1, "after", 6)
    return QUIET_PLAN.replace(transactions={"chance": 1.0}, lives=(life, life, life))

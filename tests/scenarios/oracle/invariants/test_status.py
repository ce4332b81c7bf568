from collections.abc import Callable

import pytest

from tests.fixtures import QUIET_PLAN
from tests.scenarios.oracle.invariants.on_stores import on_a_store
from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.oracle.disk_space import DiskRoom
from tornlog.scenarios.oracle.invariants import status
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.light_places import LIGHT_PREFIX
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.sim.choices import Choices
from tornlog.store.formats.messages import Message, PutMessageResult, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.running_flags import RefusalReason

MS = 1_000_000


@pytest.fixture
def plan() -> Plan:
    return draw_plan(Choices("status").stream("plan"), Ranges().replace(sync_flush=(True,)))


@pytest.fixture
def judge(plan: Plan) -> Callable[..., list[str]]:
    """Return a function that changes the answer to a put, or the store, and judges the result."""

    def run(
        doctor: Callable[[MessageStore, Disk, PutMessageResult], PutMessageResult],
        *,
        refusal: PutMessageStatus | None = None,
        waited_ms: int = 3,
    ) -> list[str]:
        def body(store: MessageStore, disk: Disk) -> list[str]:
            put = put_of(0)
            result = doctor(store, disk, store.put_message(Message.create("T0", b"body")))
            put.answered_ns = waited_ms * MS
            return [found.summary for found in status.check_put_status(plan, store, disk, put, result, refusal=refusal)]

        return on_a_store(body)

    return run


def answered(
    with_status: PutMessageStatus, fault: str = ""
) -> Callable[[MessageStore, Disk, PutMessageResult], PutMessageResult]:
    def doctor(store: MessageStore, disk: Disk, result: PutMessageResult) -> PutMessageResult:
        disk.injected[fault] += 1
        append = result.append if with_status is PutMessageStatus.FLUSH_DISK_TIMEOUT else None
        return PutMessageResult(with_status, append)

    return doctor


def test_put_ok_for_bytes_that_are_not_durable_is_a_violation(judge: Callable[..., list[str]]) -> None:
    def doctor(store: MessageStore, disk: Disk, result: PutMessageResult) -> PutMessageResult:
        store.log.segments[0].file.store(10, b"not synced")
        return result

    assert judge(doctor) == ["m0 was answered OK before it was durable"]


def test_put_ok_for_a_message_that_no_record_can_hold_is_a_violation(judge: Callable[..., list[str]]) -> None:
    summary = "m0: a message that no record can hold was stored"

    assert judge(lambda store, disk, result: result, refusal=PutMessageStatus.MESSAGE_ILLEGAL) == [summary]


def test_put_ok_without_an_offset_is_a_violation(judge: Callable[..., list[str]]) -> None:
    assert judge(answered(PutMessageStatus.PUT_OK)) == ["m0: answered OK without an offset"]


def test_a_flush_timeout_before_the_configured_time_is_a_violation(judge: Callable[..., list[str]]) -> None:
    timed_out = answered(PutMessageStatus.FLUSH_DISK_TIMEOUT)

    assert judge(timed_out, waited_ms=4999) == ["m0: timed out after 4999 ms"]
    assert judge(timed_out, waited_ms=5000) == []
    assert judge(answered(PutMessageStatus.FLUSH_DISK_TIMEOUT, "failed sync"), waited_ms=3) == []


def test_message_illegal_for_a_valid_message_is_a_violation(judge: Callable[..., list[str]]) -> None:
    illegal = answered(PutMessageStatus.MESSAGE_ILLEGAL)

    assert judge(illegal) == ["m0: a valid message was refused"]
    assert judge(illegal, refusal=PutMessageStatus.MESSAGE_ILLEGAL) == []


def test_an_invalid_message_refused_with_the_wrong_status_is_a_violation(judge: Callable[..., list[str]]) -> None:
    summary = "m0: a message was refused with a wrong status"

    assert judge(answered(PutMessageStatus.MESSAGE_ILLEGAL), refusal=PutMessageStatus.PROPERTIES_SIZE_EXCEEDED) == [
        summary
    ]


def test_a_flush_timeout_for_a_message_that_no_record_can_hold_is_a_violation(judge: Callable[..., list[str]]) -> None:
    timed_out = answered(PutMessageStatus.FLUSH_DISK_TIMEOUT)

    assert judge(timed_out, refusal=PutMessageStatus.MESSAGE_ILLEGAL, waited_ms=5000) == [
        "m0: a message that no record can hold was stored"
    ]


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (PutMessageStatus.SERVICE_NOT_AVAILABLE, "failed sync"),
        (PutMessageStatus.CREATE_MAPEDFILE_FAILED, "failed creation"),
        (PutMessageStatus.OS_PAGECACHE_BUSY, "slow sync"),
    ],
)
def test_a_refusal_without_a_cause_is_a_violation(
    judge: Callable[..., list[str]], refusal: PutMessageStatus, reason: str
) -> None:
    assert judge(answered(refusal)) == ["m0: refused without a reason"]
    assert judge(answered(refusal, reason)) == []


def test_a_slow_disk_excuses_a_missing_segment_only_after_the_allocation_timeout(
    judge: Callable[..., list[str]],
) -> None:
    no_segment = answered(PutMessageStatus.CREATE_MAPEDFILE_FAILED, "slow sync")

    assert judge(no_segment, waited_ms=4999) == ["m0: no segment after 4999 ms"]
    assert judge(no_segment, waited_ms=5000) == []


@pytest.mark.parametrize(
    ("refusal", "excused_ms"),
    [(PutMessageStatus.CREATE_MAPEDFILE_FAILED, 0), (PutMessageStatus.SERVICE_NOT_AVAILABLE, status.LOOK_MS_MAX)],
)
def test_a_full_disk_excuses_refusals_until_the_store_must_have_noticed_free_space(
    store: MessageStore, disk: Disk, plan: Plan, refusal: PutMessageStatus, excused_ms: int
) -> None:
    def judged(asked_ms: int) -> list[str]:
        put = put_of(0)
        put.asked_ns, put.answered_ns = asked_ms * MS, (asked_ms + 1) * MS
        result = PutMessageResult(refusal)
        found = status.check_put_status(plan, store, disk, put, result, refusal=None, room=room)
        return [violation.summary for violation in found]

    pauses: list[tuple[int, int]] = []
    room = DiskRoom(
        disk.kernel,
        disk,
        lambda since_ns: sum(end * MS - max(begin * MS, since_ns) for begin, end in pauses if end * MS > since_ns),
    )
    assert judged(10**6) == ["m0: refused without a reason"]
    room.limit_capacity(1000)
    assert judged(10**6) == []
    room.lift_limit()
    returned_ms = disk.kernel.now_ns // MS
    assert judged(returned_ms + excused_ms) == []
    assert judged(returned_ms + excused_ms + 1) == ["m0: refused without a reason"]
    pauses.append((returned_ms + excused_ms, returned_ms + excused_ms + 700))
    assert judged(returned_ms + excused_ms + 700) == []
    assert judged(returned_ms + excused_ms + 701) == ["m0: refused without a reason"]


def test_a_segment_removed_before_the_answer_need_not_be_durable(store: MessageStore, disk: Disk, plan: Plan) -> None:
    put = put_of(0)
    result = store.put_message(Message.create("T0", b"body"))
    store.log.segments[0].file.store(10, b"not synced")
    put.answered_ns = 3 * MS
    assert [
        [
            violation.summary
            for violation in status.check_put_status(
                plan, store, disk, put, result, refusal=None, expired_to=expired_to
            )
        ]
        for expired_to in (0, 2048)
    ] == [["m0 was answered OK before it was durable"], []]


def test_a_put_may_be_refused_after_a_failed_commit(judge: Callable[..., list[str]]) -> None:
    assert judge(answered(PutMessageStatus.SERVICE_NOT_AVAILABLE, fault="failed write")) == []
    (summary,) = judge(answered(PutMessageStatus.CREATE_MAPEDFILE_FAILED, fault="failed write"))
    assert "refused without a reason" in summary


@pytest.mark.parametrize("stopping", [False, True])
def test_a_put_may_be_refused_after_a_stop_has_begun(
    store: MessageStore, disk: Disk, plan: Plan, stopping: bool
) -> None:
    put = put_of(0)
    refusal = PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    found = status.check_put_status(plan, store, disk, put, refusal, refusal=None, stopping=stopping)
    assert [violation.field for violation in found] == ([] if stopping else ["status"])


# -- a store that must refuse puts -----------------------------------------------------------------


def busy_violations(store: MessageStore, held_ms: int) -> list[tuple[str, str, str]]:
    """Return the violations for a store in which a put has held the lock for this time; 0: the lock is free."""
    begin_ms = store.world.clock.now_ms() - held_ms if held_ms else 0
    store.commit_log.begin_time_in_lock_ms = begin_ms
    return [(found.summary, found.expected, found.found) for found in status.check_busy_state(store)]


def test_a_store_may_report_busy_only_while_a_put_holds_the_lock_too_long(store: MessageStore) -> None:
    limit_ms = store.config.os_page_cache_busy_time_out_ms
    assert [busy_violations(store, held_ms) for held_ms in (0, 1, limit_ms, limit_ms + 1, 100 * limit_ms)] == [[]] * 5


def test_a_busy_store_that_reports_not_busy_is_a_violation(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MessageStore, "is_os_page_cache_busy", False)
    assert [busy_violations(store, held_ms) for held_ms in (1000, 1001)] == [
        [],
        [("a put has held the lock for 1001 ms", "busy", "not busy")],
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        PutMessageStatus.OS_PAGECACHE_BUSY,
        PutMessageStatus.SERVICE_NOT_AVAILABLE,
        PutMessageStatus.SLAVE_NOT_AVAILABLE,
        PutMessageStatus.UNKNOWN_ERROR,
    ],
)
def test_a_broker_may_refuse_a_send_for_the_moment_only_with_a_reason(
    store: MessageStore, disk: Disk, refusal: PutMessageStatus
) -> None:
    counts = [len(list(status.check_refused_send(QUIET_PLAN, store, disk, refusal)))]
    disk.injected["failed sync"] += 1
    counts.append(len(list(status.check_refused_send(QUIET_PLAN, store, disk, refusal))))
    disk.injected.clear()
    slow = QUIET_PLAN.replace(disturbances={"paused_task_chance": 0.5})
    counts.append(len(list(status.check_refused_send(slow, store, disk, refusal))))
    store.shutdown()
    counts.append(len(list(status.check_refused_send(QUIET_PLAN, store, disk, refusal))))
    assert counts == [1, 0, 0, 0]


def test_an_idle_store_that_reports_busy_is_a_violation(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageStore, "is_os_page_cache_busy", True)
    (nobody,), (in_time,), late = [busy_violations(store, held_ms) for held_ms in (0, 1000, 1001)]
    assert nobody == ("a put has held the lock for 0 ms", "not busy", "busy")
    assert in_time[1:] == ("not busy", "busy")
    assert late == []


def test_a_store_that_accepts_puts_on_a_too_full_disk_is_a_violation(store: MessageStore) -> None:
    (violation,) = status.check_full_disk_refused(store)
    assert (violation.invariant, violation.expected, violation.found) == ("STATUS", "DISK_FULL", "writeable")
    store.flags.add_refusal(RefusalReason.DISK_FULL)
    assert list(status.check_full_disk_refused(store)) == []


@pytest.mark.parametrize("error", ["failed write", "disk full", ""])
def test_a_permanent_refusal_requires_an_error_other_than_a_full_disk(
    store: MessageStore, disk: Disk, error: str
) -> None:
    disk.injected[error] += 1
    assert list(status.check_permanent_refusal(store, disk)) == []
    store.flags.refuse_until_restart(RefusalReason.NOT_WRITEABLE, "test")
    lasting = [] if error == "failed write" else ["puts stay refused without an error"]
    assert [found.summary for found in status.check_permanent_refusal(store, disk)] == lasting


def limited_put(number: int, queue: str, result: PutMessageStatus) -> PutEntry:
    put = put_of(number)
    put.light_names, put.status = (f"{LIGHT_PREFIX}{queue}",), result
    return put


def test_a_light_queue_may_survive_the_messages_that_a_crash_lost() -> None:
    exceeded = PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    lost, refused = limited_put(0, "a", PutMessageStatus.PUT_OK), limited_put(1, "b", exceeded)
    ledger = Ledger()
    ledger.puts = [lost, refused]
    ledger.lost_puts = {lost.name: lost}
    assert not list(status.check_light_limit(ledger, refused, 1))
    assert list(status.check_light_limit(ledger, refused, 2))
    lost.status = exceeded  # a refused put has created no queue
    assert list(status.check_light_limit(ledger, refused, 1))

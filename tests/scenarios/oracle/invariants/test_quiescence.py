"""QUIET: in an idle store each cursor is at its end; a violation names a late cursor."""

from types import SimpleNamespace

import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.oracle.invariants import quiescence
from tornlog.scenarios.oracle.invariants.quiescence import Cursor
from tornlog.sim.choices import Choices
from tornlog.store.formats.side_json import encode_side_json
from tornlog.store.message_store import MessageStore

_REST_MS = 2_000
"""Longer than the flush interval of queues."""


@pytest.fixture
def plan() -> Plan:
    return draw_plan(Choices("quiet").stream("plan"), Ranges())


def cursors(store: MessageStore, plan: Plan, disk: Disk) -> dict[str, Cursor]:
    """Return the cursors of a store's log, queues, checkpoint and index, by name."""
    put_end, readable_end = store.log.put_offset, store.dispatch.readable_limit()
    reading = quiescence.reading_cursors(store, plan, put_end=put_end, readable_end=readable_end)
    return {
        cursor.name: cursor
        for found in (
            reading,
            quiescence.flushing_cursors(store, plan, {}),
            quiescence.derived_file_cursors(store, plan, disk, {}),
        )
        for cursor in found
    }


@with_settings(indexed=True)
def test_the_position_of_every_service_of_an_idle_store_is_at_its_end(
    store: MessageStore, disk: Disk, plan: Plan
) -> None:
    store.flush_queues.request_full_flush()
    store.world.tasks.sleep(_REST_MS)
    found = cursors(store, plan, disk)
    assert {"dispatch", "flush", "queue T0/0", "physicMsgTimestamp", "logicsMsgTimestamp", "index"} <= found.keys()
    assert [cursor for cursor in found.values() if cursor.is_lagging] == []


@with_settings(indexed=True)
def test_queue_flush_and_checkpoint_may_lag_until_their_interval_is_over(
    store: MessageStore, disk: Disk, plan: Plan
) -> None:
    behind = {name for name, cursor in cursors(store, plan, disk).items() if cursor.is_lagging}
    assert behind == {"queue T0/0", "physicMsgTimestamp", "logicsMsgTimestamp"}


@with_settings(indexed=True)
def test_an_index_without_the_last_record_is_reported_as_late(
    store: MessageStore, disk: Disk, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.index is not None
    monkeypatch.setattr(type(store.index), "last_update", (0, 0))
    assert cursors(store, plan, disk)["index"].is_lagging is True


@with_settings(indexed=True)
def test_a_late_service_is_named_with_the_known_causes(store: MessageStore) -> None:
    late = Cursor("queue T0/0", store.flush_queues.name, 0, 60, 10, "/store/consumequeue/T0/0")
    (violation,) = quiescence.check_cursor(late, store, "a cause")
    assert str(violation) == (
        "QUIET: queue T0/0 does not reach its target (/store/consumequeue/T0/0 @ byte 0, queue offset 0 of T0/0): "
        "queue T0/0: expected 60, found 0"
    )
    assert violation.detail == "flush-consume-queue: last error: none\na cause"


@pytest.mark.parametrize(
    ("rotten", "is_lagging"), [(b"\t", False), (b"\r", False), (b"1", True)], ids=["as it was", "a blank", "a digit"]
)
@with_settings(indexed=True)
def test_progress_whose_json_white_space_has_rotted_counts_as_persisted(
    store: MessageStore, plan: Plan, rotten: bytes, is_lagging: bool
) -> None:
    members = {"offsetTable": {"T@G": {"0": 7}}}
    raw = encode_side_json(members)
    assert raw.count(b"\t"), "it has blanks that can rot"
    found = SimpleNamespace(content=lambda path: raw.replace(b"\t", rotten, 1))
    offsets = SimpleNamespace(file=SimpleNamespace(path="/p"), json_members=members, name="offsets")
    (cursor,) = quiescence.consumer_progress_cursors(store, plan, found, offsets, 0)  # type: ignore[arg-type]
    assert cursor.is_lagging is is_lagging

from pathlib import Path
from typing import Any

import pytest

from .judge_server import breaches, java_hash, kind_of_refusal
from .plans import (
    DELAY_MS,
    DUE,
    FINDINGS,
    FORGOTTEN,
    HOLE,
    LOST,
    PLANS,
    PREFIX,
    REFUSED,
    RETURNED,
    START,
    TAG,
    TWICE,
    ZERO,
    Plan,
    put,
)

_STORED_AT = 1_700_000_000_000
PLAN = Plan("two", [put("k0"), put("k1", is_delayed=True)], ("process-kill",), {"flushDiskType": "SYNC_FLUSH"})
ANSWERS = [{"name": f"k{n}", "status": "PUT_OK", "offset": 200 * n} for n in range(2)]


def record(offset: int, topic: str, name: str) -> list[Any]:
    properties = next(one["properties"] for one in PLAN.puts if one["name"] == name)
    fields: list[Any] = [None] * 17
    fields[0], fields[3], fields[4], fields[10], fields[16] = offset, topic, 0, _STORED_AT, dict(properties)
    return fields


@pytest.fixture
def seen() -> dict[str, Any]:
    """The contents of a whole store: a message, and a delayed one."""
    return {
        "load": True,
        "start": True,
        "records": [record(0, "T", "k0"), record(200, "SCHEDULE_TOPIC_XXXX", "k1")],
        "queues": [
            {"topic": "T", "queueId": 0, "entries": [[0, 200, java_hash("Tag0")]], "pulled": [0]},
            {
                "topic": "SCHEDULE_TOPIC_XXXX",
                "queueId": 0,
                "entries": [[200, 200, _STORED_AT + DELAY_MS]],
                "pulled": [200],
            },
        ],
        "queries": [["T", "k0", [0]], ["SCHEDULE_TOPIC_XXXX", "k1", [200]]],
    }


def kinds(seen: dict[str, Any]) -> set[str]:
    return {kind for kind, _ in breaches(PLAN, seen, ANSWERS)}


def test_an_undamaged_store_has_no_breach(seen: dict[str, Any]) -> None:
    assert kinds(seen) == set()


def test_a_store_that_does_not_load_is_reported_only_as_failed_start(seen: dict[str, Any]) -> None:
    assert kinds({"load": False}) == {START}
    assert kinds(seen | {"start": False}) == {START}
    assert kinds(seen | {"exception": "java.lang.Error"}) == {START}


def test_a_refused_queue_that_ends_in_a_file_of_zeros_is_a_separate_finding(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    queue = tmp_path / "consumequeue" / "T" / "0"
    queue.mkdir(parents=True)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(4096))
    for base, byte in ((0, b"x"), (200, b"\0")):
        (queue / f"{base:020}").write_bytes(byte * 200)

    assert kind_of_refusal(tmp_path, PLAN) == REFUSED
    (queue / f"{200:020}").write_bytes(b"x" * 200)
    assert kind_of_refusal(tmp_path, PLAN) == START
    (queue / f"{200:020}").write_bytes(bytes(100))
    assert kind_of_refusal(tmp_path, PLAN) == START
    assert {kind for kind, _ in breaches(PLAN, {"load": False}, ANSWERS, REFUSED)} == {REFUSED}


def test_a_message_that_an_earlier_recovery_truncated_is_not_reported_as_unknown(seen: dict[str, Any]) -> None:
    first = Plan("first", [put("k0"), put("k1", is_delayed=True)], ("ext4-data",))
    second = Plan("second", [put("k2")], ("process-kill",), before=first, gone="k0")

    assert RETURNED in {kind for kind, _ in breaches(second, seen, [])}
    assert PREFIX not in {kind for kind, _ in breaches(second, seen, [])}


def test_a_message_with_zeroed_properties_is_reported_as_unknown(seen: dict[str, Any]) -> None:
    seen["records"][0][16]["extra"] = "xxxx\0\0\0\0"

    assert kinds(seen) == {PREFIX}


def test_an_entry_with_a_wrong_tag_code_is_reported_as_tag_breach(seen: dict[str, Any]) -> None:
    seen["queues"][0]["entries"][0][2] = 0

    assert kinds(seen) == {TAG}


def test_a_delayed_entry_with_a_tag_code_instead_of_a_time_is_reported(seen: dict[str, Any]) -> None:
    seen["queues"][1]["entries"][0][2] = java_hash("Tag1")

    assert kinds(seen) == {DUE}


def test_a_message_without_a_queue_entry_is_reported_as_a_gap(seen: dict[str, Any]) -> None:
    seen["queues"][0] |= {"entries": [], "pulled": []}

    assert kinds(seen) == {HOLE}


def test_a_pull_that_returns_no_bytes_reveals_zero_entries(seen: dict[str, Any]) -> None:
    seen["queues"][0]["pulled"].append(-1)

    assert kinds(seen) == {ZERO}


@pytest.mark.parametrize(("found", "kind"), [([], FORGOTTEN), ([0, 0], TWICE)])
def test_a_key_query_that_does_not_find_its_message_once_is_reported(
    seen: dict[str, Any], found: list[int], kind: str
) -> None:
    seen["queries"][0][2] = found

    assert kinds(seen) == {kind}


def test_an_acknowledged_message_missing_from_the_log_is_lost(seen: dict[str, Any]) -> None:
    seen["records"] = seen["records"][:1]

    assert kinds(seen) == {LOST}


def test_tag_codes_are_java_hash_codes() -> None:
    assert java_hash("TagA") == 2_598_919
    assert java_hash("polygenelubricants") == -(2**31)


def test_the_plans_cover_every_published_finding(source: Any) -> None:
    published = {path.parent.name for path in (source / "docs" / "findings").glob("*/finding.properties")}

    assert published == {name for kinds in FINDINGS.values() for name in kinds}
    assert len({plan.name for plan in PLANS}) == len(PLANS)

"""Group members: lists and notifications that contradict what clients did before."""

import pytest

from tornlog.scenarios.oracle.group_members import SILENT_MS, GroupMembers, MemberNotice
from tornlog.store.broker.requests import RequestCode

S = 1_000_000_000
SILENT_S = SILENT_MS // 1_000


@pytest.fixture
def members() -> GroupMembers:
    """Return two members: "a" joined at second 1, "b" at second 3. A request takes a second."""
    members = GroupMembers(late_ms_max=2_000)
    for client, at_s in (("a", 0), ("b", 2)):
        beat(members, client, at_s)
    return members


def beat(members: GroupMembers, client: str, at_s: int) -> None:
    is_new = members.record_heartbeat_request(client, at_s * S)
    members.record_heartbeat_answer(client, at_s * S, (at_s + 1) * S, is_new=is_new)


def notice_at(at_s: int) -> MemberNotice:
    return MemberNotice(at_s * S, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, b"")


def listed(members: GroupMembers, *clients: str, at_s: int) -> bool:
    return not list(members.check_list(clients, at_s * S, (at_s + 1) * S))


def test_a_list_has_each_member_once(members: GroupMembers) -> None:
    assert listed(members, "a", "b", at_s=4)
    for wrong in (["a"], ["a", "b", "b"], ["a", "b", "c"]):
        assert not listed(members, *wrong, at_s=4)


def test_a_member_that_left_is_not_listed(members: GroupMembers) -> None:
    assert members.record_leave_request("a", 5 * S)
    assert listed(members, "a", "b", at_s=5)
    members.record_leave_answer("a", 5 * S, 6 * S)
    assert listed(members, "b", at_s=7)
    assert not listed(members, "a", "b", at_s=7)


@pytest.mark.parametrize(("silently", "gone_after_s"), [(False, 2), (True, SILENT_S + 3)])
def test_a_dead_member_is_not_listed_after_its_bound(
    members: GroupMembers, gone_after_s: int, *, silently: bool
) -> None:
    members.record_death("a", 10 * S, silently=silently)
    beat(members, "b", 9 + gone_after_s)
    assert listed(members, "a", "b", at_s=10 + gone_after_s)
    assert not listed(members, "a", "b", at_s=11 + gone_after_s)


def test_a_member_with_heartbeats_is_always_listed(members: GroupMembers) -> None:
    beat(members, "a", 60)
    beat(members, "b", 60)
    assert not listed(members, "b", at_s=SILENT_S + 10)
    assert listed(members, at_s=SILENT_S + 62)


def test_a_member_may_be_missing_after_a_failed_request_until_its_next_heartbeat(members: GroupMembers) -> None:
    members.record_failed_request("a", 5 * S)
    assert listed(members, "b", at_s=6)
    assert listed(members, "a", "b", at_s=6)

    beat(members, "a", 10)
    assert not listed(members, "b", at_s=12)


def test_each_member_is_notified_in_time_that_another_joins(members: GroupMembers) -> None:
    late_s = 3 + members.late_ms_max // 1_000
    assert not list(members.check_notified("a", [], (late_s - 1) * S))
    (found,) = members.check_notified("a", [notice_at(1)], late_s * S)
    assert "is not notified that b joins" in found.summary


def test_a_member_with_a_notice_is_no_violation(members: GroupMembers) -> None:
    assert not list(members.check_notified("a", [notice_at(3)], 60 * S))
    members.begin_life()
    assert listed(members, at_s=61)

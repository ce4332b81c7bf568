"""Group members: the clients that a broker must, and that it may, count among the members of a group (LIVE).

    certain member    from the answer to a heartbeat until 120 s after the request, its request to leave, a request that
                      fails, or its death
    possible member   from the first heartbeat until a bound after the answer to its request to leave, or its death

    leaves            at once
    connection ends   within the time of a request
    falls silent      120 s without a heartbeat, and the interval of the check for silent clients

A broker forgets all members when it restarts. Source: RocketMQ ConsumerManager, ClientHousekeepingService.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .evidence import Violation, record_tried

SILENT_MS, _HOUSEKEEPING_MS = 120_000, 10_000
_NS = 1_000_000
_ENDLESS = 1 << 63
NOTIFY_CONSUMER_IDS_CHANGED, RESET_CONSUMER_CLIENT_OFFSET = 40, 220  # RocketMQ RequestCode


@dataclass(slots=True)
class _Member:
    certain_from_ns: int = _ENDLESS
    certain_to_ns: int = -1
    possible_to_ns: int = -1
    leaves_by_ns: int = -1
    """The latest time at which the broker executes a request to leave that has no answer."""

    def is_certain(self, begin_ns: int, end_ns: int) -> bool:
        return self.certain_from_ns <= begin_ns and end_ns <= self.certain_to_ns


class MemberNotice(NamedTuple):
    """A request that a broker has sent to a member."""

    at_ns: int
    code: int
    body: bytes


@dataclass(frozen=True, slots=True)
class _Change:
    """A client that joined or left, or offsets that were reset.

    code, body: the parts of the request to the members. unchecked: the members that have not been checked yet.
    """

    text: str
    code: int
    body: bytes
    begin_ns: int
    due_ns: int
    unchecked: set[str]


@dataclass(slots=True)
class GroupMembers:
    """The members of one group since the broker's last start."""

    late_ms_max: int = 0
    """How long a request or the end of a connection may take on the network and at the broker."""
    are_notified: bool = True
    """Whether the broker tells members of changes of the group."""
    _members: dict[str, _Member] = field(default_factory=dict)
    _changes: list[_Change] = field(default_factory=list)

    @property
    def clients(self) -> list[str]:
        """The present and former members."""
        return list(self._members)

    def certain_members(self, begin_ns: int, end_ns: int) -> list[str]:
        """Return the clients that are members during the whole time."""
        return [client for client, member in self._members.items() if member.is_certain(begin_ns, end_ns)]

    def begin_life(self) -> None:
        """Forget all members. A heartbeat in flight may still reach the next broker process."""
        self._members = {
            client: _Member(possible_to_ns=_ENDLESS)
            for client, member in self._members.items()
            if member.possible_to_ns == _ENDLESS
        }
        self._changes.clear()

    # -- changes -----------------------------------------------------------------------------------

    def record_heartbeat_request(self, client: str, now_ns: int) -> bool:
        """Return whether the client was certainly no member before."""
        member = self._members.setdefault(client, _Member())
        is_new = member.possible_to_ns < now_ns
        member.possible_to_ns = _ENDLESS
        return is_new

    def record_heartbeat_answer(self, client: str, asked_ns: int, answered_ns: int, *, is_new: bool) -> None:
        member = self._members[client]
        if is_new:
            self._record_change(f"{client} joins", client, asked_ns, answered_ns)
        member.possible_to_ns = self._silent_end_ns(answered_ns)
        if asked_ns < member.leaves_by_ns:
            return
        if member.certain_to_ns < asked_ns:
            member.certain_from_ns = answered_ns
        member.certain_to_ns = asked_ns + SILENT_MS * _NS

    def record_no_answer(self, client: str, now_ns: int) -> None:
        """Record that a client no longer waits for the answer to a heartbeat, which may still be executed."""
        member = self._members.get(client)
        if member is not None and member.possible_to_ns == _ENDLESS:
            member.possible_to_ns = self._silent_end_ns(now_ns)

    def record_failed_request(self, client: str, asked_ns: int) -> None:
        """Record that a request of a client failed, which may have ended its connection and so its membership."""
        member = self._members.get(client)
        if member is not None:
            member.certain_to_ns = min(member.certain_to_ns, asked_ns)

    def record_leave_request(self, client: str, now_ns: int) -> bool:
        """Return whether the client is certainly a member."""
        member = self._members.setdefault(client, _Member())
        was_member = member.is_certain(now_ns, now_ns)
        member.certain_to_ns = min(member.certain_to_ns, now_ns)
        member.leaves_by_ns = now_ns + self.late_ms_max * _NS
        return was_member

    def record_leave_answer(self, client: str, asked_ns: int, answered_ns: int) -> None:
        """Record an answer after which the broker has no request of the client, which was a member, to execute."""
        member = self._members[client]
        member.leaves_by_ns = -1
        member.possible_to_ns = min(member.possible_to_ns, answered_ns)
        self._record_change(f"{client} leaves", client, asked_ns, answered_ns)

    def record_death(self, client: str, now_ns: int, *, silently: bool) -> None:
        """Record the end of a client's machine. silently: no end of its connection reaches the broker."""
        member = self._members.get(client)
        if member is None:
            return
        was_member = member.is_certain(now_ns, now_ns)
        member.certain_to_ns = min(member.certain_to_ns, now_ns)
        end_ns = self._silent_end_ns(now_ns) if silently else now_ns + self.late_ms_max * _NS
        member.possible_to_ns = min(member.possible_to_ns, end_ns)
        if was_member:
            self._record_change(f"{client} dies", client, now_ns, end_ns)

    def _silent_end_ns(self, last_ns: int) -> int:
        return last_ns + (SILENT_MS + _HOUSEKEEPING_MS + self.late_ms_max) * _NS

    def record_reset(self, offsets: bytes, asked_ns: int, answered_ns: int) -> None:
        """Record that a broker has answered an operator's request to reset offsets with these offsets."""
        code = RESET_CONSUMER_CLIENT_OFFSET
        self._record_change("offsets are reset", "", asked_ns, answered_ns, code, offsets)

    def _record_change(
        self,
        text: str,
        client: str,
        begin_ns: int,
        end_ns: int,
        code: int = NOTIFY_CONSUMER_IDS_CHANGED,
        body: bytes = b"",
    ) -> None:
        others = {
            name for name, each in self._members.items() if name != client and each.is_certain(begin_ns, begin_ns)
        }
        due_ns = end_ns + self.late_ms_max * _NS
        self._changes.append(_Change(text, code, body, begin_ns, due_ns, others))

    # -- checks ------------------------------------------------------------------------------------

    def check_list(self, found: Sequence[str], asked_ns: int, answered_ns: int) -> Iterator[Violation]:
        """LIVE: yield each wrong entry, and each missing member, in the answer to GET_CONSUMER_LIST_BY_GROUP."""
        record_tried("LIVE")
        if len(set(found)) != len(found):
            yield _violation("a list of members repeats a client", "each once", found)
        for client in found:
            member = self._members.get(client)
            if member is None or member.possible_to_ns < asked_ns:
                yield _violation(f"{client} is listed as a member but is none", "not listed", found)
        for client, member in self._members.items():
            if member.is_certain(asked_ns, answered_ns) and client not in found:
                yield _violation(f"{client} is not listed as a member", client, found)

    def check_notified(self, client: str, notices: Collection[MemberNotice], now_ns: int) -> Iterator[Violation]:
        """LIVE: yield each change of the group that a member was not notified of in time.

        notices: the requests that the member received.
        """
        member = self._members.get(client)
        if not self.are_notified and any(each.code == NOTIFY_CONSUMER_IDS_CHANGED for each in notices):
            yield _violation(f"{client} is notified although notifyConsumerIdsChangedEnable is off", "none", notices)
        for change in self._changes:
            if change.code == NOTIFY_CONSUMER_IDS_CHANGED and not self.are_notified:
                continue
            if member is None or change.due_ns > now_ns or client not in change.unchecked:
                continue
            change.unchecked.remove(client)
            if not member.is_certain(change.begin_ns, change.due_ns):
                continue
            record_tried("LIVE")
            requests = [each for each in notices if (each.code, each.body) == (change.code, change.body)]
            if not any(change.begin_ns <= each.at_ns <= change.due_ns for each in requests):
                expected = f"between {change.begin_ns / _NS:.3f} and {change.due_ns / _NS:.3f} ms"
                found = ", ".join(f"at {each.at_ns / _NS:.3f} ms" for each in requests) or "no notice"
                yield _violation(f"{client} is not notified that {change.text}", expected, found)


def _violation(summary: str, expected: object, found: object) -> Violation:
    return Violation("LIVE", summary, field="members", expected=str(expected), found=str(found))

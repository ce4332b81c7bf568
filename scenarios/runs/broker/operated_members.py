"""Operated members: the operator's requests for the group whose members consume in order.

    INVOKE_BROKER_TO_RESET_OFFSET   the answer has each queue, and moves no offset forward (META); each member receives
                                    the offsets (LIVE)
    CLONE_GROUP_OFFSET              without commits meanwhile, the clone has the group's offsets (META)
    LOCK_BATCH_MQ                   another group gets its locks, whatever the members have locked (LOCK)
    GET_CONSUMER_CONNECTION_LIST    exactly the members (LIVE)

Source: RocketMQ AdminBrokerProcessor, Broker2Client.resetOffset, RebalanceLockManager.
"""

from collections.abc import Iterable

import msgspec

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.remoting.json_body import decode_queue_offsets
from ...oracle.evidence import Violation
from .broker_user import BrokerUser, Reply
from .commands import make_request, query_offset_command
from .consumer import BrokerQueue
from .group_member import GROUP

_CLONE = "clone-of-members"
_AGO_MS_MAX = 60_000


class OperatedMembers:
    """The requests of one operator for the members' group."""

    def __init__(self, user: BrokerUser) -> None:
        self._user = user

    def reset_offsets(self, queue: BrokerQueue) -> None:
        """Reset the group's offsets to a time up to a minute ago. Every member must receive the answered offsets."""
        user, account = self._user, self._user.run.accounts[queue.broker]
        time_ms = user.world.clock.now_ms() - user.stream.randbelow(_AGO_MS_MAX, "ms ago")
        before = self._offset_at(queue, time_ms)
        fields = {"topic": queue.topic, "group": GROUP, "timestamp": time_ms, "isForce": False}
        reply = user.ask(queue.broker, make_request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields))
        if reply is None or not reply.is_success or not reply.is_of_this_life:
            return
        account.members.record_reset(reply.response.body, reply.asked_ns, reply.answered_ns)
        places = decode_queue_offsets(reply.response.body, "offsetTable").items()
        offsets = {place.queue_id: offset for place, offset in places}
        topics, found = account.tables.topics, sorted(offsets)
        known = topics.certain(queue.topic, reply.asked_ns)
        writes = user.plan.queues_per_topic if known is None or known[0] is None else int(str(known[0][1]))
        ids = list(range(writes))
        if found != ids and (known is not None or not topics.is_changed(queue.topic)):
            summary = f"a reset of offsets in {queue.topic} answers for other queues"
            user.run.report([Violation("META", summary, "", -1, "queues", str(ids), str(found))])
        after, offset = self._offset_at(queue, time_ms), offsets.get(queue.queue_id)
        if before is None or offset is None or before != after:
            return
        if offset > before:  # without isForce, a group only moves back
            summary = f"a reset of offsets in {queue} does not move the group back in time"
            user.run.report([Violation("META", summary, "", -1, "offset", f"<= {before}", str(offset))])

    def _offset_at(self, queue: BrokerQueue, time_ms: int) -> int | None:
        fields = {"topic": queue.topic, "queueId": queue.queue_id, "timestamp": time_ms}
        reply = self._user.ask(queue.broker, make_request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, **fields))
        return reply.field("offset") if reply is not None and reply.is_success and reply.is_of_this_life else None

    def clone_offsets(self, queue: BrokerQueue) -> None:
        """Copy the group's offsets to another group. Without commits meanwhile, both groups have equal offsets."""
        before = self._offset_of(queue, GROUP)
        fields = {"srcGroup": GROUP, "destGroup": _CLONE, "topic": queue.topic, "offline": False}
        reply = self._user.ask(queue.broker, make_request(RequestCode.CLONE_GROUP_OFFSET, **fields))
        cloned, after = self._offset_of(queue, _CLONE), self._offset_of(queue, GROUP)
        if reply is None or not reply.is_success or not reply.is_of_this_life or before is None or cloned is None:
            return
        if before == after and before[1] == cloned[1] and before[0] != cloned[0]:
            summary = f"{_CLONE} in {queue} differs from the group that it was cloned from"
            self._user.run.report([Violation("META", summary, "", -1, "offset", str(before[0]), str(cloned[0]))])

    def _offset_of(self, queue: BrokerQueue, group: str) -> tuple[int, int] | None:
        """Return a group's offset in a queue, and the number of the broker's starts; None without an answer."""
        life = self._user.run.accounts[queue.broker].ledger.life
        reply = self._user.ask(queue.broker, query_offset_command(*queue.queue, group))
        return (reply.field("offset"), life) if reply is not None and reply.is_success else None

    def lock_for_other_group(self, broker: str, queues: Iterable[BrokerQueue]) -> None:
        """Lock queues for another group. The broker must grant them whatever queues the members have locked."""
        locks = self._user.run.accounts[broker].locks_of_operators
        self._user.ask_for_locks(broker, "operators", locks, [queue.queue for queue in queues])

    def list_connections(self, broker: str) -> None:
        reply = self._user.ask(broker, make_request(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=GROUP))
        if reply is not None and reply.is_of_this_life:
            self._judge_connections(broker, reply)

    def _judge_connections(self, broker: str, reply: Reply) -> None:
        if reply.response.code not in (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE):
            return
        connections = msgspec.json.decode(reply.response.body)["connectionSet"] if reply.is_success else []
        clients = list(dict.fromkeys(each["clientId"] for each in connections))
        members = self._user.run.accounts[broker].members
        self._user.run.report(members.check_list(clients, reply.asked_ns, reply.answered_ns))

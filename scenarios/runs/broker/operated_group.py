"""Operated group: a consumer group for which only the operator sends requests, so that each answer is certain.

    offsets          a commit may lower the offset; a clone of the group has the same; removeOffset decides whether a
                     deleted group keeps it, and changes no other group (META)
    retry topic      a broker refuses a message to the retry topic of a group without retry queues (STATUS)
    subscriptions    the newest one is valid, whatever the order of heartbeats; a pull may not name a newer one (STATUS)
    members          a client that leaves one of its groups stays in the others (LIVE)
    connections      one may end while groups come and go

Source: RocketMQ ConsumerManageProcessor, ConsumerGroupInfo.updateSubscription, PullMessageProcessor,
ClientManageProcessor.unregisterClient.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import msgspec

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import retry_topic
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import encode_json_body
from ...claims.catalogue.brokers import FAIR, TROUBLED
from ...claims.plan import Plan
from ...oracle.evidence import Violation, record_tried
from ...oracle.reader import property_of
from ...workload.drawing import TAGS
from .answers import PULLED
from .broker_user import BrokerUser, Reply
from .commands import (
    consumer_heartbeat,
    groups_heartbeat,
    member_list_command,
    pull_command,
    pulled_records,
    query_offset_command,
    unregister_command,
    update_offset_command,
    without_expression,
)
from .consumer import BrokerQueue
from .message_options import EVERYTHING, Subscription
from .refused_requests import check_refused, send_without_queues

_GROUP, _SECOND_GROUP, _CLONE = "operated-readers", "operated-readers-2", "operated-clone"
_NO_RETRIES = "operated-without-retries"
_ROUNDS, _GROUPS_OF_VISITOR = 3, 3
_OFFSETS_MAX, _PULLED_MAX = 9, 32
_BREAKING = tuple(name for name in TROUBLED if name.endswith("_chance") and name not in FAIR)


def stays_connected(plan: Plan) -> bool:
    """Return whether no fault of the network ends a connection, and with it the memberships of its client."""
    return not any(getattr(plan.network, name) for name in _BREAKING)


class OperatedGroup:
    """The requests of one operator for its group."""

    def __init__(self, user: BrokerUser) -> None:
        self._user = user
        self._version = 0
        self._unanswered_in: dict[str, int] = {}
        """Broker -> its start in which it may still execute an unanswered request."""
        self._stays_connected = stays_connected(user.plan)

    def _ask_all(self, broker: str, commands: Sequence[RemotingCommand]) -> list[Reply]:
        """Return the answers up to the first refusal; no answers if one may not be of the broker's present start.

        An answer without an offset is no refusal.
        """
        account = self._user.run.accounts[broker]
        life = account.ledger.life
        if self._unanswered_in.get(broker) == life:
            return []
        self._unanswered_in[broker] = life
        replies: list[Reply] = []
        for command in commands:
            reply = self._user.ask(broker, command)
            if reply is None:
                return []
            replies.append(reply)
            if not reply.is_success and reply.response.code != ResponseCode.QUERY_NOT_FOUND:
                break
        del self._unanswered_in[broker]
        return replies if account.ledger.life == life else []

    def use_offsets(self, queue: BrokerQueue) -> None:
        """Commit an offset and a lower one, clone the group, delete it, and query the offsets.

        The offset of another group must stay. Its name contains the name of the deleted group.
        """
        stream = self._user.stream
        offset, removes = stream.randint(0, _OFFSETS_MAX, "offset"), stream.chance(0.5, "removes offsets")
        cloned = {"srcGroup": _GROUP, "destGroup": _CLONE, "topic": queue.topic, "offline": "false"}
        deleted = {"groupName": _GROUP, "removeOffset": str(removes).lower()}
        expected = {_CLONE: offset, _GROUP: 0 if removes else offset, _SECOND_GROUP: offset + 2}
        commands = (
            update_offset_command(*queue.queue, offset + 2, _SECOND_GROUP),
            update_offset_command(*queue.queue, offset + 1, _GROUP),
            update_offset_command(*queue.queue, offset, _GROUP),
            update_offset_command(*queue.queue, offset + 1, _CLONE),
            RemotingCommand(RequestCode.CLONE_GROUP_OFFSET, 0, ext_fields=cloned),
            RemotingCommand(RequestCode.DELETE_SUBSCRIPTIONGROUP, 0, ext_fields=deleted),
            *(query_offset_command(*queue.queue, each) for each in expected),
        )
        exists = queue.queue_id <= self._user.run.accounts[queue.broker].ledger.topics.get(queue.topic, -1)
        replies = self._ask_all(queue.broker, commands)
        if len(replies) < len(commands):
            if exists and replies:
                self._user.run.report(_check_queue_found(queue, replies[-1]))
            return
        for (group, wanted), reply in zip(expected.items(), replies[-len(expected) :], strict=True):
            place = f"{group} in {queue} after a clone and the deletion of {_GROUP}, removeOffset {removes}"
            self._user.run.report(_check_offset(place, reply, wanted))

    def use_retry_topic(self, queue: BrokerQueue) -> None:
        """Send to the retry topic of a group without retry queues. The group's first heartbeat creates the topic."""
        refused = send_without_queues(retry_topic(_NO_RETRIES))
        body = encode_json_body({"groupName": _NO_RETRIES, "retryQueueNums": 0})
        commands = (
            RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, body=body),
            consumer_heartbeat(self._user.client_id, (queue.topic,), EVERYTHING, _NO_RETRIES),
            refused.command,
        )
        replies = self._ask_all(queue.broker, commands)
        if len(replies) == len(commands):
            self._user.run.report(check_refused(refused, replies[-1].response.code, disk_may_fail=False))
        self._ask_all(queue.broker, [unregister_command(self._user.client_id, _NO_RETRIES)])

    def use_subscriptions(self, queue: BrokerQueue) -> None:
        """Change the subscription from one tag to another, and send the first heartbeat again. Pull with the newest
        version and with a later one. Leave the group, and look whether the client is still a member of another."""
        if not self._stays_connected:
            return  # the end of a connection ends the subscription
        user, ledger = self._user, self._user.run.accounts[queue.broker].ledger
        life = ledger.life
        self._version += 2
        version, client_id = self._version, user.client_id
        tag, other = user.stream.choice(((TAGS[1], TAGS[2]), (TAGS[2], TAGS[1])), "tags")
        older, newest = (_GROUP, other, version - 1), (_GROUP, tag, version)
        heartbeats = [
            consumer_heartbeat(client_id, user.run.topics, _tagged(text), group, version=number)
            for group, text, number in ((_SECOND_GROUP, tag, version), older, newest, older)
        ]
        if len(self._ask_all(queue.broker, heartbeats)) == len(heartbeats):
            for ahead in (0, 1):
                for reply in self._ask_all(queue.broker, [_pull(queue, version + ahead)]):
                    user.run.report(_check_pull(reply, tag, is_ahead=ahead > 0))
            leave = (unregister_command(client_id, _GROUP), member_list_command(_SECOND_GROUP))
            replies = self._ask_all(queue.broker, leave)
            if len(replies) == len(leave) and ledger.life == life:  # a restart ends all memberships
                user.run.report(_check_stays(client_id, replies[-1]))
        self._ask_all(queue.broker, [unregister_command(client_id, _SECOND_GROUP)])

    def end_connections(self, broker: str) -> None:
        """Let visitors join groups at the same time. The connection of each ends right after its heartbeat."""
        count, spawn = self._user.plan.broker.operator_connections, self._user.world.tasks.spawn
        for _ in range(_ROUNDS):
            visits = [spawn(f"visit {number}", partial(self._visit, broker, number)) for number in range(count)]
            for visit in visits:
                visit.join(None)

    def _visit(self, broker: str, number: int) -> None:
        visitor, client_id = self._user.with_own_connections(), f"visitor-{number}"
        address = visitor.routes.broker_for_offsets(broker, visitor.run.topics[0])
        groups = [f"visited-{number}-{each}" for each in range(_GROUPS_OF_VISITOR)]
        if visitor.ask(broker, groups_heartbeat(client_id, ())) is not None and address is not None:
            with suppress(OSError):
                visitor.routes.client(address).invoke_one_way(groups_heartbeat(client_id, groups))
        visitor.routes.close()


def _check_offset(place: str, reply: Reply, expected: int) -> Iterator[Violation]:
    """Yield a wrong offset. 0 also stands for an unknown offset."""
    if reply.response.code not in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND):
        return
    record_tried("META")
    found = int(reply.response.ext_fields.get("offset", "0"))
    if found != expected:
        yield Violation("META", f"{place} has a wrong offset", "", -1, "offset", str(expected), str(found))


def _check_queue_found(queue: BrokerQueue, reply: Reply) -> Iterator[Violation]:
    """Yield a refusal of a request for a queue that exists."""
    record_tried("STATUS")
    if reply.response.code == ResponseCode.TOPIC_NOT_EXIST:
        summary = f"a commit in {queue} is refused, although the broker has the queue"
        yield Violation("STATUS", summary, "", -1, "code", "SUCCESS", "TOPIC_NOT_EXIST")


def _tagged(tag: str) -> Subscription:
    return EVERYTHING._replace(text=tag)


def _pull(queue: BrokerQueue, version: int) -> RemotingCommand:
    command = without_expression(
        pull_command(*queue.queue, 0, EVERYTHING, most=_PULLED_MAX, suspend_ms=0, group=_GROUP)
    )
    return replace(command, ext_fields={**command.ext_fields, "subVersion": str(version)})


def _check_pull(reply: Reply, tag: str, *, is_ahead: bool) -> Iterator[Violation]:
    """is_ahead: whether the pull names a later version than every heartbeat."""
    record_tried("STATUS")
    code, wanted = reply.response.code, ResponseCode.SUBSCRIPTION_NOT_LATEST
    if code in PULLED if is_ahead else code in (wanted, ResponseCode.SUBSCRIPTION_NOT_EXIST):
        summary = f"a pull with the {'next' if is_ahead else 'newest'} version of its group's subscription"
        expected = wanted.name if is_ahead else "messages"
        yield Violation("STATUS", f"{summary} gets a wrong answer", "", -1, "code", expected, ResponseCode(code).name)
    found = {property_of(record.properties, b"TAGS").decode() for record, _ in pulled_records(reply.response.body)}
    if found - {tag}:
        summary = f"a pull of {_GROUP} is not answered by the newest subscription"
        yield Violation("STATUS", summary, "", -1, "tags", tag, ", ".join(sorted(found)))


def _check_stays(client_id: str, reply: Reply) -> Iterator[Violation]:
    record_tried("LIVE")
    members = msgspec.json.decode(reply.response.body)["consumerIdList"] if reply.is_success else []
    if client_id not in members and reply.response.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
        summary = f"a client that left {_GROUP} is no member of {_SECOND_GROUP} any more"
        yield Violation("LIVE", summary, "", -1, "members", client_id, ", ".join(members))

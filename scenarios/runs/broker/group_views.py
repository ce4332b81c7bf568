"""Group views: requests that show what a broker knows about groups, each compared with the model of an act.

    META      offsets, groups of a topic, progress
    LIVE      members, subscriptions, producers
    STATUS    the code of a pull without an expression, and of a check of a correct expression
    READ      the messages of such a pull: exactly those that match the group's newest subscription

Source: RocketMQ ConsumerManageProcessor, AdminBrokerProcessor, PullMessageProcessor.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import encode_json_body
from ...oracle.evidence import Violation
from ...oracle.group_delivery import Queue
from ...oracle.group_model import ConsumeMode, MemberConnection, Subscribed, check_view
from ...oracle.invariants import consumers
from .answers import PULLED
from .broker_user import Reply
from .commands import (
    COMMIT_FLAG,
    make_request,
    member_list_command,
    pull_command,
    pulled_records,
    query_offset_command,
    without_expression,
)
from .group_act import GroupAct, GroupClient
from .message_options import EVERYTHING, Subscription

_PULLED_MAX = 32
_SUBSCRIBED_CHANCE, _CLOSED_CHANCE = 0.7, 0.3
_MOST = (_PULLED_MAX, _PULLED_MAX, 1, 0, -1, 5_000)
_COMMITTED = (None, None, None, -1, 0, 2)
_BEGINS = (0, 0, 0, 1, 2, 99, -1)
_UNFLAGGED_CHANCE = 0.3
_UNUSED_FLAGS = (0, 0, 8, 16)
"""8 is for filters of classes, 16 for lite pulls. Neither changes the answer to a pull by a registered subscription."""
_POLL_MS = 50
_PROGRESS = re.compile(r'\{([^{}]*)\}:\{[^{}]*"consumerOffset":(\d+)')


class GroupViews(GroupAct):
    """An act with views."""

    @property
    def permits_reads(self) -> bool:
        """Whether no operator changes permissions."""
        return not (self.user.plan.broker.operators or self.user.plan.broker.settings_operators)

    def end_connection(self) -> None:
        """End one connection. The broker must notice it, and notify the other client, each within a request's time."""
        gone, other, *more = self.clients
        self.model.end_connection(gone.connection)
        gone.user.routes.close()
        self.clients = [other, *more]
        user, late_ms = self.user, self._account.members.late_ms_max
        until_ns, is_over = user.now_ns + 2 * late_ms * 1_000_000, False
        while (differences := list(self._look_at_members(other))) and not is_over:
            user.world.tasks.sleep(_POLL_MS)
            is_over = user.now_ns > until_ns
        self.run.report(differences)

    def _look_at_members(self, client: GroupClient) -> Iterator[Violation]:
        for group in self.groups:
            members, producers = self.members_of(client, group), self.producers_of(client, group)
            yield from check_view("LIVE", f"{group} has wrong members", self.model.member_ids(group), sorted(members))
            wanted = ids_of(self.model.producers(group))
            yield from check_view("LIVE", f"{group} has wrong producers", wanted, sorted(producers))
        yield from self.check_notices_of(client)

    def query(self, client: GroupClient) -> None:
        """Without an offset, the answer is a refusal, or 0 while the queue still has its first message."""
        group = self.draw_group_with_offsets()
        queue = self.draw_queue(group)
        if queue is None:
            return
        low = self._account.pulls.known_bounds(queue).low
        found = self.offset_of(client, group, queue)
        expected = self.model.offsets.get(group, {}).get(queue)
        if (found is None or (found == 0 and not low)) and expected is None:
            return
        self.report("META", f"{group} in {queue[0]}/{queue[1]} has a wrong offset", expected, found)

    def offset_of(self, client: GroupClient, group: str, queue: Queue) -> int | None:
        reply = self.ask(client, query_offset_command(*queue, group), ResponseCode.QUERY_NOT_FOUND)
        return reply.field("offset") if reply.is_success else None

    def list_members(self, client: GroupClient) -> None:
        group = self.draw_group()
        expected, found = self.model.member_ids(group), self.members_of(client, group)
        self.report("LIVE", f"{group} has wrong members", expected, sorted(found))

    def members_of(self, client: GroupClient, group: str) -> list[str]:
        reply = self.ask(client, member_list_command(group), ResponseCode.SYSTEM_ERROR)
        return json_of(reply)["consumerIdList"] if reply.is_success else []

    def list_connections(self, client: GroupClient, *, chosen: str = "") -> None:
        group, model, code = chosen or self.draw_group(), self.model, RequestCode.GET_CONSUMER_CONNECTION_LIST
        reply = self.ask(client, make_request(code, consumerGroup=group), ResponseCode.CONSUMER_NOT_ONLINE)
        if not reply.is_success:
            self.report("LIVE", f"{group} has no members", model.members(group), [])
            return
        body = json_of(reply)
        mode, wanted = self.consuming_of(body)
        clients = sorted((each["clientId"], each["language"], each["version"]) for each in body["connectionSet"])
        members = model.members(group)
        for what, expected, found in (
            ("members", sorted(each.shown for each in self.clients if each.connection in members), clients),
            ("type, model or start", model.mode(group), mode),
            ("subscriptions", model.subscriptions(group), wanted),
        ):
            self.report("LIVE", f"the connections of {group} have wrong {what}", expected, found)

    def consuming_of(self, connections: dict[str, Any]) -> tuple[ConsumeMode, dict[str, Subscribed]]:
        """Return how a group consumes and its subscriptions, by a list of its connections."""
        mode = ConsumeMode(connections["consumeType"], connections["messageModel"], connections["consumeFromWhere"])
        table = connections["subscriptionTable"].items()
        wanted = {topic: Subscribed(one["expressionType"], one["subString"], one["subVersion"]) for topic, one in table}
        return mode, wanted

    def list_producers(self, client: GroupClient, *, chosen: str = "") -> None:
        group = chosen or self.draw_group()
        expected, found = ids_of(self.model.producers(group)), self.producers_of(client, group)
        self.report("LIVE", f"{group} has wrong producers", expected, sorted(found))
        data = json_of(self.ask(client, make_request(RequestCode.GET_ALL_PRODUCER_INFO)))["data"]
        of_all = sorted(each["clientId"] for each in data.get(group, ()))
        self.report("LIVE", f"{group} has wrong producers among all", expected, of_all)

    def producers_of(self, client: GroupClient, group: str) -> list[str]:
        command = make_request(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup=group)
        reply = self.ask(client, command, ResponseCode.SYSTEM_ERROR)
        return [each["clientId"] for each in json_of(reply)["connectionSet"]] if reply.is_success else []

    def list_groups(self, client: GroupClient) -> None:
        topic = self.stream.choice([*self.run.topics, *self.retry_topics_of(*self.groups)], "topic of groups")
        groups = json_of(self.ask(client, make_request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic=topic)))
        found = sorted(group for group in groups["groupList"] if group in self.groups)
        self.report("META", f"{topic} has wrong groups", self.model.groups_of(topic), found)

    def show_progress(self, client: GroupClient, *, chosen: str = "") -> None:
        """Ask for the progress of a group in a topic, or in all topics of a chosen group."""
        group = chosen or self.draw_group_with_offsets()
        topics = [*self.run.topics, *self.retry_topics_of(*self.groups)]
        topic = "" if chosen else self.stream.choice(("", *topics), "topic of progress")
        reply = self.ask(client, make_request(RequestCode.GET_CONSUME_STATS, consumerGroup=group, topic=topic))
        found = progress_in(reply.response.body.decode())
        expected = self.model.progress(group, topic, topics)
        nonzero = [{queue: offset for queue, offset in each.items() if offset} for each in (expected, found)]
        self.report("META", f"{group} has a wrong progress in {topic or 'all topics'}", *nonzero)

    def pull(self, client: GroupClient) -> None:
        """Pull with the group's subscription, or with an earlier or later version, mostly from the begin of a queue.

        The pull may commit an offset. A broker ignores a negative one and one without its flag, and gives at least one
        message.
        """
        queue, group, model, stream = self.draw_queue(), self.draw_group(), self.model, self.stream
        if queue is None:
            return
        if stream.chance(_SUBSCRIBED_CHANCE, "subscribed"):
            group = next((each for each in self.groups if queue[0] in model.subscriptions(each)), group)
        if stream.chance(_CLOSED_CHANCE, "may not broadcast"):
            group = next((each for each, settings in model.settings.items() if not settings.broadcasts), group)
        known = model.subscriptions(group).get(queue[0])
        version = (0 if known is None else known.version) + stream.choice((0, 0, 0, 1, -1), "version")
        expected = self._codes_of_pull(group, queue[0], version)
        most, commit = stream.choice(_MOST, "maxMsgNums"), stream.choice(_COMMITTED, "committed by a pull")
        pull = pull_command(*queue, 0, EVERYTHING, most=most, suspend_ms=0, group=group, commit=commit)
        pull = without_expression(pull)
        begin, flags = self.forms.choice(_BEGINS, "begin of a pull"), int(pull.ext_fields["sysFlag"])
        if self.forms.chance(_UNFLAGGED_CHANCE, "no flag to commit"):
            flags &= ~COMMIT_FLAG
        flags |= self.forms.choice(_UNUSED_FLAGS, "unused flag")
        changed = {"subVersion": version, "queueOffset": begin, "sysFlag": flags}
        changed_texts = {name: str(number) for name, number in changed.items()}
        pull = replace(pull, ext_fields={**pull.ext_fields, **changed_texts})
        reply = self.ask(client, pull, *ResponseCode)
        code = ResponseCode(reply.response.code)
        place = f"{group} in {queue[0]}/{queue[1]}"
        if code not in expected:
            names = " or ".join(sorted(each.name for each in expected))
            self.report("STATUS", f"a pull of {place} gets a wrong answer", names, code.name)
        if code in PULLED and commit is not None and commit >= 0 and flags & COMMIT_FLAG:
            model.commit(group, queue, commit)
        if code is ResponseCode.SUCCESS and known is not None:
            self._check_pulled(place, (queue, begin), reply, self.wanted[known.kind, known.text], max(most, 1))

    def _codes_of_pull(self, group: str, topic: str, version: int) -> Collection[ResponseCode]:
        model = self.model
        settings, mode, wanted = model.need(group), model.mode(group), model.subscriptions(group).get(topic)
        closed = set() if self.permits_reads else {ResponseCode.NO_PERMISSION}
        if settings is None:
            return closed | {ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST}
        if not settings.consumes:
            return {ResponseCode.NO_PERMISSION}
        if mode is None:
            return closed | {ResponseCode.SUBSCRIPTION_NOT_EXIST}
        if mode.model == "BROADCASTING" and not settings.broadcasts:
            return {ResponseCode.NO_PERMISSION}
        if wanted is None:
            return closed | {ResponseCode.SUBSCRIPTION_NOT_EXIST}
        return closed | ({ResponseCode.SUBSCRIPTION_NOT_LATEST} if wanted.version < version else PULLED)

    def check_expression(self, client: GroupClient) -> None:
        """Let the broker check a correct expression, as clients do before they subscribe."""
        kind, text = self.stream.choice(list(self.wanted), "expression to check")
        fields = {"clientId": client.client_id, "group": self.draw_group()}
        wanted = {"topic": self.run.topics[0], "subString": text, "expressionType": kind}
        body = encode_json_body({**fields, "subscriptionData": wanted})
        self.ask(client, RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, 0, body=body))

    def _check_pulled(
        self, place: str, asked: tuple[Queue, int], reply: Reply, wanted: Subscription, most: int
    ) -> None:
        """READ: the answer has exactly the messages that match the subscription, at most `most` of them."""
        ledger, (queue, begin) = self._account.ledger, asked
        records = [record for record, _ in pulled_records(reply.response.body)]
        others = [record.queue_offset for record in records if not wanted.wants(record.properties)]
        self.report("READ", f"a pull of {place} gets messages that do not match {wanted.text!r}", [], others)
        self.report("READ", f"a pull of {place} gets more than {most} messages", [], records[most:])
        if not ledger.tears:
            offsets, end = [record.queue_offset for record in records], reply.field("nextBeginOffset")
            found = consumers.check_skipped_messages(ledger, queue, begin, end, offsets=offsets, wants=wanted.wants)
            self.run.report(found)


def progress_in(table: str) -> dict[str, int]:
    """Return the offset by topic and queue id."""
    queues = ((msgspec.json.decode(f"{{{place}}}"), offset) for place, offset in _PROGRESS.findall(table))
    return {f"{queue['topic']}/{queue['queueId']}": int(offset) for queue, offset in queues}


def ids_of(clients: Iterable[MemberConnection]) -> list[str]:
    """Return the client id of each connection."""
    return sorted(client.client_id for client in clients)


def json_of(reply: Reply) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(reply.response.body)
    return decoded

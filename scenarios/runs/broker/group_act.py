"""Group act: two clients of one operator, the groups that only they use, the model of these, and requests for changes.

Each client has a connection of its own, in some acts one client has two. The next request waits for the answer, so
each answer is certain, except in a `group_race`. Clients differ in language and version, and leave out optional fields.
Source: RocketMQ ClientManageProcessor, ConsumerManageProcessor, AdminBrokerProcessor.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ....store.broker.remoting_client import ClientConnection
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import retry_topic
from ....store.formats.remoting.command import LANGUAGES, RemotingCommand
from ....store.formats.remoting.json_body import encode_json_body
from ...oracle.evidence import Violation
from ...oracle.group_delivery import Queue
from ...oracle.group_members import RESET_CONSUMER_CLIENT_OFFSET
from ...oracle.group_model import (
    ConsumeMode,
    GroupModel,
    GroupSettings,
    MemberConnection,
    Notice,
    Subscribed,
    check_view,
)
from ...oracle.reader import properties_of
from .broker_user import BrokerUser, Reply
from .commands import (
    granted_queues,
    heartbeat_command,
    lock_command,
    make_request,
    member_list_command,
    unregister_command,
    update_offset_command,
)
from .frame_forms import CPP_VERSION, cpp_frame
from .message_options import EVERYTHING, SUBSCRIPTIONS
from .refused_requests import TRANSIENT

GROUP, _GROUPS = "modelled", ("{}", "{}-2", "other-{}")
"""Each name of a group begins or ends with another."""
_OFFSETS = (0, 1, 1, 2, 3, 9)
"""Mostly before the end of a queue, which has few messages."""
_NS_MAX = 60_000_000_000
"""A longer act is given up, because the broker drops a client after 120 s without a heartbeat."""
_MODES = tuple(
    ConsumeMode(consume_type, model, begins)
    for consume_type in ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY")
    for model in ("BROADCASTING", "CLUSTERING")
    for begins in ("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET")
)
_FIRST = {one.kind: one for one in SUBSCRIPTIONS}["TAG"]
_TWO_CONNECTIONS_CHANCES, _LEFT_OUT_CHANCE, _MISSING_QUEUE_CHANCE = (0.5, 0.25), 0.5, 0.2
_FIRST_CLIENT, _OTHER_CLIENT, _SECOND_OF_FIRST_CLIENT = (0, 0), (1, 0), (0, 1)
"""The numbers of a client and of its connection."""
_OF_ONE_CLIENT = (_FIRST_CLIENT, _SECOND_OF_FIRST_CLIENT)
_OF_TWO_CLIENTS: tuple[tuple[int, int], ...] = (_FIRST_CLIENT, _OTHER_CLIENT)
_LANGUAGE_CODES, _VERSIONS = (0, 1, 9, 12), (0, 121, 395)
"""Java, C++, Go, Rust. RocketMQ's versions: none, 3.4.9, 4.9."""


class GroupClient(NamedTuple):
    """A connection of a client, and the requests that it has received."""

    connection: MemberConnection
    user: BrokerUser
    received: list[Notice]
    language: int
    version: int

    @property
    def client_id(self) -> str:
        return self.connection.client_id

    @property
    def shown(self) -> tuple[str, str, int]:
        """Client id, language and version, as a list of connections shows them."""
        if self.user.routes.encode is cpp_frame:
            return self.client_id, "CPP", CPP_VERSION
        return self.client_id, LANGUAGES[self.language], self.version


class GroupChange(NamedTuple):
    """A request of a client, and its effect on the model."""

    client: GroupClient
    command: RemotingCommand
    apply: Callable[[GroupModel], Sequence[Queue] | None]
    """Changes the model. Returns the queues that the answer grants; None if the request asks for no locks."""


class UncertainError(Exception):
    """An answer is missing or transient, so the model may be wrong from now on."""


class GroupAct:
    """An act at one broker. The groups are new, because the broker may still execute a request of an earlier act."""

    def __init__(self, user: BrokerUser, broker: str, number: int) -> None:
        self.user, self.run, self.stream, self.broker = user, user.run, user.stream, broker
        self._number, self._version = number, 0
        self.forms = user.run.streams(f"{user.name}/forms").with_subject(f"act {number}")
        self._account = user.run.accounts[broker]
        self._life = self._account.ledger.life
        self._until_ns = user.now_ns + _NS_MAX
        self.groups = [name.format(f"{GROUP}{number}") for name in _GROUPS]
        settings = user.plan.broker_settings
        self.model = GroupModel(settings.auto_create_subscription_group, settings.notify_consumer_ids_changed_enable)
        wanted = (EVERYTHING, *SUBSCRIPTIONS) if user.plan.consuming.filtered else (EVERYTHING, _FIRST)
        self.wanted = {(one.kind, one.text): one for one in wanted}
        """The possible subscriptions by kind and text."""
        is_race = user.plan.broker.group_races > 0  # of two connections
        has_two = self.forms.chance(_TWO_CONNECTIONS_CHANCES[is_race], "a client has two connections")
        connections = _OF_TWO_CLIENTS
        if has_two:
            connections = _OF_ONE_CLIENT if is_race else (*_OF_TWO_CLIENTS, _SECOND_OF_FIRST_CLIENT)
        self.clients = [self._make_client(*each) for each in connections]
        self.is_one_client = len({each.client_id for each in self.clients}) == 1
        self._connected: set[MemberConnection] = set()
        """Connections with an answer."""

    def _make_client(self, number: int, connection: int) -> GroupClient:
        user, received = self.user.with_own_connections(), list[Notice]()

        def receive(request: RemotingCommand, connection: ClientConnection) -> None:
            received.append(Notice(request.code, content_of(request)))

        user.routes.on_request = receive
        language, version = self.forms.choice(_LANGUAGE_CODES, "language"), self.forms.choice(_VERSIONS, "version")
        connected = MemberConnection(f"{self.user.client_id}-{self._number}-{number}", connection)
        return GroupClient(connected, user, received, language, version)

    def close(self) -> None:
        for client in self.clients:
            client.user.routes.close()

    def check_notices(self) -> None:
        self.await_notices()
        for client in self.clients:
            self.run.report(self.check_notices_of(client))

    def await_notices(self) -> None:
        """A later answer over the same connection shows that all notices have arrived."""
        for client in self.clients:
            self.ask(client, member_list_command(self.groups[0]), ResponseCode.SYSTEM_ERROR)

    def check_notices_of(self, client: GroupClient) -> Iterator[Violation]:
        expected, found = sorted(self.model.notices.get(client.connection, [])), sorted(client.received)
        return check_view("LIVE", f"{client.client_id} gets wrong notices", expected, found)

    def ask(self, client: GroupClient, command: RemotingCommand, *refusals: ResponseCode) -> Reply:
        """Return an answer with SUCCESS, or with an expected refusal."""
        command = replace(command, language=client.language, version=client.version)
        connects, is_connected = client.user.routes.connects, client.connection in self._connected
        reply = client.user.ask(self.broker, command)
        has_restarted = self._account.ledger.life != self._life
        if reply is None or has_restarted or self.user.now_ns > self._until_ns or reply.response.code in TRANSIENT:
            raise UncertainError
        if is_connected and client.user.routes.connects > connects:
            raise UncertainError  # the end of an earlier connection removed the client
        self._connected.add(client.connection)
        code = ResponseCode(reply.response.code)
        if not reply.is_success and code not in refusals:
            self.report("STATUS", f"{RequestCode(command.code).name} is refused", "SUCCESS", code.name)
            raise UncertainError
        return reply

    def report(self, invariant: str, summary: str, expected: object, found: object) -> None:
        self.run.report(check_view(invariant, summary, expected, found))

    # -- drawing -----------------------------------------------------------------------------------

    def draw_group(self) -> str:
        return self.stream.choice(self.groups, "modelled group")

    def draw_group_with_offsets(self) -> str:
        return self.stream.choice(sorted(self.model.offsets) or self.groups, "modelled group with offsets")

    def _known_topics(self, *groups: str) -> list[tuple[str, int]]:
        """Return each existing topic of users, each retry topic of groups, and its last known queue."""
        known = self._account.ledger.topics
        of_users = [(topic, known[topic]) for topic in self.run.topics if topic in known]
        return of_users + [(topic, 0) for topic in self.retry_topics_of(*groups)]

    def retry_topics_of(self, *groups: str) -> list[str]:
        return [retry_topic(group) for group in groups if group in self.model.retry_groups]

    def known_queues(self, *groups: str) -> list[Queue]:
        return [(topic, number) for topic, last in self._known_topics(*groups) for number in range(last + 1)]

    def draw_queue(self, *groups: str) -> Queue | None:
        if not (known := self._known_topics(*groups)):
            return None
        topic, last = self.stream.choice(known, "modelled topic")
        return topic, self.stream.randint(0, last, "modelled queue")

    def _draw_subscriptions(self) -> dict[str, Subscribed]:
        stream, wanted = self.stream, {}
        for topic in self.run.topics:
            if stream.chance(0.7, "subscribes"):
                self._version += 2
                kind, text = stream.choice(list(self.wanted), "expression")
                wanted[topic] = Subscribed(kind, text, self._version - 3 * stream.chance(0.2, "an older version"))
        return wanted

    def without_defaults(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Leave out optional fields that are false or empty, as some clients do."""
        leaves_out = self.forms.chance(_LEFT_OUT_CHANCE, "leaves out defaults")
        return {name: value for name, value in fields.items() if not leaves_out or (value is not False and value != "")}

    # -- changes -----------------------------------------------------------------------------------

    def make(self, change: GroupChange) -> None:
        reply = self.ask(change.client, change.command)
        expected = change.apply(self.model)
        if expected is not None:
            self.report(
                "LOCK", f"{change.client.client_id} gets wrong locks", sorted(expected), granted_queues(reply.response)
            )

    def heartbeat(self, client: GroupClient, *, chosen: str = "") -> GroupChange:
        """chosen: the only group that consumes or produces. Empty: any of the act's groups."""
        stream, possible = self.stream, [chosen] if chosen else self.groups
        groups = [group for group in possible if chosen or stream.chance(0.5, "consumes for it")]
        producers = [group for group in possible if stream.chance(0.3, "produces for it")]
        drawn = {group: (stream.choice(_MODES, "how"), self._draw_subscriptions()) for group in groups}
        consumers_ = [_consumer_data(group, how, wanted) for group, (how, wanted) in drawn.items()]

        def apply(model: GroupModel) -> None:
            for group, (how, wanted) in drawn.items():
                model.register(client.connection, group, how, wanted)
            for group in producers:
                model.register_producer(client.connection, group)

        command = heartbeat_command(client.client_id, producers=producers, consumers=consumers_)
        return GroupChange(client, command, apply)

    def unregister(self, client: GroupClient, *, chosen: str = "") -> GroupChange:
        group, kinds = chosen or self.draw_group(), self.stream.choice(("consumers", "producers", "both"), "leaves")
        consumes, produces = kinds != "producers", kinds != "consumers"

        def apply(model: GroupModel) -> None:
            if produces:
                model.unregister_producer(client.connection, group)
            if consumes:
                model.unregister(client.connection, group)

        # The broker knows the client by its connection, whatever id the request names.
        named = self.forms.choice((client, client, *self.clients), "id of the request").client_id
        command = unregister_command(named, group, consumers=consumes, producers=produces)
        return GroupChange(client, command, apply)

    def commits(self, client: GroupClient, *, chosen: str = "") -> Sequence[GroupChange]:
        """Commit an offset in each topic, and unless a group is chosen in its retry topic."""
        group = chosen or self.draw_group()
        known = self._known_topics(*() if chosen else (group,))
        queues = [(topic, self.stream.randint(0, last, "modelled queue")) for topic, last in known]
        return [self.commit(client, group, each, self.stream.choice(_OFFSETS, "modelled offset")) for each in queues]

    def commit(self, client: GroupClient, group: str, queue: Queue, offset: int) -> GroupChange:
        command = update_offset_command(*queue, offset, group)
        return GroupChange(client, command, lambda model: model.commit(group, queue, offset))

    def clone(self, client: GroupClient, *, chosen: str = "", source: str = "") -> GroupChange:
        source, target = source or self.draw_group_with_offsets(), chosen or self.draw_group()
        topic = self.stream.choice(("", "", *self.run.topics), "topic to clone")
        fields = {"srcGroup": source, "destGroup": target, "topic": topic, "offline": False}
        command = make_request(RequestCode.CLONE_GROUP_OFFSET, **self.without_defaults(fields))
        return GroupChange(client, command, lambda model: model.clone(source, target, topic))

    def delete(self, client: GroupClient, *, chosen: str = "") -> GroupChange:
        group, removes_offsets = chosen or self.draw_group(), self.stream.chance(0.5, "removes")
        fields = {"groupName": group, "removeOffset": removes_offsets}
        command = make_request(RequestCode.DELETE_SUBSCRIPTIONGROUP, **self.without_defaults(fields))
        return GroupChange(client, command, lambda model: model.delete(group, removes_offsets=removes_offsets))

    def set_group(self, client: GroupClient, *, chosen: str = "") -> GroupChange:
        group, stream = chosen or self.draw_group(), self.stream
        settings = GroupSettings(*(stream.chance(0.7, f"group {name}") for name in GroupSettings._fields))
        fields: dict[str, Any] = {"groupName": group, "consumeEnable": settings.consumes}
        fields |= {"consumeBroadcastEnable": settings.broadcasts, "notifyConsumerIdsChangedEnable": settings.notifies}
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        command = RemotingCommand(code, 0, body=encode_json_body(fields))
        return GroupChange(client, command, lambda model: model.set_group(group, settings))

    def lock(self, client: GroupClient, *, chosen: str = "") -> GroupChange:
        """Lock some queues, or unlock them."""
        group, stream = chosen or self.draw_group(), self.stream
        queues = [queue for queue in self.known_queues(group) if stream.chance(0.7, "locks it")]
        names_missing = self.forms.chance(_MISSING_QUEUE_CHANCE, "a missing queue")
        missing = [(self.run.topics[0], 999), (group, 0)] if names_missing else []
        unlocks = stream.chance(0.3, "unlocks")
        code = RequestCode.UNLOCK_BATCH_MQ if unlocks else RequestCode.LOCK_BATCH_MQ

        def apply(model: GroupModel) -> Sequence[Queue] | None:
            return (model.unlock if unlocks else model.lock)(client.client_id, group, queues)

        command = lock_command(code, group, client.client_id, self.broker, [*missing, *queues])
        return GroupChange(client, command, apply)


def content_of(request: RemotingCommand) -> str:
    """Return the part of a broker's request that a client compares: a reply without the broker's address and times."""
    if request.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
        fields = {**request.ext_fields, "storeHost": "", "storeTimestamp": ""}
        fields["bornHost"] = fields["bornHost"].partition(":")[0]
        properties = properties_of(fields.pop("properties").encode())
        has_time = properties.pop("PUSH_REPLY_TIME", None) is not None
        return f"{sorted(fields.items())} {sorted(properties.items())} {has_time} {request.body!r}"
    if request.code == RESET_CONSUMER_CLIENT_OFFSET:
        return request.body.decode()
    return request.ext_fields.get("consumerGroup", "")


def _consumer_data(group: str, mode: ConsumeMode, wanted: dict[str, Subscribed]) -> dict[str, Any]:
    subscriptions = [
        {"topic": topic, "expressionType": one.kind, "subString": one.text, "subVersion": one.version}
        for topic, one in wanted.items()
    ]
    how = {"consumeType": mode.consume_type, "messageModel": mode.model, "consumeFromWhere": mode.begins}
    return {"groupName": group, **how, "subscriptionDataSet": subscriptions}

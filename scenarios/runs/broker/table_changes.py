"""Table changes: creates, changes and deletes topics and groups of brokers, and compares the brokers' tables.

    UPDATE_AND_CREATE_TOPIC  DELETE_TOPIC_IN_BROKER  GET_ALL_TOPIC_CONFIG
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP  DELETE_SUBSCRIPTIONGROUP  GET_ALL_SUBSCRIPTIONGROUP_CONFIG

Each change is recorded in the broker's `OperatorTables`. A table must have each acknowledged change (META), and the
answers to pulls and to changes of system topics must agree with it (STATUS).
Source: RocketMQ AdminBrokerProcessor, TopicConfigManager, SubscriptionGroupManager.
"""

from collections.abc import Sequence

import msgspec

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC, PERM_READ, PERM_READ_WRITE, PERM_WRITE
from ....store.formats.message import MAX_TOPIC_BYTES
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import encode_json_body
from ...oracle.evidence import Violation
from ...oracle.operator_tables import GROUP_SETTINGS, OperatorTable, Settings, group_settings, topic_settings
from .answers import PULLED
from .broker_user import BrokerUser, Reply
from .commands import make_request, pull_command, route_command, topic_command
from .message_options import EVERYTHING
from .routes import BrokerAddress

OWN_TOPICS = ("operated-0", "operated-1".ljust(MAX_TOPIC_BYTES, "1"))
"""The operator's topics. One has a name of the maximum length."""
PERMS = (PERM_READ_WRITE, PERM_READ, PERM_WRITE)
_OWN_GROUPS = ("operated-g0", "operated-g1")
_DELETE_CHANCE = 0.3
_LOOK_PAUSES_MS = (1_000, 4_000)
"""From the deletion of a topic to the look-up of its route. The broker usually has registered again by then."""
_SYSTEM_TOPIC = "BenchmarkTest"
_SYSTEM_TOPIC_REMARK = "expected no system topic"
"""Part of the remark of a refusal by validateSystemTopicWhenUpdateTopic."""
_SYSTEM_TOPICS = ("SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX")
_SYSTEM_GROUPS = ("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP")
"""Topics and groups that every RocketMQ broker has: see TopicConfigManager and SubscriptionGroupManager."""


class TableChanges:
    """The requests of one operator for the tables of topics and groups.

    It has no state, so that tasks can use one each, with connections of their own.
    """

    def __init__(self, user: BrokerUser, name_servers: Sequence[BrokerAddress]) -> None:
        self._user = user
        self._name_servers = name_servers
        creates_topics = user.plan.broker_settings.auto_create_topic_enable
        self._system_topics = (*_SYSTEM_TOPICS, AUTO_CREATE_TOPIC) if creates_topics else _SYSTEM_TOPICS

    def change(
        self, table: OperatorTable, broker: str, name: str, settings: Settings | None, command: RemotingCommand
    ) -> Reply | None:
        """Send a request that changes one topic or group, and record the change.

        Return the answer; None without one, or if the broker has restarted since.
        """
        change = table.record_request(name, settings)
        reply = self._user.ask(broker, command)
        if reply is not None and reply.is_success and reply.is_of_this_life:
            table.record_success(name, change, reply.answered_ns)
        else:
            change.is_given_up = True
        return reply if reply is not None and reply.is_of_this_life else None

    def put_topic(self, broker: str, topic: str, reads: int, writes: int, perm: int, *, order: bool) -> Reply | None:
        stream = self._user.stream
        flag, filter_type = stream.randint(0, 3, "topicSysFlag"), "SINGLE_TAG"
        if topic in OWN_TOPICS:  # with MULTI_TAG the broker sets a flag in each message
            filter_type = stream.choice(("SINGLE_TAG", "MULTI_TAG"), "topicFilterType")
        command = topic_command(
            topic, reads=reads, writes=writes, perm=perm, order=order, flag=flag, filter_type=filter_type
        )
        table = self._user.run.accounts[broker].tables.topics
        reply = self.change(table, broker, topic, (reads, writes, perm, order, flag, filter_type), command)
        if reply is not None and topic != _SYSTEM_TOPIC and "expected" in (remark := reply.response.remark or ""):
            summary = f"a change of {topic} is refused"
            self._user.run.report([Violation("STATUS", summary, "", -1, "code", "SUCCESS", remark)])
        return reply

    def delete_topic(self, broker: str, topic: str) -> Reply | None:
        command = make_request(RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
        return self.change(self._user.run.accounts[broker].tables.topics, broker, topic, None, command)

    def change_own_topic(self, broker: str) -> None:
        stream = self._user.stream
        topic = stream.choice(OWN_TOPICS, "own topic")
        if stream.chance(_DELETE_CHANCE, "deletes"):
            reply = self.delete_topic(broker, topic)
            if reply is not None and reply.is_success:
                self._look_up_deleted(topic)
            return
        self.put_own_topic(broker, topic)

    def put_own_topic(self, broker: str, topic: str) -> None:
        stream = self._user.stream
        queues = stream.randint(1, 4, "read queues"), stream.randint(1, 4, "write queues")
        order = stream.chance(0.5, "ordered")
        self.put_topic(broker, topic, *queues, stream.choice(PERMS, "own perm"), order=order)

    def _look_up_deleted(self, topic: str) -> None:
        """Ask each name server for the route of a deleted topic. `watched_routes` checks the answers."""
        if len(self._name_servers) == 1:
            return  # its routes come from the table of the broker itself
        self._user.rest(self._user.stream.choice(_LOOK_PAUSES_MS, "pause before a look"))
        for name_server in self._name_servers:
            self._user.ask_name_server(name_server, route_command(topic))

    def change_system_topic(self, broker: str) -> None:
        """Change a system topic. The broker must refuse this if validateSystemTopicWhenUpdateTopic is set."""
        queues = self._user.stream.randint(1, 4, "queues of a system topic")
        reply = self.put_topic(broker, _SYSTEM_TOPIC, queues, queues, PERM_READ_WRITE, order=False)
        if reply is None:
            return
        validates = self._user.run.accounts[broker].tables.setting("validateSystemTopicWhenUpdateTopic", reply.asked_ns)
        is_refused = _SYSTEM_TOPIC_REMARK in (reply.response.remark or "")  # a full disk also makes a change fail
        if validates is not None and (reply.is_success if validates == "true" else is_refused):
            summary = "the answer to a change of a system topic contradicts the settings"
            expected = str(validates != "true")
            self._user.run.report([Violation("STATUS", summary, "", -1, "success", expected, str(reply.is_success))])

    def put_group(self, broker: str, group: str, settings: Settings) -> Reply | None:
        fields = {"groupName": group, **dict(zip(GROUP_SETTINGS, settings, strict=True))}
        command = RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, body=encode_json_body(fields))
        return self.change(self._user.run.accounts[broker].tables.groups, broker, group, settings, command)

    def draw_group_settings(self) -> tuple[int, ...]:
        """Return values of `GROUP_SETTINGS`."""
        stream = self._user.stream
        return (
            stream.chance(0.5, "consumes"),
            stream.randint(0, 3, "retry queues"),
            stream.randint(0, 16, "retries"),
            *(stream.chance(0.5, name) for name in GROUP_SETTINGS[3:6]),
            *(stream.randint(0, 2, name) for name in GROUP_SETTINGS[6:]),
        )

    def change_group(self, broker: str) -> None:
        group = self._user.stream.choice(_OWN_GROUPS, "group")
        if self._user.stream.chance(_DELETE_CHANCE, "deletes"):
            command = make_request(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName=group, removeOffset=True)
            self.change(self._user.run.accounts[broker].tables.groups, broker, group, None, command)
            return
        reply = self.put_group(broker, group, self.draw_group_settings())
        if reply is not None and reply.is_success:
            self._pull_with_group(broker, group)

    def _pull_with_group(self, broker: str, group: str) -> None:
        """Pull once for a group. The broker must refuse the pull if the group's consumeEnable is false."""
        topic = self._user.run.topics[0]
        account, asked_ns = self._user.run.accounts[broker], self._user.now_ns
        command = pull_command(topic, 0, 0, EVERYTHING, most=1, suspend_ms=0, group=group)
        reply = self._user.ask(broker, command)
        certain = account.tables.groups.certain(group, asked_ns)
        if reply is None or not reply.is_of_this_life or certain is None or certain[0] is None:
            return
        is_enabled, is_refused = certain[0][0], reply.response.code == ResponseCode.NO_PERMISSION
        is_readable = account.tables.is_readable(topic, asked_ns)
        if (reply.response.code in PULLED and not is_enabled) or (is_refused and is_enabled and is_readable):
            summary, found = f"a pull of {group} contradicts consumeEnable", ResponseCode(reply.response.code)
            self._user.run.report([Violation("STATUS", summary, "", -1, "consumeEnable", str(is_enabled), found.name)])

    def read_tables(self, broker: str) -> None:
        tables = self._user.run.accounts[broker].tables
        groups = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        for code, table, member, settings, of_system in (
            (RequestCode.GET_ALL_TOPIC_CONFIG, tables.topics, "topicConfigTable", topic_settings, self._system_topics),
            (groups, tables.groups, "subscriptionGroupTable", group_settings, _SYSTEM_GROUPS),
        ):
            reply = self._user.ask(broker, RemotingCommand(code, 0))
            if reply is None or not reply.is_success or not reply.is_of_this_life:
                continue
            body = msgspec.json.decode(reply.response.body)
            found = {name: settings(entry) for name, entry in body[member].items()}
            self._user.run.report(table.check_answer(found, body["dataVersion"]["counter"], reply.asked_ns))
            self._user.run.report(table.check_of_system(found, of_system))

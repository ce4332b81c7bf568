"""Operator client: creates, changes and deletes topics and groups while users send and consume.

    UPDATE_AND_CREATE_TOPIC  DELETE_TOPIC_IN_BROKER  GET_ALL_TOPIC_CONFIG
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP  DELETE_SUBSCRIPTIONGROUP  GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    INVOKE_BROKER_TO_RESET_OFFSET  CLONE_GROUP_OFFSET  GET_CONSUMER_CONNECTION_LIST
    CLEAN_UNUSED_TOPIC  CLEAN_EXPIRED_CONSUMEQUEUE  DELETE_EXPIRED_COMMITLOG

The operator changes the permissions of users' topics. It creates, changes and deletes topics and groups of its own, and
changes the retry and dead letter topics of groups.
Source: RocketMQ MQAdminImpl, and the commands of mqadmin.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain, product, repeat
from typing import Any

import msgspec

from ....faults.plan import FaultPlan
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import (
    AUTO_CREATE_TOPIC,
    GROUP_CHARACTERS_MAX,
    SYSTEM_GROUP_PREFIX,
    dlq_topic,
    retry_topic,
)
from ....store.formats.message import MAX_TOPIC_BYTES
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import decode_queue_offsets, encode_json_body
from ...oracle.evidence import Violation
from ...oracle.operator_tables import OperatorTable, Settings
from .answers import PULLED
from .broker_user import BrokerUser, Reply, UserContext
from .commands import (
    CONSUMER_GROUP,
    PRODUCER_GROUP,
    groups_heartbeat,
    make_request,
    pull_command,
    query_offset_command,
    route_command,
    topic_command,
)
from .consumer import BrokerQueue
from .group_member import GROUP
from .message_options import EVERYTHING, WRONG_SQL
from .operated_group import OperatedGroup
from .refused_requests import (
    check_refused,
    refused_requests,
    request_without_integer,
    requests_to_slave,
    send_to_missing_queue,
)
from .retry_consumer import GROUP as RETRY_GROUP
from .routes import BrokerAddress

OPERATORS_NET = 110
"""The last byte of the operator's IP address."""
_PAUSES_MS = (5, 100, 1_000, 4_000)
_LOOK_PAUSES_MS = (1_000, 4_000)
"""From the deletion of a topic to the look-up of its route. The broker usually has registered again by then."""
_OWN_TOPICS, _OWN_GROUPS = ("operated-0", "operated-1".ljust(MAX_TOPIC_BYTES, "1")), ("operated-g0", "operated-g1")
"""One topic has a name of the maximum length."""
_RETRIED = "operated-retriers"
"""A group of the operator with a changed retry topic."""
_UNIT_SUBSCRIBED = 2
"""The flag in topicSysFlag of a retry topic whose group consumes in unit mode."""
_SYSTEM_TOPIC, _MISSING = "BenchmarkTest", "missing"
_LONGEST_GROUP = "m" * GROUP_CHARACTERS_MAX
_MISSING_GROUPS: Mapping[str, bool | None] = {
    _MISSING: None,
    _LONGEST_GROUP: None,
    f"{_LONGEST_GROUP}m": False,
    "no group": False,
    f"{SYSTEM_GROUP_PREFIX}{_MISSING}": True,
}
"""Name -> whether a broker creates the group. None: autoCreateSubscriptionGroup decides."""
_CLONE = "clone-of-members"
_READS_AT_ONCE = 2
_OFTEN, _DRAINS = 6, 3
_SENDS_AT_ONCE = 3
_QUEUES_ASKED = (0, 1, 2, 3, 99)
_CREATED = "queueId of topic"
"""In the remark of the answer to `send_to_missing_queue`, if the topic exists."""
_DELETE_CHANCE, _OTHERS_CHANCE = 0.3, 0.6
_PERMS = (6, 4, 2)
_AGO_MS_MAX = 60_000
_GROUP_SETTINGS = (
    *("consumeEnable", "retryQueueNums", "retryMaxTimes", "consumeFromMinEnable", "consumeBroadcastEnable"),
    *("notifyConsumerIdsChangedEnable", "brokerId", "whichBrokerWhenConsumeSlowly"),
)
_SYSTEM_TOPIC_REMARK = "expected no system topic"
"""Part of the remark of a refusal by validateSystemTopicWhenUpdateTopic."""
_SYSTEM_TOPICS = ("SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX")
_SYSTEM_GROUPS = ("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP")
"""Topics and groups that every RocketMQ broker has: see TopicConfigManager and SubscriptionGroupManager."""
_REFUSED_REQUESTS = 12
"""How many invalid requests the operator sends in a row, because a run has time for few actions."""
_WITHOUT_INTEGER = 2
_CLEANING = (
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
)


def topic_settings(entry: Mapping[str, Any]) -> Settings:
    names = ("readQueueNums", "writeQueueNums", "perm", "order", "topicSysFlag", "topicFilterType")
    return tuple(entry[name] for name in names)


def group_settings(entry: Mapping[str, Any]) -> Settings:
    return tuple(entry[name] for name in _GROUP_SETTINGS)


class OperatorClient(BrokerUser):
    """Sends one request after another to random brokers."""

    def __init__(self, run: UserContext, queues: list[BrokerQueue], name_servers: Sequence[BrokerAddress]) -> None:
        super().__init__(run, "operator", OPERATORS_NET)
        self._name_servers = name_servers
        self._queues = queues
        creates_topics = run.plan.broker_settings.auto_create_topic_enable
        self._system_topics = (*_SYSTEM_TOPICS, AUTO_CREATE_TOPIC) if creates_topics else _SYSTEM_TOPICS
        self._closed: set[tuple[str, str]] = set()
        """(broker, topic) of each topic that may lack a permission or a queue for producers."""
        self._heartbeat_unanswered_in: dict[str, int] = {}
        """Broker -> its start in which it may still execute a heartbeat of the operator's group."""
        self._group = OperatedGroup(self)
        self._acts: list[Callable[[str], None]] = [
            self._change_permission,
            self._change_own_topic,
            self._create_beside_sends,
            self._create_by_send,
            self._change_system_topic,
            self._use_missing_names,
            self._change_group,
            self._read_tables,
            self._read_route,
            self._clean,
            *(self._send_refused,) * 3,
            self._read_at_once,
            *(lambda broker: self._group.use_offsets(self._draw_queue(broker)),) * 2,  # other groups seldom end
            lambda broker: self._group.use_retry_topic(self._draw_queue(broker)),
            lambda broker: self._group.use_subscriptions(self._draw_queue(broker)),
            *(self._change_topic_of_group,) * 3,
        ]
        if run.plan.cluster.slaves:
            self._acts += [self._write_to_slave] * 2
        if run.plan.queues_per_topic > 1:
            self._acts += [self._drain_queues] * _DRAINS
        if run.plan.broker.group_members:
            self._acts += [self._reset_offsets, self._clone_offsets, self._list_connections, self._lock_for_other_group]
        if run.plan.broker.operator_connections:
            self._acts += [self._group.end_connections, self._work_at_once] * _OFTEN
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn("operate", self._operate)

    def _operate(self) -> None:
        while True:
            if self.insists and self._closed:
                broker, topic = min(self._closed)
                self._set_users_topic(broker, topic, _PERMS[0], self.plan.queues_per_topic)
                continue
            self.world.tasks.sleep(self.stream.choice(_PAUSES_MS, "pause"))
            if not self.insists:
                self.stream.choice(self._acts, "request")(self.stream.choice(self._queues, "broker").broker)

    def unfinished_text(self) -> str:
        return f"{len(self._closed)} topics not open to all" if self._closed else ""

    def _change(
        self, table: OperatorTable, broker: str, name: str, settings: Settings | None, command: RemotingCommand
    ) -> Reply | None:
        """Send a request that changes one topic or group, and record the change.

        Return the answer; None without one, or if the broker has restarted since.
        """
        change = table.record_request(name, settings)
        reply = self.ask(broker, command)
        if reply is not None and reply.is_success and reply.is_of_this_life:
            table.record_success(name, change, reply.answered_ns)
        else:
            change.is_given_up = True
        return reply if reply is not None and reply.is_of_this_life else None

    # -- topics ------------------------------------------------------------------------------------

    def _change_permission(self, broker: str) -> None:
        topic = self.stream.choice(self.run.topics, "topic")
        self._set_users_topic(broker, topic, self.stream.choice(_PERMS, "perm"), self.plan.queues_per_topic)

    def _drain_queues(self, broker: str) -> None:
        """Take queues of a users' topic from the routes of producers. Consumers must still read all its queues."""
        topic = self.stream.choice(self.run.topics, "topic to drain")
        writes = self.stream.randint(1, self.plan.queues_per_topic - 1, "write queues")
        self._set_users_topic(broker, topic, _PERMS[0], writes)
        self._group.use_offsets(BrokerQueue(broker, topic, self.plan.queues_per_topic - 1))

    def _set_users_topic(self, broker: str, topic: str, perm: int, writes: int) -> None:
        self._closed.add((broker, topic))
        queues = self.plan.queues_per_topic
        reply = self._put_topic(broker, topic, queues, writes, perm, order=False)
        if reply is not None and reply.is_success and (perm, writes) == (_PERMS[0], queues):
            self._closed.discard((broker, topic))
        else:
            self.world.tasks.sleep(_PAUSES_MS[1])

    def _put_topic(self, broker: str, topic: str, reads: int, writes: int, perm: int, *, order: bool) -> Reply | None:
        flag, filter_type = self.stream.randint(0, 3, "topicSysFlag"), "SINGLE_TAG"
        if topic in _OWN_TOPICS:  # with MULTI_TAG the broker sets a flag in each message
            filter_type = self.stream.choice(("SINGLE_TAG", "MULTI_TAG"), "topicFilterType")
        command = topic_command(
            topic, reads=reads, writes=writes, perm=perm, order=order, flag=flag, filter_type=filter_type
        )
        table = self.run.accounts[broker].tables.topics
        reply = self._change(table, broker, topic, (reads, writes, perm, order, flag, filter_type), command)
        if reply is not None and topic != _SYSTEM_TOPIC and "expected" in (remark := reply.response.remark or ""):
            self.run.report([Violation("STATUS", f"a change of {topic} is refused", "", -1, "code", "SUCCESS", remark)])
        return reply

    def _change_own_topic(self, broker: str) -> None:
        topic, stream = self.stream.choice(_OWN_TOPICS, "own topic"), self.stream
        if stream.chance(_DELETE_CHANCE, "deletes"):
            reply = self._delete_topic(broker, topic)
            if reply is not None and reply.is_success:
                self._look_up_deleted(topic)
            return
        self._put_own_topic(broker, topic)

    def _put_own_topic(self, broker: str, topic: str) -> None:
        stream = self.stream
        queues = stream.randint(1, 4, "read queues"), stream.randint(1, 4, "write queues")
        order = stream.chance(0.5, "ordered")
        self._put_topic(broker, topic, *queues, stream.choice(_PERMS, "own perm"), order=order)

    def _delete_topic(self, broker: str, topic: str) -> Reply | None:
        command = make_request(RequestCode.DELETE_TOPIC_IN_BROKER, topic=topic)
        return self._change(self.run.accounts[broker].tables.topics, broker, topic, None, command)

    def _create_beside_sends(self, broker: str) -> None:
        """Create topics while producers send to them, for which the broker creates the topics, too.

        The broker refuses the sends, because their queue does not exist. The operator's settings must win.
        """
        for topic in _OWN_TOPICS * 2:
            self._create_beside_send(broker, topic)
        self._read_tables(broker)

    def _create_beside_send(self, broker: str, topic: str) -> None:
        stream = self.stream
        table = self.run.accounts[broker].tables.topics
        deleted = self._delete_topic(broker, topic)
        if deleted is None or not deleted.is_success:
            return
        sends = [table.record_request(topic, self._settings_of_first(1)) for _ in range(_SENDS_AT_ONCE)]
        answered = []

        def send(delay_ms: int) -> None:
            self.world.tasks.sleep(delay_ms)
            answered.append(self.ask(broker, send_to_missing_queue(topic)))

        spawn, delays_ms = self.world.tasks.spawn, range(_SENDS_AT_ONCE)
        tasks = [spawn(f"send {delay_ms}", partial(send, delay_ms)) for delay_ms in delays_ms]
        queues = stream.randint(2, 4, "queues of a topic")
        reply = self._put_topic(broker, topic, queues, queues, stream.choice(_PERMS, "own perm"), order=False)
        for task in tasks:
            task.join(None)
        if reply is None or not reply.is_success or None in answered:
            for each in sends:
                each.is_given_up = True
            return
        for each in sends:
            table.record_refusal(topic, each)

    def _create_by_send(self, broker: str) -> None:
        """Delete a topic, and let a producer create it that asks for any number of queues."""
        topic, table = self.stream.choice(_OWN_TOPICS, "topic of a first send"), self.run.accounts[broker].tables.topics
        deleted = self._delete_topic(broker, topic)
        if deleted is None or not deleted.is_success:
            return
        queues, unit = self.stream.choice(_QUEUES_ASKED, "queues asked for"), self.stream.chance(0.3, "unit mode")
        change = table.record_request(topic, self._settings_of_first(queues, unit=unit))
        reply = self.ask(broker, send_to_missing_queue(topic, queues, unit=unit))
        if reply is not None and reply.is_of_this_life and _CREATED in (reply.response.remark or ""):
            table.record_success(topic, change, reply.answered_ns)
        else:
            change.is_given_up = True
        self._read_tables(broker)

    def _settings_of_first(self, queues: int, *, unit: bool = False) -> Settings:
        """Return the settings of a topic that a broker creates for `send_to_missing_queue`."""
        made = max(1, min(queues, self.plan.queues_per_topic + 1))
        return made, made, _PERMS[0], False, int(unit), "SINGLE_TAG"

    def _change_topic_of_group(self, broker: str) -> None:
        """Change the retry or dead letter topic of a group. Heartbeats of the group must leave it as it is."""
        stream, retry = self.stream, self.plan.retry
        group = stream.choice((_RETRIED, _RETRIED, CONSUMER_GROUP, GROUP, RETRY_GROUP), "group of a topic")
        topic = stream.choice((retry_topic, retry_topic, dlq_topic), "kind of a topic")(group)
        if group != _RETRIED:  # its retries need the queues and permissions of a new topic
            queues = stream.randint(max(retry.retry_queues, 1), 4, "queues of retries")
            most = self.run.accounts[broker].ledger.returned.queues_max
            most[topic] = max(queues, most.get(topic, 0))
            self._put_topic(broker, topic, queues, queues, _PERMS[0], order=False)
            return
        life = self.run.accounts[broker].ledger.life
        if self._heartbeat_unanswered_in.get(broker) == life:
            return  # the heartbeat may still create the topic
        self._heartbeat_unanswered_in[broker] = life
        if self._use_own_group(broker, topic):
            del self._heartbeat_unanswered_in[broker]
        self._read_tables(broker)

    def _use_own_group(self, broker: str, topic: str) -> bool:
        """Let heartbeats create the retry topic of a changed group, and keep it. Return whether they were answered.

        topic: that of the group which an operator changes before the last heartbeat.
        """
        name, topics = retry_topic(_RETRIED), self.run.accounts[broker].tables.topics
        settings, unit = self._draw_group_settings(), self.stream.chance(0.3, "unit mode")
        changed, deleted = self._put_group(broker, _RETRIED, settings), self._delete_topic(broker, name)
        if not (changed and changed.is_success and deleted and deleted.is_success):
            return True
        created = settings[1], settings[1], _PERMS[0], False, _UNIT_SUBSCRIBED * unit, "SINGLE_TAG"
        heartbeat = groups_heartbeat(self.client_id, [_RETRIED], unit=unit)
        if self._change(topics, broker, name, created, heartbeat) is None:
            return False
        self._put_own_topic(broker, topic)
        change, reply = topics.record_request(name, created), self.ask(broker, heartbeat)
        if reply is None or not reply.is_of_this_life:
            change.is_given_up = True
            return False
        topics.record_refusal(name, change)
        return True

    def _look_up_deleted(self, topic: str) -> None:
        """Ask each name server for the route of a deleted topic. `watched_routes` checks the answers."""
        if len(self._name_servers) == 1:
            return  # its routes come from the table of the broker itself
        self.rest(self.stream.choice(_LOOK_PAUSES_MS, "pause before a look"))
        for name_server in self._name_servers:
            self.ask_name_server(name_server, route_command(topic))

    def _change_system_topic(self, broker: str) -> None:
        """Change a system topic. The broker must refuse this if validateSystemTopicWhenUpdateTopic is set."""
        queues = self.stream.randint(1, 4, "queues of a system topic")
        reply = self._put_topic(broker, _SYSTEM_TOPIC, queues, queues, _PERMS[0], order=False)
        if reply is None:
            return
        validates = self.run.accounts[broker].tables.setting("validateSystemTopicWhenUpdateTopic", reply.asked_ns)
        is_refused = _SYSTEM_TOPIC_REMARK in (reply.response.remark or "")  # a full disk also makes a change fail
        if validates is not None and (reply.is_success if validates == "true" else is_refused):
            summary = "the answer to a change of a system topic contradicts the settings"
            expected = str(validates != "true")
            self.run.report([Violation("STATUS", summary, "", -1, "success", expected, str(reply.is_success))])

    def _use_missing_names(self, broker: str) -> None:
        """Send to an unknown topic, or pull for an unknown group. The settings decide whether the broker creates it."""
        settings = self.plan.broker_settings
        queue = next(queue for queue in self._queues if queue.broker == broker)
        if settings.auto_create_topic_enable or self.stream.chance(0.5, "missing group"):
            group = self.stream.choice([*_MISSING_GROUPS], "name of a missing group")
            code, known = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, _MISSING_GROUPS[group]
            is_made = settings.auto_create_subscription_group if known is None else known
            what, command = "group", pull_command(*queue.queue, 0, EVERYTHING, most=1, suspend_ms=0, group=group)
            done: Collection[ResponseCode] = PULLED
        else:
            code, is_made, what, done = ResponseCode.TOPIC_NOT_EXIST, False, "topic", (ResponseCode.SUCCESS,)
            fields = {"a": PRODUCER_GROUP, "b": _MISSING, "c": AUTO_CREATE_TOPIC, "d": "1", "e": "0", "f": "0"}
            fields |= {"g": str(self.world.clock.now_ms()), "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
            command = make_request(RequestCode.SEND_MESSAGE_V2, b"nothing", **fields)
        reply = self.ask(broker, command)
        if reply is None or not reply.is_of_this_life:
            return
        found = reply.response.code
        if (found in done and not is_made) or (found == code and is_made and what == "group"):
            summary = f"a missing {what} is {'used' if found in done else 'refused'}, which contradicts the settings"
            self.run.report([Violation("STATUS", summary, "", -1, "made", str(is_made), ResponseCode(found).name)])

    # -- groups ------------------------------------------------------------------------------------

    def _change_group(self, broker: str) -> None:
        group = self.stream.choice(_OWN_GROUPS, "group")
        if self.stream.chance(_DELETE_CHANCE, "deletes"):
            command = make_request(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName=group, removeOffset=True)
            self._change(self.run.accounts[broker].tables.groups, broker, group, None, command)
            return
        reply = self._put_group(broker, group, self._draw_group_settings())
        if reply is not None and reply.is_success:
            self._pull_with_group(broker, group)

    def _draw_group_settings(self) -> tuple[int, ...]:
        """Return values of `_GROUP_SETTINGS`."""
        stream = self.stream
        return (
            stream.chance(0.5, "consumes"),
            stream.randint(0, 3, "retry queues"),
            stream.randint(0, 16, "retries"),
            *(stream.chance(0.5, name) for name in _GROUP_SETTINGS[3:6]),
            *(stream.randint(0, 2, name) for name in _GROUP_SETTINGS[6:]),
        )

    def _put_group(self, broker: str, group: str, settings: Settings) -> Reply | None:
        fields = {"groupName": group, **dict(zip(_GROUP_SETTINGS, settings, strict=True))}
        command = RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, body=encode_json_body(fields))
        return self._change(self.run.accounts[broker].tables.groups, broker, group, settings, command)

    def _pull_with_group(self, broker: str, group: str) -> None:
        """Pull once for a group. The broker must refuse the pull if the group's consumeEnable is false."""
        queue = next(queue for queue in self._queues if queue.broker == broker)
        account, asked_ns = self.run.accounts[broker], self.now_ns
        command = pull_command(*queue.queue, 0, EVERYTHING, most=1, suspend_ms=0, group=group)
        reply = self.ask(broker, command)
        certain = account.tables.groups.certain(group, asked_ns)
        if reply is None or not reply.is_of_this_life or certain is None or certain[0] is None:
            return
        is_enabled, is_refused = certain[0][0], reply.response.code == ResponseCode.NO_PERMISSION
        is_readable = account.tables.is_readable(queue.topic, asked_ns)
        if (reply.response.code in PULLED and not is_enabled) or (is_refused and is_enabled and is_readable):
            summary, found = f"a pull of {group} contradicts consumeEnable", ResponseCode(reply.response.code)
            self.run.report([Violation("STATUS", summary, "", -1, "consumeEnable", str(is_enabled), found.name)])

    # -- tables and files --------------------------------------------------------------------------

    def _read_tables(self, broker: str) -> None:
        tables = self.run.accounts[broker].tables
        groups = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        for code, table, member, settings, of_system in (
            (RequestCode.GET_ALL_TOPIC_CONFIG, tables.topics, "topicConfigTable", topic_settings, self._system_topics),
            (groups, tables.groups, "subscriptionGroupTable", group_settings, _SYSTEM_GROUPS),
        ):
            reply = self.ask(broker, RemotingCommand(code, 0))
            if reply is None or not reply.is_success or not reply.is_of_this_life:
                continue
            body = msgspec.json.decode(reply.response.body)
            found = {name: settings(entry) for name, entry in body[member].items()}
            self.run.report(table.check_answer(found, body["dataVersion"]["counter"], reply.asked_ns))
            self.run.report(table.check_of_system(found, of_system))

    def _read_at_once(self, broker: str) -> None:
        """Change a topic and read the tables at the same time. The broker serves only some of them at once."""
        spawn, work = self.world.tasks.spawn, partial(self._read_tables, broker)
        reads = [spawn(f"read {number}", work) for number in range(_READS_AT_ONCE)]
        self._change_own_topic(broker)
        for read in reads:
            read.join(None)

    def _work_at_once(self, broker: str) -> None:
        """Change a topic and a group, and read the tables repeatedly, each over another connection."""
        others = [self.with_own_connections() for _ in range(self.plan.broker.operator_connections)]
        changes = (OperatorClient._change_own_topic, OperatorClient._change_group)
        works = zip(others, chain(changes, repeat(OperatorClient._read_tables)), strict=False)
        tasks = [
            self.world.tasks.spawn(f"work {number}", partial(work, other, broker))
            for number, (other, work) in enumerate(works)
        ]
        for task, other in zip(tasks, others, strict=True):
            task.join(None)
            other.routes.close()

    def _read_route(self, broker: str) -> None:
        """Ask the broker, as a name server, for the route of a topic."""
        topic = self.stream.choice((*self.run.topics, *_OWN_TOPICS), "topic of a route")
        changes_routes = self.plan.broker.route_operators > 0  # at the broker's own name server, too
        if len(self._name_servers) > 1 and (changes_routes or self.stream.chance(_OTHERS_CHANCE, "any name server")):
            self.ask_name_server(self.stream.choice(self._name_servers, "name server"), route_command(topic))
            return  # `watched_routes` checks the answer
        reply = self.ask(broker, route_command(topic))
        if reply is None or not reply.is_of_this_life:
            return
        if reply.response.code not in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
            return
        queues = msgspec.json.decode(reply.response.body)["queueDatas"] if reply.is_success else []
        own = [each for each in queues if each["brokerName"] == broker]
        found = (own[0]["readQueueNums"], own[0]["writeQueueNums"], own[0]["perm"]) if own else None
        self.run.report(self.run.accounts[broker].tables.check_route(topic, found, reply.asked_ns))

    def _clean(self, broker: str) -> None:
        """Ask the broker to remove unused topics, expired queues or expired segments.

        Other invariants detect a removal of needed data.
        """
        self.ask(broker, RemotingCommand(self.stream.choice(_CLEANING, "what to clean"), 0))

    def _send_refused(self, broker: str) -> None:
        topic, ledger = self.run.topics[0], self.run.accounts[broker].ledger
        if topic not in ledger.topics:
            return  # a refused send would create the topic with another number of queues
        changes_settings, filters = self.plan.broker.settings_operators > 0, self.plan.consuming.filtered
        wrong_sql = self.stream.choice(WRONG_SQL, "wrong expression")
        known = topic, self.plan.queues_per_topic, self.plan.broker_settings, wrong_sql
        rows = refused_requests(*known, changes_settings=changes_settings, filters=filters)
        first = self.stream.randbelow(len(rows), "first refused request")
        rows = (rows[first:] + rows[:first])[:_REFUSED_REQUESTS]
        rows += [request_without_integer(self.stream, topic) for _ in range(_WITHOUT_INTEGER)]
        for asked in rows:
            reply = self.ask(broker, asked.command)
            if reply is not None:
                disk_may_fail = bool(self.plan.capacity_bytes) or self.plan.faults != FaultPlan()
                self.run.report(check_refused(asked, reply.response.code, disk_may_fail=disk_may_fail))

    def _write_to_slave(self, broker: str) -> None:
        """Send to a slave what only a master may execute, as clients with an old route do."""
        slaves = [each for each in self._name_servers if each.broker == broker and each.is_slave]
        for slave, asked in product(slaves, requests_to_slave(self.run.topics[0])):
            response, _ = self.send(slave, asked.command)
            if response is not None:
                self.run.report(check_refused(asked, response.code, disk_may_fail=False))

    # -- offsets of groups -------------------------------------------------------------------------

    def _reset_offsets(self, broker: str) -> None:
        """Reset the group's offsets to a time up to a minute ago. Every member must receive the answered offsets."""
        account, queue = self.run.accounts[broker], self._draw_queue(broker)
        time_ms = self.world.clock.now_ms() - self.stream.randbelow(_AGO_MS_MAX, "ms ago")
        before = self._offset_at(queue, time_ms)
        fields = {"topic": queue.topic, "group": GROUP, "timestamp": time_ms, "isForce": False}
        reply = self.ask(broker, make_request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields))
        if reply is None or not reply.is_success or not reply.is_of_this_life:
            return
        account.members.record_reset(reply.response.body, reply.asked_ns, reply.answered_ns)
        places = decode_queue_offsets(reply.response.body, "offsetTable").items()
        offsets = {place.queue_id: offset for place, offset in places}
        topics, found = account.tables.topics, sorted(offsets)
        known = topics.certain(queue.topic, reply.asked_ns)
        writes = self.plan.queues_per_topic if known is None or known[0] is None else int(str(known[0][1]))
        ids = list(range(writes))
        if found != ids and (known is not None or not topics.is_changed(queue.topic)):
            summary = f"a reset of offsets in {queue.topic} answers for other queues"
            self.run.report([Violation("META", summary, "", -1, "queues", str(ids), str(found))])
        after, offset = self._offset_at(queue, time_ms), offsets.get(queue.queue_id)
        if before is None or offset is None or before != after:
            return
        if offset > before:  # without isForce, a group only moves back
            summary = f"a reset of offsets in {queue} does not move the group back in time"
            self.run.report([Violation("META", summary, "", -1, "offset", f"<= {before}", str(offset))])

    def _draw_queue(self, broker: str) -> BrokerQueue:
        return self.stream.choice([queue for queue in self._queues if queue.broker == broker], "queue")

    def _offset_at(self, queue: BrokerQueue, time_ms: int) -> int | None:
        fields = {"topic": queue.topic, "queueId": queue.queue_id, "timestamp": time_ms}
        reply = self.ask(queue.broker, make_request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, **fields))
        return reply.field("offset") if reply is not None and reply.is_success and reply.is_of_this_life else None

    def _clone_offsets(self, broker: str) -> None:
        """Copy the group's offsets to another group. Without commits meanwhile, both groups have equal offsets."""
        queue = self._draw_queue(broker)
        before = self._offset_of(queue, GROUP)
        fields = {"srcGroup": GROUP, "destGroup": _CLONE, "topic": queue.topic, "offline": False}
        reply = self.ask(broker, make_request(RequestCode.CLONE_GROUP_OFFSET, **fields))
        cloned, after = self._offset_of(queue, _CLONE), self._offset_of(queue, GROUP)
        if reply is None or not reply.is_success or not reply.is_of_this_life or before is None or cloned is None:
            return
        if before == after and before[1] == cloned[1] and before[0] != cloned[0]:
            summary = f"{_CLONE} in {queue} differs from the group that it was cloned from"
            self.run.report([Violation("META", summary, "", -1, "offset", str(before[0]), str(cloned[0]))])

    def _offset_of(self, queue: BrokerQueue, group: str) -> tuple[int, int] | None:
        """Return a group's offset in a queue, and the number of the broker's starts; None without an answer."""
        life = self.run.accounts[queue.broker].ledger.life
        reply = self.ask(queue.broker, query_offset_command(*queue.queue, group))
        return (reply.field("offset"), life) if reply is not None and reply.is_success else None

    def _lock_for_other_group(self, broker: str) -> None:
        """Lock queues for another group. The broker must grant them whatever queues the members have locked."""
        queues = [each.queue for each in self._queues if each.broker == broker]
        self.ask_for_locks(broker, "operators", self.run.accounts[broker].locks_of_operators, queues)

    def _list_connections(self, broker: str) -> None:
        reply = self.ask(broker, make_request(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=GROUP))
        if reply is not None and reply.is_of_this_life:
            self._judge_connections(broker, reply)

    def _judge_connections(self, broker: str, reply: Reply) -> None:
        if reply.response.code not in (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE):
            return
        connections = msgspec.json.decode(reply.response.body)["connectionSet"] if reply.is_success else []
        clients = list(dict.fromkeys(each["clientId"] for each in connections))
        members = self.run.accounts[broker].members
        self.run.report(members.check_list(clients, reply.asked_ns, reply.answered_ns))

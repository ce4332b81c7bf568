"""Operator client: creates, changes and deletes topics and groups while users send and consume.

    users' topics      permissions and numbers of queues
    own entries        topics and groups of the operator, see `table_changes`
    created entries    topics and groups that brokers create by themselves, see `auto_creation`
    consumers          a group of the operator, see `operated_group`, and that of members, see `operated_members`
    tables, routes     some over several connections at once
    files              CLEAN_UNUSED_TOPIC  CLEAN_EXPIRED_CONSUMEQUEUE  DELETE_EXPIRED_COMMITLOG
    refused requests   invalid requests, and writes to slaves

Source: RocketMQ MQAdminImpl, and the commands of mqadmin.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, product, repeat

import msgspec

from ....faults.plan import FaultPlan
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.topic_names import PERM_READ_WRITE
from ....store.formats.remoting.command import RemotingCommand
from .auto_creation import AutoCreation
from .broker_user import BrokerUser, UserContext
from .commands import route_command
from .consumer import BrokerQueue
from .message_options import WRONG_SQL
from .operated_group import OperatedGroup
from .operated_members import OperatedMembers
from .refused_requests import check_refused, refused_requests, request_without_integer, requests_to_slave
from .routes import BrokerAddress
from .table_changes import OWN_TOPICS, PERMS, TableChanges

OPERATORS_NET = 110
"""The last byte of the operator's IP address."""
_PAUSES_MS = (5, 100, 1_000, 4_000)
_READS_AT_ONCE = 2
_OFTEN, _DRAINS, _CLOSURES = 6, 3, 4
_OTHERS_CHANCE = 0.6
_REFUSED_REQUESTS = 12
"""How many invalid requests the operator sends in a row, because a run has time for few actions."""
_WITHOUT_INTEGER = 2
_CLEANING = (
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
)


class OperatorClient(BrokerUser):
    """Sends one request after another to random brokers."""

    def __init__(self, run: UserContext, queues: list[BrokerQueue], name_servers: Sequence[BrokerAddress]) -> None:
        super().__init__(run, "operator", OPERATORS_NET)
        self._name_servers = name_servers
        self._queues = queues
        self._closed: set[tuple[str, str]] = set()
        """(broker, topic) of each topic that may lack a permission or a queue for producers."""
        self._changes = TableChanges(self, name_servers)
        self._group = OperatedGroup(self)
        creation, members = AutoCreation(self, self._changes), OperatedMembers(self)
        self._acts: list[Callable[[str], None]] = [
            self._change_permission,
            self._changes.change_own_topic,
            creation.create_beside_sends,
            creation.create_by_send,
            self._changes.change_system_topic,
            creation.use_missing_names,
            self._changes.change_group,
            self._changes.read_tables,
            self._read_route,
            self._clean,
            *(self._send_refused,) * 3,
            self._read_at_once,
            *(lambda broker: self._group.use_offsets(self._draw_queue(broker)),) * 2,  # other groups seldom end
            lambda broker: self._group.use_retry_topic(self._draw_queue(broker)),
            lambda broker: self._group.use_subscriptions(self._draw_queue(broker)),
            *(creation.change_topic_of_group,) * 3,
        ]
        if run.plan.cluster.slaves:
            self._acts += [self._write_to_slave] * 2
        if run.plan.queues_per_topic > 1:
            self._acts += [self._drain_queues] * _DRAINS
        if run.plan.retry.failing_consumers:
            self._acts += [creation.change_topic_of_failing_group] * _OFTEN
        if run.plan.broker.group_members:
            self._acts += [
                *(self._change_permission,) * _CLOSURES,  # while members wait for messages
                lambda broker: members.reset_offsets(self._draw_queue(broker)),
                lambda broker: members.clone_offsets(self._draw_queue(broker)),
                members.list_connections,
                lambda broker: members.lock_for_other_group(broker, self._queues_at(broker)),
            ]
        if run.plan.broker.operator_connections:
            self._acts += [self._group.end_connections, self._work_at_once] * _OFTEN
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn("operate", self._operate)

    def _operate(self) -> None:
        while True:
            if self.insists and self._closed:
                broker, topic = min(self._closed)
                self._set_users_topic(broker, topic, PERM_READ_WRITE, self.plan.queues_per_topic)
                continue
            self.world.tasks.sleep(self.stream.choice(_PAUSES_MS, "pause"))
            if not self.insists:
                self.stream.choice(self._acts, "request")(self.stream.choice(self._queues, "broker").broker)

    def unfinished_text(self) -> str:
        return f"{len(self._closed)} topics not open to all" if self._closed else ""

    def _queues_at(self, broker: str) -> list[BrokerQueue]:
        return [queue for queue in self._queues if queue.broker == broker]

    def _draw_queue(self, broker: str) -> BrokerQueue:
        return self.stream.choice(self._queues_at(broker), "queue")

    # -- topics of users ---------------------------------------------------------------------------

    def _change_permission(self, broker: str) -> None:
        topic = self.stream.choice(self.run.topics, "topic")
        self._set_users_topic(broker, topic, self.stream.choice(PERMS, "perm"), self.plan.queues_per_topic)

    def _drain_queues(self, broker: str) -> None:
        """Take queues of a users' topic from the routes of producers. Consumers must still read all its queues."""
        topic = self.stream.choice(self.run.topics, "topic to drain")
        writes = self.stream.randint(1, self.plan.queues_per_topic - 1, "write queues")
        self._set_users_topic(broker, topic, PERM_READ_WRITE, writes)
        self._group.use_offsets(BrokerQueue(broker, topic, self.plan.queues_per_topic - 1))

    def _set_users_topic(self, broker: str, topic: str, perm: int, writes: int) -> None:
        self._closed.add((broker, topic))
        queues = self.plan.queues_per_topic
        reply = self._changes.put_topic(broker, topic, queues, writes, perm, order=False)
        if reply is not None and reply.is_success and (perm, writes) == (PERM_READ_WRITE, queues):
            self._closed.discard((broker, topic))
        else:
            self.world.tasks.sleep(_PAUSES_MS[1])

    # -- tables, routes and files ------------------------------------------------------------------

    def _read_at_once(self, broker: str) -> None:
        """Change a topic and read the tables at the same time. The broker serves only some of them at once."""
        spawn, work = self.world.tasks.spawn, partial(self._changes.read_tables, broker)
        reads = [spawn(f"read {number}", work) for number in range(_READS_AT_ONCE)]
        self._changes.change_own_topic(broker)
        for read in reads:
            read.join(None)

    def _work_at_once(self, broker: str) -> None:
        """Change a topic and a group, and read the tables repeatedly, each over another connection."""
        others = [self.with_own_connections() for _ in range(self.plan.broker.operator_connections)]
        acts = chain((TableChanges.change_own_topic, TableChanges.change_group), repeat(TableChanges.read_tables))
        tasks = [
            self.world.tasks.spawn(f"work {number}", partial(act, TableChanges(other, self._name_servers), broker))
            for number, (other, act) in enumerate(zip(others, acts, strict=False))
        ]
        for task, other in zip(tasks, others, strict=True):
            task.join(None)
            other.routes.close()

    def _read_route(self, broker: str) -> None:
        """Ask the broker, as a name server, for the route of a topic."""
        topic = self.stream.choice((*self.run.topics, *OWN_TOPICS), "topic of a route")
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

    # -- refused requests --------------------------------------------------------------------------

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

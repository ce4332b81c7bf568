"""Brokers and clients: the machines of a broker run."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import product

from ....store.formats.remoting.frame import encode_frame
from ....store.message_store import MessageStore
from ....store.world import World
from ...oracle.invariants import live
from ...oracle.invariants.routes import Presence
from ...oracle.name_server_keys import NameServerKeys
from ...oracle.operator_tables import OperatorTables
from ...oracle.pull_times import PullTimes
from ...oracle.replicas import MasterHistory
from ...workload.drawing import topic_of_users
from ...workload.skew import draw_skew
from ...workload.traffic import message_names
from ..execution import sync_timing_of
from ..machines import NetworkRun
from ..marks import MARKS
from ..settling import Settling
from .access_client import AccessClient
from .access_file import access_model, frame_of_others
from .account import BrokerAccount
from .broker_node import BrokerNode
from .broker_replication import BrokerReplication
from .broker_settings import REGISTER_MS
from .broker_user import BrokerUser, UserContext
from .client_machine import ClientMachine
from .client_questioner import ClientQuestioner
from .consumer import BrokerConsumer, BrokerQueue
from .figure_client import FigureClient
from .foreign_brokers import ForeignBrokers
from .frame_forms import FRAME_FORMS
from .group_operator import GroupOperator
from .identities import identities_of
from .key_operator import KeyOperator
from .light_reader import LightReader
from .lock_racer import LockRacer
from .message_options import draw_subscription
from .operator_client import OperatorClient
from .orderly_member import OrderlyMember
from .producer import ProducerClient
from .retry_consumer import RetryConsumer
from .route_operator import RouteOperator
from .route_watcher import RouteWatcher
from .routes import BROKER, BrokerAddress, Routes
from .settings_operator import SettingsOperator, settings_at_start
from .slave_lives import SlaveLives
from .stored_broker import BrokerSharing
from .tailing_consumer import TailingConsumer


class BrokersAndClients(NetworkRun):
    """Creates the brokers of a plan, and starts its producers, consumers and other users."""

    CONDUCTOR = "director"
    TIME_LIMIT_NS = 7_200 * 1_000_000_000

    def _prepare(self) -> None:
        super()._prepare()
        plan, choices = self._plan, self._choices
        subscription = draw_subscription(choices.stream("group"), plan)
        has_steady_clock = not plan.disturbances.clock_step_chance
        self._identities = identities_of(plan)
        self._accounts: dict[str, BrokerAccount] = {}
        histories: dict[str, MasterHistory] = {}
        settlings: dict[str, Settling] = {}
        hits: Counter[str] = Counter()
        for identity in self._identities:
            if not identity.address.is_slave:
                name = identity.address.broker
                times = PullTimes(plan, self._last_delay_ends_ns)
                settling = settlings[name] = self._settling if identity.is_first else self._settling.for_other_store()
                settling.ledger.clock_set_back = self._disturbances.set_back
                settling.ledger.transactions.check_max = plan.broker_settings.transaction_check_max
                at_start = settings_at_start(plan)
                self._accounts[name] = BrokerAccount(
                    *(settling.ledger, plan.sync_flush, subscription, times, has_steady_clock),
                    *(at_start, plan.broker.has_conf, hits),
                )
                members, questions = self._accounts[name].members, self._accounts[name].questions
                members.late_ms_max = live.delivery_of_request_ms_max(plan)
                questions.late_until_ns, questions.paused_ns = self._late_until_ns, self._disturbances.paused_ns
                questions.late_ms_max = live.undelayed_request_ms_max(plan)
                members.are_notified = plan.broker_settings.notify_consumer_ids_changed_enable
                if plan.access.clients:
                    delayed_until_ns = partial(self._last_delay_ends_ns, identity.host)
                    stream = choices.stream(f"accounts of {name}")
                    self._accounts[name].access = access_model(stream, plan, delayed_until_ns)
                histories[name] = MasterHistory()
        replication: BrokerReplication | None = None
        if plan.cluster.slaves:
            paused_ns, ledger = self._disturbances.paused_ns, self._settling.ledger
            replication = BrokerReplication(plan, self._kernel, self._judge, ledger, paused_ns, histories[BROKER])
        self._brokers = [
            BrokerNode(
                BrokerSharing(
                    plan,
                    self._kernel,
                    settlings[identity.address.broker],
                    self._accounts[identity.address.broker],
                    histories[identity.address.broker],
                    replication if identity.address.broker == BROKER else None,
                    lambda: self._brokers[0].serving_broker,
                    self._operator_tables,
                    self._keys_at,
                    self._disturbances.pause_woken,
                ),
                identity,
                [other for other in self._identities if other is not identity],
                self.simulation.lifecycle(faults=plan.faults, timing=sync_timing_of(plan)),
            )
            for identity in self._identities
        ]
        self._slave_lives = SlaveLives(plan, choices.stream, hits)
        self._client_machines: list[ClientMachine] = []
        self._producers: list[ProducerClient] = []
        self._consumers: list[BrokerConsumer] = []
        self._users: list[BrokerUser] = []

    @property
    def _used_nodes(self) -> list[BrokerNode]:
        return [node for node in self._brokers if node.has_been_on]

    def _last_delay_ends_ns(self, host: str) -> int:
        return max(self._late_until_ns(host), self._disturbances.paused_until_ns)

    def _late_until_ns(self, host: str) -> int:
        slow_until_ns = (node.life.disk.slow_until_ns for node in self._used_nodes)
        return max([self._links.late_until_ns(host), *slow_until_ns])

    def _injection_counters(self) -> Iterable[Counter[str]]:
        return [*super()._injection_counters(), *(machine.injected for machine in self._client_machines)]

    def _count_puts(self) -> None:
        outcome = self._outcome
        hits = next(iter(self._accounts.values())).hits
        assert hits.keys() <= MARKS.keys(), f"without a meaning: {hits.keys() - MARKS.keys()}"
        outcome.marks += hits
        outcome.messages = sum(producer.drawn_count for producer in self._producers)
        outcome.put_us = Counter(us for producer in self._producers for us in producer.answered_us)

    def _start_clients(self) -> None:
        plan = self._plan
        run = UserContext(
            plan,
            self._accounts,
            self._make_client_machine,
            self._make_routes,
            self._choices.stream,
            self._judge.report,
            self._master_store,
            self._store_at,
            lambda: self._kernel.now_ns,
            lambda broker: max(node.tidies_at_ns for node in self._brokers if self._is_master_of(node, broker)),
        )
        self._producers += [ProducerClient(run, number) for number in range(plan.producers)]
        topics, ids = map(topic_of_users, range(plan.topics)), range(plan.queues_per_topic)
        queues = [BrokerQueue(*queue) for queue in product(self._accounts, topics, ids)]
        for number in range(plan.consumers):
            consumer = BrokerConsumer(run, number, queues[number :: plan.consumers])
            consumer.machine.on_death = partial(self._hand_over_queues, consumer)
            self._consumers.append(consumer)
        for number in range(plan.broker.tailing_consumers):
            TailingConsumer(run, number, queues)
        if plan.light_queues.chance:
            self._users += [LightReader(run, number) for number in range(plan.broker.light_readers)]
        self._start_users(run, queues)

    def _start_users(self, run: UserContext, queues: list[BrokerQueue]) -> None:
        addresses = [each.address for each in self._identities]
        if self._plan.broker.operators:
            self._users.append(OperatorClient(run, queues, addresses))
        if self._plan.broker.group_operators:
            self._users.append(GroupOperator(run))
        if self._plan.broker.lock_racers:
            self._users.append(LockRacer(run))
        if self._plan.broker.settings_operators:
            self._users.append(SettingsOperator(run, queues, addresses))
        if self._plan.broker.client_questions:
            self._users.append(ClientQuestioner(run))
        if self._plan.access.clients:
            self._users.append(AccessClient(run))
        if self._plan.broker.watches_routes:
            self._users.append(RouteWatcher(run, self._presences, REGISTER_MS))
        if self._plan.broker.route_operators:
            self._users.append(RouteOperator(run, addresses))
        if self._plan.broker.foreign_brokers:
            self._users.append(ForeignBrokers(run, addresses))
        if self._plan.broker.key_operators:
            self._users.append(KeyOperator(run, addresses))
        self._users += [FigureClient(run, number, queues) for number in range(self._plan.index.seekers)]
        for number in range(self._plan.broker.group_members):
            self._users.append(OrderlyMember(run, number, queues))
        self._users += [RetryConsumer(run, number, queues) for number in range(self._plan.retry.failing_consumers)]

    def _is_master_of(self, node: BrokerNode, broker: str) -> bool:
        return node.identity.address.broker == broker and not node.is_slave

    def _presences(self) -> dict[BrokerAddress, Presence]:
        return {node.identity.address: node.presence for node in self._brokers}

    def _operator_tables(self, broker: str) -> tuple[OperatorTables, int] | None:
        nodes = (node for node in self._brokers if node.identity.address.broker == broker and not node.is_slave)
        serving = ((node.account.tables, node.presence.serves_since_ns) for node in nodes)
        return next(((tables, since_ns) for tables, since_ns in serving if since_ns is not None), None)

    def _keys_at(self, address: str) -> NameServerKeys:
        return next(node.keys for node in self._brokers if node.identity.address.address == address)

    def _master_store(self, broker: str) -> MessageStore | None:
        nodes = (node for node in self._used_nodes if node.identity.address.broker == broker and not node.is_slave)
        return next((node.store for node in nodes if node.is_alive), None)

    def _store_at(self, address: BrokerAddress) -> MessageStore | None:
        nodes = (node for node in self._used_nodes if node.identity.address == address and node.is_alive)
        return next((node.store for node in nodes), None)

    def _make_routes(self, world: World) -> Routes:
        addresses = [identity.address for identity in self._identities]
        only_broker = addresses[0] if len(addresses) == 1 else None
        hits = next(iter(self._accounts.values())).hits
        encode = frame_of_others if self._plan.access.clients else encode_frame
        if self._plan.broker.other_clients:
            encode = self._choices.stream("forms of frames").choice(FRAME_FORMS, "form of a client")
        servers, report = [each.address for each in addresses], self._judge.report
        first = self._choices.stream("name servers").randbelow(len(servers), "first name server of a client")
        return Routes(world, servers, hits, first=first, only_broker=only_broker, encode=encode, report=report)

    def _make_client_machine(self, name: str, host_number: int) -> ClientMachine:
        machine = ClientMachine(
            self._kernel,
            self._director,
            self._network,
            self._choices.stream(f"{name}/machine"),
            name=name,
            host=f"10.0.0.{host_number}",
            death_chance=self._plan.broker.client_death_chance,
        )
        self._client_machines.append(machine)
        return machine

    def _hand_over_queues(self, dead: BrokerConsumer) -> None:
        others = [each for each in self._consumers if each is not dead]
        if others and self._choices.stream("group").chance(0.5, "another takes over"):
            dead.hand_over_queues(self._choices.stream("group").choice(others, "who takes over"))

    @property
    def _unanswered_count(self) -> int:
        return sum(producer.unanswered_count for producer in self._producers)

    def _give_messages(self, number: int, messages_each: int) -> None:
        skew = draw_skew(self._choices.stream(f"life-{number}/skew"), self._plan)
        for index, producer in enumerate(self._producers):
            names = message_names(self._plan, number, index, messages_each)
            producer.add_messages(skew.names_to_put(index, names), skew)

    def _unfinished_text(self) -> str:
        return next((text for user in self._users if (text := user.unfinished_text())), "")

    def _unanswered_text(self) -> str:
        counts = [producer.unanswered_count for producer in self._producers]
        return f"{counts} not" if any(counts) else ""

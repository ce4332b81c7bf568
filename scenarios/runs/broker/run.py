"""One run of a broker that clients talk to over a network: it dies and comes back, they go on as clients do.

    draw a plan → lives: the broker starts, producers are given messages, it ends → heal: everything must be answered,
    shown to consumers, and found after a clean stop

Clients outlive the broker: what a life ends in the midst of, they send again to the next. A director, a machine that
nothing happens to, conducts all this. Disks are honest here; what disks do to stores is the matter of other runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

from ....faults.crashes.profiles import PROFILES
from ....faults.disk.disk import Disk
from ....faults.network import NetworkFaults
from ....sim.disturbances import Disturbances
from ....sim.machine import Machine
from ....sim.network.hosts import SimNetwork
from ....store.world import World
from ...claims.plan import Life, LifeEnding
from ...workload.traffic import message_names
from ..execution import HEAL, HEAL_MESSAGES_EACH, Execution, timing_of
from .broker_node import ADDRESS, TRANSACTION_MS, BrokerNode
from .client_ledger import ClientLedger, topic_of_users
from .consumer import BrokerConsumer
from .producer import Producer

PRODUCERS_HOST, CONSUMERS_HOST = "10.0.0.2", "10.0.0.3"
TIME_LIMIT_NS = 7_200 * 1_000_000_000
SETTLE_MS_MAX = 90_000
"""How long clients may take, once all is well, until everything is answered and shown: an answer that never comes is
waited for a little longer than a pull may be held, and a connection that was lost is found out by then."""
DECIDED_MS = 20 * TRANSACTION_MS
"""How long half messages are given until they are decided or given up: they are asked about 15 times."""
_LOOK_MS = 100


class BrokerRun(Execution):
    """One run of one plan with a broker."""

    def _prepare(self) -> None:
        plan, choices = self._plan, self._choices
        self._links = NetworkFaults(self._kernel, choices.stream("network"), plan.network)
        self._network = SimNetwork(self._kernel, self._links, buffer_bytes=plan.broker.buffer_bytes)
        self._disturbances = Disturbances(self._kernel, choices.stream("disturbances"), plan.disturbances)
        self._director = self._kernel.machine("director")
        self._clients = ClientLedger(plan.sync_flush)
        self._broker = BrokerNode(plan, self._judge, self._settling, self._clients)
        self._producers: list[Producer] = []
        self._consumers: list[BrokerConsumer] = []
        self._lasting = self.simulation.lifecycle(faults=plan.faults, timing=timing_of(plan))

    def _play(self) -> None:
        with self._judge.judged_errors():
            self._kernel.run(self._director, self._conduct, time_limit_ns=TIME_LIMIT_NS)

    def _injected(self) -> Iterable[Counter[str]]:
        return [self._links.injected, self._disturbances.injected]

    def _count_puts(self) -> None:
        outcome = self._outcome
        outcome.marks += self._clients.hits
        outcome.messages = len(self._clients.sends)
        outcome.put_us = Counter(us for producer in self._producers for us in producer.answered_us)

    def _conduct(self) -> None:
        self._start_clients()
        self._disturbances.start()
        stream = self._choices.stream("between lives")
        for number, life in enumerate(self._lives):
            self._live(number, life)
            self._director.tasks.sleep(stream.between(1, self._plan.broker.off_ms_max, "ms off"))
            for consumer in self._consumers:
                if stream.chance(self._plan.broker.consumer_restart_chance, "a consumer restarts"):
                    consumer.restart()
        self._heal()

    def _start_clients(self) -> None:
        plan, report = self._plan, self._judge.report
        sending = self._client("producers", PRODUCERS_HOST)
        pulling = self._client("consumers", CONSUMERS_HOST)
        for number in range(plan.producers):
            stream = self._choices.stream(f"producer-{number}")
            headers = self._choices.stream(f"producer-{number}/headers")
            hosts = (PRODUCERS_HOST, ADDRESS)
            producer = Producer(plan, number, sending, *hosts, self._clients, stream, headers, report)
            self._producers.append(producer)
            sending.tasks.spawn(f"producer-{number}", producer.run)
        queues = list(product(map(topic_of_users, range(plan.topics)), range(plan.queues_per_topic)))
        for number in range(plan.consumers):
            own = queues[number :: plan.consumers]
            consumer = BrokerConsumer(plan, pulling, ADDRESS, self._clients, own, report)
            self._consumers.append(consumer)
            consumer.start()

    def _client(self, name: str, host: str) -> World:
        machine = self._kernel.machine(name)
        disk = Disk(self._kernel, self._choices.stream(f"{name}/disk"))
        return World(machine.clock, machine.tasks, disk.mount(machine), self._network.join(machine, host))

    # -- lives -------------------------------------------------------------------------------------

    def _live(self, number: int, life: Life) -> None:
        """Let the broker start, give producers their messages, and end it."""
        self._number = number
        self._boot(number, life)
        self._give(number, life.messages_each)
        while self._broker.is_alive and self._unanswered():
            self._director.tasks.sleep(_LOOK_MS)
        self._finish(life)

    def _give(self, number: int, messages_each: int) -> None:
        for index, producer in enumerate(self._producers):
            producer.give(message_names(self._plan, number, index, messages_each))

    def _boot(self, number: int, life: Life | None) -> None:
        """Switch the broker's machine on and start it; life: what it is to end in."""
        disk = self._lasting.find(f"disk-{number}", faulty=life is not None)
        machine = self._kernel.machine(f"life-{number}")
        endpoint = self._network.join(machine, self._broker.host)
        if life is not None:
            endpoint.dies_silently = life.profile != "process-kill"
            if life.ending == LifeEnding.CRASH_IN_LOAD:
                self._arm(disk)
        self._run_on(machine, "boot", partial(self._broker.boot, machine, disk, endpoint))
        if life is not None and life.ending != LifeEnding.CRASH_IN_LOAD:
            self._arm(disk)

    def _run_on(self, machine: Machine, name: str, body: Callable[[], None]) -> None:
        self._kernel.spawn(machine, name, body).join(None)

    def _finish(self, life: Life) -> None:
        """End a broker that has not died of itself, and keep what it leaves."""
        broker = self._broker
        machine, disk, endpoint = broker.running
        if broker.is_alive and life.is_stop:
            self._run_on(machine, "stop", broker.stop)
        if broker.is_alive and life.is_stop:  # it was clean, or the machine would have died of it
            endpoint.dies_silently = False
            self._kernel.kill(machine)
            self._marks.note_end(life, disk, crashed=False, recovered=True)
            self._clients.note_stop()
            self._lasting.leave_after_stop(disk)
            return
        profile = PROFILES[life.profile]
        self._note_crash()
        self._kernel.kill(machine)
        self._marks.note_end(life, disk, crashed=True, recovered=broker.store is not None)
        flushed_where = 0
        if broker.store is not None:
            self._judge.claims(broker.store, disk)
            flushed_where = broker.store.log.flushed_where.get()
        self._clients.note_crash(profile, flushed_where=flushed_where)
        self._lasting.leave_after_crash(disk, profile)

    # -- in the end --------------------------------------------------------------------------------

    def _heal(self) -> None:
        """For safety, look at what is left. For liveness, let all be well, and see everything answered and shown."""
        number = self._number = len(self._lives)
        self._disturbances.stop()
        if self._plan.heals:
            self._network.heal()
            self._boot(number, None)
            for producer in self._producers:
                producer.insists = True
            for consumer in self._consumers:
                consumer.insists = True
            self._give(number, HEAL_MESSAGES_EACH)
            self._await(self._unanswered, "sends are not answered", "producers", "all done")
            if self._plan.transactions.chance:
                self._director.tasks.sleep(DECIDED_MS)
            self._await(self._behind, "consumers do not catch up", "delivery", "all queues")
            self._finish(HEAL)
        machine = self._kernel.machine("after")
        disk = self._lasting.find("after", faulty=False)
        settled = self._plan.heals
        shown = settled and self._plan.consumers > 0
        self._run_on(machine, "look", partial(self._broker.look, machine, disk, settled=settled, shown=shown))

    def _await(self, left: Callable[[], str], summary: str, field: str, expected: str) -> None:
        """Wait until nothing is left; a broken promise if something still is after SETTLE_MS_MAX."""
        deadline_ns = self._kernel.now_ns + SETTLE_MS_MAX * 1_000_000
        while found := left():
            if self._kernel.now_ns > deadline_ns:
                self._judge.broken("LIVE", summary, field, expected, found)
            self._director.tasks.sleep(_LOOK_MS)

    def _unanswered(self) -> str:
        count = sum(not producer.is_idle for producer in self._producers)
        return f"{count} not" if count else ""

    def _behind(self) -> str:
        """Return the queues of which consumers have not been given everything."""
        store = self._broker.store
        assert store is not None, "it has been loaded"
        return ", ".join(
            f"{topic}/{queue_id} {position} of {end}"
            for consumer in self._consumers
            for (topic, queue_id), position in consumer.positions.items()
            if (end := store.get_max_offset_in_queue(topic, queue_id)) > (-1 if position is None else position)
        )

"""One run of a broker that clients talk to over a network: it dies and comes back, they go on as clients do.

    draw a plan → lives: the broker starts, producers are given messages, it ends → heal: everything must be answered,
    shown to consumers, and found after a clean stop

Clients outlive the broker: what a life ends in the midst of, they send again to the next. Their machines may die, too.
A director, a machine that nothing happens to, conducts all this. The broker's disk may fail until all is to be well; it
does not lie, nor lose what it holds: that is the matter of other runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

from ....faults.crashes.profiles import PROFILES
from ....faults.kinds import FaultKind
from ....faults.network import NetworkFaults
from ....sim.disturbances import Disturbances
from ....sim.machine import Machine
from ....sim.network.hosts import SimNetwork
from ....store.broker.remoting_client import CONNECT_MS
from ....store.log.transient_pool import BufferedSegmentQueue
from ...claims.machine import DELAYS_MS
from ...claims.plan import Life, LifeEnding, Plan
from ...oracle import allowances
from ...workload.skew import draw_skew
from ...workload.traffic import message_names
from ..execution import HEAL, HEAL_MESSAGES_EACH, Execution, timing_of
from .broker_node import ADDRESS, TRANSACTION_MS, BrokerNode
from .client_ledger import ClientLedger, topic_of_users
from .client_machine import ClientMachine
from .consumer import PATIENCE_MS, BrokerConsumer
from .message_options import draw_subscription
from .producer import Producer
from .pull_times import PullTimes

PRODUCERS_NET, CONSUMERS_NET = 10, 30
"""The last parts of the first such client's address."""
TIME_LIMIT_NS = 7_200 * 1_000_000_000
DECIDED_MS = 20 * TRANSACTION_MS
"""How long half messages are given until they are decided or given up: they are asked about 15 times."""
DELIVERED_MS = max(DELAYS_MS.values()) + 2_000
"""How long messages that are to wait are given until they are delivered: a level is looked at ten times a second."""
_LOOK_MS = 100
_DELAYING = (FaultKind.LATE_DELIVERY, FaultKind.PARTITION, FaultKind.ONE_WAY_LINK, FaultKind.SLOW_LINK)


def _step_ms_max(plan: Plan) -> int:
    """Return how long clients may take for one step forward, in ms, once all is well.

    A producer may pause first. What was asked of the life before may never be answered, and is waited for as long as
    its client waits for any answer. What is asked then goes over a new connection, and may have to wait for its flush.
    """
    broker, pauses = plan.broker, plan.pauses
    patience_ms = max(broker.send_timeout_ms, broker.suspend_ms + PATIENCE_MS) + CONNECT_MS
    return (pauses.ms_max if pauses.chance else 0) + 2 * patience_ms


class BrokerRun(Execution):
    """One run of one plan with a broker."""

    def _prepare(self) -> None:
        plan, choices = self._plan, self._choices
        self._links = NetworkFaults(self._kernel, choices.stream("network"), plan.network)
        self._network = SimNetwork(self._kernel, self._links, buffer_bytes=plan.broker.buffer_bytes)
        self._disturbances = Disturbances(self._kernel, choices.stream("disturbances"), plan.disturbances)
        self._director = self._kernel.machine("director")
        subscription = draw_subscription(choices.stream("group"), plan)
        has_steady_clock = not plan.disturbances.clock_step_chance
        times = PullTimes(plan, self._held_up_until_ns)
        self._clients = ClientLedger(plan.sync_flush, subscription, times, has_steady_clock)
        self._broker = BrokerNode(plan, self._kernel, self._judge, self._settling, self._clients)
        self._client_machines: list[ClientMachine] = []
        self._producers: list[Producer] = []
        self._consumers: list[BrokerConsumer] = []
        self._lasting = self.simulation.lifecycle(faults=plan.faults, timing=timing_of(plan))

    def _play(self) -> None:
        with self._judge.judged_errors():
            self._kernel.run(self._director, self._conduct, time_limit_ns=TIME_LIMIT_NS)

    def _held_up_until_ns(self) -> int:
        """Return when all is over that has held clients or their broker up; nobody knows it of what links delay."""
        if any(self._links.injected[kind] for kind in _DELAYING):
            return self._kernel.now_ns
        _, disk, _ = self._broker.running
        return max(self._disturbances.paused_until_ns, disk.slow_until_ns)

    def _injected(self) -> Iterable[Counter[str]]:
        machines = [machine.injected for machine in self._client_machines]
        return [self._links.injected, self._disturbances.injected, *machines]

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
        for number in range(plan.producers):
            machine = self._client_machine(f"producer-{number}", PRODUCERS_NET + number)
            stream = self._choices.stream(f"producer-{number}")
            headers = self._choices.stream(f"producer-{number}/headers")
            producer = Producer(plan, number, machine, ADDRESS, self._clients, stream, headers, report)
            self._producers.append(producer)
        queues = list(product(map(topic_of_users, range(plan.topics)), range(plan.queues_per_topic)))
        for number in range(plan.consumers):
            own = queues[number :: plan.consumers]
            machine = self._client_machine(f"consumer-{number}", CONSUMERS_NET + number)
            consumer = BrokerConsumer(plan, machine, ADDRESS, self._clients, own, report)
            machine.on_death = partial(self._hand_over, consumer)
            self._consumers.append(consumer)

    def _client_machine(self, name: str, host_number: int) -> ClientMachine:
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

    def _hand_over(self, dead: BrokerConsumer) -> None:
        """Let another member of the group take over from one that has died, if chance has it so."""
        others = [each for each in self._consumers if each is not dead]
        if others and self._choices.stream("group").chance(0.5, "another takes over"):
            dead.hand_over(self._choices.stream("group").pick(others, "who takes over"))

    # -- lives -------------------------------------------------------------------------------------

    def _live(self, number: int, life: Life) -> None:
        """Let the broker start, give producers their messages, and end it."""
        self._number = number
        self._boot(number, life)
        self._give(number, life.messages_each)
        while self._broker.is_alive and self._unanswered():
            self._director.tasks.sleep(_LOOK_MS)
        rest = self._choices.stream("rests")
        due_ns = self._kernel.now_ns + rest.between(0, self._plan.broker.rest_ms_max, "ms of a rest") * 1_000_000
        while self._broker.is_alive and self._kernel.now_ns < due_ns:
            self._director.tasks.sleep(_LOOK_MS)
        self._finish(life)

    def _give(self, number: int, messages_each: int) -> None:
        skew = draw_skew(self._choices.stream(f"life-{number}/skew"), self._plan)
        for index, producer in enumerate(self._producers):
            names = message_names(self._plan, number, index, messages_each)
            producer.give(skew.taken(index, names), skew)

    def _boot(self, number: int, life: Life | None) -> None:
        """Switch the broker's machine on and start it; life: what it is to end in."""
        disk = self._lasting.find(f"disk-{number}", faulty=life is not None)
        machine = self._kernel.machine(f"life-{number}")
        endpoint = self._network.join(machine, self._broker.host)
        if life is not None:
            endpoint.dies_silently = life.profile != "process-kill"
            if life.ending == LifeEnding.CRASH_IN_LOAD:
                self._arm(disk)
        disk.capacity_bytes = None
        self._run_on(machine, "boot", partial(self._broker.boot, machine, disk, endpoint))
        if life is not None and self._plan.capacity_bytes:
            disk.capacity_bytes = self._plan.capacity_bytes
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
            self._clients.note_stop(keeps_progress=broker.has_kept_progress)
            self._lasting.leave_after_stop(disk, power_cut=self._power_cut_after_stop(life))
            return
        profile = PROFILES[life.profile]
        self._note_crash()
        self._kernel.kill(machine)
        self._marks.note_end(life, disk, crashed=True, recovered=broker.store is not None)
        flushed_where, committed_where = 0, None
        if broker.store is not None:
            self._judge.claims(broker.store, disk)
            flushed_where = broker.store.log.flushed_where.get()
            if isinstance(broker.store.log, BufferedSegmentQueue):
                committed_where = broker.store.log.committed_where
        self._clients.note_crash(
            profile,
            flushed_where=flushed_where,
            committed_where=committed_where,
            cache_is_whole=not allowances.has_reverted(disk),
        )
        self._lasting.leave_after_crash(disk, profile)

    # -- in the end --------------------------------------------------------------------------------

    def _heal(self) -> None:
        """For safety, look at what is left. For liveness, let all be well, and see everything answered and shown."""
        number = self._number = len(self._lives)
        self._disturbances.stop()
        if self._plan.heals:
            self._network.heal()
            self._boot(number, None)
            for client_machine in self._client_machines:
                client_machine.spare()
            for producer in self._producers:
                producer.insists = True
            for consumer in self._consumers:
                consumer.insists = True
            self._give(number, HEAL_MESSAGES_EACH)
            self._await(self._unanswered, "sends are not answered", "producers", "all done")
            if self._plan.transactions.chance:
                self._director.tasks.sleep(DECIDED_MS)
            if self._plan.delay.chance:
                self._director.tasks.sleep(DELIVERED_MS)
            self._await(self._behind, "consumers do not catch up", "delivery", "all queues")
            self._come_to_rest()
            self._finish(HEAL)
        machine = self._kernel.machine("after")
        disk = self._lasting.find("after", faulty=False)
        settled = self._plan.heals
        shown = settled and self._plan.consumers > 0
        self._run_on(machine, "look", partial(self._broker.look, machine, disk, settled=settled, shown=shown))

    def _await(self, left: Callable[[], str], summary: str, field: str, expected: str) -> None:
        """Wait until nothing is left; a broken promise if what is left stays the same for longer than a step takes."""
        step_ns, before, since_ns = _step_ms_max(self._plan) * 1_000_000, "", 0
        while found := left():
            if found != before:
                before, since_ns = found, self._kernel.now_ns
            if self._kernel.now_ns > since_ns + step_ns:
                self._judge.broken("LIVE", summary, field, expected, found)
            self._director.tasks.sleep(_LOOK_MS)

    def _come_to_rest(self) -> None:
        """Wait until the broker has nothing left to do."""
        store, (_, disk, _) = self._broker.store, self._broker.running
        assert store is not None, "it has been loaded"
        self._settling.come_to_rest(store, disk, self._broker.cursors, sleep=self._director.tasks.sleep)

    def _unanswered(self) -> str:
        counts = [producer.waiting for producer in self._producers]
        return f"{counts} not" if any(counts) else ""

    def _behind(self) -> str:
        """Return what is not visible yet, or else the queues of which consumers have not been given everything."""
        store = self._broker.store
        assert store is not None, "it has been loaded"
        reput_from = store.dispatch.reput_from.get()
        if store.log.max_offset < store.log.put_offset or reput_from < store.dispatch.readable_limit():
            return f"the log from {reput_from} on"
        return ", ".join(
            f"{topic}/{queue_id} {position} of {end}"
            for consumer in self._consumers
            for (topic, queue_id), position in consumer.positions.items()
            if (end := store.get_max_offset_in_queue(topic, queue_id)) > (-1 if position is None else position)
        )

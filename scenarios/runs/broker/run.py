"""Broker run: brokers and their clients on a network. The machines of both die and restart.

    draw a plan → repeat: start all machines that are off, give producers messages, end one machine → heal: every
    message must be answered, consumed, replicated, and found after a clean stop

Usually there is one broker. A plan may add slaves, and other masters of the same cluster, each a name server.
Clients keep running while a broker restarts, and repeat unanswered requests. An additional machine, the director,
controls the run. The broker's disk may return errors until all faults end, but never lies about syncs or loses data;
other runs cover that.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ....faults.crashes.profiles import PROFILES
from ....store.broker.broker_config import MASTER_ID
from ....store.broker.outer_api import INTERVAL_MS, SYNCHRONIZE_TIMEOUT_MS
from ....store.broker.remoting_client import CONNECT_MS
from ....store.message_store import MessageStore
from ....store.replication.ha_client import RECONNECT_MS
from ...claims.machine import DELAYS_MS, config_of
from ...claims.plan import Life, LifeEnding, Plan
from ...oracle import allowances, guarantees
from ...oracle.invariants import live
from ..execution import HEAL, HEAL_MESSAGES_EACH
from ..machines import OFF
from .broker_node import BrokerNode
from .broker_settings import REGISTER_MS
from .broker_user import ANSWER_MS
from .brokers_and_clients import BrokersAndClients
from .group_member import SETTLE_MS as MEMBERS_SETTLE_MS
from .remoting_sender import patient_timeout_ms
from .routes import NAME_SERVER_MS, ROUTES_MS

DELIVERED_MS = max(DELAYS_MS.values()) + 2_000
"""The time limit for the delivery of a delayed message. Delivery checks each level ten times a second."""
_SILENT_LOSS_CHANCE = 0.7
_WRONG_HA_ADDRESS = "10.0.0.99:10912"
"""No machine has this host."""
_LOOK_MS = 100
_LOOK_CLOSELY_MS = 10


def _step_ms_max(plan: Plan) -> int:
    """Return how long clients may make no progress after all faults have ended.

    A producer may pause first. A request from before a restart may get no answer, so the client waits until the
    timeout. The next request needs a new connection, and may wait for a flush.
    """
    broker, pauses = plan.broker, plan.pauses
    patience_ms = max(patient_timeout_ms(plan), broker.suspend_ms + ANSWER_MS) + CONNECT_MS
    step_ms = (pauses.ms_max if pauses.chance else 0) + 2 * patience_ms
    if plan.cluster.slaves or plan.broker.masters > 1:  # the time until routes contain all brokers again
        step_ms += REGISTER_MS + ROUTES_MS + 2 * NAME_SERVER_MS
    if plan.cluster.slaves:  # a SYNC_MASTER answers only after a slave has connected
        step_ms += REGISTER_MS + config_of(plan).ha_housekeeping_interval_ms + RECONNECT_MS + CONNECT_MS
    if plan.broker.group_members:
        step_ms += MEMBERS_SETTLE_MS
    if plan.retry.failing_consumers:
        step_ms += DELIVERED_MS
    return step_ms


class BrokerRun(BrokersAndClients):
    """One run of one plan with brokers."""

    def _run_lives(self) -> None:
        self._start_clients()
        self._disturbances.start()
        stream = self._choices.stream("between lives")
        for number, life in enumerate(self._lives):
            self._run_life(number, life)
            off_ms = stream.randint(1, self._plan.broker.off_ms_max, "ms off")
            for consumer in self._consumers:
                if stream.chance(self._plan.broker.consumer_restart_chance, "a consumer restarts"):
                    consumer.restart_at_committed()
            self._director.tasks.sleep(off_ms)
        self._finish_run()

    # -- starts and stops --------------------------------------------------------------------------

    def _run_life(self, number: int, life: Life) -> None:
        self._number = number
        victim = self._brokers[life.node % len(self._brokers)]
        absent = self._slave_lives.begin_life(self._brokers, victim, self._kernel.now_ns)
        for node in self._brokers:
            if node.name in absent:
                continue
            if not node.is_alive:
                self._boot_broker(node, number, life if node is victim else OFF)
            elif node is victim:
                node.set_connection_end_mode(life)
                self._arm_death(node.life.disk)
        self._give_messages(number, life.messages_each)
        if life.ending is LifeEnding.STOP_IN_TRAFFIC:
            self._wait_for_a_send(victim)
        else:
            self._wait_for_clients(victim)
        for node in self._used_nodes:
            if (node is victim or not node.is_alive) and not node.is_disk_kept:
                self._end_broker(node, life if node is victim else OFF)

    def _wait_for_a_send(self, victim: BrokerNode) -> None:
        """Wait until a random number of messages has no answer, or the victim has died."""
        stream, given = self._choices.stream("stops"), self._unanswered_count
        left = stream.randint(1, given, "messages left at a stop") if given else 0
        while victim.is_alive and self._unanswered_count > left:
            self._sleep_and_end_slaves(_LOOK_CLOSELY_MS)

    def _wait_for_clients(self, victim: BrokerNode) -> None:
        """Wait until producers have finished and a pause has passed, or the victim has died."""
        while victim.is_alive and self._unanswered_text():
            self._sleep_and_end_slaves(_LOOK_MS)
        rest = self._choices.stream("rests")
        due_ns = self._kernel.now_ns + rest.randint(0, self._plan.broker.rest_ms_max, "ms of a rest") * 1_000_000
        while victim.is_alive and self._kernel.now_ns < due_ns:
            self._sleep_and_end_slaves(_LOOK_MS)

    def _sleep_and_end_slaves(self, ms: int) -> None:
        self._director.tasks.sleep(ms)
        for slave, death in self._slave_lives.due_deaths(self._brokers, self._kernel.now_ns):
            slave.set_connection_end_mode(death)
            self._end_broker(slave, death, ends_life=False)

    def _boot_broker(self, node: BrokerNode, number: int, life: Life | None) -> None:
        if not node.is_disk_kept:  # a disk error killed its machine while other brokers restarted
            self._end_broker(node, OFF)
        self._slave_lives.prepare_start(node)
        prefix = "" if node.identity.is_first else f"{node.name}/"
        disk = node.lasting.find_disk(f"{prefix}disk-{number}", faulty=life is not None)
        machine = self._switch_on(node, f"{prefix}life-{number}", disk)
        if life is not None:
            node.set_connection_end_mode(life)
            if life.ending == LifeEnding.CRASH_IN_LOAD:
                self._arm_death(disk)
        disk.capacity_bytes = None
        if node.is_slave and self._used_nodes[0].is_alive:
            self._used_nodes[0].record_log()
        self._run_on_machine(machine, "boot", node.boot)
        if life is not None and self._plan.capacity_bytes:
            disk.capacity_bytes = self._plan.capacity_bytes
        if life not in (None, OFF) and life.ending != LifeEnding.CRASH_IN_LOAD:
            self._arm_death(disk)

    def _end_broker(self, node: BrokerNode, life: Life, *, ends_life: bool = True) -> None:
        """A broker that is already dead counts as crashed. ends_life: whether the plan's life ends, too."""
        assert not node.is_disk_kept, f"{node.name} has ended"
        node.is_disk_kept = True
        machine, disk, endpoint = node.life
        with self._kernel.without_scheduling_points():
            found = list(node.check_life(self._used_nodes[0]))
        self._judge.report(found)
        if node.is_alive and life.is_stop:
            self._run_on_machine(machine, "stop", node.stop)
        if node.is_alive and life.is_stop:  # the machine still runs, so the stop was clean
            endpoint.dies_silently = False
            self._kernel.kill(machine)
            self._marks.note_end(life, disk, crashed=False, recovered=True)
            if not node.is_slave:
                node.account.note_stop(self._kernel.now_ns, keeps_progress=node.has_kept_progress)
            host = "" if node.identity.is_first else f" of {node.name}"
            node.lasting.set_image_after_stop(disk, power_cut=self._power_cut_after_stop(life, host))
            return
        profile = PROFILES[life.profile]
        self._note_crash(ends_life=ends_life and life is not OFF)
        self._kernel.kill(machine)
        node.record_log()
        self._marks.note_end(life, disk, crashed=True, recovered=node.store is not None)
        if not node.is_slave:
            node.settling.judge.judge_crash(node.store, disk, profile)
            node.account.note_crash(self._persisted_within_ms, node.died_ns)
        else:
            if node.store is not None:
                node.settling.judge.judge_positions_without_retention(node.store, disk)
            node.record_crash(profile)
        node.lasting.set_image_after_crash(disk, profile)

    @property
    def _persisted_within_ms(self) -> int | None:
        """Return the time limit from the answer to a commit until it is durable; None if faults may delay this."""
        if not live.is_calm(self._plan) or self._plan.capacity_bytes:
            return None
        return self._plan.broker_settings.flush_consumer_offset_interval_ms + 2 * live.start_ms_max(self._plan)

    # -- after all faults --------------------------------------------------------------------------

    def _finish_run(self) -> None:
        """In a liveness run, end all faults and wait until every message is consumed. Then check every disk."""
        number = self._number = len(self._lives)
        self._disturbances.stop()
        if self._plan.heals:
            self._network.heal()
            self._end_all_faults(number)
            self._await_all_consumed(number)
            if self._plan.broker.slave_takes_over and self._plan.cluster.slaves and self._has_complete_slave:
                if self._plan.broker.slave_lags:
                    number += 1
                    self._let_slave_lag(number)
                self._replace_master_by_slave(number)
                self._await_all_consumed(number + 1)
        for node in self._used_nodes:
            if not node.is_disk_kept:
                self._end_broker(node, HEAL if self._plan.heals and node.is_alive else OFF)
        settled = self._plan.heals
        shown = settled and self._plan.consumers > 0
        for node in self._used_nodes:
            name = "after" if node.identity.is_first else f"{node.name}/after"
            machine = self._kernel.create_machine(name)
            disk = node.lasting.find_disk(name, faulty=False)
            self._run_on_machine(
                machine, "look", partial(node.load_and_judge, machine, disk, settled=settled, shown=shown)
            )

    def _await_all_consumed(self, number: int, *, waits_for_slaves: bool = True) -> None:
        self._give_messages(number, HEAL_MESSAGES_EACH)
        self._await_no_work_left(self._unanswered_text, "sends are not answered", "producers", "all done")
        if self._plan.transactions.chance:
            self._director.tasks.sleep(self._plan.broker_settings.decided_ms)
            if self._plan.broker.resumes_checks:
                master = self._used_nodes[0]
                self._run_on_machine(master.life.machine, "resume", master.resume_all)
                self._director.tasks.sleep(self._plan.broker_settings.decided_ms)
        if self._plan.delay.chance or self._plan.broker.send_back_chance:
            self._director.tasks.sleep(DELIVERED_MS)
        self._await_no_work_left(self._backlog_text, "consumers do not catch up", "delivery", "all queues")
        self._await_no_work_left(self._unfinished_text, "a user does not finish", "users", "all done")
        self._await_idle([node for node in self._used_nodes if waits_for_slaves or not node.is_slave])

    @property
    def _has_complete_slave(self) -> bool:
        """Return whether the first slave has its master's whole log. A slave that began empty may have only the end."""
        if self._used_nodes[1].cannot_follow:
            return False
        master, slave = self._used_nodes[0].loaded, self._used_nodes[1].loaded
        return max(slave.log.min_offset, 0) <= max(master.log.min_offset, 0)

    def _let_slave_lag(self, number: int) -> None:
        """Restart the slave with a wrong haMasterAddress, so that it copies tables, but no log, until its takeover."""
        slave = self._used_nodes[1]
        self._end_broker(slave, HEAL)
        slave.config = replace(slave.config, ha_master_address=_WRONG_HA_ADDRESS)
        self._boot_broker(slave, number, None)
        self._await_all_consumed(number, waits_for_slaves=False)
        self._director.tasks.sleep(INTERVAL_MS + SYNCHRONIZE_TIMEOUT_MS)
        slave.account.hits["slave lagged"] += 1

    def _replace_master_by_slave(self, number: int) -> None:
        lost, new_master, *others = self._used_nodes
        lost.account.ledger.commits.note_stop()
        assert new_master.copies is not None, "the new master was a slave"
        lost.account.ledger.delay_progress = new_master.copies.files.delays
        # After a power cut name servers list the lost master until the slave registers in its place.
        stream = self._choices.stream("takeover")
        lost.life.endpoint.dies_silently = stream.chance(_SILENT_LOSS_CHANCE, "the master is lost silently")
        self._end_broker(lost, OFF)
        if self._plan.broker.slave_lags:
            guarantees.note_takeover(lost.account.ledger, new_master.loaded.log.max_offset)
        self._end_broker(new_master, HEAL)
        # Lookups create groups until the end, perhaps after the slave's last copy.
        lost.account.ledger.groups &= new_master.copies.files.durable_groups
        if self._plan.broker.master_returns:
            master = new_master.identity.with_id(MASTER_ID)
            slave_id = new_master.identity.address.broker_id
            lost.return_as_slave(slave_id, [master, *(node.identity for node in others)])
            others.append(lost)
        new_master.take_over([node.identity for node in others])
        self._brokers = [new_master, *others]
        slaves = [node for node in others if node.is_slave and node is not lost and self._plan.broker.slaves_are_set_up]
        for slave in slaves:
            self._end_broker(slave, HEAL)
        for node in others:
            change = node.follow_new_master if node in slaves else node.set_other_brokers
            change([other.identity for other in self._used_nodes if other is not node])
        new_master.account.hits["slave took over"] += 1
        self._boot_broker(new_master, number + 1, None)
        for slave in slaves:
            self._boot_broker(slave, number + 1, None)
        if self._plan.broker.master_returns:
            # Clients need new routes first, and requests with an old route may wait for several connections.
            self._director.tasks.sleep(_step_ms_max(self._plan))
            self._boot_broker(lost, number + 1, None)
            lost.account.hits["lost master returned"] += 1
        for consumer in self._consumers:
            consumer.restart_at_committed()

    def _end_all_faults(self, number: int) -> None:
        """End all faults, start all brokers that are off, and prevent further deaths and give-ups of clients."""
        self._heal_disks()
        if live.may_slow_operations(self._plan) or live.may_disturb(self._plan):
            self._await_pending_operations(self._disturbances.paused_until_ns)
        for node in self._brokers:
            if node.is_alive and self._needs_restart(node):
                self._end_broker(node, OFF)
            if not node.is_alive:
                self._boot_broker(node, number, None)
        for client_machine in self._client_machines:
            client_machine.stop_deaths()
        for producer in self._producers:
            producer.insist()
        for user in (*self._consumers, *self._users):
            user.insists = True

    def _needs_restart(self, node: BrokerNode) -> bool:
        return allowances.has_any_fault(node.life.disk) or self._plan.capacity_bytes > 0

    def _await_no_work_left(self, remaining_work: Callable[[], str], summary: str, field: str, expected: str) -> None:
        """Wait until `remaining_work` returns "". A text that stays the same for `_step_ms_max` violates LIVE."""
        step_ns, before, since_ns = _step_ms_max(self._plan) * 1_000_000, "", 0
        while found := remaining_work():
            if found != before:
                before, since_ns = found, self._kernel.now_ns
            if self._kernel.now_ns > since_ns + step_ns:
                self._judge.report_and_stop("LIVE", summary, field, expected, found)
            self._director.tasks.sleep(_LOOK_MS)

    def _await_idle(self, nodes: Sequence[BrokerNode]) -> None:
        """Wait until brokers have no work left, and slaves have all of their master's data.

        The last wait is for the first slave, which may take over afterwards, because consumers commit during the other
        waits.
        """
        sleep = self._director.tasks.sleep
        master, *others = nodes
        for node in (master, *reversed(others)):
            store, (_, disk, _) = node.store, node.life
            assert store is not None, "the store is loaded"
            if not node.is_slave:
                node.settling.await_idle(store, disk, node.cursors, sleep=sleep)
            else:
                more_cursors, gives_up = (
                    partial(node.slave_cursors, self._used_nodes[0]),
                    partial(getattr, node, "cannot_follow"),
                )
                node.settling.await_idle(store, disk, more_cursors, sleep=sleep, gives_up=gives_up)
            if self._plan.retention.deletes_segments and not node.is_slave:
                self._run_on_machine(node.life.machine, "clean", node.clean)
            if node.is_slave:
                self._judge.report(node.check_replica(self._used_nodes[0]))

    def _backlog_text(self) -> str:
        stores: dict[str, MessageStore] = {}
        for node in self._used_nodes:
            if node.is_slave:
                continue
            store = stores[node.identity.address.broker] = node.loaded
            reput_from = store.dispatch.reput_from.get()
            if store.log.max_offset < store.log.put_offset or reput_from < store.dispatch.readable_limit():
                return f"the log of {node.name} from {reput_from} on"
        return ", ".join(
            f"{queue} {position} of {end}"
            for consumer in self._consumers
            for queue, position in consumer.positions.items()
            if (end := stores[queue.broker].get_max_offset_in_queue(*queue.queue))
            > (-1 if position is None else position)
        )

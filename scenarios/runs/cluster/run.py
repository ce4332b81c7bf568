"""Cluster run: a master and its slaves. One machine ends at a time while all others keep running.

    draw a plan → repeat: start all machines that are off, send traffic to the master, end one machine → heal: slaves
    catch up, or report a reason → the master's disk is lost: each slave is opened as a master

The master is checked like a single store. A slave that dies during traffic restarts during traffic. An additional
machine, the referee, controls the run.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import cast

from ....faults.crashes.profiles import PROFILES
from ....faults.disk.disk import Disk
from ....faults.kinds import FaultKind
from ....sim.choices import Stream
from ....sim.errors import MachineDied
from ....sim.machine import Machine
from ....store.config import BrokerRole
from ....store.formats.scan import ScannedRecord
from ....store.message_store import MessageStore
from ....store.network import Network
from ....store.queues.dispatch import Dispatcher, DispatchService
from ....store.replication.ha_service import HANDOVER_MS_MAX
from ....store.world import Files, World
from ...claims.machine import core_of, world_of
from ...claims.plan import Life, LifeEnding
from ...oracle import allowances, guarantees
from ...oracle.disk_space import DiskRoom, WatchedRemovals
from ...oracle.invariants import live, rep
from ...oracle.recovered import RecoveredStore, read_store
from ..execution import HEAL
from ..machines import OFF
from .node import ClusterNode
from .role_changes import LOOK_MS, RoleChanges

_GATHER_MS_MAX = 8_000
_DISPATCH_MS_MAX = 20_000
"""After this wait, the transaction check starts with incomplete queues."""
_FLIPPED_BIT = "flipped bit"
_BITS = (40, 62, 63)
"""Each of these bits makes queueOffset greater than in any possible log; 63 is the sign bit."""
_RECORDS_MAX = 8
_PROMOTION_CHANCE = 0.5
_LOOKS_BEFORE_STOP_MAX = 20
"""After at most this number of looks, a slave is stopped while users are active."""


class ClusterRun(RoleChanges):
    """One run of one plan with slaves."""

    CONDUCTOR = "referee"
    TIME_LIMIT_NS = 3_600 * 1_000_000_000

    def _prepare(self) -> None:
        super()._prepare()
        self._ledger.clock_set_back = self._disturbances.set_back

    @property
    def _used_nodes(self) -> list[ClusterNode]:
        return [self._master, *self._slaves]

    def _run_lives(self) -> None:
        for number, life in enumerate(self._lives):
            self._run_life(number, life)
        self._finish_run()
        self._open_all_alone()

    # -- starts and stops --------------------------------------------------------------------------

    def _run_life(self, number: int, life: Life) -> None:
        victim = self._used_nodes[life.node % len(self._used_nodes)]
        self._number = number
        self._switch_off_failed()
        for node in self._used_nodes:
            if node.is_alive:
                node.life.disk.cancel_crash_trigger()
                if node is victim:
                    self._arm_crash(node, life)
            else:
                self._boot_node(node, number, life if node is victim else None)
        if self._plan.cluster.gathers:
            self._await_connections()
        self._disturbances.start()
        self._run_users(number, life, victim)
        self._disturbances.stop()
        self._end_machine(victim, life)
        self._record_unnoticed_ends()

    def _record_unnoticed_ends(self) -> None:
        """Record the end of each machine that a disk error killed."""
        for node in self._used_nodes:
            if not node.is_alive and not node.has_ended:
                self._record_end(node, OFF)

    def _arm_crash(self, node: ClusterNode, life: Life) -> None:
        node.set_connection_end_mode(life)
        self._arm_death(node.life.disk)

    def _await_connections(self) -> None:
        due_ns = self._kernel.now_ns + _GATHER_MS_MAX * 1_000_000
        while self._kernel.now_ns < due_ns and any(
            slave.is_alive and slave.client.diverged is None and not slave.client.is_following for slave in self._slaves
        ):
            self._director.tasks.sleep(LOOK_MS)

    def _run_users(self, number: int, life: Life, victim: ClusterNode) -> None:
        """Run users at the master until they have finished, or the master dies or stops.

        A slave that dies or is stopped meanwhile restarts.
        """
        if not self._master.is_alive:
            return
        store, disk, machine = self._master.running
        if self._plan.transactions.chance:
            self._await_dispatch(store)
        room, on_answer = self._master.disk_room, None
        stops_in_traffic = life.ending is LifeEnding.STOP_IN_TRAFFIC
        if self._plan.cluster.sync_master:
            on_answer = partial(self._replication.check_answer, self._master, store)
        try:
            traffic = self._make_users(number, store, disk, room, on_answer)
        except MachineDied:
            if self._master.is_alive:
                raise
            return  # the master died during the wait for dispatch

        def stop_in_traffic() -> bool:
            if traffic.transactions is not None:
                traffic.transactions.shutdown()
            return self._shut_down(victim)

        def work() -> None:
            if stops_in_traffic and victim is self._master:
                clean = traffic.run_and_stop(life.messages_each, stop_in_traffic)
                has_room = not self._plan.capacity_bytes and not self._plan.faults.failed_creation_chance
                self._settling.stop(store, disk, machine, clean=clean, has_room=has_room)
                return
            traffic.run(life.messages_each)
            room.lift_limit()
            if life is HEAL:
                self._await_users_settled(store, disk, traffic)
            if traffic.transactions is not None:
                traffic.transactions.shutdown()
            self._settling.await_visible(store, disk)
            if self._plan.retention.deletes_segments:
                self._settling.await_retention(store, disk)
            self._judge.judge_positions(store, disk)

        stop_look = self._choices.stream("stops").randint(1, _LOOKS_BEFORE_STOP_MAX, "looks") if stops_in_traffic else 0
        users, starts, looks = self._kernel.spawn(machine, "users", work), 0, 0
        self._replication.note_readable(store)
        while not users.join(LOOK_MS):
            looks += 1
            if self._master.is_alive:
                self._replication.note_readable(store)
            if victim is self._master or (victim.is_alive and looks != stop_look):
                continue
            starts += 1
            if victim.is_alive:
                self._end_machine(victim, life)
            else:
                self._record_end(victim, life)
            self._boot_node(victim, number, None, again="-again" if starts == 1 else f"-again-{starts}")
            victim.set_connection_end_mode(life)

    def _await_dispatch(self, store: MessageStore) -> None:
        """Wait until the queues have all puts, because the transaction check reads earlier decisions from them.

        After a load the queues are complete. On a master that was not restarted, dispatch may lag.
        """
        due_ns = self._kernel.now_ns + _DISPATCH_MS_MAX * 1_000_000
        while self._kernel.now_ns < due_ns and self._master.is_alive:
            with self._kernel.without_scheduling_points():
                if store.dispatch.reput_from.get() >= store.log.put_offset:
                    return
            self._director.tasks.sleep(LOOK_MS)

    def _end_machine(self, node: ClusterNode, life: Life) -> None:
        if node.is_alive and life.is_stop and self._stop_node(node):
            power_cut = self._power_cut_after_stop(life, f" of {node.name}")
            node.lasting.set_image_after_stop(node.life.disk, power_cut=power_cut)
            node.has_ended = True
            if node.is_master:
                self._marks.note_end(life, node.life.disk, crashed=False, recovered=True)
                self._progress.note_stop()
                guarantees.note_stop(self._ledger)
            return
        if node.is_alive:
            self._kernel.kill(node.life.machine)
        self._record_end(node, life)

    def _stop_node(self, node: ClusterNode) -> bool:
        """Return False after an unclean stop, which kills the node."""
        store, disk, machine = node.running

        def stop() -> None:
            has_room = disk.capacity_bytes is None  # a slave that stops in traffic may have a full disk
            self._settling.stop(store, disk, machine, clean=self._shut_down(node), has_room=has_room)

        if not node.is_stopping:  # otherwise it was stopped while users were active
            with disk.with_faults(failed_creation_chance=0.0):  # a task that waits for a new file must get the file
                self._run_on_machine(machine, "stop", stop)
        if not machine.alive:
            return False
        node.life.endpoint.dies_silently = False
        self._kernel.kill(machine)
        return True

    def _shut_down(self, node: ClusterNode) -> bool:
        """Stop replication, then the store. Return whether the stop was clean."""
        if node.is_master:
            self._progress.shutdown()
        self._replication.note_stopping(node)
        heirs = [each for each in self._slaves if self._must_catch_up(each)] if node.is_master else []
        node.service.shutdown()
        if node.is_master:
            self._replication.check_stopped()
        clean = node.loaded.shutdown()
        for slave in heirs:
            if self._is_undisturbed(slave):
                self._judge.report(rep.check_handover(slave.name, slave.loaded, node.loaded.log.put_offset))
        return clean

    def _must_catch_up(self, slave: ClusterNode) -> bool:
        """Return whether a slave that no fault disturbs gets the rest of the log while its master stops."""
        if not self._is_undisturbed(slave) or slave.ha is None or not slave.client.is_following:
            return False
        # A slave notices later that its connection to the last master process has ended.
        if not any(each.remote_address.startswith(f"{slave.host}:") for each in self._master.service.connections):
            return False
        plan, latency_ms = self._plan, self._plan.network.latency_us_max // 1_000 + 1
        with self._kernel.without_scheduling_points():
            lag_bytes = self._master.loaded.log.put_offset - slave.loaded.log.max_offset
        frames, buffers = lag_bytes // plan.cluster.transfer_batch_bytes + 2, lag_bytes // plan.broker.buffer_bytes + 2
        work_ms = frames * (plan.sync_ms_max + latency_ms) + buffers * 4 * latency_ms + live.start_ms_max(plan)
        return 2 * work_ms < HANDOVER_MS_MAX

    def _is_undisturbed(self, slave: ClusterNode) -> bool:
        """Return whether a slave runs, and no fault has delayed it, its master or their network."""
        if not slave.is_alive or slave.is_stopping:
            return False
        if self._links.injected.keys() - {FaultKind.SPLIT_DELIVERY} or not live.is_calm(self._plan):
            return False
        disks = slave.life.disk, self._master.life.disk
        return not any(allowances.has_any_fault(disk) or self._replication.may_delay(disk) for disk in disks)

    def _record_end(self, node: ClusterNode, life: Life) -> None:
        disk, profile = node.life.disk, PROFILES[life.profile]
        self._note_crash(ends_life=life is not OFF)
        if node.is_master:
            self._marks.note_end(life, disk, crashed=True, recovered=node.store is not None)
            self._progress.note_crash(None)  # the referee noticed the death later, so its time is unknown
            self._judge.judge_crash(node.store, disk, profile)
            self._judge.note_damage(node.config, disk.damage)
        else:
            if node.store is not None:
                self._judge.judge_positions_without_retention(node.store, disk)
            self._replication.slave_crashed(node, profile, sync_flush=self._plan.cluster.slave_sync_flush)
        node.lasting.set_image_after_crash(disk, profile)
        node.has_ended = True

    # -- machines ----------------------------------------------------------------------------------

    def _boot_node(self, node: ClusterNode, number: int, life: Life | None, again: str = "") -> None:
        if not node.has_ended:
            self._record_end(node, OFF)  # a disk error killed the machine between two lives
        is_in_traffic = number < len(self._plan.lives)
        disk = node.lasting.find_disk(f"{node.name}{again}/disk-{number}", faulty=is_in_traffic)
        machine = self._switch_on(node, f"{node.name}{again}-life-{number}", disk)
        disk.capacity_bytes = None
        node.disk_room = DiskRoom(self._kernel, disk, self._disturbances.paused_ns)
        if life is not None:
            self._arm_crash(node, life)
        if node.is_master:
            self._ledger.begin_life()
            self._progress.begin_life()
        self._run_on_machine(machine, "boot", partial(self._start_node, node, *node.life))
        if is_in_traffic and self._plan.capacity_bytes:
            node.disk_room.limit_capacity(self._plan.capacity_bytes)

    def _start_node(self, node: ClusterNode, machine: Machine, disk: Disk, endpoint: Network) -> None:
        store = self._load_node(node, machine, disk, self._replication.network_of(node, endpoint))
        if node.is_master:
            self._replication.watch_waits(store)
            self._progress.start(store)
        self._start_store(store, disk, machine)
        node.replicate(store)

    def _load_node(self, node: ClusterNode, machine: Machine, disk: Disk, network: Network | None) -> MessageStore:
        if node.is_master:  # a timeline shows the master's files only
            world = world_of(machine, disk, network, core=core_of(self._plan))
        else:
            world = World(machine.clock, machine.tasks, disk.mount(machine), network, core_of(self._plan))
        removals = None
        if node.is_master and self._plan.retention.deletes_segments:  # slaves remove no segments
            removals = WatchedRemovals(world.files, disk, node.disk_room, self._ledger, self._judge.report)
            world = replace(world, files=cast(Files, removals))
        store = MessageStore(world, node.config)
        if node.is_master:
            self._progress.attach(store, partial(self._judge.judge_delivery_progress, store, disk))
            self._load_store(store, disk, machine, partial(self._progress.load, store))
        else:
            self._load_store(store, disk, machine)
        node.store = store
        if removals is not None:
            removals.store = store
        if network is not None and not node.is_master and self._plan.recover_whole_log:
            # the next load must read the record again, and a load that trusts the checkpoint would not
            stream = self._choices.stream(f"{machine.name}/flipped bit")
            _flip_queue_offset_bit(store.dispatch, self._plan.cluster.flipped_bit_chance, stream, disk.injected)
        if node.is_master:
            self._judge.judge_recovery(store, disk)
            self._replication.master_recovered(store)
        else:
            self._replication.slave_recovered(node, store, disk)
        return store

    # -- after all faults --------------------------------------------------------------------------

    def _finish_run(self) -> None:
        """In a safety run, switch all machines off. In a liveness run, end all faults, and use and stop the cluster."""
        self._number = len(self._lives)
        if not self._plan.heals:
            for node in self._used_nodes:
                if node.is_alive:
                    self._end_machine(node, OFF)
            self._record_unnoticed_ends()
            return
        self._network.heal()
        self._heal_disks()
        self._await_pending_operations()
        self._switch_off_failed()
        number = len(self._plan.lives)
        for node in self._used_nodes:
            if not node.is_alive:
                self._boot_node(node, number, None)
        self._run_users(number, HEAL, self._master)
        self._judge.report(rep.check_waiting_puts(self._master.running[0].commit_log.group_transfer))
        for slave in self._slaves:
            self._await_settled(slave, self._master, self._replication)
        self._end_machine(self._master, HEAL)
        self._follow_first_slave()
        for slave in self._slaves:
            self._end_machine(slave, HEAL)

    def _switch_off_failed(self) -> None:
        """Switch off machines with disk errors, because some errors last until a restart."""
        for node in self._used_nodes:
            if node.is_alive and allowances.has_any_fault(node.life.disk):
                self._end_machine(node, OFF)

    def _open_all_alone(self) -> None:
        former = self._open_alone(self._master)
        slaves = [self._open_alone(slave) for slave in self._slaves]
        plan, before = self._plan, slaves[0]
        # The next load may truncate the log; the next start may remove segments, or fill other queues.
        is_lasting = before.damage is None and not plan.retention.deletes_segments and not plan.light_queues.chance
        if plan.cluster.changes_roles:
            if is_lasting and all(each.damage is None for each in (former, *slaves)):
                self._change_roles(before)
        elif self._choices.stream("promotion").chance(_PROMOTION_CHANCE, "a slave is promoted") and is_lasting:
            self._promote(self._slaves[0], before)
        may_lose = self._judge.may_refuse_to_open or self._replication.replicas.lost
        if self._plan.cluster.sync_master and self._judge.is_promised("DUR") and not may_lose:
            self._judge.report(rep.check_takeover(self._ledger, slaves))

    def _open_alone(self, node: ClusterNode) -> RecoveredStore:
        node.config = replace(node.config, broker_role=BrokerRole.ASYNC_MASTER)
        disk = node.lasting.find_disk(f"{node.name}/alone", faulty=False)
        machine = self._kernel.create_machine(f"{node.name}-alone")
        found: list[RecoveredStore] = []

        def read() -> None:
            found.append(read_store(self._load_node(node, machine, disk, None)))

        self._run_on_machine(machine, "read", read)
        self._kernel.kill(machine)
        return found[0]


class _FlippedBit:
    """A flipped bit of queueOffset in one record that a slave receives. All dispatchers get the same record.

    No checksum covers queueOffset. The bit may flip on the master, or on the network without a TCP checksum error. The
    slave's log stays equal to the master's, so the next load reads the right value.
    """

    def __init__(self, record_number: int, bit: int, injected: Counter[str]) -> None:
        self._left = record_number
        self._mask = 1 << bit if bit < 63 else -1 << 63
        self._injected = injected
        self._struck_at = -1

    def dispatch(self, dispatcher: Dispatcher, counts: bool, record: ScannedRecord) -> None:
        """counts: whether this is the first dispatcher, which counts records."""
        if counts and self._left >= 0:
            self._left -= 1
            if self._left < 0:
                self._struck_at = record.physical_offset
                self._injected[_FLIPPED_BIT] += 1
        if record.physical_offset == self._struck_at:
            record = record._replace(queue_offset=record.queue_offset ^ self._mask)
        dispatcher(record)


def _flip_queue_offset_bit(dispatch: DispatchService, chance: float, stream: Stream, injected: Counter[str]) -> None:
    if not stream.chance(chance, _FLIPPED_BIT):
        return
    flipped = _FlippedBit(stream.randbelow(_RECORDS_MAX, "records"), stream.choice(_BITS, "bit"), injected)
    dispatch.dispatchers[:] = [
        partial(flipped.dispatch, dispatcher, number == 0) for number, dispatcher in enumerate(dispatch.dispatchers)
    ]

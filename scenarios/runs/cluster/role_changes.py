"""Role changes: slaves become masters and follow other masters, after the lives of a cluster run.

Promotion: after the loss of its master, a slave takes puts as the new master, stops, and is read again. The puts go to
queues that the slave has, and to a new one. `rep.check_promoted` compares both reads.

Change of roles while the former master runs, `ClusterPlan.changes_roles`:

    the former master starts, and the other slaves follow it → the first slave starts as the new master → the former
    master may be cut off → both masters take puts → the other slaves get the new address → unless it is cut off, they
    get the former address by mistake, which is corrected when the first bytes arrive → the former master stops, and
    returns as a slave

The new master keeps all that it had as a slave. A slave of it has the same log, or reports that its log differs. The
puts of the former master alone may be lost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ....faults.disk.disk import Disk
from ....sim.machine import Machine
from ....store.config import BrokerRole
from ....store.formats.messages import Message
from ....store.message_store import MessageStore
from ....store.network import Network
from ....store.service import do_nothing
from ....store.world import World
from ...claims.machine import core_of
from ...oracle.invariants import quiescence, rep
from ...oracle.invariants.quiescence import Cursor
from ...oracle.invariants.rep import PromotedPut
from ...oracle.recovered import RecoveredStore, read_store
from ...workload.drawing import topic_of_users
from ..machines import NetworkRun
from .node import ClusterNode, nodes_of
from .replication_judge import ReplicatingNode, ReplicationJudge

LOOK_MS = 200
_QUEUES_MAX = 3
_PUTS_EACH = 2
_NEW_QUEUE = ("promoted", 0)
_BODY_BYTES = 60
_CUT_OFF_CHANCE = 0.3
_EARLY_PUTS_CHANCE = 0.3
"""The chance that slaves still follow the former master at its last puts, so that their logs differ, too."""


class RoleChanges(NetworkRun):
    """The nodes of a cluster run, and the changes of their roles."""

    def _prepare(self) -> None:
        super()._prepare()
        self._replication = self._make_replication_judge()
        self._master, *self._slaves = nodes_of(self._plan, self.simulation)

    def _make_replication_judge(self) -> ReplicationJudge:
        return ReplicationJudge(self._plan, self._kernel, self._judge, self._ledger, self._disturbances.paused_ns)

    # -- running slaves ----------------------------------------------------------------------------

    def _follow_first_slave(self) -> None:
        """Make the other slaves follow the first one. A slave's log may differ from the old master's only."""
        new_master, *others = self._slaves
        if not others or self._plan.retention.deletes_segments:  # the first may have data that the others never had
            return
        self._replication.master_replaced(new_master.running[0])
        for slave in others:
            self._follow(slave, new_master)
        for slave in others:
            self._await_settled(slave, new_master, self._replication)

    def _follow(self, slave: ClusterNode, master: ClusterNode) -> None:
        follow = partial(slave.client.update_master_address, master.ha_address)
        self._run_on_machine(slave.running[2], "follow", follow)

    def _await_settled(self, slave: ClusterNode, master: ClusterNode, replication: ReplicationJudge) -> None:
        """Wait until a slave has its master's whole log or reports a divergence; check the result."""
        store, disk, machine = slave.running
        self._settling.await_idle(
            store,
            disk,
            partial(self._slave_cursors, slave, master),
            sleep=self._director.tasks.sleep,
            gives_up=lambda: slave.client.diverged is not None,
            known=lambda: slave.client.state,
        )
        self._judge.judge_services(store, machine, slave.client)
        self._judge.report(replication.check_settled(slave, master))

    def _slave_cursors(self, slave: ClusterNode, master: ClusterNode) -> Iterator[Cursor]:
        store, own = slave.running[0], master.running[0]
        end = own.log.max_offset
        within_ms = quiescence.following_ms_max(store, self._plan, end)
        # the read of reported offsets is a scheduling point, so it comes first
        host, connections = f"{slave.host}:", master.service.connections
        reports = [each.reported_offset for each in connections if each.remote_address.startswith(host)]
        yield from quiescence.replication_cursors(slave.client.name, slave.name, store, own, reports, within_ms)
        yield Cursor(f"connections of {slave.name}", slave.client.name, len(reports), 1, within_ms)
        transfer = own.commit_log.group_transfer
        if transfer is not None:  # puts wait for slaves
            own_connections = [each for each in connections if each.remote_address.startswith(host)]
            counted_on = [each for each in transfer.replicas if each in own_connections]
            others = len(transfer.replicas) - sum(each in connections for each in transfer.replicas)
            name, found = f"{slave.name}, for puts to count on,", (len(counted_on), others)
            yield Cursor(name, slave.client.name, found, (1, 0), within_ms)

    # -- changes of roles after the lives ----------------------------------------------------------

    def _promote(self, node: ClusterNode, before: RecoveredStore) -> None:
        """Put messages to a slave that was opened as a master, and compare the store before and after."""
        self._start_again(node, "promoted", self._replication)
        puts = self._put_to(node, before)
        self._stop_again(node)
        self._check_promoted(node, before, puts)

    def _change_roles(self, before: RecoveredStore) -> None:
        """Make the first slave the master while its former master runs. before: the first slave's store."""
        stream = self._choices.stream("role change")
        former, (new, *others) = self._master, self._slaves
        self._network.heal()
        self._start_again(former, "former", self._replication)
        self._replication.master_replaced(former.loaded)
        for slave in others:
            self._start_as_slave(slave, "other", former, self._replication)
        self._start_again(new, "promoted", replication := self._make_replication_judge())
        replication.master_replaced(new.loaded)
        for slave in others:
            self._await_settled(slave, former, self._replication)
        if is_cut_off := stream.chance(_CUT_OFF_CHANCE, "the former master is cut off"):
            for node in self._slaves:
                self._links.cut(former.host, node.host)
        if has_early_puts := stream.chance(_EARLY_PUTS_CHANCE, "the former master takes puts before slaves leave"):
            self._put_to(former, before)
        for slave in others:
            self._follow(slave, new)
        puts = self._put_to(new, before)
        if not has_early_puts:
            self._put_to(former, before)
        for slave in others:
            self._await_settled(slave, new, replication)
        for slave in () if is_cut_off else others:
            self._follow_by_mistake(slave, former, new)
            self._await_settled(slave, new, replication)
        self._stop_again(former)
        self._network.heal()
        self._start_as_slave(former, "returned", new, replication)
        self._await_settled(former, new, replication)
        self._marks.hits["roles changed"] += 1
        self._marks.hits["former master diverged"] += former.client.diverged is not None
        for node in (new, former, *others):
            self._stop_again(node)
        self._check_promoted(new, before, puts)

    def _put_to(self, node: ClusterNode, before: RecoveredStore) -> Sequence[PromotedPut]:
        """Put messages to a started store, in queues of `before` and in a new one."""
        of_users = [topic_of_users(number) for number in range(self._plan.topics)]
        known = dict.fromkeys((each.record.topic, each.record.queue_id) for each in before.records)
        places = [*[place for place in known if place[0] in of_users][:_QUEUES_MAX], _NEW_QUEUE]
        puts: list[PromotedPut] = []

        def put() -> None:
            for number in range(_PUTS_EACH):
                for topic, queue_id in places:
                    body = f"{topic}/{queue_id} of {node.name} {number} ".encode().ljust(_BODY_BYTES, b".")
                    result = node.loaded.put_message(Message.create(topic, body, queue_id=queue_id))
                    puts.append(PromotedPut(topic, queue_id, body, result))

        self._run_on_machine(node.life.machine, "put", put)
        return puts

    def _follow_by_mistake(self, slave: ClusterNode, wrong: ClusterNode, right: ClusterNode) -> None:
        """Make a slave follow a master, and correct its address when the first bytes of this master arrive."""

        def correct(node: ReplicatingNode) -> None:
            if node is slave and slave.client.master_address == wrong.ha_address:
                self._replication.on_received = do_nothing
                follow = partial(slave.client.update_master_address, right.ha_address)
                self._kernel.spawn(slave.life.machine, "correct", follow)
                self._marks.hits["slave moved at first bytes"] += 1

        self._replication.on_received = correct
        self._follow(slave, wrong)
        due_ns = self._kernel.now_ns + 1_000_000 * quiescence.following_ms_max(slave.loaded, self._plan, 0)
        while slave.client.master_address != right.ha_address and self._kernel.now_ns < due_ns:
            self._director.tasks.sleep(LOOK_MS)
        self._replication.on_received = do_nothing
        self._follow(slave, right)

    def _check_promoted(self, node: ClusterNode, before: RecoveredStore, puts: Sequence[PromotedPut]) -> None:
        disk = node.lasting.find_disk(f"{node.name}/after", faulty=False)
        machine = self._kernel.create_machine(f"{node.name}-after")

        def read() -> None:
            after = read_store(self._load_again(node, machine, disk, None))
            self._judge.report(rep.check_promoted(node.name, before, puts, after))

        self._run_on_machine(machine, "read", read)
        self._kernel.kill(machine)

    def _start_as_slave(self, node: ClusterNode, name: str, master: ClusterNode, replication: ReplicationJudge) -> None:
        node.is_master = False
        node.config = replace(node.config, broker_role=BrokerRole.SLAVE, ha_master_address=master.ha_address)
        self._start_again(node, name, replication)

    def _start_again(self, node: ClusterNode, name: str, replication: ReplicationJudge) -> None:
        """Start a node after its disk was judged. name: marks the names of machine and disk."""
        disk = node.lasting.find_disk(f"{node.name}/{name}", faulty=False)
        machine = self._switch_on(node, f"{node.name}-{name}", disk)

        def start() -> None:
            node.store = self._load_again(node, machine, disk, replication.network_of(node, node.life.endpoint))
            self._start_store(node.store, disk, machine)
            node.replicate(node.store)

        self._run_on_machine(machine, "start", start)

    def _stop_again(self, node: ClusterNode) -> None:
        store, disk, machine = node.running
        node.is_stopping = True

        def stop() -> None:
            node.service.shutdown()
            if not store.shutdown():
                self._judge.judge_unclean_stop(store, disk, has_room=True)

        self._run_on_machine(machine, "stop", stop)
        self._kernel.kill(machine)
        node.lasting.set_image_after_stop(disk)
        node.has_ended = True

    def _load_again(self, node: ClusterNode, machine: Machine, disk: Disk, network: Network | None) -> MessageStore:
        """Load a store after another load of the same image was judged."""
        world = World(machine.clock, machine.tasks, disk.mount(machine), network, core_of(self._plan))
        store = MessageStore(world, node.config)
        self._load_store(store, disk, machine)
        return store

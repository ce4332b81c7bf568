"""One run: the lives of one store on one disk, each judged when the next one has recovered.

    draw a plan → life: load, judge, start, traffic, end → crash image → next life … → heal: everything must work

Everything random comes from the run's choices and every switch of tasks from its policy, so a run is its seed, or its
record. The last two lives heal: no more faults, and recovering twice must end in the same bytes.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from ..faults.disk import Disk
from ..faults.image import Image
from ..faults.plan import FaultPlan
from ..faults.profiles import PROFILES
from ..faults.timing import SyncTiming
from ..sim.choices import Choices
from ..sim.errors import MachineDied
from ..sim.kernel import Kernel
from ..sim.machine import Machine
from ..sim.policies import Policy
from ..sim.policies.pct import PCT
from ..sim.policies.random_walk import RandomWalk
from ..sim.trace import Trace
from ..store.errors import CorruptFileError
from ..store.message_store import MessageStore
from ..store.segments.buffered_queue import BufferedSegmentQueue
from ..store.world import Files
from .damage import expose_old_blocks, log_files, lose_last_sector, shorten_segment
from .judging import promises
from .judging.content import content_digest
from .judging.evidence import Violation
from .judging.judge import BrokenPromise, Judge
from .judging.ledger import Ledger
from .judging.progress import Progress
from .judging.removals import WatchedRemovals
from .machine import CONFIG, config_of, world_of
from .plan import Life, Plan
from .users.room import Room
from .users.traffic import Traffic
from .users.transaction_traffic import TransactionTraffic

_TIME_LIMIT_NS = 900 * 1_000_000_000
_STEP_LIMIT = 400_000
_HEAL = Life("stop", "nothing-lost", -1, "after", 2)
_PCT_HORIZON_STEPS = 2_000


@dataclass(slots=True)
class Outcome:
    """What one run gave."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    messages: int = 0
    steps: int = 0
    virtual_ns: int = 0
    digest: str = ""
    schedule: list[list[Any]] = field(default_factory=list)


class Run:
    """One run of one plan."""

    def __init__(
        self, plan: Plan, choices: Choices, policy: Policy | None = None, trace: Trace | None = None
    ) -> None:
        self.on_image: Callable[[Image], None] = _nobody
        """Called with each image that a machine is about to find on its disk."""
        self._plan = plan
        self._choices = choices
        self._kernel = Kernel(policy or policy_of(plan, choices), step_limit=_STEP_LIMIT, trace=trace)
        self._ledger = Ledger()
        self._progress = Progress(plan, self._ledger)
        self._outcome = Outcome(plan)
        self._judge = Judge(plan, self._kernel, self._ledger, choices.stream)
        self._store: MessageStore | None = None
        self._image: Image | None = None
        self._disk: Disk | None = None
        """The disk of a life that ended in a process kill, for the next life to mount."""
        self._disks: list[Disk] = []

    def execute(self) -> Outcome:
        """Run, and return what came of it. Raises only what is wrong with the harness itself."""
        outcome, kernel = self._outcome, self._kernel
        with kernel:
            try:
                for number, life in enumerate(self._plan.lives):
                    self._live(number, life)
                self._heal()
            except BrokenPromise:
                pass
            outcome.digest = kernel.digest()
        outcome.violations = self._judge.violations
        for disk in self._disks:
            outcome.fired += disk.fired
        outcome.messages = len(self._ledger.puts)
        outcome.steps = kernel.steps
        outcome.virtual_ns = kernel.now_ns
        outcome.schedule = kernel.schedule
        return outcome

    # -- lives -------------------------------------------------------------------------------------

    def _live(self, number: int, life: Life) -> None:
        """Live one life on what the last one left."""
        disk = self._disk
        if disk is None:
            disk = self._disk_from_image(f"disk-{number}", faulty=True)
        else:
            disk.fired["crash process-kill"] += 1  # nobody asks it for an image of that crash
        disk.disarm()  # the last life may have died of something else first
        disk.capacity_bytes = None
        if life.operation >= 0 and life.ending != "crash in persist":
            disk.crash_at(disk.operations + life.operation, life.moment)
        crashed = self._run_life(f"life-{number}", disk, life, number)
        self._end(disk, life, crashed=crashed)

    def _heal(self) -> None:
        """Recover, recover again, use the store, stop it cleanly, and find everything again."""
        if self._disk is not None:
            self._image = self._disk.crash(PROFILES["process-kill"])
        recovered = self._recover_and_judge("heal", content_digest)
        disk = self._disk_from_image("healed", faulty=False)
        self._run_life("healed", disk, _HEAL, len(self._plan.lives), recovered=recovered)
        self._end(disk, _HEAL, crashed=False)
        self._recover_and_judge("after", lambda store: "")

    def _disk_from_image(self, name: str, *, faulty: bool) -> Disk:
        if self._image is not None:
            self.on_image(self._image)
        plan = self._plan
        timing = SyncTiming(
            base_ns_max=plan.sync_ms_max * 1_000_000,
        )
        faults = replace(plan.faults, failed_creation_chance=0.0) if faulty else FaultPlan()
        disk = Disk(
            self._kernel,
            self._choices.stream(name),
            image=self._image,
            timing=timing,
            faults=faults,
        )
        self._disks.append(disk)
        return disk

    def _run_life(
        self, name: str, disk: Disk, life: Life, number: int, *, recovered: str | None = None
    ) -> bool:
        """Run one life to its end; return whether the machine died.

        recovered: the digest of what a recovery has made of this disk already; recovering again must not change it.
        """
        self._ledger.begin_life()
        self._progress.begin_life(life, disk)
        machine = self._kernel.machine(name)

        def body() -> None:
            room = Room(self._kernel, disk)
            store = self._open(disk, machine, recovered, room)
            if self._plan.capacity_bytes and life is not _HEAL:
                room.limit(self._plan.capacity_bytes)
            traffic = Traffic(
                self._plan,
                number,
                self._kernel,
                store,
                disk,
                self._ledger,
                self._judge.report,
                self._choices.stream,
            )
            manager = self._progress.manager
            if self._plan.offsets:
                traffic.progress = manager
            transactions = None
            if manager is not None and self._plan.transaction_chance:
                transactions = TransactionTraffic(
                    self._plan, store, manager, disk, self._ledger, self._judge.report
                )
                transactions.start()
                traffic.transactions = transactions
            traffic.room = room
            if life.ending == "stop in traffic":
                clean = traffic.run_into_a_stop(life.messages_each, partial(self._shut_down, store))
                self._judge.stop(store, disk, machine, clean=clean)
                return
            creations = 0.0 if life is _HEAL else self._plan.faults.failed_creation_chance
            with disk.with_faults(failed_creation_chance=creations):
                traffic.run(life.messages_each)
            if transactions is not None:
                if life is _HEAL:
                    transactions.settle()
                transactions.shutdown()
            if life is _HEAL:
                self._judge.report(self._progress.finish(store))
            room.give_back()
            self._judge.catch_up(store, disk)
            if self._plan.retention:
                self._judge.cleaning(store, number)
            self._judge.claims(store, disk)
            if not life.is_stop:
                self._kernel.kill(machine)
                raise MachineDied(name)
            self._judge.stop(store, disk, machine, clean=self._shut_down(store))

        with self._judge.judged_errors():
            try:
                self._kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
            except MachineDied:
                return True
        return False

    def _shut_down(self, store: MessageStore) -> bool:
        """Stop a store and what stands beside it; return whether the exit was clean."""
        self._progress.shutdown()
        return store.shutdown()

    def _open(self, disk: Disk, machine: Machine, recovered: str | None, room: Room) -> MessageStore:
        """Load a store, judge what recovery made of the last life, and start it."""
        self._store = None
        world = world_of(machine, disk)
        removals = WatchedRemovals(world.files, disk, room, self._ledger, self._judge.report)
        if self._plan.retention:
            world = replace(world, files=cast(Files, removals))
        store = MessageStore(world, config_of(self._plan))
        self._load(store, disk, machine)
        self._store = removals.store = store
        if recovered is None:
            self._judge.recovery(store, disk)
        else:  # the same bytes would be judged the same
            again = content_digest(store)
            if again != recovered:
                self._judge.broken(
                    "IDEMPOTENT", "recovering again changed the store", "files", recovered, again
                )
        self._start(store, disk, machine)
        return store

    def _start(self, store: MessageStore, disk: Disk, machine: Machine) -> None:
        """Start a store and what stands beside it. It may give up, and be killed, if the disk fails it."""
        self._progress.start(store)
        try:
            store.start()
        except OSError as error:
            if not disk.fired["failed sync"]:
                raise
            self._kernel.kill(machine)
            raise MachineDied(machine.name) from error

    def _load(self, store: MessageStore, disk: Disk, machine: Machine) -> None:
        """Load a store. One that gives up because the disk failed it may be killed; any other must open."""
        self._progress.attach(store)
        try:
            store.load()
            progress = list(self._progress.load(store))
        except Exception as error:
            if isinstance(error, OSError) and disk.fired["failed sync"]:
                self._kernel.kill(machine)
                raise MachineDied(machine.name) from error
            is_progress = isinstance(error, CorruptFileError) and error.file.startswith(CONFIG)
            self._judge.broken(
                "META" if is_progress else "START",
                f"the store cannot be opened: {type(error).__name__}: {error}",
                "load",
                "",
                "",
            )
        self._judge.report(progress)

    def _recover_and_judge(self, name: str, look: Callable[[MessageStore], str]) -> str:
        """Load a store, judge it, and return what a look at it gives; nothing is started."""
        disk = self._disk_from_image(name, faulty=False)
        machine = self._kernel.machine(name)
        self._progress.begin_life(None, disk)

        def body() -> str:
            store = MessageStore(world_of(machine, disk), config_of(self._plan))
            self._load(store, disk, machine)
            self._judge.recovery(store, disk)
            return look(store)

        with self._judge.judged_errors():
            seen = self._kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
        self._image = disk.settle()
        return seen

    def _end(self, disk: Disk, life: Life, *, crashed: bool) -> None:
        """End a life: note what it promised, and keep what it leaves.

        A killed process leaves its page cache, so the next life mounts the same disk: a power cut may still come.
        """
        self._disk = None
        self._ledger.progress_is_final = not crashed and self._progress.is_persisted
        if not crashed:
            promises.note_stop(self._ledger)
            self._image = disk.settle()
            if life.ending == "stop and damage":
                self._damage_tail(self._image, disk)
            elif life.ending == "stop and odd file":
                self._try_odd_file(self._image)
        else:
            store, profile = self._store, PROFILES[life.profile]
            self._outcome.crashes += 1
            flushed_where, committed_where = 0, None
            if store is not None:
                self._judge.claims(store, disk)
                flushed_where = store.log.flushed_where.get()
                if isinstance(store.log, BufferedSegmentQueue):
                    committed_where = store.log.committed_where
            promises.note_crash(self._ledger, self._plan, profile, flushed_where, committed_where)
            if profile.name == "process-kill":
                self._disk = disk
            else:
                self._image = disk.crash(profile)
                if life.ending == "crash on old blocks":
                    self._expose_old_blocks(self._image, disk)

    def _expose_old_blocks(self, image: Image, disk: Disk) -> None:
        """Let what is behind the log's end be what an older segment had there."""
        assert self._store is not None, "a store that crashed at rest had been opened"
        exposed = expose_old_blocks(image, self._store)
        if exposed is not None:
            disk.fired["old blocks"] += 1
            self._image = exposed

    def _try_odd_file(self, image: Image) -> None:
        """Start beside a segment of a wrong size, which must be refused, or lose nothing; the file is then put back."""
        assert self._store is not None, "a store that was stopped had been opened"
        odd = shorten_segment(image, self._store)
        if odd is None:
            return
        name = f"odd-{len(self._disks)}"
        disk = Disk(self._kernel, self._choices.stream(name), image=odd)
        disk.fired["odd size"] += 1
        self._disks.append(disk)
        machine = self._kernel.machine(name)

        def body() -> None:
            store = MessageStore(world_of(machine, disk), config_of(self._plan))
            try:
                store.load()
            except CorruptFileError:
                return
            self._judge.recovery(store, disk)
            self._judge.broken("START", "a segment of a wrong size was accepted", "load", "refused", "opened")

        with self._judge.judged_errors():
            self._kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
        if log_files(disk.settle(), self._store) != log_files(odd, self._store):
            self._judge.broken(
                "START", "a start that was refused changed the log", "files", "as before", "others"
            )

    def _damage_tail(self, image: Image, disk: Disk) -> None:
        """Lose the last sector that the log has written, which nothing may be promised for any more."""
        assert self._store is not None, "a store that was stopped had been opened"
        damage = lose_last_sector(image, self._store)
        if damage is not None:
            disk.fired["lost sector"] += 1
            self._image = damage.image
            promises.note_damage(self._ledger, damage.log_offset)
            promises.note_damaged_copies(self._ledger, self._store.schedule.offsets)


def policy_of(plan: Plan, choices: Choices) -> Policy:
    """Return the policy a plan names, drawing from its own stream."""
    stream = choices.stream("schedule")
    if plan.policy == "pct":
        return PCT(stream, plan.policy_parameter, _PCT_HORIZON_STEPS)
    return RandomWalk(stream, plan.policy_parameter)


def _nobody(image: Image) -> None:
    """Tell no one."""

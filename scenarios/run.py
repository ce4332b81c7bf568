"""One run: the lives of one store on one disk, each judged when the next one has recovered.

    draw a plan → life: load, judge, start, traffic, end → crash image → next life … → heal: everything must work

Everything random comes from the run's choices and every switch of tasks from its policy, so a run is its seed, or its
record. The last two lives heal: no more faults, and recovering twice must end in the same bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NoReturn

from ..faults.disk import Disk
from ..faults.image import Image
from ..faults.profiles import PROFILES
from ..faults.timing import SyncFaults, SyncTiming
from ..sim.choices import Choices, Stream
from ..sim.errors import LivenessError, MachineDied, TaskFailedError
from ..sim.kernel import Kernel
from ..sim.machine import Machine
from ..sim.policies import Policy
from ..sim.policies.pct import PCT
from ..sim.policies.random_walk import RandomWalk
from ..sim.trace import Trace
from ..store.message_store import MessageStore
from . import promises
from .damage import lose_last_sector
from .evidence import Evidence, Violation
from .invariants import CHECKERS, ckpt, live, pos, read
from .ledger import Ledger
from .machine import config_of, world_of
from .plan import Life, Plan
from .recovered import read_store
from .traffic import Traffic

_TIME_LIMIT_NS = 900 * 1_000_000_000
_STEP_LIMIT = 400_000
_HEAL = Life("stop", "nothing-lost", -1, "after", 2)
_PCT_HORIZON_STEPS = 2_000


class BrokenPromise(Exception):
    """A violation was found; the run is over."""


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
        self._outcome = Outcome(plan)
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
        if life.operation >= 0:
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
            slow_chance=plan.slow_sync_chance if faulty else 0.0,
            slow_ns_max=max(plan.slow_sync_ms_max, plan.sync_ms_max) * 1_000_000,
        )
        faults = SyncFaults(plan.failed_sync_chance if faulty else 0.0)
        disk = Disk(
            self._kernel, self._choices.stream(name), image=self._image, timing=timing, sync_faults=faults
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
        machine = self._kernel.machine(name)

        def body() -> None:
            store = self._open(disk, machine, recovered)
            traffic = Traffic(
                self._plan, number, self._kernel, store, disk, self._ledger, self._report, self._streams
            )
            with disk.failing_creations(0.0 if life is _HEAL else self._plan.failed_creation_chance):
                traffic.run(life.messages_each)
            self._catch_up(store, disk)
            self._judge_claims(store, disk)
            if not life.is_stop:
                self._kernel.kill(machine)
                raise MachineDied(name)
            if not store.shutdown():
                if not disk.fired["failed sync"]:
                    self._break("LIVE", "a stop without a fault was not clean", "exit", "clean", "unclean")
                self._kernel.kill(machine)  # what an unclean stop leaves is judged as what a crash leaves
                raise MachineDied(name)
            self._judge_claims(store, disk)
            self._check_all_tasks_ended(machine)

        with self._judged_errors():
            try:
                self._kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
            except MachineDied:
                return True
        return False

    def _check_all_tasks_ended(self, machine: Machine) -> None:
        """Find services that a stop has left running."""
        running = [task.name for task in machine.live_tasks.values() if task is not self._kernel.current]
        if running:
            self._break("LIVE", "a stop left tasks running", "tasks", "none", ", ".join(running))

    def _open(self, disk: Disk, machine: Machine, recovered: str | None) -> MessageStore:
        """Load a store, judge what recovery made of the last life, and start it."""
        self._store = None
        store = MessageStore(world_of(machine, disk), config_of(self._plan))
        self._load(store, disk, machine)
        self._store = store
        if recovered is None:
            self._judge(store, disk)
        else:  # the same bytes would be judged the same
            again = content_digest(store)
            if again != recovered:
                self._break("IDEMPOTENT", "recovering again changed the store", "files", recovered, again)
        store.start()
        return store

    def _load(self, store: MessageStore, disk: Disk, machine: Machine) -> None:
        """Load a store. One that gives up because the disk failed it may be killed; any other must open."""
        try:
            store.load()
        except Exception as error:
            if isinstance(error, OSError) and disk.fired["failed sync"]:
                self._kernel.kill(machine)
                raise MachineDied(machine.name) from error
            self._break(
                "START", f"the store cannot be opened: {type(error).__name__}: {error}", "load", "", ""
            )

    def _recover_and_judge(self, name: str, look: Callable[[MessageStore], str]) -> str:
        """Load a store, judge it, and return what a look at it gives; nothing is started."""
        disk = self._disk_from_image(name, faulty=False)
        machine = self._kernel.machine(name)

        def body() -> str:
            store = MessageStore(world_of(machine, disk), config_of(self._plan))
            self._load(store, disk, machine)
            self._judge(store, disk)
            return look(store)

        with self._judged_errors():
            seen = self._kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
        self._image = disk.settle()
        return seen

    def _catch_up(self, store: MessageStore, disk: Disk) -> None:
        """Wait until all that is durable is visible, then judge what consumers were given."""
        deadline_ns = self._kernel.now_ns + live.DISPATCH_MS_MAX * 1_000_000
        while store.dispatch.reput_from.get() < store.dispatch.readable_limit():
            if self._kernel.now_ns > deadline_ns:
                behind = f"{store.dispatch.behind_bytes} bytes"
                self._break("LIVE", "dispatch does not catch up", "behind", "0 bytes", behind)
            store.world.tasks.sleep(5)
        if self._ledger.pulls:
            self._report(read.check(self._ledger, read_store(store)))

    def _end(self, disk: Disk, life: Life, *, crashed: bool) -> None:
        """End a life: note what it promised, and keep what it leaves.

        A killed process leaves its page cache, so the next life mounts the same disk: a power cut may still come.
        """
        self._disk = None
        if not crashed:
            promises.note_stop(self._ledger)
            self._image = disk.settle()
            if life.ending == "stop and damage":
                self._damage_tail(self._image, disk)
        else:
            store, profile = self._store, PROFILES[life.profile]
            self._outcome.crashes += 1
            flushed_where = 0
            if store is not None:
                self._judge_claims(store, disk)
                flushed_where = store.log.flushed_where.get()
            promises.note_crash(self._ledger, self._plan, profile, flushed_where)
            if profile.name == "process-kill":
                self._disk = disk
            else:
                self._image = disk.crash(profile)

    def _damage_tail(self, image: Image, disk: Disk) -> None:
        """Lose the last sector that the log has written, which nothing may be promised for any more."""
        assert self._store is not None, "a store that was stopped had been opened"
        damage = lose_last_sector(image, self._store)
        if damage is not None:
            disk.fired["lost sector"] += 1
            self._image = damage.image
            promises.note_damage(self._ledger, damage.log_offset)

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self, store: MessageStore, disk: Disk) -> None:
        found = read_store(store)
        evidence = Evidence(self._ledger, found)
        for check in CHECKERS.values():
            self._report(check(evidence))
        self._judge_claims(store, disk)
        # What a failed sync dropped, a process that is killed leaves in a page cache that calls it clean.
        promises.note_recovery(self._ledger, found, durable=not disk.fired["failed sync"])

    def _judge_claims(self, store: MessageStore, disk: Disk) -> None:
        """Ask the disk whether what the store takes for durable is."""
        self._report(pos.check(store, disk))
        self._report(ckpt.check(store, disk))

    def _report(self, violations: Iterable[Violation]) -> None:
        """End the run at the first check that yields a violation; the rest of that check's come along."""
        found = list(violations)
        if found:
            self._outcome.violations += found
            raise BrokenPromise(str(found[0]))

    def _break(self, invariant: str, summary: str, field: str, expected: str, found: str) -> NoReturn:
        """End the run with one violation that has no place in a file."""
        self._outcome.violations.append(Violation(invariant, summary, "", -1, field, expected, found))
        raise BrokenPromise(summary)

    @contextmanager
    def _judged_errors(self) -> Iterator[None]:
        """Turn what the kernel reports of the store into violations."""
        try:
            yield
        except TaskFailedError as failed:
            cause = failed.__cause__
            if not isinstance(cause, BrokenPromise):
                self._outcome.violations.append(
                    Violation("LIVE", f"{failed.task} died: {type(cause).__name__}: {cause}", field="task")
                )
            raise BrokenPromise from failed
        except LivenessError as stuck:
            self._outcome.violations.append(Violation("LIVE", str(stuck), field="progress"))
            raise BrokenPromise from stuck

    def _streams(self, name: str) -> Stream:
        return self._choices.stream(name)


def policy_of(plan: Plan, choices: Choices) -> Policy:
    """Return the policy a plan names, drawing from its own stream."""
    stream = choices.stream("schedule")
    if plan.policy == "pct":
        return PCT(stream, plan.policy_parameter, _PCT_HORIZON_STEPS)
    return RandomWalk(stream, plan.policy_parameter)


def content_digest(store: MessageStore) -> str:
    """Return a digest of every log and queue file's bytes, by path: what recovering again must not change."""
    digest = blake2b(digest_size=16)
    queues = [store.log, *(queue.queue for queue in store.queues.all())]
    for queue in queues:
        for segment in queue.segments:
            digest.update(segment.file.path.encode())
            digest.update(segment.file.view(0, segment.size_bytes))
    return digest.hexdigest()


def _nobody(image: Image) -> None:
    """Tell no one."""

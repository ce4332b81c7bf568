"""Session: starts, uses, stops and kills one store, step by step.

Each step is a task on the store's machine, and no time passes between two steps. A ledger records the store's answers.
The checks of the scenarios run at each answer, at each crash and after each recovery.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ....faults.crashes.profiles import PROFILES
from ....faults.disk.disk import Disk
from ....faults.disk.fault_injector import MOMENTS
from ....faults.disk.syncs import SyncTiming
from ....faults.plan import FaultPlan
from ....faults.simulation.simulation import Simulation
from ....sim.choices import Choices
from ....sim.errors import MachineDied
from ....sim.machine import Machine
from ....sim.policies import Policy
from ....store.message_store import MessageStore
from ...claims.disk_models import DISK_MODELS
from ...claims.machine import config_of, core_of, initial_image_of, world_of
from ...claims.plan import KNOBS, Plan
from ...oracle import guarantees
from ...oracle.evidence import frames_of
from ...oracle.invariants import consumers
from ...oracle.judge import Judge, StopOnViolation
from ...oracle.ledger import Ledger
from ...oracle.put_entry import PutEntry
from ...runs.settling import Settling
from ...workload.consuming import Consumer
from ...workload.options import KeySearcher
from ...workload.traffic import Traffic

_TIME_LIMIT_NS = 900 * 1_000_000_000
_AT_ONCE = SyncTiming(0, 0)


class StoreBroke(AssertionError):
    """The store has broken a promise. The text names promise and file position, and compares expected with found."""


class StoreSession:
    """A store on a simulated disk, between `open` and a stop or crash.

    Each step that uses the store returns whether the machine is still on. A broken promise raises StoreBroke, after
    which the session is unusable.
    """

    def __init__(self, plan: Plan, choices: Choices, policy: Policy) -> None:
        asked = [path for path, knob in KNOBS.items() if not knob.in_sessions and plan.value(path) != knob.plain]
        if asked:
            raise ValueError(f"plan: a session does not support {', '.join(asked)}")
        self.ledger = Ledger()
        self.lives = 0
        self._plan, self._choices = plan, choices
        self._config = config_of(plan)
        self._simulation = Simulation(choices, policy)
        self._kernel = self._simulation.kernel
        torn = FaultPlan(torn_bytes_chance=plan.faults.torn_bytes_chance)
        self._disks = self._simulation.lifecycle(faults=torn, timing=_AT_ONCE)
        self._disks.set_next_image(initial_image_of(plan))
        self._judge = Judge(plan, self._kernel, self.ledger)
        self._settling = Settling(plan, self._kernel, self.ledger, self._judge, choices.stream)
        self._machine: Machine | None = None
        self._store: MessageStore | None = None
        self._traffic: Traffic | None = None
        self._disk: Disk | None = None
        self._steps = self._puts = 0

    @property
    def is_running(self) -> bool:
        return self._machine is not None

    def close(self) -> None:
        self._kernel.close()

    # -- starts ------------------------------------------------------------------------------------

    def open(self, power_fails_after: int | None = None, moment: str = MOMENTS[0]) -> bool:
        """Switch the machine on and open the store. power_fails_after: `after` of `fail_power`."""
        assert self._machine is None, "the machine is off"
        self.ledger.begin_life()
        disk = self._disk = self._disks.find_disk(f"disk-{self.lives}")
        self._machine = self._kernel.create_machine(f"life-{self.lives}")
        self.lives += 1
        self._store, self._puts = None, 0
        store = MessageStore(world_of(self._machine, disk, core=core_of(self._plan)), self._config)
        if power_fails_after is not None:
            self.fail_power(power_fails_after, moment)
        return self._run_step(lambda: self._open(store, disk))

    def fail_power(self, after: int, moment: str) -> None:
        """Cut the power after `after` file operations: before, during or after the next operation."""
        assert self._disk is not None, "the machine is on"
        self._disk.crash_at(self._disk.operations + after, moment)

    def crash(self) -> None:
        assert self._machine is not None, "the machine is on"
        self._kernel.kill(self._machine)
        self._end_in_a_crash()

    def stop(self) -> bool:
        disk, machine = self._disk, self._machine
        assert disk is not None, "the machine is on"
        assert machine is not None, "the machine is on"

        def stop() -> None:
            store = self._opened_store()
            self._settling.stop(store, disk, machine, clean=store.shutdown())

        if not self._run_step(stop):
            return False
        guarantees.note_stop(self.ledger)
        self._kernel.kill(machine)
        self._disks.set_image_after_stop(disk)
        self._disk = self._machine = None
        return True

    # -- use ---------------------------------------------------------------------------------------

    def put(self) -> bool:
        traffic, name = self._traffic, f"m{self.lives - 1}.0.{self._puts}"
        assert traffic is not None, "the machine is on"
        self._puts += 1
        stream = self._choices.stream(f"life-{self.lives - 1}/producer-0").with_subject(name)
        return self._run_step(lambda: traffic.put_one(stream, name))

    def pull(self) -> bool:
        """Read a whole queue and check each message. A message that was pulled must survive later crashes."""
        stream = self._choices.stream(f"life-{self.lives - 1}/consumer-0")

        def pull() -> None:
            assert self._traffic is not None, "the machine is on"
            Consumer(*self._traffic.shared_fields, stream, "G0").read_queue(None, lambda: False)

        return self._run_step(pull)

    def look_up(self) -> bool:
        stored = [put for put in self.ledger.puts if put.physical_offset is not None]
        if not stored:
            return True
        put = self._choices.stream("look-up").choice(stored, "put")
        return self._run_step(lambda: self._look_up(put))

    def query(self) -> bool:
        life, stream = self.lives - 1, self._choices.stream(f"life-{self.lives - 1}/seeker-0")

        def query() -> None:
            assert self._traffic is not None, "the machine is on"
            KeySearcher(*self._traffic.shared_fields, life, stream).search_once(max(self._puts, 1))

        return self._run_step(query)

    def pass_time(self, ms: int) -> bool:
        return self._run_step(lambda: self._opened_store().world.tasks.sleep(ms))

    def flush(self) -> bool:
        disk = self._disk
        assert disk is not None, "the machine is on"
        return self._run_step(lambda: self._settling.flush(self._opened_store(), disk))

    def catch_up(self) -> bool:
        disk = self._disk
        assert disk is not None, "the machine is on"
        return self._run_step(lambda: self._settling.await_visible(self._opened_store(), disk))

    # -- one step ----------------------------------------------------------------------------------

    def _run_step(self, body: Callable[[], None]) -> bool:
        """Run `body` as a task on the store's machine, and wait. Return whether the machine is still on."""
        machine = self._machine
        assert machine is not None, "the machine is on"
        self._steps += 1

        def wait() -> None:
            with suppress(MachineDied):  # the machine may die before the task exists
                machine.tasks.spawn("user", body).join(None)

        with self._violations_raised(), self._judge.judged_errors():
            someone = self._kernel.create_machine(f"someone-{self._steps}")
            self._kernel.run(someone, wait, time_limit_ns=_TIME_LIMIT_NS)
        if not machine.alive:
            self._end_in_a_crash()
        return machine.alive

    @contextmanager
    def _violations_raised(self) -> Iterator[None]:
        try:
            yield
        except StopOnViolation as broken:
            first = self._judge.violations[0] if self._judge.violations else broken
            raise StoreBroke(
                str(first)
            ) from None  # the steps of the session explain the failure, this traceback does not

    def _end_in_a_crash(self) -> None:
        """Choose a crash image at random, and record which data must survive. A process kill keeps the disk mounted."""
        disk = self._disk
        assert disk is not None, "the machine was on"
        disk_model = DISK_MODELS[self._plan.disk]
        profile = PROFILES[self._choices.stream("crash").choice(disk_model.crashes, "profile")]
        self._machine = self._traffic = None
        with self._violations_raised():
            self._judge.judge_crash(self._store, disk, profile)
        self._disks.set_image_after_crash(disk, profile)
        self._judge.note_damage(self._config, disk.damage)

    def _open(self, store: MessageStore, disk: Disk) -> None:
        try:
            store.load()
        except Exception as error:
            text = f"the store cannot be opened: {type(error).__name__}: {error}"
            self._judge.report_and_stop("START", text, "load", "", "", detail=f"raised in {frames_of(error)}")
        self._store = store
        self._judge.judge_recovery(store, disk)
        fields = self._plan, store, disk, self.ledger, self._judge.report
        self._traffic = Traffic(*fields, self.lives - 1, self._choices.stream)
        store.start()

    def _opened_store(self) -> MessageStore:
        assert self._store is not None, "the machine is on"
        return self._store

    def _look_up(self, put: PutEntry) -> None:
        self._judge.report(consumers.check_look_up(self._opened_store(), self.ledger, put))

"""Store run: starts and ends one store on one disk repeatedly. The next recovery shows whether data survived.

    draw a plan → life: load, check, start, traffic, end → crash image → next life … → heal: all requests must succeed

All randomness comes from the run's choices, and the scheduling policy decides every task switch, so the same seed or
record repeats the run. At the end, two recoveries without faults must produce the same bytes. In a liveness run all
faults then end, and the store must work again within a bounded time.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ...faults.crashes.profiles import PROFILES
from ...faults.disk.disk import Disk
from ...faults.plan import FaultPlan
from ...sim.errors import MachineDied
from ...sim.machine import Machine
from ...store.formats.half_message import HALF_TOPIC, OP_TOPIC, QUEUE_ID
from ...store.message_store import MessageStore
from ...store.services.transaction_check import CHECK_GROUP
from ...store.world import Files
from ..claims.machine import BODY_BYTES_MAX, BODY_LIMIT, INDEX_SIZES, config_of, core_of, initial_image_of, world_of
from ..claims.plan import Life, LifeEnding
from ..oracle import allowances, guarantees
from ..oracle.disk_space import DiskRoom, WatchedRemovals
from ..oracle.evidence import Violation, record_tried
from ..oracle.invariants import clean, tx
from ..oracle.log_directories import SegmentPlaces, check_full_directory
from ..oracle.recovered import Content, content_of, first_difference, with_blanks_for_zeros, with_replaced_addresses
from ..workload.offline_faults import OfflineFaults
from ..workload.store_faults import SKIPPED_NUMBERS, skip_numbers, world_out_of_memory
from ..workload.transaction_traffic import TransactionTraffic
from .execution import HEAL, Execution, sync_timing_of

_SPARE_BYTES = (8, 99)
"""Free bytes on a full disk: enough for the lock file, not for a queue file."""
_CATCH_UP_NS_MAX = 20 * 1_000_000_000
"""How long dispatch may take to notice and use new free space on the disk."""
_LOOK_MS = 100
_TIME_LIMIT_NS = 3_600 * 1_000_000_000  # long, because tasks may be paused for most of it


class Run(Execution):
    """One run of a plan with a single store."""

    def _prepare(self) -> None:
        plan, choices = self._plan, self._choices
        self._config = config_of(plan)
        self._segment_places = SegmentPlaces()
        self._store: MessageStore | None = None
        self._skipped: Counter[str] = Counter()
        self._offline_faults = OfflineFaults(
            plan, self._config, self._kernel, self._ledger, self._judge, choices.stream
        )
        faults = plan.faults
        if plan.heals:  # a liveness run must reach its traffic
            faults = replace(plan.faults, failed_creation_chance=0.0, failed_directory_sync_chance=0.0)
        self.lasting = self.simulation.lifecycle(
            faults=faults, timing=sync_timing_of(plan), rot=self._offline_faults.decay
        )
        self.lasting.set_next_image(initial_image_of(plan))
        self._ledger.clock_set_back = self._disturbances.set_back

    def _run_all_lives(self) -> None:
        for number, life in enumerate(self._lives):
            self._run_life_number(number, life)
        self._finish_run()

    def _injection_counters(self) -> Iterable[Counter[str]]:
        return [+self._skipped, self._offline_faults.injected, self._disturbances.injected]

    # -- lives -------------------------------------------------------------------------------------

    def _run_life_number(self, number: int, life: Life) -> None:
        if number:
            self._stay_off()
        disk = self.lasting.find_disk(f"disk-{number}", faulty=True)
        disk.capacity_bytes = None
        disk.lift_directory_limits()
        self._number = number
        if life.ending != LifeEnding.CRASH_IN_PERSIST:
            self._arm_death(disk)
        crashed = self._run_life(f"life-{number}", disk, life, number)
        self._end_life(disk, life, crashed=crashed)

    def _stay_off(self) -> None:
        if self._plan.retention.hours_off:
            self._kernel.advance_clock(self._plan.retention.hours_off * 3_600 * 1_000_000_000)

    def _finish_run(self) -> None:
        """Recover twice. In a liveness run also use the store and stop it cleanly."""
        self._number = len(self._lives)
        recovered = self._recover_and_judge("heal", self._judge_recovery)
        if not self._plan.heals:
            self._check_second_recovery(recovered, self._recover_and_judge("again"))
            return
        self._stay_off()
        disk = self.lasting.find_disk("healed", faulty=False)
        self._run_life("healed", disk, HEAL, len(self._plan.lives), recovered=recovered)
        self._end_life(disk, HEAL, crashed=False)
        self._recover_and_judge("after", self._judge_recovery)

    def _run_life(self, name: str, disk: Disk, life: Life, number: int, *, recovered: Content | None = None) -> bool:
        """Run one `Life` of the plan; return whether the machine died.

        recovered: the content after an earlier recovery of this disk, which the next recovery must reproduce.
        """
        self._ledger.begin_life()
        in_persist = life.ending == LifeEnding.CRASH_IN_PERSIST
        self._progress.begin_life(partial(self._arm_death, disk) if in_persist else None, is_calm=life is HEAL)
        machine = self._kernel.create_machine(name)

        def body() -> None:
            room = DiskRoom(self._kernel, disk, self._disturbances.paused_ns)
            if self._offline_faults.next_start_is_full and life is not HEAL:
                self._offline_faults.next_start_is_full = False
                stream = self._choices.stream(f"life-{number}/full disk")
                room.limit_capacity(disk.used_bytes + stream.randint(*_SPARE_BYTES, "spare bytes"))
            store = self._open_store(disk, machine, number, recovered, room)
            if life is not HEAL:
                self._disturbances.start()
            if self._plan.capacity_bytes and life is not HEAL:
                room.limit_capacity(self._plan.capacity_bytes)
            full = self._full_directory
            # The usage of a missing read-only directory is unknown, so the full one would count alone.
            all_exist = set(self._config.commit_log_directories) <= set(disk.directories)
            if full is not None and all_exist and life is not HEAL:
                segments = self._plan.log_directories.full_at_segments
                disk.limit_directory(full, segments * self._plan.commit_log_bytes)
            traffic = self._make_users(number, store, disk, room)
            transactions = traffic.transactions
            if life.ending == LifeEnding.STOP_IN_TRAFFIC:
                stop = partial(self._shut_down_in_traffic, store, transactions)
                clean = traffic.run_and_stop(life.messages_each, stop)
                has_room = not self._plan.capacity_bytes
                self._settling.stop(store, disk, machine, clean=clean, has_room=has_room)
                return
            faults = FaultPlan() if life is HEAL else self._plan.faults
            with disk.with_faults(
                failed_creation_chance=faults.failed_creation_chance,
                failed_directory_sync_chance=faults.failed_directory_sync_chance,
            ):
                traffic.run(life.messages_each)
            if self._plan.heals and self._plan.errors_stop:
                disk.heal()
                self._disturbances.stop()
            if life is HEAL:
                self._disturbances.step_clock_last()
                self._await_users_settled(store, disk, traffic)
            if transactions is not None:
                transactions.shutdown()
            room.lift_limit()
            self._judge.report(check_full_directory(disk, self._config, full))
            disk.lift_directory_limits()
            self._judge.judge_services(store, machine, self._progress.manager)
            self._settling.await_visible(store, disk)
            self._settling.await_refusal(store, disk)
            must_recover_without_restart = allowances.must_recover_without_restart(
                self._plan, disk
            ) and allowances.has_any_fault(disk)
            if life is not HEAL and must_recover_without_restart:
                self._settling.flush(store, disk)
                if store.flags.is_writeable and not allowances.count_sync_errors(disk):
                    self._settling.await_deliveries(store, disk, self._progress)
            if self._plan.retention.deletes_segments:
                self._settling.await_retention(store, disk)
                self._settling.remove_queues(store, disk, number)
            self._judge.judge_positions(store, disk)
            if not life.is_stop:
                self._kernel.kill(machine)
                raise MachineDied(name)
            self._settling.stop(store, disk, machine, clean=self._shut_down(store))

        with self._judge.judged_errors():
            try:
                self._kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
            except MachineDied:
                return True
            finally:
                self._disturbances.stop()
        return False

    def _shut_down(self, store: MessageStore) -> bool:
        with self._timed_step("a stop", store):
            self._progress.shutdown()
            return store.shutdown()

    def _shut_down_in_traffic(self, store: MessageStore, transactions: TransactionTraffic | None) -> bool:
        if transactions is not None:
            transactions.shutdown()
        clean = self._shut_down(store)
        self._disturbances.stop()
        return clean

    def _open_store(
        self, disk: Disk, machine: Machine, number: int, recovered: Content | None, room: DiskRoom
    ) -> MessageStore:
        self._store = None
        world = world_of(machine, disk, core=core_of(self._plan))
        if self._plan.memory.error_chance and recovered is None:
            stream = self._choices.stream(f"{machine.name}/memory")
            world = world_out_of_memory(world, self._plan.memory.error_chance, stream, disk.injected)
        removals = WatchedRemovals(world.files, disk, room, self._ledger, self._judge.report)
        if self._plan.retention.delete_when:
            removals.is_time = clean.is_delete_hour
        if self._plan.retention.deletes_segments or self._offline_faults.segments_are_old:
            world = replace(world, files=cast(Files, removals))
        self._judge_segment_places(disk)
        if 0 < self._plan.log_directories.read_only_from <= number:
            first = self._config.commit_log_directories[0]
            self._config = replace(self._config, read_only_commit_log_store_paths=first)
        store = MessageStore(world, self._config)
        self._load_and_judge(store, disk, machine)
        self._store = removals.store = store
        if room.is_limited:
            return self._open_without_room(store, disk, machine, room)
        if recovered is None:
            self._judge_recovery(store, disk)
        else:  # the same bytes give the same result
            self._check_second_recovery(recovered, content_of(store))
        self._progress.start(store)
        if self._plan.starts.skipped_numbers_max:
            stream = self._choices.stream(f"life-{number}/skipped numbers")
            skipping = skip_numbers(store, stream, self._plan.starts.skipped_numbers_max, self._ledger)
            self._skipped[SKIPPED_NUMBERS] += skipping
        self._start_store(store, disk, machine)
        return store

    def _open_without_room(self, store: MessageStore, disk: Disk, machine: Machine, room: DiskRoom) -> MessageStore:
        """Start a store that was loaded on a full disk, free space, and check the store after dispatch caught up."""
        report = store.last_recovery
        assert report is not None, "the store is loaded"
        lacks_room = report.lacks_room is not None
        if lacks_room and store.flags.is_writeable:
            self._judge.report_and_stop(
                "START", "a store without space for its queues accepts puts", "flags", "refusing", "none"
            )
        self._progress.start(store)
        self._start_store(store, disk, machine)
        room.lift_limit()
        if lacks_room:
            self._offline_faults.injected["full disk at a start"] += 1
            deadline_ns = self._kernel.now_ns + _CATCH_UP_NS_MAX
            while store.dispatch.behind_bytes and self._kernel.now_ns < deadline_ns:
                store.world.tasks.sleep(_LOOK_MS)
        self._judge.judge_recovery(store, disk)
        return store

    @property
    def _full_directory(self) -> str | None:
        number = self._plan.log_directories.full_directory
        return self._config.commit_log_directories[number - 1] if number else None

    def _judge_segment_places(self, disk: Disk) -> None:
        check = self._segment_places.check_new_segments
        is_limited = self._plan.capacity_bytes > 0
        self._judge.report(check(disk, self._config, is_limited=is_limited, full=self._full_directory))

    def _load_and_judge(self, store: MessageStore, disk: Disk, machine: Machine) -> None:
        self._progress.attach(store, partial(self._judge.judge_delivery_progress, store, disk))
        self._load_store(store, disk, machine, partial(self._progress.load, store))

    def _judge_recovery(self, store: MessageStore, disk: Disk) -> None:
        found, manager = self._judge.judge_recovery(store, disk), self._progress.manager
        self._judge.judge_loaded_files(store, disk)
        if manager is None or not self._plan.transactions.chance:
            return
        with self._kernel.without_scheduling_points():
            offsets = manager.unlocked_offsets
        half_offset, op_offset = (
            offsets.get((f"{topic}@{CHECK_GROUP}", QUEUE_ID), -1) for topic in (HALF_TOPIC, OP_TOPIC)
        )
        self._judge.report(tx.check_check_progress(self._ledger, found, half_offset, op_offset))

    def _recover_and_judge(self, name: str, judge: Callable[[MessageStore, Disk], object] | None = None) -> Content:
        """Load a store from the last image without starting it, check it, and return its content."""
        disk = self.lasting.find_disk(name, faulty=False)
        machine = self._kernel.create_machine(name)
        self._progress.begin_life()

        def body() -> Content:
            world = world_of(machine, disk, core=core_of(self._plan))
            self._judge_segment_places(disk)
            store = MessageStore(world, self._config)
            self._load_and_judge(store, disk, machine)
            if judge is not None:
                judge(store, disk)
            return content_of(store)

        with self._judge.judged_errors():
            content = self._kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
        self.lasting.set_image_after_stop(disk)
        return content

    def _check_second_recovery(self, once: Content, twice: Content) -> None:
        record_tried("IDEMPOTENT")
        if not self._config.enable_consume_queue_ext:
            once = with_replaced_addresses(once, twice, self._config.consume_queue_directory)
        if self._plan.starts.skipped_numbers_max:
            once = with_blanks_for_zeros(once, twice, self._config.consume_queue_directory)
        different = first_difference(once, twice)
        if different is not None:
            file, offset, expected, found = different
            summary = "a second recovery changed the store"
            self._judge.report([Violation("IDEMPOTENT", summary, file, offset, "files", expected, found)])

    def _next_value(self, setting: str, *, crashed: bool) -> bool | int:
        """Return a switched setting at the next start. The last one has no small limit, so it delivers all messages."""
        value = getattr(self._config, setting)
        if setting in INDEX_SIZES and not crashed:
            chosen: int = getattr(config_of(self._plan), setting)
            return chosen + int(value == chosen)
        if setting != BODY_LIMIT:
            return value if crashed else not value
        limit, is_last = self._plan.messages.limit_bytes, self._number >= len(self._lives) - 1
        return BODY_BYTES_MAX if is_last or (value == limit) != crashed else limit

    def _end_life(self, disk: Disk, life: Life, *, crashed: bool) -> None:
        self._marks.note_end(life, disk, crashed=crashed, recovered=self._store is not None)
        offline_faults, store = self._offline_faults, self._store
        offline_faults.note_damage(disk.damage)
        if not crashed:
            assert store is not None, "a store that was stopped had been opened"
            guarantees.note_stop(self._ledger)
            self._progress.note_stop()
            after_stop = partial(offline_faults.after_stop, life, store=store)
            self.lasting.set_image_after_stop(disk, after_stop, power_cut=self._power_cut_after_stop(life))
        else:
            self._note_crash()
            profile = PROFILES[life.profile]
            self._judge.judge_crash(store, disk, profile)
            self._progress.note_crash(self._kernel.now_ns)
            self.lasting.set_image_after_crash(disk, profile, partial(offline_faults.after_crash, life, store=store))
        read_only, switched = self._config.read_only_commit_log_store_paths, self._plan.starts.switched
        kept: dict[str, Any] = {"read_only_commit_log_store_paths": read_only}
        if switched:
            kept[switched] = self._next_value(switched, crashed=crashed)
        self._config = replace(offline_faults.config, **kept)
        self._judge.note_damage(self._config, disk.damage)

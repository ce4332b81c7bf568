"""Watched copies: compares the tables of a slave with its master's at the end of each copy.

A copy is one run of SlaveSynchronize. The comparison needs a master that runs from its begin to its end. The slave
follows only brokers that are or were masters of its name.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from ....sim.kernel import Kernel
from ....store.broker.broker import Broker
from ....store.errors import StoreError
from ....store.service import do_nothing
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ...claims.machine import CONFIG
from ...oracle.evidence import Violation
from ...oracle.invariants.side_files import WatchedSideFile
from ...oracle.light_places import light_queue
from ...oracle.slave_tables import (
    CopyWindow,
    Place,
    SlaveFiles,
    Tables,
    VersionedEntries,
    check_copy,
    check_followed,
    check_follows,
)


@dataclass(slots=True)
class CommittedOffsets:
    """The offsets that clients commit to the brokers of one name while slaves copy. None: the offset is removed."""

    of_copies: list[dict[Place, set[int | None]]] = field(default_factory=list)
    """For each copy in progress, the offsets that a commit may have stored since its begin."""
    pending: Counter[tuple[Place, int | None]] = field(default_factory=Counter)
    """Commits that have begun and not returned. A copy that begins meanwhile may see their offsets, or not."""

    def begin_copy(self) -> dict[Place, set[int | None]]:
        committed: dict[Place, set[int | None]] = {}
        for place, offset in self.pending:
            committed.setdefault(place, set()).add(offset)
        self.of_copies.append(committed)
        return committed

    def end_copy(self, committed: dict[Place, set[int | None]]) -> None:
        self.of_copies = [each for each in self.of_copies if each is not committed]

    @contextmanager
    def commit(self, place: Place, offset: int | None) -> Iterator[None]:
        for committed in self.of_copies:
            committed.setdefault(place, set()).add(offset)
        self.pending[place, offset] += 1
        try:
            yield
        finally:
            self.pending[place, offset] -= 1
            assert self.pending[place, offset] >= 0, (place, offset)
            if not self.pending[place, offset]:
                del self.pending[place, offset]


class WatchedCopies:
    """The copies of one slave over all its starts."""

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        commits: CommittedOffsets,
        find_master: Callable[[], Broker | None],
        report: Callable[[Iterable[Violation]], None],
        *,
        light_queues: bool = False,
    ) -> None:
        """commits: the commits to brokers of the slave's name.

        find_master: returns the slave's master while it runs. light_queues: whether the brokers have them enabled.
        """
        self._name = name
        self._kernel = kernel
        self._commits = commits
        self._find_master = find_master
        self._report = report
        self._light_queues = light_queues
        self.expect_files({})

    def expect_files(self, found: Mapping[str, bytes]) -> None:
        """Expect these files at the next start, and no other. found: by path."""
        self.files = SlaveFiles(CONFIG, light_queues=self._light_queues)
        for versions in self.files.all:
            versions.durable = found.get(versions.path)

    def watch_files(self, broker: Broker) -> None:
        """Record the versions of the slave's files. Call this before the load."""
        files = broker.world.files
        topics, groups, offsets, delays = (WatchedSideFile(files, each, do_nothing) for each in self.files.all)
        broker.topics.file, broker.groups.file, broker.offsets.file = topics, groups, offsets
        broker.own_store.schedule.file = delays

    def check_loaded(self, broker: Broker) -> None:
        """Check the files that a load has found, and the tables that it has made from them."""
        found = self._tables_of(broker) if broker.is_slave else None
        self._report(self.files.check_loaded(self._name, found))

    def watch_copies(self, broker: Broker) -> None:
        """Check each copy from now on."""
        assert broker.synchronize is not None, "the broker is a slave"
        copy = broker.synchronize.synchronize

        def checked_copy() -> None:
            earlier = self._tables_of(broker)
            with self._window() as window:
                try:
                    copy()
                except (OSError, StoreError, ValueError):
                    self._judge(broker, window(), earlier)
                    raise
                self._judge(broker, window(), None)

        cast(Any, broker.synchronize).synchronize = checked_copy

    def watch_masters(self, broker: Broker, masters: Collection[str]) -> None:
        """Check each address that the slave follows from now on. masters: the hosts of all masters of its name."""
        fixed = broker.config.master_addr, broker.store.config.ha_master_address
        followers = (broker.synchronize, "tables"), (broker.ha, "the log")
        for (follower, kind), of_settings in zip(followers, fixed, strict=True):
            if follower is not None:
                checked = partial(self._follow, kind, follower.update_master_address, masters, of_settings)
                cast(Any, follower).update_master_address = checked

        for registration in broker.registrations:
            registration.on_master = partial(self._take_master, broker, registration.on_master)

    def _take_master(self, broker: Broker, take: Callable[[str, str], None], address: str, ha_address: str) -> None:
        take(address, ha_address)
        assert broker.synchronize is not None, "the broker is a slave"
        assert broker.ha is not None, "there is a network"
        assert broker.ha.client is not None, "the broker is a slave"
        with self._kernel.without_scheduling_points():
            of_tables, of_log = broker.synchronize.master_address, broker.ha.client.master_address
        self._report(check_follows(self._name, "tables", address, of_tables))
        self._report(check_follows(self._name, "the log", ha_address, of_log))

    def _follow(
        self, kind: str, follow: Callable[[str], None], masters: Collection[str], fixed: str, address: str
    ) -> None:
        self._report(check_followed(self._name, kind, address, masters, fixed))
        follow(address)

    @contextmanager
    def _window(self) -> Iterator[Callable[[], CopyWindow | None]]:
        """Yield a function that returns the master's tables since now; None if the master has not run since."""
        master, committed = self._find_master(), self._commits.begin_copy()
        before = None if master is None else self._tables_of(master)

        def until_now() -> CopyWindow | None:
            if master is None or before is None or self._find_master() is not master:
                return None
            return CopyWindow(before, self._tables_of(master), committed)

        try:
            yield until_now
        finally:
            self._commits.end_copy(committed)

    def _judge(self, broker: Broker, window: CopyWindow | None, earlier: Tables | None) -> None:
        if window is None:
            return
        found = self._tables_of(broker)
        self._report(check_copy(self._name, found, window, earlier))
        if earlier is None:
            self._report(self.files.check_written(self._name, found, window))

    def _tables_of(self, broker: Broker) -> Tables:
        with self._kernel.without_scheduling_points():
            topics, groups = (VersionedEntries(each.version, each.table) for each in (broker.topics, broker.groups))
            return Tables(topics, groups, broker.offsets.unlocked_offsets, dict(broker.own_store.schedule.offsets))


def note_commits(offsets: ConsumerOffsetManager, commits: CommittedOffsets) -> None:
    """Record each offset that clients commit or remove from now on."""
    commit, remove = offsets.commit_offset, offsets.remove_group

    def noted_commit(group: str, topic: str, queue_id: int, offset: int) -> None:
        place = light_queue(group, queue_id)  # a group of a light queue has one offset per topic
        with commits.commit((f"{topic}@{group}", place[1]), offset):
            commit(group, topic, queue_id, offset)

    def noted_removal(group: str) -> None:
        with ExitStack() as noted:
            for place in offsets.unlocked_offsets:
                if place[0].endswith(f"@{group}"):
                    noted.enter_context(commits.commit(place, None))
            remove(group)

    cast(Any, offsets).commit_offset = noted_commit
    cast(Any, offsets).remove_group = noted_removal

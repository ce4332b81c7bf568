"""Which versions of a side file a start may find."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.plan import FaultPlan
from tornlog.scenarios.claims.machine import CONFIG, ROOT, world_of
from tornlog.scenarios.oracle.invariants.side_files import WatchedSideFile, check_version
from tornlog.scenarios.oracle.ledger import Versions
from tornlog.sim.choices import Choices
from tornlog.sim.errors import MachineDied
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.errors import CorruptFileError
from tornlog.store.world import Files

T = TypeVar("T")
PATH = f"{CONFIG}/consumerOffset.json"


def parse_unless_bad(raw: bytes, file: str) -> bytes:
    if raw == b"bad":
        raise CorruptFileError(file, 0, "text", "good", "bad")
    return raw


class Bench:
    """One disk that several machines use one after another."""

    def __init__(self, faults: FaultPlan | None = None) -> None:
        choices = Choices("versions")
        self.kernel = Kernel(RandomWalk(choices.stream("schedule"), 4))
        self.disk = Disk(self.kernel, choices.stream("disk"), faults=faults)
        self.versions = Versions(PATH)
        self.begun = 0
        self._lives = 0

    def _begin(self, _: bytes) -> None:
        self.begun += 1

    def live(self, body: Callable[[WatchedSideFile, Files], T]) -> T:
        self._lives += 1
        machine = self.kernel.create_machine(f"life-{self._lives}")
        files = world_of(machine, self.disk).files
        return self.kernel.run(
            machine, lambda: body(WatchedSideFile(files, self.versions, self._begin), files), time_limit_ns=10**9
        )


def test_a_side_file_version_is_durable_once_store_returns() -> None:
    bench = Bench()

    def body(file: WatchedSideFile, files: Files) -> None:
        assert file.load(parse_unless_bad) is None
        assert bench.versions.loaded is None
        assert file.store(b"one")
        assert not file.store(b"one")
        assert (bench.versions.durable, bench.versions.is_persisted) == (b"one", True)

    bench.live(body)
    assert bench.begun == 1


def test_a_side_file_version_whose_store_fails_is_only_begun() -> None:
    bench = Bench(FaultPlan(failed_sync_chance=1.0))

    def body(file: WatchedSideFile, files: Files) -> None:
        with pytest.raises(OSError, match="Input/output error"):
            file.store(b"one")

    bench.live(body)
    assert (bench.versions.durable, bench.versions.unfinished) == (None, [b"one"])
    assert not bench.versions.is_persisted


def test_a_side_file_version_is_only_begun_if_its_machine_dies() -> None:
    bench = Bench()
    bench.live(lambda file, files: file.store(b"one"))
    bench.disk.crash_at(bench.disk.operations + 2, "before")
    with pytest.raises(MachineDied):
        bench.live(lambda file, files: file.load(parse_unless_bad) and file.store(b"two"))

    assert (bench.versions.durable, bench.versions.unfinished) == (b"one", [b"two"])


def test_a_start_must_find_the_side_file_version_that_the_previous_start_found() -> None:
    bench = Bench()
    bench.versions.unfinished = [b"one", b"two"]

    def body(file: WatchedSideFile, files: Files) -> None:
        files.make_directories(CONFIG)
        files.write(PATH, b"one")
        assert file.load(parse_unless_bad) == b"one"

    bench.live(body)
    assert bench.versions.loaded == b"one"
    bench.versions.mark_loaded_durable()
    assert (bench.versions.durable, bench.versions.unfinished) == (b"one", [])


def test_a_version_that_a_start_writes_after_its_load_stays_the_durable_one() -> None:
    bench = Bench()

    def body(file: WatchedSideFile, files: Files) -> None:
        file.store(b"one")
        assert file.load(parse_unless_bad) == b"one"
        file.store(b"corrected")

    bench.live(body)
    assert list(check_version(bench.versions)) == []
    bench.versions.mark_loaded_durable()
    assert bench.versions.durable == b"corrected"


def test_the_backup_is_loaded_if_the_side_file_is_damaged() -> None:
    bench = Bench()

    def body(file: WatchedSideFile, files: Files) -> None:
        files.make_directories(CONFIG)
        files.write(PATH, b"bad")
        files.write(f"{PATH}.bak", b"good")
        assert file.load(parse_unless_bad) == b"good"

    bench.live(body)
    assert bench.versions.loaded == b"good"


@pytest.mark.parametrize("profile", PROFILES)
def test_after_any_crash_the_side_file_has_an_allowed_version(profile: str) -> None:
    for operation in range(14):
        bench = Bench()
        bench.live(lambda file, files: (files.make_directories(ROOT), files.sync_directory("/")))
        bench.disk.crash_at(bench.disk.operations + operation, "during")
        with pytest.raises(MachineDied):
            bench.live(lambda file, files: [file.store(b"%d" % number) for number in range(9)])
        image = bench.disk.crash(PROFILES[profile])
        bench.disk = Disk(bench.kernel, Choices("next").stream("disk"), image=image)
        bench.live(lambda file, files: file.load(parse_unless_bad))
        assert bench.versions.loaded in (bench.versions.durable, *bench.versions.unfinished)


# -- the backup ------------------------------------------------------------------------------------


def read_backup(files: Files) -> bytes | None:
    status = files.status(f"{PATH}.bak")
    return None if status is None else files.read(f"{PATH}.bak")


def test_the_backup_must_have_the_version_before_the_durable_one() -> None:
    bench = Bench()

    def body(file: WatchedSideFile, files: Files) -> list[tuple[bytes | None, bytes | None]]:
        found = []
        for content in (b"one", b"two", b"two", b"three"):
            file.store(content)
            found.append((bench.versions.backup, read_backup(files)))
        return found

    assert bench.live(body) == [(None, None), (b"one", b"one"), (b"one", b"one"), (b"two", b"two")]


def test_after_a_failed_write_no_backup_is_required_until_the_second_write() -> None:
    bench = Bench()

    def body(file: WatchedSideFile, files: Files) -> None:
        file.store(b"one")
        file.store(b"two")
        with bench.disk.with_faults(failed_sync_chance=1.0), pytest.raises(OSError, match="Input/output"):
            file.store(b"three")
        assert not bench.versions.is_persisted
        file.store(b"four")
        assert (bench.versions.durable, bench.versions.backup) == (b"four", None)
        file.store(b"five")
        assert (bench.versions.durable, bench.versions.backup) == (b"five", b"four")

    bench.live(body)


def versions_of(durable: bytes | None, kept: bytes | None, loaded: bytes | None, *begun: bytes) -> Versions:
    versions = Versions(PATH)
    versions.durable, versions.backup, versions.unfinished = durable, kept, [*begun]
    versions.note_load(loaded)
    return versions


def test_after_the_durable_version_is_lost_the_backup_is_the_durable_one() -> None:
    versions = versions_of(b"two", b"one", b"two")
    versions.lose_durable()
    assert (versions.durable, versions.backup, versions.is_persisted) == (b"one", None, True)

    versions.lose_durable()
    assert versions.durable is None


@pytest.mark.parametrize(
    ("loaded", "begun", "kept"),
    [
        (b"two", (), b"one"),
        (b"one", (), None),  # the backup is durable by now
        (b"two", (b"three",), None),  # the renames of the third may have put the second in the backup's place
        (b"three", (b"three",), None),
    ],
)
def test_a_backup_stays_required_only_if_a_start_loads_the_durable_version(
    loaded: bytes, begun: tuple[bytes, ...], kept: bytes | None
) -> None:
    versions = versions_of(b"two", b"one", loaded, *begun)
    versions.mark_loaded_durable()
    assert (versions.durable, versions.backup, versions.unfinished) == (loaded, kept, [])


def test_a_start_loads_the_backup_if_the_durable_version_is_damaged() -> None:
    bench = Bench()

    def body(file: WatchedSideFile, files: Files) -> None:
        for content in (b"one", b"two"):
            file.store(content)
        files.write(PATH, b"bad")
        bench.versions.lose_durable()
        assert file.load(parse_unless_bad) == bench.versions.loaded == bench.versions.durable == b"one"

    bench.live(body)

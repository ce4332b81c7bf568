from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.fault_injector import CrashPoint, CrashTrigger
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.sim.errors import MachineDied
from tornlog.sim.trace import RollingDigest, Trace

KINDS = [
    "make directory",
    "create",
    "extend",
    "store",
    "pwrite",
    "msync",
    "fdatasync",
    "create",
    "write",
    "sync",
    "empty",
    "write",
    "rename",
    "sync directory",
    "unlink",
    "make directory",
    "remove directory",
]


def every_operation(rig: Any) -> Callable[[], None]:
    def body() -> None:
        files = rig.files
        files.make_directories("/d")
        mapped = files.map("/d/log", 4096)
        mapped.store(0, b"stored")
        mapped.pwrite(100, b"written")
        mapped.msync(0, 4096)
        mapped.fdatasync()
        files.write("/d/tmp", b"small")
        files.sync("/d/tmp")
        files.write("/d/tmp", b"other")
        files.rename("/d/tmp", "/d/json")
        files.sync_directory("/d")
        files.unlink("/d/json")
        files.make_directories("/d/e")
        files.remove_directory("/d/e")

    return body


def test_only_mutating_operations_are_numbered(rig: Any) -> None:
    trace = rig.kernel.trace = Trace()
    trace.attach_to_kernel(rig.kernel, RollingDigest())
    rig.run(every_operation(rig))

    events = [event.kind for event in trace if event.kind in set(KINDS)]
    assert events == KINDS
    assert rig.disk.operations == len(KINDS)


def test_reads_have_no_operation_number(rig: Any) -> None:
    mapped = rig.files.map("/a", 10)
    before = rig.disk.operations
    rig.files.status("/a")
    rig.files.list_directory("/")
    rig.files.read("/a")
    rig.files.map("/a", 10).close()
    rig.files.lock("/a").release()
    mapped.view(0, 10)

    assert rig.disk.operations == before


@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize("operation", range(len(KINDS)))
def test_a_crash_trigger_selects_the_operation_by_number_or_crash_point(operation: int, moment: str) -> None:
    rig = Rig()
    trigger = rig.disk.crash_at(operation, moment)
    rig.run_until_death(every_operation(rig))
    image = rig.disk.crash(PROFILES["process-kill"])

    assert rig.injected[f"crash {moment} {KINDS[operation]}"] == 1
    assert rig.disk.operations == operation + 1
    assert trigger.selected is not None
    assert trigger.selected.kind == KINDS[operation]
    named = Rig()
    named.disk.arm_trigger(CrashTrigger(point=CrashPoint.parse(str(trigger.selected))), moment)
    named.run_until_death(every_operation(named))
    assert named.kernel.digest() == rig.kernel.digest()
    assert named.disk.crash(PROFILES["process-kill"]).digest() == image.digest()
    assert named.injected == rig.injected
    done = operation + (moment == "after")
    whole = Rig()
    whole.disk.crash_at(done, "before")
    if done < len(KINDS):
        whole.run_until_death(every_operation(whole))
    else:
        whole.run(every_operation(whole))
    expected = whole.disk.crash(PROFILES["process-kill"])
    if moment != "during":
        assert image.digest() == expected.digest()


def test_without_a_trigger_no_machine_crashes(rig: Any) -> None:
    rig.run(every_operation(rig))

    assert not any(kind.startswith("crash") for kind in rig.injected)


def contents_after_crashes(
    operation: int, path: str, body: Callable[[Any], Callable[[], None]] = every_operation
) -> set[bytes | None]:
    found: set[bytes | None] = set()
    for seed in range(60):
        rig = Rig(seed=str(seed))
        rig.disk.crash_at(operation, "during")
        rig.run_until_death(body(rig))
        file = rig.disk.crash(PROFILES["process-kill"]).files.get(path)
        found.add(None if file is None else file.content.rstrip(b"\0"))
    return found


def test_a_crash_during_a_write_leaves_a_prefix() -> None:
    assert contents_after_crashes(4, "/d/log") == {
        (b"stored" + bytes(94) + b"written"[:length]).rstrip(b"\0") for length in range(8)
    }
    assert contents_after_crashes(8, "/d/tmp") == {b"small"[:length] for length in range(6)}


def test_a_crash_during_a_short_store_leaves_whole_words_of_8_bytes() -> None:
    def one_store(data: bytes) -> Callable[[Any], Callable[[], None]]:
        return lambda rig: lambda: rig.files.map("/log", 4096).store(4, data)

    short, long = bytes(range(1, 22)), b"x" * 65
    assert contents_after_crashes(2, "/log", one_store(short)) == {
        (bytes(4) + short[:words]).rstrip(b"\0") for words in (0, 8, 16, 21)
    }
    assert any((len(content) - 4) % 8 for content in contents_after_crashes(2, "/log", one_store(long)) if content)


def test_operations_other_than_writes_are_atomic_in_a_crash() -> None:
    assert contents_after_crashes(7, "/d/tmp") == {None, b""}
    assert contents_after_crashes(10, "/d/tmp") == {b"small", b""}
    assert contents_after_crashes(12, "/d/json") == {None, b"other"}
    assert contents_after_crashes(14, "/d/json") == {None, b"other"}


def test_after_a_crash_every_disk_call_raises(rig: Any) -> None:
    refusals = []

    def refused(call: Callable[[], object]) -> None:
        try:
            call()
        except MachineDied:
            refusals.append(call)

    def body() -> None:
        files = rig.files
        files.make_directories("/d")
        files.write("/d/a", b"content")
        lock = files.lock("/d/lock")
        mapped = files.map("/d/log", 100)
        rig.disk.crash_at(rig.disk.operations, "after")
        calls: list[Callable[[], object]] = [
            lambda: mapped.store(0, b"no"),
            lambda: mapped.pwrite(0, b"no"),
            lambda: mapped.msync(0, 100),
            mapped.fdatasync,
            mapped.close,
            lambda: files.status("/d/a"),
            lambda: files.list_directory("/d"),
            lambda: files.make_directories("/e"),
            lambda: files.map("/d/new", 100),
            lambda: files.read("/d/a"),
            lambda: files.write("/d/a", b"no"),
            lambda: files.sync("/d/a"),
            lambda: files.sync_directory("/d"),
            lambda: files.rename("/d/a", "/d/b"),
            lambda: files.unlink("/d/a"),
            lambda: files.remove_directory("/d"),
            lambda: files.lock("/d/a"),
            lock.release,
        ]
        try:
            mapped.store(10, b"last")
        finally:
            for call in calls:
                refused(call)

    rig.run_until_death(body)
    died_at = rig.disk.operations
    with pytest.raises(MachineDied):
        rig.files.write("/d/a", b"not from outside either")
    image = rig.disk.crash(PROFILES["nothing-lost"])

    assert len(refusals) == 18
    assert rig.disk.operations == died_at
    assert {path: file.content.strip(b"\0") for path, file in image.files.items()} == {
        "/d/a": b"content",
        "/d/lock": b"",
        "/d/log": b"last",
    }


def test_tasks_of_a_crashed_machine_change_no_file() -> None:
    for seed in range(20):
        rig = Rig(seed=str(seed))
        written: list[int] = []

        def body(rig: Any = rig, written: list[int] = written) -> None:
            mapped = rig.files.map("/log", 4096)

            def write() -> None:
                for number in range(40):
                    mapped.store(number, b"x")
                    written.append(number)

            def write_from_behind() -> None:
                try:
                    write()
                finally:
                    mapped.store(4000, b"!")

            for task in [rig.machine.tasks.spawn(f"writer {n}", write_from_behind) for n in range(3)]:
                task.join(None)

        rig.disk.crash_at(30, "before")
        rig.run_until_death(body)

        assert rig.disk.operations == 31
        assert len(written) == 28
        assert b"!" not in rig.disk.crash(PROFILES["process-kill"]).files["/log"].content


def test_a_seed_always_gives_the_same_operation_numbers_and_digests() -> None:
    def run(seed: str) -> tuple[str, int, str]:
        rig = Rig(seed=seed, timing=SyncTiming(1000, 9000))

        def body() -> None:
            def work(name: str) -> None:
                mapped = rig.files.map(f"/{name}", 8192)
                for number in range(30):
                    mapped.store(number * 40, name.encode() * 10)
                    if number % 7 == 0:
                        mapped.msync(0, 8192)

            for task in [rig.machine.tasks.spawn(name, lambda name=name: work(name)) for name in "abc"]:
                task.join(None)

        rig.disk.crash_at(70, "during")
        rig.run_until_death(body)
        image = rig.disk.crash(PROFILES["strict-posix"])
        return rig.kernel.digest(), rig.disk.operations, image.digest()

    results = [run(seed) for seed in "123456"]
    assert results == [run(seed) for seed in "123456"]
    assert len({digest for digest, _, _ in results}) == 6
    assert len({digest for _, _, digest in results}) > 3


def test_the_digest_covers_paths_offsets_and_bytes() -> None:
    def digest(path: str, at: int, data: bytes) -> str:
        rig = Rig()
        rig.run(lambda: rig.files.map(path, 100).store(at, data))
        return str(rig.kernel.digest())

    digests = [digest("/a", 0, b"x"), digest("/b", 0, b"x"), digest("/a", 1, b"x"), digest("/a", 0, b"y")]
    assert len(set(digests)) == 4
    assert digest("/a", 0, b"x") == digests[0]


def test_the_page_cache_survives_a_process_kill() -> None:
    outcomes = set()
    for seed in range(30):
        rig = Rig(seed=str(seed))
        rig.disk.crash_at(3, "before")
        rig.run_until_death(lambda rig=rig: [rig.files.map("/a", 10).store(0, b"one") for _ in range(2)])
        second = rig.kernel.create_machine("second")
        files = rig.disk.mount(second)
        assert rig.kernel.run(second, lambda files=files: files.read("/a"), time_limit_ns=1) == b"one" + bytes(7)
        image = rig.disk.crash(PROFILES["strict-posix"])
        outcomes.add(image.files["/a"].content.rstrip(b"\0") if "/a" in image.files else None)
    assert outcomes == {None, b"", b"one"}


def test_a_disk_is_unusable_after_it_became_a_crash_image(rig: Any) -> None:
    with pytest.raises(RuntimeError, match="alive"):
        rig.disk.crash(PROFILES["nothing-lost"])
    rig.cut("nothing-lost")
    with pytest.raises(RuntimeError, match="has become an image"):
        rig.disk.image_after_power_off()
    with pytest.raises(RuntimeError, match="has become an image"):
        rig.disk.mount(rig.kernel.create_machine("next"))


def test_a_crash_trigger_requires_a_future_operation_and_a_moment(rig: Any) -> None:
    rig.files.map("/a", 10)
    with pytest.raises(ValueError, match="at least 2, found 1"):
        rig.disk.crash_at(1, "before")
    with pytest.raises(ValueError, match="before, during, after, found amidst"):
        rig.disk.crash_at(9, "amidst")


def test_a_crash_point_without_an_operation_has_no_effect(rig: Any) -> None:
    rig.disk.arm_trigger(CrashTrigger(point=CrashPoint("store", "/of/yore", 1)), "before")
    rig.run(every_operation(rig))

    assert not any(kind.startswith("crash") for kind in rig.injected)


def test_crash_points_count_operations_from_the_arming_of_the_trigger(rig: Any) -> None:
    mapped = rig.files.map("/a", 100)
    mapped.store(0, b"x")
    trigger = rig.disk.crash_at(rig.disk.operations + 1, "before")
    rig.run_until_death(lambda: [mapped.store(at, b"y") for at in range(3)])

    assert trigger.selected == CrashPoint("store", "/a", 2)


def test_a_disarmed_trigger_has_no_effect(rig: Any) -> None:
    rig.disk.arm_trigger(CrashTrigger(point=CrashPoint("create", "/a", 1)), "before")
    rig.disk.cancel_crash_trigger()
    rig.files.map("/a", 10)

    assert rig.machine.alive


def test_a_judge_can_read_the_durable_bytes(rig: Any) -> None:
    mapped = rig.files.map("/a", 8192)
    mapped.store(10, b"x")
    assert not rig.disk.is_durable("/a", 0, 11)
    assert rig.disk.is_durable("/a", 4096, 8192)
    mapped.msync(0, 4096)
    assert rig.disk.is_durable("/a", 0, 8192)
    assert not rig.disk.is_durable("/b", 0, 0)


def test_a_judge_can_read_the_used_space(rig: Any) -> None:
    used = [rig.disk.used_bytes]
    rig.files.map("/a", 100)
    used.append(rig.disk.used_bytes)
    rig.disk.capacity_bytes = 60  # less than the used space
    used.append(rig.disk.used_bytes)
    rig.disk.capacity_bytes = None
    rig.files.write("/b", b"12345")
    used.append(rig.disk.used_bytes)
    rig.files.unlink("/a")
    used.append(rig.disk.used_bytes)

    assert used == [0, 100, 100, 105, 5]

from typing import Any

from tornlog.faults.plan import FaultPlan
from tornlog.reports.timeline.recording.record import FileMap, RunRecording
from tornlog.reports.timeline.recording.recorder import record_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS

SECTOR = 512


def file_in(run: RunRecording, path: str, cut: int = 0) -> FileMap:
    return next(file for file in run.cuts[cut].files if file.path == path)


def write_some_sectors(world: Any) -> None:
    """Write a file with two durable sectors, one unsynced sector, and an empty rest."""
    file = world.files.map("/log", 4096)
    file.store(0, b"d" * 2 * SECTOR)
    file.msync(0, 4096)
    world.files.sync_directory("/")
    file.store(2 * SECTOR, b"w" * SECTOR)


def read_log(world: Any) -> Any:
    return world.files.read("/log")


def test_sectors_before_a_crash_are_durable_dirty_or_empty(workshop: Any) -> None:
    image = workshop.live("one", workshop.disk(), write_some_sectors, cut="strict-posix")
    found = workshop.live("two", workshop.disk(image), read_log)
    run = workshop.run_recording()
    (cut,) = run.cuts
    assert (cut.machine, cut.how, cut.following, cut.operation) == ("one", "strict-posix", "two", "")
    file = file_in(run, "/log")
    assert file.before == "ddweeeee"
    kept = found[2 * SECTOR : 3 * SECTOR] == b"w" * SECTOR
    assert file.after == ("ddkeeeee" if kept else "ddleeeee")
    assert (file.bytes_before, file.bytes_after, file.name_is_durable) == (4096, 4096, True)


def test_kept_and_lost_sectors_agree_with_reads_of_the_next_machine(workshop: Any) -> None:
    outcomes = set()
    for number in range(24):
        image = workshop.live(f"one-{number}", workshop.disk(), write_some_sectors, cut="strict-posix")
        found = workshop.live(f"two-{number}", workshop.disk(image), read_log)
        outcomes.add((found[2 * SECTOR] == ord("w"), number))
    run = workshop.run_recording()
    assert {kept for kept, _ in outcomes} == {True, False}
    cuts = [cut for cut in run.cuts if cut.machine.startswith("one-")]
    for kept, number in sorted(outcomes, key=lambda outcome: outcome[1]):
        file = next(file for file in cuts[number].files if file.path == "/log")
        assert file.after[2] == ("k" if kept else "l")


def test_a_torn_page_is_marked_in_the_timeline(workshop: Any) -> None:
    def write(world: Any) -> None:
        file = world.files.map("/log", 8192)
        file.msync(0, 8192)
        world.files.sync_directory("/")
        file.store(4096, b"t" * 4096)

    torn = 0
    for number in range(30):
        image = workshop.live(f"one-{number}", workshop.disk(), write, cut="strict-posix")
        found = workshop.live(f"two-{number}", workshop.disk(image), read_log)
        sectors = {found[at] for at in range(4096, 8192, SECTOR)}
        torn += len(sectors) > 1
    run = workshop.run_recording()
    marked = [file for cut in run.cuts for file in cut.files if file.path == "/log" and file.torn]
    assert len(marked) == torn > 0
    for file in marked:
        assert file.torn == (1,)
        assert set(file.after[8:]) == {"k", "l"}
        assert file.after[:8] == "e" * 8


def test_a_file_without_a_durable_name_is_lost_in_the_crash(workshop: Any) -> None:
    def write(world: Any) -> None:
        file = world.files.map("/log", 4096)
        file.store(0, b"d" * SECTOR)
        file.msync(0, 4096)

    lost = 0
    for number in range(12):
        image = workshop.live(f"one-{number}", workshop.disk(), write, cut="strict-posix")
        workshop.live(f"two-{number}", workshop.disk(image), lambda world: None)
        lost += "/log" not in image.files
    run = workshop.run_recording()
    cuts = [cut for cut in run.cuts if cut.machine.startswith("one-")]
    gone = [cut for cut in cuts for file in cut.files if file.path == "/log" and file.bytes_after < 0]
    assert len(gone) == lost > 0
    assert all("name lost: create /log" in cut.lost for cut in gone)
    file = next(file for file in gone[0].files if file.path == "/log")
    assert not file.name_is_durable
    assert (file.before, file.after) == ("deeeeeee", "--------")


def test_sectors_dropped_by_a_failed_sync_differ_from_dirty_sectors(workshop: Any) -> None:
    disk = workshop.disk(faults=FaultPlan(failed_sync_chance=1.0))

    def write(world: Any) -> None:
        file = world.files.map("/log", 8192)
        file.store(0, b"x" * SECTOR)
        try:
            file.msync(0, 4096)
        except OSError:
            file.store(4096, b"w" * SECTOR)

    image = workshop.live("one", disk, write, cut="strict-posix")
    workshop.live("two", workshop.disk(image), lambda world: None)
    before = file_in(workshop.run_recording(), "/log").before
    assert (before[0], before[8]) == ("x", "w")


def test_a_process_kill_keeps_the_page_cache(workshop: Any) -> None:
    disk = workshop.disk()
    workshop.live("one", disk, write_some_sectors, killed=True)
    workshop.live("two", disk, read_log)
    run = workshop.run_recording()
    assert run.cuts[0].how == "process-kill"
    assert file_in(run, "/log").after == "ddkeeeee"


def test_changes_while_a_machine_is_off_are_recorded(workshop: Any) -> None:
    disk = workshop.disk()
    workshop.live("one", disk, write_some_sectors)
    image = disk.image_after_power_off()
    rotten = image.files["/log"].content[:SECTOR] + b"!" * SECTOR + image.files["/log"].content[2 * SECTOR :]
    changed = type(image)({"/log": type(image.files["/log"])(rotten, image.files["/log"].mtime_ms)}, image.directories)
    workshop.live("two", workshop.disk(changed), read_log)
    run = workshop.run_recording()
    (cut,) = run.cuts
    assert (cut.how, cut.machine, cut.following) == ("changed while off", "one", "two")
    assert file_in(run, "/log").after == "dodeeeee"


def test_a_clean_stop_without_changes_is_not_recorded_as_a_crash(workshop: Any) -> None:
    disk = workshop.disk()
    workshop.live("one", disk, write_some_sectors)
    workshop.live("two", workshop.disk(disk.image_after_power_off()), read_log)
    assert workshop.run_recording().cuts == []


def test_a_run_that_ends_at_its_crash_shows_the_sectors_that_were_not_durable(ended_at_its_crash: RunRecording) -> None:
    run = ended_at_its_crash
    cut = run.cuts[-1]
    assert cut.following == ""
    assert run.broken[0].violation.invariant == "POS"
    dropped = [file.path for file in cut.files if "x" in file.before]
    assert run.broken[0].violation.file in dropped
    assert all(file.after == "" for file in cut.files)


def test_damage_between_lives_is_recorded() -> None:
    scenario = SCENARIOS["lost-log-tail"]
    for seed in range(20):
        run = record_seed(scenario, seed)
        if run.injected.get("lost sector"):
            log_files = [file for cut in run.cuts for file in cut.files if "/commitlog/" in file.path]
            assert any("o" in file.after for file in log_files)
            return
    raise AssertionError("no seed has lost a sector")

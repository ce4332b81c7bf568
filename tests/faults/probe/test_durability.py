"""The durability report: compared with the crash states of generated records, and by kind of effect."""

from collections.abc import Iterator

import pytest

from tests.faults.probe.generated import Program
from tornlog.faults.crashes.enumeration import CrashState
from tornlog.faults.crashes.profiles import NOTHING_LOST, PROFILES, CrashProfile
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.durability import DurabilityReport, durability_of
from tornlog.faults.probe.record import FILES, ProgramRecord, SourceLine, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import Replayer
from tornlog.faults.probe.unsynced import UnsyncedEffects
from tornlog.sim.choices import Choices

START = Image(
    {"/files/old": FileImage(b"old bytes", 0), "/files/other": FileImage(b"", 0)},
    ("/files", "/files/empty", "/tmp"),
    {},
)
POWER_CUTS = [profile for profile in PROFILES.values() if not profile.page_cache_survives]
STATES_MAX, SEEDS = 300, 40
OLD, OTHER, NEW = 0, 1, 2
"""Numbers of the files in the start image, and of the first new file."""
SYNC_OLD, SYNC_FILES = Step("sync", file=OLD), Step("sync directory", FILES)
PROMISE = Step("acknowledge", "kept")


def record_of(*steps: Step, start: Image = EMPTY) -> ProgramRecord:
    return ProgramRecord(("program",), steps, ((),), before=tuple(start.files))


def lost_operations(state: CrashState) -> set[int]:
    """Return the operations of which a state lacks the change or some data."""
    lost = set(state.lost)
    for page, outcome in zip(state.dirty_pages, state.page_outcomes, strict=True):
        is_mixed = outcome.sectors or outcome.torn_at
        version = min(outcome.version, outcome.other) if is_mixed else outcome.version
        lost |= {number for number, _, _ in page.writes[version:]}
    return lost


def data_without_name(record: ProgramRecord, steps_of: list[int], lost: set[int]) -> set[int]:
    """Return the operations on the data of files whose creation, or link by number, is lost."""
    made = [record.steps[steps_of[number]] for number in lost]
    files = {step.file for step in made if step.kind in ("create", "link") and step.file >= 0}
    with_data = ("write", "store", "zero range")
    steps = {number for number, step in enumerate(record.steps) if step.file in files and step.kind in with_data}
    return {number for number, step in enumerate(steps_of) if step in steps}


def moments(record: ProgramRecord) -> Iterator[tuple[int, Replayer]]:
    """Yield each promise by number, with the disk at its moment."""
    replayer = Replayer(record, EMPTY)
    acknowledged = 0
    for point in replayer.points():
        if point.acknowledged > acknowledged:
            acknowledged = point.acknowledged
            yield acknowledged, replayer


def require_agreement(record: ProgramRecord, profile: CrashProfile) -> tuple[int, int]:
    """Compare the listed effects of a record with the crash states at each promise.

    A state that loses only effects that are not listed must equal the page cache, and each listed effect must be lost
    in some state. Return the numbers of promises with a listed effect, and of promises with all states.
    """
    effects = UnsyncedEffects(record, EMPTY, [profile])
    effects.replay_record()
    with_effects = with_all_states = 0
    for promise, replayer in moments(record):
        spans = effects.losses[profile.name].spans
        not_durable = {span.effect.number for span in spans if span.first <= promise <= span.last}
        stream = Choices("test").stream("states")
        (whole,) = replayer.disk.crash_states(PROFILES[NOTHING_LOST], 1, stream)
        states, lost_in_some = replayer.disk.crash_states(profile, STATES_MAX, stream), set()
        for state in states:
            lost = lost_operations(state)
            lost_in_some |= lost | data_without_name(record, replayer.steps_of, lost)
            if lost.isdisjoint(not_durable):
                assert state.digest == whole.digest, (promise, lost, not_durable)
        with_effects += bool(not_durable)
        if states.is_exhaustive and not states.was_cut:
            with_all_states += 1
            assert not_durable <= lost_in_some, (promise, not_durable - lost_in_some)
    return with_effects, with_all_states


of_every_power_cut = pytest.mark.parametrize("profile", POWER_CUTS, ids=[profile.name for profile in POWER_CUTS])


@of_every_power_cut
def test_the_report_of_generated_programs_agrees_with_the_crash_states(profile: CrashProfile) -> None:
    found = [require_agreement(record_of(*Program(seed).steps), profile) for seed in range(SEEDS)]

    assert min(map(sum, zip(*found, strict=True))) > SEEDS


def steps_in(text: str) -> list[Step]:
    """Return the steps of a short text. `#` is a file without a name; all other names are in the working directory."""
    steps: list[Step] = []
    files, directories = {"old": OLD, "other": OTHER} if "old" in text else {}, {"."}
    for line in text.split(", "):
        kind, *names = line.split()
        paths = [FILES if name == "." else f"{FILES}/{name}" for name in names]
        match kind:
            case "create":
                files[names[0]] = len(files)
                steps.append(Step("create", "" if names == ["#"] else paths[0], file=files[names[0]]))
            case "append":
                size = sum(len(step.data) for step in steps if step.file == files[names[0]])
                steps.append(Step("write", file=files[names[0]], at=size, data=b"more than the old bytes"))
            case "sync" if names[0] in directories:
                steps.append(Step("sync directory", *paths))
            case "sync":
                steps.append(Step("sync", file=files[names[0]]))
            case "make" | "remove":
                directories.add(names[0])
                steps.append(Step(f"{kind} directory", *paths))
            case "cut":
                steps.append(Step("truncate", file=files[names[0]], at=1))
            case "promise":
                steps.append(PROMISE)
            case "link" if names[0] == "#":
                steps.append(Step("link", "", paths[1], file=files["#"]))
            case _:
                steps.append(Step(kind, *paths))
                if names[0] in directories:
                    directories.add(names[1])
    return steps


@of_every_power_cut
@pytest.mark.parametrize(
    "story",
    [
        "create v, create a, append a, rename a v, promise, create z, sync z",
        "create v, create a, append a, create z, sync z, rename a v",
        "create #, append #, link # f",
        "make d, create d/f, rename d e, sync ., sync e",
        "make d, create d/f, sync d, rename d e, sync .",
        "create a, make d, rename a d/b, unlink d/b, sync d, remove d",
        "create f, create g, make d, sync ., link f d/x, exchange g d/x, rename d/x h, remove d",
        "create a, make d, sync ., rename a d/b, rename d/b c, unlink c, sync .",
        "make d, create d/f, append d/f, sync d, cut d/f, promise, sync d/f",
    ],
)
def test_the_report_of_rare_sequences_agrees_with_the_crash_states(story: str, profile: CrashProfile) -> None:
    require_agreement(record_of(*steps_in(story), PROMISE), profile)


def report_of(*made: Step, start: Image = START, disks: tuple[str, ...] = ("strict-posix",)) -> DurabilityReport:
    return durability_of(record_of(*made, start=start), start, disks)


def listed(report: DurabilityReport) -> list[str]:
    """Return the groups at promises in short."""
    return [f"{one.kind} {one.name}: {one.missing}" for one in report.at_promises]


@pytest.mark.parametrize(
    ("made", "effect", "sync"),
    [
        (Step("create", "/files/new", file=NEW), "create new: fsync of the directory .", SYNC_FILES),
        (Step("make directory", "/files/d"), "make directory d: fsync of the directory .", SYNC_FILES),
        (Step("remove directory", "/files/empty"), "remove directory empty: fsync of the directory .", SYNC_FILES),
        (Step("unlink", "/files/old"), "unlink old: fsync of the directory .", SYNC_FILES),
        (Step("symlink", "/files/l", "old"), "symlink l: fsync of the directory .", SYNC_FILES),
        (
            Step("rename", "/files/old", "/files/empty/new"),
            "rename old -> empty/new: fsync of the directory empty/",
            Step("sync directory", "/files/empty"),
        ),
        (
            Step("link", "/files/old", "/files/empty/new"),
            "link old -> empty/new: fsync of the directory empty/",
            Step("sync directory", "/files/empty"),
        ),
        (
            Step("exchange", "/files/old", "/files/other"),
            "exchange old and other: fsync of the directory .",
            SYNC_FILES,
        ),
        (Step("write", file=OLD, at=9, data=b"more"), "append old: fsync of old", SYNC_OLD),
        (Step("write", file=OLD, at=0, data=b"NEW"), "write old: fsync of old", SYNC_OLD),
        (Step("store", file=OLD, at=0, data=b"NEW"), "store old: fsync of old", SYNC_OLD),
        (Step("zero range", file=OLD, at=0, size=3), "zero range old: fsync of old", SYNC_OLD),
        (Step("truncate", file=OLD, at=3), "truncate old: fsync of old", SYNC_OLD),
        (Step("allocate", file=OLD, at=9, size=3), "extend old: fsync of old", SYNC_OLD),
        (Step("write", file=OLD, at=0, data=bytes(100_000)), "append old: fsync of old", SYNC_OLD),
    ],
)
def test_the_missing_sync_makes_the_effect_durable_on_every_disk(made: Step, effect: str, sync: Step) -> None:
    disks = tuple(profile.name for profile in POWER_CUTS)

    assert listed(report_of(made, PROMISE, disks=disks)) == [effect]
    assert report_of(made, sync, PROMISE, disks=disks).durable_disks == list(disks)
    assert listed(report_of(made, PROMISE, sync, PROMISE, disks=disks)) == [effect]


def test_a_group_counts_the_promises_at_which_any_of_its_effects_was_not_durable() -> None:
    write, longer = Step("write", file=OLD, at=0, data=b"12"), Step("write", file=OLD, at=0, data=b"1234567")
    report = report_of(PROMISE, write, PROMISE, longer, PROMISE, SYNC_OLD, PROMISE, longer, PROMISE, write)
    (group,), (later,) = report.at_promises, report.at_end

    assert (group.kind, group.step, group.first_promise, group.promises) == ("write", 1, 2, 3)
    assert (group.steps, group.data_bytes, group.start, group.end) == (3, 16, 0, 7)
    assert (later.step, later.steps, later.promises) == (9, 1, 0)


def test_files_with_other_numbers_in_their_names_are_one_group() -> None:
    steps = [Step("create", f"/files/wal-{number}", file=NEW + number) for number in (1, 22, 333)]
    renumbered = [Step("create", step.path, file=NEW + index) for index, step in enumerate(steps)]
    (group,) = report_of(*renumbered, PROMISE).at_promises

    assert (group.name, group.names, group.steps) == ("wal-#", 3, 3)


def test_effects_of_different_source_lines_are_different_groups() -> None:
    stacks = ((), (SourceLine("/app/a.py", 3, "save"),), (SourceLine("/app/a.py", 9, "save"),))
    steps = tuple(Step("write", file=OLD, at=0, data=b"1", stack=stack) for stack in (1, 2, 1))
    report = durability_of(ProgramRecord(("program",), (*steps, PROMISE), stacks), START, ["strict-posix"])

    assert [(one.step, one.steps) for one in report.at_promises] == [(0, 2), (1, 1)]


@pytest.mark.parametrize(
    ("story", "left"),
    [
        ("create t, append t, unlink t", ["unlink t: fsync of the directory ."]),
        ("create t, append t, rename t v", ["append t: fsync of t", "rename t -> v: fsync of the directory ."]),
        ("create t, rename t old", ["rename t -> old: fsync of the directory ."]),
        ("append old, unlink old, sync .", []),
        ("make d, create d/t, append d/t, unlink d/t, remove d", ["remove directory d: fsync of the directory ."]),
        ("create #, append #", []),
    ],
)
def test_effects_of_names_that_are_gone_are_not_listed(story: str, left: list[str]) -> None:
    start = START if "old" in story else EMPTY

    assert sorted(listed(report_of(*steps_in(story), PROMISE, start=start))) == left


def test_on_a_journal_the_sync_of_another_file_makes_earlier_names_durable() -> None:
    steps = (Step("create", "/files/new", file=NEW), Step("write", file=OLD, at=9, data=b"1"), SYNC_OLD, PROMISE)
    report = report_of(*steps, disks=("strict-posix", "ext4-ordered", "btrfs", "process-kill"))

    assert list(report.at_promises.values()) == [("strict-posix", "btrfs")]
    assert (report.durable_disks, report.kept_caches) == (["ext4-ordered"], ("process-kill",))


@pytest.mark.parametrize("disk", ["strict-posix", "ext4", "ext4-ordered", "btrfs"])
def test_the_cost_does_not_grow_with_promises_times_effects(disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each promise adds a file whose name is never synced, so with N promises there are N unsynced names."""
    asked = 0
    losable_changes = Disk.losable_changes

    def counting(self: Disk, profile: CrashProfile, among: list) -> list:
        nonlocal asked
        asked += len(among)
        return losable_changes(self, profile, among)

    monkeypatch.setattr(Disk, "losable_changes", counting)
    promises = 500
    steps = [
        step
        for file in range(promises)
        for step in (
            Step("create", f"/files/{file}", file=file),
            Step("write", file=file, data=b"1"),
            Step("sync", file=file),
            PROMISE,
        )
    ]
    report = report_of(*steps, start=EMPTY, disks=(disk,))

    assert report.promises == promises
    assert asked < 10 * promises

"""Replay of a record on the simulated disk: moments for a crash, and the final files."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.content import PAGE_BYTES, SparseBytes
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.record import ProgramRecord, RecordError, Step
from tornlog.faults.probe.recording.run import EMPTY, differences
from tornlog.faults.probe.replay import Point, Replayer, piece_ends
from tornlog.sim.choices import Choices


def record_of(*steps: Step) -> ProgramRecord:
    return ProgramRecord(("script.py",), steps, ((),))


CREATE = Step("create", "/files/log", file=0)


def test_there_is_a_crash_point_after_each_operation_and_each_promise() -> None:
    record = record_of(CREATE, Step("write", file=0, data=b"ab"), Step("acknowledge", "one"), Step("sync", file=0))
    points = list(Replayer(record, EMPTY).points())

    assert points == [
        Point(-1, 0, 0, False),
        Point(0, 1, 0, False),
        Point(1, 2, 0, False),
        Point(2, 2, 1, False),
        Point(3, 3, 1, False),
    ]


def test_a_write_of_several_pages_has_crash_points_between_pages() -> None:
    record = record_of(CREATE, Step("write", file=0, at=100, data=bytes(2 * PAGE_BYTES)))
    replayer = Replayer(record, EMPTY)
    points = list(replayer.points())

    assert [point.is_inside for point in points] == [False, False, True, True, False]
    assert replayer.steps_of == [0, 1, 1, 1]


@given(st.integers(0, 3 * PAGE_BYTES), st.integers(1, 40 * PAGE_BYTES))
def test_a_long_write_is_split_into_few_pieces_at_page_boundaries(at: int, size_bytes: int) -> None:
    ends = piece_ends(at, size_bytes)

    assert ends[-1] == size_bytes
    assert ends == sorted(set(ends))
    assert len(ends) <= 9
    assert all((at + end) % PAGE_BYTES == 0 for end in ends[:-1])
    assert ends[0] <= PAGE_BYTES
    if len(ends) > 1:
        assert ends[-1] - ends[-2] <= PAGE_BYTES


def test_a_system_wide_sync_covers_files_and_directories() -> None:
    record = record_of(
        CREATE,
        Step("write", file=0, data=b"ab"),
        Step("make directory", "/files/d"),
        Step("rename", "/files/log", "/files/d/log"),
        Step("sync all"),
    )
    replayer = Replayer(record, EMPTY)
    assert len(list(replayer.points())) > 5

    image = replayer.crash("strict-posix")
    assert image.files["/files/d/log"].content == b"ab"


def test_files_at_the_start_are_durable_and_writable() -> None:
    start = Image({"/files/old": FileImage(b"0123", 0)}, ("/files", "/tmp"))
    replayer = Replayer(record_of(Step("write", file=0, at=4, data=b"45")), start)
    list(replayer.points())

    assert replayer.intact_image().files["/files/old"].content == b"012345"


def test_a_replay_stops_at_the_requested_crash_point() -> None:
    record = record_of(CREATE, Step("write", file=0, data=b"ab"), Step("write", file=0, at=2, data=b"cd"))
    replayer = Replayer(record, EMPTY)
    replayer.replay_to(Point(1, 2, 0, False))

    assert replayer.intact_image().files["/files/log"].content == b"ab"
    with pytest.raises(RecordError, match="point: expected one of the record's"):
        Replayer(record, EMPTY).replay_to(Point(1, 7, 0, False))


def crash_contents(*records: Step, profile: str = "strict-posix", path: str = "/files/log") -> set[bytes | None]:
    """Return each content of a file that a crash after the last step may leave, None for no file."""
    replayer = Replayer(record_of(*records), EMPTY)
    list(replayer.points())
    states = replayer.disk.crash_states(PROFILES[profile], 500, Choices("1").stream("states"))
    assert states.is_exhaustive
    files = [state.image.files.get(path) for state in states]
    return {None if file is None else file.content for file in files}


MADE = (CREATE, Step("allocate", file=0, size=2 * PAGE_BYTES), Step("sync", file=0), Step("sync directory", "/files"))
NOTHING = bytes(PAGE_BYTES)


def test_a_sync_of_a_range_covers_its_pages_and_no_others() -> None:
    stores = [Step("store", file=0, at=at, data=b"ab") for at in (0, PAGE_BYTES)]
    one, none = b"ab".ljust(PAGE_BYTES, b"\0"), NOTHING

    assert crash_contents(*MADE, *stores) == {none + none, one + none, none + one, one + one}
    ranged = Step("sync", file=0, at=PAGE_BYTES + 7, size=1)
    assert crash_contents(*MADE, *stores, ranged) == {none + one, one + one}
    assert crash_contents(*MADE, *stores, Step("sync", file=0, size=9 * PAGE_BYTES)) == {one + one}


@pytest.mark.parametrize(("target", "may_be_lost"), [("", False), ("data", True)])
def test_fdatasync_commits_a_name_on_ext4_only_with_a_new_length(target: str, may_be_lost: bool) -> None:
    in_place = (Step("write", file=0, data=b"x"), Step("sync", target=target, file=0))
    new = Step("create", "/files/new", file=1)

    found = crash_contents(CREATE, *in_place, new, *in_place, profile="ext4", path="/files/new")

    assert (None in found) is may_be_lost


def test_a_store_to_a_map_is_one_operation_and_does_not_extend_the_file() -> None:
    store = Step("store", file=0, at=PAGE_BYTES - 1, data=b"abc")
    points = list(Replayer(record_of(*MADE, store), EMPTY).points())

    assert points[-1] == Point(4, 5, 0, False)
    with pytest.raises(RecordError, match="step 4: store is impossible: ValueError: /files/log: "):
        list(Replayer(record_of(*MADE, Step("store", file=0, at=2 * PAGE_BYTES, data=b"a")), EMPTY).points())


@pytest.mark.parametrize(
    "profile", [name for name, one in PROFILES.items() if not one.page_cache_survives and not one.torn_bytes_chance]
)
@given(places=st.lists(st.sampled_from([0, 8, 600, PAGE_BYTES, 2 * PAGE_BYTES - 1]), min_size=2, max_size=5))
@settings(max_examples=8)
def test_a_power_cut_after_several_stores_covers_all_of_them(profile: str, places: list[int]) -> None:
    # Changes before the stores may be lost too: a length, a name, and bytes of a write.
    before = (*MADE, Step("write", file=0, at=PAGE_BYTES, data=b"w"), Step("link", "/files/log", "/files/twin"))
    stores = [Step("store", file=0, at=at, data=bytes([number])) for number, at in enumerate(places, 1)]
    replayer = Replayer(record_of(*before, *stores), EMPTY)
    left: list[set[str]] = []
    for point in replayer.points():
        if point.step >= len(before) - 1:
            states = replayer.disk.crash_states(PROFILES[profile], 100_000, Choices("1").stream("states"))
            left.append({state.digest for state in states})
            assert states.is_exhaustive

    assert len(left) == len(stores) + 1
    assert set().union(*left) == left[-1]


def test_each_page_of_a_zeroed_range_can_be_lost_separately() -> None:
    full = b"x" * 2 * PAGE_BYTES
    made = (CREATE, Step("write", file=0, data=full), Step("sync", file=0), Step("sync directory", "/files"))
    zeroed = Step("zero range", file=0, at=PAGE_BYTES - 1, size=1 << 30)

    rest = full[: PAGE_BYTES - 1] + b"\0"
    second = full[:PAGE_BYTES]
    assert crash_contents(*made, zeroed, profile="ext4-data") == {full, rest + second, second + NOTHING, rest + NOTHING}


def test_every_kind_of_rename_link_and_unlink_is_replayed() -> None:
    replayer = Replayer(
        record_of(
            Step("make directory", "/files/d"),
            Step("create", "/files/d/a", file=0),
            Step("create", "", file=1),
            Step("write", file=1, data=b"one"),
            Step("link", "", "/files/b", file=1),
            Step("exchange", "/files/d/a", "/files/b"),
            Step("rename", "/files/d", "/files/e"),
            Step("symlink", "/files/l", "e/a"),
            Step("sync all"),
        ),
        EMPTY,
    )
    list(replayer.points())
    image = replayer.crash("strict-posix")

    assert {path: file.content for path, file in image.files.items()} == {"/files/b": b"", "/files/e/a": b"one"}
    assert image.directories == ("/files", "/files/e", "/tmp")
    assert image.symlinks == {"/files/l": "e/a"}


def test_a_sparse_file_of_a_gibibyte_takes_little_memory() -> None:
    gib = 1 << 30
    record = record_of(
        *(CREATE, Step("truncate", file=0, at=gib), Step("store", file=0, at=gib - 4, data=b"last")),
        *(Step("store", file=0, at=123, data=b"first"), Step("zero range", file=0, size=gib - 4)),
    )
    replayer = Replayer(record, EMPTY)
    list(replayer.points())
    states = list(replayer.disk.crash_states(PROFILES["strict-posix"], 50, Choices("1").stream("states")))

    held = [state.image.files["/files/log"].held for state in states if "/files/log" in state.image.files]
    assert {len(content) for content in held} == {0, gib}
    assert all(isinstance(content, SparseBytes) and content.data_bytes <= 2 * PAGE_BYTES for content in held)
    assert len({state.digest for state in states}) == len({state.image.digest() for state in states}) > 4


@pytest.mark.parametrize(
    "steps",
    [
        [Step("write", file=0, data=b"x")],
        [Step("write", data=b"x")],
        [Step("rename", "/files/a", "/files/b")],
        [Step("create", "/files/a", file=1)],
        [CREATE, Step("create", "/files/log", file=1)],
        [Step("remove directory", "/files/none")],
    ],
)
def test_an_impossible_step_raises_an_error_with_its_number(steps: list[Step]) -> None:
    with pytest.raises(RecordError, match=f"step {len(steps) - 1}: {steps[-1].kind} is impossible"):
        list(Replayer(record_of(*steps), EMPTY).points())
    with pytest.raises(RecordError, match=f"step {len(steps) - 1}: {steps[-1].kind} is impossible"):
        Replayer(record_of(*steps), EMPTY).replay_all()


def test_a_stepwise_replay_equals_a_whole_replay() -> None:
    record = record_of(
        CREATE,
        Step("write", file=0, at=3000, data=b"ab" * 5000),
        Step("acknowledge", "one"),
        Step("store", file=0, at=8, data=b"s"),
        Step("fault", "disk full", file=0),
        Step("sync all"),
        Step("rename", "/files/log", "/files/end"),
    )
    whole, by_points = Replayer(record, EMPTY), Replayer(record, EMPTY)

    whole.replay_all()
    list(by_points.points())

    assert whole.intact_image().digest() == by_points.intact_image().digest()


def image(**files: bytes) -> Image:
    return Image({f"/files/{name}": FileImage(content, 0) for name, content in files.items()}, ("/files",))


def test_equal_images_have_no_differences() -> None:
    assert list(differences(image(a=b"x"), image(a=b"x"))) == []


@pytest.mark.parametrize(
    ("recorded", "found", "difference"),
    [
        (image(a=b"0123"), image(a=b"01x3"), "/files/a @ 2: expected 0x32, found 0x78"),
        (
            image(a=b"01"),
            image(a=b"0123"),
            "/files/a @ 2: expected the file's end, found 0x32 (sizes: expected 2, found 4)",
        ),
        (image(a=b""), image(), "/files/a: expected a file, found none"),
        (image(), image(b=b""), "/files/b: expected no such file, found one"),
        (Image({}, ("/files", "/files/d")), image(), "/files/d: expected a directory, found none"),
        (image(), Image({}, ("/files",), {"/files/l": "a"}), "/files/l: expected no such symbolic link, found one"),
    ],
)
def test_a_difference_between_images_names_file_and_offset(recorded: Image, found: Image, difference: str) -> None:
    assert list(differences(recorded, found)) == [difference]


PROGRAM = """
    import os, random, sys
    draw = random.Random(int(sys.argv[1]))
    names = ["a", "b", "d/a", "d/b"]
    os.mkdir("d")
    opened = []
    for _ in range(80):
        kind, name, other = draw.choice(KINDS), draw.choice(names), draw.choice(names)
        data = bytes([draw.randrange(1, 255)]) * draw.choice([1, 10, 600, 9000])
        try:
            match kind:
                case "write": open(name, draw.choice(["wb", "ab", "xb"])).write(data)
                case "update":
                    with open(name, "r+b") as file:
                        file.seek(draw.randrange(10_000)); file.write(data); file.truncate()
                case "keep": opened.append(open(name, "r+b", buffering=draw.choice([0, 100])))
                case "kept": draw.choice(opened).write(data)
                case "cut": os.truncate(name, draw.randrange(5_000))
                case "rename": os.replace(name, other)
                case "link": os.link(name, other)
                case "unlink": os.unlink(name)
                case "sync": os.fsync(draw.choice(opened).fileno())
        except (OSError, IndexError):
            pass
"""


@pytest.mark.parametrize("seed", range(8))
def test_replaying_a_record_gives_the_files_of_the_program(
    recorded: Callable[..., tuple[ProgramRecord, list[str]]], seed: int
) -> None:
    kinds = ["write", "write", "update", "keep", "kept", "kept", "cut", "rename", "link", "unlink", "sync"]
    record, unlike = recorded(PROGRAM.replace("KINDS", repr(kinds)), str(seed))

    assert (record.unseen, unlike) == ((), [])
    assert len(record.steps) > 30


OLD = Image({"/files/log": FileImage(b"old", 0)}, ("/files", "/tmp"))
NEW = Step("write", file=0, data=b"new")


def possible_contents(record: ProgramRecord, profile: str) -> set[bytes]:
    """Return the contents of the log that a crash after the record may leave."""
    replayer = Replayer(record, OLD)
    list(replayer.points())
    states = replayer.disk.crash_states(PROFILES[profile], 64, Choices("").stream("states"))
    return {bytes(state.image.files["/files/log"].content) for state in states}


OF_ONE, OF_ALL = 0, -1


@pytest.mark.parametrize("file", [OF_ONE, OF_ALL])
def test_pages_of_a_failed_sync_are_not_written_by_a_later_sync(file: int) -> None:
    record = record_of(NEW, Step("failed sync", file=file), Step("sync", file=0))

    assert possible_contents(record, "strict-posix") == {b"old"}
    assert possible_contents(record, "process-kill") == {b"new"}


def test_an_honest_sync_makes_data_of_a_lying_sync_durable() -> None:
    lied = (NEW, Step("lying sync", file=0))

    assert {b"old", b"new"} <= possible_contents(record_of(*lied), "strict-posix")
    assert possible_contents(record_of(*lied), "os-crash") == {b"new"}
    assert possible_contents(record_of(*lied, Step("sync directory", "/files")), "strict-posix") == {b"new"}


def test_names_can_be_lost_after_a_lying_directory_sync() -> None:
    record = record_of(Step("create", "/files/new", file=1), Step("lying sync", "/files"))
    replayer = Replayer(record, OLD)
    list(replayer.points())
    states = replayer.disk.crash_states(PROFILES["ext4-ordered"], 64, Choices("").stream("states"))

    assert {"/files/new" in state.image.files for state in states} == {True, False}


def test_a_step_that_records_an_injected_fault_has_no_effect() -> None:
    record = record_of(NEW, Step("fault", "failed write", "EIO", file=0))

    assert [point.step for point in Replayer(record, OLD).points()] == [-1, 0]

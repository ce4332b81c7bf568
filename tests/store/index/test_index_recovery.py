from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.store.rigs import Make, started
from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.config import StoreConfig
from tornlog.store.formats.index import ENTRY_BYTES, entries_position
from tornlog.store.formats.messages import Message
from tornlog.store.log.checkpoint import read_checkpoint
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.recovery import RecoveryReport
from tornlog.store.world import World

SLOTS, ENTRIES_MAX = 5, 4
FIRST_ENTRY = entries_position(SLOTS) + ENTRY_BYTES


@pytest.fixture
def config(small: Make) -> StoreConfig:
    made: StoreConfig = small(max_hash_slot_num=SLOTS, max_index_num=ENTRIES_MAX)
    return made


@pytest.fixture
def fill(lab: Make) -> Callable[..., Image]:
    """Fill a store, with 1.5 s between messages so that full index files are durable. `keys` are per message."""

    def make(config: StoreConfig, keys: list[str], *, abruptly: bool = False) -> Image:
        bench = lab()

        def body(world: World) -> None:
            store = started(world, config)
            for each in keys:
                store.put_message(Message.create("T", b"body" * 20, keys=each))
                world.tasks.sleep(1_500)
            if not abruptly:
                assert store.shutdown()

        bench.run(body)
        image: Image = bench.switch_off(abruptly=abruptly)
        return image

    return make


class Loaded(NamedTuple):
    """The result of a load."""

    report: RecoveryReport
    names: list[str]
    entries: list[tuple[int, int]]
    index_time_ms: int


@pytest.fixture
def load(lab: Make, exact: Make) -> Callable[..., Loaded]:
    """Load a store twice. Its index must match the log, and the second load must find the same."""

    def once(image: Image, config: StoreConfig) -> tuple[Loaded, Image]:
        bench = lab(image)

        def body(world: World) -> Loaded:
            store = MessageStore(world, config)
            report = store.load()
            assert store.index is not None
            names = [file.name for file in store.index.table.files]
            for name in names:
                assert bench.disk.is_durable(f"/store/index/{name}", 0, store.index.table.file_bytes)
            time_ms = read_checkpoint(world.files, "/store/checkpoint").index_msg_timestamp_ms
            return Loaded(report, names, exact(store), time_ms)

        found = bench.run(body)
        return found, bench.switch_off()

    def twice(image: Image, config: StoreConfig) -> Loaded:
        first, left = once(image, config)
        second, _ = once(left, config)
        assert second.entries == first.entries
        assert len(second.names) == len(first.names)
        return first

    return twice


def names_of_index_files(image: Image) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in image.files if path.startswith("/store/index/"))


def without_files(image: Image, *paths: str) -> Image:
    return Image({path: file for path, file in image.files.items() if path not in paths}, image.directories)


def with_overwritten_bytes(image: Image, path: str, at: int, data: bytes) -> Image:
    content = image.files[path].content
    changed = content[:at] + data + content[at + len(data) :]
    return Image({**image.files, path: FileImage(changed, 0)}, image.directories)


def numbered_keys(count: int) -> list[str]:
    return [f"k{number}" for number in range(count)]


def test_after_a_clean_exit_no_index_file_is_rebuilt(fill: Make, load: Make, config: StoreConfig) -> None:
    image = fill(config, ["a b", *numbered_keys(8)])
    found = load(image, config)

    assert found.names == names_of_index_files(image)
    assert len(found.names) == 4
    assert len(found.entries) == 10
    assert found.report.findings == []


def test_after_a_crash_durable_index_files_are_kept_and_the_others_rebuilt(
    fill: Make, load: Make, config: StoreConfig
) -> None:
    image = fill(config, ["a b", *numbered_keys(9)], abruptly=True)
    found = load(image, config)

    assert found.names[:3] == names_of_index_files(image)[:3]
    assert found.names[3:] != names_of_index_files(image)[3:]
    assert len(found.names) == 4
    assert found.report.findings == []


def test_a_message_with_keys_in_two_files_is_not_indexed_again(fill: Make, load: Make, config: StoreConfig) -> None:
    image = fill(config, ["a", "b c d e", "f"], abruptly=True)
    found = load(image, config)

    assert found.names[0] == names_of_index_files(image)[0]
    assert len(found.entries) == 6


def test_indexing_continues_within_a_message_that_has_more_keys_than_a_file(
    fill: Make, load: Make, config: StoreConfig
) -> None:
    image = fill(config, ["a", "b c d e f g h i j k", "l", "m", "n"], abruptly=True)
    found = load(image, config)

    assert len(found.names) == 5
    assert len(found.entries) == 14


@pytest.mark.parametrize("abruptly", [False, True])
@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_the_index_is_rebuilt_from_a_missing_file_on(
    lost: int, abruptly: bool, fill: Make, load: Make, config: StoreConfig
) -> None:
    image = fill(config, numbered_keys(11), abruptly=abruptly)
    names = names_of_index_files(image)
    found = load(without_files(image, f"/store/index/{names[lost]}"), config)

    assert found.names[:lost] == names[:lost]
    assert not {*found.names[lost:]} & {*names[lost:]}
    assert len(found.entries) == 11


@pytest.mark.parametrize("recover_whole_log", [True, False])
@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, b"\x5a" * 40),
        (36, (99).to_bytes(4, "big")),
        (36, (3).to_bytes(4, "big")),
        (24, (0).to_bytes(8, "big")),
        (24, (1 << 40).to_bytes(8, "big")),
        (16, (1).to_bytes(8, "big")),
        (FIRST_ENTRY, b"\0\0\0\1"),
        (FIRST_ENTRY + 40, b"\0\0\0\1"),
        (FIRST_ENTRY + 40 + 12, b"\0\0\0\1"),
    ],
)
def test_an_index_file_that_is_inconsistent_or_differs_from_the_log_is_rebuilt(
    at: int, data: bytes, recover_whole_log: bool, fill: Make, load: Make, config: StoreConfig
) -> None:
    config = replace(config, recover_whole_log=recover_whole_log)
    image = fill(config, numbered_keys(11))
    names = names_of_index_files(image)
    found = load(with_overwritten_bytes(image, f"/store/index/{names[1]}", at, data), config)

    assert found.names[0] == names[0]
    assert not {*found.names[1:]} & {*names[1:]}
    assert found.report.findings
    assert all("/store/index/" in finding.file for finding in found.report.findings)


@pytest.mark.parametrize("at", [40, 44, 48, 52, 56, FIRST_ENTRY, FIRST_ENTRY + 8, FIRST_ENTRY + 16, FIRST_ENTRY + 21])
def test_a_last_index_file_torn_after_a_clean_exit_is_rebuilt(
    at: int, fill: Make, load: Make, config: StoreConfig
) -> None:
    # RocketMQ does not sync its index at shutdown, so a later power cut can damage any of it.
    config = replace(config, recover_whole_log=False)
    image = fill(config, numbered_keys(5))
    last = f"/store/index/{names_of_index_files(image)[-1]}"
    byte = image.files[last].content[at]
    found = load(with_overwritten_bytes(image, last, at, bytes([byte ^ 1])), config)

    assert found.names[-1] != names_of_index_files(image)[-1]
    assert found.report.findings


def test_a_torn_durable_index_file_is_found_only_by_comparing_the_whole_log(
    fill: Make, load: Make, config: StoreConfig
) -> None:
    image = fill(config, numbered_keys(11), abruptly=True)
    names = names_of_index_files(image)
    found = load(with_overwritten_bytes(image, f"/store/index/{names[0]}", FIRST_ENTRY + 40, bytes(20)), config)

    assert names[0] not in found.names


def test_an_index_file_of_wrong_length_is_removed_and_a_foreign_file_is_kept(
    fill: Make, load: Make, config: StoreConfig
) -> None:
    image = fill(config, numbered_keys(5))
    odd, foreign = "/store/index/20200101000000000", "/store/index/notes.txt"
    files = {**image.files, odd: FileImage(b"short", 0), foreign: FileImage(b"mine", 0)}
    found = load(Image(files, (*image.directories, "/store/index/20200202000000000")), config)

    assert found.names == names_of_index_files(image)
    assert [(finding.file, finding.field) for finding in found.report.findings] == [
        (odd, "file size"),
        ("/store/index/20200202000000000", "file name"),
        (foreign, "file name"),
    ]


def test_a_foreign_file_in_the_index_is_reported_after_a_crash(fill: Make, load: Make, config: StoreConfig) -> None:
    image = fill(config, numbered_keys(5), abruptly=True)
    foreign = "/store/index/notes.txt"
    found = load(Image({**image.files, foreign: FileImage(b"mine", 0)}, image.directories), config)

    assert [finding.file for finding in found.report.findings] == [foreign]


def test_the_index_is_rebuilt_after_its_configured_size_changed(fill: Make, load: Make, config: StoreConfig) -> None:
    found = load(fill(config, numbered_keys(11)), replace(config, max_index_num=7))

    assert len(found.names) == 2
    assert len(found.entries) == 11


def test_keys_after_the_end_of_a_truncated_log_are_removed_from_the_index(
    fill: Make, load: Make, config: StoreConfig
) -> None:
    image = fill(config, numbered_keys(11), abruptly=True)
    log = sorted(path for path in image.files if path.startswith("/store/commitlog"))
    found = load(without_files(image, *log[1:]), config)

    assert found.names[0] == names_of_index_files(image)[0]
    assert 3 <= len(found.entries) < 11
    assert found.index_time_ms < read_index_time(image)


def read_index_time(image: Image) -> int:
    return int.from_bytes(image.files["/store/checkpoint"].content[16:24], "big")


def test_an_empty_log_has_an_empty_index(fill: Make, load: Make, config: StoreConfig) -> None:
    image = fill(config, numbered_keys(11))
    found = load(without_files(image, *(path for path in image.files if path.startswith("/store/commitlog"))), config)

    assert found.names == []


def test_a_scan_from_the_checkpoint_starts_earlier_if_the_index_needs_it(
    fill: Make, load: Make, config: StoreConfig
) -> None:
    config = replace(
        config,
        recover_whole_log=False,
        flush_commit_log_thorough_interval_ms=1_000,
        flush_consume_queue_thorough_interval_ms=1_000,
    )
    image = fill(config, numbered_keys(30), abruptly=True)
    late = load(image, config)
    early = load(without_files(image, f"/store/index/{names_of_index_files(image)[2]}"), config)
    whole = load(without_files(image, *(f"/store/index/{name}" for name in names_of_index_files(image))), config)

    assert late.report.start_offset > early.report.start_offset > 0
    assert whole.report.start_offset == 0
    assert late.entries == early.entries == whole.entries


def test_index_files_of_expired_records_are_kept(lab: Make, fill: Make, config: StoreConfig) -> None:
    for abruptly in (False, True):
        image = fill(config, numbered_keys(20), abruptly=abruptly)
        log = sorted(path for path in image.files if path.startswith("/store/commitlog"))
        bench = lab(without_files(image, *log[:2]))

        def body(world: World) -> None:
            store = MessageStore(world, config)
            store.load()
            assert store.index is not None
            oldest = store.index.table.files[0]
            assert oldest.name == names_of_index_files(image)[0]  # noqa: B023 - used at once
            assert oldest.end_physical_offset < store.min_phy_offset
            keys = numbered_keys(20)
            found = [store.query_message("T", key, 9, 0, 1 << 62).physical_offsets for key in keys]
            first = next(number for number, offsets in enumerate(found) if offsets)
            assert 0 < first < 20
            assert [len(offsets) for offsets in found] == [0] * first + [1] * (20 - first)

        bench.run(body)


def test_the_checkpoint_covers_rebuilt_index_files(fill: Make, load: Make, config: StoreConfig) -> None:
    image = fill(config, numbered_keys(11), abruptly=True)
    checkpoint = image.files["/store/checkpoint"].content
    forgotten = with_overwritten_bytes(image, "/store/checkpoint", 16, bytes(8))
    found = load(forgotten, config)

    assert found.index_time_ms == read_index_time(image) > 0
    assert checkpoint[:16] == forgotten.files["/store/checkpoint"].content[:16]


def test_a_load_fails_if_no_index_file_can_be_created(lab: Make, fill: Make, config: StoreConfig) -> None:
    bench = lab(fill(config, numbered_keys(5), abruptly=True))
    bench.failures.plan("map", "/store/index/20200913122", 2)

    def body(world: World) -> None:
        with pytest.raises(OSError, match="Input/output error"):
            MessageStore(world, config).load()

    bench.run(body)


def test_log_damage_before_an_index_file_is_skipped(fill: Make, lab: Make, config: StoreConfig) -> None:
    image = fill(config, ["", "", "", *numbered_keys(9)])
    log = sorted(path for path in image.files if path.startswith("/store/commitlog"))
    bench = lab(with_overwritten_bytes(image, log[0], 90, b"?"))

    def body(world: World) -> None:
        store = MessageStore(world, config)
        store.load()
        for key in numbered_keys(9):
            found = store.query_message("T", key, 9, 0, 1 << 62).physical_offsets
            assert len(found) <= 1

    bench.run(body)

"""A log in several directories: segments are created in the right directory and found in all of them."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.config import ConfigError, FlushDiskType, StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.log.segment_queue import SegmentDirectories
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.inspect import inspect_directory
from tornlog.store.tools.verify import Verification, verify_directory
from tornlog.store.world import World

BODY = bytes(400)  # two messages fill a segment
PATHS = "/c/log, /a/log,/b/log/"


def config_of_two_directories(small: Make, **settings: Any) -> StoreConfig:
    config: StoreConfig = small(**{"store_path_commit_log": PATHS, **settings})
    return config


def put_segments(store: MessageStore, segments: int) -> None:
    for _ in range(2 * segments):
        assert store.put_message(Message.create("T", BODY)).status is PutMessageStatus.PUT_OK


def log_files(image: Image) -> list[str]:
    """Return directory and segment number of every file of the log."""
    paths = sorted(path for path in image.files if "/log/" in path)
    return [f"{path[1]}{int(path[-20:]) // 1024}" for path in paths]


def image_of_filled_log(lab: Make, config: StoreConfig, segments: int = 5) -> Image:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, config)
        put_segments(store, segments)
        assert store.shutdown()

    bench.run(body)
    image: Image = bench.switch_off()
    return image


def with_moved_file(image: Image, path: str, to: str, *, keep: bool = False) -> Image:
    files = dict(image.files)
    files[to] = files[path] if keep else files.pop(path)
    return Image(files, image.directories)


def with_file(image: Image, path: str, content: bytes) -> Image:
    return Image({**image.files, path: FileImage(content, 0)}, image.directories)


# Errors


def test_a_segment_is_created_later_after_all_look_ups_of_its_directories_failed(lab: Make, small: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, config_of_two_directories(small))
        with bench.disk.with_faults(failed_lookup_chance=1.0):
            refused = store.put_message(Message.create("T", BODY))
        assert refused.status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
        put_segments(store, 3)
        assert store.shutdown()

    bench.run(body)
    assert log_files(bench.switch_off()) == ["a0", "b1", "c2"]


# Settings


def test_different_spellings_of_a_log_directory_count_as_one() -> None:
    config = StoreConfig("/s", store_path_commit_log=" /b/, /a ,/b,, /c//", read_only_commit_log_store_paths="/a/")

    assert config.commit_log_directories == ("/b", "/a", "/c")
    assert config.read_only_commit_log_directories == ("/a",)
    assert config.writable_commit_log_directories == ("/b", "/c")
    assert StoreConfig("/s").writable_commit_log_directories == ("/s/commitlog",)


def test_a_log_without_a_writable_directory_is_refused() -> None:
    with pytest.raises(ConfigError, match="a directory of the log that is not read-only"):
        StoreConfig("/s", store_path_commit_log="/a,/b", read_only_commit_log_store_paths="/b,/a")


# Creation of segments


def test_segments_are_created_in_the_log_directories_in_turn(lab: Make, small: Make) -> None:
    image = image_of_filled_log(lab, config_of_two_directories(small))
    assert log_files(image) == ["a0", "a3", "b1", "b4", "c2"]


def test_no_segment_is_created_in_a_read_only_directory(lab: Make, small: Make) -> None:
    image = image_of_filled_log(lab, config_of_two_directories(small, read_only_commit_log_store_paths="/b/log"))
    assert log_files(image) == ["a0", "a2", "a4", "c1", "c3"]
    assert "/b" not in image.directories


class Space:
    def __init__(self, used_bytes: int) -> None:
        self.used_bytes = used_bytes
        self.usable_bytes = 100 - used_bytes


def test_a_too_full_directory_gets_a_segment_only_if_all_are_too_full(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {"/a": 10, "/b": 86, "/c": 85}
    monkeypatch.setattr(world.files, "space", lambda path: Space(used[path]), raising=False)
    directories = SegmentDirectories(world.files, ["/c", "/b", "/a"], used_ratio_max=0.85)
    first = [directories.path(number * 100, 100)[:2] for number in range(4)]
    assert first == ["/a", "/b", "/c", "/a"]  # the directory is missing, so it is not full

    for path in used:
        world.files.make_directories(path)
    assert [directories.path(number * 100, 100)[:2] for number in range(4)] == ["/a", "/c", "/a", "/c"]
    used.update({"/a": 86, "/c": 99})
    assert [directories.path(number * 100, 100)[:2] for number in range(4)] == ["/a", "/b", "/c", "/a"]


def test_a_single_log_directory_is_used_however_full_it_is(world: World) -> None:
    directories = SegmentDirectories(world.files, ["/a"], used_ratio_max=0.0)
    assert directories.path(100, 100) == "/a/00000000000000000100"


def test_log_directories_outside_of_the_root_are_created_durably(world: World, bench: Any, small: Make) -> None:
    started(world, config_of_two_directories(small, store_path_commit_log="/mnt/x/log,/mnt/y/log"))
    synced = [path for name, path in bench.failures.calls if name == "sync_directory"]
    assert {"/", "/mnt", "/mnt/x", "/mnt/y"} <= set(synced)


# Loads and truncation


def test_segments_in_all_directories_are_one_log_after_reopening(lab: Make, small: Make) -> None:
    image = image_of_filled_log(lab, config_of_two_directories(small))

    def body(world: World) -> None:
        store = started(world, config_of_two_directories(small, read_only_commit_log_store_paths="/c/log"))
        assert [segment.base_offset for segment in store.log.segments] == [n * 1024 for n in range(5)]
        assert len(store.get_message("T", 0, 0).records) == 10
        put_segments(store, 2)
        assert store.shutdown()

    bench = lab(image)
    bench.run(body)
    # only a and b are writable now: numbers 5 and 6 in turn
    assert log_files(bench.switch_off()) == ["a0", "a3", "a6", "b1", "b4", "b5", "c2"]


def test_a_read_only_log_directory_need_not_be_a_writable_one(lab: Make, small: Make) -> None:
    image = image_of_filled_log(lab, small(store_path_commit_log="/old/log"))
    config = small(store_path_commit_log="/new/log", read_only_commit_log_store_paths="/old/log")

    def body(world: World) -> None:
        store = started(world, config)
        put_segments(store, 1)
        world.tasks.sleep(10)
        assert store.get_max_offset_in_queue("T", 0) == 12
        assert store.log.segments[5].file.path == "/new/log/00000000000000005120"
        assert store.shutdown()

    lab(image).run(body)


def test_a_missing_segment_is_a_gap_in_the_merged_log(lab: Make, small: Make) -> None:
    image = image_of_filled_log(lab, config_of_two_directories(small))
    files = {path: file for path, file in image.files.items() if not path.startswith("/b/log/00000000000000001024")}

    def body(world: World) -> None:
        report = MessageStore(world, config_of_two_directories(small)).load()
        (gap,) = report.findings
        assert re.match(r"/c/log/0*2048 @ 0: base offset: expected the next segment, 0*1024", str(gap))

    lab(Image(files, image.directories)).run(body)


def test_two_segments_with_the_same_name_and_data_are_damage(lab: Make, small: Make) -> None:
    image = image_of_filled_log(lab, config_of_two_directories(small))
    twice = with_moved_file(image, "/b/log/00000000000000001024", "/c/log/00000000000000001024", keep=True)

    def body(world: World) -> None:
        store = MessageStore(world, config_of_two_directories(small))
        with pytest.raises(CorruptFileError) as damage:
            store.load()
        assert str(damage.value) == (
            "/c/log/00000000000000001024 @ 0: file name: expected a unique name, "
            "found the same name as /b/log/00000000000000001024"
        )

    lab(twice).run(body)


@pytest.mark.parametrize("twin", [b"", bytes(100), bytes(1024)])
@pytest.mark.parametrize("path", ["/a/log", "/c/log"])
def test_an_empty_duplicate_segment_of_a_failed_creation_is_removed_durably(
    path: str, twin: bytes, lab: Make, small: Make
) -> None:
    image = image_of_filled_log(lab, config_of_two_directories(small))
    bench = lab(with_file(image, f"{path}/00000000000000001024", twin))

    def body(world: World) -> None:
        store = MessageStore(world, config_of_two_directories(small))
        assert store.load().findings == []
        assert store.max_phy_offset > 4 * 1024
        assert (("sync_directory", path)) in bench.failures.calls

    bench.run(body)
    assert log_files(bench.switch_off()) == ["a0", "a3", "b1", "b4", "c2"]


def test_truncation_removes_segments_in_all_directories(lab: Make, small: Make) -> None:
    image = image_of_filled_log(lab, config_of_two_directories(small))
    content = image.files["/b/log/00000000000000001024"].content
    torn = with_file(image, "/b/log/00000000000000001024", content[:8] + b"\xff" * 8 + content[16:])
    bench = lab(with_file(torn, "/store/abort", b""))

    def body(world: World) -> None:
        store = MessageStore(world, config_of_two_directories(small))
        assert store.load().end_offset == 1024
        assert store.max_phy_offset == 1024
        for directory in ("/a/log", "/b/log", "/c/log"):
            assert ("sync_directory", directory) in bench.failures.calls or directory == "/a/log"

    bench.run(body)
    assert log_files(bench.switch_off()) == ["a0", "b1"]


def test_a_load_makes_a_killed_removal_durable_in_a_directory_without_segments(lab: Make, small: Make) -> None:
    config = config_of_two_directories(small)
    bench = lab(image_of_filled_log(lab, config, segments=2))

    def body(world: World) -> None:
        world.files.unlink("/b/log/00000000000000001024")  # by a recovery that was killed before the sync
        MessageStore(world, config).load()
        assert bench.disk.undurable_names("/b/log") == []

    bench.run(body)
    assert log_files(bench.switch_off()) == ["a0"]


def test_failed_creations_leave_no_duplicate_segment(lab: Make, small: Make) -> None:
    bench = lab()
    for _ in range(2):
        bench.failures.plan("sync", "/log/00000000000000001024")
        bench.failures.plan("sync_directory", "/log")

    def body(world: World) -> None:
        store = started(world, config_of_two_directories(small))
        answers = []
        for _ in range(14):
            answers.append(store.put_message(Message.create("T", BODY)).status)
            world.tasks.sleep(10)
        assert answers.count(PutMessageStatus.PUT_OK) > 8
        assert store.shutdown()

    bench.run(body)
    names = [name[1:] for name in log_files(bench.switch_off())]
    assert len(names) == len(set(names))


# Inspection and verification


@pytest.fixture
def real_store(started: Callable[..., MessageStore], tmp_path: Path) -> StoreConfig:  # type: ignore[no-redef]
    config = StoreConfig(
        str(tmp_path / "store"),
        store_path_commit_log=f"{tmp_path}/d2,{tmp_path}/d1",
        mapped_file_size_commit_log=1024,
        mapped_file_size_consume_queue=200,
        message_index_enable=False,
    )
    store = started(config)
    put_segments(store, 4)
    assert store.shutdown()
    return config


def geometry_of(config: StoreConfig) -> Geometry:
    return Geometry(commit_log_paths=config.store_path_commit_log)


def verification_of(config: StoreConfig, geometry: Geometry) -> Verification:
    return verify_directory(overlay_world().files, config.store_path_root_dir, geometry, lambda read_bytes: None)


def test_inspect_and_verify_find_the_log_in_its_configured_directories(real_store: StoreConfig) -> None:
    found = inspect_directory(overlay_world(), real_store.store_path_root_dir, geometry_of(real_store))
    assert found.findings == []
    fields = found.all_fields()
    assert fields["geometry"]["mappedFileSizeCommitLog"] == 1024
    assert [file["name"] for file in fields["commitLogFiles"]] == [f"{n * 1024:020d}" for n in range(4)]
    assert len([record for record in fields["commitLogRecords"] if "blank" not in record]) == 8

    verification = verification_of(real_store, geometry_of(real_store))
    assert verification.findings.violations == []
    assert (verification.counts["segments"], verification.counts["records"]) == (4, 8)


def test_without_its_settings_a_log_in_other_directories_is_not_found(real_store: StoreConfig) -> None:
    verification = verification_of(real_store, Geometry())
    assert [violation.field for violation in verification.findings.violations] == ["commitlog"]


def test_log_directories_configured_on_another_machine_are_ignored(real_store: StoreConfig, tmp_path: Path) -> None:
    root = Path(real_store.store_path_root_dir)
    (tmp_path / "d1").rename(root / "commitlog")
    for path in (tmp_path / "d2").iterdir():
        path.rename(root / "commitlog" / path.name)
    verification = verification_of(real_store, replace(geometry_of(real_store), commit_log_paths="/elsewhere/log"))
    assert verification.findings.violations == []
    assert verification.counts["segments"] == 4


def test_verify_reports_a_duplicate_segment_a_gap_and_a_missing_queue_entry(
    real_store: StoreConfig, tmp_path: Path
) -> None:
    first, second = tmp_path / "d1" / f"{0:020d}", tmp_path / "d2" / f"{1024:020d}"
    (tmp_path / "d2" / first.name).write_bytes(first.read_bytes())
    (tmp_path / "d1" / second.name).write_bytes(bytes(1024))
    lines = [str(v) for v in verification_of(real_store, geometry_of(real_store)).findings.violations]
    assert [line.partition(" @ ")[0] for line in lines] == [
        str(tmp_path / "d2" / first.name),
        str(tmp_path / "d1" / second.name),
    ]
    assert all("expected a unique name" in line for line in lines)

    (tmp_path / "d2" / first.name).unlink()
    (tmp_path / "d1" / second.name).unlink()
    second.unlink()
    lines = [str(v) for v in verification_of(real_store, geometry_of(real_store)).findings.violations]
    assert any("d1/00000000000000002048 @ 0: base offset" in line for line in lines)
    queue = Path(real_store.consume_queue_directory, "T", "0", f"{0:020d}")
    queue.write_bytes(queue.read_bytes()[:60] + bytes(140))
    lines = [str(v) for v in verification_of(real_store, geometry_of(real_store)).findings.violations]
    assert any("d2/00000000000000003072" in line and "queue entry" in line for line in lines)


def test_inspect_notes_a_wrong_segment_size_in_any_directory(real_store: StoreConfig, tmp_path: Path) -> None:
    (tmp_path / "d1" / f"{4 * 1024:020d}").write_bytes(b"")
    found = inspect_directory(overlay_world(), real_store.store_path_root_dir, geometry_of(real_store))
    assert [(f.file, f.field) for f in found.findings] == [(f"{tmp_path}/d1/{4 * 1024:020d}", "file size")]


def test_a_removed_log_directory_is_durably_created_again(world: World, bench: Any, small: Make) -> None:
    store = started(world, config_of_two_directories(small, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    world.files.remove_directory("/a/log")
    world.files.remove_directory("/a")
    world.files.sync_directory("/")
    put_segments(store, 1)
    names = bench.disk._names

    assert names.current.inode(made := "/a/log/00000000000000000000") is not None
    assert [path for path in ("/a", "/a/log", made) if not names.is_name_durable(path)] == []

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog, usage_error
from tornlog.reports.cli import directories as commands
from tornlog.store.config import StoreConfig
from tornlog.store.formats.checkpoint import CheckpointValues, encode_checkpoint_file
from tornlog.store.formats.message import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT
from tornlog.store.formats.messages import Message
from tornlog.store.log.checkpoint import read_checkpoint
from tornlog.store.message_store import MessageStore
from tornlog.store.real.overlay import OverlayFiles
from tornlog.store.real.world import overlay_world, real_world
from tornlog.store.tools import rebuild as rebuild_module
from tornlog.store.tools.rebuild import rebuild_directory
from tornlog.store.world import World

WHOLE = [
    *("01-simple", "02-multi-rollover", "03-props", "04-batch", "05-delay", "06-transaction", "07-ipv6"),
    *("08-clean-shutdown", "09-kill9-async", "09b-kill9-async-nopace", "10-kill9-sync", "12-index-roll"),
]
"""Stores without damage whose log begins at 0."""


run = partial(tornlog, "rebuild")


def contents(root: Path, part: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted((root / part).rglob("*")) if path.is_file()
    }


def queues_of(root: Path) -> dict[str, bytes]:
    """Return every queue file with an entry. RocketMQ may have allocated an empty file in advance."""
    return {name: raw for name, raw in contents(root, "consumequeue").items() if any(raw)}


@pytest.mark.parametrize("name", WHOLE)
def test_rebuilt_queues_equal_those_of_rocketmq_byte_for_byte(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    case, new = golden(name), tmp_path / "new"
    theirs, log = queues_of(case.before), contents(case.before, "commitlog")
    for part in ("consumequeue", "index"):
        shutil.rmtree(case.before / part)
    (case.before / "checkpoint").unlink()
    conf = tmp_path / "broker.conf"  # without the queues no file shows their size or the delays
    names = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "messageDelayLevel")
    names += ("maxHashSlotNum", "maxIndexNum")
    conf.write_text("".join(f"{key}={case.manifest['config'][key]}\n" for key in names))
    result = run(case.before, "--to", new, "--config", conf)

    assert result.exit_code == 0, result.stderr
    assert queues_of(new) == theirs
    assert not (new / "abort").exists()
    own = contents(new, "commitlog")
    assert own == {path: raw for path, raw in log.items() if path in own}
    assert not any(any(raw) for path, raw in log.items() if path not in own)


@pytest.mark.parametrize("name", ["03-props", "08-clean-shutdown", "12-index-roll"])
def test_the_rebuilt_index_equals_that_of_online_dispatch_byte_for_byte(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    case = golden(name)
    values = case.manifest["config"]
    config = replace(
        case.config(case.before), max_hash_slot_num=values["maxHashSlotNum"], max_index_num=values["maxIndexNum"]
    )
    files = overlay_world().files
    theirs = list(contents(case.before, "index").values())
    shutil.rmtree(case.before / "index")
    new = tmp_path / "new"
    rebuild_directory(files, config, real_world(), str(new), lambda read_bytes: None)

    assert list(contents(new, "index").values()) == theirs


def test_a_rebuilt_store_opens_passes_verify_and_accepts_puts(
    golden: Callable[[str], Any],
    started: Callable[..., MessageStore],
    tmp_path: Path,
    fingerprint: Callable[[Path], Any],
) -> None:
    case, new = golden("08-clean-shutdown"), tmp_path / "new"
    (case.before / "config" / "groups").mkdir(parents=True)
    (case.before / "config" / "groups" / "one.json").write_text("{}")
    before = fingerprint(case.before)
    assert run(case.before, "--to", new).exit_code == 0
    assert fingerprint(case.before) == before
    for path in (case.before / "commitlog").iterdir():
        copy = new / "commitlog" / path.name
        assert copy.stat().st_ino != path.stat().st_ino
        assert copy.stat().st_mtime_ns // 10**6 == path.stat().st_mtime_ns // 10**6
    assert (new / "config" / "groups" / "one.json").is_file()
    for path in (case.before / "config").rglob("*.json"):
        assert (new / path.relative_to(case.before)).read_bytes() == path.read_bytes()
    verified = tornlog("verify", new)
    assert verified.exit_code == 0, verified.stderr

    store = started(case.config(new))
    assert store.max_phy_offset == 121298
    last = store.get_max_offset_in_queue("Mix1", 1)
    result = store.put_message(Message.create("Mix1", b"next", queue_id=1)).append
    assert result is not None
    assert result.queue_offset == last
    assert store.shutdown()


def test_the_rebuild_result_is_printed_as_a_table_and_written_as_json(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    case = golden("08-clean-shutdown")
    root = case.before
    told = json.loads(run(root, "--to", tmp_path / "one", "--json", "-").stdout)

    assert told["format"] == "tornlog-rebuild/1"
    assert (told["log"], told["records"], told["minPhyOffset"], told["maxPhyOffset"]) == ("copied", 279, 0, 121298)
    assert told["findings"] == []
    names = ("topic", "queueId", "minOffset", "maxOffset")
    assert told["queues"] == [{key: queue[key] for key in names} for queue in case.observed["queues"]]
    table = run(root, "--to", tmp_path / "two").stdout
    assert "279 records, copied" in table


# -- refusals and damage ---------------------------------------------------------------------------


def test_rebuilding_into_an_existing_directory_or_the_store_itself_is_a_usage_error(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    root = golden("01-simple").before
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("keep")
    for new in (taken, root, root / "new", root / ".." / root.name / "x"):
        assert run(root, "--to", new).exit_code == 2
    assert (taken / "mine").read_text() == "keep"
    assert not (root / "new").exists()
    with pytest.raises(FileExistsError, match="not empty"):
        rebuild_directory(overlay_world().files, StoreConfig(str(root)), overlay_world(), str(taken), lambda _: None)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(root, "--to", empty).exit_code == 0


def test_a_directory_without_a_store_is_reported_and_not_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    assert "no store: it has no log" in usage_error(tmp_path / "old", "--to", tmp_path / "new", run=run)
    assert not (tmp_path / "new").exists()


def test_damage_accepted_after_a_clean_exit_is_reported_and_skipped(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    case, new = golden("14-cln-early-zero-page"), tmp_path / "new"
    result = run(case.before, "--to", new, "--json", "-")
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert told["findings"]
    assert all(finding["file"].startswith("commitlog/") for finding in told["findings"])
    assert result.stderr.startswith("commitlog/")
    assert told["maxPhyOffset"] == case.observed["maxPhyOffset"]
    assert not (new / "abort").exists()


def test_an_invalid_checkpoint_is_reported_and_not_copied(golden: Callable[[str], Any], tmp_path: Path) -> None:
    result = run(golden("14-abn-ckpt-short").before, "--to", tmp_path / "new")
    assert result.exit_code == 1
    assert "\ncheckpoint @ " in result.stdout
    assert tornlog("verify", tmp_path / "new").exit_code == 0


def last_segment(root: Path) -> Path:
    return sorted((root / "commitlog").iterdir())[-1]


def set_times(root: Path, *times_ms: int) -> None:
    (root / "checkpoint").write_bytes(encode_checkpoint_file(CheckpointValues(*times_ms)))


FUTURE_MS = 1 << 45


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda root: set_times(root, 1, FUTURE_MS, 1), id="a time that is not there yet"),
        pytest.param(lambda root: set_times(root, 1, 1, FUTURE_MS), id="of the index"),
        pytest.param(lambda root: [path.unlink() for path in (root / "commitlog").iterdir()], id="no log"),
        pytest.param(lambda root: os.truncate(last_segment(root), 0), id="no last segment"),
    ],
)
def test_a_checkpoint_beyond_the_log_is_damage_and_the_rebuilt_one_is_corrected(
    golden: Callable[[str], Any], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    root = golden("08-clean-shutdown").before
    damage(root)
    result = run(root, "--to", tmp_path / "new")
    assert result.exit_code == 1
    assert "\ncheckpoint @ " in result.stdout
    verified = tornlog("verify", tmp_path / "new")
    assert verified.exit_code == 0, verified.output


def test_after_an_unclean_exit_one_checkpoint_time_may_be_beyond_the_log(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    root = golden("08-clean-shutdown").before
    set_times(root, FUTURE_MS, 1, FUTURE_MS)
    (root / "abort").touch()
    assert run(root, "--to", tmp_path / "new").exit_code == 0
    assert tornlog("verify", tmp_path / "new").exit_code == 0


def test_a_checkpoint_ahead_after_a_backward_clock_step_is_not_damage(
    lab: Callable[..., Any], small: Callable[..., Any]
) -> None:
    config, bench = small(), lab()

    def body(world: World) -> None:
        store = MessageStore(world, config)
        store.load()
        store.start()
        result = store.put_message(Message.create("T", b"x")).append
        assert result is not None
        assert store.shutdown()
        later_ms = store.checkpoint.physic_msg_timestamp_ms
        put_earlier_one(world, config, result.wrote_bytes)
        rebuilt = rebuild_directory(world.files, config, world, "/new", lambda _: None)
        assert (rebuilt.records, rebuilt.findings) == (2, [])
        times = read_checkpoint(world.files, "/new/checkpoint")
        assert times[:2] == (later_ms - 5000, later_ms - 5000)

    bench.run(body)


def put_earlier_one(world: World, config: StoreConfig, size_bytes: int) -> None:
    """Append a copy of the log's only record with a store time 5 s earlier."""
    path = f"{config.commit_log_directory}/{0:020d}"
    raw = bytearray(world.files.read(path))
    again = raw[:size_bytes]
    stored_ms = int.from_bytes(again[56:64], "big") - 5000
    for at, value in ((QUEUE_OFFSET_AT, 1), (PHYSICAL_OFFSET_AT, size_bytes), (56, stored_ms)):
        again[at : at + 8] = value.to_bytes(8, "big")
    raw[size_bytes : 2 * size_bytes] = again
    world.files.write(path, bytes(raw))


def test_only_the_used_part_of_a_long_checkpoint_is_read(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: OverlayFiles, path: str) -> bytes:
        assert not path.endswith("/checkpoint"), path
        return read(self, path)

    root, read = golden("08-clean-shutdown").before, OverlayFiles.read
    os.truncate(root / "checkpoint", 1 << 33)
    monkeypatch.setattr(OverlayFiles, "read", refuse)
    for command in ("inspect", "verify"):
        assert tornlog(command, root).exit_code == 0
    assert run(root, "--to", tmp_path / "new").exit_code == 0
    assert (tmp_path / "new" / "checkpoint").stat().st_size == 4096


def test_a_too_long_segment_is_reported_before_anything_is_copied(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden("08-clean-shutdown").before
    victim = sorted((root / "commitlog").iterdir())[2]
    os.truncate(victim, 1 << 32)
    monkeypatch.setattr(rebuild_module, "_copy_file", None)
    result = run(root, "--to", tmp_path / "new")
    assert result.exit_code == 1
    assert result.stderr == f"commitlog/{victim.name} @ 0: file size: expected 16384, found {1 << 32}\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("options", [[], ["--master", "in-process"]])
def test_too_long_side_files_are_reported_and_not_copied(
    golden: Callable[[str], Any], tmp_path: Path, options: list[str]
) -> None:
    root = golden("08-clean-shutdown").before
    (root / "config" / "groups").mkdir()
    (root / "config" / "groups" / "one.json").touch()
    os.truncate(root / "config" / "groups" / "one.json", (64 << 20) + 1)
    result = run(root, "--to", tmp_path / "new", *options)
    assert result.exit_code == 1
    line = f"config/groups/one.json @ 0: file size: expected {64 << 20} or less, found {(64 << 20) + 1}\n"
    assert line in result.stdout
    assert not (tmp_path / "new" / "config" / "groups" / "one.json").exists()


def test_a_rebuild_of_a_log_that_no_store_can_open_leaves_no_directory(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    root = golden("08-clean-shutdown").before
    victim = sorted((root / "commitlog").iterdir())[1]
    victim.write_bytes(victim.read_bytes()[:5000])
    result = run(root, "--to", tmp_path / "new")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"commitlog/{victim.name} @ 0: file size: expected 16384, found 5000")
    assert not (tmp_path / "new").exists()


def test_an_empty_segment_at_the_end_of_the_log_is_not_copied(golden: Callable[[str], Any], tmp_path: Path) -> None:
    root = golden("08-clean-shutdown").before
    (root / "commitlog" / f"{8 * 16384:020d}").touch()
    assert run(root, "--to", tmp_path / "new").exit_code == 0
    assert not (tmp_path / "new" / "commitlog" / f"{8 * 16384:020d}").exists()


def test_a_disk_error_fails_the_rebuild_and_leaves_no_directory(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        Path(arguments[3], "commitlog").mkdir(parents=True)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(commands, "rebuild_directory", fail)
    result = run(golden("01-simple").before, "--to", tmp_path / "new")
    assert result.exit_code == 3
    assert result.stderr == f"{tmp_path / 'new'}: No space left on device\n"
    assert not (tmp_path / "new").exists()


# -- in a simulated world --------------------------------------------------------------------------


def filled_lab(lab: Callable[..., Any], config: StoreConfig) -> Any:
    bench = lab()

    def body(world: World) -> None:
        store = MessageStore(world, config)
        store.load()
        store.start()
        for number in range(40):
            store.put_message(Message.create(f"T{number % 3}", b"x" * number, keys=f"k{number}"))
            world.tasks.sleep(200)
        assert store.shutdown()

    bench.run(body)
    return bench.switch_off()


def test_a_finished_rebuild_is_durable(lab: Callable[..., Any], small: Callable[..., Any]) -> None:
    config = small()
    bench = lab(filled_lab(lab, config))

    def body(world: World) -> None:
        advanced: list[int] = []
        rebuilt = rebuild_directory(world.files, config, world, "/new", advanced.append)
        assert sum(advanced) == rebuilt.log_bytes
        assert rebuilt.findings == []

    bench.run(body)
    image = bench.switch_off(abruptly=True)
    files = {path: file.content for path, file in image.files.items()}
    for path, content in files.items():
        if path.startswith(("/store/commitlog/", "/store/consumequeue/")):
            assert files[path.replace("/store/", "/new/")] == content
    assert "/new/abort" not in files
    index = [content for path, content in files.items() if "/index/" in path]
    assert len({bytes(content) for content in index}) * 2 == len(index)


def test_after_a_failed_rebuild_the_directory_is_marked_unclean_or_complete(
    lab: Callable[..., Any], small: Callable[..., Any]
) -> None:
    config = small()
    image = filled_lab(lab, config)
    failed = 0
    while True:
        bench = lab(image)
        calls = iter(range(failed + 1))

        def meet(method: str, path: str, calls: Any = calls) -> None:
            if "/new" in path and method not in ("status", "list_directory") and next(calls, None) is None:
                raise OSError(errno.EIO, "Input/output error", path)

        bench.failures.meet = meet

        def body(world: World) -> bool:
            try:
                rebuild_directory(world.files, config, world, "/new", lambda _: None)
            except OSError:
                return False
            return True

        succeeded = bench.run(body)
        left = {path: file.content for path, file in bench.switch_off(abruptly=True).files.items()}
        begun = any(path.startswith("/new/") and path != "/new/abort" for path in left)
        whole = all(
            left.get(path.replace("/store/", "/new/")) == content
            for path, content in left.items()
            if path.startswith(("/store/commitlog/", "/store/consumequeue/"))
        )
        assert "/new/abort" in left or whole or not begun
        if succeeded:
            break
        failed += 7
    assert failed > 70
    assert whole

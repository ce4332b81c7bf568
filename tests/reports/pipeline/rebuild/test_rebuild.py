import json
import shutil
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.reports.pipeline.rebuild.rebuilding import UnsoundStoreError, rebuild_with
from tornlog.reports.pipeline.spark.engine import Engine, InProcessEngine, SparkEngine
from tornlog.reports.pipeline.spark.session import session
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.checkpoint import CheckpointValues, encode_checkpoint
from tornlog.store.formats.messages import Message
from tornlog.store.formats.scan import scan_records
from tornlog.store.message_store import MessageStore
from tornlog.store.real.native import PURE_PYTHON
from tornlog.store.real.world import overlay_world, real_world
from tornlog.store.tools.geometry import Geometry, config_of_directory
from tornlog.store.tools.rebuild import RebuildResult, rebuild_directory

GOLDEN = Path(__file__).parents[3] / "golden"
CASES = sorted(str(path.parent.relative_to(GOLDEN)) for path in GOLDEN.rglob("store.tar.gz"))
REFUSED = [*("14-abn-all-commitlog-deleted", "14-abn-early-flip", "14-abn-truncated-file", "14-cln-early-zero-page")]
"""Golden stores with logs that are missing, truncated, or damaged in their trusted part."""


def extracted(name: str, into: Path) -> tuple[Path, Geometry]:
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(into, filter="data")
    values = json.loads((GOLDEN / name / "manifest.json").read_text())["config"]
    geometry = Geometry(
        delay_levels=values["messageDelayLevel"],
        hash_slots=values["maxHashSlotNum"],
        index_entries=values["maxIndexNum"],
    )
    return into / "before", geometry


def contents(root: Path) -> tuple[dict[str, tuple[bytes, int]], list[bytes]]:
    """Return the content of every file, with the times of segments.

    Index files have numbers instead of their names, which depend on the clock.
    """
    files = {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}
    timed = ("commitlog/", "consumequeue/")
    others = {
        name: (path.read_bytes(), path.stat().st_mtime_ns // 10**6 if name.startswith(timed) else 0)
        for name, path in files.items()
        if not name.startswith("index/")
    }
    return others, [path.read_bytes() for name, path in files.items() if name.startswith("index/")]


def rebuild_locally(root: Path, new: Path, geometry: Geometry | None = None) -> RebuildResult:
    files = overlay_world().files
    config = config_of_directory(files, str(root), geometry or Geometry())
    return rebuild_directory(files, config, real_world(), str(new), lambda read_bytes: None)


def require_same(root: Path, at: Path, engine: Engine, geometry: Geometry | None = None) -> None:
    here = rebuild_locally(root, at / "here", geometry)
    there = rebuild_with(engine, str(root), str(at / "there"), geometry)
    assert contents(at / "there") == contents(at / "here")
    assert there.fields() == here.fields()


def test_a_rebuild_accepts_every_undamaged_golden_store() -> None:
    assert set(REFUSED) < set(CASES)
    assert all("-abn-" in name or "-cln-" in name for name in REFUSED)
    assert len(CASES) - len(REFUSED) >= 40


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_a_rebuilt_golden_store_equals_that_of_the_local_command(tmp_path: Path, name: str) -> None:
    root, geometry = extracted(name, tmp_path)
    require_same(root, tmp_path, InProcessEngine(), geometry)


@pytest.mark.parametrize("name", ["06-transaction", "12-index-roll"])
def test_the_rebuild_without_the_compiled_core_is_the_same(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PURE_PYTHON, "1")
    root, geometry = extracted(name, tmp_path)
    require_same(root, tmp_path, InProcessEngine(), geometry)


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_log_is_refused_and_the_rebuild_leaves_no_files(tmp_path: Path, name: str) -> None:
    root, geometry = extracted(name, tmp_path)
    before = contents(root)
    command = ["rebuild", str(root), "--to", str(tmp_path / "new"), "--master", "in-process"]
    done = tornlog(*command)
    assert done.exit_code == 1, done.output
    assert "rebuild without --master" in done.stderr
    assert not (tmp_path / "new").exists()
    assert contents(root) == before
    with pytest.raises((UnsoundStoreError, CorruptFileError), match=r"expected|no segment"):
        rebuild_with(InProcessEngine(), str(root), str(tmp_path / "new"), geometry)


# -- stores of our own -----------------------------------------------------------------------------


@pytest.fixture
def store_at(tmp_path: Path) -> Path:
    """A stopped store with several files of each kind, and light queues."""
    root = tmp_path / "store"
    config = StoreConfig(
        str(root),
        mapped_file_size_commit_log=16 << 10,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=50,
        max_index_num=41,
        enable_multi_dispatch=True,
        enable_lmq=True,
    )
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for number in range(280):
        properties = {"INNER_MULTI_DISPATCH": f"%LMQ%{number % 3},Other"} if number % 4 == 0 else {}
        message = Message.create(
            "T", b"x" * (number * 3), queue_id=number % 2, keys=f"k{number} same", properties=properties
        )
        store.put_message(message)
    assert store.shutdown()
    return root


def test_light_queues_and_full_files_are_rebuilt_as_by_the_local_command(store_at: Path, tmp_path: Path) -> None:
    require_same(store_at, tmp_path, InProcessEngine())
    assert (tmp_path / "there/consumequeue/%LMQ%1/0").is_dir()
    assert len(list((tmp_path / "there/index").iterdir())) == 14
    verified = tornlog("verify", str(tmp_path / "there"))
    assert verified.exit_code == 0, verified.output


@pytest.mark.parametrize("kind", ["torn", "zeros"])
def test_a_torn_log_is_truncated_as_by_the_local_command(store_at: Path, tmp_path: Path, kind: str) -> None:
    (store_at / "abort").touch()
    (store_at / "checkpoint").unlink()
    segments = sorted((store_at / "commitlog").iterdir())
    raw = bytearray(segments[2].read_bytes())
    half = len(raw) // 2
    raw[half:] = bytes(half) if kind == "zeros" else bytes(one ^ 0xFF for one in raw[half:])
    segments[2].write_bytes(raw)

    require_same(store_at, tmp_path, InProcessEngine())
    assert len(segments) > 3
    assert len(list((tmp_path / "there/commitlog").iterdir())) == 3
    command = ["rebuild", str(store_at), "--to", str(tmp_path / "new"), "--master", "in-process"]
    done = tornlog(*command)
    assert done.exit_code == 1, done.output
    assert f"commitlog/{segments[2].name} @ " in done.stderr + done.stdout
    verified = tornlog("verify", str(tmp_path / "new"))
    assert verified.exit_code == 0, verified.output


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("times_ms", [(1 << 45, 1 << 45, 1 << 45), (1, 1 << 45, 1 << 45), (1, 1, 1)])
def test_a_wrong_checkpoint_is_handled_as_by_the_local_command(
    store_at: Path, tmp_path: Path, times_ms: tuple[int, int, int], is_clean: bool
) -> None:
    behind = bytes(8) + b"RocketMQ 5 keeps offsets here"
    (store_at / "checkpoint").write_bytes(encode_checkpoint(CheckpointValues(*times_ms)) + behind)
    if not is_clean:
        (store_at / "abort").touch()

    require_same(store_at, tmp_path, InProcessEngine())
    assert (tmp_path / "there/checkpoint").read_bytes()[24:] == bytes(4096 - 24)
    verified = tornlog("verify", str(tmp_path / "there"))
    assert verified.exit_code == 0, verified.output


Renumber = Callable[[int], int]


def renumber(root: Path, rule: Renumber) -> None:
    for segment in sorted((root / "commitlog").iterdir()):
        raw, base_offset = bytearray(segment.read_bytes()), int(segment.name)
        records = scan_records(
            memoryview(bytes(raw)), 0, len(raw), file=segment.name, base_offset=base_offset, check_crc=True
        )
        with suppress(CorruptFileError):  # the last segment ends with zeros
            for record in records:
                if (record.topic, record.queue_id) == ("T", 0):
                    at = record.physical_offset - base_offset + 20
                    raw[at : at + 8] = rule(record.queue_offset).to_bytes(8, "big")
        segment.write_bytes(raw)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(lambda number: number + (number >= 29), id="over the end of a file"),
        pytest.param(lambda number: number + 4096 * (number >= 50), id="whole files"),
        pytest.param(lambda number: number * 3, id="each alone between two"),
        pytest.param(lambda number: number + 4096 * (number == 139), id="the last behind one"),
        pytest.param(lambda number: number + 2000 * (number >= 60) + 2000 * (number >= 61), id="one alone far away"),
        pytest.param(lambda number: number + 1, id="before the first"),
    ],
)
@pytest.mark.parametrize("pure", ["", "1"])
def test_a_gap_in_the_queue_offsets_is_filled_as_by_the_local_command(
    store_at: Path, tmp_path: Path, rule: Renumber, pure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PURE_PYTHON, pure)
    renumber(store_at, rule)

    require_same(store_at, tmp_path, InProcessEngine())


@pytest.mark.parametrize(
    ("rule", "expected", "found"),
    [
        pytest.param(lambda number: number + (number == 1), 1, 2, id="taken by the next one"),
        pytest.param(lambda number: number - (number >= 7), 7, 6, id="taken by the one before"),
        pytest.param(lambda number: number + 4097 * (number >= 50), 50, 4147, id="too far away"),
        pytest.param(
            lambda number: number + 4000 * (number >= 60) + 4000 * (number >= 61),
            60,
            4060,
            id="alone, and too far away",
        ),
    ],
)
def test_invalid_queue_offsets_are_refused_with_the_queue_and_both_values(
    store_at: Path, tmp_path: Path, rule: Renumber, expected: int, found: int
) -> None:
    renumber(store_at, rule)
    said = rf"record \d+: queueOffset in T/0: expected {expected}, found {found}$"
    with pytest.raises(UnsoundStoreError, match=said):
        rebuild_with(InProcessEngine(), str(store_at), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_rebuild_into_a_nonempty_place_is_refused_and_changes_nothing(store_at: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("keep")
    for new in (taken, store_at, store_at / "new"):
        done = tornlog("rebuild", str(store_at), "--to", str(new), "--master", "in-process")
        assert done.exit_code == 2, done.output
    assert (taken / "mine").read_text() == "keep"
    done = tornlog("rebuild", "s3://bucket/store", "--to", str(tmp_path / "new"))
    assert done.exit_code == 2


@pytest.mark.slow
def test_a_rebuild_on_spark_is_the_same(store_at: Path, tmp_path: Path) -> None:
    with session("local[2]") as spark:
        require_same(store_at, tmp_path, SparkEngine(spark.sparkContext))
        shutil.rmtree(tmp_path / "there")
        for name in ("02-multi-rollover", "14-abn-combo"):
            root, geometry = extracted(name, tmp_path / name)
            require_same(root, tmp_path / name, SparkEngine(spark.sparkContext), geometry)


@pytest.mark.parametrize(("old", "new"), [("", "file://"), ("file://", ""), ("file://", "file://")])
def test_a_rebuild_into_the_same_store_is_refused_for_every_spelling_of_the_path(
    store_at: Path, old: str, new: str
) -> None:
    before = sorted(store_at.iterdir())
    command = ["rebuild", f"{old}{store_at}", "--to", f"{new}{store_at}/new", "--master", "in-process"]
    done = tornlog(*command)

    assert done.exit_code == 2, done.output
    assert sorted(store_at.iterdir()) == before

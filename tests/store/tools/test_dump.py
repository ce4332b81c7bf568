import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.command_line import tornlog
from tornlog.sim.process import cpu_limit
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.overlay import OverlayFiles
from tornlog.store.tools.dump import BodyText, DumpSelection, dump_log

SEGMENT_BYTES = 16384
MAGIC = bytes.fromhex("daa320a7")


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("08-clean-shutdown")


@pytest.fixture
def root(case: Any) -> Path:
    before: Path = case.before
    return before


@pytest.fixture
def records(case: Any) -> list[dict[str, Any]]:
    """RocketMQ's view of the log, without blank records."""
    return [record for record in case.observed["commitLogRecords"] if "topic" in record]


run = partial(tornlog, "dump")


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def offsets(result: Result) -> list[int]:
    return [line["offset"] for line in lines(result)]


def patch(root: Path, log_offset: int, data: bytes) -> None:
    path = root / "commitlog" / f"{log_offset // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
    with path.open("r+b") as file:
        file.seek(log_offset % SEGMENT_BYTES)
        file.write(data)


def test_dump_prints_a_line_for_every_message_with_the_fields_that_rocketmq_read(
    root: Path, records: list[dict[str, Any]], fingerprint: Callable[[Path], Any]
) -> None:
    before = fingerprint(root)
    result = run(root)
    found = lines(result)

    assert (result.exit_code, result.stderr) == (0, "")
    assert len(found) == len(records) == 279
    same = ("topic", "queueId", "queueOffset", "offset", "size", "storeTimestamp", "bornTimestamp")
    same += ("storeHost", "bornHost", "flag", "sysFlag", "reconsumeTimes", "preparedTransactionOffset")
    for line, record in zip(found, records, strict=True):
        assert line["format"] == "tornlog-dump/1"
        assert {name: line[name] for name in same} == {name: record[name] for name in same}
        assert line["bodyLength"] == record["bodyLen"]
        assert "\2".join(f"{name}\1{value}" for name, value in line["properties"].items()) == (record["properties"])
    assert found[1]["msgId"] == f"7F00000100002A9F{found[1]['offset']:016X}"
    assert fingerprint(root) == before


def test_dumped_messages_can_be_selected_by_topic_queue_and_offsets(root: Path, records: list[dict[str, Any]]) -> None:
    of_topic = [record for record in records if record["topic"] == "Mix1"]
    of_queue = [record for record in of_topic if record["queueId"] == 1]
    between = [record["offset"] for record in of_queue if 3 <= record["queueOffset"] < 6]
    assert offsets(run(root, "--topic", "Mix1")) == [record["offset"] for record in of_topic]
    assert offsets(run(root, "--topic", "Mix1", "--queue", 1)) == [record["offset"] for record in of_queue]
    assert offsets(run(root, "--topic", "Mix1", "--queue", 1, "--from", 3, "--to", 6)) == between
    assert len(between) == 3
    assert run(root, "--topic", "nobody's").stdout == ""


def test_without_a_queue_the_selected_offsets_are_log_offsets(root: Path, records: list[dict[str, Any]]) -> None:
    begin, end = records[50]["offset"], records[120]["offset"]
    assert offsets(run(root, "--from", begin, "--to", end)) == [record["offset"] for record in records[50:120]]
    assert offsets(run(root, "--from", begin + 1, "--to", end + 1)) == [record["offset"] for record in records[51:121]]


def test_segments_outside_of_the_selected_offsets_are_not_opened(root: Path, case: Any) -> None:
    class Opened(OverlayFiles):
        paths: list[str] = []  # noqa: RUF012 - one list for all of them

        def map(self, path: str, size_bytes: int) -> Any:
            self.paths.append(path)
            return super().map(path, size_bytes)

    selection = DumpSelection(begin=2 * SEGMENT_BYTES, end=3 * SEGMENT_BYTES)
    found = list(dump_log(Opened, case.config(root), selection, BodyText.NONE))
    assert found
    assert [Path(path).name for path in Opened.paths] == [f"{2 * SEGMENT_BYTES:020d}"]


def test_the_limit_option_ends_the_dump(root: Path, records: list[dict[str, Any]]) -> None:
    assert offsets(run(root, "--limit", 3)) == [record["offset"] for record in records[:3]]


def test_a_dumped_message_can_be_selected_by_any_of_its_keys_or_its_unique_key(
    started: Callable[..., MessageStore], tmp_path: Path
) -> None:
    store = started(StoreConfig(str(tmp_path / "s"), mapped_file_size_commit_log=SEGMENT_BYTES))
    for keys, unique in (("a b", "U1"), ("bb", "U2"), ("", "b"), ("c", "")):
        named = {"UNIQ_KEY": unique} if unique else {}
        store.put_message(Message.create("T", keys.encode(), keys=keys, properties=named))
    assert store.shutdown()
    assert [line["queueOffset"] for line in lines(run(tmp_path / "s", "--keys", "b"))] == [0, 2]
    assert [line["queueOffset"] for line in lines(run(tmp_path / "s", "--keys", "U2"))] == [1]
    assert lines(run(tmp_path / "s", "--keys", "a b")) == []


def test_bodies_are_dumped_in_the_requested_encoding_and_text_marks_invalid_utf8(
    started: Callable[..., MessageStore], tmp_path: Path
) -> None:
    body = "grüße".encode() + b"\xff\0"
    store = started(StoreConfig(str(tmp_path / "s"), mapped_file_size_commit_log=SEGMENT_BYTES))
    store.put_message(Message("T", body, properties="name\1v\2"))
    assert store.shutdown()

    def shown(*arguments: str) -> dict[str, Any]:
        (line,) = lines(run(tmp_path / "s", *arguments))
        return line

    assert shown()["body"] == shown("--body", "text")["body"] == "grüße\ufffd\0"
    assert bytes.fromhex(shown("--body", "hex")["body"]) == body
    assert b64decode(shown("--body", "base64")["body"]) == body
    assert "body" not in shown("--body", "none")
    assert shown("--body", "none")["bodyLength"] == len(body)


def test_dumped_lines_can_be_written_to_a_file(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "messages.jsonl"
    result = run(root, "--json", out, "--limit", 2)
    assert (result.exit_code, result.stdout) == (0, "")
    assert [json.loads(line)["format"] for line in out.read_text().splitlines()] == ["tornlog-dump/1"] * 2
    assert len(lines(run("--limit", 2, root, "--json"))) == 2


@pytest.mark.parametrize(
    "arguments", [["--queue", "1"], ["--from", "-1"], ["--limit", "0"], ["--body", "xml"], ["--json", "/no/x"]]
)
def test_a_wrong_dump_command_line_is_a_usage_error(root: Path, arguments: list[str]) -> None:
    assert run(root, *arguments).exit_code == 2


def test_a_store_without_a_log_directory_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "consumequeue").mkdir()
    result = run(tmp_path)
    assert result.exit_code == 1
    assert result.stderr == (". @ 0: commitlog: expected a directory, which every store has, found nothing\n")


# -- damage ----------------------------------------------------------------------------------------


def test_a_damaged_record_is_reported_with_its_offset_and_only_it_is_missing(
    root: Path, records: list[dict[str, Any]]
) -> None:
    bad = records[100]["offset"]
    patch(root, bad + 4, b"\0\0\0\0")
    result = run(root)
    assert result.exit_code == 1
    assert offsets(result) == [record["offset"] for record in records if record["offset"] != bad]
    file = f"commitlog/{bad // SEGMENT_BYTES * SEGMENT_BYTES:020d}"
    assert result.stderr == (
        f"{file} @ {bad % SEGMENT_BYTES + 4}: magicCode: expected daa320a7 or daa320ab, found 00000000\n"
    )


def test_a_body_with_a_wrong_checksum_is_reported_if_selected(root: Path, records: list[dict[str, Any]]) -> None:
    bad = next(record for record in records if record["bodyLen"] > 4)
    patch(root, bad["offset"] + 88, b"\xff\xff")
    result = run(root, "--topic", bad["topic"])
    assert result.exit_code == 1
    assert bad["offset"] not in offsets(result)
    assert ": bodyCRC: expected " in result.stderr
    other = next(record["topic"] for record in records if record["topic"] != bad["topic"])
    assert run(root, "--topic", other).exit_code == 0


def test_zeros_are_damage_only_if_records_follow(root: Path, records: list[dict[str, Any]]) -> None:
    assert run(root).stderr == ""
    last = records[-1]["offset"]
    hole = SEGMENT_BYTES + 8192
    start = max(record["offset"] for record in records if record["offset"] <= hole)
    patch(root, start, bytes(2 * SEGMENT_BYTES - start))
    result = run(root)

    assert result.exit_code == 1
    assert result.stderr == (
        f"commitlog/{SEGMENT_BYTES:020d} @ {start - SEGMENT_BYTES}: magicCode: "
        "expected a record, because records follow, found zeros\n"
    )
    assert offsets(result)[-1] == last


@pytest.mark.parametrize("unclean", [True, False])
def test_a_torn_tail_is_damage_unless_the_exit_explains_it(
    root: Path, records: list[dict[str, Any]], unclean: bool
) -> None:
    end = records[-1]["offset"] + records[-1]["size"]
    patch(root, end, b"\0\0\1\0" + MAGIC + b"torn")
    if unclean:
        (root / "abort").touch()
    result = run(root)
    assert len(lines(result)) == len(records)
    assert result.exit_code == (0 if unclean else 1)
    assert (result.stderr == "") == unclean


@pytest.mark.parametrize("unclean", [True, False])
def test_an_empty_segment_is_damage_unless_the_exit_explains_it(
    root: Path, records: list[dict[str, Any]], unclean: bool
) -> None:
    (root / "commitlog" / f"{SEGMENT_BYTES * 100:020d}").touch()
    if unclean:
        (root / "abort").touch()
    result = run(root)

    assert len(lines(result)) == len(records)
    assert result.exit_code == (0 if unclean else 1)
    odd = f"commitlog/{SEGMENT_BYTES * 100:020d} @ 0:"
    expected = [
        f"{odd} base offset: expected the next segment, ",
        f"{odd} file size: expected {SEGMENT_BYTES}, found 0",
    ]
    assert [
        line[: len(text)] for line, text in zip(result.stderr.splitlines(), [] if unclean else expected, strict=True)
    ] == ([] if unclean else expected)


@pytest.mark.parametrize("size_bytes", [5000, SEGMENT_BYTES + 1, 1 << 32])
def test_a_segment_of_wrong_length_is_damage_and_is_read_only_up_to_the_segment_size(
    root: Path, records: list[dict[str, Any]], size_bytes: int
) -> None:
    path = root / "commitlog" / f"{SEGMENT_BYTES:020d}"
    os.truncate(path, size_bytes)
    with cpu_limit(30.0):
        result = run(root)
    wrong = f"commitlog/{path.name} @ 0: file size: expected {SEGMENT_BYTES}, found {size_bytes}"
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == wrong
    if size_bytes > SEGMENT_BYTES:
        assert offsets(result) == [record["offset"] for record in records]


@pytest.mark.parametrize("size_bytes", [1, 4, 7])
def test_a_single_segment_too_short_for_any_record_is_damage(
    golden: Callable[[str], Any], tmp_path: Path, size_bytes: int
) -> None:
    root = golden("01-simple").before
    (only,) = (root / "commitlog").iterdir()
    os.truncate(only, size_bytes)
    line = f"commitlog/{only.name} @ 0: file size: expected {1 << 30}, found {size_bytes}"
    for command in (["dump"], ["inspect"], ["verify"]):
        result = tornlog(*command, root)
        assert (result.exit_code, line in result.output) == (1, True), result.output
    rebuilt = tornlog("rebuild", root, "--to", tmp_path / "new")
    assert rebuilt.exit_code == 1
    assert isinstance(rebuilt.exception, SystemExit)


def test_a_missing_log_is_damage_if_the_checkpoint_has_record_times(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.unlink()
    result = run(root)
    assert result.exit_code == 1
    assert "MsgTimestamp: expected at most 0, the last record's store time, found" in result.stderr
    (root / "checkpoint").write_bytes(b"half")
    assert run(root).stderr == "checkpoint @ 4: size: expected at least 24 bytes, found 4 bytes\n"
    (root / "checkpoint").unlink()
    assert run(root).exit_code == 0


def test_an_unreadable_segment_is_an_error_and_not_damage(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: OverlayFiles, path: str, size_bytes: int) -> Any:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(OverlayFiles, "map", fail)
    result = run(root, "--commit-log-size", SEGMENT_BYTES)
    assert result.exit_code == 3
    assert result.stderr.startswith(str(root))
    assert result.stderr.endswith(": Input/output error\n")


def test_a_segment_that_is_not_a_regular_file_is_damage(root: Path) -> None:
    path = root / "commitlog" / f"{SEGMENT_BYTES:020d}"
    path.unlink()
    os.mkfifo(path)
    result = run(root)
    assert result.exit_code == 1
    assert f"commitlog/{path.name} @ 0: file" in result.stderr


@pytest.mark.parametrize("to_file", [True, False])
@pytest.mark.parametrize("limit", ["1", "279"])
def test_a_full_output_disk_is_an_error_and_not_damage(root: Path, to_file: bool, limit: str) -> None:
    command = [sys.executable, "-m", "tornlog", "dump", str(root), "--limit", limit]
    command += ["--json", "/dev/full"] if to_file else []
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 3
    assert result.stderr == f"{'/dev/full' if to_file else 'standard output'}: No space left on device\n"


CASES = sorted(path.name for path in (Path(__file__).parents[2] / "golden").glob("14-*"))


@pytest.mark.parametrize("name", CASES)
def test_with_any_damage_a_dump_contains_only_messages_that_were_put(golden: Callable[[str], Any], name: str) -> None:
    case = golden(name)
    config = case.config(case.before)
    found = list(dump_log(OverlayFiles, config, DumpSelection(), BodyText.HEX))
    seen = [one for one in found if not isinstance(one, CorruptFileError)]
    assert len({one["offset"] for one in seen}) == len(seen)
    assert [one["offset"] for one in seen] == sorted(one["offset"] for one in seen)


# -- pipes and size --------------------------------------------------------------------------------


def test_a_closed_output_pipe_ends_the_dump_quietly(started: Callable[..., MessageStore], tmp_path: Path) -> None:
    store = started(StoreConfig(str(tmp_path / "s"), mapped_file_size_commit_log=1 << 20))
    for _ in range(700):
        store.put_message(Message.create("T", b"x" * 1000))
    assert store.shutdown()
    command = [sys.executable, "-m", "tornlog", "dump", str(tmp_path / "s")]
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["offset"] == 0
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_dumping_a_long_log_uses_memory_for_one_segment(started: Callable[..., MessageStore], tmp_path: Path) -> None:
    segment_bytes = 8 << 20
    store = started(StoreConfig(str(tmp_path / "s"), mapped_file_size_commit_log=segment_bytes))
    for _ in range(170):
        store.put_message(Message.create("T", b"x" * (1 << 20)))
    assert store.shutdown()
    program = (
        "import resource, sys\n"
        "from tornlog.store.config import StoreConfig\n"
        "from tornlog.store.tools.dump import BodyText, DumpSelection, dump_log\n"
        "from tornlog.store.real.overlay import OverlayFiles\n"
        f"config = StoreConfig({str(tmp_path / 's')!r}, mapped_file_size_commit_log={segment_bytes})\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = sum(1 for _ in dump_log(OverlayFiles, config, DumpSelection(), BodyText.NONE))\n"
        "print(found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
    messages, grown_kib = map(int, out.split())
    assert messages == 170
    assert grown_kib < 6 * segment_bytes // 1024

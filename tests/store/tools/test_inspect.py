import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.command_line import tornlog, usage_error
from tornlog.__main__ import application
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.inspect import inspect_directory


@pytest.fixture
def root(golden: Callable[[str], Any]) -> Path:
    before: Path = golden("08-clean-shutdown").before
    return before


run = partial(tornlog, "inspect")


@pytest.mark.parametrize("arguments", [["--json", "-"], ["--json"]])
def test_json_is_written_to_stdout_for_a_dash_or_no_name(root: Path, arguments: list[str]) -> None:
    result = run(str(root), *arguments)
    fields = json.loads(result.stdout)

    assert result.exit_code == 0
    assert fields["format"] == "tornlog-inspect/1"
    assert fields["load"] is True
    assert fields["findings"] == []
    assert fields["recovery"] == {
        "cleanExit": True,
        "startOffset": 0,
        "endOffset": 121298,
        "records": 279,
        "changedEntries": 0,
    }
    assert len(fields["commitLogRecords"]) == 286
    assert sum(len(queue["entries"]) for queue in fields["queues"]) == 273


def test_a_json_option_without_a_value_does_not_consume_the_next_option(root: Path) -> None:
    result = run("--json", "--commit-log-size", "16384", str(root))
    assert json.loads(result.stdout)["geometry"]["mappedFileSizeCommitLog"] == 16384


def test_json_can_be_written_to_a_file(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "seen.json"
    result = run("--json", str(out), str(root))
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(out.read_text())["maxPhyOffset"] == 121298


def test_the_inspection_of_a_store_that_cannot_be_opened_has_only_findings(root: Path) -> None:
    (root / "commitlog" / "notes").write_bytes(b"short")
    fields = json.loads(run(str(root), "--json").stdout)

    assert fields == {
        "format": "tornlog-inspect/1",
        "load": False,
        "findings": [
            {
                "file": "commitlog/notes",
                "offset": 0,
                "field": "file name",
                "expected": "20 digits, a multiple of 16384",
                "found": "notes",
            }
        ],
    }


def test_the_inspection_summary_counts_queues_and_shows_the_log_end(root: Path) -> None:
    result = run(str(root))
    assert result.exit_code == 0
    assert "0 to 121298, 279 records" in result.stdout
    assert result.stdout.count("Mix1") == 3
    assert "clean" in result.stdout


def test_a_long_list_of_queues_is_truncated(
    tmp_path: Path, started: Callable[..., MessageStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = StoreConfig(str(tmp_path / "many"), mapped_file_size_commit_log=65536, mapped_file_size_consume_queue=20)
    store = started(config)
    for queue_id in range(50):
        store.put_message(Message.create("[bold]Many", b"x", queue_id=queue_id))
    store.shutdown()
    result = run(config.store_path_root_dir)
    assert result.stdout.count("[bold]Many") == 40
    assert "... and 10 more" in result.stdout


def test_a_store_without_messages_has_no_offsets(tmp_path: Path, started: Callable[..., MessageStore]) -> None:
    store = started(StoreConfig(str(tmp_path / "new"), mapped_file_size_commit_log=4096))
    store.shutdown()
    found = inspect_directory(overlay_world(), str(tmp_path / "new"), Geometry()).all_fields()
    assert (found["minPhyOffset"], found["maxPhyOffset"], found["earliestMessageTime"]) == (-1, 0, -1)
    assert found["commitLogFiles"] == found["queues"] == found["commitLogRecords"] == []
    printed = run(str(tmp_path / "new")).stdout
    assert "none" in printed
    assert "-1, as RocketMQ answers" in printed


def test_damage_that_recovery_skips_is_shown_at_its_offset(root: Path) -> None:
    raw = bytearray((root / f"commitlog/{0:020}").read_bytes())
    second = int.from_bytes(raw[:4], "big")
    raw[88] ^= 1  # a body
    raw[second : second + 4] = bytes(4)  # the next record's size
    (root / f"commitlog/{0:020}").write_bytes(raw)
    found = inspect_directory(overlay_world(), str(root), Geometry()).all_fields()

    first, following, later = found["commitLogRecords"][:3]
    assert first["crcMismatch"] != first["bodyCRC"]
    assert (first["offset"], first["topic"]) == (0, "Mix1")
    assert following["offset"] == second
    assert following["unreadable"].startswith(f"commitlog @ {second}: totalSize: expected 91 to")
    assert later["offset"] == 16384


def test_options_override_broker_conf_and_both_override_sizes_of_the_files(root: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerName = a\n# maxMessageSize=1\nmapedFileSizeCommitLog=16384\n"
        "mappedFileSizeConsumeQueue=777\nmaxMessageSize=5000\nmessageDelayLevel=1s 2d\n"
    )
    result = run(str(root), "--json", "-", "--config", str(conf), "--consume-queue-size", "200")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["geometry"] == {
        "mappedFileSizeCommitLog": 16384,
        "mappedFileSizeConsumeQueue": 200,
        "maxMessageSize": 5000,
        "messageDelayLevel": "1s 2d",
        "maxHashSlotNum": 100,
        "maxIndexNum": 400,
        "enableConsumeQueueExt": False,
    }


@pytest.mark.parametrize(
    ("line", "text"),
    [("maxMessageSize=4MB", "expected an integer"), ("messageDelayLevel=1s soon", "expected a number")],
)
def test_an_invalid_setting_for_inspect_is_a_usage_error(root: Path, tmp_path: Path, line: str, text: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{line}\n")
    assert text in usage_error(str(root), "--config", str(conf), run=run)


def test_a_path_that_is_not_utf8_is_shown_with_escaped_bytes(root: Path) -> None:
    odd = root.with_name(os.fsdecode(b"odd\xff"))
    root.rename(odd)
    result = CliRunner(env={"COLUMNS": "400"}).invoke(application(), ["inspect", str(odd)])
    assert result.exit_code == 0
    assert "odd\\udcff" in result.stdout


def test_files_that_differ_from_the_given_size_are_damage(root: Path) -> None:
    result = run(str(root), "--commit-log-size", "32768")
    assert result.exit_code == 1
    assert "commitlog/00000000000000016384 @ 0: file name: expected 20 digits, a multiple of 32768" in result.stdout


def test_an_unfinished_segment_is_damage_only_after_a_clean_exit(root: Path) -> None:
    (root / f"commitlog/{131072:020}").write_bytes(bytes(100))
    clean = run(str(root))
    (root / "abort").touch()
    unclean = run(str(root))
    assert (clean.exit_code, unclean.exit_code) == (1, 0)
    assert clean.stdout.endswith("\ncommitlog/00000000000000131072 @ 0: file size: expected 16384, found 100\n")


def test_a_store_that_is_in_use_can_be_inspected(tmp_path: Path, started: Callable[..., MessageStore]) -> None:
    store = started(StoreConfig(str(tmp_path / "live"), mapped_file_size_commit_log=65536))
    for number in range(5):
        store.put_message(Message.create("Live", b"%d" % number))
    found = inspect_directory(overlay_world(), str(tmp_path / "live"), Geometry()).all_fields()
    assert found["topicQueueTable"] == {"Live-0": 5}
    assert found["recovery"]["cleanExit"] is False


def test_the_version_is_printed() -> None:
    result = tornlog("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("tornlog 0.")


@pytest.mark.parametrize("case", ["14-abn-torn-tail", "14-abn-flip-last-body", "14-abn-combo"])
def test_a_torn_end_after_a_crash_is_a_note_of_inspect_and_verify(golden: Callable[[str], Any], case: str) -> None:
    torn = str(golden(case).before)
    inspected, verified = run(torn), tornlog("verify", torn)
    assert (inspected.exit_code, verified.exit_code) == (0, 0)
    assert inspected.stdout.count("note: ") == 1
    assert "unclean exit: recovery will truncate the log there" in " ".join(inspected.stdout.split())
    assert json.loads(run(torn, "--json", "-").stdout)["findings"] == []


@pytest.mark.parametrize("case", ["14-abn-bodylen-huge", "14-abn-flip-5th-last-magic"])
def test_damage_followed_by_records_is_not_a_torn_end(golden: Callable[[str], Any], case: str) -> None:
    result = run(str(golden(case).before))
    assert result.exit_code == 1
    assert "note: " not in result.stdout
    assert "commitlog/" in result.stdout


@pytest.mark.parametrize("command", ["inspect", "verify"])
@pytest.mark.parametrize("kind", ["commitlog", "consumequeue", "checkpoint"])
def test_a_file_without_read_permission_is_not_damage(
    root: Path, monkeypatch: pytest.MonkeyPatch, command: str, kind: str
) -> None:
    from tornlog.store.real import overlay

    opened = overlay.open_content

    def refuse(path: str, *arguments: Any, **more: Any) -> Any:
        if f"/{kind}" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, *arguments, **more)

    monkeypatch.setattr(overlay, "open_content", refuse)
    result = tornlog(command, root)
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    assert re.fullmatch(rf"{root}/{kind}.*: Permission denied\n", result.stderr)


def test_inspecting_a_long_sparse_segment_uses_little_memory(root: Path) -> None:
    last = sorted((root / "commitlog").iterdir())[-1]
    for file in sorted((root / "commitlog").iterdir())[:-1]:
        file.unlink()
    last.write_bytes(b"")
    os.truncate(last, 1 << 28)
    last.rename(last.with_name("0" * 20))
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    inspected = "from tornlog.store.tools.inspect import inspect_directory as look, Geometry; "
    inspected += "from tornlog.store.real.world import overlay_world; import resource, sys; "
    inspected += "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
    inspected += "found = look(overlay_world(), sys.argv[1], Geometry()); assert found.store, found.findings; "
    inspected += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    result = subprocess.run([sys.executable, "-c", inspected, str(root)], capture_output=True, text=True, check=True)

    assert int(result.stdout) < 64 << 10, "KiB, of the 256 MiB that the file seems to have"

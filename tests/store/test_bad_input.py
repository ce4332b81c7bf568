"""`inspect` and `verify` name any damage of a directory and do not change it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog
from tornlog.sim.process import cpu_limit

LOG_FILES = [f"commitlog/{base:020d}" for base in range(0, 8 * 16384, 16384)]
QUEUE = "consumequeue/Mix1/1"  # its first record is the log's first
QUEUE_FILES = [f"{QUEUE}/{base:020d}" for base in range(0, 800, 200)]

Damage = Callable[[Path], None]


def flip(file: str, at: int, mask: int = 0x80) -> Damage:
    def damage(root: Path) -> None:
        raw = bytearray((root / file).read_bytes())
        raw[at] ^= mask
        (root / file).write_bytes(raw)

    return damage


def write(file: str, content: bytes, at: int = 0) -> Damage:
    def damage(root: Path) -> None:
        raw = bytearray((root / file).read_bytes())
        raw[at : at + len(content)] = content
        (root / file).write_bytes(raw)

    return damage


def cut(file: str, size_bytes: int) -> Damage:
    return lambda root: os.truncate(root / file, size_bytes)


def remove(file: str) -> Damage:
    return lambda root: (root / file).unlink()


def add(file: str, content: bytes) -> Damage:
    def damage(root: Path) -> None:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)

    return damage


def put_directory(file: str) -> Damage:
    def damage(root: Path) -> None:
        (root / file).unlink()
        (root / file).mkdir()

    return damage


def put_fifo(file: str) -> Damage:
    def damage(root: Path) -> None:
        (root / file).unlink()
        os.mkfifo(root / file)

    return damage


def put_dangling_link(file: str) -> Damage:
    def damage(root: Path) -> None:
        (root / file).unlink()
        (root / file).symlink_to("nowhere")

    return damage


def tags_of_the_first_record(root: Path) -> None:
    """Change the value of TAGS, the end of the first record's properties or followed by KEYS."""
    raw = (root / LOG_FILES[0]).read_bytes()
    flip(LOG_FILES[0], raw.index(b"TAGS\x01") + 5, 0x01)(root)


SAME = "the same"
OTHER_SIZE = "file size: expected 16384, found"
CASES: dict[str, tuple[Damage, str | None, str | None]] = {
    # name: the damage, the line of inspect, the line of verify; None: recovery repairs or cannot detect the damage
    "a cut log file": (cut(LOG_FILES[1], 8192), f"{LOG_FILES[1]} @ 0: {OTHER_SIZE} 8192", SAME),
    "a cut last log file": (cut(LOG_FILES[7], 3000), f"{LOG_FILES[7]} @ 0: {OTHER_SIZE} 3000", SAME),
    "a flipped body": (flip(LOG_FILES[0], 90), f"{LOG_FILES[0]} @ 8: bodyCRC: expected", SAME),
    "a flipped body at the end": (flip(LOG_FILES[7], 90), f"{LOG_FILES[7]} @ 8: bodyCRC: expected", SAME),
    "a flipped magic": (
        flip(LOG_FILES[0], 4),
        f"{LOG_FILES[0]} @ 4: magicCode: expected daa320a7 or daa320ab, found 5aa320a7",
        SAME,
    ),
    "a flipped queueOffset sign": (
        flip(LOG_FILES[0], 20),
        f"{LOG_FILES[0]} @ 20: queueOffset: expected 0, found -9223372036854775808",
        SAME,
    ),
    "a flipped queueOffset": (
        flip(LOG_FILES[0], 21),
        f"{LOG_FILES[0]} @ 20: queueOffset: expected 0, found 36028797018963968",
        SAME,
    ),
    "a flipped physicalOffset": (
        flip(LOG_FILES[0], 28),
        f"{LOG_FILES[0]} @ 28: physicalOffset: expected 0, found -9223372036854775808",
        SAME,
    ),
    "flipped tags": (tags_of_the_first_record, None, f"{QUEUE_FILES[0]} @ 12: tagsCode: expected"),
    "a huge totalSize": (
        write(LOG_FILES[2], b"\x7f\xff\xff\xff"),
        f"{LOG_FILES[2]} @ 0: totalSize: expected 91 to 16384, found 2147483647",
        SAME,
    ),
    "a negative totalSize": (
        write(LOG_FILES[2], b"\xff\xff\xff\xff"),
        f"{LOG_FILES[2]} @ 0: totalSize: expected 91 to 16384, found -1",
        SAME,
    ),
    "an emptied last log file": (cut(LOG_FILES[7], 0), f"{LOG_FILES[7]} @ 0: {OTHER_SIZE} 0", SAME),
    "an emptied log file": (cut(LOG_FILES[3], 0), f"{LOG_FILES[3]} @ 0: {OTHER_SIZE} 0", SAME),
    "a gap in the log": (
        remove(LOG_FILES[3]),
        f"{LOG_FILES[4]} @ 0: base offset: expected the next segment, 00000000000000049152, found",
        SAME,
    ),
    "a foreign name in the log": (
        add("commitlog/notes.txt", b"remember the milk"),
        "commitlog/notes.txt @ 0: file name: expected 20 digits, a multiple of 16384, found notes.txt",
        SAME,
    ),
    "an odd base offset": (
        add("commitlog/00000000000000000007", bytes(16384)),
        "commitlog/00000000000000000007 @ 0: file name: expected 20 digits, a multiple of 16384",
        SAME,
    ),
    "a directory as log file": (
        put_directory(LOG_FILES[3]),
        f"{LOG_FILES[3]} @ 0: file size: expected 16384, found a directory",
        f"{LOG_FILES[3]} @ 0: file: expected a file, found a directory",
    ),
    "a pipe as log file": (
        put_fifo(LOG_FILES[3]),
        f"{LOG_FILES[3]} @ 0: {OTHER_SIZE} 0",
        f"{LOG_FILES[3]} @ 0: file: expected a readable file, found not a regular file",
    ),
    "a link to nowhere as log file": (
        put_dangling_link(LOG_FILES[3]),
        f"{LOG_FILES[3]} @ 0: file: expected a file, found a dangling symbolic link",
        SAME,
    ),
    "a file as log": (
        lambda root: (shutil.rmtree(root / "commitlog"), (root / "commitlog").write_bytes(b"x"))[0],
        ". @ 0: commitlog: expected a directory, which every store has, found a file",
        SAME,
    ),
    "a negative checkpoint": (
        write("checkpoint", b"\xff" * 24),
        "checkpoint @ 0: physicMsgTimestamp: expected 0 or more, found -1",
        SAME,
    ),
    "a short checkpoint": (
        cut("checkpoint", 10),
        None,
        "checkpoint @ 10: size: expected at least 24 bytes, found 10, all zero",
    ),
    "a checkpoint of the future": (
        write("checkpoint", b"\x7f", at=8),
        None,
        "checkpoint @ 8: logicsMsgTimestamp: expected at most",
    ),
    "a directory as checkpoint": (
        put_directory("checkpoint"),
        "checkpoint @ 0: file: expected a readable file, found Is a directory",
        SAME,
    ),
    "a pipe as checkpoint": (
        put_fifo("checkpoint"),
        "checkpoint @ 0: file: expected a readable file, found not a regular file",
        SAME,
    ),
    "a cut queue file": (cut(QUEUE_FILES[0], 90), f"{QUEUE_FILES[0]} @ 0: file size: expected 200, found 90", SAME),
    "a gap in a queue": (
        remove(QUEUE_FILES[1]),
        f"{QUEUE_FILES[2]} @ 0: base offset: expected the next segment, 00000000000000000200, found",
        SAME,
    ),
    "a queue that has no number": (add("consumequeue/Mix1/first/00000000000000000000", bytes(200)), None, SAME),
    "a file as topic": (add("consumequeue/Mix7", b"x"), None, SAME),
    "a file as queue": (
        add("consumequeue/Mix1/7", b"x"),
        "consumequeue/Mix1/7 @ 0: queueId: expected a directory, found a file",
        SAME,
    ),
    "an entry of a record that is not there": (
        flip(QUEUE_FILES[0], 7, 0x01),
        None,
        f"{QUEUE_FILES[0]} @ 0: phyOffset: expected the start of a record of this queue, found 1",
    ),
    "an entry behind the log": (
        flip(QUEUE_FILES[0], 4, 0x40),
        None,
        f"{QUEUE_FILES[0]} @ 0: phyOffset: expected less than 121298, the end of the log, found 1073741824",
    ),
    "an entry of another size": (flip(QUEUE_FILES[0], 11, 0x01), None, f"{QUEUE_FILES[0]} @ 8: size: expected"),
    "an entry of no size": (
        write(QUEUE_FILES[0], b"\xff\xff", at=8),
        None,
        f"{QUEUE_FILES[0]} @ 8: size: expected more than 0, found -",
    ),
    "a hole in a queue": (
        write(QUEUE_FILES[0], bytes(20)),
        None,
        f"{QUEUE_FILES[0]} @ 0: entry: expected an entry, because entries follow, found zeros",
    ),
    "a blanked entry": (
        write(QUEUE_FILES[0], bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)),
        None,
        f"{LOG_FILES[0]} @ 0: queue entry: expected entry 0 in {QUEUE}, found none",
    ),
}


@pytest.fixture
def root(golden: Callable[[str], Any]) -> Path:
    """Return a store after a shutdown: 8 log files, 9 queues of 3 or 4 files, no damage."""
    before: Path = golden("08-clean-shutdown").before
    return before


def run(*arguments: str) -> tuple[int, str]:
    """Return exit code and output of a command. The timeout is far above the usual tenth of a second."""
    with cpu_limit(30.0):
        result = tornlog(*arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_undamaged_store_has_no_findings(root: Path) -> None:
    for command in ("inspect", "verify"):
        exit_code, told = run(command, str(root))
        assert exit_code == 0
        assert " @ " not in told


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_damage_is_reported_with_its_file_and_offset_and_no_file_changes(
    root: Path, fingerprint: Callable[[Path], Any], command: str, case: str
) -> None:
    damage, by_inspect, by_verify = CASES[case]
    expected = by_inspect if command == "inspect" or by_verify is SAME else by_verify
    damage(root)
    before = fingerprint(root)

    exit_code, told = run(command, str(root))

    assert fingerprint(root) == before
    assert exit_code == (0 if expected is None else 1), told
    if expected is None:
        assert not any(" @ " in line for line in told.splitlines() if not line.startswith("note: ")), told
    else:
        assert any(line.startswith(expected) for line in told.splitlines()), told


def test_verify_in_a_separate_process_reports_the_damage_and_exits_1(root: Path) -> None:
    flip(LOG_FILES[0], 90)(root)
    result = subprocess.run(
        [sys.executable, "-m", "tornlog", "verify", str(root)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert f"\n{LOG_FILES[0]} @ 8: bodyCRC: expected" in result.stdout
    assert result.stderr == ""
    assert "violations" in result.stdout


def test_an_interpreter_without_asserts_is_refused(root: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-O", "-m", "tornlog", "verify", str(root)], capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert "asserts" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", "no such directory"],
        ["verify", "no such directory"],
        ["verify", ".", "--commit-log-size", "0"],
        ["inspect", ".", "--config", "no such file"],
        ["inspect", ".", "--json", "/dev/null/x.json"],
        ["explode"],
    ],
)
def test_a_wrong_command_line_of_a_store_command_exits_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments)[0] == 2


@pytest.mark.parametrize("file", ["store/commitlog/00000000000000000000", "store/x", "link/x", "here"])
@pytest.mark.parametrize("command", ["inspect", "verify", "dump", "rebuild"])
def test_writing_results_into_the_store_directory_is_refused(
    root: Path,
    fingerprint: Callable[[Path], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    file: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    os.rename(root, "store")
    os.rename("store/config", "elsewhere")
    os.symlink("../elsewhere", "store/config")
    os.symlink("elsewhere", "link")
    os.symlink("store/checkpoint", "here")
    before = fingerprint(tmp_path / "store"), os.listdir("elsewhere")
    arguments = ["store", *(["--to", "rebuilt"] if command == "rebuild" else []), "--json", file]

    assert run(command, *arguments)[0] == 2
    assert (fingerprint(tmp_path / "store"), os.listdir("elsewhere")) == before
    assert not Path("rebuilt").exists()


def test_writing_results_into_a_separate_log_directory_is_refused(root: Path, tmp_path: Path) -> None:
    os.rename(root / "commitlog", tmp_path / "log")
    (tmp_path / "conf").write_text(f"storePathCommitLog={tmp_path / 'log'}\n")
    options = "--config", str(tmp_path / "conf")
    new = str(tmp_path / "log" / "new")
    assert run("verify", str(root), *options)[0] == 0
    assert run("verify", str(root), *options, "--json", new)[0] == 2
    assert run("rebuild", str(root), *options, "--to", new)[0] == 2
    assert run("rebuild", str(root), *options, "--to", str(tmp_path / "r"), "--json", str(tmp_path / "r" / "j"))[0] == 2
    assert not (tmp_path / "r").exists()

"""Directories that are changed in place show each state exactly, whatever a check has done to the last one."""

import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tornlog.faults.disk.content import SparseBytes
from tornlog.faults.disk.difference import NOTHING, ImageDifference
from tornlog.faults.disk.export import load_image, write_file
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.checks import state_directory
from tornlog.faults.probe.checks.check import HELD, PythonCheck
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.state_directory import StateDirectory
from tornlog.faults.probe.record import Answers

SPARSE = SparseBytes(1 << 20)
SPARSE[4096:4100] = b"data"
FIRST = Image(
    {
        "/files/log": FileImage(b"one", 1_000),
        "/files/same": FileImage(b"the same in all states", 2_000),
        "/files/a/deep": FileImage(b"deep", 3_000),
        "/files/holes": FileImage(SPARSE, 4_000),
    },
    ("/files", "/files/a", "/tmp"),
    {"/files/link": "log"},
)
SECOND = Image(
    {**FIRST.files, "/files/log": FileImage(b"one two", 1_500), "/files/new": FileImage(b"", 1_600)},
    FIRST.directories,
    {"/files/link": "same"},
)
THIRD = Image(
    {path: file for path, file in SECOND.files.items() if path != "/files/log"},
    ("/files", "/files/a", "/files/b", "/tmp"),
)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setattr(state_directory, "FILES_MIN", 1)
    return StateDirectory(tmp_path)


def content(root: Path) -> tuple[object, ...]:
    image = load_image(root, "/")
    times = {path: file.mtime_ms for path, file in image.files.items()}
    return image.digest(), times, {path.stat().st_mode for path in root.rglob("*") if path.is_file()}


def expected(image: Image, tmp_path: Path) -> tuple[object, ...]:
    """Return the content of a directory that was made for this image only."""
    (tmp_path / "expected").mkdir(exist_ok=True)
    fresh = StateDirectory(tmp_path / "expected")
    found = content(fresh.show(ImageDifference.from_images(NOTHING, image)))
    fresh.discard()
    return found


def store_through_map(root: Path) -> None:
    with (root / "files/same").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:3] = b"THE"


def rename_over(root: Path) -> None:
    os.rename(root / "files/a/deep", root / "files/same")


def replace_directory(root: Path) -> None:
    os.rename(root / "files/a", root / "files/b")
    (root / "files/a").mkdir()


def make_tree(root: Path) -> None:
    (root / "files/tree/deeper").mkdir(parents=True)
    (root / "files/tree/deeper/file").write_bytes(b"new")


def link_in_new_directory(root: Path) -> None:
    (root / "files/checkpoint").mkdir()
    os.link(root / "files/same", root / "files/checkpoint/same")
    (root / "files/checkpoint/same").write_bytes(b"changed through the checkpoint")


def link_in_removed_directory(root: Path) -> None:
    link_in_new_directory(root)
    subprocess.run(["rm", "-r", str(root / "files/checkpoint")], check=True)


def second_name(root: Path) -> None:
    os.link(root / "files/same", root / "tmp/other")
    (root / "tmp/other").write_bytes(b"other")


def file_in_place_of_link(root: Path) -> None:
    (root / "files/link").unlink()
    (root / "files/link").write_bytes(b"file")


def keep_time(root: Path) -> None:
    status = (root / "files/same").stat()
    (root / "files/same").write_bytes(b"the Same in all states")
    os.utime(root / "files/same", ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: list[Callable[[Path], object]] = [
    lambda root: (root / "files/log").read_bytes(),
    lambda root: (root / "files/same").write_bytes(b"changed"),
    lambda root: (root / "files/same").unlink(),
    lambda root: os.truncate(root / "files/holes", 10),
    lambda root: (root / "files/same").chmod(0o400),
    lambda root: os.utime(root / "files/same", (1, 1)),
    lambda root: (root / "files/a/more").write_bytes(b"more"),
    lambda root: (root / "tmp/scratch").write_bytes(b"temporary"),
    lambda root: (root / "files/link").write_bytes(b"through the link"),
    lambda root: (root / "files/a").chmod(0o700),
    lambda root: subprocess.run(["rm", "-rf", str(root / "files")], check=True),
    lambda root: os.mkfifo(root / "files/fifo"),
    *(
        store_through_map,
        rename_over,
        replace_directory,
        make_tree,
        second_name,
        link_in_new_directory,
        link_in_removed_directory,
        file_in_place_of_link,
        keep_time,
    ),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("then", [FIRST, SECOND, THIRD])
def test_next_state_is_exact_after_any_change(
    directory: StateDirectory, tmp_path: Path, change: Callable[[Path], object], then: Image
) -> None:
    root = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    change(root)
    directory.find_check_changes([os.getpid()])
    assert content(directory.show(ImageDifference.from_images(FIRST, then))) == expected(then, tmp_path)
    directory.discard()


def test_unchanged_files_are_not_written_again(directory: StateDirectory) -> None:
    root = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    before = (root / "files/same").stat().st_ino
    directory.find_check_changes([os.getpid()])
    root = directory.show(ImageDifference.from_images(FIRST, SECOND))
    assert (root / "files/same").stat().st_ino == before
    directory.discard()


def test_each_state_has_its_own_path(directory: StateDirectory) -> None:
    first = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    directory.find_check_changes([])
    assert directory.show(ImageDifference.from_images(FIRST, SECOND)) != first
    assert not first.exists()
    directory.discard()


def test_file_left_open_does_not_reach_the_next_state(directory: StateDirectory, tmp_path: Path) -> None:
    root = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    with (root / "files/same").open("r+b", buffering=0) as left_open:
        directory.find_check_changes([os.getpid()])
        root = directory.show(ImageDifference.from_images(FIRST, SECOND))
        left_open.write(b"late")
        assert content(root) == expected(SECOND, tmp_path)
    directory.discard()


def test_map_left_open_does_not_reach_the_next_state(directory: StateDirectory, tmp_path: Path) -> None:
    root = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    with (root / "files/same").open("r+b") as file:
        left_open = mmap.mmap(file.fileno(), 0)
    directory.find_check_changes([os.getpid()])
    root = directory.show(ImageDifference.from_images(FIRST, SECOND))
    left_open[:4] = b"late"
    assert content(root) == expected(SECOND, tmp_path)
    left_open.close()
    directory.discard()


def test_process_left_running_does_not_reach_the_next_state(directory: StateDirectory, tmp_path: Path) -> None:
    root = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    code = (
        "import sys; file = open('same', 'r+b', buffering=0); print(flush=True); sys.stdin.read(1); file.write(b'late')"
    )
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root / "files", stdin=pipe, stdout=pipe, text=True) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        running.stdout.readline()
        directory.find_check_changes([running.pid])
        root = directory.show(ImageDifference.from_images(FIRST, SECOND))
        running.stdin.write("x")
        running.stdin.close()
        running.wait()
        assert content(root) == expected(SECOND, tmp_path)
    directory.discard()


def test_files_of_another_users_process_count_as_open(
    directory: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(path)

    root = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    before = (root / "files/same").stat().st_ino
    with monkeypatch.context() as refused, (root / "files/same").open("rb") as kept:
        refused.setattr(state_directory.os, "listdir", refuse)
        directory.find_check_changes([1])
        root = directory.show(ImageDifference.from_images(FIRST, SECOND))
        assert (root / "files/same").stat().st_ino != before, kept
    assert content(root) == expected(SECOND, tmp_path)
    directory.discard()


def test_more_changes_than_the_kernel_reports(directory: StateDirectory, tmp_path: Path) -> None:
    root = directory.show(ImageDifference.from_images(NOTHING, FIRST))
    reports_max = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(reports_max):
        (root / f"tmp/{number % 2}").write_bytes(b"x")
    (root / "files/same").write_bytes(b"the last change")
    directory.find_check_changes([os.getpid()])
    assert content(directory.show(ImageDifference.from_images(FIRST, SECOND))) == expected(SECOND, tmp_path)
    directory.discard()


def test_cost_of_a_state_is_its_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def count_and_write(path: str, file: FileImage) -> None:
        written.append(path)
        write_file(path, file)

    monkeypatch.setattr(state_directory, "write_file", count_and_write)
    monkeypatch.setattr(state_directory, "FILES_MIN", 1)
    check = tmp_path / "check.py"
    check.write_text("def check(directory, acknowledged):\n    assert sorted(directory.iterdir())\n")
    files: dict[str, FileImage] = {}
    images = []
    for number in range(100):
        files[f"/files/{number}"] = FileImage(b"%d" % number, number)
        images.append(Image(files, ("/files", "/tmp")))
    with Checkers(PythonCheck(check), 0, 10.0) as checkers:
        verdicts = checkers.verdicts([(image, Answers([])) for image in images])
    assert {verdict.outcome for verdict in verdicts} == {HELD}
    assert len(written) == len(files)

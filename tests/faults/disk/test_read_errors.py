import errno
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.plan import FaultPlan

IMAGE = Image({"/d/a": FileImage(b"abc", 1)}, ("/d",))
ERRORS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "read": ("failed_read_chance", "failed read", lambda files: files.read("/d/a")),
    "map": ("failed_map_chance", "failed map", lambda files: files.map("/d/a", 3)),
    "list": ("failed_lookup_chance", "failed look-up", lambda files: files.list_directory("/d")),
    "status": ("failed_lookup_chance", "failed look-up", lambda files: files.status("/d/a")),
}


@pytest.mark.parametrize("use", ERRORS)
def test_a_failed_read_raises_eio_and_a_later_read_succeeds(use: str) -> None:
    field, fault, attempt = ERRORS[use]
    rig = Rig(image=IMAGE, faults=FaultPlan(**{field: 0.5}))
    failures = []
    for _ in range(100):
        try:
            attempt(rig.files)
        except OSError as error:
            failures.append((error.errno, error.filename))

    assert 20 < len(failures) < 80
    assert set(failures) == {(errno.EIO, "/d" if use == "list" else "/d/a")}
    assert rig.injected == {fault: len(failures)}


def test_a_failed_unlink_can_be_repeated() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(failed_removal_chance=1.0))
    with pytest.raises(OSError, match="Input/output"):
        rig.files.unlink("/d/a")
    assert (rig.files.read("/d/a"), dict(rig.injected)) == (b"abc", {"failed removal": 1})

    with rig.disk.with_faults(failed_removal_chance=0.0):
        rig.files.unlink("/d/a")
    assert rig.files.status("/d/a") is None


def test_a_failed_rename_changes_no_name() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(failed_rename_chance=1.0))
    with pytest.raises(OSError, match="Input/output"):
        rig.files.rename("/d/a", "/d/b")
    assert (rig.files.read("/d/a"), rig.files.status("/d/b")) == (b"abc", None)
    assert dict(rig.injected) == {"failed rename": 1}

    with rig.disk.with_faults(failed_rename_chance=0.0):
        rig.files.rename("/d/a", "/d/b")
    assert (rig.files.status("/d/a"), rig.files.read("/d/b")) == (None, b"abc")


def test_a_failed_map_creates_no_file() -> None:
    rig = Rig(faults=FaultPlan(failed_map_chance=1.0))
    with pytest.raises(OSError, match="Input/output"):
        rig.files.map("/new", 100)

    assert rig.files.status("/new") is None
    assert rig.disk.operations == 0


def test_a_missing_file_is_reported_as_missing() -> None:
    rig = Rig(faults=FaultPlan(failed_read_chance=1.0))
    with pytest.raises(FileNotFoundError):
        rig.files.read("/none")

    assert not rig.injected


def test_a_failed_extension_does_not_change_the_length() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(failed_extend_chance=1.0))
    with pytest.raises(OSError, match="No space left") as failure:
        rig.files.map("/d/a", 100)

    assert failure.value.errno == errno.ENOSPC
    assert rig.files.status("/d/a").size_bytes == 3
    assert rig.files.map("/d/a", 3).size_bytes == 3  # a file that is long enough needs no space
    assert rig.injected == {"failed extend": 1}


def test_a_small_file_whose_write_fails_is_left_empty() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(failed_write_chance=1.0))
    with pytest.raises(OSError, match="Input/output"):
        rig.files.write("/d/a", b"new")

    assert rig.files.read("/d/a") == b""
    assert rig.injected == {"failed write": 1}


def test_a_small_file_is_written_completely_despite_short_writes() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(short_write_chance=1.0))
    data = bytes(range(256))
    rig.files.write("/d/a", data)

    assert rig.files.read("/d/a") == data
    assert rig.injected["short write"] > 1
    # emptied, then one write more than the short ones
    assert rig.disk.operations == 1 + rig.injected["short write"] + 1


def test_a_crash_between_short_writes_leaves_the_first_part() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(short_write_chance=1.0))
    rig.disk.crash_at(2, "before")
    rig.run_until_death(lambda: rig.files.write("/d/a", b"0123456789"))
    left = rig.cut("process-kill").files["/d/a"].content

    assert 0 < len(left) < 10
    assert b"0123456789".startswith(left)

import errno
from collections.abc import Callable
from typing import Any

import pytest


def test_no_file_is_made_while_creations_fail_and_nothing_is_left_of_the_attempt(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig()
    with rig.disk.with_faults(failed_creation_chance=1.0):
        for attempt in (lambda: rig.files.map("/a", 10), lambda: rig.files.write("/a", b"x")):
            with pytest.raises(OSError, match="No space left") as failure:
                attempt()
            assert failure.value.errno == errno.ENOSPC

    assert rig.files.status("/a") is None
    assert rig.fired["failed creation"] == 2
    assert rig.disk.operations == 0


def test_files_that_exist_are_opened_while_creations_fail(make_rig: Callable[..., Any]) -> None:
    rig = make_rig()
    rig.files.write("/a", b"there")
    with rig.disk.with_faults(failed_creation_chance=1.0):
        assert rig.files.map("/a", 9000).size_bytes == 9000

    assert rig.fired["failed creation"] == 0


def test_creations_fail_by_chance_and_no_longer_than_the_block(make_rig: Callable[..., Any]) -> None:
    rig = make_rig()
    made = 0
    with rig.disk.with_faults(failed_creation_chance=0.5):
        for number in range(100):
            try:
                rig.files.write(f"/{number}", b"")
                made += 1
            except OSError:
                assert rig.files.status(f"/{number}") is None
    assert made == 100 - rig.fired["failed creation"]
    assert 20 < made < 80

    for number in range(100):
        rig.files.write(f"/after-{number}", b"")


def test_a_judge_sees_what_readers_see(make_rig: Callable[..., Any]) -> None:
    rig = make_rig()
    rig.files.map("/a", 4).store(1, b"xy")

    assert rig.disk.content("/a") == b"\0xy\0"
    assert rig.disk.content("/b") == b""

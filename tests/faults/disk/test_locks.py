from collections.abc import Callable
from typing import Any

import pytest

Rig = Any


def rival_of(rig: Rig, name: str = "rival") -> Any:
    return rig.disk.mount(rig.kernel.machine(name))


def test_a_lock_file_that_a_killed_process_has_left_locks_nothing(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.files.lock("/lock")
    rig.kernel.kill(rig.machine)
    rival = rival_of(rig)

    assert rival.status("/lock") is not None
    rival.lock("/lock")


@pytest.mark.parametrize(
    "touch",
    [
        lambda files: files.write("/lock", b"mine"),
        lambda files: files.set_mtime_ms("/lock", 1),
        lambda files: files.map("/lock", 100),
        lambda files: files.rename("/lock", "/lock"),
    ],
)
def test_a_lock_holds_whatever_another_process_does_to_the_content(
    make_rig: Callable[..., Rig], touch: Callable[[Any], Any]
) -> None:
    rig = make_rig()
    rig.files.lock("/lock")
    rival = rival_of(rig)
    touch(rival)

    with pytest.raises(BlockingIOError):
        rival.lock("/lock")


def test_a_lock_moves_with_its_file(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    lock = rig.files.lock("/lock")
    rival = rival_of(rig)
    rival.rename("/lock", "/moved")
    with pytest.raises(BlockingIOError):
        rival.lock("/moved")
    lock.release()

    rival.lock("/moved")


def test_whoever_removes_a_lock_file_lets_the_next_one_in(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    lock = rig.files.lock("/lock")
    rival = rival_of(rig)
    rival.unlink("/lock")
    rival.lock("/lock")
    lock.release()  # its own, and not the rival's

    with pytest.raises(BlockingIOError):
        rig.files.lock("/lock")

import pytest

from tornlog.store.real.world import real_world
from tornlog.store.running_flags import Refusal, RunningFlags


@pytest.mark.parametrize("reason", Refusal)
def test_each_reason_ends_writing_but_only_one_of_them_reading(reason: Refusal) -> None:
    flags = RunningFlags(real_world().tasks)
    assert flags.is_readable
    assert flags.is_writeable

    flags.refuse(reason)
    assert flags.bits == reason
    assert flags.is_readable == (reason is not Refusal.NOT_READABLE)
    assert flags.is_writeable == (reason is Refusal.NOT_READABLE)


def test_reasons_gather() -> None:
    flags = RunningFlags(real_world().tasks)
    flags.refuse(Refusal.DISK_FULL)
    flags.refuse(Refusal.WRITE_LOGICS_QUEUE_ERROR)
    flags.refuse(Refusal.DISK_FULL)

    assert flags.bits == 16 + 4

"""Log retention: only the oldest segments are removed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.rigs import Make
from tornlog.store.config import FlushDiskType
from tornlog.store.formats.messages import GetMessageStatus
from tornlog.store.real.world import real_world
from tornlog.store.world import World


def test_only_the_oldest_expired_segments_are_removed(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(12)).settle().age(1, 2).clean()

    assert found.store.min_phy_offset == 2 * 1024
    assert found.log_bases() == [2, 3, 4, 5, 6]  # the last segment is the following one, which is unused
    assert found.bodies(found.store.get_min_offset_in_queue("T", 0)) == list(range(4, 12))
    assert found.store.look_message_by_offset(0) is None
    assert found.store.retention.last_error is None
    assert found.store.shutdown()


def test_a_segment_that_has_not_expired_also_keeps_later_expired_ones(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(12)).settle().age(5, 3, first=1).age(0.99, 1).clean()
    assert found.log_bases() == [0, 1, 2, 3, 4, 5, 6]

    found.age(5, 1).clean()
    assert found.log_bases() == [4, 5, 6]


def test_the_last_segment_is_never_removed(world: World, shop: Make) -> None:
    found = shop(world, file_reserved_time_hours=0).start().put(range(7)).settle().clean()
    assert found.store.min_phy_offset == 3 * 1024
    assert found.bodies(6) == [6]

    found.clean()
    assert found.store.min_phy_offset == 3 * 1024
    found.put(range(7, 9)).settle()
    assert found.bodies(6) == [6, 7, 8]


def test_a_pass_removes_at_most_ten_segments_with_pauses(world: World, shop: Make) -> None:
    found = (
        shop(world, file_reserved_time_hours=0, delete_commit_log_files_interval_ms=200)
        .start()
        .put(range(30))
        .settle()
        .clean(ms=500)
    )
    assert found.log_bases()[0] == 3  # at 0, 200 and 400 ms

    found.world.tasks.sleep(4_000)
    assert found.log_bases()[0] == 10
    found.world.tasks.sleep(10_000)  # one of the other 19 passes
    assert found.log_bases()[0] == 14


def test_stopping_retention_does_not_wait_for_a_pass_to_end(world: World, shop: Make) -> None:
    found = (
        shop(world, file_reserved_time_hours=0, delete_commit_log_files_interval_ms=1_000_000)
        .start()
        .put(range(12))
        .settle()
        .clean(ms=10)
    )
    before_ms = world.clock.now_ms()

    assert found.store.shutdown()
    assert world.clock.now_ms() - before_ms < 1_000
    assert found.log_bases() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("hours", "goes"), [("12", True), ("03;12;23", True), ("11;13", False)])
def test_retention_passes_start_at_the_configured_hours_without_a_request(
    world: World, shop: Make, hours: str, goes: bool
) -> None:
    assert world.clock.now_ms() // 3_600_000 % 24 == 12
    found = shop(world, delete_when=hours).start().put(range(6)).settle().age(2, 2)
    world.tasks.sleep(55_000)
    assert found.log_bases()[0] == 0  # the first pass is a minute away
    world.tasks.sleep(10_000)
    assert found.log_bases()[0] == (2 if goes else 0)


def test_a_manual_delete_request_stays_active_for_twenty_passes(world: World, shop: Make) -> None:
    found = shop(world, clean_resource_interval_ms=1_000).start().put(range(8)).settle().clean(ms=18_500)
    found.age(2, 1)
    world.tasks.sleep(1_000)
    assert found.log_bases()[0] == 1  # the 20th pass

    found.age(2, 1)
    world.tasks.sleep(5_000)
    assert found.log_bases()[0] == 1


@pytest.mark.parametrize("method", ["unlink", "sync_directory"])
def test_a_failed_removal_keeps_the_segment_and_is_retried(world: World, bench: Any, shop: Make, method: str) -> None:
    found = (
        shop(world, clean_resource_interval_ms=1_000, redelete_hanged_file_interval_ms=30_000)
        .start()
        .put(range(12))
        .settle()
        .age(2, 3)
    )
    bench.failures.plan(method, "commitlog", times=20)
    found.clean(ms=25_000)  # all passes that were asked for
    assert isinstance(found.store.retention.last_error, OSError)
    assert found.store.min_phy_offset == 0
    assert found.bodies(0) == list(range(12))

    world.tasks.sleep(20_000)
    assert found.store.min_phy_offset == 0
    world.tasks.sleep(10_000)
    assert found.store.min_phy_offset == 1024
    assert found.log_bases() == [1, 2, 3, 4, 5, 6]
    world.tasks.sleep(60_000)
    assert found.store.min_phy_offset == 1024  # the segment whose removal failed

    found.clean()
    assert found.log_bases() == [3, 4, 5, 6]
    assert found.store.shutdown()


def test_a_segment_that_is_not_durable_is_not_removed(world: World, shop: Make) -> None:
    found = (
        shop(world, file_reserved_time_hours=0, flush_interval_commit_log_ms=10_000_000).start().put(range(12)).clean()
    )
    assert found.store.log.flushed_where.get() == 0
    assert found.log_bases()[0] == 0

    found.store.flush.flush_to(3 * 1024)
    found.clean()
    assert found.store.log.flushed_where.get() >= 3 * 1024
    assert found.log_bases()[0] == 3
    found.store.flush.flush_to(found.store.max_phy_offset)
    assert found.store.log.flushed_where.get() == found.store.max_phy_offset


def test_a_segment_stays_until_its_queue_entries_are_durable(world: World, bench: Any, shop: Make) -> None:
    found = shop(world, file_reserved_time_hours=0, clean_resource_interval_ms=1_000).start().put(range(12))
    world.tasks.sleep(100)
    found.store.flush.flush_to(found.store.max_phy_offset)
    bench.failures.plan("msync", "consumequeue", times=100)
    found.clean(ms=20_000)
    assert found.store.flush_queues.last_error is not None
    assert found.log_bases()[0] == 0  # recovery would need it


def test_segments_expire_in_a_log_without_its_first_segments(world: World, shop: Make, short: Make) -> None:
    config = short(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    found = shop(world, config).start().put(range(12)).settle().age(2, 2).clean()
    assert found.store.shutdown()

    again = shop(world, config)
    assert again.report.start_offset == 2 * 1024
    assert again.store.min_phy_offset == 2 * 1024
    assert again.store.log.flushed_where.get() == again.store.max_phy_offset
    assert again.store.get_min_offset_in_queue("T", 0) == 4
    again.start().put(range(12, 16)).settle().age(2, 3).clean()
    assert again.store.min_phy_offset == 5 * 1024
    assert again.bodies(10) == list(range(10, 16))
    assert again.store.shutdown()


def test_pulls_before_the_min_offset_are_redirected_to_it(world: World, shop: Make) -> None:
    found = shop(world).start().put(range(12)).settle().age(2, 2)
    found.store.retention.queues.remove_expired = lambda: None  # type: ignore[method-assign]
    found.clean()
    assert found.store.min_phy_offset == 2 * 1024
    gone = found.store.get_message("T", 0, 0, 2)
    assert (gone.status, gone.queue_offsets) == (GetMessageStatus.FOUND, [4, 5])
    nothing = found.store.get_message("T", 0, 0, 2, "B")
    assert nothing.status is GetMessageStatus.NO_MATCHED_MESSAGE
    del found.store.retention.queues.remove_expired
    found.clean(ms=15_000)
    early = found.store.get_message("T", 0, 1)
    assert (early.status, early.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 4)


def test_a_reader_keeps_its_view_of_a_removed_segment(tmp_path: Path, short: Make, shop: Make) -> None:
    world = real_world()
    config = replace(short(file_reserved_time_hours=0), store_path_root_dir=str(tmp_path / "store"))
    found = shop(world, config).start().put(range(12)).settle()
    path = tmp_path / "store" / "commitlog" / ("0" * 20)
    first = found.store.log.segments[0]
    view, wanted = first.file.view(0, 500), path.read_bytes()[:500]
    del first
    found.store.execute_delete_files_manually()
    for _ in range(500):
        if found.store.log.min_offset > 0:  # true after the file was removed
            break
        world.tasks.sleep(20)

    assert found.store.log.min_offset > 0
    assert not path.exists()
    assert bytes(view) == wanted
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [link for link in links if link.startswith(str(path))]
    assert found.store.shutdown()

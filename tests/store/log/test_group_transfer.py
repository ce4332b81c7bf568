"""Group transfer: reports of slaves answer the right puts."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.log.group_transfer import GroupTransfer
from tornlog.store.real.world import real_world


@dataclass
class Slave:
    """A slave that was sent the log from one offset on and has reported another offset."""

    began: int
    reported_offset: int

    def has_range(self, start_offset: int, end_offset: int) -> bool:
        return self.began <= start_offset and end_offset <= self.reported_offset


@pytest.fixture
def transfer(tmp_path: Path) -> GroupTransfer:
    config = StoreConfig(str(tmp_path / "s"), slave_timeout_ms=20, ha_slave_fallbehind_max=1000)
    return GroupTransfer(real_world(), config)


def test_without_a_slave_a_put_is_answered_immediately(transfer: GroupTransfer) -> None:
    assert transfer.wait(transfer.submit(0, 100)) is PutMessageStatus.SLAVE_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("sent", "reported", "status"),
    [(0, 100, PutMessageStatus.PUT_OK), (150, 200, PutMessageStatus.FLUSH_SLAVE_TIMEOUT)],
    ids=["of the end", "of unsent bytes"],
)
def test_a_slave_report_of_the_end_of_a_put_answers_it_and_one_about_unsent_bytes_does_not(
    transfer: GroupTransfer, sent: int, reported: int, status: PutMessageStatus
) -> None:
    slave = Slave(sent, sent)
    transfer.add_replica(slave)
    request = transfer.submit(0, 100)
    slave.reported_offset = reported
    transfer.complete_reported_requests(slave)

    assert transfer.wait(request) is status


def test_a_slave_report_that_precedes_the_request_answers_it(transfer: GroupTransfer) -> None:
    transfer.add_replica(Slave(0, 100))

    assert transfer.wait(transfer.submit(0, 100)) is PutMessageStatus.PUT_OK


def test_reports_of_a_disconnected_slave_do_not_count(transfer: GroupTransfer) -> None:
    slave = Slave(0, 100)
    transfer.add_replica(slave)
    transfer.remove_replica(slave)

    assert transfer.wait(transfer.submit(0, 100)) is PutMessageStatus.SLAVE_NOT_AVAILABLE


def test_without_a_slave_report_the_request_times_out_and_is_removed(transfer: GroupTransfer) -> None:
    slave = Slave(0, 0)
    transfer.add_replica(slave)

    assert transfer.wait(transfer.submit(0, 100)) is PutMessageStatus.FLUSH_SLAVE_TIMEOUT
    assert transfer._requests == []


def test_a_put_that_waits_for_a_slave_does_not_delay_other_puts(transfer: GroupTransfer) -> None:
    slave = Slave(0, 0)
    transfer.add_replica(slave)
    far, near = transfer.submit(100, 900), transfer.submit(0, 100)
    slave.reported_offset = 100
    transfer.complete_reported_requests(slave)

    assert transfer.wait(near) is PutMessageStatus.PUT_OK
    assert transfer.wait(far) is PutMessageStatus.FLUSH_SLAVE_TIMEOUT


def test_a_slave_that_lags_too_far_does_not_count_as_available(transfer: GroupTransfer) -> None:
    transfer.add_replica(Slave(0, 0))

    assert transfer.wait(transfer.submit(900, 1000)) is PutMessageStatus.SLAVE_NOT_AVAILABLE
    assert transfer.wait(transfer.submit(900, 999)) is PutMessageStatus.FLUSH_SLAVE_TIMEOUT


def test_stopping_group_transfer_answers_all_requests(transfer: GroupTransfer) -> None:
    transfer.add_replica(Slave(0, 0))
    request = transfer.submit(0, 100)
    transfer.time_out_all()

    assert request.wait() is PutMessageStatus.FLUSH_SLAVE_TIMEOUT
    assert transfer.wait(transfer.submit(0, 100)) is PutMessageStatus.SLAVE_NOT_AVAILABLE

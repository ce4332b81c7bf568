"""REP, check by check, on stores that were never near a network."""

from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.oracle.invariants import rep
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.recovered import read_store
from tornlog.scenarios.oracle.replicas import MasterHistory, Replicas, ReportedRange, log_bytes
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import encode_blank
from tornlog.store.message import Message, PutMessageResult
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world


class Stores:
    """A master with five messages, and slaves that were given some bytes of its log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: list[MessageStore] = []
        self.master = self._open("master")
        self.results = [self.master.put_message(Message.of("T", b"x" * 100, keys=f"k{n}")) for n in range(5)]
        self.data = log_bytes(self.master.log, 0, self.master.log.max_offset)
        self.history = MasterHistory()
        self.history.extend(self.master.log)

    def _open(self, name: str) -> MessageStore:
        config = StoreConfig(str(self._directory / name), mapped_file_size_commit_log=4096, message_index_enable=False)
        store = MessageStore(real_world(), config)
        store.load()
        store.start()
        self._made.append(store)
        return store

    def slave(self, data: bytes) -> MessageStore:
        store = self._open(f"slave-{len(self._made)}")
        assert not data or store.commit_log.append_replicated(0, data, 0)
        return store

    def end_of(self, number: int) -> int:
        append = self.results[number].append
        assert append is not None
        return append.wrote_offset + append.wrote_bytes

    def close(self) -> None:
        for store in self._made:
            store.shutdown()


@pytest.fixture
def stores(tmp_path: Path) -> "Stores":
    return Stores(tmp_path)


@pytest.fixture(autouse=True)
def _closed(stores: Stores) -> object:
    yield
    stores.close()


def entry(result: PutMessageResult, *, wait: bool = True) -> PutEntry:
    return PutEntry("m0", "T", 0, "", b"x" * 100, b"KEYS\1k0", wait, 0, 1, result.status)


def test_an_answer_that_a_slave_stands_behind_holds(stores: Stores) -> None:
    replicas = Replicas(held={"s": ReportedRange(0, stores.data)})

    assert not rep.check_answer(stores.master, replicas, entry(stores.results[4]), stores.results[4])


def test_what_a_slave_lost_later_was_an_answer_all_the_same(stores: Stores) -> None:
    replicas = Replicas(held={"s": ReportedRange(0, stores.data)})
    replicas.crashed("s", PROFILES["strict-posix"], sync_flush=False, flushed_where=0)

    assert replicas.held["s"].data == b""
    assert not rep.check_answer(stores.master, replicas, entry(stores.results[0]), stores.results[0])


def test_an_answer_that_no_slave_stands_behind_is_found(stores: Stores) -> None:
    replicas = Replicas(held={"s": ReportedRange(0, stores.data[: stores.end_of(3)])})

    (violation,) = rep.check_answer(stores.master, replicas, entry(stores.results[4]), stores.results[4])
    assert (violation.invariant, violation.offset) == ("REP", stores.end_of(3))


def test_a_slave_with_other_bytes_there_stands_behind_nothing(stores: Stores) -> None:
    other = stores.data[:-1] + b"?"
    replicas = Replicas(held={"s": ReportedRange(0, other)})

    assert rep.check_answer(stores.master, replicas, entry(stores.results[4]), stores.results[4])


def test_bytes_that_cannot_be_read_at_the_master_are_stood_behind_by_nobody(stores: Stores) -> None:
    result = stores.results[4]
    assert result.append is not None
    unread = result._replace(append=result.append._replace(wrote_offset=stores.end_of(4)))
    replicas = Replicas(held={"s": ReportedRange(0, stores.data)})

    assert rep.check_answer(stores.master, replicas, entry(unread), unread)


def test_nobody_has_to_stand_behind_what_did_not_wait(stores: Stores) -> None:
    put = entry(stores.results[4], wait=False)

    assert not rep.check_answer(stores.master, Replicas(), put, stores.results[4])


def test_a_prefix_is_one_and_anything_else_is_found_where_it_differs(stores: Stores) -> None:
    good = stores.slave(stores.data[: stores.end_of(2)])
    bad = stores.slave(stores.data[:200] + b"?" + stores.data[201:])

    assert not list(rep.check_prefix("s", good, stores.history))
    (violation,) = rep.check_prefix("s", bad, stores.history)
    assert violation.offset == 200


def test_what_the_master_lost_is_a_prefix_of_what_it_was(stores: Stores) -> None:
    longer = stores.slave(stores.data)
    shorter = stores.slave(stores.data[: stores.end_of(1)])
    stores.history.begin(shorter.log)

    assert stores.history.logs == [stores.data, stores.data[: stores.end_of(1)]]
    assert not list(rep.check_prefix("s", longer, stores.history))


def test_a_mixture_of_two_histories_is_found(stores: Stores) -> None:
    cut = stores.end_of(1)
    stores.history.logs = [stores.data[:cut] + b"a" * 500, stores.data]
    spliced = stores.slave(stores.data[:cut] + b"a" * 10 + stores.data[cut + 10 :])

    (violation,) = rep.check_prefix("s", spliced, stores.history)
    assert violation.offset == cut + 10


def test_what_was_reported_must_be_there(stores: Stores) -> None:
    cut = stores.end_of(3)
    slave = stores.slave(stores.data[:cut])

    assert not list(rep.check_kept("s", slave, ReportedRange(0, stores.data[:cut])))
    assert not list(rep.check_kept("s", slave, None))
    (violation,) = rep.check_kept("s", slave, ReportedRange(0, stores.data))
    assert violation.found == f"up to {cut}"


def test_a_blank_record_at_the_end_is_no_loss(stores: Stores) -> None:
    cut = stores.end_of(3)
    slave = stores.slave(stores.data[:cut])
    blank = encode_blank(50) + bytes(42)

    assert not list(rep.check_kept("s", slave, ReportedRange(0, stores.data[:cut] + blank)))
    assert list(rep.check_kept("s", slave, ReportedRange(0, stores.data[:cut] + blank[:-1])))


def test_a_slave_that_fits_must_follow_and_one_that_does_not_must_say_so(stores: Stores) -> None:
    fits = stores.slave(stores.data[: stores.end_of(2)])
    differs = stores.slave(b"?" + stores.data[1:])

    assert not list(rep.check_settled("s", fits, stores.master, None))
    assert list(rep.check_settled("s", fits, stores.master, "because"))
    assert not list(rep.check_settled("s", differs, stores.master, "because"))
    assert list(rep.check_settled("s", differs, stores.master, None))


def test_an_acknowledged_put_must_be_on_a_slave(stores: Stores) -> None:
    has, has_not = stores.slave(stores.data), stores.slave(b"")
    ledger = Ledger()
    put = replace(entry(stores.results[0]), properties=read_store(has).records[0].record.properties)
    unanswered = replace(entry(stores.results[0]), name="other", properties=b"KEYS\1other", status=None)
    ledger.ask(put)
    ledger.ask(unanswered)

    assert not list(rep.check_takeover(ledger, [read_store(has_not), read_store(has)]))
    (violation,) = rep.check_takeover(ledger, [read_store(has_not)])
    assert violation.invariant == "DUR"

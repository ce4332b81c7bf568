"""State digest: depends on all input of the checks, but not on unanswered puts."""

from collections.abc import Callable

import pytest

from tornlog.faults.disk.image import DamagedRange
from tornlog.scenarios.campaigns.explore_store import state_digest_of
from tornlog.scenarios.oracle.ledger import ConsumedMessage, Delivery, Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.transactions import TransactionBehaviour
from tornlog.store.formats.messages import PutMessageStatus


def entry(name: str) -> PutEntry:
    return PutEntry(name, "T", 0, "", b"body", f"KEYS\1{name}".encode(), True, 5)


def answered_put(ledger: Ledger, name: str, at: int) -> PutEntry:
    put = entry(name)
    ledger.record_request(put)
    put.status, put.answered_ns, put.physical_offset, put.queue_offset = PutMessageStatus.PUT_OK, 9, at, 0
    return put


def sample_ledger() -> Ledger:
    ledger = Ledger()
    ledger.promise(answered_put(ledger, "m1", 0))
    answered_put(ledger, "m2", 200)
    ledger.transactions.add_transaction("m2", TransactionBehaviour(True, None, False, 0, 1, 0))
    return ledger


def ledger_digest(ledger: Ledger, damage: tuple[DamagedRange, ...] = ()) -> str:
    return state_digest_of(ledger, damage)


def test_equal_ledgers_have_the_same_digest() -> None:
    assert ledger_digest(sample_ledger()) == ledger_digest(sample_ledger())


def test_an_unanswered_put_changes_the_state_digest_only_if_its_offset_is_known() -> None:
    ledger = sample_ledger()
    before = ledger_digest(ledger)
    put = entry("m3")
    ledger.record_request(put)
    assert ledger_digest(ledger) == before

    put.physical_offset = 400
    assert ledger_digest(ledger) != before


def ask_for_a_commit(ledger: Ledger) -> None:
    ledger.transactions.record_decision(ledger.transactions.by_name["m2"], commits=True, now_ns=7)


CHANGES: dict[str, Callable[[Ledger], object]] = {
    "an answer": lambda ledger: answered_put(ledger, "m3", 400),
    "another answer": lambda ledger: setattr(ledger.puts[1], "status", PutMessageStatus.FLUSH_DISK_TIMEOUT),
    "durability": lambda ledger: setattr(ledger.puts[0], "is_durable", True),
    "a promise": lambda ledger: ledger.promise(ledger.puts[1]),
    "a loss": lambda ledger: ledger.lost_puts.setdefault("m2", ledger.puts[1]),
    "what was seen": lambda ledger: ledger.kept_messages.append(ConsumedMessage("T", 0, 0, ledger.puts[0])),
    "a delivery": lambda ledger: ledger.deliveries.append(Delivery(300, {1: 2})),
    "a delivery into damage": lambda ledger: ledger.delivered_into_damage.add("m1"),
    "what a group has committed": lambda ledger: ledger.commits.greatest.setdefault(("g", "T", 0), 3),
    "final progress": lambda ledger: setattr(ledger, "progress_is_final", True),
    "what has expired": lambda ledger: setattr(ledger, "expired_to", 2048),
    "a queue's end": lambda ledger: ledger.ended_queues.add(("T", 0)),
    "a decision": ask_for_a_commit,
    "a copy": lambda ledger: ledger.transactions.by_name["m2"].copies.setdefault(600, False),
    "a hole": lambda ledger: ledger.missing_offsets.setdefault(("T", 0), set()).add(3),
    "a settlement": lambda ledger: setattr(ledger.transactions.by_name["m2"], "settled_at", 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_fact_in_the_ledger_changes_the_state_digest(change: str) -> None:
    ledger = sample_ledger()
    CHANGES[change](ledger)

    assert ledger_digest(ledger) != ledger_digest(sample_ledger())


def test_side_file_versions_and_damage_change_the_state_digest() -> None:
    ledger = sample_ledger()
    versions = ledger.group_progress
    found = {ledger_digest(ledger)}
    versions.unfinished.append(b"{}")
    found.add(ledger_digest(ledger))
    versions.durable = b"{}"
    found.add(ledger_digest(ledger))
    versions.backup = b"{ }"
    found.add(ledger_digest(ledger))
    found.add(ledger_digest(ledger, damage=(DamagedRange("/store/commitlog/0", 0, 512, "lost write"),)))

    assert len(found) == 5


def test_a_restored_ledger_has_its_earlier_facts_and_no_newer_ones() -> None:
    ledger = sample_ledger()
    ledger.watch_queue_ends(lambda place: None)
    before, savepoint = ledger_digest(ledger), ledger.savepoint()
    for change in CHANGES.values():
        change(ledger)
    assert ledger_digest(ledger) != before

    ledger.restore(savepoint)

    assert ledger_digest(ledger) == before
    assert ledger.promised["m1"] is ledger.puts[0] is ledger.by_name["m1"]

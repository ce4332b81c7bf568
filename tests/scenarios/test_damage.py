from collections.abc import Callable
from typing import Any

from tornlog.faults.disk import Disk
from tornlog.faults.image import Image
from tornlog.scenarios import promises
from tornlog.scenarios.damage import Damage, lose_last_sector
from tornlog.scenarios.ledger import Ledger, PutEntry, Seen
from tornlog.scenarios.machine import ROOT, world_of
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import StoreConfig
from tornlog.store.message import Message
from tornlog.store.message_store import MessageStore

LOG = f"{ROOT}/commitlog/{0:020d}"


def damaged(traffic: Callable[[MessageStore], Any]) -> tuple[Image, Damage | None]:
    """Return what a store leaves after some traffic and a clean stop, and what the damage makes of that."""
    choices = Choices("damage")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.machine("one")
    disk = Disk(kernel, choices.stream("disk"), image=Image({}, ()))

    def main() -> MessageStore:
        config = StoreConfig(ROOT, mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200)
        store = MessageStore(world_of(machine, disk), config)
        store.load()
        store.start()
        traffic(store)
        assert store.shutdown()
        return store

    store = kernel.run(machine, main, time_limit_ns=60 * 10**9)
    image = disk.settle()
    return image, lose_last_sector(image, store)


def test_the_sector_with_the_logs_last_byte_is_lost_and_nothing_else() -> None:
    image, damage = damaged(lambda store: store.put_message(Message.of("T", b"b" * 1000)))

    assert damage is not None
    assert damage.log_offset == 1024
    before, after = image.files[LOG].content, damage.image.files[LOG].content
    assert after == before[:1024] + bytes(512) + before[1536:]
    assert before != after
    others = {path: file for path, file in image.files.items() if path != LOG}
    assert {path: file for path, file in damage.image.files.items() if path != LOG} == others


def test_an_empty_log_has_nothing_to_lose() -> None:
    _, damage = damaged(lambda store: None)

    assert damage is None


def put_at(ledger: Ledger, name: str, physical_offset: int) -> PutEntry:
    put = PutEntry(name, 0, "T", 0, "", b"", name.encode(), True, 0, physical_offset=physical_offset)
    ledger.ask(put)
    ledger.promise(put)
    ledger.stable.append(Seen("T", 0, 0, put))
    return put


def test_damage_ends_the_promises_for_what_it_touches_and_all_behind_it() -> None:
    ledger = Ledger()
    before = put_at(ledger, "before", 0)
    put_at(ledger, "across", before.record_bytes)
    put_at(ledger, "behind", 1000)
    promises.note_damage(ledger, before.record_bytes + 10)

    assert list(ledger.promised) == ["before"]
    assert [seen.put.name for seen in ledger.stable] == ["before"]


def test_damage_right_behind_a_record_spares_it() -> None:
    ledger = Ledger()
    put = put_at(ledger, "spared", 0)
    promises.note_damage(ledger, put.record_bytes)

    assert list(ledger.promised) == ["spared"]

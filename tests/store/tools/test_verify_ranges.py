"""A log that is checked in parts has the same findings, in this process and in others."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import encode_blank
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.spread import Item, Judgement, Result
from tornlog.store.tools.verify import verify_directory
from tornlog.store.tools.verify_ranges import LogPart, RangeFacts

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/manifest.json"))
SEGMENT_BYTES, SPLIT_BYTES = 16 << 10, 1500


class Elsewhere:
    """A spread that checks each part with new files and a pickled check, and records the parts."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any]] = []

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        for item in items:
            there, part = pickle.loads(pickle.dumps((judgement, item)))
            world = overlay_world()
            self.seen.append((part, pickle.loads(pickle.dumps(there(world.files, world.core, part)))))
            yield self.seen[-1][1]

    @property
    def ranges(self) -> list[tuple[LogPart, RangeFacts]]:
        return [one for one in self.seen if isinstance(one[0], LogPart)]


def verification_of(root: Path, elsewhere: Elsewhere | None = None) -> dict[str, Any]:
    files, advanced = overlay_world().files, list[int]()
    split_bytes = 0 if elsewhere is None else SPLIT_BYTES
    found = verify_directory(files, str(root), Geometry(), advanced.append, spread=elsewhere, split_bytes=split_bytes)
    return found.fields()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_verifying_a_golden_store_in_parts_gives_the_findings_of_the_whole(
    golden: Callable[..., Any], case: str
) -> None:
    root = golden(case).before
    assert verification_of(root, Elsewhere()) == verification_of(root)


@pytest.fixture
def root(tmp_path: Path, started: Callable[..., MessageStore]) -> Path:
    """The directory of a stopped store: messages of two queues and of two light ones, some delayed, all with keys."""
    config = StoreConfig(
        str(tmp_path / "store"),
        mapped_file_size_commit_log=SEGMENT_BYTES,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=50,
        max_index_num=41,
        enable_multi_dispatch=True,
        enable_lmq=True,
    )
    store = started(config)
    for number in range(140):
        properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"} if number % 5 == 0 else {}
        properties |= {"DELAY": "3"} if number % 17 == 3 else {}
        body, keys = f"{number}|".encode() * 80, f"k{number} also" if number % 3 else f"k{number}"
        message = Message.create(
            "T", body, queue_id=number % 2, tags=f"Tag{number % 5}", keys=keys, properties=properties
        )
        store.put_message(message)
    assert store.shutdown()
    return tmp_path / "store"


def damage_randomly(root: Path, random: Random) -> None:
    """Change random bytes of some files."""
    (root / "abort").unlink(missing_ok=True)
    if random.random() < 0.5:
        (root / "abort").touch()
    for _ in range(random.choice((1, 2, 4))):
        folder = root / random.choice(("commitlog", "consumequeue", "index"))
        path = random.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
        raw = bytearray(path.read_bytes())
        at, some = random.randrange(len(raw)), random.choice((1, 20, 512))
        source = random.choice((0, 20 * random.randrange(len(raw) // 20), None))
        end = min(at + some, len(raw))
        raw[at:end] = bytes(end - at) if source is None else raw[source : source + end - at].ljust(end - at, b"\1")
        path.write_bytes(raw)


@pytest.mark.parametrize("seed", range(20))
def test_verifying_a_damaged_store_in_parts_gives_the_findings_of_the_whole(root: Path, seed: int) -> None:
    damage_randomly(root, Random(seed))
    assert verification_of(root, Elsewhere()) == verification_of(root)


def test_an_undamaged_store_has_one_verified_span_per_queue(root: Path) -> None:
    elsewhere = Elsewhere()
    found = verification_of(root, elsewhere)
    assert found["violations"] == []
    assert len(elsewhere.ranges) > 3 * found["counts"]["segments"]
    assert sum(facts.records for _, facts in elsewhere.ranges) == 140
    for _, facts in elsewhere.ranges:
        for queue in facts.queues.values():
            assert (len(queue.settled), len(queue.runs), len(queue.unsettled)) == (1, 1, 0)


def test_a_part_that_starts_at_a_record_inside_a_body_is_checked_again(
    tmp_path: Path, started: Callable[..., MessageStore]
) -> None:
    config = StoreConfig(str(tmp_path / "store"), mapped_file_size_commit_log=SEGMENT_BYTES)
    store = started(config)
    store.put_message(Message.create("T", b"first"))
    begin = store.max_phy_offset
    body = bytearray(4000)
    for at in range(0, len(body) - 100, 100):
        body[at + 4 : at + 8] = 0xDAA320A7.to_bytes(4, "big")
        body[at + 28 : at + 36] = (begin + 88 + at).to_bytes(8, "big")  # its own position, after the record's head
    store.put_message(Message.create("T", bytes(body)))
    for _ in range(5):
        store.put_message(Message.create("T", b"x" * 700))
    assert store.shutdown()

    elsewhere = Elsewhere()
    found = verification_of(tmp_path / "store", elsewhere)
    assert found == verification_of(tmp_path / "store")
    assert found["violations"] == []
    assert found["counts"]["records"] == 7
    begins = [(part.is_known, facts.begin) for part, facts in elsewhere.ranges]
    assert any(not is_known and begin is not None and begin < 4000 for is_known, begin in begins), "misled"
    assert any(is_known and part.start for (is_known, _), (part, _) in zip(begins, elsewhere.ranges, strict=True))


def test_a_duplicate_queue_entry_gives_the_same_findings_in_parts_and_as_a_whole(root: Path) -> None:
    queue = root / "consumequeue/T/0" / f"{0:020}"
    raw = bytearray(queue.read_bytes())
    raw[8 * 20 : 9 * 20] = raw[7 * 20 : 8 * 20]
    queue.write_bytes(raw)
    found = verification_of(root, Elsewhere())
    assert found == verification_of(root)
    assert [(one["promise"], one["offset"], one["field"]) for one in found["violations"]] == [
        ("CQ-VALID", 160, "phyOffset"),
        ("CQ-COMPLETE", found["violations"][1]["offset"], "queue entry"),
    ]
    assert found["violations"][0]["found"].endswith(", with queueOffset 7")


def test_bytes_after_a_blank_record_do_not_belong_to_the_log(root: Path) -> None:
    path = root / "commitlog" / f"{0:020}"
    raw = path.read_bytes()
    end = raw.rfind(encode_blank(8)[4:8]) - 4
    assert end > SEGMENT_BYTES // 2
    record = raw[: int.from_bytes(raw[:4], "big")]
    at = end + 8
    behind = record[:28] + at.to_bytes(8, "big") + record[36:]
    path.write_bytes(raw[:at] + behind[: SEGMENT_BYTES - at] + raw[at + len(behind) :])
    elsewhere = Elsewhere()
    assert verification_of(root, elsewhere)["violations"] == []

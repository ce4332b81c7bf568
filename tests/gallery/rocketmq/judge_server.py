"""Check server: opens crash images with the real store, and compares the contents with the puts.

`python -m tests.gallery.rocketmq.judge_server PLAN`. The first line for a broken state lists the kinds of breach, in
the words of `plans`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.conformance.maven import real_store_program
from tests.conformance.real_store import START_MS_MAX, RealStore

from .plans import DELAY_MS, DUE, FORGOTTEN, HOLE, LOST, PLANS, PREFIX, REFUSED, RETURNED, START, TAG, TWICE, ZERO, Plan

_OFFSET, _TOPIC, _QUEUE, _STORED_AT, _PROPERTIES = 0, 3, 4, 10, 16
_RECORD_FIELDS = 17
_DELAYED_TOPIC = "SCHEDULE_TOPIC_XXXX"
Fields = dict[str, Any]
Breach = tuple[str, str]


def java_hash(text: str) -> int:
    """Return String.hashCode() of an ASCII text, which is the code of a tag."""
    found = 0
    for each in text:
        found = (31 * found + ord(each)) % 2**32
    return found - 2**32 if found >= 2**31 else found


def breaches(plan: Plan, seen: Fields, answers: list[Fields], refusal: str = START) -> Iterator[Breach]:
    """Yield kind and place of each breach. refusal: the kind to yield if the store does not open."""
    if "exception" in seen or not seen.get("load") or not seen.get("start"):
        yield refusal, str(seen.get("exception", f"load {seen.get('load')}, start {seen.get('start')}"))
        return
    records = {record[_OFFSET]: record for record in seen["records"] if len(record) == _RECORD_FIELDS}
    puts = {put["name"]: put for put in (*plan.puts, *(plan.before.puts if plan.before is not None else ()))}
    for offset, record in records.items():
        if plan.before is not None and record[_PROPERTIES].get("KEYS") == plan.gone:
            yield RETURNED, f"at {offset}: {plan.gone}, which was not in the log any more when it was opened before"
        elif not _is_put(record, puts):
            yield PREFIX, f"at {offset}: a message that nobody put: {record[_PROPERTIES]}"
    for queue in seen["queues"]:
        yield from _queue_breaches(queue, records)
    yield from _answer_breaches(plan, seen, records, answers)


def _is_put(record: list[Any], puts: dict[str, Fields]) -> bool:
    put = puts.get(record[_PROPERTIES].get("KEYS"))
    if put is None or record[_TOPIC] not in (put["topic"], _DELAYED_TOPIC):
        return False
    return all(record[_PROPERTIES].get(name) == value for name, value in put["properties"].items())


def _queue_breaches(queue: Fields, records: dict[int, list[Any]]) -> Iterator[Breach]:
    if -1 in queue["pulled"]:
        yield ZERO, f"a pull of {queue['topic']} gives messages of no bytes"
    for offset, _size, tag in queue["entries"]:
        record = records.get(offset)
        if record is None:
            continue
        if queue["topic"] == _DELAYED_TOPIC:
            if tag - record[_STORED_AT] != DELAY_MS:
                yield DUE, f"the message at {offset} is due {tag - record[_STORED_AT]} ms after it was stored"
        elif tag != java_hash(record[_PROPERTIES].get("TAGS", "")):
            yield TAG, f"the entry of the message at {offset} has the tag {tag}"


def _answer_breaches(
    plan: Plan, seen: Fields, records: dict[int, list[Any]], answers: list[Fields]
) -> Iterator[Breach]:
    pulled = {(queue["topic"], queue["queueId"]): queue for queue in seen["queues"]}
    found = {key: offsets for _topic, key, offsets in seen["queries"]}
    for answer in answers:
        offset, name = answer["offset"], answer["name"]
        record = records.get(offset)
        if record is None:
            if plan.settings.get("flushDiskType") == "SYNC_FLUSH":
                yield LOST, f"{name}, at {offset}, was answered {answer['status']}"
            continue
        queue = pulled.get((record[_TOPIC], record[_QUEUE]))
        entries = [entry[0] for entry in queue["entries"]] if queue is not None else []
        if offset not in entries:
            yield HOLE, f"{name}, at {offset}, is in no entry of its queue, which has {entries}"
        count = found.get(name, []).count(offset)
        if plan.config["messageIndexEnable"] and count != 1:
            yield FORGOTTEN if count == 0 else TWICE, f"the key {name} finds {offset} {count} times"


def kind_of_refusal(store: Path, plan: Plan) -> str:
    """Return the kind of breach if the store refuses to open.

    REFUSED: all files have the configured sizes, and a queue ends with a file that has no entry. START: any other case.
    """
    sizes = {"commitlog": "mappedFileSizeCommitLog", "consumequeue": "mappedFileSizeConsumeQueue"}
    files = [(path, plan.config[key]) for place, key in sizes.items() for path in (store / place).rglob("0*")]
    if any(path.stat().st_size != size for path, size in files if path.is_file()):
        return START
    last_files = (path for queue in (store / "consumequeue").glob("*/*") for path in sorted(queue.iterdir())[-1:])
    return REFUSED if any(not any(path.read_bytes()) for path in last_files) else START


def main() -> None:
    """Answer each request line with a result line."""
    (plan,) = (plan for plan in PLANS if plan.name == sys.argv[1])
    with TemporaryDirectory() as home, RealStore(real_store_program(plan.version), Path(home)) as store:
        for line in sys.stdin:
            question = json.loads(line)
            root = f"{question['directory']}/store"
            command = {"do": "open", "root": root, "config": plan.config, "startMs": START_MS_MAX, "times": []}
            refusal = kind_of_refusal(Path(root), plan)
            seen = store.ask(command)
            answers = [json.loads(answer) for answer in question["acknowledged"]]
            broken = list(breaches(plan, seen, [one for one in answers if one["status"] == "PUT_OK"], refusal))
            kinds = " ".join(sorted({kind for kind, _ in broken}))
            lines = [kinds, *(f"{kind} {place}" for kind, place in broken)] if broken else []
            print(json.dumps({"broken": lines}), flush=True)


if __name__ == "__main__":
    main()

"""Formats, compared with stores of RocketMQ 4.9.8 and the values in their manifests."""

import json
import tarfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.formats.checkpoint import decode_checkpoint
from tornlog.store.formats.consume_queue import ENTRY_BYTES, QueueEntry, decode_entry, encode_entry, is_valid
from tornlog.store.formats.delay_level import parse_delay_levels, record_tags_code
from tornlog.store.formats.host import decode_message_id, encode_message_id
from tornlog.store.formats.message import MessageRecord, body_crc, decode_record, encode_message_record
from tornlog.store.formats.scan import ScannedRecord, scan_records

GOLDEN = Path(__file__).parents[2] / "golden"
# the stores 14-* have intended damage, and are tested with recovery
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/manifest.json") if not path.parent.name.startswith("14-"))
PLAIN_COLUMNS = ["offset", "size", "topic", "queueId", "queueOffset", "sysFlag", "storeTimestamp"]


@cache
def manifest_of(case: str) -> Any:
    return json.loads((GOLDEN / case / "manifest.json").read_text(encoding="utf-8"))


@cache
def files_of(case: str) -> dict[str, bytes]:
    """Return the files of the store at the time of the queries in the manifest, by path."""
    files = {}
    with tarfile.open(GOLDEN / case / "store.tar.gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None and member.name.startswith("after/"):
                files[member.name.removeprefix("after/")] = content.read()
    return files


@cache
def scanned_of(case: str) -> list[ScannedRecord]:
    end = manifest_of(case)["inspect"]["observed"]["maxPhyOffset"]
    records: list[ScannedRecord] = []
    for path, content in sorted(files_of(case).items()):
        if path.startswith("commitlog/") and int(Path(path).name) < end:
            base = int(Path(path).name)
            records += scan_records(
                memoryview(content), 0, min(len(content), end - base), file=path, base_offset=base, check_crc=True
            )
    return records


def raw_record(case: str, record: ScannedRecord) -> bytes:
    size_bytes = manifest_of(case)["config"]["mappedFileSizeCommitLog"]
    base = record.physical_offset // size_bytes * size_bytes
    at = record.physical_offset - base
    return files_of(case)[f"commitlog/{base:020}"][at : at + record.size_bytes]


def observed_records(case: str) -> list[dict[str, Any]]:
    """Return the records that RocketMQ found in the log, without blank records, each as a dict."""
    rows = manifest_of(case)["inspect"]["observed"]["commitLogRecords"]
    whole = [row if isinstance(row, dict) else dict(zip(PLAIN_COLUMNS, row, strict=True)) for row in rows]
    return [row for row in whole if not row.get("blank")]


def fields_of(record: MessageRecord) -> dict[str, Any]:
    return {
        "offset": record.physical_offset,
        "size": record.size_bytes,
        "bodyCRC": record.body_crc,
        "queueId": record.queue_id,
        "flag": record.flag,
        "queueOffset": record.queue_offset,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp_ms,
        "bornHost": str(record.born_host),
        "storeTimestamp": record.store_timestamp_ms,
        "storeHost": str(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "bodyLen": len(record.body),
        "bodySha256": sha256(record.body).hexdigest(),
        "topic": record.topic,
        "properties": record.properties,
    }


def test_the_golden_stores_exist() -> None:
    assert {"01-simple", "04-batch", "05-delay", "07-ipv6"} <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_the_scan_finds_the_records_that_rocketmq_found(case: str) -> None:
    found = [(r.physical_offset, *r[1:7]) for r in scanned_of(case)]

    assert found == [tuple(row[column] for column in PLAIN_COLUMNS) for row in observed_records(case)]


@pytest.mark.parametrize("case", CASES)
def test_every_record_decodes_to_the_fields_that_rocketmq_read(case: str) -> None:
    decoded = [fields_of(decode_record(raw_record(case, r), 0, file=case)) for r in scanned_of(case)]
    observed = observed_records(case)

    assert [{name: fields[name] for name in row} for fields, row in zip(decoded, observed, strict=True)] == observed


@pytest.mark.parametrize("case", CASES)
def test_every_record_survives_decoding_and_encoding(case: str) -> None:
    for scanned in scanned_of(case):
        raw = raw_record(case, scanned)
        record = decode_record(raw, 0, file=case)
        assert encode_message_record(record) == raw
        assert body_crc(record.body) == record.body_crc
        assert record.properties.encode() == scanned.properties


@pytest.mark.parametrize("case", CASES)
def test_every_queue_entry_has_the_tags_code_of_its_record(case: str) -> None:
    delays = parse_delay_levels(manifest_of(case)["config"]["messageDelayLevel"])
    record_at = {record.physical_offset: record for record in scanned_of(case)}
    queues = manifest_of(case)["inspect"]["observed"]["queues"]
    checked = 0
    for queue in queues:
        for number, row in enumerate(queue["entries"], start=queue["minOffset"]):
            entry = QueueEntry(*row)
            if is_valid(entry):
                record = record_at[entry.physical_offset]
                assert (record.topic, record.queue_id, record.queue_offset) == (
                    queue["topic"],
                    queue["queueId"],
                    number,
                )
                assert entry == (record.physical_offset, record.size_bytes, record_tags_code(record, delays))
                checked += 1
    assert checked > 0


@pytest.mark.parametrize("case", CASES)
def test_every_queue_file_contains_the_entries_that_rocketmq_read(case: str) -> None:
    file_bytes = manifest_of(case)["config"]["mappedFileSizeConsumeQueue"]
    for queue in manifest_of(case)["inspect"]["observed"]["queues"]:
        folder = f"consumequeue/{queue['topic']}/{queue['queueId']}"
        for number, row in enumerate(queue["entries"], start=queue["minOffset"]):
            base = number * ENTRY_BYTES // file_bytes * file_bytes
            raw = files_of(case)[f"{folder}/{base:020}"]
            at = number * ENTRY_BYTES - base
            assert list(decode_entry(raw, at)) == row
            assert encode_entry(*row) == raw[at : at + ENTRY_BYTES]


@pytest.mark.parametrize("case", CASES)
def test_the_checkpoint_file_contains_the_times_that_rocketmq_wrote(case: str) -> None:
    values = decode_checkpoint(files_of(case)["checkpoint"], file="checkpoint")
    left = manifest_of(case)["inspect"]["checkpointAfterShutdown"]

    assert list(values) == [left[name] for name in ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")]


@pytest.mark.parametrize("case", [case for case in CASES if case in ("01-simple", "04-batch", "07-ipv6")])
def test_message_ids_equal_those_in_rocketmqs_answers(case: str) -> None:
    record_at = {record.physical_offset: raw_record(case, record) for record in scanned_of(case)}
    told = [
        message_id
        for put in manifest_of(case)["puts"]
        for message_id in (put["result"].get("msgId") or "").split(",")
        if message_id
    ]
    assert told
    for message_id in told:
        _, physical_offset = decode_message_id(message_id)
        record = decode_record(record_at[physical_offset], 0, file=case)
        assert encode_message_id(record.store_host, record.physical_offset) == message_id

"""Every finding is reproduced by the public jars, as its page shows; the store here keeps the promise."""

import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.campaign import run_campaign
from tests.conformance.cases import WRITTEN_HERE
from tests.conformance.maven import JavaProgram, real_store_program
from tests.conformance.real_store import config_of_settings
from tornlog.scenarios.oracle.invariants import CHECKERS
from tornlog.store.config import StoreConfig
from tornlog.store.errors import StoreError
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue import ConsumeQueue
from tornlog.store.real.world import overlay_world

pytestmark = pytest.mark.slow

Fetched = Callable[[Callable[[], JavaProgram]], JavaProgram]
DOCS = Path(__file__).resolve().parents[2] / "docs"
FINDINGS = sorted(path.parent for path in (DOCS / "findings").glob("*/finding.properties"))
PAGE = (DOCS / "findings.md").read_text()
IMAGE_BYTES_MAX = 50_000
CUT_BEFORE = "cut-record-returns"
"""Its fault is in the recovery before the last: the image already has the record, so this store serves it too."""


def properties_of(finding: Path) -> dict[str, str]:
    lines = (finding / "finding.properties").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def settings_of(finding: Path) -> dict[str, object]:
    found = properties_of(finding)
    numbers = ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
    return {
        **{name: int(found[name]) for name in numbers},
        "messageIndexEnable": found["messageIndexEnable"] == "true",
        "messageDelayLevel": found["messageDelayLevel"],
        "enableLmq": False,
        "enableMultiDispatch": False,
    }


def section_of(name: str) -> str:
    (section,) = re.findall(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(section)


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_the_script_of_a_finding_prints_the_output_of_its_page(finding: Path, fetched: Fetched) -> None:
    version = f"rocketmq-{properties_of(finding)['version']}"
    jars = fetched(lambda: real_store_program(version)).jars
    (shown,) = re.findall(
        r"^```console\n\$ docs/findings/reproduce.sh (\S+)\n(.*?)^```$", section_of(finding.name), re.M | re.DOTALL
    )
    done = subprocess.run(
        [str(DOCS / "findings/reproduce.sh"), finding.name],
        capture_output=True,
        text=True,
        env={**os.environ, "JARS": str(jars)},
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert shown == (finding.name, done.stdout)


def answer_of_our_store(config: StoreConfig, ask: str) -> str:
    """Return our store's answer to a finding's question, in the words of its script."""
    store = MessageStore(overlay_world(), config)
    try:
        store.load()
    except StoreError as error:
        return str(error)
    what, *words = ask.split(" ")
    if what == "open":
        return "opens"
    if what == "record":
        return "a message" if store.look_message_by_offset(int(words[0])) else "no message"
    if what == "query":
        found = store.query_message(words[0], words[1], 32, 0, 1 << 60)
        return " ".join(map(str, found.physical_offsets)) or "nothing"
    queue = store.queues.find(words[0], int(words[1]))
    if queue is None:
        return "nothing"
    return entries_due_now(store, queue) if what == "due" else pulled_offsets(store, queue, *words[2:])


def entries_due_now(store: MessageStore, queue: ConsumeQueue) -> str:
    found = []
    for number in range(queue.min_offset, queue.max_offset):
        entry = queue.entry(number)
        assert entry is not None
        record = store.look_message_by_offset(entry.physical_offset)
        assert record is not None
        found.append(f"{entry.tags_code - record.store_timestamp_ms} ms")
    return ", ".join(found)


def pulled_offsets(store: MessageStore, queue: ConsumeQueue, tag: str | None = None) -> str:
    found: list[int] = []
    at = queue.min_offset
    while at < queue.max_offset:
        result = store.get_message(queue.topic, queue.queue_id, at, 32, tag)
        found += result.physical_offsets
        at = result.next_begin_offset
    return " ".join(map(str, found)) or "nothing"


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_this_store_has_none_of_the_published_findings(finding: Path, tmp_path: Path) -> None:
    with tarfile.open(finding / "store.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    config = config_of_settings(tmp_path / "store", settings_of(finding), recover_whole_log=True)
    found = properties_of(finding)

    kept = answer_of_our_store(config, found["ask"]) == found["promised"]
    assert kept == (finding.name != CUT_BEFORE)


SEEN_AS = {
    "start-refused": "odd-file",
    "start-refused-5": "empty-queue-file",
    "torn-properties": "torn-record",
    "zero-entries": "zero-entry",
    "due-at-once": "delay-levels",
    "forgotten-key": "index-lost",
    "found-twice": "index-twice",
    "lost-tag": "torn-entry",
    "hole-in-queue": "queue-shifted",
}
"""Finding -> the deviation that `python -m tests.conformance` reports for its seed."""


@pytest.mark.parametrize("name", sorted(SEEN_AS))
def test_the_seed_of_a_finding_reproduces_its_deviation(name: str, fetched: Fetched) -> None:
    version = f"rocketmq-{properties_of(DOCS / 'findings' / name)['version']}"
    program = fetched(lambda: real_store_program(version))
    (seed,) = re.findall(r"Seed (\d+)", section_of(name))
    writer = "rocketmq-4.9.8" if "as 4.9.8 writes" in section_of(name) else None

    found = run_campaign(program, [int(seed)], [WRITTEN_HERE], version=writer)
    assert found.cases == 1
    assert found.failures == []
    assert (WRITTEN_HERE, SEEN_AS[name]) in found.deviations


def test_exactly_one_finding_is_not_detected_by_the_comparison() -> None:
    assert {finding.name for finding in FINDINGS} - SEEN_AS.keys() == {CUT_BEFORE}


def test_every_finding_has_a_section_and_every_section_a_finding() -> None:
    names = [finding.name for finding in FINDINGS]

    assert len(names) >= 5
    assert re.findall(r"^## ([a-z]\S*)$", PAGE, re.MULTILINE) == re.findall(r"^\| \[(\S+)\]\(#\1\) ", PAGE, re.M)
    assert sorted(re.findall(r"^## ([a-z]\S*)$", PAGE, re.MULTILINE)) == names


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_a_section_names_seed_promise_and_writer(finding: Path) -> None:
    section = section_of(finding.name)

    assert re.search(r"Seed \d+, (by the store as it is|as 4\.9\.8 writes)\.", section)
    (invariant,) = re.findall(r"\*\* \(([A-Z-]+)\)\.", section)
    assert invariant in CHECKERS or invariant == "START"
    assert (finding / "store.tar.gz").stat().st_size < IMAGE_BYTES_MAX

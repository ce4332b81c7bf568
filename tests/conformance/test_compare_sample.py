"""A sample of `python -m tests.conformance`."""

import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.campaign import CaseFileError, ConformanceReport, keep_case, kept_case, run_campaign
from tests.conformance.cases import WRITTEN_HERE, WRITTEN_THERE, DirectoryCase, case_written_here, compare
from tests.conformance.deviations import DEVIATIONS
from tests.conformance.images import CLEAN_STOP, POWER_LOSS, PROCESS_KILL, crash_image_left_by
from tests.conformance.maven import JavaProgram
from tests.conformance.real_store import RealStore
from tests.conformance.workload import workload_of
from tornlog.faults.disk.export import export_image
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

pytestmark = pytest.mark.slow

SEEDS_HERE, SEEDS_THERE = range(60), range(15)
SEEDS_5 = range(6)  # 5.3.3 takes minutes for some later seeds


def count_puts_of_clean_lives(seeds: range) -> int:
    """Return the number of answered puts in lives without a kill; kills make the number random."""
    clean = [workload for workload in map(workload_of, seeds) if not workload.is_killed]
    return sum(len(producer) for workload in clean for producer in workload.producers)


@pytest.fixture(scope="module")
def written_here(program: JavaProgram) -> ConformanceReport:
    return run_campaign(program, SEEDS_HERE, [WRITTEN_HERE])


@pytest.fixture(scope="module")
def written_there(program: JavaProgram) -> ConformanceReport:
    return run_campaign(program, SEEDS_THERE, [WRITTEN_THERE])


def test_the_real_store_reads_our_crash_images_like_our_store(written_here: ConformanceReport) -> None:
    assert [failure.case.name for failure in written_here.failures] == []
    assert written_here.cases == len(SEEDS_HERE)
    outcomes = {kind: counts.total() for (_, kind), counts in written_here.outcomes.items()}
    assert outcomes == {POWER_LOSS: 30, PROCESS_KILL: 20, CLEAN_STOP: 10}
    assert {kind for kind, disk in written_here.disks if disk == "process-kill"} == {PROCESS_KILL}
    assert written_here.records > 500
    assert sum(counts["agreed"] for counts in written_here.outcomes.values()) > len(SEEDS_HERE) // 2
    assert {name for _, name in written_here.deviations} <= DEVIATIONS.keys()


def test_our_store_reads_real_directories_like_the_real_store(written_there: ConformanceReport) -> None:
    assert [failure.case.name for failure in written_there.failures] == []
    outcomes = {kind: counts.total() for (_, kind), counts in written_there.outcomes.items()}
    assert outcomes == {CLEAN_STOP: 5, PROCESS_KILL: 10}
    assert written_there.answers >= count_puts_of_clean_lives(SEEDS_THERE) > 50
    assert written_there.records >= written_there.answers


def test_the_comparison_with_5_3_3_has_no_failures(program_5: JavaProgram) -> None:
    campaign = run_campaign(program_5, SEEDS_5, [WRITTEN_HERE, WRITTEN_THERE])
    assert [failure.case.name for failure in campaign.failures] == []
    assert campaign.cases == 2 * len(SEEDS_5)
    assert campaign.answers > 20


def test_changed_queue_bytes_cause_a_reported_difference(real: RealStore, tmp_path: Path) -> None:
    directory = tmp_path / "case"
    directory.mkdir()
    case = case_written_here(5, directory)
    compared = compare(case, real)
    assert not compared.unexplained

    files = sorted(directory.glob("consumequeue/*/*/*"))
    raw = bytearray(files[0].read_bytes())
    raw[12:20] = (12345).to_bytes(8, "big")  # another tag for the first message of a queue, after a clean end
    files[0].write_bytes(raw)
    changed = compare(replace(case, config=replace(case.config, recover_whole_log=False)), real)
    assert changed.differences


def test_an_acknowledged_put_of_the_real_store_that_is_lost_has_no_explanation(real: RealStore, tmp_path: Path) -> None:
    directory = tmp_path / "case"
    directory.mkdir()
    lost = {"name": "0.0", "status": "PUT_OK", "msgId": "7F00000100002A9F0000000000ABCDEF", "queueOffset": 3}
    case = replace(case_written_here(5, directory), answers=[lost])
    (difference,) = compare(case, real).unexplained
    assert difference.place == "answered 0.0 0"


def test_a_failure_is_saved_with_its_directory_and_can_be_reopened(real: RealStore, tmp_path: Path) -> None:
    directory = tmp_path / "case"
    directory.mkdir()
    lost = {"name": "0.0", "status": "PUT_OK", "msgId": "7F00000100002A9F0000000000ABCDEF", "queueOffset": 3}
    compared = compare(replace(case_written_here(5, directory), answers=[lost]), real)

    file = keep_case(compared, tmp_path / "out")
    with kept_case(file) as case:
        again = compare(case, real)
    assert [one.to_json() for one in again.unexplained] == [one.to_json() for one in compared.unexplained]
    assert again.records == compared.records
    with tarfile.open(file.with_name("store.tar.gz")) as tar:
        assert "store/checkpoint" in tar.getnames()


def test_a_file_that_is_not_a_saved_failure_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "failure.json"
    file.write_text('{"format": "another"}')
    with pytest.raises(CaseFileError, match="format"), kept_case(file):
        pass


def test_a_seed_always_writes_the_same_directory(tmp_path: Path) -> None:
    first, second = crash_image_left_by(8), crash_image_left_by(8)
    assert first is not None
    assert second is not None
    assert first.image.digest() == second.image.digest()
    export_image(first.image, "/store", tmp_path)
    assert (tmp_path / "commitlog").is_dir()


def case_written_by(directory: Path, properties: str, messages: int) -> DirectoryCase:
    """Leave a store of some messages of topic T and one of U, with 12 entries to a queue file."""
    directory.mkdir()
    config = StoreConfig(str(directory), mapped_file_size_commit_log=1024, mapped_file_size_consume_queue=240)
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for topic in (*["T"] * messages, "U"):
        store.put_message(replace(Message.create(topic, b"body"), properties=properties))
    store.shutdown()
    return DirectoryCase(WRITTEN_HERE, 0, CLEAN_STOP, "", "", directory, config)


def test_the_real_store_returns_a_record_without_properties(real: RealStore, tmp_path: Path) -> None:
    compared = compare(case_written_by(tmp_path / "plain", "", 5), real)
    assert compared.records == 6
    assert compared.unexplained == []


def test_a_time_lookup_difference_in_a_queue_with_an_empty_last_file_is_explained(
    real: RealStore, tmp_path: Path
) -> None:
    case = case_written_by(tmp_path / "files", "A\1b\2", 12)
    (case.directory / "consumequeue" / "T" / "0" / f"{12 * 20:020d}").write_bytes(bytes(240))
    shutil.rmtree(case.directory / "consumequeue" / "U")  # or else recovery takes the first entry of the empty file
    compared = compare(case, real)
    assert compared.unexplained == []
    assert "time-of-nothing" in {one.deviation.name for one in compared.differences if one.deviation}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_both_stores_open_a_log_without_its_oldest_files_with_the_same_result(
    real: RealStore, tmp_path: Path, count: int, *, is_clean: bool
) -> None:
    case = case_written_by(tmp_path / "head", "TAGS\1A\2", 40)
    log = sorted((case.directory / "commitlog").iterdir())
    for file in log[:count]:
        file.unlink()
    if not is_clean:
        (case.directory / "abort").touch()
    compared = compare(case, real)
    assert compared.unexplained == []
    names = {one.deviation.name for one in compared.differences if one.deviation}
    assert ("expired-entry" in names) == (count > 1)
    assert names <= {"expired-entry", "file-times"}

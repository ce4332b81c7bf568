"""Images to compare: of the last life, judged like any other run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conformance.campaign import ConformanceReport
from tests.conformance.cases import WRITTEN_THERE, DirectoryCase, case_written_here, compare
from tests.conformance.images import crash_image_left_by
from tests.conformance.real_store import RealStore
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.judge import Judge
from tornlog.scenarios.runs.store_run import Run
from tornlog.store.config import StoreConfig

_VERSION = "rocketmq-4.9.8"
_LOST = Violation("DUR", "what was promised is not there")


class Refusing:
    version = _VERSION

    def open(self, directory: Path, config: StoreConfig, times_ms: Sequence[int]) -> dict[str, Any]:
        return {"load": False}


def judge_finds_violations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make the judge find a violation in each recovered store; return the places where it looked."""
    looked: list[str] = []

    def recovery(judge: Judge, store: Any, disk: Any) -> None:
        looked.append("looked")
        judge.report([_LOST])

    def heal(run: Any) -> None:
        looked.append("left" if run.left is not None else "nothing left")
        with monkeypatch.context() as patched:
            patched.setattr(Judge, "judge_recovery", recovery)
            original(run)

    original = Run._finish_run
    monkeypatch.setattr(Run, "_finish_run", heal)
    return looked


def test_a_violation_in_the_recovery_of_an_image_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looked = judge_finds_violations(monkeypatch)
    with pytest.raises(RuntimeError, match=r"seed 8: .*DUR: what was promised is not there"):
        case_written_here(8, tmp_path)
    assert looked == ["left", "looked"]


def test_a_violation_that_a_mutant_causes_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = judge_finds_violations(monkeypatch)
    assert crash_image_left_by(8, _VERSION) is not None
    assert looked == ["left", "looked"]


def test_the_crash_image_is_saved_before_the_judge_recovers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    left = crash_image_left_by(8)
    monkeypatch.setattr(Run, "_finish_run", lambda run: None)
    unjudged = crash_image_left_by(8)
    assert left is not None
    assert unjudged is not None
    assert left.image.digest() == unjudged.image.digest()


@pytest.mark.parametrize("refuses", [False, True])
def test_answers_count_only_if_our_store_opened_the_directory(tmp_path: Path, *, refuses: bool) -> None:
    directory = tmp_path / "case"
    directory.mkdir()
    config = replace(StoreConfig(str(directory)), mapped_file_size_commit_log=1000)
    if refuses:
        (directory / "commitlog").write_bytes(b"no directory")
    answer = {"name": "0.0", "status": "PUT_OK", "msgId": "7F00000100002A9F0000000000ABCDEF", "queueOffset": 3}
    case = DirectoryCase(WRITTEN_THERE, 1, "clean stop", "", "", directory, config, [answer])
    compared = compare(case, cast(RealStore, Refusing()))
    campaign = ConformanceReport()
    campaign.add(compared)

    assert compared.is_opened is not refuses
    assert campaign.answers == (0 if refuses else 1)
    assert compared.unexplained

"""The text of violations."""

import json

from tornlog.scenarios.oracle.evidence import Violation


def test_the_text_of_a_violation_in_a_file_has_path_offset_expected_and_found_values() -> None:
    violation = Violation("DUR", "m1 is gone", "commitlog", 4096, "record", "m1", "nothing")
    assert str(violation) == "DUR: m1 is gone (commitlog @ log offset 4096): record: expected m1, found nothing"


def test_the_text_of_a_violation_without_a_path_has_its_other_parts() -> None:
    assert str(Violation("LIVE", "dispatch died")) == "LIVE: dispatch died"


def test_a_violation_signature_has_its_kind_without_path_and_offset() -> None:
    first = Violation("POS", "at one place", "commitlog/0", 1, "positions", "a", "b")
    second = Violation("POS", "at another", "commitlog/1", 2, "positions", "c", "d")
    assert first.signature == second.signature == "pos-positions"
    assert Violation("LIVE", "late", field="answer time").signature == "live-answer-time"
    assert Violation("LIVE", "dead").signature == "live-broken"
    assert Violation("QUIET", "late", field="queue T0/1").signature == "quiet-queue-t0-1"


def test_a_violation_survives_a_round_trip_through_json() -> None:
    violation = Violation("DUR", "m1 is gone", "commitlog", 4096, "record", "m1", "nothing")
    assert Violation(**json.loads(json.dumps(violation.to_json()))) == violation

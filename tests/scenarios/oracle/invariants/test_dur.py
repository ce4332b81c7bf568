from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import dur


def test_a_promised_put_after_the_end_of_the_log_is_a_violation_with_its_offset(evidence: Evidence) -> None:
    lost = evidence.store.records.pop()
    del evidence.store.by_offset[lost.record.physical_offset]
    evidence.store.max_offset = lost.record.physical_offset

    (violation,) = dur.check_durable_puts(evidence)

    assert (violation.invariant, violation.expected, violation.found) == ("DUR", "m2", "nothing")
    assert violation.offset == lost.record.physical_offset


def test_every_lost_put_is_a_violation(evidence: Evidence) -> None:
    evidence.store.by_offset.clear()

    assert [violation.expected for violation in dur.check_durable_puts(evidence)] == ["m0", "m1", "m2"]


def test_a_promised_put_with_another_body_is_a_violation(evidence: Evidence) -> None:
    evidence.store.records[1].body = b"another body"

    assert [violation.summary for violation in dur.check_durable_puts(evidence)] == ["m1 was promised and has changed"]


def test_a_put_lost_with_the_first_segments_of_the_log_is_a_violation(evidence: Evidence) -> None:
    first = evidence.store.records.pop(0)
    del evidence.store.by_offset[0]
    evidence.store.min_offset = first.record.size_bytes

    assert [violation.expected for violation in dur.check_durable_puts(evidence)] == ["m0"]

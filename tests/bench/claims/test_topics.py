from collections.abc import Iterator

import pytest

from tests.bench.claims import topics
from tests.bench.claims.topics import DEFAULTS, VARIANTS, LateCase, LateReads, measure_claims


def test_a_variant_is_compared_with_the_defaults_of_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(case: LateCase) -> LateReads:
        return LateReads((case.seed + 1) * (100.0 if case.variant == DEFAULTS else 50.0), 10.0, 0.25)

    def groups(cases: list[LateCase], group: int, jobs: int) -> Iterator[list[LateReads]]:
        found = list(map(measure, cases))
        yield from (found[at : at + group] for at in range(0, len(found), group))

    monkeypatch.setattr(topics, "measure_groups", groups)
    monkeypatch.setattr(topics, "DEVICES", {"hdd": None})
    rows = list(measure_claims(6))

    assert len(rows) == 4 * len(VARIANTS)
    assert {(row[3], row[6:9]) for row in rows} == {
        (variant, (1.0, 1.0, 1.0) if variant == DEFAULTS else (0.5, 0.5, 0.5)) for variant in VARIANTS
    }


@pytest.mark.ci
@pytest.mark.parametrize("variant", VARIANTS)
def test_late_consumers_of_a_variant_read_the_shared_log(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_PUTS", 2_000)
    found = LateCase("hdd", 64, False, variant, 1).measure()

    assert found.records_per_second > 0
    assert found.read_bytes_per_record > 0
    assert 0 < found.queue_wait_share < 1

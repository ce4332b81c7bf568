import json
from pathlib import Path

import pytest

from tests.mutation import all_sites, record, selected_sites
from tests.mutation.survivors import SURVIVORS


def test_the_record_names_sites_without_another_verdict() -> None:
    found = list(record.found_mutants())
    assert found == sorted(found)
    assert set(found) <= {site.id for site in all_sites()}
    assert not set(found) & set(SURVIVORS)


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [("hunt-a-mutant", "7 DUR"), ("process-kill", "7 DUR process-kill")],
    ids=["narrowed", "shipped"],
)
def test_finds_of_a_mutation_run_are_added_to_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, expected: str
) -> None:
    site = next(site for site in selected_sites() if site.id not in SURVIVORS)
    results = tmp_path / "result.json"
    finds = [{"invariant": "DUR", "scenario": scenario}]
    find = {"id": f"tests.mutation:{site.id}", "found": True, "seeds": 7, "finds": finds}
    missed = {"id": "tests.mutation:other", "found": False, "seeds": 500, "finds": []}
    results.write_text(json.dumps([find, missed, {"id": "tests.mutation:late", "not_run": True}]))
    monkeypatch.setattr(record, "FOUND_FILE", tmp_path / "found.txt")
    record.FOUND_FILE.write_text("")
    assert record.verdict_of(site.id, record.found_mutants()) == "not run"
    record.add_finds(results)
    assert record.found_mutants() == {site.id: expected}
    assert record.verdict_of(site.id, record.found_mutants()) == "found"


def test_the_table_counts_each_selected_mutant_once() -> None:
    total = list(record.table_rows())[-1]
    counts = [int(cell) for cell in total.split("|")[2:-1]]
    assert sum(counts) == len(selected_sites())

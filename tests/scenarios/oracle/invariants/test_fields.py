"""The table of checked fields matches the checks, for each record field and each kind of run."""

import pytest

from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import CHECKERS, INVARIANTS
from tornlog.scenarios.oracle.invariants.fields import BROKER, CHECKED, CLUSTER, RUNS, STORE

_HEAD = {
    "magicCode": ("magic", 7),
    "bodyCRC": ("body_crc", 7),
    "flag": ("flag", 7),
    "bornTimestamp": ("born_timestamp_ms", 7),
    "bornHost": ("born_host", b"\7" * 8),
    "storeHost": ("store_host", b"\7" * 8),
    "reconsumeTimes": ("reconsume_times", 7),
    "preparedTransactionOffset": ("prepared_transaction_offset", 7),
}
_RECORD = {
    "topic": ("topic", "T7"),
    "queueId": ("queue_id", 7),
    "queueOffset": ("queue_offset", 7),
    "sysFlag": ("sys_flag", 0x200),
    "storeTimestamp": ("store_timestamp_ms", 7),
    "properties": ("properties", b"KEYS\1m1\2TAGS\1TagB"),
    "physicalOffset": ("physical_offset", 7),
}


def kind_of(scenario: Scenario) -> str:
    if scenario.ranges.has_brokers:
        return BROKER
    return STORE if scenario.ranges.is_alone else CLUSTER


def test_every_invariant_declares_its_fields_and_runs() -> None:
    assert list(CHECKED) == list(INVARIANTS)
    for checked in CHECKED.values():
        assert checked.fields
        assert set(checked.runs) <= set(RUNS)


@pytest.mark.parametrize("field", [*_HEAD, *_RECORD, "body"])
def test_a_field_of_a_record_is_checked_by_an_invariant_that_declares_it(evidence: Evidence, field: str) -> None:
    found = evidence.store.records[1]
    if field in _HEAD:
        name, value = _HEAD[field]
        found.record = found.record._replace(head=found.record.head._replace(**{name: value}))  # type: ignore[arg-type]
    elif field == "body":
        found.body = b"changed"
    else:
        name, value = _RECORD[field]
        found.record = found.record._replace(**{name: value})  # type: ignore[arg-type]
    evidence.store.by_offset = {one.record.physical_offset: one for one in evidence.store.records}
    broken = {name for name, check in CHECKERS.items() if list(check(evidence))}
    assert broken & {name for name, checked in CHECKED.items() if field in checked.fields}, broken


@pytest.mark.ci
def test_invariants_are_checked_in_the_kinds_of_runs_that_they_declare() -> None:
    tried: dict[str, set[str]] = {kind: set() for kind in RUNS}
    for scenario in SCENARIOS.values():
        tried[kind_of(scenario)].update(run_seed(scenario, 0).tried)
    for kind, names in tried.items():
        assert names <= {name for name, checked in CHECKED.items() if kind in checked.runs}, kind
    for name, checked in CHECKED.items():
        assert any(name in tried[kind] for kind in checked.runs), name

"""Planted bugs: a few inputs of a fixed seed find each bug, and pass without it."""

import pytest

from tests.scenarios.fuzz.fuzzed import fuzz
from tornlog.scenarios.fuzz.engine import minimised_input
from tornlog.scenarios.fuzz.mutants import FUZZED, find_fuzz_mutant
from tornlog.scenarios.fuzz.targets import TARGETS

PLANTED = [
    ("frame-length-trusted", "remoting", 60, "allocation"),
    ("record-crc-unchecked", "commitlog", 500, "served-incomplete"),
    ("index-chain-unbounded", "index", 1_000, "chain"),
    ("json-depth-unbounded", "json", 1_500, "crash-recursionerror-side_json.decode_side_json"),
    ("bad-length-trusted", "directory", 40, "crash-runtimeerror-scan.scan_trusting_lengths"),
    ("crc-skipped-on-recovery", "directory", 60, "served-incomplete"),
]


@pytest.mark.parametrize(("mutant", "name", "inputs", "signature"), PLANTED)
def test_a_planted_bug_is_found_by_fuzzing(mutant: str, name: str, inputs: int, signature: str) -> None:
    found = fuzz(name, inputs, mutant=mutant).found

    assert signature in found
    assert fuzz(name, found[signature].number).found == {}
    planted = FUZZED.get(mutant)
    assert planted is None or any(signature.startswith(kind) for kind in planted.found_by)


def test_a_fuzz_finding_is_minimised() -> None:
    first = fuzz("commitlog", 500, mutant="record-crc-unchecked").found["served-incomplete"]
    target, mutant = TARGETS["commitlog"](), find_fuzz_mutant("record-crc-unchecked")
    assert mutant is not None
    with mutant.applied():
        small = minimised_input(target, first.raw, first.breach)

    assert len(small) < len(first.raw) or small.count(0) > first.raw.count(0)
    assert sum(map(bool, small)) < 40
    target.check(small)

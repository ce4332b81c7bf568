import random
from itertools import pairwise
from pathlib import Path

import pytest

from tests.scenarios.fuzz.fuzzed import fuzz
from tornlog.scenarios.fuzz.engine import Fuzzer, read_inputs, write_inputs
from tornlog.scenarios.fuzz.mutation import Draw
from tornlog.scenarios.fuzz.targets import TARGETS

INPUTS = {"directory": 150, "json": 1_500}
"""The number of inputs for slow formats. Other formats get many more."""
MOST = 6_000


@pytest.mark.parametrize("name", TARGETS)
def test_valid_inputs_of_each_format_are_accepted(name: str) -> None:
    target, draw = TARGETS[name](), Draw("valid")
    for _ in range(20 if name == "directory" else 200):
        raw = target.valid_input(draw)
        assert target.check(raw).accepted or name == "consumequeue", raw  # zeros after the last entry are not entries
        shape = target.shape(raw)
        assert all(0 <= start < end <= len(raw) for start, end in shape.parts)
        assert all(one.end <= other.start for one, other in pairwise(sorted(shape.parts)))


@pytest.mark.ci
@pytest.mark.parametrize("name", TARGETS)
def test_no_mutated_input_of_a_format_breaks_a_promise_and_outcomes_vary(name: str) -> None:
    tally = fuzz(name, INPUTS.get(name, MOST), seed=7)

    assert tally.found == {}
    assert tally.inputs == tally.accepted + tally.refused == INPUTS.get(name, MOST)
    assert tally.accepted > tally.inputs // 50
    assert tally.refused > tally.inputs // 8
    assert tally.corpus.outcomes >= 12


@pytest.mark.ci
@pytest.mark.parametrize("name", TARGETS)
def test_inputs_depend_on_the_seed_only(name: str) -> None:
    inputs = 60 if name == "directory" else 600
    first, again, other = (fuzz(name, inputs, seed=seed) for seed in (3, 3, 4))

    assert first.corpus.inputs == again.corpus.inputs
    assert (first.accepted, first.refused) == (again.accepted, again.refused)
    assert first.corpus.inputs != other.corpus.inputs


@pytest.mark.parametrize("name", TARGETS)
def test_random_bytes_are_checked_without_an_error(name: str) -> None:
    target, source = TARGETS[name](), random.Random(1)
    for size_bytes in (0, 1, 2, 3, 7, 8, 19, 20, 90, 91, 300):
        raw = source.randbytes(size_bytes)
        target.check(raw)
        target.check(target.mutate(raw, target.shape(raw), Draw("x"), [raw]))


def test_inputs_of_an_earlier_run_are_judged_first(tmp_path: Path) -> None:
    before = fuzz("checkpoint", 200).corpus
    write_inputs(before, tmp_path)
    write_inputs(before, tmp_path)  # each is there once
    fuzzer = Fuzzer(TARGETS["checkpoint"](), 0)
    fuzzer.judge_inputs(read_inputs(tmp_path))

    assert fuzzer.tally.inputs == len(before.inputs) > 5
    assert sorted(fuzzer.tally.corpus.inputs) == sorted(before.inputs)
    assert list(read_inputs(tmp_path / "nowhere")) == []

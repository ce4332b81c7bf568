from collections.abc import Callable
from typing import Any

import pytest

from tests.scenarios.fuzz.fuzzed import MadeTarget
from tornlog.scenarios.fuzz.engine import HANGS_MAX, Fuzzer
from tornlog.scenarios.fuzz.judging import (
    ADDRESS_SPACE_BYTES,
    FuzzViolation,
    address_space_limited,
    judge_input,
    judge_within_limits,
    peak_memory_bytes,
)
from tornlog.scenarios.fuzz.target import InputOutcome, TargetViolation, field_in_error
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.side_json import encode_side_json

Make = Callable[..., Any]


def accept(raw: bytes) -> InputOutcome:
    return InputOutcome(True, "")


def refuse(raw: bytes) -> InputOutcome:
    raise CorruptFileError("f", 0, "x", "y", "z")


def loop(raw: bytes) -> InputOutcome:
    while True:
        pass


def allocate(raw: bytes) -> InputOutcome:
    return InputOutcome(True, str(len(bytearray(5 << 20))))


def allocate_all(raw: bytes) -> InputOutcome:
    return InputOutcome(True, str(len(bytearray(4 * ADDRESS_SPACE_BYTES))))


def crash_in_the_store(raw: bytes) -> InputOutcome:
    return InputOutcome(True, encode_side_json({"t": {"\ud800": 1}}).hex())


def break_a_promise(raw: bytes) -> InputOutcome:
    raise TargetViolation("lost", 5, 4)


@pytest.mark.parametrize(
    ("check", "signature"),
    [
        (loop, "hang"),
        (allocate, "allocation"),
        (allocate_all, "allocation"),
        (crash_in_the_store, "crash-unicodeencodeerror-side_json.encode_side_json"),
        (refuse, "crash-corruptfileerror-"),  # a target knows which refusals are in order
        (break_a_promise, "lost"),
    ],
)
def test_each_kind_of_violation_has_its_own_signature(check: Callable[[bytes], InputOutcome], signature: str) -> None:
    with address_space_limited():
        judged = judge_within_limits(MadeTarget(check), b"a")

    assert isinstance(judged, FuzzViolation)
    assert judged.signature.startswith(signature)
    assert judged.expected
    assert judged.found


def test_an_accepted_input_has_an_outcome() -> None:
    assert (
        judge_input(MadeTarget(accept), b"a") == judge_within_limits(MadeTarget(accept), b"a") == InputOutcome(True, "")
    )


def test_exceeding_the_memory_limit_is_a_violation() -> None:
    assert peak_memory_bytes(lambda: len(bytearray(3 << 20))) > 3 << 20
    assert peak_memory_bytes(lambda: None) < 1 << 16


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CorruptFileError("g", 0, "x", "y", "z"), "error-file"),
        (CorruptFileError("f", -1, "x", "y", "z"), "error-offset"),
        (CorruptFileError("f", 11, "x", "y", "z"), "error-offset"),
        (CorruptFileError("f", 0, "", "y", "z"), "error-text"),
        (CorruptFileError("f", 0, "x", "", "z"), "error-text"),
        (CorruptFileError("f", 0, "x", "y", ""), "error-text"),
        (CorruptFileError("f", 0, "x", "y", "z" * 300_000), "error-text"),
    ],
)
def test_an_error_that_lacks_file_offset_field_or_values_is_a_violation(error: CorruptFileError, kind: str) -> None:
    with pytest.raises(TargetViolation) as caught:
        field_in_error(error, "f", 10)

    assert caught.value.kind == kind
    assert field_in_error(CorruptFileError("f", 10, "x", "y", "z"), "f", 10) == "x"


def test_after_a_hanging_input_later_inputs_are_judged() -> None:
    seen: list[bytes] = []

    def check(raw: bytes) -> InputOutcome:
        seen.append(raw)
        return loop(raw) if raw == b"h" else InputOutcome(True, "")

    fuzzer = Fuzzer(MadeTarget(check), 0)
    fuzzer.judge_inputs([b"a", b"h", b"b"])

    assert {signature: found.raw for signature, found in fuzzer.tally.found.items()} == {"hang": b"h"}
    assert fuzzer.tally.found["hang"].number == 2
    assert seen.count(b"b") == 1
    assert fuzzer.tally.inputs == 3


def test_a_fuzz_run_ends_after_several_hanging_inputs() -> None:
    fuzzer = Fuzzer(MadeTarget(loop), 0)
    fuzzer.run(None)

    assert fuzzer.tally.inputs == HANGS_MAX
    assert set(fuzzer.tally.found) == {"hang"}


def test_fuzz_inputs_are_counted_by_outcome() -> None:
    def check(raw: bytes) -> InputOutcome:
        if raw == b"x":
            raise TargetViolation("x", 1, 2)
        return InputOutcome(raw < b"b", raw.decode())

    fuzzer = Fuzzer(MadeTarget(check), 0)
    fuzzer.judge_inputs([b"a", b"c", b"x", b"a", b"d", b"x"])
    tally = fuzzer.tally

    assert (tally.inputs, tally.accepted, tally.refused, tally.broken) == (6, 2, 2, 2)
    assert tally.corpus.inputs == [b"a", b"c", b"d"]
    assert tally.corpus.outcomes == 3
    assert {signature: found.number for signature, found in tally.found.items()} == {"x": 3}


def test_memory_is_measured_for_inputs_with_a_new_outcome() -> None:
    fuzzer = Fuzzer(MadeTarget(lambda raw: allocate(raw) if raw == b"b" else accept(raw)), 0)
    fuzzer.judge_inputs([b"a", b"b"])

    assert {signature: found.raw for signature, found in fuzzer.tally.found.items()} == {"allocation": b"b"}

from collections.abc import Callable
from typing import Any

import pytest

from tests.scenarios.fuzz.fuzzed import MadeTarget
from tornlog.scenarios.fuzz.container import DirectoryContent, pack_directory, unpack_directory
from tornlog.scenarios.fuzz.engine import minimised_input
from tornlog.scenarios.fuzz.judging import FuzzViolation, judge_input
from tornlog.scenarios.fuzz.target import InputOutcome, TargetViolation
from tornlog.scenarios.fuzz.targets.directory import DirectoryTarget

Make = Callable[..., Any]


def breaks_if(condition: Callable[[bytes], bool]) -> Callable[[bytes], InputOutcome]:
    def check(raw: bytes) -> InputOutcome:
        if condition(raw):
            raise TargetViolation("x", 1, 2)
        if len(raw) > 40:
            raise TargetViolation("y", 1, 2)
        return InputOutcome(True, "")

    return check


@pytest.mark.parametrize(
    ("raw", "condition", "smallest"),
    [
        (b"aa;bXb;cc;", lambda raw: b"X" in raw, b"X"),
        (b"aa;bb;cc;", lambda raw: raw.count(b";") >= 2, b";;"),
        (b"abcdefgh", lambda raw: len(raw) >= 3, b"\0\0\0"),
        (b"12345678", lambda raw: raw[3:4] == b"4", b"\0\0\x004"),
        (b"", lambda raw: True, b""),
    ],
)
def test_no_part_of_a_minimised_input_can_be_removed(
    raw: bytes, condition: Callable[[bytes], bool], smallest: bytes
) -> None:
    target = MadeTarget(breaks_if(condition))
    breach = judge_input(target, raw)
    assert isinstance(breach, FuzzViolation)

    assert minimised_input(target, raw, breach) == smallest


def test_minimising_keeps_the_signature() -> None:
    target = MadeTarget(breaks_if(lambda raw: raw.startswith(b"X")))
    raw = b"X" + b"a" * 60

    assert minimised_input(target, raw, FuzzViolation("x", "1", "2")) == b"X"
    assert len(minimised_input(target, raw, FuzzViolation("y", "1", "2"))) == 41
    assert minimised_input(target, raw, FuzzViolation("z", "1", "2")) == raw


def test_minimising_ends_after_the_maximum_number_of_tries() -> None:
    judged: list[bytes] = []

    def check(raw: bytes) -> InputOutcome:
        judged.append(raw)
        raise TargetViolation("x", 1, 2)

    minimised_input(MadeTarget(check), b"a" * 60, FuzzViolation("x", "1", "2"), tries_max=3)

    assert len(judged) <= 3


def test_minimising_a_directory_removes_whole_entries_and_keeps_file_lengths() -> None:
    class Picky(DirectoryTarget):
        def check(self, raw: bytes) -> InputOutcome:
            directory = unpack_directory(raw)
            if directory is not None and (directory.entries.get("b/c") or b"")[2:3] == b"!":
                raise TargetViolation("x", 1, 2)
            return InputOutcome(True, "")

    raw = pack_directory(DirectoryContent(3, {"a": b"aaaa", "b": None, "b/c": b"cc!c", "d": None}))
    small = unpack_directory(minimised_input(Picky(), raw, FuzzViolation("x", "1", "2")))

    assert small == DirectoryContent(0, {"b/c": b"\0\0!\0"})

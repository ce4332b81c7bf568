"""Run control: selects a fault by a rule, or a seeded order of the threads' recorded steps.

A rule is one line of text (docs/probe-faults.md):

    FAULT [GLOB] [PART] [#N]     failed-sync wal*.log #3
    disk-full after SIZE         disk-full after 1MiB
    cut at CALL [GLOB] [#N]      cut at rename MANIFEST*
    cut at mark                  crashes only at points that the program marks: it writes `cut` to its control FIFO

FAULT is a kind in CALL_FAULTS with hyphens, or torn-write. Defaults: * for GLOB, 1/2 for PART, #1 for #N; #* means all
matching calls. CALL is a system call or a kind of step in a record, with hyphens. Words with spaces are quoted as in a
shell.
"""

import os
import re
import shlex
from fnmatch import fnmatchcase
from typing import NamedTuple

from ...kinds import FaultKind
from ..record import INJECTED, KINDS
from ..story import named
from .machines import MACHINES

CALL_FAULTS = (
    FaultKind.FAILED_WRITE,
    FaultKind.DISK_FULL,
    FaultKind.INTERRUPTED_CALL,
    FaultKind.FAILED_CREATION,
    FaultKind.FAILED_EXTEND,
    FaultKind.FAILED_SYNC,
    FaultKind.FAILED_DIRECTORY_SYNC,
    FaultKind.LYING_SYNC,
    FaultKind.SHORT_WRITE,
)
"""The kinds of fault that can be injected at system calls."""
ERRORS = tuple(kind for kind in CALL_FAULTS if kind is not FaultKind.LYING_SYNC)
"""Faults that change the result of a call. A lying sync returns success."""


CONTROL = "TORNLOG_CONTROL"
"""Environment variable with the path of a FIFO to which the program writes rules of faults."""
ALL_CALLS = 0
"""In place of a call number: inject the fault at every matching call."""


class CallFault(NamedTuple):
    """A fault at the nth matching call, counted from 1, or at ALL_CALLS.

    glob: the names of matching files. part: the fraction of a torn or short write that reaches the file, (2, 5) for two
    fifths. after_bytes: the number of written bytes at which the disk is full. text: the user's rule.
    """

    kind: FaultKind
    nth: int
    glob: str = "*"
    part: tuple[int, int] | None = None
    after_bytes: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.kind} {self.nth}"


class MatchedCall(NamedTuple):
    """A call to which a kind of fault applies.

    path: the file's path on the program's disk; "" for a file without a name. stack: the number of the call's stack; 0
    if not recorded.
    """

    kind: FaultKind
    path: str
    call: str
    stack: int


RANDOM = 0
"""In place of the depth of PCT: choose each thread at random."""
PCT_NAME = "pct"
POLICIES = ("random", PCT_NAME, f"{PCT_NAME}:DEPTH")
"""Policies that choose threads. pct: the depth of PCT depends on the seed."""
_DEPTHS = (2, 3, 5, 8)  # few change points let other threads run longer; many try more interleavings
_DEPTH_MAX = 99


def depth_of(policy: str, seed: int) -> int:
    """Return the depth of PCT for a seed, or RANDOM. An unknown policy raises ValueError."""
    name, _, depth = policy.partition(":")
    if policy == "random":
        return RANDOM
    if policy == PCT_NAME:
        return _DEPTHS[seed % len(_DEPTHS)]
    if name == PCT_NAME and depth.isdecimal() and 1 <= int(depth) <= _DEPTH_MAX:
        return int(depth)
    raise ValueError(f"expected {', '.join(POLICIES)} with a depth of 1 to {_DEPTH_MAX}, found {policy}")


class RunControl(NamedTuple):
    """Control of a run: a fault, a seeded order, a list of calls, or none of them. seed: determines the order of the
    threads' recorded steps."""

    fault: CallFault | None = None
    seed: int | None = None
    depth: int = RANDOM
    """The depth of PCT, or RANDOM."""
    horizon_steps: int = 1
    """Number of steps among which PCT places its change points."""
    listed: tuple[FaultKind, ...] = ()
    """Kinds of fault: the run injects none, but lists the calls to which they apply."""

    def __str__(self) -> str:
        if self.listed:
            return "list of calls"
        if self.fault is not None:
            return str(self.fault)
        by_pct = "" if self.depth == RANDOM else f" ({PCT_NAME}:{self.depth})"
        return "" if self.seed is None else f"seed {self.seed}{by_pct}"


AS_IT_IS = RunControl()


TORN_WRITE = "torn-write"
CUT, MARK = "cut", "mark"
_FAULTS = {kind.value.replace(" ", "-"): kind for kind in CALL_FAULTS} | {TORN_WRITE: FaultKind.FAILED_WRITE}
_WITH_PART = (TORN_WRITE, "short-write")
_BYTES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_PART = re.compile(r"(\d+)/(\d+)")
_SIZE = re.compile(r"(\d+)(|B|KiB|MiB|GiB)")
_STEPS = {kind.replace(" ", "-") for kind in KINDS if kind not in INJECTED}
_SYSTEM_CALLS = {name for machine in MACHINES.values() for name in machine.calls}


class RuleError(ValueError):
    """A rule is invalid. The message has the rule, the invalid word and the expectation."""


class CrashRule(NamedTuple):
    """A rule that restricts crashes to one call. call: a system call, or a kind of step. nth: counted from 1, or
    ALL_CALLS."""

    call: str
    glob: str
    nth: int
    text: str

    def __str__(self) -> str:
        return self.text


Rule = CallFault | CrashRule


class _RuleWords:
    """The words of a rule, from the first to the last."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        try:
            self._left = shlex.split(text)
        except ValueError as error:
            raise RuleError(f"rule {self.text!r}: expected a closing quote, found none") from error
        self._taken = 0

    def take_word(self, expected: str) -> str:
        """Return the next word. Raises RuleError at the end."""
        if not self._left:
            raise self.error(expected, "the end")
        self._taken += 1
        return self._left.pop(0)

    def next_matches(self, pattern: str) -> bool:
        return bool(self._left) and re.fullmatch(pattern, self._left[0]) is not None

    def error(self, expected: str, found: str) -> RuleError:
        """Return an error about the last returned word, or about the end of the rule."""
        place = self._taken + (found == "the end")
        return RuleError(f"rule {self.text!r}: word {place}: expected {expected}, found {found}")

    def expect_end(self) -> None:
        if self._left:
            raise self.error("the end of the rule", self.take_word("the end"))

    def take_glob(self) -> str:
        return "*" if not self._left or self.next_matches("#.*") else self.take_word("a file")

    def take_nth(self) -> int:
        """Parse #N, which must be the last word."""
        if not self._left:
            return 1
        word = self.take_word("#N")
        if not re.fullmatch(r"#([1-9]\d*|\*)", word):
            raise self.error("#N, such as #3, or #* for all calls", word)
        self.expect_end()
        return ALL_CALLS if word == "#*" else int(word[1:])


def parse_rule(text: str) -> Rule:
    """Parse a rule. Raises RuleError."""
    words = _RuleWords(text)
    first = words.take_word("a fault or cut")
    if first == CUT:
        return _parse_crash_rule(words)
    if first not in _FAULTS:
        raise words.error(f"cut or one of {', '.join(_FAULTS)}", first)
    kind = _FAULTS[first]
    if first == "disk-full" and words.next_matches("after"):
        words.take_word("after")
        return CallFault(kind, ALL_CALLS, after_bytes=_parse_size_bytes(words), text=words.text)
    part = (1, 2) if first == TORN_WRITE else None
    has_glob = not (first in _WITH_PART and words.next_matches(_PART.pattern))
    glob = words.take_glob() if has_glob else "*"
    if words.next_matches(_PART.pattern):
        part = _parse_part(words, first)
    return CallFault(kind, words.take_nth(), glob, part, text=words.text)


def parse_fault_rule(text: str) -> CallFault:
    """Parse a rule of a fault. Invalid rules and rules of crashes raise RuleError."""
    rule = parse_rule(text)
    if isinstance(rule, CrashRule):
        raise RuleError(f"rule {rule.text!r}: word 1: expected a fault, found cut")
    return rule


def _parse_crash_rule(words: _RuleWords) -> CrashRule:
    if (at := words.take_word("at")) != "at":
        raise words.error("at", at)
    call = words.take_word("a system call or a kind of step")
    if call == MARK:
        words.expect_end()
        return CrashRule(MARK, "*", ALL_CALLS, words.text)
    if call not in _STEPS and call not in _SYSTEM_CALLS:
        raise words.error(f"{MARK}, a system call or one of {', '.join(sorted(_STEPS))}", call)
    return CrashRule(call, words.take_glob(), words.take_nth(), words.text)


def _parse_size_bytes(words: _RuleWords) -> int:
    expected = "a size, such as 64KiB or 1MiB"
    word = words.take_word(expected)
    found = _SIZE.fullmatch(word)
    if found is None:
        raise words.error(expected, word)
    words.expect_end()
    return int(found[1]) * _BYTES[found[2]]


def _parse_part(words: _RuleWords, fault: str) -> tuple[int, int]:
    word = words.take_word("a part")
    if fault not in _WITH_PART:
        raise words.error(f"#N, because only {' and '.join(_WITH_PART)} have a part", word)
    kept, whole = map(int, word.split("/"))
    if not 0 < kept < whole:
        raise words.error("a part between 0 and 1, such as 2/5", word)
    return kept, whole


def glob_matches(glob: str, path: str) -> bool:
    """Return whether a path on the program's disk matches the glob of a rule."""
    name = named(path)
    return fnmatchcase(name if "/" in glob else os.path.basename(name), glob)

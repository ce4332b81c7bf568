"""Run control: selects a fault at one call, or a seeded order of the threads' steps."""

from typing import NamedTuple

from ...kinds import FaultKind

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
"""The kinds of fault that can be injected at calls."""
ERRORS = tuple(kind for kind in CALL_FAULTS if kind is not FaultKind.LYING_SYNC)
"""Faults that the program can notice by the result of a call. A lying sync is not noticeable."""


CONTROL = "TORNLOG_CONTROL"
"""Environment variable with the path of a FIFO. The program asks for faults by rules that it writes to it."""
ALL_CALLS = 0
"""Instead of the number of a call."""


class CallFault(NamedTuple):
    """A fault at the nth call to which its kind applies, counted from 1, or at ALL_CALLS.

    glob: only calls on files with these names. part: a write is cut to this fraction, (2, 5) for two fifths; a failed
    write then fails after it. after_bytes: a full disk, after the program has written so many bytes. text: the rule of
    the user.
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

    path: of its file on the program's disk; "": without a name. stack: its number in the run, 0 if none was requested.
    """

    kind: FaultKind
    path: str
    call: str
    stack: int


RANDOM = 0
"""Instead of the depth of PCT: each choice is random."""
PCT_NAME = "pct"
POLICIES = ("random", PCT_NAME, f"{PCT_NAME}:DEPTH")
"""How seeds choose threads. pct: its depth depends on the seed."""
_DEPTHS = (2, 3, 5, 8)  # few change points leave long gaps to other threads, many try more places in each run
_DEPTH_MAX = 99


def depth_of(policy: str, seed: int) -> int:
    """Return the depth of PCT for a seed, or RANDOM. ValueError: there is no such policy."""
    name, _, depth = policy.partition(":")
    if policy == "random":
        return RANDOM
    if policy == PCT_NAME:
        return _DEPTHS[seed % len(_DEPTHS)]
    if name == PCT_NAME and depth.isdecimal() and 1 <= int(depth) <= _DEPTH_MAX:
        return int(depth)
    raise ValueError(f"expected {', '.join(POLICIES)} with a depth of 1 to {_DEPTH_MAX}, found {policy}")


class RunControl(NamedTuple):
    """At most one of a fault, an order and a list. seed: determines the order of the threads' recorded steps."""

    fault: CallFault | None = None
    seed: int | None = None
    depth: int = RANDOM
    """Depth of PCT, or RANDOM."""
    horizon_steps: int = 1
    """Number of steps among which PCT places its change points."""
    listed: tuple[FaultKind, ...] = ()
    """Faults that are not injected: the run lists the calls to which they apply."""

    def __str__(self) -> str:
        if self.listed:
            return "list of calls"
        if self.fault is not None:
            return str(self.fault)
        by_pct = "" if self.depth == RANDOM else f" ({PCT_NAME}:{self.depth})"
        return "" if self.seed is None else f"seed {self.seed}{by_pct}"


AS_IT_IS = RunControl()

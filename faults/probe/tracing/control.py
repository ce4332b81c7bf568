"""Run control: selects a fault, or a seeded order of the threads' recorded steps."""

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

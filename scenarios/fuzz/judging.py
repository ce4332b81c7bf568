"""Judging an input: an outcome, or what the code under test did that it never should, and the file that says so.

A promise that a target knows of has its own name; beside them there are `crash-...` for an error that nobody documents,
named by its type and the function it came from, `hang`, and `allocation`.

Memory has two bounds. While inputs are judged the process may not grow by more than ADDRESS_SPACE_BYTES, which costs
nothing and turns a length that was believed into a MemoryError. And of inputs that took a new way, and of one in so
many others, the most that was allocated at once is measured; that finds what is far too much for so small an input and
still far from what a machine has.

A failure is an artefact (`faults.simulation.artefact`) of the kind "fuzz", whose bytes are base64.
"""

import resource
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import walk_tb

from ...faults.simulation.artefact import FUZZ, read_artefact, write_artefact
from ...sim.process import NoEndInSight, cpu_limit
from .target import InputOutcome, Target, TargetViolation

_TEXT_CHARACTERS_MAX = 2000
_OWN = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class FuzzViolation:
    """A promise that was broken."""

    signature: str
    """The same for what a reader takes for the same bug."""
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.signature}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class FuzzFailure:
    """One broken promise, and the inputs that break it."""

    target: str
    seed: int
    mutant: str | None
    number: int
    """Of the input, from 1."""
    breach: FuzzViolation
    raw: bytes
    """The smallest input that breaks it."""
    original: bytes
    """The input that was found; the same if nothing smaller was."""

    @property
    def name(self) -> str:
        """Return what names the file: format and promise."""
        return f"fuzz-{self.target}-{self.breach.signature}"

    def to_json(self) -> str:
        """Return the artefact's text."""
        return write_artefact(FUZZ, self)

    @classmethod
    def from_json(cls, text: str) -> "FuzzFailure":
        """Read an artefact. Raises ArtefactError naming what is wrong with it."""
        return read_artefact(text, FUZZ, cls)


def judge(target: Target, raw: bytes) -> InputOutcome | FuzzViolation:
    """Judge an input by what it leads to, however long it takes. Raises NoEndInSight if an alarm goes off."""
    try:
        return target.check(raw)
    except Exception as error:
        return breach_of(error)


def judge_in_full(target: Target, raw: bytes) -> InputOutcome | FuzzViolation:
    """Judge an input with its time and memory bounded and measured."""
    try:
        with cpu_limit(target.cpu_seconds_max):
            judged = judge(target, raw)
        if isinstance(judged, FuzzViolation):
            return judged
        return breach_of_memory(target, raw) or judged
    except NoEndInSight:
        return hang_of(target)


def breach_of_memory(target: Target, raw: bytes) -> FuzzViolation | None:
    """Return what an input that broke nothing breaks by the memory it takes, if it does."""
    with cpu_limit(4 * target.cpu_seconds_max):  # being watched takes time of its own
        peak = peak_bytes(lambda: judge(target, raw))
    if peak <= target.memory_bytes_max:
        return None
    # Caches that a first run fills are none of one input's making.
    again = peak_bytes(lambda: judge(target, raw))
    if again <= target.memory_bytes_max:
        return None
    return FuzzViolation("allocation", f"{target.memory_bytes_max} bytes at most, at once", f"{again} bytes")


def hang_of(target: Target) -> FuzzViolation:
    """Return the breach of an input that was not judged in its time."""
    return FuzzViolation("hang", f"an end within {target.cpu_seconds_max:g} s of CPU time", "none")


def breach_of(error: Exception) -> FuzzViolation:
    """Return the breach that an error is, which no judging may end in."""
    most = _TEXT_CHARACTERS_MAX
    if isinstance(error, TargetViolation):
        return FuzzViolation(error.kind, error.expected[:most], error.found[:most])
    if isinstance(error, MemoryError):
        return FuzzViolation("allocation", f"{ADDRESS_SPACE_BYTES} bytes at most, at once", "more than there are")
    name = type(error).__name__
    kind = f"crash-{name.lower()}-{_place_of(error)}"
    return FuzzViolation(kind, "an outcome, or an error that is documented", f"{name}: {error}"[:most])


def _place_of(error: Exception) -> str:
    """Return module and function of ours that an error came from."""
    place = "unknown"
    for frame, _ in walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_OWN):
            place = f"{module.rpartition('.')[2]}.{frame.f_code.co_name.strip('<>')}"
    return place


ADDRESS_SPACE_BYTES = 1 << 28
_PAGE_BYTES = resource.getpagesize()
_STATUS = "/proc/self/statm"


@contextmanager
def address_space_limited(more_bytes: int = ADDRESS_SPACE_BYTES) -> Iterator[None]:
    """Refuse the process more than so many bytes beyond what it has, while a block lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open(_STATUS, encoding="ascii") as status:
        used_bytes = int(status.read().split()[0]) * _PAGE_BYTES
    limit = used_bytes + more_bytes
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def peak_bytes(run: Callable[[], object]) -> int:
    """Return how much memory run had allocated at its worst moment, beyond what was there before it."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

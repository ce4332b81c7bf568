"""Judging: decides whether an input violates a guarantee, and stores the failure.

Each guarantee of a target has its own signature. Other signatures are `hang`, `allocation`, and `crash-...` with the
type of an undocumented error and the function that raised it.

Memory has two limits. The process may grow by at most ADDRESS_SPACE_BYTES, so a huge allocation raises MemoryError. For
each input with a new outcome and some other inputs, the peak of allocated memory is measured. This finds allocations
that are too large for a small input but small for the machine.

A failure is an artefact (`faults.simulation.artefact`) of the kind "fuzz", with bytes in base64.
"""

import resource
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import walk_tb

from ...faults.simulation.artefact import FUZZ, read_artefact, write_artefact
from ...sim.process import CpuLimitReached, cpu_limit
from .target import InputOutcome, Target, TargetViolation

_TEXT_CHARACTERS_MAX = 2000
_OWN = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class FuzzViolation:
    """A violated guarantee of a target."""

    signature: str
    """The kind of violation. Inputs with equal signatures are the same bug."""
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.signature}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class FuzzFailure:
    """A violation, with the inputs that cause it."""

    target: str
    seed: int
    mutant: str | None
    number: int
    """Counted from 1."""
    breach: FuzzViolation
    raw: bytes
    """The smallest known input with the violation."""
    original: bytes

    @property
    def name(self) -> str:
        """The name of the failure file: format and signature."""
        return f"fuzz-{self.target}-{self.breach.signature}"

    def to_json(self) -> str:
        return write_artefact(FUZZ, self)

    @classmethod
    def from_json(cls, text: str) -> "FuzzFailure":
        """Raises ArtefactError."""
        return read_artefact(text, FUZZ, cls)


def judge_input(target: Target, raw: bytes) -> InputOutcome | FuzzViolation:
    """Judge an input. Raises CpuLimitReached if the input exceeds the caller's CPU limit."""
    try:
        return target.check(raw)
    except Exception as error:
        return violation_of_error(error)


def judge_within_limits(target: Target, raw: bytes) -> InputOutcome | FuzzViolation:
    try:
        with cpu_limit(target.cpu_seconds_max):
            judged = judge_input(target, raw)
        if isinstance(judged, FuzzViolation):
            return judged
        return memory_violation(target, raw) or judged
    except CpuLimitReached:
        return hang_violation(target)


def memory_violation(target: Target, raw: bytes) -> FuzzViolation | None:
    with cpu_limit(4 * target.cpu_seconds_max):  # tracing of allocations is slow
        peak = peak_memory_bytes(lambda: judge_input(target, raw))
    if peak <= target.memory_bytes_max:
        return None
    # The first run may have allocated more to fill caches.
    again = peak_memory_bytes(lambda: judge_input(target, raw))
    if again <= target.memory_bytes_max:
        return None
    return FuzzViolation("allocation", f"{target.memory_bytes_max} bytes at most, at once", f"{again} bytes")


def hang_violation(target: Target) -> FuzzViolation:
    return FuzzViolation("hang", f"an end within {target.cpu_seconds_max:g} s of CPU time", "none")


def violation_of_error(error: Exception) -> FuzzViolation:
    most = _TEXT_CHARACTERS_MAX
    if isinstance(error, TargetViolation):
        return FuzzViolation(error.kind, error.expected[:most], error.found[:most])
    if isinstance(error, MemoryError):
        return FuzzViolation("allocation", f"an allocation of at most {ADDRESS_SPACE_BYTES} bytes", "a larger one")
    name = type(error).__name__
    kind = f"crash-{name.lower()}-{_innermost_function(error)}"
    return FuzzViolation(kind, "a result or a documented error", f"{name}: {error}"[:most])


def _innermost_function(error: Exception) -> str:
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
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open(_STATUS, encoding="ascii") as status:
        used_bytes = int(status.read().split()[0]) * _PAGE_BYTES
    assert more_bytes > 0, more_bytes
    limit = used_bytes + more_bytes
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def peak_memory_bytes(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

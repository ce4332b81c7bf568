"""Fuzzing loop: mutates inputs, judges them, and keeps inputs with a new outcome.

The same seed and corpus make the same inputs. Only the end of the loop depends on the clock.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from ...sim.process import CpuLimitReached, cpu_limit
from ...sim.shrink import ShrinkSearch
from .judging import FuzzViolation, judge_within_limits, memory_violation, violation_of_error
from .mutation import Draw
from .shape import ShapePart
from .target import InputOutcome, Target

INPUTS_MAX = 512
FRESH_CHANCE = 0.25
"""Probability that a round starts with a new valid input."""
HANGS_MAX = 3
"""Maximum number of hanging inputs in a run, because each one takes seconds."""
MEASURED_EVERY = 1024
"""Of the inputs with known outcomes, one in this number gets a memory measurement."""
TRIES_MAX = 1500
_BYTEWISE_MAX = 4096
"""Minimisation removes single bytes from inputs up to this length, and blocks from longer inputs."""
_PIECES = 64


class Corpus:
    """The saved inputs of one format, in order of discovery."""

    def __init__(self) -> None:
        self.inputs: list[bytes] = []
        self._seen: set[InputOutcome] = set()

    @property
    def outcomes(self) -> int:
        return len(self._seen)

    def add_if_new(self, outcome: InputOutcome, raw: bytes) -> bool:
        """Add an input with a new outcome unless the corpus is full. Return whether the outcome is new."""
        if outcome in self._seen:
            return False
        self._seen.add(outcome)
        assert len(self.inputs) < len(self._seen), "a corpus has at most one input for each outcome"
        if len(self.inputs) < INPUTS_MAX:
            self.inputs.append(raw)
        return True


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first input with a given violation."""

    breach: FuzzViolation
    raw: bytes
    number: int
    """Counted from 1."""


@dataclass(slots=True)
class FuzzTally:
    """Counts and findings of one format."""

    inputs: int = 0
    accepted: int = 0
    broken: int = 0
    corpus: Corpus = field(default_factory=Corpus)
    found: dict[str, FirstFailure] = field(default_factory=dict)

    @property
    def refused(self) -> int:
        return self.inputs - self.accepted - self.broken

    def counts(self) -> dict[str, int]:
        assert 0 <= self.accepted + self.broken <= self.inputs, (self.accepted, self.broken, self.inputs)
        own = {name: getattr(self, name) for name in ("inputs", "accepted", "refused", "broken")}
        return own | {"outcomes": self.corpus.outcomes, "corpus": len(self.corpus.inputs)}

    def add_violation(self, breach: FuzzViolation, raw: bytes, number: int) -> None:
        """Count a violation. Save the first input of each kind of violation."""
        self.broken += 1
        self.found.setdefault(breach.signature, FirstFailure(breach, raw, number))


class Fuzzer:
    """Fuzzes one target with one seed."""

    def __init__(self, target: Target, seed: int) -> None:
        self.tally = FuzzTally()
        self._target = target
        self._draw = Draw(f"fuzz/{target.name}/{seed}")
        self._current = b""
        self._hangs = 0
        self._measured = 0
        """The number of the last input with a memory measurement."""
        self._to_measure: list[tuple[int, bytes]] = []

    def judge_inputs(self, inputs: Iterable[bytes]) -> None:
        """Judge inputs without mutation, such as those of an earlier run."""
        self._judge_all(inputs)

    def run(self, inputs_max: int | None, stop: Callable[[], bool] = lambda: False) -> None:
        """Judge up to inputs_max inputs. End early after HANGS_MAX hangs, or if stop() returns true between rounds."""
        tally, children = self.tally, self._target.children
        while self._hangs < HANGS_MAX and not stop():
            left = children if inputs_max is None else min(children, inputs_max - tally.inputs)
            before = tally.inputs
            if left <= 0:
                return
            self._judge_all(self._mutated_inputs(left))
            assert tally.inputs > before, "a round without inputs would never end"

    def _mutated_inputs(self, count: int) -> Iterator[bytes]:
        """Yield `count` mutated copies of one input, after the input itself if it is new."""
        target, draw, others = self._target, self._draw, self.tally.corpus.inputs
        if not others or draw.chance(FRESH_CHANCE):
            parent = target.valid_input(draw)
            yield parent
            count -= 1
        else:
            parent = draw.choice(others)
        shape, mutate = target.shape(parent), target.mutate
        for _ in range(count):
            yield mutate(parent, shape, draw, others)

    def _judge_all(self, inputs: Iterable[bytes]) -> None:
        """Judge inputs. Abort hanging inputs."""
        left = iter(inputs)
        has_left = True
        while has_left and self._hangs < HANGS_MAX:
            try:
                self._judge_each(left)
                has_left = False
            except CpuLimitReached:
                self._hangs += 1
                assert self._hangs <= HANGS_MAX, self._hangs
                alone = judge_within_limits(self._target, self._current)
                if isinstance(alone, FuzzViolation):
                    self.tally.add_violation(alone, self._current, self.tally.inputs)
        for number, raw in self._to_measure:
            breach = memory_violation(self._target, raw)
            if breach is not None:
                self.tally.add_violation(breach, raw, number)
        self._to_measure.clear()

    def _judge_each(self, inputs: Iterator[bytes]) -> None:
        tally, check = self.tally, self._target.check
        is_new, to_measure = tally.corpus.add_if_new, self._to_measure
        inputs_between_measurements = self._target.inputs_between_measurements
        with cpu_limit(self._target.cpu_seconds_max) as begin_anew:
            for raw in inputs:
                self._current = raw
                tally.inputs += 1
                begin_anew()
                try:
                    outcome = check(raw)
                except Exception as error:
                    tally.add_violation(violation_of_error(error), raw, tally.inputs)
                    continue
                tally.accepted += outcome.accepted
                apart = inputs_between_measurements if is_new(outcome, raw) else MEASURED_EVERY
                if tally.inputs >= self._measured + apart:
                    self._measured = tally.inputs
                    to_measure.append((tally.inputs, raw))


def read_inputs(directory: Path) -> Iterator[bytes]:
    """Yield the input files in a directory, sorted by name. A missing directory counts as empty."""
    for path in sorted(directory.glob("*.bin")):
        yield path.read_bytes()


def write_inputs(corpus: Corpus, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for raw in corpus.inputs:
        path = directory / f"{blake2b(raw, digest_size=8).hexdigest()}.bin"
        if not path.exists():
            path.write_bytes(raw)


def minimised_input(
    target: Target,
    raw: bytes,
    breach: FuzzViolation,
    *,
    tries_max: int = TRIES_MAX,
    stop: Callable[[], bool] = lambda: False,
) -> bytes:
    """Return the smallest found input with the same violation signature as `raw`."""

    def still_breaks(candidate: bytes) -> bytes | None:
        judged = judge_within_limits(target, candidate)
        is_same = isinstance(judged, FuzzViolation) and judged.signature == breach.signature
        return candidate if is_same else None

    search = ShrinkSearch(raw, still_breaks, tries_max=tries_max, stop=stop)
    before = None
    while before != search.best and not search.is_over:
        before = search.best
        search.drop_parts(lambda candidate: target.shape(candidate).parts, _part_remover(target))
        if not target.keeps_length:
            search.lower_value(len(search.best), 0, lambda candidate, length: candidate[:length])
            search.drop_parts(_equal_pieces, _join_pieces)
        search.drop_parts(_nonzero_pieces, _zero_other_pieces)
    assert len(search.best) <= len(raw), (len(search.best), len(raw))
    return search.best


def _part_remover(target: Target) -> Callable[[bytes, Sequence[ShapePart]], bytes]:
    """Return a function that removes parts from a candidate, but no bytes between parts."""

    def keep(candidate: bytes, kept: Sequence[ShapePart]) -> bytes:
        wanted, pieces, at = set(kept), [], 0
        for part in sorted(target.shape(candidate).parts):
            if part not in wanted:
                pieces.append(candidate[at : part.start])
                at = max(at, part.end)
        return b"".join((*pieces, candidate[at:]))

    return keep


def _equal_pieces(candidate: bytes) -> list[ShapePart]:
    length = len(candidate)
    step = 1 if length <= _BYTEWISE_MAX else -(-length // _PIECES)
    return [ShapePart(at, min(at + step, length)) for at in range(0, length, step)]


def _join_pieces(candidate: bytes, kept: Sequence[ShapePart]) -> bytes:
    return b"".join(candidate[start:end] for start, end in kept)


def _nonzero_pieces(candidate: bytes) -> list[ShapePart]:
    return [part for part in _equal_pieces(candidate) if any(candidate[part.start : part.end])]


def _zero_other_pieces(candidate: bytes, kept: Sequence[ShapePart]) -> bytes:
    data = bytearray(len(candidate))
    for start, end in kept:
        data[start:end] = candidate[start:end]
    return bytes(data)

"""Inputs worth breaking further: the first of each outcome. Kept in files, one each, named by their digest."""

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from .target import InputOutcome

INPUTS_MAX = 512


class Corpus:
    """The inputs of one format, in order of their finding."""

    def __init__(self) -> None:
        self.inputs: list[bytes] = []
        self._seen: set[InputOutcome] = set()

    @property
    def outcomes(self) -> int:
        """Return how many different outcomes there were."""
        return len(self._seen)

    def note(self, outcome: InputOutcome, raw: bytes) -> bool:
        """Return whether an outcome is new, and keep its input then as long as there is room."""
        if outcome in self._seen:
            return False
        self._seen.add(outcome)
        if len(self.inputs) < INPUTS_MAX:
            self.inputs.append(raw)
        return True


def read_inputs(directory: Path) -> Iterator[bytes]:
    """Yield the inputs in a directory in order of their names; none if there is no such directory."""
    for path in sorted(directory.glob("*.bin")):
        yield path.read_bytes()


def write_inputs(corpus: Corpus, directory: Path) -> None:
    """Write the inputs of a corpus that are not there yet."""
    directory.mkdir(parents=True, exist_ok=True)
    for raw in corpus.inputs:
        path = directory / f"{blake2b(raw, digest_size=8).hexdigest()}.bin"
        if not path.exists():
            path.write_bytes(raw)

"""Evidence: what a checker gets to see, what it says, and what services know of their trouble.

    dispatch: at 4096 of 8192; last error: OSError: [Errno 5] ... (store/queues/dispatch.py:132 in _dispatch_segment)

Such a text is for who reads a failure. Line numbers move with the code, so none of it is compared when a run is
repeated.
"""

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any, Protocol

from ...store.message_store import MessageStore
from .ledger import Ledger
from .recovered import RecoveredStore

_NO_NAME = re.compile(r"[ /\\:]")


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: where, what should be there, what is."""

    invariant: str
    summary: str
    file: str = ""
    offset: int = -1
    field: str = ""
    expected: str = ""
    found: str = ""
    detail: str = dataclasses.field(default="", compare=False)
    """Lines for who reads it: what services know of their trouble, where in the store an error arose."""

    def __str__(self) -> str:
        """Return one line."""
        place = f" ({self.file} @ {self.offset})" if self.file else ""
        facts = ", ".join(f"{name} {text}" for name, text in self.facts)
        return f"{self.invariant}: {self.summary}{place}" + (f": {self.field}: {facts}" if facts else "")

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Return the expectation and the finding under their names, without an empty one."""
        return [(name, text) for name, text in (("expected", self.expected), ("found", self.found)) if text]

    @property
    def signature(self) -> str:
        """Return what makes two violations the same bug to a reader: the promise and the kind of breach.

        It names files, too: what may not stand in such a name, as in a queue's, does not.
        """
        return _NO_NAME.sub("-", f"{self.invariant}-{self.field or 'broken'}".lower())

    def to_json(self) -> dict[str, Any]:
        """Return the violation as JSON takes it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Evidence:
    """A store after recovery, beside what its users were answered."""

    ledger: Ledger
    store: RecoveredStore


_collecting: list[set[str]] = []


def tried(invariant: str) -> None:
    """Note, for whoever collects, that an invariant was checked on something that could have broken it.

    It stands in the checker, where there is something to compare: a promise counts as held in such runs only.
    """
    if _collecting:
        _collecting[-1].add(invariant)


@contextmanager
def tries_collected() -> Iterator[set[str]]:
    """Collect the invariants that are tried inside a `with` block, into the innermost block's set."""
    names: set[str] = set()
    _collecting.append(names)
    try:
        yield names
    finally:
        _collecting.pop()


class Invariant(Protocol):
    """A checker: a function that reads the evidence and yields every violation."""

    def __call__(self, evidence: Evidence) -> Iterator[Violation]:
        """Check."""


_STORE = f"{__name__.partition('.')[0]}.store."


def place_of(error: BaseException) -> str:
    """Return file, line and function of the innermost frame of the store that an error came through, empty if none.

    A frame that only checks or decodes for another is one, too: it is where the error arose.
    """
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_STORE):
            file = module.partition(".")[2].replace(".", "/")
            place = f"{file}.py:{line} in {frame.f_code.co_name}"
    return place


def error_text(error: BaseException) -> str:
    """Return an error with its place."""
    place = place_of(error)
    return f"{type(error).__name__}: {error}" + (f" ({place})" if place else "")


def services_text(store: MessageStore, named: str = "") -> str:
    """Return a line for a service that is late and for each other that has met an error: how far it came, and which.

    named: the late one, as its task is named; empty if it is none of these.
    """
    lines = []
    for name, progress, error in _services(store):
        if name == named or error is not None:
            last = "none" if error is None else error if isinstance(error, str) else error_text(error)
            lines.append(f"{name}: {progress}; last error: {last}" if progress else f"{name}: last error: {last}")
    if not store.flags.is_writeable:
        lines.append("the store takes no puts any more")
    return "\n".join(lines)


def _services(store: MessageStore) -> Iterator[tuple[str, str, BaseException | str | None]]:
    """Yield name, progress and last error of every service of a store that can be late."""
    log, end = store.log, store.log.max_offset
    schedule, index = store.schedule, store.index
    yield (
        "dispatch",
        f"at {store.dispatch.reput_from.get()} of {store.dispatch.readable_limit()}",
        store.dispatch.last_error,
    )
    yield store.flush.name, f"flushed to {log.flushed_where.get()} of {end}", None
    if store.commit is not None:
        last = log.last()
        wrote = end if last is None else last.base_offset + last.wrote.get()
        yield store.commit.name, f"committed to {end} of {wrote}", store.commit.last_error
    yield store.flush_queues.name, "", store.flush_queues.last_error
    if index is not None:
        yield "index", f"at {index.last_update[1]}", index.last_error
    delivered = ", ".join(f"level {level} at {offset}" for level, offset in sorted(schedule.offsets.items()))
    answer = schedule.last_error or (None if schedule.last_answer.value == "PUT_OK" else schedule.last_answer.value)
    yield schedule.name, delivered, answer

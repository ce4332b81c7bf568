"""Artefacts: files that store failures, as a typed document in a common envelope.

    format     "tornlog-failure/3"
    kind       the kind of program; `REPLAYED_BY` has its replay command
    versions   versions of tornlog and Python
    failure    the document; its record has these members:
                 crashes    the process runs that crashed: [name, profile, moment, point]
                 schedule   task switches that differ from "run until blocked", one line each (sim.schedule)
                 decisions  random choices other than 0: stream -> [[label, nth, options, value], ...] (sim.choices)

Documents are dataclasses. msgspec checks a file against their types when it is read.
"""

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from ... import __version__
from ...sim.choices import decisions_from_record, decisions_to_record
from ...sim.schedule import ScheduleError, parse_switch
from ..crashes.profiles import PROFILES
from ..disk.fault_injector import MOMENTS, CrashPoint
from .record import Record, Setup
from .simulation import Crash

T = TypeVar("T")

FORMAT = "tornlog-failure/3"
SCENARIO, OWN_CODE, FUZZ, PROBE, COMPARE = "scenario", "own code", "fuzz", "probe", "compare"
REPLAYED_BY: Mapping[str, str] = {
    SCENARIO: "tornlog replay FILE",
    OWN_CODE: "tornlog.faults.simulation.trials.replay, or pytest --tornlog-replay FILE",
    FUZZ: "tornlog fuzz --replay FILE",
    PROBE: "tornlog probe --replay FILE",
    COMPARE: "python -m tests.conformance --replay FILE",
}
_OLDER = re.compile(r"tornlog-(failure|finding|fuzz-finding|probe-failure|compare-failure)/[12]")
_FLAT = re.compile(r'\[\n\s+("(?:[^"\\]|\\.)*"(?:,\n\s+(?:"(?:[^"\\]|\\.)*"|-?\d+)){3})\n\s+\]')
"""The four values of a decision or crash, indented by `json`. `write_artefact` joins them to one line."""
_BREAK = re.compile(r"\n\s+")
"""A line break with its indent. JSON strings escape line breaks, so the pattern cannot match inside them."""
_PLACE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<place>.*)`")


class ArtefactError(ValueError):
    """The text is no artefact of the expected kind. The message has the field, the expected and the found value."""


@dataclass(frozen=True, slots=True)
class RecordDocument:
    """A record without the program's setup, a separate member of the document."""

    crashes: list[Crash]
    schedule: list[str]
    decisions: dict[str, list[tuple[str, int, int, int]]]


def write_artefact(kind: str, failure: object, *, test: str = "") -> str:
    """Return the text of an artefact. test: the failed pytest test, relative to the root directory of pytest."""
    assert kind in REPLAYED_BY, kind
    versions = {"tornlog": __version__, "python": platform.python_version()}
    envelope: dict[str, Any] = {"format": FORMAT, "kind": kind, "versions": versions}
    if test:
        envelope["test"] = test
    envelope["failure"] = msgspec.to_builtins(failure)
    text = json.dumps(envelope, indent=1)
    return _FLAT.sub(lambda entry: f"[{_BREAK.sub(' ', entry[1])}]", text)


def read_artefact(text: str, kind: str, document: type[T]) -> T:
    """Return the document of an artefact. ArtefactError: the text is no artefact of this kind."""
    envelope = read_envelope(text)
    found = envelope.get("kind")
    if found != kind:
        help_text = f": replay it by {REPLAYED_BY[found]}" if isinstance(found, str) and found in REPLAYED_BY else ""
        raise ArtefactError(f"kind: expected {kind}, found {found}{help_text}")
    return parse_document(envelope.get("failure"), document, "failure")


def read_envelope(text: str) -> dict[str, Any]:
    """Return the members of an artefact of any kind. ArtefactError: the text is no artefact."""
    try:
        envelope = json.loads(text)
    except ValueError as error:
        raise ArtefactError(f"not JSON: {error}") from error
    found = envelope.get("format") if isinstance(envelope, dict) else type(envelope).__name__
    if found != FORMAT:
        older = isinstance(found, str) and _OLDER.fullmatch(found)
        hint = " (written by an earlier version: replay it there, or run its seed here)" if older else ""
        raise ArtefactError(f"format: expected {FORMAT}, found {found}{hint}")
    return dict(envelope)


def parse_document(values: object, document: type[T], place: str) -> T:
    """Convert values to a document. ArtefactError: the first value of a wrong type."""
    try:
        return msgspec.convert(values, document)
    except msgspec.ValidationError as error:
        found = _PLACE.fullmatch(str(error))
        where, what = (f"{place}.{found['place']}", found["what"]) if found else (place, str(error))
        raise ArtefactError(f"{where}: {what}") from error


def document_of(record: Record[Setup]) -> RecordDocument:
    decisions = {
        stream: [(label, nth, options, value) for label, nth, options, value in entries]
        for stream, entries in decisions_to_record(record.decisions).items()
    }
    return RecordDocument(list(record.crashes), [str(switch) for switch in record.schedule], decisions)


def record_from(document: RecordDocument, setup: Setup) -> Record[Setup]:
    """Return the record of a document. ArtefactError: the first invalid entry."""
    switches = []
    for number, line in enumerate(document.schedule):
        try:
            switches.append(parse_switch(line))
        except ScheduleError as error:
            raise ArtefactError(f"schedule.{number}: {error}") from error
    for number, crash in enumerate(document.crashes):
        _check_crash(f"crashes.{number}", crash)
    return Record(tuple(decisions_from_record(document.decisions)), tuple(switches), tuple(document.crashes), setup)


def _check_crash(place: str, crash: Crash) -> None:
    if crash.profile not in PROFILES:
        raise ArtefactError(f"{place}: expected a profile, found {crash.profile}")
    if crash.moment not in MOMENTS:
        raise ArtefactError(f"{place}: expected one of {', '.join(MOMENTS)}, found {crash.moment}")
    try:
        if crash.point:
            CrashPoint.parse(crash.point)
    except ValueError as error:
        raise ArtefactError(f"{place}: {error}") from error

"""Message histories: list the events of a message from its put to the last recovery.

A story uses only the recording, and finds events by the byte range of the message.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...scenarios.claims.machine import ROOT
from .recording.record import ABSENT, CUT_OFF, DISPATCHED, LOST, MIXED, Cut, OperationRecord, Put, RunRecording

GOOD, BAD, PLAIN = "good", "bad", "plain"
_WRITES = ("store", "pwrite", "write")
_SYNCS = ("msync", "fdatasync", "sync")
_HARMLESS = ("process-kill", "nothing-lost")
_OK = "PUT_OK"
_ZEROS = re.compile(r"(?<![0-9])0{3,}(?=[0-9])")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_KINDS = {"process-kill": "process kill", "os-crash": "crash of the system", "nothing-lost": "crash, nothing lost"}


class Line(NamedTuple):
    """tone: GOOD, BAD or PLAIN."""

    at: int
    text: str
    tone: str


class Storyteller:
    """Creates the stories of the messages of one run."""

    def __init__(self, run: RunRecording) -> None:
        self._run = run
        self._by_path: dict[str, list[OperationRecord]] = {}
        for operation in run.operations:
            self._by_path.setdefault(operation.path, []).append(operation)
        self._dispatched = [one for one in run.positions if one.name == DISPATCHED]

    def story(self, number: int) -> list[Line]:
        put = self._run.puts[number]
        lines = [self._request_line(put)]
        written = self._write_of_record(put)
        syncs: list[OperationRecord] = []
        if written is not None:
            place = f"{shorten_paths(put.path)} [{put.start}, {put.stop})"
            what = "the machine crashes while the record is written" if written.ending else "the record is written"
            lines.append(Line(written.begin, f"{what}: {place}", PLAIN))
            syncs = list(self._syncs_of_record(put, written))
            lines += [*self._name_durability_line(put, written), *map(_sync_line, syncs), *self._visibility_line(put)]
            lines += [
                self._cut_line(number, put, cut)
                for cut in self._run.cuts
                if cut.at > written.begin and _was_found_last(put, cut.at)
            ]
        lines += self._answer_line(put, durable=any(not one.ending and one.end <= put.answered for one in syncs))
        lines += self._recovery_lines(put)
        lines += [
            Line(broken.at, f"{broken.violation.invariant}: {broken.violation.summary}", BAD)
            for broken in self._run.broken
            if number in broken.puts
        ]
        assert all(0 <= line.at < len(self._run.moments) for line in lines), lines
        return sorted(lines, key=lambda line: line.at)

    def _request_line(self, put: Put) -> Line:
        who = task_name_text(self._run.tasks[put.task].name)
        wait = "" if put.wait else ", without waiting for the disk"
        return Line(put.asked, f"{who} puts the message into {put.topic}/{put.queue_id}{wait}", PLAIN)

    def _write_of_record(self, put: Put) -> OperationRecord | None:
        """Return the write that completed the record in the page cache.

        Warm-up writes of one byte per page do not count.
        """
        reached = put.start
        for one in self._by_path.get(put.path, ()):
            if one.kind not in _WRITES or one.begin <= put.asked or one.ending not in ("", CUT_OFF):
                continue
            if one.start <= reached < one.stop:
                reached = one.stop
            if reached >= put.stop:
                return one
        return None

    def _name_durability_line(self, put: Put, written: OperationRecord) -> Iterator[Line]:
        made = [one for one in self._by_path[put.path] if "create" in one.parts and one.begin < written.begin]
        if not made:
            return
        directory = put.path.rpartition("/")[0]
        yield Line(made[-1].begin, f"the file is created: {shorten_paths(put.path)}", PLAIN)
        until = self._first_loss(made[-1].begin)
        for one in self._by_path.get(directory, ()):
            if one.kind == "sync directory" and made[-1].begin < one.begin < until and not one.ending:
                yield Line(one.end, f"the file's name is durable: {shorten_paths(directory)} is synced", GOOD)
                return
        if until < len(self._run.moments):
            text = f"{shorten_paths(directory)} is not synced from here on: the file's name is not durable"
            yield Line(made[-1].end, text, BAD)

    def _first_loss(self, since: int) -> int:
        cuts = (cut.at for cut in self._run.cuts if cut.at > since and cut.how not in _HARMLESS)
        return next(cuts, len(self._run.moments))

    def _syncs_of_record(self, put: Put, written: OperationRecord) -> Iterator[OperationRecord]:
        """Yield the syncs of a record, up to the first success or the next loss of the page cache."""
        page_bytes, until = self._run.page_bytes, self._first_loss(written.begin)
        for one in self._by_path[put.path]:
            if one.kind not in _SYNCS or not written.end <= one.begin < until:
                continue
            start, stop = one.start // page_bytes * page_bytes, -(-one.stop // page_bytes) * page_bytes
            if one.kind == "msync" and not start <= put.start < put.stop <= stop:
                continue
            yield one
            if not one.ending:
                return

    def _visibility_line(self, put: Put) -> Iterator[Line]:
        end = put.log_offset + put.stop - put.start
        for position in self._dispatched if put.log_offset >= 0 else ():
            if position.at > put.asked and position.value >= end:
                yield Line(position.at, "the record is dispatched: consumers can read the message", PLAIN)
                return

    def _answer_line(self, put: Put, *, durable: bool) -> Iterator[Line]:
        if put.answered < 0:
            if put.status == CUT_OFF:
                died = next((cut.at for cut in self._run.cuts if cut.at > put.asked), put.asked)
                yield Line(died, "the producer crashes before it gets an answer", PLAIN)
        elif put.status != _OK:
            yield Line(put.answered, f"answered {put.status}", PLAIN)
        elif self._run.plan is None or not self._run.plan.sync_flush or not put.wait:
            yield Line(put.answered, "answered PUT_OK, which promises only the page cache", PLAIN)
        elif durable:
            yield Line(put.answered, "answered PUT_OK, after the sync", GOOD)
        else:
            yield Line(put.answered, "answered PUT_OK, before any sync covered it", BAD)

    def _cut_line(self, number: int, put: Put, cut: Cut) -> Line:
        what = cut_text(cut)
        found = next((file for file in cut.files if file.path == put.path), None)
        if found is None or not found.after:
            return Line(cut.at, what, PLAIN)
        sector_bytes = self._run.sector_bytes
        letters = found.after[put.start // sector_bytes : -(-put.stop // sector_bytes)]
        if number not in cut.damaged:
            return Line(cut.at, f"{what}: the record survives", GOOD)
        if found.bytes_after < 0:
            return Line(cut.at, f"{what}: the file loses its name and disappears", BAD)
        if ABSENT in letters:
            return Line(cut.at, f"{what}: the file loses its length, and with it the record", BAD)
        gone = sum(letter in (LOST, MIXED) for letter in letters)
        sectors = f"{gone} of {len(letters)} sectors lose" if len(letters) > 1 else "its sector loses"
        return Line(cut.at, f"{what}: {sectors} the record's bytes", BAD)

    def _recovery_lines(self, put: Put) -> Iterator[Line]:
        for outcome in put.outcomes if put.path else ():
            recovery = f"the recovery of {outcome.machine}"
            if outcome.returned:
                yield Line(outcome.at, f"{recovery} finds the record, although an earlier recovery did not", BAD)
            elif outcome.found:
                yield Line(outcome.at, f"{recovery} finds the record", GOOD)
            elif outcome.promised:
                yield Line(outcome.at, f"{recovery} does not find the record, although the message was promised", BAD)
            else:
                yield Line(outcome.at, f"{recovery} does not find the record; the message was not promised", PLAIN)


def _was_found_last(put: Put, at: int) -> bool:
    """Return whether the last recovery before a moment found the put; True without a recovery."""
    found = [outcome.found for outcome in put.outcomes if outcome.at < at]
    return not found or found[-1]


def _sync_line(sync: OperationRecord) -> Line:
    name = f"{sync.kind} of {shorten_paths(sync.path)}"
    if not sync.ending:
        return Line(sync.end, f"the record is durable: {name}", GOOD)
    if sync.ending == CUT_OFF:
        return Line(sync.begin, f"the crash interrupts a sync: {name}", BAD)
    return Line(sync.end, f"a sync of the record fails: {name}", BAD)


def last_changes(operations: Iterable[OperationRecord], path: str, count: int) -> list[OperationRecord]:
    """Return the last `count` changes and syncs of a file; without a path, of all files."""
    known = (*_WRITES, *_SYNCS)
    found = [one for one in operations if path in ("", one.path) and (one.parts or one.kind in known)]
    return found[-count:]


def shorten_paths(text: str) -> str:
    """Make paths relative to the store; replace leading zeros in file names, and unprintable characters."""
    return printable_text(_ZEROS.sub("…", text.replace(f"{ROOT}/", "")))


def printable_text(text: str) -> str:
    return _UNPRINTABLE.sub("·", text)


def task_name_text(name: str) -> str:
    return name.partition("/")[2] or name


def cut_text(cut: Cut) -> str:
    kind = _KINDS.get(cut.how) or (f"power cut ({cut.how})" if cut.how and " " not in cut.how else cut.how)
    place = f", {cut.when} {cut.operation} {shorten_paths(cut.path)}" if cut.operation else ""
    return f"{kind or 'the machine crashes'}{place}"

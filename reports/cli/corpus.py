"""Corpus: stores the failures of earlier runs, which the next run tries first.

A directory (`.tornlog` by default) has one file per command: `{"format": "tornlog-corpus/1", "failures": [{"subject",
"case", "passes"}]}`. subject: the tested item, such as a program with its arguments. case: a text that names a seed or
a crash point. passes: number of consecutive tries without a failure. Git ignores the directory because of its own
.gitignore, as with `.pytest_cache`; CI caches it between runs.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..quantities import count_text
from .console import print_note

PASSES_MAX = 3
"""After this number of consecutive tries without a failure, a case is dropped."""
_FORMAT = "tornlog-corpus/1"
_CASES_MAX = 100
"""Maximum number of cases per subject."""


class _Entry(msgspec.Struct):
    subject: str
    case: str
    passes: int = 0


class _Document(msgspec.Struct):
    format: str
    failures: list[_Entry]


@dataclass(slots=True)
class CorpusOutcome:
    """The results of the stored cases of one subject."""

    place: Path
    tried: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    """Cases that were dropped after PASSES_MAX passes."""
    gone: list[str] = field(default_factory=list)
    """Stored cases that no longer exist in this program."""

    @property
    def lines(self) -> list[str]:
        """Return sentences for the terminal, or none if no case was stored."""
        lines = []
        if self.tried:
            lines.append(
                f"{count_text(len(self.tried), 'case')} of {self.place} tried first: {len(self.failed):,} failed again"
            )
        lines += [f"dropped from {self.place}: {one}, passed {PASSES_MAX} times in a row" for one in self.dropped]
        lines += [f"dropped from {self.place}: {one}, which this run does not have" for one in self.gone]
        return lines

    @property
    def verdict(self) -> str:
        """Return the clause of a verdict that counts repeated failures, or ""."""
        return f"{count_text(len(self.failed), 'failure')} from {self.place}" if self.failed else ""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("tried", "failed", "dropped", "gone")}


class FailureCorpus:
    """The stored failures of one command. place: the directory; None: no corpus is used."""

    def __init__(self, place: Path | None, command: str) -> None:
        assert command in ("probe", "run"), command
        self._place = place
        self._path = None if place is None else place / f"{command}.json"
        self._entries = self._read()

    def _read(self) -> list[_Entry]:
        if self._path is None:
            return []
        try:
            document = msgspec.json.decode(self._path.read_bytes(), type=_Document)
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            print_note(f"{self._path}: expected a corpus, so a new one is started: {error}")
            return []
        if document.format != _FORMAT:
            print_note(f"{self._path}: format: expected {_FORMAT}, found {document.format}; a new corpus is started")
            return []
        return document.failures

    def cases(self, subject: str) -> list[str]:
        """Return the stored cases of a subject, oldest first."""
        return [one.case for one in self._entries if one.subject == subject]

    def record_run(
        self, subject: str, failed: Iterable[str], passed: Collection[str] = (), gone: Collection[str] = ()
    ) -> CorpusOutcome | None:
        """Record the results of a run, and write the corpus if it changes.

        failed: cases that failed, stored or new. passed: stored cases that were tried and did not fail. gone: stored
        cases that no longer exist.

        Return the results of the stored cases; None if no case was stored.
        """
        if self._place is None or self._path is None:
            return None
        failures = dict.fromkeys(failed)
        found, entries = CorpusOutcome(self._place), []
        for one in self._entries:
            if one.subject != subject:
                entries.append(one)
            elif one.case in gone:
                found.gone.append(one.case)
            elif one.case in failures:
                entries.append(_Entry(subject, one.case))
                found.tried.append(one.case)
                found.failed.append(one.case)
            elif one.case not in passed:
                entries.append(one)  # this case was not tried
            else:
                found.tried.append(one.case)
                if one.passes + 1 < PASSES_MAX:
                    entries.append(_Entry(subject, one.case, one.passes + 1))
                else:
                    found.dropped.append(one.case)
        kept = {one.case for one in entries if one.subject == subject}
        new = [case for case in failures if case not in kept][: max(0, _CASES_MAX - len(kept))]
        entries += [_Entry(subject, case) for case in new]
        if entries != self._entries:
            self._write(self._place, self._path, entries)
        return found if found.tried or found.gone else None

    def _write(self, place: Path, path: Path, entries: list[_Entry]) -> None:
        from ...scenarios.campaigns.kept_files import keep_file  # slow to import

        document = msgspec.json.format(msgspec.json.encode(_Document(_FORMAT, entries)), indent=1)
        try:
            ignored = place / ".gitignore"
            if not ignored.exists():
                keep_file(ignored, "# Made by tornlog.\n*\n")
            keep_file(path, document.decode() + "\n")
        except OSError as error:
            print_note(f"{path}: the failures are not kept: {error.strerror or error}")

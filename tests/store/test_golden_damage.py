"""Every edit that damaged a golden store is found, unless it is undetectable."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.formats.consume_queue import ENTRY_BYTES, decode_entry
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.name for path in GOLDEN.glob("14-*"))

UNDETECTABLE = {
    ("14-abn-all-commitlog-deleted", "commitlog/00000000000000098304"): "it was made ahead, and empty",
    ("14-abn-ckpt-zero", "checkpoint"): "times of 0 are those of a store that died before its first flush",
    ("14-abn-combo", "checkpoint"): "likewise",
    ("14-abn-combo", "index"): "with the index time 0, nothing says that there was an index",
    ("14-abn-first-files-deleted", "commitlog/00000000000000000000"): "the oldest segments go when they expire",
    ("14-abn-first-files-deleted", "commitlog/00000000000000016384"): "likewise",
    ("14-cln-abort-created", "abort"): "it is what an unclean exit leaves, and damages nothing",
}
"""Edits, by case and path, after which the store's state is a possible one."""

FINDING = re.compile(
    r"(?P<file>[^ ]+) @ (?P<offset>\d+): (?P<field>[^:]+): expected (?P<expected>.*), found (?P<found>.*) \["
)


@dataclass(frozen=True)
class Found:
    """A violation, or the violation that a note explains."""

    file: str
    offset: int
    field: str
    expected: str
    found: str
    cuts_the_rest: bool
    """Whether the rest of the queue is affected too."""


def findings_of(root: Path) -> list[Found]:
    findings = verify_directory(overlay_world().files, str(root), Geometry(), lambda read_bytes: None).findings
    found = []
    for text in [*map(str, findings.violations), *findings.notes]:
        match = FINDING.match(text)
        assert match is not None, text
        found.append(
            Found(
                match["file"],
                int(match["offset"]),
                match["field"],
                match["expected"],
                match["found"],
                "past the end of the log" in text,
            )
        )
    return found


class Edit:
    def __init__(self, case: Any, root: Path, damage: dict[str, Any]) -> None:
        self.path: str = damage.get("file") or damage["path"]
        self.begin: int = damage.get("pos", damage.get("to", 0))
        self.end: int = self.begin + damage["len"] if "len" in damage else 1 << 62
        self._root = root
        self._segment_bytes: int = case.manifest["config"]["mappedFileSizeCommitLog"]
        puts = case.manifest["puts"]
        columns = puts["columns"]
        at, size = columns.index("wroteOffset"), columns.index("wroteBytes")
        self._puts = [(row[at], row[at] + row[size]) for row in puts["rows"]]

    def is_found_by(self, found: Found) -> bool:
        if self.path.startswith("commitlog/") and self._name.isdecimal():
            return self._is_of_record(found)
        if self.path.startswith("consumequeue/") and self._name.isdecimal() and len(self._name) == 20:
            return self._is_of_entries(found)
        if self.path.startswith("consumequeue"):  # a queue, or all of them
            return f"in {self.path}/" in f"{found.expected}/"
        return found.file == self.path and (self.begin <= found.offset < self.end or found.field == "size")

    @property
    def _name(self) -> str:
        return self.path.rpartition("/")[2]

    def _is_of_record(self, found: Found) -> bool:
        """Return whether the finding is in the damaged put or after it, or is an entry that points there."""
        base = int(self._name)
        begin, end = base + self.begin, min(base + self.end, base + self._segment_bytes)
        begin = next((first for first, behind in self._puts if first <= begin < behind), begin)
        if found.file == self.path:
            return found.field == "file size" or begin <= base + found.offset < end
        return any(begin <= place < end for place in self._places(found))

    def _places(self, found: Found) -> list[int]:
        """Return the log offsets of a finding in a queue or the index."""
        places = [int(found.found)] if found.field == "phyOffset" and found.found.isdecimal() else []
        if found.file.startswith("consumequeue/") and found.field in ("size", "tagsCode"):
            raw = (self._root / found.file).read_bytes()
            places.append(decode_entry(raw, found.offset // ENTRY_BYTES * ENTRY_BYTES).physical_offset)
        return places

    def _is_of_entries(self, found: Found) -> bool:
        """Return whether the finding is in the queue file, about the missing entry's record, or about later entries."""
        queue, _, name = self.path.rpartition("/")
        first, behind = ((int(name) + at) // ENTRY_BYTES for at in (self.begin, self.end))
        if found.file == self.path and self.begin <= found.offset < self.end:
            return True
        if found.cuts_the_rest and found.file.startswith(f"{queue}/"):
            return (int(found.file.rpartition("/")[2]) + found.offset) // ENTRY_BYTES <= first
        missing = re.fullmatch(rf"entry (\d+) in {queue}", found.expected)
        return missing is not None and first <= int(missing[1]) < behind


@pytest.mark.parametrize("case", CASES)
def test_every_golden_damage_is_found_at_its_offset_unless_it_is_undetectable(
    golden: Callable[..., Any], case: str
) -> None:
    store = golden(case)
    found = findings_of(store.before)
    for damage in store.manifest["damage"]:
        edit = Edit(store, store.before, damage)
        hits = [one for one in found if edit.is_found_by(one)]
        assert bool(hits) != ((case, edit.path) in UNDETECTABLE), (damage, found)
        assert all(one.file and one.field and one.expected and one.found for one in hits)


def test_every_undetectable_damage_is_listed_in_a_manifest(golden: Callable[..., Any]) -> None:
    for case, path in UNDETECTABLE:
        assert path in [damage.get("file") or damage["path"] for damage in golden(case).manifest["damage"]]

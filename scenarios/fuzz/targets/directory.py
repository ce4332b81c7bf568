"""A whole store directory, broken before the store recovers it.

Recovery must end, in a store or in an error that names what is wrong with which file; every message that the store
then serves must be, byte for byte, a record that lies whole where it says; what is whole in front of the first damage
must still be there; and recovering again must change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....faults.disk.image import Image
from ....sim.process import garbage_kept
from ....store.errors import CorruptFileError
from ....store.log.recovery import RecoveryReport
from ....store.marks import collected
from ....store.message_store import MessageStore
from ....store.world import World
from ...claims.machine import ROOT
from ...oracle.recovered import content_digest, rows_digest
from ..container import HAS_EXTENSIONS, DirectoryContent, entry_parts, pack, unpack
from ..directory_changes import base_of, changed
from ..material import BORN_MS
from ..mutation import Draw
from ..served import GivenLog, check_served
from ..shape import Shape
from ..stores import made_store, run_on, settings_of
from ..target import InputOutcome, Target, TargetViolation, field_of

_LOG = "/commitlog/"


class DirectoryTarget(Target):
    """Everything below a store's root, and how it is set up."""

    name = "directory"
    children = 8
    size_bytes_max = 1 << 18
    cpu_seconds_max = 10.0
    memory_bytes_max = 32 << 20
    measured_apart = 32
    keeps_length = True

    def valid(self, draw: Draw) -> bytes:
        """Return the directory of a store that was stopped, or switched off."""
        return pack(made_store(draw))

    def shape(self, raw: bytes) -> Shape:
        """Return files and directories, as parts."""
        return Shape((), tuple(entry_parts(raw)))

    def mutate(self, raw: bytes, shape: Shape, draw: Draw, others: Sequence[bytes]) -> bytes:
        """Break some of the files, by what they are, or their names."""
        directory = unpack(raw)
        return raw if directory is None else pack(changed(directory, draw, others))

    def check(self, raw: bytes) -> InputOutcome:
        """Recover, read everything, and recover again."""
        directory = unpack(raw)
        if directory is None:
            return InputOutcome(False, "no directory")
        with garbage_kept(), collected() as hits:
            try:
                before = directory.image(ROOT, BORN_MS)
                found, image = run_on(before, lambda world: _recovered(world, directory))
            except (CorruptFileError, IsADirectoryError, NotADirectoryError) as error:
                return InputOutcome(False, f"refused {_placed(error, directory)}")
            _check_again(image, directory, found)
        return InputOutcome(not found.ways, f"{' '.join(found.ways)} {' '.join(sorted(hits))}")


class _Contents(NamedTuple):
    """Digests of what recovering again must not change."""

    rows: str
    """Of log and queues."""
    everything: str
    """Of these and the index."""


def _contents_of(store: MessageStore) -> _Contents:
    return _Contents(rows_digest(store), content_digest(store))


@dataclass(frozen=True, slots=True)
class _Found:
    """What a recovery made of a directory."""

    ways: list[str]
    """Kinds of files and fields that were found damaged."""
    contents: _Contents
    rows_may_change: bool
    """Whether there is a reason for queues and log to be others when they are recovered again.

    Where a log that had been stopped cleanly was cut, what the clean exit vouches for ends earlier from then on. Where
    damage was passed over, entries that lead into it may keep addresses in an extension that lost its units since. And
    where the scan began behind the log's beginning, the next one may begin elsewhere and see more.
    """
    index_may_change: bool
    """Whether index files were kept as they were given, unseen: what is built in their place may not be the same."""


def _recovered(world: World, directory: DirectoryContent) -> _Found:
    store, report = _loaded(world, directory)
    contents, given, log_end = _contents_of(store), GivenLog(directory.entries, report), store.max_phy_offset
    if log_end < given.whole_end():
        raise TargetViolation("lost", f"a log up to {given.whole_end()} at least", log_end)
    check_served(store, given)
    ways = sorted({_placed(finding, directory) for finding in report.findings})
    in_log = [base_of(finding.file) + finding.offset for finding in report.findings if _LOG in finding.file]
    indexes = () if store.index is None else store.index.table.files
    is_cut, passes_over = any(at >= log_end for at in in_log), any(at < log_end for at in in_log)
    return _Found(
        ways,
        contents,
        (report.clean_exit and is_cut)
        or (passes_over and bool(directory.settings & HAS_EXTENSIONS))
        or report.start_offset > max(store.min_phy_offset, 0),
        any(f"index/{file.name}" in directory.entries for file in indexes),
    )


def _loaded(world: World, directory: DirectoryContent) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(world, settings_of(directory.settings))
    return store, store.load()


def _check_again(image: Image, directory: DirectoryContent, found: _Found) -> None:
    """Recover what was recovered: it opens, and nothing may change unless there is a reason for it."""
    try:
        again, _ = run_on(image, lambda world: _contents_of(_loaded(world, directory)[0]))
    except (CorruptFileError, IsADirectoryError, NotADirectoryError) as error:
        raise TargetViolation("recovered-again", "a store that opens", error) from error
    is_same = again.rows == found.contents.rows if found.index_may_change else again == found.contents
    if not is_same and not found.rows_may_change:
        raise TargetViolation("recovered-again", f"what there was: {found.contents}", again)


def _placed(error: CorruptFileError | OSError, directory: DirectoryContent) -> str:
    """Return the kind of file and the field that an error names. Broken: that place is not in the directory."""
    file = error.file if isinstance(error, CorruptFileError) else str(error.filename)
    if not file.startswith(f"{ROOT}/"):
        raise TargetViolation("error-file", f"a path below {ROOT}", f"{file}: {error}")
    path = file.removeprefix(f"{ROOT}/")
    kind = path.partition("/")[0]
    if not isinstance(error, CorruptFileError):
        return f"{kind}.{error.strerror}"
    return f"{kind}.{field_of(error, file, len(directory.entries.get(path) or b''))}"

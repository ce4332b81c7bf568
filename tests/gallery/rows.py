"""Rows of the gallery: programs as `docs/gallery/NAME/row.toml` declares them, read and checked.

A row is a program, its settings with what each promises and what probing has to find, and its findings. What each field
means, and how a row is added, is in `docs/gallery/README.md`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

STRICT, EXT4, KILL = "strict-posix", "ext4", "process-kill"
DISKS = (STRICT, EXT4, KILL)
LOST, PART, UNUSABLE, WRONG = "lost", "part", "unusable", "wrong"
KINDS = (LOST, PART, UNUSABLE, WRONG)
KIND_WORDS = {LOST: "data lost", PART: "partial transaction", UNUSABLE: "cannot open", WRONG: "wrong data"}
"""The kinds in tables."""
POWER_CUT, PROCESS_KILL, NOTHING = "power cut", "kill", "nothing"
GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"
COMMON = GALLERY / "common"
_DECLARATION = "row.toml"
_Words = Annotated[str, msgspec.Meta(min_length=1)]


class RowError(Exception):
    """A declaration is not one; the message says where."""


class Expected(msgspec.Struct, frozen=True):
    """Kinds of breach on one disk: those that have to be met, and those that may be, as they hang on threads."""

    always: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()

    @classmethod
    def of(cls, words: Sequence[str]) -> "Expected":
        """Read kinds of breach; one with a `?` behind it may be met or not."""
        perhaps = frozenset(word.removesuffix("?") for word in words if word.endswith("?"))
        return cls(frozenset(word for word in words if not word.endswith("?")), perhaps)

    def agrees(self, found: frozenset[str]) -> bool:
        """Return whether what was found is what is expected."""
        return self.always <= found <= self.always | self.perhaps

    def __str__(self) -> str:
        words = [*sorted(self.always), *(f"({kind})" for kind in sorted(self.perhaps))]
        return " ".join(words) or "nothing"


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to run a program. arguments: of its writer; is_made: whether its data is there, durable, before."""

    arguments: tuple[_Words, ...]
    promise: Literal["power cut", "kill", "nothing"]
    """What it says that committed data survives."""
    says: _Words
    """Where it says so, in its documentation's words or ours."""
    found: dict[str, list[str]]
    """By disk, the kinds of breach that probing has to find."""
    why: _Words
    """The rule in the program that what is found follows from."""
    is_made: bool = False

    @property
    def name(self) -> str:
        """Return the name in declarations and stored results."""
        return " ".join(self.arguments) + (", made before" if self.is_made else "")

    @property
    def title(self) -> str:
        """Return the name in tables."""
        return " ".join(self.arguments) + (", existing data" if self.is_made else "")

    def expected(self, disk: str) -> Expected:
        """Return what probing has to find on a disk."""
        return Expected.of(self.found[disk])

    def promises_on(self, disk: str) -> bool:
        """Return whether it promises to keep what is committed on a disk."""
        return self.promise == POWER_CUT or (self.promise == PROCESS_KILL and disk == KILL)


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A promise that a program breaks. setting: which one shows it; confirm: a script without tornlog that does."""

    title: _Words
    setting: _Words
    disk: Literal["strict-posix", "ext4", "process-kill"]
    source: _Words
    """The place in the program's source, or in its machine code."""
    confirm: str = ""
    """A script in the folder: ends with 0 if it has shown the finding, 77 if it cannot be run here."""
    known: str = ""
    """Where it was known before, if it was."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program of the gallery."""

    title: _Words
    language: _Words
    about: _Words
    runtime: Literal["python", "go", "rust", "java", "node", "c"]
    settings: Annotated[tuple[Setting, ...], msgspec.Meta(min_length=1)]
    is_widely_used: bool
    packages: tuple[_Words, ...] = ()
    """What the runtime's own client fetches: pip and npm take requirements, Maven coordinates."""
    apt: tuple[_Words, ...] = ()
    commands: tuple[_Words, ...] = ()
    """Executables that have to be on the PATH."""
    options: tuple[_Words, ...] = ()
    """For the compiler of C, as -l; for the JVM."""
    real_store: str = ""
    """A version of RocketMQ's store, by its name in `scenarios.conformance`, which has what opens it."""
    findings: tuple[Finding, ...] = ()
    is_quick: bool = False
    """Whether each of its settings takes seconds, so that every change is tested with them."""
    record: Literal["calls", "python"] = "calls"
    """At which calls its writer is recorded: the system's, or Python's, whose steps have their lines."""
    stacks: bool = False
    """Whether the system's calls get the lines, or functions, that they come from."""
    states_max: int = 48
    """Of one crash; what is broken is broken in many."""
    name: str = ""
    """That of its folder."""

    @property
    def folder(self) -> Path:
        """Return where its program is."""
        return GALLERY / self.name

    def setting(self, name: str) -> Setting:
        """Return a setting by its name. Raises KeyError."""
        return {setting.name: setting for setting in self.settings}[name]


def read_row(folder: Path) -> Row:
    """Read the declaration in a folder. Raises RowError, which names file and field."""
    file = folder / _DECLARATION
    try:
        row = msgspec.toml.decode(file.read_bytes(), type=Row)
    except (msgspec.DecodeError, OSError) as error:
        raise RowError(f"{file}: {error}") from error
    for number, setting in enumerate(row.settings):
        place = f"{file}: settings[{number}].found"
        if set(setting.found) != set(DISKS):
            raise RowError(f"{place}: expected {', '.join(DISKS)}, found {', '.join(setting.found)}")
        odd = [word for words in setting.found.values() for word in words if word.removesuffix("?") not in KINDS]
        if odd:
            raise RowError(f"{place}: expected some of {', '.join(KINDS)}, found {', '.join(odd)}")
    names = [setting.name for setting in row.settings]
    if len(set(names)) < len(names):
        raise RowError(f"{file}: settings: expected different names, found {', '.join(names)}")
    for number, finding in enumerate(row.findings):
        if finding.setting not in names:
            raise RowError(f"{file}: findings[{number}].setting: expected one of {names}, found {finding.setting!r}")
        if finding.confirm and not (folder / finding.confirm).is_file():
            raise RowError(f"{file}: findings[{number}].confirm: expected a file, found none: {finding.confirm}")
    return msgspec.structs.replace(row, name=folder.name)


def all_rows(gallery: Path = GALLERY) -> list[Row]:
    """Return every row, by the names of their folders. Raises RowError."""
    return [read_row(file.parent) for file in sorted(gallery.glob(f"*/{_DECLARATION}"))]

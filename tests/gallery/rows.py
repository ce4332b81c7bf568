"""Gallery rows: parses and checks the declarations in `docs/gallery/NAME/row.toml`.

A row has a program, its settings with promises and expected findings, and its findings. `docs/gallery/README.md`
explains each field and how to add a row.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

STRICT, EXT4, KILL = "strict-posix", "ext4", "process-kill"
DISKS = (STRICT, EXT4, KILL)
LOST, PART, UNUSABLE, WRONG = "lost", "part", "unusable", "wrong"
KINDS = (LOST, PART, UNUSABLE, WRONG)
KIND_WORDS = {LOST: "data lost", PART: "partial transaction", UNUSABLE: "cannot open", WRONG: "wrong data"}
"""The words for kinds of breach in tables."""
POWER_CUT, PROCESS_KILL, NOTHING = "power cut", "kill", "nothing"
DEFAULT, STRICTEST = LEVELS = ("default", "strictest")
CRASHES = {KILL: "a kill", EXT4: "a power cut on ext4", STRICT: "a power cut on strict POSIX"}
"""The words for crashes on each disk, from the mildest to the strictest."""
GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"
COMMON = GALLERY / "common"
_DECLARATION = "row.toml"
_Words = Annotated[str, msgspec.Meta(min_length=1)]


class RowError(Exception):
    """Raised for an invalid declaration. The message names the place."""


class Expected(msgspec.Struct, frozen=True):
    """Kinds of breach that must be found on one disk, and optional kinds that depend on the order of threads."""

    always: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()

    @classmethod
    def of(cls, words: Sequence[str]) -> "Expected":
        """Parse kinds of breach; the suffix `?` marks an optional one."""
        perhaps = frozenset(word.removesuffix("?") for word in words if word.endswith("?"))
        return cls(frozenset(word for word in words if not word.endswith("?")), perhaps)

    def agrees(self, found: frozenset[str]) -> bool:
        """Return whether the found kinds match."""
        return self.always <= found <= self.always | self.perhaps

    def __str__(self) -> str:
        words = [*sorted(self.always), *(f"({kind})" for kind in sorted(self.perhaps))]
        return " ".join(words) or "nothing"


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to run a program. arguments: arguments of the writer; is_made: whether it starts with durable data."""

    arguments: tuple[_Words, ...]
    promise: Literal["power cut", "kill", "nothing"]
    """The events that committed data survives, according to the program."""
    says: _Words
    """The source of the promise, quoted or paraphrased."""
    found: dict[str, list[str]]
    """The kinds of breach that a probe must find, by disk."""
    why: _Words
    """The property of the program that causes the findings."""
    is_made: bool = False
    levels: tuple[Literal["default", "strictest"], ...] = ()
    """Whether a user gets this without an option, and whether no other setting promises more."""
    leaves: Literal["", "prefix", "whole file"] = ""
    """A weaker promise: late commits may be missing, but the rest, or the old file, is intact after any crash."""

    @property
    def name(self) -> str:
        """Return the name in declarations and stored results."""
        return " ".join(self.arguments) + (", made before" if self.is_made else "")

    @property
    def title(self) -> str:
        """Return the name in tables."""
        return " ".join(self.arguments) + (", existing data" if self.is_made else "")

    def expected(self, disk: str) -> Expected:
        """Return the expected findings on a disk."""
        return Expected.of(self.found[disk])

    def promises_on(self, disk: str) -> bool:
        """Return whether committed data is promised to survive on a disk."""
        return self.promise == POWER_CUT or (self.promise == PROCESS_KILL and disk == KILL)

    def broken_by(self, disk: str, kinds: Iterable[str]) -> frozenset[str]:
        """Return those of the found kinds of breach that break a promise."""
        if self.promises_on(disk):
            return frozenset(kinds)
        return frozenset(kinds) - {LOST} if self.leaves else frozenset()


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broken promise.

    setting: the setting in which it breaks; confirm: a script that reproduces it without tornlog.
    """

    title: _Words
    setting: _Words
    disk: Literal["strict-posix", "ext4", "process-kill"]
    source: _Words
    """The place in the program's source or machine code."""
    confirm: str = ""
    """A script in the folder. Exit code 0: it has reproduced the finding; 77: it cannot run on this machine."""
    known: str = ""
    """An earlier report, if there was one."""
    on_real_ext4: bool = False
    """Whether power cuts of a real ext4 have shown it. The row's report has the number."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program of the gallery."""

    title: _Words
    language: _Words
    about: _Words
    runtime: Literal["python", "go", "rust", "java", "node", "c"]
    settings: Annotated[tuple[Setting, ...], msgspec.Meta(min_length=1)]
    is_widely_used: bool
    packages: tuple[_Words, ...] = ()
    """Packages for the client of the runtime: requirements for pip and npm, coordinates for Maven."""
    apt: tuple[_Words, ...] = ()
    commands: tuple[_Words, ...] = ()
    """Executables required on the PATH."""
    options: tuple[_Words, ...] = ()
    """Options for the C compiler, such as -l, or for the JVM."""
    real_store: str = ""
    """A version of RocketMQ's store by its name in `tests.conformance`, which has the code to open the store."""
    findings: tuple[Finding, ...] = ()
    is_quick: bool = False
    """Whether each setting takes only seconds, so that the tests of every change include it."""
    record: Literal["calls", "python"] = "calls"
    """Whether to record system calls, or Python calls with their source lines."""
    stacks: bool = False
    """Whether to find the source lines or functions of system calls."""
    states_max: int = 48
    """Maximum of states per crash. A breach usually occurs in many states."""
    name: str = ""
    """Name of its folder."""

    @property
    def folder(self) -> Path:
        """Return the folder of its program."""
        return GALLERY / self.name

    def setting(self, name: str) -> Setting:
        """Return a setting by its name. Raises KeyError."""
        return {setting.name: setting for setting in self.settings}[name]


def read_row(folder: Path) -> Row:
    """Read the declaration in a folder. Raises RowError with file and field."""
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
    for level in LEVELS:
        promised = {(setting.promise, setting.leaves) for setting in row.settings if level in setting.levels}
        if len(promised) > 1:
            raise RowError(f"{file}: settings: expected one promise at the level {level!r}, found {sorted(promised)}")
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
    """Return every row, by folder name. Raises RowError."""
    return [read_row(file.parent) for file in sorted(gallery.glob(f"*/{_DECLARATION}"))]

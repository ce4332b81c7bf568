"""The versions of a small file that is replaced as a whole: which one a start may find, by what was said of them.

A store that has returned from making a version durable has said so; of one whose making was begun and has not
returned, or has failed, nothing is known. A start finds one of these, complete, or nothing if none was ever durable.
"""

from collections.abc import Callable
from typing import TypeVar

from ...store.side_file import SideFile
from ...store.world import Files

Value = TypeVar("Value")


class Versions:
    """What is known of one side file over all lives of a store."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.durable: bytes | None = None
        """The version that is the current one unless a later one is; None before the first."""
        self.begun: list[bytes] = []
        """Versions begun after that."""
        self.kept: bytes | None = None
        """The version before the durable one, to be found when that cannot be read; None if none has to be."""
        self.loaded: bytes | None = None
        """What the last start found."""

    def lose_durable(self) -> None:
        """Note that the durable version cannot be read any more."""
        self.durable, self.kept = self.kept, None

    @property
    def is_persisted(self) -> bool:
        """Return whether the last version that was begun is durable."""
        return not self.begun

    def settle(self) -> None:
        """Note that a start has found `loaded`, which is durable from then on."""
        if self.begun or self.loaded != self.durable:
            self.kept = None
        self.durable = self.loaded
        self.begun.clear()


class WatchedSideFile(SideFile):
    """A side file whose versions are noted as they come and go."""

    def __init__(self, files: Files, versions: Versions, on_begin: Callable[[], None]) -> None:
        """Watch the file at the versions' path; on_begin is called before a version is made that is a new one."""
        super().__init__(files, versions.path)
        self._versions = versions
        self._on_begin = on_begin

    def load(self, parse: Callable[[bytes, str], Value]) -> Value | None:
        """Return what `SideFile.load` does, and note which version that is."""
        parsed: list[bytes] = []

        def note(raw: bytes, file: str) -> Value:
            value = parse(raw, file)
            parsed.append(raw)
            return value

        loaded = super().load(note)
        self._versions.loaded = parsed[-1] if parsed else None
        return loaded

    def store(self, content: bytes) -> bool:
        """Do what `SideFile.store` does, and note that it was begun and, if it returns, that it is durable."""
        versions = self._versions
        if content != versions.durable:
            self._on_begin()
        before = None if versions.begun else versions.durable
        versions.begun.append(content)
        written = super().store(content)
        if written:
            versions.kept = before
        versions.durable = content
        versions.begun.clear()
        return written

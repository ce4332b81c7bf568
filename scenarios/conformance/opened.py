"""One directory that both stores have opened, and what a difference between what they saw is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...store.config import StoreConfig
from .deviations import Deviation
from .observed import StoreObservation


@dataclass(frozen=True, slots=True)
class StoreDifference:
    """One place where the two differ."""

    place: str
    ours: str
    real: str
    deviation: Deviation | None
    """What explains it; None if nothing does."""

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON takes it."""
        name = None if self.deviation is None else self.deviation.name
        return {"place": self.place, "ours": self.ours, "real": self.real, "deviation": name}


@dataclass(frozen=True, slots=True)
class OpenedDirectory:
    """One directory, as it was found and as both stores saw it."""

    config: StoreConfig
    files: Mapping[str, bytes]
    """What was in it before anyone opened it, by path relative to it."""
    ours: StoreObservation
    real: StoreObservation
    version: str
    """Of the real store."""

    @property
    def log_files(self) -> dict[int, bytes]:
        """Return the files of the log by the offset they begin at, whichever directory of the log they are in."""
        root = f"{self.config.store_path_root_dir}/"
        names = [path.removeprefix(root) for path in self.config.commit_log_directories]
        return {
            int(path.rpartition("/")[2]): content
            for path, content in self.files.items()
            if path.rpartition("/")[0] in names and path.rpartition("/")[2].isdecimal()
        }

"""Cargo of a session: what it brings along for its executors.

    tornlog-0.1.0-py3-none-any.whl    a wheel, .zip, .egg or .py: imported from where it is put, so Python only
    environment.tar.gz#environment    an archive with a whole environment in it, unpacked as ./environment

Anything compiled has to be installed where executors run, or come in such an environment.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_IMPORTABLE = (".whl", ".zip", ".egg", ".py")
_ARCHIVES = (".tar.gz", ".tgz", ".tar")


class CargoError(ValueError):
    """Something that cannot be shipped."""


@dataclass(frozen=True, slots=True)
class Cargo:
    """What is shipped, by kind. Invariant: every part that is a local file is there."""

    importable: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    """Each with `#NAME` behind it if it is not to be unpacked under its own name."""

    @classmethod
    def of(cls, parts: Sequence[str]) -> "Cargo":
        """Sort paths and URIs by kind. Raises CargoError if one is of no kind, or not there."""
        archives = tuple(part for part in parts if "#" in part or part.endswith(_ARCHIVES))
        importable = tuple(part for part in parts if part not in archives)
        for part in parts:
            path = part.partition("#")[0]
            if "://" not in path and not Path(path).is_file():
                raise CargoError(f"{path}: no such file")
        for part in importable:
            if not part.endswith(_IMPORTABLE):
                kinds = ", ".join((*_IMPORTABLE, *_ARCHIVES))
                raise CargoError(f"{part}: expected one of {kinds}, or an archive as FILE#NAME")
            if "://" in part and part.endswith(".whl"):
                raise CargoError(f"{part}: a wheel has to be a local file; or name it .zip")
        return cls(importable, archives)

    @property
    def python(self) -> str | None:
        """Return the Python of the environment, as an executor starts it; None if there is no environment."""
        if not self.archives:
            return None
        path, _, name = self.archives[0].partition("#")
        return f"./{name or Path(path).name}/bin/python"

    def as_spark_imports_it(self, aside: Path) -> Iterator[str]:
        """Yield the importable parts. A wheel is copied aside as .zip, for Spark leaves others off the path."""
        for part in self.importable:
            if part.endswith(".whl"):
                yield shutil.copy(part, str(aside / f"{Path(part).stem}.zip"))
            else:
                yield part

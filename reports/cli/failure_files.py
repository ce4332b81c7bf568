"""Failures of the store as files: leaving the first of each name, reading one again."""

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from ...faults.simulation.artefact import ArtefactError
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.kept_files import keep_file
from .named import is_mutant


def signature_of(failure: Failure) -> str:
    """Return what names a failure among others of one store."""
    return failure.signature


def write_failures(
    failures: Iterable[Failure], out: Path | None, name_of: Callable[[Failure], str] = signature_of
) -> dict[str, Path]:
    """Write the first failure of each name, if there is a place for it; return where, by name."""
    paths: dict[str, Path] = {}
    if out is None:
        return paths
    directory = out / "failures"
    for failure in failures:
        name = name_of(failure)
        if name not in paths:
            path = paths[name] = directory / f"{name}.json"
            keep_file(path, failure.to_json())
    return paths


def read_failure(file: Path) -> Failure:
    """Return the failure in a file. BadParameter: it holds none that this version can read."""
    try:
        failure = Failure.from_json(file.read_text())
    except (OSError, UnicodeDecodeError, ArtefactError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    if failure.mutant is not None and not is_mutant(failure.mutant, f"mutant in {file}"):
        raise typer.BadParameter(f"{file}: mutant: there is none named {failure.mutant}")
    return failure

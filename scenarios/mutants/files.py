"""Mutants in a user's Python file, which need no installed package.

A file may define `MUTANTS`, a mapping or a sequence of mutants. By default, the file's mutants are all mutants at its
top level. A mutant's name is `FILE.py:ID`, or `FILE.py` if the file has only one mutant. FILE is the path as the user
typed it, so a replay needs the same working directory.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from .mutant import Mutant

_NAME = re.compile(r"(?P<file>.+\.py)(?::(?P<id>.+))?", re.DOTALL)


class MutantFileError(LookupError):
    """A file has no valid mutants, or no mutant of the given name."""


def is_in_file(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def names_in_file(name: str) -> list[str]:
    """Return the full names of the named mutant or of all mutants of the named file. Raises MutantFileError."""
    file, id_ = _file_and_mutant(name)
    return [mutant_in_file(name).id] if id_ else list(_mutants_of(file))


def mutant_in_file(name: str) -> Mutant:
    """Return the named mutant, with its full name as the id. Raises MutantFileError."""
    file, id_ = _file_and_mutant(name)
    mutants = _mutants_of(file)
    if not id_ and len(mutants) == 1:
        return next(iter(mutants.values()))
    if name not in mutants:
        raise MutantFileError(f"{name}: expected one of {', '.join(mutants)}")
    return mutants[name]


def _file_and_mutant(name: str) -> tuple[str, str | None]:
    found = _NAME.fullmatch(name)
    assert found is not None, name
    return found["file"], found["id"]


def _mutants_of(file: str) -> dict[str, Mutant]:
    """Raises MutantFileError."""
    named = {f"{file}:{mutant.id}": mutant for mutant in _load_mutants(file, Path(file).resolve())}
    return {name: replace(mutant, id=name) for name, mutant in named.items()}


@cache
def _load_mutants(file: str, place: Path) -> tuple[Mutant, ...]:
    """Run a file and return its mutants. The result is cached by the text of the path."""
    module = _import_file(file, place)
    found = getattr(module, "MUTANTS", None)
    if found is None:
        found = [value for value in vars(module).values() if isinstance(value, Mutant)]
    mutants = tuple(found.values() if isinstance(found, Mapping) else found if isinstance(found, Iterable) else ())
    if not mutants or not all(isinstance(mutant, Mutant) for mutant in mutants):
        raise MutantFileError(f"{file}: expected MUTANTS, or a Mutant at the top level, found none")
    if len({mutant.id for mutant in mutants}) < len(mutants):
        raise MutantFileError(f"{file}: two of its mutants have the same id")
    return mutants


def _import_file(file: str, place: Path) -> ModuleType:
    """Import a file. Raises MutantFileError with the line of the error."""
    if not place.is_file():
        raise MutantFileError(f"{file}: no such file")
    name = f"mutants in {place}"
    spec = spec_from_file_location(name, place)
    assert spec is not None, "its name ends in .py"
    assert spec.loader is not None, "its name ends in .py"
    module = sys.modules[name] = module_from_spec(spec)  # the dataclasses module looks up the module of a class there
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise MutantFileError(f"{file}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(place)]
        where = f", line {lines[-1]}" if lines else ""
        raise MutantFileError(f"{file}{where}: {type(error).__name__}: {error}") from error
    return module

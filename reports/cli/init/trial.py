"""Trial of check templates: renders checks, and finds one that fits a run of the program.

A check fits if it accepts the files at the end of the run, and reports missing promises for an empty directory. A
key-value check must also read exactly the promised values, because it accepts unknown values.

The templates use << >> and <% %>, because Python and GitHub workflows use braces.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from .command import DATABASE, KEY_VALUE, LOG


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        autoescape=False,  # no HTML escapes, because the templates render programs
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    environment.filters["py"] = _python_literal
    return environment


def _python_literal(value: str | list[str]) -> str:
    """Return strings as Python code. For strings and lists of strings, escaped JSON is valid Python."""
    return json.dumps(value)


def render(name: str, **values: object) -> str:
    """name: a file name such as log.py."""
    return _environment().get_template(f"{name}.jinja").render(values)


_SQLITE = b"SQLite format 3\0"
_FILE_BYTES_MAX = 16 << 20
"""A trial skips larger files, because it reads each file several times."""
_FORMS = (("put ", " "), ("set ", " "), ("", "="), ("", " "))
"""Forms of a promise with key and value: prefix before the key, and separator after it."""
_LINE_SEPARATORS = ("=", "\t", ": ", " ")


class Candidate(NamedTuple):
    """A check, with the reason for its choice."""

    kind: str
    reason: str
    text: str


def fitting_check(directory: Path, promises: Sequence[str], kinds: Sequence[str]) -> Candidate | None:
    """Return the first check of these kinds that fits. directory: contains the files at the end of the run."""
    files = [
        path.relative_to(directory).as_posix()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.stat().st_size <= _FILE_BYTES_MAX
    ]
    candidates = {DATABASE: _database_candidates, LOG: _log_candidates, KEY_VALUE: _store_candidates}
    with TemporaryDirectory(prefix="tornlog-init-") as empty:
        for kind in kinds:
            for candidate in candidates[kind](directory, files, promises):
                if _fits_program(candidate, directory, Path(empty), list(promises)):
                    return candidate
    return None


def default_check(kind: str) -> str:
    """Return a check with example names, for a program that no check fits."""
    if kind == DATABASE:
        return render("database.py", file="data.db", query="SELECT value FROM entries", last_word=False)
    if kind == LOG:
        return render("log.py", file="log", is_part=False)
    return _store_text("json", "store.json", "", " ")


def _fits_program(candidate: Candidate, directory: Path, empty: Path, promises: list[str]) -> bool:
    names: dict[str, Any] = {}
    exec(compile(candidate.text, "check.py", "exec"), names)
    try:
        if list(names["check"](directory, promises)):
            return False
        if candidate.kind == KEY_VALUE:
            expected = dict(map(names["entry_of"], promises))
            found = names["read"](directory)
            if any(found.get(key) != value for key, value in expected.items()):
                return False
    except Exception:  # the check cannot read these files
        return False
    return bool(list(names["check"](empty, promises)))


def _database_candidates(directory: Path, files: Sequence[str], promises: Sequence[str]) -> Iterator[Candidate]:
    for file in files:
        with (directory / file).open("rb") as content:
            if content.read(len(_SQLITE)) != _SQLITE:
                continue
        for query in _column_queries(directory / file):
            for last_word in (False, True):
                text = render("database.py", file=file, query=query, last_word=last_word)
                yield Candidate(DATABASE, f"{query!r} in {file} returns each printed line", text)


def _column_queries(database: Path) -> list[str]:
    queries = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for (table,) in tables:
            columns = connection.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,)).fetchall()
            queries += [f"SELECT {_quoted_name(column)} FROM {_quoted_name(table)}" for (column,) in columns]
    return queries


def _quoted_name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


def _log_candidates(directory: Path, files: Sequence[str], promises: Sequence[str]) -> Iterator[Candidate]:
    for is_part in (False, True):
        for file in files:
            text = render("log.py", file=file, is_part=is_part)
            yield Candidate(LOG, f"{file} has each printed line, in order", text)


def _store_candidates(directory: Path, files: Sequence[str], promises: Sequence[str]) -> Iterator[Candidate]:
    for prefix, separator in _FORMS:
        if not all(promise.startswith(prefix) and separator in promise[len(prefix) :] for promise in promises):
            continue
        for file in files:
            yield _store_candidate(f"{file} is JSON with", "json", file, prefix, separator)
            for line_separator in _LINE_SEPARATORS:
                yield _store_candidate(f"lines of {file} are", "lines", file, prefix, separator, line_separator)
        for name in sorted({name for file in files for name in (file, file.rpartition(".")[0]) if name}):
            yield _store_candidate(f"{name} is a dbm with", "dbm", name, prefix, separator)
        yield _store_candidate("files have the names of", "files", "", prefix, separator)
    for file in files:
        text = _store_text("files", "", "", "", key=file)
        yield Candidate(KEY_VALUE, f"{file} has the last printed line", text)


def _store_candidate(
    what: str, reader: str, file: str, prefix: str, separator: str, line_separator: str = ""
) -> Candidate:
    text = _store_text(reader, file, prefix, separator, line_separator)
    return Candidate(KEY_VALUE, f"{what} the printed keys and values", text)


def _store_text(reader: str, file: str, prefix: str, separator: str, line_separator: str = "", key: str = "") -> str:
    return render(
        "key-value.py",
        reader=reader,
        file=file,
        prefix=prefix,
        separator=separator,
        line_separator=line_separator,
        key=key,
    )

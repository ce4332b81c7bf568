"""Options of the source, by their names for `option(…)`, in upper or lower case. docs/tables.md describes each."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import pyarrow as pa

_SPLIT_BYTES = 128 << 20
_ONLY_MESSAGES = {
    "key": "key: only messages have keys, not the table {}; index_entries are found by key_hash",
    "outoforderms": "outOfOrderMs: only messages have times, not the table {}",
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Parsed options. Raises ValueError for an unknown option or an invalid value."""

    path: str = ""
    table: str = "messages"
    columns: tuple[str, ...] = ()
    where: str = ""
    body: bool = True
    split_bytes: int = _SPLIT_BYTES
    use_queues: bool = True
    key: str | None = None
    use_index: bool = True
    out_of_order_ms: int | None = None
    commit_log: str = ""
    delay_levels: str = ""
    hash_slots: int | None = None
    index_entries: int | None = None
    up_to: str = "whole"
    max_rows: int | None = None
    max_bytes: int | None = None
    paths: tuple[str, ...] = ()

    @property
    def stores(self) -> tuple[str, ...]:
        return self.paths or (self.path,)

    @classmethod
    def from_spark(cls, options: Mapping[str, str]) -> "SourceOptions":
        given = {name.lower(): value for name, value in options.items()}
        names = sorted(field.name.replace("_", "") for field in fields(cls))
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise ValueError(f"no option {', '.join(unknown)}; there are {', '.join(names)}")
        paths = _parse_paths(given["paths"]) if "paths" in given else ()
        if bool(given.get("path")) == bool(paths):
            raise ValueError("path and paths: expected one of them" if paths else "no directory: load(…) takes one")
        if paths and given.get("commitlog"):
            raise ValueError("commitlog: one store's log; with paths each log is in its own directory")
        table, parsed = given.get("table", "messages"), dict[str, Any]()
        for name, plain in ((field.name, field.name.replace("_", "")) for field in fields(cls)):
            if plain in given:
                if plain in _ONLY_MESSAGES and table != "messages":
                    raise ValueError(_ONLY_MESSAGES[plain].format(table))
                parsed[name] = _PARSERS[plain](plain, given[plain]) if plain in _PARSERS else given[plain]
        return cls(**parsed | {"paths": paths})

    @classmethod
    def options_of_user(cls, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options without those that Spark adds.

        After CREATE TABLE, Spark also passes properties of the table. The user's options then have the prefix
        `option.`, and `location` is the path.
        """
        if "provider" not in options:
            return dict(options)
        prefix = "option."
        given = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
        if "paths" in given:
            return given  # Spark, not the user, chose this location
        return {**given, "path": options.get("location", "").removeprefix("file:")}

    def chosen(self, fields: Sequence[pa.Field], derived: Sequence[pa.Field] = ()) -> list[pa.Field]:
        """Return fields in table order. Derived fields are included only if `columns` names them."""
        known = {field.name: field for field in (*fields, *derived)}
        unknown = [name for name in self.columns if name not in known]
        if unknown:
            raise ValueError(f"no column {', '.join(unknown)} in {self.table}; there are {', '.join(known)}, store")
        names = self.columns or tuple(field.name for field in fields)
        return [field for name, field in known.items() if name in names and (self.body or name != "body")]


def _parse_key(name: str, text: str) -> str:
    if not text:
        raise ValueError("key: expected one, found nothing")
    return text


def _parse_columns(name: str, text: str) -> tuple[str, ...]:
    return tuple(filter(None, (column.strip() for column in text.split(","))))


def _parse_whole_number(name: str, text: str, least: int) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name}: expected a whole number from {least} on, found {text!r}")
    return int(text)


def _parse_choice(name: str, text: str, choices: tuple[str, str]) -> str:
    if text.lower() not in choices:
        raise ValueError(f"{name}: expected {' or '.join(choices)}, found {text.lower()!r}")
    return text.lower()


def _parse_bool(name: str, text: str) -> bool:
    return _parse_choice(name, text, ("true", "false")) == "true"


def _parse_paths(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(one, str) and one for one in found):
        raise ValueError(f"paths: expected a list of directories in JSON, found {text!r}")
    named = tuple(one.rstrip("/") or "/" for one in found)
    if len(set(named)) < len(named):
        raise ValueError(f"paths: expected each directory once, found {text!r}")
    return named


_PARSERS: Mapping[str, Callable[[str, str], object]] = {
    "columns": _parse_columns,
    "key": _parse_key,
    **dict.fromkeys(("body", "usequeues", "useindex"), _parse_bool),
    **dict.fromkeys(("splitbytes", "outoforderms"), partial(_parse_whole_number, least=0)),
    **dict.fromkeys(("hashslots", "indexentries", "maxrows", "maxbytes"), partial(_parse_whole_number, least=1)),
    "upto": partial(_parse_choice, choices=("whole", "durable")),
}
"""The parsers of options that are no plain texts."""

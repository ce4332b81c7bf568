"""The options of the source, by the names that `option(…)` takes; case does not count.

path           the store directory, as `load(directory)` gives it
paths          several of them instead, as a list in JSON; `load([…])` gives it, to a stream it is an option. Rows then
               have the column `store`, and there is no commitLog
table          messages (the default), queue_entries, index_entries or checkpoint
columns        those to have, separated by commas; all but derived ones without it. Spark passes a source nothing of
               what a query needs, so what is left out here is what costs nothing
where          only rows for which all comparisons hold, as in `topic = 'Orders' and queue_id in (0, 1)`; of no stream.
               Filters of a query are seen to by Spark, when rows have been made
body           false: without the column body
splitBytes     about how much of a segment one task reads; 128 MiB without it, 0 for whole segments
useQueues      false: consume queues say nothing of where to look for what `where` asks for; the log is read instead
key            of messages: only those with this key, as the index has it; with the topic in `where` the index is used
outOfOrderMs   of messages: by how many ms at most a record is older than one in front of it in the log; what then lies
               outside of what `where` asks of store_timestamp_ms is not read. Without it no order of times is believed
useIndex       false: the index says nothing of where a key is; the log is read instead
commitLog      where the log is if not in `commitlog`, as storePathCommitLog has it
delayLevels    messageDelayLevel, if it is not RocketMQ's own
hashSlots,     maxHashSlotNum and maxIndexNum, if they are not RocketMQ's own and the files do not say
indexEntries
upTo           of a stream: `whole` records (the default), or what is surely `durable`
maxRows        of a stream: how many records a batch has at most, of all logs together
maxBytes       of a stream: how many bytes of logs; a batch has one record at least of each that has any
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import pyarrow as pa

_SPLIT_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What was asked for. Raises ValueError for what is no option, or no value of one."""

    path: str
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
    """Instead of path."""

    @property
    def stores(self) -> tuple[str, ...]:
        """Return the directories, in the order in which they were named."""
        return self.paths or (self.path,)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Read Spark's options."""
        given = {name.lower(): value for name, value in options.items()}
        names = sorted(field.name.replace("_", "") for field in fields(cls))
        unknown = sorted(given.keys() - set(names))
        if unknown:
            raise ValueError(f"no option {', '.join(unknown)}; there are {', '.join(names)}")
        paths = _paths(given["paths"]) if "paths" in given else ()
        if bool(given.get("path")) == bool(paths):
            raise ValueError("path and paths: expected one of them" if paths else "no directory: load(…) takes one")
        if paths and given.get("commitlog"):
            raise ValueError("commitlog: one store's log; with paths each log is in its own directory")
        return cls(
            given.get("path", ""),
            given.get("table", "messages"),
            tuple(filter(None, (name.strip() for name in given.get("columns", "").split(",")))),
            given.get("where", ""),
            _choice(given, "body", ("true", "false")) == "true",
            _whole(given, "splitbytes", 0, _SPLIT_BYTES) or 0,
            _choice(given, "usequeues", ("true", "false")) == "true",
            _key(given),
            _choice(given, "useindex", ("true", "false")) == "true",
            _out_of_order(given),
            given.get("commitlog", ""),
            given.get("delaylevels", ""),
            _whole(given, "hashslots", 1),
            _whole(given, "indexentries", 1),
            _choice(given, "upto", ("whole", "durable")),
            _whole(given, "maxrows", 1),
            _whole(given, "maxbytes", 1),
            paths,
        )

    @classmethod
    def given_to(cls, options: Mapping[str, str]) -> dict[str, str]:
        """Return what a user gave, of all that Spark hands over.

        With CREATE TABLE it adds facts of the table, and has the options under `option.`, the path as a location.
        """
        if "provider" not in options:
            return dict(options)
        prefix = "option."
        given = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
        if "paths" in given:
            return given  # the location is one of Spark's own choice
        return {**given, "path": options.get("location", "").removeprefix("file:")}

    def chosen(self, fields: Sequence[pa.Field], derived: Sequence[pa.Field] = ()) -> list[pa.Field]:
        """Return those of a table's fields that are to be had, in the table's order; derived ones only by name."""
        known = {field.name: field for field in (*fields, *derived)}
        unknown = [name for name in self.columns if name not in known]
        if unknown:
            raise ValueError(f"no column {', '.join(unknown)} in {self.table}; there are {', '.join(known)}, store")
        names = self.columns or tuple(field.name for field in fields)
        return [field for name, field in known.items() if name in names and (self.body or name != "body")]


def _key(given: Mapping[str, str]) -> str | None:
    table = given.get("table", "messages")
    if "key" in given and table != "messages":
        raise ValueError(f"key: only messages have keys, not the table {table}; index_entries are found by key_hash")
    if given.get("key") == "":
        raise ValueError("key: expected one, found nothing")
    return given.get("key")


def _out_of_order(given: Mapping[str, str]) -> int | None:
    table = given.get("table", "messages")
    if "outoforderms" in given and table != "messages":
        raise ValueError(f"outOfOrderMs: only messages have times, not the table {table}")
    return _whole(given, "outoforderms", 0)


def _whole(given: Mapping[str, str], name: str, least: int, default: int | None = None) -> int | None:
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name}: expected a whole number from {least} on, found {text!r}")
    return int(text)


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = given.get(name, choices[0]).lower()
    if text not in choices:
        raise ValueError(f"{name}: expected {' or '.join(choices)}, found {text!r}")
    return text


def _paths(text: str) -> tuple[str, ...]:
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

"""Commands for store directories: `inspect_store`, `verify_store`, `dump_messages`, `rebuild_store`, `config`.

The commands never change the directory. Exit codes: 0 no damage and no broken promise, 1 damage or a broken promise, 2
usage error, or a directory without any part of a store, 3 an unreadable file, or output that cannot be written. Damage
that the next start of the store repairs is printed as a note. Other damage is printed after the table, or on standard
error if standard output contains JSON, as `file @ offset: field: expected X, found Y`, with paths relative to the store
directory.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ...store.config import MIB, StoreConfig
from ...store.errors import CorruptFileError
from ...store.real.overlay import OverlayFiles
from ...store.real.world import overlay_world, real_world
from ...store.settings.broker_conf import read_broker_conf
from ...store.settings.describe_config import config_fields, describe_settings
from ...store.tools.dump import BodyText, DumpSelection, dump_log
from ...store.tools.geometry import Geometry, config_of_directory, log_paths, log_statuses
from ...store.tools.inspect import inspect_directory, unreadable_file_error
from ...store.tools.rebuild import RebuildResult, rebuild_directory
from ...store.tools.spread import Item, Judgement, PartSpread, Result
from ...store.tools.verify import verify_directory
from ...store.tools.violation import is_refusal, relative_to
from .options import (
    IN_PROCESS,
    Conf,
    Jobs,
    JsonFile,
    ResultFiles,
    Ship,
    absolute_place,
    argument,
    open_lines,
    option,
    write_json,
)
from .present_directories import show_inspection, show_rebuilt, show_settings, show_verification

_LINES_MAX = 50
_LONG_BYTES = 256 * MIB
_SPLIT_BYTES = 128 * MIB
"""Number of log bytes per task, if several processes check the log."""
T = TypeVar("T")

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", exists=True, file_okay=False, help="A store directory. It is not changed.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", exists=True, dir_okay=False, help="The broker's broker.conf.")
]
LogBytes = Annotated[
    int | None,
    typer.Option("--commit-log-size", metavar="BYTES", min=1, help="Segment size, if the files do not show it."),
]


@dataclass(frozen=True, kw_only=True)
class _GeometryOptions:
    """File sizes that may not be known from the files of a store."""

    config: ConfigFile = None
    commit_log_size: LogBytes = None
    consume_queue_size: int | None = option(
        None, metavar="BYTES", min=1, help="Queue file size, if the files do not show it."
    )
    hash_slots: int | None = option(None, metavar="N", min=1, help="Slots per index file, if the files do not show it.")
    index_entries: int | None = option(
        None, metavar="N", min=2, help="Entries per index file, if the files do not show it."
    )

    @property
    def geometry(self) -> Geometry:
        queue_bytes, slots, entries = self.consume_queue_size, self.hash_slots, self.index_entries
        return _geometry_options(self.config, self.commit_log_size, queue_bytes, slots, entries)


@dataclass(frozen=True, kw_only=True)
class InspectOptions(_GeometryOptions):
    """Recover a store directory in memory, and print its content."""

    directory: Directory
    json_file: JsonFile = None


def inspect_store(options: InspectOptions) -> NoReturn:
    root, geometry = _root_and_geometry(options.directory, options.geometry, options.json_file)
    with _exit_if_unreadable():
        found = inspect_directory(overlay_world(), root, geometry, OverlayFiles)
    _finish_command(
        found, found.all_fields, show_inspection, [_damage_line(one, root) for one in found.findings], options.json_file
    )


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(InspectOptions):
    """Check records, queues and checkpoint of a store directory. Recovery does not run first."""

    jobs: Jobs = 1


def verify_store(options: VerifyOptions) -> NoReturn:
    root, geometry = _root_and_geometry(options.directory, options.geometry, options.json_file)
    split_bytes = 0 if options.jobs == 1 else _SPLIT_BYTES
    with (
        _exit_if_unreadable(),
        _log_bytes_progress(_log_bytes(root, geometry)) as advance,
        spread_over(options.jobs) as spread,
    ):
        files = overlay_world().files
        found = verify_directory(files, root, geometry, advance, spread=spread, split_bytes=split_bytes)
    _finish_command(found, found.fields, show_verification, [*map(str, found.findings.violations)], options.json_file)


@contextmanager
def spread_over(jobs: int) -> Iterator[PartSpread]:
    """Yield a function that checks items in `jobs` processes, or in this process if `jobs` is 1."""
    if jobs == 1:
        yield _spread_by(map)
        return
    # slow to import, and `--help` does not need it
    from ...scenarios.campaigns.worker_pool import worker_pool

    with worker_pool(jobs) as pool:
        yield _spread_by(pool.map)


def _spread_by(mapped: Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]) -> PartSpread:
    def judged(judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        return mapped(partial(_judge_in_task, judgement), items)

    return judged


def _judge_in_task(judgement: Judgement[Item, Result], item: Item) -> Result:
    """Check one item in a worker process, which opens and closes the files itself."""
    world = overlay_world()
    return judgement(world.files, world.core, item)


@dataclass(frozen=True, kw_only=True)
class DumpOptions:
    """Print the messages of a log as JSON lines, in log order."""

    directory: Directory
    topic: str | None = option(None, help="Only this topic's messages.")
    queue: int | None = option(None, min=0, help="Only this queue; needs --topic.")
    begin: int = option(0, "--from", min=0, help="First offset: of the queue with --queue, else of the log.")
    end: int | None = option(None, "--to", min=0, help="Offset after the last message.")
    limit: int | None = option(None, min=1, help="Maximum number of messages.")
    keys: str | None = option(None, help="Only messages with this key or unique key.")
    body: BodyText = option(BodyText.TEXT, help="Format of bodies.")
    json_file: str = option("-", "--json", metavar="FILE", help="Write to FILE instead, - for stdout.")
    config: ConfigFile = None
    commit_log_size: LogBytes = None


def dump_messages(options: DumpOptions) -> NoReturn:
    if options.queue is not None and options.topic is None:
        raise typer.BadParameter("needs --topic", param_hint="--queue")
    geometry = _geometry_options(options.config, options.commit_log_size)
    root, geometry = _root_and_geometry(options.directory, geometry, options.json_file)
    selection = DumpSelection(options.topic, options.queue, options.begin, options.end, options.keys)
    is_damaged, left = False, options.limit
    with _exit_if_not_readable_as_store(root):
        settings = config_of_directory(OverlayFiles(), root, geometry)
    try:
        with open_lines(options.json_file) as out:
            for one in _dumped_items(settings, selection, options.body):
                if isinstance(one, CorruptFileError):
                    is_damaged = True
                    typer.echo(_damage_line(one, root), err=True)
                    continue
                out.write(json.dumps(one) + "\n")
                if left is not None and (left := left - 1) == 0:
                    break
    except BrokenPipeError:
        _drop_output()  # the reader of standard output has closed the pipe
    except OSError as error:
        if options.json_file == "-":
            _drop_output()
        place = "standard output" if options.json_file == "-" else options.json_file
        typer.echo(f"{place}: {error.strerror or error}", err=True)
        raise typer.Exit(3) from None
    raise typer.Exit(1 if is_damaged else 0)


def _dumped_items(
    settings: StoreConfig, selection: DumpSelection, body: BodyText
) -> Iterator[dict[str, Any] | CorruptFileError]:
    """This function handles errors of the store, so the caller can treat all other errors as errors of the output."""
    with _exit_if_not_readable_as_store(settings.store_path_root_dir):
        yield from dump_log(OverlayFiles, settings, selection, body)


@contextmanager
def _exit_if_not_readable_as_store(root: str) -> Iterator[None]:
    """If the block finds damage, print the damage and exit with 1; if a file is unreadable, exit with 3."""
    try:
        with _exit_if_unreadable():
            try:
                yield
            except OSError as error:
                if is_refusal(error):
                    raise
                raise unreadable_file_error(error, root) from error
    except CorruptFileError as error:
        typer.echo(_damage_line(error, root), err=True)
        raise typer.Exit(1) from None


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass(frozen=True, kw_only=True)
class RebuildOptions(_GeometryOptions):
    """Copy a log, and rebuild its queues, index and checkpoint."""

    directory: str = argument(
        ..., metavar="DIR", help="A store directory. It is not changed. With --master also a URI."
    )
    to: str = option(..., metavar="NEW", help="New directory, empty or missing; with --master also a URI.")
    json_file: JsonFile = None
    master: str | None = option(None, help=f"Rebuild in parts on this Spark master, such as local[2], or {IN_PROCESS}.")
    ship: Ship = None
    conf: Conf = None


def rebuild_store(options: RebuildOptions) -> NoReturn:
    directory, json_file = options.directory, options.json_file
    master, ship, conf = options.master, options.ship, options.conf
    root, new = absolute_place(directory), absolute_place(options.to)
    geometry = options.geometry
    is_here = "://" not in root
    old_path, new_path = (place.removeprefix("file://") for place in (root, new))
    if is_here and not os.path.isdir(root):
        raise typer.BadParameter(f"{directory}: no directory", param_hint="DIR")
    if is_here:
        _require_store(root, geometry)
    is_local = "://" not in old_path and "://" not in new_path
    places = [] if "://" in old_path else _store_directories(old_path, geometry)
    if root == new or new.startswith(root.rstrip("/") + "/") or (is_local and _is_inside(places, new_path)):
        raise typer.BadParameter("must not be the store itself, or in it", param_hint="--to")
    _refuse_output_in([*places, new_path], json_file)
    if master is not None:
        rebuilt = _rebuilt_by(master, ship, conf, root, new, geometry)
    else:
        if ship or conf or not is_here or "://" in new:
            raise typer.BadParameter("needed for a URI, --ship and --conf", param_hint="--master")
        rebuilt = _rebuilt_here(root, new, geometry)
    damage = [_damage_line(one, new) for one in rebuilt.findings]
    _finish_command(rebuilt, rebuilt.fields, show_rebuilt, damage, json_file)


def _root_and_geometry(directory: Path, geometry: Geometry, json_file: str | None) -> tuple[str, Geometry]:
    """Return the absolute path and the geometry of a store.

    Raises BadParameter if no store exists, or if the output would be inside the store.
    """
    root = os.path.abspath(directory)
    _require_store(root, geometry)
    _refuse_output_in(_store_directories(root, geometry), json_file)
    return root, geometry


def _store_directories(root: str, geometry: Geometry) -> list[str]:
    """Return all directories of a store. The log, for example, may be a link or in another directory."""
    try:
        paths = log_paths(OverlayFiles(), root, geometry)
    except (OSError, ValueError):
        return [root]  # a later read of the files reports the error
    log = *paths.commit_log_directories, *paths.read_only_commit_log_directories
    queues = paths.consume_queue_directory, paths.consume_queue_ext_directory
    return [root, *log, *queues, paths.index_directory, paths.config_directory, paths.checkpoint_path]


def _require_store(root: str, geometry: Geometry) -> None:
    """Raise BadParameter if a directory contains no part of a store. Missing parts count as damage."""
    parts = [*_store_directories(root, geometry)[1:], os.path.join(root, "abort")]
    if len(parts) > 1 and not any(map(_can_be_output, parts)):
        raise typer.BadParameter(f"{root}: no store: it has no log, no queues and no checkpoint", param_hint="DIR")


def _can_be_output(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # the command reports later why the directory is unreadable
    return True


def _is_inside(places: Iterable[str], path: str) -> bool:
    """Compare paths after resolving symbolic links."""
    path = os.path.realpath(path)
    return any(os.path.commonpath([place, path]) == place for place in map(os.path.realpath, places))


def _refuse_output_in(places: Iterable[str], json_file: str | None) -> None:
    if json_file is not None and json_file != "-" and _is_inside(places, json_file):
        raise typer.BadParameter(f"{json_file}: must not be in the store", param_hint="--json")


def _rebuilt_here(root: str, new: str, geometry: Geometry) -> RebuildResult:
    """Rebuild in this process. Exit with 1 if the log cannot belong to a store, with 3 if a file operation fails."""
    if os.path.isdir(new) and os.listdir(new):
        raise typer.BadParameter(f"{new}: not empty", param_hint="--to")
    if os.path.isfile(new):
        raise typer.BadParameter(f"{new}: a file", param_hint="--to")
    files = overlay_world().files
    try:
        with _exit_if_unreadable(new):
            settings = config_of_directory(files, root, geometry)
            with _removed_unless_complete(new), _log_bytes_progress(_log_bytes(root, geometry)) as advance:
                return rebuild_directory(files, settings, real_world(), new, advance)
    except CorruptFileError as error:
        typer.echo(_damage_line(error, root if error.file.startswith(root) else new), err=True)
        raise typer.Exit(1) from None


def _rebuilt_by(
    master: str, ship: list[str] | None, conf: list[str] | None, root: str, new: str, geometry: Geometry
) -> RebuildResult:
    """Rebuild on Spark. Exit with 1 if only a local rebuild is possible, with 3 if a file operation fails."""
    from ..pipeline.rebuild.rebuilding import UnsoundStoreError, rebuild_with
    from ..pipeline.spark.options import engine_for, place_of

    old, new = place_of(root, "DIR"), place_of(new, "--to")
    with engine_for(master, ship, conf) as engine, _exit_if_unreadable(new):
        try:
            return rebuild_with(engine, old, new, geometry)
        except FileExistsError as error:
            raise typer.BadParameter(str(error), param_hint="--to") from error
        except (CorruptFileError, UnsoundStoreError) as error:
            typer.echo(f"{error}: rebuild without --master", err=True)
            raise typer.Exit(1) from None


def _damage_line(error: CorruptFileError, root: str) -> str:
    return str(error).replace(error.file, relative_to(root, error.file), 1)


def _finish_command(
    found: T, fields: Callable[[], Any], show: Callable[[T], None], damage: list[str], json_file: str | None
) -> NoReturn:
    files = ResultFiles()
    if json_file is not None:
        with files.writing():
            write_json(json_file, fields())
    else:
        show(found)
    for line in damage[:_LINES_MAX]:
        typer.echo(line, err=json_file == "-")
    if len(damage) > _LINES_MAX:
        typer.echo(f"... and {len(damage) - _LINES_MAX} more; --json lists all", err=json_file == "-")
    files.exit(1 if damage else 0)


@contextmanager
def _removed_unless_complete(new: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


@dataclass(frozen=True)
class ConfigOptions:
    """Print every setting of a store with its default and meaning."""

    config: ConfigFile = None
    json_file: JsonFile = None


def show_config(options: ConfigOptions) -> None:
    config, json_file = options.config, options.json_file
    root = os.path.expanduser("~/store")
    with _usage_errors(config):
        conf = read_broker_conf("" if config is None else config.read_text(encoding="utf-8-sig"), root)
    settings = describe_settings(conf.store, root)
    if json_file is not None:
        write_json(json_file, config_fields(settings, conf.others))
    else:
        show_settings(settings, conf.others)


@contextmanager
def _usage_errors(config: Path | None) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise typer.BadParameter(f"{config}: {error}", param_hint="--config") from error


def _geometry_options(
    config: Path | None,
    log_bytes: int | None,
    queue_bytes: int | None = None,
    hash_slots: int | None = None,
    index_entries: int | None = None,
) -> Geometry:
    """Return the geometry from a configuration file; options override the file."""
    conf = Geometry()
    if config is not None:
        with _usage_errors(config):
            conf = Geometry.of_broker_conf(config.read_text(encoding="utf-8-sig"))
    return replace(
        conf,
        commit_log_bytes=log_bytes or conf.commit_log_bytes,
        consume_queue_bytes=queue_bytes or conf.consume_queue_bytes,
        hash_slots=hash_slots or conf.hash_slots,
        index_entries=index_entries or conf.index_entries,
    )


@contextmanager
def _exit_if_unreadable(place: str = "") -> Iterator[None]:
    """place: names the file in the message if the error does not."""
    try:
        yield
    except OSError as error:
        typer.echo(f"{error.filename or place}: {error.strerror or error}", err=True)
        raise typer.Exit(3) from None


@contextmanager
def _log_bytes_progress(log_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts processed log bytes. For a long log, show a progress bar."""
    console = Console(stderr=True)
    if not console.is_terminal or log_bytes < _LONG_BYTES:
        yield lambda read_bytes: None
        return
    columns = TextColumn("reading the log"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("log", total=log_bytes)
        yield lambda read_bytes: progress.advance(task, read_bytes)


def _log_bytes(root: str, geometry: Geometry) -> int:
    files = overlay_world().files
    try:
        statuses = log_statuses(files, log_paths(files, root, geometry))
        return sum(status.size_bytes for _, status in statuses)
    except (OSError, ValueError):
        return 0  # the verification reports the error

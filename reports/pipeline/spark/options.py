"""Spark options: opens the session, engine and paths that a command line names."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from ....store.errors import install_command
from ...cli.options import IN_PROCESS, absolute_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .engine import Engine


@contextmanager
def session_for(
    master: str, ship: Sequence[str] | None = None, conf: Sequence[str] | None = None
) -> Iterator["SparkSession"]:
    """Raises BadParameter for user errors, including those that the block raises."""
    try:
        from .engine import ExecutorError, is_master, raise_known_cause
        from .session import NoJavaError, OldSparkError, ShippingError, session
    except ImportError as error:
        raise typer.BadParameter(f"{error}; {install_command('spark')} installs it") from error
    if not is_master(master):
        raise typer.BadParameter(
            f"expected local[N], local[*], spark://host:port, yarn or k8s://host:port, found {master}",
            param_hint="--master",
        )
    try:
        with session(
            master, config=dict(map(_parse_property, conf or ())), ship=ship or (), computes_little=True
        ) as spark:
            try:
                yield spark
            except Exception as error:
                raise_known_cause(error)
                raise
    except (NoJavaError, OldSparkError) as error:
        raise typer.BadParameter(str(error), param_hint="--master") from error
    except (ShippingError, ExecutorError) as error:
        raise typer.BadParameter(str(error), param_hint="--ship") from error


@contextmanager
def engine_for(master: str, ship: Sequence[str] | None = None, conf: Sequence[str] | None = None) -> Iterator["Engine"]:
    """Raises BadParameter for user errors."""
    from .engine import InProcessEngine, SparkEngine

    if master == IN_PROCESS:
        if ship or conf:
            raise typer.BadParameter(f"{IN_PROCESS} is without Spark", param_hint="--ship, --conf")
        yield InProcessEngine()
        return
    with session_for(master, ship, conf) as spark:
        yield SparkEngine(spark.sparkContext)


def _parse_property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"expected KEY=VALUE, found {text!r}", param_hint="--conf")
    return key, value


def place_of(text: str, option: str) -> str:
    """Return an absolute path, or a URI. Raises BadParameter for an unknown file system."""
    place = absolute_place(text)
    if "://" in place:
        try:
            from ..place import open_place

            open_place(place)
        except ImportError as error:
            raise typer.BadParameter(f"{error}; {install_command('spark')} installs it", param_hint=option) from error
        except (ValueError, OSError) as error:
            raise typer.BadParameter(str(error), param_hint=option) from error
    return place

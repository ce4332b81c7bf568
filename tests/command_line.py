"""The command line, run in the process of a test."""

from functools import cache

from typer import Typer
from typer.testing import CliRunner, Result

from tornlog.__main__ import application


@cache
def _application() -> Typer:
    return application()


def tornlog(*words: object, columns: int = 80) -> Result:
    """Run the command line and raise its exceptions, except exits. columns: the width of the terminal."""
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(_application(), list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result

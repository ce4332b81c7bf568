"""The command line, run in the process of a test."""

from collections.abc import Callable
from functools import cache
from re import sub

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


def in_one_line(text: str) -> str:
    """Return a message of the command line without boxes and line ends."""
    return " ".join(sub("[│╭╮╰╯─]", " ", text).split())


def usage_error(*words: object, run: Callable[..., Result] = tornlog, **options: int) -> str:
    """Return what a command with a usage error prints, in one line."""
    result = run(*words, **options)
    assert result.exit_code == 2, result.output
    return in_one_line(result.output)

"""Shared parts of commands that draw: loading matplotlib, and the name of this machine's disk."""

from importlib import import_module
from types import ModuleType

import typer

from ...store.errors import brings

HERE = "here"
"""The name of this machine's disk among simulated ones."""


def pictures_of(package: str) -> ModuleType:
    """Import the module `pictures` of a package. Raises BadParameter without matplotlib."""
    try:
        return import_module(f"{package}.pictures")
    except ImportError as error:
        raise typer.BadParameter(f"{error}, which {brings('plot')} has") from error

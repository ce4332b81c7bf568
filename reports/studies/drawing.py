"""What the commands that draw pictures share: the module that draws them, and the name of this machine's disk."""

from importlib import import_module
from types import ModuleType

import typer

from ...store.errors import brings

HERE = "here"
"""The name of this machine's disk among those that are simulated."""


def pictures_of(package: str) -> ModuleType:
    """Return a package's module `pictures`, which draws. BadParameter: matplotlib is not there."""
    try:
        return import_module(f"{package}.pictures")
    except ImportError as error:
        raise typer.BadParameter(f"{error}, which {brings('plot')} has") from error

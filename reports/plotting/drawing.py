"""What draws needs matplotlib, which is not there for everybody: commands ask for it here."""

from importlib import import_module
from types import ModuleType

import typer

from ...store.errors import brings


def pictures_of(package: str) -> ModuleType:
    """Return a package's module `pictures`, which draws. BadParameter: matplotlib is not there."""
    try:
        return import_module(f"{package}.pictures")
    except ImportError as error:
        raise typer.BadParameter(f"{error}, which {brings('plot')} has") from error

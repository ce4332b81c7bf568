"""Machines and disks of `probe`: parses --machine and --disk-of."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import typer

from ....faults.crashes.profiles import PROFILES
from ....faults.probe.record import FILES, SeparateDisk

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def machines_named(values: Sequence[str]) -> dict[str, str]:
    """Return machine name -> directory. Raises BadParameter for a value that is not NAME=DIR."""
    machines: dict[str, str] = {}
    for value in values:
        name, _, directory = value.partition("=")
        if not _NAME.fullmatch(name) or not directory:
            raise typer.BadParameter(f"expected NAME=DIR, such as n1=data/n1, found {value}", param_hint="--machine")
        if name in machines:
            raise typer.BadParameter(f"expected each name once, found {name} twice", param_hint="--machine")
        machines[name] = directory_inside(directory, "--machine")
    require_apart(list(machines.values()), "--machine")
    return machines


def separate_disks_given(machines: Sequence[str], disks: Sequence[str]) -> tuple[SeparateDisk, ...]:
    """Return the directories with their own disks, from the values of --machine and --disk-of."""
    found = dict.fromkeys(machines_named(machines).values(), "")
    for value in disks:
        directory, _, profile = value.rpartition("=")
        if not directory:
            raise typer.BadParameter(f"expected DIR=KIND, such as log=ext4, found {value}", param_hint="--disk-of")
        if profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise typer.BadParameter(f"expected a kind of crash: {known}; found {profile}", param_hint="--disk-of")
        path = directory_inside(directory, "--disk-of")
        require_apart([*found, path], "--disk-of")
        found[path] = profile
    return tuple(SeparateDisk(f"{FILES}/{directory}", profile) for directory, profile in found.items())


def directory_inside(directory: str, option: str) -> str:
    """Return a directory relative to the program's. Raises BadParameter unless it is inside the program's directory."""
    path = PurePosixPath(directory)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise typer.BadParameter(
            f"expected a directory below the program's own, such as data, found {directory}", param_hint=option
        )
    return str(path)


def require_apart(directories: Sequence[str], option: str) -> None:
    """Raise BadParameter if one directory equals or contains another."""
    for number, one in enumerate(directories):
        for other in directories[number + 1 :]:
            outer, inner = sorted((one, other), key=len)
            if f"{inner}/".startswith(f"{outer}/"):
                raise typer.BadParameter(f"expected separate directories, found {one} and {other}", param_hint=option)

"""Amounts: parses seeds and times of command-line options.

The pytest plugin imports this module at its start, so the module imports little.
"""

from math import isfinite

import typer

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seeds(seeds: str | None, seed: int | None) -> range | None:
    """Return None if the command has neither option."""
    if seed is not None:
        if seeds is not None:
            raise typer.BadParameter("expected --seed or --seeds, found both", param_hint="--seed")
        if seed < 0:
            raise typer.BadParameter(f"expected a number from 0 on, found {seed}", param_hint="--seed")
        return range(seed, seed + 1)
    if seeds is None:
        return None
    first, _, last = seeds.rpartition(":")
    try:
        found = range(int(first or 0), int(last))
    except ValueError as error:
        raise typer.BadParameter(f"expected N or A:B, found {seeds}", param_hint="--seeds") from error
    if found.start < 0:
        raise typer.BadParameter(f"expected numbers from 0 on, found {seeds}", param_hint="--seeds")
    if not found:
        raise typer.BadParameter(f"expected at least one seed, found {seeds}", param_hint="--seeds")
    return found


def parse_seconds(text: str, option: str = "--time") -> float:
    """Parse a time such as 30s, 5m or 1h. An error message names the option."""
    unit = _UNITS.get(text[-1:])
    try:
        found = float(text[:-1]) * unit if unit else float(text)
    except ValueError as error:
        raise typer.BadParameter(f"expected a time such as 30s or 5m, found {text}", param_hint=option) from error
    if not (found > 0 and isfinite(found)):
        raise typer.BadParameter(f"expected a finite time above 0, found {text}", param_hint=option)
    return found

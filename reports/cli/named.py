"""Names: validates names of scenarios and mutants on the command line."""

from collections.abc import Callable

import typer

from ...scenarios import mutants
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.scenario import POLICIES, Scenario
from ...scenarios.mutants.files import MutantFileError
from ...scenarios.mutants.known import find_mutant
from .console import ERR
from .options import unknown_name_error


def require_mutant(name: str | None, option: str | None = "--mutant") -> None:
    """Raise BadParameter for an unknown mutant. None means the unmodified store."""
    if name is not None and not is_mutant(name, option):
        raise unknown_name_error("mutant", name, mutants.MUTANTS, option)


def is_mutant(name: str, option: str | None = None, find: Callable[[str], object] = find_mutant) -> bool:
    """Return whether a mutant with this name exists. Raises BadParameter if a named file does not define it."""
    try:
        return find(name) is not None
    except MutantFileError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def scenarios_named(
    names: list[str] | None, disk: str | None, policy: str | None, *, attribute_points: bool = False
) -> list[Scenario]:
    """Return the named scenarios, or all, restricted to a disk and a policy (`Scenario.narrowed`).

    Raises BadParameter for unknown names, and for scenarios that need a missing package. Without names, such scenarios,
    and those that do not support the disk, are omitted with a printed note.
    """
    for name in names or ():
        if name not in SCENARIOS:
            raise unknown_name_error("scenario", name, SCENARIOS)
        if missing := SCENARIOS[name].missing:
            raise typer.BadParameter(f"{name}: needs {missing}")
    for what, chosen, known in (("disk", disk, DISK_MODELS), ("policy", policy, POLICIES)):
        if chosen is not None and chosen not in known:
            raise unknown_name_error(what, chosen, known, f"--{what}")
    able = [name for name, scenario in SCENARIOS.items() if not scenario.missing]
    for missing in dict.fromkeys(one.missing for one in SCENARIOS.values() if one.missing and not names):
        unable = [name for name, scenario in SCENARIOS.items() if scenario.missing == missing]
        ERR.print(f"left out, because they need {missing}: {', '.join(unable)}", soft_wrap=True, markup=False)
    wanted = list(dict.fromkeys(names or able))
    if not names and disk in DISK_MODELS:
        wanted = [name for name in wanted if SCENARIOS[name].can_run_on(disk)]
        if left_out := len(able) - len(wanted):
            text = f"{left_out} scenarios of several machines are left out: they do not support the disk {disk}"
            ERR.print(text, soft_wrap=True)
    try:
        return [
            SCENARIOS[name].narrowed(disk=disk, policy=policy, attribute_points=attribute_points) for name in wanted
        ]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error

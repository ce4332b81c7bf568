"""Tables of the command `list`: contain names with explanations."""

from collections.abc import Mapping, Sequence

import typer
from rich import box
from rich.table import Table

from ...faults.crashes.at_rest import DAMAGES
from ...faults.crashes.profiles import PROFILES
from ...faults.kinds import FAULTS
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.scenario import POLICIES
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.versions import VERSIONS
from ...scenarios.oracle.guarantees import describe_promises
from ...scenarios.oracle.invariants import INVARIANTS
from ...scenarios.runs.marks import MARKS
from .console import OUT
from .options import write_json


def print_names(sections: Sequence[str], word: str, json_file: str | None) -> None:
    groups: dict[str, Mapping[str, str]] = {
        "scenarios": {scenario.name: scenario.claim for scenario in SCENARIOS.values()},
        "invariants": INVARIANTS,
        "faults": FAULTS,
        "disks": {disk_model.name: disk_model.meaning for disk_model in DISK_MODELS.values()},
        "promises": {disk: describe_promises(disk) for disk in DISK_MODELS},
        "crashes": {name: profile.summary for name, profile in PROFILES.items()},
        "damage": {name: damage.summary for name, damage in DAMAGES.items()},
        "marks": MARKS,
        "policies": POLICIES,
        "mutants": {mutant.id: mutant.summary for mutant in MUTANTS.values()},
        "versions": {version.id: version.summary for version in VERSIONS.values()},
    }
    groups = {
        title: {name: text for name, text in groups[title].items() if word.lower() in f"{name} {text}".lower()}
        for title in sections
    }
    if not any(groups.values()):
        raise typer.BadParameter(f"no name or meaning in {', '.join(sections)} contains {word}", param_hint="WORD")
    write_json(json_file, groups)
    if json_file == "-":
        return
    for title, members in groups.items():
        if not members:
            continue
        table = Table(title=title, title_justify="left", show_header=False, box=box.SIMPLE)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, text in members.items():
            table.add_row(name, text)
        OUT.print(table)

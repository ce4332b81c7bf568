"""The command that lists what there is to name."""

from ...faults.kinds import FAULTS
from ...faults.profiles import PROFILES
from ...store.commands import write_json
from ..catalogue import SCENARIOS
from ..invariants import INVARIANTS
from ..judging.promised import promised_text
from ..marks import MARKS
from ..mutants import MUTANTS
from ..mutants.versions import VERSIONS
from ..present import (
    disk_text,
    names_table,
)
from ..realities import REALITIES
from ..scenario import POLICIES
from .common import OUT, JsonFile


def list_(json_file: JsonFile = None) -> None:
    """List scenarios, invariants, faults, disks, policies, mutants and versions."""
    groups = {
        "scenarios": {scenario.name: scenario.claim for scenario in SCENARIOS.values()},
        "invariants": INVARIANTS,
        "faults": FAULTS,
        "disks": {reality.name: reality.meaning for reality in REALITIES.values()},
        "promises": {disk: promised_text(disk) for disk in REALITIES},
        "crashes": {name: disk_text(profile) for name, profile in PROFILES.items()},
        "marks": MARKS,
        "policies": POLICIES,
        "mutants": {mutant.id: mutant.summary for mutant in MUTANTS.values()},
        "versions": {version.id: version.summary for version in VERSIONS.values()},
    }
    if json_file is not None:
        write_json(json_file, groups)
    if json_file == "-":
        return
    for title, members in groups.items():
        OUT.print(names_table(title, members))

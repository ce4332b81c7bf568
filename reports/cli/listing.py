"""The command that lists what there is to name."""

from ...faults.crashes.profiles import PROFILES
from ...faults.kinds import FAULTS
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.scenario import POLICIES
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.versions import VERSIONS
from ...scenarios.oracle.guarantee_table import promised_text
from ...scenarios.oracle.invariants import INVARIANTS
from ...scenarios.runs.marks import MARKS
from .common import OUT, JsonFile
from .options import write_json
from .present import disk_text, names_table


def list_(json_file: JsonFile = None) -> None:
    """List scenarios, invariants, faults, disks, policies, mutants and versions."""
    groups = {
        "scenarios": {scenario.name: scenario.claim for scenario in SCENARIOS.values()},
        "invariants": INVARIANTS,
        "faults": FAULTS,
        "disks": {disk_model.name: disk_model.meaning for disk_model in DISK_MODELS.values()},
        "promises": {disk: promised_text(disk) for disk in DISK_MODELS},
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

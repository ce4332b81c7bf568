"""The command that lists what there is to name."""

from rich import box
from rich.table import Table

from ...faults.crashes.profiles import PROFILES, CrashProfile
from ...faults.kinds import FAULTS
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.scenario import POLICIES
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.versions import VERSIONS
from ...scenarios.oracle.guarantees import promised_text
from ...scenarios.oracle.invariants import INVARIANTS
from ...scenarios.runs.marks import MARKS
from .common import OUT
from .options import JsonFile, write_json


def list_(json_file: JsonFile = None) -> None:
    """List scenarios, invariants, faults, disks, policies, mutants and versions."""
    groups = {
        "scenarios": {scenario.name: scenario.claim for scenario in SCENARIOS.values()},
        "invariants": INVARIANTS,
        "faults": FAULTS,
        "disks": {disk_model.name: disk_model.meaning for disk_model in DISK_MODELS.values()},
        "promises": {disk: promised_text(disk) for disk in DISK_MODELS},
        "crashes": {name: _disk_text(profile) for name, profile in PROFILES.items()},
        "marks": MARKS,
        "policies": POLICIES,
        "mutants": {mutant.id: mutant.summary for mutant in MUTANTS.values()},
        "versions": {version.id: version.summary for version in VERSIONS.values()},
    }
    write_json(json_file, groups)
    if json_file == "-":
        return
    for title, members in groups.items():
        table = Table(title=title, title_justify="left", show_header=False, box=box.SIMPLE)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, text in members.items():
            table.add_row(name, text)
        OUT.print(table)


def _disk_text(profile: CrashProfile) -> str:
    if profile.page_cache_survives:
        return "the page cache survives, and with it every write, name and size"
    pages = "lost" if profile.whole_pages else "lost or torn"
    return f"unsynced pages may be {pages}; of unsynced names and sizes survive {profile.metadata.value}"

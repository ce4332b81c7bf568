"""Images written by our store: the disk after the last life of a scenario's run."""

from dataclasses import dataclass, replace
from pathlib import Path

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.export import export_image
from tornlog.faults.disk.image import Image
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.machine import ROOT, config_of
from tornlog.scenarios.claims.plan import LifeEnding, Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices
from tornlog.store.config import StoreConfig

CLEAN_STOP, PROCESS_KILL, POWER_LOSS = "clean stop", "process kill", "power loss"
_KINDS = (POWER_LOSS, PROCESS_KILL, POWER_LOSS, POWER_LOSS, PROCESS_KILL, CLEAN_STOP)
_DISKS = {
    POWER_LOSS: ("strict-posix", "ext4-ordered", "ext4-data", "xfs", "btrfs"),
    PROCESS_KILL: ("process-kill",),
    CLEAN_STOP: ("nothing-lost", "process-kill"),
}
_CRASHES = (LifeEnding.CRASH_IN_TRAFFIC, LifeEnding.CRASH_AT_REST, LifeEnding.CRASH_IN_LOAD)
_SCENARIOS = (
    *("sync-flush-power-cut", "async-flush-prefix", "process-kill"),
    *("segment-rollover-crash", "segment-allocation-crash", "crash-in-recovery", "clean-shutdown"),
    *("write-buffer-kill", "tag-filter-exact"),
    "truncated-record-returns",
    *("checkpoint-order", "torn-record", "retention-oldest-first"),
    *("index-lookup", "index-rollover-power-cut", "light-queue-dispatch"),
    *("transaction-outcome", "delayed-delivery"),
)
"""Scenarios whose directories the real store can open."""


@dataclass(frozen=True, slots=True)
class LastLife:
    """The result of a run's last life."""

    seed: int
    scenario: str
    kind: str
    disk: str
    plan: Plan
    image: Image

    def export(self, directory: Path) -> StoreConfig:
        """Write the image into an existing directory; return the settings to open it with."""
        export_image(self.image, ROOT, directory)
        return replace(config_of(self.plan), store_path_root_dir=str(directory))


def crash_image_left_by(seed: int, mutant: str | None = None) -> LastLife | None:
    """Run a seed. Return None if a mutant broke a promise before the end of the last life.

    Raises RuntimeError if the store without a mutant breaks a promise, also in the recovery of the image."""
    kind = _KINDS[seed % len(_KINDS)]
    scenario = SCENARIOS[_SCENARIOS[seed // len(_KINDS) % len(_SCENARIOS)]]
    choices = Choices(f"compare/{scenario.seed_stream}/{seed}")
    with applied_mutant(mutant):
        plan = _with_power_cut(kind, draw_plan(choices.stream("plan"), _ranges_ending_in(scenario.ranges, kind)))
        run = _LeftRun(plan, choices)
        violations = run.execute().violations
    if violations and mutant is None:
        raise RuntimeError(f"seed {seed}: the sound store broke a promise: {violations[0]}")
    if run.left is None:
        return None
    disk = "" if kind == CLEAN_STOP else plan.lives[-1].profile
    return LastLife(seed, scenario.name, kind, disk, plan, run.left)


def _with_power_cut(kind: str, plan: Plan) -> Plan:
    """Return the plan with a power cut in its last life, if kind says so."""
    last = plan.lives[-1]
    if kind != POWER_LOSS or not PROFILES[last.profile].page_cache_survives:
        return plan
    power_loss = DISK_MODELS[plan.disk].crashes[0]
    return replace(plan, lives=(*plan.lives[:-1], replace(last, profile=power_loss)))


def _ranges_ending_in(ranges: Ranges, kind: str) -> Ranges:
    """Return ranges for runs that end in this way, on disks that behave like file systems."""
    endings: tuple[str, ...] = (LifeEnding.STOP,)
    if kind != CLEAN_STOP:
        endings = tuple(one for one in ranges["endings"] if one in _CRASHES)
    disks = tuple(disk for disk in ranges["disk"] if disk in _DISKS[kind])
    return ranges.replace(
        endings=endings or (LifeEnding.CRASH_IN_TRAFFIC,),
        disk=disks or _DISKS[kind],
        heals=(False,),
        faults=None,
        rot=None,
    )


class _LeftRun(Run):
    """A run that keeps the image after its last life, before the recovery."""

    def __init__(self, plan: Plan, choices: Choices) -> None:
        super().__init__(plan, simulation_of(plan, choices))
        self.left: Image | None = None

    def _finish_run(self) -> None:
        self.left = self.lasting.next_image()
        super()._finish_run()

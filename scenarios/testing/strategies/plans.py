"""Strategies for plans, disk faults, and store directories after a run."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ....faults.disk.export import export_image
from ....faults.disk.image import Image
from ....faults.plan import FAILING_SYNCS, SPACE_ERRORS, SYNC_ERRORS, FaultPlan
from ....sim.choices import Choices
from ....sim.policies import Policy
from ....store.config import StoreConfig
from ...claims.machine import ROOT, config_of
from ...claims.plan import Plan
from ...claims.ranges import Ranges, draw_plan
from ...runs.run_of import simulation_of
from ...runs.store_run import Run
from .choices import choices, schedules

_RANGES = Ranges(
    lives=(1, 2),
    messages_each=(3, 8),
    producers=(1, 2),
    messages={"body_bytes_max": (40, 300), "property_bytes_max": (0,)},
    heals=(False,),
    disk=("ext4-ordered", "strict-posix", "xfs", "btrfs"),
)
_MS_MAX = 5_000


def plans(ranges: Ranges | None = None) -> st.SearchStrategy[Plan]:
    """Return plans from ranges.

    Put the simplest option of each range first, because Hypothesis shrinks to it. Run a plan with
    `tornlog.scenarios.runs.store_run.Run(plan, choices).execute()`.
    """
    wanted = Ranges() if ranges is None else ranges
    return choices().map(lambda drawn: draw_plan(drawn.stream("plan"), wanted))


def fault_plans() -> st.SearchStrategy[FaultPlan]:
    """Return plans of disk faults. The simplest plan has no faults."""
    return st.builds(FaultPlan, **{field.name: _values_of(field.name) for field in fields(FaultPlan)})


def _values_of(name: str) -> st.SearchStrategy[Any]:
    if name.endswith("_chance"):
        return st.just(0.0) | st.floats(0.0, 1.0)
    if name.endswith("_ms_max"):
        return st.integers(1, _MS_MAX)
    named = {"failing_sync": FAILING_SYNCS, "sync_error": SYNC_ERRORS, "space_error": SPACE_ERRORS}
    return st.sampled_from(named[name]) if name in named else st.booleans()


@dataclass(frozen=True, slots=True)
class DrawnDirectory:
    """The disk image of a store, and its settings."""

    image: Image
    config: StoreConfig

    def export(self, directory: Path) -> StoreConfig:
        """Write the files into an existing directory, and return the settings with which a store opens it."""
        export_image(self.image, ROOT, directory)
        return replace(self.config, store_path_root_dir=str(directory))


@st.composite
def store_directories(draw: st.DrawFn, ranges: Ranges | None = None) -> DrawnDirectory:
    """Return a store's directory after one of its stops or crashes. The plan of the run is from the ranges."""
    plan = draw(plans(_RANGES if ranges is None else ranges))
    images = _images_of(plan, draw(choices()), draw(schedules()))
    return DrawnDirectory(draw(st.sampled_from(images)), config_of(plan))


def _images_of(plan: Plan, drawn: Choices, policy: Policy) -> list[Image]:
    """Return the disk images from which a run's machines started: at least one, for the final recovery."""
    images: list[Image] = []
    run = Run(plan, simulation_of(plan, drawn, policy))
    run.lasting.on_image = images.append
    run.execute()
    return images

"""Plans of runs, as scenarios draw them, and plans of disk faults."""

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from ....faults.plan import FAILING_SYNCS, FaultPlan
from ...claims.plan import Plan
from ...claims.ranges import Ranges, draw_plan
from .choices import choices

_MS_MAX = 5_000


def plans(ranges: Ranges | None = None) -> st.SearchStrategy[Plan]:
    """Return plans of runs, drawn from ranges. Put the simplest option of each range first.

    Run one with `tornlog.scenarios.runs.store_run.Run(plan, choices).execute()`.
    """
    wanted = Ranges() if ranges is None else ranges
    return choices().map(lambda drawn: draw_plan(drawn.stream("plan"), wanted))


def fault_plans() -> st.SearchStrategy[FaultPlan]:
    """Return plans of disk faults. The simplest has no faults."""
    return st.builds(FaultPlan, **{field.name: _values_of(field.name) for field in fields(FaultPlan)})


def _values_of(name: str) -> st.SearchStrategy[Any]:
    if name.endswith("_chance"):
        return st.just(0.0) | st.floats(0.0, 1.0)
    if name.endswith("_ms_max"):
        return st.integers(1, _MS_MAX)
    return st.sampled_from(FAILING_SYNCS) if name == "failing_sync" else st.booleans()

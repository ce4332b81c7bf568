"""Pytest hook: draws a failure of a user's own code as a timeline.

The plugin in `scenarios/testing` calls it, because `scenarios` must not import `reports`. pytest loads this module in
every session, so slow imports are inside the hook.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ...faults.simulation.finding import Finding
    from ...faults.simulation.simulation import Scenario


# with -p no:tornlog the hook has no specification, but pytest still loads this module
@pytest.hookimpl(optionalhook=True)
def pytest_tornlog_failure(scenario: "Scenario", finding: "Finding", out: Path, name: str) -> Path | None:
    """Write the timeline of a failure to out/timelines; return None if the run is too long to draw."""
    from ..cli.pages import TIMELINE_STEPS_MAX, draw_run
    from .recording.recorder import record_finding

    if finding.steps > TIMELINE_STEPS_MAX:
        return None
    (page,) = draw_run(record_finding(scenario, finding), out / "timelines" / f"{name}.html", None)
    return page

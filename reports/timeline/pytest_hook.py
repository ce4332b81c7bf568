"""Pytest hooks: draw timelines of failures of user code, and probe programs.

The plugin in `scenarios/testing` calls these hooks, because `scenarios` must not import `reports`. pytest loads this
module in every session, so slow imports are inside the hooks.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...faults.simulation.finding import Finding
    from ...faults.simulation.simulation import Scenario
    from ...scenarios.testing.probed import NamedCheck, ProbeAnswer


# with -p no:tornlog this hook has no specification, but pytest still loads the module
@pytest.hookimpl(optionalhook=True)
def pytest_tornlog_failure(scenario: "Scenario", finding: "Finding", out: Path, name: str) -> Path | None:
    """Write the timeline of a failure to out/timelines; return None if the run is too long to draw."""
    from ..cli.options import TIMELINE_STEPS_MAX, draw_run
    from .recording.recorder import record_finding

    if finding.steps > TIMELINE_STEPS_MAX:
        return None
    (page,) = draw_run(record_finding(scenario, finding), out / "timelines" / f"{name}.html", None)
    return page


@pytest.hookimpl(optionalhook=True)
def pytest_tornlog_probe(
    program: list[str], check: "NamedCheck | Path | None", options: dict[str, Any], out: Path | None
) -> "ProbeAnswer":
    """Probe a program for the fixture `probe`. Raises ProbeError without a verdict."""
    from ..cli.probe.in_pytest import probe_in_test

    return probe_in_test(program, check, options, out)

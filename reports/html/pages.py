"""What this package and that of timelines draw, for the commands that ask for it."""

from ...scenarios.cli.results import HuntResults, RunResults
from ..timeline.pages import TimelinePages
from .hunt_report import hunt_page
from .run_report import run_page


class ReportPages(TimelinePages):
    """Pages of single runs, and of many."""

    def run_report(self, results: RunResults) -> str:
        """Return what many runs came to as an HTML page that needs nothing else."""
        return run_page(results)

    def hunt_report(self, results: HuntResults) -> str:
        """Return what came of hunting mutants as an HTML page that needs nothing else."""
        return hunt_page(results)

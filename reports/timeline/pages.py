"""What this package draws of runs, for the commands that ask for it."""

from ...scenarios.chronicle.record import Chronicle
from .page import timeline_page
from .perfetto import trace_json


class TimelinePages:
    """Pages of single runs."""

    def timeline(self, chronicle: Chronicle) -> str:
        """Return a run as an HTML page that needs nothing else."""
        return timeline_page(chronicle)

    def trace(self, chronicle: Chronicle) -> str:
        """Return a run as JSON of trace events."""
        return trace_json(chronicle)

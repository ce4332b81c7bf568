"""What the harness and the store do in a second, measured here and now: medians of several rounds, beside floors.

`suite` says what is measured; `simulated`, `puts`, `reads`, `dispatching`, `loads` and `raw_disk` measure it, in a
`workplace`, mostly by a `closed_loop`; `figure` is what comes out and `table` how it reads.
"""

from .figure import Figure, Latency, Sample
from .suite import run_bench, select
from .workplace import BenchSettings

__all__ = ["BenchSettings", "Figure", "Latency", "Sample", "run_bench", "select"]

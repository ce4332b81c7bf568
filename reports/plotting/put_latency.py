"""How long puts took in simulated runs, by disk, flush mode and number of producers: from the median to p99."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from .style import durations_on, steps

_LEAST_US = 1
"""Puts that take no virtual time at all are drawn here, at the left end of a logarithmic axis."""


def put_latency_figure(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw rows of `reports.analysis.put_latency`, at least one. The caller is inside `house_style`."""
    disks = sorted({row["disk"] for row in rows})
    producers = sorted({row["producers"] for row in rows})
    colours = dict(zip(producers, steps(len(producers)), strict=True))
    figure = Figure(figsize=(9, 1.3 + 0.14 * len(disks) * (len(producers) + 1)), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    pitch = 1 / (len(producers) + 1)
    for panel, sync_flush in zip(panels, (True, False), strict=True):
        panel.set_title("sync flush" if sync_flush else "async flush")
        panel.set_xscale("log")
        for row in rows:
            if row["sync_flush"] is sync_flush:
                at = disks.index(row["disk"]) + (producers.index(row["producers"]) + 1) * pitch - 0.5
                p50, p99 = (max(row[name], _LEAST_US) for name in ("p50_us", "p99_us"))
                panel.plot([p50, p99], [at, at], color=colours[row["producers"]], linewidth=2.2)
                panel.plot([p50], [at], "o", color=colours[row["producers"]], markersize=4)
        panel.set_yticks(range(len(disks)), disks)
        panel.grid(visible=False, axis="y")
        durations_on(panel.xaxis)
        panel.set_xlabel("p50 (dot) to p99, virtual time")
    panels[0].set_ylim(len(disks) - 0.5, -0.5)
    names = [f"{count} producer{'' if count == 1 else 's'}" for count in producers]
    handles = [panels[0].plot([], [], color=colours[count], linewidth=2.2)[0] for count in producers]
    figure.legend(handles, names, loc="outside lower right", ncols=len(producers))
    return figure

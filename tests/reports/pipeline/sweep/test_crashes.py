import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.command_line import tornlog

WRITER = """
    import os
    import sys

    from tornlog.faults.probe import acknowledge
    from tornlog.reports.pipeline.sweep.request import Begun, SweepRequest
    from tornlog.reports.pipeline.sweep.rows import row_of
    from tornlog.reports.pipeline.sweep.table import Table
    from tornlog.scenarios.campaigns.seeds import SeedResult

    left_out = sys.argv[1:]
    real = os.fsync

    def fsync(descriptor):
        what = "directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file"
        if what not in left_out:
            real(descriptor)

    os.fsync = fsync
    request = SweepRequest(("a",), 0, 4, block_seeds=2)
    table = Table(os.getcwd() + "/sweep")
    table.start_sweep(Begun(request))
    acknowledge("begun")
    for block in Begun(request).blocks():
        seeds = range(block.first, block.first + block.count)
        table.write(block, [row_of(SeedResult("a", seed, "held"), None) for seed in seeds])
        acknowledge(block.file_name)
"""
CHECK = """
    from tornlog.reports.pipeline.sweep.request import Begun, SweepRequest
    from tornlog.reports.pipeline.sweep.table import Table

    def check(directory, acknowledged):
        table = Table(str(directory / "sweep"))
        begun = table.begun()
        if acknowledged and begun is None:
            yield "the description is lost"
        files = table.files(every_page=True)
        for name in files.damaged:
            yield f"{name} is not whole"
        for name in acknowledged[1:]:
            if name not in files.whole:
                yield f"{name} is lost"
        seeds = sorted(table.read(["seed"])["seed"].to_pylist())
        blocks = Begun(SweepRequest(("a",), 0, 4, block_seeds=2)).blocks()
        if seeds != [seed for block in blocks if block.file_name in files.whole
                     for seed in range(block.first, block.first + 2)]:
            yield f"the rows are those of seeds {seeds}"
"""


MERGER = """
    import os

    from tornlog.reports.pipeline.spark.engine import InProcessEngine
    from tornlog.reports.pipeline.sweep import request as module
    from tornlog.reports.pipeline.sweep.table import merge_table
    from tornlog.reports.pipeline.sweep.request import Begun, SweepRequest
    from tornlog.reports.pipeline.sweep.rows import row_of
    from tornlog.reports.pipeline.sweep.table import Table
    from tornlog.scenarios.campaigns.seeds import SeedResult

    module.MERGED_SEEDS = 4
    begun, table = Begun(SweepRequest(("a",), 0, 6, block_seeds=2)), Table(os.getcwd() + "/sweep")
    table.start_sweep(begun)
    for block in begun.blocks():
        seeds = range(block.first, block.first + block.count)
        table.write(block, [row_of(SeedResult("a", seed, "held"), None) for seed in seeds])
    print("written", flush=True)
    assert merge_table(table, InProcessEngine()) == 2
    print("merged", flush=True)
"""
MERGER_CHECK = """
    from tornlog.reports.pipeline.spark.engine import InProcessEngine
    from tornlog.reports.pipeline.sweep import request
    from tornlog.reports.pipeline.sweep.table import merge_table
    from tornlog.reports.pipeline.sweep.table import Table

    def seen(table):
        return table.read(["seed"])["seed"].to_pylist()

    def check(directory, acknowledged):
        if "written" not in acknowledged:
            return
        request.MERGED_SEEDS = 4
        table = Table(str(directory / "sweep"))
        if table.files(every_page=True).damaged:
            yield "a file is not whole"
        if seen(table) != list(range(6)):
            yield f"the rows are those of seeds {seen(table)}"
        if merge_table(table, InProcessEngine()) != 2 or seen(table) != list(range(6)):
            yield f"merged again, the rows are those of seeds {seen(table)}"
"""


def probe_writer(
    directory: Path, *arguments: str, writer: str = WRITER, check: str = CHECK, by: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the result of probing a writer on the most lossy disk; by: the interpreter that runs the probe."""
    (directory / "writer.py").write_text(dedent(writer))
    (directory / "check.py").write_text(dedent(check))
    command = ["probe", "--disk", "strict-posix", "--json", str(directory / "found.json"), "--jobs", "0"]
    command += ["--check", str(directory / "check.py"), "--", *by, str(directory / "writer.py"), *arguments]
    tornlog(*command)
    found: dict[str, Any] = json.loads((directory / "found.json").read_text())
    assert not found["refused"], found["refused"]
    return found


@pytest.mark.slow
def test_a_finished_block_survives_every_crash_and_no_row_file_is_torn(tmp_path: Path) -> None:
    found = probe_writer(tmp_path)
    assert found["breaches"] == []
    assert found["acknowledged"] == 3
    assert found["judged"] > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left_out", "breach"), [("file", "is not whole"), ("directory", "is lost")], ids=["file", "directory"]
)
def test_the_probe_detects_each_missing_sync_of_a_row_file(tmp_path: Path, left_out: str, breach: str) -> None:
    found = probe_writer(tmp_path, left_out)
    said = [line for one in found["breaches"] for line in one["violations"]]
    assert any(breach in line for line in said), said


@pytest.mark.slow
def test_a_row_file_merge_interrupted_at_any_operation_loses_or_repeats_no_row(tmp_path: Path) -> None:
    found = probe_writer(
        tmp_path, writer=MERGER, check=MERGER_CHECK, by=(sys.executable,)
    )  # files are deleted by Arrow
    assert found["breaches"] == []
    assert found["acknowledged"] == 2
    assert found["judged"] > 10

import random

import pytest

from tornlog.reports.pipeline.spark.engine import InProcessEngine
from tornlog.reports.pipeline.sweep.request import (
    BLOCK_SECONDS,
    BLOCK_SEEDS_MAX,
    Block,
    SeedSpan,
    StartedSweep,
    SweepRequest,
)
from tornlog.reports.pipeline.sweep.sweep import measured_sizes, seconds_per_seed


def test_a_block_has_a_fixed_duration_or_less_if_cores_would_be_idle() -> None:
    seconds = {"quick": 0.01, "slow": 0.1}
    large = SweepRequest(("quick", "slow"), 0, 10**8)

    assert large.sizes(seconds, 1000) == {"quick": 4500, "slow": 450}
    assert large.sizes({"quick": 1e-6, "slow": 100.0}, 1) == {"quick": BLOCK_SEEDS_MAX, "slow": 1}
    small = SweepRequest(("quick", "slow"), 0, 10_000).sizes(seconds, 4)
    blocks = list(StartedSweep(SweepRequest(("quick", "slow"), 0, 10_000), small).blocks())
    assert max(block.count * seconds[block.scenario] for block in blocks) < BLOCK_SECONDS
    assert len(blocks) >= 4 * 32


@pytest.mark.parametrize("seed", range(20))
def test_blocks_and_merged_files_contain_every_seed_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr("tornlog.reports.pipeline.sweep.request.MERGED_SEEDS", draw.randint(1, 60))
    first = draw.randint(0, 50)
    request = SweepRequest(("a", "b", "c"), first, first + draw.randint(1, 120))
    begun = StartedSweep(request, {"a": draw.randint(1, 30), "b": draw.randint(1, 30)})
    blocks = [block.span for block in begun.blocks()]

    assert len({span.file_name for span in blocks}) == len(blocks)
    for spans in (blocks, list(begun.merged())):
        assert all(SeedSpan.of_file(span.file_name) == span for span in spans)
        seeds = [(span.scenario, seed) for span in spans for seed in range(span.first, span.end)]
        wanted = [(name, seed) for name in request.scenarios for seed in range(request.first, request.last)]
        assert sorted(seeds) == wanted
    for merged in begun.merged():
        assert (
            sum(
                span.count
                for span in blocks
                if span.scenario == merged.scenario and merged.first <= span.first < merged.end
            )
            == merged.count
        ), "a merged file has whole blocks"


def test_block_sizes_are_measured_on_the_engine_of_the_sweep() -> None:
    name = "clean-shutdown"
    asked: list[Block] = []

    class Noting(InProcessEngine):
        def results(self, function, items):  # type: ignore[no-untyped-def]
            asked.extend(items := list(items))
            return super().results(function, items)

    sizes = measured_sizes(SweepRequest((name,), 50, 10**6), Noting())
    assert [(block.scenario, block.first) for block in asked] == [(name, 50)]
    assert 45 / 2 < sizes[name] <= BLOCK_SEEDS_MAX
    assert measured_sizes(SweepRequest((name,), 0, 100), InProcessEngine()) == {}
    assert measured_sizes(SweepRequest((name,), 0, 10**6, block_seeds=7), InProcessEngine()) == {}


def test_the_measured_time_of_a_seed_is_plausible() -> None:
    scenario, seconds = seconds_per_seed(Block("clean-shutdown", 0, 3))
    assert scenario == "clean-shutdown"
    assert 0 < seconds < 30

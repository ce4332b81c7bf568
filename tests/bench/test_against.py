from pathlib import Path

import pytest

from tests.bench.against import Checkout, Compared, Measured, OtherCheckoutError, compare

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_checkout_compared_with_itself_has_each_figure_twice_per_round() -> None:
    begun: list[str] = []
    (steps,) = compare(ROOT, 2, ["kernel steps"], [], begun.append)
    assert (steps.name, steps.unit) == ("kernel steps", "steps/s")
    assert len(steps.this) == len(steps.other) == len(steps.ratios) == 2
    assert all(ratio > 0 for ratio in steps.ratios)
    assert len(steps.cpu_ratios) == 2
    assert all(ratio > 0 for ratio in steps.cpu_ratios)
    assert begun == [f"round {number} of 2: {side} checkout" for number in (1, 2) for side in ("this", "other")]


def test_a_lower_time_or_memory_figure_is_an_improvement() -> None:
    assert Compared("load", "ms", [10.0], [20.0]).ratios == [2.0]
    assert Compared("call, recorded", "µs", [10.0], [20.0]).ratios == [2.0]
    assert Compared("puts", "puts/s", [10.0], [20.0]).ratios == [0.5]


@pytest.mark.ci
def test_seeds_are_counted_by_the_cpu_time_of_the_command() -> None:
    assert 1 < Checkout(ROOT).seeds_per_s(["crash-in-recovery"], 0) < 10_000


def test_a_directory_without_a_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OtherCheckoutError, match="expected a checkout of tornlog, found none"):
        Checkout(tmp_path)


def test_a_command_that_writes_no_json_is_reported_with_its_last_output() -> None:
    with pytest.raises(OtherCheckoutError, match="run no-such-scenario: "):
        Checkout(ROOT).run("tornlog", "run", "no-such-scenario")


def test_processor_time_is_compared_if_both_checkouts_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter(
        [
            {"puts": Measured("puts/s", 50.0, 10.0), "load": Measured("ms", 3.0)},
            {"puts": Measured("puts/s", 100.0, 25.0), "load": Measured("ms", 3.0)},
        ]
    )
    monkeypatch.setattr(Checkout, "figures", lambda *_: next(rounds))
    puts, load = compare(ROOT, 1, ["puts"], [], lambda _: None)

    assert (puts.ratios, puts.cpu_ratios, load.cpu_ratios) == ([0.5], [2.5], [])
    assert (puts.to_json()["cpu_ratio"], "cpu_ratio" in load.to_json()) == (2.5, False)

import csv
import json
from functools import partial
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.reports.studies.latency.real import command, memory_limit
from tornlog.reports.studies.latency.real.model import MachineModel
from tornlog.reports.studies.latency.real.turns import MachineCondition, Mode, TurnPlan

invoke = partial(tornlog, "plot", "latency")


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_latency_study_pictures_are_written_beside_their_data(tmp_path: Path) -> None:
    result = invoke("--disk", "nvme-ssd", "--producers", 1, "--producers", 4, "--puts", 200, "--out", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    rows = rows_in(tmp_path / "latency.csv")

    assert result.exit_code == 0, result.output
    assert names == {
        *(f"latency.{kind}" for kind in ("png", "svg", "csv")),
        *(f"latency-effects.{kind}" for kind in ("png", "svg", "csv")),
        *(f"latency-conditions.{kind}" for kind in ("png", "svg")),
        "latency-curves.csv",
        "latency-slowest.csv",
        "group-commit.csv",
    }
    assert [(row["condition"], row["flush"], row["producers"]) for row in rows] == [
        *(("free", flush, producers) for flush in ("sync", "async", "pool") for producers in ("1", "4")),
        *((condition, flush, "4") for condition in ("short", "busy") for flush in ("sync", "async", "pool")),
    ]
    assert {row["source"] for row in rows} == {"simulated"}
    assert all(0 < float(row["p50_us"]) <= float(row["p99_us"]) <= float(row["max_us"]) for row in rows)
    assert float(rows[0]["p50_us"]) > float(rows[2]["p50_us"])  # puts that wait for the disk take longer
    assert {row["effect"] for row in rows_in(tmp_path / "latency-effects.csv")} == {"rollover", "slow syncs"}
    assert "nvme-ssd" in result.output
    assert str(tmp_path / "latency.png") in result.output.replace("\n", "")


@pytest.mark.slow
def test_the_latency_study_writes_the_same_bytes_for_the_same_seed(tmp_path: Path) -> None:
    options = ("--disk", "hdd", "--producers", 2, "--puts", 150, "--seed", 3)
    for name in ("one", "other"):
        assert invoke(*options, "--out", tmp_path / name).exit_code == 0

    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_the_latency_study_measures_turns_beside_a_neighbour(tmp_path: Path) -> None:
    document = tmp_path / "turns.json"
    result = invoke(
        *("--disk", "here", "--load", "4MiB", "--producers", 2, "--turns", 1),
        *("--dir", tmp_path, "--out", tmp_path / "out", "--json", document),
    )
    found = json.loads(document.read_text())
    rows = rows_in(tmp_path / "out" / "latency-turns.csv")
    modes = (("sync", "0"), ("async", "0"), ("async", "1"), ("pool", "0"))

    assert result.exit_code == 0, result.output
    assert [(row["source"], row["load_mib_per_s"], row["flush"], row["warmed"]) for row in rows] == [
        (source, load, *mode) for source in ("real", "simulated") for load in ("", "4") for mode in modes
    ]
    assert {row["p99.99_us"] for row in rows} == {""}  # too few puts
    assert [row["p50_us"] for row in rows] == [str(row["p50_us"]) for row in found["rows"]]
    assert "page" in found["notes"][0] or "does not count" in found["notes"][0]
    assert [(row["load_mib_per_s"], row["flush"]) for row in found["model"]] == [
        (load, flush) for load in ("", 4) for flush, _ in modes
    ]
    for ratios, real, simulated in zip(
        found["model"], found["rows"], found["rows"][len(found["model"]) :], strict=False
    ):
        assert ratios["p50"] == pytest.approx(
            simulated["p50_us"] / real["p50_us"], rel=0.01, abs=0.0005
        )  # it is rounded
    assert [note.partition(" wrote ")[0] for note in found["notes"][1:]] == ["the neighbour"]
    assert {row["verdict"] for row in found["paired"]} == {"too few turns"}
    intervals = rows_in(tmp_path / "out" / "latency-turns-throughput.csv")
    assert sum(int(row["puts_per_s"]) for row in intervals) == 10 * sum(int(row["puts"]) for row in rows)
    assert {path.name for path in tmp_path.iterdir()} == {"turns.json", "out"}


@pytest.mark.parametrize(
    "options", [("--disk", "hdd", "--load", "4MiB"), ("--disk", "hdd", "--disk", "here"), ("--memory", "4MiB")]
)
def test_this_machine_is_measured_alone(options: tuple[str, ...], tmp_path: Path) -> None:
    result = invoke(*options, "--out", tmp_path)

    assert result.exit_code == 2
    assert "expected --disk here alone" in result.output


@pytest.mark.ci
def test_a_disk_without_direct_writes_is_measured_without_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "has_direct_writes", lambda _: False)
    plan = TurnPlan([MachineCondition()], [2], turns=1, seconds=0.05, modes=(Mode("pool"),), extra=MachineModel)
    _, found = command.measured_plan(plan, tmp_path)

    assert {turn.cell.source for turn in found} == {"real"}


def test_without_a_memory_limit_one_sentence_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(memory_limit, "_create_cgroup", refuse)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = invoke("--disk", "here", "--memory", "64MiB", "--turns", 1, "--out", tmp_path / "out")

    assert result.exit_code == 2
    assert "systemd-run is not on the PATH" in " ".join(result.output.split())


def test_a_size_without_a_unit_is_a_usage_error(tmp_path: Path) -> None:
    assert "expected a size such as 256MiB, found 256" in invoke("--memory", "256", "--out", tmp_path).output

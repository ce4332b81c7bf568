from pathlib import Path

import pytest
import typer

from tornlog.reports.cli.options import IN_PROCESS
from tornlog.reports.pipeline.spark.engine import InProcessEngine
from tornlog.reports.pipeline.spark.options import engine_for, session_for


def test_without_spark_the_options_ship_and_conf_are_usage_errors() -> None:
    with engine_for(IN_PROCESS) as engine:
        assert isinstance(engine, InProcessEngine)
    for options in ({"ship": ["tornlog.whl"]}, {"conf": ["spark.executor.memory=2g"]}):
        with pytest.raises(typer.BadParameter, match="needs Spark"), engine_for(IN_PROCESS, **options):
            pass


@pytest.mark.parametrize("text", ["spark.executor.memory", "=2g", ""])
def test_a_spark_property_requires_a_key_and_a_value(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected KEY=VALUE"), session_for("local[1]", conf=[text]):
        pass


def test_an_invalid_master_is_a_usage_error() -> None:
    with pytest.raises(typer.BadParameter, match="found nonsense") as caught, session_for("nonsense"):
        pass
    assert caught.value.param_hint == "--master"


def test_a_missing_part_to_ship_is_a_usage_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "tornlog.whl")
    with (
        pytest.raises(typer.BadParameter, match="no such file") as caught,
        session_for("spark://127.0.0.1:7077", [missing]),
    ):
        pass
    assert caught.value.param_hint == "--ship"

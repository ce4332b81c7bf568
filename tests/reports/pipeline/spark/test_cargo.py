from pathlib import Path

import pytest

from tornlog.reports.pipeline.spark.session import ShippedParts, ShippingError, session


@pytest.fixture
def parts_to_ship(tmp_path: Path) -> list[str]:
    """Create a wheel, a module and an archive, and return their paths in this order."""
    paths = [tmp_path / name for name in ("mine-1.0-py3-none-any.whl", "more.py", "environment.tar.gz")]
    for path in paths:
        path.write_bytes(path.name.encode())
    return [str(path) for path in paths]


def test_shipped_parts_are_grouped_by_kind(parts_to_ship: list[str]) -> None:
    wheel, module, archive = parts_to_ship
    cargo = ShippedParts.from_paths([archive, wheel, "hdfs:///libraries/other.zip", f"{module}#data", module])

    assert cargo.importable == (wheel, "hdfs:///libraries/other.zip", module)
    assert cargo.archives == (archive, f"{module}#data")


def test_executors_use_the_python_of_the_first_archive(parts_to_ship: list[str]) -> None:
    wheel, _, archive = parts_to_ship

    assert ShippedParts.from_paths([wheel]).python is None
    assert ShippedParts.from_paths([archive]).python == "./environment.tar.gz/bin/python"
    assert ShippedParts.from_paths([wheel, f"{archive}#environment", archive]).python == "./environment/bin/python"


def test_a_wheel_is_shipped_as_a_zip(parts_to_ship: list[str], tmp_path: Path) -> None:
    wheel, module, _ = parts_to_ship
    (tmp_path / "aside").mkdir()
    named, as_it_is = ShippedParts.from_paths([wheel, module]).importable_files(tmp_path / "aside")

    assert Path(named).name == "mine-1.0-py3-none-any.zip"
    assert Path(named).read_bytes() == Path(wheel).read_bytes()
    assert as_it_is == module


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("/no/such.whl", "/no/such.whl: no such file"),
        ("/no/such.tar.gz#environment", "/no/such.tar.gz: no such file"),
        ("hdfs:///libraries/odd.rar", "expected one of .whl"),
        ("s3://bucket/mine-1.0-py3-none-any.whl", "expected a local wheel"),
    ],
)
def test_a_part_that_cannot_be_shipped_is_refused_before_the_session_starts(part: str, message: str) -> None:
    with pytest.raises(ShippingError, match=message):
        ShippedParts.from_paths([part])


def test_shipping_parts_to_a_local_session_is_refused(parts_to_ship: list[str]) -> None:
    with pytest.raises(ShippingError, match="needs no shipped code"), session("local[2]", ship=parts_to_ship):
        pass

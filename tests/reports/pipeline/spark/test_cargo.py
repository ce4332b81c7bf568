from pathlib import Path

import pytest

from tornlog.reports.pipeline.spark.session import Cargo, CargoError, session


@pytest.fixture
def there(tmp_path: Path) -> list[str]:
    """Create a wheel, a module and an archive, and return their paths in this order."""
    paths = [tmp_path / name for name in ("mine-1.0-py3-none-any.whl", "more.py", "environment.tar.gz")]
    for path in paths:
        path.write_bytes(path.name.encode())
    return [str(path) for path in paths]


def test_parts_to_ship_are_divided_by_kind(there: list[str]) -> None:
    wheel, module, archive = there
    cargo = Cargo.of([archive, wheel, "hdfs:///libraries/other.zip", f"{module}#data", module])

    assert cargo.importable == (wheel, "hdfs:///libraries/other.zip", module)
    assert cargo.archives == (archive, f"{module}#data")


def test_the_python_of_executors_is_that_of_the_first_archive(there: list[str]) -> None:
    wheel, _, archive = there

    assert Cargo.of([wheel]).python is None
    assert Cargo.of([archive]).python == "./environment.tar.gz/bin/python"
    assert Cargo.of([wheel, f"{archive}#environment", archive]).python == "./environment/bin/python"


def test_a_wheel_is_shipped_as_a_zip(there: list[str], tmp_path: Path) -> None:
    wheel, module, _ = there
    (tmp_path / "aside").mkdir()
    named, as_it_is = Cargo.of([wheel, module]).importable_files(tmp_path / "aside")

    assert Path(named).name == "mine-1.0-py3-none-any.zip"
    assert Path(named).read_bytes() == Path(wheel).read_bytes()
    assert as_it_is == module


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("/no/such.whl", "/no/such.whl: no such file"),
        ("/no/such.tar.gz#environment", "/no/such.tar.gz: no such file"),
        ("hdfs:///libraries/odd.rar", "expected one of .whl"),
        ("s3://bucket/mine-1.0-py3-none-any.whl", "a wheel has to be a local file"),
    ],
)
def test_a_part_that_cannot_be_shipped_is_refused_before_the_session_starts(part: str, message: str) -> None:
    with pytest.raises(CargoError, match=message):
        Cargo.of([part])


def test_parts_to_ship_to_a_local_session_are_refused(there: list[str]) -> None:
    with pytest.raises(CargoError, match="nothing to ship to"), session("local[2]", ship=there):
        pass

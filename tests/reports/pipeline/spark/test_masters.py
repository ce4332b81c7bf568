import pytest

from tornlog.reports.pipeline.spark.engine import is_in_this_environment, is_master, is_on_this_machine


@pytest.mark.parametrize(
    ("master", "in_this_environment", "on_this_machine"),
    [
        ("local", True, True),
        ("local[*]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://127.0.0.1:7077", False, True),
        ("spark://head:7077", False, False),
        ("yarn", False, False),
    ],
)
def test_a_spark_master_is_classified_as_in_process_local_or_remote(
    master: str, *, in_this_environment: bool, on_this_machine: bool
) -> None:
    assert is_in_this_environment(master) is in_this_environment
    assert is_on_this_machine(master) is on_this_machine


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[4]", "local[*]", "local[2,3]", "local[*, 3]", "local-cluster[2,1,1024]", "yarn"),
        *("spark://head:7077", "spark://one:7077,two:7077", "k8s://https://api:6443"),
    ],
)
def test_valid_spark_masters_are_accepted(master: str) -> None:
    assert is_master(master)


@pytest.mark.parametrize("master", ["nonsense", "", "local[]", "local[0]", "local[x]", "spark://head", "in-process"])
def test_invalid_spark_masters_are_refused(master: str) -> None:
    assert not is_master(master)

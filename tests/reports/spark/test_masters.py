"""Where the work of a master is done."""

import pytest

from tornlog.reports.spark.masters import is_in_this_environment, is_on_this_machine


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
def test_a_masters_work_is_done_here_on_this_machine_or_elsewhere(
    master: str, *, in_this_environment: bool, on_this_machine: bool
) -> None:
    assert is_in_this_environment(master) is in_this_environment
    assert is_on_this_machine(master) is on_this_machine

import pytest

from tornlog.sim.policies.races import operation_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lock put", "unlock put"),
        ("~lock put", "lock put"),
        ("signal s", "notify signal s"),
        ("cell a.b.get", "cell a.b.set"),
        ("cell c.add", "cell c.compare_and_set"),
        ("store", "~msync /a file"),
    ],
)
def test_two_operations_on_one_object_race(one: str, other: str) -> None:
    assert operation_of(one).races_with(operation_of(other))
    assert operation_of(other).races_with(operation_of(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lock put", "lock row"),
        ("lock put", "signal put"),
        ("cell a.get", "cell a.get"),
        ("cell a.set", "cell b.set"),
        ("cell a.set", "store"),
        ("sleep", "sleep"),
        ("spawn", "spawn"),
        ("join m/a", "~join m/a"),
        ("~end", "~end"),
    ],
)
def test_two_operations_that_do_not_matter_to_each_other_do_not_race(one: str, other: str) -> None:
    assert not operation_of(one).races_with(operation_of(other))
    assert not operation_of(other).races_with(operation_of(one))

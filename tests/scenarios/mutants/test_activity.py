"""Activity of mutants: counted calls of their code, and effects that they report."""

from typing import Any

import pytest

from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.mutant import Mutant, Patch, PatchError, bit, bug, needs


class Base:
    def inherited(self) -> str:
        return "base"

    @property
    def size(self) -> int:
        return 1

    @staticmethod
    def doubled(number: int) -> int:
        return 2 * number

    @classmethod
    def name(cls) -> str:
        return cls.__name__


class Derived(Base):
    LIMIT = 7

    def own(self) -> str:
        return "own"


class Sibling(Base):
    pass


def mutant_of(*patches: Patch) -> Mutant:
    return Mutant("of-this-test", "", patches, ())


def helper() -> None:
    bit()


def reports_by_helper(self: Any) -> str:
    helper()
    return "helped"


def reports_nothing(self: Any) -> str:
    return "silent"


def test_calls_of_mutated_functions_properties_and_class_methods_are_counted() -> None:
    mutant = mutant_of(
        Patch(Derived, "own", lambda self: "other"),
        Patch(Base, "size", property(lambda self: 2)),
        Patch(Base, "doubled", staticmethod(lambda number: 3 * number)),
        Patch(Base, "name", classmethod(lambda cls: f"other {cls.__name__}")),
    )
    with mutant.applied() as activity:
        one = Derived()
        assert (one.own(), one.size, one.doubled(2), Derived.name()) == ("other", 2, 6, "other Derived")
        assert one.own() == "other"
        assert activity.reached == 5
    one.own()
    assert (one.own(), one.size, one.doubled(2), Derived.name()) == ("own", 1, 4, "Derived")
    assert activity.reached == 5


def test_a_decorated_replacement_can_call_the_original_attribute_of_any_kind() -> None:
    @bug("of-this-test", Derived, "own", found_by=("DUR",))
    @needs(lives=(2,))
    def own(self: Derived) -> str:
        """A put is lost.

        This paragraph is not part of the summary.
        """
        return f"other {own.original(self)}"

    @own.also(Base, "size")
    def size(self: Base) -> int:
        return 5 * size.original(self)

    @own.also(Base, "doubled")
    def doubled(number: int) -> int:
        return 10 * doubled.original(number)

    @own.also(Base, "name")
    def name(cls: type[Base]) -> str:
        return name.original(cls).upper()

    assert (own.id, own.summary, own.found_by) == ("of-this-test", "a put is lost", ("DUR",))
    assert own.needs["lives"] == (2,)
    with own.applied() as activity:
        one = Derived()
        assert (one.own(), one.size, one.doubled(2), Derived.name()) == ("other own", 5, 40, "DERIVED")
        assert activity.reached == 4
    assert (one.own(), one.size, one.doubled(2), Derived.name()) == ("own", 1, 4, "Derived")


def test_a_summary_that_begins_with_a_name_keeps_its_capital_letter() -> None:
    @bug("of-this-test", Derived, "own", found_by=())
    def own(self: Derived) -> str:
        """RocketMQ loses a put."""
        return ""

    assert own.summary == "RocketMQ loses a put"


def test_each_application_of_a_mutant_has_its_own_counts() -> None:
    mutant = mutant_of(Patch(Derived, "own", reports_by_helper))
    counts = []
    for calls in (2, 1):
        with mutant.applied() as activity:
            for _ in range(calls):
                Derived().own()
        counts.append((activity.reached, activity.bit))
    assert counts == [(2, 2), (1, 1)]


def test_a_bite_reported_outside_of_a_mutant_is_not_counted() -> None:
    assert bit()
    assert not bit(False)


def test_a_constant_is_replaced_but_its_use_is_not_counted() -> None:
    mutant = mutant_of(Patch(Derived, "LIMIT", 8))
    assert not mutant.has_reach
    with mutant.applied() as activity:
        assert Derived().LIMIT == 8
    assert (Derived.LIMIT, activity.reached) == (7, 0)


def test_an_inherited_attribute_is_overridden_in_one_class_and_restored() -> None:
    with mutant_of(Patch(Derived, "inherited", lambda self: "derived")).applied():
        assert (Derived().inherited(), Sibling().inherited(), Base().inherited()) == ("derived", "base", "base")
    assert "inherited" not in vars(Derived)
    assert Derived().inherited() == "base"


def test_an_override_is_removed_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), mutant_of(Patch(Derived, "size", property(lambda self: 3))).applied():
        raise ZeroDivisionError
    assert "size" not in vars(Derived)


@pytest.mark.parametrize("name", ["gone", "__eq__"])
def test_a_patch_of_an_attribute_that_no_class_defines_is_an_error(name: str) -> None:
    with pytest.raises(PatchError, match=f"Derived has no {name}"):
        Patch(Derived, name, lambda self: "")


def test_a_mutant_reports_bites_if_its_function_or_a_helper_calls_bit() -> None:
    def closure() -> Any:
        inner = helper
        return lambda self: inner()

    assert mutant_of(Patch(Derived, "own", reports_by_helper)).reports_bites
    assert mutant_of(Patch(Derived, "own", closure())).reports_bites
    assert mutant_of(Patch(Derived, "own", lambda self: [bit() for _ in "a"])).reports_bites
    assert not mutant_of(Patch(Derived, "own", reports_nothing)).reports_bites
    assert not mutant_of(Patch(Derived, "LIMIT", 9)).reports_bites


def test_nearly_all_mutants_of_the_catalogue_report_bites() -> None:
    silent = [name for name, mutant in MUTANTS.items() if not mutant.reports_bites]
    assert len(silent) <= len(MUTANTS) * 0.03, silent

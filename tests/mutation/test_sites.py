import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation import MUTANTS, SITES_EACH, all_sites, selected_sites
from tests.mutation.code import patches_of, subjects_of
from tests.mutation.components import COMPONENTS, NOT_MUTATED
from tests.mutation.operators import OPERATORS
from tests.mutation.survivors import SURVIVORS, UNREACHED
from tornlog.scenarios.campaigns.mutation_run import MutationLimits, MutationSettings, run_mutant
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.mutants import MUTANTS as CATALOGUE
from tornlog.scenarios.mutants.known import applied_mutant, find_mutant, mutant_named, mutants_in, survivors_in
from tornlog.sim.choices import Choices
from tornlog.store.log import segment, segment_queue
from tornlog.store.log.flush import FlushRealTimeService
from tornlog.store.log.segment import Segment


def test_there_are_hundreds_of_mutation_sites_with_unique_ids() -> None:
    ids = [site.id for site in all_sites()]
    assert len(set(ids)) == len(ids) > 500


def test_every_component_and_every_operator_has_mutation_sites() -> None:
    assert {site.component.name for site in all_sites()} == set(COMPONENTS)
    assert {site.operator.name for site in all_sites()} == set(OPERATORS)


def test_each_module_belongs_to_one_component() -> None:
    modules = Counter(module for component in COMPONENTS.values() for module in component.modules)
    assert set(modules.values()) == {1}


def test_each_module_of_the_store_is_mutated_or_has_a_reason() -> None:
    mutated = {module for component in COMPONENTS.values() for module in component.modules}
    paths = [path for path in STORE.rglob("*.py") if path.name != "__init__.py"]
    others = {".".join(path.relative_to(STORE).with_suffix("").parts) for path in paths} - mutated
    explained = {module: next((one for one in NOT_MUTATED if _is_below(module, one)), "") for module in others}
    assert [module for module, prefix in explained.items() if not prefix] == []
    assert set(explained.values()) == set(NOT_MUTATED)


def _is_below(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


@pytest.mark.ci
def test_every_mutation_can_be_applied_and_removed_again() -> None:
    for site in all_sites():
        mutant = site.mutant()
        before = [vars(patch.owner)[patch.name] for patch in mutant.patches]
        with mutant.applied():
            assert [vars(patch.owner)[patch.name] for patch in mutant.patches] != before, site.id
        assert [vars(patch.owner)[patch.name] for patch in mutant.patches] == before, site.id


def test_a_limited_number_of_sites_is_selected_per_operator_and_component() -> None:
    groups = Counter((site.component.name, site.operator.name) for site in all_sites() if site.id not in UNREACHED)
    mutant_result = Counter((site.component.name, site.operator.name) for site in selected_sites())
    assert mutant_result == {group: min(count, SITES_EACH) for group, count in groups.items()}
    assert len(selected_sites()) >= 60
    assert list(MUTANTS) == sorted(site.id for site in selected_sites())


def test_a_mutant_id_names_operator_and_place_and_its_summary_shows_the_change() -> None:
    (site,) = [site for site in all_sites() if site.id == "drop-sync:checkpoint.StoreCheckpoint.flush#1"]
    assert site.summary.startswith("log/checkpoint.py:")
    assert site.summary.endswith("flush: self._file.msync(0, CHECKPOINT_FILE_BYTES) → nothing")
    mutant = site.mutant()
    assert (mutant.id, site.component.name) == (f"tests.mutation:{site.id}", "checkpoint")
    assert mutant.summary == site.summary
    assert mutant.found_by == ()


def test_plans_can_be_drawn_from_the_required_ranges_of_every_mutant() -> None:
    for name, mutant in MUTANTS.items():
        assert mutant.needs != Ranges(), name
        draw_plan(Choices(mutant.id).stream("plan"), mutant.needs)


def test_the_ranges_of_an_operator_are_added_to_those_of_the_component() -> None:
    ranges = COMPONENTS["commit"].narrow({"disk": ("strict-posix",), "faults": {"failed_sync_chance": (0.1,)}})
    assert ranges["memory.transient_pool"] == (True,)
    assert ranges["disk"] == ("strict-posix",)
    faults = {path for path in ranges.chosen if path.startswith("faults.")}
    own = {f"faults.{name}" for name in ("failed_write_chance", "short_write_chance", "sparse")}
    assert faults == {*own, "faults.failed_sync_chance"}


def test_a_mutated_method_with_zero_argument_super_still_finds_its_class() -> None:
    (subject,) = [one for one in subjects_of("log.flush") if one.name == "flush.FlushRealTimeService.start"]
    (change,) = OPERATORS["forget-state"].sites(subject.tree, _vocabulary_with("_thorough_ns"))
    (patch,) = patches_of(subject, change)
    assert patch.owner is FlushRealTimeService
    assert "__class__" in getattr(patch.replacement, "__code__").co_freevars  # noqa: B009


def test_a_mutated_property_is_still_a_property() -> None:
    (subject,) = [one for one in subjects_of("log.segment_queue") if one.tree.name == "max_offset"]
    change = next(iter(OPERATORS["negate-condition"].sites(subject.tree, _vocabulary_with())))
    (patch,) = patches_of(subject, change)
    assert isinstance(patch.replacement, property)


def test_a_mutated_function_is_replaced_in_every_module_that_imports_it() -> None:
    (subject,) = [one for one in subjects_of("log.segment") if one.tree.name == "first_nonzero"]
    change = next(iter(OPERATORS["negate-condition"].sites(subject.tree, _vocabulary_with())))
    owners = [patch.owner for patch in patches_of(subject, change)]
    assert owners[0] is segment
    assert segment_queue in owners


def test_constructors_and_declarations_are_not_mutated() -> None:
    names = {
        subject.tree.name for module in ("services.transaction_check", "log.flush") for subject in subjects_of(module)
    }
    assert "__init__" not in names
    assert "wait_durable" in names
    assert "query_offset" not in names  # it is only in a protocol


def _vocabulary_with(*state: str) -> object:
    from dataclasses import replace

    from tests.mutation.sites import _vocabulary

    return replace(_vocabulary(), state=frozenset(state))


def test_every_surviving_mutant_is_a_site_with_the_verdict_equivalent_or_gap() -> None:
    ids = {site.id for site in all_sites()}
    assert set(SURVIVORS) <= ids
    assert set(UNREACHED) <= ids
    assert not UNREACHED.keys() & {site.id for site in selected_sites()}
    assert list(SURVIVORS) == sorted(SURVIVORS)
    assert all(verdict.split(": ")[0] in ("equivalent", "gap") for verdict in SURVIVORS.values())


STORE = Path(segment.__file__).parents[1]
APPEND = "tests.mutation:skip-advance:segment.Segment.append#1"


def test_mutants_are_found_by_name_in_the_catalogue_and_in_modules() -> None:
    assert mutant_named(APPEND).id == APPEND == MUTANTS["skip-advance:segment.Segment.append#1"].id
    assert find_mutant("ack-before-flush") is CATALOGUE["ack-before-flush"]
    for name in ("no-such-bug", "tests.mutation:no-such-site", "no.such.module:bug", "json:bug", ".x:y", ":", "a:"):
        assert find_mutant(name) is None
        with pytest.raises(KeyError, match=re.escape(name)):
            mutant_named(name)
    assert mutants_in(None) == list(CATALOGUE)
    assert mutants_in("tests.mutation") == [f"tests.mutation:{site.id}" for site in selected_sites()]
    assert survivors_in(None) == {}
    assert survivors_in("tests.mutation").keys() == {f"tests.mutation:{name}" for name in SURVIVORS}
    with pytest.raises(LookupError, match="no module json that has MUTANTS"):
        mutants_in("json")


def test_a_mutant_of_a_module_runs_under_its_full_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from tornlog.scenarios.mutants import MUTANTS as known\nMUTANTS = {'early': known['ack-before-flush']}\n"
    (tmp_path / "own_mutants.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    limits = MutationLimits(1)
    result = run_mutant(mutant_named("own_mutants:early"), MutationSettings(limits, scenarios=None))

    assert (result.id, result.error) == ("own_mutants:early", "")


def test_an_unnamed_mutant_is_not_applied() -> None:
    original = vars(Segment)["append"]
    with applied_mutant(None):
        assert vars(Segment)["append"] is original
    with applied_mutant(APPEND):
        assert vars(Segment)["append"] is not original
    assert vars(Segment)["append"] is original

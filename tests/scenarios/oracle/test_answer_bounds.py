"""Each answer and each time in the code is in a row of the table; the page shows the table."""

import ast
import re
from collections import defaultdict
from dataclasses import fields
from enum import Enum
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import tornlog.store
from tornlog.scenarios.mutants.known import MUTANTS
from tornlog.scenarios.oracle.answer_bounds import ANSWER_ENUMS, OTHER_ENUMS, OTHER_TIMES, ROWS, answer_table
from tornlog.scenarios.oracle.invariants import INVARIANTS
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.config import StoreConfig

STORE = Path(tornlog.store.__file__).parent
PAGE = STORE.parent / "docs" / "answers.md"
BEGIN, END = "<!-- table of answer_bounds -->\n\n", "\n\n<!-- end of table -->"
TIME = re.compile(r"_(ms|hours)$|^_?([A-Z]+_)*MS(_MAX|_MIN)?$")
UNIT = re.compile(r"_PER_|_HOUR_MS|_DAY_MS|_UNIT_MS|NEVER_MS|LOCAL_MS|CLOCK_MS|TIMER_DEL|_STALL_MS")


def modules_of_store() -> dict[str, ast.Module]:
    found = sorted(STORE.rglob("*.py"))
    return {".".join(path.relative_to(STORE).with_suffix("").parts): ast.parse(path.read_text()) for path in found}


MODULES = modules_of_store()


def enums_of_store() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in walk_packages(tornlog.store.__path__, "tornlog.store."):
        if each.name.rpartition(".")[2] == "__main__" or ".native" in each.name:
            continue
        for name, value in vars(import_module(each.name)).items():
            if isinstance(value, type) and issubclass(value, Enum) and value.__module__ == each.name:
                found[name] = [member.name for member in value]
    return found


def test_every_answer_of_the_store_has_a_row() -> None:
    enums = enums_of_store()
    assert set(enums) == {*ANSWER_ENUMS, *OTHER_ENUMS}
    answers = {f"{name}.{member}" for name in ANSWER_ENUMS for member in enums[name]}
    named = [name for row in ROWS for name in row.answers.split(", ")]
    assert {name for name in named if name.partition(".")[0] in ANSWER_ENUMS} == answers
    assert len(named) == len(set(named))


def test_every_module_that_gives_a_response_code_is_in_the_row_of_the_code() -> None:
    given: dict[str, set[str]] = defaultdict(set)
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ResponseCode":
                given[node.attr].add(name.removeprefix("broker."))
    for row in ROWS:
        codes = [name.removeprefix("ResponseCode.") for name in row.answers.split(", ") if "ResponseCode." in name]
        assert set(row.given_by.split()) == set().union(*(given[code] for code in codes)), row.answers


def times_of_store() -> set[str]:
    settings = {one.name for config in (StoreConfig, BrokerConfig) for one in fields(config) if TIME.search(one.name)}
    constants = {
        f"{name}.{target.id}"
        for name, tree in MODULES.items()
        for node in tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else ())
        if isinstance(target, ast.Name) and TIME.search(target.id) and not UNIT.search(target.id)
    }
    return settings | constants


def test_every_time_of_the_store_is_a_bound_or_has_a_reason() -> None:
    bounds = {time for row in ROWS for time in row.times.split()}
    assert bounds.isdisjoint(OTHER_TIMES)
    assert bounds | set(OTHER_TIMES) == times_of_store()


def test_every_row_names_a_check_and_a_bug_that_it_finds_or_says_why_not() -> None:
    for row in ROWS:
        if row.invariant:
            assert row.invariant in INVARIANTS
            assert row.invariant in MUTANTS[row.mutant].found_by, row.answers
        else:
            assert row.bound.startswith("not checked: ")
            assert not row.mutant


def test_the_page_has_the_derived_table() -> None:
    """To renew the page, replace its part between the two marks by `answer_table()`."""
    assert PAGE.read_text().partition(BEGIN)[2].partition(END)[0] == answer_table()

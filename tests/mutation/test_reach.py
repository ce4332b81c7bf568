"""Every line of a mutated module is executed by a scenario, or has a reason."""

from fnmatch import fnmatchcase

import pytest

from tests.mutation.reach import functions_of, mutated_modules, unreached_lines
from tests.mutation.unreached import UNREACHED_FUNCTIONS
from tornlog.scenarios.claims.catalogue import SCENARIOS

SEEDS = 26
PATTERNS = [pattern for patterns in UNREACHED_FUNCTIONS.values() for pattern in patterns]


def test_a_function_that_no_run_calls_is_unreached() -> None:
    found = unreached_lines([SCENARIOS["clean-shutdown"]], 1)
    assert found["replication.ha_client:HAClient.run_once"] > 5
    assert "log.segment:Segment.append" not in found


def test_each_pattern_of_unreached_functions_matches_a_function() -> None:
    names = [f"{module}:{function}" for module in mutated_modules() for function, _ in functions_of(module)]
    assert [one for one in PATTERNS if not any(fnmatchcase(name, one) for name in names)] == []


@pytest.mark.slow
def test_every_function_is_executed_in_full_or_has_a_reason() -> None:
    found = unreached_lines(SCENARIOS.values(), SEEDS)
    assert [one for one in found if not any(fnmatchcase(one, pattern) for pattern in PATTERNS)] == []

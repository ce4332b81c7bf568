"""Reach: the lines of mutated modules that no scenario executes.

The lines of assertions and of declarations without code do not count.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from inspect import getsource, getsourcefile
from pathlib import Path
from types import ModuleType

from coverage import Coverage
from coverage.parser import PythonParser

from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.sim.guard import leak_guard

from .change import Function
from .code import module_named
from .components import COMPONENTS

_NO_CODE = r"^\s*assert |\.\.\.$"


def mutated_modules() -> dict[str, ModuleType]:
    return {name: module_named(name) for component in COMPONENTS.values() for name in component.modules}


def unreached_lines(scenarios: Iterable[Scenario], seeds: int) -> Counter[str]:
    """Return the number of lines that no seed executes, by function: `queues.pull:QueuePuller.get_message`."""
    files = {name: getsourcefile(module) or "" for name, module in mutated_modules().items()}
    recorded = Coverage(data_file=None, config_file=False, include=list(files.values()), concurrency=["greenlet"])
    with recorded.collect(), leak_guard():
        for scenario in scenarios:
            for seed in range(seeds):
                result = run_seed(scenario, seed)
                assert result.outcome == "held", (scenario.name, seed, result.error)
    data, found = recorded.get_data(), Counter[str]()
    for name, file in files.items():
        missed = _unreached_statements(file, data.lines(file) or ())
        for function, lines in functions_of(name):
            found[f"{name}:{function}"] = len(missed.intersection(lines))
    return +found


def _unreached_statements(file: str, reached: Iterable[int]) -> set[int]:
    """Return the first lines of statements without a reached line."""
    parser = PythonParser(text=Path(file).read_text(), exclude=_NO_CODE)
    parser.parse_source()
    return parser.statements - parser.excluded - set(map(parser.first_line, reached))


def functions_of(module: str) -> Iterator[tuple[str, range]]:
    """Yield each function and method with the lines of its body."""
    for node in ast.parse(getsource(module_named(module))).body:
        if isinstance(node, Function):
            yield node.name, _body_of(node)
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{one.name}", _body_of(one)) for one in node.body if isinstance(one, Function))


def _body_of(function: Function) -> range:
    body = function.body[ast.get_docstring(function) is not None :]
    return range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body else range(0)

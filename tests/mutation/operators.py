"""Mutation operators: single changes of the store's code, each a common mistake.

An operator proposes changes of one function. Operators do not know the store; the vocabulary says which names are
syncs, positions or locks.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .change import Change, Function, dropping_statement, replacing, shown
from .stale import stale_positions
from .vocabulary import NOTICES, OWN_SYNCS, SYNCS, WRITES, Vocabulary, called_name
from .walk import blocks, call_statements, names_bound, names_read, state_changed

Sites = Callable[[Function, Vocabulary], Iterator[Change]]


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of mistake."""

    name: str
    does: str
    why: str
    """Its cause in real code."""
    sites: Sites
    needs: Mapping[str, Any] = field(default_factory=dict)
    """Fields of Ranges that its runs need."""


def _drop_sync(function: Function, words: Vocabulary) -> Iterator[Change]:
    syncs = SYNCS | OWN_SYNCS
    for statement, call in call_statements(function):
        if called_name(call) in syncs:
            yield dropping_statement(statement)
    for node in ast.walk(function):
        if isinstance(node, ast.While) and isinstance(node.body[0], ast.Pass) and called_name(node.test) in syncs:
            yield dropping_statement(node)


def _drop_write(function: Function, words: Vocabulary) -> Iterator[Change]:
    return (
        dropping_statement(statement) for statement, call in call_statements(function) if called_name(call) in WRITES
    )


def _drop_notice(function: Function, words: Vocabulary) -> Iterator[Change]:
    return (
        dropping_statement(statement) for statement, call in call_statements(function) if called_name(call) in NOTICES
    )


def _drop_step(function: Function, words: Vocabulary) -> Iterator[Change]:
    for statement, call in call_statements(function):
        if called_name(call) in words.functions:
            yield dropping_statement(statement)


def _skip_advance(function: Function, words: Vocabulary) -> Iterator[Change]:
    for statement, call in call_statements(function):
        if words.is_cell_call(call, "set", "add"):
            yield dropping_statement(statement)


def _short_by_one(function: Function, words: Vocabulary) -> Iterator[Change]:
    for _, call in call_statements(function):
        if words.is_cell_call(call, "set") and not isinstance(call.args[0], ast.Constant):
            less = ast.BinOp(call.args[0], ast.Sub(), ast.Constant(1))
            shorter = ast.Call(call.func, [less], [])
            yield replacing(call, ast.copy_location(shorter, call))


def _forget_state(function: Function, words: Vocabulary) -> Iterator[Change]:
    for block in blocks(function):
        for statement in block:
            if state_changed(statement) & words.state:
                yield dropping_statement(statement)


def _swap(function: Function, words: Vocabulary) -> Iterator[Change]:
    # Other tasks run before a world call, and before an attribute in some runs.
    for block in blocks(function):
        for first, second in pairwise(block):
            noticed = _has_effect(first, words) and (_has_effect(second, words) or state_changed(second))
            bound = names_bound(first) & (names_read(second) | names_bound(second))
            bound |= names_bound(second) & names_read(first)
            if noticed and not bound:
                old, new = f"{shown(first)}; {shown(second)}", f"{shown(second)}; {shown(first)}"
                yield Change(first.lineno, old, new, ((first, second), (second, first)))


def _has_effect(statement: ast.stmt, words: Vocabulary) -> bool:
    simple = isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign)
    return simple and any(words.is_effect(node) for node in ast.walk(statement))


_BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_PLACES = frozenset(
    (
        *("bytes", "count", "durable", "end", "flushed", "limit", "offset"),
        *("position", "readable", "room", "size", "where", "wrote"),
    )
)
"""Words in the names of positions and sizes in files or queues."""


def _off_by_one(function: Function, words: Vocabulary) -> Iterator[Change]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Compare) or not _mentions_positions(node):
            continue
        for number, op in enumerate(node.ops):
            if type(op) in _BOUNDS:
                ops = [_BOUNDS[type(op)]() if number == at else kept for at, kept in enumerate(node.ops)]
                yield replacing(node, ast.copy_location(ast.Compare(node.left, ops, node.comparators), node))


def _mentions_positions(node: ast.Compare) -> bool:
    """Return whether one side is a bound in a file or queue, by its name."""
    names = (name.attr for name in ast.walk(node) if isinstance(name, ast.Attribute))
    return any(_PLACES & set(name.split("_")) for name in (*names, *names_read(node)))


def _ignore_error(function: Function, words: Vocabulary) -> Iterator[Change]:
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler):
            if not all(isinstance(statement, ast.Pass | ast.Continue) for statement in node.body):
                what = "except" if node.type is None else f"except {ast.unparse(node.type)}"
                done = "; ".join(shown(statement) for statement in node.body)
                silent = ast.copy_location(ast.ExceptHandler(node.type, None, [_pass_at(node)]), node)
                yield Change(node.lineno, f"{what}: {done}", f"{what}: pass", ((node, silent),))
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield dropping_statement(node)


def _pass_at(node: ast.ExceptHandler) -> ast.stmt:
    return ast.copy_location(ast.Pass(), node.body[0])


def _drop_lock(function: Function, words: Vocabulary) -> Iterator[Change]:
    for node in ast.walk(function):
        if isinstance(node, ast.With) and all(words.is_lock(item.context_expr) for item in node.items):
            yield replacing(node, ast.copy_location(ast.If(ast.Constant(True), node.body, []), node), "no lock")


def _negate_condition(function: Function, words: Vocabulary) -> Iterator[Change]:
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp):
            test = node.test
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                yield replacing(test, test.operand)
            else:
                yield replacing(test, ast.copy_location(ast.UnaryOp(ast.Not(), test), test))


_FAILING_DISK = {
    "faults": {
        "failed_creation_chance": (0.0, 0.2),
        "failed_write_chance": (0.0, 0.1),
        "short_write_chance": (0.0, 0.2),
    }
}
_HELD_UP_TASKS = {
    "attribute_points": (False, True, True),
    "disturbances": {"paused_task_chance": (0.0, 0.5, 1.0, 1.0)},
    "starved_steps_max": (0, 0, 500),
}
_POWER_CUTS = {"disk": ("ext4-ordered", "strict-posix", "strict-posix")}

OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator(
            "drop-sync",
            "leaves out a call that makes something durable",
            "everything works without it until the power goes",
            _drop_sync,
            _POWER_CUTS,
        ),
        Operator(
            "drop-write",
            "leaves out a call that changes a file",
            "one branch of several was forgotten, or looked as if nothing depended on it",
            _drop_write,
        ),
        Operator(
            "drop-notice",
            "leaves out a call that wakes another task",
            "a poll, or the next event, hides that nobody was told of this one",
            _drop_notice,
        ),
        Operator(
            "drop-step",
            "leaves out a call of one of the store's own functions whose answer is not used",
            "a step was lost when code was moved",
            _drop_step,
        ),
        Operator(
            "drop-lock",
            "runs what a lock protects without it",
            "the lock looked too dear, or as if only one task ever came here",
            _drop_lock,
            _HELD_UP_TASKS,
        ),
        Operator(
            "skip-advance",
            "leaves out moving a position that tasks share",
            "an early return, or a second path that does the same work",
            _skip_advance,
        ),
        Operator(
            "short-by-one",
            "moves a position that tasks share one byte short",
            "an end that counts, taken for one that does not",
            _short_by_one,
        ),
        Operator(
            "forget-state",
            "leaves out an assignment to what an object remembers",
            "one of several things that change together was forgotten",
            _forget_state,
        ),
        Operator(
            "stale-position",
            "reads a shared position at the start of the function, or of the loop, and not when it is needed",
            "a repeated read was cleaned up into a variable",
            stale_positions,
            _HELD_UP_TASKS,
        ),
        Operator(
            "swap",
            "lets two neighbouring statements change places, at least one of which another task or the disk notices",
            "the order looked arbitrary",
            _swap,
            _HELD_UP_TASKS,
        ),
        Operator(
            "off-by-one",
            "takes a bound with its end for one without, or the other way round",
            "the case of equality was not thought of",
            _off_by_one,
        ),
        Operator(
            "ignore-error",
            "goes on as if all were well where an error is handled or raised",
            "the error could not happen, or was noise in a log",
            _ignore_error,
            _FAILING_DISK,
        ),
        Operator(
            "negate-condition",
            "takes a branch when it should not, and only then",
            "a flag turned round in one place and not in the other",
            _negate_condition,
        ),
    )
}

"""Operator `stale-position`: a shared position is read too early, and the value is reused."""

import ast
from collections.abc import Iterator

from .change import Change, Function, shown, with_replaced_nodes
from .vocabulary import Vocabulary
from .walk import Loop, names_bound

_KEPT = "kept_position"


def stale_positions(function: Function, words: Vocabulary) -> Iterator[Change]:
    """Propose for each read of a position to do it once, before its loop or at the start of the function.

    Only if another task may run in between.
    """
    in_loops: set[ast.AST] = set()
    for loop in (node for node in ast.walk(function) if isinstance(node, Loop)):
        for reading in _position_reads(loop, words):
            if reading not in in_loops and not _inside(reading, loop, "iter"):
                in_loops.add(reading)
                if _root(reading) not in names_bound(loop):
                    yield _read_before(loop, reading)
    first, *later = _without_docstring(function)
    may_be_stale = words.may_switch(first)
    for statement in later:
        may_be_stale = may_be_stale or (isinstance(statement, ast.With) and words.may_switch(statement))
        for reading in _position_reads(statement, words):
            if may_be_stale and reading not in in_loops and _root(reading) == "self":
                yield _read_at_start(function, first, reading)
        may_be_stale = may_be_stale or words.may_switch(statement)


def _position_reads(tree: ast.AST, words: Vocabulary) -> list[ast.expr]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.expr) and words.is_position(node)]


def _root(node: ast.expr) -> str:
    """Return the first name of a chain of attributes and calls, empty for any other expression."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _inside(node: ast.AST, loop: Loop, field: str) -> bool:
    part = getattr(loop, field, None)
    return part is not None and any(inner is node for inner in ast.walk(part))


def _without_docstring(function: Function) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _read_before(loop: Loop, reading: ast.expr) -> Change:
    kept = ast.Name(_KEPT, ast.Load())
    stale = with_replaced_nodes(loop, (reading, kept))
    once = ast.If(ast.Constant(True), [_saving_statement(reading), stale], [])
    new = f"{_KEPT} = {shown(reading)} before the loop"
    return Change(reading.lineno, shown(reading), new, ((loop, ast.copy_location(once, loop)),))


def _read_at_start(function: Function, first: ast.stmt, reading: ast.expr) -> Change:
    begin = ast.If(ast.Constant(True), [_saving_statement(reading), first], [])
    kept = ast.Name(_KEPT, ast.Load())
    new = f"{_KEPT} = {shown(reading)} at the start of {function.name}"
    replaced = ((first, ast.copy_location(begin, first)), (reading, kept))
    return Change(reading.lineno, shown(reading), new, replaced)


def _saving_statement(reading: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Assign([ast.Name(_KEPT, ast.Store())], reading), reading)

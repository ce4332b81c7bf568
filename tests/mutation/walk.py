"""Walks over a function's syntax tree."""

import ast
from collections.abc import Iterator

from .change import Function

Loop = ast.While | ast.For


def blocks(function: Function) -> Iterator[list[ast.stmt]]:
    """Yield every run of statements, the outer ones first."""
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield block


def call_statements(function: Function) -> Iterator[tuple[ast.Expr, ast.Call]]:
    """Yield every statement that is a call without use of its result."""
    for node in ast.walk(function):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, node.value


def names_bound(node: ast.AST) -> set[str]:
    """Return the local names that a node binds."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}


def names_read(node: ast.AST) -> set[str]:
    """Return the local names that a node reads."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}


def state_changed(statement: ast.stmt) -> set[str]:
    """Return the attributes that a statement assigns or updates; none if it also binds a name."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    else:
        return set()
    found = {_attribute(target) for target in targets}
    return set() if None in found else {name for name in found if name is not None}


def _attribute(target: ast.expr) -> str | None:
    if isinstance(target, ast.Subscript):
        target = target.value
    return target.attr if isinstance(target, ast.Attribute) else None

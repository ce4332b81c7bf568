"""A change of one function's syntax tree, as proposed by an operator."""

import ast
from copy import deepcopy
from dataclasses import dataclass
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef


@dataclass(frozen=True, slots=True)
class Change:
    """Some nodes of a function and their replacements."""

    line: int
    """Of the first node, in its file."""
    old: str
    new: str
    """The code before and after, each in one line."""
    replaced: tuple[tuple[ast.AST, ast.AST], ...]

    def applied_to(self, function: Function) -> Function:
        """Return a changed copy of the function with these nodes."""
        return with_replaced_nodes(function, *self.replaced)


def with_replaced_nodes(tree: Node, *pairs: tuple[ast.AST, ast.AST]) -> Node:
    """Return a copy of a tree with some nodes, compared by identity, replaced."""
    return deepcopy(tree, {id(old): new for old, new in pairs})


def replacing(old: ast.stmt | ast.expr, new: ast.stmt | ast.expr, text: str | None = None) -> Change:
    """Return the replacement of one node. text: shown instead of the new node's code."""
    return Change(old.lineno, shown(old), shown(new) if text is None else text, ((old, new),))


def dropping_statement(statement: ast.stmt) -> Change:
    """Return the removal of a statement."""
    return replacing(statement, ast.copy_location(ast.Pass(), statement), "nothing")


def shown(node: ast.AST) -> str:
    """Return a node's code in one line; of a statement with a body, its head."""
    return ast.unparse(node).splitlines()[0]

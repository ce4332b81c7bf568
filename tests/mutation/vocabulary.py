"""Vocabulary for operators: the meaning of names in the store's code.

Calls are recognised by their last name, because the world's protocols have names that the store does not reuse. Cells,
locks and positions are found in the code: an attribute assigned from `tasks.cell(…)` is a cell everywhere. Advice to
the system (mlock, madvise) and times of files are left out: no promise of a run depends on them.
"""

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

SYNCS = frozenset({"msync", "fdatasync", "sync", "sync_directory"})
"""Calls to the world that make data durable."""

OWN_SYNCS = frozenset(
    {
        "_make_durable",
        "_sync",
        "flush",
        "flush_all",
        "flush_thoroughly",
        "flush_to",
        "make_durable",
        "make_full_durable",
        "make_second_durable",
        "persist",
        "persist_correction",
        "sync_names",
        "try_to_persist",
    }
)
"""The store's own names for the same."""

WRITES = frozenset({"store", "pwrite", "write", "rename", "unlink", "zero_from", "write_again"})
"""Calls that change files, and the store's functions that only do that."""

NOTICES = frozenset(
    {"notify", "wake", "on_appended", "on_committed", "on_flushed", "on_scheduled", "request_full_flush"}
)
"""Calls that wake another task."""

_SWITCHES = frozenset(
    {
        *(SYNCS | NOTICES | {"store", "pwrite", "write", "rename", "unlink", "map", "read", "make_directories"}),
        *("wait", "join", "spawn", "sleep", "status", "list_directory", "remove_directory", "space"),
    }
)
"""Calls at which another task may run, in addition to those of cells and locks."""

_EFFECTS = SYNCS | OWN_SYNCS | WRITES | NOTICES

SHARED = frozenset({"get", "set", "add", "compare_and_set"})
"""Calls to cells."""

_ADVICE = frozenset({"mlock", "munlock", "advise_will_need", "advise_dont_need", "set_mtime_ms", "close"})

_CONTAINERS = (list, dict, set, deque)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names of attributes that operators look for."""

    cells: frozenset[str]
    """Integers shared by tasks."""
    locks: frozenset[str]
    positions: frozenset[str]
    """Properties that read a cell, so they always give the present value."""
    functions: frozenset[str]
    """Names of the store's functions, without those that have another meaning here."""
    switching: frozenset[str]
    """Functions and properties in which another task may run, directly or through calls."""
    state: frozenset[str]
    """Attributes that some function reads, without those that are only displayed."""

    def is_cell_call(self, node: ast.AST, *methods: str) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in methods
            and isinstance(node.func.value, ast.Attribute)
            and node.func.value.attr in self.cells
        )

    def is_position(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            return node.attr in self.positions
        return self.is_cell_call(node, "get")

    def may_switch(self, node: ast.AST) -> bool:
        """Return whether another task may run during a node."""
        return any(self._is_switch(part) for part in ast.walk(node))

    def _is_switch(self, node: ast.AST) -> bool:
        if isinstance(node, ast.With):
            return any(self.is_lock(item.context_expr) for item in node.items)
        if isinstance(node, ast.Attribute):
            return node.attr in self.switching and node.attr in self.positions
        name = called_name(node)
        if not name:
            return False
        is_known = name in _SWITCHES or name in self.switching
        return is_known or name.startswith("on_") or self.is_cell_call(node, *SHARED)

    def is_lock(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in self.locks

    def is_effect(self, node: ast.AST) -> bool:
        """Return whether a node is a call that other tasks can notice: of the world, or of a cell."""
        name = called_name(node)
        return name in _EFFECTS or self.is_cell_call(node, "set", "add")


def called_name(node: ast.AST) -> str:
    """Return the last name of a call, empty for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def vocabulary_of(trees: Iterable[ast.Module]) -> Vocabulary:
    nodes = [node for tree in trees for node in ast.walk(tree)]
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    cells = _attributes_assigned_from("cell", assigned)
    locks = _attributes_assigned_from("lock", assigned)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    nothing: frozenset[str] = frozenset()
    found = Vocabulary(cells, locks, nothing, nothing, nothing, nothing)
    positions = frozenset(
        function.name
        for function in functions
        if _is_number(function) and any(found.is_cell_call(node, "get") for node in ast.walk(function))
    )
    own = {function.name for function in functions} - {name for kind in _CONTAINERS for name in dir(kind)}
    meant = _EFFECTS | SHARED | _ADVICE | positions
    read = (node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    found = replace(found, positions=positions, functions=frozenset(own - meant), state=frozenset(read))
    return _with_switching(found, functions)


def _is_number(function: ast.FunctionDef) -> bool:
    """Return whether a function is a property with a number."""
    is_property = any(isinstance(name, ast.Name) and name.id == "property" for name in function.decorator_list)
    return is_property and isinstance(function.returns, ast.Name) and function.returns.id == "int"


def _with_switching(words: Vocabulary, functions: Iterable[ast.FunctionDef]) -> Vocabulary:
    """Return the vocabulary with all functions that lead to a switch."""
    while True:
        others = [function for function in functions if function.name not in words.switching]
        found = frozenset(function.name for function in others if words.may_switch(function))
        if not found:
            return words
        words = replace(words, switching=words.switching | found)


def _attributes_assigned_from(maker: str, assigned: Iterable[ast.Assign]) -> frozenset[str]:
    """Return the attributes assigned from calls of a maker, or from such attributes."""
    found: set[str] = set()
    while True:
        more = {
            target
            for assign in assigned
            if called_name(assign.value) == maker
            or (isinstance(assign.value, ast.Attribute) and assign.value.attr in found)
            for target in _attributes(assign.targets)
        }
        if more <= found:
            return frozenset(found)
        found |= more


def _attributes(targets: Iterable[ast.expr]) -> Iterator[str]:
    return (target.attr for target in targets if isinstance(target, ast.Attribute))

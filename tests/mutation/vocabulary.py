"""What the names in the store's code mean to an operator: which calls reach the world, which attributes are shared.

Calls are told by the last name in them, for the world's protocols have names that nothing else in the store has.
Cells, locks and positions are found in the code itself: what is assigned from `tasks.cell(…)` is a cell wherever it is
used. Advice to the system (mlock, madvise) and times of files are left out: nothing that a run can promise rests upon
them, so their absence is no bug that a run could see.
"""

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

SYNCS = frozenset({"msync", "fdatasync", "sync", "sync_directory"})
"""Calls to the world that make something durable."""

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

WRITES = frozenset({"store", "pwrite", "write", "rename", "unlink", "clear_from", "write_again"})
"""Calls that change files, and the store's own that do nothing else."""

NOTICES = frozenset({"notify", "wake", "on_appended", "on_committed", "on_flushed", "on_scheduled", "hurry"})
"""Calls that tell another task to go on."""

_SWITCHES = frozenset(
    {
        *(SYNCS | NOTICES | {"store", "pwrite", "write", "rename", "unlink", "map", "read", "make_directories"}),
        *("wait", "join", "spawn", "sleep", "status", "list_directory", "remove_directory", "space"),
    }
)
"""Calls at which the simulated world may let another task go on, beside those of cells and locks."""

SHARED = frozenset({"get", "set", "add", "compare_and_set"})
"""Calls to cells."""

_ADVICE = frozenset({"mlock", "munlock", "advise_will_need", "advise_dont_need", "set_mtime_ms", "close"})

_CONTAINERS = (list, dict, set, deque)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names of attributes that operators look for."""

    cells: frozenset[str]
    """Integers that tasks share."""
    locks: frozenset[str]
    positions: frozenset[str]
    """Properties that read a cell: as fresh as the moment in which they are asked for."""
    functions: frozenset[str]
    """What the store calls its own functions, those with another meaning here left out."""
    switching: frozenset[str]
    """Functions and properties in which another task may get its turn, whatever calls they take to come there."""
    state: frozenset[str]
    """Attributes that some function looks at: what is only kept to be shown to people is not among them."""

    def is_cell_call(self, node: ast.AST, *methods: str) -> bool:
        """Return whether a node is a call of one of a cell's methods."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in methods
            and isinstance(node.func.value, ast.Attribute)
            and node.func.value.attr in self.cells
        )

    def is_position(self, node: ast.AST) -> bool:
        """Return whether a node reads a shared position."""
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            return node.attr in self.positions
        return self.is_cell_call(node, "get")

    def may_switch(self, node: ast.AST) -> bool:
        """Return whether another task may get its turn while a node is evaluated or executed."""
        return any(self._is_switch(part) for part in ast.walk(node))

    def _is_switch(self, node: ast.AST) -> bool:
        if isinstance(node, ast.With):
            return any(self.is_lock(item.context_expr) for item in node.items)
        if isinstance(node, ast.Attribute):
            return node.attr in self.switching & self.positions
        name = called(node)
        return name in _SWITCHES | self.switching or name.startswith("on_") or self.is_cell_call(node, *SHARED)

    def is_lock(self, node: ast.expr) -> bool:
        """Return whether an expression is a lock."""
        return isinstance(node, ast.Attribute) and node.attr in self.locks

    def is_effect(self, node: ast.AST) -> bool:
        """Return whether a node is a call that somebody else can notice: of the world, or of a cell."""
        name = called(node)
        return name in SYNCS | OWN_SYNCS | WRITES | NOTICES or self.is_cell_call(node, "set", "add")


def called(node: ast.AST) -> str:
    """Return the last name of what a node calls, an empty one if it is no call of a name."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def vocabulary_of(trees: Iterable[ast.Module]) -> Vocabulary:
    """Return the vocabulary of some modules."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    cells = _made_by("cell", assigned)
    locks = _made_by("lock", assigned)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    nothing: frozenset[str] = frozenset()
    found = Vocabulary(cells, locks, nothing, nothing, nothing, nothing)
    positions = frozenset(
        function.name
        for function in functions
        if _is_number(function) and any(found.is_cell_call(node, "get") for node in ast.walk(function))
    )
    own = {function.name for function in functions} - {name for kind in _CONTAINERS for name in dir(kind)}
    meant = SYNCS | OWN_SYNCS | WRITES | NOTICES | SHARED | _ADVICE | positions
    read = (node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    found = replace(found, positions=positions, functions=frozenset(own - meant), state=frozenset(read))
    return _with_switching(found, functions)


def _is_number(function: ast.FunctionDef) -> bool:
    """Return whether a function is a property that is a number."""
    is_property = any(isinstance(name, ast.Name) and name.id == "property" for name in function.decorator_list)
    return is_property and isinstance(function.returns, ast.Name) and function.returns.id == "int"


def _with_switching(words: Vocabulary, functions: Iterable[ast.FunctionDef]) -> Vocabulary:
    """Return a vocabulary that knows which functions lead to a switch, by any way."""
    while True:
        found = frozenset(function.name for function in functions if words.may_switch(function))
        if found <= words.switching:
            return words
        words = replace(words, switching=words.switching | found)


def _made_by(maker: str, assigned: Iterable[ast.Assign]) -> frozenset[str]:
    """Return the attributes that are assigned from calls of a maker, or from such attributes."""
    found: set[str] = set()
    while True:
        more = {
            target
            for assign in assigned
            if called(assign.value) == maker or (isinstance(assign.value, ast.Attribute) and assign.value.attr in found)
            for target in _attributes(assign.targets)
        }
        if more <= found:
            return frozenset(found)
        found |= more


def _attributes(targets: Iterable[ast.expr]) -> Iterator[str]:
    return (target.attr for target in targets if isinstance(target, ast.Attribute))

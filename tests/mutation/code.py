"""The store's functions as syntax trees, and changed functions as patches.

A changed function is compiled under its file's name and in its module's globals, so it differs only in the change. The
defaults and decorators of the original are evaluated again, which gives the same for the plain ones in the store;
functions with other decorators are left alone.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from tornlog.scenarios.mutants.mutant import Patch

from .change import Change, Function

_STORE = "tornlog.store"
_PLAIN_DECORATORS = frozenset({"abstractmethod", "property", "staticmethod"})


@dataclass(frozen=True, slots=True)
class Subject:
    """One function or method of the store."""

    module: str
    """Below `store`."""
    owner: str
    """The class, empty for a function of the module itself."""
    tree: Function

    @property
    def name(self) -> str:
        """Return module, class and function, without the folders."""
        stem = self.module.rpartition(".")[2]
        return ".".join(part for part in (stem, self.owner, self.tree.name) if part)


@cache
def syntax_of(module: str) -> ast.Module:
    tree: ast.Module = _WithoutAssertions().visit(ast.parse(inspect.getsource(module_named(module))))
    return tree


class _WithoutAssertions(ast.NodeTransformer):
    """Removes assertions: a changed function is judged by its effects."""

    def visit_Assert(self, node: ast.Assert) -> None: ...


def subjects_of(module: str) -> Iterator[Subject]:
    """Yield the functions of a module and the methods of its classes, without constructors.

    An error in a constructor comes before there is anything to lose.
    """
    for node in syntax_of(module).body:
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and _is_changeable(member):
                    yield Subject(module, node.name, member)
        elif isinstance(node, ast.FunctionDef) and _is_changeable(node):
            yield Subject(module, "", node)


def _is_changeable(function: Function) -> bool:
    plain = all(
        isinstance(decorator, ast.Name) and decorator.id in _PLAIN_DECORATORS for decorator in function.decorator_list
    )
    is_documentation = len(function.body) == 1 and ast.get_docstring(function) is not None
    return plain and not is_documentation and function.name != "__init__"


def patches_of(subject: Subject, change: Change) -> tuple[Patch, ...]:
    """Return the patches that replace the original everywhere in the store."""
    module = module_named(subject.module)
    name = subject.tree.name
    if subject.owner:
        owner = vars(module)[subject.owner]
        return (Patch(owner, name, _compiled(change.applied_to(subject.tree), module, owner)),)
    original = vars(module)[name]
    changed = _compiled(change.applied_to(subject.tree), module, None)
    return tuple(Patch(holder, name, changed) for holder in _holders(name, original))


def _holders(name: str, function: object) -> list[ModuleType]:
    """Return the store's modules that have a function, also by an import of its name."""
    modules = sorted(key for key in sys.modules if key.startswith(f"{_STORE}."))
    return [sys.modules[key] for key in modules if vars(sys.modules[key]).get(name) is function]


def _compiled(function: Function, module: ModuleType, owner: type | None) -> Any:
    """Compile a function and apply its decorators. `__class__` is there for a `super()` without arguments."""
    cell = ast.arguments([], [ast.arg("__class__")], None, [], [], None, [])
    answer = ast.Return(ast.Name(function.name, ast.Load()))
    factory = ast.FunctionDef("factory", cell, [function, answer], [], None, None)
    tree = ast.fix_missing_locations(ast.Module([ast.copy_location(factory, function)], []))
    made: dict[str, Any] = {}
    exec(compile(tree, str(module.__file__), "exec"), vars(module), made)
    return made["factory"](owner)


def module_named(name: str) -> ModuleType:
    return import_module(f"{_STORE}.{name}")

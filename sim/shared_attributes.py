"""Shared attributes: finds attributes in source code that tasks can race on.

Tasks can race on an attribute if a method other than a constructor assigns it, or if its value is a container, which
can change in place. The class of an object other than `self` is unknown, so an assignment to `x.size` counts for every
class with an attribute `size`: the result contains too many attributes rather than too few. It does not depend on
earlier imports or runs of the process.
"""

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cache
from types import ModuleType
from typing import NamedTuple

_CONSTRUCTORS = ("__init__", "__post_init__", "__new__")
"""Functions that assign an object's attributes before another task has the object."""
_CONTAINERS = frozenset({"bytearray", "Counter", "defaultdict", "deque", "dict", "list", "OrderedDict", "set"})
_DISPLAYS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
_UNCHANGING = (tuple, Enum, BaseException)
_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of a statement that contain other statements."""
Source = type | ModuleType


class SharedAttribute(NamedTuple):
    """An attribute of a class and its subclasses."""

    owner: type
    name: str
    is_container: bool
    """Whether the value is a container. A task that reads a container may change it next."""


class _ClassFacts(NamedTuple):
    owner: type
    attributes: dict[str, bool]
    """Attribute name -> whether its value is a container."""
    assigned_later: set[str]
    """Names of attributes that methods other than constructors assign."""


class _ModuleFacts(NamedTuple):
    assigned_of_others: set[str]
    """Names of attributes that code assigns to objects other than `self`."""
    classes: list[_ClassFacts]


@cache
def shared_attributes(*sources: Source) -> tuple[SharedAttribute, ...]:
    """Return the attributes of the given classes, and of all classes in the given modules, that tasks can race on.

    ValueError names a source that cannot be read.
    """
    facts = {
        module: _module_facts(module)
        for module in dict.fromkeys(_import_module_of_source(source) for source in sources)
    }
    by_others = {name for each in facts.values() for name in each.assigned_of_others}
    classes = {
        one.owner: one
        for module, each in facts.items()
        for one in each.classes
        if module in sources or one.owner in sources
    }
    found: dict[tuple[type, str], bool] = {}
    for owner, one in classes.items():
        for name, is_container in one.attributes.items():
            if is_container or name in by_others or name in one.assigned_later:
                # An inherited attribute belongs to the base class, even if a subclass assigns it.
                first = [base for base in owner.__mro__ if base in classes and name in classes[base].attributes][-1]
                found[first, name] = found.get((first, name), False) or is_container
    return tuple(
        SharedAttribute(owner, name, is_container)
        for (owner, name), is_container in found.items()
        if not isinstance(vars(owner).get(name), property)
    )


def _import_module_of_source(source: Source) -> ModuleType:
    module = inspect.getmodule(source)
    if module is None:
        raise ValueError(f"{source.__name__}: found no module with its source")
    return module


@cache
def _module_facts(module: ModuleType) -> _ModuleFacts:
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError) as error:
        raise ValueError(f"{module.__name__}: its source cannot be read: {error}") from error
    facts = _ModuleFacts(set(), [])
    for node in tree.body:
        assigned = list(_attributes_assigned_later(node))
        facts.assigned_of_others.update(name for name, is_own in assigned if not is_own)
        if isinstance(node, ast.ClassDef) and (owner := _class_with_attribute(node, module)) is not None:
            later = {name for name, is_own in assigned if is_own}
            facts.classes.append(_ClassFacts(owner, _attributes_in(node), later))
    return facts


def _class_with_attribute(node: ast.ClassDef, module: ModuleType) -> type | None:
    """Return the class of a definition; None if the module lacks it or its objects do not change."""
    owner = vars(module).get(node.name)
    if not isinstance(owner, type):
        return None
    parameters = getattr(owner, "__dataclass_params__", None)
    is_value = parameters is not None and parameters.eq
    is_protocol = getattr(owner, "_is_protocol", False)
    return None if issubclass(owner, _UNCHANGING) or is_value or is_protocol else owner


def _attributes_assigned_later(statement: ast.stmt) -> Iterator[tuple[str, bool]]:
    """Yield (attribute, whether it belongs to `self`) for assignments outside of constructors."""
    for each in _statements_in(statement, constructors=False):
        for target in _assignment_targets(each):
            for node in ast.walk(target):
                if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    yield node.attr, _is_self_name(node.value)


def _attributes_in(node: ast.ClassDef) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):  # a field of a dataclass
            found[field.target.id] = _is_container(field)
    for each in _statements_in(node, constructors=True):
        if isinstance(each, ast.Assign | ast.AnnAssign):
            for target in _assignment_targets(each):
                for name in ast.walk(target):
                    if isinstance(name, ast.Attribute) and _is_self_name(name.value):
                        found[name.attr] = found.get(name.attr, False) or (name is target and _is_container(each))
    return found


def _statements_in(statement: ast.stmt, *, constructors: bool) -> Iterator[ast.AST]:
    """Yield a statement and all statements inside it. Expressions are left out, because they contain no assignments."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if not constructors and isinstance(node, ast.FunctionDef) and node.name in _CONSTRUCTORS:
            continue
        yield node
        for part in _PARTS:
            waiting.extend(getattr(node, part, ()))


def _assignment_targets(statement: ast.AST) -> list[ast.expr]:
    if isinstance(statement, ast.Assign | ast.Delete):
        return statement.targets
    if isinstance(statement, ast.AugAssign | ast.AnnAssign | ast.For):
        return [statement.target]
    if isinstance(statement, ast.With):
        return [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return []


def _is_self_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_container(node: ast.Assign | ast.AnnAssign) -> bool:
    """Return whether the assigned value is a container, by its constructor or annotation."""
    if isinstance(node.value, _DISPLAYS):
        return True
    kinds = [node.value.func] if isinstance(node.value, ast.Call) else []
    if isinstance(node, ast.AnnAssign):
        kinds.append(node.annotation)
    plain = [kind.value if isinstance(kind, ast.Subscript) else kind for kind in kinds]
    return any(isinstance(kind, ast.Name) and kind.id in _CONTAINERS for kind in plain)

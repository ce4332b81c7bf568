"""Counting: counts the outcomes of every condition of a package.

A bug in a condition goes unnoticed if no run reaches the outcome that it changes. Coverage of lines and branches does
not show this: in `if a or b`, `b` may never decide, and `a < b` may never meet equal values. So an import hook inserts
a call into each condition. Conditions are the tests of `if`, `while`, `x if c else y` and comprehensions, and
comparisons elsewhere, without those of assertions. Each operand counts for itself. Its possible outcomes:

    an operand of `and`, `or`, `not`   false, true
    `<`, `<=`, `>`, `>=`               <, =, >
    `min` and `max` of two values      <, =, >
    an except clause                   raised
    a function                         called, failed
    a returned value                   empty, other

The last outcome of functions and those of returned values are no conditions, and are not printed. They help to choose
runs: a bug may act only when a call fails, or when a function finds anything.
"""

import ast
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from operator import ge, gt, le, lt
from types import CodeType, ModuleType
from typing import Any, NamedTuple

_TRUTH, _ORDER, _RAISED, _CALLED = ("false", "true"), ("<", "=", ">"), ("raised",), ("called", "failed")
_RETURNED = ("empty", "other")
UNPRINTED = frozenset(("failed", *_RETURNED))
_PLAIN_TYPES = (bool, int, float, str, bytes, list, tuple, dict, set, frozenset, type(None))
"""Only of these types a value is asked whether it is empty. The `__len__` of others may change the run."""
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {ast.Lt: lt, ast.LtE: le, ast.Gt: gt, ast.GtE: ge}
_ORDERED: dict[str, Callable[[Any, Any], Any]] = {"min": min, "max": max}
_TEXT_CHARACTERS_MAX = 100
_STRIDE = 3
"""Distance of the numbers of two conditions in REACHED: the largest number of outcomes."""


class Condition(NamedTuple):
    """One condition, or a part of one."""

    module: str
    line: int
    function: str
    text: str
    outcomes: tuple[str, ...]


Outcome = tuple[Condition, str]

CONDITIONS: list[Condition] = []
"""The conditions of all modules imported so far. An outcome has the number `_STRIDE * condition + outcome`."""
REACHED: set[int] = set()
"""Numbers of the outcomes reached since it was last cleared."""


def outcome_of(number: int) -> Outcome:
    """Return the outcome with a number of REACHED."""
    condition = CONDITIONS[number // _STRIDE]
    return condition, condition.outcomes[number % _STRIDE]


def count_conditions(package: str) -> None:
    """Count the conditions of each module of a package that is imported after this call."""
    assert package not in sys.modules, f"{package} is imported already"
    sys.meta_path.insert(0, _CountingFinder(package))


class _CountingFinder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._package and not fullname.startswith(f"{self._package}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _CountingLoader(spec.loader.name, spec.loader.path)
        return spec


class _CountingLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Compile the changed source. Byte code on the disk is neither read nor written."""
        tree = counting_tree(self.get_data(self.path).decode(), fullname)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(COUNTERS)
        super().exec_module(module)


def counting_tree(source: str, module: str) -> ast.Module:
    """Parse source and insert the calls. The code needs COUNTERS as global names."""
    tree = ast.parse(source)
    _Insertion(module).visit(tree)
    return ast.fix_missing_locations(tree)


class _Insertion(ast.NodeTransformer):
    def __init__(self, module: str) -> None:
        self._module = module
        self._scopes: list[str] = []

    def _number_of(self, node: ast.AST, outcomes: tuple[str, ...]) -> ast.Constant:
        """Enter a condition into CONDITIONS, and return the number of its first outcome."""
        assert isinstance(node, ast.expr | ast.ExceptHandler | ast.FunctionDef | ast.Return)
        text = "def" if isinstance(node, ast.FunctionDef) else ast.unparse(node)[:_TEXT_CHARACTERS_MAX]
        function = ".".join(self._scopes)
        CONDITIONS.append(Condition(self._module, node.lineno, function, text, outcomes))
        return ast.Constant(_STRIDE * (len(CONDITIONS) - 1))

    def visit(self, node: ast.AST) -> Any:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                self._scopes.append(node.name)
                if isinstance(node, ast.FunctionDef) and not _is_without_code(node):
                    self._count_calls(node)
                else:
                    self.generic_visit(node)
                self._scopes.pop()
            case ast.Return(ast.Call() | ast.Name() | ast.Attribute() | ast.Subscript() | ast.ListComp() as value):
                number = self._number_of(node, _RETURNED)
                node.value = _call("returned", number, self.visit(value))
            case ast.Assert():
                pass
            case ast.If() | ast.While() | ast.IfExp():
                test, node.test = node.test, ast.Constant(True)  # the test is counted, not visited
                self.generic_visit(node)
                node.test = self._count(test)
            case ast.comprehension():
                tests, node.ifs = node.ifs, []
                self.generic_visit(node)
                node.ifs = [self._count(one) for one in tests]
            case ast.BoolOp() | ast.Compare():
                return self._count(node)
            case ast.Call(ast.Name(name), [one, other], []) if name in _ORDERED:
                return _call(name, self._number_of(node, _ORDER), self.visit(one), self.visit(other))
            case ast.ExceptHandler():
                number = self._number_of(node.type or node, _RAISED)
                self.generic_visit(node)
                node.body.insert(0, _statement("reached", number, node))
            case _:
                self.generic_visit(node)
        return node

    def _count_calls(self, node: ast.FunctionDef) -> None:
        """Insert a call at the begin of a function, and one that an error passes."""
        begin = 0 if ast.get_docstring(node, clean=False) is None else 1
        number = self._number_of(node, _CALLED)
        self.generic_visit(node)
        counted, failed = node.body[begin:], ast.Constant(number.value + _CALLED.index("failed"))
        passed = [_statement("reached", failed, node), ast.copy_location(ast.Raise(), node.body[0])]
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, passed)
        node.body[begin:] = [_statement("reached", number, node), ast.Try(counted, [handler], [], [])]

    def _count(self, node: ast.expr) -> ast.expr:
        """Insert calls into the operands of a condition."""
        match node:
            case ast.BoolOp():
                node.values = [self._count(one) for one in node.values]
                return node
            case ast.UnaryOp(op=ast.Not()):
                node.operand = self._count(node.operand)
                return node
            case ast.Constant():
                return node
            case ast.Compare(left, [sign], [right]) if type(sign) in _COMPARISONS:
                number = self._number_of(node, _ORDER)
                return _call(type(sign).__name__, number, self.visit(left), self.visit(right))
        number = self._number_of(node, _TRUTH)
        return _call("truth", number, self.generic_visit(node) if isinstance(node, ast.Compare) else self.visit(node))


def _is_without_code(node: ast.FunctionDef) -> bool:
    """Return whether a function ends with a text or dots, as in a protocol."""
    return isinstance(node.body[-1], ast.Expr) and isinstance(node.body[-1].value, ast.Constant)


_PREFIX = "count_condition_"


def _call(name: str, *arguments: Any) -> ast.Call:
    return ast.Call(ast.Name(_PREFIX + name, ast.Load()), list(arguments), [])


def _statement(name: str, number: ast.Constant, node: ast.FunctionDef | ast.ExceptHandler) -> ast.stmt:
    return ast.copy_location(ast.Expr(_call(name, number)), node.body[0])


def _count_truth(number: int, value: Any) -> Any:
    REACHED.add(number + bool(value))
    return value


def _count_reached(number: int) -> None:
    REACHED.add(number)


def _count_returned(number: int, value: Any) -> Any:
    REACHED.add(number + (bool(value) if type(value) in _PLAIN_TYPES else 1))
    return value


def _counting_order(function: Callable[[Any, Any], Any]) -> Callable[[int, Any, Any], Any]:
    def compare(number: int, one: Any, other: Any) -> Any:
        if isinstance(one, int | float | bytes | str | tuple):  # not an array, which compares by element
            REACHED.add(number + (0 if one < other else 2 if one > other else 1))
        return function(one, other)

    return compare


COUNTERS: dict[str, Callable[..., Any]] = {
    f"{_PREFIX}truth": _count_truth,
    f"{_PREFIX}reached": _count_reached,
    f"{_PREFIX}returned": _count_returned,
    **{_PREFIX + name: _counting_order(function) for name, function in _ORDERED.items()},
    **{_PREFIX + kind.__name__: _counting_order(function) for kind, function in _COMPARISONS.items()},
}
"""Global names that the changed code needs."""

import ast
from textwrap import dedent

import pytest

from tests.mutation.change import Function
from tests.mutation.operators import OPERATORS
from tests.mutation.vocabulary import vocabulary_of

STORE = """
class Log:
    def __init__(self, world):
        self.wrote = world.tasks.cell("wrote")
        self.readable = self.wrote
        self.lock = world.tasks.lock("log")
        self.files = world.files
        self.signal = world.tasks.signal("log")
        self.error = None
        self.shown = None

    @property
    def end(self) -> int:
        return self.base + self.wrote.get()

    @property
    def is_empty(self) -> bool:
        return self.wrote.get() == 0

    def look(self):
        return self.error

    def tidy(self):
        self.files.unlink("x")

"""


def functions(body: str) -> tuple[ast.Module, Function]:
    """Return a small store and the function in it to change."""
    text = STORE + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    tree = ast.parse(text)
    (log,) = tree.body
    assert isinstance(log, ast.ClassDef)
    function = log.body[-1]
    assert isinstance(function, ast.FunctionDef)
    return tree, function


def changed_bodies(operator: str, body: str) -> list[str]:
    """Return the changed bodies of a function, one per site."""
    tree, function = functions(body)
    before = ast.dump(function)
    changes = list(OPERATORS[operator].sites(function, vocabulary_of([tree])))
    texts = [
        "\n".join(ast.unparse(ast.fix_missing_locations(statement)) for statement in change.applied_to(function).body)
        for change in changes
    ]
    assert ast.dump(function) == before, "the function itself has changed"
    assert all(change.old and change.new and change.old != change.new for change in changes)
    return texts


CASES = [
    (
        "drop-sync",
        """
        def f(self):
            self.file.msync(0, 9)
            self.files.write("a", b"")
            while self.queue.flush():
                pass
        """,
        [
            "pass\nself.files.write('a', b'')\nwhile self.queue.flush():\n    pass",
            "self.file.msync(0, 9)\nself.files.write('a', b'')\npass",
        ],
    ),
    ("drop-sync", "def f(self):\n    moved = self.queue.flush()\n    return moved", []),
    (
        "drop-write",
        "def f(self):\n    self.file.store(0, b'')\n    self.file.msync(0, 9)",
        ["pass\nself.file.msync(0, 9)"],
    ),
    (
        "drop-notice",
        "def f(self):\n    self.signal.notify()\n    self.on_flushed()\n    self.look()",
        ["pass\nself.on_flushed()\nself.look()", "self.signal.notify()\npass\nself.look()"],
    ),
    (
        "drop-step",
        "def f(self):\n    self.tidy()\n    found.append(1)\n    self.file.msync(0, 9)\n    self.unknown()",
        ["pass\nfound.append(1)\nself.file.msync(0, 9)\nself.unknown()"],
    ),
    ("drop-lock", "def f(self):\n    with self.lock:\n        self.tidy()", ["if True:\n    self.tidy()"]),
    ("drop-lock", "def f(self):\n    with self.lock:\n        self.error = None", ["if True:\n    self.error = None"]),
    ("drop-lock", "def f(self):\n    with suppress(OSError):\n        self.tidy()", []),
    ("skip-advance", "def f(self):\n    self.readable.set(3)\n    self.seen.add(3)", ["pass\nself.seen.add(3)"]),
    (
        "short-by-one",
        "def f(self, end):\n    self.wrote.set(end)\n    self.wrote.set(0)",
        ["self.wrote.set(end - 1)\nself.wrote.set(0)"],
    ),
    (
        "forget-state",
        "def f(self):\n    self.error = 1\n    self.shown = 2\n    x = self.error = 3\n    self.error[4] += 1",
        [
            "pass\nself.shown = 2\nx = self.error = 3\nself.error[4] += 1",
            "self.error = 1\nself.shown = 2\nx = self.error = 3\npass",
        ],
    ),
    (
        "stale-position",
        """
        def f(self):
            while self.wrote.get() < 9:
                self.tidy()
        """,
        ["if True:\n    kept_position = self.wrote.get()\n    while kept_position < 9:\n        self.tidy()"],
    ),
    (
        "stale-position",
        """
        def f(self):
            \"\"\"Do.\"\"\"
            self.tidy()
            return self.end
        """,
        ["'Do.'\nif True:\n    kept_position = self.end\n    self.tidy()\nreturn kept_position"],
    ),
    ("stale-position", "def f(self):\n    x = 1\n    return self.end", []),
    ("stale-position", "def f(self):\n    self.tidy()\n    return self.is_empty", []),
    ("stale-position", "def f(self):\n    for log in logs:\n        log.tidy(log.wrote.get())", []),
    (
        "swap",
        "def f(self):\n    self.file.store(0, b'')\n    self.file.msync(0, 9)\n    self.error = 1",
        [
            "self.file.msync(0, 9)\nself.file.store(0, b'')\nself.error = 1",
            "self.file.store(0, b'')\nself.error = 1\nself.file.msync(0, 9)",
        ],
    ),
    ("swap", "def f(self):\n    at = self.file.pwrite(0, b'')\n    self.wrote.set(at)", []),
    ("swap", "def f(self):\n    self.error = 1\n    self.file.msync(0, 9)", []),
    (
        "off-by-one",
        "def f(self, limit):\n    return 0 <= self.offset < limit",
        ["return 0 < self.offset < limit", "return 0 <= self.offset <= limit"],
    ),
    (
        "off-by-one",
        "def f(self, end_offset):\n    return self.x > end_offset or self.y >= end_offset",
        ["return self.x >= end_offset or self.y >= end_offset", "return self.x > end_offset or self.y > end_offset"],
    ),
    ("off-by-one", "def f(self, now, limit):\n    return now < self.call_when_answered or now == limit", []),
    (
        "ignore-error",
        """
        def f(self):
            try:
                self.tidy()
            except OSError as error:
                self.error = error
                raise
        """,
        ["try:\n    self.tidy()\nexcept OSError:\n    pass"],
    ),
    ("ignore-error", "def f(self):\n    if self.error:\n        raise ValueError('x')", ["if self.error:\n    pass"]),
    ("ignore-error", "def f(self):\n    try:\n        self.tidy()\n    except OSError:\n        pass", []),
    (
        "negate-condition",
        "def f(self):\n    if not self.error:\n        self.tidy()\n    return 1 if self.shown else 2",
        [
            "if self.error:\n    self.tidy()\nreturn 1 if self.shown else 2",
            "if not self.error:\n    self.tidy()\nreturn 1 if not self.shown else 2",
        ],
    ),
]


@pytest.mark.parametrize(("operator", "body", "expected"), CASES)
def test_a_mutation_operator_makes_exactly_the_expected_changes(operator: str, body: str, expected: list[str]) -> None:
    assert changed_bodies(operator, body) == expected


def test_every_mutation_operator_has_a_test_case_with_a_change() -> None:
    assert {operator for operator, _, expected in CASES if expected} == set(OPERATORS)


def test_a_mutation_operator_describes_its_change_and_its_cause() -> None:
    assert all(name == operator.name for name, operator in OPERATORS.items())
    assert all(operator.does and operator.why for operator in OPERATORS.values())

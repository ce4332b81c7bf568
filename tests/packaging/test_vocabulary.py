"""The kernel and the disks serve any storage code: their code contains no words of message stores."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

GENERIC = ("sim", "faults")
OF_MESSAGE_STORES = re.compile(
    r"commit_?log|consume_?queue|queue_?(id|offset)|message_?(id|store)|rocketmq|broker|producer|consumer|topic"
    r"|half_?message|delay_?level|dispatch",
    re.IGNORECASE,
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def words_in_code(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every name and text of a module's code with its line; comments and docstrings may give examples."""
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, _DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield line, node.value
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield line, word


def lines_with_message_store_words(path: Path) -> list[str]:
    return [
        f"{path}:{line}: {word}"
        for line, word in words_in_code(ast.parse(path.read_text()))
        if OF_MESSAGE_STORES.search(re.sub(r"[ -]", "_", word))
    ]


def test_simulator_packages_do_not_mention_message_stores(source: Path) -> None:
    modules = [path for package in GENERIC for path in sorted((source / package).rglob("*.py"))]

    assert len(modules) > 50
    assert [found for path in modules for found in lines_with_message_store_words(path)] == []


def test_the_store_package_does_mention_message_stores(source: Path) -> None:
    assert lines_with_message_store_words(source / "store" / "message_store.py")


@pytest.mark.parametrize(
    "text",
    [
        "def put(topic): ...",
        "commit_log = 1",
        "class CommitLog: ...",
        "x.queueOffset",
        "def f(*, queue_id=0): ...",
        "from .consume_queue import ConsumeQueue",
        "raise ValueError('no such queue offset')",
        "f'{x} commit-log'",
    ],
)
def test_a_message_store_word_is_detected_anywhere_in_code(text: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)

    assert lines_with_message_store_words(path)


@pytest.mark.parametrize(
    "text",
    [
        '"""As RocketMQ does with its commit log."""',
        'def f():\n    """Return a topic."""\n    return 1  # of the consumer',
        "queue = []\nmessage = str(error)\noffset = 4096",
    ],
)
def test_plain_words_and_examples_in_documentation_are_accepted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)

    assert lines_with_message_store_words(path) == []

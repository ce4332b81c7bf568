"""Every command of README.md and the pages runs, in page order, large ones with smaller arguments."""

import re
import shlex
from pathlib import Path

import pytest

from tests.command_line import tornlog
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

ROOT = Path(__file__).resolve().parents[2]
_COMMAND = re.compile(r"^    ((?:tornlog|pip|make|\.ci/run)(?:\s.*?)?)(?:\s+#.*)?$", re.MULTILINE)
PAGES = sorted(
    path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if _COMMAND.search(path.read_text())
)
_EXTRA = re.compile(r"'\.\[(\w+)\]'")
STORE = "/var/lib/rocketmq/store"
SMALLER = {
    "--time 5m --jobs 2": "--time 1s",
    "--seeds 5000": "--seeds 20",
    "run --seeds 20 --no-corpus": "run clean-shutdown --seeds 1 --no-corpus",
    "requests-in-flight --seeds 20": "requests-in-flight --seeds 1",
    "--seeds 600 --jobs 2 --require-coverage": "--seeds 1",
    "--seeds 100 --disk": "--seeds 1 --disk",
    "--seeds 500 --check-determinism": "--seeds 1 --check-determinism",
    "--processes 2 --seeds 100": "--processes 2 --seeds 1",
    "--seeds 200000 --scenario": "--master in-process --seeds 20 --scenario",
    "--seeds 0:50000": "--seeds 0:1",
    "--seeds 2000 --out clean": "--master in-process --seeds 1 --out clean",
    "--seeds 500 --mutant": "--master in-process --seeds 2 --mutant",
    "--as rocketmq-4.9.8 --seeds 20": "--as rocketmq-4.9.8 --seeds 1",
    "fuzz commitlog --time 30s --out": "fuzz commitlog --time 1s --out",
    "fuzz --time 60s --jobs 2": "fuzz --inputs 50 --jobs 2",
    "explore segment-rollover-crash --messages 2": "explore segment-rollover-crash --messages 1 --limit 4",
    "--delays 1 --limit 1000": "--delays 1 --limit 10",
    "--time 60s --jobs 2 --out": "--time 1s --out",
    "fuzz commitlog --time 30s --engine": "fuzz commitlog --time 1s --engine",
    "directory --inputs 500": "directory --inputs 5",
    "--time 5m --junit": "--time 1s --junit",
    "--time 5m --out": "--time 1s --out",
    "--topics 1024 --topics 4096 --dirty-mib 128 --puts 160000": "--dirty-mib 1 --puts 1000",
    "plot topics --out": "plot topics --puts 1000 --dirty-mib 1 --disk nvme-ssd --topics 2 --out",
    "plot topics --disk here": "plot topics --topics 2 --disk here",
    "plot recovery --out": "plot recovery --log-bytes 16777216 --turns 1 --out",
    "--producers 1 --producers 16 --turns 6": "--producers 1 --turns 1",
    "plot latency --out": "plot latency --puts 200 --disk nvme-ssd --producers 2 --out",
    "plot latency --disk here": "plot latency --turns 1 --producers 2 --disk here",
    "master-lost --seeds 100": "master-lost --seeds 2",
}
"""Part of a slow command -> a smaller version. Each must be on a page."""
ELSEWHERE = {
    "make run": ".ci/run",
    "make test": ".ci/run",
    "make check": "Makefile",
    "make lint": ".ci/run",
    "make hooks": "tests/packaging/test_titles.py",
    "make sanitize": ".ci/run",
    "make bench": "Makefile",
    "make mutation": "tests/mutation",
    "make conditions": "tests/conditions/test_conditions.py",
    "make soak": "tests/soak",
    "make peers": "tests/peers",
    ".ci/run": ".github/workflows/ci.yml",
    "tornlog mutants": ".ci/run",
    "tornlog serve": "tests/docs/test_broker_page.py",
    "spark://head:7077": "tests/reports/pipeline/spark/test_cluster.py",
    "--engine atheris": "tests/scenarios/fuzz/test_command.py",
    "s3://": "tests/reports/pipeline/test_other_places.py",
    "tornlog probe": "tests/docs/test_pages.py",
    "tornlog init": "tests/docs/test_pages.py",
}
"""Part of a command -> the file that runs it instead."""


def commands_of(path: Path) -> list[str]:
    return [match[1] for match in _COMMAND.finditer(path.read_text())]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The directory of a stopped store."""
    root = str(tmp_path / "store")
    sizes = {"mapped_file_size_commit_log": 1 << 16, "mapped_file_size_consume_queue": 2_000}
    found = MessageStore(real_world(), StoreConfig(root, max_hash_slot_num=100, max_index_num=400, **sizes))
    found.load()
    found.start()
    for number in range(30):
        found.put_message(Message.create("Orders", b"hello", keys=f"order-{number}"))
    found.shutdown()
    return root


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to run in, with a broker.conf."""
    place = tmp_path / "work"
    place.mkdir()
    (place / "broker.conf").write_text("flushDiskType=SYNC_FLUSH\n")
    monkeypatch.chdir(place)
    return place


def shortened(command: str) -> str:
    for large, small in SMALLER.items():
        if large in command:
            return command.replace(large, small)
    return command


def expected_exits(words: list[str]) -> tuple[int, ...]:
    """Return the allowed exit codes: 1 for a broken promise, 0 or 1 if the few seeds may not show it."""
    if words[1] in ("replay", "shrink") or "--replay" in words:
        return (1,)
    if "--mutant" in words or "--as" in words:
        return (0, 1) if words[1] == "sweep" else (1,)
    return (0,)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_command_on_a_documentation_page_runs(path: Path, store: str, workplace: Path) -> None:
    for command in commands_of(path):
        if any(part in command for part in ELSEWHERE) or command.startswith("pip"):
            continue
        words = shlex.split(shortened(command).replace(STORE, store))
        result = tornlog(*words[1:])
        assert result.exit_code in expected_exits(words), f"{command}\n{result.output}\n{result.exception!r}"


def test_documentation_pages_contain_many_commands() -> None:
    assert len(PAGES) >= 7
    assert sum(len(commands_of(path)) for path in PAGES) >= 50


def test_every_shortened_or_excluded_command_occurs_on_a_page() -> None:
    commands = "\n".join(command for path in PAGES for command in commands_of(path))

    assert [part for part in (*SMALLER, *ELSEWHERE) if part not in commands] == []
    for part, place in ELSEWHERE.items():
        assert (ROOT / place).exists(), (part, place)


def test_commands_of_other_programs_are_tested_in_other_files() -> None:
    others = [command for path in PAGES for command in commands_of(path) if not command.startswith(("tornlog", "pip"))]

    assert others
    assert [command for command in others if not any(part in command for part in ELSEWHERE)] == []


def test_every_extra_named_on_a_page_exists() -> None:
    extras = (ROOT / "pyproject.toml").read_text()
    asked = [extra for path in PAGES for extra in _EXTRA.findall(path.read_text())]

    assert asked
    for extra in asked:
        assert f"\n{extra} = [" in extras, extra

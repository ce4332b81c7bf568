"""The real and the simulated world for a user's own code fulfil `store.own_code`."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tornlog.faults.simulation.simulation import Simulation, SimWorld
from tornlog.sim.choices import Choices
from tornlog.sim.errors import TaskFailedError
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.own_code import File, PortableWorld
from tornlog.store.real.world import this_computer

pytestmark = pytest.mark.usefixtures("inside")

Body = Callable[[PortableWorld, str], None]
Run = Callable[[Body], None]


def on_this_computer(directory: Path) -> Run:
    def run(body: Body) -> None:
        body(this_computer(), str(directory))

    return run


def simulated(_: Path) -> Run:
    def run(body: Body) -> None:
        def use(world: SimWorld) -> None:
            world.files.make_directories("/root")
            body(world, "/root")

        choices = Choices("own code")
        simulation = Simulation(choices, RandomWalk(choices.stream("schedule"), 1))
        with simulation.kernel:
            try:
                simulation.live("only", use)
            except TaskFailedError as failed:
                raise failed.__cause__ or failed from None

    return run


@pytest.fixture(params=[on_this_computer, simulated], ids=["real", "simulated"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    made: Run = request.param(tmp_path)
    return made


@pytest.fixture
def root() -> None:
    """An empty directory, provided by `inside`."""


@pytest.fixture
def inside(run: Run) -> Callable[..., None]:
    return lambda body: run(lambda world, root: body(world=world, root=root))


class AppendLog:
    """A log of records, each durable when append returns."""

    def __init__(self, world: PortableWorld, path: str) -> None:
        self._file = world.files.open(path)
        self._lock = world.tasks.lock("log")

    def append(self, record: bytes) -> None:
        with self._lock:
            self._file.write(self._file.size_bytes, record)
            self._file.sync()

    def records(self, size_bytes: int) -> list[bytes]:
        return [
            self._file.read(at, size_bytes) for at in range(0, self._file.size_bytes, size_bytes)
        ]  # fmt: skip


def test_an_append_only_log_with_several_tasks_works_in_both_worlds(world: PortableWorld, root: str) -> None:
    log = AppendLog(world, f"{root}/log")
    world.files.sync_directory(root)
    bodies = {name: (lambda name=name: log.append(name.encode())) for name in ("one", "two", "six")}
    for task in [world.tasks.spawn(name, body) for name, body in bodies.items()]:
        assert task.join(None)
    assert sorted(log.records(3)) == [b"one", b"six", b"two"]
    assert len(world.files.read(f"{root}/log")) == 9


def test_a_read_returns_written_bytes_up_to_the_end_of_the_file(world: PortableWorld, root: str) -> None:
    file = world.files.open(f"{root}/log")
    assert file.write(2, b"abc") == 3
    assert (file.size_bytes, file.path) == (5, f"{root}/log")
    assert (file.read(0, 4), file.read(3, 100), file.read(5, 1), file.read(99, 1)) == (b"\0\0ab", b"bc", b"", b"")


def test_a_file_can_be_truncated_and_extended_with_zeros(world: PortableWorld, root: str) -> None:
    file = world.files.open(f"{root}/log")
    file.write(0, b"abcdef")
    file.truncate(2)
    file.allocate(4)
    file.allocate(1)
    assert file.read(0, 9) == b"ab\0\0"
    file.truncate(6)
    file.sync()
    assert file.read(0, 9) == b"ab\0\0\0\0"


def test_a_hard_link_names_the_same_file_and_replaces_no_other(world: PortableWorld, root: str) -> None:
    file = world.files.open(f"{root}/log")
    world.files.link(f"{root}/log", f"{root}/twin")
    world.files.unlink(f"{root}/log")
    file.write(0, b"kept")

    assert world.files.read(f"{root}/twin") == b"kept"
    world.files.write(f"{root}/other", b"there")
    with pytest.raises(FileExistsError):
        world.files.link(f"{root}/twin", f"{root}/other")
    with pytest.raises(FileNotFoundError):
        world.files.link(f"{root}/log", f"{root}/new")


USES: dict[str, Callable[[File], object]] = {
    "read": lambda file: file.read(0, 1),
    "write": lambda file: file.write(0, b"x"),
    "allocate": lambda file: file.allocate(9),
    "truncate": lambda file: file.truncate(0),
    "sync": lambda file: file.sync(),
    "size_bytes": lambda file: file.size_bytes,
}


@pytest.mark.parametrize("use", USES)
def test_a_closed_file_refuses_every_call_except_close(world: PortableWorld, root: str, use: str) -> None:
    file = world.files.open(f"{root}/log")
    file.write(0, b"ab")
    file.close()
    file.close()
    with pytest.raises(OSError, match=rf"\[Errno {errno.EBADF}\]"):
        USES[use](file)
    assert world.files.read(f"{root}/log") == b"ab"


class Refusal(NamedTuple):
    path: str
    code: int


@pytest.mark.parametrize("refusal", [Refusal("none/log", errno.ENOENT), Refusal("", errno.EISDIR)])
def test_opening_an_impossible_path_raises_its_errno(world: PortableWorld, root: str, refusal: Refusal) -> None:
    with pytest.raises(OSError, match=rf"\[Errno {refusal.code}\]"):
        world.files.open(f"{root}/{refusal.path}".rstrip("/"))

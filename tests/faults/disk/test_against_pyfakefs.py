"""The simulated names, compared with an independent model of a file system: pyfakefs."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from pyfakefs.fake_filesystem import FakeFilesystem, OSType
from pyfakefs.fake_open import FakeFileOpen
from pyfakefs.fake_os import FakeOsModule

from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

NAMES = ("a", "b", "c")
PATHS = [f"/{one}" for one in NAMES] + [f"/{one}/{two}" for one in NAMES for two in NAMES]
Operation = tuple[str, str, str]
Act = Callable[[Operation], object]


def simulated() -> Act:
    choices = Choices("names")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 1))
    disk = Disk(kernel, choices.stream("disk"), timing=SyncTiming(0, 0))
    files = disk.mount(kernel.create_machine("m"))

    def act(operation: Operation) -> object:
        kind, path, other = operation
        match kind:
            case "write":
                return files.write(path, other.encode())
            case "read":
                return files.read(path)
            case "make":
                return files.make_directories(path)
            case "unlink":
                return files.unlink(path)
            case "remove":
                return files.remove_directory(path)
            case "rename":
                return files.rename(path, other)
        return files.list_directory(path)

    return act


def faked() -> Act:
    filesystem = FakeFilesystem(path_separator="/", create_temp_dir=False)
    filesystem.os = OSType.LINUX
    os = FakeOsModule(filesystem)
    fake_open = FakeFileOpen(filesystem)

    def act(operation: Operation) -> object:
        kind, path, other = operation
        match kind:
            case "write":
                with fake_open(path, "wb") as file:
                    file.write(other.encode())
                return None
            case "read":
                with fake_open(path, "rb") as file:
                    return file.read()
            case "make":
                return os.makedirs(path, exist_ok=True)
            case "unlink":
                return os.unlink(path)
            case "remove":
                return os.rmdir(path)
            case "rename":
                return os.rename(path, other)
        return sorted(os.listdir(path))

    return act


def outcome(act: Act, operation: Operation) -> object:
    try:
        return act(operation)
    except (FileNotFoundError, NotADirectoryError):
        return OSError  # pyfakefs has inexact errors for paths that lead through a file
    except OSError as error:
        return type(error)


def is_modelled(act: Act, operation: Operation) -> bool:
    """Return whether the simulated disk supports this and pyfakefs behaves as Linux does.

    pyfakefs only renames files. It returns ENOTEMPTY for a rename of a file to a directory with content.
    """
    kind, *paths = operation
    return kind != "rename" or all(isinstance(outcome(act, ("list", path, "")), type) for path in paths)


operations = st.tuples(
    st.sampled_from(["write", "read", "make", "unlink", "remove", "rename", "list"]),
    st.sampled_from(PATHS),
    st.sampled_from(PATHS),
)


@settings(max_examples=100)
@given(st.lists(operations, max_size=25))
def test_name_operations_agree_with_pyfakefs(sequence: list[Operation]) -> None:
    ours, theirs = simulated(), faked()
    for operation in sequence:
        if is_modelled(ours, operation):
            assert outcome(ours, operation) == outcome(theirs, operation), operation
    assert outcome(ours, ("list", "/", "")) == outcome(theirs, ("list", "/", ""))

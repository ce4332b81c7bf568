"""Moved directories, exchanges, symbolic links and unnamed files, and their crash states."""

import errno
from collections.abc import Callable

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.files import SimFiles
from tornlog.faults.disk.image import Image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.replay import ReplayPolicy


class Place:
    """A disk with durable /d, /d/f and /g, and its files."""

    def __init__(self, *, is_sparse: bool = False) -> None:
        self.kernel = Kernel(ReplayPolicy())
        self.machine = self.kernel.create_machine("program")
        stream = Choices("1").stream("disk")
        self.disk = Disk(self.kernel, stream, timing=SyncTiming(0, 0), is_sparse=is_sparse)
        self.files: SimFiles = self.disk.mount(self.machine)
        self.files.make_directories("/d")
        for path, data in (("/d/f", b"f"), ("/g", b"g")):
            file = self.files.open(path)
            file.write(0, data)
            file.sync()
        self.sync("/", "/d")

    def sync(self, *directories: str) -> None:
        for directory in directories:
            self.files.sync_directory(directory)

    def left(self, profile: str = "strict-posix") -> set[str]:
        """Return each tree that a crash may leave, in words."""
        states = self.disk.crash_states(PROFILES[profile], 500, Choices("1").stream("states"))
        assert states.is_exhaustive
        return {image_as_text(state.image) for state in states}


def image_as_text(image: Image) -> str:
    files = [f"{path}={file.content.decode()}" for path, file in image.files.items()]
    links = [f"{path}->{text}" for path, text in image.symlinks.items()]
    return " ".join(sorted([*image.directories, *files, *links]))


@pytest.fixture(params=[False, True], ids=["plain", "sparse"])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(is_sparse=request.param)


def test_a_directory_rename_moves_its_whole_content_or_does_not_happen(place: Place) -> None:
    place.files.rename("/d", "/e")

    assert place.files.list_directory("/") == ["e", "g"]
    assert place.files.list_directory("/e") == ["f"]
    assert place.left() == {"/d /d/f=f /g=g", "/e /e/f=f /g=g"}
    place.sync("/")
    assert place.left() == {"/e /e/f=f /g=g"}


def test_files_in_a_moved_directory_follow_it(place: Place) -> None:
    place.files.rename("/d", "/e")
    place.files.open("/e/h")
    place.sync("/e")

    assert place.left() == {"/d /d/f=f /d/h= /g=g", "/e /e/f=f /e/h= /g=g"}


def test_a_sync_of_a_moved_directory_covers_files_created_before_the_move(place: Place) -> None:
    place.files.open("/d/h")
    place.files.rename("/d", "/e")
    place.sync("/", "/e")

    assert place.left() == {"/e /e/f=f /e/h= /g=g"}


def test_a_renamed_directory_replaces_only_an_empty_directory(place: Place) -> None:
    place.files.make_directories("/e/in")
    with pytest.raises(OSError, match="not empty") as refused:
        place.files.rename("/d", "/e")
    assert refused.value.errno == errno.ENOTEMPTY

    place.files.rename("/d", "/e/in")
    assert place.files.list_directory("/e/in") == ["f"]
    assert place.files.list_directory("/") == ["e", "g"]


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda files: files.rename("/d", "/d/e"), errno.EINVAL),
        (lambda files: files.rename("/d", "/g"), errno.ENOTDIR),
        (lambda files: files.rename("/d", "/none/e"), errno.ENOENT),
        (lambda files: files.exchange("/d", "/none"), errno.ENOENT),
        (lambda files: files.exchange("/d", "/d/f"), errno.EINVAL),
        (lambda files: files.symlink("/g", "d"), errno.EEXIST),
        (lambda files: files.symlink("/none/link", "d"), errno.ENOENT),
    ],
)
def test_impossible_renames_raise_the_errors_of_linux(place: Place, act: Callable[[SimFiles], None], code: int) -> None:
    with pytest.raises(OSError, match="/") as refused:
        act(place.files)

    assert refused.value.errno == code


def test_a_rename_exchange_of_two_files_is_atomic(place: Place) -> None:
    place.files.exchange("/d/f", "/g")

    assert place.left() == {"/d /d/f=f /g=g", "/d /d/f=g /g=f"}
    place.sync("/")
    assert place.left() == {"/d /d/f=g /g=f"}


def test_later_changes_follow_a_rename_exchange_of_a_directory_and_a_file(place: Place) -> None:
    place.files.exchange("/d", "/g")
    place.files.open("/g/h")
    place.sync("/g")

    assert place.files.list_directory("/g") == ["f", "h"]
    assert place.left() == {"/d /d/f=f /d/h= /g=g", "/d=g /g /g/f=f /g/h="}


def test_a_symbolic_link_survives_a_crash_with_its_target_or_not_at_all(place: Place) -> None:
    place.files.symlink("/link", "d/f")

    assert place.left() == {"/d /d/f=f /g=g", "/d /d/f=f /g=g /link->d/f"}
    assert place.left("process-kill") == {"/d /d/f=f /g=g /link->d/f"}
    place.sync("/")
    place.files.rename("/link", "/new")
    assert place.left() == {"/d /d/f=f /g=g /link->d/f", "/d /d/f=f /g=g /new->d/f"}
    place.files.unlink("/new")
    assert "/d /d/f=f /g=g" in place.left()


def test_symbolic_links_of_an_image_survive_a_process_kill() -> None:
    image = Image({}, ("/d",), {"/link": "d"})
    kernel = Kernel(ReplayPolicy())
    disk = Disk(kernel, Choices("1").stream("disk"), image=image)
    machine = kernel.create_machine("program")
    disk.mount(machine).rename("/link", "/d/link")
    kernel.kill(machine)

    assert disk.crash(PROFILES["process-kill"]).symlinks == {"/d/link": "d"}
    assert image.digest() != Image({}, ("/d",), {"/link": "e"}).digest() != Image({}, ("/d",)).digest()


def test_an_unnamed_file_survives_a_crash_only_if_it_was_linked(place: Place) -> None:
    file = place.files.open_unnamed()
    file.write(0, b"n")
    assert place.left() == {"/d /d/f=f /g=g"}

    file.link("/n")
    assert place.left() == {"/d /d/f=f /g=g", "/d /d/f=f /g=g /n=", "/d /d/f=f /g=g /n=\0", "/d /d/f=f /g=g /n=n"}
    file.sync()
    place.sync("/")
    assert place.left() == {"/d /d/f=f /g=g /n=n"}

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.disk.namespace import Namespace
from tornlog.sim.errors import MachineDied
from tornlog.store import side_file
from tornlog.store.errors import CorruptFileError
from tornlog.store.side_file import SideFile
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

Make = Callable[..., Any]

PATH = "/store/config/x.json"
EMPTY = Image({}, ("/store",))


def parse(raw: bytes, file: str) -> str:
    """Parse `<text>`; any other form is damage."""
    if not (raw.startswith(b"<") and raw.endswith(b">")):
        raise CorruptFileError(file, 0, "text", "<...>", raw.hex())
    return raw[1:-1].decode()


def as_file_content(text: str) -> bytes:
    return f"<{text}>".encode()


def image_of(**files: bytes) -> Image:
    """Return a directory with files named by the part after `x.json`."""
    paths = {"current": PATH, "bak": f"{PATH}.bak", "tmp": f"{PATH}.tmp"}
    return Image({paths[name]: FileImage(content, 0) for name, content in files.items()}, ("/store", "/store/config"))


def images_after_power_cut(names: Namespace) -> Iterator[Image]:
    """Yield the images that strict POSIX allows. Every name change and all content that was not synced may be lost."""
    unsure = [change.number for change in names.journal if not change.synced]
    for keeps in product((False, True), repeat=len(unsure)):
        kept = dict(zip(unsure, keeps, strict=True))
        entries = names.durable.copy()
        for change in names.journal:
            if kept.get(change.number, True):
                change.apply(entries)
            else:
                change.apply_loss(entries)
        entries.remove_orphans()
        for with_cache in (False, True):
            files = {}
            for path, file in entries.names.items():
                inode = entries.files[file]
                size_bytes = entries.sizes.get(inode.identity, 0)
                durable_bytes = inode.durable_bytes(size_bytes)
                content = inode.content()[:size_bytes].ljust(size_bytes, b"\0") if with_cache else durable_bytes
                files[path] = FileImage(content, 0)
            yield Image(files, tuple(entries.directories - {"/"}))


class Crash:
    """The disk after a power cut at one operation, and the results of earlier calls."""

    def __init__(self, images: list[Image], allowed: set[str | None]) -> None:
        self.images = images
        self.allowed = allowed


def crashes(lab: Make, image: Image, found: str | None, texts: list[str]) -> Iterator[Crash]:
    """Load from an image, then store texts one after another. Yield the crash at each operation."""
    operation = 0
    while True:
        for moment in ("before", "during", "after"):
            bench = lab(image)
            returned: list[str | None] = [found]
            begun: list[str | None] = [found]

            def body(world: World, begun: Any = begun, returned: Any = returned) -> None:
                file = SideFile(world.files, PATH)
                assert file.load(parse) == found
                for text in texts:
                    begun.append(text)
                    file.store(as_file_content(text))
                    returned.append(text)

            bench.disk.crash_at(operation, moment)
            try:
                bench.run(body)
            except MachineDied:
                unique = {cut.digest(): cut for cut in images_after_power_cut(bench.disk._names)}
                yield Crash(list(unique.values()), {returned[-1], begun[-1]})
            else:
                return  # there are fewer operations
        operation += 1


def loaded_from(lab: Make, image: Image) -> str | None:
    value: str | None = lab(image).run(lambda world: SideFile(world.files, PATH).load(parse))
    return value


def test_after_any_power_cut_the_last_stored_side_file_version_or_the_next_is_loaded(lab: Make) -> None:
    second_lives: dict[str, tuple[Image, str | None]] = {}
    for crash in crashes(lab, EMPTY, None, ["one", "two", "three"]):
        for image in crash.images:
            found = loaded_from(lab, image)
            assert found in crash.allowed, image
            second_lives[image.digest()] = image, found
    assert len(second_lives) > 10

    for image, found in second_lives.values():
        for crash in crashes(lab, image, found, ["four", "five"]):
            for left in {left.digest(): left for left in crash.images}.values():
                assert loaded_from(lab, left) in crash.allowed, (image, left)


def test_a_damaged_side_file_never_replaces_the_backup(lab: Make) -> None:
    image = image_of(current=b"<torn", bak=as_file_content("good"))
    for crash in crashes(lab, image, "good", ["next", "after"]):
        for left in crash.images:
            assert loaded_from(lab, left) in crash.allowed


@with_settings(image=EMPTY)
def test_storing_keeps_the_previous_version_and_skips_equal_content(world: World, bench: Any) -> None:
    file = SideFile(world.files, PATH)
    assert file.load(parse) is None
    assert file.store(as_file_content("one"))
    operations = bench.disk.operations
    assert not file.store(as_file_content("one"))
    assert bench.disk.operations == operations
    assert world.files.status(f"{PATH}.bak") is None
    assert file.store(as_file_content("two"))
    assert world.files.read(PATH) == as_file_content("two")
    assert world.files.read(f"{PATH}.bak") == as_file_content("one")
    assert world.files.list_directory("/store/config") == ["x.json", "x.json.bak"]

    again = SideFile(world.files, PATH)
    assert again.load(parse) == "two"
    assert not again.store(as_file_content("two"))


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"current": b""}, None),
        ({"bak": b""}, None),
        ({"current": b"", "bak": as_file_content("old")}, "old"),
        ({"bak": as_file_content("old")}, "old"),
        ({"current": b"torn", "bak": as_file_content("old")}, "old"),
        ({"current": as_file_content("new"), "bak": b"torn"}, "new"),
        ({"current": b"torn"}, None),
        ({"tmp": as_file_content("never")}, None),
        ({"tmp": as_file_content("never"), "current": as_file_content("new")}, "new"),
    ],
)
def test_loading_returns_the_first_readable_version(lab: Make, files: dict[str, bytes], found: str | None) -> None:
    bench = lab(image_of(**files))

    def body(world: World) -> None:
        file = SideFile(world.files, PATH)
        assert file.load(parse) == found
        assert (file.damage is not None) == (files.get("current") == b"torn")
        assert world.files.status(f"{PATH}.tmp") is None

    bench.run(body)


@pytest.mark.parametrize("files", [{"bak": b"torn"}, {"current": b"torn", "bak": b"<torn"}])
def test_an_unreadable_backup_without_a_main_file_is_damage(lab: Make, files: dict[str, bytes]) -> None:
    with pytest.raises(CorruptFileError, match=r"x\.json\.bak @ 0"):
        loaded_from(lab, image_of(**files))


@with_settings(image=image_of(current=as_file_content("much too much"), bak=as_file_content("old")))
def test_a_too_large_side_file_is_refused_before_it_is_read(
    world: World, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornlog.store.side_file.SIDE_JSON_BYTES_MAX", 8)
    file = SideFile(world.files, PATH)
    assert file.load(parse) == "old"
    assert "file size" in str(file.damage)
    assert ("read", PATH) not in bench.failures.calls


@pytest.mark.parametrize("method", ["write", "sync", "rename", "sync_directory", "make_directories"])
@with_settings(image=EMPTY)
def test_after_a_store_error_a_complete_version_remains_and_the_next_attempt_writes(
    world: World, bench: Any, method: str
) -> None:
    file = SideFile(world.files, PATH)
    file.load(parse)
    if method != "make_directories":
        file.store(as_file_content("one"))
    bench.failures.plan(method, "config")
    with pytest.raises(OSError, match="Input/output"):
        file.store(as_file_content("two"))
    found = SideFile(world.files, PATH).load(parse)
    assert found in ({None} if method == "make_directories" else {"one", "two"})
    assert file.store(as_file_content("two"))
    assert SideFile(world.files, PATH).load(parse) == "two"


@with_settings(image=EMPTY)
def test_a_failed_second_rename_leaves_the_old_version_as_backup(world: World, bench: Any) -> None:
    file = SideFile(world.files, PATH)
    file.store(as_file_content("one"))
    bench.failures.plan("rename", ".tmp")
    with pytest.raises(OSError, match="Input/output"):
        file.store(as_file_content("two"))
    assert world.files.list_directory("/store/config") == ["x.json.bak", "x.json.tmp"]
    assert SideFile(world.files, PATH).load(parse) == "one"
    assert file.store(as_file_content("three"))
    assert world.files.read(f"{PATH}.bak") == as_file_content("one")


@with_settings(image=EMPTY)
def test_content_too_large_to_be_loaded_is_not_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_file, "SIDE_JSON_BYTES_MAX", 8)
    file = SideFile(world.files, PATH)
    for text in ("before", "now"):
        assert file.store(as_file_content(text))
    with pytest.raises(OSError, match="expected 8 bytes or less, found 9"):
        file.store(as_file_content("longer!"))
    assert world.files.read(PATH) == as_file_content("now")
    assert world.files.read(file.backup_path) == as_file_content("before")
    assert SideFile(world.files, PATH).load(parse) == "now"
    assert not file.store(as_file_content("now"))
    assert file.store(as_file_content("later"))


def test_a_damaged_side_file_is_renamed_before_a_new_version_replaces_it(world: World) -> None:
    files = world.files
    for number, damaged in enumerate((b"one", b"two")):
        files.make_directories("/store/config")
        files.write(PATH, damaged)
        if number:
            files.unlink(f"{PATH}.bak")
        file = SideFile(files, PATH)
        assert file.load(parse) is None
        assert file.damage is not None
        assert file.store(b"new")
        assert file.store(b"newer")
    assert files.read(PATH) == b"newer"
    assert files.read(f"{PATH}.bak") == b"new"
    assert files.read(f"{PATH}.damaged") == b"one"
    assert files.read(f"{PATH}.damaged.1") == b"two"


def test_after_a_crash_between_the_two_renames_load_still_reports_the_damage(world: World) -> None:
    world.files.make_directories("/store/config")
    world.files.write(f"{PATH}.damaged", b"kept aside")
    file = SideFile(world.files, PATH)
    assert file.load(parse) is None
    assert file.damage is not None
    assert file.damage.file == PATH

import pickle

from tornlog.faults.disk.image import FileImage, Image


def make_image(content: bytes = b"x", mtime_ms: int = 5, directory: str = "/d") -> Image:
    return Image({"/d/b": FileImage(content, mtime_ms), "/a": FileImage(b"", 1)}, (directory,))


def test_the_digest_is_of_names_and_contents_but_not_of_times() -> None:
    image = make_image()

    assert image.digest() == make_image(mtime_ms=6).digest()
    assert image.digest() != make_image(content=b"y").digest()
    assert image.digest() != make_image(directory="/e").digest()
    assert image.digest() != Image({"/d/b": FileImage(b"x", 5)}, ("/d",)).digest()
    assert Image({"/a": FileImage(b"", 0)}, ()).digest() != Image({}, ("/a",)).digest()


def test_files_and_directories_come_sorted() -> None:
    image = Image({"/b": FileImage(b"", 0), "/a": FileImage(b"", 0)}, ("/z", "/y"))

    assert list(image.files) == ["/a", "/b"]
    assert image.directories == ("/y", "/z")


def test_touching_shares_the_content_and_its_digest() -> None:
    file = FileImage(b"content", 1)
    digest = file.digest()
    later = file.touched(2)

    assert file.touched(1) is file
    assert later.content is file.content
    assert later.mtime_ms == 2
    assert later.digest() is digest
    assert later != file
    assert later == FileImage(b"content", 2)
    assert later != b"content"


def test_an_image_travels_to_other_processes() -> None:
    image = make_image()
    copy = pickle.loads(pickle.dumps(image))

    assert copy.digest() == image.digest()
    assert copy.files == image.files

"""What a new machine finds on its disk: an immutable tree of files.

Images share the content objects of files that did not change, so an image costs what differs.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b


class FileImage:
    """One file's content and the wall-clock ms it was last written at. Immutable."""

    __slots__ = ("_digest", "content", "mtime_ms")

    def __init__(self, content: bytes, mtime_ms: int) -> None:
        self.content = content
        self.mtime_ms = mtime_ms
        self._digest: bytes | None = None

    def digest(self) -> bytes:
        """Return the digest of the content, computed once."""
        if self._digest is None:
            self._digest = blake2b(self.content, digest_size=16).digest()
        return self._digest

    def touched(self, mtime_ms: int) -> "FileImage":
        """Return the same content, shared, with another time."""
        if mtime_ms == self.mtime_ms:
            return self
        twin = FileImage(self.content, mtime_ms)
        twin._digest = self._digest
        return twin

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileImage):
            return NotImplemented
        return self.content == other.content and self.mtime_ms == other.mtime_ms

    def __repr__(self) -> str:
        return f"FileImage({len(self.content)} bytes, mtime_ms={self.mtime_ms})"


class Image:
    """Files by absolute path and all directories except `/`. Immutable."""

    __slots__ = ("_digest", "directories", "files")

    def __init__(self, files: Mapping[str, FileImage], directories: tuple[str, ...]) -> None:
        self.files: Mapping[str, FileImage] = dict(sorted(files.items()))
        self.directories = tuple(sorted(directories))
        self._digest: str | None = None

    def digest(self) -> str:
        """Return a digest of names and contents, but not of times: equal digests recover alike."""
        if self._digest is None:
            directories = map(directory_piece, self.directories)
            files = (file_piece(path, file) for path, file in self.files.items())
            self._digest = digest_of_pieces([*directories, *files])
        return self._digest

    def __repr__(self) -> str:
        return f"Image({len(self.files)} files, {len(self.directories)} directories)"


def directory_piece(path: str) -> bytes:
    """Return what a directory gives to the digest of an image."""
    return f"d {path}\0".encode()


def file_piece(path: str, file: FileImage) -> bytes:
    """Return what a file gives to the digest of an image."""
    return f"f {path}\0".encode() + file.digest()


def digest_of_pieces(pieces: Iterable[bytes]) -> str:
    """Return the digest of an image: of the pieces of its directories, then of those of its files, all by path."""
    return blake2b(b"".join(pieces), digest_size=16).hexdigest()
